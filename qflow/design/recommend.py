"""Recommend: thresholds and windows that cannot overflow, as qpid-config lines, with the reasons.

Each part of a workload gets its best row of the frontier (:func:`qflow.design.frontier.best`).  Then the
result is checked as a whole: every queue is judged by the bound, and the recommended workload is simulated
and compared with the declared one.

The bound is proved: no behaviour of the clients exceeds it.  A simulation is one of many possible runs, so it
is repeated with other seeds, and each figure has a range (:attr:`Recommendation.ranges`).

With goals (:mod:`qflow.design.goals`) the best row is the one that uses the smallest share of their limits.
It, and the next ones if it fails, are simulated at full scale, over at least the declared duration.  If no
row keeps all goals, the windows, stops and resume levels around the nearest row are searched step by
step.  Only if that fails, too, is a goal missed: the result is then the nearest choice, and
:meth:`Recommendation.counterexample` returns a run that breaks a goal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from math import ceil
from typing import Any

from qflow.broker.flow_limit import FlowThresholds
from qflow.broker.settings import QueueSettings
from qflow.configuration.declaration import Declaration
from qflow.configuration.notations import qpid_config_line
from qflow.design.bounds import (
    RISK,
    DesignError,
    FullWindow,
    Traffic,
    Verdict,
    bytes_at_risk,
    find_unrouted,
    full_windows,
    judge_workload,
    stays_on,
    traffic_of,
)
from qflow.design.frontier import (
    ALONE,
    ENOUGH,
    JUDGED,
    MESSAGE_LIMIT,
    MOST,
    Choice,
    Costs,
    FrontierRow,
    Limits,
    Part,
    Trials,
    at_scale,
    best,
    cover,
    cover_declared,
    meter_run,
    near,
    scale_of,
)
from qflow.design.goals import Goal, Outcome, worst_use
from qflow.design.settings_map import SettingsMap, map_of_queue
from qflow.prediction.evidence import Demand
from qflow.prediction.replays import vary_chance
from qflow.progress import Progress
from qflow.table import Tabular, columns_of
from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import due_messages
from qflow.workload.many import run_many
from qflow.workload.measures import measure_text, meters_of
from qflow.workload.model import Consumer, Workload
from qflow.workload.simulate import Run, expected_messages, simulate


@dataclass(frozen=True, slots=True)
class Recommendation(Tabular):
    """Recommended settings for a workload, their proofs and their costs; :func:`recommend` returns it.

    Parameters:
        workload: The workload with the recommended settings.
        chosen: Queue name to the frontier row with its settings.
        verdicts: Queue name to the verdict on its recommended settings. With random sizes nothing may be
            proved in bytes.
        before: Queue name to the verdict on its declared settings.
        rows: All simulated choices.
        declared: The costs of the declared settings in one run, for all queues and producers together.
        evidence: The costs of the recommended settings in one run.
        kept: Queue name to the reason why its settings are unchanged.
        ranges: The range of each cost over several runs with different seeds; ``max_depth`` has a range for
            each queue.
        unrouted: Producer name to a sentence, for each producer whose messages reach no queue.
        goals: The outcome of each goal.
        runs: The costs of the recommended settings in each of these runs; the first is ``evidence``.
        prefetch: Consumer name to its prefetch as declared and as recommended.
        is_whole: Whether the search was completed; False for the best choice found before Ctrl-C.
        bounds: Producer name to its demand, for each producer of which the log shows only a lower bound.  The
            thresholds are safe for any demand; costs and goals hold for the bound.
    """

    workload: Workload
    chosen: Mapping[str, FrontierRow]
    verdicts: Mapping[str, Verdict]
    before: Mapping[str, Verdict]
    rows: list[FrontierRow]
    declared: Costs
    evidence: Costs
    kept: Mapping[str, str]
    ranges: Mapping[str, Any]
    unrouted: Mapping[str, str] = field(default_factory=dict)
    goals: tuple[Outcome, ...] = ()
    runs: Sequence[Costs] = ()
    prefetch: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    is_whole: bool = True
    bounds: Mapping[str, Demand] = field(default_factory=dict)

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the columns of a table of the designed queues: qpid-config line, verdicts and depths.

        ``proved_at_most`` holds for any behaviour of the clients; ``low`` and ``high`` are the range of the
        greatest depth in simulations.
        """
        names = ("queue", "line", "could_overflow_before", "can_overflow", "proved_at_most", "low", "high")
        rows = [
            (
                queue,
                line,
                self.before[queue].can_overflow,
                self.verdicts[queue].can_overflow,
                self.verdicts[queue].never_more_than,
                *self.ranges["max_depth"][queue],
            )
            for queue, line in list(self.lines.items())[start:end]
        ]
        return columns_of(rows, names)

    def __repr__(self) -> str:
        return f"Recommendation({self.workload.name!r}, for {', '.join(self.chosen)})"

    @property
    def lines(self) -> dict[str, str]:
        """The ``qpid-config`` line of each designed queue."""
        return {
            queue: qpid_config_line(Declaration(queue, self.workload.queues[queue])) for queue in self.chosen
        }

    @property
    def remarks(self) -> dict[str, tuple[str, ...]]:
        """Remarks on the designed queues, by queue name."""
        traffic = traffic_of(self.workload)
        ideal = {p.name for p in self.workload.producers if p.window == "ideal"}
        remarks: dict[str, tuple[str, ...]] = {}
        for queue in self.chosen:
            thresholds = _thresholds(self.workload, queue)
            if traffic[queue].keys() <= ideal and thresholds and stays_on(thresholds, traffic[queue]):
                remarks[queue] = (
                    f"resume {thresholds.resume_count} is below the sum of the capacities, "
                    f"{full_windows(traffic[queue])[0]}: while its producers always have something to send, "
                    "the queue, once ON, stays ON (FC-16, FC-17)",
                )
        return remarks

    @property
    def capacities(self) -> dict[str, int]:
        """The recommended capacity of each producer."""
        return {producer.name: producer.capacity for producer in self.workload.producers}

    def map(self, queue: str | None = None, **options: Any) -> SettingsMap:
        """Run and return a map of other stops and capacities of a queue, all else as recommended.

        Parameters:
            queue: A designed queue; None for the first.
            **options: `cells`, the most rows and columns; `messages`, the messages of each run, by default as
                many as the workload's cycles need; `processes`, the number of processes, None for all cores.

        Raises:
            DesignError: If the queue does not exist, has no limit, or no producer's messages reach it.

        >>> from qflow.labs.experiments import capacity_workload
        >>> made = recommend(capacity_workload(capacity_1=90).replace(duration=1), message_limit=50)
        >>> made.map(cells=3, messages=50, processes=1).limit
        180
        """
        goals = tuple(outcome.goal for outcome in self.goals)
        return map_of_queue(self.workload, queue or next(iter(self.chosen)), goals=goals, **options)

    @property
    def bytes_at_risk(self) -> dict[str, int | None]:
        """The bytes that each designed queue exceeds once in a million fillings of its windows, or None."""
        traffic = traffic_of(self.workload)
        return {queue: _bytes_at_risk(self.workload, queue, traffic[queue]) for queue in self.chosen}

    def counterexample(self) -> tuple[Run, float] | None:
        """Return a run that breaks a goal, and the time in seconds at which it does; None if none is missed.

        The run is the worst one; a long run is reduced to a scale that a lab can show.
        """
        missed = [outcome for outcome in self.goals if outcome.verdict == "missed"]
        if not missed:
            return None
        # One run shows one failure, so take the goal that is missed by the largest margin.
        worst = max(missed, key=lambda outcome: outcome.use)
        workload = _vary(self.workload, worst.values.index(max(worst.values)))
        scale = scale_of(workload, {}, _SHOWN_MESSAGES)
        small = at_scale(workload, scale, list(self.chosen))
        run = simulate(small, message_limit=2 * _SHOWN_MESSAGES)
        return run, _instant(run, worst.goal, scale) / SECOND

    def asdict(self) -> dict[str, Any]:
        """Return the recommendation as a JSON value."""
        remarks, at_risk = self.remarks, self.bytes_at_risk
        return {
            "workload": self.workload.name,
            "queues": {
                queue: {
                    "line": line,
                    "arguments": dict(self.workload.queues[queue]),
                    "reasons": list(self.verdicts[queue].reasons),
                    "can_overflow": self.verdicts[queue].can_overflow,
                    "could_overflow_before": self.before[queue].can_overflow,
                    "reasons_before": list(self.before[queue].reasons),
                    "remarks": list(remarks.get(queue, ())),
                    "max_depth_proved": self.verdicts[queue].never_more_than,
                    "max_depth_simulated": self.evidence.max_depth[queue],
                    "max_depth_range": self.ranges["max_depth"][queue],
                    "max_bytes_proved": self.verdicts[queue].never_more_bytes_than,
                    "max_bytes_at_risk": {"bytes": at_risk[queue], "risk": RISK},
                }
                for queue, line in self.lines.items()
            },
            "kept": dict(self.kept),
            "unrouted": dict(self.unrouted),
            "capacities": self.capacities,
            "prefetch": {name: after for name, (_, after) in self.prefetch.items()},
            "goals": [
                asdict(one.goal) | {"values": list(one.values), "margin": one.margin, "verdict": one.verdict}
                for one in self.goals
            ],
            "is_whole": self.is_whole,
            "demand": {name: bound.as_json() for name, bound in self.bounds.items()},
            "declared": asdict(self.declared),
            "recommended": asdict(self.evidence),
            "ranges": dict(self.ranges),
            "frontier": [
                {
                    "queues": list(row.part.queues),
                    **{name: value for name, value in asdict(row).items() if name != "part"},
                    "is_recommended": any(row is chosen for chosen in self.chosen.values()),
                }
                for row in self.rows
            ],
        }


