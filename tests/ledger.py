"""Ledger: the books of a run, kept from its events by the rules and nothing else, and what always holds.

A ledger sees the events of a broker and keeps what the rules say should be: each copy of a message and its
consumer, when a queue turns ON and OFF, which transfers it holds, how much credit a subscription has left.
:meth:`Ledger.check` compares that with what the broker shows.  It asserts

* conservation: what was enqueued was dequeued or is on a queue, over all queues there were (CF-10);
* hysteresis: ON above stop, OFF below resume, and held is exactly what came while ON (FC-14 to FC-19);
* one completion a transfer; incomplete are the held ones, and the syncs and commits behind one (CM);
* one owner a group, who has every acquired member (MG-06 to MG-08);
* capacity: no queue above its limit, no subscription beyond its credit (LP-02, CN-05).

Property tests and the fuzzer (:mod:`fuzz`) both lead brokers under these eyes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from qflow.broker import INFINITE, Broker, Event, Session
from qflow.broker.flow_limit import QueueFlowLimit

GROUP = "g"
"""The application header that groups messages, and that last value queues look at."""

Levels = tuple[int, int, int, int]
"""Stop and resume in messages, stop and resume in bytes; 0 for none."""

_GROUPED = {"qpid.group_header_key": GROUP, "qpid.shared_msg_group": 1}
_RING = {"qpid.policy_type": "ring"}


def _flow(stop: int = 0, resume: int = 0, stop_size: int = 0, resume_size: int = 0) -> dict[str, Any]:
    given = {"stop_count": stop, "resume_count": resume, "stop_size": stop_size, "resume_size": resume_size}
    return {f"qpid.flow_{name}": value for name, value in given.items() if value}


KINDS: dict[str, tuple[dict[str, Any], Levels | None]] = {
    "plain": ({}, None),
    "count": (_flow(2, 1), (2, 1, 0, 0)),
    "equal": (_flow(3, 3), (3, 3, 0, 0)),
    "bytes": (_flow(0, 0, 300, 200), (0, 0, 300, 200)),
    "both": (_flow(3, 2, 400, 300), (3, 2, 400, 300)),
    "residue": ({"qpid.flow_stop_count": 0, **_flow(0, 2, 250, 250)}, (0, 2, 250, 250)),
    "limited": ({"qpid.max_count": 4}, (3, 2, 0, 0)),
    "ring": ({**_RING, "qpid.max_count": 3}, None),
    "ring of bytes": ({**_RING, "qpid.max_size": 350}, None),
    "last value": ({"qpid.last_value_queue_key": GROUP, **_flow(1)}, (1, 1, 0, 0)),
    "last value ring": ({"qpid.last_value_queue_key": GROUP, **_RING, "qpid.max_count": 2}, None),
    "priority": ({"qpid.priorities": 3, **_flow(2)}, (2, 2, 0, 0)),
    "fair": ({"qpid.priorities": 3, "qpid.fairshare": 2}, None),
    "priority ring": ({"qpid.priorities": 3, **_RING, "qpid.max_count": 3}, None),
    "groups": ({**_GROUPED, **_flow(3, 2)}, (3, 2, 0, 0)),
    "groups ring": ({**_GROUPED, **_RING, "qpid.max_count": 3}, None),
    "self-destruct": ({"qpid.policy_type": "self-destruct", "qpid.max_count": 4}, (3, 2, 0, 0)),
    "browse only": ({"qpid.browse-only": 1}, None),
    "passing": ({"qpid.auto_delete_timeout": 1, **_flow(1)}, (1, 1, 0, 0)),
    "until empty": ({"qpid.lifetime-policy": "delete-if-unused-and-empty"}, None),
}
"""Kinds of queues: what they are declared with, and at which levels their flow control works, if it does.

