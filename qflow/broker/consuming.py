"""Consuming: subscriptions, their credit (prefetch), the path of a message to its consumer, and turns.

A client reads a queue through a :class:`Subscription` (the broker's ConsumerImpl).  The steps of one
delivery:

1. Something makes it possible: a message was enqueued or released, or credit was granted.  The subscription
   is *notified*, which puts it into the FIFO of its :class:`Connection` (RF-12).  Nothing is sent yet.
2. At the end of the command the :class:`OutputScheduler` gives turns: connection by connection, each
   subscription one message, until none gets a message any more.  The connection whose command is being
   processed comes last: its read event has to end first.
3. In its turn :func:`get_next_message` asks in a fixed order (compare ``Queue::getNextMessage``): credit at
   all? next message by cursor; expired? selector? *credit for this one* before *group*, and the cursor is
   put back before another reader is woken (RF-07).
4. :meth:`SemanticState.deliver` makes a :class:`DeliveryRecord`, charges the credit, and calls the client.

A subscription that gets nothing waits in one of two places: in the queue's list, where an event on the queue
finds it, or among the blocked ones, where a grant of credit does (RF-08).

What the client does with its deliveries (accept, release, reject, acquire, complete) is a method of
:class:`SemanticState`.  A record is *ended* when nothing more can be done with the message through it, and
*redundant* when it can be forgotten, which in window mode takes the client's completion as well (RF-03).
:class:`Credit` is how much a subscription may still be sent (CN-04 … CN-07, RF-09).
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
"""Numbers of deliveries; of any type, as compiled code would make an int anew each time it looks one up."""

INFINITE: Final = 0xFFFFFFFF
_MODULUS: Final = 1 << 32

MESSAGE_UNIT: Final = 0
BYTE_UNIT: Final = 1
CREDIT_MODE: Final = 0
WINDOW_MODE: Final = 1


class Balance(Restorable):
    """Credit in one unit, in the broker's 32-bit integers; in credit mode ``used`` stays 0 (RF-09)."""

    __slots__ = ("granted", "used")

    def __init__(self) -> None:
        self.granted = 0
        self.used = 0

    def grant(self, amount: int) -> None:
        """Add credit; 0xFFFFFFFF means infinite and sticks, other sums stop just below it (CN-04)."""
        if amount == INFINITE:
            self.granted = INFINITE
        elif self.granted != INFINITE:
            # Clamped, or two large grants together would mean "infinite".
            self.granted = min(self.granted + amount, INFINITE - 1)

    def allows(self, need: int) -> bool:
        """Return whether the balance covers ``need``."""
        # Modulo 2^32, as the broker's counters are uint32: a window that was infinite, was stopped and then
        # gets completions falls below 0, which enlarges the next one (RF-09).
        return self.granted == INFINITE or self.granted >= (self.used + need) % _MODULUS

    def spend(self, amount: int) -> None:
        """Consume credit permanently (credit mode)."""
        if self.granted != INFINITE:
            self.granted -= amount

    def occupy(self, amount: int) -> None:
        """Occupy room in the window until :meth:`vacate` (window mode)."""
        if self.granted != INFINITE:
            self.used = (self.used + amount) % _MODULUS

    def vacate(self, amount: int) -> None:
        """Return room to the window."""
        if self.granted != INFINITE:
            self.used = (self.used - amount) % _MODULUS


