"""Session: all the AMQP 0-10 commands a client can give.

Each method is one command.  It runs to quiescence: its effects, all deliveries it makes possible
and all completions it frees have happened when it returns.  A refused command raises, and ends
the session as in the real broker (LP-06): its unsettled messages are requeued and its
subscriptions end; nothing else changes, except where a rule says so.
"""

from __future__ import annotations

from typing import ClassVar

from qflow.broker.command import command
from qflow.broker.errors import CommandInvalidException, SessionException
from qflow.broker.left_out import refuse
from qflow.broker.queue_handler import QueueHandler
from qflow.broker.semantic_state import TxAccept
from qflow.broker.tx import TxBuffer


class Session(QueueHandler):
    """A session, made by :meth:`qflow.broker.Broker.session`.

    Examples
    --------
    >>> from qflow.broker import Broker, Message
    >>> broker = Broker()
    >>> producer, consumer = broker.session("p"), broker.session("c")
    >>> producer.queue_declare("orders", {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1})
    >>> for _ in range(3):
    ...     last = producer.message_transfer(Message(100, routing_key="orders"))
    >>> [transfer.label for transfer in producer.held]
    ['p-3']
    """

    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = ()

    # Syncing

    @command("execution.sync", completes=False)
    def execution_sync(self) -> None:
        """Ask to be told when every earlier command is complete (CM-06); hurries the store (CM-12)."""
        self.core.store.flush()
        self.completions.sync_point(self.completions.next_number - 1)

    @command("session.flush", is_numbered=False)
    def session_flush(self) -> None:
        """Ask to be told what is complete now (CM-05)."""
        self.completions.want_report()

    # Transactions

    @command("tx.select")
    def tx_select(self) -> None:
        """Make the session transactional; its first transaction begins."""
        self._start_transaction()

    @command("tx.commit", completes=False)
    def tx_commit(self) -> None:
        """Make the transaction's publishes and accepts happen, all or none (LP-09, RF-22).

        Its effects are there at once; its own completion waits for earlier commands (CM-07).

        Raises
        ------
        CommandInvalidException
            503: the session is not transactional.
        InternalErrorException
            541: a queue has no room; nothing happens.
        """
        transaction = self._require_transaction()
        if self.tx_accept is not None:
            transaction.enlist(self.tx_accept)
        try:
            transaction.commit()
        except SessionException:
            self.txn_rejects += 1
            raise
        self.txn_commits += 1
        self._start_transaction()
        self.completions.sync_point(self.completions.next_number - 1)

    @command("tx.rollback")
    def tx_rollback(self) -> None:
        """Forget the transaction's publishes and accepts; deliveries stay acquired (MG-22)."""
        self._require_transaction().rollback()
        self.txn_rejects += 1
        self._start_transaction()

    def _start_transaction(self) -> None:
        self.transaction = TxBuffer()
        self.tx_accept = TxAccept(self.consuming)
        self.txn_starts += 1

    def _require_transaction(self) -> TxBuffer:
        if self.transaction is None:
            raise CommandInvalidException("Session has not been selected for use with transactions")
        return self.transaction

    @command("dtx.select")
    def dtx_select(self) -> None:
        """Refuse distributed transactions, which this model leaves out.

        Raises
        ------
        NotImplementedException
            540, always.
        """
        refuse("dtx", "dtx.select")

    # The end

    def close(self) -> None:
        """End the session in good order: what it has not settled is requeued (CN-17).

        Closing a session that is gone already changes nothing.
        """
        if not self.is_attached:
            return
        self.control()
        if self.is_watched():
            self.show("session.detach", None)
        self.detach()
        self.quiesce()
