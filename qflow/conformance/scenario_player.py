"""The scenario player: performs recorded steps on the engine, and compares the visible state.

:data:`_STEPS` lists the kinds of step: the required and optional parameters of each, and its action on the
engine.  An unknown step, parameter or value is refused (:class:`_UnknownStepError`), so that no part of a
recording is skipped without notice.  After each step, :func:`observe` returns everything that clients can
see, in the form of the recording's ``expect``; :func:`normalize` brings the recorded expectation into the
same form; and :func:`check` compares the two and returns a :class:`ScenarioVerdict` with the differences.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from qflow.broker import (
    BYTE_UNIT,
    CREDIT_MODE,
    INFINITE,
    MESSAGE_UNIT,
    NOT_ACQUIRED,
    Broker,
    BrokerOptions,
    Message,
    Session,
)
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import AmqpException, ManagementError, SessionException, StartupError
from qflow.broker.events import Event
from qflow.broker.management import METHODS
from qflow.broker.queue import Queue
from qflow.conformance.scenario import Scenario, load_scenarios, load_startups, pack, start, unpack
from qflow.qflow_error import QflowError

Step = Mapping[str, Any]
_Seen = dict[str, Any]
_ADMINISTRATOR = "ctl"
_NEEDS_NO_SESSION = ("qmf", "sleep")


class _UnknownStepError(QflowError):
    """A step of a scenario that the player does not support."""


class _PlayedSession:
    """A session with the client's record of transfers sent and deliveries received."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.sent: list[tuple[str, int]] = []
        # The latest delivery of each message, by subscription and label, and by None and label for any
        # subscription.
        self.deliveries: dict[tuple[str | None, str], DeliveryRecord] = {}

    def held(self) -> list[str]:
        """Return the labels of incomplete transfers and syncs in order of sending."""
        return [label for label, number in self.sent if number not in self.session.completed]