class Credit(Restorable):
    """A subscription's balances of messages and bytes; at first window mode, no credit (CN-03, CN-04)."""

    __slots__ = ("mode", "messages", "volume", "_other_messages", "_other_volume")

    def __init__(self) -> None:
        self.mode: int = WINDOW_MODE
        self.messages = Balance()
        self.volume = Balance()
        self._other_messages = Balance()
        self._other_volume = Balance()

    def change_mode(self, mode: int) -> None:
        """Switch to this mode's balances."""
        # Nothing is moved between the modes: what was granted in one is there again when the client comes
        # back to it.
        if mode != self.mode:
            self.mode = mode
            self.messages, self._other_messages = self._other_messages, self.messages
            self.volume, self._other_volume = self._other_volume, self.volume

    def balance(self, unit: int) -> Balance:
        """Return the balance of a unit in the current mode."""
        return self.messages if unit == MESSAGE_UNIT else self.volume

    def grant(self, unit: int, amount: int) -> None:
        """Add credit of one unit to the current mode."""
        self.balance(unit).grant(amount)

    def stop(self) -> None:
        """Clear both balances of the current mode; the window's contents stay counted (CN-07)."""
        self.messages.granted = 0
        self.volume.granted = 0

    def allows(self, size: int) -> bool:
        """Return whether one message of ``size`` bytes may be sent (CN-05)."""
        return self.messages.allows(1) and self.volume.allows(size)

    def exists(self) -> bool:
        """Return whether there is any credit: one message and one byte (RF-07)."""
        return self.messages.allows(1) and self.volume.allows(1)

    def takes_any_size(self) -> bool:
        """Return whether credit, if there is any, admits a message of any size."""
        return self.volume.granted == INFINITE

    def charge(self, size: int) -> None:
        """Charge one message to the current mode."""
        if self.mode == WINDOW_MODE:
            self.messages.occupy(1)
            self.volume.occupy(size)
        else:
            self.messages.spend(1)
            self.volume.spend(size)

    def replenish(self, size: int) -> None:
        """Return room to the window, if the mode is window *now* (RF-04)."""
        if self.mode == WINDOW_MODE:
            self.messages.vacate(1)
            self.volume.vacate(size)


class AttachedSession(Protocol):
    """A connection's view of its sessions."""

    def fail(self, error: AmqpException) -> None:
        """End with an error."""

    def note_queue_deleted(self, subscription: Subscription, error: SessionException) -> None:
        """Handle the deletion of a subscription's queue (CN-18, LNK-09)."""


_FRAME_CONTENT: Final = 65_535 - 12
"""Bytes of content in a frame of the largest size that AMQP 0-10 allows, without its head."""


class Traffic(Restorable):
    """The messages of a connection in one direction, with their bytes and frames (CF-10)."""

    __slots__ = ("messages", "size", "frames")

    def __init__(self) -> None:
        self.messages = 0
        self.size = 0
        self.frames = 0

    def count(self, size: int, content_size: int) -> None:
        """Count a message by its bytes, those of its content included."""
        self.messages += 1
        self.size += size
        self.frames += 2 - -content_size // _FRAME_CONTENT


class Connection(Dependent):
    """A client's connection: a FIFO of subscriptions to serve, one message each in turn."""

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
        """Put a subscription at the end of the FIFO, unless it is already in it."""
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
        """Close every session of the connection: one of them broke the protocol (LP-06)."""
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
        """Give turns until no subscription gets any more messages."""
        while self.tasks.count:
            task = self.tasks.take()
            task.is_scheduled = False
            while task.dispatch() and not task.is_scheduled:
                # Without others it has the next turn, too.
                if self.tasks.count:
                    task.is_scheduled = True
                    self.tasks.add(task)
                    break


