"""TxPublish: a message that a transaction will put on a queue (LP-09, CM-10)."""

from __future__ import annotations

from qflow.broker.queue_view import QueueView
from qflow.broker.transfer import Transfer
from qflow.broker.tx import TxOperation


class TxPublish(TxOperation):
    """A message that will be on a queue when its transaction commits (LP-09, CM-10)."""

    __slots__ = ("queue", "transfer", "is_reserved")

    def __init__(self, queue: QueueView, transfer: Transfer) -> None:
        self.queue = queue
        self.transfer = transfer
        self.is_reserved = False

    def prepare(self) -> None:
        """Reserve room (DQ-03); raise 506 if there is none."""
        if not self.queue.is_deleted:
            self.is_reserved = self.queue.reserve(self.transfer)

    def commit(self) -> None:
        """Put the message where room is reserved for it; from now on it is one like any other."""
        self.transfer.transaction = None
        if self.is_reserved and not self.queue.is_deleted:
            self.queue.push(self.transfer, in_transaction=True)

    def rollback(self) -> None:
        """Give the room back."""
        if self.is_reserved:
            self.queue.depth.give_back(self.transfer.size)
            self.is_reserved = False
