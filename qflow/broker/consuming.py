"""Consuming: subscriptions, their credit (prefetch), and the delivery and settlement of messages.

A client reads a queue through a :class:`Subscription` (ConsumerImpl in the C++ broker).  The steps of a
delivery:

1. A message is enqueued or released, or credit is granted.  The subscription is *notified*, which puts it
   into the FIFO of its :class:`Connection` (RF-12).  Nothing is sent yet.
2. At the end of the command the :class:`OutputScheduler` serves the connections, and each connection its
   subscriptions, one message each in turn, until no subscription gets another message.  The connection whose
   command is being processed is served last, as in the real broker, where its read event has to end first.
3. For a subscription that is served, :func:`get_next_message` makes these checks in a fixed order (compare
   ``Queue::getNextMessage``): any credit at all; the next message at the cursor; its expiry; the selector;
   *credit for this message*; and last its *group*.  Without credit for it, the cursor moves back before
   another reader is woken (RF-07).
4. :meth:`SemanticState.deliver` makes a :class:`DeliveryRecord`, charges the credit, and calls the client.

A subscription that gets no message waits in one of two places: in the queue's list, where an event on the
queue wakes it, or among the blocked subscriptions, where a grant of credit wakes it (RF-08).

The commands by which a client settles its deliveries (accept, release, reject, acquire, complete) are methods
of :class:`SemanticState`.  A record is *ended* when it no longer gives the client control over the message,
and *redundant* when the broker may forget it, for which in window mode the client must also have completed
the delivery (RF-03).  :class:`Credit` is the number of messages and bytes that the broker may still send to a
subscription (CN-04 … CN-07, RF-09).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final, Protocol

from qflow.broker.completions import KNOWN_COMPLETED_INTERVAL
from qflow.broker.context import BrokerContext
from qflow.broker.errors import AmqpException, NotFoundException, ResourceDeletedException, SessionException
from qflow.broker.message import REMOVED, QueuedMessage
from qflow.broker.queue import Queue
from qflow.broker.readers import Fifo, NotificationSet, QueueConsumer
from qflow.broker.restorable import Containers, Dependent, Restorable
from qflow.broker.selector import Selector
from qflow.broker.settings import Argument
from qflow.broker.snapshot import mypyc_attr
from qflow.broker.statistics import ConnectionStatistics, SubscriptionStatistics
from qflow.broker.transactions import TxOperation

Numbers = tuple[Any, ...]
"""A tuple of delivery numbers, typed as Any, as compiled code would make a new int for each look-up."""

INFINITE: Final = 0xFFFFFFFF
_MODULUS: Final = 1 << 32

MESSAGE_UNIT: Final = 0
BYTE_UNIT: Final = 1
CREDIT_MODE: Final = 0
WINDOW_MODE: Final = 1


class Balance(Restorable):
    """Credit in one unit, in 32-bit integers like the broker's; in credit mode ``used`` stays 0 (RF-09)."""

    __slots__ = ("granted", "used")

    def __init__(self) -> None:
        self.granted = 0
        self.used = 0

    def grant(self, amount: int) -> None:
        """Add credit; 0xFFFFFFFF makes it infinite for good, other sums are capped below that (CN-04)."""
        if amount == INFINITE:
            self.granted = INFINITE
        elif self.granted != INFINITE:
            # Capped, as the sum of two large grants could otherwise mean "infinite".
            self.granted = min(self.granted + amount, INFINITE - 1)

    def allows(self, need: int) -> bool:
        """Return whether the balance covers ``need`` messages or bytes."""
        # Modulo 2^32, as the broker's counters are uint32: completions after an infinite window was stopped
        # make the used part negative, which enlarges the next window (RF-09).
        return self.granted == INFINITE or self.granted >= (self.used + need) % _MODULUS

    def spend(self, amount: int) -> None:
        """Reduce the credit permanently (credit mode)."""
        if self.granted != INFINITE:
            self.granted -= amount

    def occupy(self, amount: int) -> None:
        """Use part of the window until :meth:`vacate` returns it (window mode)."""
        if self.granted != INFINITE:
            self.used = (self.used + amount) % _MODULUS

    def vacate(self, amount: int) -> None:
        """Return a used part to the window (window mode)."""
        if self.granted != INFINITE:
            self.used = (self.used - amount) % _MODULUS


