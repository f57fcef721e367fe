"""Synthetic fleets: write a lake with the logs of a plausible fleet of any size.

:class:`FleetModel` has distributions that are fitted to the recorded fleet. For each seed, it draws a
component, whose workload is simulated and whose clients write logs as real clients would. Each seed is one
partition, and gives the same rows on any number of machines.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean, pstdev
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.kit import RefusalError, kit_path
from qflow.logs.client_log import ClientSide
from qflow.logs.components import components_of, parts_of, touches_of
from qflow.logs.log_file import SAMPLE_FIELDS, LakeRow, LogRow
from qflow.logs.workload_file import workload_text
from qflow.progress import Progress
from qflow.spark.tables import (
    FORMAT,
    KEYS,
    LAKE,
    NO_DAY,
    GrowingTable,
    Part,
    Schema,
    digest_of,
    part_names,
    run_of,
    to_batches,
)
from qflow.spark.workers import map_batches
from qflow.workload.agenda import SECOND
from qflow.workload.model import Consumer, Producer, Workload
from qflow.workload.simulate import set_up
from qflow.workload.stage import Stage, pause_collector

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession


class _LogNormal(NamedTuple):
    """A log-normal distribution, given by the mean and standard deviation of the logarithm."""

    mu: float
    sigma: float

    @classmethod
    def fit(cls, values: Iterable[float]) -> _LogNormal:
        """Return the distribution fitted to positive values."""
        # Rates, bursts and loads are positive, and a normal distribution could draw negative values.
        logs = [math.log(value) for value in values]
        return cls(fmean(logs), pstdev(logs))

    def draw(self, chance: random.Random) -> float:
        """Return a random value, rounded to six digits, as the last bit of `exp` depends on the C library."""
        return float(f"{math.exp(self.mu + self.sigma * chance.gauss(0, 1)):.6g}")


@dataclass(frozen=True, slots=True)
class FleetModel:
    """A model of a fleet: its components as patterns, and distributions fitted to its clients."""

    # The recorded components; a drawn component has the arguments, bindings, consumers and groups of one.
    patterns: tuple[Workload, ...]
    # Messages per second of steady producers, and during the bursts of others; seconds of a burst, and of a
    # pause.
    steady: _LogNormal
    bursty: _LogNormal
    on: _LogNormal
    off: _LogNormal
    # The load of a queue, as a share of its consumers' capacity.
    load: _LogNormal

    @classmethod
    def fit(cls, workload: Workload | None = None) -> FleetModel:
        """Return the model fitted to a workload of components with one producer each, or the recorded one."""
        patterns = tuple(_components(workload or _load_recorded_fleet()))
        producers = [producer for pattern in patterns for producer in pattern.producers]
        bursts = [producer.burst for producer in producers if producer.burst is not None]
        return cls(
            patterns,
            _LogNormal.fit(p.rate for p in producers if p.burst is None),
            _LogNormal.fit(p.rate for p in producers if p.burst is not None),
            _LogNormal.fit(on for on, _ in bursts),
            # A pause of 0 is replaced by a short one, as 0 has no logarithm.
            _LogNormal.fit(max(off, 0.001) for _, off in bursts),
            _LogNormal.fit(load for pattern in patterns for load in _loads(pattern)),
        )

    def draw(self, seed: int, duration: float = 150.0) -> Workload:
        """Return a random component like the recorded ones, determined by the seed."""
        chance = random.Random(f"qflow fleet {seed}")
        # Arguments, bindings and groups are taken from one pattern, as drawing them separately could give
        # combinations that the recorded fleet does not have.
        pattern = chance.choice(self.patterns)
        names = {
            queue: f"q{seed:06d}{'bcdefgh'[n - 1] if n else ''}" for n, queue in enumerate(pattern.queues)
        }
        (old,) = pattern.producers
        is_bound = bool(pattern.binds)
        key = f"fan.{seed:06d}" if is_bound else next(iter(names.values()))
        producer = self._producer(chance, old, f"p{seed:06d}", (old.to[0], key), seed)
        return Workload(
            f"q{seed:06d}",
            duration,
            {names[queue]: arguments for queue, arguments in pattern.queues.items()},
            tuple((exchange, names[queue], key) for exchange, queue, _ in pattern.binds),
            (producer,),
            tuple(self._consumers(chance, pattern, producer, names, seed)),
        )

    def _producer(
        self, chance: random.Random, old: Producer, name: str, to: tuple[str, str], seed: int
    ) -> Producer:
        burst = None
        if old.burst is not None:
            burst = (self.on.draw(chance), self.off.draw(chance))
        rate = (self.steady if burst is None else self.bursty).draw(chance)
        return Producer(name, to, rate, old.capacity, old.size, burst, old.groups, seed=_client_seed(seed, 0))

    def _consumers(
        self,
        chance: random.Random,
        pattern: Workload,
        producer: Producer,
        names: dict[str, str],
        seed: int,
    ) -> Iterable[Consumer]:
        loads = {queue: self.load.draw(chance) for queue in pattern.queues}
        for number, old in enumerate(pattern.consumers):
            peers = sum(consumer.queue == old.queue for consumer in pattern.consumers)
            # The load is drawn, and the service time computed from it: if it were drawn independently of the
            # rate, the loads would not be those of the recorded fleet.
            service = float(f"{loads[old.queue] * peers / _rate(producer):.6g}")
            yield replace(
                old,
                name=f"c{seed:06d}.{number}",
                queue=names[old.queue],
                service=("exp", service),
                seed=_client_seed(seed, number + 1),
            )


def _load_recorded_fleet() -> Workload:
    """Return the workload of the recorded fleet, which is part of qflow."""
    return Workload.load(kit_path("data") / "recordings" / "workloads" / "fleet.json")


def _components(workload: Workload) -> Iterable[Workload]:
    parts = parts_of(workload, components_of(touches_of("fleet", workload)))
    return (part for part in parts.values() if len(part.producers) == 1 and part.consumers)


def _loads(pattern: Workload) -> Iterable[float]:
    """Yield the load of each queue, as a share of its consumers' capacity."""
    (producer,) = pattern.producers
    for queue in pattern.queues:
        services: Sequence[float] = [
            float(c.service[1])  # type: ignore[arg-type]
            for c in pattern.consumers
            if c.queue == queue
        ]
        if services:
            yield _rate(producer) * fmean(services) / len(services)


