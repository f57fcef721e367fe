"""Summary: the prediction intervals from all replays; and receipts, which a later log scores.

Two recordings of the same workload differ by chance: in the speed of the machine that day, in the times and
amount of its other work, in the order of events at almost the same time, and in the order of services of
different length.  Replays vary exactly these (:func:`qflow.prediction.replays.vary_chance`), so among n
replays and one further recording each is equally likely to be the smallest, the second smallest, and so
on.  The recording lies between the k-th smallest and the k-th largest of n replays with probability (n + 1 -
2 k) / (n + 1); for a k that is not a whole number the interval is interpolated.

Depths are recorded in the broker's reports, so replays measure them at report times, too.

The intervals do not include the error of the model itself.  ``python -m pytest -m calibration`` measures how
many recorded values are inside, and so does a test with logs of an independent simulator.

A measure is a **bound** instead of an interval if the log does not show the demand and the demand matters:
its lower end belongs to the least demand that fits the log, its upper end to the most.  It is also a bound if
a queue comes near its limit, and the measure depends on whether a session ends there, and when.  A bound
contains all replays and a margin (:func:`_bound`), as the next recording must not refute "at least" and
"at most".

A queue whose interval is wider than half the value is *near-critical*: a longer observation of the same kind
would hardly improve such a prediction, because small effects decide.  :func:`_why_near_critical` returns the
reason.

If a session ends in some replays and survives in others, one interval for both tells little: a queue whose
producer died early is empty half of the time.  So replays are divided into **branches**, by the sessions that
ended, and by the time.  A session dies only when arrivals bring the queue near its limit, and until then its
queue behaves as before: so a measure over the whole time is nearly a linear function of the time of death.  A
line is fitted to all replays in which the same sessions ended; its residuals, and the time of the branch,
give the interval of a branch, even of a rare one.

A **receipt** is written before a change: a JSON file with the planned workload, the hash of the log, the
intervals and the branches.  A log recorded after the change is compared with it (:func:`score`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
"""The probability with which an interval contains a further recording."""

_COUNTS = ("max_depth", "flowStoppedCount", "discards")
"""Measures that are whole numbers."""

_ALIKE = 0.1
"""Arrival and service rates that differ by less than this share count as equal: the depth is then random."""

ANY_END = "it holds whether a session ends or not, and whenever"
"""The reason for a bound where the demand is known."""

Interval = list[float]

SECTIONS = ("queues", "producers", "consumers")


def summary_of(
    answer: Answer,
    recorded: Mapping[str, Mapping[str, Measures]],
    workload: Workload,
    misfits: Mapping[tuple[str, str], str],
) -> dict[str, Any]:
    """Return each measure as recorded and as predicted, its interval, and the replays' outcomes."""
    found: dict[str, Any] = {section: {} for section in SECTIONS}
    for section, measures in answer.shown.sections.items():
        for name, predicted in measures.items():
            before = recorded[section].get(name)
            entry: dict[str, Any] = {
                "recorded": before,
                "predicted": predicted,
                "difference": _less(predicted, before),
            }
            if section != "consumers":
                entry["interval"], entry["kinds"] = spread_of(answer, section, name)
            entry["misfit"] = misfits.get((section, name))
            if entry["misfit"]:
                entry |= {"interval": {}, "kinds": dict.fromkeys(predicted, "unknown")}
            found[section][name] = entry
    runs = answer.runs
    for name, entry in found["queues"].items():
        entry["course"] = _course_interval(runs, answer.shown, name, workload.duration)
        entry["thresholds"] = _thresholds(workload, name)
        # A bound is wide because of unknown demand or sessions' ends, and not by chance.
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
"""A model misses a log if its rate differs by at least this share, and by this many messages in all."""


def find_misfits(
    replays: Sequence[MeasuredReplay], recorded: Mapping[str, Mapping[str, Measures]], behind: LogModel
) -> dict[tuple[str, str], str]:
    """Return the reason for each queue and client whose recorded rate the model does not reproduce."""
    # The model then lacks the decisive effect, such as which of several consumers gets a free group, and an
    # interval over its replays would be meaningless.  If sessions end, a difference may come from other
    # times of their ends; and if a log ends early, replays continue beyond it.
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
    """Return the messages a second that each producer sent, and that consumers accepted from each queue."""
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
    """Return a queue's limit, stop and resume level in messages; 0 for none."""
    settings = QueueSettings.from_arguments(workload.queues[queue])
    found = FlowThresholds.of(queue, settings, workload.options)
    return {
        "limit": settings.max_count,
        "stop": found.stop_count if found else 0,
        # The broker ignores a resume level without a stop (FC-02).
        "resume": found.resume_count if found and found.stop_count else 0,
    }


