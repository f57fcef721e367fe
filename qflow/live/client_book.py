"""ClientBook: the observed actions of clients as rows of a client log, and the workload inferred from them.

A recorder (the reader of the wire, or a wrapped connection) tells the book each event and its time.  The book
names clients and messages, keeps the rows in order, and counts the values from which the workload is
inferred.

In a client log a message has the same name where it is sent and where it is delivered.  AMQP 1.0 has no such
name on the wire: a delivery id belongs to a link.  But a broker must not change the bare message (properties,
application-properties, body), so the book takes a transfer and a delivery with the same bytes for the same
message; of several equal ones on a queue it takes the oldest, as a queue delivers that first.  This is an
inference, and the recording tells how often it was made.  A window, a pace and a service time are not on the
wire, either: the workload's ``inferred`` names the source of each value.

On disk a recording is complete at every moment.  ``orders.parquet`` is a folder, as Spark writes one: each
part in it is a Parquet file of its own, which gets its name only when it is complete, so that the written
parts can be read however the recorder ends.  pyarrow, pandas, Spark and
:meth:`qflow.logs.client_log.ClientLog.load` read it as one table.  Files whose names begin with an underscore
or a dot are not part of the table:

- ``_capture-00000`` and so on: captured bytes that have not been decoded yet;
- ``_recording.json``: the clients, the broker, whether it has statistics, the queues with unknown thresholds,
  the findings, and what could not be read.

Beside the folder, ``orders.json`` is the workload behind the log, with inferred values marked as such.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from heapq import heappop, heappush
from itertools import chain, count
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from qflow.kit import RefusalError
from qflow.logs.log_file import COLUMNS, PART
from qflow.logs.workload_file import NOT_SEEN, workload_json
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import WorkloadError
from qflow.workload.model import INFERRED, LARGEST_PREFETCH, MESSAGES_PER_SECOND, Consumer, Producer, Workload
from qflow.writing import write_file, write_whole

REPORT = "_recording.json"
_ENDING = ".parquet"
MOST_ROWS_OF_A_PART = 100_000

_MOST_FINDINGS = 1_000
"""The most different findings that are kept."""

_SHORTEST_SERVICE = 0.000001
"""The shortest service in seconds, for messages that are settled in the read that delivers them."""

_QPID_CPP = ("qpid-cpp", "qflow")
"""The AMQP 1.0 product names of brokers that follow the engine's rules."""

_RESERVED = ("setup", "broker")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")

Row = tuple[int, str, str, str, str, int, str]
"""A :class:`qflow.logs.log_file.LogRow` as a plain tuple."""

MOST_UNMATCHED = 100_000
"""The most transfers that are kept for deliveries from another queue than the one they were sent to."""

Mark = tuple[int, int]
"""The identity of a message: a hash of its bare bytes, and their number."""


@dataclass(slots=True, eq=False)
class SeenClient:
    """A client of the log with its observed values; the report has them in this order."""

    name: str
    role: str
    # The queue that it reads; for a producer the queue or exchange and key that it sends to.
    queue: str
    exchange: str
    key: str
    # The time at which its link was attached, in microseconds.
    start: int
    messages: int = 0
    bytes: int = 0
    settled_by_sender: int = 0
    answered: int = 0
    refused: int = 0
    unsettled: int = 0
    most_unsettled: int = 0
    # The largest credit that it has granted, in messages.
    most_credit: int = 0
    without_credit: int = 0
    times_without_credit: int = 0
    ended: str = ""
    # Its container, link, product and address, for readers of the report.
    origin: Mapping[str, str] = field(default_factory=dict)
    # The sum of its service times, their number, and the time of its latest settlement.
    service: int = 0
    served: int = 0
    settled_at: int = 0

    def take(self, size: int, is_settled: bool) -> None:
        """Count a message that the client sends or receives."""
        self.messages += 1
        self.bytes += size
        if is_settled:
            self.settled_by_sender += 1
        else:
            self.unsettled += 1
            self.most_unsettled = max(self.most_unsettled, self.unsettled)

    def settle(self) -> None:
        """Count an outcome, after which one message fewer is unsettled."""
        self.unsettled = max(0, self.unsettled - 1)


@dataclass(slots=True)
class _FindingCount:
    """The number of equal findings, and the time of the first in microseconds."""

    first_us: int
    times: int = 1


