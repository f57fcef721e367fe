"""Client logs: the records of a real broker's clients, and their replay through the engine.

People can record a client log without access to the broker.  :meth:`ClientLog.load` reads a log.
:func:`replay` plays it through the engine (:class:`LogPlayer`), which reconstructs what no client could see.
:func:`client_rows` is the inverse: it returns the rows that the clients of a run would have recorded.

The player sends each transfer, accept, release and reject to the engine at its recorded time, and the engine
determines which transfers were held and released, when a queue turned ON and OFF, and where each message was.
The completions, deliveries and statistics of the log are not sent to the engine, so that they can be compared
with what the engine does.

A client's clock differs from the broker's.  The engine may therefore deliver a message to another consumer
than the real broker did, or later, or never.  Two rules keep the engine close to the log:

- A message is settled at the consumer to which the engine delivered it, as soon as it has been delivered.
- If a consumer settles a message that the engine has not delivered to it, the oldest delivery in its window
  that the log does not show is completed: the real consumer had another message in its place.

A client that continues after its log records the end of its session has begun a new session.  The player then
attaches a new session, too, at the first transfer or delivery after that.

The player never reads ahead, which is impossible in a stream: a batch, a checkpoint and a whole file must
give the same result as a stream.  Between two rows, the player's state is a JSON value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qflow.broker import errors
from qflow.broker.broker import Broker
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import AmqpException, SessionException
from qflow.broker.events import Event, EventTable
from qflow.broker.session import Session
from qflow.broker.snapshot import ONLY_COUNT
from qflow.logs.cleaning import AUTO, Cleaning, CleanLog, Nobody, Skew
from qflow.logs.log_file import (
    SAMPLE_FIELDS,
    SETTLEMENTS,
    LakeRow,
    LogError,
    LogRow,
    QueueSample,
    forget_oldest,
    name_of,
    read_log,
    sample_values,
    source_of,
)
from qflow.logs.tolerance import Tolerance
from qflow.table import Tabular, columns_of
from qflow.trace.files import Quarantine
from qflow.workload.agenda import SECOND
from qflow.workload.clients import settle, subscribe
from qflow.workload.model import Producer, Senders, Workload
from qflow.workload.simulate import Run
from qflow.workload.stage import Stage, make_message, pause_collector


@dataclass(frozen=True, slots=True)
class ClientLog(Tabular):
    """A client log: the rows that clients recorded, with the broker's own reports on its queues.

    Attributes:
        name: The name of the log.
        rows: The rows.
        cleaning, tolerance: The report on cleaning and the estimated tolerance of a log read from a file.

    >>> stats = LogRow(50_000, "broker", "stats", "orders", "[3, 444, false, 0, 1, 0, 0]", 0, "")
    >>> ClientLog("small", [stats]).statistics("orders")[0].msgDepth
    3
    """

    name: str
    rows: list[LogRow]
    start_us: int | None = field(default=None, compare=False)
    """The instant of time 0 of the rows in microseconds since 1970, or None if the log has no dates."""
    cleaning: Cleaning | None = field(default=None, compare=False, repr=False)
    tolerance: Tolerance | None = field(default=None, compare=False, repr=False)

    @classmethod
    def load(
        cls,
        path: str | Path | Sequence[str | Path],
        columns: str | Mapping[str, str] | None = None,
        *,
        separator: str = "",
        zone: str = "",
        skew: Skew = AUTO,
    ) -> ClientLog:
        r"""Read a log from a file, from several files or from a folder of parts: CSV, JSON or Parquet.

        Late rows are sorted in, exact duplicates are dropped, and clocks that are ahead or behind are
        corrected; :attr:`cleaning` reports that.

        Parameters:
            path: The file, the folder of parts, or several files, gzipped or not.  They may have the columns
                of :class:`LogRow`, or other columns, whose meanings are given in ``columns``.  Times since
                1970 are converted to times since the first row.
            columns: The columns by meaning, such as ``{"time": "@timestamp", "client": "host"}``; others are
                guessed from their names.  The unit of the time and the words for events may be added
                (:meth:`qflow.logs.foreign_columns.ColumnMap.of`).
            separator: The separator of values in text, as a character or name; empty to find it in the
                header.
            zone: The time zone of times without a zone, such as ``Europe/Berlin``; empty for UTC.
            skew: The offset of each host's clock in microseconds; ``auto`` to estimate the offsets.

        Raises:
            LogError: If a row is invalid or the log cannot be read; the text names file, row and column.
            OSError: If the file cannot be opened.

        >>> import tempfile
        >>> text = "when,host,action,address,id\n2026-01-31T09:30Z,shop,sent,orders,7\n"
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "ours.csv"
        ...     _ = path.write_text(text)
        ...     ClientLog.load(path, columns={"time": "when", "event": "action:{sent=transfer}"}).rows
        [LogRow(ts_us=0, client='shop', event='transfer', queue='orders', label='7', size=0, group='')]
        """
        log, quarantine = cls.read(path, columns, separator=separator, zone=zone, skew=skew)
        for entry in quarantine:
            is_cut_off = entry.reason.startswith("the file ")
            raise LogError(f"{name_of(path)}: {entry.reason if is_cut_off else entry.text()}")
        return log

    @classmethod
    def read(
        cls,
        path: str | Path | Sequence[str | Path],
        columns: str | Mapping[str, str] | None = None,
        *,
        separator: str = "",
        zone: str = "",
        skew: Skew = AUTO,
    ) -> tuple[ClientLog, Quarantine]:
        """Read a log of any origin: keep the valid rows, and quarantine the others with the reason.

        Parameters:
            path, columns, separator, zone, skew: See :meth:`load`.

        Returns:
            The log, and the quarantined rows.

        Raises:
            LogError: If no row can be read; the text names the file and the reason.
            OSError: If the file cannot be opened.
        """
        try:
            bits = list(read_log(path, columns, separator, zone))
        except LogError as error:
            raise LogError(f"{name_of(path)}: {error}") from None
        clean = CleanLog(lambda: bits, skew)
        clean.look(Nobody)
        log = cls(source_of(path), clean.rows(), clean.start_us, clean.cleaning, clean.tolerance)
        return log, clean.quarantine

    @classmethod
    def of(cls, run: Run) -> ClientLog:
        """Return the log that the clients of a simulated run would have recorded.

        >>> from qflow.workload import simulate
        >>> producer = Producer("p", ("", "q"), 10, 5, 100)
        >>> ClientLog.of(simulate(Workload("w", 1, {"q": {}}, producers=(producer,)))).rows[0].event
        'transfer'
        """
        return cls(run.workload.name, list(client_rows(run.events, run.workload.producers)))

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the columns by name, or a slice of their rows."""
        return columns_of(self.rows[start:end], LogRow._fields)

    def statistics(self, queue: str) -> list[QueueSample]:
        """Return the broker's reports on a queue, in order of time.

        Raises:
            LogError: If the log has no report on the queue, or an invalid one.
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
    """Return the rows of each client, in order, by the client's name."""
    by_client: dict[str, list[LogRow]] = {}
    for row in rows:
        by_client.setdefault(row.client, []).append(row)
    return by_client