class Player:
    """A broker with the scenario's options, on which steps are performed."""

    def __init__(self, options: tuple[str, ...] = ()) -> None:
        self.broker = Broker(BrokerOptions.parse(options))
        self.broker.observe(self._take)
        self.clients: dict[str, _PlayedSession] = {}
        self.got: dict[str, list[str]] = {}
        self.events: list[Event] = []
        # The names of all queues that steps declare; a dict serves as an ordered set.
        self.declared: dict[str, None] = {}
        self.answer: Any = None

    def _take(self, event: Event) -> None:
        if event.kind.startswith("queueThreshold"):
            self.events.append(event)

    def play(self, step: Step) -> None:
        """Perform one step; a step on an ended session has no effect (RF-25)."""
        unknown = _find_unknown(step)
        if unknown:
            raise _UnknownStepError(unknown)
        self.events, self.answer = [], None
        try:
            client = self._client(step)
            if client.session.is_attached or step["op"] in _NEEDS_NO_SESSION:
                # The session keeps the error that ended it, and observe reads it there.
                with suppress(AmqpException):
                    _STEPS[step["op"]].action(self, client, step)
        except (TypeError, ValueError) as error:
            raise _UnknownStepError(f"op {step['op']!r} with these values: {error}") from error

    def _client(self, step: Step) -> _PlayedSession:
        name = step.get("session", _ADMINISTRATOR)
        client = self.clients.get(name)
        if client is None:
            session = self.broker.session(name, step.get("connection", ""))
            client = self.clients[name] = _PlayedSession(session)
            client.session.consuming.on_delivery = lambda record: self._deliver(client, name, record)
        return client

    def _deliver(self, client: _PlayedSession, name: str, record: DeliveryRecord) -> None:
        label = record.label + ("*" if record.redelivered else "")
        self.got.setdefault(f"{name}/{record.tag}", []).append(label)
        client.deliveries[None, record.label] = client.deliveries[record.tag, record.label] = record

    # Producing

    def transfer(self, client: _PlayedSession, step: Step) -> None:
        """Send the step's messages, each after the broker has processed the previous one."""
        exchange = step.get("exchange", "")
        message = Message(
            0,
            step.get("key", ""),
            step.get("headers"),
            priority=step.get("priority"),
            ttl=step.get("ttl", 0),
        )
        filling = step["size"] - message.encoded_size(exchange)
        sent: list[str] = []
        if "capacity" in step:
            self.answer = sent
        for label in unpack([step["label"]]):
            # An "offer" ends when the number of the session's held transfers and syncs reaches its capacity.
            if "capacity" in step and len(client.held()) >= step["capacity"]:
                break
            sent.append(label)
            named = replace(message, content_size=filling, label=label)
            transfer = client.session.message_transfer(named, exchange)
            client.sent.append((label, transfer.number))

    def sync(self, client: _PlayedSession, step: Step) -> None:
        """Send execution.sync without waiting for it."""
        client.sent.append((step["label"], client.session.completions.next_number))
        client.session.execution_sync()

    # Consuming

    def subscribe(self, client: _PlayedSession, step: Step) -> None:
        """Subscribe, set the flow mode if the step names one, and grant credit: bytes, then messages."""
        self.got.setdefault(f"{client.session.name}/{step['sub']}", [])
        _SUBSCRIBE.action(self, client, step)
        if "flow_mode" in step:
            _SET_FLOW_MODE.action(self, client, step)
        self.flow(client, step)

    def flow(self, client: _PlayedSession, step: Step) -> None:
        """Grant credit: bytes, then messages."""
        for unit, name in ((BYTE_UNIT, "bytes"), (MESSAGE_UNIT, "messages")):
            if name in step:
                value = INFINITE if step[name] == "inf" else step[name]
                client.session.message_flow(step["sub"], unit, value)

    def settle(self, client: _PlayedSession, step: Step) -> None:
        """Accept, reject, release, acquire or complete the named deliveries, in one command."""
        named = [(step.get("sub"), label) for label in unpack(step.get("labels", ()))]
        records = [client.deliveries[one] for one in named if one in client.deliveries]
        more = {"set_redelivered": step["set_redelivered"]} if "set_redelivered" in step else {}
        settle = getattr(client.session, _SETTLE_COMMANDS[step["op"]])
        granted = settle([record.id for record in records], **more)
        if step["op"] == "acquire":
            self.answer = [record.label for record in records if record.id in granted]

    # Administration

    def declare_queue(self, client: _PlayedSession, step: Step) -> None:
        """Declare a queue, and include it in later observations."""
        try:
            _DECLARE.action(self, client, step)
        finally:
            # A queue whose declaration is refused is observed as well, if it has a name.
            if isinstance(name := step.get("queue", ""), str):
                self.declared[name] = None

    def disconnect(self, client: _PlayedSession, step: Step) -> None:
        """Drop the connection: all its sessions end before the broker delivers any message they return."""
        connection = client.session.connection
        sessions = (other.session for other in self.clients.values() if other.session.is_attached)
        *others, last = [session for session in sessions if session.connection is connection]
        for session in others:
            session.detach()
        last.close()

    def qmf(self, client: _PlayedSession, step: Step) -> None:
        """Call a management (QMF) method, and store its answer."""
        arguments = dict(step.get("args") or {})
        if "object" in step:
            arguments["queue"] = step["object"]
        if step["method"] == "create" and arguments.get("type") == "queue":
            self.declared[arguments["name"]] = None
        try:
            getattr(self.broker.management, step["method"])(**arguments)
            self.answer = ["ok"]
        except ManagementError as error:
            self.answer = ["error", error.text]

    def sleep(self, client: _PlayedSession, step: Step) -> None:
        """Let virtual time pass."""
        self.broker.advance(self.broker.now + step["ms"] * 1000)


_BY_NAME = ("done", "held", "got", "unacked", "groups")