def interval(measure: str, values: Sequence[float], cover: float = _COVER) -> Interval:
    """Return the prediction interval of a measure with probability ``cover``, from the values of replays."""
    ordered = sorted(values)
    # Rounded, as a share such as 0.8 is not exact in binary.
    place = max(1.0, round((1 - cover) / 2 * (len(ordered) + 1), 6))
    k, part = int(place), place % 1
    low, high = (
        own[k - 1] + part * (own[min(k, len(own) - 1)] - own[k - 1]) for own in (ordered, ordered[::-1])
    )
    return _within(measure, low, high)


def _bound(measure: str, values: Sequence[float]) -> Interval:
    """Return the interval of a measure that nearly all further replays lie in."""
    # One further replay is beyond the outermost of n with probability 2 / (n + 1), and usually by little: the
    # margin is twice the mean gap between neighbours.
    margin = 2 * (max(values) - min(values)) / max(1, len(values) - 1)
    return _within(measure, min(values) - margin, max(values) + margin)


def _within(measure: str, low: float, high: float) -> Interval:
    """Return an interval within the range of its measure."""
    # The margin of a bound and the fitted line of a branch may leave it: below 0, or a share above 1.
    low, high = max(0.0, low), min(high, 1.0 if measure.endswith(("share", "share_on")) else inf)
    # Counts are rounded outwards, as recordings have whole numbers.
    return [floor(low), ceil(high)] if measure in _COUNTS else [low, high]


def _values(runs: Sequence[MeasuredReplay], *place: str) -> list[float]:
    """Return a measure in each replay that has it, by section, name and measure."""
    return [value for run in runs if (value := run.value(*place)) is not None]


def _union(spans: Iterable[Interval]) -> tuple[float, float]:
    lows, highs = zip(*spans, strict=True)
    return min(lows), max(highs)


def spread_of(answer: Answer, section: str, name: str) -> tuple[dict[str, Interval], dict[str, str]]:
    """Return the intervals of a queue's or producer's measures, and the kinds: "interval" or "bound"."""
    found: dict[str, Interval] = {}
    kinds: dict[str, str] = {}
    # If sessions end in some replays only, a measure is a bound if that makes it wider than the interval of
    # the replays alone.
    is_open = bool(answer.ended or (answer.bounds and len({run.ended for run in answer.runs}) > 1))
    for measure, value in answer.shown.sections[section][name].items():
        sets = [_values(runs, section, name, measure) for runs in answer.sets]
        middles = [median(values or [0.0]) for values in sets]
        # The same tolerance as between replays: a demand that moves the median by less does not matter.
        share, least = CHANCE.get(measure, (0.05, 0.01))
        is_bound = max(middles) - min(middles) > max(least, share * max(middles))
        known = list(filter(None, sets)) if len(answer.runs) > 1 else []
        if known:
            low, high = _union(_bound(measure, values) for values in known)
            if is_open and not is_bound:
                usual = interval(measure, _values(answer.runs, section, name, measure) or [low, high])
                is_bound = max(usual[0] - low, high - usual[1]) > max(least, share * usual[1])
            if not is_bound:
                low, high = _union(interval(measure, values) for values in known)
            # The value shown is of the middle replay of the most frequent end, which need not be in the
            # middle of all. A reader sees it beside the interval, so the interval is widened to it.
            found[measure] = [min(low, value or 0), max(high, value or 0)]
        kinds[measure] = "bound" if is_bound else "interval"
    return found, kinds


def demand_words(report: Mapping[str, Any]) -> list[str]:
    """Return sentences about the demands that the log does not show, and about ways to settle them."""
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
    """Return the share of replays in which a client's session ended (``dies``), and when (``dies_at``)."""
    times = sorted(replay.ended_at[client] for replay in replays if client in replay.ended_at)
    share = sum(client in replay.errors for replay in replays) / len(replays)
    return {"dies": share, "dies_at": [times[0], times[-1]] if times else None}


def _is_wide(measure: str, value: float, found: Interval) -> bool:
    """Return whether an interval is wider than half the value, and than a small difference.

    >>> _is_wide("mean_depth", 60.0, [40.0, 80.0]), _is_wide("flowStoppedCount", 1, [0, 2])
    (True, False)
    """
    width = found[1] - found[0]
    # Otherwise an interval of 0 to 2 stops around 1 would be near-critical.
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
    # The consumers' service rate is the throughput while the queue has messages: over the whole time the
    # throughput of a queue that is often empty is the producers' rate instead.
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
"""The greatest ratio between the latest and the earliest time of death in a branch."""


