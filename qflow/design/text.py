"""A recommendation as plain text."""

from __future__ import annotations

from qflow.design.frontier import Row
from qflow.design.measures import Costs
from qflow.design.parts import Part
from qflow.design.recommend import Recommendation

SHOWN = ("flips/min", "blocked", "p50", "p99", "accepted")


def recommendation_text(made: Recommendation, before: dict[str, int]) -> str:
    """Return a recommendation as lines for people.

    Parameters
    ----------
    made : Recommendation
        What to say.
    before : dict
        Producer name to the window it had.
    """
    lines: list[str] = []
    for queue, line in made.lines.items():
        lines.append(line)
        lines += [f"  {reason}" for reason in made.verdicts[queue].reasons]
        depth = made.evidence.maximum_depth[queue]
        lines.append(f"  simulated: at most {depth} messages at once")
        lines += [f"  {remark}" for remark in made.remarks.get(queue, ())]
        if made.before[queue].can_overflow:
            lines.append(f"  as declared it could overflow: {made.before[queue].reasons[0]}")
    lines += [f"{reason}" for reason in made.kept.values()]
    lines.append("")
    for name, capacity in made.capacities.items():
        was = "as it was" if capacity == before[name] else f"was {before[name]}"
        lines.append(f"producer {name}: capacity {capacity} ({was})")
    lines += [
        "",
        f"as declared: {_costs(made.declared)}",
        f"recommended: {_costs(made.evidence)}",
    ]
    for part in dict.fromkeys(row.part for row in made.rows):
        lines += ["", *_table(part, made)]
    return "\n".join(lines)


def _costs(measured: Costs) -> str:
    died = "".join(f"; {name} died: {error}" for name, error in measured.errors.items())
    return (
        f"{measured.transfers} messages sent in {measured.seconds:.3g} s, {measured.accepts} accepted, "
        f"{measured.flips_per_minute:.1f} flips a minute, producers blocked "
        f"{measured.blocked_share:.1%} of the time, completion within {measured.latency_p50 * 1000:.1f} ms "
        f"(half), {measured.latency_p99 * 1000:.1f} ms (99 %){died}"
    )


def _table(part: Part, made: Recommendation) -> list[str]:
    rows = [row for row in made.rows if row.part == part]
    pareto = [row for row in rows if row.is_pareto]
    lines = [
        f"frontier of {', '.join(part.queues)}: {len(pareto)} of {len(rows)} safe settings are beaten by no "
        "other; > is the one above"
    ]
    cells = [["", "capacities", "stop/resume", *SHOWN], *(_cells(row, made) for row in pareto)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(cells[0]))]
    for line in cells:
        words = [
            word.ljust(width) if column < 3 else word.rjust(width)
            for column, (word, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(words).rstrip())
    return lines


def _cells(row: Row, made: Recommendation) -> list[str]:
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
        f"{row.costs.latency_p50 * 1000:.1f} ms",
        f"{row.costs.latency_p99 * 1000:.1f} ms",
        str(row.costs.accepts),
    ]
