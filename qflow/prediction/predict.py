"""Predict: run the workload behind a log again, under the recorded settings or others, and compare.

Steps: gather what the log shows (:class:`~qflow.prediction.extraction.Evidence`), apply the settings,
simulate as often as chance asks for (:mod:`qflow.prediction.replays`), and report each measure of each queue
and client as recorded, as predicted, and the difference.  The other producer model is run too, as no log can
say for certain which one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from qflow.logs.client_log import ClientLog
from qflow.prediction.changes import Settings
from qflow.prediction.extraction import Evidence, Extraction
from qflow.prediction.replays import (
    PATIENCE,
    REPLAYS,
    REPLAYS_CHANGED,
    Replay,
    Sections,
    account,
    is_near_limit,
    longest_silence,
    most_likely,
    predicted_sections,
    recorded_sections,
    shifted,
)
from qflow.table import Tabular, columns_of
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import is_whole, require
from qflow.workload.model import MODELS, Workload
from qflow.workload.run import Measures, Run, measure_text
from qflow.workload.simulate import simulate, simulate_in_slices
from qflow.workload.stage import GRACE

MOST_REPLAYS = 1_000

Tell = Callable[[str, int, int], None]

SECTIONS = ("queues", "producers", "consumers")


class Prediction(Tabular, dict[str, Any]):
    """What :func:`predict` returns: a mapping ready for JSON, shown as the table of its measures."""

    SHOWN = 40

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the measures: of what, its name, the measure, recorded, predicted, and the difference."""
        rows = [
            (section.removesuffix("s"), name, measure, recorded.get(measure), value, less.get(measure))
            for section in SECTIONS
            for name, entry in self[section].items()
            for recorded, less in [(entry["recorded"] or {}, entry["difference"] or {})]
            for measure, value in entry["predicted"].items()
        ]
        return columns_of(rows[start:end], ("of", "name", "measure", "recorded", "predicted", "difference"))

    def __repr__(self) -> str:
        return f"Prediction({self['workload']!r}, {self['seconds']:g} s, {self['model']} model)"


def predict(
    workload: Workload,
    log: ClientLog,
    settings: Settings | None = None,
    model: str | None = None,
    *,
    compare_models: bool = True,
    replays: int | None = None,
    tell: Tell | None = None,
) -> Prediction:
    """Return what the broker and its clients would do, compared with what they did.

    Parameters
    ----------
    workload : Workload
        What was recorded.
    log : ClientLog
        What its clients saw.
    settings : Settings or None
        What is changed; None for the recorded settings.
    model : {"open", "closed"} or None
        What producers do while they are blocked: "open" ones keep a schedule and catch up, "closed" ones
        think after each message.  None for what the log shows.
    compare_models : bool
        Whether to run the other model too and say how far the two differ.
    replays : int or None
        How many times to run it, with the clients' interruptions at other times; what is shown then is one
        of those that ended as most did.  None for one under the recorded settings, five under others (one if
        it is very long), and seven if a session ends or nearly does.
    tell : callable or None
        Called now and then with what is being done, how many seconds of virtual time are done, and of how
        many.

    Returns
    -------
    Prediction
        A mapping, ready for JSON: ``queues``, ``producers`` and ``consumers`` hold for each name what was
        ``recorded`` (or None), what is ``predicted``, and the ``difference`` (predicted less recorded);
        ``sources`` says of each client whether its times are the workload file's own draws, which the log
        confirms ("stated"), or the log's ("recorded"); ``longest_silence`` is for how many seconds at most
        the broker reported nothing of a queue, which blurs what was recorded; ``model`` is the one used;
        ``models_differ`` holds, for each name and measure, the other model's prediction less this one's;
        ``replays`` holds how many there were, which sessions ended in how many of them, and between which
        values the measures of each queue lie.

    Raises
    ------
    WorkloadError
        If the settings name something that is not there, or a value is not allowed.
    AmqpException
        The broker's own refusal of a queue.
    KeyboardInterrupt
        If it is interrupted: half a prediction is none.

    Examples
    --------
    >>> from qflow.logs import LogRow
    >>> from qflow.workload import Producer
    >>> producer = Producer("p", ("", "q"), rate=1000, capacity=5, size=100)
    >>> workload = Workload("small", 1, {"q": {"qpid.flow_stop_count": 10}}, producers=(producer,))
    >>> rows = [LogRow(n * 1000, "p", "transfer", "q", f"p-{n}", 100, "") for n in range(1, 13)]
    >>> report = predict(workload, ClientLog("small", rows))
    >>> report["model"], report["queues"]["q"]["predicted"]["max_depth"]
    ('open', 12)
    """
    is_right = replays is None or is_whole(replays, 1, MOST_REPLAYS)
    require(is_right, "predict", "replays", replays, f"a whole number from 1 to {MOST_REPLAYS}, or None")
    evidence = Evidence(log, workload)
    extraction = evidence.extraction(model)
    settings = settings or Settings()
    end = round(workload.duration * SECOND)
    is_recorded = settings.apply(workload) == workload
    otherwise = 1 if is_recorded else REPLAYS_CHANGED
    runs = _replays(extraction, settings, end, replays, otherwise, tell)
    shown = most_likely(runs, is_recorded=is_recorded)
    report: dict[str, Any] = {
        "workload": workload.name,
        "seconds": workload.duration,
        "model": extraction.model,
        "model_chosen": "as asked" if model else "from the log: " + _why(extraction),
        "sources": dict(extraction.sources),
        "longest_silence": longest_silence(log, end),
        "settings": settings.as_json(),
        **_compared(shown.sections, recorded_sections(workload, log, end)),
        "errors": dict(shown.errors),
        "replays": account(runs),
    }
    if compare_models:
        (other,) = (name for name in MODELS if name != extraction.model)
        place = runs.index(shown)
        others = _replay(evidence.extraction(other), settings, end, place, len(runs), tell)
        report["models_differ"] = {"other": other, **_models_differ(others.sections, shown.sections)}
    return Prediction(report)


