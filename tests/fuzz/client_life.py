"""Programs on ``qflow.messaging`` for the fuzzer: how they are drawn, and what has to hold after each call.

Connections, sessions, senders and receivers are named by numbers, which wrap around, so that a program of
which calls are left out is still one.  Beside the books of :class:`ledger.Ledger`:

* what a call raises is a ``MessagingError`` or a ``Timeout``; Python's own errors only if its arguments are
  illegal;
* no more transfers of a sender are outstanding than its capacity, unless that was made smaller meanwhile;
* a message that is fetched was sent, with that content.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from engine_life import NUMPY
from ledger import GROUP, Ledger, holds, levels_of

from qflow.broker import Broker, BrokerOptions
from qflow.messaging import (
    REJECTED,
    RELEASED,
    UNLIMITED,
    Connection,
    Disposition,
    Message,
    MessagingError,
    Receiver,
    Sender,
    Session,
    Timeout,
    brokers,
)

DECLARED = {
    "stopped": "'qpid.flow_stop_count': 2, 'qpid.flow_resume_count': 1",
    "small": "'qpid.max_count': 4, 'qpid.flow_stop_count': 0",
    "ring": "'qpid.policy_type': ring, 'qpid.max_count': 3",
    "groups": f"'qpid.group_header_key': {GROUP}, 'qpid.shared_msg_group': 1",
}
"""Queues, and the arguments that they are declared with."""

ADDRESSES = (
    *(
        f"{name}; {{create: always, node: {{x-declare: {{arguments: {{{arguments}}}}}}}}}"
        for name, arguments in DECLARED.items()
    ),
    "stopped", "q; {create: always}", "q", "q; {mode: browse}", "q; {delete: always}", "amq.fanout",
    "amq.topic/a.b", "amq.topic/a.*", "fresh; {create: always, node: {type: topic}, delete: receiver}",
    "q; {link: {reliability: unreliable}}", "#; {create: always}",
)  # fmt: skip

ODD_ADDRESSES = (
    "nowhere", "", "q; {create: sometimes}", "q; {", "q; {nonsense: 1}", "n" * 255, "q; {assert: always}",
    "stopped; {assert: always, node: {type: topic}}", "a/b/c; {create: always}", "'", "q;;", "\0",
)  # fmt: skip

ILLEGAL: tuple[Any, ...] = (
    5, b"q", ["q"], {}, object(), math.nan, "\ud800", "n" * 300, 10**400, -1, 2.5, True,
)  # fmt: skip

CONTENTS: tuple[Any, ...] = (
    "", "text", b"", b"bytes", None, {"a": 1}, [1, "two", None, 2.5], {"m": {"n": [b"x"]}}, "é", {},
)  # fmt: skip
PROPERTIES: tuple[Any, ...] = (
    {}, {GROUP: "A"}, {GROUP: "B", "n": 7}, {"x": None, "y": 2.5, "z": True, "l": [1]}, {"n": 2**63},
)  # fmt: skip
ILLEGAL_PROPERTIES: tuple[Any, ...] = (
    {"a": object()}, {5: 1}, {"a": {1, 2}}, {"a": "\ud800"}, {"k" * 256: 1}, {"a": 2**64}, 5, "a",
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One call: a method, of which object, with which arguments; whether one of them is illegal."""

    method: str
    number: int
    arguments: dict[str, Any]
    is_illegal: bool = False

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.method} {self.number} ({given})" + ("  # illegal" if self.is_illegal else "")


CALLS: tuple[tuple[int, str], ...] = (
    (2, "connect"), (5, "session"), (8, "sender"), (8, "receiver"), (40, "send"), (30, "fetch"),
    (14, "acknowledge"), (3, "commit"), (3, "rollback"), (3, "sync"), (3, "next_receiver"), (3, "sleep"),
    (3, "sender_capacity"), (4, "receiver_capacity"),
    (2, "close_sender"), (3, "close_receiver"), (2, "close_session"), (1, "close_connection"), (1, "reopen"),
)  # fmt: skip
"""The calls, and how often each is drawn beside the others."""


