"""The engine's commands for the fuzzer: how they are drawn, and what has to hold after each.

What a command is drawn with is legal (what clients say), odd (legal, and yet hardly said: names of 255 bytes,
numbers of 64 bits) or illegal (what Python lets a caller write, and AMQP has no place for).  Beside the books
of :class:`ledger.Ledger`:

* an illegal command raises TypeError or ValueError, changes nothing and shows nothing;
* a command that the broker refuses ends its session and nothing else: as if the session had been closed;
* no other exception comes out, and neither of these two out of a command that is legal;
* a broker restored from a snapshot continues like the one it was taken of, event by event;
* the same commands give a new broker the same state, whether anything observes it or not.
"""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

import numpy as np
from ledger import GROUP, KINDS, Ledger, holds, levels_of, same, through_json, visible

from qflow.broker import INFINITE, Broker, BrokerOptions, Event, Message, Session
from qflow.broker.errors import AmqpException, ManagementError
from qflow.broker.management import INVALID_PARAMETER, UNKNOWN_OBJECT
from qflow.broker.options import FLOW_CONTROLS

CHECKED = 3
"""After how many commands the books are compared with the broker, which takes as long as they do."""

DEEP = 500
"""A queue with more messages is purged, so that a life does not fill the memory."""

MANAGEMENT, CLOCK = "management", "clock"
"""Who gives a command, if no session does."""


@dataclass(frozen=True)
class Command:
    """What is done: a method, by whom, with which arguments; whether one of them is illegal.

    What a watched command leaves as it was, if it is refused, is looked at closely; before one that forks, a
    second broker is restored from a snapshot.  Both take long, so that few commands do.
    """

    method: str
    who: str
    arguments: dict[str, Any]
    is_illegal: bool = False
    is_watched: bool = False
    forks: bool = False
    parts: tuple[Command, ...] = ()

    def __str__(self) -> str:
        if self.parts:
            return f"{self.who}, in one write: {'; '.join(map(str, self.parts))}"
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.who}.{self.method}({given})" + ("  # illegal" if self.is_illegal else "")


# What is drawn

SESSIONS = {"p": "", "r": "", "t": "", "c": "line", "d": "line"}
"""The sessions and their connections; two share one."""

QUEUES = ("a", "b", "e", "ä")
EXCHANGES = ("amq.fanout", "amq.direct", "amq.topic", "amq.match", "x", "y", "")
TAGS = ("s", "u", "")
KEYS = ("a", "b", "k", "k.#", "*.l", "")

SELECTORS = (
    "g = 'A'", "g IN ('A', 'B') OR amqp.priority > 3", "NOT g LIKE 'A%'", "n / 0 = 1", "n * n > 9.5",
    "amqp.redelivered", "n BETWEEN 1 AND g", "", "g =", "(", "amqp.message_id = 'x'",
    "n = 99999999999999999999",
)  # fmt: skip

ODD_TEXTS = (
    "", "nowhere", "amq.nothing", "qpid.x", "n" * 255, "é" * 127, "#", "*", "a/b/c", "amq.direct/a/k", "\0",
    "'",    "null", "0", "-1", "9" * 255, " ",
)  # fmt: skip
ILLEGAL_TEXTS: tuple[Any, ...] = (
    5, b"a", 2.5, ["a"], ("a",), {}, "n" * 256, "é" * 128, "\ud800", object, True,
)  # fmt: skip

WHOLE = (0, 1, 2, 3, 150, INFINITE)
ODD_NUMBERS = (-1, 4, 2**31, INFINITE + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 10**400)
ILLEGAL_NUMBERS: tuple[Any, ...] = (None, "1", 2.0, math.nan, math.inf, b"1", [1], object(), 1j)
ILLEGAL_FLAGS: tuple[Any, ...] = (None, "yes", 1, 0.0, [], object())
ILLEGAL_MAPS: tuple[Any, ...] = (
    5, "a", [("a", 1)], {5: 1}, {"a": object()}, {"a": {1}}, {"a": [1j]}, {"\ud800": 1}, {"k" * 256: 1},
    {"a": "\udfff"},
)  # fmt: skip

