"""Goals: a team's service level objectives (SLO), and whether runs keep them.

A goal is a measure of :mod:`qflow.workload.measures` and a limit.  It is of the producer or queue that keeps
it worst: of ten producers of which one is blocked all the time, the mean reads 10 %.

====================  =====================================================================
``p99 wait < 2s``     how long messages wait for their producer's window; p50, p99 or max
``p99 completion``    from a transfer to its completion as its producer learns of it; p50, p99
``blocked < 5%``      share of the time in which a producer waits
``depth < 5000``      most messages on a queue at once; ``40MB`` for bytes
``loss 0``            sessions that ended (506, LP-05), and messages that a ring dropped and no
                      consumer accepted (LP-10)
====================  =====================================================================

``blocked.mean``, ``wait.mean`` and ``completion.mean`` are the mean over the producers.

Runs differ by chance, and so does the next one.  So a goal **holds** only if the worst run keeps it with
room: as much again as the runs differ from one another (more, if they are few), and a tenth of what was
measured.
It is **close** if all runs keep it with less.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.design.bounds import DesignError
from qflow.workload.measures import measure_text

if TYPE_CHECKING:
    from qflow.design.frontier import Costs

_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0}
_BYTES = {"b": 1, "kb": 1_000, "mb": 1_000_000, "gb": 1_000_000_000}


class _Form(NamedTuple):
    """A kind of goal: the words before its limit, the measure or its prefix, and the limit's units."""

    pattern: str
    measure: str
    units: dict[str, Any]
    unit: str


_FORMS = (
    _Form(r"(p50|p99|max) wait(\.mean)?", "wait_", _SECONDS, "s"),
    _Form(r"(p50|p99) completion(\.mean)?", "latency_", _SECONDS, "s"),
    _Form(r"blocked(\.mean)?", "blocked_share", {"%": 0.01}, "%"),
    _Form(r"depth", "max_depth", {"": 1, **_BYTES}, ""),
)
_ALLOWED = (
    "'p99 wait < 2s' (p50, p99 or max; ms, s or min), 'p99 completion < 500ms' (p50 or p99), 'blocked < 5%' "
    "(the worst producer; blocked.mean, wait.mean and completion.mean: all producers), 'depth < 5000' "
    "(messages, or kB, MB, GB) or 'loss 0'"
)
_ROOM = 0.1
_ENOUGH = 10
"""Runs after which their differences are taken as they are; fewer are taken to hide some."""


@dataclass(frozen=True, slots=True)
class Goal:
    """One measure of a run and its limit, which it must stay below; loss must be 0."""

    text: str
    measure: str
    limit: float
    unit: str = ""
    # Of the producers' values, their mean in place of the worst.
    is_mean: bool = False

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Return the goal that a text describes; DesignError for a text that describes none."""
        words = " ".join(str(text).lower().split())
        if re.fullmatch(r"loss ?=? ?0", words):
            return cls(text, "loss", 0.0)
        for form in _FORMS:
            found = re.fullmatch(rf"{form.pattern} ?<=? ?(?P<number>\d+(\.\d+)?) ?(?P<unit>[a-z%]*)", words)
            scale = form.units.get(found["unit"]) if found else None
            if found and scale and (limit := float(found["number"]) * scale):
                if form.measure == "max_depth" and found["unit"]:
                    return cls(text, "max_bytes", limit, " B")
                measure = form.measure + (found[1] if form.measure.endswith("_") else "")
                return cls(text, measure, limit, form.unit, ".mean" in words)
        raise DesignError(f"a goal: must be like {_ALLOWED}, got {text!r}")

    def value(self, costs: Costs) -> float:
        """Return the measure of a run, over its time base or the declared time, whichever is worse."""
        # Neither is enough: the longer run dilutes a late start, the shorter one may lack a burst.
        own = self._value(costs)
        return own if costs.declared is None else max(own, self._value(costs.declared))

    def worse(self, costs: Costs) -> Costs:
        """Return the costs over the run or over the declared time, whichever keep the goal worse."""
        early = costs.declared
        return early if early is not None and self._value(early) > self._value(costs) else costs

    def _value(self, costs: Costs) -> float:
        if self.measure in ("loss", "max_depth", "max_bytes"):
            found = getattr(costs, self.measure)
            return max(found.values(), default=0) if isinstance(found, dict) else found
        values = [measures[self.measure] or 0.0 for measures in costs.producers.values()]
        return sum(values) / max(1, len(values)) if self.is_mean else max(values, default=0.0)

    def worst_producer(self, costs: Costs) -> str:
        """Return the producer that decides a goal, if there are several; "" for a queue's goal or a mean."""
        measured = {name: one.get(self.measure) or 0.0 for name, one in costs.producers.items()}
        if self.is_mean or len(measured) < 2 or not any(measured.values()):
            return ""
        return max(measured, key=measured.__getitem__)

    def use(self, value: float) -> float:
        """Return the share of the limit that a value uses: below 1 the goal holds."""
        # "loss 0" has no limit to take a share of: any loss is as bad as twice a limit, so that no other
        # goal hides it.
        return value / self.limit if self.limit else 2.0 * (value > 0)

    def say(self, value: float) -> str:
        """Return a value in the goal's unit."""
        if self.unit == "%":
            return f"{value:.1%}"
        return f"{measure_text(value)}{' s' if self.unit == 's' else self.unit}"


def worst_use(goals: Iterable[Goal], costs: Costs) -> float:
    """Return the largest share of its limit that a goal uses."""
    return max((goal.use(goal.value(costs)) for goal in goals), default=0.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One goal, and its value in each run."""

    goal: Goal
    values: tuple[float, ...]
    # Of the run that keeps it worst; and its declared duration, if the goal is kept worse in that time.
    producer: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, goal: Goal, runs: Sequence[Costs]) -> Outcome:
        """Return the outcome of a goal in some runs."""
        values = tuple(goal.value(costs) for costs in runs)
        run = runs[values.index(max(values))]
        worse = goal.worse(run)
        return cls(goal, values, goal.worst_producer(worse), 0.0 if worse is run else worse.seconds)

    @property
    def use(self) -> float:
        """The share of the limit that the worst run uses."""
        return self.goal.use(max(self.values))

    @property
    def margin(self) -> float:
        """The margin of the worst run below the limit; negative if it exceeds it."""
        return self.goal.limit - max(self.values)

    @property
    def verdict(self) -> str:
        """Return "holds", "close" or "missed"."""
        if not self.goal.limit:
            return "missed" if max(self.values) else "holds"
        # The range of a few runs is smaller than that of ten, so it is widened; a margin of a tenth is
        # required besides, because ten runs that happen to agree prove little.
        spread = (max(self.values) - min(self.values)) * max(1.0, _ENOUGH / len(self.values))
        if self.margin <= 0:
            return "missed"
        return "holds" if self.margin > max(spread, _ROOM * max(self.values)) else "close"

    def sentence(self) -> str:
        """Return verdict, worst value and margin as a sentence."""
        worst, say = max(self.values), self.goal.say
        if not self.goal.limit:
            return f"{self.goal.text}: {self.verdict}; {measure_text(worst)} lost"
        margin = f"margin {say(self.margin)}" if self.margin > 0 else f"{say(-self.margin)} too much"
        chance = "; another run may exceed it" if self.verdict == "close" else ""
        whose = f" of {self.producer}" if self.producer else ""
        whose += f", over the declared {self.seconds:g} s," if self.seconds else ""
        return f"{self.goal.text}: {self.verdict}; {say(worst)}{whose} in the worst run, {margin}{chance}"
