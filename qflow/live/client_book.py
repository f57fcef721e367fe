"""ClientBook: what recorded clients did, as rows of a client log, and the workload that is inferred from it.

Whoever records (the reader of the wire, a wrapped connection) tells it the time and what happens then; the
book names clients and messages, keeps the rows in order, and counts what the workload is inferred from.

A client log calls a message the same where it is sent and where it is delivered.  On AMQP 1.0 no such name is
on the wire: a delivery id is a link's own.  What a broker must not change is the bare message (properties,
application-properties, body), so two with the same bytes are taken for one; of several that are the same on a
queue, the oldest is taken, as a queue gives it first.  That is an inference, and the recording says how often
it was made.  A window, a pace and a service time are on no wire, either: the workload's ``inferred`` says of
each what it was taken from.

On disk a recording is whole at every moment.  ``orders.parquet`` is a folder, as Spark writes one: each part
in it is a Parquet file of its own, which gets its name when it is whole, so that whatever ends the recorder,
what was written can be read.  pyarrow, pandas, Spark and :meth:`qflow.logs.client_log.ClientLog.load` read it
as one table.  Names that begin with an underscore or a dot are no data:

- ``_capture-00000`` and so on: bytes as they passed, until they are read;
- ``_recording.json``: who was connected, which broker it was, whether it gave statistics, of which queues the
  thresholds are unknown, what was found, and what could not be read.

Beside it, ``orders.json`` is the workload behind the log, with inferred values marked as such.
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
"""Different sentences that are kept."""

_SHORTEST_SERVICE = 0.000001
"""Seconds: a message settled within one read has taken less than the clock's resolution."""

_QPID_CPP = ("qpid-cpp", "qflow")
"""The AMQP 1.0 product names of brokers that follow the engine's rules."""

_RESERVED = ("setup", "broker")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")

Row = tuple[int, str, str, str, str, int, str]
"""A :class:`qflow.logs.log_file.LogRow` as a plain tuple."""

MOST_UNMATCHED = 100_000
"""Transfers that are remembered for deliveries by other queues than the one they were sent to."""

Mark = tuple[int, int]
"""The identity of a message: a hash of its bare bytes, and their number."""


@dataclass(slots=True, eq=False)
class SeenClient:
    """A client of the log, with its observations in the report's order."""

    name: str
    role: str
    # What it reads; or where it sends to.
    queue: str
    exchange: str
    key: str
    # When its link was made, in microseconds.
    start: int
    messages: int = 0
    bytes: int = 0
    settled_by_sender: int = 0
    answered: int = 0
    refused: int = 0
    unsettled: int = 0
    most_unsettled: int = 0
    # The most messages that it was ready to take.
    most_credit: int = 0
    without_credit: int = 0
    times_without_credit: int = 0
    ended: str = ""
    # Its container, link, product and peer, for readers.
    origin: Mapping[str, str] = field(default_factory=dict)
    # How long it had what it settled, how many those were, and when it settled last.
    service: int = 0
    served: int = 0
    settled_at: int = 0

    def take(self, size: int, is_settled: bool) -> None:
        """Count a message that it sends or receives."""
        self.messages += 1
        self.bytes += size
        if is_settled:
            self.settled_by_sender += 1
        else:
            self.unsettled += 1
            self.most_unsettled = max(self.most_unsettled, self.unsettled)

    def settle(self) -> None:
        """Count an outcome: one message less waits."""
        self.unsettled = max(0, self.unsettled - 1)


@dataclass(slots=True)
class _FindingCount:
    """The time of the first of equal findings, in microseconds, and their number."""

    first_us: int
    times: int = 1


class _Sent(NamedTuple):
    """A transfer: its sequence number, the message's label and size; no size if it was not seen."""

    number: int
    label: str
    size: int | None


class SeenMessage(NamedTuple):
    """A message that a client has sent or received, and the time."""

    client: SeenClient
    sent: _Sent
    mark: Mark
    time: int


def is_a_name(container: str) -> bool:
    """Return whether a program chose this container-id; libraries make up a UUID."""
    return bool(container) and not _UUID.fullmatch(container)


