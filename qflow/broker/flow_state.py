"""FlowState: what every kind of flow control has in common: count, compare, remember, tell."""

from __future__ import annotations

from typing import Final

from qflow.broker.context import BrokerContext
from qflow.broker.observers import QueueObserver
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.transfer import Transfer

_HOLD: Final[tuple[str, ...]] = ("command",)


class FlowState(QueueObserver):
    """Counts what is on a queue, and is ON or OFF.

    Parameters
    ----------
    context : BrokerContext
        Where events go.
    queue : str
        Name of the queue it watches.

    Attributes
    ----------
    count, size : int
        Messages and bytes on the queue, acquired ones included (DQ-02).
    stopped, stopped_count : bool, int
        ``flowStopped`` and ``flowStoppedCount`` (CM-15).
    """

    __slots__ = ("context", "queue", "count", "size", "stopped", "stopped_count")

    def __init__(self, context: BrokerContext, queue: str) -> None:
        self.context = context
        self.queue = queue
        self.count = 0
        self.size = 0
        self.stopped = False
        self.stopped_count = 0

    def add(self, message: QueuedMessage) -> None:
        """Count a message that came."""
        self.count += 1
        self.size += message.transfer.size

    def subtract(self, message: QueuedMessage) -> None:
        """Count a message that went."""
        self.count -= 1
        self.size -= message.transfer.size

    def turn_on(self) -> None:
        """Go ON, which is counted (FC-19)."""
        self.stopped = True
        self.stopped_count += 1
        self._emit_state("flow_stopped")

    def turn_off(self) -> None:
        """Go OFF."""
        self.stopped = False
        self._emit_state("flow_resumed")

    def hold(self, transfer: Transfer) -> None:
        """Withhold a transfer's completion, unless it is complete already (FC-22)."""
        if transfer.hold(self.queue):
            self._emit_hold("held", transfer)

    def let_go(self, transfer: Transfer) -> None:
        """End a hold of this queue, if there is one."""
        if self.queue in transfer.held_by:
            self._emit_hold("let_go", transfer)
            transfer.let_go(self.queue)

    def _emit_hold(self, kind: str, transfer: Transfer) -> None:
        if self.context.observer is not None:
            self.context.tell(
                kind,
                self.queue,
                transfer.origin,
                message=transfer.label,
                size=transfer.size,
                names=_HOLD,
                values=(transfer.number,),
            )

    def _emit_state(self, kind: str) -> None:
        if self.context.observer is not None:
            self.context.emit(kind, self.queue, detail={"count": self.count, "size": self.size})