def round_trips(rows: Sequence[LogRow]) -> list[tuple[int, int, int]]:
    """Return the time, number and round trip of each transfer that was its client's only outstanding one."""
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
            # Compared by label, as later transfers may complete first if a queue holds transfers.
            if row.label == alone:
                trips.append((since, sent, row.ts_us - since))
    return trips


# The player

_Row = LogRow | LakeRow
_Key = tuple[str, str]
"""A message on a queue: the name of the queue and the label of the message."""

_MOST_EARLY = 10_000
"""The largest number of remembered messages that the log delivers or settles before the engine does."""


@dataclass(slots=True)
class _Holder:
    """A delivery by the engine: its consumer, its number, and whether the log has shown it."""

    consumer: str
    number: int
    is_shown: bool


class LogPlayer:
    """A player that sends the recorded clients' commands to an engine, each at its recorded time."""

    __slots__ = (
        "workload", "broker", "errors", "rows", "_stage", "_observer", "_addresses", "_senders", "_sessions",
        "_consumers", "_joins", "_holders", "_owned", "_early", "_shown", "_arrived", "_ended",
        "_is_doubtful",
    )  # fmt: skip

    def __init__(
        self,
        workload: Workload,
        observer: Callable[[Event], None],
        state: dict[str, Any] | None = None,
        *,
        is_doubtful: bool = False,
    ) -> None:
        self.workload, self._observer, self._is_doubtful = workload, observer, is_doubtful
        self._addresses = {producer.name: producer.to for producer in workload.producers}
        self._senders = Senders(workload.producers)
        names = {producer.name: producer.session or producer.name for producer in workload.producers}
        self._consumers = {model.name: model for model in workload.consumers}
        self.errors: dict[str, AmqpException] = {}
        self._joins = sorted((round(m.start * SECOND), n) for n, m in enumerate(workload.consumers))
        # The engine's unsettled deliveries, by message on a queue.
        self._holders: dict[_Key, _Holder] = {}
        # The deliveries in each consumer's window, oldest first.
        self._owned: dict[str, dict[int, _Key]] = {name: {} for name in self._consumers}
        self._early: dict[_Key, str] = {}
        self._shown: dict[_Key, None] = {}
        self._arrived: list[tuple[_Key, str]] = []
        # The clients that know that their session has ended.
        self._ended: dict[str, None] = {}
        # The method for each event of a row.
        self.rows: dict[str, Callable[[_Row], None]] = {
            "transfer": self._transfer,
            "deliver": self._deliver,
            **dict.fromkeys(SETTLEMENTS, self._settle_delivery),
            "error": self._error,
            **dict.fromkeys(("block", "unblock"), self._note_window),
        }
        self._stage = Stage(workload, 0)
        if state is None:
            self.broker = self._stage.broker
            # The setup's events happened before the observer was set.
            for event in self._stage.events:
                observer(event)
            self.broker.observe(observer)
            made = {session: self.broker.session(session) for session in dict.fromkeys(names.values())}
            self._sessions = {name: made[session] for name, session in names.items()}
        else:
            self._continue(state)
            self._sessions = {name: self.broker.sessions[session] for name, session in names.items()}
            self.broker.observe(observer)

    # Rows

    def _transfer(self, row: _Row) -> None:
        self.pass_time(row.ts_us)
        client, label = row.client, row.label
        session = self._sessions[client]
        if client in self._ended:
            session = self._begin_again(session.name)
        if not session.is_attached:
            self._differs(row, "its session is dead")
            return
        exchange, key = self._addresses[client]
        try:
            session.message_transfer(make_message(key, label, row.size, row.group), exchange, sync=True)
        except SessionException as error:
            self._note_death(session, error)
        self._settle_arrived()

    def _deliver(self, row: _Row) -> None:
        self.pass_time(row.ts_us)
        if row.client in self._ended and row.client in self._consumers:
            self._join_again(row.client)
        key = (row.queue, row.label)
        holder = self._holders.get(key)
        if holder is not None:
            holder.is_shown = True
        else:
            self._shown[key] = None
            forget_oldest(self._shown, _MOST_EARLY)
            if self._is_doubtful:
                self._drop_ghost(row.client)

    def _error(self, row: _Row) -> None:
        self.pass_time(row.ts_us)
        client = row.client
        session = self._sessions.get(client) or self.broker.sessions.get(client)
        if session is not None:
            # The engine's own error is exact; the log's is text, which programs word differently.
            self._note_death(session, session.error or _error_of(row.label))
            session.close()
            self._ended |= dict.fromkeys(self._senders.on(session.name) or (client,))
            self._settle_arrived()

    def _note_window(self, row: _Row) -> None:
        self.pass_time(row.ts_us)
        self._observer(Event(self.broker.now, f"client.{row.event}", session=row.client))

    def pass_time(self, until: int) -> None:
        """Advance the broker's time, with the due subscriptions of consumers and timers of the broker."""
        broker = self.broker
        while self._joins or broker.timers.next_due is not None:
            due = broker.timers.next_due
            join = self._joins[0][0] if self._joins else None
            time = min(instant for instant in (due, join) if instant is not None)
            if time > until:
                break
            # Timers fire before consumers subscribe at the same instant.
            broker.advance(max(time, broker.now))
            if join == time:
                self._join(self.workload.consumers[self._joins.pop(0)[1]].name)
            self._settle_arrived()
        if until > broker.now:
            broker.advance(until)

    def finish(self, end: int) -> None:
        """Advance to the end of the log, and record the errors of the sessions that the engine ended."""
        self.pass_time(end)
        for session in self.broker.sessions.values():
            if session.error is not None:
                self._note_death(session, session.error)

    def _note_death(self, session: Session, error: AmqpException) -> None:
        for name in self._senders.on(session.name) or (session.name,):
            self.errors.setdefault(name, error)

    def dissolve(self) -> None:
        """Drop the cyclic references between engine and clients, so that memory is freed at once."""
        self._stage.dissolve()
        self.rows.clear()

    def _begin_again(self, name: str) -> Session:
        """Attach a new session with the same name, for all its producers."""
        session = self.broker.session(name)
        for producer in self._senders.on(name):
            self._sessions[producer] = session
            self._ended.pop(producer, None)
        return session

    # Consumers

    def _join_again(self, name: str) -> None:
        """Subscribe a consumer again, which has lost its earlier deliveries (MG-16)."""
        del self._ended[name]
        self._owned[name].clear()
        for key in [key for key, holder in self._holders.items() if holder.consumer == name]:
            del self._holders[key]
        self._join(name)
        self._settle_arrived()

    def _join(self, name: str) -> None:
        try:
            subscribe(self._consumers[name], self._stage, self._hook(name))
        except AmqpException as error:
            self.errors[name] = error

    def _hook(self, name: str) -> Callable[[DeliveryRecord], None]:
        queue = self._consumers[name].queue
        owned = self._owned[name]

        def on_delivery(record: DeliveryRecord) -> None:
            # The engine is in the middle of a command here, so a settlement must wait until its end.
            key = (queue, record.label)
            owned[record.id] = key
            verdict = self._early.pop(key, None)
            self._holders[key] = _Holder(name, record.id, self._shown.pop(key, False) is None)
            if verdict is not None:
                self._arrived.append((key, verdict))

        return on_delivery

    def _settle_arrived(self) -> None:
        while self._arrived:
            key, verdict = self._arrived.pop(0)
            holder = self._holders.pop(key, None)
            if holder is not None:
                self._settle(holder.consumer, holder.number, verdict)

    def _settle_delivery(self, row: _Row) -> None:
        self.pass_time(row.ts_us)
        key, verdict = (row.queue, row.label), row.event
        holder = self._holders.pop(key, None)
        if holder is None:
            self._early[key] = verdict
            forget_oldest(self._early, _MOST_EARLY)
            self._differs(row, "not delivered")
            self._drop_surplus(row.client)
        else:
            name = holder.consumer
            session = self.broker.sessions.get(name)
            if session is None or not session.is_attached:
                self._differs(row, "its session is dead")
            elif name != row.client:
                self._differs(row, f"delivered to {name}")
            self._settle(name, holder.number, verdict)
        self._settle_arrived()

    def _settle(self, name: str, number: int, verdict: str) -> None:
        self._owned[name].pop(number, None)
        session = self.broker.sessions.get(name)
        if session is None or not session.is_attached:
            return
        # In AMQP 0-10, a delivery leaves the window only when it is also completed (CN-10).
        if verdict != "complete":
            settle(session, verdict, number)
        settle(session, "complete", number)

    def _drop_surplus(self, name: str) -> None:
        holders = self._holders
        for number, key in self._owned[name].items():
            holder = holders.get(key)
            if holder is not None and not holder.is_shown:
                self._settle(name, number, "complete")
                return

    def _drop_ghost(self, name: str) -> None:
        """Accept the oldest delivery in a full window, as the log's next delivery shows there is credit."""
        consumer, owned = self._consumers.get(name), self._owned.get(name, {})
        if consumer is not None and len(owned) >= consumer.prefetch:
            number, key = next(iter(owned.items()))
            self._holders.pop(key, None)
            self._settle(name, number, "accept")
            self._settle_arrived()

    def _differs(self, row: _Row, engine: str) -> None:
        detail, now = {"logged": row.event, "engine": engine}, self.broker.now
        self._observer(Event(now, "client.differs", row.queue, row.client, "", row.label, 0, "", detail))

    # State

    def state(self) -> dict[str, Any]:
        """Return the player's state as a JSON value; only valid between rows."""
        return {
            "broker": self.broker.snapshot(),
            "errors": {name: error_text(error) for name, error in self.errors.items()},
            "joins": len(self._joins),
            "holders": [[*key, one.consumer, one.number, one.is_shown] for key, one in self._holders.items()],
            "owned": {
                name: [[number, *key] for number, key in owned.items()] for name, owned in self._owned.items()
            },
            "early": [[*key, verdict] for key, verdict in self._early.items()],
            "shown": [list(key) for key in self._shown],
            "ended": list(self._ended),
        }

    def rest_key(self) -> str:
        """Return the state that determines the engine's future as text, or "" if deliveries are unsettled."""
        if self._holders or self._early or self._shown or any(self._owned.values()):
            return ""
        state = self.state()
        # Statistics are left out, as they do not influence the future.  The order of waiting consumers,
        # credit, flow control states, groups, alarms, timers, settings and stores do, and are kept.
        parts = [
            [kind, "counts" if kind in ONLY_COUNT else fields]
            for kind, fields in state["broker"]["objects"][1:]
        ]
        return json.dumps([parts, state["joins"], state["errors"]], separators=(",", ":"))

    def _continue(self, state: dict[str, Any]) -> None:
        self.broker = self._stage.broker = Broker.restore(state["broker"])
        self.errors = {name: _error_of(text) for name, text in state["errors"].items()}
        # Consumers subscribe in a fixed order, so the number of those left identifies them.
        self._joins = self._joins[len(self._joins) - state["joins"] :]
        self._holders = {(queue, label): _Holder(*own) for queue, label, *own in state["holders"]}
        self._early = {(queue, label): verdict for queue, label, verdict in state["early"]}
        self._shown = dict.fromkeys((queue, label) for queue, label in state["shown"])
        self._ended = dict.fromkeys(state["ended"])
        for name, entries in state["owned"].items():
            self._owned[name] = {number: (queue, label) for number, queue, label in entries}
        for name in self._consumers:
            session = self.broker.sessions.get(name)
            if session is not None:
                session.consuming.on_delivery = self._hook(name)