def recommend(
    workload: Workload,
    limits: Mapping[str, Limits] | None = None,
    *,
    keep_capacities: bool = False,
    message_limit: int | None = MESSAGE_LIMIT,
    slo: Iterable[str] = (),
    bounds: Mapping[str, Demand] | None = None,
    progress: Progress | None = None,
) -> Recommendation:
    """Return settings for a workload with which no designed queue can overflow, and their costs.

    Parameters:
        workload, limits, keep_capacities, message_limit, progress: As for :func:`qflow.design.frontier`.
        slo: Goals, such as ``"p99 wait < 2s"``, ``"p99 completion < 500ms"``, ``"blocked < 5%"``,
            ``"depth < 5000"`` and ``"loss 0"``; see :mod:`qflow.design.goals`.
        bounds: Producer name to its demand, for each producer of which a log shows only a lower bound
            (:meth:`qflow.prediction.client_model.LogModel.to_design` returns it with the workload).

    Returns:
        The settings that keep all goals, or the nearest ones. Ctrl-C ends the search with the best so far.

    Raises:
        DesignError: If no queue can be designed, no settings are safe, the text of a goal has another form,
            or a simulation would be too long.
        AmqpException: The broker's own refusal of a queue or a binding.

    >>> from qflow.workload import Consumer, Producer
    >>> producers = (Producer("p", ("", "q"), rate=400, capacity=40, size=100),)
    >>> consumers = (Consumer("c", "q", prefetch=5, service=("const", 0.004)),)
    >>> queues = {"q": {"qpid.max_count": 100}}
    >>> workload = Workload("small", 1, queues, producers=producers, consumers=consumers)
    >>> made = recommend(workload, keep_capacities=True)
    >>> made.before["q"].can_overflow, made.verdicts["q"].can_overflow, made.evidence.errors
    (True, False, {})
    >>> print(made.lines["q"])
    qpid-config add queue q --max-queue-count=100 --flow-stop-count=30 --flow-resume-count=27
    """
    goals = tuple(map(Goal.parse, [slo] if isinstance(slo, str) else slo))
    declared = workload.duration
    workload, message_limit = cover(workload, message_limit)
    # Judged first, although needed last: so the broker's refusal of a mistyped argument is raised at once,
    # and not after minutes of simulation.
    before = judge_workload(workload)
    trials = partial(Trials, limits=limits or {}, keep_capacities=keep_capacities, declared=declared)
    rows = trials(workload, message_limit=message_limit).frontier(progress)
    is_cycle = message_limit is None
    if goals:
        workload, message_limit = cover_declared(workload, declared, message_limit)
    is_long = message_limit is None and not is_cycle
    tried = _Tried(workload, limits or {}, message_limit, goals, progress, declared, is_long=is_long)
    is_whole = rows.is_whole and tried.simulate_ranked(rows)
    # The search is worth its simulations only if the best choices of the grid miss a goal.
    if is_whole and goals and tried.is_missed:
        # With the duration just judged, and about as many messages as the simulations of the grid.
        finer = trials(workload, message_limit=message_limit, messages=MESSAGE_LIMIT if is_long else ENOUGH)
        found, is_whole = _search(finer, tried.rows, goals, keep_capacities, progress)
        rows += found
        is_whole = is_whole and tried.simulate_ranked(found)
    parts = list(dict.fromkeys(row.part for row in rows))
    ranked = [_rank([row for row in rows if row.part == part], goals) for part in parts]
    if not tried.runs:
        # After Ctrl-C: the costs of the choice, at scale.
        tried.take_as_it_is([of_part[0] for of_part in ranked])
    as_declared = _costs(message_limit, tried.scale_for(ENOUGH), (), declared, workload)
    return _recommendation(tried, before, rows, as_declared, bounds or {}, is_whole=is_whole)


