"""Session: all the AMQP 0-10 commands a client can give, and how one of them runs.

A *command* is a method of :class:`Session` that is marked with :func:`command`.  It runs in these steps:

1. **Checked.**  A session that is gone refuses (:class:`~qflow.broker.errors.SessionDetached`); so does the
   :class:`~qflow.broker.signature.Signature`, as a client's own library does, if AMQP cannot carry an
   argument. Nothing has happened yet.
2. **Begun.**  The command gets its *number*: the commands of a session are counted from 0, and both sides
   count.  Its connection is now the one being read.  *Controls* (``session.completed``, ``session.flush``)
   have no number.
3. **Shown** to the observer, before its effects. 4. **Done.**  If the broker refuses it
   (:class:`~qflow.broker.errors.AmqpException`), the session dies, or its whole connection: its
   subscriptions end, its unsettled messages are requeued, and nothing else changes, except where a rule
   says so (LP-06, LP-08).  After any other exception the command did not happen: its number is taken back,
   and nothing has changed.
5. **Finished.**  The command is *complete*: processed, which is all that a completion says (CM).  Commands
   that only ask or declare are complete now; a transfer is when nothing withholds its completion any more;
   a sync or a commit waits for the commands before it (CM-06, CM-07).
6. **Quiescent.**  All deliveries that became possible are made, in the order of
   :mod:`qflow.broker.consuming`; then each client that asked is sent the numbers of its completed commands
   (CM-08).  Inside :meth:`Session.pipeline` this happens once, after the last command of the write
   (RF-08).

One *transfer* (:meth:`Session.message_transfer`) gets its size and a completion count of 1 first; the
exchange gives it to every queue that a binding selects, in binding order, and each queue does what
:mod:`qflow.broker.queue` says: store, policy, listeners, observers, each queue on its own (LP-08).  Each
queue that is stopped and a store that is not done yet add one to the count (CM-02).  If no binding matched,
the alternate exchange is tried, once (EX-08).  Then the count goes down by one for the routing itself; at 0
the transfer is complete.

Observers and client hooks (``on_delivery``, ``on_report``) are called in the middle of a command, and so must
not raise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from qflow.broker.completions import Completions, RangeSet
from qflow.broker.consuming import (
    BYTE_UNIT,
    INFINITE,
    MESSAGE_UNIT,
    Connection,
    Numbers,
    SemanticState,
    Subscription,
    TxAccept,
)
from qflow.broker.context import BrokerContext
from qflow.broker.errors import (
    AmqpException,
    BrokerFailure,
    CommandInvalidException,
    InvalidArgumentException,
    NotAllowedException,
    NotFoundException,
    NotImplementedException,
    ResourceLockedException,
    SessionDetached,
    SessionException,
)
from qflow.broker.events import Detail, Values
from qflow.broker.exchanges import FED_OP, FED_ORIGIN, Exchange, fed_op, fed_origin
from qflow.broker.history import OverflowList
from qflow.broker.message import (
    CommandOwner,
    HeaderValue,
    Message,
    Transfer,
    delivery_numbers,
    encodable,
    flag,
    show,
)
from qflow.broker.queue import Queue
from qflow.broker.registry import (
    ExchangeBoundResult,
    ExchangeQueryResult,
    MessageFilter,
    QueueQueryResult,
    QueueRegistry,
    purge,
    query_bound,
    query_exchange,
    query_queue,
)
from qflow.broker.restorable import Dependent
from qflow.broker.settings import Argument
from qflow.broker.signature import Signature
from qflow.broker.snapshot import Flag, Refused, Text
from qflow.broker.statistics import SessionStatistics
from qflow.broker.transactions import TxBuffer

# Final, so that a compiled method can still say its signature.
EXPLICIT: Final = 0
NONE: Final = 1
PRE_ACQUIRED: Final = 0
NOT_ACQUIRED: Final = 1

_TRANSFERS: Final[tuple[str, ...]] = ("transfers",)
_TRANSFER: Final[tuple[str, ...]] = ("command", "message", "exchange", "sync")

Method = TypeVar("Method", bound=Callable[..., Any])


def command(kind: str, *, is_numbered: bool = True, completes: bool = True) -> Callable[[Method], Method]:
    """Make a method a command (``kind`` in the table of events), which runs in the steps above."""

    def decorate(method: Method) -> Method:
        signature = Signature(kind, method)

        @functools.wraps(method)
        def run(self: Session, *args: Any, **kwargs: Any) -> Any:
            self.require_attached(kind)
            given = signature.bind(args, kwargs)
            number = self.begin() if is_numbered else self.begin_control()
            if self.context.observer is not None:
                self.show(kind, given, number)
            try:
                result = method(self, **given)
            except Exception as error:
                self.fail_command(error, number)
                raise
            if is_numbered and completes:
                self.completions.complete(number)
            self.quiesce()
            return result

        return cast(Method, run)

    return decorate


class Session(Dependent):
    """A session on a connection, made by :meth:`qflow.broker.Broker.session`.

    Attributes:
        name (str): Unique among the sessions that are attached.
        is_attached (bool): False after ``close``, or when a command failed.
        error (AmqpException or None): The error that ended the session.
        completions (Completions): The completed commands and the held transfers.
        consuming (SemanticState): Subscriptions and deliveries.

    >>> from qflow.broker import Broker, Message
    >>> broker = Broker()
    >>> producer, consumer = broker.session("p"), broker.session("c")
    >>> producer.queue_declare("orders", {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1})
    >>> for _ in range(3):
    ...     last = producer.message_transfer(Message(100, routing_key="orders"))
    >>> [transfer.label for transfer in producer.held]
    ['p-3']
    """

    __slots__ = (
        "context", "queues", "exchanges", "name", "connection", "is_attached", "error", "completions",
        "consuming", "transaction", "tx_accept", "last_exchange", "exclusive_queues", "transfer_count",
        "is_pipelining", "overflow", "txn_starts", "txn_commits", "txn_rejects", "scoped_bindings",
    )  # fmt: skip

    def __init__(
        self, context: BrokerContext, queues: QueueRegistry, name: str, connection: Connection
    ) -> None:
        self.context = context
        self.queues = queues
        self.exchanges = queues.exchanges
        self.name = name
        self.connection = connection
        self.is_attached = True
        self.error: AmqpException | None = None
        self.completions = Completions(context, name)
        self.consuming = SemanticState(context, name, connection, self)
        self.transaction: TxBuffer | None = None
        self.tx_accept: TxAccept | None = None
        self.last_exchange: Exchange | None = None
        self.exclusive_queues: list[str] = []
        self.scoped_bindings: list[tuple[str, str, str, str]] = []
        self.transfer_count = 0
        self.is_pipelining = False
        self.overflow: OverflowList | None = None
        if context.options.flow_control == "overflow-list":
            self.overflow = OverflowList(context)
        self.txn_starts = self.txn_commits = self.txn_rejects = 0
        connection.sessions.append(self)

    # What a command needs

    def require_attached(self, kind: str) -> None:
        """Refuse a command to an ended session; nothing in the broker changes."""
        if not self.is_attached:
            raise SessionDetached(f"{kind} on session {self.name!r}, which is not attached any more")

    def begin(self) -> int:
        """Return the number of a new command; its connection is served last now (RF-12)."""
        self.connection.scheduler.read(self.connection)
        return self.completions.begin()

    def begin_control(self) -> int:
        """Begin a control, which has no number: -1."""
        self.connection.scheduler.read(self.connection)
        return -1

    def fail_command(self, error: Exception, number: int = -1) -> None:
        """Process a failed command: end the session for it, or undo the command."""
        if isinstance(error, AmqpException):
            if isinstance(error, BrokerFailure):
                self.context.note_failure(error.how, error.text)
            self.die(error)
            self.quiesce()
            return
        # As before the command: within a pipeline its earlier commands are still being read, otherwise
        # nothing is.
        self.connection.scheduler.reading = self.connection if self.is_pipelining else None
        if number >= 0:
            self.completions.retract(number)

    def quiesce(self) -> None:
        """Run to quiescence, unless more commands follow in the same write."""
        if not self.is_pipelining:
            self.connection.scheduler.quiesce()

    def show(self, kind: str, arguments: Detail, number: int = -1) -> None:
        """Emit a command with its arguments."""
        detail = dict(arguments or {})
        if self.is_pipelining:
            detail["pipelined"] = True
        if self.completions.is_awaited(number):
            detail["sync"] = True
        queue, link = str(detail.get("queue", "")), str(detail.get("tag", detail.get("exchange", "")))
        self.context.emit(kind, queue, self.name, link, detail=detail)

    def show_transfers(self, kind: str, transfers: tuple[int, ...], number: int = -1) -> None:
        """Emit a command whose only argument is delivery numbers."""
        if self.is_pipelining or self.completions.is_awaited(number):
            self.show(kind, {"transfers": transfers}, number)
        else:
            self.context.tell(kind, session=self.name, names=_TRANSFERS, values=(transfers,))

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        """Give several commands in one write: output is made after the last of them (RF-08)."""
        self.is_pipelining = True
        try:
            yield
        finally:
            self.is_pipelining = False
            if self.context.observer is not None:
                self.show("session.written", None)
            self.connection.scheduler.quiesce()

    # What can be seen

    @property
    def held(self) -> list[Transfer]:
        """Transfers whose completion is withheld, in the order sent."""
        return self.completions.held

    @property
    def completed(self) -> RangeSet:
        """Numbers of the commands that are complete."""
        return self.completions.completed

    def refers_to(self, queue: Queue) -> bool:
        """Return whether a delivery or an open transaction refers to a queue (RF-45)."""
        transaction = self.transaction
        return self.consuming.refers_to(queue) or (transaction is not None and transaction.refers_to(queue))

    def statistics(self) -> SessionStatistics:
        """Return the session's statistics, as management shows them (CF-10)."""
        return SessionStatistics(
            name=self.name,
            unackedMessages=self.consuming.unacked_messages,
            TxnStarts=self.txn_starts,
            TxnCommits=self.txn_commits,
            TxnRejects=self.txn_rejects,
            TxnCount=self.txn_commits + self.txn_rejects,
        )

    def __repr__(self) -> str:
        ended = "" if self.is_attached else ", ended"
        return f"Session({self.name!r}, {len(self.held)} transfers held{ended})"

    # The end

    def die(self, error: AmqpException) -> None:
        """End the session, or all sessions of the connection for an error of the connection (LP-06)."""
        if isinstance(error, SessionException):
            self.fail(error)
        else:
            self.connection.close(error)

    def fail(self, error: AmqpException) -> None:
        """End with an error: the broker raises it to the client and detaches the session (LP-06)."""
        self.error = error
        if self.context.observer is not None:
            detail = {"code": error.code, "name": error.name, "text": error.text}
            self.context.emit("exception", session=self.name, detail=detail)
        self.detach()

    def note_queue_deleted(self, subscription: Subscription, error: SessionException) -> None:
        """End because a subscription's queue was deleted (CN-18)."""
        self.fail(error)

    def detach(self) -> None:
        """Requeue unsettled deliveries, end subscriptions, transaction and ownerships (CN-17)."""
        # The order is observable, and the broker's: completions are abandoned first, so that nothing below is
        # reported; bindings go before messages come back, so that none is routed by them; ownership of queues
        # goes last, as it may delete them (CN-17, RF-14, RF-30).
        self.is_attached = False
        self.connection.sessions.remove(self)
        self.completions.abandon()
        if self.overflow is not None:
            self.overflow.stop()
        # Sorted, as the broker keeps them in a std::set; the order decides which exchange deletes itself
        # first.
        for queue, exchange, key, origin in sorted(set(self.scoped_bindings)):
            # The queue or the exchange may be gone, or another session's.
            with suppress(SessionException):
                if origin:
                    withdrawn: dict[str, HeaderValue] = {FED_OP: "U", FED_ORIGIN: origin}
                    self.queues.bind(exchange, queue, key, withdrawn, self.name)
                else:
                    self.queues.unbind(exchange, queue, key, self.name)
        self.consuming.close()
        if self.transaction is not None:
            self.transaction.rollback()
            self.transaction = None
        self._remember_exchange(None)
        self._release_ownership()

    def _release_ownership(self) -> None:
        for name in self.exclusive_queues:
            queue = self.queues.queues.get(name)
            # A queue of this name may be another one by now: deleted, and declared by another session.
            if queue is not None and queue.lifetime.owner == self.name:
                queue.lifetime.owner = ""
                queue.users.owner_connection = ""
                if queue.is_unused:
                    queue.delete_unless_needed()
        self.exclusive_queues.clear()

    def _remember_exchange(self, exchange: Exchange | None) -> None:
        """Keep the exchange of the last transfer alive, and no other (RF-18)."""
        if exchange is not self.last_exchange:
            # The real broker caches the exchange of a session's last transfer, and so keeps a deleted one
            # alive. Its bindings count as long (RF-18).
            if exchange is not None:
                exchange.refer()
            if self.last_exchange is not None:
                self.last_exchange.dismiss()
            self.last_exchange = exchange

    # What a consumer does with its deliveries

    def message_accept(self, transfers: Iterable[int]) -> None:
        """Accept deliveries: dequeue them, or at commit if the session is transactional (CN-13, CM-11)."""
        # The steps of a command, written out: this is called for every message.
        self.require_attached("message.accept")
        numbers: Numbers = delivery_numbers("message.accept: transfers", transfers)
        number = self.begin()
        if self.context.observer is not None:
            self.show_transfers("message.accept", numbers, number)
        try:
            self.consuming.accept(numbers, self.tx_accept)
        except Exception as error:
            self.fail_command(error, number)
            raise
        self.completions.complete(number)
        self.quiesce()

    @command("message.release")
    def message_release(self, transfers: Iterable[int], set_redelivered: bool = False) -> None:
        """Release deliveries to their queues, at their old places (CN-14, CN-15)."""
        self.consuming.release(transfers, set_redelivered)

    @command("message.reject")
    def message_reject(self, transfers: Iterable[int]) -> None:
        """Refuse deliveries: they are dropped or go to the alternate exchange (CN-16)."""
        self.consuming.reject(transfers)

    @command("message.acquire")
    def message_acquire(self, transfers: Iterable[int]) -> list[int]:
        """Acquire browsed deliveries; return the numbers of the granted ones (RF-02)."""
        return self.consuming.acquire(transfers)

    def session_completed(self, transfers: Iterable[int] = ()) -> None:
        """Process the client's completions of deliveries, which return room to windows (CN-06, RF-04)."""
        # Written out like message_accept; a control, so it has no number and is never completed.
        self.require_attached("session.completed")
        numbers: Numbers = delivery_numbers("session.completed: transfers", transfers)
        self.begin_control()
        if self.context.observer is not None:
            self.show_transfers("session.completed", numbers)
        try:
            self.consuming.complete(numbers)
        except Exception as error:
            self.fail_command(error)
            raise
        self.quiesce()

    # Producing

    def message_transfer(
        self, message: Message | Refused, exchange: Text = "", sync: Flag = False
    ) -> Transfer:
        """Send a message to an exchange.

        Parameters:
            message: The message to send; without a label it gets one, ``<session>-<n>``.
            exchange: Its destination; "" is the default exchange, which routes to the queue named by the
                routing key (EX-02).
            sync: Ask for a report as soon as the transfer is complete (CM-05).

        Returns:
            The transfer; see its ``is_complete`` and ``held_by``.  404 for an unknown exchange; 506 if a
            queue is full (LP-05): the message stays on the queues that took it (LP-08).

        >>> from qflow.broker import Broker, Message
        >>> session = Broker().session("p")
        >>> session.queue_declare("q", {"qpid.flow_stop_count": 1})
        >>> for _ in range(2):
        ...     transfer = session.message_transfer(Message(10, routing_key="q"))
        >>> transfer.is_complete, transfer.held_by
        (False, ('q',))
        """
        self.require_attached("message.transfer")
        last = self.last_exchange
        # What is right is found to be so with few questions: this is called for every message.
        if last is not None and exchange is last.name:
            destination = last.name
        else:
            destination = encodable("message.transfer: exchange", exchange, 255)
        is_synced = sync is True
        if not is_synced and sync is not False:
            flag("message.transfer: sync", sync)
        if not isinstance(message, Message):
            raise TypeError(f"message.transfer: message must be a Message, got {show(message)}")
        sent: Message = message
        completions, context = self.completions, self.context
        if context.stamps_arrivals and sent.timestamp is None:
            sent = replace(sent, timestamp=context.start_time + context.now // 1_000_000)
        size = sent.encoded_size(destination)
        if context.counts_content:
            size = sent.content_size
        transfer = self._make_transfer(completions, sent, size, destination, self.transaction)
        number = self.begin()
        if context.observer is not None:
            self._show_transfer(transfer, is_synced)
        traffic = self.connection.from_client
        try:
            self._route(transfer, destination)
        except Exception as error:
            transfer.owner = None
            # A refused message did come over the wire, and its number is used up.
            if isinstance(error, AmqpException):
                traffic.count(transfer.size, sent.content_size)
            else:
                self.transfer_count -= 1
            self.fail_command(error, number)
            raise
        traffic.count(transfer.size, sent.content_size)
        if is_synced:
            completions.report_when_complete(number)
        transfer.end_routing()
        if transfer.pending:
            completions.hold(transfer)
        if is_synced and (store := context.store) is not None:
            store.flush()
        self.quiesce()
        return transfer

    def _show_transfer(
        self, transfer: Transfer, sync: bool, more: tuple[str, ...] = (), given: Values = ()
    ) -> None:
        """Emit a transfer; a link adds names (``more``) and values (``given``)."""
        names = (*_TRANSFER, *more) if more else _TRANSFER
        exchange = transfer.exchange
        values: Values = (transfer.number, transfer.message, exchange, sync, *given)
        if self.is_pipelining:
            names, values = (*names, "pipelined"), (*values, True)
        label, size = transfer.label, transfer.size
        self.context.tell("message.transfer", "", self.name, exchange, label, size, "", names, values)

    def _make_transfer(
        self, owner: CommandOwner, message: Message, size: int, exchange: str, transaction: TxBuffer | None
    ) -> Transfer:
        """Return the transfer of the next command, with the size that the broker counts."""
        self.transfer_count += 1
        transfer = Transfer(
            owner,
            self.completions.next_number,
            message,
            size,
            message.label,
            self.context.now + message.ttl * 1000 if message.ttl else None,
            self.name,
            self.connection.name,
            self.transfer_count,
            exchange,
        )
        transfer.transaction = transaction
        return transfer

    def _route(self, transfer: Transfer, name: str) -> None:
        exchange = self.last_exchange
        if exchange is None or exchange.is_deleted or exchange.name != name:
            exchange = self.exchanges.get(name)
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
        """Start to read a queue, without any credit yet; 404, 405, 530, 531 (CN-01 … CN-03).

        Parameters:
            queue, tag: The queue to read, and the subscription's name in this session.
            accept_mode: 0 explicit, 1 none.
            acquire_mode: 0 pre-acquired, a consumer; 1 not-acquired, a browser.
            exclusive: Let no other consumer in; browsers are let in.
            arguments: ``x-apache-selector`` and ``qpid.sync_frequency`` mean something (CN-01), all others
                nothing.
        """
        for name, mode in (("accept-mode", accept_mode), ("acquire-mode", acquire_mode)):
            if mode not in (0, 1):
                raise InvalidArgumentException(f"Invalid value for {name} {mode}")
        source = self.queues.get(queue)
        if tag and tag in self.consuming.subscriptions:
            raise NotAllowedException("Consumer tags must be unique")
        # A browse-only queue turns every consumer into a browser, without a word to its client.
        acquires = acquire_mode == PRE_ACQUIRED and not source.settings.browse_only
        if acquires:
            self._check_owner(source)
        # Its selector is parsed now, and a bad one ends the connection (RF-44).
        subscription = Subscription(
            self.consuming,
            tag,
            f"{self.name}::{tag}",
            source,
            acquires,
            accept_mode == EXPLICIT,
            exclusive,
            arguments or {},
        )
        if acquires:
            self._check_readers(source, exclusive)
        source.add_consumer(subscription, exclusive, self.connection.name)
        self.consuming.add(subscription)
        return subscription

    def _check_owner(self, queue: Queue) -> None:
        if queue.lifetime.owner not in ("", self.name):
            raise ResourceLockedException(f"Cannot subscribe to exclusive queue {queue.name}")

    def _check_readers(self, queue: Queue, exclusive: bool) -> None:
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
        """End a subscription; its deliveries stay acquired (CN-17).  404: no such subscription."""
        subscription = self.consuming.subscriptions.get(tag)
        if subscription is None:
            raise NotFoundException(f"No such subscription: {tag}")
        self.consuming.cancel(subscription)

    # Credit

    @command("message.set_flow_mode")
    def message_set_flow_mode(self, tag: str, flow_mode: int) -> None:
        """Choose credit (0) or window (1), each with its own balances (CN-04); 542, 404."""
        if flow_mode not in (0, 1):
            raise InvalidArgumentException(f"Invalid value for mode {flow_mode}")
        self.consuming.find(tag).credit.change_mode(flow_mode)

    @command("message.flow")
    def message_flow(self, tag: str, unit: int, value: int) -> None:
        """Grant credit, a client's prefetch (CN-04); a subscription that lacked it wakes (RF-08).

        542 for another unit or value, 404 for an unknown subscription.

        Parameters:
            tag: The subscription.
            unit: 0 messages, 1 bytes; both are needed.
            value: 0xFFFFFFFF is infinite, and sticks.
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
        """Withdraw all credit of the current mode (CN-07)."""
        self.consuming.find(tag).credit.stop()

    @command("message.flush")
    def message_flush(self, tag: str) -> None:
        """Deliver while there are credit and messages, then withdraw the credit (CN-07)."""
        self.consuming.find(tag).flush()

    def fetch(self, tag: Text) -> None:
        """Get at most one message, as a client without prefetch does (CN-09).

        Three commands in one write, so that the flush runs before any other output (RF-08).
        """
        tag = encodable("fetch: tag", tag, 255)
        with self.pipeline():
            self.message_flow(tag, BYTE_UNIT, INFINITE)
            self.message_flow(tag, MESSAGE_UNIT, 1)
            self.message_flush(tag)

    # Administration

    @command("queue.declare")
    def queue_declare(
        self,
        queue: str,
        arguments: Mapping[str, Argument] | None = None,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        exclusive: bool = False,
        passive: bool = False,
        alternate_exchange: str = "",
    ) -> None:
        """Declare a queue; an existing one of that name is returned (CF-04, CF-05).

        542 for the arguments, 404 for a missing queue or alternate, 405 for exclusivity.

        Parameters:
            queue: Its name.
            arguments: As in rules.md#declare-arguments, such as ``{"qpid.max_count": 1000,
                "qpid.flow_stop_count": 900}``.
            auto_delete: Delete it when it is not used any more (QT-08).
            exclusive: Let only this session declare, consume, bind, unbind and delete it (CN-23).
            passive: Only ask whether it exists; without a name this is a declare like any other.
            alternate_exchange: Where rejected, evicted and orphaned messages go (EX-09).
        """
        # As in the broker, passive counts only together with a name.
        if passive and queue:
            target = self.queues.get(queue)
        else:
            target, is_new = self.queues.declare(
                queue, arguments or {}, auto_delete, alternate_exchange, durable
            )
            if is_new:
                if exclusive:
                    self._own(target)
                return
        if exclusive:
            self._demand_ownership(target, passive)

    def _demand_ownership(self, queue: Queue, passive: bool) -> None:
        if queue.lifetime.owner == self.name:
            return
        if queue.lifetime.owner or passive or queue.users.consumers:
            raise ResourceLockedException(f"Cannot grant exclusive access to queue {queue.name}")
        self._own(queue)

    def _own(self, queue: Queue) -> None:
        queue.lifetime.owner = self.name
        queue.lifetime.use()
        queue.users.owner_connection = self.connection.name
        self.exclusive_queues.append(queue.name)

    @command("queue.delete")
    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> None:
        """Delete a queue with all its messages (QT-21, FC-21); 531, 404, 405 or 406 if it may not be."""
        self.queues.check_delete(queue, self.name, if_unused, if_empty)
        self.queues.destroy(queue, "delete")

    @command("queue.purge")
    def queue_purge(self, queue: str) -> None:
        """Drop every message that is not acquired (QT-22)."""
        purge(self.queues.get(queue), 0, MessageFilter(None))

    @command("exchange.declare")
    def exchange_declare(
        self,
        exchange: str,
        type: str | None = None,
        *,
        alternate_exchange: str = "",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> None:
        """Declare an exchange, by default of type topic; an existing one may be declared again (EX-03).

        With ``passive`` only ask for one of that name, and of that type and alternate if given; the broker's
        own can be declared in no other way.  404 for an unknown type or alternate, 530 if not allowed.
        """
        registry = self.exchanges
        alternate = registry.alternate(alternate_exchange)
        if passive:
            registry.check(exchange, type or "", alternate)
            return
        if exchange.startswith(("amq.", "qpid.")):
            raise NotAllowedException(
                f'Exchange names beginning with "amq." or "qpid." are reserved. (exchange="{exchange}")'
            )
        kind = "topic" if type is None else type
        registry.declare(exchange, kind, alternate, durable, auto_delete, arguments)

    @command("exchange.delete")
    def exchange_delete(self, exchange: str) -> None:
        """Delete an exchange (EX-03)."""
        self.exchanges.delete(exchange)

    @command("exchange.bind")
    def exchange_bind(
        self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, HeaderValue] | None = None
    ) -> None:
        """Bind a queue to an exchange; binding it again changes nothing (EX-12).

        With ``x-scope`` "session", or a ``qpid.fed.op`` that binds, whatever is bound by this key when the
        session ends is unbound then, whichever session made that binding (RF-30); with an origin only that
        is withdrawn (RF-49).

        404 for an unknown one, 405 for another session's queue, 541 (headers), 542 (default exchange).
        """
        given = arguments or {}
        operation, origin = fed_op(given), fed_origin(given)
        self.queues.bind(exchange, queue, key, given, self.name)
        if given.get("x-scope") == "session" or (FED_OP in given and operation in ("", "B")):
            self.scoped_bindings.append((queue, exchange, key, origin))
        elif operation == "U":
            self._forget_scope(queue, exchange, key, origin)

    def _forget_scope(self, queue: str, exchange: str, key: str, origin: str) -> None:
        asked = (queue, exchange, key, origin)
        self.scoped_bindings = [one for one in self.scoped_bindings if one != asked]

    @command("exchange.unbind")
    def exchange_unbind(self, queue: str, exchange: str, key: str = "") -> None:
        """Remove a binding; removing none changes nothing (EX-12), save for RF-32."""
        # Whether the unbind finds anything or not; and only what was bound without an origin (RF-49).
        self._forget_scope(queue, exchange, key, "")
        self.queues.unbind(exchange, queue, key, self.name)

    @command("queue.query")
    def queue_query(self, queue: str) -> QueueQueryResult:
        """Describe a queue; an unknown one gives an empty answer."""
        return query_queue(self.queues, queue)

    @command("exchange.query")
    def exchange_query(self, exchange: str) -> ExchangeQueryResult:
        """Describe an exchange."""
        return query_exchange(self.exchanges, exchange)

    @command("exchange.bound")
    def exchange_bound(
        self,
        exchange: str,
        queue: str | None = None,
        key: str | None = None,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> ExchangeBoundResult:
        """Query a binding; the answer has the criteria that do not hold (EX-13)."""
        return query_bound(self.queues, exchange, queue, key, arguments)

    # Syncing

    @command("execution.sync", completes=False)
    def execution_sync(self, sync: bool = True) -> None:
        """Request a report once all earlier commands are complete (CM-06, RF-40); hurry the store (CM-12)."""
        if (store := self.context.store) is not None:
            store.flush()
        self.completions.sync_point(self.completions.next_number - 1, sync)

    @command("session.flush", is_numbered=False)
    def session_flush(self) -> None:
        """Request a report of the commands complete by now (CM-05)."""
        self.completions.want_report()

    # Transactions

    @command("tx.select")
    def tx_select(self) -> None:
        """Make the session transactional; its first transaction begins."""
        self._start_transaction()

    @command("tx.commit", completes=False)
    def tx_commit(self, sync: bool = True) -> None:
        """Commit the transaction's publishes and accepts now, all or none (LP-09, RF-22).

        Its own completion waits for earlier commands (CM-07).  503 if the session is not transactional; 541
        if a queue has no room, and nothing happens.
        """
        transaction = self._require_transaction()
        if self.tx_accept is not None:
            transaction.enlist(self.tx_accept)
        self._commit(transaction)
        self._start_transaction()
        self.completions.sync_point(self.completions.next_number - 1, sync)

    def _commit(self, transaction: TxBuffer) -> None:
        try:
            transaction.commit()
        except SessionException:
            self.txn_rejects += 1
            raise
        self.txn_commits += 1

    @command("tx.rollback")
    def tx_rollback(self) -> None:
        """Drop the transaction's publishes and accepts; deliveries remain acquired (MG-22)."""
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
        """Refuse distributed transactions, which this model leaves out: 540, always."""
        raise NotImplementedException(
            "dtx.select: distributed transactions need a transaction manager and recovery; "
            "local transactions are there"
        )

    # The end

    def close(self) -> None:
        """End the session in good order; its unsettled deliveries are requeued (CN-17)."""
        if not self.is_attached:
            return
        self.begin_control()
        if self.context.observer is not None:
            self.show("session.detach", None)
        self.detach()
        self.quiesce()
