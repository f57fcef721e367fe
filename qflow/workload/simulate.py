"""Simulation of a workload: its clients act on the engine in virtual time, and the result is a :class:`Run`.

The stage (:mod:`qflow.workload.stage`) is a broker with the workload's queues, and an agenda.  Each client
enters its next action in the agenda, which runs the actions in order of time, and between them the broker's
timers.  Virtual time advances only from one action or timer to the next, never with real time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from qflow.broker.errors import AmqpException
from qflow.broker.events import Event, EventTable
from qflow.table import Tabular, columns_of
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import WorkloadError, is_whole, require
from qflow.workload.clients import ConsumerClient, ProducerClient, SharedSession, WindowedProducer
from qflow.workload.model import Producer, Workload
from qflow.workload.stage import GRACE, Stage, pause_collector

CLIENT_EVENTS: dict[str, str] = {
    "client.block": "a producer has a message due and its window is full; session: the producer; due: the "
    "message's due time in microseconds, which a log does not record",
    "client.unblock": "its window has room again; session: the producer",
    "client.transfer": "a producer with a network sends; the broker gets it later (message.transfer)",
    "client.complete": "a producer with a network learns that a transfer is complete",
    "client.accept": "a consumer with a network accepts; the broker gets it later (message.accept)",
    "client.release": "a consumer with a network releases",
    "client.reject": "a consumer with a network rejects",
    "client.deliver": "a message reaches a consumer with a network",
    "client.differs": "a replayed log has an act of clients unknown to the engine; detail: logged, engine",
}
"""The kinds of event that only clients can report, as the broker does not know their windows (CAP-01)."""


_PART = 5 * SECOND
"""Microseconds of virtual time after which a run in parts passes on its events and drops them from memory."""

_SLICE = SECOND // 10
"""Microseconds of virtual time between two checks for Ctrl-C; longer in very long runs."""

_MOST_SLICES = 100_000
"""The largest number of checks for Ctrl-C in a run."""

MOST_MESSAGES = 1_000_000
"""The largest expected number of messages in a run without a limit; with ten events each, they take some
gigabytes."""

MOST_ACTS = 5 * MOST_MESSAGES
"""The largest number of sends and settlements in a run, as a released message may be delivered repeatedly."""


@dataclass(frozen=True, slots=True)
class Run(Tabular):
    """One run of a workload, simulated or replayed.

    Parameters:
        workload: The workload that was run.
        events: All events of the broker, and those of :data:`CLIENT_EVENTS`, in order.
        end: The instant at which the run ended, in microseconds.
        errors: The errors that ended clients' sessions, by client name; all producers on such a session are
            listed.
        time_base: The end, in microseconds, of the time to which the measures refer: the time in which
            messages fall due, or for a limited number of messages the time until the last is sent or the
            last producer's session has ended.  0 means the whole run.

    >>> run = Run(Workload("w", 1, {"q": {}}), [Event(0, "queue_created", queue="q")], end=11_000_000)
    >>> run.columns()["kind"]
    ['queue_created']
    """

    workload: Workload
    events: Sequence[Event]
    end: int
    errors: dict[str, AmqpException] = field(default_factory=dict)
    time_base: int = 0

    def __post_init__(self) -> None:
        base = min(self.time_base or self.end, self.end)
        object.__setattr__(self, "time_base", max(1, base))

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the events as columns: time, kind, queue, session, link, message, size, group, detail."""
        return columns_of(self.events[start:end], Event._fields)

    def __repr__(self) -> str:
        died = f", errors: {', '.join(self.errors)}" if self.errors else ""
        return f"Run({self.workload.name!r}, {len(self.events)} events, {self.end} us{died})"


def simulate(workload: Workload, *, message_limit: int | None = None) -> Run:
    """Run a workload in virtual time and collect all events.

    Messages fall due until ``duration``; for ten more seconds, as with the recorded clients, a producer that
    was blocked catches up and consumers continue.  The same workload gives the same events, byte for byte, in
    any process on any machine.  Python's garbage collector is switched off during the run, which leaves it
    nothing to collect, and switched on afterwards if it was on before.

    Parameters:
        workload: The workload to run.
        message_limit: The number of messages that all producers together send; consumers continue for ten
            more seconds after the last.  None for no limit.

    Returns:
        The run.  A producer whose session was ended by a full queue (506, LP-05) is listed in ``errors``;
        other clients continue.

    Raises:
        AmqpException: If the broker refuses the arguments of a queue (FC-05).
        WorkloadError: If ``message_limit`` is not a whole number from 1; or if the run would not fit in
            memory, because without a limit more than :data:`MOST_MESSAGES` messages are expected, or because
            clients have sent and settled more than :data:`MOST_ACTS`.

    Without a consumer, a producer stops when its whole window is held: the depth is the stop threshold plus
    the capacity.

    >>> from qflow.workload import Producer
    >>> workload = Workload(
    ...     "stall",
    ...     duration=1,
    ...     queues={"q": {"qpid.flow_stop_count": 10}},
    ...     producers=(Producer("p", ("", "q"), rate=100, capacity=5, size=100),),
    ... )
    >>> run = simulate(workload)
    >>> [event.kind for event in run.events].count("enqueued"), run.events[-1].kind
    (15, 'client.block')
    """
    limited = message_limit is None or is_whole(message_limit, 1)
    require(limited, "simulate", "message_limit", message_limit, "a whole number from 1, or None")
    with pause_collector():
        stage = _set_up_to_keep(workload, message_limit)
        stage.run()
    return finish(stage, workload)


