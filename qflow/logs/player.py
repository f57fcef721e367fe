"""LogPlayer: recorded clients led through the engine by their log, one row at a time.

A client's log says what the client did; what the broker did in between is not in it.  The player sends
each transfer, accept, release and reject to the engine at its recorded time, and the engine works out the
rest: whose transfer was held and let go, when a queue turned ON and OFF, which message was where.  What the
log says of completions, deliveries and statistics is not sent to the engine, so that it can be compared with
it.

A client's clock is not the broker's.  The engine may therefore deliver a message to another consumer than the
real broker did, or later, or never.  Two rules keep the two together:

- A message is settled where the engine delivered it, as soon as it has.
- When a consumer settles a message that the engine has not delivered, its oldest delivery which the log has
  not shown leaves its window: the real consumer had another message in that place.

A client whose log says that its session ended, and that goes on, has begun a new one: so does the player, at
the first transfer or delivery after that.

The player never looks ahead: a stream has no "ahead", and a batch, a checkpoint and a whole file must give
what the stream gives.  Between two rows its state is a plain value that JSON can hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from qflow.broker import errors
from qflow.broker.broker import Broker
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import AmqpException, SessionException
from qflow.broker.events import Event
from qflow.broker.session import Session
from qflow.broker.snapshot import only_counts
from qflow.workload.agenda import SECOND
from qflow.workload.clients import subscribe
from qflow.workload.model import Senders, Workload
from qflow.workload.stage import Stage, make_message

Key = tuple[str, str]
"""A message on a queue: the queue, the label."""

_MOST_EARLY = 10_000
"""So many messages at most are remembered of which the log knows more than the engine."""


class LogPlayer:
    """Sends what recorded clients did to an engine, each command at its recorded time."""

    __slots__ = (
        "workload", "broker", "errors", "_stage", "_observer", "_addresses", "_senders", "_sessions",
        "_consumers", "_joins", "_holders", "_owned", "_early", "_shown", "_arrived", "_ended",
    )  # fmt: skip

    def __init__(
        self, workload: Workload, observer: Callable[[Event], None], state: dict[str, Any] | None = None
    ) -> None:
        self.workload, self._observer = workload, observer
        self._addresses = {producer.name: producer.to for producer in workload.producers}
        self._senders = Senders(workload.producers)
        names = {producer.name: producer.session or producer.name for producer in workload.producers}
        self._consumers = {model.name: model for model in workload.consumers}
        self.errors: dict[str, AmqpException] = {}
        self._joins = sorted((round(m.start * SECOND), n) for n, m in enumerate(workload.consumers))
        # Of a message on a queue: who has it under which number, and whether the log has shown it delivered.
        self._holders: dict[Key, list[Any]] = {}
        # Of a consumer: the deliveries that are in its window, oldest first.
        self._owned: dict[str, dict[int, Key]] = {name: {} for name in self._consumers}
        self._early: dict[Key, str] = {}
        self._shown: dict[Key, None] = {}
        self._arrived: list[tuple[Key, str]] = []
        # Clients that know that their session has ended.
        self._ended: dict[str, None] = {}
        self._stage = Stage(workload, 0)
        if state is None:
            self.broker = self._stage.broker
            for event in self._stage.events:
                observer(event)
            self.broker.observe(observer)
            made = {session: self.broker.session(session) for session in dict.fromkeys(names.values())}
            self._sessions = {name: made[session] for name, session in names.items()}
        else:
            self._continue(state)
            self._sessions = {name: self.broker.sessions[session] for name, session in names.items()}
            self.broker.observe(observer)

    # Rows

    def transfer(self, time: int, client: str, queue: str, label: str, size: int, group: str) -> None:
        """Send a message."""
        self.pass_time(time)
        session = self._sessions[client]
        if client in self._ended:
            session = self._begin_again(session.name)
        if not session.is_attached:
            self._differs(client, queue, label, "transfer", "its session is dead")
            return
        exchange, key = self._addresses[client]
        try:
            session.message_transfer(make_message(key, label, size, group), exchange, sync=True)
        except SessionException as error:
            self._note_death(session, error)
        if self._arrived:
            self._settle_arrived()

    def deliver(self, time: int, client: str, queue: str, label: str, _size: int, _group: str) -> None:
        """Note that the real broker delivered this message."""
        self.pass_time(time)
        if client in self._ended and client in self._consumers:
            self._join_again(client)
        key = (queue, label)
        holder = self._holders.get(key)
        if holder is not None:
            holder[2] = True
        else:
            _remember(self._shown, key, None)

    def accept(self, time: int, client: str, queue: str, label: str, _size: int, _group: str) -> None:
        """Accept a message and complete its delivery."""
        self._settle_delivery(time, client, queue, label, "accept")

    def release(self, time: int, client: str, queue: str, label: str, _size: int, _group: str) -> None:
        """Release a message and complete its delivery."""
        self._settle_delivery(time, client, queue, label, "release")

    def reject(self, time: int, client: str, queue: str, label: str, _size: int, _group: str) -> None:
        """Reject a message, which dequeues it (CN-16, FC-20), and complete its delivery."""
        self._settle_delivery(time, client, queue, label, "reject")

    def error(self, time: int, client: str, _queue: str, label: str, _size: int, _group: str) -> None:
        """End the session of a client, if the engine has not ended it already."""
        self.pass_time(time)
        session = self._sessions.get(client) or self.broker.sessions.get(client)
        if session is not None:
            self._note_death(session, session.error or _error_of(label))
            session.close()
            self._ended |= dict.fromkeys(self._senders.on(session.name) or (client,))
            if self._arrived:
                self._settle_arrived()

    def block(self, time: int, client: str, *_: object) -> None:
        """Note that a producer's window is full."""
        self.pass_time(time)
        self._observer(Event(self.broker.now, "client.block", session=client))

    def unblock(self, time: int, client: str, *_: object) -> None:
        """Note that a producer's window has room again."""
        self.pass_time(time)
        self._observer(Event(self.broker.now, "client.unblock", session=client))

    def pass_time(self, until: int) -> None:
        """Do what is due until an instant: consumers subscribe, the broker's timers fire."""
        broker = self.broker
        while self._joins or broker.timers.next_due is not None:
            due = broker.timers.next_due
            join = self._joins[0][0] if self._joins else None
            time = min(instant for instant in (due, join) if instant is not None)
            if time > until:
                break
            broker.advance(max(time, broker.now))
            if join == time:
                self._join(self.workload.consumers[self._joins.pop(0)[1]].name)
            self._settle_arrived()
        if until > broker.now:
            broker.advance(until)

    def finish(self, end: int) -> None:
        """Pass the time until the end of the log, and note which sessions the engine ended."""
        self.pass_time(end)
        for session in self.broker.sessions.values():
            if session.error is not None:
                self._note_death(session, session.error)

    def _note_death(self, session: Session, error: AmqpException) -> None:
        for name in self._senders.on(session.name) or (session.name,):
            self.errors.setdefault(name, error)

    def dissolve(self) -> None:
        """Let engine and clients know each other no more, so that nothing of them stays in memory."""
        self._stage.dissolve()

    def _begin_again(self, name: str) -> Session:
        """Attach a session once more, for all the producers on it."""
        session = self.broker.session(name)
        for producer in self._senders.on(name):
            self._sessions[producer] = session
            self._ended.pop(producer, None)
        return session

    # Consumers

    def _join_again(self, name: str) -> None:
        """Subscribe once more; what was delivered before is no more the consumer's (MG-16)."""
        del self._ended[name]
        self._owned[name].clear()
        for key in [key for key, holder in self._holders.items() if holder[0] == name]:
            del self._holders[key]
        self._join(name)
        self._settle_arrived()

    def _join(self, name: str) -> None:
        try:
            subscribe(self._consumers[name], self._stage, self._hook(name))
        except AmqpException as error:
            self.errors[name] = error

    def _hook(self, name: str) -> Callable[[DeliveryRecord], None]:
        queue = self._consumers[name].queue
        owned = self._owned[name]

        def on_delivery(record: DeliveryRecord) -> None:
            key = (queue, record.label)
            owned[record.id] = key
            verdict = self._early.pop(key, None)
            self._holders[key] = [name, record.id, self._shown.pop(key, False) is None]
            if verdict is not None:
                self._arrived.append((key, verdict))

        return on_delivery

    def _settle_arrived(self) -> None:
        while self._arrived:
            key, verdict = self._arrived.pop(0)
            holder = self._holders.pop(key, None)
            if holder is not None:
                self._settle(holder[0], holder[1], verdict)

    def _settle_delivery(self, time: int, client: str, queue: str, label: str, verdict: str) -> None:
        self.pass_time(time)
        key = (queue, label)
        holder = self._holders.pop(key, None)
        if holder is None:
            _remember(self._early, key, verdict)
            self._differs(client, queue, label, verdict, "not delivered")
            self._drop_surplus(client)
        else:
            name, number, _ = holder
            session = self.broker.sessions.get(name)
            if session is None or not session.is_attached:
                self._differs(client, queue, label, verdict, "its session is dead")
            elif name != client:
                self._differs(client, queue, label, verdict, f"delivered to {name}")
            self._settle(name, number, verdict)
        if self._arrived:
            self._settle_arrived()

    def _settle(self, name: str, number: int, verdict: str) -> None:
        self._owned[name].pop(number, None)
        session = self.broker.sessions.get(name)
        if session is None or not session.is_attached:
            return
        if verdict == "accept":
            session.message_accept((number,))
        elif verdict == "release":
            session.message_release((number,))
        elif verdict == "reject":
            session.message_reject((number,))
        session.session_completed((number,))

    def _drop_surplus(self, name: str) -> None:
        holders = self._holders
        for number, key in self._owned[name].items():
            holder = holders.get(key)
            if holder is not None and not holder[2]:
                self._settle(name, number, "complete")
                return

    def _differs(self, client: str, queue: str, label: str, logged: str, engine: str) -> None:
        detail = {"logged": logged, "engine": engine}
        self._observer(Event(self.broker.now, "client.differs", queue, client, "", label, 0, "", detail))

    # State

    def state(self) -> dict[str, Any]:
        """Return the state as a plain value that JSON can hold; take it between rows."""
        return {
            "broker": self.broker.snapshot(),
            "errors": {name: error_text(error) for name, error in self.errors.items()},
            "joins": len(self._joins),
            "holders": [[*key, *holder] for key, holder in self._holders.items()],
            "owned": {
                name: [[number, *key] for number, key in owned.items()] for name, owned in self._owned.items()
            },
            "early": [[*key, verdict] for key, verdict in self._early.items()],
            "shown": [list(key) for key in self._shown],
            "ended": list(self._ended),
        }

    def rest_key(self) -> str:
        """Return what decides the engine's future, as text; empty if a delivery is under way."""
        if self._holders or self._early or self._shown or any(self._owned.values()):
            return ""
        state = self.state()
        # What only counts what has been is left out; who waits in which order, credit, flow state, groups,
        # alarms, timers, settings, and stores of other kinds are compared as they are.
        parts = [
            [kind, "counts" if only_counts(kind) else fields]
            for kind, fields in state["broker"]["objects"][1:]
        ]
        return json.dumps([parts, state["joins"], state["errors"]], separators=(",", ":"))

    def _continue(self, state: dict[str, Any]) -> None:
        self.broker = self._stage.broker = Broker.restore(state["broker"])
        self.errors = {name: _error_of(text) for name, text in state["errors"].items()}
        self._joins = self._joins[len(self._joins) - state["joins"] :]
        self._holders = {(queue, label): rest for queue, label, *rest in state["holders"]}
        self._early = {(queue, label): verdict for queue, label, verdict in state["early"]}
        self._shown = dict.fromkeys((queue, label) for queue, label in state["shown"])
        self._ended = dict.fromkeys(state["ended"])
        for name, entries in state["owned"].items():
            self._owned[name] = {number: (queue, label) for number, queue, label in entries}
        for name in self._consumers:
            session = self.broker.sessions.get(name)
            if session is not None:
                session.consuming.on_delivery = self._hook(name)


def _remember(memory: dict[Key, Any], key: Key, value: Any) -> None:
    """Keep an entry; where there are too many, the oldest is forgotten, the same in every run."""
    memory[key] = value
    if len(memory) > _MOST_EARLY:
        del memory[next(iter(memory))]


def error_text(error: AmqpException) -> str:
    """Return an exception as a log's ``error`` row has it."""
    return f"{error.code} {error.name}: {error.text}"


def _error_of(text: str) -> AmqpException:
    """Return the exception that the text of an ``error`` row means."""
    title, _, words = text.partition(": ")
    for kind in vars(errors).values():
        is_refusal = isinstance(kind, type) and issubclass(kind, AmqpException)
        if is_refusal and f"{kind.code} {kind.name}" == title:
            refusal: AmqpException = kind(words)
            return refusal
    return AmqpException(text)
