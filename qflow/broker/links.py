"""Links: the sessions and commands of AMQP 1.0 clients.

An AMQP 1.0 client sends and receives over *links*, which it attaches to nodes
(:mod:`qflow.broker.link_nodes`). Queues, flow control, groups and limits work as for AMQP 0-10 clients.  This
module has all the differences:

* **A sender's link** (:class:`IncomingLink`) gets a separate outcome for each transfer, where 0-10 reports
  ranges of command numbers.  Flow control withholds the outcome, and has no other effect (LNK-02).  If a
  queue has no room, the outcome is *released*, and the session survives (LNK-05).
* **A receiver's link** (:class:`OutgoingLink`) is a subscription in credit mode: each delivery uses one
  credit, and only the client grants more (LNK-10).  It stores its unsettled deliveries in a ring buffer
  (LNK-11), and skips messages that its client has declared undeliverable on this link (LNK-12).
* **Every frame on a connection makes the broker serve all links of the connection** (LNK-15): a receiver that
  sleeps although a group has been freed (MG-13) is woken by its client's next frame of any kind, and even by
  the broker's own heartbeat.
* **Transactions**: a session has at most one at a time.  Transfers in it get their outcome at once, so that
  flow control never holds them (LNK-21).  A rollback returns the deliveries that were accepted in it, with
  their delivery count raised by one (LNK-22).
* **The end of a link** returns the client's unsettled messages from first to last, with their delivery count
  raised (LNK-13).  Transfers whose outcome is withheld stay on their queues, and never get an outcome
  (LNK-07).  The real broker returns messages even if the link is a *browser*, which has not acquired them: so
  a message that another link has acquired becomes available again, and is delivered twice (RF-51).

A refused command ends at most its link, which the caller closes with the condition that :func:`condition_of`
returns; the session continues.  The hooks of clients (``on_outcome``, ``on_link_closed``,
``consuming.on_delivery``) are called during a command of any client, so they must neither raise nor give
commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final, NamedTuple, cast

from qflow.broker.consuming import (
    BYTE_UNIT,
    CREDIT_MODE,
    INFINITE,
    AttachedSession,
    Connection,
    Credit,
    DeliveryRecord,
    SemanticState,
    Subscription,
)
from qflow.broker.context import BrokerContext
from qflow.broker.errors import (
    AmqpException,
    BrokerFailure,
    CommandInvalidException,
    FramingErrorException,
    LinkException,
    NotFoundException,
    ResourceDeletedException,
    ResourceLimitExceededException,
    SessionException,
)
from qflow.broker.exchanges import Exchange, topic_matches
from qflow.broker.link_nodes import (
    SHARED,
    TOPIC,
    LinkNodes,
    Node,
    granted_capabilities,
    shown_properties,
)
from qflow.broker.message import CommandOwner, HeaderValue, Message, QueuedMessage, Transfer, flag, show
from qflow.broker.queue import Queue
from qflow.broker.registry import QueueRegistry
from qflow.broker.restorable import Dependent
from qflow.broker.selector import Selector
from qflow.broker.session import Session, command
from qflow.broker.snapshot import Flag, Refused, Text
from qflow.broker.transactions import TxBuffer, TxOperation

MAX_UNACKED: Final = 5_000
"""The largest number of unsettled deliveries of a link, the default of ``session-max-unacked`` (LNK-11)."""

SUBJECT: Final = "qpid.subject"
"""The header that contains a message's subject, as in messaging over AMQP 0-10."""

SELECTOR_FILTER: Final = "apache.org:selector-filter:string"
TOPIC_FILTER: Final = "apache.org:legacy-amqp-topic-binding:string"
DIRECT_FILTER: Final = "apache.org:legacy-amqp-direct-binding:string"
HEADERS_FILTER: Final = "apache.org:legacy-amqp-headers-binding:map"
NO_LOCAL_FILTER: Final = "apache.org:no-local-filter:list"

Options = Mapping[str, Any]