QUEUE = {
    "depth": "msgDepth",
    "bytes": "byteDepth",
    "avail": "messageCount",
    "enq": "msgTotalEnqueues",
    "deq": "msgTotalDequeues",
    "txenq": "msgTxnEnqueues",
    "txdeq": "msgTxnDequeues",
    "acq": "acquires",
    "rel": "releases",
    "ttl": "discardsTtl",
    "ring": "discardsRing",
    "lvq": "discardsLvq",
    "over": "discardsOverflow",
    "rej": "discardsSubscriber",
    "purged": "discardsPurge",
    "rerouted": "reroutes",
    "cons": "consumerCount",
    "binds": "bindingCount",
    "flow": "flowStopped",
    "flows": "flowStoppedCount",
}
"""The attributes of a queue in an expectation, each with the name of the QMF statistic that it means."""


# The vocabulary


Action = Callable[[Player, _PlayedSession, Step], object]


class _Word(NamedTuple):
    """A kind of step: its required and optional parameters, and its action on the engine."""

    needed: tuple[str, ...]
    possible: tuple[str, ...]
    action: Action


_OF_THE_ENGINE = {"sub": "tag", "args": "arguments", "alternate": "alternate_exchange"}
"""Parameters of steps whose names differ from those in the engine's commands, with the latter."""


def _command(
    method: str, needed: tuple[str, ...] = (), possible: tuple[str, ...] = (), **defaults: Any
) -> _Word:
    """Return a kind of step that runs one engine command with the step's parameters, or their defaults."""

    def action(player: Player, client: _PlayedSession, step: Step) -> object:
        given = defaults | {name: step[name] for name in (*needed, *possible, *defaults) if name in step}
        given.pop("session", None)
        for name in _CHOICES.keys() & given:
            given[name] = _CHOICES[name].index(given[name])
        return getattr(client.session, method)(**{_OF_THE_ENGINE.get(n, n): v for n, v in given.items()})

    return _Word(needed, (*possible, *defaults), action)


_CHOICES = {
    "accept_mode": ("explicit", "none"),
    "acquire_mode": ("pre-acquired", "not-acquired"),
    "flow_mode": ("credit", "window"),
}
"""Values that a step gives as words and AMQP as numbers: the index of the word in its tuple."""

_MESSAGE = ("exchange", "headers", "priority", "ttl")
_SESSION, _SUBSCRIPTION = ("session",), ("session", "sub")
_SETTLE = _Word(_SESSION, ("labels", "sub"), Player.settle)
_SETTLE_COMMANDS = {
    "accept": "message_accept",
    "reject": "message_reject",
    "release": "message_release",
    "acquire": "message_acquire",
    "complete": "session_completed",
}
_DECLARE = _command(
    "queue_declare",
    possible=("args", "durable", "auto_delete", "exclusive", "passive", "alternate"),
    queue="",
)
_SUBSCRIBE = _command(
    "message_subscribe", _SUBSCRIPTION, ("accept_mode", "acquire_mode", "exclusive", "args"), queue=""
)
_SET_FLOW_MODE = _command("message_set_flow_mode", (*_SUBSCRIPTION, "flow_mode"))

