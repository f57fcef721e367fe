"""MessageHandler: the ``message`` commands, for producers and consumers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from qflow.broker.command import command, require_attached
from qflow.broker.conversions import Argument
from qflow.broker.credit import BYTE_UNIT, INFINITE, MESSAGE_UNIT
from qflow.broker.details import Names, Values
from qflow.broker.disposition_handler import DispositionHandler
from qflow.broker.errors import (
    AmqpException,
    InvalidArgumentException,
    NotAllowedException,
    NotFoundException,
    ResourceLockedException,
)
from qflow.broker.message import Message
from qflow.broker.queue import Queue
from qflow.broker.subscription import Subscription
from qflow.broker.transfer import Transfer

# Final, so that a compiled method can still say its signature.
EXPLICIT: Final = 0
NONE: Final = 1
PRE_ACQUIRED: Final = 0
NOT_ACQUIRED: Final = 1

_TRANSFER: Final[tuple[str, ...]] = ("command", "message", "exchange", "sync")
_PIPELINED: Final[tuple[str, ...]] = (*_TRANSFER, "pipelined")


class MessageHandler(DispositionHandler):
    """Transfers, subscriptions and credit."""

    __slots__ = ()

    # Producing

    def message_transfer(self, message: Message, exchange: str = "", sync: bool = False) -> Transfer:
        """Send a message to an exchange (rule book, section 0).

        Parameters
        ----------
        message : Message
            What to send; without a label it gets one, ``<session>-<n>``.
        exchange : str
            Its destination; "" is the default exchange, which routes to the queue named by the
            routing key (EX-02).
        sync : bool
            Ask to be told as soon as the transfer is complete (CM-05).

        Returns
        -------
        Transfer
            ``is_complete`` and ``held_by`` tell what has become of it.

        Raises
        ------
        NotFoundException
            404: no such exchange.
        ResourceLimitExceededException
            506: a queue is full (LP-05).  The session is gone then, the message stays on the queues
            that took it (LP-08).

        Examples
        --------
        >>> from qflow.broker import Broker, Message
        >>> session = Broker().session("p")
        >>> session.queue_declare("q", {"qpid.flow_stop_count": 1})
        >>> for _ in range(2):
        ...     transfer = session.message_transfer(Message(10, routing_key="q"))
        >>> transfer.is_complete, transfer.held_by
        (False, ('q',))
        """
        require_attached(self, "message.transfer")
        completions = self.completions
        transfer = self._transfer(completions.next_number, message, exchange)
        number = self.begin()
        if self.core.observer is not None:
            self._show_transfer(transfer, message, exchange, sync)
        if sync:
            completions.report_when_complete(number)
        try:
            self._route(transfer, exchange)
        except AmqpException as error:
            transfer.owner = None
            self.die(error)
            self.quiesce()
            raise
        transfer.end_routing()
        if transfer.pending:
            completions.hold(transfer)
        if sync:
            self.core.store.flush()
        self.quiesce()
        return transfer

    def _show_transfer(self, transfer: Transfer, message: Message, exchange: str, sync: bool) -> None:
        names: Names = _TRANSFER
        values: Values = (transfer.number, message, exchange, sync)
        if self.is_pipelining:
            names, values = _PIPELINED, (*values, True)
        self.core.tell(
            "message.transfer",
            session=self.name,
            link=exchange,
            message=transfer.label,
            size=transfer.size,
            names=names,
            values=values,
        )

    def _transfer(self, number: int, message: Message, exchange: str) -> Transfer:
        core = self.core
        if core.stamps_arrivals and message.timestamp is None:
            message = replace(message, timestamp=core.now // 1_000_000)
        size = message.content_size if core.counts_content else message.encoded_size(exchange)
        self.transfer_count += 1
        expiration = core.now + message.ttl * 1000 if message.ttl else None
        transfer = Transfer(
            self.completions,
            number,
            message,
            size,
            message.label,
            expiration,
            self.name,
            self.connection.name,
            self.transfer_count,
        )
        if self.transaction is not None:
            transfer.transaction = self.transaction
        return transfer

    def _route(self, transfer: Transfer, name: str) -> None:
        exchange = self.last_exchange
        if exchange is None or exchange.is_deleted or exchange.name != name:
            exchange = self.core.exchanges.get(name)
        if self.overflow is None:
            exchange.route_with_alternate(transfer)
        else:
            self.overflow.route(transfer, exchange)
        if exchange is not self.last_exchange:
            self._remember_exchange(exchange)

    # Subscribing

    @command("message.subscribe")
    def message_subscribe(
        self,
        queue: str,
        tag: str,
        accept_mode: int = EXPLICIT,
        acquire_mode: int = PRE_ACQUIRED,
        exclusive: bool = False,
        arguments: Mapping[str, Argument] | None = None,
    ) -> Subscription:
        """Start to read a queue, without any credit yet (CN-01 … CN-03).

        Parameters
        ----------
        queue, tag : str
            What to read, and the subscription's name in this session.
        accept_mode : int
            0 explicit, 1 none.
        acquire_mode : int
            0 pre-acquired, a consumer; 1 not-acquired, a browser.
        exclusive : bool
            Let no other consumer in; browsers are let in.
        arguments : mapping or None
            ``x-apache-selector`` and ``qpid.sync_frequency`` mean something (CN-01), all others nothing.

        Raises
        ------
        SessionException
            531, 404, 530, 405: see CN-02.
        """
        for name, mode in (("accept-mode", accept_mode), ("acquire-mode", acquire_mode)):
            if mode not in (0, 1):
                raise InvalidArgumentException(f"Invalid value for {name} {mode}")
        source = self.core.queues.get(queue)
        if tag and tag in self.consuming.subscriptions:
            raise NotAllowedException("Consumer tags must be unique")
        acquires = acquire_mode == PRE_ACQUIRED and not source.settings.browse_only
        if acquires:
            self._check_access(source, exclusive)
        subscription = Subscription(
            self.consuming,
            self.connection,
            tag,
            f"{self.name}::{tag}",
            source,
            acquires,
            accept_mode == EXPLICIT,
            exclusive,
            arguments or {},
        )
        source.add_consumer(subscription, exclusive, self.connection.name)
        self.consuming.add(subscription)
        return subscription

    def _check_access(self, queue: Queue, exclusive: bool) -> None:
        if queue.lifetime.owner not in ("", self.name):
            raise ResourceLockedException(f"Cannot subscribe to exclusive queue {queue.name}")
        if queue.users.has_exclusive_consumer:
            raise ResourceLockedException(
                f"Queue {queue.name} has an exclusive consumer. No more consumers allowed."
            )
        if exclusive and queue.users.consumers:
            raise ResourceLockedException(
                f"Queue {queue.name} already has consumers. Exclusive access denied."
            )

    @command("message.cancel")
    def message_cancel(self, tag: str) -> None:
        """End a subscription; what it was given stays acquired (CN-17).

        Raises
        ------
        NotFoundException
            404: no such subscription.
        """
        subscription = self.consuming.subscriptions.get(tag)
        if subscription is None:
            raise NotFoundException(f"No such subscription: {tag}")
        self.consuming.cancel(subscription)

    # Credit

    @command("message.set_flow_mode")
    def message_set_flow_mode(self, tag: str, flow_mode: int) -> None:
        """Choose credit (0) or window (1); each mode has its own balances (CN-04).

        Raises
        ------
        InvalidArgumentException
            542: another mode.
        NotFoundException
            404: no such subscription.
        """
        if flow_mode not in (0, 1):
            raise InvalidArgumentException(f"Invalid value for mode {flow_mode}")
        self.consuming.find(tag).credit.change_mode(flow_mode)

    @command("message.flow")
    def message_flow(self, tag: str, unit: int, value: int) -> None:
        """Grant credit (CN-04), which wakes the subscription if credit was what it lacked (RF-08).

        Parameters
        ----------
        tag : str
            The subscription.
        unit : int
            0 messages, 1 bytes; both are needed.
        value : int
            0xFFFFFFFF is infinite, and sticks.

        Raises
        ------
        InvalidArgumentException
            542: another unit.
        NotFoundException
            404: no such subscription.
        """
        if unit not in (MESSAGE_UNIT, BYTE_UNIT):
            raise InvalidArgumentException(f"Invalid value for unit {unit}")
        if not 0 <= value <= INFINITE:
            raise InvalidArgumentException(f"Invalid value for value {value}: credit is 0 to {INFINITE}")
        subscription = self.consuming.find(tag)
        subscription.credit.grant(unit, value)
        subscription.wake_for_credit()

    @command("message.stop")
    def message_stop(self, tag: str) -> None:
        """Take all credit of the current mode away (CN-07)."""
        self.consuming.find(tag).credit.stop()

    @command("message.flush")
    def message_flush(self, tag: str) -> None:
        """Deliver while there are credit and messages, then take the credit away (CN-07)."""
        self.consuming.find(tag).flush()

    def fetch(self, tag: str) -> None:
        """Get at most one message: what a client without prefetch does (CN-09).

        Three commands in one write, so that the flush runs before any other output (RF-08).
        """
        with self.pipelined():
            self.message_flow(tag, BYTE_UNIT, INFINITE)
            self.message_flow(tag, MESSAGE_UNIT, 1)
            self.message_flush(tag)
