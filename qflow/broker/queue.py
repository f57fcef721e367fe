"""Queue: acquire, release, dequeue; everything else is an observer, a policy or a store of it.

What happens to one message, and why in this order (compare ``Queue.cpp``):

*On its way in*, :meth:`Queue.deliver` asks in turn:

1. Redirected queues have swapped what they get, so the message goes to the other one (QT-18).  A message of a
   transaction is noted there and enqueued at commit (CM-10).
2. Does the queue want it?  No-local, trace and filter drop it silently (RF-24).
3. Is there *room*?  Room is reserved before the message is visible, so that a refusal has nothing to undo
   (LP-01, DQ-03).  Without room the limit *policy* decides: it raises, or evicts others, or drops it (LP).
4. :meth:`Queue.push`: the message gets its position, which is never used again (QT-20); the message *store*
   gets a durable one; the queue's own store takes it in.  The readers to be woken are chosen now, and woken
   last: whatever an observer does, this event wakes these (CN-19, RF-06).
5. It is counted, and the *observers* see it: groups, then alerts, then flow control, so that flow control
   withholds the completion of a message that is on the queue for everyone else already (FC-14, FC-15).
6. On a last value queue the older message of the same value leaves only now: an enqueue, then a dequeue
   (FC-23).

*In between*, :meth:`Queue.acquire` asks the *distributor* whether the consumer may have the message
(MG-07), and hides it from all cursors.  It is still on the queue: depth, thresholds and limits do not
change (DQ-02). :meth:`Queue.release` shows it again at its old place, and wakes one reader for it (CN-14).

*On its way out*, :meth:`Queue.remove` gives the room back first, then counts, then calls the observers, so
that flow control sees a depth at which producers could go on (FC-16); the store forgets it last.  What
follows, such as the alternate exchange (CN-16, LP-10), comes after flow control has released its holds, and
:meth:`Queue.settle` last of all: it may delete the queue (QT-09).

The queue does not know who owns it: policy, flow control and lifetime are given to it by
:class:`qflow.broker.registry.QueueRegistry`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar, Final

from qflow.broker.alerts import make_alerts
from qflow.broker.context import BrokerContext, TimerTask
from qflow.broker.errors import BrokerFailure, SessionException
from qflow.broker.flow_limit import FlowState, effective_max_size
from qflow.broker.groups import MessageGroupManager
from qflow.broker.message import (
    ACQUIRED,
    AVAILABLE,
    REMOVED,
    TRACE,
    QueuedMessage,
    QueueObserver,
    Router,
    Transfer,
)
from qflow.broker.readers import MessageDistributor, QueueConsumer, QueueListeners, QueueUsers
from qflow.broker.restorable import Dependent, Restorable
from qflow.broker.selector import Selector
from qflow.broker.settings import LIFETIMES, QueueSettings
from qflow.broker.statistics import QueueStatistics
from qflow.broker.stores import make_store
from qflow.broker.transactions import TxOperation

_ENQUEUED: Final[tuple[str, ...]] = ("position", "depth", "bytes")
_DEQUEUED: Final[tuple[str, ...]] = ("position", "reason", "depth", "bytes")
_MOVED: Final[tuple[str, ...]] = ("position",)


class LimitPolicy(Restorable):
    """A limit policy: its decision on a message that does not fit; see :mod:`qflow.broker.limits`."""

    name: ClassVar[str] = ""

    __slots__ = ()

    def make_room(self, queue: Queue, transfer: Transfer) -> bool:
        """Return True with the room reserved, False if the message is dropped silently, or raise."""
        raise NotImplementedError


class Queue(Dependent):
    """One queue."""

    __slots__ = (
        "context", "name", "settings", "policy", "lifetime", "alternate", "durable", "depth", "counters",
        "store", "listeners", "flow_limit", "groups", "distributor", "observers", "filter", "annotates",
        "is_choosy", "is_deleted", "position", "users", "binding_count", "redirect", "is_redirect_source",
    )  # fmt: skip

    def __init__(
        self,
        context: BrokerContext,
        name: str,
        settings: QueueSettings,
        policy: LimitPolicy,
        flow_limit: FlowState | None,
        lifetime: Lifetime,
        alternate: Router | None,
        durable: bool = False,
    ) -> None:
        self.context = context
        self.name = name
        self.settings = settings
        self.policy = policy
        self.lifetime = lifetime
        self.alternate = alternate
        self.durable = durable
        self.depth = _QueueDepth(settings.max_count, effective_max_size(settings, context.options))
        self.counters = QueueCounters()
        self.store = make_store(settings)
        self.listeners = QueueListeners()
        self.flow_limit = flow_limit
        self.groups: MessageGroupManager | None = None
        self.distributor = MessageDistributor(self.store)
        if settings.group_header_key:
            self.groups = MessageGroupManager(context, name, self.store, settings.group_header_key)
            self.distributor = self.groups
        # Groups first, as the others may ask for a message's group; flow control last, as its release may
        # let a client send, which then has to find all counts up to date.
        observers = (self.groups, make_alerts(context, name, settings), flow_limit)
        self.observers: tuple[QueueObserver, ...] = tuple(one for one in observers if one is not None)
        self.filter: Selector | None = Selector(settings.filter) if settings.filter else None
        self.annotates = bool(settings.queue_msg_sequence or settings.trace_id)
        self.is_choosy = bool(settings.no_local or settings.trace_exclude or self.filter is not None)
        self.is_deleted = False
        self.position = 0
        self.users = QueueUsers()
        self.binding_count = 0
        self.redirect: Queue | None = None
        self.is_redirect_source = False

    # Enqueue

    def accepts(self, transfer: Transfer, delivery_count: int = -1) -> bool:
        """Return whether the queue accepts the message: no-local, filter, trace (RF-24)."""
        if self.settings.no_local and self.users.is_local(transfer.connection):
            return False
        if self.settings.trace_exclude and _is_excluded(transfer, self.settings.trace_exclude):
            return False
        return self.filter is None or self.filter.matches(transfer, delivery_count, self.context.start_time)

    def deliver(self, transfer: Transfer, delivery_count: int = -1) -> None:
        """Take a routed message: now, or at commit if sent in a transaction and accepted (CM-10)."""
        # A redirect is one step: two queues that redirect to each other swap their messages, and do not
        # loop.
        target = self.redirect or self
        if transfer.transaction is None:
            target.enqueue(transfer, delivery_count)
        elif not target.is_choosy or target.accepts(transfer):
            transfer.transaction.enlist(_TxPublish(target, transfer))

    def enqueue(self, transfer: Transfer, delivery_count: int = -1) -> None:
        """Put a routed message on the queue, if there is room for it; 506 from the limit policy (LP-05)."""
        # Deleted while the message was on its way: by a self-destruct, or because it was an auto-delete
        # queue.
        if self.is_deleted:
            return
        if (not self.is_choosy or self.accepts(transfer, delivery_count)) and self.reserve(transfer):
            self.push(transfer, delivery_count)
        elif self.context.observer is not None:
            self.context.emit("dropped", self.name, transfer.origin, "", transfer.label, transfer.size)

    def reserve(self, transfer: Transfer) -> bool:
        """Reserve room, or apply the limit policy; False means: dropped silently."""
        return self.depth.take_room(transfer.size) or self.policy.make_room(self, transfer)

    def push(self, transfer: Transfer, delivery_count: int = -1, in_transaction: bool = False) -> None:
        """Add a message with reserved room, and wake the readers that may get it."""
        self.position += 1
        message = QueuedMessage(transfer, self.position, delivery_count)
        if self.annotates:
            self._annotate(message)
        if transfer.message.durable:
            self.counters.msgPersistEnqueues += 1
            self.counters.bytePersistEnqueues += transfer.size
            if (store := self.context.store) is not None:
                store.enqueue(self.name, transfer)
        replaced = self.store.publish(message)
        # Chosen before the observers run and notified after them: who is woken must not depend on what flow
        # control or an alert sets in motion meanwhile (CN-19).
        wake = self.listeners.take() if self.listeners.count else None
        self.counters.enqueue(transfer.size, in_transaction)
        if self.context.observer is not None:
            self._show_enqueued(message)
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
        """Remove a message from the queue permanently, in any state."""
        transfer = message.transfer
        # The room first.  A producer whose completion the observers release may send at once, and then finds
        # the place of this message free (FC-16).
        self.depth.return_room(transfer.size)
        self.counters.dequeue(transfer.size, in_transaction)
        if transfer.message.durable:
            self.counters.msgPersistDequeues += 1
            self.counters.bytePersistDequeues += transfer.size
        if self.context.observer is not None:
            self._show_dequeued(message, reason)
        for observer in self.observers:
            observer.dequeued(message)
        self.store.remove(message)
        message.state = REMOVED

    def dequeue(self, message: QueuedMessage, reason: str, in_transaction: bool = False) -> None:
        """Remove a message; the queue ends if it waited for that (RF-19 iii), 540 if it is durable."""
        if self.durable and reason == "accept" and self.depth.count == 1 and self._goes_when_empty():
            raise self.make_hang("goes with an accept")
        self.remove(message, reason, in_transaction)
        self.settle()

    def make_hang(self, what: str) -> BrokerFailure:
        """Return the refusal of what ends a durable queue: the real broker's thread waits for itself then."""
        text = f"durable queue {self.name} {what}: the real broker hangs then, for all clients"
        refusal = f"{text}, so it is refused here; declare it without durable"
        return self.context.make_failure("hang", refusal, self.name)

    def reject(self, message: QueuedMessage) -> None:
        """Remove a message that a consumer rejects, and route it to the alternate exchange (CN-16)."""
        self.counters.discardsSubscriber += 1
        self.remove(message, "reject")
        try:
            if self.alternate is not None:
                with message.route_on(keeps_trace=True) as transfer:
                    self.alternate.route_with_alternate(transfer)
        finally:
            # Even if the alternate refuses it (RF-34).
            self.settle()

    def evict(self, message: QueuedMessage) -> None:
        """Drop a message to make room; it goes to the alternate exchange (LP-10.3)."""
        self.remove(message, "ring")
        if self.alternate is not None:
            with message.route_on() as transfer:
                self.alternate.route_with_alternate(transfer, message.delivery_count)

    def settle(self, was_emptied: bool = False) -> None:
        """Finish a dequeue: wake a reader for a freed group; auto-delete, even if refilled (QT-09)."""
        if self.groups is not None and self.groups.has_freed:
            self.groups.has_freed = False
            if self.context.options.wake_up == "eager":
                self.listeners.wake()
        if self.lifetime.policy and (was_emptied or not self.depth.count):
            self.delete_unless_needed()

    # Acquire and release

    def acquire(self, message: QueuedMessage, owner: str) -> bool:
        """Give an AVAILABLE message to ``owner``, if its group allows (MG-07); counts nothing (RF-02)."""
        # The state is looked at first, as asking the distributor may give the group away.
        if message.state != AVAILABLE or not self.distributor.take(owner, message):
            return False
        message.state = ACQUIRED
        self.store.hide(message)
        for observer in self.observers:
            observer.acquired(message)
        if self.context.observer is not None:
            self._show_moved("acquired", message, owner)
        return True

    def release(self, message: QueuedMessage, set_redelivered: bool) -> None:
        """Make an acquired message AVAILABLE again at its old place, and wake one for it (CN-14)."""
        if message.state != ACQUIRED:
            return
        # The count goes back below what it was at the delivery, which is how a client says "I have not
        # looked at it". After an acquire by number, which does not raise it, it falls below -1; only "above
        # 0" matters (RF-02).
        if not set_redelivered:
            if message.delivery_count > 0:
                message.was_redelivered = True
            message.delivery_count -= 1
        message.state = AVAILABLE
        self.store.show(message)
        self.counters.releases += 1
        for observer in self.observers:
            observer.requeued(message)
        if self.context.observer is not None:
            self._show_moved("requeued", message)
        self.listeners.wake()

    # Consumers

    def add_consumer(self, consumer: QueueConsumer, is_exclusive: bool, connection: str) -> None:
        """Count a new subscription, and end a running time-out."""
        self.users.add(consumer, is_exclusive, connection)
        self.lifetime.use()

    def cancel(self, consumer: QueueConsumer) -> None:
        """Remove a subscription, and perhaps serve another one (RF-14) or end the queue (RF-19 i, RF-34)."""
        self.listeners.remove(consumer)
        self.users.remove(consumer)
        # On every cancel, of a browser as well: the broker does not ask whether the one that left had been
        # woken for what is available now (RF-14).
        if self.store.available_count():
            self.listeners.wake()
        if self.is_unused:
            self.consider_deletion()

    def leave(self, is_controlling: bool) -> None:
        """Remove a link of a sender, and perhaps end the queue (LNK-18)."""
        self.users.leave(is_controlling)
        if is_controlling or self.is_unused:
            self.delete_unless_needed()

    # Lifetime

    def consider_deletion(self) -> None:
        """Delete the queue if its lifetime policy says so, or start its time-out (RF-19)."""
        lifetime = self.lifetime
        if not self._may_go():
            return
        if lifetime.timeout:
            due = self.context.now + lifetime.timeout * 1_000_000
            self.context.timers.schedule(due, _AutoDelete(self, lifetime.start_timer(), lifetime.declares))
        else:
            self.context.destroy_queue(self.name, "auto-delete")

    def delete_unless_needed(self) -> None:
        """Delete the queue likewise, where no command can be refused, even if the alternate refuses."""
        with suppress(SessionException):
            self.consider_deletion()

    def expire(self, timer: int, declares: int) -> None:
        """Delete the queue when a time-out ends; a declare meanwhile starts another one instead."""
        if not self.lifetime.end_timer(timer):
            return
        if self.lifetime.declares != declares:
            self.delete_unless_needed()
        elif self._may_go():
            with suppress(SessionException):
                self.context.destroy_queue(self.name, "auto-delete")

    def _may_go(self) -> bool:
        return not self.is_deleted and self._is_over(self.is_empty)

    def _goes_when_empty(self) -> bool:
        lifetime = self.lifetime
        is_of_kind = lifetime.policy in ("delete-on-close", "delete-if-unused-and-empty")
        return is_of_kind and not (self.is_deleted or lifetime.timeout) and self._is_over(True)

    def _is_over(self, is_empty: bool) -> bool:
        users = self.users
        is_unused = not (users.total or users.senders)
        return self.lifetime.is_over(is_unused, is_empty, users.controllers > 0)

    @property
    def is_unused(self) -> bool:
        """Whether the queue has no readers."""
        return not self.users.total

    @property
    def is_empty(self) -> bool:
        """Whether no room is reserved on the queue."""
        return not self.depth.count

    # What else can be asked

    @property
    def message_depth(self) -> int:
        """Messages on the queue, acquired ones included (``msgDepth``)."""
        return self.counters.depth()[0]

    @property
    def byte_depth(self) -> int:
        """Bytes of these messages (``byteDepth``)."""
        return self.counters.depth()[1]

    @property
    def message_count(self) -> int:
        """Messages that are not acquired: AMQP's ``queue.query`` (DQ-01)."""
        return self.store.available_count()

    def statistics(self) -> QueueStatistics:
        """Return the queue's current statistics, as management shows them (CF-09)."""
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

    def __repr__(self) -> str:
        state = ", flow control ON" if self.flow_limit is not None and self.flow_limit.stopped else ""
        return f"Queue({self.name!r}, {self.message_depth} messages{state})"

    # What the observer sees

    def _annotate(self, message: QueuedMessage) -> None:
        """Add the sequence header, except on a last value queue (QT-15), and the trace id (QT-17)."""
        settings = self.settings
        if settings.queue_msg_sequence and not settings.last_value_queue_key:
            message.annotate(settings.queue_msg_sequence, message.position)
        been, own = message.transfer.message.property_as_string(TRACE), settings.trace_id
        # The real broker looks for the id anywhere in the text, so "a" is found in "apache".
        if own not in been:
            message.annotate(TRACE, f"{been},{own}" if been else own)

    def _show_enqueued(self, message: QueuedMessage) -> None:
        transfer = message.transfer
        # The observers, which classify it, see it next.
        group = self.groups.identify(message) if self.groups is not None else ""
        messages, total = self.counters.depth()
        values = (message.position, messages, total)
        label, size = transfer.label, transfer.size
        self.context.tell("enqueued", self.name, transfer.origin, "", label, size, group, _ENQUEUED, values)

    def _show_dequeued(self, message: QueuedMessage, reason: str) -> None:
        transfer, group = message.transfer, message.group
        messages, total = self.counters.depth()
        values = (message.position, reason, messages, total)
        label, size = transfer.label, transfer.size
        self.context.tell("dequeued", self.name, "", "", label, size, group, _DEQUEUED, values)

    def _show_moved(self, kind: str, message: QueuedMessage, owner: str = "") -> None:
        transfer, group = message.transfer, message.group
        values = (message.position,)
        self.context.tell(kind, self.name, "", owner, transfer.label, transfer.size, group, _MOVED, values)