def simulate_in_parts(workload: Workload, take: Callable[[EventTable], object]) -> Run:
    """Run a workload, and pass its events to `take` in parts instead of collecting them in the run."""
    with pause_collector():
        stage = set_up(workload)
        # Only the events of one part of virtual time are in memory. The range exceeds the end by one part, so
        # that the last part reaches the end.
        for until in range(0, stage.agenda.end + _PART, _PART):
            stage.run(min(until, stage.agenda.end))
            take(stage.events)
            del stage.events[:]
    return finish(stage, workload)


def finish(stage: Stage, workload: Workload) -> Run:
    """Return the finished run of a stage; the stage cannot be used afterwards."""
    return Run(workload, stage.events, stage.agenda.end, stage.finish(workload), stage.time_base)


def set_up(workload: Workload, message_limit: int | None = None) -> Stage:
    """Return a stage with all clients of a workload, ready for the first action."""
    duration = round(workload.duration * SECOND)
    stage = Stage(workload, duration + GRACE, message_limit)
    for consumer in workload.consumers:
        ConsumerClient(consumer, stage)
    shared: dict[str, SharedSession] = {}
    for producer in workload.producers:
        if producer.window == "ideal" and not producer.session:
            ProducerClient(producer, stage, duration)
            continue
        name = producer.session or producer.name
        if name not in shared:
            shared[name] = SharedSession(name, stage)
        WindowedProducer(producer, stage, duration, shared[name])
    return stage


def _set_up_to_keep(workload: Workload, message_limit: int | None = None) -> Stage:
    """Return a stage whose run keeps all events in memory; raise WorkloadError if too many are expected."""
    # The number of recorded messages is known, and they are in memory already.
    drawn = [producer for producer in workload.producers if producer.arrival != "recorded"]
    expected = sum(expected_messages(producer, workload.duration) for producer in drawn)
    if message_limit is None and expected > MOST_MESSAGES:
        raise WorkloadError(
            f"workload {workload.name!r}: about {round(expected):,} messages fall due in "
            f"{workload.duration:g} s, more than the {MOST_MESSAGES:,} that a run without a message_limit "
            "may have, as all that happens is kept in memory; give simulate a message_limit, or the workload "
            "a shorter duration or lower rates"
        )
    stage = set_up(workload, message_limit)
    stage.acts = most_acts(workload)
    return stage


def most_acts(workload: Workload) -> int:
    """Return the largest number of messages that the clients of a run may send and settle."""
    recorded = sum(len(producer.recorded) for producer in workload.producers)
    # A recorded workload may be longer than one with random draws, as its length is known, not expected.
    return MOST_ACTS * max(1, recorded // MOST_MESSAGES)


def expected_messages(producer: Producer, duration: float) -> float:
    """Return the expected number of messages that fall due at a producer within ``duration`` seconds."""
    on, off = producer.burst or (duration, 0)
    # The end may cut off the last burst.
    spells, rest = divmod(duration, on + off)
    return producer.rate * (spells * on + min(rest, on))


def simulate_in_slices(
    workload: Workload, on_slice: Callable[[int, int], object], grace: int = GRACE
) -> tuple[Run, bool]:
    """Run a workload as simulate does, or until Ctrl-C; return the run, and whether it is complete."""
    with pause_collector():
        stage = _set_up_to_keep(workload)
        stage.agenda.end += grace - GRACE
        step = max(_SLICE, stage.agenda.end // _MOST_SLICES)
        done, count = 0, len(stage.events)
        try:
            while done < stage.agenda.end:
                until = min(done + step, stage.agenda.end)
                stage.run(until=until)
                done, count = until, len(stage.events)
                on_slice(done, count)
            return finish(stage, workload), True
        except KeyboardInterrupt:
            # Events of the interrupted slice are dropped, as it may lack some.
            del stage.events[count:]
            stage.agenda.end = done
            return finish(stage, workload), False