def condition_of(error: AmqpException) -> tuple[str, str]:
    """Return the error condition and description with which a link is closed after a refusal (LNK-08)."""
    if isinstance(error, LinkException):
        return error.condition, error.text
    if isinstance(error, ResourceDeletedException):
        return "amqp:resource-deleted", str(error)
    if isinstance(error, FramingErrorException):
        # An error that the real broker does not raise as a session's error, such as an invalid selector, has
        # a description without the name of a code.
        return "amqp:internal-error", error.text
    return "amqp:internal-error", str(error)


DELIVERY_OVERHEAD: Final = 1_024
"""Bytes of memory that a server needs for a delivery beside the message, until the client has read it."""


class _LinkCredit(Credit):
    """A link's credit in messages, each spent permanently (LNK-10), and an allowance of bytes."""

    # AMQP 1.0 has no credit in bytes, so the allowance is infinite by default.  A server sets it to the room
    # in its client's socket, so that a receiver that does not read gets no more messages.  As long as it is
    # not used up, a message of any size may be sent: otherwise the largest would wait for ever.

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.mode = CREDIT_MODE
        self.volume.grant(INFINITE)

    def grant(self, unit: int, amount: int) -> None:
        """Add credit in messages, or set the allowance of bytes."""
        if unit == BYTE_UNIT:
            self.volume.granted = amount
        else:
            super().grant(unit, amount)

    def stop(self) -> None:
        """Withdraw the credit in messages, but not the allowance of bytes, which the server sets."""
        self.messages.granted = 0

    def takes_any_size(self) -> bool:
        """Return True, as any allowance of bytes that is left admits a message of any size."""
        return True

    def charge(self, size: int) -> None:
        """Spend credit for one message, and the allowance for its bytes and the overhead of a delivery."""
        self.messages.spend(1)
        volume = self.volume
        if volume.granted != INFINITE:
            volume.granted = max(0, volume.granted - size - DELIVERY_OVERHEAD)


class OutgoingLink(Subscription):
    """A link on which the client receives messages."""

    __slots__ = ("subject", "ring", "capacity", "refused", "own_queue", "is_controlling", "granted")

    def __init__(
        self,
        target: _LinkDeliveries,
        tag: str,
        owner: str,
        queue: Queue,
        acquires: bool,
        is_explicit: bool,
        is_exclusive: bool,
        arguments: Mapping[str, Any],
    ) -> None:
        super().__init__(target, tag, owner, queue, acquires, is_explicit, is_exclusive, arguments)
        self.credit = _LinkCredit()
        # A topic pattern that a message's subject must match, or "" for no condition (LNK-14).
        self.subject = ""
        # The ring buffer's occupied slots, each with the number of its unsettled delivery (LNK-11).
        self.ring: dict[int, int] = {}
        self.capacity = MAX_UNACKED
        # The positions of messages that the client declared undeliverable on this link (LNK-12).
        self.refused: set[int] = set()
        # Whether the queue was created for this subscription to an exchange, and ends with it (LNK-19).
        self.own_queue = False
        self.is_controlling = False
        self.granted: _Granted | None = None

    def is_choosy(self) -> bool:
        """Return whether the link may skip messages that its queue offers."""
        return self.selector is not None or bool(self.subject) or bool(self.refused)

    def wants(self, message: QueuedMessage) -> bool:
        """Return whether a message matches selector and subject, and was not declared undeliverable."""
        if self.refused and message.position in self.refused:
            return False
        if self.subject and not topic_matches(self.subject, _read_subject(message)):
            return False
        return super().wants(message)

    def send_next(self) -> bool:
        """Try to send one message, if the ring's next slot is free (LNK-11); return whether one was sent."""
        # The broker keeps records in an array, of which the next slot must be free: one old unsettled
        # delivery stops the link, even if all others are settled.
        slot = self.delivered % self.capacity
        if slot in self.ring:
            self.block()
            return False
        number = self.target.next_number
        if not super().send_next():
            return False
        if self.is_explicit:
            self.ring[slot] = number
        else:
            # No record is kept, even for a browser, as the client settles these deliveries at once.
            self.target.records.pop(number, None)
        return True

    def free(self, number: int) -> None:
        """Free the slot of a settled delivery, and wake the link if it has credit."""
        for slot, taken in self.ring.items():
            # The search starts with the oldest, as most clients settle in order.
            if taken == number:
                del self.ring[slot]
                break
        self.wake_for_credit()

    def wake_for_credit(self) -> None:
        """Wake a waiting link once it has both credit in messages and an allowance of bytes."""
        if self.credit.exists():
            super().wake_for_credit()


