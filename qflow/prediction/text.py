"""A prediction as plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONG_SILENCE = 1.0
"""Seconds; real brokers are asked many times a second."""


def report_text(report: Mapping[str, Any]) -> str:
    """Return a report of :func:`qflow.prediction.predict` as lines for people.

    Examples
    --------
    >>> entry = {"recorded": None, "predicted": {"mean_depth": 2.5}, "difference": None}
    >>> report = {"workload": "w", "seconds": 30, "model": "open", "model_chosen": "as asked",
    ...     "queues": {"q": entry}, "producers": {}, "consumers": {}, "errors": {}}
    >>> print(report_text(report))
    w: 30 s, open model (as asked)
    queue q                     recorded   predicted  difference
      mean_depth                       -         2.5           -
    """
    lines = [
        f"{report['workload']}: {report['seconds']:g} s, {report['model']} model ({report['model_chosen']})"
    ]
    lines += _sources(report.get("sources", {}))
    silence = report.get("longest_silence") or 0
    if silence >= LONG_SILENCE:
        lines.append(
            f"the broker reported nothing for up to {silence:.1f} s: recorded depths are rough there"
        )
    left_out = report.get("settings", {}).get("left_out", ())
    if left_out:
        lines.append(f"left as they are, for only one of the two files has them: {', '.join(left_out)}")
    for section in ("queues", "producers", "consumers"):
        for name, entry in report[section].items():
            title = f"{section.removesuffix('s')} {name}"
            lines.append(f"{title:<24}{'recorded':>12}{'predicted':>12}{'difference':>12}")
            lines += _rows(entry)
    lines += [f"{client} ended by {error}" for client, error in report["errors"].items()]
    lines += _replays(report.get("replays", {"number": 1}))
    if "models_differ" in report:
        lines.append(_difference(report["models_differ"]))
    return "\n".join(lines)


def _replays(replays: Mapping[str, Any]) -> list[str]:
    """Return how far chance decides, if there was more than one replay."""
    number = replays["number"]
    if number == 1:
        return []
    lines = [f"{number} replays, interruptions at other times; shown is one of the most frequent end:"]
    for outcome in replays["outcomes"]:
        who = " and ".join(outcome["ended"])
        lines.append(
            f"  in {outcome['replays']} of {number} {who + ' ended' if who else 'every session lived'}"
        )
    for name, spread in replays["spread"].items():
        parts = [
            f"{key} {_number(spread[key][0])} to {_number(spread[key][1])}"
            for key in ("mean_depth", "share_on", "flowStoppedCount", "throughput")
        ]
        lines.append(f"  queue {name}: {', '.join(parts)}")
    return lines


def _sources(sources: Mapping[str, str]) -> list[str]:
    words = {
        "stated": "times, sizes and groups: the workload file's own draws, confirmed by the log",
        "recorded": "times, sizes and groups: the log's",
    }
    lines = []
    for source, meaning in words.items():
        names = [name for name, found in sources.items() if found == source]
        if names:
            whose = "all clients" if len(names) == len(sources) else ", ".join(names)
            lines.append(f"{meaning} ({whose})")
    return lines


def _rows(entry: Mapping[str, Any]) -> list[str]:
    recorded, difference = entry["recorded"] or {}, entry["difference"] or {}
    return [
        f"  {key:<22}{_number(recorded.get(key)):>12}{_number(value):>12}{_number(difference.get(key)):>12}"
        for key, value in entry["predicted"].items()
    ]


def _number(value: float | int | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _difference(differ: Mapping[str, Any]) -> str:
    parts = [
        f"{name}: mean_depth {_number(measures['mean_depth'])}, share_on {_number(measures['share_on'])}"
        for name, measures in differ["queues"].items()
    ]
    return f"The {differ['other']} model differs by: " + "; ".join(parts)
