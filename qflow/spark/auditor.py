"""Auditor: one component's rows in, intervals and findings out; its state is a plain value.

Intervals: the engine's events folded into what was ON, held, blocked and owned, from when to when.

LogPlayer: a component's recorded clients, led by the hand of their log, one row at a time.

What :func:`qflow.logs.client_log` does with a whole log at hand, this does without looking ahead: a stream has
no "ahead", and a batch must give what the stream gives.  Its state is a plain value at every moment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from qflow.broker.broker import Broker
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import AmqpException, SessionException
from qflow.broker.events import Event
from qflow.broker.session import Session
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import WorkloadError
from qflow.workload.consumer_client import subscribe
from qflow.workload.model import Workload
from qflow.workload.stage import Stage, make_message, uncollected

Result = tuple[str, str, str, str, int, int | None, str, int, int]
"""Kind, queue, client, subject, begin_us, end_us, cause, count, bytes: a row of RESULTS without its key."""


class Intervals:
    """Watches a broker; what has ended stands in :attr:`results` until somebody takes it away.

    It holds no more than what goes on at the moment: memory does not grow with the length of a log.

    Examples
    --------
    >>> intervals = Intervals()
    >>> intervals(Event(5, "message.transfer", session="p", message="p-9"))
    >>> intervals(Event(5, "flow_stopped", queue="q", detail={"count": 9, "size": 900}))
    >>> intervals(Event(8, "flow_resumed", queue="q", detail={"count": 4, "size": 400}))
    >>> intervals.results
    [('flow_on', 'q', '', '', 5, 8, 'p-9', 9, 900)]
    """

    __slots__ = ("results", "_handlers", "_sender", "_flow", "_stops", "_held", "_groups", "_blocked",
                 "_depth", "_most", "_drops", "_differs", "_samples")  # fmt: skip

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self.results: list[Result] = []
        self._sender = ""
        # Of a queue: since when it is ON, of which message, count, bytes; and how often it was.
        self._flow: dict[str, list[Any]] = {}
        self._stops: dict[str, int] = {}
        # Of a session: (queue, message) to since when, which ON, bytes.
        self._held: dict[str, dict[tuple[str, str], list[int]]] = {}
        self._groups: dict[tuple[str, str], list[Any]] = {}
        self._blocked: dict[str, list[Any]] = {}
        self._depth: dict[str, int] = {}
        self._most: dict[str, list[int]] = {}
        self._drops: dict[tuple[str, str], int] = {}
        self._differs: dict[tuple[str, str], int] = {}
        # Of a queue: reports, those whose flowStopped agrees, sum and most of the depths' differences.
        self._samples: dict[str, list[int]] = {}
        self._handlers: dict[str, Callable[[Event], None]] = {
            "message.transfer": self._on_transfer,
            "enqueued": self._on_enqueued,
            "dequeued": self._on_dequeued,
            "dropped": self._on_dropped,
            "held": self._on_held,
            "let_go": self._on_let_go,
            "flow_stopped": self._on_stopped,
            "flow_resumed": self._on_resumed,
            "group_owned": self._on_owned,
            "group_freed": self._on_freed,
        }
        if state is not None:
            self._continue(state)

    def __call__(self, event: Event) -> None:
        """Take note of an event."""
        handler = self._handlers.get(event[1])
        if handler is not None:
            handler(event)

    # What the engine tells

    def _on_transfer(self, event: Event) -> None:
        self._sender = event.message

    def _on_enqueued(self, event: Event) -> None:
        detail: Any = event.detail
        queue, depth, size = event.queue, detail["depth"], detail["bytes"]
        self._depth[queue] = depth
        most = self._most.setdefault(queue, [0, 0])
        if depth > most[0]:
            most[0] = depth
        if size > most[1]:
            most[1] = size

    def _on_dequeued(self, event: Event) -> None:
        detail: Any = event.detail
        self._depth[event.queue] = detail["depth"]
        if detail["reason"] not in ("accept", "acquire"):
            self._count(self._drops, (event.queue, detail["reason"]))

    def _on_dropped(self, event: Event) -> None:
        detail: Any = event.detail
        self._count(self._drops, (event.queue, detail["reason"]))

    def _on_held(self, event: Event) -> None:
        of_session = self._held.setdefault(event.session, {})
        of_session[event.queue, event.message] = [event.time, self._stops.get(event.queue, 0), event.size]

    def _on_let_go(self, event: Event) -> None:
        self._let_go(event.session, (event.queue, event.message), event.time)

    def _on_stopped(self, event: Event) -> None:
        detail: Any = event.detail
        self._flow[event.queue] = [event.time, self._sender, detail["count"], detail["size"]]
        self._stops[event.queue] = self._stops.get(event.queue, 0) + 1

    def _on_resumed(self, event: Event) -> None:
        self._end_flow(event.queue, event.time)

    def _on_owned(self, event: Event) -> None:
        self._groups[event.queue, event.group] = [event.time, event.link]

    def _on_freed(self, event: Event) -> None:
        self._end_group((event.queue, event.group), event.time)

    # What the log tells

    def block(self, time: int, client: str) -> None:
        """A producer's window is full: what holds it is what holds its transfers now."""
        of_session = self._held.get(client, {})
        queues = sorted({queue for queue, _ in of_session})
        self._blocked[client] = [time, ",".join(queues), len({label for _, label in of_session})]

    def unblock(self, time: int, client: str) -> None:
        """A producer's window has room again."""
        self._end_block(client, time)

    def sample(self, queue: str, text: str) -> None:
        """Lay what the broker reported of a queue beside what the engine has."""
        values = json.loads(text)
        depth_off = abs(int(values[0]) - self._depth.get(queue, 0))
        sample = self._samples.setdefault(queue, [0, 0, 0, 0])
        sample[0] += 1
        sample[1] += bool(values[2]) == (queue in self._flow)
        sample[2] += depth_off
        sample[3] = max(sample[3], depth_off)

    def differs(self, queue: str, how: str) -> None:
        """A client settled what the engine did not deliver to it."""
        self._count(self._differs, (queue, how))

    def find(self, code: str, queue: str, client: str, time: int, sentence: str, count: int = 1) -> None:
        """Add a finding."""
        self.results.append(("finding", queue, client, code, time, time, sentence, count, 0))

    # The end

    def finish(self, time: int) -> None:
        """Give what still goes on, with no end, and what was counted."""
        for queue in sorted(self._flow):
            self._end_flow(queue, None)
        for session in sorted(self._held):
            for key in list(self._held[session]):
                self._let_go(session, key, None)
        for group in sorted(self._groups):
            self._end_group(group, None)
        for client in sorted(self._blocked):
            self._end_block(client, None)
        for queue, (count, size) in sorted(self._most.items()):
            most = ("finding", queue, "", "most", time, time, "the deepest it was", count, size)
            self.results.append(most)
        for (queue, reason), number in sorted(self._drops.items()):
            self.find("discarded", queue, "", time, f"messages left without being accepted: {reason}", number)
        for (queue, how), number in sorted(self._differs.items()):
            self.find("differs", queue, "", time, f"settled in the log, in the engine {how}", number)
        for queue, sample in sorted(self._samples.items()):
            self.find("reports", queue, "", time, _report_text(sample), sample[1])

    def _end_flow(self, queue: str, time: int | None) -> None:
        since, message, count, size = self._flow.pop(queue)
        self.results.append(("flow_on", queue, "", "", since, time, message, count, size))

    def _let_go(self, session: str, key: tuple[str, str], time: int | None) -> None:
        of_session = self._held[session]
        since, which, size = of_session.pop(key)
        if not of_session:
            del self._held[session]
        queue, label = key
        cause = "" if time is None else "dequeued" if queue in self._flow else "resumed"
        self.results.append(("held", queue, session, label, since, time, cause, which, size))

    def _end_group(self, key: tuple[str, str], time: int | None) -> None:
        since, owner = self._groups.pop(key)
        queue, group = key
        self.results.append(("group_owned", queue, owner, group, since, time, "", 0, 0))

    def _end_block(self, client: str, time: int | None) -> None:
        begun = self._blocked.pop(client, None)
        if begun is not None:
            since, queues, held = begun
            cause = "held" if held else "round trip"
            self.results.append(("blocked", queues, client, "", since, time, cause, held, 0))

    @staticmethod
    def _count(counts: dict[tuple[str, str], int], key: tuple[str, str]) -> None:
        counts[key] = counts.get(key, 0) + 1

    # State

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is ON, held, blocked or owned, and every queue is empty."""
        return not (self._flow or self._held or self._groups or self._blocked or any(self._depth.values()))

    def state(self) -> dict[str, Any]:
        """Return the state as a plain value that JSON can hold; results must have been taken away."""
        return {
            "sender": self._sender,
            "flow": self._flow,
            "stops": self._stops,
            "held": {s: [[*key, *entry] for key, entry in of.items()] for s, of in self._held.items()},
            "groups": [[*key, *entry] for key, entry in self._groups.items()],
            "blocked": self._blocked,
            "depth": self._depth,
            "most": self._most,
            "drops": [[*key, number] for key, number in self._drops.items()],
            "differs": [[*key, number] for key, number in self._differs.items()],
            "samples": self._samples,
        }

    def _continue(self, state: dict[str, Any]) -> None:
        self._sender, self._flow, self._stops = state["sender"], dict(state["flow"]), dict(state["stops"])
        self._held = {
            session: {(queue, label): rest for queue, label, *rest in entries}
            for session, entries in state["held"].items()
        }
        self._groups = {(queue, group): rest for queue, group, *rest in state["groups"]}
        self._blocked, self._depth = dict(state["blocked"]), dict(state["depth"])
        self._most, self._samples = dict(state["most"]), dict(state["samples"])
        self._drops = {(queue, reason): number for queue, reason, number in state["drops"]}
        self._differs = {(queue, how): number for queue, how, number in state["differs"]}


def _report_text(sample: list[int]) -> str:
    reports, agreeing, total, most = sample
    # In hundredths and whole numbers: the same text on every machine.
    mean = (100 * total + reports // 2) // reports
    return (
        f"flowStopped agrees in {agreeing} of {reports} reports of the broker; the depth is off by "
        f"{mean // 100}.{mean % 100:02d} messages on average, {most} at most"
    )


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


FORMAT = "qflow auditor 1"

LakeRow = tuple[int, int, str, str, str, str, int, str]
"""Seq, ts_us, client, event, queue, label, size, group: a row of LAKE without its component."""

ResultRow = tuple[str, int, str, str, str, str, int, int | None, str, int, int]
"""A row of RESULTS."""

BEGIN, END = "begin", "end"


class Auditor:
    """The engine over one component.

    Rows come in the order of ``seq``, the first is ``begin`` with the component's workload, the last is
    ``end``.  A ``seq`` that was seen already is a duplicate and changes nothing; one that is skipped
    leaves a finding, as what follows is then no longer certain.

    Parameters
    ----------
    component : str
        Its name.
    state : str or None
        What :meth:`state` gave, to continue there.

    Attributes
    ----------
    next_seq : int
        The number of the next row.
    duplicates : int
        How many rows came again; at-least-once delivery is no finding about the broker.
    is_finished : bool
        Whether its end has been seen.

    Examples
    --------
    >>> workload = {"duration": 1, "queues": {"q": {"qpid.flow_stop_count": 1}},
    ...     "producers": [{"name": "p", "to": ["", "q"], "rate": 1, "capacity": 9, "size": 1}]}
    >>> auditor = Auditor("log/q")
    >>> rows = [(0, 0, "", "begin", "", json.dumps(workload), 0, "")]
    >>> rows += [(n, n, "p", "transfer", "q", f"p-{n}", 1, "") for n in (1, 2)]
    >>> auditor.feed([*rows, (3, 9, "", "end", "", "", 0, "")])[0]
    ('log/q', 0, 'flow_on', 'q', '', '', 2, None, 'p-2', 2, 80)
    """

    __slots__ = ("component", "next_seq", "is_finished", "duplicates", "_number", "_time", "_workload",
                 "_player", "_intervals", "_actions", "_clients", "_cannot")  # fmt: skip

    def __init__(self, component: str, state: str | None = None) -> None:
        self.component = component
        self.next_seq = self.duplicates = self._number = self._time = 0
        self.is_finished = False
        self._workload = self._cannot = ""
        self._player: LogPlayer | None = None
        self._intervals = Intervals()
        self._actions: dict[str, Callable[..., None]] = {}
        self._clients: frozenset[str] = frozenset()
        if state is not None:
            self._continue(json.loads(state))

    def feed(self, rows: Iterable[LakeRow]) -> list[ResultRow]:
        """Take the next rows and return the results that are certain now."""
        with uncollected():
            self._feed(rows)
        return self._take_results()

    def _feed(self, rows: Iterable[LakeRow]) -> None:
        for seq, time, client, event, queue, label, size, group in rows:
            if seq != self.next_seq and not self._is_next(seq, time):
                continue
            self.next_seq = seq + 1
            self._time = time
            action = self._actions.get(event)
            if action is not None and client in self._clients:
                action(time, client, queue, label, size, group)
            elif event == "stats" and self._player is not None:
                self._player.pass_time(time)
                self._intervals.sample(queue, label)
            elif event in (BEGIN, END):
                self._edge(event, label)
            elif event not in ("complete", "stats") and self._player is not None:
                self._intervals.find("unknown", queue, client, time, f"{event} by a client unknown here")

    # Edges and gaps

    def _is_next(self, seq: int, time: int) -> bool:
        if seq < self.next_seq:
            self.duplicates += 1
            return False
        missing = seq - self.next_seq
        sentence = f"events {self.next_seq} to {seq - 1} are missing; what follows is not certain"
        self._intervals.find("gap", "", "", time, sentence, missing)
        return True

    def _edge(self, event: str, label: str) -> None:
        if event == BEGIN:
            self._begin(label)
        else:
            self._finish()

    def _begin(self, label: str) -> None:
        self._workload = label
        try:
            self._play(None)
        except (AmqpException, WorkloadError, ValueError) as error:
            self._cannot = str(error)
            self._intervals.find("refused", "", "", self._time, f"the engine cannot start: {error}")

    def _finish(self) -> None:
        self.is_finished = True
        if self._player is not None:
            self._player.pass_time(self._time)
            for client, text in sorted(self._player.refused.items()):
                self._intervals.find("died", "", client, self._time, text)
            self._intervals.finish(self._time)
        elif not self._cannot:
            self._intervals.find("no-begin", "", "", self._time, "its workload is missing; nothing audited")

    def skip_to(self, seq: int, time: int) -> None:
        """Begin with a later event, as if there had been none before: for pieces of a component."""
        self.next_seq, self._time = seq, time
        if self._player is not None:
            self._player.pass_time(time)

    def cut_off(self) -> list[ResultRow]:
        """Return what is known of a component whose end never came."""
        if self.is_finished:
            return []
        sentence = f"the log breaks off after event {self.next_seq - 1}: its end is missing"
        self._intervals.find("cut-off", "", "", self._time, sentence)
        self._finish()
        return self._take_results()

    def _take_results(self) -> list[ResultRow]:
        results = self._intervals.results
        if not results:
            return []
        self._intervals.results = []
        first = self._number
        self._number += len(results)
        return [(self.component, number, *result) for number, result in enumerate(results, first)]

    # State

    def state(self) -> str:
        """Return the state as JSON text; take it between calls of :meth:`feed`."""
        value = {
            "format": FORMAT,
            "counts": [self.next_seq, self._number, self.duplicates, self._time, self.is_finished],
            "workload": self._workload,
            "cannot": self._cannot,
            "intervals": self._intervals.state(),
            "player": None if self._player is None else self._player.state(),
        }
        return json.dumps(value, separators=(",", ":"))

    def _continue(self, value: Any) -> None:
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            got = value.get("format") if isinstance(value, dict) else value
            raise ValueError(f"an auditor's state has the format {FORMAT!r}, got {got!r}")
        self.next_seq, self._number, self.duplicates, self._time, self.is_finished = value["counts"]
        self._workload, self._cannot = value["workload"], value["cannot"]
        self._intervals = Intervals(value["intervals"])
        if value["player"] is not None:
            self._play(value["player"])

    def _play(self, state: dict[str, Any] | None) -> None:
        workload = Workload.from_json(json.loads(self._workload), name=self.component)
        intervals = self._intervals
        player = self._player = LogPlayer(workload, intervals, intervals.differs, state)
        self._actions = {
            "transfer": player.transfer,
            "deliver": player.deliver,
            "accept": player.accept,
            "release": player.release,
            "error": player.error,
            "block": lambda time, client, *_: intervals.block(time, client),
            "unblock": lambda time, client, *_: intervals.unblock(time, client),
        }
        names = [producer.name for producer in workload.producers]
        self._clients = frozenset([*names, *(consumer.name for consumer in workload.consumers)])

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is under way anywhere, so that a fresh engine would go on alike."""
        return self._player is not None and self._player.is_at_rest() and self._intervals.is_at_rest
