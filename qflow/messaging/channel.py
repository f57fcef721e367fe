"""Channel: a session's attachment to the broker, what its client knows is complete, and what it waits for.

A command runs to its end within the call.  What may come later is its *completion*: a queue whose flow
control is ON withholds that of a transfer (FC-15, FC-16), and the broker reports completions only when it is
asked to: by the sync flag of a command, or by ``execution.sync`` (CM-05, CM-06).  A client that waits for one
waits in virtual time.  Where nothing in this process can end the wait, the exceptions made here name who
withholds the completion, and at which depth it would come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, ParamSpec, TypeVar

from qflow.broker import Broker
from qflow.broker.completions import RangeSet
from qflow.broker.consuming import OnDelivery
from qflow.broker.flow_limit import FlowThresholds
from qflow.messaging.exceptions import FetchWouldBlock, SendWouldBlock, SyncWouldBlock
from qflow.messaging.hosts import Host

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Holds(NamedTuple):
    """The held transfers of a session, the queues (or the store) that hold them, and all in words."""

    labels: tuple[str, ...]
    holders: tuple[str, ...]
    text: str


class Channel:
    """Gives commands to one session of the engine, and keeps what the broker reports complete.

    Parameters
    ----------
    host : Host
        The broker.
    name, connection : str
        Names of the session and of its connection at the broker.
    on_delivery : callable
        Called with each delivery, in the middle of any command of any client.
    """

    def __init__(self, host: Host, name: str, connection: str, on_delivery: OnDelivery) -> None:
        self.host = host
        self.engine = host.broker.session(name, connection)
        self.engine.completions.on_report = self._on_report
        self.engine.consuming.on_delivery = on_delivery
        self._reported = RangeSet()
        self._synced_at = -1

    def _on_report(self, completed: RangeSet) -> None:
        self._reported = completed

    @property
    def reported(self) -> RangeSet:
        """Commands of which the client knows that they are complete."""
        if self.host.broker.reporters:
            # A store finished something between two commands (CM-12); its report is on the way.
            self.host.broker.scheduler.quiesce()
        return self._reported

    @property
    def next_number(self) -> int:
        """The number of the next command."""
        return self.engine.completions.next_number

    def run(
        self, method: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Give a command, and have its completion reported, as the real client does.

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
            self.host.publish_events()

    def sync(self, number: int) -> None:
        """Have it reported when a command and all before it are complete, unless asked already (CM-06)."""
        if number > self._synced_at:
            self._synced_at = self.next_number
            self.control(self.engine.execution_sync)

    def is_confirmed(self, number: int) -> bool:
        """Return whether a command and all those before it are known to be complete (CM-14)."""
        ranges = self.reported.ranges()
        return bool(ranges) and ranges[0][0] == 0 and number <= ranges[0][1]

    def wait(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Wait in virtual time until a condition holds or the session is gone; return whether it holds."""
        self.host.wait(lambda: is_done() or not self.engine.is_attached, timeout)
        return is_done()

    def holds(self) -> Holds:
        """Return the transfers whose completion is withheld, and who withholds it."""
        held = self.engine.held
        labels = tuple(transfer.label for transfer in held)
        holders = tuple(dict.fromkeys(holder for transfer in held for holder in transfer.held_by))
        if not held:
            return Holds((), (), "nothing is held")
        verb = "is" if len(labels) == 1 else "are"
        by = " and ".join(_describe_holder(self.host.broker, holder) for holder in holders)
        return Holds(labels, holders, f"{_shorten(labels)} {verb} held by {by}")


def _describe_holder(broker: Broker, holder: str) -> str:
    queue = broker.queues.queues.get(holder)
    if queue is None:
        return f"the {holder}"
    # Historic variants of flow control have levels of other kinds (ALT-05, ALT-07).
    resume: FlowThresholds | None = getattr(queue.flow_limit, "thresholds", None)
    if resume is None:
        return f"queue {holder!r}"
    depth, limits = f"{queue.message_depth} message{'s' * (queue.message_depth != 1)}", []
    if resume.resume_count:
        limits.append(f"{resume.resume_count}")
    if resume.resume_size:
        depth += f", {queue.byte_depth} bytes"
        limits.append(f"{resume.resume_size} bytes")
    return f"queue {holder!r} (flow control ON at {depth}; OFF below {' and '.join(limits)})"


def _shorten(labels: tuple[str, ...]) -> str:
    if len(labels) > 6:
        return f"{', '.join(labels[:3])} … {labels[-1]} ({len(labels)} transfers)"
    return " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))


# The exceptions that replace waits without end

_ALONE = "no other client can act in this process meanwhile; pass a timeout to let virtual time pass instead"


def fetch_blocks(broker: Broker, queues: Iterable[str]) -> FetchWouldBlock:
    """Return the exception for a wait for a message that cannot come from any of the queues."""
    seen = "; ".join(_describe_queue(broker, queue) for queue in queues) or "no receiver has a capacity"
    return FetchWouldBlock(f"would wait for ever for a message: {seen}; {_ALONE}")


def send_blocks(capacity: int | None, holds: Holds) -> SendWouldBlock:
    """Return the exception for a wait for room in a full window."""
    text = f"capacity = {capacity}: the window is full, and {holds.text}; {_ALONE}"
    return SendWouldBlock(text, holds.labels, holds.holders)


def sync_blocks(what: str, holds: Holds) -> SyncWouldBlock:
    """Return the exception for a wait for completions."""
    text = f"{what} would wait for ever: {holds.text}, so nothing after that is known complete; {_ALONE}"
    return SyncWouldBlock(text, holds.labels, holds.holders)


def _describe_queue(broker: Broker, name: str) -> str:
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
