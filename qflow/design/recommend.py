"""Recommend: thresholds and windows that cannot overflow, as qpid-config lines, with the reasons.

Of each part of a workload the frontier's best row is taken (:func:`qflow.design.frontier.best`).  Then what
it leads to is checked again as a whole: every queue is judged by the bound, and the recommended workload is
simulated and compared with the declared one.

The bound is proved: never more than that, whatever the clients do.  What a simulation shows is one course of
many, so it is repeated with other chances, and each figure has its range (:attr:`Recommendation.ranges`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from qflow.broker.flow_limit import FlowThresholds
from qflow.broker.settings import QueueSettings
from qflow.configuration.declaration import Declaration
from qflow.configuration.notations import qpid_config_line
from qflow.design.bounds import Traffic, find_unrouted, stays_on, traffic_of
from qflow.design.frontier import (
    MESSAGE_LIMIT,
    Costs,
    FrontierRow,
    Limits,
    Part,
    best,
    costs,
    cover,
    frontier,
)
from qflow.design.settings_map import SettingsMap, map_of_queue
from qflow.design.small import DesignError
from qflow.design.verdict import Verdict, judge_workload
from qflow.prediction.replays import vary_chance
from qflow.progress import Progress
from qflow.table import Tabular, columns_of
from qflow.workload.model import Workload
from qflow.workload.run import measure_text
from qflow.workload.simulate import simulate


@dataclass(frozen=True, slots=True)
class Recommendation(Tabular):
    """What :func:`recommend` returns.

    Parameters:
        workload: With the recommended settings; ready to be simulated.
        chosen: Queue name to the row of the frontier it comes from.
        verdicts: Queue name to why it cannot overflow; in bytes there may be no proof, which it says.
        before: Queue name to the verdict on what was declared.
        rows: All that was tried.
        declared: What the declared settings cost, all queues and producers together, in the same simulation.
        evidence: What the recommended settings cost in it; its ``errors`` are empty.
        kept: Queue name to why it is left as it is.
        ranges: For each figure of the costs between what it lies in ten runs that differ by chance;
            the depth of a queue under ``max_depth`` and its name.
        unrouted: Producer name to where it sends, if none of its messages reaches a queue.
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

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return, for each designed queue, its qpid-config line and what is known of its safety.

        ``proved_at_most`` holds whatever the clients do; ``low`` and ``high`` are between what the greatest
        depth lay in simulations.
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
        """What is good to know of each designed queue."""
        traffic = traffic_of(self.workload)
        ideal = {p.name for p in self.workload.producers if p.window == "ideal"}
        remarks: dict[str, tuple[str, ...]] = {}
        for queue in self.chosen:
            settings = QueueSettings.from_arguments(self.workload.queues[queue])
            thresholds = FlowThresholds.of(queue, settings, self.workload.options)
            is_ideal = set(traffic[queue]) <= ideal
            if is_ideal and thresholds is not None and stays_on(thresholds, traffic[queue]):
                remarks[queue] = (_stays_on(thresholds, traffic[queue]),)
        return remarks

    @property
    def capacities(self) -> dict[str, int]:
        """The window of each producer."""
        return {producer.name: producer.capacity for producer in self.workload.producers}

    def map(self, queue: str | None = None, **options: Any) -> SettingsMap:
        """Return what becomes of other stops and capacities: a run for each, all else as recommended.

        Parameters:
            queue: A designed queue with a limit in messages; None for the first.
            **options: `cells`, `messages` and `processes` of :func:`qflow.design.settings_map`.

        Raises:
            DesignError: If there is no such queue, or it has no limit in messages.

        >>> from qflow.labs.experiments import capacity_workload
        >>> made = recommend(capacity_workload(capacity_1=90).replace(duration=1), message_limit=50)
        >>> print(made.map(cells=3, messages=50, processes=1).claims[0])
        The law: where stop + capacities is at most the limit, 180, no message can be refused (CAP-11). It \
holds for 3 of the 9 settings.
        """
        return map_of_queue(self.workload, queue or next(iter(self.chosen)), **options)

    def asdict(self) -> dict[str, Any]:
        """Return everything as plain values that JSON can hold."""
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
                    "remarks": list(self.remarks.get(queue, ())),
                    "max_depth_proved": self.verdicts[queue].never_more_than,
                    "max_depth_simulated": self.evidence.max_depth[queue],
                    "max_depth_range": self.ranges["max_depth"][queue],
                }
                for queue, line in self.lines.items()
            },
            "kept": dict(self.kept),
            "unrouted": dict(self.unrouted),
            "capacities": self.capacities,
            "declared": asdict(self.declared),
            "recommended": asdict(self.evidence),
            "ranges": dict(self.ranges),
            "frontier": [
                {
                    "queues": list(row.part.queues),
                    "choice": asdict(row.choice),
                    "arguments": {queue: dict(arguments) for queue, arguments in row.arguments.items()},
                    "capacities": dict(row.capacities),
                    "costs": asdict(row.costs),
                    "is_pareto": row.is_pareto,
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
    progress: Progress | None = None,
) -> Recommendation:
    """Return settings for a workload that cannot overflow, and what they cost.

    Parameters:
        workload, limits, keep_capacities, message_limit, progress: As for :func:`qflow.design.frontier`.

    Raises:
        DesignError: If there is nothing to design, or nothing is safe.
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
    workload, message_limit = cover(workload, message_limit)
    rows = frontier(
        workload, limits, keep_capacities=keep_capacities, message_limit=message_limit, progress=progress
    )
    chosen: dict[str, FrontierRow] = {}
    for part in dict.fromkeys(row.part for row in rows):
        row = best([row for row in rows if row.part == part])
        chosen.update(dict.fromkeys(row.arguments, row))
    made = _apply(workload, chosen.values())
    verdicts = judge_workload(made)
    traffic = traffic_of(workload)
    for queue in chosen:
        if verdicts[queue].can_overflow:
            raise DesignError(f"queue {queue!r}: {verdicts[queue].reasons[0]}")
    declared, evidence = _costs(workload, message_limit), _costs(made, message_limit)
    runs = [evidence, *_others(made, message_limit)]
    return Recommendation(
        made,
        {queue: chosen[queue] for queue in workload.queues if queue in chosen},
        _with_seen(verdicts, traffic, runs),
        _with_seen(judge_workload(workload), traffic, [declared]),
        rows,
        declared,
        evidence,
        {
            queue: _why_kept(queue, verdicts[queue], bool(traffic[queue]))
            for queue in workload.queues
            if queue not in chosen
        },
        _ranges(runs),
        find_unrouted(workload, traffic),
    )


def _with_seen(
    verdicts: Mapping[str, Verdict], traffic: Mapping[str, Traffic], runs: Iterable[Costs]
) -> dict[str, Verdict]:
    """Return the verdicts, with what simulations showed of queues of which nothing is proved."""
    died = {name for run in runs for name in run.errors}
    found = dict(verdicts)
    for queue, verdict in verdicts.items():
        others = {name for other, senders in traffic.items() if other != queue for name in senders}
        mine = [name for name in traffic[queue] if name in died - others]
        if mine:
            found[queue] = replace(verdict, seen=f"in a simulation {mine[0]}'s session died of 506 (LP-05)")
    return found


def _apply(workload: Workload, rows: Iterable[FrontierRow]) -> Workload:
    """Return the workload with the settings of some rows."""
    for row in rows:
        workload = workload.replace(queues={**workload.queues, **row.arguments})
        for name, capacity in row.capacities.items():
            workload = workload.with_producer(name, capacity=capacity)
    return workload


def _costs(workload: Workload, message_limit: int | None) -> Costs:
    names = [producer.name for producer in workload.producers]
    return costs(simulate(workload, message_limit=message_limit), workload.queues, names)


_RUNS = 10
"""How many runs a range is made of; the first is the workload's own."""

_RANGED = ("flips_per_minute", "blocked_share", "latency_p50", "latency_p99", "accepts")


def _others(workload: Workload, message_limit: int | None) -> list[Costs]:
    """Return the costs of a workload if its clients have other chances."""
    seeded = (vary_chance(workload.with_seed(place), place, _RUNS) for place in range(1, _RUNS))
    return [_costs(other, message_limit) for other in seeded]


def _ranges(found: list[Costs]) -> dict[str, Any]:
    """Return between what the costs of some runs lie."""
    own = found[0]
    depths = {queue: [costs.max_depth[queue] for costs in found] for queue in own.max_depth}
    ranges: dict[str, Any] = {}
    for name in _RANGED:
        values = [value for costs in found if (value := getattr(costs, name)) is not None]
        ranges[name] = [min(values), max(values)] if values else None
    ranges["max_depth"] = {queue: [min(most), max(most)] for queue, most in depths.items()}
    ranges["sessions_ended"] = [
        min(len(costs.errors) for costs in found),
        max(len(costs.errors) for costs in found),
    ]
    return ranges


def _stays_on(thresholds: FlowThresholds, traffic: Traffic) -> str:
    windows = sum(sender.capacity for sender in traffic.values())
    return (
        f"resume {thresholds.resume_count} is below the sum of the capacities, {windows}: while its "
        "producers always have something to send, the queue, once ON, stays ON (FC-16, FC-17)"
    )


def _why_kept(queue: str, verdict: Verdict, is_reached: bool) -> str:
    if not is_reached:
        return f"{queue}: left as it is; no producer's messages reach it"
    if verdict.policy == "ring":
        return f"{queue}: left as it is; a ring never stops its producers, it drops the oldest (FC-03, LP-10)"
    return f"{queue}: left as it is; it has no limit in messages or bytes of its own to exceed (LP-01)"


SHOWN = ("flips/min", "blocked", "p50", "p99", "accepted")


def recommendation_text(made: Recommendation, before: dict[str, int]) -> str:
    """Return a recommendation as plain text; ``before`` has the window that each producer had."""
    lines: list[str] = []
    for queue, line in made.lines.items():
        lines.append(line)
        lines += [f"  {reason}" for reason in made.verdicts[queue].reasons]
        proved = made.verdicts[queue].never_more_than
        if proved is not None:
            lines.append(f"  proved: never more than {proved} messages at once, whatever the clients do")
        least, most = made.ranges["max_depth"][queue]
        many = _span([least, most])
        lines.append(f"  simulated: {many} messages at once at most, in {_RUNS} runs that differ by chance")
        lines += [f"  {remark}" for remark in made.remarks.get(queue, ())]
        if not made.before[queue].is_safe:
            could = "could overflow" if made.before[queue].can_overflow else "is not proved safe"
            lines.append(f"  as declared it {could}: {made.before[queue].reasons[0]}")
    lines += [*made.kept.values(), *made.unrouted.values()]
    lines.append("")
    for name, capacity in made.capacities.items():
        was = "as it was" if capacity == before[name] else f"was {before[name]}"
        lines.append(f"producer {name}: capacity {capacity} messages ({was})")
    lines += [
        "",
        f"as declared: {_costs_text(made.declared)}",
        f"recommended: {_costs_text(made.evidence)}",
        f"in {_RUNS} runs that differ by chance: {_ranges_text(made.ranges)}",
    ]
    for part in dict.fromkeys(row.part for row in made.rows):
        lines += ["", *_table(part, made)]
    return "\n".join(lines)


def _costs_text(measured: Costs) -> str:
    died = "".join(f"; {name} died: {error}" for name, error in measured.errors.items())
    return (
        f"{measured.transfers} messages sent in {measure_text(measured.seconds)} s, "
        f"{measured.accepts} of them accepted, "
        f"{measured.flips_per_minute:.1f} flips a minute, producers blocked "
        f"{measured.blocked_share:.1%} of the time, completion within {_ms(measured.latency_p50)} ms "
        f"(half), {_ms(measured.latency_p99)} ms (99 %){died}"
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


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f}"


def _span(pair: list[int]) -> str:
    return f"{pair[0]}" if pair[0] == pair[1] else f"{pair[0]} to {pair[1]}"


def _table(part: Part, made: Recommendation) -> list[str]:
    rows = [row for row in made.rows if row.part == part]
    pareto = [row for row in rows if row.is_pareto]
    lines = [
        f"frontier of {', '.join(part.queues)}: {len(pareto)} of {len(rows)} safe settings are beaten by no "
        "other; > is the one above"
    ]
    cells = [["", "capacities", "stop/resume (messages)", *SHOWN], *(_cells(row, made) for row in pareto)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    for line in cells:
        words = [
            word.ljust(width) if column < 3 else word.rjust(width)
            for column, (word, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(words).rstrip())
    return lines


def _cells(row: FrontierRow, made: Recommendation) -> list[str]:
    is_chosen = any(row is chosen for chosen in made.chosen.values())
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
        ">" if is_chosen else " ",
        ", ".join(f"{name}={capacity}" for name, capacity in row.capacities.items()),
        "; ".join(levels),
        f"{row.costs.flips_per_minute:.1f}",
        f"{row.costs.blocked_share:.1%}",
        f"{_ms(row.costs.latency_p50)} ms",
        f"{_ms(row.costs.latency_p99)} ms",
        str(row.costs.accepts),
    ]
