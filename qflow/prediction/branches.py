"""Branches: where a session ends in some replays and lives in others, a prediction for each.

One interval over both says little: a queue whose producer died early is empty half of the time.  So replays
are parted by the sessions that ended, and by when.  A session dies in a few instants only, those at which
arrivals bring the queue near its limit, and its queue goes on as before until then: over the whole time a
measure is nearly a straight line of when it died.  That line is drawn through all replays in which the same
sessions ended; how far they lie from it, and the instant, give the interval of a branch, even of a rare one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import linear_regression
from typing import Any

from qflow.prediction.intervals import COVER, Interval, interval, queue_words
from qflow.prediction.replays import FEWEST, MeasuredReplay

_ALIKE = 1.1
"""Deaths of which the last is at most so many times as late as the first are of one branch."""

_SHOWN = 4


def branches(replays: Sequence[MeasuredReplay]) -> list[dict[str, Any]]:
    """Return the branches, the most frequent first; none where all replays end alike.

    >>> def replay(depth, **ended):
    ...     sections = {"queues": {"q": {"mean_depth": depth}}, "producers": {}}
    ...     return MeasuredReplay(sections, ended, ended_at=ended)
    >>> found = branches([replay(9.0), replay(9.2), replay(9.1), replay(3.0, p=10.0)])
    >>> [(branch["share"], branch["when"]["ended"]) for branch in found]
    [(0.75, {}), (0.25, {'p': [10.0, 10.0]})]
    """
    groups: dict[tuple[str, ...], list[MeasuredReplay]] = {}
    for replay in sorted(replays, key=_end):
        groups.setdefault(replay.ended, []).append(replay)
    found = []
    for ended, alike in groups.items() if len(groups) > 1 else ():
        left = list(alike)
        while left:
            runs = [replay for replay in left if _end(replay) <= _ALIKE * _end(left[0])]
            del left[: len(runs)]
            span = [_end(runs[0]), _end(runs[-1])]
            times = {name: sorted(run.ended_at.get(name, 0.0) for run in runs) for name in ended}
            found.append(
                {
                    "share": len(runs) / len(replays),
                    "replays": len(runs),
                    "when": {"ended": {name: [own[0], own[-1]] for name, own in times.items()}},
                    "queues": _intervals(alike, "queues", span),
                    "producers": _intervals(alike, "producers", span),
                }
            )
    return sorted(found, key=lambda branch: -branch["replays"])


def _end(replay: MeasuredReplay) -> float:
    """Return when the first session ended."""
    return min(replay.ended_at.values(), default=0.0)


def _intervals(
    replays: Sequence[MeasuredReplay], section: str, span: Interval
) -> dict[str, dict[str, Interval]]:
    found: dict[str, dict[str, Interval]] = {}
    for name, measures in replays[0].sections[section].items():
        found[name] = {}
        for measure in measures:
            values = [(_end(replay), replay.value(section, name, measure)) for replay in replays]
            points = [(time, value) for time, value in values if value is not None]
            if points:
                found[name][measure] = interval(measure, _values_at(points, span), COVER)
    return found


def _values_at(points: Sequence[tuple[float, float]], span: Interval) -> list[float]:
    """Return what would be measured if the session ended at either end of a span.

    >>> _values_at([(t, 2.0 * t) for t in (1.0, 2.0, 3.0, 4.0, 5.0)], [2.0, 2.5])[:2]
    [4.0, 5.0]
    """
    times, values = zip(*points, strict=True)
    is_line = len(points) >= FEWEST and times[0] != times[-1]
    slope = linear_regression(times, values).slope if is_line else 0.0
    return [value + slope * (time - own) for own, value in points for time in dict.fromkeys(span)]


def branch_of(found: Sequence[Mapping[str, Any]], ended: Mapping[str, float]) -> Mapping[str, Any] | None:
    """Return the branch that came, given the sessions that ended and when; None if none is like it.

    >>> found = [{"when": {"ended": ended}} for ended in ({}, {"p": [2.0, 2.5]}, {"p": [7.0, 7.0]})]
    >>> branch_of(found, {"p": 6.0}), branch_of(found, {"c": 1.0})
    ({'when': {'ended': {'p': [7.0, 7.0]}}}, None)
    """
    alike = [branch for branch in found if branch["when"]["ended"].keys() == ended.keys()]

    def distance(branch: Mapping[str, Any]) -> float:
        spans = branch["when"]["ended"].items()
        return max((max(low - ended[name], ended[name] - high) for name, (low, high) in spans), default=0)

    return min(alike, key=distance, default=None)


def branch_words(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the most frequent branches as sentences."""
    lines = []
    for branch in found[:_SHOWN]:
        lines.append(f"{ended_words(branch['when']['ended'])} ({100 * branch['share']:.0f} %):")
        lines += [f"  queue {name}: {queue_words(measures)}" for name, measures in branch["queues"].items()]
    more = len(found) - _SHOWN
    return lines + [f"… and {more} rarer branches; --json prints them all"] * (more > 0)


def ended_words(ended: Mapping[str, Interval]) -> str:
    """Return whose sessions die, and when.

    >>> ended_words({}), ended_words({"p1": [7.0, 7.12]})
    ('every session lives', 'p1 dies at 7 to 7.12 s')
    """
    spans = [(name, *(f"{time:.3g}" for time in span)) for name, span in ended.items()]
    parts = [f"{name} dies at {low}{f' to {high}' * (low != high)} s" for name, low, high in spans]
    return " and ".join(parts) or "every session lives"
