"""Report: a prediction as text, beginning with the limits of its log.

The report begins with everything that makes the numbers below doubtful: thresholds that the log contradicts,
times without rows, and demand that the log does not show.  Then each queue and client has its measures as
recorded and as predicted.  Intervals and bounds follow, the reasons for wide ones, and the branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qflow.prediction.replays import CHANCE
from qflow.prediction.summary import ANY_END, SECTIONS, Interval, demand_words, ended_words
from qflow.workload.measures import measure_text, unit_of

_SHOWN = 4
"""The most branches that are printed."""

_LONG_SILENCE = 1.0
"""A longer time in seconds without rows or reports is mentioned; usually there are many a second."""


def report_text(report: Mapping[str, Any]) -> str:
    """Return a report of :func:`qflow.prediction.predict` as plain text."""
    lines = []
    if report["contradiction"]:
        advice = "" if report["inferred"] else "; --infer reads others from the log"
        lines.append(
            f"the log contradicts the thresholds of the workload, on which what follows rests: "
            f"{report['contradiction']}{advice}"
        )
    lines += (report["inferred"] or {}).get("sentences", [])
    lines += [
        f"{report['workload']}: {report['seconds']:g} s, {report['model']} model ({report['model_chosen']})"
    ]
    lines += [*_span_words(report), *demand_words(report)]
    silence = report["longest_silence"] or 0
    if silence >= _LONG_SILENCE:
        lines.append(
            f"the broker reported nothing for up to {silence:.1f} s: recorded depths are rough there"
        )
    left_out = report["settings"]["left_out"]
    if left_out:
        lines.append(f"left as they are, for only one of the two files has them: {', '.join(left_out)}")
    for section in SECTIONS:
        for name, entry in report[section].items():
            title = f"{section.removesuffix('s')} {name}"
            lines.append(f"{title:<24}{'recorded':>12}{'predicted':>12}{'difference':>12}")
            lines += _rows(entry)
    lines += [f"{client} ended by {error}" for client, error in report["errors"].items()]
    lines += _replays_text(report)
    return "\n".join(lines)


def _replays_text(report: Mapping[str, Any]) -> list[str]:
    """Return the spread of a prediction as lines; none for a single replay."""
    number = report["replays"]["number"]
    if number == 1:
        return []
    which = "half of the least demand, half of the most:"
    if not report["is_bound"]:
        which = "shown is one of the most frequent end:"
    lines = [f"{number} replays, each with another chance; {which}"]
    for outcome in report["replays"]["outcomes"]:
        who = " and ".join(outcome["ended"])
        lines.append(
            f"  in {outcome['replays']} of {number} {who + ' ended' if who else 'every session lived'}"
        )
    parts = [f"  {line}" for line in _branch_words(report["branches"])]
    return lines + [f"  {line}" for line in in_words(report)] + parts


def _rows(entry: Mapping[str, Any]) -> list[str]:
    recorded, difference, kinds = entry["recorded"] or {}, entry["difference"] or {}, entry.get("kinds", {})
    rows = []
    for key, value in entry["predicted"].items():
        words = [*map(measure_text, (recorded.get(key), value, difference.get(key)))]
        # The replay shown has only one of the demands that fit the log, so a difference would be meaningless.
        if kinds.get(key) == "unknown":
            words[1:] = ["-", "-"]
        if kinds.get(key) == "bound":
            words[1:] = [f">= {measure_text(entry['interval'].get(key, [value])[0])}", "-"]
        rows.append(f"  {key:<22}{''.join(f'{word:>12}' for word in words)}  {unit_of(key)}".rstrip())
    return rows


def _span_words(report: Mapping[str, Any]) -> list[str]:
    """Return sentences about the times for which the log has no rows."""
    span, seconds = report["log"], report["seconds"]
    lines = []
    if span["origin"]:
        lines.append(
            f"the log's clock begins at {span['origin']:g} s, as the broker's reports do; times count from it"
        )
    elif span["first"] >= _LONG_SILENCE:
        lines.append(
            f"the log begins at {span['first']:.3g} s, taken for a late start: shares are of all "
            f"{seconds:g} s"
        )
    if span["is_short"]:
        lines.append(
            f"the log ends at {span['last']:.3g} s of {seconds:g} s: what was wanted then is not known, "
            "and no message is predicted there; a duration as long as the log leaves that time out"
        )
    return lines


def _branch_words(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return lines about the most frequent branches."""
    lines = []
    for branch in found[:_SHOWN]:
        lines.append(f"{ended_words(branch['when']['ended'])} ({100 * branch['share']:.0f} %):")
        lines += [f"  queue {name}: {_queue_words(measures)}" for name, measures in branch["queues"].items()]
    more = len(found) - _SHOWN
    return lines + [f"… and {more} rarer branches; --json prints them all"] * (more > 0)


