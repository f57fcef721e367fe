"""Predict: run the workload behind a log again, under the recorded settings or others.

Measures of a run: the same for what was recorded and for what is predicted.

Replays: the same clients with their interruptions at other times, where little decides much.

A prediction as plain text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from qflow.broker.events import Event
from qflow.broker.settings import QueueSettings
from qflow.logs.client_log import ClientLog, QueueSample, rows_by_client
from qflow.logs.log_file import LogRow
from qflow.prediction.changes import Settings
from qflow.prediction.costs import works_of
from qflow.prediction.extraction import Evidence, Extraction
from qflow.table import Tabular, columns_of
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import require
from qflow.workload.model import MODELS, Consumer, Workload
from qflow.workload.run import DepthMeter, Measures, Run, queue_measures
from qflow.workload.simulate import simulate, simulate_in_slices
from qflow.workload.stage import GRACE

PERCENTILES = (50, 90, 99)


def recorded_queue(log: ClientLog, queue: str, accepted: int, end: int) -> Measures | None:
    """Measure a queue by what the broker reported; None if the log holds no reports of it.

    Examples
    --------
    >>> recorded_queue(ClientLog("empty", []), "q", 0, SECOND) is None
    True
    """
    if not any(row.event == "stats" and row.queue == queue for row in log.rows):
        return None
    samples = [sample for sample in log.statistics(queue) if sample.ts_us <= end]
    if not samples:
        return None
    meter = DepthMeter(end)
    for sample in samples:
        meter.at(sample.ts_us, sample.msgDepth, sample.flowStopped)
    last: QueueSample = samples[-1]
    return {
        **meter.measures(),
        "flowStoppedCount": last.flowStoppedCount,
        "throughput": accepted * SECOND / end,
        "discards": last.discardsRing,
    }


def longest_silence(log: ClientLog, end: int) -> float | None:
    """Return for how many seconds at most the broker reported nothing of a queue; None if it hardly ever did.

    What is averaged over time counts each report until the next: in a longer silence it says little of a
    queue that fills and empties meanwhile.

    Examples
    --------
    >>> rows = [LogRow(time, "broker", "stats", "q", "", 0, "") for time in (50_000, 100_000, 2_100_000)]
    >>> longest_silence(ClientLog("small", rows), 3 * SECOND)
    2.0
    """
    longest = 0
    before: dict[str, int] = {}
    for row in log.rows:
        if row.event == "stats" and 0 <= row.ts_us <= end:
            longest = max(longest, row.ts_us - before.get(row.queue, row.ts_us))
            before[row.queue] = row.ts_us
    return longest / SECOND if longest else None


def rows_of_run(events: Iterable[Event]) -> list[LogRow]:
    """Return what the clients of a simulated run would have logged, without sizes and groups.

    Examples
    --------
    >>> rows_of_run([Event(7, "client.block", session="p"), Event(8, "enqueued", queue="q")])
    [LogRow(ts_us=7, client='p', event='block', queue='', label='', size=0, group='')]
    """
    return [
        LogRow(event.time, event.session, _word(event.kind), event.queue, event.message, 0, "")
        for event in events
        if (event.kind.startswith("client.") and event.kind != "client.differs") or event.kind == "exception"
    ]


def _word(kind: str) -> str:
    return "error" if kind == "exception" else kind.removeprefix("client.")


def producer_measures(rows: Sequence[LogRow], end: int) -> Measures:
    """Measure a producer: blocked share, throughput and percentiles of the time to completion, in seconds.

    A producer whose session ended is not blocked any more.

    Examples
    --------
    >>> rows = [LogRow(0, "p", "transfer", "", "p-1", 0, ""), LogRow(9000, "p", "complete", "", "p-1", 0, "")]
    >>> producer_measures(rows, SECOND)["latency_p50"]
    0.009
    """
    blocked = transfers = 0
    since: int | None = None
    sent: dict[str, int] = {}
    latencies: list[int] = []
    for row in rows:
        if row.ts_us > end:
            break
        if row.event == "block" and since is None:
            since = row.ts_us
        elif row.event in ("unblock", "error") and since is not None:
            blocked, since = blocked + row.ts_us - since, None
        elif row.event == "transfer":
            transfers += 1
            sent[row.label] = row.ts_us
        elif row.event == "complete" and row.label in sent:
            latencies.append(row.ts_us - sent.pop(row.label))
    if since is not None:
        blocked += end - since
    latencies.sort()
    measures: Measures = {"blocked_share": blocked / end, "throughput": transfers * SECOND / end}
    for percent in PERCENTILES:
        place = min(len(latencies) - 1, len(latencies) * percent // 100)
        measures[f"latency_p{percent}"] = latencies[place] / SECOND if latencies else None
    return measures


def consumer_measures(rows: Sequence[LogRow], end: int) -> Measures:
    """Measure a consumer: throughput in accepted messages a second, and the share of time it worked.

    Examples
    --------
    >>> rows = [LogRow(0, "c", "deliver", "q", "p-1", 7, "")]
    >>> consumer_measures([*rows, LogRow(250_000, "c", "accept", "q", "p-1", 0, "")], SECOND)
    {'throughput': 1.0, 'busy_share': 0.25}
    """
    works = [(begin, done, verdict) for begin, done, verdict in works_of(rows) if done <= end]
    accepted = sum(verdict == "accept" for _, _, verdict in works)
    busy = sum(done - begin for begin, done, _ in works)
    return {"throughput": accepted * SECOND / end, "busy_share": busy / end}


def client_measures(
    rows: Iterable[LogRow], producers: Iterable[str], consumers: Iterable[str], end: int
) -> tuple[dict[str, Measures], dict[str, Measures]]:
    """Measure all producers, and all consumers.

    Examples
    --------
    >>> client_measures([], [], ["c"], SECOND)
    ({}, {'c': {'throughput': 0.0, 'busy_share': 0.0}})
    """
    by_client = rows_by_client(rows)
    return (
        {name: producer_measures(by_client.get(name, []), end) for name in producers},
        {name: consumer_measures(by_client.get(name, []), end) for name in consumers},
    )


REPLAYS = 7
"""How many replays there are where one alone would say too little."""

REPLAYS_CHANGED = 5
"""How many there are under other settings than the recorded ones: what is in the middle is seldom far off."""

PATIENCE = 500_000
"""Events: of a run with more there is only one, if no session ends; that takes long, and of so many queues no
one run is in the middle of all."""

CHANCE = {
    "mean_depth": (0.05, 0.1),
    "share_on": (0.0, 0.03),
    "flowStoppedCount": (0.1, 2.0),
    "throughput": (0.03, 0.1),
}
"""By what share of itself, or by how much at least, a measure may differ and be as good as the same."""

NEAR = 0.95
"""Share of a queue's limit from which a message more or less may end a session."""