def _read_subject(message: QueuedMessage) -> str:
    value = message.transfer.message.header(SUBJECT)
    return value if isinstance(value, str) else ""


class _LinkDeliveries(SemanticState):
    """The receiving links of a session and their deliveries, each of which is settled individually."""

    __slots__ = ()

    def send_command(self) -> int:
        number = self.next_number
        self.next_number += 1
        return number

    def release(self, numbers: Iterable[int], set_redelivered: bool) -> None:
        """Release acquired deliveries to their queues; a browser's are only settled (LNK-12)."""
        for record in self._find_records(numbers):
            if record.is_acquired:
                record.release(set_redelivered)
            else:
                record.accept()
            self._sweep(record)
        self.unacked_messages = len(self.records)

    def reject(self, numbers: Iterable[int]) -> None:
        """Reject acquired deliveries (CN-16); a browser's are only settled."""
        for record in self._find_records(numbers):
            # The record first, as the reject itself may fail: the alternate may refuse the message.
            del self.records[record.id]
            self._free(record)
            if record.is_acquired:
                record.reject()
        self.unacked_messages = len(self.records)

    def _sweep(self, record: DeliveryRecord) -> None:
        if record.is_redundant:
            self.records.pop(record.id, None)
            self._free(record)

    def _free(self, record: DeliveryRecord) -> None:
        link = self.subscriptions.get(record.tag)
        if isinstance(link, OutgoingLink):
            link.free(record.id)

    def end(self, link: OutgoingLink) -> None:
        """End a link, and return its deliveries from first to last, with their counts raised (LNK-13)."""
        del self.subscriptions[link.name]
        self.blocked.discard(link.name)
        link.is_enabled = False
        self.connection.forget(link)
        own = [record for record in self.records.values() if record.tag == link.name]
        for record in own:
            del self.records[record.id]
        self._end_with_session(link)
        for record in own:
            if record.is_acquired:
                record.release(set_redelivered=True)
            else:
                # A link that has acquired it meanwhile keeps its delivery, and another link gets it too
                # (RF-51).
                record.queue.release(record.message, set_redelivered=True)
        self.unacked_messages = len(self.records)

    def move_to_transaction(self, number: int, transaction: TxBuffer) -> None:
        """Enlist the accept of a delivery in a transaction; the delivery leaves its link now (RF-58)."""
        record = self.records.pop(number, None)
        if record is not None:
            self._free(record)
            transaction.enlist(_TxSettle(record))
        self.unacked_messages = len(self.records)


class _TxSettle(TxOperation):
    """The accept of a delivery in a transaction, which takes effect at its commit (LNK-22)."""

    __slots__ = ("record",)

    def __init__(self, record: DeliveryRecord) -> None:
        self.record = record

    def commit(self) -> None:
        self.record.accept(in_transaction=True)

    def rollback(self) -> None:
        self.record.release(set_redelivered=True)


class _Granted(Dependent):
    """The terminus in the answer to an attach, with everything that the broker has granted."""

    __slots__ = ("address", "capabilities", "properties", "filters")

    def __init__(self, address: str, capabilities: list[str], properties: dict[str, HeaderValue]) -> None:
        self.address = address
        # The requested capabilities and properties that the node has, with their actual values (LNK-17).
        self.capabilities = capabilities
        self.properties = properties
        self.filters: dict[str, list[Any]] = {}


