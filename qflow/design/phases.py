"""Where the queue of the 165 example stands still, over all starting phases (CAP-08)."""

from __future__ import annotations

from collections.abc import Iterable

from qflow.workload import Producer, Workload, simulate

SEND_TIME = 20
"""Microseconds between two sends: ten of them fit into one answer of the broker, as with real clients."""


def stalls_over_phases(
    stop: int,
    capacities: tuple[int, int],
    phases: Iterable[int],
    window: str = "qpid-cpp",
    send_time: int = SEND_TIME,
) -> dict[int, int]:
    """Simulate two producers that send as fast as they can, the second beginning later than the first.

    The ideal window stalls at stop + Σ capacity in every phase.  The qpid-cpp window does not: at the
    moment the queue turns ON, a sender has up to capacity − 1 transfers in its list that are complete and
    that it has not looked at.  They take places that no held transfer can have.

    Parameters
    ----------
    stop : int
        Threshold in messages.
    capacities : (int, int)
        The windows of C1 and C2.
    phases : iterable of int
        How many messages C1 has the time to send before C2 begins; negative if C2 begins first.
    window : {"qpid-cpp", "ideal", "qpid-python"}
        How the producers count.
    send_time : int
        Microseconds between two sends of one producer.

    Returns
    -------
    dict
        Phase to the depth at which nobody can send any more.

    Examples
    --------
    >>> stalls_over_phases(100, (50, 15), [0, 20, 80, 100])
    {0: 160, 20: 145, 80: 115, 100: 165}
    >>> stalls_over_phases(100, (50, 15), [0, 20, 80, 100], window="ideal")
    {0: 165, 20: 165, 80: 165, 100: 165}
    """
    return {
        phase: sum(
            event.kind == "enqueued"
            for event in simulate(phase_workload(stop, capacities, phase, window, send_time)).events
        )
        for phase in phases
    }


def phase_workload(
    stop: int,
    capacities: tuple[int, int],
    phase: int,
    window: str = "qpid-cpp",
    send_time: int = SEND_TIME,
) -> Workload:
    """Return the workload behind one phase of :func:`stalls_over_phases`."""
    starts = (max(0, -phase) * send_time, max(0, phase) * send_time)
    count = stop + sum(capacities) + 1
    producers = tuple(
        Producer(
            f"C{number}",
            ("", "q"),
            rate=1_000_000 / send_time,
            capacity=capacity,
            size=100,
            arrival="recorded",
            recorded=tuple(((start + n * send_time) / 1_000_000, 100, "") for n in range(count)),
            window=window,
        )
        for number, (capacity, start) in enumerate(zip(capacities, starts, strict=True), 1)
    )
    arguments = {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": stop}
    return Workload("phases", 1, {"q": arguments}, producers=producers)