class Credit(Restorable):
    """A subscription's credit in messages and bytes, initially 0 in window mode (CN-03, CN-04)."""

    __slots__ = ("mode", "messages", "volume", "_other_messages", "_other_volume")

    def __init__(self) -> None:
        self.mode: int = WINDOW_MODE
        self.messages = Balance()
        self.volume = Balance()
        self._other_messages = Balance()
        self._other_volume = Balance()

    def change_mode(self, mode: int) -> None:
        """Switch to window or credit mode, each of which keeps balances of its own."""
        # Credit is not transferred between the modes: the balances of a mode are restored when the client
        # switches back to it.
        if mode != self.mode:
            self.mode = mode
            self.messages, self._other_messages = self._other_messages, self.messages
            self.volume, self._other_volume = self._other_volume, self.volume

    def balance(self, unit: int) -> Balance:
        """Return the current mode's balance in one unit, messages or bytes."""
        return self.messages if unit == MESSAGE_UNIT else self.volume

    def grant(self, unit: int, amount: int) -> None:
        """Add credit in one unit to the current mode's balance."""
        self.balance(unit).grant(amount)

    def stop(self) -> None:
        """Set the credit of the current mode to 0; the used part of the window stays counted (CN-07)."""
        self.messages.granted = 0
        self.volume.granted = 0

    def allows(self, size: int) -> bool:
        """Return whether one message of ``size`` bytes may be sent (CN-05)."""
        return self.messages.allows(1) and self.volume.allows(size)

    def exists(self) -> bool:
        """Return whether there is credit for at least one message and one byte (RF-07)."""
        return self.messages.allows(1) and self.volume.allows(1)

    def takes_any_size(self) -> bool:
        """Return whether the bytes are unlimited, so that any credit suffices for a message of any size."""
        return self.volume.granted == INFINITE

    def charge(self, size: int) -> None:
        """Charge one message of ``size`` bytes to the current mode's balances."""
        if self.mode == WINDOW_MODE:
            self.messages.occupy(1)
            self.volume.occupy(size)
        else:
            self.messages.spend(1)
            self.volume.spend(size)

    def replenish(self, size: int) -> None:
        """Return a completed message's room to the window, if the mode is window *now* (RF-04)."""
        if self.mode == WINDOW_MODE:
            self.messages.vacate(1)
            self.volume.vacate(size)


class AttachedSession(Protocol):
    """The methods of a session that its connection and its subscriptions call."""

    def fail(self, error: AmqpException) -> None:
        """End the session with an error."""

    def note_queue_deleted(self, subscription: Subscription, error: SessionException) -> None:
        """Handle the deletion of a subscription's queue (CN-18, LNK-09)."""


_FRAME_CONTENT: Final = 65_535 - 12
"""The largest number of content bytes in an AMQP 0-10 frame, after its header."""


class Traffic(Restorable):
    """A counter of messages, bytes and frames in one direction of a connection (CF-10)."""

    __slots__ = ("messages", "size", "frames")

    def __init__(self) -> None:
        self.messages = 0
        self.size = 0
        self.frames = 0

    def count(self, size: int, content_size: int) -> None:
        """Count a message of ``size`` bytes, of which ``content_size`` are content."""
        self.messages += 1
        self.size += size
        self.frames += 2 - -content_size // _FRAME_CONTENT