def _recommendation(
    tried: _Tried,
    before: Mapping[str, Verdict],
    rows: list[FrontierRow],
    declared: Costs,
    bounds: Mapping[str, Demand],
    *,
    is_whole: bool,
) -> Recommendation:
    """Return the recommendation of the simulated settings, after checking them against the bound again."""
    workload, made, runs = tried.workload, tried.made, tried.runs
    traffic, verdicts = traffic_of(workload), judge_workload(made)
    chosen = {queue: row for row in tried.rows for queue in row.arguments}
    for queue in chosen:
        if verdicts[queue].can_overflow:
            raise DesignError(f"queue {queue!r}: {verdicts[queue].reasons[0]}")
    kept = [queue for queue in workload.queues if queue not in chosen]
    consumers = zip(workload.consumers, made.consumers, strict=True)
    return Recommendation(
        made,
        {queue: chosen[queue] for queue in workload.queues if queue in chosen},
        _with_seen(verdicts, traffic, runs),
        _with_seen(before, traffic, [declared]),
        rows,
        declared,
        runs[0],
        {queue: _why_kept(queue, verdicts[queue], bool(traffic[queue])) for queue in kept},
        _ranges(runs),
        find_unrouted(workload, traffic),
        tuple(Outcome.of(goal, runs) for goal in tried.goals),
        runs,
        {old.name: (old.prefetch, new.prefetch) for old, new in consumers},
        is_whole,
        bounds,
    )


