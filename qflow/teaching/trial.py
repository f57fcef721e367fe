"""Trial: simple clients for chapters and exercises: a sender, a reader, and a table of observations.

They send the commands that chapter 1 sends one by one, and hide nothing else: refusals of the broker are
raised unchanged. :class:`Trial` is a broker with such clients, on which the exercises run their cases.
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
"""The application header that contains the group of a message in a :class:`Trial`."""

_recorded: ContextVar[list[Trace | Run] | None] = ContextVar(
    "the actions on the trials made meanwhile", default=None
)


@contextmanager
def record_trials() -> Iterator[list[Trace | Run]]:
    """Record the trials and the runs of :func:`simulate_case` in a block; yield a list to collect them."""
    seen: list[Trace | Run] = []
    token = _recorded.set(seen)
    try:
        yield seen
    finally:
        _recorded.reset(token)


def cache_judgement(judge: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """Return a function with a cache of its results, not used while :func:`record_trials` is recording."""
    kept = cache(judge)
    return lambda *given: (judge if _recorded.get() is not None else kept)(*given)


def simulate_case(workload: Workload, *, message_limit: int | None = None) -> Run:
    """Simulate a workload, and return the run, which is also passed to :func:`record_trials`."""
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
        queue: The routing key, which for the default exchange is the name of the queue.
        what: The number of messages; or their labels, as one text separated by spaces or as a list.
        size: The bytes that the broker counts for each message, including its header.
        header: An application header that is set to the part of the label before the first ``-``, such as a
            group; "" for no header.
        exchange: The exchange to send to; "" is the default exchange.
        priority: The priority of each message.
        sync: Whether to ask the broker to report each transfer as soon as it is complete (CM-05).

    Returns:
        The transfers, in order.

    Raises:
        ValueError: If the header alone is larger than `size` bytes.
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
        # Statistics count the encoded message with its header. Chapters use round sizes, so the content gets
        # the bytes that the header leaves.
        content = size - bare.encoded_size(exchange)
        message = Message(content, queue, headers, priority=priority, label=label)
        sent.append(session.message_transfer(message, exchange, sync))
    return sent


class Reader:
    """A consumer or browser of a queue, with a session of its own.

    Parameters:
        broker: The broker to connect to.
        name: The name of the session and of the subscription.
        queue: The name of the queue.
        prefetch: The most unsettled messages that it may hold; with 0, it gets one at each :meth:`fetch`.
        browse: Whether it only browses the messages, without acquiring them.
        selector: A condition on messages, in the syntax of SQL; "" for all messages.

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
            # In window mode, each settled message would restore credit for the next one without a fetch.
            self.session.message_set_flow_mode(name, 0)

    def _deliver(self, record: DeliveryRecord) -> None:
        # `got` marks redelivered messages by *, which is not part of the label by which they are settled.
        self.got.append(record.label + ("*" if record.redelivered else ""))
        self._held[record.label] = record

    @property
    def holds(self) -> list[str]:
        """The labels of the unsettled messages, sorted by the time of receipt."""
        return list(self._held)

    def fetch(self, number: int = 1) -> str | None:
        """Fetch messages one by one; return the label of the last one, or None if the last fetch got none."""
        before = len(self.got)
        for _ in range(number):
            before = len(self.got)
            self.session.fetch(self.name)
        return self.got[-1] if len(self.got) > before else None

    def accept(self, *labels: str) -> None:
        """Accept the messages with the given labels, or without labels all messages that it holds."""
        self._settle(self.session.message_accept, labels)

    def release(self, *labels: str) -> None:
        """Release the messages with the given labels, or without labels all messages that it holds."""
        self._settle(lambda ids: self.session.message_release(ids, set_redelivered=True), labels)

    def reject(self, *labels: str) -> None:
        """Reject the messages with the given labels, or without labels all messages that it holds."""
        self._settle(self.session.message_reject, labels)

    def take(self, number: int) -> None:
        """Fetch a number of messages one by one, and accept all that it holds after each."""
        for _ in range(number):
            self.fetch()
            self.accept()

    def close(self) -> None:
        """End the session, so that unsettled messages return to the queue."""
        self.session.close()
        self._held.clear()

    def _settle(self, command: Callable[[list[int]], None], labels: tuple[str, ...]) -> None:
        ids = [self._held.pop(label).id for label in labels or tuple(self._held)]
        command(ids)
        self.session.session_completed(ids)


