"""Rows of a client log: read from a file, and checked on the way in.

Replay a client log through the engine, which so fills in what no client could see.

ClientLog: what people can record without touching the broker.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from qflow.broker import errors
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import AmqpException, SessionDetached, SessionException
from qflow.broker.session import Session
from qflow.trace.files import Quarantine
from qflow.workload.agenda import SECOND, SETTLE, SUBSCRIBE
from qflow.workload.consumer_client import subscribe
from qflow.workload.model import Consumer, Workload
from qflow.workload.run import Run
from qflow.workload.stage import Stage, make_message, uncollected

LOG_EVENTS = (
    "transfer",
    "complete",
    "block",
    "unblock",
    "error",
    "deliver",
    "accept",
    "release",
    "reject",
    "stats",
)
"""What a row of a client log may tell of."""


class LogError(ValueError):
    """A client log that cannot be used; the text names the row, counted from 1, and the column.

    Examples
    --------
    >>> try:
    ...     ClientLog.load("ours.log")
    ... except LogError as error:
    ...     print(error)
    ours.log: a client log is a .csv, .csv.gz, .jsonl, .jsonl.gz or .parquet file
    """


class _BadRowError(Exception):
    """A row that makes no sense: the column, if it is one, and what is allowed and was got."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason


class _CutOffError(_BadRowError):
    """The file ends here, though it should not."""


Refuse = Callable[[int, str, str, object], None]
"""Told of a row that makes no sense: its number, the column, the reason, and what the file has there."""

ENDINGS = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet")


class LogRow(NamedTuple):
    """One row of a client log.

    Fields
    ------
    ts_us : int
        Microseconds since the start of the workload; negative before it.
    client : str
        A producer, a consumer, or ``broker`` for statistics.
    event : str
        One of :data:`EVENTS`.
    queue : str
        Consumers and statistics: the queue; producers: the routing key, or the exchange if the key
        is empty.
    label : str
        The message, ``<producer>-<n>``; for ``error`` its text; for ``stats`` a JSON list.
    size : int
        Content bytes (``transfer``, ``deliver``).
    group : str
        The message's group, if any.

    Examples
    --------
    >>> LogRow(657, "p1", "transfer", "orders", "p1-1", 100, "").label
    'p1-1'
    """

    ts_us: int
    client: str
    event: str
    queue: str
    label: str
    size: int
    group: str


def read_rows(path: Path, refuse: Refuse | None = None) -> list[LogRow]:
    """Read a log: ``.csv``, ``.jsonl`` (also ``.gz``) or ``.parquet`` (which needs pyarrow).

    Parameters
    ----------
    path : Path
        The file.
    refuse : callable or None
        Told of each row that makes no sense, which is then left out; None to refuse the file instead.

    Raises
    ------
    LogError
        If the file is of another kind, cannot be read at all, or holds a row that makes no sense.
    OSError
        If the file cannot be opened.
    """
    try:
        if path.name.endswith((".csv", ".csv.gz")):
            return checked_rows(_csv_rows(path), refuse)
        if path.name.endswith((".jsonl", ".jsonl.gz")):
            return checked_rows(_json_rows(path), refuse)
        if path.name.endswith(".parquet"):
            return checked_rows(_parquet_rows(path), refuse)
    except LogError as error:
        raise LogError(f"{path.name}: {error}") from None
    raise LogError(f"{path.name}: a client log is a {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} file")


