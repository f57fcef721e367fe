"""Player: performs a scenario's steps on the engine and keeps what its clients can see.

Observation: what can be seen after a step, in the words of ``expect``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from qflow.broker import INFINITE, Broker, BrokerOptions, Message, Session
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import AmqpException, ManagementError, SessionException
from qflow.broker.events import Event
from qflow.broker.queue import Queue
from qflow.broker.statistics import QueueStatistics
from qflow.broker.transfer import Transfer
from qflow.conformance.scenario import not_built, pack, unpack

Step = Mapping[str, Any]
ADMINISTRATOR = "ctl"
FLOW_MODES = {"credit": 0, "window": 1}


class UnknownStepError(Exception):
    """The scenario asks for something that is not built."""


class Client:
    """One session as its client sees it: what it sent, and what it was given."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.sent: list[tuple[str, int]] = []
        self.deliveries: dict[str, DeliveryRecord] = {}
        self.by_subscription: dict[tuple[str, str], DeliveryRecord] = {}

    def held(self) -> list[str]:
        """Labels of transfers and syncs that are not complete, in the order sent."""
        return [label for label, number in self.sent if number not in self.session.completed]

    def find(self, label: str, subscription: str | None) -> DeliveryRecord | None:
        """Return the latest delivery of a message to this session, or to one subscription of it."""
        if subscription is None:
            return self.deliveries.get(label)
        return self.by_subscription.get((subscription, label))


class Player:
    """Performs steps.

    Parameters
    ----------
    options : sequence of str
        The scenario's additional broker options.
    """

    def __init__(self, options: tuple[str, ...] = ()) -> None:
        self.broker = Broker(BrokerOptions.parse(options))
        self.broker.observe(self._take)
        self.clients: dict[str, Client] = {}
        self.got: dict[str, list[str]] = {}
        self.events: list[Event] = []
        self.declared: list[str] = []
        self.answer: Any = None

    def _take(self, event: Event) -> None:
        if event.kind.startswith("queueThreshold"):
            self.events.append(event)

    def play(self, step: Step) -> None:
        """Perform one step; a step of a session that is gone has no effect (RF-25).

        Raises
        ------
        UnknownStepError
            If the step uses a word that this player does not know, or a value that cannot be.
        """
        unknown = not_built(step)
        if unknown:
            raise UnknownStepError(unknown)
        try:
            self._play(step)
        except (TypeError, ValueError) as error:
            raise UnknownStepError(f"op {step['op']!r} with these values: {error}") from error

    def _play(self, step: Step) -> None:
        action = _ACTIONS[step["op"]]
        self.events = []
        self.answer = None
        client = self._client(step)
        if client.session.is_attached or step["op"] in _NEEDS_NO_SESSION:
            # The session remembers what it died of; expectations look there.
            with suppress(AmqpException):
                action(self, client, step)

    def _client(self, step: Step) -> Client:
        name = step.get("session", ADMINISTRATOR)
        client = self.clients.get(name)
        if client is None:
            client = self.clients[name] = Client(self.broker.session(name, step.get("connection", "")))
            client.session.consuming.on_delivery = lambda record: self._deliver(client, name, record)
        return client

    def _deliver(self, client: Client, name: str, record: DeliveryRecord) -> None:
        label = record.label + ("*" if record.redelivered else "")
        self.got.setdefault(f"{name}/{record.tag}", []).append(label)
        client.deliveries[record.label] = record
        client.by_subscription[record.tag, record.label] = record

    # Producing

    def _send(self, client: Client, step: Step, label: str) -> Transfer:
        headers = step.get("headers")
        message = Message(
            routing_key=step.get("key", ""),
            headers=headers,
            priority=step.get("priority"),
            ttl=step.get("ttl", 0),
            label=label,
        )
        exchange = step.get("exchange", "")
        filling = step["size"] - message.encoded_size(exchange)
        message = Message(filling, message.routing_key, headers, message.priority, message.ttl, label=label)
        transfer = client.session.message_transfer(message, exchange)
        client.sent.append((label, transfer.number))
        return transfer

    def transfer(self, client: Client, step: Step) -> None:
        """Send a run of messages, each fully dealt with before the next."""
        for label in unpack([step["label"]]):
            self._send(client, step, label)

    def offer(self, client: Client, step: Step) -> None:
        """Send until as many transfers and syncs of the session are held as its capacity."""
        sent: list[str] = []
        self.answer = sent
        for label in unpack([step["label"]]):
            if len(client.held()) >= step["capacity"]:
                break
            sent.append(label)
            self._send(client, step, label)

    def sync(self, client: Client, step: Step) -> None:
        """Send execution.sync without waiting for it."""
        client.sent.append((step["label"], client.session.completions.next_number))
        client.session.execution_sync()

    # Consuming

    def subscribe(self, client: Client, step: Step) -> None:
        """Subscribe, choose a flow mode, grant bytes, then messages."""
        session, tag = client.session, step["sub"]
        self.got.setdefault(f"{session.name}/{tag}", [])
        session.message_subscribe(
            step.get("queue", ""),
            tag,
            accept_mode=1 if step.get("accept_mode") == "none" else 0,
            acquire_mode=1 if step.get("acquire_mode") == "not-acquired" else 0,
            exclusive=step.get("exclusive", False),
            arguments=step.get("args"),
        )
        if "flow_mode" in step:
            session.message_set_flow_mode(tag, FLOW_MODES[step["flow_mode"]])
        self.flow(client, step)

    def flow(self, client: Client, step: Step) -> None:
        """Grant bytes, then messages."""
        for unit, name in ((1, "bytes"), (0, "messages")):
            if name in step:
                value = INFINITE if step[name] == "inf" else step[name]
                client.session.message_flow(step["sub"], unit, value)

    def fetch(self, client: Client, step: Step) -> None:
        """Get at most one message."""
        client.session.fetch(step["sub"])

    def settle(self, client: Client, step: Step) -> None:
        """Accept, reject, release, acquire or complete the named deliveries, in one command."""
        records = [client.find(label, step.get("sub")) for label in unpack(step.get("labels", ()))]
        numbers = [record.id for record in records if record is not None]
        session = client.session
        match step["op"]:
            case "accept":
                session.message_accept(numbers)
            case "reject":
                session.message_reject(numbers)
            case "release":
                session.message_release(numbers, step.get("set_redelivered", False))
            case "complete":
                session.session_completed(numbers)
            case "acquire":
                granted = set(session.message_acquire(numbers))
                self.answer = [r.label for r in records if r is not None and r.id in granted]

    # Administration

    def declare_queue(self, client: Client, step: Step) -> None:
        """Declare a queue."""
        name = step.get("queue", "")
        self._remember(name)
        client.session.queue_declare(
            name,
            step.get("args"),
            durable=step.get("durable", False),
            auto_delete=step.get("auto_delete", False),
            exclusive=step.get("exclusive", False),
            passive=step.get("passive", False),
            alternate_exchange=step.get("alternate", ""),
        )

    def _remember(self, queue: str) -> None:
        if queue not in self.declared:
            self.declared.append(queue)

    def declare_exchange(self, client: Client, step: Step) -> None:
        """Declare an exchange."""
        client.session.exchange_declare(
            step.get("exchange", ""),
            step.get("type", ""),
            alternate_exchange=step.get("alternate", ""),
            passive=step.get("passive", False),
            arguments=step.get("args"),
        )

    def disconnect(self, client: Client, step: Step) -> None:
        """Drop the connection: all its sessions end, and only then is anything delivered."""
        connection = client.session.connection
        sessions = [
            other.session for other in self.clients.values() if other.session.connection is connection
        ]
        *others, last = [session for session in sessions if session.is_attached]
        for session in others:
            session.detach()
        last.close()

    def qmf(self, client: Client, step: Step) -> None:
        """Call a management method; the answer is kept."""
        arguments = dict(step.get("args") or {})
        if "object" in step:
            arguments["queue"] = step["object"]
        if step["method"] == "create" and arguments.get("type") == "queue":
            self._remember(arguments["name"])
        try:
            getattr(self.broker.management, step["method"])(**arguments)
            self.answer = ["ok"]
        except ManagementError as error:
            self.answer = ["error", error.text]

    def sleep(self, client: Client, step: Step) -> None:
        """Let time pass."""
        self.broker.advance(self.broker.now + step["ms"] * 1000)