class Diary(Table):
    """A table of observations, to which a row is added after each event.

    Parameters:
        caption: The title of the table.
        **columns: The columns by name; each value is a function that returns the current value.

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
        """Return a diary of a queue's depth and flow control state, and of its producers' held transfers.

        Parameters:
            broker: The broker with the queue.
            queue: The name of the queue.
            *producers: The sessions whose held transfers are counted.
            caption: The title of the table.
        """
        return cls(
            caption,
            messages=lambda: broker.queue(queue).statistics().msgDepth,
            bytes=lambda: broker.queue(queue).statistics().byteDepth,
            **{"flow control": lambda: "ON" if broker.queue(queue).statistics().flowStopped else "OFF"},
            held=lambda: sum(len(producer.held) for producer in producers),
        )

    def note(self, after: str) -> None:
        """Add a row: a description of the last event, and the current value of each column."""
        self.rows.append([after, *(read() for read in self._read)])


class Trial:
    """A new broker with an administrator and a producer, for one case of an exercise."""

    def __init__(self, options: BrokerOptions | None = None, store: MessageStore | None = None) -> None:
        self.broker = Broker(options or BrokerOptions(), store)
        seen = _recorded.get()
        if seen is not None:
            seen.append(record(self.broker))
        self.admin = self.broker.session("admin")
        self.producer = self.broker.session("producer")

    def declare(self, queue: str, **short: object) -> Trial:
        """Declare a queue with declare arguments whose names lack the prefix ``qpid.``; return the trial."""
        self.admin.queue_declare(queue, {f"qpid.{name}": value for name, value in short.items()})
        return self

    def declare_stop(self, queue: str, stop: int, resume: int | None = None, **short: object) -> Trial:
        """Declare a queue with thresholds in messages only, and other arguments as for :meth:`declare`."""
        levels = {"flow_stop_count": stop, "flow_stop_size": 0, "flow_resume_count": resume}
        given = {name: level for name, level in levels.items() if level is not None}
        return self.declare(queue, **given, **short)

    def refusal(self, queue: str, arguments: object) -> str:
        """Declare a queue with a learner's arguments; return a sentence with the error, or ""."""
        if not isinstance(arguments, Mapping):
            return f"the declare arguments must be a dict of keys and values, got {arguments!r}"
        try:
            self.admin.queue_declare(queue, arguments)
        except AmqpException as error:
            return f"the broker refuses it: {error.code} {error}"
        return ""

    def declare_groups(self, queue: str, **short: object) -> Trial:
        """Declare a queue with message groups, and other arguments as for :meth:`declare`."""
        return self.declare(queue, group_header_key=GROUP, shared_msg_group=1, **short)

    def groups(self, queue: str) -> list[dict[str, Any]]:
        """Return the management report on the groups of a queue: their names, messages and owners."""
        state: Any = self.broker.management.query("queue", queue)["qpid.message_group_queue"]
        found: list[dict[str, Any]] = state["group_state"]
        return found

    def code_of(self, command: Callable[[], object]) -> int:
        """Call a command; return the error code if the broker refuses it, or else 0."""
        try:
            command()
        except AmqpException as error:
            return error.code
        return 0

    def send(
        self, queue: str, what: int | Iterable[str] = 1, *, by: Session | None = None, **named: Any
    ) -> list[Transfer]:
        """Send messages from the producer, or from another session; see :func:`send`."""
        # In a lab, the reader should see completions arrive, so a report has to be requested for them.
        return send(by or self.producer, queue, what, sync=_recorded.get() is not None, **named)

    def reader(self, queue: str, name: str = "consumer", prefetch: int = 0) -> Reader:
        """Return a new consumer of a queue; with a prefetch of 0, it gets one message at each fetch."""
        return Reader(self.broker, name, queue, prefetch)

    def statistics(self, queue: str) -> QueueStatistics:
        """Return the statistics of a queue, which have their QMF names."""
        return self.broker.queue(queue).statistics()

    def depth(self, queue: str) -> int:
        """Return the depth of a queue in messages, including acquired ones."""
        return self.statistics(queue).msgDepth

    def is_on(self, queue: str) -> bool:
        """Return whether flow control of a queue is ON."""
        return self.statistics(queue).flowStopped

    def state(self, queue: str) -> str:
        """Return the flow control state of a queue, ``"ON"`` or ``"OFF"``."""
        return "ON" if self.is_on(queue) else "OFF"

    def turns(self, queue: str, most: int | None = None) -> tuple[int, int]:
        """Fill a queue until ON and drain it until OFF; return both depths, or (0, 0) if never ON."""
        while not self.is_on(queue):
            if most is not None and self.depth(queue) >= most:
                return 0, 0
            self.send(queue)
        # Both depths are measured on the engine, and not computed from the thresholds.
        on, reader = self.depth(queue), self.reader(queue)
        while self.is_on(queue):
            reader.take(1)
        return on, self.depth(queue)

    def exists(self, queue: str) -> bool:
        """Return whether there is a queue of that name."""
        return self.admin.queue_query(queue).queue == queue

    def left(self, queue: str) -> list[str]:
        """Return the labels of the messages on a queue, sorted as a new browser gets them."""
        # A browser acquires nothing, so that reading does not change the queue.
        browser = Reader(self.broker, "a fresh browser", queue, prefetch=1000, browse=True)
        seen = [label.rstrip("*") for label in browser.got]
        browser.close()
        return seen


def fill_groups(labels: str | Iterable[str]) -> Trial:
    """Return a trial whose grouped queue ``q`` holds the labelled messages; ``A-1`` belongs to group A."""
    trial = Trial().declare_groups("q")
    trial.send("q", labels, header=GROUP)
    return trial