class IncomingLink(CommandOwner):
    """A link on which the client sends messages, and the owner of transfers without an outcome (LNK-02)."""

    __slots__ = ("session", "name", "queue", "exchange", "unsettled", "is_controlling", "granted")

    def __init__(self, session: LinkSession, name: str, node: Node, granted: _Granted) -> None:
        self.session = session
        self.name = name
        self.queue = node.queue
        self.exchange = node.exchange
        self.is_controlling = node.is_controlled
        self.granted = granted
        # The transfers whose outcome is withheld, by number.
        self.unsettled: dict[int, Transfer] = {}

    @property
    def destination(self) -> str:
        """The name of the exchange to which the link sends, or "" if it does not send to an exchange."""
        return "" if self.exchange is None else self.exchange.name

    def route(self, transfer: Transfer) -> None:
        """Route a transfer to the link's node; raise LinkException if the node was deleted (LNK-09)."""
        queue, exchange = self.queue, self.exchange
        if queue is not None:
            if queue.is_deleted:
                raise LinkException(f" Queue {queue.name} has been deleted", "amqp:resource-deleted")
            queue.deliver(transfer)
            return
        if exchange is None:
            # An anonymous relay: each message names its node.
            found = self.session.nodes.find(transfer.message.routing_key or "", False)
            if found.queue is not None:
                found.queue.deliver(transfer)
                return
            exchange = found.exchange
            if exchange is None:
                # A message to an unknown address is accepted and lost (LNK-06).
                self.session.show_lost(transfer)
                return
        elif exchange.is_deleted:
            raise LinkException(f" Exchange {exchange.name} has been deleted", "amqp:resource-deleted")
        exchange.route_with_alternate(transfer)

    def transfer_complete(self, transfer: Transfer) -> None:
        """Complete a transfer, and send its outcome to the client now if it was withheld (LNK-03)."""
        held = self.unsettled.pop(transfer.number, None)
        session = self.session
        session.completions.transfer_complete(transfer)
        if held is not None and session.on_outcome is not None:
            session.on_outcome(self.name, transfer.number)

    def report(self) -> None:
        """Do nothing, as each outcome is sent separately, not in a report."""

    def block_channel(self, queue: str) -> None:
        """Request that the client stop sending, on behalf of a queue (ALT-12)."""
        self.session.completions.block_channel(queue)

    def unblock_channel(self, queue: str) -> None:
        """End a queue's request that the client stop sending (ALT-12)."""
        self.session.completions.unblock_channel(queue)

    def abandon(self) -> None:
        """Drop all withheld outcomes; the messages stay on their queues (LNK-07)."""
        for number, transfer in self.unsettled.items():
            transfer.owner = None
            self.session.completions.incomplete.pop(number, None)
        self.unsettled.clear()


