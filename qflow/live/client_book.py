"""ClientBook: what recorded clients did, as rows of a client log, and what was counted of each.

What records (the wire's reader, a wrapped connection) says what happened; the book names clients and
messages, keeps the rows in order, and counts what a workload is inferred from
(:mod:`qflow.live.recording_reader`).

A client log calls a message the same where it is sent and where it is delivered.  On AMQP 1.0 no such name is
on the wire: a delivery id is a link's own.  What a broker must not change is the bare message (properties,
application-properties, body), so two with the same bytes are taken for one; of several that are the same on a
queue, the oldest is taken, as a queue gives it first.  That is an inference, and the recording says how often
it was made.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any

_MOST_FINDINGS = 1_000
"""Different sentences that are kept."""

_QPID_CPP = ("qpid-cpp", "qflow")
"""How brokers call themselves on AMQP 1.0 whose rules are those of the engine."""

_RESERVED = ("setup", "broker")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")

Row = tuple[int, str, str, str, str, int, str]
"""A :class:`qflow.logs.log_file.LogRow` as a plain tuple."""

MOST_UNMATCHED = 100_000
"""Transfers that are remembered for deliveries by other queues than the one they were sent to."""

Mark = tuple[int, int]
"""What a message is recognised by: a hash of its bare bytes, and their number."""

_Sent = tuple[int, str, int | None]
"""Its number among all transfers, its label, its size."""


@dataclass(slots=True)
class SeenClient:
    """One client of the log, and what was seen of it."""

    name: str
    role: str
    # What it reads; or where it sends to.
    queue: str
    exchange: str
    key: str
    # When its link was made, in microseconds; its container, link, product and peer, for readers.
    start: int
    origin: Mapping[str, str]
    # The most messages that it was ready to take.
    most_credit: int = 0
    messages: int = 0
    bytes: int = 0
    settled_by_sender: int = 0
    answered: int = 0
    refused: int = 0
    unsettled: int = 0
    most_unsettled: int = 0
    service: int = 0
    served: int = 0
    settled_at: int = 0
    without_credit: int = 0
    times_without_credit: int = 0
    ended: str = ""


def is_a_name(container: str) -> bool:
    """Return whether a program chose this container-id; without one, libraries make up a UUID."""
    return bool(container) and not _UUID.fullmatch(container)


class ClientBook:
    """The rows of a log, its clients and its queues.

    >>> book = ClientBook()
    >>> shop = book.client("shop", "producer", "orders", 5, key="orders")
    >>> label = book.transfer(7, shop, 100, (1, 100))
    >>> book.complete(9, shop, label)
    >>> [row[:5] for row in book.rows]
    [(7, 'shop', 'transfer', 'orders', 'shop-1'), (9, 'shop', 'complete', '', 'shop-1')]
    """

    def __init__(self) -> None:
        # In order of time; the list may be emptied.
        self.rows: list[Row] = []
        self.clients: dict[str, SeenClient] = {}
        # Declare arguments, as far as they were seen; and of which queues the broker has said all of them.
        self.queues: dict[str, dict[str, Any]] = {}
        self.declared: set[str] = set()
        self.exchanges: set[str] = set()
        # Exchange, queue and binding key, in the order in which they were seen.
        self.binds: dict[tuple[str, str, str], None] = {}
        # The product that the broker calls itself; when its management answered first, or why it does not.
        self.broker = ""
        self.statistics_since: int | None = None
        self.missing = "the broker's management has said nothing"
        # Sentence to how often, and when first, in microseconds.
        self.findings: dict[str, list[int]] = {}
        self.labels = Labels()
        self.last = self.connections = 0
        self._names: dict[str, int] = dict.fromkeys(_RESERVED, 1)
        self._containers: dict[str, str] = {}
        self._leaving: dict[str, tuple[SeenClient, str]] = {}

    def _row(
        self, time: int, client: str, event: str, queue: str, label: str, size: int = 0, group: str = ""
    ) -> None:
        self.last = time
        self.rows.append((time, client, event, queue, label, size, group))

    def find(self, time: int, words: str) -> None:
        """Note what a reader of the log should know; the same words are counted."""
        if words in self.findings:
            self.findings[words][0] += 1
        elif len(self.findings) < _MOST_FINDINGS:
            self.findings[words] = [1, time]

    def report(self, time: int, queue: str, label: str, arguments: Mapping[str, Any]) -> None:
        """Note what the broker reports of a queue, and what it says that the queue was declared with."""
        self.queues.setdefault(queue, {}).update(arguments)
        self.declared.add(queue)
        self._row(time, "broker", "stats", queue, label)

    def note_management(self, time: int) -> None:
        """Note that the broker's management answers, for the first time or again."""
        if self.statistics_since is None:
            self.statistics_since = time
        else:
            self.find(time, "the broker's statistics come again")
        self.missing = ""

    def miss_management(self, time: int, reason: str) -> None:
        """Note that the broker's management does not answer, or no longer."""
        self.missing = reason
        self.find(time, f"without the broker's statistics: {reason}")

    @property
    def is_qpid_cpp(self) -> bool | None:
        """Whether the broker is Qpid's in C++, or this kit's engine; None if nothing has shown it."""
        if self.statistics_since is not None:
            # No other broker has this management.
            return True
        return self.broker.startswith(_QPID_CPP) if self.broker else None

    def unknown_thresholds(self, queue: str) -> str:
        """Return why the thresholds of a queue are unknown; empty if they are known."""
        if self.is_qpid_cpp is False:
            return f"the broker is {self.broker}, whose brake is not that of Qpid's C++ broker"
        if queue in self.declared or any("qpid.flow_stop" in key for key in self.queues.get(queue, {})):
            return ""
        return f"nothing shows what it was declared with ({self.missing or 'management does not know it'})"

    # Clients

    def client(
        self,
        container: str,
        role: str,
        queue: str,
        time: int,
        *,
        exchange: str = "",
        key: str = "",
        origin: Mapping[str, str] | None = None,
        most_credit: int = 0,
    ) -> SeenClient:
        """Return a new client, named after its container, and where that is taken, after its queue too."""
        name = self._name(container, queue)
        facts = origin or {}
        client = SeenClient(name, role, queue, exchange, key, time, facts, most_credit)
        self.clients[name] = client
        if not exchange:
            self.queues.setdefault(queue, {})
        return client

    def _name(self, container: str, queue: str) -> str:
        base = self._containers.get(container)
        if base is None:
            base = container if is_a_name(container) else f"client-{len(self._containers) + 1}"
            self._containers[container] = base
        for name in (base, f"{base}/{queue}"):
            if name not in self._names:
                self._names[name] = 1
                return name
        while name in self._names:
            self._names[f"{base}/{queue}"] += 1
            name = f"{base}/{queue}.{self._names[f'{base}/{queue}']}"
        self._names[name] = 1
        return name

    def end_client(
        self, time: int, client: SeenClient, error: str, reason: str, left: Iterable[tuple[str, Mark]]
    ) -> None:
        """Note that a client is gone; what a consumer had not settled is on its queue again."""
        left = list(left)
        client.unsettled, client.ended = 0, error or reason
        is_consumer = client.role == "consumer"
        if is_consumer:
            for label, mark in left:
                self.labels.put_back(client.queue, mark, label)
        if error or (left and is_consumer):
            self._row(time, client.name, "error", "", error or f"closed: {reason}")
        elif left:
            self.find(time, f"{client.name!r}: {reason}, and {len(left)} transfers have no outcome")
        elif is_consumer:
            self._leaving[client.name] = (client, reason)

    def _let_leave(self, time: int, queue: str, is_fanned: bool = False) -> None:
        """Write that consumers have left, before something comes that they would have got."""
        for name, (client, reason) in list(self._leaving.items()):
            if is_fanned or client.queue == queue:
                del self._leaving[name]
                self._row(time, name, "error", "", f"closed: {reason}")

    # What producers do

    def transfer(
        self, time: int, client: SeenClient, size: int, mark: Mark, group: str = "", is_settled: bool = False
    ) -> str:
        """Note a message that is sent; return its label."""
        if self._leaving:
            self._let_leave(time, client.key, bool(client.exchange))
        client.messages += 1
        client.bytes += size
        label = f"{client.name}-{client.messages}"
        self.labels.add(label, client.key, mark, size, bool(client.exchange))
        self._row(time, client.name, "transfer", client.queue, label, size, group)
        if is_settled:
            client.settled_by_sender += 1
        else:
            client.unsettled += 1
            client.most_unsettled = max(client.most_unsettled, client.unsettled)
        return label

    def complete(self, time: int, client: SeenClient, label: str) -> None:
        """Note that a producer learns that the broker has a message."""
        client.unsettled = max(0, client.unsettled - 1)
        client.answered += 1
        self._row(time, client.name, "complete", "", label)

    def window(self, time: int, client: SeenClient, event: str) -> None:
        """Note that a producer's window is full (``block``), or has room again (``unblock``)."""
        self._row(time, client.name, event, "", "")

    def refuse(self, time: int, client: SeenClient, label: str) -> None:
        """Note that the broker gives a message back."""
        client.unsettled = max(0, client.unsettled - 1)
        client.refused += 1
        if not client.exchange:
            self.labels.refuse(label)
        self._row(time, client.name, "refused", "", label)

    # What consumers do

    def deliver(
        self, time: int, client: SeenClient, size: int, mark: Mark, group: str = "", is_settled: bool = False
    ) -> str:
        """Note a message that is delivered; return its label."""
        # The size that it was sent with, if that was seen: a broker adds to a message on the way.
        label, sent_size = self.labels.take(client.queue, mark)
        size = size if sent_size is None else sent_size
        client.messages += 1
        client.bytes += size
        self._row(time, client.name, "deliver", client.queue, label, size, group)
        if is_settled:
            client.settled_by_sender += 1
            self.labels.forget(label)
            self._row(time, client.name, "accept", client.queue, label)
        else:
            client.unsettled += 1
            client.most_unsettled = max(client.most_unsettled, client.unsettled)
        return label

    def settle(
        self, time: int, client: SeenClient, event: str, label: str, mark: Mark, delivered: int
    ) -> None:
        """Note ``accept``, ``release`` or ``reject`` of what was delivered at an instant."""
        client.unsettled = max(0, client.unsettled - 1)
        client.answered += 1
        client.service += time - max(delivered, client.settled_at)
        client.served += 1
        client.settled_at = time
        if event == "release":
            self._let_leave(time, client.queue)
            self.labels.put_back(client.queue, mark, label)
        else:
            self.labels.forget(label)
        self._row(time, client.name, event, client.queue, label)


