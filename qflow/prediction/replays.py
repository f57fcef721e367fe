"""Replays: simulations of the workload behind a log, repeated where chance matters, and their measures.

All measures cover the time in which the producers ran, from 0 to the workload's duration, and are the same
for recorded and for predicted clients.  Depths and shares are averaged over time: recorded ones from the
broker's reports of a queue, predicted ones from every event.

One replay tells little: in another recording the machine would be faster or slower, would have more or less
other work, at other times, and of two events at almost the same time the other would come first.  So a replay
is repeated with a different machine each time (:func:`vary_chance`).  The replay that is shown is the middle
one of those with the most frequent outcome (:func:`_most_likely`), and the spread of all replays tells how
certain it is (:mod:`qflow.prediction.summary`).  :data:`REPLAYS` replays suffice for that.  If a session ends
in some of them only, there are more, as its share in a few replays depends on luck (:func:`_is_sure`).

If the log gives only a lower bound of demand, and the settings are not the recorded ones, half of the replays
have the least demand that fits the log and half the most (:meth:`Replayer.answer`).  If these agree, the
unknown demand does not matter; if not, the answer is a bound, and the value shown is for the likely demand.

Replays are least reliable about a session that a few more messages would end: in one workload it ended in
every recording, but in few replays.  So where a queue comes near its limit under other settings, some further
replays end its producers' sessions as soon as it does (:func:`_end_sessions`), and the answer then holds
whether and whenever they end.
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
"""Measures by section (queues, producers and consumers) and name."""


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
        # Such a log does not record completions, so nothing is known about them.
        for measures in clients["producers"].values():
            measures.update((name, None) for name in latency_measures([]))
    return {"queues": queues, **clients}


def _predicted_sections(
    run: Run, workload: Workload, end: int, filled: dict[str, float] | None = None
) -> dict[str, dict[str, Measures]]:
    """Return the measures of a simulated run; ``filled`` gets each queue's share of time with messages."""
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
    """Return the measures of a queue from the broker's reports, or None if the log has none."""
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
"""The times of the broker's reports by queue, in microseconds."""


def polls_of(log: ClientLog, end: int) -> dict[str, tuple[int, ...]]:
    """Return the times of the broker's reports by queue, from the start to `end`."""
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
    """Return the states of queues at the given times, after all events at those times."""
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
    """Return the measures of a queue from reported states, recorded or simulated.

    >>> _by_reports([_State(100_000, 1, False), _State(500_000, 0, False)], SECOND)["mean_depth"]
    0.4
    """
    # A depth sampled twenty times a second has a less exact mean, and its peak may be missed.
    meter = DepthMeter(end)
    for state in states:
        meter.at(*state)
    return meter.measures()


def _moved(times: Sequence[int], part: float) -> list[int]:
    """Return the times of reports, all moved by a part of their usual gap."""
    gaps = [after - before for before, after in pairwise(times)]
    move = round(part * median(gaps)) if gaps else 0
    return [time + move for time in times]


def longest_silence(polls: Polls) -> float | None:
    """Return the longest time without a report of a queue, in seconds; None with too few reports."""
    # Averages over time count each report until the next one: in a long silence they tell little about a
    # queue that fills and empties meanwhile.
    gaps = (after - before for times in polls.values() for before, after in pairwise(times) if before >= 0)
    longest = max([0, *gaps])
    return longest / SECOND if longest else None


def _rows_of_run(events: Iterable[Event], producers: Iterable[Producer] = ()) -> list[LogRow]:
    """Return the client log of a simulated run, without sizes and groups."""
    return [LogRow(*act, 0, "") for act in acts_of(events, producers)]


_COURSE = 120
"""The number of equal parts of the time for which depths are shown."""