class Connection(Dependent):
    """A client's connection, with a FIFO of subscriptions that are served one message each in turn."""

    WRITTEN_AS: ClassVar[Containers] = {"tasks": (deque, Fifo)}

    __slots__ = ("name", "scheduler", "tasks", "is_ready", "sessions", "from_client", "to_client")

    def __init__(self, name: str, scheduler: OutputScheduler) -> None:
        self.name = name
        self.scheduler = scheduler
        self.tasks: Fifo[Subscription] = Fifo()
        self.is_ready = False
        self.sessions: list[AttachedSession] = []
        self.from_client = Traffic()
        self.to_client = Traffic()

    def schedule(self, task: Subscription) -> None:
        """Put a subscription at the end of the FIFO, unless the FIFO already contains it."""
        if not task.is_scheduled:
            task.is_scheduled = True
            self.tasks.add(task)
            self.scheduler.activate(self)

    def forget(self, task: Subscription) -> None:
        """Remove a subscription from the FIFO."""
        if task.is_scheduled:
            task.is_scheduled = False
            self.tasks.remove(task)

    def close(self, error: AmqpException) -> None:
        """End every session of the connection with an error, for instance a protocol error (LP-06)."""
        for session in list(self.sessions):
            session.fail(error)

    def statistics(self) -> ConnectionStatistics:
        """Return the connection's statistics, as management shows them (CF-10)."""
        return ConnectionStatistics(
            name=self.name,
            msgsFromClient=self.from_client.messages,
            msgsToClient=self.to_client.messages,
            bytesFromClient=self.from_client.size,
            bytesToClient=self.to_client.size,
            framesFromClient=self.from_client.frames,
            framesToClient=self.to_client.frames,
        )

    def serve(self) -> None:
        """Serve the subscriptions in turn until none of them gets another message."""
        while self.tasks.count:
            task = self.tasks.take()
            task.is_scheduled = False
            while task.dispatch() and not task.is_scheduled:
                # If no other subscription waits, the same one is served again.
                if self.tasks.count:
                    task.is_scheduled = True
                    self.tasks.add(task)
                    break


class OutputScheduler(Dependent):
    """A FIFO of connections to serve; the one whose command is being processed is served last."""

    WRITTEN_AS: ClassVar[Containers] = {"_ready": (deque, Fifo), "_repliers": (deque, Fifo)}

    __slots__ = ("_context", "_ready", "reading", "_repliers")

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._ready: Fifo[Connection] = Fifo()
        self.reading: Connection | None = None
        self._repliers: Fifo[SemanticState] = Fifo()

    def activate(self, connection: Connection) -> None:
        """Put a connection with subscriptions to serve into the FIFO, unless it is being read."""
        if not connection.is_ready and connection is not self.reading:
            connection.is_ready = True
            self._ready.add(connection)

    def read(self, connection: Connection) -> None:
        """Set the connection being read, and put the previous one into the FIFO if it has work."""
        # Output to the connection being read waits until the read is over, after that to others (RF-12).
        before, self.reading = self.reading, connection
        if before is not None and before.tasks.count:
            self.activate(before)

    def expect_reply(self, replier: SemanticState) -> None:
        """Let a client answer the broker's ``session.flush`` after all possible deliveries (RF-05)."""
        self._repliers.add(replier)

    def quiesce(self) -> None:
        """Make all possible deliveries, report completions (CM-08), and let the management agent answer."""
        while True:
            reading = self.reading
            if reading is not None:
                self.reading = None
                if reading.tasks.count:
                    self.activate(reading)
            while self._ready.count:
                connection = self._ready.take()
                connection.serve()
                connection.is_ready = False
            if not self._repliers.count:
                break
            replier = self._repliers.take()
            self.reading = replier.connection
            replier.wake_blocked()
        context = self._context
        while context.reporters:
            reporters, context.reporters = context.reporters, []
            for reporter in reporters:
                reporter.report()
        if context.requests is not None:
            context.answer_requests()


