"""``qflow design``: thresholds and capacities that cannot overflow, and their costs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from qflow.arguments import (
    add_columns,
    add_json,
    add_seed,
    add_several,
    add_workload,
    named_number,
    named_rate,
)
from qflow.colour import paint_states
from qflow.kit import INTERRUPTED, RefusalError
from qflow.writing import require_apart, write_file

if TYPE_CHECKING:
    from qflow.design.frontier import Limits
    from qflow.design.recommend import Recommendation
    from qflow.prediction.evidence import Demand
    from qflow.workload.model import Workload


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``design`` to a parser's commands, without importing the engine."""
    parser = rooms.add_parser(
        "design",
        description="Find thresholds and capacities under which no queue can overflow (the bound is stop + "
        "sum of the capacities), and simulate their cost: how often queues turn ON, how long producers are "
        "blocked, and how long completions take. Print qpid-config lines with the reasons.",
    )
    add_workload(parser)
    limit = partial(named_number, needs_name=False)
    for unit, what in (("count", "messages"), ("size", "bytes")):
        text = f"the most {what} that QUEUE (or each queue) may hold; default: the declared limit"
        add_several(parser, f"--max-{unit}", "[QUEUE=]N", text, type=limit)
    parser.add_argument(
        "--log", metavar="LOG", help="design for the traffic in a client log: .parquet, .csv or .csv.gz"
    )
    add_columns(parser)
    add_several(
        parser,
        "--demand",
        "CLIENT=N/s",
        "the rate at which a producer wants to send, in messages/s, where the log cannot show it",
        type=named_rate,
    )
    parser.add_argument(
        "--keep-capacities", action="store_true", help="do not change the producers' capacities (windows)"
    )
    add_several(
        parser,
        "--slo",
        "GOAL",
        "a goal; may be repeated: 'p99 wait < 2s' (for a window; p50, p99 "
        "or max), 'p99 completion < 500ms' (p50 or p99), 'blocked < 5%%' (the worst producer; blocked.mean: "
        "all producers), 'depth < 5000' (or 40MB), 'loss 0'; status 1 if no setting meets every goal",
    )
    parser.add_argument(
        "--counterexample",
        metavar="TRACE",
        help="if a goal is missed, write the trace of a run that misses it, for 'qflow trace why' and "
        "qf.trace_lab: .parquet, .jsonl or .jsonl.gz",
    )
    add_seed(parser)
    parser.add_argument(
        "--messages",
        type=int,
        metavar="N",
        help="the number of messages that each simulation sends, or 0 for all that fall due; default: 5000, "
        "or enough to cover three of the workload's longest bursts and outages, its slow spells and its late "
        "consumers",
    )
    parser.add_argument(
        "--picture",
        metavar="FILE.svg",
        help="for each designed queue, draw and summarise a map of stop × capacity, with one run per cell",
    )
    add_json(parser)


def run(namespace: argparse.Namespace) -> int:
    """Print a recommendation; return 1 if a goal is missed."""
    from qflow.design.frontier import choices
    from qflow.design.recommend import recommend, recommendation_text
    from qflow.progress import ProgressLine
    from qflow.trace.files import check_target
    from qflow.workload.cli import look_over

    require_apart([namespace.picture, namespace.counterexample], [namespace.workload, namespace.log])
    count = sum(1 for _ in choices(keep_capacities=namespace.keep_capacities))
    shown = ProgressLine("simulating the frontier", count, unit="settings")
    if namespace.counterexample:
        check_target(namespace.counterexample)
    workload, bounds = _workload(namespace)
    look_over(workload, "qflow design")
    limits = _limits(namespace, workload)
    try:
        made = recommend(
            workload,
            limits,
            keep_capacities=namespace.keep_capacities,
            message_limit=_message_limit(namespace.messages),
            slo=namespace.slo,
            bounds=bounds,
            progress=shown,
        )
    except KeyboardInterrupt:
        shown.end()
        _print_bound(workload, limits, namespace.keep_capacities)
        return INTERRUPTED
    finally:
        shown.end()
    if namespace.json:
        print(json.dumps(made.asdict()))
    else:
        text = recommendation_text(made, {p.name: p.capacity for p in workload.producers})
        print(paint_states(text))
    if namespace.picture:
        _draw(made, Path(namespace.picture), is_quiet=namespace.json)
    if namespace.counterexample:
        _write_counterexample(made, namespace.counterexample, is_quiet=namespace.json)
    if not made.is_whole:
        return INTERRUPTED
    return int(any(outcome.verdict == "missed" for outcome in made.goals))


