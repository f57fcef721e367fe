"""Intervals: how sure a prediction is.

Two recordings of the same workload have two results.  What differs is chance: how fast the machine is that
day, when and how often it has other work to do, which of two things that happen at almost the same time is
first, in which order services of different length come.  Replays vary exactly that
(:func:`qflow.prediction.replays.vary_chance`), so of n replays and one more recording each is as likely as
any other to be the smallest, the second smallest, and so on.  Between the k-th smallest and the k-th largest
of n lies the next one in n + 1 - 2 k of n + 1 cases; where k is no whole number, between two of them.

Depths are recorded by what the broker reports now and then, so in replays they are measured that way, too.

What no replay varies is the model's own error: what :data:`MODEL` says is added on both sides.  It is what
remains of the given recordings' differences.  As an interval is wider by that, fewer of the replays need lie
in it: k is chosen so that :data:`REPLAYS_HOLD` do, with which 80 of 100 recordings do (``python -m pytest -m
calibration``, which also says how often intervals hold with what the other recordings alone say).

A queue whose interval is wider than half the value is *near-critical*: no longer observation of the same kind
makes such a prediction much better, because so little decides.  :func:`why_near_critical` says what that is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any

from qflow.prediction.replays import CHANCE, MeasuredReplay
from qflow.workload.measures import Measures
from qflow.workload.model import Producer, Workload

COVER = 0.8
"""The share of recordings that an interval is to hold."""

REPLAYS_HOLD = 0.7
"""The share of replays that an interval is to hold before the model's own error is added."""

MODEL: dict[str, tuple[float, float]] = {
    "mean_depth": (0.0025, 0.0),
    "max_depth": (0.005, 0.0),
    "share_on": (0.0075, 0.0),
    "throughput": (0.0025, 0.0),
}
"""By what share of itself, and by how much more, a measure may be off beyond what replays vary."""

_COUNTS = ("max_depth", "flowStoppedCount", "discards")
"""Measures that are whole numbers."""

_ALIKE = 0.1
"""Rates that differ by less than this share are alike: a queue between them fills and empties by chance."""

Interval = list[float]


def interval(
    measure: str,
    values: Sequence[float],
    hold: float = REPLAYS_HOLD,
    model: Mapping[str, tuple[float, float]] | None = None,
) -> Interval:
    """Return between what a measure will lie: so many of its replays, and the model's own error beside them.

    >>> interval("flowStoppedCount", [20, 21, 21, 23, 30])
    [20, 30]
    >>> interval("throughput", [200.0 + n for n in range(19)])
    [201.495, 216.54]
    """
    ordered = sorted(values)
    # A share such as 0.7 is a little more or less than that in binary.
    place = max(1.0, round((1 - hold) / 2 * (len(ordered) + 1), 6))
    k, part = int(place), place % 1
    low, high = (
        own[k - 1] + part * (own[min(k, len(own) - 1)] - own[k - 1]) for own in (ordered, ordered[::-1])
    )
    share, more = (MODEL if model is None else model).get(measure, (0.0, 0.0))
    low, high = max(0.0, low - share * low - more), high + share * high + more
    if measure == "share_on":
        return [low, min(1.0, high)]
    return [floor(low), ceil(high)] if measure in _COUNTS else [low, high]


def queue_intervals(
    replays: Sequence[MeasuredReplay], shown: MeasuredReplay
) -> dict[str, dict[str, Interval]]:
    """Return the interval of every measure of every queue; none of a single replay."""
    if len(replays) < 2:
        return {}
    # Where replays end in several ways the rarer ones are the tails, which must not be cut off.
    hold = REPLAYS_HOLD if len({replay.ended for replay in replays}) == 1 else COVER
    found: dict[str, dict[str, Interval]] = {}
    for name, measures in shown.sections["queues"].items():
        found[name] = {}
        for measure, value in measures.items():
            low, high = interval(measure, [replay.measure(name, measure) for replay in replays], hold)
            found[name][measure] = [min(low, value or 0), max(high, value or 0)]
    return found


def course_interval(
    replays: Sequence[MeasuredReplay], shown: MeasuredReplay, queue: str, seconds: float
) -> dict[str, list[float]]:
    """Return a queue's depth over time: until which second, and the depth in the replay that is shown."""
    depth = [float(messages) for messages in shown.courses.get(queue, ())]
    bounds = [
        interval("depth", depths, COVER)
        for depths in zip(*(replay.courses.get(queue, ()) for replay in replays), strict=True)
        if len(replays) > 1
    ]
    return {
        "seconds": [seconds * (part + 1) / len(depth) for part in range(len(depth))],
        "depth": depth,
        "low": [low for low, _ in bounds],
        "high": [high for _, high in bounds],
    }


def deaths(replays: Sequence[MeasuredReplay], client: str) -> dict[str, Any]:
    """Return in what share of replays a client's session ended, and when: ``dies``, ``dies_at``."""
    times = sorted(replay.ended_at[client] for replay in replays if client in replay.ended_at)
    share = sum(client in replay.errors for replay in replays) / len(replays)
    return {"dies": share, "dies_at": [times[0], times[-1]] if times else None}


def _is_wide(measure: str, value: float, found: Interval) -> bool:
    """Return whether an interval is wider than half the value, and than what is little of it anyway.

    >>> _is_wide("mean_depth", 60.0, [40.0, 80.0]), _is_wide("flowStoppedCount", 1, [0, 2])
    (True, False)
    """
    width = found[1] - found[0]
    return width > value / 2 and width > 2 * CHANCE[measure][1]


