"""ClientLog: what clients of a real broker wrote down, and what the engine adds to it.

A log is what people can record without touching the broker.  :meth:`ClientLog.load` reads one, :func:`replay`
plays it through the engine, which so fills in what no client could see, and :func:`client_rows` goes the
other way: what the clients of a run would have written down.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from qflow.broker.events import Event, EventTable
from qflow.logs.log_file import SAMPLE_FIELDS, LogError, LogRow, read_log, sample_values, source_of
from qflow.logs.player import LogPlayer
from qflow.table import Tabular, columns_of
from qflow.trace.files import Quarantine
from qflow.workload.model import Producer, Senders, Workload
from qflow.workload.run import Run
from qflow.workload.stage import pause_collector

SETTLEMENTS = ("accept", "release", "reject")
PLAYED = ("transfer", "deliver", *SETTLEMENTS, "error", "block", "unblock")
"""Events of a log that the player takes."""


class QueueSample(NamedTuple):
    """What the real broker reported of one queue at one instant, under its own names (CM-15).

    >>> QueueSample(50_000, 901, 133_348, True, 1, 20, 0, 0).flowStopped
    True
    """

    ts_us: int
    msgDepth: int  # noqa: N815
    byteDepth: int  # noqa: N815
    flowStopped: bool  # noqa: N815
    flowStoppedCount: int  # noqa: N815
    acquires: int
    releases: int
    discardsRing: int  # noqa: N815


@dataclass(frozen=True, slots=True)
class ClientLog(Tabular):
    """A recorded run as its clients saw it, with what the broker reported now and then.

    >>> stats = LogRow(50_000, "broker", "stats", "orders", "[3, 444, false, 0, 1, 0, 0]", 0, "")
    >>> ClientLog("small", [stats]).statistics("orders")[0].msgDepth
    3
    """

    name: str
    rows: list[LogRow]

    @classmethod
    def load(cls, path: str | Path, columns: str | Mapping[str, str] | None = None) -> ClientLog:
        r"""Read a log from a ``.csv``, ``.jsonl`` (also ``.gz``) or ``.parquet`` file.

        Parameters:
            path: A file with the columns of :class:`LogRow`, in that order; or with any, of which ``columns``
                says what they mean.  Times since 1970 become times since the first row.
            columns: Meaning to column, such as ``{"time": "@timestamp", "client": "host"}``; what is left out
                is guessed from the names.  The time's unit and the words of events may be added, as
                :meth:`qflow.logs.foreign_columns.ColumnMap.of` says.

        Raises:
            LogError: One sentence that names the file, the row and the column.
            OSError: If the file cannot be opened.

        >>> import tempfile
        >>> text = "when,host,action,address,id\n2026-01-31T09:30Z,shop,sent,orders,7\n"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "ours.csv"
        ...     _ = path.write_text(text)
        ...     ClientLog.load(path, columns={"time": "when", "event": "action:{sent=transfer}"}).rows
        [LogRow(ts_us=0, client='shop', event='transfer', queue='orders', label='7', size=0, group='')]
        """
        log, quarantine = cls.read(path, columns)
        for entry in quarantine:
            is_cut_off = entry.reason.startswith("the file ")
            raise LogError(f"{Path(path).name}: {entry.reason if is_cut_off else entry.text()}")
        return log

    @classmethod
    def read(
        cls, path: str | Path, columns: str | Mapping[str, str] | None = None
    ) -> tuple[ClientLog, Quarantine]:
        """Read a log from anywhere: good rows are kept, bad ones set aside with the reason.

        Raises:
            LogError: If no row can be read: one sentence that names the file and says why.
            OSError: If the file cannot be opened.
        """
        numbers = array("q")
        rows: list[LogRow] = []
        labels: dict[str, str] = {}  # one object for each, not one for each row
        quarantine = Quarantine()
        try:
            for bit in read_log(path, columns):
                numbers.extend(bit.numbers if isinstance(bit.numbers, list) else bit.numbers.to_pylist())
                rows += [
                    LogRow(time, client, event, queue, labels.setdefault(label, label), size, group)
                    for time, client, event, queue, label, size, group in bit.log_rows()
                ]
                quarantine += bit.problems
        except LogError as error:
            raise LogError(f"{Path(path).name}: {error}") from None
        if any(after <= before for before, after in zip(numbers, numbers[1:], strict=False)):
            # Its own numbers say the order, and what is there twice.
            rows = [row for _, row in sorted(dict(zip(numbers, rows, strict=True)).items())]
        return cls(source_of(path), rows), quarantine

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the columns, or a slice of their rows, by name."""
        return columns_of(self.rows[start:end], LogRow._fields)

    def statistics(self, queue: str) -> list[QueueSample]:
        """Return what the broker reported of a queue, in order of time.

        Raises:
            LogError: If there is no report of that queue, or one makes no sense.
        """
        samples: list[QueueSample] = []
        for number, row in enumerate(self.rows, 1):
            if row.event == "stats" and row.queue == queue:
                values = sample_values(row.label)
                if values is None:
                    allowed = f"must be a JSON list of {', '.join(SAMPLE_FIELDS)}, got {row.label!r}"
                    raise LogError(f"row {number}, column label: {allowed}")
                samples.append(QueueSample(row.ts_us, *values))
        if not samples:
            reported = sorted({row.queue for row in self.rows if row.event == "stats"})
            there = ", ".join(map(repr, reported)) or "none"
            raise LogError(f"no statistics of queue {queue!r}; there are some of {there}")
        return samples

    def __repr__(self) -> str:
        return f"ClientLog({self.name!r}, {len(self.rows)} rows)"