def error_text(error: AmqpException) -> str:
    """Return the text for an exception in a log's ``error`` row."""
    return f"{error.code} {error.name}: {error.text}"


def _error_of(text: str) -> AmqpException:
    """Return the exception that the text of an ``error`` row describes."""
    title, _, words = text.partition(": ")
    for kind in vars(errors).values():
        is_refusal = isinstance(kind, type) and issubclass(kind, AmqpException)
        if is_refusal and f"{kind.code} {kind.name}" == title:
            refusal: AmqpException = kind(words)
            return refusal
    # A log may have any text; one that does not name an error of the broker is kept unchanged.
    return AmqpException(text)


def replay(log: ClientLog, workload: Workload, tell: Callable[[int], None] | None = None) -> Run:
    """Send a log's transfers, accepts, releases and rejects to the engine, each at its recorded time.

    The engine reconstructs what the broker did: which transfers were held and released, when queues turned ON
    and OFF, and where each message was.  The docstring of :mod:`qflow.logs.client_log` explains the rules
    that keep the engine close to the log.

    Parameters:
        log: The log.
        workload: The recorded workload, with the queues and the consumers' prefetch.
        tell: A function that is called now and then with the number of rows replayed; it may raise to stop.

    Returns:
        A run like a simulated one, whose ``end`` is the time of the log's last row.  A row of the log that
        the engine's clients cannot follow is an event ``client.differs``.

    Raises:
        LogError: If the log names a client that is not in the workload.
        AmqpException: If the broker refuses to declare a queue.

    >>> workload = Workload("small", 1, {"q": {}}, producers=(Producer("p", ("", "q"), 10, 5, 100),))
    >>> replay(ClientLog("small", [LogRow(7, "p", "transfer", "q", "p-1", 100, "")]), workload)
    Run('small', 11 events, 7 us)
    """
    _require_known(log, workload)
    events = EventTable()
    with pause_collector():
        player = LogPlayer(workload, events)
        for number, row in enumerate(log.rows):
            if tell is not None and not number % 1000:
                tell(number)
            action = player.rows.get(row.event)
            if action is not None:
                action(row)
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