def why_near_critical(
    workload: Workload,
    queue: str,
    predicted: Measures,
    found: Mapping[str, Interval],
    replays: Sequence[MeasuredReplay],
) -> str | None:
    """Return why a queue's intervals are wide; None if they are not.

    >>> workload = Workload("w", 1, {"q": {}})
    >>> why_near_critical(workload, "q", {"mean_depth": 9.0}, {"mean_depth": [8.5, 9.5]}, [])
    >>> why_near_critical(workload, "q", {"mean_depth": 9.0}, {"mean_depth": [2.0, 29.0]}, [])
    'mean_depth: little decides, and each time otherwise'
    """
    wide = [
        measure
        for measure in CHANCE
        if measure in found and _is_wide(measure, float(predicted[measure] or 0), found[measure])
    ]
    if not wide:
        return None
    senders = [producer.name for producer in workload.producers if queue in _destinations(workload, producer)]
    ended = [sum(name in replay.errors for replay in replays) for name in senders]
    what = ", ".join(wide)
    if any(0 < number < len(replays) for number in ended):
        times = [
            f"{name}'s in {number} of {len(replays)}" for name, number in zip(senders, ended, strict=True)
        ]
        return f"{what}: sessions end in some replays and not in others: {', '.join(times)}"
    rates = _rates(workload, queue, replays)
    if rates is not None and abs(rates[1] / rates[0] - 1) < _ALIKE:
        percent = round(100 * (rates[1] / rates[0] - 1))
        order = f"{abs(percent)} % {'faster' if percent > 0 else 'slower'} than" if percent else "as fast as"
        return f"{what}: consumers are {order} producers: the depth is a random walk"
    return f"{what}: little decides, and each time otherwise"


def _destinations(workload: Workload, producer: Producer) -> set[str]:
    exchange, key = producer.to
    if not exchange:
        return {key}
    return {
        queue for bound, queue, binding in workload.binds if bound == exchange and binding in ("", "#", key)
    }


def _rates(workload: Workload, queue: str, replays: Sequence[MeasuredReplay]) -> tuple[float, float] | None:
    """Return how many messages a second fall due for a queue, and how many its consumers could take."""
    offered = sum(
        _arrival_rate(producer, workload.duration)
        for producer in workload.producers
        if queue in _destinations(workload, producer)
    )
    busy = [replay.sections["queues"][queue].get("throughput") for replay in replays]
    filled = [replay.filled.get(queue, 0.0) for replay in replays]
    if not offered or not replays or not sum(filled):
        return None
    return offered, sum(float(rate or 0) for rate in busy) / sum(filled)


def _arrival_rate(producer: Producer, duration: float) -> float:
    if producer.arrival == "recorded":
        return len(producer.recorded) / duration
    on, off = producer.burst or (1, 0)
    return producer.rate * on / (on + off)


# In words


def in_words(report: Mapping[str, Any]) -> list[str]:
    """Return how sure a prediction is, as sentences.

    >>> entry = {"predicted": {"mean_depth": 155.0}, "interval": {"mean_depth": [150.0, 162.0]},
    ...     "near_critical": None}
    >>> producer = {"predicted": {}, "dies": 0.3, "dies_at": [4.0, 21.0]}
    >>> report = {"queues": {"q": entry}, "producers": {"p": producer}, "replays": {"number": 10}}
    >>> for line in in_words(report):
    ...     print(line)
    queue q: on average between 150 and 162 messages
    producer p: its session dies in 3 of 10 replays, after 4 to 21 s
    """
    lines: list[str] = []
    number = report["replays"]["number"]
    for name, entry in report["queues"].items():
        found = entry.get("interval") or {}
        if found:
            lines.append(f"queue {name}: {queue_words(found)}")
        if entry.get("near_critical"):
            lines.append(f"queue {name} is near-critical in {entry['near_critical']}")
        if entry.get("near_limit"):
            lines.append(
                f"queue {name} comes within 5 % of its limit in {round(entry['near_limit'] * number)} of "
                f"{number} replays: a few messages more at once end a session"
            )
    for name, entry in report["producers"].items():
        if entry.get("dies"):
            first, last = entry["dies_at"]
            times = f"{first:.3g} s" if first == last else f"{first:.3g} to {last:.3g} s"
            lines.append(
                f"producer {name}: its session dies in {round(entry['dies'] * number)} of {number} replays, "
                f"after {times}"
            )
    return lines


def queue_words(found: Mapping[str, Interval]) -> str:
    """Return the intervals of a queue in words."""
    parts = [_part(measure, found[measure]) for measure in CHANCE if measure in found]
    return ", ".join(part for part in parts if part)


def _part(measure: str, found: Interval) -> str:
    low, high = found
    if measure == "share_on":
        return "never ON" if high == 0 else f"ON between {100 * low:.3g} and {100 * high:.3g} % of the time"
    if measure == "flowStoppedCount":
        return "" if high == 0 else f"{low:.0f} to {high:.0f} stops"
    unit = (
        "on average between {} and {} messages" if measure == "mean_depth" else "{} to {} accepted a second"
    )
    return unit.format(f"{low:.4g}", f"{high:.4g}")
