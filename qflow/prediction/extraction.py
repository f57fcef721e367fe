"""Extraction: the workload behind a client log, ready to be run again under other settings.

A log shows what clients did; a prediction needs what they would have done.  For each client there are two
answers, and :attr:`Extraction.sources` says which one was taken:

- **stated**: the workload file says how the client draws its times, sizes and groups, and the log shows
  exactly these draws, message by message.  Then the draws are kept, which also say what the client would have
  done later.
- **recorded**: otherwise the times of the log are taken, and repeated if a run needs more.

A block hides when a producer meant to send, and no log can show what it would have done without that block.
There are two models.  An *open* producer keeps a schedule and catches up; a *closed* one thinks after each
message and loses the time.  A log hints at it: who catches up after a block is open (:func:`catches_up`).

What each client's own work and its way to the broker cost :mod:`qflow.prediction.costs` estimates, and how
that varies :mod:`qflow.prediction.disturbances`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, pairwise, takewhile
from statistics import median
from typing import NamedTuple

from qflow.logs.client_log import ClientLog, rows_by_client
from qflow.logs.log_file import LogRow
from qflow.prediction.costs import FEW, constant_networks, credit_returns, read_consumer
from qflow.prediction.disturbances import full_networks
from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import due_messages
from qflow.workload.attributes import require
from qflow.workload.model import MODELS, Producer, Workload

DETAILS = ("constants", "full")
"""Layers of costs: constants only, or also how they vary (:mod:`qflow.prediction.disturbances`)."""

_QUICK = 2_000
"""Microseconds: a client that sends sooner than that after it could has been waiting to."""

_TOLERANCE = 1_000
"""Microseconds by which a real client may be early, as clocks go."""


@dataclass(frozen=True, slots=True)
class Extraction:
    """The workload behind a log, and how it was found."""

    workload: Workload
    model: str
    # Client name to "stated" or "recorded"; producer name to what :func:`catches_up` says.
    sources: Mapping[str, str]
    catches_up: Mapping[str, bool | None]


def extract(
    log: ClientLog,
    workload: Workload,
    model: str | None = None,
    *,
    draws: bool = True,
    detail: str = "full",
) -> Extraction:
    """Return the workload behind a client log; without ``draws`` all times are written out as recorded."""
    return Evidence(log, workload, draws=draws, detail=detail).extraction(model)


class Evidence:
    """What a log shows of a workload, gathered once; :meth:`extraction` answers for either model of it."""

    def __init__(
        self, log: ClientLog, workload: Workload, *, draws: bool = True, detail: str = "full"
    ) -> None:
        require(detail in DETAILS, "extract", "detail", detail, " or ".join(map(repr, DETAILS)))
        self._workload, self._draws = workload, draws
        rows = rows_by_client(log.rows)
        own = {producer.name: rows.get(producer.name, []) for producer in workload.producers}
        self._sent = {name: _sends_of(rows) for name, rows in own.items()}
        self._catches_up = {name: catches_up(sends) for name, sends in self._sent.items()}
        self._stated = {
            producer.name
            for producer in workload.producers
            if producer.arrival != "recorded" and _confirms_schedule(producer, self._sent[producer.name])
        }
        times = {row.label: row.ts_us for row in log.rows if row.event == "transfer"}
        returns = {
            consumer.name: credit_returns(rows.get(consumer.name, []), consumer.prefetch, times)
            for consumer in workload.consumers
        }
        found = [read_consumer(item, rows.get(item.name, []), draws=draws) for item in workload.consumers]
        self._consumer_sources = {consumer.name: source for consumer, source in found}
        networks = full_networks if detail == "full" else constant_networks
        self._networks = networks(workload, own, self._due_of_stated(), returns)
        self._consumers = tuple(
            replace(consumer, network=self._networks[consumer.name]) for consumer, _ in found
        )

    @property
    def model(self) -> str:
        """What the log shows: closed if no producer that was ever blocked catches up, else open."""
        # A producer whose log confirms the schedule that its workload file states keeps that schedule.
        if self._stated:
            return "open"
        seen = [answer for answer in self._catches_up.values() if answer is not None]
        return "closed" if seen and not any(seen) else "open"

    def extraction(self, model: str | None = None) -> Extraction:
        """Return the workload behind the log, with the model as for :func:`extract`."""
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
                producer = _write_out(producer, self._workload.duration)
            if producer.window == "ideal" and not producer.session:
                # What the others' ways cost is not known apart from what their windows make them wait for.
                producer = replace(producer, network=self._networks[producer.name])
            producers.append(producer)
        extracted = self._workload.replace(producers=tuple(producers), consumers=self._consumers)
        return Extraction(extracted, model, sources | self._consumer_sources, self._catches_up)

    def _times(self, producer: Producer, model: str) -> list[int]:
        """Return when each message of a producer was due, or how long it thought before it."""
        sent, end = self._sent[producer.name], round(self._workload.duration * SECOND)
        if model == "closed" and not self._catches_up[producer.name]:
            return _think_times(sent)
        if producer.name in self._stated:
            times = [due for due, _, _ in _due_until(producer, end)]
        else:
            times = _infer_schedule(sent, end)
        # Who catches up shows no thoughts meanwhile; without blocks they would be as long as its gaps.
        if model == "closed":
            return [max(0, time - before) for before, time in pairwise([0, *times])]
        return times

    def _due_of_stated(self) -> dict[str, list[int]]:
        """Return when the messages fell due that each producer sent, if its workload states it."""
        due: dict[str, list[int]] = {}
        for producer in self._workload.producers:
            is_stated = producer.name in self._stated
            messages = zip(due_messages(producer), self._sent[producer.name], strict=False)
            due[producer.name] = [time for (time, _, _), _ in messages] if is_stated else []
        return due


# When a producer meant to send


class SentTransfer(NamedTuple):
    """One transfer of a producer."""

    time: int
    # Since when it could have been sent: the send before, or the end of a block.
    free: int
    # When the producer met a full window with it, if it met one.
    wanted: int
    size: int
    group: str


def _sends_of(rows: Sequence[LogRow]) -> list[SentTransfer]:
    """Return what a producer sent, in order."""
    sends: list[SentTransfer] = []
    free, wanted = 0, -1
    for row in rows:
        if row.event == "block" and wanted < 0:
            wanted = row.ts_us
        elif row.event == "unblock":
            free = row.ts_us
        elif row.event == "transfer":
            sends.append(
                SentTransfer(row.ts_us, free, wanted if wanted >= 0 else row.ts_us, row.size, row.group)
            )
            free, wanted = row.ts_us, -1
    return sends


def catches_up(sends: Sequence[SentTransfer]) -> bool | None:
    """Return whether a producer sends faster after a block than before; None if it never blocked for long."""
    # One that keeps a schedule owes the messages that fell due in the meantime; the second send after a
    # block tells, as the first one follows at once in either case.
    if len(sends) < 2:
        return None
    free_gaps = [item.wanted - item.free for item in sends if item.wanted - item.free >= _QUICK]
    usual = sum(free_gaps) / len(free_gaps) if free_gaps else _QUICK
    owing = [
        (after.wanted - after.free) < _QUICK
        for item, after in pairwise(sends)
        if item.time - item.wanted > 2 * usual
    ]
    return sum(owing) > len(owing) / 2 if owing else None


def _think_times(sends: Sequence[SentTransfer]) -> list[int]:
    """Return the microseconds between each send and the wish for the next (the closed model).

    >>> _think_times([SentTransfer(10, 0, 10, 7, ""), SentTransfer(90, 89, 20, 7, "")])
    [10, 10]
    """
    # They are a producer's own only if it does not catch up after a block: who owes messages does not think.
    ends = [0, *(item.time for item in sends)]
    return [max(0, item.wanted - before) for item, before in zip(sends, ends, strict=False)]


def _infer_schedule(sends: Sequence[SentTransfer], end: int) -> list[int]:
    """Return when each message was due, as far as the log shows (the open model)."""
    # A message sent by a producer that was not behind was due then.  Those sent in haste after a block are
    # spread evenly over the time since the block began.  A producer still behind at the end would have
    # gone on at its average rate.
    due: list[int] = []
    streak: list[int] = []
    begin = 0
    for index, item in enumerate(sends):
        is_hasty = bool(streak) and item.wanted - item.free < _QUICK
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


def _due_until(producer: Producer, end: int) -> Iterable[tuple[int, int, str]]:
    return takewhile(lambda message: message[0] <= end, due_messages(producer))


def _write_out(producer: Producer, duration: float) -> Producer:
    """Return a producer with its draws as recorded times, as many as fall due."""
    due = _due_until(producer, round(duration * SECOND))
    recorded = tuple((time / SECOND, size, group) for time, size, group in due)
    return replace(producer, arrival="recorded", recorded=recorded)


def _as_recorded(model: Producer, sent: Sequence[SentTransfer], kind: str, times: Sequence[int]) -> Producer:
    """Return a producer with recorded times, and the sizes and groups of its log."""
    recorded = tuple(
        (time / SECOND, item.size, item.group) for time, item in zip(times, cycle(sent), strict=False)
    )
    return replace(model, arrival="recorded", recorded=recorded, model=kind)


def _confirms_schedule(model: Producer, sent: Sequence[SentTransfer]) -> bool:
    """Return whether a log shows what a workload states: same sizes, none early, none idly late."""
    lags: list[int] = []
    for item, (due, size, group) in zip(sent, due_messages(model), strict=False):
        if (size, group) != (item.size, item.group) or item.time < due - _TOLERANCE:
            return False
        lags.append(item.time - max(due, item.free))
    return len(lags) >= FEW and median(lags) < 5 * _TOLERANCE
