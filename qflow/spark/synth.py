"""Synth: a plausible fleet of any size, written as a lake, one seed a partition.

:class:`FleetModel` holds the settings of the recorded fleet's queues as distributions; a seed draws a
component from it, the workload is simulated, and its clients write logs as real clients would.
The same seed gives the same rows on any number of machines.
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
    """A log-normal distribution, by mean and deviation of the logarithm."""

    mu: float
    sigma: float

    @classmethod
    def fit(cls, values: Iterable[float]) -> _LogNormal:
        """Fit it to values above 0."""
        # Rates, bursts and loads are positive: a normal distribution would draw negative ones, too.
        logs = [math.log(value) for value in values]
        return cls(fmean(logs), pstdev(logs))

    def draw(self, chance: random.Random) -> float:
        """Draw a value, to six digits: the last bit of `exp` differs from one C library to another."""
        return float(f"{math.exp(self.mu + self.sigma * chance.gauss(0, 1)):.6g}")


@dataclass(frozen=True, slots=True)
class FleetModel:
    """Distributions fitted to a recorded fleet."""

    # Recorded components: queues' arguments, bindings, consumers and groups are taken from one as they are.
    patterns: tuple[Workload, ...]
    # Messages a second, always and in bursts; seconds of a burst, and between two.
    steady: _LogNormal
    bursty: _LogNormal
    on: _LogNormal
    off: _LogNormal
    # Work that arrives, as a share of what a queue's consumers can do.
    load: _LogNormal

    @classmethod
    def fit(cls, workload: Workload | None = None) -> FleetModel:
        """Fit the model to a workload of many components, each with one producer; or to the recorded one."""
        patterns = tuple(_components(workload or _load_recorded_fleet()))
        producers = [producer for pattern in patterns for producer in pattern.producers]
        bursts = [producer.burst for producer in producers if producer.burst is not None]
        return cls(
            patterns,
            _LogNormal.fit(p.rate for p in producers if p.burst is None),
            _LogNormal.fit(p.rate for p in producers if p.burst is not None),
            _LogNormal.fit(on for on, _ in bursts),
            # A producer without a pause is one with the shortest: a logarithm knows no zero.
            _LogNormal.fit(max(off, 0.001) for _, off in bursts),
            _LogNormal.fit(load for pattern in patterns for load in _loads(pattern)),
        )

    def draw(self, seed: int, duration: float = 150.0) -> Workload:
        """Return a random component like the recorded ones, determined by the seed."""
        chance = random.Random(f"qflow fleet {seed}")
        # Arguments, bindings and groups belong together: drawn one by one, they could make combinations that
        # the recorded fleet does not have.
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
            # The load is drawn and the service time follows: drawn apart from the rate, it would not keep the
            # load of the recorded fleet.
            service = float(f"{loads[old.queue] * peers / _rate(producer):.6g}")
            yield replace(
                old,
                name=f"c{seed:06d}.{number}",
                queue=names[old.queue],
                service=("exp", service),
                seed=_client_seed(seed, number + 1),
            )


def _load_recorded_fleet() -> Workload:
    """Return the workload of the recorded fleet that comes with qflow."""
    return Workload.load(kit_path("data") / "recordings" / "workloads" / "fleet.json")


def _components(workload: Workload) -> Iterable[Workload]:
    parts = parts_of(workload, components_of(touches_of("fleet", workload)))
    return (part for part in parts.values() if len(part.producers) == 1 and part.consumers)


def _loads(pattern: Workload) -> Iterable[float]:
    """The load of each queue, as a share of its consumers' capacity."""
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
    """Messages a second on average, over the bursts and the gaps between them."""
    if producer.burst is None:
        return producer.rate
    on, off = producer.burst
    return producer.rate * on / (on + off)


def _client_seed(seed: int, number: int) -> int:
    return seed * 100 + number


_REPORT = 50_000
"""Microseconds between two reports of the broker, as in the recorded fleet."""


def _synthetic_rows(seed: int, events: int, model: FleetModel) -> Iterator[LakeRow]:
    """Yield the rows of one synthetic component, in order; memory does not grow with their number."""
    # Long enough for the slowest producer there may be: what ends the run is the number of rows.  How long it
    # took, which the workload says, only a first run can tell.
    workload = model.draw(seed, duration=float(max(60, events)))
    # So the simulation runs twice; to keep its rows between the runs would take memory that grows with them.
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
        # Taken after each report, so that memory does not grow with the run.
        rows, client_side.rows = client_side.rows, []
        yield from rows
        yield from _reports(stage, workload, now)


def _reports(stage: Stage, workload: Workload, now: int) -> Iterator[LogRow]:
    for queue in workload.queues:
        statistics = stage.broker.queue(queue).statistics()
        values = [getattr(statistics, name) for name in SAMPLE_FIELDS]
        yield LogRow(now, "broker", "stats", queue, json.dumps(values), 0, "")


def share(events: int, queues: int, seed: int) -> int:
    """Return the number of events in a seed's component: they differ by one at most."""
    return events // queues + (seed < events % queues)


_KEPT = Schema(LAKE | KEYS)


def _synthetic_fleet(
    spark: SparkSession,
    queues: int,
    events: int,
    parts: Sequence[Part] | None = None,
    peak: Accumulator[int] | None = None,
) -> DataFrame:
    """Return a synthetic fleet as a lake, or some of its parts: one partition a seed."""
    _require_enough(queues, events)
    chosen = _fleet_parts(queues, events) if parts is None else parts
    # The recorded fleet travels with the task: a worker need not hold qflow's data.
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
    """Write a synthetic fleet as a lake, a part a component; a killed run resumes at its last part."""
    _require_enough(queues, events)
    table, wanted = GrowingTable(spark, folder, form), _fleet_parts(queues, events)
    if table.parts - set(wanted):
        raise RefusalError(f"{folder}: a synthetic fleet needs a new folder, and this one holds other rows")
    table.fill(wanted, partial(_synthetic_fleet, spark, queues, events, peak=peak), progress)
    done = table.done_runs()
    table.finish({run_of(part): "" for part in wanted if run_of(part) not in done})


def _require_enough(queues: int, events: int) -> None:
    if queues < 1 or events < 3 * queues:
        raise RefusalError(f"a fleet has 1 queue or more, and 3 events or more each; got {queues}, {events}")