class _Sent(NamedTuple):
    """A transfer: its sequence number, the message's label and size; size None if it was not observed."""

    number: int
    label: str
    size: int | None


class SeenMessage(NamedTuple):
    """A message that a client has sent or received, with the time."""

    client: SeenClient
    sent: _Sent
    mark: Mark
    time: int


def is_a_name(container: str) -> bool:
    """Return whether a program has chosen this container-id; libraries generate a UUID."""
    return bool(container) and not _UUID.fullmatch(container)


class ClientBook:
    """The rows of a log, with its clients and queues."""

    def __init__(self) -> None:
        # The time of the event being recorded, set by the recorder, and of the latest one, in microseconds.
        self.now = self.last = 0
        # The rows in the order of time that have not been written yet.
        self.rows: list[Row] = []
        self.clients: dict[str, SeenClient] = {}
        # The known declare arguments by queue, and the queues of which the broker has reported all arguments.
        self.queues: dict[str, dict[str, Any]] = {}
        self.declared: set[str] = set()
        self.exchanges: set[str] = set()
        # The observed bindings (exchange, queue, key) in order.
        self.binds: dict[tuple[str, str, str], None] = {}
        # The broker's product name; the time of management's first answer, or the reason why there is none.
        self.broker = ""
        self.statistics_since: int | None = None
        self.missing = "the broker's management has said nothing"
        # The findings by sentence.
        self.findings: dict[str, _FindingCount] = {}
        self.labels = Labels()
        self.connections = 0
        self._containers: dict[str, str] = {}
        # The next numbers for names that are taken.
        self._numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(2))
        # Consumers that have ended without unsettled messages, and why. The row is written when it first
        # matters.
        self._leaving: dict[SeenClient, str] = {}

    def _add_row(
        self, client: str, event: str, queue: str, label: str, size: int = 0, group: str = ""
    ) -> None:
        self.last = self.now
        self.rows.append((self.now, client, event, queue, label, size, group))

    def add_finding(self, words: str) -> None:
        """Add a finding for readers of the log; equal findings are counted."""
        if words in self.findings:
            self.findings[words].times += 1
        elif len(self.findings) < _MOST_FINDINGS:
            self.findings[words] = _FindingCount(self.now)

    def note_statistics(self, said: Mapping[str, Any]) -> None:
        """Record an answer of the broker's management about a queue or the exchanges, or its error."""
        if "queue" in said:
            self.queues.setdefault(said["queue"], {}).update(said["arguments"])
            self.declared.add(said["queue"])
            self._add_row("broker", "stats", said["queue"], json.dumps(said["values"]))
        elif "exchanges" in said:
            self.exchanges.update(said["exchanges"])
            if self.statistics_since is None:
                self.statistics_since = self.now
            else:
                self.add_finding("the broker's statistics are available again")
            self.missing = ""
        else:
            self.missing = said["error"]
            self.add_finding(f"without the broker's statistics: {self.missing}")

    @property
    def is_qpid_cpp(self) -> bool | None:
        """Whether the broker is Qpid C++ or this kit's engine; None if unknown."""
        if self.statistics_since is not None:
            # Only brokers of this kind have QMF management.
            return True
        return self.broker.startswith(_QPID_CPP) if self.broker else None

    def unknown_thresholds(self, queue: str) -> str:
        """Return the reason why a queue's thresholds are unknown, or ""."""
        if self.is_qpid_cpp is False:
            return f"the broker is {self.broker}, whose brake is not that of Qpid's C++ broker"
        if queue in self.declared or any("qpid.flow_stop" in key for key in self.queues.get(queue, {})):
            return ""
        return f"its declaration is unknown ({self.missing or 'management does not know it'})"

    # Clients

    def add_client(
        self, container: str, role: str, queue: str, exchange: str = "", key: str = ""
    ) -> SeenClient:
        """Return a new client, named after its container; if that name is taken, also after its queue."""
        name = self._choose_name(container, queue)
        client = self.clients[name] = SeenClient(name, role, queue, exchange, key, self.now)
        if not exchange:
            self.queues.setdefault(queue, {})
        return client

    def _choose_name(self, container: str, queue: str) -> str:
        base = container if is_a_name(container) else f"client-{len(self._containers) + 1}"
        base = self._containers.setdefault(container, base)
        own = f"{base}/{queue}"
        names = chain([base, own], (f"{own}.{number}" for number in self._numbers[own]))
        return next(name for name in names if name not in self.clients and name not in _RESERVED)

    def end_client(self, client: SeenClient, error: str, reason: str, left: Collection[SeenMessage]) -> None:
        """Record a client's end; `left` are its unsettled messages, which a consumer returns to its queue."""
        client.unsettled, client.ended = 0, error or reason
        is_consumer = client.role == "consumer"
        if is_consumer:
            for message in left:
                self.labels.put_back(message)
        if error or (left and is_consumer):
            self._add_row(client.name, "error", "", error or f"closed: {reason}")
        elif left:
            self.add_finding(f"{client.name!r}: {reason}, and {len(left)} transfers have no outcome")
        elif is_consumer:
            self._leaving[client] = reason

    def _write_departures(self, queue: str, is_fanned: bool = False) -> None:
        """Write the ends of a queue's consumers, as the next row is about a message they could have got."""
        for client, reason in list(self._leaving.items()):
            if is_fanned or client.queue == queue:
                del self._leaving[client]
                self._add_row(client.name, "error", "", f"closed: {reason}")

    # Producers

    def transfer(
        self, client: SeenClient, size: int, mark: Mark, group: str = "", is_settled: bool = False
    ) -> SeenMessage:
        """Record a message that a producer sends."""
        if self._leaving:
            self._write_departures(client.key, bool(client.exchange))
        client.take(size, is_settled)
        label = f"{client.name}-{client.messages}"
        sent = self.labels.add(label, client.key, mark, size, bool(client.exchange))
        self._add_row(client.name, "transfer", client.queue, label, size, group)
        return SeenMessage(client, sent, mark, self.now)

    def complete(self, message: SeenMessage) -> None:
        """Record that a producer learns of a completion."""
        message.client.settle()
        message.client.answered += 1
        self._add_row(message.client.name, "complete", "", message.sent.label)

    def note_window(self, client: SeenClient, event: str) -> None:
        """Record that a producer's window is full (``block``), or has room again (``unblock``)."""
        self._add_row(client.name, event, "", "")

    def refuse(self, message: SeenMessage) -> None:
        """Record that the broker refuses a producer's message."""
        client, label = message.client, message.sent.label
        client.settle()
        client.refused += 1
        if not client.exchange:
            self.labels.refused.add(label)
        self._add_row(client.name, "refused", "", label)

    # Consumers

    def deliver(
        self, client: SeenClient, size: int, mark: Mark, group: str = "", is_settled: bool = False
    ) -> SeenMessage:
        """Record a message that is delivered to a consumer."""
        # The size as sent, if it was observed, as a broker adds bytes to a message.
        sent = self.labels.take(client.queue, mark)
        size = size if sent.size is None else sent.size
        client.take(size, is_settled)
        self._add_row(client.name, "deliver", client.queue, sent.label, size, group)
        if is_settled:
            self._add_row(client.name, "accept", client.queue, sent.label)
        return SeenMessage(client, sent, mark, self.now)

    def settle(self, message: SeenMessage, event: str) -> None:
        """Record the settlement of a delivery: ``accept``, ``release`` or ``reject``."""
        client = message.client
        client.settle()
        client.answered += 1
        client.service += self.now - max(message.time, client.settled_at)
        client.served += 1
        client.settled_at = self.now
        if event == "release":
            self._write_departures(client.queue)
            self.labels.put_back(message)
        self._add_row(client.name, event, client.queue, message.sent.label)