The levels are those of a broker with ``default_queue_limit=0``."""


class BrokenRuleError(AssertionError):
    """A broker does not show what the rules say."""


def holds(condition: object, rule: str) -> None:
    """Raise :class:`BrokenRuleError` unless a condition holds."""
    if not condition:
        raise BrokenRuleError(rule)


def same(rule: str, shown: object, booked: object) -> None:
    """Raise :class:`BrokenRuleError` unless a broker shows what the books have."""
    if shown != booked:
        raise BrokenRuleError(f"{rule}: the broker shows {shown!r}, the books have {booked!r}")


@dataclass
class Copy:
    """One message on one queue; its owner is None while it is available.

    Acquired by name, of a subscription without one, it is owned by "", which is no owner to its group.
    """

    label: str
    size: int
    group: str
    owner: str | None = None


@dataclass
class Page:
    """What the ledger knows of one queue, from its declaration on."""

    levels: Levels | None
    copies: dict[int, Copy] = field(default_factory=dict)
    size: int = 0
    last_position: int = 0
    enqueued: int = 0
    dequeued: int = 0
    is_on: bool = False
    stops: int = 0
    holds: dict[int, str] = field(default_factory=dict)


Life = tuple[str, int]
"""A session's name, and which of the sessions of that name."""


@dataclass
class Sent:
    """One transfer: whose it is, and which copies hold it."""

    label: str
    session: Life
    number: int
    in_transaction: bool
    is_routing: bool = True
    is_done: bool = False
    completions: int = 0
    holders: set[tuple[str, int]] = field(default_factory=set)


@dataclass
class Credit:
    """A subscription's credit in credit mode: messages and bytes, None for unlimited."""

    balance: list[int | None] = field(default_factory=lambda: [0, 0])
    is_flushed: bool = False

    def end_flush(self) -> None:
        """Take what is left away, once a flush has delivered what it can."""
        if self.is_flushed:
            self.balance, self.is_flushed = [0, 0], False