class _QueueDepth(Restorable):
    """Room reserved on a queue against its limits, in messages and bytes; 0 is no limit (LP-01)."""

    __slots__ = ("max_count", "max_size", "count", "size")

    def __init__(self, max_count: int = 0, max_size: int = 0) -> None:
        self.max_count = max_count
        self.max_size = max_size
        self.count = 0
        self.size = 0

    def take_room(self, size: int) -> bool:
        """Count one more message if there is room, exactly full included (LP-02); return whether."""
        count, total = self.count + 1, self.size + size
        if (self.max_count and count > self.max_count) or (self.max_size and total > self.max_size):
            return False
        self.count = count
        self.size = total
        return True

    def return_room(self, size: int) -> None:
        self.count -= 1
        self.size -= size

    def refusal(self, queue: str, size: int) -> str:
        """Return the broker's words for a breach (LP-03)."""
        current = _write_depth(True, self.count, bool(self.max_size), self.size)
        allowed = _write_depth(bool(self.max_count), self.max_count, bool(self.max_size), self.max_size)
        increment = _write_depth(True, 1, True, size)
        return f"Maximum depth exceeded on {queue}: current={current}, max={allowed}, increment={increment}"


def _write_depth(has_count: bool, count: int, has_size: bool, size: int) -> str:
    parts = [f"count: {count}"] if has_count else []
    parts += [f"size: {size}"] if has_size else []
    return f"[{', '.join(parts)}]"