@mypyc_attr(free_list_len=1)
class DeliveryRecord(Dependent):
    """The broker's record of the delivery of a message to a subscription (RF-03)."""

    __slots__ = (
        "id", "message", "queue", "tag", "redelivered", "is_acquired", "is_windowing", "is_ended",
        "is_completed", "is_cancelled",
    )  # fmt: skip

    def __init__(
        self,
        id: int,
        message: QueuedMessage,
        queue: Queue,
        tag: str,
        is_acquired: bool,
        is_windowing: bool,
        is_ended: bool,
    ) -> None:
        self.id = id
        self.message = message
        self.queue = queue
        self.tag = tag
        # The value at the time of delivery: the message's count changes with later deliveries.
        self.redelivered = message.delivery_count > 0
        # Whether the message belongs to the subscription; a browser's does not, unless it acquires it.
        self.is_acquired = is_acquired
        self.is_windowing = is_windowing
        # True from the start in accept mode none (RF-01).
        self.is_ended = is_ended
        self.is_completed = False
        self.is_cancelled = False

    @property
    def label(self) -> str:
        """The message's label."""
        return self.message.transfer.label

    @property
    def size(self) -> int:
        """The bytes of the message, as counted for credit."""
        return self.message.transfer.size

    @property
    def is_needed(self) -> bool:
        """Whether the session must keep the record after sending the message (RF-03)."""
        return self.is_windowing or not self.is_ended or not self.is_acquired

    @property
    def is_redundant(self) -> bool:
        """Whether the session may forget the record (RF-03)."""
        return self.is_ended and (not self.is_windowing or self.is_completed or self.is_cancelled)

    def accept(self, in_transaction: bool = False) -> None:
        """Accept the delivery: dequeue the message, if it is still on the queue (CN-13)."""
        if self.is_ended:
            return
        # Not "is ACQUIRED": an AMQP 1.0 browser that left may have made the message available again (RF-51).
        if self.is_acquired and self.message.state != REMOVED:
            self.queue.dequeue(self.message, "accept", in_transaction)
        self.is_ended = True

    def release(self, set_redelivered: bool) -> None:
        """Return an acquired message to its queue (CN-14); a browsed one is not affected."""
        if self.is_acquired and not self.is_ended:
            self.is_ended = True
            # The message belongs to no subscription now, so that a later acquire may succeed (RF-02).
            self.is_acquired = False
            self.queue.release(self.message, set_redelivered)

    def reject(self) -> None:
        """Reject an acquired message: it is dropped, or routed to the alternate exchange (CN-16)."""
        if not self.is_acquired or self.is_ended:
            return
        self.is_ended = True
        if self.message.state != REMOVED:
            self.queue.reject(self.message)

    def acquire(self) -> bool:
        """Acquire a browsed message, with the tag as owner (MG-15, RF-02); return whether it succeeded."""
        # The owner is the tag alone, without the session: an inconsistency of the real broker, by which two
        # sessions with the same tag share their groups (MG-15).
        if not self.is_acquired and self.queue.acquire(self.message, self.tag):
            self.is_acquired = True
            return True
        return False

    def __repr__(self) -> str:
        flags = [name for name in ("acquired", "ended", "completed") if getattr(self, f"is_{name}")]
        return f"DeliveryRecord({self.id}, {self.label!r}, {self.tag!r}, {' '.join(flags) or 'browsed'})"


