"""DeliveryRecord: what the broker remembers of a message it has sent to a subscription (RF-03)."""

from __future__ import annotations

from qflow.broker.queue import Queue
from qflow.broker.queued_message import ACQUIRED, QueuedMessage
from qflow.broker.restorable import Restorable


class DeliveryRecord(Restorable):
    """One delivery, from the moment it is made until it is of no more use to anybody.

    *Ended* means that nothing more can be done with the message through this record; *redundant*
    that the record itself can go, which in window mode needs the client's completion as well.

    Parameters
    ----------
    id : int
        Number of the command that carried the message, per session.
    message, queue
        What was delivered, and from where.
    tag : str
        The subscription's name.
    is_acquired : bool
        Whether the message belongs to the subscription; a browser's does not, unless it acquires it.
    is_windowing : bool
        Whether the subscription was in window mode when the delivery was made.
    is_ended : bool
        True from the start for accept mode none (RF-01).
    """

    __slots__ = (
        "id",
        "message",
        "queue",
        "tag",
        "redelivered",
        "is_acquired",
        "is_windowing",
        "is_ended",
        "is_completed",
        "is_cancelled",
    )

    def __init__(
        self,
        id: int,
        message: QueuedMessage,
        queue: Queue,
        tag: str,
        is_acquired: bool,
        is_windowing: bool,
        is_ended: bool,
    ) -> None:
        self.id = id
        self.message = message
        self.queue = queue
        self.tag = tag
        self.redelivered = message.delivery_count > 0
        self.is_acquired = is_acquired
        self.is_windowing = is_windowing
        self.is_ended = is_ended
        self.is_completed = False
        self.is_cancelled = False

    @property
    def label(self) -> str:
        """The message's name."""
        return self.message.transfer.label

    @property
    def size(self) -> int:
        """The message's bytes, as counted for credit."""
        return self.message.transfer.size

    @property
    def is_needed(self) -> bool:
        """Whether the session must remember the delivery from the start (RF-03)."""
        return self.is_windowing or not self.is_ended or not self.is_acquired

    @property
    def is_redundant(self) -> bool:
        """Whether a sweep may remove the record (RF-03)."""
        return self.is_ended and (not self.is_windowing or self.is_completed or self.is_cancelled)

    def accept(self, in_transaction: bool = False) -> None:
        """Take responsibility: the message is dequeued, if it is still there (CN-13)."""
        if self.is_ended:
            return
        self.is_ended = True
        if self.is_acquired and self.message.state == ACQUIRED:
            self.queue.dequeue(self.message, "accept", in_transaction)

    def release(self, set_redelivered: bool) -> None:
        """Give an acquired message back (CN-14); a browsed one is not ours to give."""
        if self.is_acquired and not self.is_ended:
            self.is_ended = True
            # Not ours any more, so that a later acquire may claim it again (RF-02).
            self.is_acquired = False
            self.queue.release(self.message, set_redelivered)

    def reject(self) -> None:
        """Refuse an acquired message: it is dropped, or goes to the alternate exchange (CN-16)."""
        if not self.is_acquired or self.is_ended:
            return
        self.is_ended = True
        if self.message.state == ACQUIRED:
            self.queue.reject(self.message)

    def acquire(self) -> bool:
        """Claim a browsed message, under the bare tag (MG-15, RF-02); return whether it worked."""
        if not self.is_acquired and self.queue.acquire(self.message, self.tag):
            self.is_acquired = True
            return True
        return False

    def __repr__(self) -> str:
        flags = [name for name in ("acquired", "ended", "completed") if getattr(self, f"is_{name}")]
        return f"DeliveryRecord({self.id}, {self.label!r}, {self.tag!r}, {' '.join(flags) or 'browsed'})"