_COUNTER_NAMES: tuple[str, ...] = (
    "msgTotalEnqueues", "byteTotalEnqueues", "msgTotalDequeues", "byteTotalDequeues", "msgTxnEnqueues",
    "byteTxnEnqueues", "msgTxnDequeues", "byteTxnDequeues", "msgPersistEnqueues", "msgPersistDequeues",
    "bytePersistEnqueues", "bytePersistDequeues", "acquires", "releases", "discardsTtl", "discardsRing",
    "discardsLvq", "discardsOverflow", "discardsSubscriber", "discardsPurge", "reroutes",
)  # fmt: skip


class QueueCounters(Restorable):
    """The counters of one queue; see :class:`~qflow.broker.statistics.QueueStatistics` for the meanings."""

    __slots__ = _COUNTER_NAMES

    def __init__(self) -> None:
        self.msgTotalEnqueues = self.byteTotalEnqueues = 0
        self.msgTotalDequeues = self.byteTotalDequeues = 0
        self.msgTxnEnqueues = self.byteTxnEnqueues = 0
        self.msgTxnDequeues = self.byteTxnDequeues = 0
        self.msgPersistEnqueues = self.bytePersistEnqueues = 0
        self.msgPersistDequeues = self.bytePersistDequeues = 0
        self.acquires = self.releases = self.reroutes = 0
        self.discardsTtl = self.discardsRing = self.discardsLvq = 0
        self.discardsOverflow = self.discardsSubscriber = self.discardsPurge = 0

    def enqueue(self, size: int, in_transaction: bool) -> None:
        """Count a message that came."""
        self.msgTotalEnqueues += 1
        self.byteTotalEnqueues += size
        if in_transaction:
            self.msgTxnEnqueues += 1
            self.byteTxnEnqueues += size

    def dequeue(self, size: int, in_transaction: bool) -> None:
        """Count a message that went."""
        self.msgTotalDequeues += 1
        self.byteTotalDequeues += size
        if in_transaction:
            self.msgTxnDequeues += 1
            self.byteTxnDequeues += size

    def depth(self) -> tuple[int, int]:
        """Return the messages and bytes on the queue."""
        messages = self.msgTotalEnqueues - self.msgTotalDequeues
        return messages, self.byteTotalEnqueues - self.byteTotalDequeues

    def add(self, other: QueueCounters) -> None:
        """Add another queue's counts, for the broker's totals (CF-10)."""
        for name in _COUNTER_NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def values(self) -> dict[str, int]:
        """Return the counts by their QMF names."""
        return {name: getattr(self, name) for name in _COUNTER_NAMES}


