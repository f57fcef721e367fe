"""TxBuffer: the operations of a transaction, done at commit, all of them or none.

Rules: LP-09, CM-10, RF-22.
"""

from __future__ import annotations

from qflow.broker.errors import BrokerFailure, InternalErrorException, SessionException
from qflow.broker.restorable import Dependent, Restorable


class TxOperation(Dependent):
    """One operation of a transaction at commit."""

    __slots__ = ()

    def prepare(self) -> None:
        """Check that :meth:`commit` cannot fail; raise otherwise."""

    def commit(self) -> None:
        """Perform the operation."""
        raise NotImplementedError

    def rollback(self) -> None:
        """Undo :meth:`prepare`, if it was called."""

    def refers_to(self, queue: object) -> bool:
        """Return whether the operation puts a message on a queue (RF-45)."""
        return False


class TxBuffer(Restorable):
    """Operations in the order in which they were enlisted."""

    __slots__ = ("_operations",)

    def __init__(self) -> None:
        self._operations: list[TxOperation] = []

    def enlist(self, operation: TxOperation) -> None:
        """Add an operation at the end."""
        self._operations.append(operation)

    def commit(self) -> None:
        """Prepare all in order, then commit all in order; if one cannot, 541 and no effect."""
        try:
            for operation in self._operations:
                operation.prepare()
        except BrokerFailure:
            # No wording of the broker's: it never answers.
            self.rollback()
            raise
        except SessionException as error:
            self.rollback()
            # The broker's words name no queue; their cause does.
            raise InternalErrorException("Transaction prepare failed.") from error
        # None can fail from here on: room is reserved, and accepts only remove.
        operations, self._operations = self._operations, []
        for operation in operations:
            operation.commit()

    def refers_to(self, queue: object) -> bool:
        """Return whether one of the operations refers to a queue."""
        return any(operation.refers_to(queue) for operation in self._operations)

    def rollback(self) -> None:
        """Drop all operations."""
        operations, self._operations = self._operations, []
        for operation in operations:
            operation.rollback()
