"""Measures of a run: the same for what was recorded and for what is predicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qflow.broker.events import Event
from qflow.trace.client_log import ClientLog, QueueSample
from qflow.trace.consumer_work import works_of
from qflow.trace.extract import rows_by_client
from qflow.trace.log_rows import LogRow
from qflow.workload.agenda import SECOND
from qflow.workload.measures import DepthMeter, Measures

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