class Lifetime(Restorable):
    """A queue's exclusive owner (CN-23), and its automatic deletion (QT-08)."""

    __slots__ = ("policy", "timeout", "owner", "declares", "timers", "last_timer")

    def __init__(self, policy: str = "", timeout: int = 0) -> None:
        self.policy = policy
        # Seconds between the decision and the deletion; 0 means at once.
        self.timeout = timeout
        self.owner = ""
        # How often the queue has been declared again.
        self.declares = 0
        # A later one does not end an earlier one.
        self.timers: list[int] = []
        self.last_timer = 0

    @classmethod
    def of(cls, settings: QueueSettings, auto_delete: bool) -> Lifetime:
        """Return the lifetime in a declare's arguments; an unknown policy is ignored (RF-19, QT-08)."""
        policy = settings.lifetime_policy if settings.lifetime_policy in LIFETIMES else ""
        if policy == "manual":
            return Lifetime()
        if not policy and (auto_delete or settings.auto_delete_timeout):
            policy = "delete-if-unused"
        return Lifetime(policy, settings.auto_delete_timeout)

    @property
    def deletes_itself(self) -> bool:
        """Whether the queue is auto-delete."""
        return bool(self.policy)

    def is_over(self, is_unused: bool, is_empty: bool, is_controlled: bool = False) -> bool:
        """Return whether the policy allows deletion now (RF-19); a link may control it (LNK-18)."""
        if self.policy in ("", "delete-on-close"):
            return bool(self.policy) and not is_controlled
        if self.policy == "delete-if-empty":
            return is_empty and not is_controlled
        return not self.owner and is_unused and (is_empty or self.policy == "delete-if-unused")

    def start_timer(self) -> int:
        """Return the number of a new time-out."""
        self.last_timer += 1
        self.timers.append(self.last_timer)
        return self.last_timer

    def end_timer(self, timer: int) -> bool:
        """End the time-out; return whether it was running."""
        if timer not in self.timers:
            return False
        self.timers.remove(timer)
        return True

    def use(self) -> None:
        """Cancel the last time-out: the queue has a reader or an owner again (QT-08)."""
        self.end_timer(self.last_timer)