# From a run to a log


class ClientSide:
    """An observer of events, which collects the rows that the clients of a run would record."""

    def __init__(self, producers: Iterable[Producer] = ()) -> None:
        self.rows: list[LogRow] = []
        self._senders = Senders(producers)
        self._commands: dict[tuple[str, int], str] = {}
        self._deliveries: dict[tuple[str, int], tuple[str, str]] = {}
        self._sizes: dict[tuple[str, str], tuple[int, str]] = {}
        self._sending = (0, "")

    def append(self, event: Event) -> None:
        """Add the rows that an event causes in the clients' logs."""
        kind, session = event.kind, event.session
        detail: Any = event.detail
        place = event.queue, event.message
        if kind == "enqueued":
            # Enqueued events follow their transfer, whose size and group they do not repeat.
            self._sizes[place] = self._sending
        elif kind == "dequeued":
            self._sizes.pop(place, None)
        elif kind == "message.transfer":
            message = detail["message"]
            self._sending = message.content_size, event.group or str((message.headers or {}).get("group", ""))
            self._commands[session, detail["command"]] = event.message
            self._note(event, "transfer", message.routing_key or event.link, event.message, *self._sending)
        elif kind == "completed":
            label = self._commands.pop((session, detail["command"]), None)
            if label is not None:
                self._note(event, "complete", "", label)
        elif kind == "delivered":
            self._deliveries[session, detail["delivery"]] = place
            self._note(event, "deliver", *place, *self._sizes.get(place, (0, event.group)))
        elif kind in ("message.accept", "message.release", "message.reject"):
            settled = [self._deliveries.pop((session, number), None) for number in detail["transfers"]]
            for place in filter(None, settled):
                self._note(event, kind.removeprefix("message."), *place)
        elif kind == "exception":
            words = f"{detail.get('code')} {detail.get('name')}: {detail.get('text')}"
            for client in self._senders.on(session) or (session,):
                self.rows.append(LogRow(event.time, client, "error", "", words, 0, ""))
        elif kind in ("client.block", "client.unblock"):
            self._note(event, kind.removeprefix("client."))

    def _note(
        self, event: Event, word: str, queue: str = "", label: str = "", size: int = 0, group: str = ""
    ) -> None:
        client = self._senders.of(event.session, label) or event.session
        self.rows.append(LogRow(event.time, client, word, queue, label, size, group))


def client_rows(events: Iterable[Event], producers: Iterable[Producer] = ()) -> Iterator[LogRow]:
    """Yield the rows that the clients of a run or a trace would record, from its events."""
    side = ClientSide(producers)
    for event in events:
        side.append(event)
        yield from side.rows
        side.rows.clear()
