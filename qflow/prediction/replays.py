"""Replays: the workload behind a log, run again and measured; more than once where chance decides.

All measures are over the time the producers ran, from 0 to the workload's duration, and are the same for
recorded and for predicted clients.  Depths and shares are averaged over time: recorded ones from the broker's
reports of a queue, predicted ones from every event.

One replay says little: recorded again the machine would be faster or slower and have more or less other
work, at other instants, and of two things at almost the same time the other would have been first.  So a
replay is repeated with another such machine each time (:func:`vary_chance`).  Of those that ended as most did
the one in the middle is shown (:func:`_most_likely`), and the spread of all says how sure that is
(:mod:`qflow.prediction.summary`).  :data:`REPLAYS` are enough for that; where a session ends in some of them
only there are more, as its share of few is luck (:func:`_is_sure`).

Where the log gives a lower bound of demand only, and the settings are not the recorded ones, half of the
replays have the least demand that fits the log and half the most (:meth:`Replayer.answer`).  If these agree,
the missing demand does not matter; if not, the answer is a bound, and the value shown is of the likely
demand.

How surely a session ends that a few messages more would end is the weakest of what replays say: it ended in
every recording of one workload, and in few of its replays.  So where a queue comes near its limit under other
settings, some replays more have its producers' sessions end as soon as it does (:func:`_end_sessions`), and
what is said holds whether and whenever they end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from math import ceil, exp, inf, sqrt
from operator import attrgetter
from random import Random
from statistics import NormalDist, median
from typing import NamedTuple

from qflow.broker.events import Event, of_kinds
from qflow.broker.settings import QueueSettings
from qflow.logs.client_log import ClientLog, rows_by_client
from qflow.logs.components import routes_of
from qflow.logs.log_file import LogRow
from qflow.prediction.client_model import LogModel
from qflow.prediction.costs import works_of
from qflow.prediction.disturbances import add_spell
from qflow.prediction.evidence import seen_rows
from qflow.progress import Progress
from qflow.workload.agenda import SECOND
from qflow.workload.many import run_many
from qflow.workload.measures import (
    DepthMeter,
    Measures,
    acts_of,
    latency_measures,
    producer_measures,
    queue_measures,
)
from qflow.workload.model import Client, Consumer, Producer, Workload
from qflow.workload.network import Steps, ValueFrom
from qflow.workload.simulate import Run, simulate_in_slices
from qflow.workload.stage import pause_collector

Sections = Mapping[str, Mapping[str, Measures]]
"""Measures by name, in three sections: queues, producers and consumers."""


# Measures


def recorded_sections(workload: Workload, log: ClientLog, end: int) -> dict[str, dict[str, Measures]]:
    """Return the recorded measures of the queues and clients in a log."""
    accepted = Counter(row.queue for row in log.rows if row.event == "accept" and row.ts_us <= end)
    queues = {}
    for name in workload.queues:
        measures = _recorded_queue(log, name, accepted[name], end)
        if measures is not None:
            queues[name] = measures
    clients = _clients(workload, seen_rows(log, workload), end, only_present=True)
    if not any(row.event == "complete" for row in log.rows):
        # Not that nothing was complete: such a log does not say.
        for measures in clients["producers"].values():
            measures.update((name, None) for name in latency_measures([]))
    return {"queues": queues, **clients}


def _predicted_sections(
    run: Run, workload: Workload, end: int, filled: dict[str, float] | None = None
) -> dict[str, dict[str, Measures]]:
    """Return the same measures of a simulated run; ``filled`` gets the share of time with messages."""
    clients = _clients(workload, rows_by_client(_rows_of_run(run.events, run.workload.producers)), end)
    return {"queues": queue_measures(run.events, workload, end, filled), **clients}


def _clients(
    workload: Workload, rows: Mapping[str, Sequence[LogRow]], end: int, *, only_present: bool = False
) -> dict[str, dict[str, Measures]]:
    return {
        section: {
            client.name: measure(rows.get(client.name, ()), end)
            for client in clients
            if client.name in rows or not only_present
        }
        for section, clients, measure in (
            ("producers", workload.producers, producer_measures),
            ("consumers", workload.consumers, _consumer_measures),
        )
    }


def _recorded_queue(log: ClientLog, queue: str, accepted: int, end: int) -> Measures | None:
    """Measure a queue by the broker's reports; None if the log holds none."""
    if not any(row.event == "stats" and row.queue == queue and row.ts_us <= end for row in log.rows):
        return None
    samples = [sample for sample in log.statistics(queue) if sample.ts_us <= end]
    return {
        **_by_reports((_State(one.ts_us, one.msgDepth, one.flowStopped) for one in samples), end),
        "flowStoppedCount": samples[-1].flowStoppedCount,
        "throughput": accepted * SECOND / end,
        "discards": samples[-1].discardsRing,
    }


