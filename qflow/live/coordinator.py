"""Coordinator: the transaction of a session, which AMQP 1.0 declares and discharges.

A client attaches a link to a coordinator, and sends the commands ``declare`` and ``discharge`` on it.
Transfers and dispositions that belong to the transaction carry its id in their state.  A session has at most
one transaction at a time, and uses the same id for all of them (LNK-21).
"""

from __future__ import annotations

from typing import Any

from cproton import lib
from proton import Delivery

from qflow.broker.errors import AmqpException, LinkException
from qflow.broker.links import LinkSession
from qflow.live.amqp_frames import DECLARED, TRANSACTIONAL, control_of

COMMITTED, ROLLED_BACK, FAILED = "committed", "rolled back", "failed"
"""The endings of a transaction; a commit fails if a queue has no room for the messages."""


class Coordinator:
    """The coordinator of one session's transactions."""

    def __init__(self, engine: LinkSession) -> None:
        self._engine = engine
        # The open transaction's id; b"" without a transaction.
        self._identity = b""
        # The ending of the latest transaction; the reader resets it to "".
        self.ending = ""

    def answer(self, message: bytes, delivery: Delivery) -> AmqpException | None:
        """Execute a client's command, settle its delivery; return the error of a failed commit, or None."""
        kind, fields = control_of(message)
        error = None
        if kind == "declare":
            self._engine.tx_select()
            # The real broker uses a memory address as the id (LNK-21).
            self._identity = hex(id(self)).encode()
            delivery.local.data = [self._identity]
            delivery.update(DECLARED)
        elif fields:
            error = self._discharge(fields[0], len(fields) > 1 and bool(fields[1]))
            delivery.update(Delivery.REJECTED if error else Delivery.ACCEPTED)
        else:
            return None
        delivery.settle()
        return error

    def _discharge(self, identity: Any, has_failed: bool) -> AmqpException | None:
        """Commit or roll back the transaction; return the error of a failed commit, or None."""
        asked, current = _bytes(identity), self._identity
        if not current or asked != current:
            known = f"current transaction is {current.decode()}" if current else "no current transaction"
            text = f"Cannot discharge transaction {asked.decode('utf-8', 'replace')}, {known}"
            raise LinkException(text, "amqp:transaction:unknown-id")
        if has_failed:
            self.abandon()
            return None
        self._identity = b""
        try:
            self._engine.tx_commit()
        except AmqpException as error:
            self.ending = FAILED
            return error
        self.ending = COMMITTED
        return None

    def abandon(self) -> None:
        """Roll back the transaction, if one is open."""
        if self._identity:
            self._identity, self.ending = b"", ROLLED_BACK
            self._engine.tx_rollback()

    def includes(self, delivery: Any) -> bool:
        """Return whether a delivery belongs to the open transaction; other ids are ignored."""
        if not self._identity or lib.pn_delivery_remote_state(delivery) != TRANSACTIONAL:
            return False
        data = Delivery.wrap(delivery).remote.data
        return isinstance(data, list) and bool(data) and _bytes(data[0]) == self._identity


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else b""
