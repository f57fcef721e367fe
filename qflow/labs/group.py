"""The group experiment: a queue of message groups, and consumers that accept, release and reject by hand.

:class:`GroupTable` is the queue with its clients; :func:`group_run` plays it, by given actions or with all
consumers accepting in turn, and returns the picture. :mod:`qflow.labs.group_widget` is the lab.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from qflow.broker.broker import Broker
from qflow.broker.consuming import BYTE_UNIT, INFINITE, MESSAGE_UNIT, DeliveryRecord
from qflow.broker.events import Event
from qflow.broker.message import Message
from qflow.broker.options import BrokerOptions
from qflow.broker.session import Session
from qflow.labs.claims import times
from qflow.labs.picture import Picture, picture_of
from qflow.labs.topology import Topology
from qflow.workload import Consumer, Producer, Run, Workload

QUEUE = "orders"
PAUSE = 100_000
"""Microseconds between two actions, so that each has an instant of its own."""

VERDICTS = ("accept", "release", "reject")


class GroupTable:
    """One queue with groups, one producer, and consumers that do only what is asked of them.

    Parameters
    ----------
    messages
        One letter a message: its group. They are sent before the consumers come.
    prefetch
        For each consumer, the most messages it may hold.
    stop
        ``qpid.flow_stop_count``; 0 for no threshold.
    wake_up
        Whether freeing a group wakes idle consumers; ``faithful`` as in the real broker (MG-13).

    Attributes
    ----------
    broker
        The engine.
    done
        What was done so far, in sentences.
    moves
        What was done since the consumers came, for :meth:`play`: ``("send", group)`` or
        ``(verdict, message, consumer)``.

    Raises
    ------
    AmqpException
        The broker's own refusal of the queue.

    Examples
    --------
    >>> table = GroupTable("AAB", prefetch=(1, 1))
    >>> table.holds("c1"), table.holds("c2"), table.owners()
    (['p1-1'], ['p1-3'], {'A': 'c1', 'B': 'c2'})
    >>> table.settle("c1", "accept"); table.holds("c1")
    ['p1-2']
    """

    def __init__(
        self,
        messages: str = "AABACBBCAD",
        prefetch: Sequence[int] = (2, 2, 2),
        *,
        stop: int = 0,
        wake_up: str = "faithful",
    ) -> None:
        self.options = BrokerOptions(wake_up=wake_up)
        self.broker = Broker(self.options)
        self.done: list[str] = []
        self.moves: list[tuple[str, ...]] = []
        self._events: list[Event] = []
        self._prefetch = tuple(prefetch)
        self._held: dict[str, dict[int, DeliveryRecord]] = {}
        self._sent = 0
        self.arguments = {
            "qpid.group_header_key": "group",
            "qpid.shared_msg_group": 1,
            "qpid.flow_stop_count": stop,
            **({} if stop else {"qpid.flow_stop_size": 0}),
        }
        self.broker.observe(self._events.append)
        self._producer = self.broker.session("p1")
        self._producer.queue_declare(QUEUE, self.arguments)
        for group in messages:
            self.send(group)
        self._consumers = {f"c{n}": self._join(f"c{n}", credit) for n, credit in enumerate(prefetch, 1)}
        self.moves = []

    @property
    def consumers(self) -> tuple[str, ...]:
        """The consumers' names."""
        return tuple(self._held)

    def _join(self, name: str, credit: int) -> Session:
        self._pause()
        session = self.broker.session(name)
        held = self._held[name] = {}
        session.consuming.on_delivery = lambda record: held.update({record.id: record})
        session.message_subscribe(QUEUE, name)
        session.message_flow(name, BYTE_UNIT, INFINITE)
        session.message_flow(name, MESSAGE_UNIT, credit)
        return session

    def _pause(self) -> None:
        self.broker.advance(self.broker.now + PAUSE)

    def send(self, group: str) -> None:
        """Send one more message of a group; AmqpException if the queue refuses it."""
        self._pause()
        self._sent += 1
        message = Message(100, routing_key=QUEUE, headers={"group": group}, label=f"p1-{self._sent}")
        self._producer.message_transfer(message, sync=True)
        self.moves.append(("send", group))
        self.done.append(f"p1 sends {message.label} of group {group}.")

    def settle(self, consumer: str, verdict: str, label: str = "") -> None:
        """Let a consumer accept, release or reject a message.

        `verdict` is one of :data:`VERDICTS`; `label` is that of the message, or "" for the one that the
        consumer has held longest.

        Raises
        ------
        ValueError
            If there is no such consumer or verdict, or it does not hold that message.

        Examples
        --------
        >>> table = GroupTable("AB", prefetch=(2,)); table.settle("c1", "accept", "p1-2")
        >>> table.holds("c1"), table.done[-1]
        (['p1-1'], 'c1 accepts p1-2.')
        """
        record = self._find(consumer, verdict, label)
        self._pause()
        del self._held[consumer][record.id]
        session = self._consumers[consumer]
        if verdict == "accept":
            session.message_accept((record.id,))
        elif verdict == "release":
            session.message_release((record.id,))
        else:
            session.message_reject((record.id,))
        session.session_completed((record.id,))
        self.moves.append((verdict, record.label, consumer))
        self.done.append(f"{consumer} {verdict}s {record.label}.")

    def play(self, moves: Iterable[Sequence[str]]) -> None:
        """Do again what was done at another table, given its ``moves``.

        Errors are those of :meth:`send` and :meth:`settle`.

        Examples
        --------
        >>> table = GroupTable("AB", prefetch=(1,)); table.play([("accept", "p1-1", "c1"), ("send", "C")])
        >>> table.holds("c1"), table.done[-1]
        (['p1-2'], 'p1 sends p1-3 of group C.')
        """
        for what, *names in moves:
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
        """Return the messages that a consumer holds, in the order in which it received them."""
        return [record.label for record in self._held[consumer].values()]

    def owners(self) -> dict[str, str]:
        """Return each group that is owned, and the consumer that owns it (MG-07)."""
        groups = self.broker.queue(QUEUE).groups
        states = groups.groups.values() if groups is not None else ()
        return {state.name: state.owner.partition("::")[0] for state in states if state.owner}

    def picture(self) -> Picture:
        """Return the picture of everything so far; its last frame is now."""
        workload = Workload(
            "groups by hand",
            duration=3_600,
            queues={QUEUE: self.arguments},
            producers=(Producer("p1", ("", QUEUE), rate=1, capacity=max(self._sent, 1), size=100),),
            consumers=tuple(
                Consumer(f"c{n}", QUEUE, prefetch=credit, service=("const", 1.0))
                for n, credit in enumerate(self._prefetch, 1)
            ),
            options=self.options,
        )
        run = Run(workload, list(self._events), self.broker.now)
        topology = Topology.of(workload, run.end)
        producers = tuple(replace(spot, note="sends when asked to") for spot in topology.producers)
        consumers = tuple(replace(spot, note="does what you tell it") for spot in topology.consumers)
        return picture_of(run, topology=replace(topology, producers=producers, consumers=consumers))