def checked_rows(
    rows: Iterable[Sequence[object] | _BadRowError], refuse: Refuse | None = None
) -> list[LogRow]:
    """Convert rows of values, and check each.

    Parameters
    ----------
    rows : iterable of sequences
        The first holds the names of the columns; the others one value a column, as numbers or text.
    refuse : callable or None
        Told of each row that makes no sense, which is then left out.

    Raises
    ------
    LogError
        For the first row that makes no sense.

    Examples
    --------
    >>> columns = ("ts_us", "client", "event", "queue", "label", "size", "group")
    >>> checked_rows([columns, ("657", "p1", "transfer", "orders", "p1-1", "100", "")])[0].ts_us
    657
    >>> checked_rows([columns, ("soon", "p1", "transfer", "orders", "p1-1", "100", "")])
    Traceback (most recent call last):
        ...
    qflow.logs.client_log.LogError: row 1, column ts_us: must be a whole number, got 'soon'
    """
    iterator = iter(rows)
    _require_columns(next(iterator, ()))
    checked: list[LogRow] = []
    before: int | None = None
    for number, values in enumerate(iterator, 1):
        try:
            row = _row(values, before)
        except _BadRowError as bad:
            if refuse is None:
                place = f", column {bad.column}" if bad.column else ""
                where = "" if isinstance(bad, _CutOffError) else f"row {number}{place}: "
                raise LogError(f"{where}{bad.reason}") from None
            refuse(number, bad.column, bad.reason, values if not isinstance(values, _BadRowError) else "")
            continue
        before = row.ts_us
        checked.append(row)
    return checked


def _require_columns(header: Sequence[object] | _BadRowError) -> None:
    if isinstance(header, _BadRowError):
        raise LogError(header.reason)
    if tuple(header) != LogRow._fields:
        got = ", ".join(map(str, header)) or "none"
        raise LogError(f"the columns must be {', '.join(LogRow._fields)}, got {got}")


def _row(values: Sequence[object] | _BadRowError, before: int | None) -> LogRow:
    if isinstance(values, _BadRowError):
        raise values
    if len(values) != len(LogRow._fields):
        raise _BadRowError("", f"must have {len(LogRow._fields)} values, got {len(values)}")
    ts_us, client, event, queue, label, size, group = values
    if event not in LOG_EVENTS:
        raise _BadRowError("event", f"must be one of {', '.join(LOG_EVENTS)}, got {event!r}")
    if not client or not isinstance(client, str):
        raise _BadRowError("client", f"must be a name, got {client!r}")
    time, length = _whole("ts_us", ts_us), _whole("size", size)
    if time < 0 and event != "stats":
        allowed = "must not be negative, only the broker reports before the start"
        raise _BadRowError("ts_us", f"{allowed}; got {time}")
    if before is not None and time < before:
        hint = "the rows must be in order of time, sort them by ts_us"
        raise _BadRowError("ts_us", f"time must not go back, got {time} after {before}; {hint}")
    if length < 0:
        raise _BadRowError("size", f"must not be negative, got {length}")
    # Empty text is kept as null by some writers.
    texts = [_text(column, value) for column, value in (("queue", queue), ("label", label), ("group", group))]
    return LogRow(time, client, str(event), texts[0], texts[1], length, texts[2])


def _whole(column: str, value: object) -> int:
    try:
        if isinstance(value, str | int) and not isinstance(value, bool):
            return int(value)
    except ValueError:
        pass
    raise _BadRowError(column, f"must be a whole number, got {value!r}")


def _text(column: str, value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise _BadRowError(column, f"must be text, got {value!r}")


_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError, csv.Error)


def _lines(path: Path, raw: io.BufferedReader) -> io.TextIOWrapper:
    binary = gzip.GzipFile(fileobj=raw) if path.name.endswith(".gz") else raw
    return io.TextIOWrapper(binary, encoding="utf-8", newline="")


def _csv_rows(path: Path) -> Iterator[Sequence[object] | _BadRowError]:
    count = -1
    with path.open("rb") as raw:
        try:
            with _lines(path, raw) as text:
                for row in csv.reader(text, strict=True):
                    count += 1
                    yield row
        except _DAMAGE as error:
            yield _cut_off(count, error)


def _json_rows(path: Path) -> Iterator[Sequence[object] | _BadRowError]:
    yield LogRow._fields
    count = 0
    with path.open("rb") as raw:
        try:
            with _lines(path, raw) as text:
                for line in text:
                    count += 1
                    yield _json_row(line)
        except _DAMAGE as error:
            yield _cut_off(count, error)


