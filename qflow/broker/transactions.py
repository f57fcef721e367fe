"""Transactions: operations that take effect together at commit, all of them or none.

Rules: LP-09, CM-10, RF-22.
"""

from __future__ import annotations

from qflow.broker.errors import BrokerFailure, InternalErrorException, SessionException
from qflow.broker.restorable import Dependent, Restorable


class TxOperation(Dependent):
    """An operation of a transaction, which takes effect at commit."""

    __slots__ = ()

    def prepare(self) -> None:
        """Make sure that :meth:`commit` cannot fail, or raise an exception."""

    def commit(self) -> None:
        """Perform the operation."""
        raise NotImplementedError

    def rollback(self) -> None:
        """Undo the effects of :meth:`prepare`, if it was called."""

    def refers_to(self, queue: object) -> bool:
        """Return whether the operation puts a message on a queue (RF-45)."""
        return False


class TxBuffer(Restorable):
    """The operations of a transaction, in order of enlistment."""

    __slots__ = ("_operations",)

    def __init__(self) -> None:
        self._operations: list[TxOperation] = []

    def enlist(self, operation: TxOperation) -> None:
        """Add an operation at the end."""
        self._operations.append(operation)

    def commit(self) -> None:
        """Prepare and commit all operations; raise 541, without any effect, if one cannot be prepared."""
        try:
            for operation in self._operations:
                operation.prepare()
        except BrokerFailure:
            # Raised unchanged: the real broker has no wording for it, as it hangs or crashes.
            self.rollback()
            raise
        except SessionException as error:
            self.rollback()
            # The broker's text names no queue, but its cause does.
            raise InternalErrorException("Transaction prepare failed.") from error
        # No operation can fail from here on: room is reserved, and accepts only remove messages.
        operations, self._operations = self._operations, []
        for operation in operations:
            operation.commit()

    def refers_to(self, queue: object) -> bool:
        """Return whether any operation puts a message on a queue."""
        return any(operation.refers_to(queue) for operation in self._operations)

    def rollback(self) -> None:
        """Drop all operations, and undo their preparation."""
        operations, self._operations = self._operations, []
        for operation in operations:
            operation.rollback()