class Ledger:
    """Keeps the books of one broker's run.

    Parameters:
        levels_of: Called with a queue's name when it is declared; returns the levels of its flow control, or
            None.
        follows_flow: Whether to check flow control and completions: the alternatives of QPID-2935 have rules
            of their own.

    >>> from qflow.broker import Message
    >>> broker, ledger = Broker(), Ledger(lambda queue: (1, 1, 0, 0))
    >>> broker.observe(ledger.take)
    >>> session = broker.session("p")
    >>> session.queue_declare("q", {"qpid.flow_stop_count": 1})
    >>> for number in range(2):
    ...     transfer = session.message_transfer(Message(1, routing_key="q"))
    ...     ledger.end_command()
    >>> ledger.check(broker)
    >>> ledger.pages["q"].is_on
    True
    """

    def __init__(self, levels_of: Callable[[str], Levels | None], follows_flow: bool = True) -> None:
        self.levels_of = levels_of
        self.follows_flow = follows_flow
        self.pages: dict[str, Page] = {}
        self.sent: dict[str, Sent] = {}
        self.fates: set[str] = set()
        self.lives: Counter[str] = Counter()
        self.transactional: set[Life] = set()
        self.completed: set[tuple[Life, int]] = set()
        self.syncs: dict[Life, list[int]] = {}
        self.credits: dict[tuple[str, str], Credit] = {}
        self.modes: dict[tuple[str, str], int] = {}
        self.retired_enqueues = self.retired_dequeues = 0
        self._open: dict[Life, dict[str, Sent]] = {}
        self._numbers: dict[tuple[Life, int], Sent] = {}
        self._routing: list[Sent] = []
        self._touched: list[Sent] = []

    def life(self, session: str) -> Life:
        """Tell a session from an earlier one of its name."""
        return session, self.lives[session]

    def take(self, event: Event) -> None:
        """Enter one event."""
        entry = getattr(self, "_on_" + event.kind.replace(".", "_").lower(), None)
        if entry is not None:
            entry(event, event.detail or {})

    def end_command(self) -> None:
        """Note that a command is over: routing is, and flushed credit is gone."""
        for transfer in self._routing:
            transfer.is_routing = False
            self._finish(transfer)
        self._routing.clear()
        for credit in self.credits.values():
            credit.end_flush()

    # Queues

    def _on_queuedeclare(self, event: Event, detail: dict[str, Any]) -> None:
        self.pages[event.queue] = Page(self.levels_of(event.queue) if self.follows_flow else None)

    def _on_queuedelete(self, event: Event, detail: dict[str, Any]) -> None:
        page = self.pages.pop(event.queue)
        same("QT-24: a queue is empty when it is gone", {}, page.copies)
        same("FC-21: and holds nothing", {}, page.holds)
        self.retired_enqueues += page.enqueued
        self.retired_dequeues += page.dequeued

    def _on_enqueued(self, event: Event, detail: dict[str, Any]) -> None:
        page, position = self.pages[event.queue], detail["position"]
        same("QT-20: positions increase by 1", position, page.last_position + 1)
        page.last_position = position
        page.copies[position] = Copy(event.message, event.size, event.group)
        page.size += event.size
        page.enqueued += 1
        self.fates.add(event.message)
        same("DQ-01: depth", (detail["depth"], detail["bytes"]), (len(page.copies), page.size))
        if page.levels is None:
            return
        stop_count, _, stop_size, _ = page.levels
        above = (stop_count and len(page.copies) > stop_count) or (stop_size and page.size > stop_size)
        if not page.is_on and above:
            page.is_on, page.stops = True, page.stops + 1
        if page.is_on:
            transfer = self.sent[event.message]
            page.holds[position] = event.message
            if not transfer.is_done and not transfer.in_transaction:
                transfer.holders.add((event.queue, position))

    def _on_dequeued(self, event: Event, detail: dict[str, Any]) -> None:
        page, position = self.pages[event.queue], detail["position"]
        copy = page.copies.pop(position)
        same("QT-20: a position is one message's", event.message, copy.label)
        page.size -= copy.size
        page.dequeued += 1
        if page.levels is not None and page.is_on:
            _, resume_count, _, resume_size = page.levels
            below_size = not resume_size or page.size < resume_size
            below_count = not resume_count or len(page.copies) < resume_count
            if below_size and below_count:
                page.is_on = False
                for other in list(page.holds):
                    self._let_go(event.queue, other)
            else:
                self._let_go(event.queue, position)

    def _let_go(self, queue: str, position: int) -> None:
        label = self.pages[queue].holds.pop(position, "")
        if label:
            transfer = self.sent[label]
            transfer.holders.discard((queue, position))
            self._finish(transfer)

    def _finish(self, transfer: Sent) -> None:
        self._touched.append(transfer)
        if not transfer.is_done and not transfer.is_routing and not transfer.holders:
            transfer.is_done = True
            self._open[transfer.session].pop(transfer.label, None)

    def _on_acquired(self, event: Event, detail: dict[str, Any]) -> None:
        copy = self.pages[event.queue].copies[detail["position"]]
        same("CN-12: a message belongs to one consumer at a time", copy.owner, None)
        copy.owner = event.link

    def _on_requeued(self, event: Event, detail: dict[str, Any]) -> None:
        copy = self.pages[event.queue].copies[detail["position"]]
        holds(copy.owner is not None, "CN-14: only an acquired message is requeued")
        copy.owner = None

    def _on_dropped(self, event: Event, detail: dict[str, Any]) -> None:
        self.fates.add(event.message)

    _on_unroutable = _on_dropped

    # Sessions

    def _on_session_attach(self, event: Event, detail: dict[str, Any]) -> None:
        self.lives[event.session] += 1
        for key in [key for key in self.credits if key[0] == event.session]:
            del self.credits[key]

    def _on_message_transfer(self, event: Event, detail: dict[str, Any]) -> None:
        life = self.life(event.session)
        # A session that attaches again counts, and so labels, its messages from 1 again.
        known = self.sent.get(event.message)
        holds(known is None or known.session != life, f"{event.message} is sent twice by one session")
        in_transaction = life in self.transactional
        transfer = Sent(event.message, life, detail["command"], in_transaction, is_done=in_transaction)
        self.sent[event.message] = transfer
        self._numbers[life, transfer.number] = transfer
        self._routing.append(transfer)
        if not in_transaction:
            self._open.setdefault(life, {})[event.message] = transfer

    def _on_tx_select(self, event: Event, detail: dict[str, Any]) -> None:
        self.transactional.add(self.life(event.session))

    def _on_completed(self, event: Event, detail: dict[str, Any]) -> None:
        key = (self.life(event.session), detail["command"])
        holds(key not in self.completed, "CM-02: a command completes once")
        self.completed.add(key)
        transfer = self._numbers.get(key)
        if transfer is not None:
            transfer.completions += 1
            self._touched.append(transfer)

    # Credit

    def _on_message_subscribe(self, event: Event, detail: dict[str, Any]) -> None:
        key = (event.session, detail["tag"])
        self.credits[key], self.modes[key] = Credit(), 1

    def _credit(self, event: Event, detail: dict[str, Any]) -> Credit | None:
        """Return the credit of a subscription in credit mode; None in window mode, or if it has none."""
        key = (event.session, detail["tag"])
        credit = self.credits.get(key)
        if credit is not None:
            credit.end_flush()
        return credit if self.modes.get(key) == 0 else None

    def _on_message_set_flow_mode(self, event: Event, detail: dict[str, Any]) -> None:
        self.modes[event.session, detail["tag"]] = detail["flow_mode"]

    def _on_message_flow(self, event: Event, detail: dict[str, Any]) -> None:
        credit, unit, value = self._credit(event, detail), detail["unit"], detail["value"]
        if credit is None or unit not in (0, 1) or not 0 <= value <= INFINITE:
            return
        before = credit.balance[unit]
        if value == INFINITE:
            credit.balance[unit] = None
        elif before is not None:
            credit.balance[unit] = before + value

    def _on_message_stop(self, event: Event, detail: dict[str, Any]) -> None:
        credit = self._credit(event, detail)
        if credit is not None:
            credit.balance = [0, 0]

    def _on_message_flush(self, event: Event, detail: dict[str, Any]) -> None:
        credit = self._credit(event, detail)
        if credit is not None:
            credit.is_flushed = True

    def _on_delivered(self, event: Event, detail: dict[str, Any]) -> None:
        copy = self.pages[event.queue].copies[detail["position"]]
        same("CN-10: the message of a position is delivered", event.message, copy.label)
        expected = f"{event.session}::{event.link}" if detail["acquired"] else None
        same("CN-10, CN-12: acquired by its consumer, or available to a browser", expected, copy.owner)
        if detail["mode"] == "credit":
            balance = self.credits[event.session, event.link].balance
            for unit, amount in enumerate((1, event.size)):
                before = balance[unit]
                if before is not None:
                    balance[unit] = before - amount
                    holds(before >= amount, "CN-05, CN-06: never more than was granted")

    # What always holds

    def check(self, broker: Broker) -> None:
        """Compare the books with what a broker shows; :class:`BrokenRuleError` says where they differ."""
        self.check_queues(broker)
        self.check_conservation(broker)
        if self.follows_flow:
            self.check_held(broker)
            self.check_completions(broker)
        self.check_groups(broker)

    def check_queues(self, broker: Broker) -> None:
        """Check levels, flow state, counts and limits (FC-14, LP-02 and those they name)."""
        same("CF-09: queues", set(broker.queues.queues), set(self.pages))
        for name, page in self.pages.items():
            queue = broker.queues.queues[name]
            shown, depth = queue.statistics(), queue.depth
            count, size = len(page.copies), page.size
            free = sum(copy.owner is None for copy in page.copies.values())
            same(f"DQ-01: depth of {name}", (shown.msgDepth, shown.byteDepth), (count, size))
            same(f"DQ-01: available on {name}", shown.messageCount, free)
            moves = (page.enqueued, page.dequeued)
            same(f"CF-09: counts of {name}", (shown.msgTotalEnqueues, shown.msgTotalDequeues), moves)
            positions = [message.position for message in queue.store]
            same(f"QT-20: positions on {name}", positions, sorted(page.copies))
            same(f"DQ-03: room on {name}", (depth.count, depth.size), (count, size))
            for number, most in ((count, depth.max_count), (size, depth.max_size)):
                holds(not most or number <= most, f"LP-02: {name} is above its limit: {number} > {most}")
            if self.follows_flow:
                state = (page.is_on, page.stops)
                same(f"FC-14, FC-16: state of {name}", (shown.flowStopped, shown.flowStoppedCount), state)

    def check_conservation(self, broker: Broker) -> None:
        """CF-10: enqueued = dequeued + on the queues, over all queues there were."""
        totals, pages = broker.statistics().totals, self.pages.values()
        enqueued = self.retired_enqueues + sum(page.enqueued for page in pages)
        dequeued = self.retired_dequeues + sum(page.dequeued for page in pages)
        same("CF-10: enqueues", totals["msgTotalEnqueues"], enqueued)
        same("CF-10: dequeues", totals["msgTotalDequeues"], dequeued)
        same("CF-10: on the queues", enqueued - dequeued, sum(len(page.copies) for page in pages))

    def check_held(self, broker: Broker) -> None:
        """Check that queues which are ON hold what is held, and that all else is complete, once (FC-15)."""
        for session in _attached(broker):
            mine = self._open.get(self.life(session.name), {})
            same(f"FC-15: held of {session.name}", [one.label for one in session.held], list(mine))
            for transfer in session.held:
                holders = mine[transfer.label].holders
                booked = sorted(queue for queue, _ in holders)
                same(f"CM-03: holders of {transfer.label}", sorted(transfer.held_by), booked)
                for queue, position in holders:
                    holds(self.pages[queue].is_on, f"FC-15: {queue} holds, but is OFF")
                    holds(position in self.pages[queue].copies, f"FC-17: {queue} holds what has left it")
        alive = {self.life(session.name) for session in _attached(broker)}
        for one in self._touched:
            if one.session in alive:
                same(f"CM-02: completions of {one.label}", one.completions, int(one.is_done))
        self._touched.clear()

    def check_completions(self, broker: Broker) -> None:
        """Check that only held transfers are incomplete, and the syncs and commits behind one (CM-04)."""
        for session in _attached(broker):
            life = self.life(session.name)
            held = {transfer.number for transfer in self._open.get(life, {}).values()}
            first = min(held, default=None)
            parked = {n for n in self.syncs.get(life, ()) if first is not None and n > first}
            same(f"CM-04: incomplete of {session.name}", _incomplete(session), held | parked)

    def check_groups(self, broker: Broker) -> None:
        """Check that a group has one owner, who has every acquired member, while there is one (MG-07)."""
        for name, page in self.pages.items():
            groups = broker.queues.queues[name].groups
            if groups is None:
                continue
            shown = {one["group_id"]: (one["msg_count"], one["consumer"]) for one in groups.state()}
            members: dict[str, list[Copy]] = {}
            for copy in page.copies.values():
                members.setdefault(copy.group, []).append(copy)
            booked = {}
            for group, copies in members.items():
                owners = {copy.owner for copy in copies if copy.owner}
                holds(len(owners) <= 1, f"MG-07: group {group!r} of {name} has the owners {sorted(owners)}")
                booked[group] = (len(copies), "".join(owners))
            same(f"MG-06, MG-08: groups of {name}", shown, booked)