def _print_bound(workload: Workload, limits: dict[str, Limits], keep_capacities: bool) -> None:
    """Print settings that are safe by the bound, if no simulation was finished."""
    from qflow.configuration.declaration import Declaration
    from qflow.configuration.notations import qpid_config_line
    from qflow.design.frontier import safe_by_bound

    made = safe_by_bound(workload, limits, keep_capacities=keep_capacities)
    if made is not None:
        print("interrupted before anything was simulated; by the bound alone these cannot overflow (CAP-11)")
        for queue, arguments in made.queues.items():
            print(qpid_config_line(Declaration(queue, arguments)))
        print(*(f"producer {p.name}: capacity {p.capacity}" for p in made.producers), sep="\n")


def _write_counterexample(made: Recommendation, path: str, *, is_quiet: bool) -> None:
    """Write a run that breaks a goal, and print the commands that open it at that instant."""
    from qflow.workload.cli import write_run

    found = made.counterexample()
    if found is not None:
        run, second = found[0], f"{found[1]:.6f}".rstrip("0").rstrip(".")
        write_run(run, path)
    if is_quiet:
        return
    if found is None:
        print(f"\nno goal is missed: {path} is not written")
        return
    queue = next(iter(made.chosen))
    scale = round(made.workload.producers[0].rate / run.workload.producers[0].rate)
    how = f", at 1/{scale} of its rates, windows and limits" if scale > 1 else ""
    print(f"\na run that breaks a goal at {second} s: {path} ({len(run.events)} events{how})")
    print(f"  qflow trace why {path} {second}s queue:{queue}")
    print(f"  in a notebook: import qflow as qf; qf.trace_lab({path!r}, at={second})")


def _draw(made: Recommendation, path: Path, *, is_quiet: bool) -> None:
    """Write the map of each designed queue; several maps get the queues' names in their file names."""
    from qflow.progress import progress

    for queue in made.chosen:
        with progress(f"drawing the map of {queue}", unit="cells", has_bar=True) as shown:
            drawn = made.map(queue, progress=shown)
        several = f"{path.stem}-{quote(queue, safe=' ')}{path.suffix}"
        file = path if len(made.chosen) == 1 else path.with_name(several)
        write_file(file, drawn.svg())
        if not is_quiet:
            print(f"\n{file}: stop × capacity of {queue}.", *drawn.claims, sep="\n")


def _workload(namespace: argparse.Namespace) -> tuple[Workload, dict[str, Demand]]:
    """Return the workload to design for, and the demands of which a log shows only a lower bound."""
    from qflow.workload import Workload

    workload = Workload.load(namespace.workload)
    bounds: dict[str, Demand] = {}
    if namespace.demand and not namespace.log:
        raise RefusalError("--demand requires --log: it states a demand that a log cannot show")
    for name, rate in namespace.demand:
        workload = workload.with_producer(name, demand=rate)
    if namespace.log:
        from qflow.logs.client_log import ClientLog
        from qflow.prediction.client_model import LogModel

        workload, bounds = LogModel(ClientLog.load(namespace.log, namespace.map), workload).to_design()
    return workload if namespace.seed is None else workload.with_seed(namespace.seed), bounds


def _limits(namespace: argparse.Namespace, workload: Workload) -> dict[str, Limits]:
    from qflow.design.frontier import Limits

    counts = _limits_by_queue("--max-count", namespace.max_count, workload)
    sizes = _limits_by_queue("--max-size", namespace.max_size, workload)
    return {queue: Limits(counts.get(queue), sizes.get(queue)) for queue in workload.queues}


def _limits_by_queue(option: str, given: Sequence[tuple[str, int]], workload: Workload) -> dict[str, int]:
    limits: dict[str, int] = {}
    # A queue's own limit overrides the limit for all queues, in either order on the command line.
    for name, limit in sorted(given, key=lambda one: one[0] != ""):
        if name and name not in workload.queues:
            known = ", ".join(workload.queues) or "none"
            raise RefusalError(f"{option}: no queue {name!r} in the workload, which has {known}")
        limits |= dict.fromkeys([name] if name else workload.queues, limit)
    return limits


def _message_limit(messages: int | None) -> int | None:
    from qflow.design.frontier import MESSAGE_LIMIT

    if messages is None:
        return MESSAGE_LIMIT
    if messages < 0:
        raise RefusalError(f"--messages: must be a whole number from 0, got {messages}")
    return messages or None
