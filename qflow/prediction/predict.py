"""Predict: run the workload behind a log again, under the recorded settings or others, and compare.

The evidence of the log (:mod:`qflow.prediction.evidence`) yields a model of its clients
(:mod:`qflow.prediction.client_model`).  The model is run under the settings, often enough to cover chance
(:mod:`qflow.prediction.replays`), and the runs are summarised (:mod:`qflow.prediction.summary`).  The report
has each measure of each queue and client as recorded, as predicted, and the difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qflow import __version__
from qflow.broker.settings import Argument
from qflow.logs.audit import audit
from qflow.logs.client_log import ClientLog
from qflow.logs.inferred_thresholds import contradiction_of, infer_thresholds
from qflow.logs.workload_file import workload_json
from qflow.prediction.client_model import LogModel
from qflow.prediction.replays import (
    Replayer,
    ReplayTask,
    longest_silence,
    polls_of,
    recorded_sections,
    replay_once,
)
from qflow.prediction.report import report_text
from qflow.prediction.summary import SECTIONS, find_misfits, summary_of
from qflow.progress import Progress
from qflow.table import Tabular, columns_of
from qflow.workload.attributes import is_whole, require
from qflow.workload.model import Workload
from qflow.workload.stage import pause_collector

_MOST_REPLAYS = 1_000


# Settings


@dataclass(frozen=True, slots=True)
class Settings:
    """Changes to the settings of a workload's queues and clients.

    Parameters:
        queues: Queue name to declare arguments, which replace or extend the queue's own; None removes one.
        capacity: Producer name to its new capacity.
        prefetch: Consumer name to its new prefetch.
        left_out: Queues and clients that only one of two files has, so that their settings are unchanged.

    >>> from qflow.workload import Workload
    >>> changed = Settings({"q": {"qpid.flow_stop_count": 300}}).apply(Workload("w", 1, {"q": {}}))
    >>> changed.queues
    {'q': {'qpid.flow_stop_count': 300}}
    """

    queues: Mapping[str, Mapping[str, Argument | None]] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    prefetch: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, other: Workload, workload: Workload) -> Settings:
        """Return the changes that give a workload the settings of another one with the same clients.

        Queues and clients that only one of the two has are named in ``left_out``.

        Raises:
            WorkloadError: If the two workloads have no queue in common.

        >>> from qflow.workload import Workload
        >>> this = Workload("a", 1, {"q": {"qpid.max_count": 10}})
        >>> Settings.of(Workload("b", 1, {"q": {"qpid.max_size": 999}}), this).queues
        {'q': {'qpid.max_count': None, 'qpid.max_size': 999}}
        """
        allowed = f"one of {', '.join(workload.queues)}"
        is_kin = not workload.queues or bool(workload.queues.keys() & other.queues.keys())
        require(is_kin, f"settings of {other.name!r}", "a queue", ", ".join(other.queues), allowed)
        queues: dict[str, dict[str, Argument | None]] = {}
        for name, arguments in workload.queues.items():
            if name in other.queues:
                # None removes an argument that the other file does not have.
                gone: dict[str, Argument | None] = dict.fromkeys(arguments)
                queues[name] = {**gone, **other.queues[name]}
        producers = {producer.name for producer in workload.producers}
        consumers = {consumer.name for consumer in workload.consumers}
        return cls(
            queues,
            {producer.name: producer.capacity for producer in other.producers if producer.name in producers},
            {consumer.name: consumer.prefetch for consumer in other.consumers if consumer.name in consumers},
            tuple(sorted(_things(other) ^ _things(workload))),
        )

    def and_then(self, later: Settings) -> Settings:
        """Return these settings combined with later ones, which take precedence.

        >>> Settings(capacity={"p": 5}).and_then(Settings(capacity={"p": 9})).capacity
        {'p': 9}
        """
        queues = {name: dict(arguments) for name, arguments in self.queues.items()}
        for name, arguments in later.queues.items():
            queues[name] = {**queues.get(name, {}), **arguments}
        return Settings(
            queues,
            {**self.capacity, **later.capacity},
            {**self.prefetch, **later.prefetch},
            self.left_out + later.left_out,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the changes as a JSON value.

        >>> Settings(capacity={"p": 5}).as_json()
        {'queue_arguments': {}, 'capacity': {'p': 5}, 'prefetch': {}, 'left_out': []}
        """
        return {
            "queue_arguments": {name: dict(arguments) for name, arguments in self.queues.items()},
            "capacity": dict(self.capacity),
            "prefetch": dict(self.prefetch),
            "left_out": list(self.left_out),
        }

    def apply(self, workload: Workload) -> Workload:
        """Return a workload with these settings.

        Raises:
            WorkloadError: If a queue or client is not in the workload, or a value is not allowed.
        """
        for queue, arguments in self.queues.items():
            workload = workload.with_queue(queue, arguments)
        for name, capacity in self.capacity.items():
            workload = workload.with_producer(name, capacity=capacity)
        for name, prefetch in self.prefetch.items():
            workload = workload.with_consumer(name, prefetch=prefetch)
        return workload