class LinkSession(Session):
    """A session of AMQP 1.0, made by :meth:`qflow.broker.Broker.link_session`."""

    VOLATILE: ClassVar[tuple[str, ...]] = ("on_outcome", "on_link_closed", "on_ended")
    __slots__ = ("container", "nodes", "senders", "on_outcome", "on_link_closed", "on_ended")

    def __init__(
        self,
        context: BrokerContext,
        queues: QueueRegistry,
        name: str,
        connection: Connection,
        nodes: LinkNodes,
        container: str,
    ) -> None:
        super().__init__(context, queues, name, connection)
        self.nodes = nodes
        self.container = container
        self.consuming = _LinkDeliveries(context, name, connection, cast(AttachedSession, self))
        # The links on which the client sends; those on which it receives are in consuming.subscriptions.
        self.senders: dict[str, IncomingLink] = {}
        # A hook that is called with a link's name and a transfer's number when a withheld outcome is sent.
        self.on_outcome: Callable[[str, int], None] | None = None
        # A hook that is called with a link's name and an error when the broker closes the link.
        self.on_link_closed: Callable[[str, AmqpException], None] | None = None
        # A hook that is called with an error when the connection is closed, which only management does.
        self.on_ended: Callable[[AmqpException], None] | None = None

    @property
    def has_waiting(self) -> bool:
        """Whether a link of the connection waits although its queue has available messages (LNK-15)."""
        return bool(_find_waiting(self.connection))

    # The steps of a command

    def begin(self) -> int:
        """Begin a command, which makes the broker serve all links of the connection; return its number."""
        number = super().begin()
        # Only after the connection has become the one being read, which is served last (RF-52).
        self._serve_all()
        return number

    def begin_control(self) -> int:
        """Begin a control, which also makes the broker serve all links of the connection."""
        number = super().begin_control()
        self._serve_all()
        return number

    def _serve_all(self) -> None:
        # For AMQP 1.0, the broker serves all links of a connection whenever a frame arrives on it (LNK-15). A
        # link that was not woken for a message finds it then, so the lost wake-up of MG-13 is short here.
        for link in _find_waiting(self.connection):
            link.notify()

    def fail_command(self, error: Exception, number: int = -1) -> None:
        """Complete a refused command; the session survives, and the caller closes the link (LNK-08)."""
        if not isinstance(error, AmqpException):
            super().fail_command(error, number)
            return
        self._refuse(error, number)
        self.quiesce()

    def fail(self, error: AmqpException) -> None:
        """End the session after management has closed its connection, and call the hook on_ended."""
        super().fail(error)
        if self.on_ended is not None:
            self.on_ended(error)

    def _refuse(self, error: AmqpException, number: int, link: str = "", label: str = "") -> None:
        if self.context.observer is not None:
            name, text = condition_of(error)
            detail = {"command": number, "name": name, "text": text}
            self.context.emit("refused", session=self.name, link=link, message=label, detail=detail)
        if isinstance(error, BrokerFailure):
            self.context.note_failure(error.how, error.text)
        if number >= 0:
            self.completions.complete(number)

    def show_lost(self, transfer: Transfer) -> None:
        """Count a transfer that reached no queue, and emit the event."""
        self.context.discardsNoRoute += 1
        if self.context.observer is not None:
            label, size = transfer.label, transfer.size
            self.context.tell("unroutable", session=self.name, message=label, size=size)

    @command("link.dispatch", is_numbered=False)
    def link_dispatch(self) -> None:
        """Serve all links of the connection after a frame that is not a command (LNK-15)."""

    # Links

    @command("link.attach")
    def link_attach(
        self, tag: str, role: str, address: str | None = None, options: Options | None = None
    ) -> IncomingLink | OutgoingLink:
        """Attach a link to a node, which is created if its terminus requests it (LNK-16 … LNK-19)."""
        # The options of a terminus: dynamic, capabilities, properties; for a source also filters (by name,
        # each a descriptor and a value), copy (a browser), settled (at most once), unsettled, durable, and
        # timeout in seconds.
        given = options or {}
        is_sender = role == "sender"
        if tag in (self.senders if is_sender else self.consuming.subscriptions):
            raise LinkException(f"Link name is already in use: {tag}", "amqp:precondition-failed")
        capabilities = [str(one) for one in given.get("capabilities", ())]
        properties: dict[str, object] = dict(given.get("properties") or {})
        is_dynamic = bool(given.get("dynamic"))
        name = f"{self.container}_{tag}" if is_dynamic else address or ""
        if is_sender and address is None and not is_dynamic:
            relay = IncomingLink(self, tag, Node(None, None), _Granted("", [], {}))
            self.senders[tag] = relay
            return relay
        node = self.nodes.resolve(name, is_dynamic, capabilities, properties, self.name)
        if node.is_new and node.queue is not None and node.queue.lifetime.owner == self.name:
            self.exclusive_queues.append(node.queue.name)
        shown_as = shown_properties(node, properties)
        granted = _Granted(name, granted_capabilities(node, capabilities), shown_as)
        if is_sender:
            return self._attach_sender(tag, node, granted)
        return self._attach_receiver(tag, node, granted, given)

    def _attach_sender(self, tag: str, node: Node, granted: _Granted) -> IncomingLink:
        link = IncomingLink(self, tag, node, granted)
        if node.queue is not None:
            node.queue.users.enter(node.is_controlled)
            node.queue.lifetime.use()
        self.senders[tag] = link
        return link

    def _attach_receiver(self, tag: str, node: Node, granted: _Granted, given: Options) -> OutgoingLink:
        filters: dict[str, Any] = dict(given.get("filters") or {})
        for one in filters.values():
            if not isinstance(one, list | tuple) or len(one) != 2:
                raise TypeError(f"link.attach: a filter must be a descriptor and a value, got {show(one)}")
        arguments = _find_selector(filters, granted)
        queue, own_queue = node.queue, node.queue is None
        is_exclusive = own_queue and SHARED not in granted.capabilities
        is_browser = bool(given.get("copy")) and not own_queue
        subject = ""
        if queue is None:
            queue = self._declare_subscription_queue(
                tag, node, granted, given, filters, arguments, is_exclusive
            )
            # In this case the queue has the selector, not the link (LNK-14).
            arguments = {}
        else:
            name, descriptor, subject = _find_subject_filter(filters) or ("", "", "")
            if subject:
                granted.filters[name] = [descriptor, subject]
            if queue.settings.browse_only:
                is_browser = True
            elif not is_browser and queue.lifetime.owner not in ("", self.name):
                raise LinkException(
                    f"Cannot consume from exclusive queue {queue.name}", "amqp:precondition-failed"
                )
        if not is_browser:
            self._check_owner(queue)
            self._check_readers(queue, is_exclusive)
        is_explicit = bool(given.get("unsettled")) if own_queue else not given.get("settled")
        state = cast(_LinkDeliveries, self.consuming)
        owner = f"{self.name}::{tag}"
        link = OutgoingLink(state, tag, owner, queue, not is_browser, is_explicit, is_exclusive, arguments)
        link.subject = subject
        link.own_queue = own_queue
        link.granted = granted
        queue.add_consumer(link, is_exclusive, self.connection.name)
        # The broker checks for exclusiveness, but does not record that it has granted it (LNK-19).
        queue.users.has_exclusive_consumer = False
        if node.is_controlled:
            link.is_controlling = True
            queue.users.enter(True)
        state.add(link)
        return link

    def _declare_subscription_queue(
        self,
        tag: str,
        node: Node,
        granted: _Granted,
        given: Options,
        filters: Mapping[str, Any],
        arguments: Mapping[str, Any],
        is_exclusive: bool,
    ) -> Queue:
        """Return the queue of a subscription to an exchange, declared and bound to it (LNK-19)."""
        exchange = node.exchange
        assert exchange is not None
        name = f"{self.container}_{tag}" if is_exclusive else tag
        properties = {
            key: value for key, value in (node.policy or {}).items() if key != "qpid.lifetime-policy"
        }
        if any(value[0] == NO_LOCAL_FILTER for value in filters.values()):
            # In force, although the answer to the attach does not repeat it (LNK-14).
            properties["no-local"] = True
        if arguments:
            properties["qpid.filter"] = arguments["x-apache-selector"]
        timeout = int(given.get("timeout") or 0)
        if timeout:
            properties["qpid.auto_delete_timeout"] = timeout
        is_durable = bool(given.get("durable"))
        properties["durable"] = is_durable
        goes = not is_durable or timeout
        queue = self.nodes.queue(name, properties, "delete-if-unused" if goes else "")
        key, conditions = self._choose_binding(exchange, granted, filters)
        self.exchanges.get(exchange.name).bind(queue, key, conditions)
        return queue

    def _choose_binding(
        self, exchange: Exchange, granted: _Granted, filters: Mapping[str, Any]
    ) -> tuple[str, dict[str, HeaderValue]]:
        """Return the key and the arguments with which a subscription's queue is bound (LNK-14)."""
        if exchange.type == "headers":
            found = next((name for name, value in filters.items() if value[0] == HEADERS_FILTER), None)
            conditions: dict[str, HeaderValue] = {"x-match": "all"}
            if found is not None and isinstance(filters[found][1], Mapping):
                conditions |= filters[found][1]
            granted.filters[found or "default-headers-filter"] = [HEADERS_FILTER, conditions]
            return "", conditions
        asked = _find_subject_filter(filters)
        is_topic = exchange.type == TOPIC
        default = (TOPIC_FILTER, "#") if is_topic else (DIRECT_FILTER, "")
        name, descriptor, key = asked or ("default-subject-filter", *default)
        if is_topic or exchange.type == "direct":
            if not is_topic and descriptor == TOPIC_FILTER:
                descriptor = DIRECT_FILTER
            granted.filters[name] = [descriptor, key]
        return key, {}

    @command("link.detach", is_numbered=False)
    def link_detach(self, tag: str, role: str) -> None:
        """End a link on its client's request, by close or detach, which have the same effect (LNK-13)."""
        if role == "sender":
            self._drop_sender(tag)
            return
        link = self.consuming.subscriptions.get(tag)
        if isinstance(link, OutgoingLink):
            self._drop_receiver(link, is_asked=True)

    def _drop_sender(self, tag: str) -> None:
        link = self.senders.pop(tag, None)
        if link is None:
            return
        link.abandon()
        if link.queue is not None:
            link.queue.leave(link.is_controlling)

    def _drop_receiver(self, link: OutgoingLink, is_asked: bool) -> None:
        if link.is_controlling:
            link.queue.users.leave(True)
        cast(_LinkDeliveries, self.consuming).end(link)
        queue = link.queue
        if queue.is_deleted:
            return
        if link.own_queue and is_asked and queue.is_unused:
            with suppress(SessionException):
                self.context.destroy_queue(queue.name, "auto-delete")
        elif link.is_controlling:
            queue.delete_unless_needed()

    def note_queue_deleted(self, subscription: Subscription, error: SessionException) -> None:
        """Close a link whose queue was deleted, and call the hook on_link_closed (LNK-09)."""
        link = cast(OutgoingLink, subscription)
        if self.context.observer is not None:
            name, text = condition_of(error)
            detail = {"name": name, "text": text}
            queue = link.queue.name
            self.context.emit("link_closed", queue, self.name, link.name, detail=detail)
        self._drop_receiver(link, is_asked=False)
        if self.on_link_closed is not None:
            self.on_link_closed(link.name, error)

    def detach(self) -> None:
        """End all links, the session and its transaction."""
        for tag in sorted(self.senders):
            self._drop_sender(tag)
        for tag in sorted(self.consuming.subscriptions):
            link = self.consuming.subscriptions[tag]
            if isinstance(link, OutgoingLink):
                self._drop_receiver(link, is_asked=False)
        super().detach()

    # Sending

    def message_transfer(
        self,
        message: Message | Refused,
        exchange: Text = "",
        sync: Flag = False,
        *,
        tag: Text = "",
        transactional: Flag = False,
    ) -> Transfer:
        """Send a message on a link; after 506 the link survives, other refusals close it (LNK-05)."""
        # content_size is the length of the whole encoded message, which is the size that counts (LNK-04).
        self.require_attached("message.transfer")
        if not isinstance(message, Message):
            raise TypeError(f"message.transfer: message must be a Message, got {show(message)}")
        if not isinstance(tag, str):
            raise TypeError(f"message.transfer: tag must be a string, got {show(tag)}")
        transactional = flag("message.transfer: transactional", transactional)
        link = self.senders.get(tag)
        if link is None:
            raise NotFoundException(f"Unknown link {tag} session={self.name}")
        # Each transfer states whether it belongs to the session's transaction.
        transaction = self._require_transaction() if transactional else None
        transfer = self._make_transfer(link, message, message.content_size, link.destination, transaction)
        transfer.came_on_link = True
        number = self.begin()
        if self.context.observer is not None:
            more = {"tag": tag, "transactional": True} if transactional else {"tag": tag}
            self._show_transfer(transfer, False, tuple(more), tuple(more.values()))
        try:
            link.route(transfer)
        except AmqpException as error:
            transfer.owner = None
            self.connection.from_client.count(transfer.size, message.content_size)
            self._refuse(error, number, tag, transfer.label)
            self.quiesce()
            raise
        except Exception as error:
            self.transfer_count -= 1
            super().fail_command(error, number)
            raise
        self.connection.from_client.count(transfer.size, message.content_size)
        transfer.end_routing()
        if transfer.pending:
            link.unsettled[number] = transfer
            self.completions.hold(transfer)
        self.quiesce()
        return transfer

    # Receiving

    def message_accept(self, transfers: Iterable[int], transactional: Flag = False) -> None:
        """Accept deliveries; to settle them without an outcome has the same effect (LNK-12)."""
        if flag("message.accept: transactional", transactional):
            self._accept_at_commit(transfers, transactional=True)
        else:
            super().message_accept(transfers)

    @command("message.accept")
    def _accept_at_commit(self, transfers: Iterable[int], transactional: bool) -> None:
        transaction = self._require_transaction()
        state = cast(_LinkDeliveries, self.consuming)
        for number in transfers:
            state.move_to_transaction(number, transaction)

    @command("message.modify")
    def message_modify(
        self,
        transfers: Iterable[int],
        delivery_failed: bool = False,
        undeliverable_here: bool = False,
        annotations: Mapping[str, HeaderValue] | None = None,
    ) -> None:
        """Return deliveries to their queues with changed annotations, delivery count or refusal (LNK-12)."""
        state = cast(_LinkDeliveries, self.consuming)
        for number in cast("tuple[int, ...]", transfers):
            record = state.records.get(number)
            if record is None or not record.is_acquired:
                continue
            for key, value in (annotations or {}).items():
                record.message.annotate(key, value)
            link = state.subscriptions.get(record.tag)
            if undeliverable_here and isinstance(link, OutgoingLink):
                link.refused.add(record.message.position)
        state.release(transfers, delivery_failed)

    # Transactions

    @command("tx.select")
    def tx_select(self) -> None:
        """Begin a transaction; a session has at most one at a time (LNK-21)."""
        if self.transaction is not None:
            raise LinkException(
                "Session only supports one transaction active at a time", "amqp:transaction:rollback"
            )
        self.transaction = TxBuffer()
        self.txn_starts += 1

    @command("tx.commit")
    def tx_commit(self, sync: bool = True) -> None:
        """Commit transfers and accepts, all or none (LNK-21); raise 541 if a queue is full (LNK-23)."""
        transaction = self._require_transaction()
        self.transaction = None
        self._commit(transaction)

    @command("tx.rollback")
    def tx_rollback(self) -> None:
        """Drop the transaction's transfers, and return its accepted deliveries, counts raised (LNK-22)."""
        transaction = self._require_transaction()
        self.transaction = None
        transaction.rollback()
        self.txn_rejects += 1

    def _require_transaction(self) -> TxBuffer:
        if self.transaction is None:
            raise CommandInvalidException("there is no current transaction")
        return self.transaction