def _rank(rows: Sequence[FrontierRow], goals: Sequence[Goal]) -> list[FrontierRow]:
    """Return the best rows of a part in order; without goals only the best one."""
    if not goals:
        return [best(rows)]
    # Rows that use at most half of each limit count as equal: the first of them changes least.
    return sorted(rows, key=lambda row: max(_ROOMY, worst_use(goals, row.costs)))[:_ATTEMPTS]


_ROOMY = 0.5
_ATTEMPTS = 3
_SHOWN_MESSAGES = 20_000
"""The most messages of a run that is to be displayed."""

_ROUNDS = 4
_KEPT = 0.75
"""The search ends below this share of each goal's limit; the rest is room for runs with other seeds."""


def _search(
    trials: Trials,
    begin: Sequence[FrontierRow],
    goals: Sequence[Goal],
    keep_capacities: bool,
    progress: Progress | None,
) -> tuple[list[FrontierRow], bool]:
    """Return each part's best row around the given rows, and whether the search is complete."""
    # A pattern search from the grid's best rows, which are simulated again, as costs at another scale
    # cannot be compared. Each round simulates the neighbours of the rows that have just improved, so that a
    # part that no longer improves costs nothing.
    best: dict[Part, FrontierRow] = {}
    fresh, tried, is_whole = list(dict.fromkeys(row.choice for row in begin)), set[Choice](), True
    for _ in range(_ROUNDS):
        shown = progress and partial(_show_search, progress)
        found, is_whole = trials.rows(fresh, shown)
        tried.update(fresh)
        better: dict[Part, FrontierRow] = {}
        for row in found:
            if row.part not in best or _use(goals, row) < _use(goals, best[row.part]):
                best[row.part] = better[row.part] = row
        around = (near(row.choice, keep_capacities=keep_capacities) for row in better.values())
        fresh = [choice for choice in dict.fromkeys(chain.from_iterable(around)) if choice not in tried]
        if not fresh or not is_whole or max(_use(goals, row) for row in best.values()) < _KEPT:
            break
    return list(best.values()) or list(begin), is_whole


def _show_search(progress: Progress, done: int, total: int | None = None, part: str = "") -> None:
    progress(done, total, part or "searching around the choice")


def _use(goals: Sequence[Goal], row: FrontierRow) -> float:
    return worst_use(goals, row.costs)