HEADERS: tuple[Any, ...] = (
    None, {}, {GROUP: "A"}, {GROUP: "B"}, {GROUP: "C", "n": 3}, {"n": 7}, {"n": 2.5, "b": True},
    {GROUP: 5}, {GROUP: b"A"}, {GROUP: ""}, {GROUP: None}, {GROUP: -(2**63)}, {"n": 2**64 - 1},
    {"n": math.nan}, {"n": -math.inf}, {"x-match": "all"}, {"x-qpid.trace": "here, there"},
    {"qpid.subject": "s"},
    {"l": [1, [None, {"m": UUID(int=1)}]]},
)  # fmt: skip

MORE_ARGUMENTS: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {}, {"qpid.trace.id": "here"}, {"qpid.trace.exclude": "here, there"},
    {"qpid.queue_msg_sequence": "n"}, {"no-local": 1}, {"qpid.filter": "g = 'A'"}, {"qpid.filter": "("},
    {"qpid.alert_count": 2}, {"qpid.alert_size": 300}, {"qpid.fairshare-1": 1}, {"qpid.max_count": "4"},
    {"qpid.max_size": 10**400}, {"qpid.max_count": 2.5}, {"qpid.max_count": math.nan}, {"qpid.max_count": -1},
    {"qpid.flow_stop_count": 2**32}, {"qpid.priorities": 2**31}, {"qpid.priorities": 0},
    {"qpid.paging": True},
    {"qpid.auto_delete_timeout": 2**64 - 1}, {"qpid.policy_type": "nonsense"}, {"qpid.policy_type": 3},
    {"qpid.last_value_queue_key": ""}, {"unknown": [1, {"a": b"b"}]},
    {"qpid.lifetime-policy": "delete-on-close"},
    {"qpid.group_header_key": "g"}, {"qpid.shared_msg_group": 1}, {"qpid.alert_repeat_gap": -(2**63)},
)  # fmt: skip

BINDING_ARGUMENTS: tuple[dict[str, Any] | None, ...] = (
    None, None, {}, {"x-match": "all", GROUP: "A"}, {"x-match": "any", GROUP: "A", "n": 3},
    {"x-match": "all"},
    {"x-match": "some"}, {"x-scope": "session"}, {"qpid.fed.op": "U"}, {"qpid.fed.op": "B"},
    {"qpid.fed.op": "R"}, {"qpid.fed.op": ""}, {"qpid.exclusive-binding": 1}, {"x-match": 5},
    {"qpid.fed.op": 5}, {"x-match": "any", "n": 10**400},
)  # fmt: skip

FILTERS: tuple[Any, ...] = (
    None, {}, {"filter_type": "header_match_str",
     "filter_params": {"header_key": GROUP, "header_value": "A"}},
    {"filter_type": "nonsense"}, {"filter_type": "header_match_str", "filter_params": {}}, {"filter_type": 5},
    {"filter_type": "header_match_str", "filter_params": {"header_key": 5, "header_value": [1]}},
)  # fmt: skip

MOMENTS = (0, 1, 999, 1000, 2000, 1_000_000, 3_000_000, 601_000_000)

