"""Trial: short clients for chapters and exercises: a sender, a reader, and a diary of the events.

They give the commands that chapter 1 gives by hand, and hide nothing else: every refusal of the broker comes
through as it is. :class:`Trial` is a broker with such clients, on which every exercise tries its cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

from qflow.broker import (
    BYTE_UNIT,
    INFINITE,
    MESSAGE_UNIT,
    NOT_ACQUIRED,
    PRE_ACQUIRED,
    Broker,
    BrokerOptions,
    Message,
    MessageStore,
    Session,
)
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import AmqpException
from qflow.broker.message import HeaderValue, Transfer
from qflow.broker.statistics import QueueStatistics
from qflow.table import Table
from qflow.trace.replaying import record
from qflow.trace.schema import Trace
from qflow.workload import Run, Workload, simulate

Outcome = TypeVar("Outcome")

GROUP = "group"
"""The application header that names a message's group on a :class:`Trial`."""

_recorded: ContextVar[list[Trace | Run] | None] = ContextVar(
    "the actions on the trials made meanwhile", default=None
)


@contextmanager
def record_trials() -> Iterator[list[Trace | Run]]:
    """Record the actions of every trial and :func:`simulate_case` during a block, in order."""
    seen: list[Trace | Run] = []
    token = _recorded.set(seen)
    try:
        yield seen
    finally:
        _recorded.reset(token)