_STEPS: dict[str, _Word] = {
    "session": _Word(_SESSION, ("connection",), lambda player, client, step: None),
    "declare_queue": _DECLARE._replace(action=Player.declare_queue),
    "delete_queue": _command("queue_delete", possible=("if_unused", "if_empty"), queue=""),
    "purge_queue": _command("queue_purge", queue=""),
    "declare_exchange": _command(
        "exchange_declare", possible=("alternate", "passive", "args"), exchange="", type=""
    ),
    "delete_exchange": _command("exchange_delete", exchange=""),
    "bind": _command("exchange_bind", possible=("key", "args"), queue="", exchange=""),
    # AMQP's exchange.unbind has no arguments, but a recording may give some.
    "unbind": _command("exchange_unbind", queue="", exchange="", key="")._replace(
        possible=("exchange", "queue", "key", "args")
    ),
    "transfer": _Word(("session", "label", "size"), ("key", *_MESSAGE), Player.transfer),
    "offer": _Word(("session", "label", "size", "capacity"), ("key", "sent", *_MESSAGE), Player.transfer),
    "sync": _Word(("session", "label"), (), Player.sync),
    "subscribe": _Word(
        _SUBSCRIPTION, (*_SUBSCRIBE.possible, "flow_mode", "bytes", "messages"), Player.subscribe
    ),
    "flow": _Word(_SUBSCRIPTION, ("bytes", "messages"), Player.flow),
    "fetch": _command("fetch", _SUBSCRIPTION),
    "set_flow_mode": _SET_FLOW_MODE,
    **{name: _command(f"message_{name}", _SUBSCRIPTION) for name in ("stop", "flush", "cancel")},
    **dict.fromkeys(("accept", "reject", "complete"), _SETTLE),
    "release": _SETTLE._replace(possible=("labels", "sub", "set_redelivered")),
    "acquire": _SETTLE._replace(possible=("labels", "sub", "acquired")),
    **{name: _command(name, _SESSION) for name in ("tx_select", "tx_commit", "tx_rollback", "close")},
    "disconnect": _Word(_SESSION, (), Player.disconnect),
    "sleep": _Word(("ms",), (), Player.sleep),
    "qmf": _Word(("method",), ("object", "args", "result"), Player.qmf),
}
"""The kinds of step by name (FORMAT.md, section Steps); an absent queue or exchange has the name ""."""

_EVERYWHERE = ("op", "expect", "session")

_CALLED = ("purge", "reroute", "queueMoveMessages", "create", "delete", "query", "queueRedirect")
"""The management methods that scenarios call; a step's ``object`` is the queue of the method."""

_EXPECT = (*_BY_NAME, "queues", "errors", "events")


def _find_unknown(step: Mapping[str, Any]) -> str:
    """Return a description of a step's unsupported or missing parts, or "" if it can be performed."""
    op = step["op"]
    if not isinstance(op, str) or op not in _STEPS:
        return f"op {op!r}; known are {', '.join(sorted(_STEPS))}"
    return ", ".join(
        [*_check_parameters(op, step), *_check_method(step), *_check_expectations(step["expect"])]
    )


def _check_parameters(op: str, step: Mapping[str, Any]) -> Iterator[str]:
    needed, possible, _ = _STEPS[op]
    for name in needed:
        if name not in step:
            yield f"op {op!r} without {name!r}"
    for name, value in step.items():
        if name not in (*_EVERYWHERE, *needed, *possible):
            yield f"parameter {name!r} of op {op!r}"
        elif name in _CHOICES and value not in _CHOICES[name]:
            yield f"{name} {value!r}; known are {', '.join(_CHOICES[name])}"


def _check_method(step: Mapping[str, Any]) -> Iterator[str]:
    if step["op"] != "qmf" or "method" not in step:
        return
    method = step["method"]
    if method not in _CALLED:
        yield f"management method {method!r}; known are {', '.join(_CALLED)}"
        return
    names = METHODS[method].names
    if "queue" in names and "object" not in step:
        yield f"management method {method!r} without 'object'"
    for name in step.get("args") or ():
        if name == "queue" or name not in names:
            yield f"argument {name!r} of management method {method!r}"


def _check_expectations(expect: Any) -> Iterator[str]:
    if not isinstance(expect, Mapping):
        yield f"an expectation that is a {type(expect).__name__}"
        return
    for name in expect:
        if name not in _EXPECT:
            yield f"expectation {name!r}"
    queues = expect.get("queues") or {}
    if not isinstance(queues, Mapping):
        yield f"expected queues that are a {type(queues).__name__}"
        return
    for key in sorted({key for queue in queues.values() for key in queue or ()} - set(QUEUE)):
        yield f"expectation {key!r} of a queue"


