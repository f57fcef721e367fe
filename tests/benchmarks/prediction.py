"""How well predictions are: ``python tests/benchmarks/prediction.py [--recorded] [NAME ...]``.

With ``--recorded``, beside what the real broker did: every recording at its own settings, and the two
recordings of the same clients each under the other's.  The last column is the largest share of a limit that
is used up, 1 being the limit: 5 % of the mean depth, 3 points of share ON, 10 % of the stops (or 2), 3 % of
the throughput.

Without it, changed settings of all kinds.  No broker runs here, so truth is made: the clients of a
recording, with the costs and interruptions that its log shows, are simulated under settings A and logged; the
log is extracted and predicted under B; and the same clients are simulated under B, with their interruptions
at other times.  What differs then is either extraction's fault, or chance: the column "chance" holds how far
two such simulations differ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qflow.maintain.calibration import logged
from qflow.prediction import Settings, predict
from qflow.prediction.extraction import extract
from qflow.prediction.replays import shifted
from qflow.trace import ClientLog
from qflow.workload import Workload, simulate
from qflow.workload.agenda import SECOND
from qflow.workload.measures import Measures, queue_measures

RECORDED = Path(__file__).parents[2] / "data" / "recordings" / "workloads"
NAMES = ("slow-consumer", "capacity-165", "bytes-and-count", "fanout-one-slow", "groups-skewed", "ring")
SHIFTS = 7

OVERFLOW = "overflow-despite-flow-control"
ALL = (*NAMES, OVERFLOW, "fleet")
PAIRS = ((OVERFLOW, "bytes-and-count"), ("bytes-and-count", OVERFLOW))
"""Recordings of the same clients: the log of the first, under the settings of the second."""


def changes(workload: Workload) -> Iterator[tuple[str, Settings]]:
    """Yield changed settings of all kinds, each with a name."""
    yield "as recorded", Settings()
    for factor in (0.5, 0.7, 1.5, 3):
        scaled = {name: _scaled(arguments, factor) for name, arguments in workload.queues.items()}
        yield f"thresholds x {factor:g}", Settings(scaled)
    nothing = {"qpid.flow_stop_count": 0, "qpid.flow_resume_count": 0, "qpid.max_size": 0}
    free = {"qpid.max_count": None, "qpid.flow_stop_size": None, "qpid.flow_resume_size": None}
    yield "no flow control", _everywhere(workload, {**nothing, **free, "qpid.policy_type": None})
    stops = {name: _thresholds(arguments)[0] for name, arguments in workload.queues.items()}
    for title, gap in (("resume near stop", 0.02), ("resume low", 0.9)):
        near = {
            name: {"qpid.flow_resume_count": round(stop * (1 - gap))} for name, stop in stops.items() if stop
        }
        yield title, Settings(near)
    for factor in (0.02, 0.2, 0.5, 2, 4):
        capacity = {
            producer.name: max(1, round(producer.capacity * factor)) for producer in workload.producers
        }
        yield f"capacity x {factor:g}", Settings(capacity=capacity)
    for factor in (0.01, 0.5, 4, 10_000):
        prefetch = {
            consumer.name: max(1, round(consumer.prefetch * factor)) for consumer in workload.consumers
        }
        yield f"prefetch x {factor:g}", Settings(prefetch=prefetch)
    bare = {key: None for arguments in workload.queues.values() for key in arguments if "group" not in key}
    yield "ring of 150", _everywhere(workload, {**bare, "qpid.max_count": 150, "qpid.policy_type": "ring"})
    yield "at most 150", _everywhere(workload, {**bare, "qpid.max_count": 150})
    size = {"qpid.flow_stop_size": 20_000, "qpid.flow_resume_size": 12_000}
    yield "thresholds in bytes", _everywhere(workload, {**bare, **size})


def _everywhere(workload: Workload, arguments: dict[str, int | str | None]) -> Settings:
    return Settings(dict.fromkeys(workload.queues, arguments))


def _thresholds(arguments: dict[str, int]) -> tuple[int, int]:
    most = arguments.get("qpid.max_count", 0)
    return (
        arguments.get("qpid.flow_stop_count", most * 80 // 100),
        arguments.get("qpid.flow_resume_count", most * 70 // 100),
    )


def _scaled(arguments: dict[str, int], factor: float) -> dict[str, int]:
    scaled = {key: round(value * factor) for key, value in arguments.items() if key.startswith("qpid.flow")}
    stop, resume = _thresholds(arguments)
    if stop and "qpid.policy_type" not in arguments:
        scaled |= {
            "qpid.flow_stop_count": round(stop * factor),
            "qpid.flow_resume_count": round(resume * factor),
        }
    for key in ("qpid.max_count", "qpid.max_size"):
        if key in arguments:
            scaled[key] = round(arguments[key] * max(1, factor))
    return scaled


def measured(workload: Workload) -> dict[str, Measures]:
    """Return the measures of the queues of a run."""
    return queue_measures(simulate(workload).events, workload, round(workload.duration * SECOND))


def used(truth: Measures, predicted: Measures) -> dict[str, float]:
    """Return for each limit how much of it a prediction uses up; above 1 it is missed."""
    limits = {
        "d": ("mean_depth", 0.05 * truth["mean_depth"]),
        "o": ("share_on", 0.03),
        "c": ("flowStoppedCount", max(2, truth["flowStoppedCount"] / 10)),
        "t": ("throughput", 0.03 * truth["throughput"]),
    }
    off = {mark: (abs(predicted[key] - truth[key]), most) for mark, (key, most) in limits.items()}
    return {mark: value / most if most else float(value > 0) * 99 for mark, (value, most) in off.items()}


def misses(truth: Measures, predicted: Measures) -> str:
    """Return a letter for each limit that a prediction misses: depth, on, count, throughput."""
    return "".join(mark for mark, share in used(truth, predicted).items() if share > 1)


def load(name: str) -> tuple[Workload, ClientLog]:
    """Return a recording: what was run, and what its clients saw."""
    path = next(path for end in (".csv.gz", ".parquet") if (path := RECORDED / f"{name}{end}").exists())
    return Workload.load(RECORDED / f"{name}.json"), ClientLog.load(path)


def compare(title: str, truth: dict[str, Measures], report: dict[str, Any]) -> None:
    """Print one line for each queue: what was recorded, what is predicted, and how near a limit that is."""
    for queue, true in truth.items():
        own = report["queues"][queue]["predicted"]
        shares = used(true, own)
        worst = max(shares, key=lambda mark: shares[mark])
        print(
            f"{title:<32}{queue:<8}{true['mean_depth']:9.1f}{own['mean_depth']:9.1f}"
            f"{true['share_on']:8.3f}{own['share_on']:7.3f}"
            f"{true['flowStoppedCount']:5}{own['flowStoppedCount']:5}"
            f"{true['throughput']:8.1f}{own['throughput']:7.1f}  {worst} {shares[worst]:.2f}"
            f"{'  missed' * (shares[worst] > 1)}",
            flush=True,
        )
    if report["errors"]:
        print(f"{'':<32}sessions ended: {report['replays']['outcomes']}")


def recorded(names: list[str]) -> None:
    """Compare predictions with what the real broker did."""
    print(f"{'recording':<32}{'queue':<8}{'depth':>18}{'on':>15}{'stops':>10}{'throughput':>15}  worst limit")
    missing = sorted(name for name in names if not (RECORDED / f"{name}.json").exists())
    if missing:
        print(f"no recording in {RECORDED}: {', '.join(missing)}")
    loaded = {name: load(name) for name in names if name not in missing}
    for name, (workload, log) in loaded.items():
        report = predict(workload, log, compare_models=False)
        compare(name, _recorded(report), report)
    for source, target in PAIRS:
        if source in loaded and target in loaded:
            (workload, log), (other, other_log) = loaded[source], loaded[target]
            duration = min(workload.duration, other.duration)
            truth = predict(other.replace(duration=duration), other_log, compare_models=False, replays=1)
            settings = Settings.of(other, workload)
            report = predict(workload.replace(duration=duration), log, settings, compare_models=False)
            compare(f"{source[:14]} -> {target[:14]}", _recorded(truth), report)


def _recorded(report: dict[str, Any]) -> dict[str, Measures]:
    return {queue: entry["recorded"] for queue, entry in report["queues"].items() if entry["recorded"]}


def main(names: list[str]) -> None:
    """Print one line for each recording, change and queue."""
    print(f"{'recording':<16}{'settings':<22}{'queue':<8}{'depth':>18}{'on':>14}{'stops':>11}  misses chance")
    for name in names:
        program = Workload.load(RECORDED / f"{name}.json")
        world = extract(ClientLog.load(RECORDED / f"{name}.csv.gz"), program, "open").workload
        found = extract(logged(shifted(world, 1, SHIFTS), program), program).workload
        for title, settings in changes(program):
            truth = measured(settings.apply(shifted(world, 2, SHIFTS)))
            other = measured(settings.apply(shifted(world, 3, SHIFTS)))
            predicted = measured(settings.apply(found))
            for queue, true in truth.items():
                own = predicted[queue]
                print(
                    f"{name:<16}{title:<22}{queue:<8}{true['mean_depth']:9.1f}{own['mean_depth']:9.1f}"
                    f"{true['share_on']:7.3f}{own['share_on']:7.3f}"
                    f"{true['flowStoppedCount']:5}{own['flowStoppedCount']:6}  "
                    f"{misses(true, own) or '-':<7}{misses(true, other[queue]) or '-'}",
                    flush=True,
                )


if __name__ == "__main__":
    asked = [name for name in sys.argv[1:] if name != "--recorded"]
    if "--recorded" in sys.argv:
        recorded(asked or list(ALL))
    else:
        main(asked or list(NAMES))
