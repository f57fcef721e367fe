"""Traffic: who can put how much on a queue, found out by asking the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice

from qflow.broker.broker import Broker
from qflow.design.small import DesignError
from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import due_messages
from qflow.workload.clients import Producer
from qflow.workload.model import SETUP, Workload
from qflow.workload.stage import make_message

SIZE_LIMIT = 1_000_000
"""Messages of one producer that are looked at for the largest and the smallest; later ones are not."""


@dataclass(frozen=True, slots=True)
class Sender:
    """One producer as a queue sees it.

    Parameters
    ----------
    capacity : int
        Its window: most transfers that are sent and not complete (CAP-01).
    largest, smallest : int
        Bytes the broker counts for its messages, header included unless told otherwise (DQ-05, DQ-09).

    Raises
    ------
    DesignError
        If a value makes no sense.

    Examples
    --------
    >>> Sender(capacity=50, largest=145).smallest
    0
    """

    capacity: int
    largest: int = 0
    smallest: int = 0

    def __post_init__(self) -> None:
        if type(self.capacity) is not int or self.capacity < 1:
            raise DesignError(f"capacity must be a whole number from 1, got {self.capacity!r}")
        if not 0 <= self.smallest <= max(self.largest, self.smallest):
            raise DesignError(f"smallest must be a number of bytes from 0, got {self.smallest!r}")


Traffic = Mapping[str, Sender]
"""Who sends to one queue: producer name to :class:`Sender`."""


def traffic_of(workload: Workload) -> dict[str, dict[str, Sender]]:
    """Return, for each queue of a workload, who sends to it and how large their messages are.

    Which queue a message reaches, and how many bytes the broker counts for it, is not worked out here:
    each producer sends its largest and its smallest message to a broker of the engine that has the
    workload's queues and bindings, without any limit.

    Parameters
    ----------
    workload : Workload
        What is to be run.  Sizes that are drawn have no largest value, so those are taken that the workload
        really draws within its duration.

    Returns
    -------
    dict
        Queue name to producer name to :class:`Sender`; a producer whose messages reach several queues
        appears at each, with its whole window: the queues share it, and each may have all of it.

    Examples
    --------
    >>> producer = Producer("p1", ("", "q"), rate=100, capacity=5, size=100)
    >>> traffic_of(Workload("w", 1, {"q": {}, "r": {}}, producers=(producer,)))
    {'q': {'p1': Sender(capacity=5, largest=141, smallest=140)}, 'r': {}}
    """
    traffic: dict[str, dict[str, Sender]] = {name: {} for name in workload.queues}
    for producer in workload.producers:
        smallest, largest = _extremes(producer, workload.duration)
        least, most = _sizes(workload, producer, smallest), _sizes(workload, producer, largest)
        for queue, size in most.items():
            traffic[queue][producer.name] = Sender(producer.capacity, size, least[queue])
    return traffic


Probe = tuple[int, str, str]
"""Content bytes, label and group of a message."""


def _extremes(producer: Producer, duration: float) -> tuple[Probe, Probe]:
    """Return a message no larger, and one no smaller, than any that the producer sends."""
    is_closed = producer.arrival == "recorded" and producer.model == "closed"
    end = round(duration * SECOND)
    least = most = None
    fewest, longest, count, elapsed = "", "", 0, 0
    for due, size, group in islice(due_messages(producer), SIZE_LIMIT):
        elapsed = elapsed + due if is_closed else due
        if elapsed > end and count:
            break
        count += 1
        if least is None or most is None:
            least = most = size
            fewest = longest = group
        least, most = min(least, size), max(most, size)
        fewest, longest = min(fewest, group, key=len), max(longest, group, key=len)
    first, last = f"{producer.name}-1", f"{producer.name}-{max(count, 1)}"
    return (least or 0, first, fewest), (most or 0, last, longest)


def _sizes(workload: Workload, producer: Producer, probe: Probe) -> dict[str, int]:
    """Return the queues that a message reaches, each with the bytes counted for it there."""
    # The broker refuses nothing here: limits and thresholds are what is to be found.
    broker = Broker(replace(workload.options, default_queue_limit=0))
    setup = broker.session(SETUP)
    for name, arguments in workload.queues.items():
        setup.queue_declare(name, {key: value for key, value in arguments.items() if key not in _LIMITING})
    for exchange, queue, key in workload.binds:
        setup.exchange_bind(queue, exchange, key)
    size, label, group = probe
    setup.message_transfer(make_message(producer.to[1], label, size, group), producer.to[0])
    found = {name: broker.queue(name).statistics() for name in workload.queues}
    return {name: values.byteDepth for name, values in found.items() if values.msgDepth}


_LIMITING = (
    "qpid.max_count",
    "qpid.max_size",
    "qpid.policy_type",
    "qpid.flow_stop_count",
    "qpid.flow_resume_count",
    "qpid.flow_stop_size",
    "qpid.flow_resume_size",
)