_NEEDS_NO_SESSION = ("qmf", "sleep")
_ACTIONS: dict[str, Callable[[Player, Client, Step], None]] = {
    "session": lambda player, client, step: None,
    "declare_queue": Player.declare_queue,
    "delete_queue": lambda player, client, step: client.session.queue_delete(
        step.get("queue", ""), step.get("if_unused", False), step.get("if_empty", False)
    ),
    "purge_queue": lambda player, client, step: client.session.queue_purge(step.get("queue", "")),
    "declare_exchange": Player.declare_exchange,
    "delete_exchange": lambda player, client, step: client.session.exchange_delete(step.get("exchange", "")),
    "bind": lambda player, client, step: client.session.exchange_bind(
        step.get("queue", ""), step.get("exchange", ""), step.get("key", ""), step.get("args")
    ),
    "unbind": lambda player, client, step: client.session.exchange_unbind(
        step.get("queue", ""), step.get("exchange", ""), step.get("key", "")
    ),
    "transfer": Player.transfer,
    "offer": Player.offer,
    "sync": Player.sync,
    "subscribe": Player.subscribe,
    "flow": Player.flow,
    "stop": lambda player, client, step: client.session.message_stop(step["sub"]),
    "flush": lambda player, client, step: client.session.message_flush(step["sub"]),
    "fetch": Player.fetch,
    "set_flow_mode": lambda player, client, step: client.session.message_set_flow_mode(
        step["sub"], FLOW_MODES[step["flow_mode"]]
    ),
    "cancel": lambda player, client, step: client.session.message_cancel(step["sub"]),
    "accept": Player.settle,
    "reject": Player.settle,
    "release": Player.settle,
    "acquire": Player.settle,
    "complete": Player.settle,
    "tx_select": lambda player, client, step: client.session.tx_select(),
    "tx_commit": lambda player, client, step: client.session.tx_commit(),
    "tx_rollback": lambda player, client, step: client.session.tx_rollback(),
    "close": lambda player, client, step: client.session.close(),
    "disconnect": Player.disconnect,
    "qmf": Player.qmf,
    "sleep": Player.sleep,
}