class Labels:
    """The messages under way by mark; deliveries get the labels of their transfers."""

    def __init__(self) -> None:
        # The number of deliveries that more than one transfer could match, and of those that none matches.
        self.alike = self.unseen = 0
        self._count = self._kept = 0
        # By address and mark: a heap of the transfers waiting there, the oldest on top.
        self._waiting: dict[tuple[str, Mark], list[_Sent]] = {}
        # By mark and address: the transfers, and for each other queue the number up to which it delivered
        # them.
        self._passed: dict[Mark, dict[str, tuple[list[_Sent], dict[str, int]]]] = {}
        # Labels of refused transfers, which will not be delivered.
        self.refused: set[str] = set()

    def add(self, label: str, address: str, mark: Mark, size: int, is_exchange: bool = False) -> _Sent:
        """Record a transfer to a queue or an exchange; return it with its sequence number."""
        self._count += 1
        sent = _Sent(self._count, label, size)
        if not is_exchange:
            heappush(self._waiting.setdefault((address, mark), []), sent)
        # Another queue may deliver it: a bound queue, a subscription's, or one of an alternate exchange.
        self._passed.setdefault(mark, {}).setdefault(address, ([], {}))[0].append(sent)
        self._kept += 1
        if self._kept > MOST_UNMATCHED:
            self._forget_oldest()
        return sent

    def _forget_oldest(self) -> None:
        """Forget the oldest messages; if all have the same mark, the older half of them."""
        oldest = next(iter(self._passed))
        if len(self._passed) > 1:
            self._kept -= sum(len(sent) for sent, _ in self._passed.pop(oldest).values())
            return
        for sent, _ in self._passed[oldest].values():
            half = (len(sent) + 1) // 2
            del sent[:half]
            self._kept -= half

    def take(self, queue: str, mark: Mark) -> _Sent:
        """Return the transfer of a delivered message; one with number 0 if none was observed."""
        found = self._find_on_queue(queue, mark) or self._find_elsewhere(queue, mark)
        if found is None:
            self.unseen += 1
            found = _Sent(0, f"unseen-{self.unseen}", None)
        return found

    def _find_on_queue(self, queue: str, mark: Mark) -> _Sent | None:
        waiting = self._waiting.get((queue, mark))
        while waiting:
            self.alike += len(waiting) > 1
            found = heappop(waiting)
            if not waiting:
                del self._waiting[queue, mark]
            if found.label not in self.refused:
                return found
            self.refused.discard(found.label)
        return None

    def _find_elsewhere(self, queue: str, mark: Mark) -> _Sent | None:
        for address, (sent, reached) in self._passed.get(mark, {}).items():
            place = bisect_right(sent, reached.get(queue, 0), key=attrgetter("number"))
            if address != queue and place < len(sent):
                self.alike += len(sent) - place > 1
                reached[queue] = sent[place].number
                return sent[place]
        return None

    def put_back(self, message: SeenMessage) -> None:
        """Record that a delivered message has returned to its old place on its queue."""
        heappush(self._waiting.setdefault((message.client.queue, message.mark), []), message.sent)


