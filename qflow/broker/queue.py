"""The queue: it enqueues, acquires, releases and dequeues messages, with a store, a policy and observers.

This is what happens to a message, and why in this order (compare ``Queue.cpp``).

*Enqueue*: :meth:`Queue.deliver` takes these steps:

1. If the queue is redirected, the message is passed to the queue with which it has swapped its incoming
   messages (QT-18).  A message of a transaction is recorded in that transaction, and enqueued at commit
   (CM-10).
2. The queue's conditions for messages are checked: no-local, trace and filter drop a message silently
   (RF-24).
3. *Room* is reserved before the message becomes visible, so that a refusal has nothing to undo (LP-01,
   DQ-03).  Without room, the limit *policy* raises an exception, evicts other messages, or drops the message
   (LP).
4. :meth:`Queue.push` gives the message its position, which is never used again (QT-20).  A durable message is
   passed to the broker's *message store*, and each message is added to the queue's own store.  The readers to
   wake are chosen now, and woken last, so that the observers cannot influence the choice (CN-19, RF-06).
5. The message is counted, and the *observers* are called: groups, then alerts, then flow control.  So when
   flow control withholds the completion, the other observers have seen the message already (FC-14, FC-15).
6. On a last value queue, the older message with the same value is removed only now, so that there is first an
   enqueue, then a dequeue (FC-23).

*Acquire and release*: :meth:`Queue.acquire` asks the *distributor* whether the consumer may take the message
(MG-07), and hides it from all cursors.  The message is still on the queue: depth, thresholds and limits do
not change (DQ-02).  :meth:`Queue.release` makes it available again at its old place, and wakes one reader for
it (CN-14).

*Dequeue*: :meth:`Queue.remove` first returns the room, then counts, and then calls the observers, so that
there is room for producers when flow control releases their completions (FC-16).  The store removes the
message last.  After that come further effects, such as routing to the alternate exchange (CN-16, LP-10), and
at the end :meth:`Queue.settle`, which may delete the queue (QT-09).

The queue does not depend on its owner: :class:`qflow.broker.registry.QueueRegistry` passes policy, flow
control and lifetime to it.
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
    """Base class of the policies in :mod:`qflow.broker.limits`, which decide about a message without room."""

    name: ClassVar[str] = ""

    __slots__ = ()

    def make_room(self, queue: Queue, transfer: Transfer) -> bool:
        """Reserve room and return True, or return False to drop the message silently, or raise."""
        raise NotImplementedError


class Queue(Dependent):
    """A queue of messages, with its store, limits, flow control, observers and waiting readers."""

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
        # Groups first, as the others may read a message's group; flow control last, as a release may let a
        # client send, for which all counts must be up to date.
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
        """Return whether no-local, trace and filter let the queue accept a message (RF-24)."""
        if self.settings.no_local and self.users.is_local(transfer.connection):
            return False
        if self.settings.trace_exclude and _is_excluded(transfer, self.settings.trace_exclude):
            return False
        return self.filter is None or self.filter.matches(transfer, delivery_count, self.context.start_time)

    def deliver(self, transfer: Transfer, delivery_count: int = -1) -> None:
        """Enqueue a routed message at once, or at commit if it was sent in a transaction (CM-10)."""
        # A redirect is a single step: two queues that redirect to each other swap their messages, and do not
        # loop.
        target = self.redirect or self
        if transfer.transaction is None:
            target.enqueue(transfer, delivery_count)
        elif not target.is_choosy or target.accepts(transfer):
            transfer.transaction.enlist(_TxPublish(target, transfer))

    def enqueue(self, transfer: Transfer, delivery_count: int = -1) -> None:
        """Enqueue a routed message if there is room, or else apply the limit policy, such as 506 (LP-05)."""
        # The queue may have been deleted during routing, by a self-destruct or as an auto-delete queue.
        if self.is_deleted:
            return
        if (not self.is_choosy or self.accepts(transfer, delivery_count)) and self.reserve(transfer):
            self.push(transfer, delivery_count)
        elif self.context.observer is not None:
            self.context.emit("dropped", self.name, transfer.origin, "", transfer.label, transfer.size)

    def reserve(self, transfer: Transfer) -> bool:
        """Reserve room for a transfer, or apply the limit policy; return False to drop it silently."""
        return self.depth.take_room(transfer.size) or self.policy.make_room(self, transfer)

    def push(self, transfer: Transfer, delivery_count: int = -1, in_transaction: bool = False) -> None:
        """Add a message that has reserved room, and wake the readers that may get it."""
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
        # Chosen before the observers run and notified after them: the choice must not depend on the effects
        # of flow control or an alert (CN-19).
        wake = self.listeners.take() if self.listeners.count else None
        self.counters.enqueue(transfer.size, in_transaction)
        if self.context.observer is not None:
            self._show_enqueued(message)
        for observer in self.observers:
            observer.enqueued(message)
        if replaced is not None:
            # A replacement is an enqueue, then a dequeue; it never triggers auto-delete (FC-23).
            self.counters.acquires += 1
            self.counters.discardsLvq += 1
            self.remove(replaced, "lvq")
        if wake is not None:
            wake.notify()

    # Dequeue

    def remove(self, message: QueuedMessage, reason: str, in_transaction: bool = False) -> None:
        """Remove a message in any state from the queue permanently."""
        transfer = message.transfer
        # The room first: a producer whose completion the observers release may send at once, and then this
        # message's room must be free (FC-16).
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
        """Remove a message, and the queue if its lifetime ends then (RF-19 iii); raise 540 if durable."""
        if self.durable and reason == "accept" and self.depth.count == 1 and self._goes_when_empty():
            raise self.make_hang("goes with an accept")
        self.remove(message, reason, in_transaction)
        self.settle()

    def make_hang(self, what: str) -> BrokerFailure:
        """Return the exception for a command that ends a durable queue, at which the real broker hangs."""
        # Its thread waits for itself.
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
            # This runs even if the alternate refuses the message (RF-34).
            self.settle()

    def evict(self, message: QueuedMessage) -> None:
        """Remove a message to make room, and route it to the alternate exchange (LP-10.3)."""
        self.remove(message, "ring")
        if self.alternate is not None:
            with message.route_on() as transfer:
                self.alternate.route_with_alternate(transfer, message.delivery_count)

    def settle(self, was_emptied: bool = False) -> None:
        """Finish a dequeue: wake a reader for a freed group (option wake_up), and auto-delete (QT-09)."""
        if self.groups is not None and self.groups.has_freed:
            self.groups.has_freed = False
            if self.context.options.wake_up == "eager":
                self.listeners.wake()
        if self.lifetime.policy and (was_emptied or not self.depth.count):
            self.delete_unless_needed()

    # Acquire and release

    def acquire(self, message: QueuedMessage, owner: str) -> bool:
        """Acquire an AVAILABLE message for ``owner``, if its group allows; return whether it did (MG-07)."""
        # The caller counts the acquire, as an acquire by number is not counted (RF-02). The state is checked
        # first, as the distributor may assign the group to the owner.
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
        """Make an acquired message AVAILABLE again at its old place, and wake one reader (CN-14)."""
        if message.state != ACQUIRED:
            return
        # The delivery count is lowered to its value before the delivery: the client has not processed the
        # message. After an acquire by number, which does not raise it, it falls below -1, but only "above 0"
        # matters (RF-02).
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
        """Count a new subscription, and cancel a running time-out of the queue's deletion."""
        self.users.add(consumer, is_exclusive, connection)
        self.lifetime.use()

    def cancel(self, consumer: QueueConsumer) -> None:
        """Remove a subscription, wake another one (RF-14), and auto-delete after the last (RF-19 i)."""
        self.listeners.remove(consumer)
        self.users.remove(consumer)
        # Another reader is woken after every cancel, even of a browser: the broker does not check whether the
        # cancelled one had been woken for a message that is available now (RF-14).
        if self.store.available_count():
            self.listeners.wake()
        if self.is_unused:
            self.consider_deletion()

    def leave(self, is_controlling: bool) -> None:
        """Remove a link that sends to or controls the queue, and auto-delete after the last (LNK-18)."""
        self.users.leave(is_controlling)
        if is_controlling or self.is_unused:
            self.delete_unless_needed()

    # Lifetime

    def consider_deletion(self) -> None:
        """Delete the queue, or start its time-out, if its lifetime policy allows deletion now (RF-19)."""
        lifetime = self.lifetime
        if not self._may_go():
            return
        if lifetime.timeout:
            due = self.context.now + lifetime.timeout * 1_000_000
            self.context.timers.schedule(due, _AutoDelete(self, lifetime.start_timer(), lifetime.declares))
        else:
            self.context.destroy_queue(self.name, "auto-delete")

    def delete_unless_needed(self) -> None:
        """Call :meth:`consider_deletion` outside a command, and ignore refusals of the alternate exchange."""
        with suppress(SessionException):
            self.consider_deletion()

    def expire(self, timer: int, declares: int) -> None:
        """End a time-out: delete the queue if unneeded, or start a new time-out if it was redeclared."""
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

    # Inspection

    @property
    def message_depth(self) -> int:
        """The number of messages on the queue, including acquired ones (``msgDepth``)."""
        return self.counters.depth()[0]

    @property
    def byte_depth(self) -> int:
        """The bytes of the messages on the queue, including acquired ones (``byteDepth``)."""
        return self.counters.depth()[1]

    @property
    def message_count(self) -> int:
        """The number of messages that are not acquired, as ``queue.query`` returns it (DQ-01)."""
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

    # Annotations and events

    def _annotate(self, message: QueuedMessage) -> None:
        """Add the sequence header, except on a last value queue (QT-15), and the trace id (QT-17)."""
        settings = self.settings
        if settings.queue_msg_sequence and not settings.last_value_queue_key:
            message.annotate(settings.queue_msg_sequence, message.position)
        been, own = message.transfer.message.property_as_string(TRACE), settings.trace_id
        # The real broker searches for the id anywhere in the text, so that "a" is found in "apache".
        if own not in been:
            message.annotate(TRACE, f"{been},{own}" if been else own)

    def _show_enqueued(self, message: QueuedMessage) -> None:
        transfer = message.transfer
        # message.group is not set yet: the observers, which set it, are called after this event.
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
    """The reserved room of a queue, and its limits, in messages and bytes; 0 means no limit (LP-01)."""

    __slots__ = ("max_count", "max_size", "count", "size")

    def __init__(self, max_count: int = 0, max_size: int = 0) -> None:
        self.max_count = max_count
        self.max_size = max_size
        self.count = 0
        self.size = 0

    def take_room(self, size: int) -> bool:
        """Reserve room for a message of ``size`` bytes, up to exactly the limit (LP-02); return success."""
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
        """Return the broker's text for a message that exceeds a limit (LP-03)."""
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
    """The counters of a queue, as in :class:`~qflow.broker.statistics.QueueStatistics`."""

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
        """Count an enqueued message of ``size`` bytes."""
        self.msgTotalEnqueues += 1
        self.byteTotalEnqueues += size
        if in_transaction:
            self.msgTxnEnqueues += 1
            self.byteTxnEnqueues += size

    def dequeue(self, size: int, in_transaction: bool) -> None:
        """Count a dequeued message of ``size`` bytes."""
        self.msgTotalDequeues += 1
        self.byteTotalDequeues += size
        if in_transaction:
            self.msgTxnDequeues += 1
            self.byteTxnDequeues += size

    def depth(self) -> tuple[int, int]:
        """Return the numbers of messages and bytes on the queue."""
        messages = self.msgTotalEnqueues - self.msgTotalDequeues
        return messages, self.byteTotalEnqueues - self.byteTotalDequeues

    def add(self, other: QueueCounters) -> None:
        """Add the counts of another queue, to compute the broker's totals (CF-10)."""
        for name in _COUNTER_NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def values(self) -> dict[str, int]:
        """Return all counts by their QMF names."""
        return {name: getattr(self, name) for name in _COUNTER_NAMES}