def _replays(
    extraction: Extraction,
    settings: Settings,
    end: int,
    number: int | None,
    otherwise: int,
    tell: Tell | None,
) -> list[Replay]:
    """Return as many replays as asked for, or as are needed."""
    first = _replay(extraction, settings, end, 0, 1, tell)
    few = otherwise if first.events <= PATIENCE else 1
    number = number or (REPLAYS if first.is_near else few)
    return [first, *(_replay(extraction, settings, end, place, number, tell) for place in range(1, number))]


def _replay(
    extraction: Extraction, settings: Settings, end: int, place: int, of: int, tell: Tell | None
) -> Replay:
    workload = settings.apply(shifted(extraction.workload, place, of))
    run = _run(workload, f"{extraction.model} model" + f", replay {place + 1} of {of}" * (of > 1), tell)
    errors = {name: str(error) for name, error in run.errors.items()}
    return Replay(predicted_sections(run, workload, end), errors, is_near_limit(run), len(run.events))


def _compared(predicted: Sections, recorded: Sections) -> dict[str, Any]:
    """Return what is predicted, with what was recorded and the difference."""
    return {
        section: {
            name: {
                "recorded": recorded[section].get(name),
                "predicted": measures,
                "difference": _less(measures, recorded[section].get(name)),
            }
            for name, measures in predicted[section].items()
        }
        for section in SECTIONS
    }


def _run(workload: Workload, what: str, tell: Tell | None) -> Run:
    if tell is None:
        return simulate(workload)
    say, seconds = tell, round(workload.duration + GRACE / SECOND)
    run, is_whole = simulate_in_slices(
        workload, lambda time, _: say(f"predicting, {what}", time // SECOND, seconds)
    )
    if not is_whole:
        raise KeyboardInterrupt
    return run


def _models_differ(others: Sections, used: Sections) -> dict[str, Any]:
    return {
        section: {name: _less(measures, used[section][name]) for name, measures in others[section].items()}
        for section in SECTIONS
    }


def _less(measures: Measures, other: Measures | None) -> Measures | None:
    if other is None:
        return None
    difference: Measures = {}
    for key, value in measures.items():
        before = other.get(key)
        difference[key] = None if value is None or before is None else value - before
    return difference


def _why(extraction: Extraction) -> str:
    answers = [answer for answer in extraction.catches_up.values() if answer is not None]
    if not answers:
        return "no producer was blocked for long"
    return f"{sum(answers)} of {len(answers)} producers that were blocked caught up afterwards"


LONG_SILENCE = 1.0
"""Seconds; real brokers are asked many times a second."""


def report_text(report: Mapping[str, Any]) -> str:
    """Return a report of :func:`qflow.prediction.predict` as plain text.

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
    lines += _replays_text(report.get("replays", {"number": 1}))
    if "models_differ" in report:
        lines.append(_difference(report["models_differ"]))
    return "\n".join(lines)


def _replays_text(replays: Mapping[str, Any]) -> list[str]:
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
            f"{key} {measure_text(spread[key][0])} to {measure_text(spread[key][1])}"
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
    rows = []
    for key, value in entry["predicted"].items():
        words = map(measure_text, (recorded.get(key), value, difference.get(key)))
        rows.append(f"  {key:<22}" + "".join(f"{word:>12}" for word in words))
    return rows


def _difference(differ: Mapping[str, Any]) -> str:
    parts = [
        f"{name}: "
        + ", ".join(f"{measure} {measure_text(measures[measure])}" for measure in ("mean_depth", "share_on"))
        for name, measures in differ["queues"].items()
    ]
    return f"The {differ['other']} model differs by: " + "; ".join(parts)
