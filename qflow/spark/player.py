"""LogPlayer: a component's recorded clients, led by the hand of their log, one row at a time.

What :func:`qflow.trace.replay` does with a whole log at hand, this does without looking ahead: a stream has
no "ahead", and a batch must give what the stream gives.  Its state is a plain value at every moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qflow.broker.broker import Broker
from qflow.broker.delivery import DeliveryRecord
from qflow.broker.errors import AmqpException, SessionException
from qflow.broker.events import Event
from qflow.broker.session import Session
from qflow.workload.agenda import SECOND
from qflow.workload.consumer import subscribe
from qflow.workload.model import Workload
from qflow.workload.stage import Stage, make_message

Key = tuple[str, str]
"""A message on a queue: the queue, the label."""

MOST_EARLY = 10_000
"""So many messages at most are remembered that a client had and the engine has not delivered."""


class LogPlayer:
    """Feeds one component's transfers, accepts and releases to the engine, each at its recorded time.

    A client's clock is not the broker's, so that the engine may deliver a message to another consumer than
    the real broker did, or later, or never.  A message is settled where the engine delivered it, as soon as
    it has.  When a consumer settles one that the engine has not delivered, the oldest delivery that it has in
    the engine, and that the log has not shown anywhere, leaves its window.

    Parameters
    ----------
    workload : Workload
        The component's queues, bindings and clients.
    observer : callable
        Told every event of the engine.
    differs : callable
        Told the queue and what the engine has otherwise, for each settlement that does not fit.

    Raises
    ------
    AmqpException
        The broker's own refusal of a queue.

    Examples
    --------
    >>> from qflow.workload import Producer
    >>> workload = Workload(
    ...     "small",
    ...     1,
    ...     {"q": {"qpid.flow_stop_count": 1}},
    ...     producers=(Producer("p", ("", "q"), rate=10, capacity=5, size=100),),
    ... )
    >>> kinds = []
    >>> player = LogPlayer(workload, lambda event: kinds.append(event.kind), print)
    >>> player.transfer(10, "p", "q", "p-1", 100, ""); player.transfer(20, "p", "q", "p-2", 100, "")
    >>> kinds.count("held"), player.broker.now
    (1, 20)
    """

    __slots__ = (
        "workload",
        "broker",
        "refused",
        "_stage",
        "_observer",
        "_differs",
        "_addresses",
        "_sessions",
        "_consumers",
        "_joins",
        "_holders",
        "_owned",
        "_early",
        "_shown",
        "_arrived",
    )

    def __init__(
        self,
        workload: Workload,
        observer: Callable[[Event], None],
        differs: Callable[[str, str], None],
        state: dict[str, Any] | None = None,
    ) -> None:
        self.workload = workload
        self._observer, self._differs = observer, differs
        self._addresses = {producer.name: producer.to for producer in workload.producers}
        self._consumers = {model.name: model for model in workload.consumers}
        self._stage = Stage(workload, 0)
        self.refused: dict[str, str] = {}
        self._joins = sorted((round(m.start * SECOND), n) for n, m in enumerate(workload.consumers))
        # Of a message on a queue: who has it under which number, and whether the log has shown it delivered.
        self._holders: dict[Key, list[Any]] = {}
        # Of a consumer: the deliveries that are in its window, oldest first.
        self._owned: dict[str, dict[int, Key]] = {name: {} for name in self._consumers}
        self._early: dict[Key, str] = {}
        self._shown: dict[Key, None] = {}
        self._arrived: list[tuple[Key, str]] = []
        if state is None:
            self.broker = self._stage.broker
            self._sessions = {name: self.broker.session(name) for name in self._addresses}
        else:
            self._continue(state)
        self.broker.observe(observer)

    # Rows

    def transfer(self, time: int, client: str, queue: str, label: str, size: int, group: str) -> None:
        """Send a message."""
        self.pass_time(time)
        session = self._sessions[client]
        if not session.is_attached:
            self._differs(queue, "its session is dead")
            return
        exchange, key = self._addresses[client]
        try:
            session.message_transfer(make_message(key, label, size, group), exchange, sync=True)
        except SessionException as error:
            self.refused[client] = str(error)
        if self._arrived:
            self._settle_arrived()

    def deliver(self, time: int, _client: str, queue: str, label: str, _size: int, _group: str) -> None:
        """Take note that the real broker did deliver this message."""
        self.pass_time(time)
        key = (queue, label)
        holder = self._holders.get(key)
        if holder is not None:
            holder[2] = True
        else:
            _remember(self._shown, key, None)

    def accept(self, time: int, client: str, queue: str, label: str, _size: int, _group: str) -> None:
        """Accept a message and complete its delivery."""
        self._settled(time, client, queue, label, "accept")

    def release(self, time: int, client: str, queue: str, label: str, _size: int, _group: str) -> None:
        """Give a message back and complete its delivery."""
        self._settled(time, client, queue, label, "release")

    def error(self, time: int, client: str, _queue: str, label: str, _size: int, _group: str) -> None:
        """End a session that died."""
        self.pass_time(time)
        session = self.broker.sessions.get(client)
        if session is not None and session.is_attached:
            self.refused.setdefault(client, label)
            session.close()
            if self._arrived:
                self._settle_arrived()

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

    # Consumers

    def _join(self, name: str) -> None:
        try:
            subscribe(self._consumers[name], self._stage, self._hook(name))
        except AmqpException as error:
            self.refused[name] = str(error)

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

    def _settled(self, time: int, client: str, queue: str, label: str, verdict: str) -> None:
        self.pass_time(time)
        key = (queue, label)
        holder = self._holders.pop(key, None)
        if holder is None:
            _remember(self._early, key, verdict)
            self._differs(queue, "not delivered")
            self._drop_surplus(client)
        else:
            if holder[0] != client:
                self._differs(queue, "delivered to another consumer")
            self._settle(holder[0], holder[1], verdict)
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
        session.session_completed((number,))

    def _drop_surplus(self, name: str) -> None:
        """Make room in the window for what the real consumer had in place of a message it never had."""
        holders = self._holders
        for number, key in self._owned[name].items():
            holder = holders.get(key)
            if holder is not None and not holder[2]:
                self._settle(name, number, "complete")
                return

    # State

    def state(self) -> dict[str, Any]:
        """Return the state as a plain value that JSON can hold; take it between rows."""
        return {
            "broker": self.broker.snapshot(),
            "refused": dict(self.refused),
            "joins": len(self._joins),
            "holders": [[*key, *holder] for key, holder in self._holders.items()],
            "owned": {
                name: [[number, *key] for number, key in owned.items()] for name, owned in self._owned.items()
            },
            "early": [[*key, verdict] for key, verdict in self._early.items()],
            "shown": [list(key) for key in self._shown],
        }

    def _continue(self, state: dict[str, Any]) -> None:
        self.broker = self._stage.broker = Broker.restore(state["broker"])
        self.refused = dict(state["refused"])
        self._joins = self._joins[len(self._joins) - state["joins"] :]
        self._holders = {(queue, label): rest for queue, label, *rest in state["holders"]}
        self._early = {(queue, label): verdict for queue, label, verdict in state["early"]}
        self._shown = dict.fromkeys((queue, label) for queue, label in state["shown"])
        for name, entries in state["owned"].items():
            self._owned[name] = {number: (queue, label) for number, queue, label in entries}
        self._sessions = {name: self.broker.sessions[name] for name in self._addresses}
        for name in self._consumers:
            session: Session | None = self.broker.sessions.get(name)
            if session is not None:
                session.consuming.on_delivery = self._hook(name)

    def is_at_rest(self) -> bool:
        """Tell whether nothing is under way: no message anywhere, nothing awaited of any client."""
        return not (self._joins or self._holders or self._early or self._shown or any(self._owned.values()))


def _remember(memory: dict[Key, Any], key: Key, value: Any) -> None:
    """Keep an entry; where there are too many, the oldest is forgotten, the same in every run."""
    memory[key] = value
    if len(memory) > MOST_EARLY:
        del memory[next(iter(memory))]