def _json_row(line: str) -> Sequence[object] | _BadRowError:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return _BadRowError("", f"must be a JSON object, got {line[:40].strip()!r}")
    if not isinstance(given, dict) or set(given) != set(LogRow._fields):
        got = ", ".join(given) if isinstance(given, dict) else repr(given)[:40]
        return _BadRowError("", f"must be a JSON object of {', '.join(LogRow._fields)}, got {got}")
    return [given[name] for name in LogRow._fields]


def _cut_off(count: int, error: Exception) -> _CutOffError:
    after = f"after row {count}" if count > 0 else "at its beginning"
    return _CutOffError("", f"the file is cut off or damaged {after} ({error})")


def _parquet_rows(path: Path) -> Iterator[Sequence[object]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise LogError(
            "reading Parquet needs pyarrow: pip install pyarrow, or give the log as .csv.gz"
        ) from None
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowIOError) as error:
        raise LogError(
            f"the file is cut off or damaged, or no Parquet ({str(error).splitlines()[0]})"
        ) from None
    yield table.column_names
    yield from zip(*(column.to_pylist() for column in table.columns), strict=True)


SETTLEMENTS = ("accept", "release", "reject")


def replay(log: ClientLog, workload: Workload, tell: Callable[[int], None] | None = None) -> Run:
    """Feed a log's transfers, accepts and releases to the engine, each at its recorded time.

    What the broker did in between (whose transfer was held and let go, when flow control turned ON and
    OFF, which message lay where) is the engine's own work; the log's statistics, deliveries and
    completions are not fed to it, so that they can be laid beside it.

    A client's clock is not the broker's, so that the engine may give a message to another consumer than
    the real broker did, or later, or not at all if a ring dropped it.  A message is settled where the
    engine delivered it, as soon as it has; one that the engine delivered although the log never settles
    it leaves the window of its consumer when that settles one which the engine has not delivered.  Each
    of these leaves a ``client.differs`` row.

    Parameters
    ----------
    log : ClientLog
        What was recorded.
    workload : Workload
        What was run: the queues, and the consumers' prefetch.
    tell : callable or None
        Told now and then how many rows are done; it may raise to stop.

    Returns
    -------
    Run
        Like a simulated one; ``end`` is the time of the log's last row.

    Raises
    ------
    LogError
        If the log names a client that the workload has not.
    AmqpException
        The broker's own refusal of a queue.

    Examples
    --------
    >>> from qflow.trace import ClientLog, LogRow
    >>> from qflow.workload import Producer
    >>> workload = Workload(
    ...     "small",
    ...     duration=1,
    ...     queues={"q": {"qpid.flow_stop_count": 2}},
    ...     producers=(Producer("p", ("", "q"), rate=10, capacity=5, size=100),),
    ...     consumers=(Consumer("c", "q", prefetch=1, service=("const", 1)),),
    ... )
    >>> rows = [LogRow(time, "p", "transfer", "q", f"p-{time}", 100, "") for time in (1, 2, 3)]
    >>> rows += [LogRow(time, "c", "accept", "q", f"p-{time - 6}", 0, "") for time in (7, 8)]
    >>> run = replay(ClientLog("small", rows), workload)
    >>> [(event.time, event.kind) for event in run.events if event.kind in ("held", "dequeued", "let_go")]
    [(3, 'held'), (7, 'dequeued'), (8, 'dequeued'), (8, 'let_go')]
    """
    with uncollected():
        replayer = _Replayer(log, workload)
        for number, row in enumerate(log.rows):
            if tell is not None and not number % 1000:
                tell(number)
            replayer.feed(row)
        return replayer.finish()