Sections = Mapping[str, Mapping[str, Measures]]


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay: what was measured, and what sessions ended by.

    Parameters
    ----------
    sections : mapping
        Queues, producers and consumers with their measures.
    errors : mapping
        Client name to what its session ended by.
    is_near : bool
        Whether a session ended, or a queue came so near its limit that one might have.
    events : int
        How many there were.

    Examples
    --------
    >>> Replay({"queues": {}}, {"p": "resource-limit-exceeded: ..."}, True).ended
    ('p',)
    """

    sections: Sections
    errors: Mapping[str, str]
    is_near: bool
    events: int = 0

    @property
    def ended(self) -> tuple[str, ...]:
        """Names of the clients whose session ended, sorted."""
        return tuple(sorted(self.errors))

    def places(self) -> list[tuple[str, str]]:
        """Return the queues and measures by which replays are told apart."""
        return [
            (queue, key) for queue, found in self.sections["queues"].items() for key in CHANCE if key in found
        ]

    def measure(self, queue: str, key: str) -> float:
        """Return one measure of a queue."""
        return float(self.sections["queues"][queue][key] or 0)

    def distance(self, middles: Mapping[tuple[str, str], float]) -> float:
        """Return how far all measures are from others, each in terms of what is little of it."""
        total = 0.0
        for (queue, key), middle in middles.items():
            share, least = CHANCE[key]
            total += abs(self.measure(queue, key) - middle) / max(least, share * abs(middle))
        return total

    def mean_depth(self) -> float:
        """Return the mean depth of all queues together."""
        return sum(float(measures["mean_depth"] or 0) for measures in self.sections["queues"].values())


def shifted(workload: Workload, place: int, of: int = REPLAYS) -> Workload:
    """Return a workload whose consumers meet the same interruptions at other messages.

    What a log shows of a machine's other work would, on another day, have come at other instants: by that
    alone replays differ.

    Parameters
    ----------
    workload : Workload
        What was extracted from a log.
    place, of : int
        The how many-th of how many; the 0th is the log's own.

    Examples
    --------
    >>> consumer = Consumer("c", "q", 1, ("const", 0.01), overhead=(0.001, 0.002, 0.003))
    >>> shifted(Workload("w", 1, {"q": {}}, consumers=(consumer,)), 1, of=3).consumers[0].overhead
    (0.002, 0.003, 0.001)
    """
    consumers = tuple(_shifted(consumer, place, of) for consumer in workload.consumers)
    return workload.replace(consumers=consumers)


def _shifted(consumer: Consumer, place: int, of: int) -> Consumer:
    kind, service = consumer.service
    if isinstance(service, tuple):
        consumer = replace(consumer, service=(kind, _rotated(service, place, of)))
    return replace(consumer, overhead=_rotated(consumer.overhead, place, of))


def _rotated(items: tuple[float, ...], place: int, of: int) -> tuple[float, ...]:
    first = len(items) * place // of
    return items[first:] + items[:first]


def is_near_limit(run: Run) -> bool:
    """Return whether a session ended, or a queue came so near its limit that one might have.

    A queue whose stop count leaves room for all that its producers may have outstanding cannot reach its
    limit (CAP-11).

    Examples
    --------
    >>> is_near_limit(Run(Workload("w", 1, {"q": {"qpid.max_count": 10}}), [], end=0))
    False
    """
    if run.errors:
        return True
    outstanding = sum(producer.capacity for producer in run.workload.producers)
    limits: dict[str, tuple[float, float]] = {}
    for name, arguments in run.workload.queues.items():
        settings = QueueSettings.from_arguments(arguments)
        stop = settings.flow_stop_count
        is_safe = stop is not None and 0 < stop <= settings.max_count - outstanding
        count = NEAR * settings.max_count if settings.max_count and not is_safe else float("inf")
        if settings.policy == "reject":
            limits[name] = (count, NEAR * settings.max_size if settings.max_size else float("inf"))
    for event in run.events:
        if event.kind == "enqueued" and event.queue in limits and isinstance(event.detail, dict):
            depth, size = limits[event.queue]
            if event.detail["depth"] >= depth or event.detail["bytes"] >= size:
                return True
    return False


def most_likely(replays: Sequence[Replay], *, is_recorded: bool = True) -> Replay:
    """Return the replay to show: of those that ended as most did, the one in the middle.

    Under the recorded settings the first is shown if it is one of these: it has the log's own instants.

    Parameters
    ----------
    replays : sequence of Replay
        The first with the log's own instants.
    is_recorded : bool
        Whether the settings are those of the log.  Under others its instants are as good as any.

    Examples
    --------
    >>> def replay(depth, *ended):
    ...     return Replay({"queues": {"q": {"mean_depth": depth}}}, dict.fromkeys(ended, ""), True)
    >>> most_likely([replay(5), replay(1, "p"), replay(9, "p"), replay(2, "p")]).mean_depth()
    2.0
    >>> most_likely([replay(5), replay(1), replay(2)]).mean_depth()
    5.0
    >>> most_likely([replay(5), replay(1), replay(2)], is_recorded=False).mean_depth()
    2.0
    """
    # Counter keeps the order of the first ones, so that a tie goes to the log's own instants.
    ((ended, _),) = Counter(replay.ended for replay in replays).most_common(1)
    if is_recorded and replays[0].ended == ended:
        return replays[0]
    alike = [replay for replay in replays if replay.ended == ended]
    middles = {place: median(replay.measure(*place) for replay in alike) for place in alike[0].places()}
    return min(alike, key=lambda replay: replay.distance(middles))


def account(replays: Sequence[Replay]) -> dict[str, object]:
    """Return how many replays there were, how they ended, and between what their measures lie.

    Examples
    --------
    >>> account([Replay({"queues": {"q": {"mean_depth": depth}}}, {}, False) for depth in (2.0, 3.0)])
    {'number': 2, 'outcomes': [{'ended': [], 'replays': 2}], 'spread': {'q': {'mean_depth': [2.0, 3.0]}}}
    """
    outcomes = Counter(replay.ended for replay in replays).most_common()
    queues = replays[0].sections["queues"]
    return {
        "number": len(replays),
        "outcomes": [{"ended": list(ended), "replays": number} for ended, number in outcomes],
        "spread": {
            name: {
                key: _extremes(replay.sections["queues"][name][key] for replay in replays) for key in measures
            }
            for name, measures in queues.items()
        },
    }


def _extremes(values: Iterable[float | int | None]) -> list[float | int] | None:
    known = [value for value in values if value is not None]
    return [min(known), max(known)] if known else None


_Sections = Mapping[str, Mapping[str, Measures]]
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
    Prediction
        A mapping, ready for JSON: ``queues``, ``producers`` and ``consumers`` hold for each name what was
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
        **_beside(shown.sections, recorded_sections(workload, log, end)),
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


def _beside(predicted: _Sections, recorded: _Sections) -> dict[str, Any]:
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


def predicted_sections(run: Run, workload: Workload, end: int) -> dict[str, dict[str, Measures]]:
    """Return the measures of a simulated run's queues, producers and consumers.

    Examples
    --------
    >>> workload = Workload("w", 1, {"q": {}})
    >>> predicted_sections(simulate(workload), workload, SECOND)["producers"]
    {}
    """
    producers, consumers = client_measures(
        rows_of_run(run.events),
        [producer.name for producer in workload.producers],
        [consumer.name for consumer in workload.consumers],
        end,
    )
    queues = queue_measures(run.events, workload, end)
    return {"queues": queues, "producers": producers, "consumers": consumers}


def recorded_sections(workload: Workload, log: ClientLog, end: int) -> dict[str, dict[str, Measures]]:
    """Return the same of what was recorded, for the queues and clients that the log shows.

    Examples
    --------
    >>> recorded_sections(Workload("w", 1, {"q": {}}), ClientLog("empty", []), SECOND)["queues"]
    {}
    """
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


def _models_differ(others: _Sections, used: _Sections) -> dict[str, Any]:
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