def cache_judgement(judge: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Cache a function's results by argument, except while :func:`record_trials` is recording."""
    kept = cache(judge)
    return lambda *given: (judge if _recorded.get() is not None else kept)(*given)


def simulate_case(workload: Workload, *, message_limit: int | None = None) -> Run:
    """Simulate a workload as :func:`qflow.workload.simulate` does; :func:`record_trials` keeps the run."""
    run = simulate(workload, message_limit=message_limit)
    seen = _recorded.get()
    if seen is not None:
        seen.append(run)
    return run


def send(
    session: Session,
    queue: str,
    what: int | str | Iterable[str] = 1,
    *,
    size: int = 100,
    header: str = "",
    exchange: str = "",
    priority: int | None = None,
    sync: bool = False,
) -> list[Transfer]:
    """Send messages to a queue, one after the other.

    Parameters:
        session: The session that sends.
        queue: The routing key, which for the default exchange is the queue's name.
        what: A number of messages; or labels, as one text with spaces between or as a list.
        size: Bytes the broker shall count for each, its header included.
        header: Application header that gets the part of the label before the first ``-``, such as a group.
        exchange: Where to send; "" is the default exchange.
        priority: The priority of each message.
        sync: Whether to ask for a report as soon as each transfer is complete (CM-05).

    Raises:
        ValueError: If the header alone is larger than `size`.
        SessionException: As :meth:`qflow.broker.Session.message_transfer` does.

    >>> broker = Broker()
    >>> session = broker.session("p")
    >>> session.queue_declare("q")
    >>> [transfer.label for transfer in send(session, "q", "A-1 B-1")]
    ['A-1', 'B-1']
    >>> broker.queue("q").statistics().byteDepth
    200
    """
    labels = [""] * what if isinstance(what, int) else what.split() if isinstance(what, str) else list(what)
    sent = []
    for label in labels:
        headers: dict[str, HeaderValue] | None = {header: label.partition("-")[0]} if header else None
        bare = Message(routing_key=queue, headers=headers, priority=priority)
        # Statistics count the encoded message with its header: chapters speak of round sizes, so the content
        # is what remains.
        content = size - bare.encoded_size(exchange)
        message = Message(content, queue, headers, priority=priority, label=label)
        sent.append(session.message_transfer(message, exchange, sync))
    return sent


class Reader:
    """A consumer or browser with its own session.

    Parameters:
        broker: Where it reads.
        name: The name of its session and of its subscription.
        queue: The queue it reads.
        prefetch: Messages it may hold unsettled; 0 for one at each :meth:`fetch`.
        browse: Whether it only looks.
        selector: A condition on messages, as in SQL; "" for all.

    >>> broker = Broker()
    >>> session = broker.session("p")
    >>> session.queue_declare("q")
    >>> sent = send(session, "q", "a b c")
    >>> reader = Reader(broker, "c", "q", prefetch=2)
    >>> reader.got
    ['a', 'b']
    >>> reader.accept("a")
    >>> reader.got, reader.holds
    (['a', 'b', 'c'], ['b', 'c'])
    """

    def __init__(
        self,
        broker: Broker,
        name: str,
        queue: str,
        prefetch: int = 0,
        *,
        browse: bool = False,
        selector: str = "",
    ) -> None:
        self.name = name
        self.session = broker.session(name)
        self.got: list[str] = []
        self._held: dict[str, DeliveryRecord] = {}
        self.session.consuming.on_delivery = self._deliver
        self.session.message_subscribe(
            queue,
            name,
            acquire_mode=NOT_ACQUIRED if browse else PRE_ACQUIRED,
            arguments={"x-apache-selector": selector} if selector else None,
        )
        if prefetch:
            self.session.message_flow(name, BYTE_UNIT, INFINITE)
            self.session.message_flow(name, MESSAGE_UNIT, prefetch)
        else:
            # In credit mode: in window mode each settled message would grant the next without a fetch.
            self.session.message_set_flow_mode(name, 0)

    def _deliver(self, record: DeliveryRecord) -> None:
        # The mark stays in what was received; a message is settled by its label without it.
        self.got.append(record.label + ("*" if record.redelivered else ""))
        self._held[record.label] = record

    @property
    def holds(self) -> list[str]:
        """Labels of its unsettled messages, in the order received."""
        return list(self._held)

    def fetch(self, number: int = 1) -> str | None:
        """Fetch messages one by one; return the last one's label, or None without a message."""
        before = len(self.got)
        for _ in range(number):
            before = len(self.got)
            self.session.fetch(self.name)
        return self.got[-1] if len(self.got) > before else None

    def accept(self, *labels: str) -> None:
        """Accept messages by label; without a label all that it holds."""
        self._settle(self.session.message_accept, labels)

    def release(self, *labels: str) -> None:
        """Release messages by label; without a label all that it holds."""
        self._settle(lambda ids: self.session.message_release(ids, set_redelivered=True), labels)

    def reject(self, *labels: str) -> None:
        """Reject messages by label; without a label all that it holds."""
        self._settle(self.session.message_reject, labels)

    def take(self, number: int) -> None:
        """Fetch and accept a number of messages."""
        for _ in range(number):
            self.fetch()
            self.accept()

    def close(self) -> None:
        """End the session: unsettled messages return to the queue."""
        self.session.close()
        self._held.clear()

    def _settle(self, command: Callable[[list[int]], None], labels: tuple[str, ...]) -> None:
        ids = [self._held.pop(label).id for label in labels or tuple(self._held)]
        command(ids)
        self.session.session_completed(ids)


class Diary(Table):
    """A table that is written line by line as things happen.

    Parameters:
        caption: Its title.
        columns: Column name to a function that reads the value of the moment.

    >>> level = []
    >>> diary = Diary("a level", depth=lambda: len(level))
    >>> diary.note("at first")
    >>> level.append("drop"); diary.note("a drop later")
    >>> diary
    a level
    after         depth
    at first          0
    a drop later      1
    """

    def __init__(self, caption: str = "", **columns: Callable[[], object]) -> None:
        super().__init__((), ["after", *columns], caption)
        self._read = columns.values()

    @classmethod
    def of_queue(cls, broker: Broker, queue: str, *producers: Session, caption: str = "") -> Diary:
        """Return a diary of a queue's depth and flow control, and of its producers' held transfers."""
        return cls(
            caption,
            messages=lambda: broker.queue(queue).statistics().msgDepth,
            bytes=lambda: broker.queue(queue).statistics().byteDepth,
            **{"flow control": lambda: "ON" if broker.queue(queue).statistics().flowStopped else "OFF"},
            held=lambda: sum(len(producer.held) for producer in producers),
        )

    def note(self, after: str) -> None:
        """Write one line: the event, and the present value of each column."""
        self.rows.append([after, *(read() for read in self._read)])


class Trial:
    """A broker with one producer, for a case of an exercise."""

    def __init__(self, options: BrokerOptions | None = None, store: MessageStore | None = None) -> None:
        self.broker = Broker(options or BrokerOptions(), store)
        seen = _recorded.get()
        if seen is not None:
            seen.append(record(self.broker))
        self.admin = self.broker.session("admin")
        self.producer = self.broker.session("producer")

    def declare(self, queue: str, **short: object) -> Trial:
        """Declare a queue; keywords are declare arguments without ``qpid.``; return the trial."""
        self.admin.queue_declare(queue, {f"qpid.{name}": value for name, value in short.items()})
        return self

    def declare_stop(self, queue: str, stop: int, resume: int | None = None, **short: object) -> Trial:
        """Declare a queue with a stop threshold in messages only, as :meth:`declare` does."""
        levels = {"flow_stop_count": stop, "flow_stop_size": 0, "flow_resume_count": resume}
        given = {name: level for name, level in levels.items() if level is not None}
        return self.declare(queue, **given, **short)

    def refusal(self, queue: str, arguments: object) -> str:
        """Declare a queue with a learner's arguments; return the error, or ""."""
        if not isinstance(arguments, Mapping):
            return f"the declare arguments must be a dict of keys and values, got {arguments!r}"
        try:
            self.admin.queue_declare(queue, arguments)
        except AmqpException as error:
            return f"the broker refuses it: {error.code} {error}"
        return ""

    def declare_groups(self, queue: str, **short: object) -> Trial:
        """Declare a queue with message groups, as :meth:`declare` does."""
        return self.declare(queue, group_header_key=GROUP, shared_msg_group=1, **short)

    def groups(self, queue: str) -> list[dict[str, Any]]:
        """Return management's report of a queue's groups: their names, messages and owners."""
        state: Any = self.broker.management.query("queue", queue)["qpid.message_group_queue"]
        found: list[dict[str, Any]] = state["group_state"]
        return found

    def code_of(self, command: Callable[[], object]) -> int:
        """Perform a command; return the code of the broker's refusal, or 0."""
        try:
            command()
        except AmqpException as error:
            return error.code
        return 0

    def send(
        self, queue: str, what: int | Iterable[str] = 1, *, by: Session | None = None, **named: Any
    ) -> list[Transfer]:
        """Send messages from the producer, or from another session; see :func:`send`."""
        # In a lab the reader sees completions arrive; without a report no client hears of them.
        return send(by or self.producer, queue, what, sync=_recorded.get() is not None, **named)

    def reader(self, queue: str, name: str = "consumer", prefetch: int = 0) -> Reader:
        """Attach a consumer with its own session; prefetch 0 means one message at each fetch."""
        return Reader(self.broker, name, queue, prefetch)

    def statistics(self, queue: str) -> QueueStatistics:
        """Return a queue's statistics, by their QMF names."""
        return self.broker.queue(queue).statistics()

    def depth(self, queue: str) -> int:
        """Return the number of messages that count towards a queue's depth."""
        return self.statistics(queue).msgDepth

    def is_on(self, queue: str) -> bool:
        """Return whether a queue's flow control is ON."""
        return self.statistics(queue).flowStopped

    def state(self, queue: str) -> str:
        """Return the state of a queue's flow control, ``"ON"`` or ``"OFF"``."""
        return "ON" if self.is_on(queue) else "OFF"

    def turns(self, queue: str, most: int | None = None) -> tuple[int, int]:
        """Fill a queue until it turns ON and drain it until OFF; return both depths, (0, 0) if never ON."""
        while not self.is_on(queue):
            if most is not None and self.depth(queue) >= most:
                return 0, 0
            self.send(queue)
        # Both depths are measured on the engine, not computed from thresholds.
        on, reader = self.depth(queue), self.reader(queue)
        while self.is_on(queue):
            reader.take(1)
        return on, self.depth(queue)

    def exists(self, queue: str) -> bool:
        """Return whether a queue of that name exists."""
        return self.admin.queue_query(queue).queue == queue

    def left(self, queue: str) -> list[str]:
        """Return the labels of the messages a fresh browser sees, in reading order."""
        # It acquires nothing, so the question does not change what it asks about.
        browser = Reader(self.broker, "a fresh browser", queue, prefetch=1000, browse=True)
        seen = [label.rstrip("*") for label in browser.got]
        browser.close()
        return seen


def fill_groups(labels: str | Iterable[str]) -> Trial:
    """Return a trial whose queue ``q`` has groups and holds these messages; ``A-1`` is of group A."""
    trial = Trial().declare_groups("q")
    trial.send("q", labels, header=GROUP)
    return trial
