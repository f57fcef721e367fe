"""Predict: run the workload behind a log again, under the recorded settings or others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from qflow.prediction.measures import client_measures, longest_silence, recorded_queue, rows_of_run
from qflow.prediction.replays import (
    PATIENCE,
    REPLAYS,
    REPLAYS_CHANGED,
    Replay,
    account,
    is_near_limit,
    most_likely,
    shifted,
)
from qflow.prediction.settings import Settings
from qflow.trace.client_log import ClientLog
from qflow.trace.extract import Evidence, Extraction
from qflow.workload.agenda import SECOND
from qflow.workload.checks import require
from qflow.workload.clients import MODELS
from qflow.workload.measures import Measures, queue_measures
from qflow.workload.model import Workload
from qflow.workload.run import Run
from qflow.workload.simulate import simulate
from qflow.workload.slices import simulate_in_slices
from qflow.workload.stage import GRACE

Sections = Mapping[str, Mapping[str, Measures]]
Tell = Callable[[str, int, int], None]

SECTIONS = ("queues", "producers", "consumers")


def predict(
    workload: Workload,
    log: ClientLog,
    settings: Settings | None = None,
    model: str | None = None,
    *,
    compare_models: bool = True,
    replays: int | None = None,
    tell: Tell | None = None,
) -> dict[str, Any]:
    """Return what the broker and its clients would do, beside what they did.

    All measures are over the time the producers ran (from 0 to the workload's duration); depths and
    shares are averaged over time.

    Parameters
    ----------
    workload : Workload
        What was recorded.
    log : ClientLog
        What its clients saw.
    settings : Settings or None
        What is changed; None for the recorded settings.
    model : {"open", "closed"} or None
        What producers do while they are blocked, which no log can tell: "open" producers keep a schedule
        and catch up, "closed" ones think after each message.  None for what the log shows.
    compare_models : bool
        Whether to run the other model too and say how far the two differ.
    replays : int or None
        How many times to run it, with the clients' interruptions at other times; what is shown then is one
        of those that ended as most did.  None for one under the recorded settings, five under others (one if
        it is very long), and seven if a session ends or nearly does.
    tell : callable or None
        Told now and then how far it is: what is being done, how many seconds of virtual time are done, and
        of how many.

    Returns
    -------
    dict
        Ready for JSON: ``queues``, ``producers`` and ``consumers`` hold for each name what was
        ``recorded`` (or None), what is ``predicted``, and the ``difference`` (predicted less recorded);
        ``sources`` tells of each client whether its times are the workload file's own draws, which the log
        confirms ("stated"), or the log's ("recorded"); ``longest_silence`` is for how many seconds at most
        the broker reported nothing of a queue, which blurs what was recorded; ``model`` is the one used;
        ``models_differ`` holds, for each name and measure, the other model's
        prediction less this one's; ``replays`` holds how many there were, which sessions ended in how many
        of them, and between which values the measures of each queue lie.

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
    >>> from qflow.trace import LogRow
    >>> from qflow.workload import Producer
    >>> producer = Producer("p", ("", "q"), rate=1000, capacity=5, size=100)
    >>> workload = Workload("small", 1, {"q": {"qpid.flow_stop_count": 10}}, producers=(producer,))
    >>> rows = [LogRow(n * 1000, "p", "transfer", "q", f"p-{n}", 100, "") for n in range(1, 13)]
    >>> report = predict(workload, ClientLog("small", rows))
    >>> report["model"], report["queues"]["q"]["predicted"]["max_depth"]
    ('open', 12)
    """
    require(replays is None or replays >= 1, "predict", "replays", replays, "a whole number from 1, or None")
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
        **_beside(shown.sections, _recorded(workload, log, end)),
        "errors": dict(shown.errors),
        "replays": account(runs),
    }
    if compare_models:
        (other,) = (name for name in MODELS if name != extraction.model)
        place = runs.index(shown)
        others = _replay(evidence.extraction(other), settings, end, place, len(runs), tell)
        report["models_differ"] = {"other": other, **_models_differ(others.sections, shown.sections)}
    return report


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
    producers, consumers = client_measures(
        rows_of_run(run.events),
        [producer.name for producer in workload.producers],
        [consumer.name for consumer in workload.consumers],
        end,
    )
    queues = queue_measures(run.events, workload, end)
    errors = {name: str(error) for name, error in run.errors.items()}
    sections = {"queues": queues, "producers": producers, "consumers": consumers}
    return Replay(sections, errors, is_near_limit(run), len(run.events))


def _beside(predicted: Sections, recorded: Sections) -> dict[str, Any]:
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


def _recorded(workload: Workload, log: ClientLog, end: int) -> Sections:
    accepted = dict.fromkeys(workload.queues, 0)
    for row in log.rows:
        if row.event == "accept" and row.ts_us <= end and row.queue in accepted:
            accepted[row.queue] += 1
    queues = {name: recorded_queue(log, name, accepted[name], end) for name in workload.queues}
    present = {row.client for row in log.rows}
    producers, consumers = client_measures(
        log.rows,
        [producer.name for producer in workload.producers if producer.name in present],
        [consumer.name for consumer in workload.consumers if consumer.name in present],
        end,
    )
    known = {name: measures for name, measures in queues.items() if measures is not None}
    return {"queues": known, "producers": producers, "consumers": consumers}


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
