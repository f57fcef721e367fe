"""One attempt to find a message for a consumer, exactly as the broker makes it (RF-07).

Lay it beside ``Queue::getNextMessage``.  The order of the questions is the rule: credit before
group, cursor put back before anybody else is woken.
"""

from __future__ import annotations

from qflow.broker.consumer import Consumer, NotificationSet
from qflow.broker.credit import INFINITE
from qflow.broker.errors import ResourceDeletedException
from qflow.broker.queue import Queue
from qflow.broker.queued_message import QueuedMessage


def get_next_message(queue: Queue, consumer: Consumer) -> QueuedMessage | None:
    """Return the next message for the consumer, acquired if it acquires, or None.

    A consumer that finds nothing is put into the queue's waiting list; one whose credit does not
    suffice is blocked instead, and another is woken in its place (CN-08).

    Raises
    ------
    ResourceDeletedException
        408, if the queue is gone (CN-18).
    """
    credit = consumer.credit
    if not credit.exists():
        _block(queue, consumer)
        return None
    if queue.is_deleted:
        raise ResourceDeletedException(f"Queue {queue.name} has been deleted.")
    wake: NotificationSet | None = None
    has_expired = False
    has_any_bytes = credit.volume.granted == INFINITE
    while True:
        # Where any size will do, the cursor never goes back.
        before = None if has_any_bytes else consumer.cursor.save()
        message = queue.distributor.next(consumer, has_any_bytes and consumer.selector is None)
        if message is None:
            _wait(queue, consumer)
            break
        transfer = message.transfer
        if transfer.expiration is not None and transfer.is_expired(queue.context.now):
            queue.counters.discardsTtl += 1
            queue.remove(message, "ttl")
            has_expired = True
            continue
        if consumer.selector is not None and not consumer.selector.matches(transfer):
            if consumer.acquires:
                wake = _others(queue, wake)
            continue
        if before is not None and not credit.allows(transfer.size):
            consumer.cursor.restore(before)
            _block(queue, consumer)
            if consumer.acquires:
                wake = _others(queue, wake)
            message = None
            break
        consumer.is_blocked = False
        if not consumer.acquires or _acquire(queue, message, consumer):
            break
    if wake is not None:
        wake.notify()
    if has_expired:
        queue.settle()
    return message


def _others(queue: Queue, wake: NotificationSet | None) -> NotificationSet:
    """Return who is to be woken in this consumer's place, with those chosen before (RF-07b)."""
    if wake is None:
        wake = NotificationSet()
    queue.listeners.populate(wake)
    return wake


def _acquire(queue: Queue, message: QueuedMessage, consumer: Consumer) -> bool:
    if not queue.acquire(message, consumer.owner):
        return False
    queue.counters.acquires += 1
    message.delivery_count += 1
    return True


def _block(queue: Queue, consumer: Consumer) -> None:
    consumer.block()
    if queue.context.observer is not None:
        queue.context.tell("out_of_credit", queue.name, link=consumer.owner)


def _wait(queue: Queue, consumer: Consumer) -> None:
    queue.listeners.add(consumer)
    if queue.context.observer is not None:
        queue.context.tell("idle", queue.name, link=consumer.owner)