class _Tried:
    """The choices simulated with several seeds each; it keeps the best one."""

    def __init__(
        self,
        workload: Workload,
        limits: Mapping[str, Limits],
        message_limit: int | None,
        goals: Sequence[Goal],
        progress: Progress | None,
        declared: float,
        *,
        is_long: bool,
    ) -> None:
        self.workload, self._limits, self._limit = workload, limits, message_limit
        self.goals, self._progress, self._declared = goals, progress, declared
        self._is_long = is_long
        self.scale = self.scale_for(JUDGED if is_long else MOST)
        sent = sum(expected_messages(producer, workload.duration) for producer in workload.producers)
        self._sent = min(sent / self.scale, message_limit or sent)
        self.made, self.rows, self.runs = workload, list[FrontierRow](), list[Costs]()

    def scale_for(self, messages: int) -> int:
        """Return the divisor at which the workload sends ``messages``; 1 if the user gave a number."""
        return scale_of(self.workload, self._limits, messages) if self._limit is None else 1

    @property
    def is_enough(self) -> bool:
        """Whether all goals hold."""
        return all(Outcome.of(goal, self.runs).verdict == "holds" for goal in self.goals)

    @property
    def is_missed(self) -> bool:
        """Whether the worst run misses a goal."""
        return _worst_of(self.goals, self.runs) >= 1

    def simulate_ranked(self, rows: Sequence[FrontierRow]) -> bool:
        """Simulate the best choices, and the next ones if they fail; return False after Ctrl-C."""
        parts = dict.fromkeys(row.part for row in rows)
        ranked = [_rank([row for row in rows if row.part == part], self.goals) for part in parts]
        for place in range(max(map(len, ranked))):
            found = [of_part[min(place, len(of_part) - 1)] for of_part in ranked]
            # The next choice is tried only while the goals do not hold, and if its own costs keep them.
            if place and (self.is_enough or worst_use(self.goals, found[0].costs) >= 1):
                break
            if not self.simulate(found):
                return False
        return True

    def simulate(self, rows: Sequence[FrontierRow]) -> bool:
        """Simulate a choice for each part, and keep it if it is the best; return False after Ctrl-C."""
        made = _apply(self.workload, rows)
        try:
            self._keep(made, rows, self._play(made, rows))
            # With less prefetch fewer messages wait at a consumer.  One run decides whether that is better,
            # before the others are made.
            lean = _with_enough_credit(self.made)
            if lean != self.made and _is_better(self._play(lean, rows, 1)[0], self.runs[0]):
                self._keep(lean, rows, self._play(lean, rows))
        except KeyboardInterrupt:
            return False
        return True

    def take_as_it_is(self, rows: Sequence[FrontierRow]) -> None:
        """Keep a choice after a single run, at the scale of the other candidates."""
        self.scale = self.scale_for(ENOUGH)
        made = _apply(self.workload, rows)
        self._keep(made, rows, self._play(made, rows, 1))

    def _play(self, made: Workload, rows: Sequence[FrontierRow], count: int = 0) -> list[Costs]:
        # Long runs differ less from one another, so fewer are needed.
        many = self._sent < (5_000 if self._is_long else 100_000)
        count = count or (_RUNS if many else _FEW)
        queues = [queue for row in rows for queue in row.arguments]
        played = partial(_costs, self._limit, self.scale, queues, self._declared)
        varied = [_vary(made, n) for n in range(count)]
        processes = 1 if self._sent * count < ALONE else None
        runs: dict[int, Costs] = {}
        with closing(run_many(played, varied, processes=processes)) as results:
            for place, found in results:
                runs[place] = found
                if self._progress is not None:
                    self._progress(len(runs), count, "simulating the choice")
        return [runs[place] for place in range(count)]

    def _keep(self, made: Workload, rows: Sequence[FrontierRow], runs: list[Costs]) -> None:
        use, kept = _worst_of(self.goals, runs), _worst_of(self.goals, self.runs)
        # The caller has already found that the same settings with less prefetch are better.
        if not self.runs or use < kept or (list(rows) == self.rows and use == kept):
            self.made, self.rows, self.runs = made, list(rows), runs


def _worst_of(goals: Sequence[Goal], runs: Sequence[Costs]) -> float:
    return max((worst_use(goals, costs) for costs in runs), default=0.0)