METHODS: tuple[tuple[int, str], ...] = (
    (60, "message_transfer"), (8, "message_subscribe"), (6, "message_set_flow_mode"), (14, "message_flow"),
    (12, "fetch"), (2, "message_stop"), (3, "message_flush"), (3, "message_cancel"), (16, "message_accept"),
    (4, "message_release"), (4, "message_reject"), (3, "message_acquire"), (8, "session_completed"),
    (10, "queue_declare"), (2, "queue_delete"), (2, "queue_purge"), (2, "exchange_declare"),
    (1, "exchange_delete"), (8, "exchange_bind"), (2, "exchange_unbind"), (1, "queue_query"),
    (1, "exchange_query"), (1, "exchange_bound"), (4, "execution_sync"), (1, "session_flush"),
    (2, "tx_select"),
    (4, "tx_commit"), (2, "tx_rollback"), (1, "dtx_select"), (2, "close"),
)  # fmt: skip
"""The methods of a session, and how often each is drawn beside the others."""

MANAGED = (
    "create", "delete", "query", "purge", "reroute", "queueMoveMessages", "queueRedirect", "echo",
)  # fmt: skip


NUMPY: tuple[Any, ...] = (
    np.int64(1), np.float64("nan"), np.bool_(True), np.array([1, 2]), np.str_("a"),
)  # fmt: skip
"""Values of NumPy, which look like plain ones."""


