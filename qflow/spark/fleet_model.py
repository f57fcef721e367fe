"""FleetModel: how queues of the recorded fleet are set up, as distributions to draw new ones from."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev
from typing import NamedTuple

from qflow.kit import kit_path
from qflow.spark.touches import components_of, part_of, touches_of
from qflow.workload.clients import Consumer, Producer
from qflow.workload.model import Workload


class LogNormal(NamedTuple):
    """A log-normal distribution, by mean and deviation of the logarithm.

    Examples
    --------
    >>> LogNormal.of([10.0, 10.0]).draw(random.Random(1))
    10.0
    """

    mu: float
    sigma: float

    @classmethod
    def of(cls, values: Iterable[float]) -> LogNormal:
        """Fit it to values above 0."""
        logs = [math.log(value) for value in values]
        return cls(fmean(logs), pstdev(logs))

    def draw(self, chance: random.Random) -> float:
        """Draw a value, to six digits: the same on every machine."""
        return float(f"{math.exp(self.mu + self.sigma * chance.gauss(0, 1)):.6g}")


@dataclass(frozen=True, slots=True)
class FleetModel:
    """Distributions fitted to a recorded fleet.

    What belongs together (a queue's arguments, its bindings, how many consumers with which prefetch, the
    capacity, the groups) is taken from one recorded component; rates, bursts, and how busy consumers are, are
    drawn from log-normal distributions.

    Parameters
    ----------
    patterns : tuple of Workload
        The recorded components.
    steady, bursty : LogNormal
        Messages a second, of producers that always send and of those that send in bursts, while they do.
    on, off : LogNormal
        Seconds of a burst, and between two.
    load : LogNormal
        Work that arrives, as a share of what a queue's consumers can do.

    Examples
    --------
    >>> model = FleetModel.recorded()
    >>> model.draw(7) == model.draw(7), model.draw(7) == model.draw(8)
    (True, False)
    """

    patterns: tuple[Workload, ...]
    steady: LogNormal
    bursty: LogNormal
    on: LogNormal
    off: LogNormal
    load: LogNormal

    @classmethod
    def recorded(cls) -> FleetModel:
        """Fit the model to the recorded fleet that comes with qflow."""
        return cls.of(recorded_fleet())

    @classmethod
    def of(cls, workload: Workload) -> FleetModel:
        """Fit the model to a workload of many components, each with one producer."""
        patterns = tuple(_components(workload))
        producers = [producer for pattern in patterns for producer in pattern.producers]
        bursts = [producer.burst for producer in producers if producer.burst is not None]
        return cls(
            patterns,
            LogNormal.of(p.rate for p in producers if p.burst is None),
            LogNormal.of(p.rate for p in producers if p.burst is not None),
            LogNormal.of(on for on, _ in bursts),
            LogNormal.of(max(off, 0.001) for _, off in bursts),
            LogNormal.of(load for pattern in patterns for load in _loads(pattern)),
        )

    def draw(self, seed: int, duration: float = 150.0) -> Workload:
        """Return a component like the recorded ones; the seed alone decides which.

        Parameters
        ----------
        seed : int
            From 0; the component's clients and queues carry it in their names.
        duration : float
            Seconds for which its producers send.
        """
        chance = random.Random(f"qflow fleet {seed}")
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
            service = float(f"{loads[old.queue] * peers / _rate(producer):.6g}")
            yield Consumer(
                f"c{seed:06d}.{number}",
                names[old.queue],
                old.prefetch,
                ("exp", service),
                old.slow,
                old.start,
                old.release,
                seed=_client_seed(seed, number + 1),
            )


def recorded_fleet() -> Workload:
    """Return the workload of the recorded fleet that comes with qflow."""
    return Workload.load(kit_path("data") / "recordings" / "workloads" / "fleet.json")


def _components(workload: Workload) -> Iterable[Workload]:
    members: dict[str, tuple[list[str], list[str]]] = {}
    for (_, role, member), component in components_of(touches_of("fleet", workload)).items():
        members.setdefault(component, ([], []))[role == "queue"].append(member)
    for component, (clients, queues) in sorted(members.items()):
        part = part_of(workload, clients, queues, component)
        if len(part.producers) == 1 and part.consumers:
            yield part


def _loads(pattern: Workload) -> Iterable[float]:
    """How much work arrives on each queue, as a share of what its consumers can do."""
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
    """Messages a second on average, bursts and the time between them taken together."""
    if producer.burst is None:
        return producer.rate
    on, off = producer.burst
    return producer.rate * on / (on + off)


def _client_seed(seed: int, number: int) -> int:
    return seed * 100 + number