class Subscription(QueueConsumer):
    """A subscription to a queue, of a consumer or a browser; made by ``message_subscribe`` (CN-01)."""

    __slots__ = (
        "target", "connection", "is_scheduled", "queue", "credit", "selector", "is_explicit",
        "is_exclusive", "is_enabled", "delivered", "sync_frequency",
    )  # fmt: skip

    def __init__(
        self,
        target: SemanticState,
        tag: str,
        owner: str,
        queue: Queue,
        acquires: bool,
        is_explicit: bool,
        is_exclusive: bool,
        arguments: Mapping[str, Argument],
    ) -> None:
        expression = arguments.get("x-apache-selector")
        super().__init__(tag, owner, acquires)
        self.target = target
        self.connection = target.connection
        self.is_scheduled = False
        self.queue = queue
        self.credit = Credit()
        # An argument that is not a string is ignored (RF-35).
        self.selector = Selector(expression) if isinstance(expression, str) and expression else None
        # True for accept mode explicit; in mode none, messages are dequeued when delivered (CN-11).
        self.is_explicit = is_explicit
        self.is_exclusive = is_exclusive
        self.is_enabled = True
        self.delivered = 0
        frequency = arguments.get("qpid.sync_frequency")
        # The number of deliveries after which the broker sends an execution.sync (CN-01); 0 for never.
        self.sync_frequency = frequency if isinstance(frequency, int) and frequency > 0 else 0
        # Blocked from the start, so that the first grant of credit wakes it (RF-08).
        self.block()

    def block(self) -> None:
        """Record that the subscription waits for credit, here and in the session, which wakes it."""
        self.is_blocked = True
        self.target.blocked.add(self.name)

    def notify(self) -> None:
        """Enter the connection's FIFO, to be served, unless the session is closing (RF-14)."""
        if self.is_enabled:
            self.connection.schedule(self)

    def wake_for_credit(self) -> None:
        """Enter the connection's FIFO if the subscription waited for credit (RF-08)."""
        if self.is_blocked:
            self.is_blocked = False
            self.notify()

    def dispatch(self) -> bool:
        """Try to send one message if enabled, report a deleted queue, and return whether one was sent."""
        try:
            return self.is_enabled and self.send_next()
        except SessionException as error:
            self.target.peer.note_queue_deleted(self, error)
            return False

    def send_next(self) -> bool:
        """Try to send one message (RF-07); return whether one was sent.  Raise 408 for a deleted queue."""
        message = get_next_message(self.queue, self)
        if message is None:
            return False
        self.delivered += 1
        self.target.deliver(self, message)
        if self.sync_frequency and not self.delivered % self.sync_frequency:
            # The only visible effect of the broker's sync is that it takes a command number.
            self.target.send_command()
        return True

    def is_choosy(self) -> bool:
        """Return whether the subscription may skip messages that its queue offers."""
        return self.selector is not None

    def wants(self, message: QueuedMessage) -> bool:
        """Return whether a message matches the selector, if there is one."""
        selector = self.selector
        return selector is None or selector.matches(
            message.transfer, message.delivery_count, self.queue.context.start_time
        )

    def flush(self) -> None:
        """Send messages until credit or messages run out, and then withdraw the credit (RF-08)."""
        while self.credit.exists():
            if not self.send_next():
                break
        else:
            self.block()
        self.credit.stop()

    def record(self, number: int, message: QueuedMessage) -> DeliveryRecord:
        """Return the record of a new delivery, and charge credit for it."""
        credit = self.credit
        credit.charge(message.transfer.size)
        return DeliveryRecord(
            number,
            message,
            self.queue,
            self.name,
            self.acquires,
            credit.mode == WINDOW_MODE,
            not self.is_explicit,
        )

    def statistics(self) -> SubscriptionStatistics:
        """Return the subscription's statistics, as management shows them."""
        return SubscriptionStatistics(
            name=self.name,
            queue=self.queue.name,
            browsing=not self.acquires,
            acknowledged=self.is_explicit,
            exclusive=self.is_exclusive,
            creditMode="WINDOW" if self.credit.mode == WINDOW_MODE else "CREDIT",
            delivered=self.delivered,
        )


def get_next_message(queue: Queue, consumer: Subscription) -> QueuedMessage | None:
    """Return a consumer's next message, and acquire it unless it browses; None if it must wait (CN-08)."""
    credit = consumer.credit
    if not credit.exists():
        _block(queue, consumer)
        return None
    # After the check of credit: a reader without credit does not learn that its queue is deleted (RF-15,
    # CN-18).
    if queue.is_deleted:
        raise ResourceDeletedException(f"Queue {queue.name} has been deleted.")
    wake: NotificationSet | None = None
    has_expired = False
    has_any_bytes = credit.takes_any_size()
    is_choosy = consumer.is_choosy()
    while True:
        # With unlimited bytes, the cursor never has to move back.
        before = None if has_any_bytes else consumer.cursor.save()
        message = queue.distributor.next(consumer, has_any_bytes and not is_choosy)
        if message is None:
            _wait(queue, consumer)
            break
        transfer = message.transfer
        if transfer.expiration is not None and transfer.is_expired(queue.context.now):
            queue.counters.discardsTtl += 1
            queue.remove(message, "ttl")
            has_expired = True
            continue
        if is_choosy and not consumer.wants(message):
            # Another consumer may want it.  The real broker removes the next listener from the list for each
            # skipped message, and notifies only the last of them, after the loop (RF-07b).
            if consumer.acquires:
                wake = _choose_others(queue, wake)
            continue
        if before is not None and not credit.allows(transfer.size):
            # The cursor moves back in front of it; otherwise the message would be skipped after a later grant
            # of credit (RF-07).
            consumer.cursor.restore(before)
            _block(queue, consumer)
            if consumer.acquires:
                wake = _choose_others(queue, wake)
            message = None
            break
        consumer.is_blocked = False
        if not consumer.acquires:
            break
        # This may fail although the distributor offered the message, as its group may have got another owner.
        if queue.acquire(message, consumer.owner):
            queue.counters.acquires += 1
            message.delivery_count += 1
            break
    if wake is not None:
        wake.notify()
    if has_expired:
        queue.settle()
    return message


