"""Transacting: sends and acknowledgements that happen together, or not at all (CM-10, CM-11, LP-09)."""

from __future__ import annotations

from qflow.messaging.acknowledging import Acknowledging
from qflow.messaging.channel import Channel
from qflow.messaging.exceptions import (
    NontransactionalSession,
    Timeout,
    TransactionAborted,
    TransactionError,
)
from qflow.messaging.receiver import Receiver
from qflow.messaging.waiting import sync_blocks


class Transacting(Acknowledging):
    """The side of a session that commits and rolls back."""

    name: str

    def __init__(self) -> None:
        super().__init__()
        self.receivers: list[Receiver] = []

    def check_closed(self) -> None:
        """Refuse a call on a session that has been closed."""
        raise NotImplementedError

    def commit(self, timeout: float | None = None) -> None:
        """Make all sends and acknowledgements since the last time happen, or none of them (CM-10, LP-09).

        Raises
        ------
        NontransactionalSession
            The session has no transactions.
        TransactionAborted
            A queue has no room, or the session died earlier; nothing has happened, and the session is gone.
        """
        channel = self._transaction_channel()
        number = channel.next_number
        try:
            self.check_error()
            self._guarded(lambda: channel.run(channel.engine.tx_commit))
            is_done = self.wait(lambda: channel.is_confirmed(number), timeout)
        except TransactionError:
            raise
        except Exception as error:
            self.error = TransactionAborted(text=f"Transaction aborted: {error}")
            raise self.error from error
        if not is_done and timeout is None:
            raise sync_blocks("commit", channel.holds())
        if not is_done:
            raise Timeout("commit timed out")
        self.in_transaction.clear()

    def rollback(self, timeout: float | None = None) -> None:
        """Forget all sends and acknowledgements since the last commit; messages go back (MG-22, CM-11)."""
        channel = self._transaction_channel()
        self.check_error()
        for receiver in self.receivers:
            receiver.stop()
        numbers = self.forget_deliveries()
        self._guarded(lambda: self._undo(channel, numbers))
        for receiver in self.receivers:
            receiver.restart()
        self.check_error()

    def _undo(self, channel: Channel, numbers: list[int]) -> None:
        if numbers:
            channel.control(channel.engine.session_completed, numbers)
            channel.run(channel.engine.message_release, numbers, True)
        channel.run(channel.engine.tx_rollback)

    def _transaction_channel(self) -> Channel:
        if not self.transactional:
            raise NontransactionalSession(text=f"session {self.name!r} is not transactional")
        self.check_closed()
        return self.require_channel()
