"""Run: what happened, as one ordered table of events, and the measures of its queues over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from qflow.broker.errors import AmqpException
from qflow.broker.events import Event, of_kinds
from qflow.table import Tabular, columns_of
from qflow.workload.agenda import SECOND
from qflow.workload.model import Workload

Measures = dict[str, float | int | None]

CLIENT_EVENTS: dict[str, str] = {
    "client.block": "a producer has a message due and its window is full; session: the producer; due: since "
    "when, in microseconds, which a log does not say",
    "client.unblock": "its window has room again; session: the producer",
    "client.transfer": "a producer with a network sends; the broker meets it later (message.transfer)",
    "client.complete": "a producer with a network learns that a transfer is complete",
    "client.accept": "a consumer with a network accepts; the broker meets it later (message.accept)",
    "client.release": "a consumer with a network releases",
    "client.reject": "a consumer with a network rejects",
    "client.deliver": "a message reaches a consumer with a network",
    "client.differs": "a replayed log does what the engine's clients cannot; detail: logged, engine",
}
"""Kinds of event that only clients can report: the broker does not know a window (CAP-01)."""


@dataclass(frozen=True, slots=True)
class Run(Tabular):
    """One run of a workload, simulated or replayed.

    Parameters:
        workload: What was run.
        events: All that happened, commands and effects and the rows of :data:`CLIENT_EVENTS`, in order.
        end: The instant at which the run ended, in microseconds.
        errors: Client name to what its session died of, of all producers on a session; the others went on.

    >>> run = Run(Workload("w", 1, {"q": {}}), [Event(0, "queue_created", queue="q")], end=11_000_000)
    >>> run.columns()["kind"]
    ['queue_created']
    """

    workload: Workload
    events: Sequence[Event]
    end: int
    errors: dict[str, AmqpException] = field(default_factory=dict)

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the events as columns: time, kind, queue, session, link, message, size, group, detail."""
        return columns_of(self.events[start:end], Event._fields)

    def __repr__(self) -> str:
        died = f", errors: {', '.join(self.errors)}" if self.errors else ""
        return f"Run({self.workload.name!r}, {len(self.events)} events, {self.end} us{died})"


class DepthMeter:
    """Averages one queue over time, from the start to an instant.

    >>> meter = DepthMeter(end=SECOND)
    >>> meter.at(0, 10, False); meter.at(SECOND // 2, 20, True); meter.measures()["mean_depth"]
    15.0
    """

    def __init__(self, end: int) -> None:
        self._end = end
        self._since = self._depth = self._stopped = self._area = self._on = self._filled = 0
        self._most = 0

    def at(self, time: int, depth: int, is_stopped: bool) -> None:
        """Note the depth, and whether flow control is ON, from an instant on."""
        self._pass(time)
        if time <= self._end:
            self._depth, self._stopped = depth, int(is_stopped)
            self._most = max(self._most, depth)

    def _pass(self, time: int) -> None:
        span = min(time, self._end) - self._since
        if span > 0:
            self._area += self._depth * span
            self._on += self._stopped * span
            self._filled += span if self._depth else 0
            self._since += span

    def filled(self) -> float:
        """Return for what share of time there were messages, up to the end."""
        self._pass(self._end)
        return self._filled / self._end

    def measures(self) -> Measures:
        """Return mean_depth, max_depth and share_on, up to the end."""
        self._pass(self._end)
        return {
            "mean_depth": self._area / self._end,
            "max_depth": self._most,
            "share_on": self._on / self._end,
        }


def queue_measures(
    events: Iterable[Event], workload: Workload, end: int, filled: dict[str, float] | None = None
) -> dict[str, Measures]:
    """Measure every queue of a run, from its start to an instant.

    Parameters:
        end: Microseconds.
        filled: Where to note for what share of time each queue had messages.

    Returns:
        Queue name to mean_depth, max_depth, share_on, flowStoppedCount, throughput (accepted messages a
        second) and discards (what a ring dropped).

    >>> workload = Workload("w", 1, {"q": {}})
    >>> queue_measures([Event(0, "enqueued", queue="q")], workload, SECOND)["q"]["mean_depth"]
    1.0
    """
    meters = {name: DepthMeter(end) for name in workload.queues}
    depth, stopped = dict.fromkeys(meters, 0), dict.fromkeys(meters, False)
    stops, accepts, discards = (dict.fromkeys(meters, 0) for _ in range(3))
    readers = {consumer.name: consumer.queue for consumer in workload.consumers}
    for event in of_kinds(events, _MEASURED):
        kind, queue = event.kind, event.queue
        if event.time > end:
            break
        if kind == "message.accept":
            if event.session in readers:
                accepts[readers[event.session]] += len(_detail(event, "transfers", ()))
            continue
        if kind in ("enqueued", "dequeued"):
            depth[queue] += 1 if kind == "enqueued" else -1
            discards[queue] += kind == "dequeued" and _detail(event, "reason", "") == "ring"
        else:
            stopped[queue] = kind == "flow_stopped"
            stops[queue] += stopped[queue]
        meters[queue].at(event.time, depth[queue], stopped[queue])
    if filled is not None:
        filled.update((name, meter.filled()) for name, meter in meters.items())
    return {
        name: {
            **meter.measures(),
            "flowStoppedCount": stops[name],
            "throughput": accepts[name] * SECOND / end,
            "discards": discards[name],
        }
        for name, meter in meters.items()
    }


_MEASURED = frozenset(("message.accept", "enqueued", "dequeued", "flow_stopped", "flow_resumed"))


def measure_text(value: float | int | None) -> str:
    """Return a measure as text: whole numbers whole, others with four digits that count.

    >>> measure_text(42560), measure_text(42560.4), measure_text(0.123456), measure_text(None)
    ('42560', '42560', '0.1235', '-')
    """
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 1000 else f"{value:.0f}"


def _detail(event: Event, key: str, otherwise: Any) -> Any:
    return event.detail.get(key, otherwise) if isinstance(event.detail, dict) else otherwise