def _with_enough_credit(workload: Workload) -> Workload:
    """Return the workload with each consumer's prefetch reduced to what keeps it busy."""

    def enough(consumer: Consumer) -> int:
        # One message is processed, one is waiting, and the rest covers the network's round trip.
        network, seconds = consumer.network, consumer.service[1]
        away = 2 * network.latency + network.ack_delay if network else 0.0
        return 2 + ceil(away / (min(seconds) if isinstance(seconds, tuple) else seconds))

    # Prefetch is never raised: a larger one is a decision about the consumer's memory, which is not ours.
    lean = (replace(c, prefetch=min(c.prefetch, enough(c))) for c in workload.consumers)
    return workload.replace(consumers=tuple(lean))


def _is_better(costs: Costs, than: Costs) -> bool:
    """Return whether at least one cost fell by a twentieth, and none rose by more than a fiftieth."""
    names = ("blocked_share", "wait_p99", "latency_p50", "latency_p99")
    pairs = [(getattr(costs, name) or 0.0, getattr(than, name) or 0.0) for name in names]
    return any(new < 0.95 * old for new, old in pairs) and all(new <= 1.02 * old for new, old in pairs)


def _instant(run: Run, goal: Goal, scale: int) -> int:
    """Return the time at which a run first breaks a goal, in microseconds."""
    end = round(run.workload.duration * SECOND)
    if goal.measure.startswith("wait"):
        limit = round(goal.limit * SECOND)
        meters = meters_of(run.events, run.workload, end)
        waits = [(due_messages(p), meters[p.name].waits(end)) for p in run.workload.producers]
        late = [
            due + limit
            for messages, mine in waits
            for (due, _, _), wait in zip(messages, mine, strict=False)
            if wait > limit
        ]
        return min(late, default=end)
    for event in run.events:
        detail = event.detail if isinstance(event.detail, dict) else {}
        found = {"max_depth": detail.get("depth", 0), "max_bytes": detail.get("bytes", 0)}
        if event.kind == "exception" or found.get(goal.measure, 0) * scale >= goal.limit:
            return event.time
    stops = [event.time for event in run.events if event.kind == "client.block"]
    return stops[0] if stops else end


def _thresholds(workload: Workload, queue: str) -> FlowThresholds | None:
    return FlowThresholds.of(queue, QueueSettings.from_arguments(workload.queues[queue]), workload.options)


def _bytes_at_risk(workload: Workload, queue: str, senders: Traffic) -> int | None:
    """Return a queue's byte stop plus its random windows' bytes at risk; None without either."""
    thresholds = _thresholds(workload, queue)
    mine = [producer for producer in workload.producers if producer.name in senders]
    drawn = {p.name for p in mine if not isinstance(p.size, int) and p.size[1] and p.arrival != "recorded"}
    if thresholds is None or not thresholds.stop_size or not drawn:
        return None
    # Room in the header for a label with more digits.
    windows = [
        FullWindow(p.capacity, p.size, senders[p.name].smallest + 16)
        if p.name in drawn
        else FullWindow(p.capacity, senders[p.name].largest, 0)
        for p in mine
    ]
    return thresholds.stop_size + ceil(bytes_at_risk(windows))


def _with_seen(
    verdicts: Mapping[str, Verdict], traffic: Mapping[str, Traffic], runs: Iterable[Costs]
) -> dict[str, Verdict]:
    """Return the verdicts, with the simulations' evidence added for queues without a proof."""
    died = {name for run in runs for name in run.errors}
    found = dict(verdicts)
    for queue, verdict in verdicts.items():
        # A producer that also sends elsewhere may have died of another queue, so it is no evidence.
        others = {name for other, senders in traffic.items() if other != queue for name in senders}
        mine = [name for name in traffic[queue] if name in died - others]
        if mine:
            found[queue] = replace(verdict, seen=f"in a simulation {mine[0]}'s session died of 506 (LP-05)")
    return found


def _apply(workload: Workload, rows: Iterable[FrontierRow]) -> Workload:
    """Return the workload with the settings of the given rows."""
    for row in rows:
        workload = workload.replace(queues={**workload.queues, **row.arguments})
        for name, capacity in row.capacities.items():
            workload = workload.with_producer(name, capacity=capacity)
    return workload


def _costs(
    message_limit: int | None, scale: int, safe: Sequence[str], declared: float, workload: Workload
) -> Costs:
    names = [producer.name for producer in workload.producers]
    return meter_run(workload, message_limit, scale, safe, declared).costs(list(workload.queues), names)