# The workload


def _infer_workload(book: ClientBook, name: str) -> dict[str, Any]:
    """Return the workload as a JSON value; ``inferred`` names the values that were not observed."""
    inferred: dict[str, str] = {}
    producers, consumers = [], []
    seconds = max(1.0, book.last / SECOND)
    for client in book.clients.values():
        try:
            if client.role == "producer" and client.messages:
                producers.append(_infer_producer(client, seconds, inferred))
            elif client.role == "consumer":
                consumers.append(_infer_consumer(client, inferred))
        except WorkloadError as error:
            inferred[f"{client.role}s.{client.name}"] = f"left out: {error}"
    reads = {consumer.queue for consumer in consumers}
    sends = {producer.to[1] for producer in producers if not producer.to[0]}
    queues = {queue: dict(book.queues.get(queue, {})) for queue in sorted({*book.queues, *reads, *sends})}
    for queue in queues:
        unknown = book.unknown_thresholds(queue)
        if unknown:
            inferred[f"queues.{queue}"] = f"{NOT_SEEN}: its thresholds are unknown: {unknown}"
    binds = tuple(bind for bind in book.binds if bind[1] in queues)
    inferred["duration"] = "until the last thing that was seen"
    try:
        workload = Workload(name, seconds, queues, binds, tuple(producers), tuple(consumers))
    except WorkloadError as error:
        # Values that form no valid workload are left out, and the file has the reason.
        return {"name": name, "duration": 1, "queues": {}, INFERRED: {"workload": f"no workload: {error}"}}
    return {**workload_json(workload), INFERRED: inferred}


