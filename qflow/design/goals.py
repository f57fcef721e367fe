"""Goals: a team's service level objectives (SLO), and whether runs keep them.

A goal is a measure of :mod:`qflow.workload.measures` and a limit.  It applies to the producer or queue with
the worst value: if one of ten producers is blocked all the time, the mean is only 10 %.

====================  =====================================================================
``p99 wait < 2s``     the time that messages wait for their producer's window; p50, p99 or max
``p99 completion``    the time from a transfer to its completion at the producer; p50 or p99
``blocked < 5%``      the share of the time in which a producer waits
``depth < 5000``      the greatest depth of a queue in messages; ``40MB`` for bytes
``loss 0``            sessions that ended (506, LP-05), and messages that a ring dropped before any
                      consumer accepted them (LP-10)
====================  =====================================================================

``blocked.mean``, ``wait.mean`` and ``completion.mean`` are the mean over the producers.

Runs differ by chance, and so will the next one.  So a goal **holds** only if even the worst run keeps it with
a margin: more than the range of the runs (widened if there are few of them), and more than a tenth of the
worst value.  It is **close** if all runs keep it with a smaller margin.
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
    """A kind of goal: a pattern for the text before the limit, the measure or its prefix, and the units."""

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
"""The number of runs whose range is used as it is; the range of fewer runs is widened."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A measure of a run and its limit: the value must be below it (loss: must be 0)."""

    text: str
    measure: str
    limit: float
    unit: str = ""
    # Whether the goal applies to the mean of the producers' values, and not to the worst.
    is_mean: bool = False

    @classmethod
    def parse(cls, text: str) -> Goal:
        """Return the goal that a text describes; raise DesignError if it describes none."""
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
        raise DesignError(f"a goal must have one of these forms: {_ALLOWED}; got {text!r}")

    def value(self, costs: Costs) -> float:
        """Return the measure of a run, over its time base or the declared time, whichever is worse."""
        # Neither time suffices alone: the longer one dilutes a late start, the shorter one may lack a burst.
        own = self._value(costs)
        return own if costs.declared is None else max(own, self._value(costs.declared))

    def worse(self, costs: Costs) -> Costs:
        """Return the costs over the run or over the declared time, whichever has the worse value."""
        early = costs.declared
        return early if early is not None and self._value(early) > self._value(costs) else costs

    def _value(self, costs: Costs) -> float:
        if self.measure in ("loss", "max_depth", "max_bytes"):
            found = getattr(costs, self.measure)
            return max(found.values(), default=0) if isinstance(found, dict) else found
        values = [measures[self.measure] or 0.0 for measures in costs.producers.values()]
        return sum(values) / max(1, len(values)) if self.is_mean else max(values, default=0.0)

    def worst_producer(self, costs: Costs) -> str:
        """Return the producer with the worst value; "" for a single producer, a queue's goal or a mean."""
        measured = {name: one.get(self.measure) or 0.0 for name, one in costs.producers.items()}
        if self.is_mean or len(measured) < 2 or not any(measured.values()):
            return ""
        return max(measured, key=measured.__getitem__)

    def use(self, value: float) -> float:
        """Return a value as a share of the limit: the goal is kept if it is below 1."""
        # The limit of "loss 0" has no shares: any loss counts as twice a limit, so that no other goal hides
        # it.
        return value / self.limit if self.limit else 2.0 * (value > 0)

    def say(self, value: float) -> str:
        """Return a value as text in the goal's unit."""
        if self.unit == "%":
            return f"{value:.1%}"
        return f"{measure_text(value)}{' s' if self.unit == 's' else self.unit}"


def worst_use(goals: Iterable[Goal], costs: Costs) -> float:
    """Return the largest share of its limit that any goal uses."""
    return max((goal.use(goal.value(costs)) for goal in goals), default=0.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A goal and its value in each run."""

    goal: Goal
    values: tuple[float, ...]
    # The worst producer in the worst run; and the declared seconds, if the value over that time is worse.
    producer: str = ""
    seconds: float = 0.0

    @classmethod
    def of(cls, goal: Goal, runs: Sequence[Costs]) -> Outcome:
        """Return the outcome of a goal in the given runs."""
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
        """The difference between the limit and the worst value; negative if that exceeds the limit."""
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
        """Return the verdict, the worst value and the margin as a sentence."""
        worst, say = max(self.values), self.goal.say
        if not self.goal.limit:
            return f"{self.goal.text}: {self.verdict}; {measure_text(worst)} lost"
        margin = f"margin {say(self.margin)}" if self.margin > 0 else f"{say(-self.margin)} too much"
        chance = "; another run may exceed it" if self.verdict == "close" else ""
        whose = f" of {self.producer}" if self.producer else ""
        whose += f", over the declared {self.seconds:g} s," if self.seconds else ""
        return f"{self.goal.text}: {self.verdict}; {say(worst)}{whose} in the worst run, {margin}{chance}"