def rows_by_client(rows: Iterable[LogRow]) -> dict[str, list[LogRow]]:
    """Return each client's rows, in order."""
    by_client: dict[str, list[LogRow]] = {}
    for row in rows:
        by_client.setdefault(row.client, []).append(row)
    return by_client


def round_trips(rows: Sequence[LogRow]) -> list[tuple[int, int, int]]:
    """Return (when, sent so far, time to completion) of transfers that were alone on their way."""
    trips: list[tuple[int, int, int]] = []
    sent = outstanding = 0
    alone, since = "", 0
    for row in rows:
        if row.event == "transfer":
            sent += 1
            outstanding += 1
            alone, since = (row.label, row.ts_us) if outstanding == 1 else ("", 0)
        elif row.event in ("complete", "refused"):
            outstanding -= 1
            if row.label == alone:
                trips.append((since, sent, row.ts_us - since))
    return trips


def replay(log: ClientLog, workload: Workload, tell: Callable[[int], None] | None = None) -> Run:
    """Send a log's transfers, accepts, releases and rejects to the engine, each at its recorded time.

    What the broker did in between (whose transfer was held and let go, when flow control turned ON and OFF,
    which message was where) is the engine's own work; how the two are kept together :mod:`qflow.logs.player`
    says.

    Parameters:
        workload: What was run: the queues, and the consumers' prefetch.
        tell: Gets the number of rows that are done, now and then; it may raise to stop.

    Returns:
        Like a simulated one; ``end`` is the time of the log's last row.  What the log does and the engine's
        clients cannot is a ``client.differs`` row.

    Raises:
        LogError: If the log names a client that the workload has not.
        AmqpException: The broker's own refusal of a queue.

    >>> workload = Workload("small", 1, {"q": {}}, producers=(Producer("p", ("", "q"), 10, 5, 100),))
    >>> replay(ClientLog("small", [LogRow(7, "p", "transfer", "q", "p-1", 100, "")]), workload)
    Run('small', 11 events, 7 us)
    """
    _require_known(log, workload)
    events = EventTable()
    with pause_collector():
        player = LogPlayer(workload, events)
        actions: dict[str, Callable[..., None]] = {event: getattr(player, event) for event in PLAYED}
        for number, (time, client, event, *rest) in enumerate(log.rows):
            if tell is not None and not number % 1000:
                tell(number)
            action = actions.get(event)
            if action is not None:
                action(time, client, *rest)
        end = max(0, log.rows[-1].ts_us) if log.rows else 0
        player.finish(end)
        player.dissolve()
    return Run(workload, events, end, player.errors)


