"""Queue: deliver, acquire, release, dequeue; everything else is an observer or a policy of it.

Beside ``Queue.cpp``.  The order in which store, policy, listeners and observers are called:
rules.md#order-of-events.

What a queue tells the observer; called only when there is one.

What a queue writes on a message for its consumers: its position, and where it has been (QT-15, QT-17).

TxPublish: a message that a transaction will put on a queue (LP-09, CM-10).
"""

from __future__ import annotations

from typing import ClassVar, Final

from qflow.broker.alerts import make_alerts
from qflow.broker.consumer import Consumer, QueueListeners, QueueUsers
from qflow.broker.context import BrokerContext
from qflow.broker.flow_limit import FlowThresholds, effective_max_size
from qflow.broker.groups import MessageDistributor, MessageGroupManager
from qflow.broker.history.alternatives import make_flow_control
from qflow.broker.lifetime import Lifetime
from qflow.broker.limits import POLICIES, make_policy
from qflow.broker.queue_view import QueueDepth, QueueView
from qflow.broker.queued_message import ACQUIRED, AVAILABLE, REMOVED, QueuedMessage, QueueObserver
from qflow.broker.selector import Selector
from qflow.broker.settings import QueueSettings
from qflow.broker.statistics import QueueStatistics
from qflow.broker.stores import make_store
from qflow.broker.transactions import TxOperation
from qflow.broker.transfer import Router, Transfer

_ENQUEUED: Final[tuple[str, ...]] = ("position", "depth", "bytes")
_DEQUEUED: Final[tuple[str, ...]] = ("position", "reason", "depth", "bytes")
_MOVED: Final[tuple[str, ...]] = ("position",)


def trace_enqueued(queue: QueueView, message: QueuedMessage) -> None:
    """A message is on the queue."""
    transfer = message.transfer
    depth, size = queue.counters.depth()
    queue.context.tell(
        "enqueued",
        queue.name,
        transfer.origin,
        message=transfer.label,
        size=transfer.size,
        group=queue.group_of(message),
        names=_ENQUEUED,
        values=(message.position, depth, size),
    )


def trace_dequeued(queue: QueueView, message: QueuedMessage, reason: str) -> None:
    """A message has left the queue, for this reason."""
    transfer = message.transfer
    depth, size = queue.counters.depth()
    queue.context.tell(
        "dequeued",
        queue.name,
        message=transfer.label,
        size=transfer.size,
        group=message.group,
        names=_DEQUEUED,
        values=(message.position, reason, depth, size),
    )


def trace_moved(queue: QueueView, kind: str, message: QueuedMessage, owner: str = "") -> None:
    """A message was acquired by ``owner``, or requeued."""
    transfer = message.transfer
    queue.context.tell(
        kind,
        queue.name,
        link=owner,
        message=transfer.label,
        size=transfer.size,
        group=message.group,
        names=_MOVED,
        values=(message.position,),
    )


def trace_dropped(queue: QueueView, transfer: Transfer) -> None:
    """A message was not put on the queue."""
    queue.context.emit("dropped", queue.name, transfer.origin, "", transfer.label, transfer.size)


TRACE = "x-qpid.trace"


def annotate(message: QueuedMessage, settings: QueueSettings) -> None:
    """Add the queue's sequence header and trace id, as far as they are asked for.

    A last value queue does not number its messages (QT-15).
    """
    if settings.queue_msg_sequence and not settings.last_value_queue_key:
        message.annotate(settings.queue_msg_sequence, message.position)
    if settings.trace_id:
        been = _trace(message.transfer)
        message.annotate(TRACE, f"{been},{settings.trace_id}" if been else settings.trace_id)


def is_excluded(transfer: Transfer, excluded: str) -> bool:
    """Return whether the message has been where a queue does not want it to come from (QT-17)."""
    return not _names(_trace(transfer)).isdisjoint(_names(excluded))


def _names(trace: str) -> set[str]:
    """Take a list apart; commas and blanks separate, as in the broker."""
    return set(trace.replace(",", " ").split(" ")) - {""}


def _trace(transfer: Transfer) -> str:
    value = transfer.message.header(TRACE)
    return value if isinstance(value, str) else ""


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