def group_run(
    *,
    messages: str = "AABACBBCAD",
    prefetch: Sequence[int] = (1, 2, 3),
    actions: Sequence[tuple[str, str] | tuple[str, str, str]] | None = None,
    wake_up: str = "faithful",
) -> Picture:
    """Play the consumers of a queue with message groups, and return the picture.

    Parameters
    ----------
    messages
        One letter a message: its group.
    prefetch
        For each consumer, the most messages it may hold.
    actions
        What the consumers do: (consumer, "accept" or "release" or "reject"), and which message if it is
        not the oldest it holds. None lets each in turn accept until none holds any.
    wake_up
        As in :class:`~qflow.labs.group.GroupTable`.

    Returns
    -------
    Picture
        Its first claims say who owned which group, and whether a group's messages kept their order.

    Raises
    ------
    ValueError
        If an action cannot be done.

    Examples
    --------
    >>> for claim in group_run(messages="AAB", prefetch=(1, 1)).claims[:3]:
    ...     print(claim)
    Group A was owned by c1 (twice).
    Group B was owned by c2.
    Every group was accepted in the order in which it was sent.
    """
    table = GroupTable(messages, prefetch, wake_up=wake_up)
    if actions is None:
        work_in_turn(table)
    else:
        for action in actions:
            table.settle(*action)
    return group_picture(table)


def work_in_turn(table: GroupTable) -> None:
    """Let each consumer in turn accept its oldest message, until none holds any."""
    while any(map(table.holds, table.consumers)):
        for consumer in table.consumers:
            if table.holds(consumer):
                table.settle(consumer, "accept")


def group_picture(table: GroupTable) -> Picture:
    """Return a table's picture, with claims about its groups first."""
    picture = table.picture()
    return replace(picture, claims=(*_owned(picture), *_order(picture), *_idle(table), *picture.claims))


def _owned(picture: Picture) -> list[str]:
    frames = picture.frames
    owners: dict[str, list[str]] = {group: [] for group in sorted(frames.groups)}
    locks = frames.lasting["locks"]
    for index in range(len(locks)):
        lock = locks.row(index)
        owners[frames.groups[lock["group"] - 1]].append(frames.topology.consumers[lock["consumer"] - 1].name)
    return [f"Group {group} was owned by {_in_turn(names)}." for group, names in owners.items()]


def _in_turn(names: list[str]) -> str:
    """Return names one after the other: ``c1 (twice), then c2``."""
    turns = [(name, len(list(same))) for name, same in groupby(names)]
    said = [name if number == 1 else f"{name} ({times(number)})" for name, number in turns]
    return ", then ".join(said) or "nobody"


def _order(picture: Picture) -> list[str]:
    frames = picture.frames
    stays = frames.lasting["stays"]
    left: dict[int, list[tuple[int, int]]] = {}
    for index in range(len(stays)):
        stay = stays.row(index)
        if stay["reason"] == 1:
            left.setdefault(stay["group"], []).append((stay["end"], stay["number"]))
    broken = sorted(
        frames.groups[group - 1]
        for group, ends in left.items()
        if [number for _, number in sorted(ends)] != sorted(number for _, number in ends)
    )
    if broken:
        return [f"Accepted in another order than sent: group {', '.join(broken)} (MG-18)."]
    return ["Every group was accepted in the order in which it was sent."] if left else []


def _idle(table: GroupTable) -> list[str]:
    queue = table.broker.queue(QUEUE)
    owners = table.owners()
    held = {label for name in table.consumers for label in table.holds(name)}
    free = sorted({m.group for m in queue.store if m.transfer.label not in held} - set(owners))
    idle = [name for name in table.consumers if not table.holds(name)]
    if free and idle:
        who, what = ", ".join(idle), ", ".join(free)
        return [f"{who} waits with free credit although group {what} is free: nothing woke it (MG-13)."]
    return []
