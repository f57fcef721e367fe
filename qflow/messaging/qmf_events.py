"""Management events as messages: what a broker tells consoles on ``qmf.default.topic`` (CF-12, QT-13).

The engine tells its observer; here the few kinds that management knows are turned into QMFv2
indications.  They are sent after the command that caused them is done, so that an alert never runs
inside the enqueue that raised it.
"""

from __future__ import annotations

from collections.abc import Callable

from qflow.broker import Broker, Event, Session
from qflow.broker.errors import AmqpException
from qflow.broker.events import Observer
from qflow.broker.matching import topic_matches
from qflow.messaging.encoding import to_broker
from qflow.messaging.message import Message

EXCHANGE = "qmf.default.topic"
PACKAGE = "org.apache.qpid.broker"
AGENT = "apache.org:qpidd:qflow"
AGENT_SESSION = "qmf.agent"
GENERATIONS = 2
"""Events that publishing an event causes are published; those which that causes are not, or it never ends."""

Values = dict[str, object]
_WHO: Values = {"rhost": "in-process", "user": "anonymous"}


def _threshold(event: Event, detail: Values) -> Values:
    return {"qName": event.queue, "msgDepth": detail["msgDepth"], "byteDepth": detail["byteDepth"]}


def _queue(event: Event, detail: Values) -> Values:
    arguments = {"args": detail["arguments"]} if "arguments" in detail else {}
    return _WHO | {"qName": event.queue} | arguments


def _exchange(event: Event, detail: Values) -> Values:
    kind = {"exType": detail["type"]} if "type" in detail else {}
    return _WHO | {"exName": event.link} | kind


def _binding(event: Event, detail: Values) -> Values:
    return _WHO | {"exName": event.link, "qName": event.queue, "key": detail.get("key", "")}


def _subscription(event: Event, detail: Values) -> Values:
    return _WHO | {"qName": event.queue, "dest": event.link}


def _redirect(event: Event, detail: Values) -> Values:
    return {"qName": event.queue, "qTarget": event.link}


_KINDS: dict[str, tuple[str, Callable[[Event, Values], Values]]] = {
    "queueThresholdCrossedUpward": ("warn", _threshold),
    "queueThresholdCrossedDownward": ("inform", _threshold),
    "queueThresholdExceeded": ("warn", _threshold),
    "queueDeclare": ("inform", _queue),
    "queueDelete": ("inform", _queue),
    "exchangeDeclare": ("inform", _exchange),
    "exchangeDelete": ("inform", _exchange),
    "bind": ("inform", _binding),
    "unbind": ("inform", _binding),
    "subscribe": ("inform", _subscription),
    "unsubscribe": ("inform", _subscription),
    "queueRedirect": ("inform", _redirect),
    "queueRedirectCancelled": ("inform", _redirect),
}


def routing_key(kind: str) -> str:
    """Return the key under which an event is published.

    Examples
    --------
    >>> routing_key("queueThresholdExceeded")
    'agent.ind.event.org_apache_qpid_broker.queueThresholdExceeded.warn.apache_org.qpidd.qflow'
    """
    package, agent = PACKAGE.replace(".", "_"), AGENT.replace(".", "_").replace(":", ".")
    return f"agent.ind.event.{package}.{kind}.{_KINDS[kind][0]}.{agent}"


def indication(event: Event) -> Message:
    """Return the QMFv2 message for an event of the engine."""
    severity, values = _KINDS[event.kind]
    schema = {"_package_name": PACKAGE, "_class_name": event.kind, "_type": "_event"}
    content = {
        "_schema_id": schema,
        "_values": values(event, dict(event.detail or {})),
        "_timestamp": event.time * 1000,
        "_severity": severity,
    }
    headers: Values = {
        "method": "indication",
        "qmf.opcode": "_data_indication",
        "qmf.content": "_event",
        "qmf.agent": AGENT,
        "x-amqp-0-10.app-id": "qmf2",
    }
    return Message([content], subject=routing_key(event.kind), properties=headers)


class EventPublisher:
    """Watches a broker while somebody subscribes to its events, beside any observer it already has."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._pending: list[Event] = []
        self._other: Observer | None = None
        # One object, so that "is it still there?" can be asked; a bound method is new each time.
        self._ear: Observer = self._take

    def listen(self) -> None:
        """Start or stop to watch, before each command: bindings and observers come and go."""
        is_wanted = bool(self.broker.exchanges.get(EXCHANGE).bindings)
        if is_wanted and self.broker.observer is not self._ear:
            self._other = self.broker.observer
            self.broker.observe(self._ear)
        elif not is_wanted and self.broker.observer is self._ear:
            self.broker.observe(self._other)

    def publish(self) -> None:
        """Send what happened since the last time, and what that causes in turn."""
        for _ in range(GENERATIONS):
            if not self._pending:
                return
            pending, self._pending = self._pending, []
            for event in pending:
                self._send(event)
        self._pending.clear()

    def _take(self, event: Event) -> None:
        if event.kind in _KINDS:
            self._pending.append(event)
        if self._other is not None:
            self._other(event)

    def _send(self, event: Event) -> None:
        key = routing_key(event.kind)
        bindings = self.broker.exchanges.get(EXCHANGE).bindings.values()
        if any(topic_matches(binding.key, key) for binding in bindings):
            publish(self.broker, indication(event), EXCHANGE, key)


def publish(broker: Broker, message: Message, exchange: str, key: str) -> None:
    """Send a message of the management agent; nobody minds if a queue has no room for it."""
    try:
        agent_session(broker).message_transfer(to_broker(message, key, message.subject), exchange)
    except AmqpException:
        return


def agent_session(broker: Broker) -> Session:
    """Return the session by which the agent sends; a new one if the last one died."""
    session = broker.sessions.get(AGENT_SESSION)
    return session if session is not None and session.is_attached else broker.session(AGENT_SESSION)