def branches(replays: Sequence[MeasuredReplay]) -> list[dict[str, Any]]:
    """Return the branches, the most frequent first; none if all replays have the same outcome."""
    groups: dict[tuple[str, ...], list[MeasuredReplay]] = {}
    # Sorted by time of death, so that neighbours form a branch: a death more than a tenth later than the
    # branch's first begins a new one.
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
                    # From all replays with these deaths, not only the branch's few: the fitted line moves the
                    # others to the branch's time.
                    "queues": _branch_intervals(alike, "queues", span),
                    "producers": _branch_intervals(alike, "producers", span),
                }
            )
    return sorted(found, key=lambda branch: -branch["replays"])


def _is_of_branch(branch: Mapping[str, Any], ended: Mapping[str, float]) -> bool:
    """Return whether sessions ended at the times of a branch, or nearly so."""
    spans = branch["when"]["ended"].items()
    return all(low / _TOGETHER <= ended[name] <= high * _TOGETHER for name, (low, high) in spans)


def _end(replay: MeasuredReplay) -> float:
    """Return the time at which the first session of a replay ended; 0 if none did."""
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
    """Return the values of a measure if the session had ended at either end of a span.

    >>> _values_at([(t, 2.0 * t) for t in (1.0, 2.0, 3.0, 4.0, 5.0)], [2.0, 2.5])[:2]
    [4.0, 5.0]
    """
    times, values = zip(*points, strict=True)
    # A line fits two points exactly, and leaves no residuals for an interval.
    is_line = len(points) >= FEWEST and times[0] != times[-1]
    slope = linear_regression(times, values).slope if is_line else 0.0
    return [value + slope * (time - own) for own, value in points for time in dict.fromkeys(span)]


def _branch_of(found: Sequence[Mapping[str, Any]], ended: Mapping[str, float]) -> Mapping[str, Any] | None:
    """Return the nearest branch in which the same sessions ended, or None."""
    alike = [branch for branch in found if branch["when"]["ended"].keys() == ended.keys()]

    # The nearest branch counts even if the recorded deaths are outside its span: the score then tells that no
    # replay had this outcome.
    def distance(branch: Mapping[str, Any]) -> float:
        spans = branch["when"]["ended"].items()
        return max((max(low - ended[name], ended[name] - high) for name, (low, high) in spans), default=0)

    return min(alike, key=distance, default=None)


def ended_words(ended: Mapping[str, Interval]) -> str:
    """Return the ends of sessions as text.

    >>> ended_words({}), ended_words({"p1": [7.0, 7.12]})
    ('every session lives', 'p1 dies at 7 to 7.12 s')
    """
    spans = [(name, *(f"{time:.3g}" for time in span)) for name, span in ended.items()]
    parts = [f"{name} dies at {low}{f' to {high}' * (low != high)} s" for name, low, high in spans]
    return " and ".join(parts) or "every session lives"


# Receipts

_FORMAT = "qflow receipt 1"


def receipt_of(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """Return the receipt of a prediction for :func:`score`, as a JSON value.

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
    """Return the score of a receipt: whether each measure is inside its interval, and the actual branch.

    Parameters:
        receipt: A result of :func:`receipt_of`.
        log: The clients' log after the change.

    Returns:
        A mapping of JSON values. ``measures`` has an entry for each queue and measure: the ``recorded``
        value, the interval (``low``, ``high``), whether the value is ``inside``, and ``in_branch``, whether
        it is inside the interval of the actual branch. ``ended`` maps clients to the second at which their
        session ended; ``branch`` is the predicted branch nearest to these ends, or None.

    Raises:
        WorkloadError: If ``receipt`` is not a receipt.

    >>> score({"format": "?"}, ClientLog("w", []))
    Traceback (most recent call last):
        ...
    qflow.workload.attributes.WorkloadError: score: a receipt must be one that --receipt wrote, got '?'
    """
    kind = receipt.get("format") if isinstance(receipt, Mapping) else receipt
    require(kind == _FORMAT, "score", "a receipt", kind, "one that --receipt wrote")
    workload = Workload.from_json(receipt["inputs"]["workload"])
    recorded = recorded_sections(workload, log, round(workload.duration * SECOND))["queues"]
    # Reversed, so that a client's first error remains in the dictionary.
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
