"""The event vocabulary: everything a run can be seen doing, in one table.

A broker tells an observer (``broker.observer``) each command it is given and each effect it has.
The same rows serve traces, pictures, explanations and Spark; nothing else in qflow invents a kind.
With no observer attached no event is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

Detail = Mapping[str, object] | None


class Event(NamedTuple):
    """One row of a trace.

    Fields
    ------
    time : int
        Virtual microseconds since the broker started.
    kind : str
        A key of :data:`COMMANDS` or :data:`EFFECTS`.
    queue, session, link, message, group : str
        Names, empty where they do not apply.  ``link`` is a subscription's tag or an exchange's
        name; ``message`` is the message's label.
    size : int
        Bytes the broker counts for the message, or 0.
    detail : mapping or None
        What else belongs to this kind, as the tables below say.

    Examples
    --------
    >>> Event(0, "enqueued", queue="orders", message="p1-1", size=100)[:3]
    (0, 'enqueued', 'orders')
    """

    time: int
    kind: str
    queue: str = ""
    session: str = ""
    link: str = ""
    message: str = ""
    size: int = 0
    group: str = ""
    detail: Detail = None


Observer = Callable[[Event], None]

COMMANDS: dict[str, str] = {
    "session.attach": "a session begins; detail: connection",
    "session.detach": "a session ends in good order",
    "session.completed": "a client completes deliveries; detail: transfers",
    "session.flush": "a client asks which commands are complete",
    "session.written": "several commands in one write end, and output is made (RF-08)",
    "execution.sync": "a client asks to be told when all earlier commands are complete",
    "message.transfer": "a producer sends; link: exchange; detail: command, message",
    "message.subscribe": "a consumer or browser subscribes; link: tag",
    "message.cancel": "a subscription ends",
    "message.set_flow_mode": "credit or window",
    "message.flow": "credit is granted; detail: unit, value",
    "message.stop": "credit is taken away",
    "message.flush": "deliver while there is credit, then take it away",
    "message.accept": "responsibility is taken; detail: transfers",
    "message.release": "messages are given back; detail: transfers, set_redelivered",
    "message.reject": "messages are refused; detail: transfers",
    "message.acquire": "browsed messages are claimed; detail: transfers",
    "queue.declare": "a queue is declared",
    "queue.delete": "a queue is deleted",
    "queue.purge": "a queue is emptied",
    "exchange.declare": "an exchange is declared",
    "exchange.delete": "an exchange is deleted",
    "exchange.bind": "a queue is bound",
    "exchange.unbind": "a binding is removed",
    "queue.query": "a client asks about a queue",
    "exchange.query": "a client asks about an exchange",
    "exchange.bound": "a client asks about bindings",
    "dtx.select": "refused: distributed transactions are left out",
    "tx.select": "the session becomes transactional",
    "tx.commit": "the transaction takes effect",
    "tx.rollback": "the transaction is forgotten",
    "store.open": "the broker has a store that is done when it is told so; detail: flushes_on_sync",
    "store.finish": "the store is done with a message (CM-12); detail: message",
    "management": "a management method; detail: method, arguments",
    "advance": "time is told and something was due",
}

EFFECTS: dict[str, str] = {
    "completed": "a command of a session is complete; detail: command",
    "reported": "a client is told which commands are complete (CM-05); detail: completed",
    "held": "a stopped queue withholds a transfer's completion (FC-15); detail: command",
    "let_go": "a queue no longer withholds a transfer's completion (FC-17); detail: command",
    "listed": "a message waits in its session's list (ALT-06); link: exchange; detail: command, waiting",
    "enqueued": "a message is on a queue; detail: position, depth, bytes",
    "acquired": "a message now belongs to a subscription; detail: position",
    "delivered": "a message is sent to a subscription; detail: delivery, redelivered, acquired",
    "requeued": "an acquired message is available again, at its old place; detail: position",
    "dequeued": "a message has left its queue; detail: position, reason, depth, bytes",
    "dropped": "a message was not put on a queue; detail: reason",
    "unroutable": "no binding matched; link: exchange (EX-08)",
    "flow_stopped": "flow control of the queue turned ON (FC-14); detail: count, size",
    "flow_resumed": "flow control of the queue turned OFF (FC-16); detail: count, size",
    "channel_flow": "a client is told to stop sending, or to go on (ALT-12); detail: active",
    "group_owned": "a group belongs to an owner; link: owner (MG-07)",
    "group_freed": "a group is free again (MG-08)",
    "out_of_credit": "a subscription stops for want of credit (CN-05)",
    "idle": "a subscription found nothing and waits in the queue's list (CN-19)",
    "exception": "a session died; detail: code, name, text",
    "queueDeclare": "a queue exists; detail: arguments",
    "queueDelete": "a queue is gone; detail: reason",
    "exchangeDeclare": "an exchange exists; link: its name; detail: type",
    "exchangeDelete": "an exchange is gone; link: its name",
    "bind": "a binding exists; link: exchange; detail: key",
    "unbind": "a binding is gone; link: exchange; detail: key",
    "subscribe": "a subscription exists",
    "unsubscribe": "a subscription is gone",
    "queueRedirect": "two queues swapped what they get; link: the other queue (QT-18)",
    "queueRedirectCancelled": "they get their own again; link: the other queue (QT-18)",
    "queueThresholdCrossedUpward": "an alert (QT-13); detail: msgDepth, byteDepth",
    "queueThresholdCrossedDownward": "an alert (QT-13); detail: msgDepth, byteDepth",
    "queueThresholdExceeded": "the deprecated alert (QT-13); detail: msgDepth, byteDepth",
}