def _require_known(log: ClientLog, workload: Workload) -> None:
    producers = {producer.name for producer in workload.producers}
    queues = {consumer.name: consumer.queue for consumer in workload.consumers}
    for number, row in enumerate(log.rows, 1):
        if row.event in ("transfer", "block", "unblock"):
            allowed, is_known = producers, row.client in producers
        elif row.event in SETTLEMENTS:
            allowed, is_known = set(queues), queues.get(row.client) == row.queue
        else:
            continue
        if not is_known:
            raise LogError(
                f"row {number}, column client: {row.event} by {row.client!r} on {row.queue!r} does not fit "
                f"workload {workload.name!r}, which has {', '.join(sorted(allowed)) or 'none'} for that"
            )


# The other way


class ClientSide:
    """Takes a run's events one by one, and keeps what its clients would have written down of each."""

    def __init__(self, producers: Iterable[Producer] = ()) -> None:
        self.rows: list[LogRow] = []
        self._senders = Senders(producers)
        self._commands: dict[tuple[str, int], str] = {}
        self._deliveries: dict[tuple[str, int], tuple[str, str]] = {}
        self._sizes: dict[tuple[str, str], tuple[int, str]] = {}
        self._sending = (0, "")
        self._kinds: dict[str, Callable[[Event, Any], None]] = {
            "message.transfer": self._transfer,
            "completed": self._completed,
            "enqueued": self._enqueued,
            "dequeued": self._dequeued,
            "delivered": self._delivered,
            "message.accept": self._settled,
            "message.release": self._settled,
            "message.reject": self._settled,
            "exception": self._died,
            "client.block": self._window,
            "client.unblock": self._window,
        }

    def append(self, event: Event) -> None:
        """Take an event."""
        kind = self._kinds.get(event.kind)
        if kind is not None:
            kind(event, event.detail)

    def _note(
        self, event: Event, word: str, queue: str = "", label: str = "", size: int = 0, group: str = ""
    ) -> None:
        client = self._senders.of(event.session, label) or event.session
        self.rows.append(LogRow(event.time, client, word, queue, label, size, group))

    def _transfer(self, event: Event, detail: Any) -> None:
        message = detail["message"]
        group = event.group or str((message.headers or {}).get("group", ""))
        self._sending = (message.content_size, group)
        self._commands[event.session, detail["command"]] = event.message
        self._note(event, "transfer", message.routing_key or event.link, event.message, *self._sending)

    def _completed(self, event: Event, detail: Any) -> None:
        label = self._commands.pop((event.session, detail["command"]), None)
        if label is not None:
            self._note(event, "complete", "", label)

    def _enqueued(self, event: Event, _: Any) -> None:
        self._sizes[event.queue, event.message] = self._sending

    def _dequeued(self, event: Event, _: Any) -> None:
        self._sizes.pop((event.queue, event.message), None)

    def _delivered(self, event: Event, detail: Any) -> None:
        place = event.queue, event.message
        self._deliveries[event.session, detail["delivery"]] = place
        self._note(event, "deliver", *place, *self._sizes.get(place, (0, event.group)))

    def _settled(self, event: Event, detail: Any) -> None:
        for number in detail["transfers"]:
            place = self._deliveries.pop((event.session, number), None)
            if place is not None:
                self._note(event, event.kind.partition(".")[2], *place)

    def _died(self, event: Event, detail: Any) -> None:
        words = f"{detail.get('code')} {detail.get('name')}: {detail.get('text')}"
        for client in self._senders.on(event.session) or (event.session,):
            self.rows.append(LogRow(event.time, client, "error", "", words, 0, ""))

    def _window(self, event: Event, _: Any) -> None:
        self._note(event, event.kind.partition(".")[2])


def client_rows(events: Iterable[Event], producers: Iterable[Producer] = ()) -> Iterator[LogRow]:
    """Yield what the clients of a run or a trace would have logged."""
    side = ClientSide(producers)
    for event in events:
        side.append(event)
        yield from side.rows
        side.rows.clear()