Polls = Mapping[str, Sequence[int]]
"""The times of the broker's reports on each queue, in microseconds."""


def polls_of(log: ClientLog, end: int) -> dict[str, tuple[int, ...]]:
    """Return the times of the broker's reports of each queue, from the start to an instant."""
    polls: dict[str, list[int]] = {}
    for row in log.rows:
        if row.event == "stats" and row.ts_us <= end:
            polls.setdefault(row.queue, []).append(row.ts_us)
    return {queue: tuple(times) for queue, times in polls.items()}


_STEPS = {"enqueued": 1, "dequeued": -1}


class _State(NamedTuple):
    """The depth and flow state of a queue at an instant, in microseconds."""

    time: int
    depth: int
    is_on: bool


def _states_at(events: Iterable[Event], times: Polls) -> dict[str, list[_State]]:
    """Return the state of each queue at instants, after all that happens then."""
    depth, is_on = dict.fromkeys(times, 0), dict.fromkeys(times, False)
    found: dict[str, list[_State]] = {queue: [] for queue in times}
    waiting = {queue: deque(own) for queue, own in times.items()}
    for event in of_kinds(events, (*_STEPS, "flow_stopped", "flow_resumed")):
        queue = event.queue
        if queue not in times:
            continue
        left = waiting[queue]
        while left and left[0] < event.time:
            found[queue].append(_State(left.popleft(), depth[queue], is_on[queue]))
        if event.kind in _STEPS:
            depth[queue] += _STEPS[event.kind]
        else:
            is_on[queue] = event.kind == "flow_stopped"
    for queue, left in waiting.items():
        found[queue] += [_State(time, depth[queue], is_on[queue]) for time in left]
    return found


def _by_reports(states: Iterable[_State], end: int) -> Measures:
    """Measure a queue by reports of the broker, recorded or those of a run.

    >>> _by_reports([_State(100_000, 1, False), _State(500_000, 0, False)], SECOND)["mean_depth"]
    0.4
    """
    # A depth that is looked at twenty times a second is averaged less exactly, and its peak is missed.
    meter = DepthMeter(end)
    for state in states:
        meter.at(*state)
    return meter.measures()


def longest_silence(polls: Polls) -> float | None:
    """Return the longest time without a report of a queue, in seconds; None with too few reports."""
    # What is averaged over time counts each report until the next: in a longer silence it says little of a
    # queue that fills and empties meanwhile.
    gaps = (after - before for times in polls.values() for before, after in pairwise(times) if before >= 0)
    longest = max([0, *gaps])
    return longest / SECOND if longest else None


def _rows_of_run(events: Iterable[Event], producers: Iterable[Producer] = ()) -> list[LogRow]:
    """Return the log of the clients of a simulated run, without sizes and groups."""
    return [LogRow(*act, 0, "") for act in acts_of(events, producers)]


_COURSE = 120
"""In how many equal parts of the time the depth is shown."""


