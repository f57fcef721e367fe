"""The group experiment: a queue of message groups, and consumers that work by themselves or on command.

:class:`GroupTable` is the queue with its clients. :func:`group_run` runs it and returns the picture; its
consumers perform given actions, work at a pace of their own, or all accept in turn. The lab is in
:mod:`qflow.labs.hand_lab`.

The picture is a *conveyor*: the queue as one line, with its head in front, and what its consumers examine.
The frames of a run contain the place of each message. Everything else on a conveyor is derived from the
events: each *look* of a consumer, which passes over a message, takes one, or finds none; a sentence for every
frame; and the *race*, the number of shopping carts from which an item was removed before it was added.

A message is named by its group and its number in the group. In the story of the shopping carts a message with
an odd number adds an item and the next one removes it: ``A-3`` adds the second item of cart A, and ``A-4``
removes it.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from qflow.broker.broker import Broker
from qflow.broker.consuming import (
    BYTE_UNIT,
    CREDIT_MODE,
    INFINITE,
    MESSAGE_UNIT,
    WINDOW_MODE,
    DeliveryRecord,
)
from qflow.broker.events import Event
from qflow.broker.message import Message
from qflow.broker.options import BrokerOptions
from qflow.broker.session import Session
from qflow.labs.fold import REASONS
from qflow.labs.frames import Frames, Spans
from qflow.labs.picture import Narration, Picture, picture_of
from qflow.labs.topology import Topology
from qflow.labs.words import in_turn
from qflow.wording import format_count
from qflow.workload import Consumer, Producer, Run, Workload

QUEUE = "carts"
_SHOP = "shop"
PAUSE = 100_000
"""Microseconds between two actions, so that no two actions happen at the same time."""

_MODES = {"window": WINDOW_MODE, "credit": CREDIT_MODE}
VERDICTS = ("accept", "release", "reject")
_NAME = re.compile(r"[A-Za-z0-9]{1,8}")


class GroupTable:
    """A queue, a producer (the shop), and consumers that act on command or at their own pace."""

    def __init__(
        self,
        messages: str = "AABACBBCAD",
        prefetch: Sequence[int] = (2, 2, 2),
        *,
        stop: int = 0,
        wake_up: str = "faithful",
        grouped: bool = True,
        paces: Sequence[float] = (),
        mode: str = "window",
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
        self.options = BrokerOptions(wake_up=wake_up)
        self._mode = _MODES[mode]
        self.broker = Broker(self.options)
        self.grouped = grouped
        # The actions since the consumers subscribed, as `play` can repeat them: ``("send", group, time)`` or
        # ``(verdict, message, consumer, time)``.
        self.moves: list[tuple[Any, ...]] = []
        self._events: list[Event] = []
        self._prefetch, self._paces = tuple(prefetch), tuple(paces)
        self._held: dict[str, dict[int, DeliveryRecord]] = {}
        # By consumer: the time of receipt of each message that it holds, and the time of its last settlement.
        # They are kept here, as the engine does not know how long a consumer works; it only sees the accept.
        self._got: dict[str, dict[int, int]] = {}
        self._free: dict[str, int] = {}
        self._sent: Counter[str] = Counter()
        self.arguments = {
            **({"qpid.group_header_key": "group", "qpid.shared_msg_group": 1} if grouped else {}),
            "qpid.flow_stop_count": stop,
            **({} if stop else {"qpid.flow_stop_size": 0}),
        }
        # Observe before anything is sent: a picture needs the events from the first one on.
        self.broker.observe(self._events.append)
        self._shop = self.broker.session(_SHOP)
        self._shop.queue_declare(QUEUE, self.arguments)
        for group in messages:
            self.send(group)
        self._consumers = {f"c{n}": self._join(f"c{n}", credit) for n, credit in enumerate(prefetch, 1)}
        self.moves.clear()

    @property
    def works(self) -> bool:
        """Whether the consumers work at their own pace, without commands."""
        return bool(self._paces)

    @property
    def consumers(self) -> tuple[str, ...]:
        """The names of all consumers, including those that have left."""
        return tuple(self._held)

    @property
    def present(self) -> tuple[str, ...]:
        """The names of the consumers that are still connected."""
        return tuple(self._consumers)

    def _join(self, name: str, credit: int) -> Session:
        self._pause()
        session = self.broker.session(name)
        held = self._held[name] = {}
        got = self._got[name] = {}
        self._free[name] = self.broker.now

        def receive(record: DeliveryRecord) -> None:
            held[record.id], got[record.id] = record, self.broker.now

        session.consuming.on_delivery = receive
        session.message_subscribe(QUEUE, name)
        if self._mode != WINDOW_MODE:
            session.message_set_flow_mode(name, self._mode)
        session.message_flow(name, BYTE_UNIT, INFINITE)
        session.message_flow(name, MESSAGE_UNIT, credit)
        return session

    def _pause(self) -> None:
        self.broker.advance(self.broker.now + PAUSE)

    def send(self, group: str) -> None:
        """Send one more message of a group; raise ValueError for an invalid name of a group."""
        if not _NAME.fullmatch(group):
            raise ValueError(f"a group's name must have one to eight letters or digits; got {group!r}")
        self._pause()
        label = f"{group}-{self._sent[group] + 1}"
        message = Message(100, routing_key=QUEUE, headers={"group": group}, label=label)
        self._shop.message_transfer(message, sync=True)
        self._sent[group] += 1
        self.moves.append(("send", group, self.broker.now))

    def settle(self, consumer: str, verdict: str, label: str = "") -> None:
        """Let a consumer accept, release or reject a message that it holds, by default the oldest one."""
        record = self._find(consumer, verdict, label)
        self._pause()
        self._settle(consumer, verdict, record)
        self.moves.append((verdict, record.label, consumer, self.broker.now))

    def _settle(self, consumer: str, verdict: str, record: DeliveryRecord) -> None:
        del self._held[consumer][record.id]
        self._free[consumer] = self.broker.now
        session = self._consumers[consumer]
        getattr(session, f"message_{verdict}")((record.id,))
        # In window mode an accept alone restores no credit: the broker does that when the consumer reports
        # the transfer as complete.
        session.session_completed((record.id,))

    def leave(self, consumer: str) -> None:
        """Disconnect a consumer, so that the messages that it holds return to the queue."""
        self._pause()
        self._held[consumer].clear()
        self._consumers.pop(consumer).close()

    def purge(self) -> None:
        """Remove every message that no consumer holds."""
        self._pause()
        self._shop.queue_purge(QUEUE)

    def work(self, until: int | None = None) -> None:
        """Let the consumers accept their messages at their paces, until a time or until all are idle."""
        while self._paces:
            due = [
                (max(self._got[name][first], self._free[name]) + round(1e6 * pace), name)
                for name, pace in zip(self._held, self._paces, strict=True)
                if (first := next(iter(self._held[name]), None)) is not None
            ]
            if not due or (until is not None and min(due)[0] > until):
                break
            time, name = min(due)
            self.broker.advance(max(time, self.broker.now))
            self._settle(name, "accept", next(iter(self._held[name].values())))
        if until is not None:
            self.broker.advance(max(until, self.broker.now))

    def play(self, moves: Iterable[Sequence[Any]]) -> None:
        """Repeat the `moves` of another table; a move without a time is made at once."""
        for what, *names in moves:
            if isinstance(names[-1], int):
                # Consumers work until the move began, which was one pause before the recorded time.
                self.work(names.pop() - PAUSE)
            if what == "send":
                self.send(*names)
            else:
                label, consumer = names
                self.settle(consumer, what, label)

    def _find(self, consumer: str, verdict: str, label: str) -> DeliveryRecord:
        if consumer not in self._held:
            raise ValueError(f"there is no consumer {consumer!r}; there are {', '.join(self._held)}")
        if verdict not in VERDICTS:
            raise ValueError(f"a consumer can {', '.join(VERDICTS)}; got {verdict!r}")
        held = self._held[consumer]
        wanted = [record for record in held.values() if label in ("", record.label)]
        if not wanted:
            text = f"{consumer} holds {', '.join(self.holds(consumer)) or 'nothing'}"
            raise ValueError(f"{text}; it cannot {verdict} {label or 'anything'}")
        return wanted[0]

    def holds(self, consumer: str) -> list[str]:
        """Return the labels of the messages that a consumer holds, in the order of receipt."""
        return [record.label for record in self._held[consumer].values()]

    def has_credit(self, consumer: str) -> bool:
        """Return whether a connected consumer has credit for another message (RF-07)."""
        return self._consumers[consumer].consuming.subscriptions[consumer].credit.exists()

    def owners(self) -> dict[str, str]:
        """Return the name of the consumer that owns each owned group, keyed by group (MG-07)."""
        groups = self.broker.queue(QUEUE).groups
        states = groups.groups.values() if groups is not None else ()
        return {state.name: state.owner.partition("::")[0] for state in states if state.owner}

    def picture(self) -> Picture:
        """Return the picture of all events until now."""
        senders = (
            # The conveyor has a row for each cart, so each group is a producer; one session sends for all.
            Producer(group, ("", QUEUE), rate=1, capacity=number, size=100, session=_SHOP)
            for group, number in sorted(self._sent.items())
        )
        paces = self._paces or [1.0] * len(self._prefetch)
        workload = Workload(
            "groups by hand",
            duration=3_600,
            queues={QUEUE: self.arguments},
            producers=tuple(senders),
            consumers=tuple(
                Consumer(f"c{n}", QUEUE, prefetch=credit, service=("const", float(pace)))
                for n, (credit, pace) in enumerate(zip(self._prefetch, paces, strict=True), 1)
            ),
            options=self.options,
        )
        run = Run(workload, list(self._events), self.broker.now)
        topology = Topology.of(workload, run.end)
        by_hand = ["you answer for it"] * len(self._prefetch)
        notes = [f"{pace:g} s for each" for pace in self._paces] or by_hand
        spots = zip(topology.consumers, notes, strict=True)
        consumers = tuple(replace(spot, note=note) for spot, note in spots)
        return picture_of(run, topology=replace(topology, consumers=consumers))


def group_run(
    *,
    messages: str = "AABACBBCAD",
    prefetch: Sequence[int] = (1, 2, 3),
    actions: Sequence[tuple[str, str] | tuple[str, str, str]] | None = None,
    wake_up: str = "faithful",
    grouped: bool = True,
    paces: Sequence[float] = (),
) -> Picture:
    """Let consumers work on a queue with message groups, and return the picture.

    Parameters:
        messages: A letter for each message, which is its group. The messages are sent before the consumers
            subscribe, and are named by their group and their number in it: ``A-1``, ``A-2``.
        prefetch: For each consumer, the most messages that it may hold.
        actions: The actions of the consumers: (consumer, "accept" or "release" or "reject"), with the name of
            a message as a third item unless it is the oldest that the consumer holds. With None, consumers
            work at their `paces`, or accept in turn, until none of them holds a message.
        wake_up: Whether freeing a group wakes idle consumers; ``faithful`` as in the real broker (MG-13).
        grouped: Whether the queue has message groups; if not, any consumer may get any message.
        paces: For each consumer, the seconds that it works on a message before it accepts it.

    Returns:
        The picture of the run, drawn as a conveyor.

    Raises:
        ValueError: If an action is not possible.

    >>> for claim in group_run(messages="AAB", prefetch=(1, 1)).claims[:3]:
    ...     print(claim)
    Group A was owned by c1 (twice).
    Group B was owned by c2.
    Every group was accepted in the order in which it was sent.
    """
    table = GroupTable(messages, prefetch, wake_up=wake_up, grouped=grouped, paces=paces)
    if actions is None and paces:
        table.work()
    elif actions is None:
        while any(map(table.holds, table.consumers)):
            for consumer in filter(table.holds, table.consumers):
                table.settle(consumer, "accept")
    else:
        for action in actions:
            table.settle(*action)
    return group_picture(table)


def group_picture(table: GroupTable, **settings: Any) -> Picture:
    """Return a table's picture as a conveyor, with claims about its groups and carts; see `conveyor_of`."""
    picture = conveyor_of(table.picture(), grouped=table.grouped, works=table.works, **settings)
    claims = (*_claim_owners(picture), *_order(picture), *_claim_race(picture), *_idle(table))
    return replace(picture, claims=claims)