class ClientBook:
    """The rows of a log, its clients and its queues."""

    def __init__(self) -> None:
        # When what is noted next happens, and the last thing that was seen, in microseconds.
        self.now = self.last = 0
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
        # By sentence.
        self.findings: dict[str, _FindingCount] = {}
        self.labels = Labels()
        self.connections = 0
        self._containers: dict[str, str] = {}
        # Of a name that is taken, the numbers of those that come after it.
        self._numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(2))
        # Consumers that are gone with nothing unsettled, and why; it is written when it first matters.
        self._leaving: dict[SeenClient, str] = {}

    def _add_row(
        self, client: str, event: str, queue: str, label: str, size: int = 0, group: str = ""
    ) -> None:
        self.last = self.now
        self.rows.append((self.now, client, event, queue, label, size, group))

    def add_finding(self, words: str) -> None:
        """Add a finding for readers of the log; equal ones are counted."""
        if words in self.findings:
            self.findings[words].times += 1
        elif len(self.findings) < _MOST_FINDINGS:
            self.findings[words] = _FindingCount(self.now)

    def note_statistics(self, said: Mapping[str, Any]) -> None:
        """Record the answer of the broker's management on its queues and exchanges, or its error."""
        if "queue" in said:
            self.queues.setdefault(said["queue"], {}).update(said["arguments"])
            self.declared.add(said["queue"])
            self._add_row("broker", "stats", said["queue"], json.dumps(said["values"]))
        elif "exchanges" in said:
            self.exchanges.update(said["exchanges"])
            if self.statistics_since is None:
                self.statistics_since = self.now
            else:
                self.add_finding("the broker's statistics come again")
            self.missing = ""
        else:
            self.missing = said["error"]
            self.add_finding(f"without the broker's statistics: {self.missing}")

    @property
    def is_qpid_cpp(self) -> bool | None:
        """Whether the broker is Qpid C++ or this kit's engine; None if unknown."""
        if self.statistics_since is not None:
            # No other broker has this management.
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
        """Return a new client, named after its container, with its queue if that name is taken."""
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
        """Note that a client is gone; a consumer's unsettled messages are on its queue again."""
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
        """Write the departures of consumers before any row of a message that they would have got."""
        for client, reason in list(self._leaving.items()):
            if is_fanned or client.queue == queue:
                del self._leaving[client]
                self._add_row(client.name, "error", "", f"closed: {reason}")

    # What producers do

    def transfer(
        self, client: SeenClient, size: int, mark: Mark, group: str = "", is_settled: bool = False
    ) -> SeenMessage:
        """Note a message that is sent."""
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
        """Note that a producer's window is full (``block``), or has room again (``unblock``)."""
        self._add_row(client.name, event, "", "")

    def refuse(self, message: SeenMessage) -> None:
        """Record that the broker returns a message."""
        client, label = message.client, message.sent.label
        client.settle()
        client.refused += 1
        if not client.exchange:
            self.labels.refused.add(label)
        self._add_row(client.name, "refused", "", label)

    # What consumers do

    def deliver(
        self, client: SeenClient, size: int, mark: Mark, group: str = "", is_settled: bool = False
    ) -> SeenMessage:
        """Note a message that is delivered."""
        # The size that it was sent with, if that was seen: a broker adds to a message on the way.
        sent = self.labels.take(client.queue, mark)
        size = size if sent.size is None else sent.size
        client.take(size, is_settled)
        self._add_row(client.name, "deliver", client.queue, sent.label, size, group)
        if is_settled:
            self._add_row(client.name, "accept", client.queue, sent.label)
        return SeenMessage(client, sent, mark, self.now)

    def settle(self, message: SeenMessage, event: str) -> None:
        """Note ``accept``, ``release`` or ``reject`` of a delivery."""
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
    """The messages under way, indexed by fingerprint."""

    def __init__(self) -> None:
        # Deliveries for which more than one transfer could be meant; and of what no client sent through here.
        self.alike = self.unseen = 0
        self._count = self._kept = 0
        # Of an address and a mark: those waiting there, the oldest on top.
        self._waiting: dict[tuple[str, Mark], list[_Sent]] = {}
        # Of a mark and an address: what was sent, and up to which number each other queue has had it.
        self._passed: dict[Mark, dict[str, tuple[list[_Sent], dict[str, int]]]] = {}
        # Labels of refused transfers: they have no delivery.
        self.refused: set[str] = set()

    def add(self, label: str, address: str, mark: Mark, size: int, is_exchange: bool = False) -> _Sent:
        """Note a transfer to a queue or to an exchange, and its size in bytes."""
        self._count += 1
        sent = _Sent(self._count, label, size)
        if not is_exchange:
            heappush(self._waiting.setdefault((address, mark), []), sent)
        # It may come from another queue: one that is bound, a subscription, an alternate.
        self._passed.setdefault(mark, {}).setdefault(address, ([], {}))[0].append(sent)
        self._kept += 1
        if self._kept > MOST_UNMATCHED:
            self._forget_oldest()
        return sent

    def _forget_oldest(self) -> None:
        """Forget the oldest messages; where all are alike, the older half."""
        oldest = next(iter(self._passed))
        if len(self._passed) > 1:
            self._kept -= sum(len(sent) for sent, _ in self._passed.pop(oldest).values())
            return
        for sent, _ in self._passed[oldest].values():
            half = (len(sent) + 1) // 2
            del sent[:half]
            self._kept -= half

    def take(self, queue: str, mark: Mark) -> _Sent:
        """Return the transfer of a delivered message; one without a number if none was seen."""
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
        """Record that a delivered message is back on its queue, at its old place."""
        heappush(self._waiting.setdefault((message.client.queue, message.mark), []), message.sent)


# The workload


def _infer_workload(book: ClientBook, name: str) -> dict[str, Any]:
    """Return the workload as JSON; ``inferred`` names the values that were not seen."""
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
        # What makes no workload is left out, and the file says why.
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
    """Return the folder for a new recording; RefusalError if its name is wrong or something is there.

    >>> check_folder(Path("monday.csv"))
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: a recording is a folder of Parquet parts, so its name ends in .parquet; got
    'monday.csv'
    """
    if not out.name.endswith(_ENDING):
        allowed = f"its name ends in {_ENDING}"
        raise RefusalError(f"a recording is a folder of Parquet parts, so {allowed}; got {out.name!r}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RefusalError(f"{out}: something is there already, and it is kept; choose another name")
    return out


class RecordingFolder:
    """Writes the parts of a log, its report, and the workload beside it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.written = 0
        self._parts = 0

    def keep(self, book: ClientBook) -> None:
        """Write a book's rows as parts, and rewrite the report and the workload beside it."""
        rows, book.rows = book.rows, []
        self.write(rows)
        name = self.path.name.split(".")[0]
        facts = json.dumps({**report(book), "rows": self.written}, indent=1) + "\n"
        workload = json.dumps(_infer_workload(book, name), indent=1) + "\n"
        for path, text in ((self.path.with_name(f"{name}.json"), workload), (self.path / REPORT, facts)):
            write_file(path, text)

    def write(self, rows: list[Row]) -> None:
        """Write rows as parts, each in its place on return."""
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
    """Return the report of a recording as JSON values."""
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