def levels_of(broker: Broker, queue: str) -> Levels | None:
    """Return the levels of a queue as the broker has worked them out, for queues declared anyhow."""
    limit = broker.queues.queues[queue].flow_limit
    if not isinstance(limit, QueueFlowLimit):
        return None
    found = limit.thresholds
    return found.stop_count, found.resume_count, found.stop_size, found.resume_size


def _attached(broker: Broker) -> list[Session]:
    return [session for session in broker.sessions.values() if session.is_attached]


def _incomplete(session: Session) -> set[int]:
    """Return the numbers of a session's commands that are not complete."""
    numbers: set[int] = set()
    front = 0
    for first, last in session.completed.ranges():
        numbers.update(range(front, first))
        front = last + 1
    numbers.update(range(front, session.completions.next_number))
    return numbers


def visible(broker: Broker, without: str = "") -> dict[str, object]:
    """Return all that consoles and clients can see of a broker, but for one session's own end."""
    queues = {}
    for name, queue in broker.queues.queues.items():
        queues[name] = {
            "statistics": queue.statistics(),
            "messages": [
                (m.transfer.label, m.position, m.state, m.delivery_count, m.group) for m in queue.store
            ],
            "groups": None if queue.groups is None else queue.groups.state(),
            "exclusive": queue.lifetime.owner,
        }
    sessions = {}
    for name, session in broker.sessions.items():
        if name != without:
            sessions[name] = {
                "attached": session.is_attached,
                "error": str(session.error),
                "completed": str(session.completed),
                "held": [(transfer.label, transfer.held_by) for transfer in session.held],
                "statistics": session.statistics(),
                "subscriptions": [s.statistics() for s in session.consuming.subscriptions.values()],
            }
    exchanges = {
        name: (exchange.statistics(), exchange.binding_statistics())
        for name, exchange in broker.exchanges.exchanges.items()
    }
    return {"queues": queues, "sessions": sessions, "exchanges": exchanges, "broker": broker.statistics()}


def through_json(broker: Broker) -> Broker:
    """Return a broker restored from a snapshot that has been JSON text in between."""
    return Broker.restore(json.loads(json.dumps(broker.snapshot())))