def _infer_producer(client: SeenClient, seconds: float, inferred: dict[str, str]) -> Producer:
    where = f"producers.{client.name}"
    rate = min(MESSAGES_PER_SECOND, client.messages / seconds)
    if client.most_unsettled:
        capacity = client.most_unsettled
        words = f"the most that was unsettled at once, {capacity}; the client's own window is that or more"
    else:
        capacity = client.messages
        words = "not seen: all its transfers were settled or in transactions; the number of them is written"
    inferred[f"{where}.capacity"] = words
    inferred[f"{where}.rate"] = "its messages, divided by the duration"
    size = round(client.bytes / client.messages)
    inferred[f"{where}.size"] = "the mean of its messages, each encoded whole"
    return Producer(client.name, (client.exchange, client.key), rate, capacity, size)


def _infer_consumer(client: SeenClient, inferred: dict[str, str]) -> Consumer:
    where = f"consumers.{client.name}"
    prefetch = max(1, client.most_credit, client.most_unsettled)
    inferred[f"{where}.prefetch"] = (
        f"the larger of the most credit it had, {client.most_credit}, and the most it held unsettled, "
        f"{client.most_unsettled}"
    )
    if client.served:
        mean = max(_SHORTEST_SERVICE, client.service / client.served / SECOND)
        words = f"the mean of {client.served}, from a delivery or the settlement before it to its settlement"
    else:
        mean, words = 0.001, "not seen: it settled nothing; a millisecond is written"
    inferred[f"{where}.service"] = words
    start = client.start / SECOND
    return Consumer(client.name, client.queue, min(prefetch, LARGEST_PREFETCH), ("exp", mean), start=start)


# The folder


def check_folder(out: Path) -> Path:
    """Return the folder of a new recording; raise RefusalError if its name is wrong or it is not empty.

    >>> check_folder(Path("monday.csv"))
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: the name of a recording's folder must end in .parquet; got 'monday.csv'
    """
    if not out.name.endswith(_ENDING):
        raise RefusalError(f"the name of a recording's folder must end in {_ENDING}; got {out.name!r}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RefusalError(f"a recording's folder must not exist yet, or be empty; {out} has files")
    return out


class RecordingFolder:
    """A writer of a log's parts, its report, and the workload beside them."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.written = 0
        self._parts = 0

    def keep(self, book: ClientBook) -> None:
        """Write a book's rows as parts, and rewrite the report and the workload."""
        rows, book.rows = book.rows, []
        self.write(rows)
        name = self.path.name.split(".")[0]
        facts = json.dumps({**report(book), "rows": self.written}, indent=1) + "\n"
        workload = json.dumps(_infer_workload(book, name), indent=1) + "\n"
        for path, text in ((self.path.with_name(f"{name}.json"), workload), (self.path / REPORT, facts)):
            write_file(path, text)

    def write(self, rows: list[Row]) -> None:
        """Write rows as parts; on return each is complete and has its name."""
        import pyarrow
        from pyarrow import parquet

        kinds = (pyarrow.int64(), *[pyarrow.string()] * 4, pyarrow.int64(), pyarrow.string())
        schema = pyarrow.schema(list(zip(COLUMNS, kinds, strict=True)))
        for begin in range(0, len(rows), MOST_ROWS_OF_A_PART):
            part = rows[begin : begin + MOST_ROWS_OF_A_PART]
            columns = dict(zip(COLUMNS, zip(*part, strict=True), strict=True))
            with write_whole(self.path / PART.format(self._parts)) as beside:
                parquet.write_table(pyarrow.table(columns, schema=schema), beside)
            self._parts += 1
            self.written += len(part)


def report(book: ClientBook) -> dict[str, Any]:
    """Return the report of a recording as a JSON value."""
    return {
        "broker": {"product": book.broker, "is_qpid_cpp": book.is_qpid_cpp},
        "statistics": {"since_us": book.statistics_since, "missing": book.missing},
        "thresholds_unknown": {
            queue: words for queue in book.queues if (words := book.unknown_thresholds(queue))
        },
        "connections": book.connections,
        "last_us": book.last,
        "clients": [_describe_client(client) for client in book.clients.values()],
        "labels": {"alike": book.labels.alike, "unseen": book.labels.unseen},
        "findings": [
            {"sentence": words, "times": found.times, "first_us": found.first_us}
            for words, found in book.findings.items()
        ],
    }


def _describe_client(client: SeenClient) -> dict[str, Any]:
    facts = asdict(client)
    del facts["origin"], facts["service"], facts["served"], facts["settled_at"]
    return {**facts, **client.origin}