_RUNS = 10
"""The number of runs with different seeds; the first has the workload's own seeds."""

_FEW = 3
"""The number of runs if they are long."""

_RANGED = ("flips_per_minute", "blocked_share", "latency_p50", "latency_p99", "accepts", "wait_p99")


def _vary(workload: Workload, place: int) -> Workload:
    """Return the workload with other seeds for its clients; number 0 is unchanged."""
    return vary_chance(workload.with_seed(place), place, _RUNS) if place else workload


def _ranges(found: list[Costs]) -> dict[str, Any]:
    """Return the range of each cost over the given runs."""
    ranges: dict[str, Any] = {name: _between(getattr(costs, name) for costs in found) for name in _RANGED}
    queues = found[0].max_depth
    ranges["max_depth"] = {queue: _between(costs.max_depth[queue] for costs in found) for queue in queues}
    ranges["sessions_ended"] = _between(len(costs.errors) for costs in found)
    return ranges


def _between(values: Iterable[Any]) -> list[Any] | None:
    known = [value for value in values if value is not None]
    return [min(known), max(known)] if known else None


def _why_kept(queue: str, verdict: Verdict, is_reached: bool) -> str:
    if not is_reached:
        return f"{queue}: left as it is; no producer's messages reach it"
    if verdict.policy == "ring":
        return f"{queue}: left as it is; a ring never stops its producers, it drops the oldest (FC-03, LP-10)"
    return f"{queue}: left as it is; it has no limit in messages or bytes of its own to exceed (LP-01)"


def recommendation_text(made: Recommendation, before: dict[str, int]) -> str:
    """Return a recommendation as plain text; ``before`` has each producer's declared capacity."""
    lines, remarks, at_risks = [*_goals_text(made), *_bounds_text(made)], made.remarks, made.bytes_at_risk
    for queue, line in made.lines.items():
        lines.append(line)
        lines += [f"  {reason}" for reason in made.verdicts[queue].reasons]
        proved = made.verdicts[queue].never_more_than
        if proved is not None:
            lines.append(f"  proved: never more than {proved} messages at once, whatever the clients do")
        at_risk = at_risks[queue]
        if at_risk is not None:
            lines.append(
                f"  at a risk of {RISK:g} each time the windows fill: never more than {at_risk} bytes (not "
                "proved; sizes drawn independently, Chernoff's bound)"
            )
        many = _span(made.ranges["max_depth"][queue])
        lines.append(f"  simulated: {many} messages at once at most, {_runs_text(made)}")
        lines += [f"  {remark}" for remark in remarks.get(queue, ())]
        if not made.before[queue].is_safe:
            could = "could overflow" if made.before[queue].can_overflow else "is not proved safe"
            lines.append(f"  as declared it {could}: {made.before[queue].reasons[0]}")
    lines += [*made.kept.values(), *made.unrouted.values()]
    lines.append("")
    for name, capacity in made.capacities.items():
        was = "as it was" if capacity == before[name] else f"was {before[name]}"
        lines.append(f"producer {name}: capacity {capacity} messages ({was})")
    lines += [
        f"consumer {name}: prefetch {new} (was {old}): enough to keep it busy, and less waits with it"
        for name, (old, new) in made.prefetch.items()
        if new != old
    ]
    lines += [
        "",
        f"as declared: {_costs_text(made.declared)}",
        f"recommended: {_costs_text(made.evidence)}",
        f"{_runs_text(made)}: {_ranges_text(made.ranges)}",
    ]
    for part in dict.fromkeys(row.part for row in made.rows):
        lines += ["", *_table(part, made)]
    return "\n".join(lines)


def _runs_text(made: Recommendation) -> str:
    count = len(made.runs)
    return f"in {count} runs that differ by chance" if count > 1 else "in one run"


def _goals_text(made: Recommendation) -> list[str]:
    """Return lines with the outcome of each goal."""
    if not made.goals and made.is_whole:
        return []
    verdicts = {outcome.verdict for outcome in made.goals}
    said = "these settings keep all goals"
    if made.bounds:
        said = "these settings keep all goals for the least demand that the log shows"
    if "missed" in verdicts:
        said = "no setting that was tried keeps all goals; these are the nearest"
    elif "close" in verdicts:
        said = "these settings are the nearest: they kept all goals, some without room for chance"
    if not made.is_whole:
        said = "interrupted; the best so far, with fewer simulated runs" + (f": {said}" if verdicts else "")
    own = made.runs[0]
    how = f"{_runs_text(made)}, {measure_text(own.seconds)} s and about {own.transfers:,} messages each"
    return [f"{said} ({how})", *(f"  {outcome.sentence()}" for outcome in made.goals), ""]


