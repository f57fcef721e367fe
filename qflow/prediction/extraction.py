"""When a producer meant to send: what its log shows, and what a block hides.

Extract the workload behind a client log: when producers meant to send, how long consumers worked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from statistics import median
from typing import NamedTuple

from qflow.logs.client_log import ClientLog, rows_by_client
from qflow.logs.log_file import LogRow
from qflow.prediction.costs import (
    FEW,
    Load,
    SystemDelay,
    consumer_network,
    credit_delays,
    producer_network,
    served,
    works,
)
from qflow.prediction.pace import client_pace, interruption, machine_pace, missing_pace, slower, usual_pace
from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import due_messages
from qflow.workload.attributes import require
from qflow.workload.model import MODELS, Producer, Workload
from qflow.workload.network import Network

QUICK = 2_000
"""Microseconds: a client that sends sooner than that after it could has been waiting to."""


class Sent(NamedTuple):
    """One transfer of a producer.

    Fields
    ------
    time : int
        When it was sent.
    free : int
        Since when the producer could have sent it: the send before, or the end of a block.
    wanted : int
        When the producer met a full window with it; the time at which it was sent, if it met none.
    size, group
        Its content bytes, and its group.
    """

    time: int
    free: int
    wanted: int
    size: int
    group: str


def sends_of(rows: Sequence[LogRow]) -> list[Sent]:
    """Return what a producer sent, in order.

    Examples
    --------
    >>> rows = [LogRow(5, "p", "block", "", "", 0, ""), LogRow(9, "p", "unblock", "", "", 0, "")]
    >>> sends_of([*rows, LogRow(10, "p", "transfer", "q", "p-1", 7, "")])
    [Sent(time=10, free=9, wanted=5, size=7, group='')]
    """
    sends: list[Sent] = []
    free, wanted = 0, -1
    for row in rows:
        if row.event == "block" and wanted < 0:
            wanted = row.ts_us
        elif row.event == "unblock":
            free = row.ts_us
        elif row.event == "transfer":
            sends.append(Sent(row.ts_us, free, wanted if wanted >= 0 else row.ts_us, row.size, row.group))
            free, wanted = row.ts_us, -1
    return sends


def catches_up(sends: Sequence[Sent]) -> bool | None:
    """Return whether a producer sends faster after a block than before; None if it never blocked for long.

    One that keeps a schedule owes the messages that fell due in the meantime; the second send after a
    block tells, as the first one follows at once in either case.

    Examples
    --------
    >>> blocked = Sent(90_000, 89_900, 20_000, 7, "")
    >>> catches_up([Sent(10_000, 0, 10_000, 7, ""), blocked, Sent(90_100, 90_000, 90_100, 7, "")])
    True
    >>> catches_up([Sent(10_000, 0, 10_000, 7, ""), blocked, Sent(99_000, 90_000, 99_000, 7, "")])
    False
    >>> catches_up([Sent(10_000, 0, 10_000, 7, "")]) is None
    True
    """
    if len(sends) < 2:
        return None
    free_gaps = [item.wanted - item.free for item in sends if item.wanted - item.free >= QUICK]
    usual = sum(free_gaps) / len(free_gaps) if free_gaps else QUICK
    owing = [
        (after.wanted - after.free) < QUICK
        for item, after in pairwise(sends)
        if item.time - item.wanted > 2 * usual
    ]
    return sum(owing) > len(owing) / 2 if owing else None


def gaps(times: Iterable[int]) -> Iterator[int]:
    """Yield the microseconds from each instant to the next, the first from 0; none is negative.

    Examples
    --------
    >>> list(gaps([10, 30, 30]))
    [10, 20, 0]
    """
    before = 0
    for time in times:
        yield max(0, time - before)
        before = time


def think_times(sends: Sequence[Sent]) -> list[int]:
    """Return the microseconds between each send and the wish for the next (the closed model).

    They are a producer's own only if it does not catch up after a block: who owes messages does not think.

    Examples
    --------
    >>> think_times([Sent(10, 0, 10, 7, ""), Sent(90, 89, 20, 7, "")])
    [10, 10]
    """
    before = 0
    times: list[int] = []
    for item in sends:
        times.append(max(0, item.wanted - before))
        before = item.time
    return times


def inferred_schedule(sends: Sequence[Sent], end: int) -> list[int]:
    """Return when each message was due, as far as can be told (the open model).

    A message sent by a producer that was not behind was due then.  Those sent in haste after a block are
    spread evenly over the time since the block began.  A producer still behind at the end would have
    gone on at its average rate.

    Examples
    --------
    >>> sends = [Sent(10_000, 0, 10_000, 7, ""), Sent(90_000, 89_900, 20_000, 7, "")]
    >>> sends += [Sent(90_100, 90_000, 90_100, 7, ""), Sent(120_000, 90_100, 120_000, 7, "")]
    >>> inferred_schedule(sends, 120_000)
    [10000, 20000, 55050, 120000]
    """
    due: list[int] = []
    streak: list[int] = []
    begin = 0
    for index, item in enumerate(sends):
        is_hasty = bool(streak) and item.wanted - item.free < QUICK
        if streak and not is_hasty:
            _spread(due, streak, begin, sends[index - 1].time)
            streak = []
        if not streak:
            begin = item.wanted
        due.append(item.wanted)
        if item.wanted < item.time or streak:
            streak.append(index)
    if streak:
        _spread(due, streak, begin, end)
    if streak and begin > 0:
        gap = max(1, end // max(1, len(due)))
        due.extend(range(due[-1] + gap, end, gap))
    return due


def _spread(due: list[int], streak: Sequence[int], begin: int, end: int) -> None:
    for place, index in enumerate(streak):
        due[index] = begin + (max(end, begin) - begin) * place // len(streak)


TOLERANCE = 1_000
"""Microseconds by which a real client may be early, as clocks go."""


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
        ever blocked catches up and none keeps the schedule that its workload file states, else open.
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
    return Evidence(log, workload, draws=draws).extraction(model)


class Evidence:
    """What a log shows of a workload, whatever is assumed of its producers while they were blocked.

    It is gathered once; :meth:`extraction` then answers for either model.

    Parameters
    ----------
    log, workload, draws
        As for :func:`extract`.

    Examples
    --------
    >>> evidence = Evidence(ClientLog("empty", []), Workload("w", 1, {"q": {}}))
    >>> evidence.model, evidence.extraction("closed").model
    ('open', 'closed')
    """

    def __init__(self, log: ClientLog, workload: Workload, *, draws: bool = True) -> None:
        self._workload, self._draws = workload, draws
        rows = rows_by_client(log.rows)
        own = {producer.name: rows.get(producer.name, []) for producer in workload.producers}
        self._sent = {name: sends_of(rows) for name, rows in own.items()}
        self._catches_up = {name: catches_up(sends) for name, sends in self._sent.items()}
        self._stated = {
            producer.name
            for producer in workload.producers
            if producer.arrival != "recorded" and _confirms_schedule(producer, self._sent[producer.name])
        }
        load = Load(own)
        times = {row.label: row.ts_us for row in log.rows if row.event == "transfer"}
        told = {
            consumer.name: credit_delays(rows.get(consumer.name, []), consumer.prefetch, times)
            for consumer in workload.consumers
        }
        system = SystemDelay.of(told.values())
        self._consumer_sources: dict[str, str] = {}
        self._consumers = tuple(
            replace(
                served(consumer, rows.get(consumer.name, []), self._consumer_sources, draws=draws),
                network=consumer_network(told[consumer.name], system, load),
            )
            for consumer in workload.consumers
        )
        self._networks = self._producer_networks(own, system, load)
        missing = missing_pace(self.extraction("open").workload, own)
        self._networks = {name: slower(network, missing) for name, network in self._networks.items()}

    @property
    def model(self) -> str:
        """What the log shows: closed if no producer that was ever blocked catches up, else open.

        A producer whose log confirms the schedule that its workload file states keeps that schedule.
        """
        if self._stated:
            return "open"
        seen = [answer for answer in self._catches_up.values() if answer is not None]
        return "closed" if seen and not any(seen) else "open"

    def extraction(self, model: str | None = None) -> Extraction:
        """Return the workload behind the log.

        Parameters
        ----------
        model : {"open", "closed"} or None
            How producers behave while blocked; None for what the log shows.

        Raises
        ------
        WorkloadError
            If the model is neither.
        """
        allowed = " or ".join(map(repr, MODELS))
        require(model is None or model in MODELS, "extract", "model", model, f"{allowed}, or None")
        model = model or self.model
        sources: dict[str, str] = {}
        producers = []
        for producer in self._workload.producers:
            is_stated = model == "open" and producer.name in self._stated
            sources[producer.name] = "stated" if is_stated else "recorded"
            if not is_stated:
                times = self._times(producer, model)
                producer = _as_recorded(producer, self._sent[producer.name], model, times)
            elif not self._draws:
                producer = _written_out(producer, self._workload.duration)
            producers.append(replace(producer, network=self._networks[producer.name]))
        extracted = self._workload.replace(producers=tuple(producers), consumers=self._consumers)
        return Extraction(extracted, model, sources | self._consumer_sources, self._catches_up)

    def _times(self, producer: Producer, model: str) -> list[int]:
        """Return when each message of a producer was due, or how long it thought before it."""
        sent, end = self._sent[producer.name], round(self._workload.duration * SECOND)
        if model == "closed" and not self._catches_up[producer.name]:
            return think_times(sent)
        if producer.name in self._stated:
            times = [
                due for due, _, _ in takewhile(lambda message: message[0] <= end, due_messages(producer))
            ]
        else:
            times = inferred_schedule(sent, end)
        # Who catches up shows no thoughts meanwhile; without blocks they would be as long as its gaps.
        return list(gaps(times)) if model == "closed" else times

    def _producer_networks(
        self, own: Mapping[str, Sequence[LogRow]], system: SystemDelay, load: Load
    ) -> dict[str, Network]:
        due = {
            producer.name: _due(producer, self._sent[producer.name]) if producer.name in self._stated else []
            for producer in self._workload.producers
        }
        costs = works(own, due)
        factors = [found for work in costs.values() for found in work.factors]
        usual = usual_pace(
            (factor for _, factor in factors),
            interruption(consumer.overhead for consumer in self._consumers),
        )
        machine = machine_pace(factors, usual)
        return {
            name: producer_network(work, system, load, client_pace(work.factors, machine), max(1.0, usual))
            for name, work in costs.items()
        }


def _due(producer: Producer, sent: Sequence[Sent]) -> list[int]:
    """Return when each message that was sent was due."""
    return [due for (due, _, _), _ in zip(due_messages(producer), sent, strict=False)]


def _written_out(producer: Producer, duration: float) -> Producer:
    """Return a producer with its draws as recorded times, as many as fall due."""
    due = takewhile(lambda message: message[0] <= round(duration * SECOND), due_messages(producer))
    recorded = tuple((time / SECOND, size, group) for time, size, group in due)
    return replace(producer, arrival="recorded", recorded=recorded)


# Producers


def _as_recorded(model: Producer, sent: Sequence[Sent], kind: str, times: Sequence[int]) -> Producer:
    """Return a producer with recorded times, and the sizes and groups of its log."""
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