def _claim_race(picture: Picture) -> list[str]:
    wrong, of = len(picture.drawing["carts"]), picture.drawing["of"]
    noun = "cart" if of == 1 else "carts"
    return [f"An item was removed before it was added in {wrong} of {of} {noun}."] if of else []


def _claim_owners(picture: Picture) -> list[str]:
    frames = picture.frames
    if not picture.drawing["grouped"]:
        return ["The queue has no groups: every consumer may have every message."]
    owners: dict[str, list[str]] = {group: [] for group in sorted(frames.groups)}
    for lock in frames.lasting["locks"]:
        owners[frames.groups[lock["group"] - 1]].append(frames.topology.consumers[lock["consumer"] - 1].name)
    return [
        f"Group {group} was owned by {', then '.join(in_turn(names)) or 'no consumer'}."
        for group, names in owners.items()
    ]


def _order(picture: Picture) -> list[str]:
    broken = groups_out_of_order(picture)
    if broken:
        rule = " (MG-18)" if picture.drawing["grouped"] else ""
        return [f"Accepted in another order than sent: group {', '.join(broken)}{rule}."]
    # A run without an accepted message shows no order.
    is_any = any(reason == ACCEPTED for reason in picture.frames.lasting["stays"].column("reason"))
    return ["Every group was accepted in the order in which it was sent."] if is_any else []