def _course_of(events: Iterable[Event], queues: Iterable[str], end: int) -> dict[str, tuple[int, ...]]:
    """Return the depth of each queue at the end of each of :data:`_COURSE` equal parts of the time.

    >>> _course_of([Event(SECOND // 2, "enqueued", queue="q")], ["q"], SECOND)["q"][58:61]
    (0, 1, 1)
    """
    times = [-(-part * end // _COURSE) for part in range(1, _COURSE + 1)]
    states = _states_at(events, dict.fromkeys(queues, times))
    return {queue: tuple(state.depth for state in own) for queue, own in states.items()}


def _consumer_measures(rows: Sequence[LogRow], end: int) -> Measures:
    """Measure a consumer: throughput in accepted messages a second, and the share of time it worked."""
    works = [(begin, done, verdict) for begin, done, verdict in works_of(rows) if done <= end]
    accepted = sum(verdict == "accept" for _, _, verdict in works)
    busy = sum(done - begin for begin, done, _ in works)
    return {"throughput": accepted * SECOND / end, "busy_share": busy / end}


# Chance

REPLAYS = 19
"""The number of replays: 8 of 10 further draws are between the second smallest and second largest of 19."""

ALONE = 500_000
"""Events: fewer than that are simulated here, before other processes would have begun."""

POLL = 50_000
"""Microseconds from one report to the next, about."""

FEWEST = 5
"""How many there are at least, of however long a log."""

_FEWEST_OF_A_BOUND = 3
"""The least number with the least demand, and with the most."""

PATIENCE = 6_000_000
"""Events of all replays together above which their number shrinks: a quarter of a minute on two cores."""

ROUNDS = 3
"""The largest factor of additional replays, if a session ends in some replays only (:func:`_is_sure`)."""

_SURE = 0.06
"""Standard error that is small enough of the share of replays in which a session ends."""

CHANCE = {
    "mean_depth": (0.05, 0.1),
    "share_on": (0.0, 0.03),
    "flowStoppedCount": (0.1, 2.0),
    "throughput": (0.03, 0.1),
}
"""The relative and the absolute difference below which two values of a measure count as equal."""

_NEAR = 0.95
"""Share of a queue's limit from which a message more or less may end a session."""


@dataclass(frozen=True, slots=True)
class MeasuredReplay:
    """The measures of one replay, by queue and client."""

    sections: Sections
    # What sessions ended by, and at which second.
    errors: Mapping[str, str]
    # Queues of :func:`_near_limits`, and the second at which each came so near.
    near: Mapping[str, float] = field(default_factory=dict)
    # How many there were.
    events: int = 0
    ended_at: Mapping[str, float] = field(default_factory=dict)
    # The share of time with messages; :func:`_by_reports`; :func:`_course_of`.
    filled: Mapping[str, float] = field(default_factory=dict)
    reported: Mapping[str, Measures] = field(default_factory=dict)
    courses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def ended(self) -> tuple[str, ...]:
        """Names of the clients whose session ended, sorted."""
        return tuple(sorted(self.errors))

    def measure(self, queue: str, measure: str) -> float:
        """Return a measure of a queue, by the broker's reports if there are any."""
        return self.value("queues", queue, measure) or 0

    def value(self, section: str, name: str, measure: str) -> float | None:
        """Return a measure of a queue or client; of a queue as :meth:`measure` does."""
        reported = self.reported.get(name, {}) if section == "queues" else {}
        return reported.get(measure, self.sections[section][name][measure])

    def measures(self) -> dict[tuple[str, str], float]:
        """Return the measures by which replays are compared, by queue and name."""
        return {
            (queue, key): float(found[key] or 0)
            for queue, found in self.sections["queues"].items()
            for key in CHANCE
            if key in found
        }

    def distance(self, middles: Mapping[tuple[str, str], float]) -> float:
        """Return the distance of all measures from others, each in units of a small difference."""
        total = 0.0
        for place, value in self.measures().items():
            share, least = CHANCE[place[1]]
            total += abs(value - middles[place]) / max(least, share * abs(middles[place]))
        return total


def _is_sure(replays: Sequence[MeasuredReplay]) -> bool:
    """Return whether the share of replays in which each session ends is known well enough."""
    # A measure's interval needs few replays, a share does not.  To each share two replays are added in which
    # the session ended and two in which it lived (Agresti and Coull), as none of 19 is not never.  Where no
    # queue comes near its limit there is nothing to know.
    number = len(replays) + 4
    ended = list(Counter(name for replay in replays for name in replay.errors).values())
    if any(replay.near for replay in replays):
        ended.append(0)
    shares = [(times + 2) / number for times in ended]
    return all(sqrt(share * (1 - share) / number) <= _SURE for share in shares)


def vary_chance(workload: Workload, place: int, of: int = REPLAYS, seed: int = 0) -> Workload:
    """Return a workload with another chance, as recorded again on another machine."""
    # The machine is faster or slower throughout (:data:`PACE`) and has other work to do more often or more
    # rarely (:data:`BUSY`), at other times: what interrupted clients in the log's seconds is drawn again,
    # second by second and for all clients alike (CN-31).  Services that are known only as recorded come in
    # another order; and of what happens at almost the same time something else is first.
    if not place and not seed:
        return workload
    chance = Random(f"{seed} {place}")
    turn = (place / of + chance.random() * bool(seed or place >= of)) % 1
    pace = exp(PACE * _deviation("pace", place, of, seed, chance))
    moves = _moves(ceil(workload.duration), exp(BUSY * _deviation("busy", place, of, seed, chance)), chance)
    producers = [_vary_demand(producer, turn) for producer in workload.producers]
    consumers = [_vary_services(consumer, turn, pace) for consumer in workload.consumers]
    return workload.replace(
        producers=tuple(_vary_network(producer, turn, pace, moves, chance) for producer in producers),
        consumers=tuple(_vary_network(consumer, turn, pace, moves, chance) for consumer in consumers),
    )


PACE = 0.4
"""By how much the machine's pace differs between two recordings of the same clients: the root mean square of
the logarithm of their ratio, over all pairs of the recordings that were repeated.  The work of a completion
shows 0.46, of a send 0.37, how late clients wake up 0.35.  A log is one draw and what is predicted another:
about their mean each differs less, by the root of 2.  Of one day it is 0.3, of two days, and machines, 0.5
(the calibration page has the table)."""


BUSY = 1.0
"""The same of how often consumers are interrupted: how many delays of credit end later than at their tick
(0.91), and how many services take 2 ms longer than usual (1.29)."""

_Moves = Mapping[int, Sequence[int]]
"""For each second of a log, the seconds of a replay into which its interruptions come."""


def _deviation(what: str, place: int, of: int, seed: int, chance: Random) -> float:
    """Return a replay's deviation from the mean machine, in standard deviations."""
    # Chance is cut into as many equal parts as there are replays and each has one of them, the log's own the
    # middle: few replays show sooner how far something spreads than independent draws.
    middle = of // 2
    parts = [part for part in range(of) if part != middle]
    again, place = divmod(place, of)
    Random(f"{seed} {what} {again}" if again else f"{seed} {what}").shuffle(parts)
    part = (middle, *parts)[place]
    return NormalDist().inv_cdf((part + chance.uniform(0.2, 0.8)) / of)


def _moves(seconds: int, busy: float, chance: Random) -> _Moves:
    """Return the new seconds of each second's interruptions: a bootstrap of ``busy`` times as many."""
    moves: dict[int, list[int]] = {}
    for second in chance.choices(range(seconds), k=round(seconds * busy)):
        moves.setdefault(second, []).append(chance.randrange(seconds))
    return moves


def _vary_demand(producer: Producer, turn: float) -> Producer:
    """Return a producer of stated demand with its messages due at other times."""
    if producer.demand is None or producer.arrival != "recorded" or producer.model != "open":
        return producer
    times = [0.0, *(time for time, _, _ in producer.recorded)]
    gaps = _rotate(tuple(after - time for time, after in pairwise(times)), turn)
    due = zip(accumulate(gaps), producer.recorded, strict=True)
    recorded = tuple((round(time, 6), size, group) for time, (_, size, group) in due)
    return replace(producer, recorded=recorded)


def _vary_services(consumer: Consumer, turn: float, pace: float) -> Consumer:
    """Return a consumer with its services, and their overheads, in another order."""
    kind, service = consumer.service
    if isinstance(service, tuple):
        consumer = replace(consumer, service=(kind, _rotate(service, turn)))
    return replace(consumer, overhead=tuple(time * pace for time in _rotate(consumer.overhead, turn)))


def _vary_network(client: Client, turn: float, pace: float, moves: _Moves, chance: Random) -> Client:
    """Return a client whose network has another seed, other slow spells, and another pace."""
    network = client.network
    if network is None:
        return client
    network = replace(
        network,
        seed=chance.randrange(2**31),
        latency=network.latency * pace,
        send_cost=network.send_cost * pace,
        report_cost=network.report_cost * pace,
        report_growth=network.report_growth * pace,
        latencies=tuple(ValueFrom(since, way * pace) for since, way in _move_steps(network.latencies, moves)),
        pace=_rotate_steps(network.pace, turn),
        ack_delays=_rotate_steps(network.ack_delays, turn),
        wakes=tuple(wake * pace for wake in network.wakes),
        crowded=tuple(wake * pace for wake in network.crowded),
    )
    return replace(client, network=network)


def _rotate_steps(steps: Steps, turn: float) -> Steps:
    """Return steps that begin at another place and continue with the ones before it."""
    if len(steps) < 2:
        return steps
    end = steps[-1].since
    first = end * turn
    place = bisect_right(steps, first, key=attrgetter("since"))
    later = (ValueFrom(since - first, value) for since, value in steps[place:])
    earlier = (ValueFrom(since + end - first, value) for since, value in steps[:place])
    return (ValueFrom(0.0, steps[place - 1].value), *later, *earlier)


def _move_steps(steps: Steps, moves: _Moves) -> Steps:
    """Return steps with the spells above the usual moved to other seconds.

    >>> steps = ValueFrom(0.0, 1.0), ValueFrom(2.5, 7.0), ValueFrom(2.75, 1.0)
    >>> [*map(tuple, _move_steps(steps, {2: [0, 4]}))]
    [(0.0, 1.0), (0.5, 7.0), (0.75, 1.0), (4.5, 7.0), (4.75, 1.0)]
    """
    if len(steps) < 2:
        return steps
    usual = min(step.value for step in steps)
    above = sorted(
        (since - int(since) + second, until - since, value)
        for (since, value), (until, _) in pairwise(steps)
        if value > usual
        for second in moves.get(int(since), ())
    )
    found = [ValueFrom(0.0, usual)]
    for since, length, value in above:
        add_spell(found, since, since + length, value, usual)
    return tuple(found)


def _rotate(items: tuple[float, ...], turn: float) -> tuple[float, ...]:
    first = int(len(items) * turn)
    return items[first:] + items[:first]


def _near_limits(run: Run) -> dict[str, float]:
    """Return the seconds at which queues came so near their limit that few messages more end a session."""
    # A queue whose stop count leaves room for all that its producers may have outstanding cannot reach its
    # limit (CAP-11).
    outstanding = sum(producer.capacity for producer in run.workload.producers)
    limits: dict[str, tuple[float, float]] = {}
    for name, arguments in run.workload.queues.items():
        settings = QueueSettings.from_arguments(arguments)
        stop = settings.flow_stop_count
        is_safe = stop is not None and 0 < stop <= settings.max_count - outstanding
        count = _NEAR * settings.max_count if settings.max_count and not is_safe else inf
        size = _NEAR * settings.max_size if settings.max_size else inf
        if settings.policy == "reject" and min(count, size) < inf:
            limits[name] = (count, size)
    near: dict[str, float] = {}
    # Where no limit can be reached, the events are not looked through.
    for event in of_kinds(run.events, ("enqueued",)) if limits else ():
        if event.queue in limits and isinstance(event.detail, dict):
            depth, size = limits[event.queue]
            if event.detail["depth"] >= depth or event.detail["bytes"] >= size:
                near.setdefault(event.queue, event.time / SECOND)
    return near


def _end_sessions(workload: Workload, near: Mapping[str, float]) -> Workload:
    """Return a workload whose producers send nothing once a queue of theirs has come near its limit."""
    routes, producers = routes_of(workload), []
    for producer in workload.producers:
        until = min((time for queue, time in near.items() if (producer.name, queue) in routes), default=inf)
        times = [time for time, _, _ in producer.recorded]
        due = times if producer.model == "open" else accumulate(times)
        left = tuple(item for item, time in zip(producer.recorded, due, strict=True) if time <= until)
        producers.append(replace(producer, recorded=left))
    return workload.replace(producers=tuple(producers))


# Running


@dataclass(frozen=True, slots=True)
class Replayer:
    """Makes the replays of one question: how many, with which chance, measured at which times."""

    # When the broker reported its queues.
    polls: Polls = field(default_factory=dict)
    # None for :data:`REPLAYS`, fewer of a long log, more where sessions end.
    number: int | None = None
    seed: int = 0
    # None for all cores, if they take long.
    processes: int | None = None
    progress: Progress | None = None

    def answer(
        self, model: LogModel, change: Callable[[Workload], Workload], kind: str | None = None
    ) -> Answer:
        """Return the replays of a log's workload under other settings, with all demands that fit."""
        likely = model.extraction(kind).workload
        changed = change(likely)
        if changed == likely or not model.unknown(kind):
            runs = self.replays(changed, self.number)
            ended = [] if changed == likely else self._ended(changed, runs)
            return Answer(runs, _most_likely(runs), ended=ended)
        # One of the likely demand is shown: of the least demand a value would often be its bound.
        shown = replay_once(ReplayTask(changed, 0, 1, self.seed, self.polls))
        least, most = (
            self.replays(change(model.extraction(kind, bound).workload), number, parts=2)
            for bound, number in zip(("least", "most"), _halves(self.number), strict=True)
        )
        runs = [shown, *least, *most]
        if _is_alike(least, most):
            return Answer(runs, _most_likely(runs), ended=self._ended(changed, runs))
        return Answer(runs, shown, (least, most), self._ended(changed, runs))

    def _ended(self, workload: Workload, runs: Sequence[MeasuredReplay]) -> list[MeasuredReplay]:
        """Return replays whose sessions end as early as any limit is near; none if all or no sessions end."""
        near: dict[str, float] = {}
        for run in runs:
            near.update((name, min(time, near.get(name, inf))) for name, time in run.near.items())
        is_sure = self.number == 1 or not near or all(run.errors for run in runs)
        return [] if is_sure else self.replays(_end_sessions(workload, near), _FEWEST_OF_A_BOUND)

    def replays(self, workload: Workload, number: int | None, parts: int = 1) -> list[MeasuredReplay]:
        """Return replays of a workload, a part of the usual number if asked; long ones on all cores."""
        task = ReplayTask(workload, 0, 1, self.seed, self.polls)
        first = replay_once(task, self.progress)
        of = number or max(_FEWEST_OF_A_BOUND, _count_in_a_round(first) // parts)
        processes = 1 if first.events * of < ALONE else self.processes
        runs = self._add(task._replace(of=of), [first], of, processes)
        while number is None and len(runs) < ROUNDS * of and not _is_sure(runs):
            runs = self._add(task._replace(of=of), runs, len(runs) + of, processes)
        return runs

    def _add(
        self, task: ReplayTask, runs: Sequence[MeasuredReplay], number: int, processes: int | None
    ) -> list[MeasuredReplay]:
        """Return replays with further ones, up to a number."""
        tasks = [task._replace(place=place) for place in range(len(runs), number)]
        seconds = round(task.workload.duration)
        found: dict[int, MeasuredReplay] = {}
        with closing(run_many(replay_once, tasks, processes=processes)) as results:
            for place, replay in results:
                found[place] = replay
                if self.progress is not None:
                    done = len(runs) + len(found)
                    self.progress(done * seconds, number * seconds, f"predicting, {number} replays")
        return [*runs, *(found[place] for place in range(len(tasks)))]


class ReplayTask(NamedTuple):
    """One replay to make: a workload and its chance."""

    workload: Workload
    place: int
    of: int
    seed: int
    polls: Polls = {}


class Answer(NamedTuple):
    """All replays of one question, and the one to show."""

    runs: list[MeasuredReplay]
    shown: MeasuredReplay
    # The replays of the least demand that fits the log and of the most; where it matters, else nothing.
    bounds: tuple[list[MeasuredReplay], ...] = ()
    # Replays whose sessions end as soon as they may; where that is not sure, else none.
    ended: Sequence[MeasuredReplay] = ()

    @property
    def sets(self) -> list[Sequence[MeasuredReplay]]:
        """The sets of replays between which a prediction lies."""
        return [*(self.bounds or (self.runs,)), *filter(None, [self.ended])]


def _halves(number: int | None) -> tuple[int | None, int | None]:
    """Return the numbers of replays with the least and the most demand, beside one with the likely one."""
    return (None, None) if number is None else (max(1, (number - 1) // 2), max(1, number // 2))


_ALIKE = 2
"""The multiple of a prediction's limits within which measures of two demands count as equal."""


def _is_alike(one: Sequence[MeasuredReplay], other: Sequence[MeasuredReplay]) -> bool:
    """Return whether two demands make little difference to queues and to blocked producers."""
    places = [("queues", *place) for place in one[0].measures()]
    places += [("producers", name, "blocked_share") for name in one[0].sections["producers"]]
    for section, name, measure in places:
        least, most = (
            median(run.value(section, name, measure) or 0 for run in runs) for runs in (one, other)
        )
        share, little = CHANCE.get(measure, CHANCE["share_on"])
        if abs(most - least) > _ALIKE * max(little, share * max(least, most)):
            return False
    return {run.ended for run in one} == {run.ended for run in other}


def _count_in_a_round(first: MeasuredReplay) -> int:
    """Return the number of replays in a round, which is all unless a session ends in some only."""
    return max(FEWEST, min(REPLAYS, PATIENCE // max(1, first.events)))


@pause_collector()
def replay_once(task: ReplayTask, progress: Progress | None = None) -> MeasuredReplay:
    """Run a workload with one chance, and measure it."""
    workload = vary_chance(task.workload, task.place, task.of, task.seed)
    end, seconds = round(workload.duration * SECOND), max(1, round(workload.duration))
    # All measures end with the workload: the time in which clients catch up would be simulated for nothing.
    run, is_whole = simulate_in_slices(
        workload, lambda time, _: progress and progress(time // SECOND, seconds, "predicting, one replay"), 0
    )
    if not is_whole:
        raise KeyboardInterrupt
    filled: dict[str, float] = {}
    sections = _predicted_sections(run, workload, end, filled)
    deaths = of_kinds(run.events, ("exception",)) if run.errors else ()
    # The reports come at other instants, too.
    later = POLL * (task.place % task.of) // task.of
    polls = {queue: [time + later for time in times] for queue, times in task.polls.items()}
    return MeasuredReplay(
        sections,
        {name: str(error) for name, error in run.errors.items()},
        _near_limits(run),
        len(run.events),
        {event.session: event.time / SECOND for event in deaths},
        filled,
        {queue: _by_reports(own, end) for queue, own in _states_at(run.events, polls).items()},
        _course_of(run.events, workload.queues, end),
    )


# What is shown of them


def _most_likely(replays: Sequence[MeasuredReplay]) -> MeasuredReplay:
    """Return the replay to show: the middle one of those that ended as most did."""
    # Counter keeps the order of the first ones, so that a tie goes to the log's own instants.
    ((ended, _),) = Counter(replay.ended for replay in replays).most_common(1)
    alike = [replay for replay in replays if replay.ended == ended]
    found = [replay.measures() for replay in alike]
    middles = {place: median(measures[place] for measures in found) for place in found[0]}
    return min(alike, key=lambda replay: replay.distance(middles))


def account(replays: Sequence[MeasuredReplay]) -> dict[str, object]:
    """Return the number of replays, their outcomes, and the measures of queues in each."""
    outcomes = Counter(replay.ended for replay in replays).most_common()
    return {
        "number": len(replays),
        "outcomes": [{"ended": list(ended), "replays": number} for ended, number in outcomes],
        "values": {
            name: {measure: [replay.measure(name, measure) for replay in replays] for measure in measures}
            for name, measures in replays[0].sections["queues"].items()
        },
    }