class _AutoDelete(TimerTask):
    """A time-out until a queue deletes itself (QT-08)."""

    __slots__ = ("queue", "timer", "declares")

    def __init__(self, queue: Queue, timer: int, declares: int) -> None:
        self.queue = queue
        self.timer = timer
        self.declares = declares

    def fire(self, due: int) -> None:
        self.queue.expire(self.timer, self.declares)


class _TxPublish(TxOperation):
    """A message that reaches a queue when its transaction commits (LP-09, CM-10)."""

    __slots__ = ("queue", "transfer", "is_reserved")

    def __init__(self, queue: Queue, transfer: Transfer) -> None:
        self.queue = queue
        self.transfer = transfer
        self.is_reserved = False

    def prepare(self) -> None:
        # Reserved for all queues before anything is pushed: that is what makes a commit all or nothing
        # (LP-09).
        if not self.queue.is_deleted:
            self.is_reserved = self.queue.reserve(self.transfer)

    def commit(self) -> None:
        self.transfer.transaction = None
        if self.is_reserved and not self.queue.is_deleted:
            self.queue.push(self.transfer, in_transaction=True)

    def rollback(self) -> None:
        if self.is_reserved:
            self.queue.depth.return_room(self.transfer.size)
            self.is_reserved = False

    def refers_to(self, queue: object) -> bool:
        return self.queue is queue


def _is_excluded(transfer: Transfer, excluded: str) -> bool:
    """Return whether the message has passed a place that the queue excludes (QT-17)."""
    return not _split_trace(transfer.message.property_as_string(TRACE)).isdisjoint(_split_trace(excluded))


def _split_trace(trace: str) -> set[str]:
    """Split a list at commas and blanks, as the broker does."""
    return set(trace.replace(",", " ").split(" ")) - {""}
