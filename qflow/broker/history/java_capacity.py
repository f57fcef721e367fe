"""The Java broker's flow control: the channel is told to stop, nothing is withheld (ALT-12).

A queue is *overfull* when its bytes exceed its capacity.  Whoever sends to an overfull queue is
told to stop sending, on the whole session and at once; the message itself is taken.  The session
may go on when every queue that stopped it is down to its resume capacity.
"""

from __future__ import annotations

from qflow.broker.context import BrokerContext
from qflow.broker.errors import IllegalArgumentException
from qflow.broker.flow_state import FlowState
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.transfer import CommandOwner


class JavaCapacity(FlowState):
    """One queue's capacity and resume capacity, in bytes; there are no message counts.

    Parameters
    ----------
    capacity : int
        More bytes than this make the queue overfull; 0 is no limit.
    resume_capacity : int
        At this many bytes or fewer it is underfull again (the source says <=, the documents < :
        X-29).

    Raises
    ------
    IllegalArgumentException
        If the resume capacity is above the capacity.
    """

    __slots__ = ("capacity", "resume_capacity", "blocked")

    def __init__(self, context: BrokerContext, queue: str, capacity: int, resume_capacity: int) -> None:
        super().__init__(context, queue)
        if resume_capacity > capacity:
            raise IllegalArgumentException(
                f"flowResumeCapacity={resume_capacity} must not be above capacity={capacity}"
            )
        self.capacity = capacity
        self.resume_capacity = resume_capacity
        self.blocked: list[CommandOwner] = []

    def enqueued(self, message: QueuedMessage) -> None:
        """Count the message; if that makes or finds the queue overfull, stop its sender."""
        self.add(message)
        if not self.capacity or self.size <= self.capacity:
            return
        if not self.stopped:
            self.turn_on()
        sender = message.transfer.owner
        if sender is not None and sender not in self.blocked:
            self.blocked.append(sender)
            sender.block_channel(self.queue)

    def dequeued(self, message: QueuedMessage) -> None:
        """Un-count the message; if the queue is underfull now, let its senders go on."""
        self.subtract(message)
        if self.stopped and self.size <= self.resume_capacity:
            self.turn_off()
            blocked, self.blocked = self.blocked, []
            for sender in blocked:
                sender.unblock_channel(self.queue)
