"""Replay a client log through the engine, which so fills in what no client could see."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from qflow.broker import errors
from qflow.broker.delivery import DeliveryRecord
from qflow.broker.errors import AmqpException, SessionDetached, SessionException
from qflow.broker.session import Session
from qflow.trace.log_rows import LogError, LogRow
from qflow.workload.agenda import SECOND, SETTLE, SUBSCRIBE
from qflow.workload.clients import Consumer
from qflow.workload.consumer import subscribe
from qflow.workload.model import Workload
from qflow.workload.run import Run
from qflow.workload.stage import Stage, make_message, uncollected

if TYPE_CHECKING:
    from qflow.trace.client_log import ClientLog


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
