"""Replays: the workload behind a log, run again and measured; more than once where chance decides.

All measures are over the time the producers ran, from 0 to the workload's duration, and are the same for
what was recorded and for what is predicted.  Depths and shares are averaged over time: recorded ones from
what the broker reported of a queue now and then, predicted ones from every event.

One replay says little where little decides much: whether a session ends when a queue is full to the last
byte.  What a log shows of a machine's other work would, on another day, have come at other instants.  So a
replay is repeated with the consumers' interruptions at other messages (:func:`shifted`), and of those that
ended as most did the one in the middle is shown (:func:`most_likely`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from qflow.broker.events import Event
from qflow.broker.settings import QueueSettings
from qflow.logs.client_log import ClientLog, rows_by_client
from qflow.logs.log_file import LogRow
from qflow.prediction.costs import works_of
from qflow.workload.agenda import SECOND
from qflow.workload.model import Consumer, Producer, Senders, Workload
from qflow.workload.run import DepthMeter, Measures, Run, queue_measures

Sections = Mapping[str, Mapping[str, Measures]]
"""Measures by name, in three sections: queues, producers and consumers."""

PERCENTILES = (50, 90, 99)


# Measures


def recorded_sections(workload: Workload, log: ClientLog, end: int) -> dict[str, dict[str, Measures]]:
    """Return the measures of what was recorded, of the queues and clients that the log shows.

    Parameters
    ----------
    workload : Workload
        What was run.
    log : ClientLog
        What was recorded.
    end : int
        Microseconds; what came later does not count.

    Examples
    --------
    >>> recorded_sections(Workload("w", 1, {"q": {}}), ClientLog("empty", []), SECOND)["queues"]
    {}
    """
    accepted = Counter(row.queue for row in log.rows if row.event == "accept" and row.ts_us <= end)
    queues = {}
    for name in workload.queues:
        measures = recorded_queue(log, name, accepted[name], end)
        if measures is not None:
            queues[name] = measures
    return {"queues": queues, **_clients(workload, rows_by_client(log.rows), end, only_present=True)}


def predicted_sections(run: Run, workload: Workload, end: int) -> dict[str, dict[str, Measures]]:
    """Return the same measures of a simulated run.

    Examples
    --------
    >>> workload = Workload("w", 1, {"q": {}})
    >>> predicted_sections(Run(workload, [], end=SECOND), workload, SECOND)["producers"]
    {}
    """
    without = [producer for producer in run.workload.producers if producer.network is None]
    clients = _clients(workload, rows_by_client(rows_of_run(run.events, without)), end)
    return {"queues": queue_measures(run.events, workload, end), **clients}


def _clients(
    workload: Workload, rows: Mapping[str, Sequence[LogRow]], end: int, *, only_present: bool = False
) -> dict[str, dict[str, Measures]]:
    return {
        section: {
            client.name: measure(rows.get(client.name, ()), end)
            for client in clients
            if client.name in rows or not only_present
        }
        for section, clients, measure in (
            ("producers", workload.producers, producer_measures),
            ("consumers", workload.consumers, consumer_measures),
        )
    }


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
    return {
        **meter.measures(),
        "flowStoppedCount": samples[-1].flowStoppedCount,
        "throughput": accepted * SECOND / end,
        "discards": samples[-1].discardsRing,
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


def rows_of_run(events: Iterable[Event], without: Iterable[Producer] = ()) -> list[LogRow]:
    """Return what the clients of a simulated run would have logged, without sizes and groups.

    Parameters
    ----------
    events : iterable of Event
        What happened.
    without : iterable of Producer
        Those without a network: what they send is at the broker at once, and what is complete they know.

    Examples
    --------
    >>> rows_of_run([Event(7, "client.block", session="p"), Event(8, "enqueued", queue="q")])
    [LogRow(ts_us=7, client='p', event='block', queue='', label='', size=0, group='')]
    """
    senders = Senders(without)
    rows: list[LogRow] = []
    for event in events:
        kind = event.kind
        if kind.startswith("client.") and kind != "client.differs":
            names: tuple[str, ...] = (event.session,)
        elif kind == "exception":
            names = senders.on(event.session) or (event.session,)
        elif kind in _AT_THE_BROKER:
            sender = senders.of(event.session, event.message)
            names = (sender,) if sender and event.message else ()
        else:
            continue
        word = _AT_THE_BROKER.get(kind) or kind.removeprefix("client.")
        rows += [LogRow(event.time, name, word, event.queue, event.message, 0, "") for name in names]
    return rows


_AT_THE_BROKER = {"message.transfer": "transfer", "completed": "complete", "exception": "error"}


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


# Chance

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

    def measures(self) -> dict[tuple[str, str], float]:
        """Return the measures by which replays are compared, by queue and name."""
        return {
            (queue, key): float(found[key] or 0)
            for queue, found in self.sections["queues"].items()
            for key in CHANCE
            if key in found
        }

    def distance(self, middles: Mapping[tuple[str, str], float]) -> float:
        """Return how far all measures are from others, each in terms of what is little of it."""
        total = 0.0
        for place, value in self.measures().items():
            share, least = CHANCE[place[1]]
            total += abs(value - middles[place]) / max(least, share * abs(middles[place]))
        return total


def shifted(workload: Workload, place: int, of: int = REPLAYS) -> Workload:
    """Return a workload whose consumers meet the same interruptions at other messages.

    Parameters
    ----------
    workload : Workload
        What was extracted from a log.
    place, of : int
        Which one of how many; number 0 is the log's own.

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

    Parameters
    ----------
    replays : sequence of Replay
        The first with the log's own instants.
    is_recorded : bool
        Whether the settings are those of the log.  Then the first is shown if it ended as most did; under
        other settings its instants are as good as any.

    Examples
    --------
    >>> def replay(depth, *ended):
    ...     return Replay({"queues": {"q": {"mean_depth": depth}}}, dict.fromkeys(ended, ""), True)
    >>> replays = [replay(5), replay(1, "p"), replay(9, "p"), replay(2, "p")]
    >>> replays.index(most_likely(replays))
    3
    >>> replays = [replay(5), replay(1), replay(2)]
    >>> replays.index(most_likely(replays)), replays.index(most_likely(replays, is_recorded=False))
    (0, 2)
    """
    # Counter keeps the order of the first ones, so that a tie goes to the log's own instants.
    ((ended, _),) = Counter(replay.ended for replay in replays).most_common(1)
    if is_recorded and replays[0].ended == ended:
        return replays[0]
    alike = [replay for replay in replays if replay.ended == ended]
    found = [replay.measures() for replay in alike]
    middles = {place: median(measures[place] for measures in found) for place in found[0]}
    return min(alike, key=lambda replay: replay.distance(middles))


def account(replays: Sequence[Replay]) -> dict[str, object]:
    """Return how many replays there were, how they ended, and between what their measures lie.

    Examples
    --------
    >>> account([Replay({"queues": {"q": {"mean_depth": depth}}}, {}, False) for depth in (2.0, 3.0)])
    {'number': 2, 'outcomes': [{'ended': [], 'replays': 2}], 'spread': {'q': {'mean_depth': [2.0, 3.0]}}}
    """
    outcomes = Counter(replay.ended for replay in replays).most_common()
    spread: dict[str, dict[str, list[float | int] | None]] = {}
    for name, measures in replays[0].sections["queues"].items():
        spread[name] = {}
        for key in measures:
            values = [replay.sections["queues"][name][key] for replay in replays]
            known = [value for value in values if value is not None]
            spread[name][key] = [min(known), max(known)] if known else None
    return {
        "number": len(replays),
        "outcomes": [{"ended": list(ended), "replays": number} for ended, number in outcomes],
        "spread": spread,
    }