# Observing


def observe(player: Player) -> _Seen:
    """Return everything that clients can see, without entries that are 0, false or empty."""
    queues = {name: player.broker.queues.find_shown(name) for name in player.declared}
    seen: _Seen = {
        "done": _observe_sessions(player, lambda client: len(client.sent) - len(client.held())),
        "held": _observe_sessions(player, lambda client: pack(client.held())),
        "got": {name: pack(labels) for name, labels in player.got.items()},
        "unacked": _observe_sessions(player, lambda client: client.session.consuming.unacked_messages),
        "queues": {name: None if queue is None else _observe_queue(queue) for name, queue in queues.items()},
        "groups": {
            name: _observe_groups(queue)
            for name, queue in queues.items()
            if queue is not None and queue.groups
        },
        "errors": {
            name: [error.name if isinstance(error, SessionException) else "connection", error.text]
            for name, client in player.clients.items()
            if (error := client.session.error) is not None
        },
        "events": [
            [event.kind, event.queue, (event.detail or {})["msgDepth"], (event.detail or {})["byteDepth"]]
            for event in player.events
        ],
    }
    return normalize(seen)


def _observe_sessions(player: Player, value: Callable[[Any], Any]) -> _Seen:
    return {name: value(client) for name, client in player.clients.items() if client.session.is_attached}


def _observe_queue(queue: Queue) -> _Seen:
    statistics = queue.statistics()
    return {name: getattr(statistics, statistic) for name, statistic in QUEUE.items()}


def _observe_groups(queue: Queue) -> _Seen:
    return {
        str(group["group_id"]): [group["msg_count"], str(group["consumer"]).replace("::", "/")]
        for group in (queue.groups.state() if queue.groups else ())
    }


def normalize(expect: Mapping[str, Any]) -> _Seen:
    """Return a state without entries that are 0, false or empty, but with all of its queues."""
    queues = {
        name: None if queue is None else _without_empty(queue)
        for name, queue in expect.get("queues", {}).items()
    }
    found = {**expect, "queues": queues}
    return _without_empty(
        {key: _without_empty(found[key]) if key in _BY_NAME else found[key] for key in found}
    )


def _without_empty(values: Mapping[str, Any]) -> _Seen:
    return {key: value for key, value in values.items() if value}


def _browse_everything(player: Player) -> dict[str, list[str]]:
    """Return the labels of the messages that a newly attached browser sees on each existing queue."""
    final: dict[str, list[str]] = {}
    for name in player.declared:
        # A queue with an empty name can be declared, but not subscribed to (CF-06).
        if name and name in player.broker.queues.queues:
            session = player.broker.session(f"final browser of {name}")
            labels: list[str] = []
            session.consuming.on_delivery = lambda record, labels=labels: labels.append(
                record.label + ("*" if record.redelivered else "")
            )
            session.message_subscribe(name, "browser", acquire_mode=NOT_ACQUIRED)
            session.message_set_flow_mode("browser", CREDIT_MODE)
            for unit in (BYTE_UNIT, MESSAGE_UNIT):
                session.message_flow("browser", unit, INFINITE)
            session.close()
            final[name] = pack(labels)
    return final


# Verdicts


@dataclass(frozen=True, slots=True)
class _Disagreement:
    """A difference between expectation and observation, at a path such as ``queues.q.depth``."""

    path: str
    expected: Any
    got: Any