class Drawing:
    """Draws commands, one after the other, that fit the state of a broker."""

    def __init__(self, chance: random.Random, broker: Broker) -> None:
        self.chance = chance
        self.broker = broker
        self.labels = 0
        self.is_illegal = False
        self._methods = [name for weight, name in METHODS for _ in range(weight)]
        self._opening = list(self._begin())

    def _begin(self) -> Iterator[Command]:
        """Make queues that are bound and read, so that something happens from the start."""
        for queue in QUEUES:
            alternate = self.chance.choice(("", "", "amq.fanout"))
            made = {"queue": queue, "arguments": self._declare_arguments(), "alternate_exchange": alternate}
            yield Command("queue_declare", "p", made)
            yield Command("exchange_bind", "p", {"queue": queue, "exchange": "amq.fanout"})
        for who, queue in (("c", "a"), ("d", "a"), ("d", "b")):
            for method, given in (
                ("message_subscribe", {"queue": queue, "tag": queue}),
                ("message_set_flow_mode", {"tag": queue, "flow_mode": self.chance.choice((0, 1))}),
                ("message_flow", {"tag": queue, "unit": 1, "value": INFINITE}),
                ("message_flow", {"tag": queue, "unit": 0, "value": self.chance.choice((1, 3, INFINITE))}),
            ):
                yield Command(method, who, given)

    def draw(self) -> Command:
        """Return the next command."""
        if self._opening:
            return self._opening.pop(0)
        chance = self.chance.random()
        deep = [name for name, queue in self.broker.queues.queues.items() if queue.depth.count > DEEP]
        if deep and chance < 0.5:
            # Rings whose alternate is bound to them multiply what they evict.
            return Command("purge", MANAGEMENT, {"queue": deep[0]})
        if chance < 0.04:
            return self._of(CLOCK, "advance", {"now": self._moment()})
        if chance < 0.14:
            return self._management()
        who = self.chance.choice(list(SESSIONS))
        if chance < 0.19:
            methods = [self.chance.choice(self._methods) for _ in range(self.chance.randint(2, 4))]
            # A write has at least one command, and what closes the session ends it.
            methods = [method for method in methods if method != "close"] or ["execution_sync"]
            parts = tuple(self._session(who, method) for method in methods)
            return Command("written", who, {}, any(part.is_illegal for part in parts), parts=parts)
        method = self.chance.choice(self._methods)
        session = self.broker.sessions.get(who)
        if method in ("tx_commit", "tx_rollback") and (session is None or session.transaction is None):
            # Only a session with a transaction can end one; the other way is tried now and then.
            method = self.chance.choice(("tx_select", "message_transfer", "message_transfer", method))
        return self._session(who, method)

    def _of(self, who: str, method: str, arguments: dict[str, Any]) -> Command:
        is_illegal, self.is_illegal = self.is_illegal, False
        chance = self.chance.random()
        return Command(
            method, who, arguments, is_illegal, chance < (0.3 if is_illegal else 0.03), chance > 0.98
        )

    def _session(self, who: str, method: str) -> Command:
        return self._of(who, method, self._arguments(getattr(Session, method), who, method))

    def _management(self) -> Command:
        method = self.chance.choice(MANAGED)
        function = getattr(type(self.broker.management), method)
        return self._of(MANAGEMENT, method, self._arguments(function, "", method))

    def _arguments(self, function: Callable[..., Any], who: str, method: str) -> dict[str, Any]:
        """Draw arguments for a method: all that it needs, and some of the others."""
        given = {}
        # Most commands are legal through and through; of the others, each argument may be.
        self._most = self.chance.choice((0.0, 0.0, 0.0, 0.0, 0.08, 0.3))
        for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
            if parameter.default is parameter.empty or self.chance.random() < 0.5:
                given[name] = self._value(name, who, method, parameter.default is None)
        return given

    def _value(self, name: str, who: str, method: str, is_optional: bool) -> Any:
        legal, odd, illegal = self._choices(name, who, method)
        chance = self.chance.random()
        if chance >= self._most:
            return legal()
        if chance >= self._most / 2 and odd:
            return self.chance.choice(odd)
        value = self.chance.choice((*illegal, *NUMPY, *(() if is_optional else (None,))))
        self.is_illegal = True
        return value

    def _choices(
        self, name: str, who: str, method: str
    ) -> tuple[Callable[[], Any], Sequence[Any], Sequence[Any]]:
        """Return what draws a legal value of a parameter, the odd values, and the illegal ones."""
        pick = self.chance.choice
        queues = self._known_queues()
        if method == "queue_declare":
            queues = QUEUES
        session = self.broker.sessions.get(who)
        tags = list(session.consuming.subscriptions) if session is not None else []
        if method == "message_subscribe" or not tags:
            tags = [tag for tag in TAGS if tag not in tags] or list(TAGS)
        exchanges = (
            _sayable(self.broker.exchanges.exchanges)
            if method != "message_transfer"
            else ("", "", "amq.fanout")
        )
        texts = {
            "queue": queues, "exchange": exchanges if self.chance.random() < 0.9 else EXCHANGES,
            "alternate_exchange": ("", "", "", "amq.fanout", "x"), "key": KEYS,
            "tag": tags, "srcQueue": queues, "destQueue": queues, "sourceQueue": queues,
            "targetQueue": ("", *queues),
            "body": ("text",),
        }  # fmt: skip
        if name in texts:
            return partial(pick, texts[name]), ODD_TEXTS, ILLEGAL_TEXTS
        match name:
            case "type" if method.startswith("exchange"):
                kinds = ("fanout", "direct", "topic", "headers")
                return partial(pick, kinds), ODD_TEXTS, ILLEGAL_TEXTS
            case "type":
                return partial(pick, ("queue", "exchange", "topic", "binding")), ODD_TEXTS, ILLEGAL_TEXTS
            case "name":
                return self._managed_name, ODD_TEXTS, ILLEGAL_TEXTS
            case "message":
                return self._message, (), (5, None, "a", {"content_size": 5}, object())
            case "transfers":
                return (
                    partial(self._transfers, who),
                    ([10**9], [-1], [2**64], (), range(3)),
                    (5, ["0"], [None], [1.5]),
                )
            case "arguments":
                return partial(self._map_for, method), (), ILLEGAL_MAPS
            case "properties":
                return self._properties, (), ILLEGAL_MAPS
            case "options":
                return (
                    partial(pick, ({}, {"if_empty": True}, {"if_unused": True}, {"x": 1})),
                    (),
                    ILLEGAL_MAPS,
                )
            case "filter":
                return partial(pick, FILTERS), (), ILLEGAL_MAPS
            case "unit" | "flow_mode" | "accept_mode" | "acquire_mode":
                return partial(pick, (0, 0, 0, 1)), ODD_NUMBERS, ILLEGAL_NUMBERS
            case "value" | "request" | "qty" | "sequence":
                return partial(pick, WHOLE), ODD_NUMBERS, ILLEGAL_NUMBERS
        return partial(pick, (False, False, False, False, True)), (), ILLEGAL_FLAGS

    def _known_queues(self) -> Sequence[str]:
        return _sayable(self.broker.queues.queues) or QUEUES

    def _managed_name(self) -> str:
        return self.chance.choice((*QUEUES, *EXCHANGES, f"amq.direct/{self.chance.choice(QUEUES)}/k"))

    def _transfers(self, who: str) -> list[int]:
        session = self.broker.sessions.get(who)
        known = list(session.consuming.records) if session is not None else []
        return [self.chance.choice(known) for _ in range(self.chance.randint(1, 4))] if known else [0]

    def _map_for(self, method: str) -> dict[str, Any] | None:
        if method == "queue_declare":
            return self._declare_arguments()
        if method == "message_subscribe":
            return self.chance.choice((None, None, {}, {"x-apache-selector": self.chance.choice(SELECTORS)}))
        if method == "exchange_declare":
            return self.chance.choice((None, {}, {"qpid.msg_sequence": 1}, {"qpid.ive": 1}))
        return self.chance.choice(BINDING_ARGUMENTS)

    def _declare_arguments(self) -> dict[str, Any]:
        return {**KINDS[self.chance.choice(list(KINDS))][0], **self.chance.choice(MORE_ARGUMENTS)}

    def _properties(self) -> dict[str, Any]:
        more: Sequence[dict[str, Any]] = (
                {}, {"durable": True}, {"auto-delete": True}, {"alternate-exchange": "amq.fanout"},
                {"exchange-type": "fanout"}, {"exchange-type": "x"}, {"durable": "maybe"})  # fmt: skip
        return {**self._declare_arguments(), **self.chance.choice(more)}

    def _moment(self) -> Any:
        moment = self.broker.now + self.chance.choice(MOMENTS)
        if self.chance.random() < 0.9:
            return moment if moment < 1 << 62 else self.broker.now
        self.is_illegal = True
        return self.chance.choice((-1, self.broker.now - 1, 1 << 63, float(moment), *ILLEGAL_NUMBERS, *NUMPY))

    def _message(self) -> dict[str, Any]:
        """Return what a message is made with; making it is a part of the command."""
        self.labels += 1
        pick = self.chance.choice
        made: dict[str, Any] = {"label": f"m{self.labels}", "content_size": pick((0, 10, 50, 100, 200))}
        legal: dict[str, Sequence[Any]] = {
            "headers": HEADERS, "priority": (None, 0, 4, 9, 255),
            "ttl": (0, 0, 0, 0, 1, 1000), "durable": (False, True), "timestamp": (None, 0, 10**9),
            "message_id": (None, UUID(int=1)), "correlation_id": (None, "", "c"),
            "content_type": (None, "text/plain"),
            "user_id": (None, "u"), "app_id": (None, "a"),
            "content": (None, b"bytes", "text", ["a", {"b": 1}]),
        }  # fmt: skip
        made["routing_key"] = pick(self._known_queues())
        if self.chance.random() < 0.15:
            made["routing_key"] = pick((*QUEUES, *KEYS, None))
        for name, values in legal.items():
            if self.chance.random() < 0.3:
                made[name] = pick(values)
        if self.chance.random() < self._most:
            name = pick(list(made))
            if name != "label":
                made[name] = pick((*ILLEGAL_NUMBERS[1:], *ILLEGAL_TEXTS, *ILLEGAL_MAPS, -1, 2**64, *NUMPY))
                self.is_illegal = True
        return made


