"""Extract the workload behind a client log: when producers meant to send, how long consumers worked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from statistics import median

from qflow.trace.client_log import ClientLog
from qflow.trace.log_rows import LogRow
from qflow.trace.network_costs import Load, consumer_network, producer_network
from qflow.trace.producer_work import usual_pace, works
from qflow.trace.schedules import Sent, catches_up, inferred_schedule, sends_of, think_times
from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import due_messages
from qflow.workload.checks import require
from qflow.workload.clients import MODELS, Consumer, Producer
from qflow.workload.model import Workload
from qflow.workload.service import Service

TOLERANCE = 1_000
"""Microseconds by which a real client may be early, as clocks go."""

FEW = 20
"""Fewer observations than that confirm nothing."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """The workload behind a log, and how it was found.

    Parameters
    ----------
    workload : Workload
        The same queues and clients; their arrivals, service times and networks are those of the log.
    model : {"open", "closed"}
        How producers behave while they are blocked, which no log can tell: they keep a schedule and
        catch up, or they think after each message and lose the time.
    sources : mapping
        Client name to where its times come from: ``stated`` (the workload file's, which the log confirms
        message by message) or ``recorded`` (the log's own).
    catches_up : mapping
        Producer name to whether the log shows it catching up after a block; None if it never blocked.
    """

    workload: Workload
    model: str
    sources: Mapping[str, str]
    catches_up: Mapping[str, bool | None]


def extract(
    log: ClientLog, workload: Workload, model: str | None = None, *, draws: bool = True
) -> Extraction:
    """Return the workload behind a client log.

    Where the workload file states how a client draws its times, and the log shows exactly these draws,
    the draws are kept: they also tell what the client would have done later.  Otherwise the recorded
    times are taken, and repeated if a run needs more.

    Parameters
    ----------
    log : ClientLog
        What was recorded.
    workload : Workload
        What was run.
    model : {"open", "closed"} or None
        How producers behave while blocked; None for what the log shows: closed if no producer that was
        ever blocked catches up, else open.
    draws : bool
        Whether to keep draws that the log confirms; otherwise all times are written out as recorded ones.

    Returns
    -------
    Extraction
        The workload can be simulated, also with changed queues, capacities and prefetch.

    Raises
    ------
    WorkloadError
        If the model is neither.

    Examples
    --------
    >>> from qflow.trace import ClientLog, LogRow
    >>> workload = Workload(
    ...     "small",
    ...     duration=1,
    ...     queues={"q": {}},
    ...     producers=(Producer("p", ("", "q"), rate=4, capacity=5, size=100),),
    ... )
    >>> rows = [LogRow(time, "p", "transfer", "q", f"p-{n}", 7, "") for n, time in ((1, 100), (2, 900))]
    >>> extraction = extract(ClientLog("small", rows), workload)
    >>> extraction.sources, extraction.workload.producers[0].recorded
    ({'p': 'recorded'}, ((0.0001, 7, ''), (0.0009, 7, '')))
    """
    allowed = " or ".join(map(repr, MODELS))
    require(model is None or model in MODELS, "extract", "model", model, f"{allowed}, or None")
    rows = rows_by_client(log.rows)
    sent = {producer.name: sends_of(rows.get(producer.name, [])) for producer in workload.producers}
    catching = {name: catches_up(sends) for name, sends in sent.items()}
    if model is None:
        seen = [answer for answer in catching.values() if answer is not None]
        model = "closed" if seen and not any(seen) else "open"
    sources: dict[str, str] = {}
    load = Load({producer.name: rows.get(producer.name, []) for producer in workload.producers})
    times = {row.label: row.ts_us for row in log.rows if row.event == "transfer"}
    delays = {
        consumer.name: consumer_network(rows.get(consumer.name, []), consumer.prefetch, sent=times, load=load)
        for consumer in workload.consumers
    }
    found = [network.ack_delay for network in delays.values() if network is not None]
    ack_delay = median(found) if found else 0.0
    consumers = tuple(
        replace(
            _consumer(consumer, rows.get(consumer.name, []), sources, draws),
            network=delays[consumer.name] or consumer_network([], 1, ack_delay, load=load),
        )
        for consumer in workload.consumers
    )
    producers = _producers(workload, rows, sent, model, sources, ack_delay, load)
    if not draws:
        producers = tuple(_written_out(producer, workload.duration) for producer in producers)
    extracted = workload.replace(producers=producers, consumers=consumers)
    return Extraction(extracted, model, sources, catching)


def _producers(
    workload: Workload,
    rows: Mapping[str, Sequence[LogRow]],
    sent: Mapping[str, Sequence[Sent]],
    model: str,
    sources: dict[str, str],
    ack_delay: float,
    load: Load,
) -> tuple[Producer, ...]:
    """Return the producers, each with its schedule and what its work costs."""
    found = [
        _producer(producer, sent[producer.name], model, sources, workload.duration)
        for producer in workload.producers
    ]
    own = {producer.name: rows.get(producer.name, []) for producer in found}
    costs = works(own, {producer.name: _due(producer, sent[producer.name]) for producer in found})
    usual = usual_pace(costs.values())
    return tuple(
        replace(
            producer,
            network=producer_network(own[producer.name], ack_delay, costs[producer.name], load, usual),
        )
        for producer in found
    )


def _due(producer: Producer, sent: Sequence[Sent]) -> list[int]:
    """Return when each message that was sent was due; nothing if only the log itself tells."""
    if producer.arrival == "recorded":
        return []
    return [due for (due, _, _), _ in zip(due_messages(producer), sent, strict=False)]


def _written_out(producer: Producer, duration: float) -> Producer:
    """Return a producer with its draws as recorded times, as many as fall due."""
    if producer.arrival == "recorded":
        return producer
    due = takewhile(lambda message: message[0] <= round(duration * SECOND), due_messages(producer))
    recorded = tuple((time / SECOND, size, group) for time, size, group in due)
    return replace(producer, arrival="recorded", recorded=recorded)


def rows_by_client(rows: Iterable[LogRow]) -> dict[str, list[LogRow]]:
    """Return each client's rows, in order.

    Examples
    --------
    >>> rows_by_client([])
    {}
    """
    by_client: dict[str, list[LogRow]] = {}
    for row in rows:
        by_client.setdefault(row.client, []).append(row)
    return by_client


# Producers


def _producer(
    model: Producer, sent: Sequence[Sent], kind: str, sources: dict[str, str], duration: float
) -> Producer:
    is_stated = model.arrival != "recorded" and _confirms_schedule(model, sent)
    if is_stated and kind == "open":
        sources[model.name] = "stated"
        return model
    sources[model.name] = "recorded"
    find = think_times if kind == "closed" else inferred_schedule
    times = find(sent, round(duration * SECOND))
    recorded = tuple(
        (time / SECOND, item.size, item.group)
        for time, item in zip(times, _extended(sent, len(times)), strict=True)
    )
    return replace(model, arrival="recorded", recorded=recorded, model=kind)


def _extended(sent: Sequence[Sent], count: int) -> list[Sent]:
    return [sent[index % len(sent)] for index in range(count)]


def _confirms_schedule(model: Producer, sent: Sequence[Sent]) -> bool:
    """Return whether a log shows what a workload states: same sizes, none early, none idly late."""
    lags: list[int] = []
    for item, (due, size, group) in zip(sent, due_messages(model), strict=False):
        if (size, group) != (item.size, item.group) or item.time < due - TOLERANCE:
            return False
        lags.append(item.time - max(due, item.free))
    return len(lags) >= FEW and median(lags) < 5 * TOLERANCE


# Consumers


def _consumer(model: Consumer, rows: Sequence[LogRow], sources: dict[str, str], draws: bool) -> Consumer:
    works = works_of(rows)
    ends = [row.ts_us / SECOND for row in rows if row.event == "error"]
    if ends and model.crash is None:
        model = replace(model, crash=max(model.start, ends[0]))
    sources[model.name] = "recorded"
    if not works:
        sources[model.name] = "stated"
        return model
    overhead = _overhead(model, works) if draws else None
    if overhead is not None:
        sources[model.name] = "stated"
        return replace(model, overhead=overhead)
    times = tuple(max(1, end - begin) / SECOND for begin, end, _ in works)
    released, rejected = (
        sum(verdict == kind for _, _, verdict in works) / len(works) for kind in ("release", "reject")
    )
    return replace(
        model, service=("recorded", times), slow=(), overhead=(), release=released, reject=rejected
    )


def works_of(rows: Sequence[LogRow]) -> list[tuple[int, int, str]]:
    """Return (begin, end, verdict) of each message a consumer worked on, one at a time.

    Examples
    --------
    >>> works_of([LogRow(5, "c", "deliver", "q", "p-1", 7, ""), LogRow(9, "c", "accept", "q", "p-1", 0, "")])
    [(5, 9, 'accept')]
    """
    arrived: dict[str, int] = {}
    works: list[tuple[int, int, str]] = []
    free = 0
    for row in rows:
        if row.event == "deliver":
            arrived[row.label] = row.ts_us
        elif row.event in ("accept", "release", "reject"):
            works.append((max(free, arrived.get(row.label, free)), row.ts_us, row.event))
            free = row.ts_us
    return works


def _overhead(model: Consumer, works: Sequence[tuple[int, int, str]]) -> tuple[float, ...] | None:
    """Return by how much each service took longer than its draw; None if these are not the draws."""
    if model.service[0] == "recorded" or model.overhead:
        return None
    service = Service(model)
    overhead: list[int] = []
    right = 0
    for begin, end, verdict in works:
        overhead.append(end - begin - service.time(begin))
        right += service.verdict() == verdict
    early = sum(item < -TOLERANCE // 5 for item in overhead)
    if len(works) < FEW or right < len(works) or early > len(works) // 50:
        return None
    if median(overhead) > 2 * TOLERANCE:
        return None
    return tuple(item / SECOND for item in overhead)