def _things(workload: Workload) -> set[str]:
    return {
        *(f"queue {name}" for name in workload.queues),
        *(f"producer {producer.name}" for producer in workload.producers),
        *(f"consumer {consumer.name}" for consumer in workload.consumers),
    }


# The prediction


class Prediction(Tabular, dict[str, Any]):
    """The report of :func:`predict`: a mapping of JSON values, displayed as a table of its measures."""

    SHOWN = 40

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the measures: section, name, measure, recorded, predicted, and the difference.

        For queues and producers also ``low`` and ``high``, the 80 % prediction interval.
        """
        rows = [
            (
                section.removesuffix("s"),
                name,
                measure,
                recorded.get(measure),
                value,
                less.get(measure),
                *entry.get("interval", {}).get(measure, (None, None)),
            )
            for section in SECTIONS
            for name, entry in self[section].items()
            for recorded, less in [(entry["recorded"] or {}, entry["difference"] or {})]
            for measure, value in entry["predicted"].items()
        ]
        names = ("of", "name", "measure", "recorded", "predicted", "difference", "low", "high")
        return columns_of(rows[start:end], names)

    def text(self) -> str:
        """Return the report as plain text, as ``qflow predict`` prints it."""
        return report_text(self)

    def __repr__(self) -> str:
        return f"Prediction({self['workload']!r}, {self['seconds']:g} s, {self['model']} model)"


def predict(
    workload: Workload,
    log: ClientLog,
    settings: Settings | None = None,
    model: str | None = None,
    *,
    infer: bool = False,
    detail: str = "full",
    demand: Mapping[str, float] | None = None,
    replays: int | None = None,
    seed: int = 0,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Prediction:
    """Return the prediction for a broker and its recorded clients, compared with the recording.

    Parameters:
        workload: The recorded workload: queues, clients, windows and prefetch.
        log: The log of the workload's clients.
        settings: The changes; None for the recorded settings.
        model ({"open", "closed"} or None): The behaviour of blocked producers: "open" ones keep a schedule
            and catch up, "closed" ones think after each message.  None for the behaviour that the log shows.
        infer: Whether to infer the recorded thresholds from the log, in place of the workload's
            (:mod:`qflow.logs.inferred_thresholds`); ``settings`` then change the inferred ones.
        detail ({"constants", "full"}): How the clients' costs are estimated: as constants
            (:mod:`qflow.prediction.costs`), or with their variation (:mod:`qflow.prediction.disturbances`).
        demand: Producer name to its known mean demand in messages a second, which the log of a blocked
            producer does not show.
        replays: The number of replays, which differ by chance. None for 19, or fewer if the log is very long;
            up to three times as many if a session ends in some replays and not in others.
        seed: The seed of all random numbers.
        processes: The number of processes for the replays; None for all cores if they take long.
        progress: A function that is called with the finished seconds of virtual time, their total, and the
            name of the present step.

    Returns:
        A mapping of JSON values.  ``queues``, ``producers`` and ``consumers`` have for each name the measures
        ``recorded`` (or None), ``predicted`` (those of the middle replay with the most frequent outcome), and
        the ``difference``.

        Queues and producers also have an ``interval`` for each measure, which is expected to contain 80 of
        100 recordings (empty after a single replay), and its kind in ``kinds``.  An "interval" accounts for
        chance only.  A "bound" has a different reason for its width.  If the log does not show the demand,
        its ends belong to the least and the most demand that fit the log, and ``predicted`` to the likely
        one.  If a queue comes near its limit, one end is for sessions that survive, the other for sessions
        that end as soon as possible (``ends_from``, in seconds).  If replays of the recorded settings do not
        reproduce the log, ``misfit`` has the reason, there is no interval, and kinds are "unknown".

        Each queue has ``near_critical``, the reason for a wide interval or None; ``near_limit``, the share of
        replays that came within 5 % of a limit that ends a session; ``course``, its depth over time
        (:func:`qflow.labs.depth_chart` draws it); and ``thresholds``, the levels for that chart.  Each
        producer has ``dies``, the share of replays in which its session ended, and ``dies_at``, the first and
        the last time.

        For the prediction as a whole, ``branches`` has a prediction for each outcome of the sessions
        (:mod:`qflow.prediction.summary`); ``demand`` tells for each producer whether its demand is ``known``,
        its lower bound ``at_least`` in messages a second, and ``why``; ``is_bound`` tells whether any measure
        is a bound because of demand; ``longest_silence`` is the longest time without a report of the broker,
        in seconds; ``model`` is the behaviour of blocked producers; ``replays`` has the number of replays and
        their outcomes; ``log`` has the first and last second of the log and the origin of its clock;
        ``contradiction`` names the thresholds of the workload that the log contradicts, ``inferred`` those
        inferred instead; ``inputs`` has everything that the prediction depends on.

    Raises:
        WorkloadError: If ``settings`` or ``demand`` name an unknown queue or client, or a value is not
        allowed. AmqpException: The broker's own refusal of a queue. KeyboardInterrupt: On Ctrl-C: an
        incomplete prediction is discarded.

    >>> from qflow.logs import LogRow
    >>> from qflow.workload import Producer
    >>> producer = Producer("p", ("", "q"), rate=1000, capacity=5, size=100)
    >>> workload = Workload("small", 1, {"q": {"qpid.flow_stop_count": 10}}, producers=(producer,))
    >>> rows = [LogRow(n * 1000, "p", "transfer", "q", f"p-{n}", 100, "") for n in range(1, 13)]
    >>> report = predict(workload, ClientLog("small", rows))
    >>> report["model"], report["queues"]["q"]["predicted"]["max_depth"]
    ('open', 12)
    """
    is_right = replays is None or is_whole(replays, 1, _MOST_REPLAYS)
    require(is_right, "predict", "replays", replays, f"a whole number from 1 to {_MOST_REPLAYS}, or None")
    for name, rate in (demand or {}).items():
        workload = workload.with_producer(name, demand=rate)
    inferred = infer_thresholds(log, workload, progress) if infer else None
    workload = inferred.workload if inferred else workload
    # The recorded log is always audited: thresholds that it contradicts make every number below doubtful, so
    # the report begins with them.
    findings = inferred.after if inferred else audit(log, workload).findings
    settings = settings or Settings()
    # Applied early, so that the broker's refusal of the settings is raised before any work.
    settings.apply(workload)
    # The evidence consists of many small objects that live to the end, like the events of a run.
    with pause_collector():
        behind = LogModel(log, workload, detail)
    workload, kind = behind.workload, model or behind.model
    # Replays are measured at the times of the broker's recorded reports, as a depth sampled twenty times a
    # second has a lower peak than one measured at every event.
    polls = polls_of(behind.log, behind.end)
    answer = Replayer(polls, replays, seed, processes, progress).answer(behind, settings.apply, kind)
    recorded = recorded_sections(workload, behind.log, behind.end)
    likely = behind.extract(kind)
    own = answer.runs if settings.apply(likely) == likely else [replay_once(ReplayTask(likely, 0, 1, seed))]
    return Prediction(
        {
            "workload": workload.name,
            "contradiction": contradiction_of(findings),
            "inputs": _inputs_of(settings.apply(workload), log, seed),
            "inferred": inferred.as_json() if inferred else None,
            "seconds": workload.duration,
            "log": behind.span.as_json(behind.end),
            "model": kind,
            "detail": detail,
            "model_chosen": "as asked" if model else "from the log: " + _why(behind),
            "demand": {name: found.as_json() for name, found in behind.demands.items()},
            "is_bound": bool(answer.bounds),
            "longest_silence": longest_silence(polls),
            "settings": settings.as_json(),
            **summary_of(answer, recorded, settings.apply(workload), find_misfits(own, recorded, behind)),
        }
    )


def _inputs_of(workload: Workload, log: ClientLog, seed: int) -> dict[str, Any]:
    """Return the inputs of a prediction: the changed workload, the log's hash, the seed and the version."""
    digest = hashlib.sha256()
    # The rows are hashed, not the file, so that a log is the same input as text and as Parquet; row by row,
    # as the whole text of a long log would need as much memory again.
    for row in log.rows:
        digest.update(repr(row).encode())
    own = {"name": log.name, "rows": len(log.rows), "sha256": digest.hexdigest()}
    return {"version": __version__, "workload": workload_json(workload), "log": own, "seed": seed}


def _why(behind: LogModel) -> str:
    answers = [answer for answer in behind.catches_up.values() if answer is not None]
    if not answers:
        return "no producer was blocked for long"
    return f"{sum(answers)} of {len(answers)} blocked producers sent overdue messages after a block"