class _ReplayedConsumer:
    """A consumer that settles what the log says, when the log says it."""

    def __init__(self, model: Consumer, replayer: _Replayer) -> None:
        self.model = model
        self.replayer = replayer
        self.session: Session | None = None
        self.surplus: deque[int] = deque()
        replayer.stage.agenda.enter(round(model.start * SECOND), SUBSCRIBE, self.join)

    def join(self) -> None:
        stage = self.replayer.stage
        try:
            self.session = subscribe(self.model, stage, self.on_delivery)
        except AmqpException as error:
            stage.errors[self.model.name] = error

    @property
    def is_alive(self) -> bool:
        return self.session is not None and self.session.is_attached

    def on_delivery(self, record: DeliveryRecord) -> None:
        key = (self.model.queue, record.label)
        if key not in self.replayer.settled:
            self.surplus.append(record.id)
        self.replayer.delivered(self, key, record.id)

    def settle(self, number: int, verdict: str) -> None:
        """Accept, release or only complete a delivery."""
        if self.session is None or not self.session.is_attached:
            return
        if verdict == "accept":
            self.session.message_accept((number,))
        elif verdict == "release":
            self.session.message_release((number,))
        elif verdict == "reject":
            self.session.message_reject((number,))
        self.session.session_completed((number,))

    def drop_surplus(self) -> None:
        """Make room in the window for what the real consumer had in place of a message it never had."""
        if self.surplus:
            self.settle(self.surplus.popleft(), "complete")


class _Replayer:
    """Leads the recorded clients by the hand of their log."""

    def __init__(self, log: ClientLog, workload: Workload) -> None:
        _require_known(log, workload)
        self.workload = workload
        self.stage = Stage(workload, max(0, log.rows[-1].ts_us) if log.rows else 0)
        self.addresses = {producer.name: producer.to for producer in workload.producers}
        self.sessions = {name: self.stage.broker.session(name) for name in self.addresses}
        self.consumers = {model.name: _ReplayedConsumer(model, self) for model in workload.consumers}
        # Of a message on a queue: who has it; and the settlement that came before its delivery.
        self.holders: dict[tuple[str, str], tuple[_ReplayedConsumer, int]] = {}
        self.early: dict[tuple[str, str], LogRow] = {}
        self.settled = {(row.queue, row.label) for row in log.rows if row.event in SETTLEMENTS}
        self.actions = {
            "transfer": self._transfer,
            "accept": self._settle,
            "release": self._settle,
            "reject": self._settle,
            "block": self._note_window,
            "unblock": self._note_window,
            "error": self._end,
        }

    def feed(self, row: LogRow) -> None:
        """Do what one row tells, and before it all that was due until then."""
        action = self.actions.get(row.event)
        if action is not None:
            self.stage.agenda.enter(max(0, row.ts_us), SETTLE, lambda: action(row))
            self.stage.run(until=row.ts_us)

    def finish(self) -> Run:
        """Return what happened."""
        self.stage.run()
        return self.stage.finish(self.workload)

    def delivered(self, holder: _ReplayedConsumer, key: tuple[str, str], number: int) -> None:
        """Remember who has a message; settle it next, if the log has done so already."""
        row = self.early.pop(key, None)
        if row is None:
            self.holders[key] = (holder, number)
        else:
            agenda = self.stage.agenda
            agenda.enter(agenda.now, SETTLE, lambda: holder.settle(number, row.event))

    def _transfer(self, row: LogRow) -> None:
        exchange, key = self.addresses[row.client]
        message = make_message(key, row.label, row.size, row.group)
        try:
            self.sessions[row.client].message_transfer(message, exchange, sync=True)
        except SessionDetached:
            self._differ(row, "its session is dead")
        except SessionException as error:
            self.stage.errors[row.client] = error

    def _settle(self, row: LogRow) -> None:
        key = (row.queue, row.label)
        if key not in self.holders:
            self.early[key] = row
            self._differ(row, "not delivered")
            self.consumers[row.client].drop_surplus()
            return
        holder, number = self.holders.pop(key)
        if not holder.is_alive:
            self._differ(row, "its session is dead")
        elif holder.model.name != row.client:
            self._differ(row, f"delivered to {holder.model.name}")
        holder.settle(number, row.event)

    def _note_window(self, row: LogRow) -> None:
        self.stage.note(f"client.{row.event}", row.client)

    def _end(self, row: LogRow) -> None:
        consumer = self.consumers.get(row.client)
        session = consumer.session if consumer is not None else self.sessions.get(row.client)
        if session is not None:
            # The engine may have ended the session itself, and then knows better why.
            self.stage.errors.setdefault(row.client, session.error or _recorded_error(row.label))
            session.close()

    def _differ(self, row: LogRow, engine: str) -> None:
        detail = {"logged": row.event, "engine": engine}
        self.stage.note("client.differs", row.client, queue=row.queue, message=row.label, detail=detail)


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