@dataclass(frozen=True, slots=True)
class ScenarioVerdict:
    """The result of playing one scenario: whether the engine agrees with the recording, or where it differs.

    Attributes:
        id, area: The scenario's identifier and area.
        agrees: Whether the state was as recorded after every step and at the end.
        steps: The number of steps that agreed before the first that did not.
        step: The first step that did not agree, as JSON; "final" if only the final state differs; "" if all
            agree.
        not_built: A description of the part that the player does not support, or "" if it supports all.
        differences: The differences after that step.
    """

    id: str
    area: str
    agrees: bool
    steps: int
    step: str = ""
    not_built: str = ""
    differences: tuple[_Disagreement, ...] = ()

    def text(self) -> str:
        """Return the verdict as text, with expected and observed values side by side."""
        if self.agrees:
            return f"{self.id}: agrees in {self.steps} steps"
        if self.not_built:
            return f"{self.id}: not agreeing at step {self.steps + 1}, not built: {self.not_built}"
        lines = [f"{self.id}: differs at step {self.steps + 1}: {self.step}"]
        width = max((len(difference.path) for difference in self.differences), default=0)
        for difference in self.differences:
            expected, got = json.dumps(difference.expected), json.dumps(difference.got)
            lines.append(f"    {difference.path:<{width}}  expected {expected}   got {got}")
        return "\n".join(lines)

    def asdict(self) -> dict[str, Any]:
        """Return the verdict as a dictionary of plain values."""
        return asdict(self)


def check(scenario: Scenario) -> ScenarioVerdict:
    """Play a scenario, compare the state after every step, and stop at the first difference."""
    verdict = partial(ScenarioVerdict, scenario.id, scenario.area)
    if scenario.unknown:
        return verdict(False, 0, not_built=f"{', '.join(map(repr, scenario.unknown))} of a scenario")
    try:
        player = Player(scenario.broker)
    except StartupError as error:
        return verdict(False, 0, not_built=str(error))
    for number, step in enumerate(scenario.steps):
        shown = json.dumps({key: value for key, value in step.items() if key != "expect"})
        try:
            player.play(step)
        except _UnknownStepError as error:
            return verdict(False, number, shown, str(error))
        wanted, seen = normalize(step["expect"]), observe(player)
        for answer in ("sent", "acquired", "result"):
            if answer in step:
                wanted[answer] = step[answer]
                seen[answer] = (
                    player.answer if answer == "result" or player.answer is None else pack(player.answer)
                )
        if differences := tuple(_compare(wanted, seen)):
            return verdict(False, number, shown, "", differences)
    differences = tuple(_compare(scenario.final, _browse_everything(player), "final"))
    agrees = not differences
    return verdict(agrees, len(scenario.steps), "" if agrees else "final", "", differences)


def _compare(wanted: Any, seen: Any, path: str = "") -> Iterator[_Disagreement]:
    """Yield the differences between two values; mappings are compared key by key, recursively."""
    if isinstance(wanted, Mapping) and isinstance(seen, Mapping):
        for key in sorted({*wanted, *seen}):
            yield from _compare(wanted.get(key), seen.get(key), f"{path}.{key}" if path else str(key))
    elif wanted != seen:
        yield _Disagreement(path, wanted, seen)


def _check_startup(entry: Mapping[str, Any]) -> ScenarioVerdict:
    """Start a broker with recorded options, and compare its success and its error messages."""
    options = [str(option) for option in entry["options"]]
    wanted = {"starts": entry.get("starts"), "stderr": entry.get("stderr")}
    differences = tuple(_compare(wanted, start(options)))
    name = f"qpidd {' '.join(options)}".strip()
    shown = "" if not differences else name
    return ScenarioVerdict(name, "startup", not differences, int(not differences), shown, "", differences)


def check_file(path: str | Path) -> Iterator[ScenarioVerdict]:
    """Play each scenario of a ``.jsonl`` file, or each start of a ``.json`` file, and yield the verdicts.

    Raises:
        ScenarioError: If the file or a line of it cannot be read.

    >>> from qflow.kit import kit_path
    >>> verdicts = check_file(kit_path("data") / "recordings" / "scenarios" / "random-ring.jsonl")
    >>> [verdict.agrees for verdict in verdicts].count(True)
    31
    """
    if str(path).endswith(".json"):
        for entry in load_startups(path):
            yield _check_startup(entry)
        return
    for scenario in load_scenarios(path):
        yield check(scenario)