class ClientLife:
    """One program, and the broker it talks to."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        # Each life takes the place of the last one, which is over.
        self.url = "fuzz"
        self.broker: Broker = brokers.install(self.url, BrokerOptions(default_queue_limit=0))
        self.ledger = Ledger(partial(levels_of, self.broker))
        # Commands are not seen one by one here, so nothing is said of what is parked behind one.
        self.ledger.check_completions = lambda broker: None  # type: ignore[method-assign]
        self.broker.observe(self.ledger.take)
        self.connections: list[Connection] = []
        self.sessions: list[Session] = []
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []
        self.capacities: dict[int, int | None] = {}
        self.fetched: list[tuple[Session, Message]] = []
        self.sent: list[Any] = []
        self._calls = [name for weight, name in CALLS for _ in range(weight)]

    # Drawing

    def draw(self) -> Call:
        """Return the next call."""
        if not self.connections:
            return Call("connect", 0, {})
        if not self.sessions:
            return Call("session", 0, {"transactional": False})
        method = self.chance.choice(self._calls)
        legal, risky = self._legal(method), self._risky(method)
        if risky and self.chance.random() < 0.06:
            name = self.chance.choice(list(risky))
            value = self.chance.choice((*risky[name], *NUMPY))
            return Call(method, self.chance.randrange(8), {**legal, name: value}, is_illegal=True)
        return Call(method, self.chance.randrange(8), legal)

    def _legal(self, method: str) -> dict[str, Any]:
        pick = self.chance.choice
        address = pick(ODD_ADDRESSES if self.chance.random() < 0.1 else ADDRESSES)
        match method:
            case "session":
                return {"transactional": pick((False, False, True))}
            case "sender":
                return {"target": address, "capacity": pick((None, 1, 2, 5, UNLIMITED))}
            case "receiver":
                return {"source": address, "capacity": pick((None, 0, 1, 5, UNLIMITED))}
            case "send":
                return {
                    "content": pick(CONTENTS), "properties": pick(PROPERTIES),
                    "ttl": pick((None, None, 0.001, 5)),
                    "priority": pick((None, 0, 9)), "durable": pick((None, True)),
                    "subject": pick((None, "a.b", "s")),
                    "sync": pick((None, False, False, True)), "timeout": pick((0, 0, 1)),
                }  # fmt: skip
            case "fetch" | "next_receiver":
                return {"timeout": pick((0, 0, 0.5))}
            case "acknowledge":
                what = pick((None, None, REJECTED, RELEASED))
                return {"disposition": what, "every": pick((False, True)), "sync": pick((False, True))}
            case "sleep":
                return {"seconds": pick((0, 0.001, 1, 700))}
            case "sender_capacity" | "receiver_capacity":
                return {"capacity": pick((0, 1, 3, UNLIMITED))}
            case "sync" | "commit" | "rollback":
                return {"timeout": pick((0, 1))}
        return {}

    def _risky(self, method: str) -> dict[str, tuple[Any, ...]]:
        """Return illegal values by argument."""
        risky: dict[str, dict[str, tuple[Any, ...]]] = {
            "sender": {"target": ILLEGAL}, "receiver": {"source": ILLEGAL},
            "send": {"properties": ILLEGAL_PROPERTIES, "content": ({1, 2}, object(), {"a": object()}, {5: 1}),
                     "ttl": ILLEGAL, "priority": ILLEGAL, "subject": ILLEGAL},
        }  # fmt: skip
        return risky.get(method, {})

    # Doing

    def do(self, command: Call) -> None:
        """Make a call, and look at what it did."""
        try:
            self._call(command.method, command.number, command.arguments)
        except (MessagingError, Timeout):
            pass
        except (TypeError, ValueError, AttributeError) as error:
            holds(command.is_illegal, f"a legal call raises {type(error).__name__}: {error}")
        self.ledger.end_command()
        self.ledger.check(self.broker)
        for sender in self.senders:
            most = self.capacities.get(id(sender))
            if most is not None:
                holds(
                    sender.unsettled() <= most, f"CAP-01: {sender.unsettled()} outstanding, capacity {most}"
                )

    def end(self) -> None:
        """Close everything; what is left is on the queues."""
        for connection in self.connections:
            try:
                connection.close(timeout=0)
            except (MessagingError, Timeout):
                continue
        self.ledger.end_command()
        self.ledger.check(self.broker)

    def _call(self, method: str, number: int, arguments: dict[str, Any]) -> None:
        kind = method.removeprefix("close_")
        if kind != method:
            self._close(getattr(self, f"{kind}s"), number)
        elif method in ("commit", "rollback", "sync", "next_receiver"):
            self._of(self.sessions, number, lambda session: getattr(session, method)(**arguments))
        else:
            getattr(self, f"_{method}")(number, **arguments)

    def _connect(self, number: int) -> None:
        if len(self.connections) < 3:
            self.connections.append(Connection.establish(self.url))

    def _reopen(self, number: int) -> None:
        connection = self.connections[number % len(self.connections)]
        connection.open()

    def _session(self, number: int, transactional: bool) -> None:
        if len(self.sessions) < 8 and self.connections:
            connection = self.connections[number % len(self.connections)]
            self.sessions.append(connection.session(transactional=transactional))

    def _sender(self, number: int, target: Any, capacity: Any) -> None:
        if self.sessions and len(self.senders) < 12:
            session = self.sessions[number % len(self.sessions)]
            made = session.sender(target, **({} if capacity is None else {"capacity": capacity}))
            self.senders.append(made)
            self.capacities[id(made)] = capacity if isinstance(capacity, int) else None

    def _receiver(self, number: int, source: Any, capacity: Any) -> None:
        if self.sessions and len(self.receivers) < 12:
            session = self.sessions[number % len(self.sessions)]
            options = {} if capacity is None else {"capacity": capacity}
            self.receivers.append(session.receiver(source, **options))

    def _send(self, number: int, sync: Any, timeout: Any, properties: Any, **message: Any) -> None:
        if self.senders:
            sender = self.senders[number % len(self.senders)]
            made = Message(properties=properties, **message)
            # It may arrive even if the call is refused, as on a fanout of which one queue is full.
            self.sent.append(made.content)
            sender.send(made, sync=sync, timeout=timeout)

    def _fetch(self, number: int, timeout: Any) -> None:
        if self.receivers:
            receiver = self.receivers[number % len(self.receivers)]
            message = receiver.fetch(timeout=timeout)
            self.fetched.append((receiver.session, message))
            holds(message.content in self.sent, f"{message.content!r} is fetched, and was never sent")

    def _acknowledge(self, number: int, disposition: Any, every: bool, sync: bool) -> None:
        if not self.fetched:
            return
        session, message = self.fetched.pop(number % len(self.fetched))
        given = None if disposition is None else Disposition(disposition)
        if every or message in session.unacked:
            session.acknowledge(None if every else message, given, sync=sync)

    def _sleep(self, number: int, seconds: Any) -> None:
        brokers.sleep(seconds, self.url)

    def _sender_capacity(self, number: int, capacity: Any) -> None:
        def change(sender: Sender) -> None:
            self.capacities.pop(id(sender), None)
            sender.capacity = capacity

        self._of(self.senders, number, change)

    def _receiver_capacity(self, number: int, capacity: Any) -> None:
        self._of(self.receivers, number, lambda receiver: setattr(receiver, "capacity", capacity))

    def _close(self, found: list[Any], number: int) -> None:
        """Close one of some objects; most are used no more afterwards, others go on being called."""

        def close(chosen: Any) -> None:
            if number % 4 != 0:
                found.remove(chosen)
            chosen.close(timeout=0)

        self._of(found, number, close)

    def _of(self, found: list[Any], number: int, act: Callable[[Any], object]) -> None:
        """Do something with one of some objects, if there is one."""
        if found:
            act(found[number % len(found)])
