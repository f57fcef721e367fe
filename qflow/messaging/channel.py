"""Channel: a session's attachment to the broker, and what its client has been told on it.

Who withholds the completions that a client waits for, and what would free them (FC-15, FC-16).

The words of the exceptions that stand in for waits without end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, ParamSpec, TypeVar

from qflow.broker import Broker, Session
from qflow.broker import Message as BrokerMessage
from qflow.broker.completions import RangeSet
from qflow.broker.consuming import OnDelivery
from qflow.broker.flow_limit import FlowThresholds
from qflow.messaging.exceptions import FetchWouldBlock, SendWouldBlock, SyncWouldBlock
from qflow.messaging.hosts import Host


class Holds(NamedTuple):
    """The held transfers of a session, the queues (or the store) that hold them, and all in words."""

    labels: tuple[str, ...]
    holders: tuple[str, ...]
    text: str


def find_holds(broker: Broker, session: Session) -> Holds:
    """Describe what is held of a session's transfers.

    Examples
    --------
    >>> from qflow.broker import Message
    >>> broker = Broker()
    >>> session = broker.session("p")
    >>> limits = {"qpid.flow_stop_count": 1, "qpid.max_size": 0}
    >>> session.queue_declare("orders", limits)
    >>> for _ in range(2):
    ...     last = session.message_transfer(Message(10, routing_key="orders"))
    >>> print(find_holds(broker, session).text)
    p-2 is held by queue 'orders' (flow control ON at 2 messages; OFF below 1)
    """
    held = session.held
    labels = tuple(transfer.label for transfer in held)
    holders = tuple(dict.fromkeys(holder for transfer in held for holder in transfer.held_by))
    if not held:
        return Holds((), (), "nothing is held")
    verb = "is" if len(labels) == 1 else "are"
    by = " and ".join(_describe(broker, holder) for holder in holders)
    return Holds(labels, holders, f"{_shorten(labels)} {verb} held by {by}")


def _describe(broker: Broker, holder: str) -> str:
    queue = broker.queues.queues.get(holder)
    if queue is None:
        return f"the {holder}"
    # Historic variants of flow control have levels of other kinds (ALT-05, ALT-07).
    resume: FlowThresholds | None = getattr(queue.flow_limit, "thresholds", None)
    if resume is None:
        return f"queue {holder!r}"
    depth, limits = _messages(queue.message_depth), []
    if resume.resume_count:
        limits.append(f"{resume.resume_count}")
    if resume.resume_size:
        depth += f", {queue.byte_depth} bytes"
        limits.append(f"{resume.resume_size} bytes")
    return f"queue {holder!r} (flow control ON at {depth}; OFF below {' and '.join(limits)})"


def _messages(count: int) -> str:
    return f"{count} message" if count == 1 else f"{count} messages"


def _shorten(labels: tuple[str, ...]) -> str:
    if len(labels) > 6:
        return f"{', '.join(labels[:3])} … {labels[-1]} ({len(labels)} transfers)"
    return " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))


Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Channel:
    """Gives commands to one engine session, and hears its reports.

    Parameters
    ----------
    host : Host
        The broker.
    name, connection : str
        Names of the session and of its connection there.
    on_delivery : callable
        Called with each delivery, in the middle of any command of any client.
    """

    def __init__(self, host: Host, name: str, connection: str, on_delivery: OnDelivery) -> None:
        self.host = host
        self.engine = host.broker.session(name, connection)
        self.engine.completions.on_report = self._hear
        self.engine.consuming.on_delivery = on_delivery
        self._reported = RangeSet()
        self._synced_at = -1

    def _hear(self, completed: RangeSet) -> None:
        self._reported = completed

    @property
    def reported(self) -> RangeSet:
        """Commands of which the client knows that they are complete."""
        if self.host.broker.reporters:
            # A store finished something between two commands (CM-12); its report is on the way.
            self.host.broker.quiesce()
        return self._reported

    @property
    def next_number(self) -> int:
        """The number of the next command."""
        return self.engine.completions.next_number

    def run(
        self, method: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Give a command whose completion the client wants to know of, as the real client does.

        Raises
        ------
        AmqpException
            The broker's refusal; the session is gone then.
        """
        self.engine.completions.report_when_complete(self.next_number)
        return self.control(method, *args, **kwargs)

    def control(
        self, method: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Give a command or a control that asks for no report by itself."""
        self.host.begin()
        try:
            return method(*args, **kwargs)
        finally:
            self.host.events.publish()

    def transfer(self, message: BrokerMessage, exchange: str, sync: bool) -> int:
        """Send a message; return the number of the transfer."""
        number = self.next_number
        self.control(self.engine.message_transfer, message, exchange, sync)
        return number

    def sync(self, number: int) -> None:
        """Ask to be told when a command and all before it are complete, unless asked already (CM-06)."""
        if number > self._synced_at:
            self._synced_at = self.next_number
            self.control(self.engine.execution_sync)

    def is_confirmed(self, number: int) -> bool:
        """Return whether a command and all those before it are known to be complete (CM-14)."""
        ranges = self.reported.ranges()
        return bool(ranges) and ranges[0][0] == 0 and number <= ranges[0][1]

    def wait(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Wait in told time, until it is so or the session is gone."""
        self.host.wait(lambda: is_done() or not self.engine.is_attached, timeout)
        return is_done()

    def holds(self) -> Holds:
        """Describe the transfers whose completion is withheld."""
        return find_holds(self.host.broker, self.engine)


_ALONE = "nobody else can act in this process meanwhile; pass a timeout to let told time pass instead"


def fetch_blocks(broker: Broker, queues: Iterable[str]) -> FetchWouldBlock:
    """Say why no message can come to a receiver (or, for several queues, to any of a session's)."""
    seen = "; ".join(_describe_wait(broker, queue) for queue in queues) or "no receiver has a capacity"
    return FetchWouldBlock(f"would wait for ever for a message: {seen}; {_ALONE}")


def send_blocks(capacity: int | None, holds: Holds) -> SendWouldBlock:
    """Say who holds what a full window waits for."""
    text = f"capacity = {capacity}: the window is full, and {holds.text}; {_ALONE}"
    return SendWouldBlock(text, holds.labels, holds.holders)


def sync_blocks(what: str, holds: Holds) -> SyncWouldBlock:
    """Say who holds what a sync waits for."""
    text = f"{what} would wait for ever: {holds.text}, so nothing after that is known complete; {_ALONE}"
    return SyncWouldBlock(text, holds.labels, holds.holders)


def _describe_wait(broker: Broker, name: str) -> str:
    queue = broker.queues.queues.get(name)
    if queue is None:
        return f"queue {name!r} is gone"
    depth, available = queue.message_depth, queue.message_count
    if not depth:
        return f"queue {name!r} is empty"
    if not available:
        return f"all {depth} on queue {name!r} are acquired"
    owned = [] if queue.groups is None else [g for g in queue.groups.state() if g["consumer"]]
    owners = ", ".join(f"{group['group_id']} by {group['consumer']}" for group in owned)
    groups = f" (groups owned: {owners})" if owners else ""
    return f"{available} of {depth} on queue {name!r} are available, but not to this receiver{groups}"