def _course_of(events: Iterable[Event], queues: Iterable[str], end: int) -> dict[str, tuple[int, ...]]:
    """Return the depth of each queue at the end of each of :data:`_COURSE` equal parts of the time.

    >>> _course_of([Event(SECOND // 2, "enqueued", queue="q")], ["q"], SECOND)["q"][58:61]
    (0, 1, 1)
    """
    times = [-(-part * end // _COURSE) for part in range(1, _COURSE + 1)]
    states = _states_at(events, dict.fromkeys(queues, times))
    return {queue: tuple(state.depth for state in own) for queue, own in states.items()}


def _consumer_measures(rows: Sequence[LogRow], end: int) -> Measures:
    """Return a consumer's throughput in accepted messages a second, and the share of time it worked."""
    works = [(begin, done, verdict) for begin, done, verdict in works_of(rows) if done <= end]
    accepted = sum(verdict == "accept" for _, _, verdict in works)
    busy = sum(done - begin for begin, done, _ in works)
    return {"throughput": accepted * SECOND / end, "busy_share": busy / end}


# Chance

REPLAYS = 19
"""The usual number of replays: 80 % of further draws are between the second smallest and largest of 19."""

ALONE = 500_000
"""With fewer events this process simulates alone, as others would take longer to start."""

FEWEST = 5
"""The least number of replays, however long the log is."""

_FEWEST_OF_A_BOUND = 3
"""The least number of replays with the least demand, and of those with the most."""

PATIENCE = 6_000_000
"""The most events of all replays together (15 seconds on two cores); long logs have fewer replays."""

ROUNDS = 3
"""The largest factor of additional replays, if a session ends in some replays only (:func:`_is_sure`)."""

_SURE = 0.06
"""The sufficient standard error of the share of replays in which a session ends."""

CHANCE = {
    "mean_depth": (0.05, 0.1),
    "share_on": (0.0, 0.03),
    "flowStoppedCount": (0.1, 2.0),
    "throughput": (0.03, 0.1),
}
"""The relative and the absolute difference below which two values of a measure count as equal."""

_NEAR = 0.95
"""The share of a queue's limit above which a few messages more may end a session."""


@dataclass(frozen=True, slots=True)
class MeasuredReplay:
    """The measures of a replay, by queue and client."""

    sections: Sections
    # The errors by which sessions ended, by client.
    errors: Mapping[str, str]
    # The queues that came near their limit (:func:`_near_limits`), with the time in seconds.
    near: Mapping[str, float] = field(default_factory=dict)
    # The number of events.
    events: int = 0
    # The times in seconds at which sessions ended, by client.
    ended_at: Mapping[str, float] = field(default_factory=dict)
    # By queue: the share of time with messages, and the results of _by_reports and _course_of.
    filled: Mapping[str, float] = field(default_factory=dict)
    reported: Mapping[str, Measures] = field(default_factory=dict)
    courses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def ended(self) -> tuple[str, ...]:
        """The sorted names of the clients whose sessions ended."""
        return tuple(sorted(self.errors))

    def measure(self, queue: str, measure: str) -> float:
        """Return a measure of a queue, from the broker's reports if there are any."""
        return self.value("queues", queue, measure) or 0

    def value(self, section: str, name: str, measure: str) -> float | None:
        """Return a measure of a queue (as :meth:`measure` does) or a client."""
        reported = self.reported.get(name, {}) if section == "queues" else {}
        return reported.get(measure, self.sections[section][name][measure])

    def measures(self) -> dict[tuple[str, str], float]:
        """Return the measures by which replays are compared, by queue and measure."""
        return {
            (queue, key): float(found[key] or 0)
            for queue, found in self.sections["queues"].items()
            for key in CHANCE
            if key in found
        }

    def distance(self, middles: Mapping[tuple[str, str], float]) -> float:
        """Return the sum of all differences from other values, in units of a small difference."""
        total = 0.0
        for place, value in self.measures().items():
            share, least = CHANCE[place[1]]
            total += abs(value - middles[place]) / max(least, share * abs(middles[place]))
        return total


def _is_sure(replays: Sequence[MeasuredReplay]) -> bool:
    """Return whether the share of replays in which each session ends is known well enough."""
    # The interval of a measure needs few replays, a share needs many.  Two replays in which the session ended
    # and two in which it survived are added to each share (Agresti and Coull), as none of 19 does not mean
    # never.  If no queue comes near its limit, the share of 0 is certain.
    number = len(replays) + 4
    ended = list(Counter(name for replay in replays for name in replay.errors).values())
    if any(replay.near for replay in replays):
        ended.append(0)
    shares = [(times + 2) / number for times in ended]
    return all(sqrt(share * (1 - share) / number) <= _SURE for share in shares)


def vary_chance(workload: Workload, place: int, of: int = REPLAYS, seed: int = 0) -> Workload:
    """Return a workload changed by chance, as if it were recorded again on another machine."""
    # The machine is faster or slower throughout (:data:`PACE`), and has other work more or less often
    # (:data:`BUSY`), at other times: the interruptions of clients in each second of the log are resampled,
    # second by second and equally for all clients (CN-31).  Recorded services get another order, and so do
    # events at almost the same time.
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
"""The variation of a machine's pace between two recordings of the same clients: the root mean square of the
logarithm of their ratio, over all pairs of repeated recordings.  It is 0.46 for the work of a completion,
0.37 for that of a send, and 0.35 for the delay with which clients wake up.  The log and the predicted run
are two draws, and each differs from their mean by less, by the root of 2.  Within a day the variation is
0.3, between days and machines 0.5 (the calibration page has the table)."""


BUSY = 1.0
"""The same variation for the frequency of interruptions of consumers: of delays of credit that end later than
at their tick (0.91), and of services that take 2 ms longer than usual (1.29)."""

_Moves = Mapping[int, Sequence[int]]
"""For each second of a log, the seconds of a replay to which its interruptions are moved."""


def _deviation(what: str, place: int, of: int, seed: int, chance: Random) -> float:
    """Return a replay's deviation from the mean machine, in standard deviations."""
    # Stratified sampling: the distribution is divided into as many equal parts as there are replays, and each
    # replay gets one of them, the log's own the middle.  A few replays show a spread better than independent
    # draws would.
    middle = of // 2
    parts = [part for part in range(of) if part != middle]
    again, place = divmod(place, of)
    Random(f"{seed} {what} {again}" if again else f"{seed} {what}").shuffle(parts)
    part = (middle, *parts)[place]
    return NormalDist().inv_cdf((part + chance.uniform(0.2, 0.8)) / of)


def _moves(seconds: int, busy: float, chance: Random) -> _Moves:
    """Return new seconds for each second's interruptions: a bootstrap with ``busy`` times as many."""
    moves: dict[int, list[int]] = {}
    for second in chance.choices(range(seconds), k=round(seconds * busy)):
        moves.setdefault(second, []).append(chance.randrange(seconds))
    return moves


def _vary_demand(producer: Producer, turn: float) -> Producer:
    """Return a producer with a stated demand, its messages due at other times."""
    if producer.demand is None or producer.arrival != "recorded" or producer.model != "open":
        return producer
    times = [0.0, *(time for time, _, _ in producer.recorded)]
    gaps = _rotate(tuple(after - time for time, after in pairwise(times)), turn)
    due = zip(accumulate(gaps), producer.recorded, strict=True)
    recorded = tuple((round(time, 6), size, group) for time, (_, size, group) in due)
    return replace(producer, recorded=recorded)


def _vary_services(consumer: Consumer, turn: float, pace: float) -> Consumer:
    """Return a consumer with its services and their overheads in another order."""
    kind, service = consumer.service
    if isinstance(service, tuple):
        consumer = replace(consumer, service=(kind, _rotate(service, turn)))
    return replace(consumer, overhead=tuple(time * pace for time in _rotate(consumer.overhead, turn)))


def _vary_network(client: Client, turn: float, pace: float, moves: _Moves, chance: Random) -> Client:
    """Return a client whose network has another seed, other slow spells and another pace."""
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
    """Return steps that begin at another place and continue with the earlier ones."""
    if len(steps) < 2:
        return steps
    end = steps[-1].since
    first = end * turn
    place = bisect_right(steps, first, key=attrgetter("since"))
    later = (ValueFrom(since - first, value) for since, value in steps[place:])
    earlier = (ValueFrom(since + end - first, value) for since, value in steps[:place])
    return (ValueFrom(0.0, steps[place - 1].value), *later, *earlier)


def _move_steps(steps: Steps, moves: _Moves) -> Steps:
    """Return steps with the spells above the usual value moved to other seconds.

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
    """Return the seconds at which queues came so near their limit that a few messages more end a session."""
    # A queue whose stop count leaves room for all outstanding transfers of its producers cannot reach its
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
    # If no limit can be reached, there is no need to go through the events.
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
    """A maker of replays: it sets their number, their chance, and the times of their reports."""

    # The times of the broker's reports.
    polls: Polls = field(default_factory=dict)
    # The number of replays; None for the usual number, fewer for a long log, more if sessions end.
    number: int | None = None
    seed: int = 0
    # The number of processes; None for all cores if the replays take long.
    processes: int | None = None
    progress: Progress | None = None

    def answer(
        self, model: LogModel, change: Callable[[Workload], Workload], kind: str | None = None
    ) -> Answer:
        """Return the replays of a log's workload under changed settings, for all demands that fit."""
        likely = model.extract(kind)
        changed = change(likely)
        if changed == likely or not model.unknown(kind):
            runs = self.replays(changed, self.number)
            ended = [] if changed == likely else self._ended(changed, runs)
            return Answer(runs, _most_likely(runs), ended=ended)
        # The replay shown has the likely demand: a value for the least demand would often be an end of the
        # bound.
        shown = replay_once(ReplayTask(changed, 0, 1, self.seed, self.polls))
        # One of the replays asked for is the one shown; the others are divided.
        number = None if self.number is None else max(2, self.number - 1)
        least, most = (
            self.replays(change(model.extract(kind, bound)), number and (number + odd) // 2, parts=2)
            for bound, odd in (("least", 0), ("most", 1))
        )
        runs = [shown, *least, *most]
        if _is_alike(least, most):
            return Answer(runs, _most_likely(runs), ended=self._ended(changed, runs))
        return Answer(runs, shown, (least, most), self._ended(changed, runs))

    def _ended(self, workload: Workload, runs: Sequence[MeasuredReplay]) -> list[MeasuredReplay]:
        """Return replays whose sessions end once a limit is near; none if no limit is, or all runs end."""
        near: dict[str, float] = {}
        for run in runs:
            near.update((name, min(time, near.get(name, inf))) for name, time in run.near.items())
        is_sure = self.number == 1 or not near or all(run.errors for run in runs)
        return [] if is_sure else self.replays(_end_sessions(workload, near), _FEWEST_OF_A_BOUND)

    def replays(self, workload: Workload, number: int | None, parts: int = 1) -> list[MeasuredReplay]:
        """Return replays of a workload: `number`, or the usual number divided by `parts`."""
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
        """Return replays extended by further ones, up to `number`."""
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
    """A replay to be made: the workload, its place among the replays, their number, seed, reports."""

    workload: Workload
    place: int
    of: int
    seed: int
    polls: Polls = {}


class Answer(NamedTuple):
    """All replays for a question, and the one to show."""

    runs: list[MeasuredReplay]
    shown: MeasuredReplay
    # The replays with the least demand and those with the most; empty if demand is known or does not matter.
    bounds: tuple[list[MeasuredReplay], ...] = ()
    # Replays whose sessions end as soon as possible; empty if it is certain whether they end.
    ended: Sequence[MeasuredReplay] = ()

    @property
    def sets(self) -> list[Sequence[MeasuredReplay]]:
        """The sets of replays whose results a prediction has to cover."""
        return [*(self.bounds or (self.runs,)), *filter(None, [self.ended])]


_ALIKE = 2
"""The multiple of a small difference (:data:`CHANCE`) within which the results of two demands are equal."""


def _is_alike(one: Sequence[MeasuredReplay], other: Sequence[MeasuredReplay]) -> bool:
    """Return whether two demands have similar results for queues and blocked producers."""
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
    """Return the number of replays in a round; further rounds follow only if a session may end."""
    return max(FEWEST, min(REPLAYS, PATIENCE // max(1, first.events)))


@pause_collector()
def replay_once(task: ReplayTask, progress: Progress | None = None) -> MeasuredReplay:
    """Simulate a workload with the chance of one replay, and measure it."""
    workload = vary_chance(task.workload, task.place, task.of, task.seed)
    end, seconds = round(workload.duration * SECOND), max(1, round(workload.duration))
    # All measures end with the workload, so the time in which clients catch up afterwards is not simulated.
    run, is_whole = simulate_in_slices(
        workload, lambda time, _: progress and progress(time // SECOND, seconds, "predicting, one replay"), 0
    )
    if not is_whole:
        raise KeyboardInterrupt
    filled: dict[str, float] = {}
    sections = _predicted_sections(run, workload, end, filled)
    deaths = of_kinds(run.events, ("exception",)) if run.errors else ()
    # The times of the broker's reports vary, too, by up to half of their usual gap.
    turn = (task.place / task.of + 0.5) % 1 - 0.5
    polls = {queue: _moved(times, turn) for queue, times in task.polls.items()}
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


# The replay to show


def _most_likely(replays: Sequence[MeasuredReplay]) -> MeasuredReplay:
    """Return the replay to show: the middle one of those with the most frequent outcome."""
    # Counter keeps the order of insertion, so a tie goes to the outcome of the first replay (the log's own).
    ((ended, _),) = Counter(replay.ended for replay in replays).most_common(1)
    alike = [replay for replay in replays if replay.ended == ended]
    found = [replay.measures() for replay in alike]
    middles = {place: median(measures[place] for measures in found) for place in found[0]}
    return min(alike, key=lambda replay: replay.distance(middles))


def account(replays: Sequence[MeasuredReplay]) -> dict[str, object]:
    """Return the number of replays, their outcomes, and the measures of queues in each replay."""
    outcomes = Counter(replay.ended for replay in replays).most_common()
    return {
        "number": len(replays),
        "outcomes": [{"ended": list(ended), "replays": number} for ended, number in outcomes],
        "values": {
            name: {measure: [replay.measure(name, measure) for replay in replays] for measure in measures}
            for name, measures in replays[0].sections["queues"].items()
        },
    }