class Queue(QueueView):
    """One queue.

    Parameters
    ----------
    context : BrokerContext
        What all parts of the broker share.
    name : str
        The queue's name.
    settings : QueueSettings
        Converted and validated declare arguments.
    thresholds : FlowThresholds or None
        None for a queue without flow control.
    lifetime : Lifetime
        Who owns the queue, and when it deletes itself.
    alternate : Router or None
        Where rejected, evicted and orphaned messages go (EX-09).
    durable : bool
        Remembered and shown; nothing here outlives the broker.
    """

    ONLY_COUNTS: ClassVar[bool] = True
    __slots__ = (
        "settings",
        "lifetime",
        "alternate",
        "durable",
        "store",
        "listeners",
        "flow_limit",
        "groups",
        "distributor",
        "observers",
        "policy",
        "filter",
        "annotates",
        "is_choosy",
        "position",
        "users",
        "binding_count",
        "redirect",
        "is_redirect_source",
    )

    def __init__(
        self,
        context: BrokerContext,
        name: str,
        settings: QueueSettings,
        thresholds: FlowThresholds | None,
        lifetime: Lifetime,
        alternate: Router | None,
        durable: bool = False,
    ) -> None:
        depth = QueueDepth(settings.max_count, effective_max_size(settings, context.options))
        super().__init__(context, name, depth)
        self.settings = settings
        self.lifetime = lifetime
        self.alternate = alternate
        self.durable = durable
        self.store = make_store(settings)
        self.listeners = QueueListeners()
        self.flow_limit = make_flow_control(context, name, settings, thresholds)
        self.groups: MessageGroupManager | None = None
        self.distributor = MessageDistributor(self.store)
        if settings.group_header_key:
            self.groups = MessageGroupManager(context, name, self.store, settings.group_header_key)
            self.distributor = self.groups
        self.observers = self._register_observers()
        self.policy = make_policy(settings.policy, settings.priorities > 0, context.options.limit_policies)
        self.filter: Selector | None = Selector(settings.filter) if settings.filter else None
        self.annotates = bool(settings.queue_msg_sequence or settings.trace_id)
        self.is_choosy = bool(settings.no_local or settings.trace_exclude or self.filter is not None)
        self.position = 0
        self.users = QueueUsers()
        self.binding_count = 0
        self.redirect: Queue | None = None
        self.is_redirect_source = False

    def _register_observers(self) -> tuple[QueueObserver, ...]:
        alerts = make_alerts(self.context, self.name, self.settings)
        return tuple(one for one in (self.groups, alerts, self.flow_limit) if one is not None)

    # Enqueue

    def accepts(self, transfer: Transfer) -> bool:
        """Return whether the queue wants the message at all: no-local, filter, trace (RF-24)."""
        if self.settings.no_local and self.users.is_local(transfer.connection):
            return False
        if self.settings.trace_exclude and is_excluded(transfer, self.settings.trace_exclude):
            return False
        return self.filter is None or self.filter.matches(transfer)

    def deliver(self, transfer: Transfer, delivery_count: int = -1) -> None:
        """Take a routed message: now, or at commit if it was sent in a transaction and is wanted (CM-10)."""
        target = self.redirect or self
        if transfer.transaction is None:
            target.enqueue(transfer, delivery_count)
        elif not target.is_choosy or target.accepts(transfer):
            transfer.transaction.enlist(TxPublish(target, transfer))

    def enqueue(self, transfer: Transfer, delivery_count: int = -1) -> None:
        """Put a routed message on the queue, if there is room for it.

        Raises
        ------
        ResourceLimitExceededException
            506, from the limit policy; nothing is enqueued (LP-05).
        """
        if self.is_deleted:
            return
        if (not self.is_choosy or self.accepts(transfer)) and self.reserve(transfer):
            self.push(transfer, delivery_count)
        elif self.context.observer is not None:
            trace_dropped(self, transfer)

    def reserve(self, transfer: Transfer) -> bool:
        """Take room, or ask the limit policy what to do without; False means: dropped without a word."""
        return self.depth.take_room(transfer.size) or POLICIES[self.policy](self, transfer)

    def push(self, transfer: Transfer, delivery_count: int = -1, in_transaction: bool = False) -> None:
        """Add a message for which room is reserved, and notify consumers (rules.md#order-of-events)."""
        self.position += 1
        message = QueuedMessage(transfer, self.position, delivery_count)
        if self.annotates:
            annotate(message, self.settings)
        if transfer.message.durable:
            self.counters.msgPersistEnqueues += 1
            self.context.store.enqueue(self.name, transfer)
        replaced = self.store.publish(message)
        wake = self.listeners.take() if self.listeners.count else None
        self.counters.enqueue(transfer.size, in_transaction)
        if self.context.observer is not None:
            trace_enqueued(self, message)
        for observer in self.observers:
            observer.enqueued(message)
        if replaced is not None:
            # FC-23: a replacement is an enqueue, then a dequeue; it never triggers auto-delete.
            self.counters.acquires += 1
            self.counters.discardsLvq += 1
            self.remove(replaced, "lvq")
        if wake is not None:
            wake.notify()

    # Dequeue

    def remove(self, message: QueuedMessage, reason: str, in_transaction: bool = False) -> None:
        """Take a message off the queue for good, whatever state it is in (rules.md#order-of-events)."""
        transfer = message.transfer
        self.depth.give_back(transfer.size)
        self.counters.dequeue(transfer.size, in_transaction)
        if transfer.message.durable:
            self.counters.msgPersistDequeues += 1
        if self.context.observer is not None:
            trace_dequeued(self, message, reason)
        for observer in self.observers:
            observer.dequeued(message)
        self.store.remove(message)
        message.state = REMOVED

    def dequeue(self, message: QueuedMessage, reason: str, in_transaction: bool = False) -> None:
        """Remove a message, and delete the queue if it was only waiting for that (RF-19 iii)."""
        self.remove(message, reason, in_transaction)
        self.settle()

    def reject(self, message: QueuedMessage) -> None:
        """Remove a message that a consumer refuses, and hand it to the alternate exchange (CN-16)."""
        self.counters.discardsSubscriber += 1
        self.remove(message, "reject")
        if self.alternate is not None:
            self.alternate.route_with_alternate(message.transfer)
        self.settle()

    def settle(self, was_emptied: bool = False) -> None:
        """Do what follows a dequeue: wake one for a freed group; auto-delete, even if refilled (QT-09)."""
        if self.groups is not None and self.groups.has_freed:
            self.groups.has_freed = False
            if self.context.options.wake_up == "eager":
                self.listeners.wake()
        if self.lifetime.policy and (was_emptied or not self.depth.count):
            self.lifetime.consider(self)

    # Acquire and release

    def acquire(self, message: QueuedMessage, owner: str) -> bool:
        """Give an AVAILABLE message to ``owner``, if its group allows (MG-07); counts nothing (RF-02)."""
        if message.state != AVAILABLE or not self.distributor.take(owner, message):
            return False
        message.state = ACQUIRED
        self.store.hide(message)
        for observer in self.observers:
            observer.acquired(message)
        if self.context.observer is not None:
            trace_moved(self, "acquired", message, owner)
        return True

    def release(self, message: QueuedMessage, set_redelivered: bool) -> None:
        """Make an acquired message AVAILABLE again at its old place, and wake one for it (CN-14)."""
        if message.state != ACQUIRED:
            return
        if not set_redelivered:
            message.delivery_count -= 1
        message.state = AVAILABLE
        self.store.show(message)
        self.counters.releases += 1
        for observer in self.observers:
            observer.requeued(message)
        if self.context.observer is not None:
            trace_moved(self, "requeued", message)
        self.listeners.wake()

    # Consumers

    def add_consumer(self, consumer: Consumer, is_exclusive: bool, connection: str) -> None:
        """Take note of a new subscription."""
        self.users.add(consumer, is_exclusive, connection)
        self.lifetime.use()

    def cancel(self, consumer: Consumer) -> None:
        """Forget a subscription; its going may serve another one (RF-14) or end the queue (RF-19 i)."""
        self.listeners.remove(consumer)
        self.users.remove(consumer)
        if self.store.available_count():
            self.listeners.wake()
        if self.is_unused:
            self.lifetime.consider(self)

    @property
    def is_unused(self) -> bool:
        """Whether nobody reads the queue."""
        return not self.users.total

    def eviction_candidate(self) -> QueuedMessage | None:
        """Return what a ring would drop next."""
        return self.store.eviction_candidate()

    def evict(self, message: QueuedMessage) -> None:
        """Drop a message to make room; the alternate exchange gets it (LP-10.3)."""
        self.remove(message, "ring")
        if self.alternate is not None:
            self.alternate.route_with_alternate(message.transfer, message.delivery_count)

    def group_of(self, message: QueuedMessage) -> str:
        """Return the message's group on this queue, or ""."""
        return self.groups.identify(message) if self.groups is not None else ""

    @property
    def message_count(self) -> int:
        """Messages that nobody has acquired: AMQP's ``queue.query`` (DQ-01)."""
        return self.store.available_count()

    def statistics(self) -> QueueStatistics:
        """Return what management shows of the queue now (CF-09)."""
        limit = self.flow_limit
        return QueueStatistics(
            name=self.name,
            msgDepth=self.message_depth,
            byteDepth=self.byte_depth,
            messageCount=self.message_count,
            consumerCount=self.users.total,
            bindingCount=self.binding_count,
            flowStopped=limit is not None and limit.stopped,
            flowStoppedCount=limit.stopped_count if limit is not None else 0,
            redirectPeer=self.redirect.name if self.redirect is not None else "",
            redirectSource=self.is_redirect_source,
            **self.counters.values(),
        )
