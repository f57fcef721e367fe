"""Topology: who takes part in a run, and the numbers a picture is drawn against.

It is read off the workload once; which producer reaches which queue is what the run itself showed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from qflow.broker.conversions import Argument
from qflow.broker.flow_limit import FlowThresholds, effective_max_size
from qflow.broker.options import BrokerOptions
from qflow.broker.settings import QueueSettings

if TYPE_CHECKING:
    from qflow.workload import Consumer, Producer, Workload


@dataclass(frozen=True, slots=True)
class ProducerSpot:
    """A producer in the picture.

    Parameters
    ----------
    name
        The client's name.
    capacity
        Most transfers it may have outstanding (CAP-01).
    note
        What it does, in a few words.
    session
        The session it sends on, which it may share (CAP-09).
    """

    name: str
    capacity: int
    note: str
    session: str


@dataclass(frozen=True, slots=True)
class QueueSpot:
    """A queue in the picture; a level of 0 takes no part.

    Parameters
    ----------
    name
        The queue.
    max_count, max_size
        Its limits, the broker's default included (LP-01).
    stop_count, resume_count, stop_size, resume_size
        The thresholds in force, which may differ from what was asked for (FC-02, FC-05).
    """

    name: str
    max_count: int = 0
    max_size: int = 0
    stop_count: int = 0
    resume_count: int = 0
    stop_size: int = 0
    resume_size: int = 0

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Argument], options: BrokerOptions) -> QueueSpot:
        """Work out a queue's limits and thresholds in force from how it is declared.

        Parameters
        ----------
        name
            The queue.
        arguments
            What it is declared with.
        options
            What the broker was started with.

        Returns
        -------
        QueueSpot

        Raises
        ------
        AmqpException
            Where the broker refuses the declaration.

        Examples
        --------
        >>> spot = QueueSpot.of("orders", {"qpid.max_count": 1000}, BrokerOptions())
        >>> spot.stop_count, spot.resume_count                    # 80 % and 70 %: FC-10
        (800, 700)
        """
        settings = QueueSettings.from_arguments(arguments)
        levels = FlowThresholds.of(name, settings, options) or FlowThresholds(0, 0, 0, 0)
        return cls(
            name,
            settings.max_count,
            effective_max_size(settings, options),
            levels.stop_count,
            levels.resume_count,
            levels.stop_size,
            levels.resume_size,
        )


@dataclass(frozen=True, slots=True)
class ConsumerSpot:
    """A consumer in the picture.

    Parameters
    ----------
    name
        The client's name, which is its subscription's tag as well.
    queue
        Index of the queue it reads.
    prefetch
        Its credit window: most messages it may hold.
    note
        What it does, in a few words.
    """

    name: str
    queue: int
    prefetch: int
    note: str


@dataclass(frozen=True, slots=True)
class Topology:
    """Producers, queues, consumers, and the routes between them.

    Parameters
    ----------
    producers, queues, consumers
        In the order of the workload.
    routes
        Pairs (index of producer, index of queue).
    end
        The run's last instant, in microseconds.
    """

    producers: tuple[ProducerSpot, ...]
    queues: tuple[QueueSpot, ...]
    consumers: tuple[ConsumerSpot, ...]
    routes: tuple[tuple[int, int], ...]
    end: int

    @classmethod
    def of(cls, workload: Workload, end: int) -> Topology:
        """Read a topology off a workload; routes through exchanges are left to the run to show.

        Parameters
        ----------
        workload
            What was run.
        end
            When it ended, in microseconds.

        Returns
        -------
        Topology
        """
        names = list(workload.queues)
        queues = [QueueSpot.of(name, workload.queues[name], workload.options) for name in names]
        producers = [
            ProducerSpot(p.name, p.capacity, _pace(p), p.session or p.name) for p in workload.producers
        ]
        consumers = [
            ConsumerSpot(c.name, names.index(c.queue), c.prefetch, _service(c)) for c in workload.consumers
        ]
        direct = [
            (index, names.index(p.to[1]))
            for index, p in enumerate(workload.producers)
            if not p.to[0] and p.to[1] in names
        ]
        return cls(tuple(producers), tuple(queues), tuple(consumers), tuple(direct), end)

    def asdict(self) -> dict[str, object]:
        """Return the topology as JSON can hold it."""
        return asdict(self)


def _pace(producer: Producer) -> str:
    if producer.arrival not in ("poisson", "const"):
        return "sends as it was recorded"
    return f"{producer.rate:g} messages a second{', in bursts' if producer.burst else ''}"


def _service(consumer: Consumer) -> str:
    kind, seconds = consumer.service
    if isinstance(seconds, tuple):
        return "works as it was recorded"
    about = "about " if kind == "exp" else ""
    return f"{about}{1000 * seconds:g} ms for each message"
