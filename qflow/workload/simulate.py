"""Simulate a workload: its clients and the engine, in virtual time; what happened is a Run.

The stage (:mod:`qflow.workload.stage`) is a broker with the workload's queues and an agenda.  Each client
enters its next action there; the agenda carries actions out in order of time, and lets the broker's own
timers act between them.  Nothing else moves time, so a run is over as soon as it is computed.
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
    "client.block": "a producer has a message due and its window is full; session: the producer; due: since "
    "when, in microseconds, which a log does not say",
    "client.unblock": "its window has room again; session: the producer",
    "client.transfer": "a producer with a network sends; the broker meets it later (message.transfer)",
    "client.complete": "a producer with a network learns that a transfer is complete",
    "client.accept": "a consumer with a network accepts; the broker meets it later (message.accept)",
    "client.release": "a consumer with a network releases",
    "client.reject": "a consumer with a network rejects",
    "client.deliver": "a message reaches a consumer with a network",
    "client.differs": "a replayed log has an act of clients unknown to the engine; detail: logged, engine",
}
"""Kinds of event that only clients can report: the broker does not know a window (CAP-01)."""


_PART = 5 * SECOND
"""The events of this many microseconds of virtual time are in memory, in a run that does not keep them."""

_SLICE = SECOND // 10
"""Microseconds of virtual time between two looks at whether a run is to stop; longer in very long runs."""

_MOST_SLICES = 100_000
"""How many such looks there are at most."""

MOST_MESSAGES = 1_000_000
"""How many messages may be expected of a run without a limit; ten events each, they take some gigabytes."""

MOST_ACTS = 5 * MOST_MESSAGES
"""The most sends and settlements of a run: a released message may come again and again."""


@dataclass(frozen=True, slots=True)
class Run(Tabular):
    """One run of a workload, simulated or replayed.

    Parameters:
        workload: The simulated workload.
        events: All that happened, commands and effects and the rows of :data:`CLIENT_EVENTS`, in order.
        end: The instant at which the run ended, in microseconds.
        errors: Client name to the error that ended its session, for every producer on it; others went on.
        time_base: The time of which its measures are, in microseconds: messages fall due until then; if
            their number is limited, until the last is sent or the last producer dies.  0 for all of the run.

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
    """Run a workload and collect everything that happens.

    Messages fall due until ``duration``; like the recorded clients, a producer that was blocked
    catches up after that, and consumers continue, for ten more seconds.  The same workload gives the
    same events, byte for byte, in any process on any machine.  Python's garbage collector pauses meanwhile,
    as a run leaves nothing for it, and continues afterwards if it was on.

    Parameters:
        message_limit: The total of messages to send; consumers continue for ten more seconds.

    Returns:
        The run.  A producer whose session a full queue ends (506, LP-05) is in ``errors``; others continue.

    Raises:
        AmqpException: The broker's own refusal, when a queue's arguments make no sense (FC-05).
        WorkloadError: If the limit is not a whole number from 1, or if there is none and more than
            :data:`MOST_MESSAGES` are to be expected, or more than :data:`MOST_ACTS` of what clients do turn
            out to be: everything that happens is kept in memory.

    Without a consumer a producer stops with its whole window held: depth is stop plus capacity.

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
    """Run a workload, and pass its events to a function part by part instead of storing them."""
    with pause_collector():
        stage = set_up(workload)
        # In parts of virtual time, so that only one part's events are in memory.
        # One step beyond the end, so that the last part reaches it.
        for until in range(0, stage.agenda.end + _PART, _PART):
            stage.run(min(until, stage.agenda.end))
            take(stage.events)
            del stage.events[:]
    return finish(stage, workload)


def finish(stage: Stage, workload: Workload) -> Run:
    """Return the run of a stage, which cannot be used afterwards."""
    return Run(workload, stage.events, stage.agenda.end, stage.finish(workload), stage.time_base)


def set_up(workload: Workload, message_limit: int | None = None) -> Stage:
    """Return the stage of a run with every client in place, before the first action."""
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
    """Return the stage of a run that keeps its events in memory; refuse one with too many."""
    # Recorded messages are as many as they are, and in memory already.
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
    """Return the limit on the messages that a run's clients send and settle."""
    recorded = sum(len(producer.recorded) for producer in workload.producers)
    # A recorded workload may be longer than a drawn one: its length is a fact, not an expectation.
    return MOST_ACTS * max(1, recorded // MOST_MESSAGES)


def expected_messages(producer: Producer, duration: float) -> float:
    """Return the mean number of messages that fall due at a producer within ``duration`` seconds."""
    on, off = producer.burst or (duration, 0)
    # The last spell may be cut off by the end.
    spells, rest = divmod(duration, on + off)
    return producer.rate * (spells * on + min(rest, on))


def simulate_in_slices(
    workload: Workload, on_slice: Callable[[int, int], object], grace: int = GRACE
) -> tuple[Run, bool]:
    """Run a workload as :func:`qflow.workload.simulate` does, and stop cleanly at Ctrl-C."""
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
            # Back to the end of the last whole slice, as the interrupted one may lack events.
            del stage.events[count:]
            stage.agenda.end = done
            return finish(stage, workload), False