def _choose_others(queue: Queue, wake: NotificationSet | None) -> NotificationSet:
    """Choose the next readers to wake instead of this consumer, in addition to browsers chosen (RF-07b)."""
    if wake is None:
        wake = NotificationSet()
    queue.listeners.populate(wake)
    return wake


def _block(queue: Queue, consumer: Subscription) -> None:
    consumer.block()
    if queue.context.observer is not None:
        queue.context.tell("out_of_credit", queue.name, link=consumer.owner)


def _wait(queue: Queue, consumer: Subscription) -> None:
    queue.listeners.add(consumer)
    if queue.context.observer is not None:
        queue.context.tell("idle", queue.name, link=consumer.owner)


OnDelivery = Callable[[DeliveryRecord], None]

_DELIVERED: Final[tuple[str, ...]] = ("delivery", "position", "redelivered", "acquired", "mode")


class SemanticState(Dependent):
    """The subscriptions of a session and the records of its deliveries (compare ``SemanticState.cpp``)."""

    VOLATILE: ClassVar[tuple[str, ...]] = ("on_delivery",)
    __slots__ = (
        "context", "session", "connection", "peer", "blocked", "subscriptions", "cancelled", "records",
        "next_number", "unacked_messages", "on_delivery",
    )  # fmt: skip

    def __init__(
        self, context: BrokerContext, session: str, connection: Connection, peer: AttachedSession
    ) -> None:
        self.context = context
        self.session = session
        self.connection = connection
        self.peer = peer
        # The tags of all subscriptions that wait for credit, and possibly of some that no longer do.
        self.blocked: set[str] = set()
        self.subscriptions: dict[str, Subscription] = {}
        # Cancelled subscriptions, with the numbers of their deliveries that were unsettled at that time.
        self.cancelled: list[tuple[Subscription, tuple[int, ...]]] = []
        # Records of deliveries by number, ascending (RF-03).
        self.records: dict[int, DeliveryRecord] = {}
        self.next_number = 0
        # The number that management shows, which every settling command updates, but not a commit (RF-25).
        self.unacked_messages = 0
        self.on_delivery: OnDelivery | None = None

    def find(self, tag: str) -> Subscription:
        """Return the subscription with a tag; raise NotFoundException (404) for an unknown tag (CN-02)."""
        subscription = self.subscriptions.get(tag)
        if subscription is None:
            raise NotFoundException(f"Unknown destination {tag} session={self.session}")
        return subscription

    def list_shown(self) -> list[Subscription]:
        """Return the subscriptions, and cancelled ones that still have unsettled deliveries (RF-39)."""
        lingering = [one for one, numbers in self.cancelled if not self.records.keys().isdisjoint(numbers)]
        return [*self.subscriptions.values(), *lingering]

    def refers_to(self, queue: Queue) -> bool:
        """Return whether a recorded delivery came from a queue (RF-45)."""
        return any(record.queue is queue for record in self.records.values())

    def add(self, subscription: Subscription) -> None:
        """Register a new subscription."""
        self.subscriptions[subscription.name] = subscription
        if self.context.observer is not None:
            self.context.emit("subscribe", subscription.queue.name, self.session, subscription.name)

    def _end(self, subscription: Subscription) -> None:
        if self.context.observer is not None:
            self.context.emit("unsubscribe", subscription.queue.name, self.session, subscription.name)
        subscription.queue.cancel(subscription)

    def _end_with_session(self, subscription: Subscription) -> None:
        """End a subscription outside a command; a refusal of the queue's alternate is only noted (RF-34)."""
        try:
            self._end(subscription)
        except SessionException as error:
            name = subscription.queue.name
            text = (
                f"queue {name} goes with its last reader, and its alternate refuses: the real broker aborts"
            )
            self.context.note_failure("crash", f"{text} ({error})", name)

    def send_command(self) -> int:
        """Return the number of the next command to the client, which answers every 65,536th (RF-05)."""
        number = self.next_number
        # Number 0 is one of them: after the first delivery of a session, its blocked subscriptions are woken
        # once more (RF-05).
        if number % KNOWN_COMPLETED_INTERVAL == 0:
            self.connection.scheduler.expect_reply(self)
        self.next_number += 1
        return number

    def deliver(self, subscription: Subscription, message: QueuedMessage) -> None:
        """Send a message to a subscription; in accept mode none, also dequeue it if acquired (CN-11)."""
        record = subscription.record(self.send_command(), message)
        transfer = message.transfer
        self.connection.to_client.count(transfer.size, transfer.message.content_size)
        if record.is_needed:
            self.records[record.id] = record
            self.unacked_messages = len(self.records)
        if self.context.observer is not None:
            self._emit_delivered(record)
        if record.is_ended and record.is_acquired:
            subscription.queue.dequeue(message, "accept-none")
        if self.on_delivery is not None:
            self.on_delivery(record)

    def complete(self, numbers: Numbers) -> None:
        """Complete deliveries by number: return room to windows, and wake blocked subscriptions (RF-04)."""
        for number in numbers:
            record = self.records.get(number)
            if record is None:
                continue
            subscription = self.subscriptions.get(record.tag)
            # The credit returns to the subscription that has this tag *now*, in its present mode, even if
            # another subscription with the tag got the delivery (RF-04).
            if subscription is not None and not record.is_completed:
                record.is_completed = True
                subscription.credit.replenish(record.message.transfer.size)
            if record.is_redundant:
                del self.records[number]
        self.unacked_messages = len(self.records)
        self.wake_blocked()

    def wake_blocked(self) -> None:
        """Wake every subscription that waits for credit, in ascending order of tags (RF-04, RF-05)."""
        if len(self.blocked) == 1:
            self._wake(self.blocked.pop())
        elif self.blocked:
            tags, self.blocked = sorted(self.blocked), set()
            for tag in tags:
                self._wake(tag)

    def _wake(self, tag: str) -> None:
        subscription = self.subscriptions.get(tag)
        if subscription is not None:
            subscription.wake_for_credit()

    def accept(self, numbers: Numbers, transaction: TxAccept | None = None) -> None:
        """Accept deliveries by number, at once or when the transaction commits (CN-13, CM-11)."""
        if transaction is not None:
            transaction.numbers.update(numbers)
        else:
            for number in _sort_numbers(numbers):
                record = self.records.get(number)
                if record is not None:
                    record.accept()
                    self._sweep(record)
        self.unacked_messages = len(self.records)

    def release(self, numbers: Iterable[int], set_redelivered: bool) -> None:
        """Release deliveries to their queues, within each range of numbers from last to first (RF-13)."""
        for first, last in _find_ranges(numbers):
            for record in reversed(self._find_records(range(first, last + 1))):
                record.release(set_redelivered)
            self._sweep_range(first, last)
        self.unacked_messages = len(self.records)

    def reject(self, numbers: Iterable[int]) -> None:
        """Reject deliveries by number (CN-16)."""
        for first, last in _find_ranges(numbers):
            for record in self._find_records(range(first, last + 1)):
                record.reject()
            self._sweep_range(first, last)
        self.unacked_messages = len(self.records)

    def acquire(self, numbers: Iterable[int]) -> list[int]:
        """Acquire browsed messages by delivery number; return the numbers that succeeded (RF-02)."""
        # Unlike all other commands about deliveries, this one forgets no redundant records (RF-03).
        granted = [record.id for record in self._find_records(numbers) if record.acquire()]
        self.send_command()
        return granted

    def commit_accepts(self, numbers: set[int]) -> None:
        """Accept the deliveries of a committed transaction, in order of delivery (RF-22)."""
        for record in self._find_records(numbers):
            record.accept(in_transaction=True)
        if numbers:
            # One number too far, as in the real broker (RF-03, rnd-tx-064).
            self._sweep_range(min(numbers), max(numbers) + 1)

    def _find_records(self, numbers: Iterable[int]) -> list[DeliveryRecord]:
        return [self.records[number] for number in _sort_numbers(numbers) if number in self.records]

    def cancel(self, subscription: Subscription) -> None:
        """Cancel a subscription; the messages delivered to it stay acquired (CN-17)."""
        del self.subscriptions[subscription.name]
        self.connection.forget(subscription)
        # All records with the tag, including those of an earlier subscription with it (RF-03).
        own = [r for r in self.records.values() if r.tag == subscription.name and not r.is_cancelled]
        for record in own:
            record.is_cancelled = True
        for record in list(self.records.values()):
            self._sweep(record)
        unsettled = tuple(record.id for record in own if record.id in self.records)
        self.cancelled = [(s, ids) for s, ids in self.cancelled if not self.records.keys().isdisjoint(ids)]
        self.cancelled.append((subscription, unsettled))
        subscription.is_enabled = False
        self._end(subscription)
        self.unacked_messages = len(self.records)

    def close(self) -> None:
        """Release messages from last to first, and cancel subscriptions by ascending tag (CN-17, RF-14)."""
        for subscription in self.subscriptions.values():
            subscription.is_enabled = False
            self.connection.forget(subscription)
        # From last to first: each release wakes one consumer, so the order in which other consumers get the
        # messages depends on it (RF-13).
        for number in sorted(self.records, reverse=True):
            self.records[number].release(set_redelivered=True)
        self.records.clear()
        self.cancelled.clear()
        for tag in sorted(self.subscriptions):
            self._end_with_session(self.subscriptions.pop(tag))
        self.unacked_messages = 0

    def _sweep(self, record: DeliveryRecord) -> None:
        if record.is_redundant:
            self.records.pop(record.id, None)

    def _sweep_range(self, first: int, last: int) -> None:
        numbers: Iterable[int] = range(first, last + 1)
        if last - first > len(self.records):
            # The client may name any numbers, including ones that were never used.
            numbers = [number for number in self.records if first <= number <= last]
        for number in numbers:
            record = self.records.get(number)
            if record is not None:
                self._sweep(record)

    def _emit_delivered(self, record: DeliveryRecord) -> None:
        message, transfer = record.message, record.message.transfer
        mode = "window" if record.is_windowing else "credit"
        values = (record.id, message.position, record.redelivered, record.is_acquired, mode)
        queue, label, size = record.queue.name, transfer.label, transfer.size
        self.context.tell(
            "delivered", queue, self.session, record.tag, label, size, message.group, _DELIVERED, values
        )


class TxAccept(TxOperation):
    """All accepts of a transaction as one operation, which is the last of its commit (RF-22)."""

    __slots__ = ("state", "numbers")

    def __init__(self, state: SemanticState) -> None:
        self.state = state
        self.numbers: set[int] = set()

    def commit(self) -> None:
        """Accept the deliveries."""
        self.state.commit_accepts(self.numbers)


def _sort_numbers(numbers: Iterable[int]) -> Numbers:
    if isinstance(numbers, tuple) and len(numbers) < 2:
        return numbers
    return tuple(sorted(set(numbers)))


def _find_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return numbers as ascending (first, last) ranges, both ends included."""
    ranges: list[tuple[int, int]] = []
    for number in _sort_numbers(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