Seen = dict[str, Any]
_BY_NAME = ("done", "held", "got", "unacked", "groups")

_QUEUE: dict[str, Callable[[QueueStatistics], int | bool]] = {
    "depth": lambda s: s.msgDepth,
    "bytes": lambda s: s.byteDepth,
    "avail": lambda s: s.messageCount,
    "enq": lambda s: s.msgTotalEnqueues,
    "deq": lambda s: s.msgTotalDequeues,
    "txenq": lambda s: s.msgTxnEnqueues,
    "txdeq": lambda s: s.msgTxnDequeues,
    "acq": lambda s: s.acquires,
    "rel": lambda s: s.releases,
    "ttl": lambda s: s.discardsTtl,
    "ring": lambda s: s.discardsRing,
    "lvq": lambda s: s.discardsLvq,
    "over": lambda s: s.discardsOverflow,
    "rej": lambda s: s.discardsSubscriber,
    "purged": lambda s: s.discardsPurge,
    "rerouted": lambda s: s.reroutes,
    "cons": lambda s: s.consumerCount,
    "binds": lambda s: s.bindingCount,
    "flow": lambda s: s.flowStopped,
    "flows": lambda s: s.flowStoppedCount,
}


def observe(player: Player) -> Seen:
    """Return the complete visible state, without what is 0, false or empty."""
    queues = {name: player.broker.queues.queues.get(name) for name in player.declared}
    seen: Seen = {
        "done": _by_session(player, lambda client: len(client.sent) - len(client.held())),
        "held": _by_session(player, lambda client: pack(client.held())),
        "got": {name: pack(labels) for name, labels in player.got.items()},
        "unacked": _by_session(player, lambda client: client.session.consuming.unacked_messages),
        "queues": {name: None if queue is None else _queue(queue) for name, queue in queues.items()},
        "groups": {
            name: _groups(queue) for name, queue in queues.items() if queue is not None and queue.groups
        },
        "errors": {
            name: [_code(client.session.error), client.session.error.text]
            for name, client in player.clients.items()
            if client.session.error is not None
        },
        "events": [
            [event.kind, event.queue, (event.detail or {})["msgDepth"], (event.detail or {})["byteDepth"]]
            for event in player.events
        ],
    }
    return without_empty(seen)


def _code(error: AmqpException) -> str:
    return error.name if isinstance(error, SessionException) else "connection"


def _by_session(player: Player, value: Callable[[Any], Any]) -> Seen:
    found = {name: value(client) for name, client in player.clients.items() if client.session.is_attached}
    return {name: item for name, item in found.items() if item}


def _queue(queue: Queue) -> Seen:
    statistics = queue.statistics()
    values = {name: read(statistics) for name, read in _QUEUE.items()}
    return {name: value for name, value in values.items() if value}


def _groups(queue: Queue) -> Seen:
    if queue.groups is None:
        return {}
    return {
        str(group["group_id"]): [group["msg_count"], str(group["consumer"]).replace("::", "/")]
        for group in queue.groups.state()
    }


def normalized(expect: Mapping[str, Any]) -> Seen:
    """Return an expectation in the same form: what is 0, false or empty is left out."""
    queues = {
        name: None if queue is None else {key: value for key, value in queue.items() if value}
        for name, queue in expect.get("queues", {}).items()
    }
    seen: Seen = {**expect, "queues": queues}
    return without_empty(seen)


def without_empty(seen: Mapping[str, Any]) -> Seen:
    """Leave out what is empty; of queues, groups and so on by name, too, but not a queue that there is."""
    kept = {
        key: {name: item for name, item in value.items() if item} if key in _BY_NAME else value
        for key, value in seen.items()
    }
    return {key: value for key, value in kept.items() if value}


def browse_everything(player: Player) -> dict[str, list[str]]:
    """Return what a fresh browser sees on every queue that still exists."""
    final: dict[str, list[str]] = {}
    for name in player.declared:
        queue = player.broker.queues.queues.get(name)
        if queue is not None:
            session = player.broker.session(f"final browser of {name}")
            labels: list[str] = []
            session.consuming.on_delivery = lambda record, labels=labels: labels.append(
                record.label + ("*" if record.redelivered else "")
            )
            session.message_subscribe(name, "browser", acquire_mode=1)
            session.message_set_flow_mode("browser", 0)
            session.message_flow("browser", 1, 0xFFFFFFFF)
            session.message_flow("browser", 0, 0xFFFFFFFF)
            session.close()
            final[name] = pack(labels)
    return final
