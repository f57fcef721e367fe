"""What lies between clients and their broker, estimated from their own logs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from statistics import quantiles

from qflow.trace.credit_delays import NOTICEABLE, SystemDelay, Told, is_delayed, typical
from qflow.trace.machine_load import Load
from qflow.trace.producer_work import FEW, MANY, Work
from qflow.workload.agenda import SECOND
from qflow.workload.network import Network, Steps


def consumer_network(told: Sequence[Told], system: SystemDelay, load: Load | None = None) -> Network:
    """Estimate how a consumer's settlements reach the broker.

    Parameters
    ----------
    told : sequence of Told
        What its own log tells.
    system : SystemDelay
        What all consumers tell, which holds where this one does not.
    load : Load or None
        What the machine's other work adds.

    Examples
    --------
    >>> consumer_network([], SystemDelay(40_000, 44_000)).ack_delays
    ((0.0, 0.044),)
    >>> consumer_network([Told(0, 300)] * 20, SystemDelay(40_000, 44_000)).ack_delay
    0.0
    """
    load = load or Load({})
    if (len(told) >= FEW and not is_delayed(told)) or not system.usual:
        return Network(latencies=load.steps(0.0))
    if len(told) < FEW:
        # Who tells too little has what the others have, when they have it.
        return Network(
            ack_delay=system.shortest / SECOND,
            ack_delays=(
                (0.0, system.usual / SECOND),
                *((time / SECOND, delay / SECOND) for time, delay in system.course),
            ),
            latencies=load.steps(0.0),
        )
    slow = [item for item in told if item.delay >= NOTICEABLE]
    usual = typical([item.delay for item in slow]) if len(slow) >= MANY else system.usual
    shortest = quantiles([item.delay for item in slow], n=10)[0]
    extra = load.at(item.since for item in slow)
    course = [
        (item.since, max(shortest, item.delay - 2 * added)) for item, added in zip(slow, extra, strict=True)
    ]
    return Network(
        ack_delay=shortest / SECOND,
        ack_delays=((0.0, usual / SECOND), *_fading(course, usual)),
        latencies=load.steps(0.0),
    )


def _fading(course: Sequence[tuple[int, float]], usual: float) -> Steps:
    """Return delays as steps, in seconds; each holds for twice its length, then the usual one does.

    Examples
    --------
    >>> _fading([(0, 40_000), (500_000, 90_000)], 42_000)
    ((0.0, 0.04), (0.08, 0.042), (0.5, 0.09), (0.68, 0.042))
    """
    steps: list[tuple[float, float]] = []
    ends = [time for time, _ in course[1:]]
    for (time, delay), end in zip_longest(course, ends):
        steps.append((time / SECOND, delay / SECOND))
        if end is None or time + 2 * delay < end:
            steps.append(((time + 2 * delay) / SECOND, usual / SECOND))
    return tuple(steps)


def producer_network(
    work: Work, system: SystemDelay, load: Load | None = None, pace: Steps = (), crowd: float = 1.0
) -> Network:
    """Return what a producer's sends and completions cost it.

    Parameters
    ----------
    work : Work
        What its own log tells.
    system : SystemDelay
        For how long the broker's system delays acknowledgements.
    load : Load or None
        What the machine's other work adds.
    pace : Steps
        By which factor its work takes longer, over time.
    crowd : float
        By which factor it usually does.

    Examples
    --------
    >>> producer_network(Work([]), SystemDelay(40_000, 44_000)).ack_delay
    0.04
    """
    latency = work.round_trip / 2 / SECOND
    return Network(
        latency=latency,
        ack_delay=system.shortest / SECOND,
        send_cost=work.send_cost / SECOND,
        report_cost=work.report_cost.start / SECOND,
        report_growth=work.report_cost.growth / SECOND,
        report_share=work.report_cost.share / SECOND,
        latencies=(load or Load({})).steps(latency),
        pace=pace,
        crowd=crowd,
    )
