"""Intervals: the engine's events folded into what was ON, held, blocked and owned, from when to when."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from qflow.broker.events import Event

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