class Lifetime(Restorable):
    """A queue's exclusive owner (CN-23), and the policy of its automatic deletion (QT-08)."""

    __slots__ = ("policy", "timeout", "owner", "declares", "timers", "last_timer")

    def __init__(self, policy: str = "", timeout: int = 0) -> None:
        self.policy = policy
        # Seconds between the decision and the deletion; 0 for none.
        self.timeout = timeout
        self.owner = ""
        # The number of times that the queue has been declared again.
        self.declares = 0
        # The numbers of all running time-outs: a later one does not end an earlier one.
        self.timers: list[int] = []
        self.last_timer = 0

    @classmethod
    def of(cls, settings: QueueSettings, auto_delete: bool) -> Lifetime:
        """Return the lifetime that a declare requests; an unknown policy is ignored (RF-19, QT-08)."""
        policy = settings.lifetime_policy if settings.lifetime_policy in LIFETIMES else ""
        if policy == "manual":
            return Lifetime()
        if not policy and (auto_delete or settings.auto_delete_timeout):
            policy = "delete-if-unused"
        return Lifetime(policy, settings.auto_delete_timeout)

    @property
    def deletes_itself(self) -> bool:
        """Whether the queue is deleted automatically."""
        return bool(self.policy)

    def is_over(self, is_unused: bool, is_empty: bool, is_controlled: bool = False) -> bool:
        """Return whether the policy allows deletion of the queue in this situation (RF-19, LNK-18)."""
        if self.policy in ("", "delete-on-close"):
            return bool(self.policy) and not is_controlled
        if self.policy == "delete-if-empty":
            return is_empty and not is_controlled
        return not self.owner and is_unused and (is_empty or self.policy == "delete-if-unused")

    def start_timer(self) -> int:
        """Start a time-out and return its number."""
        self.last_timer += 1
        self.timers.append(self.last_timer)
        return self.last_timer

    def end_timer(self, timer: int) -> bool:
        """End a time-out by number, and return whether it was running."""
        if timer not in self.timers:
            return False
        self.timers.remove(timer)
        return True

    def use(self) -> None:
        """Cancel the latest time-out, as the queue has a reader or an owner again (QT-08)."""
        self.end_timer(self.last_timer)


class _AutoDelete(TimerTask):
    """A time-out, at the end of which a queue may be deleted automatically (QT-08)."""

    __slots__ = ("queue", "timer", "declares")

    def __init__(self, queue: Queue, timer: int, declares: int) -> None:
        self.queue = queue
        self.timer = timer
        self.declares = declares

    def fire(self, due: int) -> None:
        self.queue.expire(self.timer, self.declares)


class _TxPublish(TxOperation):
    """The enqueue of a message at the commit of its transaction (LP-09, CM-10)."""

    __slots__ = ("queue", "transfer", "is_reserved")

    def __init__(self, queue: Queue, transfer: Transfer) -> None:
        self.queue = queue
        self.transfer = transfer
        self.is_reserved = False

    def prepare(self) -> None:
        # Room is reserved on all queues before any message is pushed, so that a commit has all of its effects
        # or none (LP-09).
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
    """Return whether a message's trace contains an id that the queue excludes (QT-17)."""
    return not _split_trace(transfer.message.property_as_string(TRACE)).isdisjoint(_split_trace(excluded))


def _split_trace(trace: str) -> set[str]:
    """Return the ids in a list with commas or blanks between them, as the broker splits it."""
    return set(trace.replace(",", " ").split(" ")) - {""}