class Labels:
    """The messages under way, by what they are recognised by.

    >>> labels = Labels()
    >>> labels.add("p-1", "orders", (7, 3), 9); labels.add("p-2", "orders", (7, 3), 9)
    >>> labels.take("orders", (7, 3)), labels.alike
    (('p-1', 9), 1)
    >>> labels.put_back("orders", (7, 3), "p-1"); labels.take("orders", (7, 3))
    ('p-1', 9)
    """

    def __init__(self) -> None:
        # Deliveries for which more than one transfer could be meant; and of what no client sent through here.
        self.alike = self.unseen = 0
        self._count = self._kept = 0
        # Of an address and a mark: those waiting there, the oldest on top.
        self._waiting: dict[tuple[str, Mark], list[_Sent]] = {}
        # Of a mark and an address: what was sent, and up to which number each other queue has had it.
        self._passed: dict[Mark, dict[str, tuple[list[_Sent], dict[str, int]]]] = {}
        self._delivered: dict[str, _Sent] = {}
        self._refused: set[str] = set()

    def add(self, label: str, address: str, mark: Mark, size: int, is_exchange: bool = False) -> None:
        """Note a transfer of so many bytes, to a queue or to an exchange."""
        self._count += 1
        sent = (self._count, label, size)
        if not is_exchange:
            heappush(self._waiting.setdefault((address, mark), []), sent)
        # It may come from another queue: one that is bound, a subscription, an alternate.
        self._passed.setdefault(mark, {}).setdefault(address, ([], {}))[0].append(sent)
        self._kept += 1
        if self._kept > MOST_UNMATCHED:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        """Forget the oldest; of what is all alike, the older half."""
        oldest = next(iter(self._passed))
        if len(self._passed) > 1:
            self._kept -= sum(len(sent) for sent, _ in self._passed.pop(oldest).values())
            return
        for sent, _ in self._passed[oldest].values():
            half = (len(sent) + 1) // 2
            del sent[:half]
            self._kept -= half

    def refuse(self, label: str) -> None:
        """Note that a transfer to a queue was given back, so that no delivery is of it."""
        self._refused.add(label)

    def take(self, queue: str, mark: Mark) -> tuple[str, int | None]:
        """Return the label and the size of a delivered message; the size is None if none was sent here."""
        found = self._of_queue(queue, mark) or self._of_others(queue, mark)
        if found is None:
            self.unseen += 1
            return f"unseen-{self.unseen}", None
        self._delivered[found[1]] = found
        return found[1], found[2]

    def _of_queue(self, queue: str, mark: Mark) -> _Sent | None:
        waiting = self._waiting.get((queue, mark))
        while waiting:
            self.alike += len(waiting) > 1
            found = heappop(waiting)
            if not waiting:
                del self._waiting[queue, mark]
            if found[1] not in self._refused:
                return found
            self._refused.discard(found[1])
        return None

    def _of_others(self, queue: str, mark: Mark) -> _Sent | None:
        for address, (sent, reached) in self._passed.get(mark, {}).items():
            place = bisect_right(sent, reached.get(queue, 0), key=itemgetter(0))
            if address != queue and place < len(sent):
                self.alike += len(sent) - place > 1
                reached[queue] = sent[place][0]
                return sent[place]
        return None

    def put_back(self, queue: str, mark: Mark, label: str) -> None:
        """Note that a message is back on its queue, at its old place."""
        sent = self._delivered.get(label, (0, label, None))
        heappush(self._waiting.setdefault((queue, mark), []), sent)

    def forget(self, label: str) -> None:
        """Note that a message was settled for good."""
        self._delivered.pop(label, None)