def in_words(report: Mapping[str, Any]) -> list[str]:
    """Return the intervals and the probability of sessions' ends as sentences."""
    lines: list[str] = []
    number = report["replays"]["number"]
    for name, entry in report["queues"].items():
        found = entry.get("interval") or {}
        if entry.get("misfit"):
            lines.append(
                f"queue {name} is not predicted: {entry['misfit']}; its model misses what decides there"
            )
        if found:
            # If the demand is unknown, the report gives that reason above.
            is_bound = "bound" in entry["kinds"].values() and not report["is_bound"]
            why = f"; a bound: {ANY_END}" if is_bound else ""
            lines.append(f"queue {name}: {_queue_words(found, entry['kinds'])}{why}")
        if entry.get("near_critical"):
            lines.append(f"queue {name} is near-critical in {entry['near_critical']}")
        if entry.get("near_limit"):
            since = entry.get("ends_from")
            ends = "" if since is None else f", and the above holds if it does so from {since:.3g} s on"
            lines.append(
                f"queue {name} comes within 5 % of its limit in {round(entry['near_limit'] * number)} of "
                f"{number} replays: a few messages more at once end a session{ends}"
            )
    for name, entry in report["producers"].items():
        found = entry.get("interval") or {}
        if entry.get("misfit"):
            lines.append(f"producer {name} is not predicted: {entry['misfit']}")
        if entry["kinds"]["blocked_share"] == "bound" and found:
            low, high = found["blocked_share"]
            lines.append(f"producer {name}: blocked {_at_least_share(low, high)}")
        if entry.get("dies"):
            first, last = entry["dies_at"]
            times = f"{first:.3g}" if first == last else f"{first:.3g} to {last:.3g}"
            lines.append(
                f"producer {name}: its session dies in {round(entry['dies'] * number)} of {number} replays, "
                f"after {times} s"
            )
    return lines


def _queue_words(found: Mapping[str, Interval], kinds: Mapping[str, str] | None = None) -> str:
    """Return the intervals or bounds of a queue as text, by the kinds of its measures.

    >>> print(_queue_words({"mean_depth": [12.0, 44.0], "share_on": [0.0, 0.0], "throughput": [30.0, 31.0]}))
    on average between 12 and 44 messages, never ON, 30 to 31 accepted a second
    >>> print(_queue_words({"share_on": [0.25, 0.9], "flowStoppedCount": [0, 0]}, {"share_on": "bound"}))
    ON at least 25 % of the time (at most 90 %)
    """
    parts = [
        _part(measure, found[measure], is_bound=(kinds or {}).get(measure) == "bound")
        for measure in CHANCE
        if measure in found
    ]
    return ", ".join(filter(None, parts))


def _part(measure: str, found: Interval, *, is_bound: bool) -> str:
    low, high = found
    if measure == "share_on":
        if is_bound:
            return f"ON {_at_least_share(low, high)}"
        return f"ON between {100 * low:.3g} and {100 * high:.3g} % of the time" if high else "never ON"
    if measure == "flowStoppedCount":
        return f"{low:.0f} to {high:.0f} stops" if high else ""
    if measure == "throughput":
        ends = dict.fromkeys((f"{low:.4g}", f"{high:.4g}"))
        return f"{' to '.join(ends)} accepted a second"
    between = f"at least {low:.4g} messages (at most {high:.4g})" if is_bound else ""
    return f"on average {between or f'between {low:.4g} and {high:.4g} messages'}"


def _at_least_share(low: float, high: float) -> str:
    return f"at least {100 * low:.3g} % of the time (at most {100 * high:.3g} %)"