class OutputScheduler(Dependent):
    """The FIFO of connections with work; the one whose command is being processed is served last."""

    WRITTEN_AS: ClassVar[Containers] = {"_ready": (deque, Fifo), "_repliers": (deque, Fifo)}

    __slots__ = ("_context", "_ready", "reading", "_repliers")

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._ready: Fifo[Connection] = Fifo()
        self.reading: Connection | None = None
        self._repliers: Fifo[SemanticState] = Fifo()

    def activate(self, connection: Connection) -> None:
        """Give a connection that has work its place in the FIFO."""
        if not connection.is_ready and connection is not self.reading:
            connection.is_ready = True
            self._ready.add(connection)

    def read(self, connection: Connection) -> None:
        """Set the connection being read; the one before it is now served in its turn, if it has work."""
        # What this connection is to be sent waits until its read is over; others come before it (RF-12).
        before, self.reading = self.reading, connection
        if before is not None and before.tasks.count:
            self.activate(before)

    def expect_reply(self, replier: SemanticState) -> None:
        """Let a client answer the broker's ``session.flush`` once all output is made (RF-05)."""
        self._repliers.add(replier)

    def quiesce(self) -> None:
        """Make all possible deliveries, report completions (CM-08), and let management answer."""
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
    """The broker's record of a message sent to a subscription (RF-03)."""

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
        # As it was at the delivery. The count of the message keeps changing with later deliveries.
        self.redelivered = message.delivery_count > 0
        # Whether the message belongs to the subscription; a browser's does not, unless it acquires it.
        self.is_acquired = is_acquired
        self.is_windowing = is_windowing
        # True from the start for accept mode none (RF-01).
        self.is_ended = is_ended
        self.is_completed = False
        self.is_cancelled = False

    @property
    def label(self) -> str:
        """The message's name."""
        return self.message.transfer.label

    @property
    def size(self) -> int:
        """The message's bytes, as counted for credit."""
        return self.message.transfer.size

    @property
    def is_needed(self) -> bool:
        """Whether the session must remember the delivery from the start (RF-03)."""
        return self.is_windowing or not self.is_ended or not self.is_acquired

    @property
    def is_redundant(self) -> bool:
        """Whether a sweep may remove the record (RF-03)."""
        return self.is_ended and (not self.is_windowing or self.is_completed or self.is_cancelled)

    def accept(self, in_transaction: bool = False) -> None:
        """Take responsibility: the message is dequeued, if it is still there (CN-13)."""
        if self.is_ended:
            return
        # Not "is acquired": a browser of AMQP 1.0 that left has perhaps made it available again (RF-51).
        if self.is_acquired and self.message.state != REMOVED:
            self.queue.dequeue(self.message, "accept", in_transaction)
        self.is_ended = True

    def release(self, set_redelivered: bool) -> None:
        """Return an acquired message to its queue (CN-14); a browsed one belongs to no subscription."""
        if self.is_acquired and not self.is_ended:
            self.is_ended = True
            # It belongs to none any more, so that a later acquire may claim it again (RF-02).
            self.is_acquired = False
            self.queue.release(self.message, set_redelivered)

    def reject(self) -> None:
        """Refuse an acquired message: it is dropped, or goes to the alternate exchange (CN-16)."""
        if not self.is_acquired or self.is_ended:
            return
        self.is_ended = True
        if self.message.state != REMOVED:
            self.queue.reject(self.message)

    def acquire(self) -> bool:
        """Claim a browsed message, under the bare tag (MG-15, RF-02); return whether it worked."""
        # By the bare tag and not by session and tag: an inconsistency of the broker's that makes two
        # sessions with one tag share their groups (MG-15).
        if not self.is_acquired and self.queue.acquire(self.message, self.tag):
            self.is_acquired = True
            return True
        return False

    def __repr__(self) -> str:
        flags = [name for name in ("acquired", "ended", "completed") if getattr(self, f"is_{name}")]
        return f"DeliveryRecord({self.id}, {self.label!r}, {self.tag!r}, {' '.join(flags) or 'browsed'})"