def _bounds_text(made: Recommendation) -> list[str]:
    """Return lines with the demands for which costs and goals hold, if a log shows only lower bounds."""
    if not made.bounds:
        return []
    shown = [
        f"  {name}: at least {one.at_least:.4g} a second; {one.why}" for name, one in made.bounds.items()
    ]
    return [
        "the log does not show the demand of these producers; the thresholds are safe for any demand, costs "
        "and goals hold for the least, and a larger demand may miss goals:",
        *shown,
        "  --demand NAME=N/s states it, and so does a log of a time without blocking",
        "",
    ]


def _costs_text(measured: Costs) -> str:
    died = "".join(f"; {name} died: {error}" for name, error in measured.errors.items())
    return (
        f"{measured.transfers} messages sent in {measure_text(measured.seconds)} s, "
        f"{measured.accepts} of them accepted, "
        f"{measured.flips_per_minute:.1f} flips a minute, producers blocked "
        f"{measured.blocked_share:.1%} of the time, completion within {_ms(measured.latency_p50)} ms "
        f"(half), {_ms(measured.latency_p99)} ms (99 %), 99 % wait at most {_ms(measured.wait_p99)} ms for a "
        f"window{_scale_text(measured.scale)}{died}"
    )


def _ranges_text(ranges: Mapping[str, Any]) -> str:
    flips, blocked, half, most = (ranges[name] or (None, None) for name in _RANGED[:4])
    return (
        f"{flips[0]:.1f} to {flips[1]:.1f} flips a minute, producers blocked {blocked[0]:.1%} to "
        f"{blocked[1]:.1%} of the time, "
        f"completion within {_ms(half[0])} to {_ms(half[1])} ms (half), "
        f"{_ms(most[0])} to {_ms(most[1])} ms (99 %), {_span(ranges['accepts'])} accepted, "
        f"{_span(ranges['sessions_ended'])} sessions ended"
    )


def _scale_text(scale: int) -> str:
    return f"; at 1/{scale} of its rates, windows and limits" if scale > 1 else ""


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f}"


def _span(pair: list[int]) -> str:
    return f"{pair[0]}" if pair[0] == pair[1] else f"{pair[0]} to {pair[1]}"


def _table(part: Part, made: Recommendation) -> list[str]:
    rows = [row for row in made.rows if row.part == part]
    pareto = [row for row in rows if row.is_pareto or row is made.chosen.get(part.queues[0])]
    lines = [
        f"frontier of {', '.join(part.queues)}: {len(pareto)} of {len(rows)} safe settings are beaten by no "
        f"other; > is the one above{_scale_text(rows[0].costs.scale)}"
    ]
    titles = ["", "capacities", "stop/resume (messages)"]
    titles += ["flips/min", "blocked", "p50", "p99", "wait p99", "accepted"]
    cells = [titles, *(_cells(row, made) for row in pareto)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        words = [
            word.ljust(width) if column < 3 else word.rjust(width)
            for column, (word, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(words).rstrip())
    return lines


def _cells(row: FrontierRow, made: Recommendation) -> list[str]:
    levels = []
    for queue, arguments in row.arguments.items():
        found = [
            f"{arguments[f'qpid.flow_stop_{unit}']}/{arguments[f'qpid.flow_resume_{unit}']}{letter}"
            for unit, letter in (("count", ""), ("size", " B"))
            if f"qpid.flow_stop_{unit}" in arguments and f"qpid.flow_resume_{unit}" in arguments
        ]
        name = f"{queue} " if len(row.arguments) > 1 else ""
        levels.append(name + ", ".join(found))
    return [
        ">" if any(row is chosen for chosen in made.chosen.values()) else " ",
        ", ".join(f"{name}={capacity}" for name, capacity in row.capacities.items()),
        "; ".join(levels),
        f"{row.costs.flips_per_minute:.1f}",
        f"{row.costs.blocked_share:.1%}",
        f"{_ms(row.costs.latency_p50)} ms",
        f"{_ms(row.costs.latency_p99)} ms",
        f"{_ms(row.costs.wait_p99)} ms",
        str(row.costs.accepts),
    ]