def groups_out_of_order(picture: Picture) -> list[str]:
    """Return the groups of which a message was accepted while an earlier one was still on the queue."""
    # The earlier message need not be accepted later: if it was released and waits for the next owner, the
    # pair is out of order as well. A message that was rejected or expired before the accept does not count.
    frames = picture.frames
    broken: set[int] = set()
    # For each group, the frame in which the last of the messages examined so far leaves the queue.
    leaves: dict[int, int] = {}
    for stay in frames.lasting["stays"]:
        group, end = stay["group"], stay["end"]
        if stay["reason"] == ACCEPTED and end < leaves.get(group, 0):
            broken.add(group)
        leaves[group] = max(end, leaves.get(group, 0))
    return sorted(frames.groups[group - 1] for group in broken)


def _idle(table: GroupTable) -> list[str]:
    queue = table.broker.queue(QUEUE)
    if queue.groups is None:
        return []
    held = {label for name in table.consumers for label in table.holds(name)}
    free = sorted({m.group for m in queue.store if m.transfer.label not in held} - set(table.owners()))
    idle = [name for name in table.present if not table.holds(name) and table.has_credit(name)]
    if free and idle:
        who, what = ", ".join(idle), ", ".join(free)
        return [f"{who} waits with free credit although group {what} is free: nothing has woken it (MG-13)."]
    return []