class Subscription(QueueConsumer):
    """One consumer or browser, made by ``message_subscribe`` (CN-01)."""

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
        # What is no text is no selector (RF-35).
        self.selector = Selector(expression) if isinstance(expression, str) and expression else None
        # Accept mode explicit; with none, messages are gone when delivered (CN-11).
        self.is_explicit = is_explicit
        self.is_exclusive = is_exclusive
        self.is_enabled = True
        self.delivered = 0
        frequency = arguments.get("qpid.sync_frequency")
        # After every so many deliveries an execution.sync is sent (CN-01); 0 for never.
        self.sync_frequency = frequency if isinstance(frequency, int) and frequency > 0 else 0
        # Born blocked, though nothing has been refused to it yet: its first grant has to wake it (RF-08).
        self.block()

    def block(self) -> None:
        """Stop for lack of credit; the session remembers the tag, to wake it."""
        self.is_blocked = True
        self.target.blocked.add(self.name)

    def notify(self) -> None:
        """Ask for a turn, unless the session is closing (RF-14)."""
        if self.is_enabled:
            self.connection.schedule(self)

    def wake_for_credit(self) -> None:
        """Ask for a turn if the subscription waited for credit (RF-08)."""
        if self.is_blocked:
            self.is_blocked = False
            self.notify()

    def dispatch(self) -> bool:
        """Try to send one message when it is this subscription's turn; return whether one was sent."""
        try:
            return self.is_enabled and self.send_next()
        except SessionException as error:
            self.target.peer.note_queue_deleted(self, error)
            return False

    def send_next(self) -> bool:
        """Try to send one message (RF-07); return whether one was sent.  408 if the queue is gone."""
        message = get_next_message(self.queue, self)
        if message is None:
            return False
        self.delivered += 1
        self.target.deliver(self, message)
        if self.sync_frequency and not self.delivered % self.sync_frequency:
            # All that can be seen of the broker's sync is that it has a number of its own.
            self.target.send_command()
        return True

    def is_choosy(self) -> bool:
        """Return whether the subscription may pass over messages that its queue offers."""
        return self.selector is not None

    def wants(self, message: QueuedMessage) -> bool:
        """Return whether the selector, if any, accepts a message."""
        selector = self.selector
        return selector is None or selector.matches(
            message.transfer, message.delivery_count, self.queue.context.start_time
        )

    def flush(self) -> None:
        """Send while there are credit and messages, then withdraw the credit (RF-08)."""
        while self.credit.exists():
            if not self.send_next():
                break
        else:
            self.block()
        self.credit.stop()

    def record(self, number: int, message: QueuedMessage) -> DeliveryRecord:
        """Make the record of a delivery, and charge credit for it."""
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
    """Return a consumer's next message, acquired if it acquires; None if it has to wait (CN-08, CN-18)."""
    credit = consumer.credit
    if not credit.exists():
        _block(queue, consumer)
        return None
    # After the question for credit: a reader without any does not learn that its queue is gone (RF-15).
    if queue.is_deleted:
        raise ResourceDeletedException(f"Queue {queue.name} has been deleted.")
    wake: NotificationSet | None = None
    has_expired = False
    has_any_bytes = credit.takes_any_size()
    is_choosy = consumer.is_choosy()
    while True:
        # Where any size will do, the cursor never goes back.
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
            # Another one may want it.  The real broker takes the next listener off the list for each message
            # passed over and notifies only the last of them, after the loop (RF-07b).
            if consumer.acquires:
                wake = _choose_others(queue, wake)
            continue
        if before is not None and not credit.allows(transfer.size):
            # Back in front of it, or a later grant of credit would find it already seen (RF-07).
            consumer.cursor.restore(before)
            _block(queue, consumer)
            if consumer.acquires:
                wake = _choose_others(queue, wake)
            message = None
            break
        consumer.is_blocked = False
        if not consumer.acquires:
            break
        # May fail although the distributor offered the message: its group may have become another's since.
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
    """Return the readers to wake in this consumer's place, beside those already chosen (RF-07b)."""
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
    """A session's subscriptions and deliveries (compare ``SemanticState.cpp``)."""

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
        # Tags of all subscriptions that have stopped for want of credit, perhaps of others, too.
        self.blocked: set[str] = set()
        self.subscriptions: dict[str, Subscription] = {}
        # Each with the numbers of its deliveries that were unsettled when it was cancelled.
        self.cancelled: list[tuple[Subscription, tuple[int, ...]]] = []
        # By number, ascending (RF-03).
        self.records: dict[int, DeliveryRecord] = {}
        self.next_number = 0
        # As management shows it: refreshed by all that settles but a commit (RF-25).
        self.unacked_messages = 0
        self.on_delivery: OnDelivery | None = None

    def find(self, tag: str) -> Subscription:
        """Return the subscription with a tag; 404 for an unknown one (CN-02)."""
        subscription = self.subscriptions.get(tag)
        if subscription is None:
            raise NotFoundException(f"Unknown destination {tag} session={self.session}")
        return subscription

    def list_shown(self) -> list[Subscription]:
        """Return subscriptions, cancelled ones with unsettled deliveries included (RF-39)."""
        lingering = [one for one, numbers in self.cancelled if not self.records.keys().isdisjoint(numbers)]
        return [*self.subscriptions.values(), *lingering]

    def refers_to(self, queue: Queue) -> bool:
        """Return whether a recorded delivery came from a queue (RF-45)."""
        return any(record.queue is queue for record in self.records.values())

    def add(self, subscription: Subscription) -> None:
        """Keep a new subscription."""
        self.subscriptions[subscription.name] = subscription
        if self.context.observer is not None:
            self.context.emit("subscribe", subscription.queue.name, self.session, subscription.name)

    def _end(self, subscription: Subscription) -> None:
        if self.context.observer is not None:
            self.context.emit("unsubscribe", subscription.queue.name, self.session, subscription.name)
        subscription.queue.cancel(subscription)

    def _end_with_session(self, subscription: Subscription) -> None:
        """End a subscription where no command can be refused, even if its queue's alternate does (RF-34)."""
        try:
            self._end(subscription)
        except SessionException as error:
            name = subscription.queue.name
            text = (
                f"queue {name} goes with its last reader, and its alternate refuses: the real broker aborts"
            )
            self.context.note_failure("crash", f"{text} ({error})", name)

    def send_command(self) -> int:
        """Return the number of the next command to the client, who answers every 65,536th (RF-05)."""
        number = self.next_number
        # Number 0 is one of them: after its first delivery a session has its blocked subscriptions woken
        # once more (RF-05).
        if number % KNOWN_COMPLETED_INTERVAL == 0:
            self.connection.scheduler.expect_reply(self)
        self.next_number += 1
        return number

    def deliver(self, subscription: Subscription, message: QueuedMessage) -> None:
        """Send a message; in accept mode none an acquired message is dequeued now (CN-11)."""
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
        """Take a client's ``session.completed``: windows move, and the blocked wake (RF-04)."""
        for number in numbers:
            record = self.records.get(number)
            if record is None:
                continue
            subscription = self.subscriptions.get(record.tag)
            # The credit of the *present* mode and the present subscription of that tag, whoever the delivery
            # was for (RF-04).
            if subscription is not None and not record.is_completed:
                record.is_completed = True
                subscription.credit.replenish(record.message.transfer.size)
            if record.is_redundant:
                del self.records[number]
        self.unacked_messages = len(self.records)
        self.wake_blocked()

    def wake_blocked(self) -> None:
        """Wake every subscription that waits for credit, by ascending tag (RF-04, RF-05)."""
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
        """Take responsibility for deliveries: now, or at commit (CN-13, CM-11)."""
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
        """Release deliveries to their queues, each range last to first (RF-13)."""
        for first, last in _find_ranges(numbers):
            for record in reversed(self._find_records(range(first, last + 1))):
                record.release(set_redelivered)
            self._sweep_range(first, last)
        self.unacked_messages = len(self.records)

    def reject(self, numbers: Iterable[int]) -> None:
        """Refuse deliveries (CN-16)."""
        for first, last in _find_ranges(numbers):
            for record in self._find_records(range(first, last + 1)):
                record.reject()
            self._sweep_range(first, last)
        self.unacked_messages = len(self.records)

    def acquire(self, numbers: Iterable[int]) -> list[int]:
        """Acquire browsed deliveries; return the granted ones (RF-02)."""
        # Nothing is swept here (RF-03), unlike in every other command about deliveries.
        granted = [record.id for record in self._find_records(numbers) if record.acquire()]
        self.send_command()
        return granted

    def commit_accepts(self, numbers: set[int]) -> None:
        """Carry out the accepts of a transaction, in order of delivery (RF-22)."""
        for record in self._find_records(numbers):
            record.accept(in_transaction=True)
        if numbers:
            # One further than it should: so does the broker (RF-03, rnd-tx-064).
            self._sweep_range(min(numbers), max(numbers) + 1)

    def _find_records(self, numbers: Iterable[int]) -> list[DeliveryRecord]:
        return [self.records[number] for number in _sort_numbers(numbers) if number in self.records]

    def cancel(self, subscription: Subscription) -> None:
        """End a subscription; its deliveries remain acquired (CN-17)."""
        del self.subscriptions[subscription.name]
        self.connection.forget(subscription)
        # All records of the tag, those of an earlier subscription of that name as well (RF-03).
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
        """End everything: disable, requeue last to first, cancel by ascending tag (CN-17, RF-14)."""
        for subscription in self.subscriptions.values():
            subscription.is_enabled = False
            self.connection.forget(subscription)
        # Last to first, so that each lands in front of those before it and wakes one consumer at a time; the
        # order in which others get them depends on it (RF-13).
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
            # The client may name any number, also one that never was.
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
    """The accepts of a transaction: one operation, at its end (RF-22)."""

    __slots__ = ("state", "numbers")

    def __init__(self, state: SemanticState) -> None:
        self.state = state
        self.numbers: set[int] = set()

    def commit(self) -> None:
        """Carry the accepts out."""
        self.state.commit_accepts(self.numbers)


def _sort_numbers(numbers: Iterable[int]) -> Numbers:
    if isinstance(numbers, tuple) and len(numbers) < 2:
        return numbers
    return tuple(sorted(set(numbers)))


def _find_ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return sorted numbers as closed ranges."""
    ranges: list[tuple[int, int]] = []
    for number in _sort_numbers(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