def _sayable(names: Iterable[str]) -> list[str]:
    """Leave out names that no command can carry: management can make something with such a name."""
    return [name for name in names if len(name.encode()) <= 255]


# What has to hold


class EngineLife:
    """The engine's commands, with what has to hold after each."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        flow_control = self.chance.choice(("shipped",) * 8 + FLOW_CONTROLS)
        self.options = BrokerOptions(
            default_queue_limit=0,
            flow_control=flow_control,
            completions=self.chance.choice(("any-order",) * 5 + ("in-order",)),
            message_size=self.chance.choice(("encoded", "encoded", "content")),
            wake_up=self.chance.choice(("faithful", "faithful", "eager")),
            limit_policies=self.chance.choice(("current", "historic")),
            enable_timestamp=self.chance.random() < 0.2,
            queue_purge_interval=self.chance.choice((600, 1, 0)),
            max_purge_batch=self.chance.choice((1000, 1, 0)),
        )
        self.broker = Broker(self.options)
        is_shipped = self.options.flow_control == "shipped" and self.options.completions == "any-order"
        self.ledger = Ledger(partial(levels_of, self.broker), follows_flow=is_shipped)
        self.drawing = Drawing(self.chance, self.broker)
        self.done: list[Command] = []
        self.twin: Broker | None = None
        self.twin_until = 0
        self.seen = 0
        self.broker.observe(self._take)

    def _take(self, event: Event) -> None:
        self.seen += 1
        self.ledger.take(event)

    def draw(self) -> Command:
        """Return the next command; the first ones make queues."""
        return self.drawing.draw()

    def do(self, command: Command) -> None:
        """Carry a command out, on the twin as well if there is one, and look at what it did."""
        self.done.append(command)
        number = len(self.done)
        if command.who in SESSIONS:
            # What attaching does is not the command's doing.
            attached(self.broker, command.who)
            if self.twin is not None:
                attached(self.twin, command.who)
        if self.twin is None and command.forks:
            self._fork(until=number + 8)
        if self.twin is None:
            self._act(command)
        else:
            self._act_twice(command)
            if number >= self.twin_until:
                found, booked = self.twin.state_hash(), self.broker.state_hash()
                same("a restored broker comes to the same state", found, booked)
                self.twin = None
        if number % CHECKED == 0:
            self.ledger.check(self.broker)

    def end(self) -> None:
        """Check that the same commands, without an observer, give a new broker the same state."""
        self.ledger.check(self.broker)
        again = Broker(self.options)
        for command in self.done:
            perform(again, command)
        same("the same commands, unobserved", again.state_hash(), self.broker.state_hash())

    def _fork(self, until: int) -> None:
        self.twin, self.twin_until = through_json(self.broker), until
        same("a snapshot holds the state", self.twin.state_hash(), self.broker.state_hash())
        same("a snapshot holds what can be seen", visible(self.twin), visible(self.broker))

    def _act_twice(self, command: Command) -> None:
        assert self.twin is not None
        told: list[list[str]] = [[], []]

        def take(event: Event) -> None:
            told[0].append(repr(event))
            self._take(event)

        self.broker.observe(take)
        self.twin.observe(lambda event: told[1].append(repr(event)))
        outcome = self._act(command)
        same("a restored broker answers alike", perform(self.twin, command), outcome)
        self.broker.observe(self._take)
        same("a restored broker does the same", told[1], told[0])

    def _act(self, command: Command) -> str:
        """Carry a command out on the broker itself; return its outcome in words."""
        before = self.broker.state_hash() if command.is_illegal and command.is_watched else ""
        twin = self._rival(command)
        seen = self.seen
        outcome = perform(self.broker, command, self._booked, self.ledger.end_command)
        kind = outcome.partition(":")[0]
        if kind in ("TypeError", "ValueError"):
            holds(command.is_illegal, f"a legal command raises {outcome}")
            if not command.parts:
                same("an illegal command shows nothing", self.seen, seen)
            if before:
                same("an illegal command changes nothing", self.broker.state_hash(), before)
        elif twin is not None and kind in _LIKE_CLOSING:
            self._compare_with_closing(twin, command.who)
        elif twin is not None and kind in (str(UNKNOWN_OBJECT), str(INVALID_PARAMETER)):
            same("a refused method changes nothing", self.broker.state_hash(), twin.state_hash())
        return outcome

    def _rival(self, command: Command) -> Broker | None:
        """Return a copy of the broker, if the command is watched, to see what a refusal leaves as it was."""
        is_wanted = command.is_watched and not command.is_illegal and command.who != CLOCK
        return through_json(self.broker) if is_wanted else None

    def _compare_with_closing(self, twin: Broker, who: str) -> None:
        """LP-06, CN-17: a refusal is, for all others, as if the session had been closed."""
        holds(not self.broker.sessions[who].is_attached, "LP-06: a refusal ends the session")
        attached(twin, who).close()
        same("LP-06: as if closed", visible(self.broker, without=who), visible(twin, without=who))

    def _booked(self, command: Command, outcome: str) -> None:
        """Note a sync or a commit that is parked behind earlier commands (CM-06, CM-07); ask for a fate."""
        if command.method == "message_transfer" and not outcome and self.ledger.follows_flow:
            label = command.arguments["message"]["label"]
            is_known = label in self.ledger.fates or self.ledger.sent[label].in_transaction
            holds(is_known, f"{label} is neither on a queue nor dropped, unroutable or refused")
        if command.method in ("execution_sync", "tx_commit") and not outcome:
            number = self.broker.sessions[command.who].completions.next_number - 1
            self.ledger.syncs.setdefault(self.ledger.life(command.who), []).append(number)


_LIKE_CLOSING = {
    "not-found", "resource-locked", "not-allowed", "invalid-argument", "command-invalid", "illegal-argument",
    "precondition-failed",
}  # fmt: skip
"""The refusals that leave everything but their session as it was."""


def attached(broker: Broker, name: str) -> Session:
    """Return the session of a name; a new one, if the last one is gone."""
    found = broker.sessions.get(name)
    return found if found is not None and found.is_attached else broker.session(name, SESSIONS.get(name, ""))


def perform(
    broker: Broker,
    command: Command,
    booked: Callable[[Command, str], None] = lambda command, outcome: None,
    ended: Callable[[], None] = lambda: None,
) -> str:
    """Carry out a command; return what it is refused with, or "".

    Any exception that is not documented is passed on.  ``booked`` is called after each command of a session,
    ``ended`` when it is over.
    """
    if command.parts:
        return _write(broker, command, booked, ended)
    outcome = ""
    session = attached(broker, command.who) if command.who in SESSIONS else None
    try:
        arguments = _made(command)
        if session is not None:
            getattr(session, command.method)(**arguments)
        elif command.who == MANAGEMENT:
            getattr(broker.management, command.method)(**arguments)
        else:
            broker.advance(**arguments)
    except ManagementError as error:
        outcome = f"{error.status}: {error}"
    except AmqpException as error:
        outcome = f"{error.name}: {error.text}"
    except (TypeError, ValueError) as error:
        outcome = f"{type(error).__name__}: {error}"
    booked(command, outcome)
    ended()
    return outcome


def _made(command: Command) -> dict[str, Any]:
    message = command.arguments.get("message")
    if isinstance(message, dict) and "label" in message:
        return {**command.arguments, "message": Message(**message)}
    return command.arguments


def _write(
    broker: Broker, command: Command, booked: Callable[[Command, str], None], ended: Callable[[], None]
) -> str:
    """Give several commands in one write, up to the first that is refused."""
    session = attached(broker, command.who)
    outcome = ""
    try:
        with session.pipeline():
            for part in command.parts:
                if not outcome:
                    outcome = perform(broker, part, booked, ended)
    except AmqpException as error:
        outcome = f"{error.name}: {error.text}"
    ended()
    return outcome