# The conveyor

ACCEPTED = REASONS.index("accept")

_LOOKS = ("consumer", "stay", "kind", "start", "end")
"""The columns of a look: the consumer, from 1; the row of the message's stay, or -1; the outcome; frames."""

PASSED, TAKEN, NOTHING = range(3)


class _Line(Narration):
    """The narration of a conveyor: the looks of the consumers at one queue, and a sentence for each event."""

    def __init__(self, frames: Frames) -> None:
        super().__init__(frames)
        # A consumer's number, from 1, and its name, by its link.
        self._readers = {spot.link: (at, spot.name) for at, spot in enumerate(frames.topology.consumers, 1)}
        self._stays = 0
        # For the message at each position: the row of its stay, its label and group; the link that holds it.
        self._line: dict[int, tuple[int, str, str]] = {}
        self._holder: dict[int, str] = {}
        self._cursor: dict[str, int] = defaultdict(int)
        self._owned: set[str] = set()
        self._bad: set[str] = set()
        self.groups: set[str] = set()
        self.looks: list[int] = []
        # For each message that removes an item not yet added: the frame of its accept, the row of its stay.
        self.wrong: list[tuple[int, int]] = []
        # For each cart that becomes wrong: the frame, and the number of wrong carts from then on.
        self.carts: list[tuple[int, int]] = []

    def receive(self, event: Event) -> None:
        """Record the effect of one event on the conveyor, if it has any."""
        handler = getattr(self, f"_on_{event.kind.rpartition('.')[2]}", None)
        if handler is not None:
            handler(event, event.detail or {})

    def _on_subscribe(self, event: Event, detail: Any) -> None:
        if event.kind == "message.subscribe":
            self.note(f"{event.session} subscribes to {event.queue}.")

    def _on_enqueued(self, event: Event, detail: Any) -> None:
        position = detail["position"]
        self._line[position] = self._stays, event.message, event.group
        self.groups.add(event.message.rpartition("-")[0])
        self._stays += 1
        self.note(f"{event.message} comes to {event.queue}.")

    def _on_group_owned(self, event: Event, detail: Any) -> None:
        self._owned.add(event.group)

    def _on_group_freed(self, event: Event, detail: Any) -> None:
        waits = any(group == event.group for _, _, group in self._line.values())
        self.note(f"The lock of {event.group} opens{': it is free' * waits}.", is_turn=True)
        # If more messages of the group wait, every consumer starts again at the head of the queue (MG-11).
        if waits:
            self._cursor.clear()

    def _on_acquired(self, event: Event, detail: Any) -> None:
        if event.link not in self._readers:
            return
        position = detail["position"]
        row, label, group = self._line[position]
        said = self._pass_over(event.link, position)
        self._look(event.link, row, TAKEN)
        self._cursor[event.link], self._holder[position] = position, event.link
        is_first = group in self._owned
        self._owned.discard(group)
        now = f": group {group} is {self._readers[event.link][1]}'s" if is_first else ""
        self.note(f"{said} takes {label}{now}.", is_turn=is_first)

    def _on_idle(self, event: Event, detail: Any) -> None:
        if event.link in self._readers:
            # A consumer that found nothing has examined all messages up to the end of the queue.
            last = max(self._line, default=0)
            said = self._pass_over(event.link, last + 1)
            self._look(event.link, -1, NOTHING)
            self._cursor[event.link] = last
            self.note(f"{said} finds nothing to take.")

    def _on_dequeued(self, event: Event, detail: Any) -> None:
        row, label, _ = self._line.pop(detail["position"])
        link, reason = self._holder.pop(detail["position"], ""), detail["reason"]
        if reason not in ("accept", "reject") or not link:
            self.note(f"{label} leaves {event.queue}: {reason}.")
            return
        self.note(f"{self._readers[link][1]} {reason}s {label}.")
        if reason == "accept":
            self._race(row, label)

    def _race(self, row: int, label: str) -> None:
        cart, _, number = label.rpartition("-")
        add = f"{cart}-{int(number) - 1}"
        # Odd numbers add an item, even ones remove it. The cart becomes wrong only if the adding message is
        # still on the queue.
        if int(number) % 2 or add not in {label for _, label, _ in self._line.values()}:
            return
        self.note(f"{label} removes what {add} has not added yet: cart {cart} is wrong.", is_turn=True)
        self.wrong.append((self.frame, row))
        if cart not in self._bad:
            self._bad.add(cart)
            self.carts.append((self.frame, len(self._bad)))

    def _on_requeued(self, event: Event, detail: Any) -> None:
        position = detail["position"]
        _, who = self._readers.get(self._holder.pop(position, ""), (0, "The broker"))
        self.note(f"{who} releases {event.message}.", is_turn=True)
        for reader in self._cursor:
            # A returned message keeps its position, so every cursor behind that position moves back to it.
            self._cursor[reader] = min(self._cursor[reader], position - 1)

    def _pass_over(self, link: str, until: int) -> str:
        """Record a look at each message that a consumer passes over; return the beginning of a sentence."""
        between = [at for at in sorted(self._line) if self._cursor[link] < at < until]
        waiting = [at for at in between if at not in self._holder]
        for at in waiting:
            self._look(link, self._line[at][0], PASSED)
        over = f" passes over {format_count(len(waiting), 'message')} of others, and" if waiting else ""
        return f"{self._readers[link][1]}{over}"

    def _look(self, link: str, row: int, kind: int) -> None:
        self.looks += [self._readers[link][0], row, kind, self.frame, self.frame + 1]


def conveyor_of(picture: Picture, **settings: Any) -> Picture:
    """Return the picture of a run with one queue, drawn as a conveyor; add `settings` to the drawing."""
    frames = picture.frames
    line = _Line(frames)
    line.follow(picture.run.events)
    looks = Spans(_LOOKS, [array("i", line.looks[column :: len(_LOOKS)]) for column in range(len(_LOOKS))])
    race = {"wrong": line.wrong, "carts": line.carts, "of": len(line.groups), "tried": -1}
    return replace(
        picture,
        frames=replace(frames, lasting={**frames.lasting, "looks": looks}),
        drawing={**line.drawing("conveyor"), **race, **settings},
    )
