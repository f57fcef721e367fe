"""One attempt to find a message for a consumer, exactly as the broker makes it (RF-07).

Lay it beside ``Queue::getNextMessage``.  The order of the questions is the rule: credit before
group, cursor put back before anybody else is woken.
"""

from __future__ import annotations

from qflow.broker.consumer import Consumer, NotificationSet
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
    if not consumer.credit.exists():
        _block(queue, consumer)
        return None
    if queue.is_deleted:
        raise ResourceDeletedException(f"Queue {queue.name} has been deleted.")
    wake = NotificationSet()
    has_expired = False
    while True:
        before = consumer.cursor.save()
        message = queue.store.next(consumer.cursor)
        if message is None:
            _wait(queue, consumer)
            break
        transfer = message.transfer
        if transfer.is_expired(queue.context.now):
            queue.counters.discardsTtl += 1
            queue.remove(message, "ttl")
            has_expired = True
            continue
        if consumer.selector is not None and not consumer.selector.matches(transfer):
            if consumer.acquires:
                queue.listeners.populate(wake)
            continue
        if not consumer.credit.allows(transfer.size):
            consumer.cursor.restore(before)
            _block(queue, consumer)
            if consumer.acquires:
                queue.listeners.populate(wake)
            message = None
            break
        consumer.is_blocked = False
        if not consumer.acquires or _acquire(queue, message, consumer):
            break
    wake.notify()
    if has_expired:
        queue.settle()
    return message


def _acquire(queue: Queue, message: QueuedMessage, consumer: Consumer) -> bool:
    if not queue.acquire(message, consumer.owner):
        return False
    queue.counters.acquires += 1
    message.delivery_count += 1
    return True


def _block(queue: Queue, consumer: Consumer) -> None:
    consumer.is_blocked = True
    if queue.context.observer is not None:
        queue.context.emit("out_of_credit", queue.name, link=consumer.owner)


def _wait(queue: Queue, consumer: Consumer) -> None:
    queue.listeners.add(consumer)
    if queue.context.observer is not None:
        queue.context.emit("idle", queue.name, link=consumer.owner)