def is_released(error: AmqpException) -> bool:
    """Return whether the outcome of a refused transfer is "released", so that its link survives (LNK-05)."""
    return isinstance(error, ResourceLimitExceededException)


def _find_waiting(connection: Connection) -> list[Subscription]:
    """Return the links of a connection that wait although their queues have available messages (LNK-15)."""
    return [
        link
        for session in connection.sessions
        if isinstance(session, LinkSession)
        for link in session.consuming.subscriptions.values()
        if link.is_listening and link.queue.store.available_count()
    ]


def _find_selector(filters: Mapping[str, Any], granted: _Granted) -> dict[str, Any]:
    """Return the selector among the filters as a subscription's argument, and add it to those granted."""
    for name, (descriptor, value) in filters.items():
        if descriptor == SELECTOR_FILTER and isinstance(value, str) and value:
            # Parsed before anything is created, as it may be invalid.
            Selector(value)
            granted.filters[name] = [descriptor, value]
            return {"x-apache-selector": value}
    return {}


class _SubjectFilter(NamedTuple):
    name: str
    descriptor: str
    subject: str


def _find_subject_filter(filters: Mapping[str, Any]) -> _SubjectFilter | None:
    """Return the first filter on the subject that is not empty, or else an empty one, or None (LNK-14)."""
    found: _SubjectFilter | None = None
    for name, (descriptor, value) in filters.items():
        is_subject = descriptor in (TOPIC_FILTER, DIRECT_FILTER, "") and isinstance(value, str)
        if is_subject and (found is None or not found.subject):
            found = _SubjectFilter(name, descriptor, value)
    return found