def _rate(producer: Producer) -> float:
    """Return a producer's messages per second, averaged over bursts and pauses."""
    if producer.burst is None:
        return producer.rate
    on, off = producer.burst
    return producer.rate * on / (on + off)


def _client_seed(seed: int, number: int) -> int:
    return seed * 100 + number


_REPORT = 50_000
"""The interval between two reports of the broker in microseconds, as in the recorded fleet."""


def _synthetic_rows(seed: int, events: int, model: FleetModel) -> Iterator[LakeRow]:
    """Yield the rows of one synthetic component in order, in memory that does not grow with their number."""
    # The duration is long enough for the slowest producer, as the number of rows ends the run.  The first row
    # has the workload with its true duration, which is known only after a first run.
    workload = model.draw(seed, duration=float(max(60, events)))
    # Therefore the simulation runs twice; keeping the rows instead would take memory for all of them.
    time = 0
    for row in islice(_log_rows(workload), events - 2):
        time = row.ts_us
    yield LakeRow.begin(workload_text(workload.replace(duration=max(1, math.ceil(time / SECOND)))))
    yield from map(LakeRow.of, range(1, events - 1), _log_rows(workload))
    yield LakeRow.end(events - 1, time)


def _log_rows(workload: Workload) -> Iterator[LogRow]:
    with pause_collector():
        stage = set_up(workload)
    client_side = ClientSide(workload.producers)
    stage.broker.observe(client_side.append)
    now = 0
    while now < stage.agenda.end:
        now += _REPORT
        with pause_collector():
            stage.run(until=now)
        # Removed after each report, so that memory does not grow with the run.
        rows, client_side.rows = client_side.rows, []
        yield from rows
        yield from _reports(stage, workload, now)


def _reports(stage: Stage, workload: Workload, now: int) -> Iterator[LogRow]:
    for queue in workload.queues:
        statistics = stage.broker.queue(queue).statistics()
        values = [getattr(statistics, name) for name in SAMPLE_FIELDS]
        yield LogRow(now, "broker", "stats", queue, json.dumps(values), 0, "")


def share(events: int, queues: int, seed: int) -> int:
    """Return the number of events in the component of a seed, which differ by at most one."""
    return events // queues + (seed < events % queues)


_KEPT = Schema(LAKE | KEYS)


def _synthetic_fleet(
    spark: SparkSession,
    queues: int,
    events: int,
    parts: Sequence[Part] | None = None,
    peak: Accumulator[int] | None = None,
) -> DataFrame:
    """Return a synthetic fleet, or some of its parts, as rows of a lake with one partition per seed."""
    _require_enough(queues, events)
    chosen = _fleet_parts(queues, events) if parts is None else parts
    # The recorded fleet is sent with the task, as a worker need not have qflow's data.
    recorded = workload_text(_load_recorded_fleet())

    def rows_of(batches: Iterator[Any]) -> Iterator[Any]:
        model = FleetModel.fit(Workload.from_json(json.loads(recorded)))
        for number in (number for batch in batches for number in batch.column("id").to_pylist()):
            day, part = chosen[number]
            seed = int(part.split("-")[1])
            rows = _synthetic_rows(seed, share(events, queues, seed), model)
            yield from to_batches(((f"synth/q{seed:06d}", *row, day, part) for row in rows), _KEPT)

    return map_batches(spark.range(0, len(chosen), 1, len(chosen)), rows_of, _KEPT, peak)


def _fleet_parts(queues: int, events: int) -> list[Part]:
    return [(NO_DAY, name) for name in part_names(digest_of("a synthetic fleet", queues, events), queues)]


def write_fleet(
    spark: SparkSession,
    queues: int,
    events: int,
    folder: str | Path,
    progress: Progress | None = None,
    peak: Accumulator[int] | None = None,
    form: str = FORMAT,
) -> None:
    """Write a synthetic fleet as a lake, with a part per component; a repeated run resumes after a kill."""
    _require_enough(queues, events)
    table, wanted = GrowingTable(spark, folder, form), _fleet_parts(queues, events)
    if table.parts - set(wanted):
        raise RefusalError(f"{folder}: a synthetic fleet must have a new folder; got one with other rows")
    table.fill(wanted, partial(_synthetic_fleet, spark, queues, events, peak=peak), progress)
    done = table.done_runs()
    table.finish({run_of(part): "" for part in wanted if run_of(part) not in done})


def _require_enough(queues: int, events: int) -> None:
    if queues < 1 or events < 3 * queues:
        raise RefusalError(f"a fleet has 1 queue or more, and 3 events or more each; got {queues}, {events}")