def _recorded_error(text: str) -> AmqpException:
    """Make the exception that an error row tells of: ``506 resource-limit-exceeded: Maximum ...``."""
    title, _, words = text.partition(": ")
    for kind in vars(errors).values():
        is_refusal = isinstance(kind, type) and issubclass(kind, SessionException)
        if is_refusal and f"{kind.code} {kind.name}" == title:
            refusal: AmqpException = kind(words)
            return refusal
    return AmqpException(text)


class QueueSample(NamedTuple):
    """What the real broker reported of one queue at one instant, under its own names (CM-15).

    Examples
    --------
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
class ClientLog:
    """A recorded run as its clients saw it, with what the broker reported now and then.

    Parameters
    ----------
    name : str
        For titles.
    rows : list of LogRow
        In order of time.

    Examples
    --------
    >>> stats = LogRow(50_000, "broker", "stats", "orders", "[3, 444, false, 0, 1, 0, 0]", 0, "")
    >>> ClientLog("small", [stats]).statistics("orders")[0].msgDepth
    3
    """

    name: str
    rows: list[LogRow]

    @classmethod
    def load(cls, path: str | Path) -> ClientLog:
        """Read a log from a ``.csv``, ``.jsonl`` (also ``.gz``) or ``.parquet`` file.

        Parameters
        ----------
        path : str or Path
            A file with the columns of :class:`LogRow`, in that order.

        Raises
        ------
        LogError
            One sentence that names the file, the row and the column.
        OSError
            If the file cannot be opened.
        """
        path = Path(path)
        return cls(path.name.split(".")[0], read_rows(path))

    @classmethod
    def read(cls, path: str | Path) -> tuple[ClientLog, Quarantine]:
        """Read a log from anywhere: good rows are kept, bad ones set aside with the reason.

        Parameters
        ----------
        path : str or Path
            As for :meth:`load`.

        Raises
        ------
        LogError
            If no row can be read: one sentence that names the file and says why.
        OSError
            If the file cannot be opened.
        """
        path = Path(path)
        quarantine = Quarantine()
        rows = read_rows(path, quarantine.add)
        try:
            for number, row in enumerate(rows, 1):
                if row.event == "stats":
                    _sample(number, row)
        except LogError as error:
            raise LogError(f"{path.name}: {error}") from None
        return cls(path.name.split(".")[0], rows), quarantine

    def statistics(self, queue: str) -> list[QueueSample]:
        """Return what the broker reported of a queue, in order of time.

        Raises
        ------
        LogError
            If there is no report of that queue, or one makes no sense.
        """
        samples = [
            _sample(number, row)
            for number, row in enumerate(self.rows, 1)
            if row.event == "stats" and row.queue == queue
        ]
        if not samples:
            raise LogError(f"no statistics of queue {queue!r}; there are some of {_listed(self._reported())}")
        return samples

    def _reported(self) -> Iterable[str]:
        return sorted({row.queue for row in self.rows if row.event == "stats"})

    def __repr__(self) -> str:
        return f"ClientLog({self.name!r}, {len(self.rows)} rows)"


def _sample(number: int, row: LogRow) -> QueueSample:
    types = (int, int, bool, int, int, int, int)
    try:
        values = json.loads(row.label)
    except ValueError:
        values = None
    if not isinstance(values, list) or tuple(map(type, values)) != types:
        names = ", ".join(QueueSample._fields[1:])
        raise LogError(f"row {number}, column label: must be a JSON list of {names}, got {row.label!r}")
    return QueueSample(row.ts_us, *values)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
