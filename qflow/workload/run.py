"""Run: what happened, as one ordered table of events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from qflow.broker.errors import AmqpException
from qflow.broker.events import Event
from qflow.table import Tabular, columns_of
from qflow.workload.measures import unit_of
from qflow.workload.model import Workload

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


def measures_text(measures: Mapping[str, float | int | None]) -> str:
    """Return measures in one line, each with its name and unit."""
    return ", ".join(
        f"{name} {measure_text(value)} {unit_of(name)}".rstrip() for name, value in measures.items()
    )


def measure_text(value: float | int | None) -> str:
    """Return a measure as text: whole numbers whole, others with four digits that count."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 1000 else f"{value:.0f}"
