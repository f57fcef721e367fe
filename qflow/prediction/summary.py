"""Summary: the prediction from all replays, with intervals; and receipts, which a later log scores.

Two recordings of the same workload have two results.  They differ by chance: how fast the machine is that
day, when and how often it has other work to do, which of two things that happen at almost the same time is
first, in which order services of different length come.  Replays vary exactly that
(:func:`qflow.prediction.replays.vary_chance`), so of n replays and one more recording each is as likely as
any other to be the smallest, the second smallest, and so on.  The next one lies between the k-th smallest and
the k-th largest of n in n + 1 - 2 k of n + 1 cases; where k is no whole number, the interval is interpolated.

Depths are recorded by the broker's reports, so in replays they are measured in the same way.

Nothing is added for the model's own error.  ``python -m pytest -m calibration`` measures how many recorded
values lie inside, and so does a test on logs of an independent simulator.

A measure is a **bound** in place of an interval where the log does not show the demand, and it matters: its
lower end is of the least demand that fits the log, its upper end of the most.  It is a bound, too, where a
queue comes near its limit: then it holds whether and whenever a session ends there.

A queue whose interval is wider than half the value is *near-critical*: no longer observation of the same kind
makes such a prediction much better, because so little decides.  :func:`_why_near_critical` gives the reason.

Where a session ends in some replays and lives in others, one interval over both says little: a queue whose
producer died early is empty half of the time.  So replays are split into **branches**, by the sessions that
ended, and by when.  A session dies in a few instants only, those at which arrivals bring the queue near its
limit, and until then its queue is as before: over the whole time a measure is nearly a straight line of
the time of death.  That line is fitted to all replays in which the same sessions ended; their residuals, and
the instant, give the interval of a branch, even of a rare one.

A **receipt** is written before a change: a JSON file with the workload as it will be set up, the log by its
hash, the intervals and the branches.  A log recorded afterwards is compared with it (:func:`score`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, inf
from statistics import linear_regression, median
from typing import Any

from qflow.broker.flow_limit import FlowThresholds
from qflow.broker.settings import QueueSettings
from qflow.logs.client_log import ClientLog
from qflow.logs.components import routes_of
from qflow.prediction.client_model import LogModel
from qflow.prediction.replays import CHANCE, FEWEST, Answer, MeasuredReplay, account, recorded_sections
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import require
from qflow.workload.measures import Measures, measure_text
from qflow.workload.model import Producer, Workload

_COVER = 0.8
"""The share of recordings that an interval is to hold."""

_COUNTS = ("max_depth", "flowStoppedCount", "discards")
"""Measures that are whole numbers."""

_ALIKE = 0.1
"""Rates that differ by less than this share are alike: a queue between them fills and empties by chance."""

Interval = list[float]

SECTIONS = ("queues", "producers", "consumers")


def summary_of(
    answer: Answer,
    recorded: Mapping[str, Mapping[str, Measures]],
    workload: Workload,
    misfits: Mapping[tuple[str, str], str],
) -> dict[str, Any]:
    """Return each measure as recorded and as predicted, its interval, and how sure the replays are."""
    found: dict[str, Any] = {section: {} for section in SECTIONS}
    for section, measures in answer.shown.sections.items():
        known = intervals(answer, section)
        for name, predicted in measures.items():
            before = recorded[section].get(name)
            entry: dict[str, Any] = {
                "recorded": before,
                "predicted": predicted,
                "difference": _less(predicted, before),
            }
            if section != "consumers":
                entry |= {"interval": known[name], "kinds": kinds_of(answer, section, name)}
            entry["misfit"] = misfits.get((section, name))
            if entry["misfit"]:
                entry |= {"interval": {}, "kinds": dict.fromkeys(predicted, "unknown")}
            found[section][name] = entry
    runs = answer.runs
    for name, entry in found["queues"].items():
        entry["course"] = _course_interval(runs, answer.shown, name, workload.duration)
        entry["thresholds"] = _thresholds(workload, name)
        # The ends of a bound are far apart because the demand is unknown. That is no chance.
        entry["near_critical"] = (
            None
            if answer.bounds or answer.ended
            else _why_near_critical(workload, name, entry["predicted"], entry["interval"], runs)
        )
        near = [run.near[name] for run in runs if name in run.near]
        entry["near_limit"] = len(near) / len(runs)
        entry["ends_from"] = min(near) if near and answer.ended else None
    for name, entry in found["producers"].items():
        entry.update(deaths(runs, name))
    errors = dict(answer.shown.errors)
    return found | {"errors": errors, "replays": account(runs), "branches": branches(runs)}


_MISFIT, _FEW = 0.2, 10
"""A model does not explain a log if it carries that share fewer or more messages, and that many at least."""


def find_misfits(
    replays: Sequence[MeasuredReplay], recorded: Mapping[str, Mapping[str, Measures]], behind: LogModel
) -> dict[tuple[str, str], str]:
    """Return the queues and producers of which replays of the recorded settings miss the log, in words."""
    # What decides there is not in the model, such as which of several consumers gets a group that is free:
    # no interval over its replays means anything.  Where sessions end, other instants explain a difference,
    # and of a log that ends early replays go on.
    has_ended = any(replay.errors for replay in replays) or any(
        row.event == "error" for row in behind.log.rows
    )
    if has_ended or behind.span.is_short(behind.end):
        return {}
    found: dict[tuple[str, str], str] = {}
    rates = [_rates(replay.sections, behind.workload) for replay in replays]
    for place, rate in _rates(recorded, behind.workload).items():
        replayed = median(own[place] for own in rates)
        if abs(rate - replayed) > max(_MISFIT * max(rate, replayed), _FEW / behind.workload.duration):
            found[place] = (
                f"{replayed:.4g} messages/s in replays of the recorded settings, {rate:.4g} in the log"
            )
    readers = {item.name: found.get(("queues", item.queue), "") for item in behind.workload.consumers}
    return found | {("consumers", name): why for name, why in readers.items() if why}


def _rates(
    sections: Mapping[str, Mapping[str, Measures]], workload: Workload
) -> dict[tuple[str, str], float]:
    """Return messages a second that producers sent, and that consumers accepted from each queue."""
    consumers = [item for item in workload.consumers if item.name in sections["consumers"]]
    found = {("queues", item.queue): 0.0 for item in consumers}
    for item in consumers:
        found["queues", item.queue] += sections["consumers"][item.name]["throughput"] or 0
    sent = {("producers", name): one["throughput"] or 0.0 for name, one in sections["producers"].items()}
    return found | sent


def _less(measures: Measures, other: Measures | None) -> Measures | None:
    if other is None:
        return None
    pairs = ((name, value, other.get(name)) for name, value in measures.items())
    return {name: None if value is None or less is None else value - less for name, value, less in pairs}


def _thresholds(workload: Workload, queue: str) -> dict[str, int]:
    """Return the limit, stop and resume of a queue in messages; 0 for none."""
    settings = QueueSettings.from_arguments(workload.queues[queue])
    found = FlowThresholds.of(queue, settings, workload.options)
    return {
        "limit": settings.max_count,
        "stop": found.stop_count if found else 0,
        # A resume level without a stop is ignored by the broker (FC-02).
        "resume": found.resume_count if found and found.stop_count else 0,
    }


def interval(measure: str, values: Sequence[float], cover: float = _COVER) -> Interval:
    """Return the prediction interval of a measure at coverage ``cover``, given the values of replays."""
    ordered = sorted(values)
    # A share such as 0.8 is a little more or less than that in binary.
    place = max(1.0, round((1 - cover) / 2 * (len(ordered) + 1), 6))
    k, part = int(place), place % 1
    low, high = (
        own[k - 1] + part * (own[min(k, len(own) - 1)] - own[k - 1]) for own in (ordered, ordered[::-1])
    )
    # The fitted line of a branch may leave the range of its measure: below 0, or above a share of 1.
    low, high = max(0.0, low), min(high, 1.0 if measure == "share_on" else inf)
    # Counts are rounded outwards: no recording can be between two whole numbers.
    return [floor(low), ceil(high)] if measure in _COUNTS else [low, high]


def intervals(answer: Answer, section: str) -> dict[str, dict[str, Interval]]:
    """Return the interval of every measure of every queue or producer; none of a single replay."""
    found: dict[str, dict[str, Interval]] = {}
    for name, measures in answer.shown.sections[section].items():
        found[name] = {}
        for measure, value in measures.items():
            values = [
                [known for run in runs if (known := run.value(section, name, measure)) is not None]
                for runs in answer.sets
            ]
            # With bounds there are two sets of replays, of the least and of the most demand: each gives a
            # span, and the bound is their union.
            # Where sessions end in some replays only, the least and the most of all are the bound.
            is_open = answer.bounds and len({run.ended for run in answer.runs}) > 1
            cover = 1.0 if answer.ended or is_open else _COVER
            spans = [interval(measure, own, cover) for own in values if own and len(answer.runs) > 1]
            if spans:
                low, high = min(low for low, _ in spans), max(high for _, high in spans)
                # The value shown is of the middle replay of the most frequent end, which need not be in the
                # middle of all. A reader sees it beside the interval, so the interval is widened to it.
                found[name][measure] = [min(low, value or 0), max(high, value or 0)]
    return found


def kinds_of(answer: Answer, section: str, name: str) -> dict[str, str]:
    """Return the kind of each measure: an interval or, as demand or the end of a session decides, a bound."""
    found: dict[str, str] = {}
    for measure in answer.shown.sections[section][name]:
        middles = [median(run.value(section, name, measure) or 0 for run in runs) for runs in answer.sets]
        # The same tolerance as between replays: a demand that moves the median by less does not matter.
        share, least = CHANCE.get(measure, (0.05, 0.01))
        is_bound = max(middles) - min(middles) > max(least, share * max(middles))
        found[measure] = "bound" if is_bound else "interval"
    return found


def demand_words(report: Mapping[str, Any]) -> list[str]:
    """Return the demands that the log does not show, and a way to settle them, as sentences."""
    lines = []
    for name, demand in report["demand"].items():
        if not demand["known"]:
            lines.append(
                f"demand of {name}: at least {demand['at_least']:.4g} messages/s; {demand['why']}: the log "
                "does not show what it wanted to send meanwhile (censored demand)"
            )
    if lines and report["is_bound"]:
        names = " ".join(f"--demand {name}=N/s" for name, one in report["demand"].items() if not one["known"])
        lines.append(
            f"what follows is a bound, for the demand decides: {names} settles it, or a log with a spell "
            "without blocking"
        )
    return lines


def _course_interval(
    replays: Sequence[MeasuredReplay], shown: MeasuredReplay, queue: str, seconds: float
) -> dict[str, list[float]]:
    """Return a queue's depth over time: the seconds, the depth in the replay shown, and its interval."""
    depth = [float(messages) for messages in shown.courses.get(queue, ())]
    bounds = [
        interval("depth", depths)
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
    """Return the share of replays in which a client's session ended, and the times: ``dies``, ``dies_at``."""
    times = sorted(replay.ended_at[client] for replay in replays if client in replay.ended_at)
    share = sum(client in replay.errors for replay in replays) / len(replays)
    return {"dies": share, "dies_at": [times[0], times[-1]] if times else None}


def _is_wide(measure: str, value: float, found: Interval) -> bool:
    """Return whether an interval is wider than half the value, and than a small difference.

    >>> _is_wide("mean_depth", 60.0, [40.0, 80.0]), _is_wide("flowStoppedCount", 1, [0, 2])
    (True, False)
    """
    width = found[1] - found[0]
    # Half of a small value is next to nothing: 0 to 2 stops around 1 would be near-critical.
    return width > value / 2 and width > 2 * CHANCE[measure][1]


def _why_near_critical(
    workload: Workload,
    queue: str,
    predicted: Measures,
    found: Mapping[str, Interval],
    replays: Sequence[MeasuredReplay],
) -> str | None:
    """Return the reason for a queue's wide intervals; None if they are not wide."""
    wide = [
        measure
        for measure in CHANCE
        if measure in found and _is_wide(measure, float(predicted[measure] or 0), found[measure])
    ]
    if not wide:
        return None
    routes = routes_of(workload)
    senders = [producer for producer in workload.producers if (producer.name, queue) in routes]
    ended = {sender.name: sum(sender.name in replay.errors for replay in replays) for sender in senders}
    what = ", ".join(wide)
    if any(0 < number < len(replays) for number in ended.values()):
        times = [f"{name}'s in {number} of {len(replays)}" for name, number in ended.items()]
        return f"{what}: sessions end in some replays and not in others: {', '.join(times)}"
    # The consumers' capacity is the throughput while the queue held messages: over the whole time a queue
    # that is often empty shows the producers' rate instead.
    offered = sum(_arrival_rate(sender, workload.duration) for sender in senders)
    busy = sum(float(replay.sections["queues"][queue].get("throughput") or 0) for replay in replays)
    filled = sum(replay.filled.get(queue, 0.0) for replay in replays)
    more = busy / filled / offered - 1 if offered and filled else inf
    if abs(more) < _ALIKE:
        percent = round(100 * more)
        order = f"{abs(percent)} % {'faster' if percent > 0 else 'slower'} than" if percent else "as fast as"
        return f"{what}: consumers are {order} producers: the depth is a random walk"
    return f"{what}: little decides, and each time otherwise"


def _arrival_rate(producer: Producer, duration: float) -> float:
    if producer.arrival == "recorded":
        return len(producer.recorded) / duration
    on, off = producer.burst or (1, 0)
    return producer.rate * on / (on + off)


# Branches

_TOGETHER = 1.1
"""Limit on the time of the last death of a branch, as a multiple of that of the first."""


def branches(replays: Sequence[MeasuredReplay]) -> list[dict[str, Any]]:
    """Return the branches, the most frequent first; none where all replays end alike."""
    groups: dict[tuple[str, ...], list[MeasuredReplay]] = {}
    # By time of death, so that neighbours form a branch: where the next is over a tenth later, a new one
    # begins.
    for replay in sorted(replays, key=_end):
        groups.setdefault(replay.ended, []).append(replay)
    found = []
    for ended, alike in groups.items() if len(groups) > 1 else ():
        left = list(alike)
        while left:
            runs = [replay for replay in left if _end(replay) <= _TOGETHER * _end(left[0])]
            del left[: len(runs)]
            span = [_end(runs[0]), _end(runs[-1])]
            times = {name: sorted(run.ended_at.get(name, 0.0) for run in runs) for name in ended}
            found.append(
                {
                    "share": len(runs) / len(replays),
                    "replays": len(runs),
                    "when": {"ended": {name: [own[0], own[-1]] for name, own in times.items()}},
                    # From all replays with these deaths, not from the branch's few: the fitted line moves the
                    # others to its instant.
                    "queues": _branch_intervals(alike, "queues", span),
                    "producers": _branch_intervals(alike, "producers", span),
                }
            )
    return sorted(found, key=lambda branch: -branch["replays"])


def _is_of_branch(branch: Mapping[str, Any], ended: Mapping[str, float]) -> bool:
    """Return whether sessions ended when they do in a branch, or nearly so."""
    spans = branch["when"]["ended"].items()
    return all(low / _TOGETHER <= ended[name] <= high * _TOGETHER for name, (low, high) in spans)


def _end(replay: MeasuredReplay) -> float:
    """Return the time at which the first session ended."""
    return min(replay.ended_at.values(), default=0.0)


def _branch_intervals(
    replays: Sequence[MeasuredReplay], section: str, span: Interval
) -> dict[str, dict[str, Interval]]:
    found: dict[str, dict[str, Interval]] = {}
    for name, measures in replays[0].sections[section].items():
        found[name] = {}
        for measure in measures:
            values = [(_end(replay), replay.value(section, name, measure)) for replay in replays]
            points = [(time, value) for time, value in values if value is not None]
            if points:
                found[name][measure] = interval(measure, _values_at(points, span))
    return found


def _values_at(points: Sequence[tuple[float, float]], span: Interval) -> list[float]:
    """Return the measures expected if the session ended at either end of a span.

    >>> _values_at([(t, 2.0 * t) for t in (1.0, 2.0, 3.0, 4.0, 5.0)], [2.0, 2.5])[:2]
    [4.0, 5.0]
    """
    times, values = zip(*points, strict=True)
    # A line fits two points exactly, and leaves no residuals to make an interval of.
    is_line = len(points) >= FEWEST and times[0] != times[-1]
    slope = linear_regression(times, values).slope if is_line else 0.0
    return [value + slope * (time - own) for own, value in points for time in dict.fromkeys(span)]


def _branch_of(found: Sequence[Mapping[str, Any]], ended: Mapping[str, float]) -> Mapping[str, Any] | None:
    """Return the branch that came, given the sessions that ended and when; None if none is like it."""
    alike = [branch for branch in found if branch["when"]["ended"].keys() == ended.keys()]

    # The nearest branch, even if the recorded deaths are outside its span: the score says then that no replay
    # ended so.
    def distance(branch: Mapping[str, Any]) -> float:
        spans = branch["when"]["ended"].items()
        return max((max(low - ended[name], ended[name] - high) for name, (low, high) in spans), default=0)

    return min(alike, key=distance, default=None)


def ended_words(ended: Mapping[str, Interval]) -> str:
    """Return the deaths of sessions in words.

    >>> ended_words({}), ended_words({"p1": [7.0, 7.12]})
    ('every session lives', 'p1 dies at 7 to 7.12 s')
    """
    spans = [(name, *(f"{time:.3g}" for time in span)) for name, span in ended.items()]
    parts = [f"{name} dies at {low}{f' to {high}' * (low != high)} s" for name, low, high in spans]
    return " and ".join(parts) or "every session lives"


# Receipts

_FORMAT = "qflow receipt 1"


def receipt_of(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """Return the receipt of a prediction, for :func:`score`: a mapping ready for JSON.

    >>> from qflow.logs import ClientLog
    >>> from qflow.prediction import predict
    >>> receipt_of(predict(Workload("w", 1, {"q": {}}), ClientLog("w", []), replays=1))["intervals"]
    {'q': {}}
    """
    names = ("inputs", "settings", "model", "detail", "demand", "replays", "branches")
    return {
        "format": _FORMAT,
        **{name: prediction[name] for name in names},
        "intervals": {queue: entry["interval"] for queue, entry in prediction["queues"].items()},
        "dies": {name: entry["dies"] for name, entry in prediction["producers"].items()},
    }


def score(receipt: Mapping[str, Any], log: ClientLog) -> dict[str, Any]:
    """Return the score of a receipt: whether each measure is inside, and the branch that came.

    Parameters:
        receipt: A result of :func:`receipt_of`.
        log: The clients' log after the change.

    Returns:
        A mapping, ready for JSON: ``measures`` lists for each queue and measure what was ``recorded``, the
        interval (``low``, ``high``), and whether it is ``inside``; of the branch that came also
        ``in_branch``.  ``ended`` says which sessions ended, at which second; ``branch`` is the branch that
        came, or None.

    Raises:
        WorkloadError: If it is no receipt.

    >>> score({"format": "?"}, ClientLog("w", []))
    Traceback (most recent call last):
        ...
    qflow.workload.attributes.WorkloadError: score: a receipt must be one that --receipt wrote, got '?'
    """
    kind = receipt.get("format") if isinstance(receipt, Mapping) else receipt
    require(kind == _FORMAT, "score", "a receipt", kind, "one that --receipt wrote")
    workload = Workload.from_json(receipt["inputs"]["workload"])
    recorded = recorded_sections(workload, log, round(workload.duration * SECOND))["queues"]
    # Reversed, so that the first death of a client is the one that remains.
    errors = reversed([row for row in log.rows if row.event == "error"])
    ended = {row.client: row.ts_us / SECOND for row in errors}
    branch = _branch_of(receipt["branches"], ended)
    measures = []
    for queue, intervals in receipt["intervals"].items():
        for measure, (low, high) in intervals.items():
            value = recorded.get(queue, {}).get(measure)
            if value is None:
                continue
            names = {"queue": queue, "measure": measure, "recorded": value, "low": low, "high": high}
            measures.append(names | {"inside": low <= value <= high})
            if branch is not None:
                first, last = branch["queues"][queue][measure]
                measures[-1]["in_branch"] = first <= value <= last
    return {"inputs": receipt["inputs"], "measures": measures, "ended": ended, "branch": branch}


def score_text(found: Mapping[str, Any]) -> str:
    """Return a score as lines of plain text."""
    inputs, measures, branch = found["inputs"], found["measures"], found["branch"]
    title = f"from {inputs['log']['name']}, {inputs['log']['sha256'][:8]}"
    lines = [f"{title:<30}{'recorded':>12}{'low':>12}{'high':>12}"]
    for one in measures:
        words = "".join(f"{measure_text(one[name]):>12}" for name in ("recorded", "low", "high"))
        is_inside = "inside" if one["inside"] else "OUTSIDE"
        lines.append(f"{one['queue']:<12}{one['measure']:<18}{words}  {is_inside}")
    lines.append(f"{sum(one['inside'] for one in measures)} of {len(measures)} are inside; 80 % are expected")
    if branch is not None:
        held = sum(one["in_branch"] for one in measures)
        which, share = ended_words(branch["when"]["ended"]), 100 * branch["share"]
        if not _is_of_branch(branch, found["ended"]):
            came = ended_words({name: [second, second] for name, second in found["ended"].items()})
            which = f"{came}, as in no replay; nearest to that: {which}"
        lines.append(
            f"outcome: {which} (predicted: {share:.0f} %); {held} of {len(measures)} are inside of that"
        )
    return "\n".join(lines)
