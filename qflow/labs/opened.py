"""Opened files: pictures of traces, of client logs, and of the workloads that the kit recorded.

A client log is replayed through the engine first. If the log contains a real broker's reports of its queues,
the picture shows them beside the engine's flow control, and its claims say how well the two agree.

A trace may lack its workload, or have more queues than can be drawn. Then the clients and queues are found in
its events, and only some of them are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from statistics import median_high
from typing import Any

from qflow.broker.events import Event
from qflow.kit import kit_path
from qflow.labs.frames import Frames, Span, spans_of
from qflow.labs.picture import Lane, Picture, Samples, picture_of
from qflow.labs.topology import Topology, neighbours, part_of, sessions_of, topology_of_events
from qflow.labs.words import seconds, times
from qflow.progress import Progress
from qflow.progress import progress as show_progress
from qflow.trace import ClientLog, LogError, QueueSample, replay
from qflow.trace.files import load_trace
from qflow.trace.schema import TraceError
from qflow.workload import Run, Workload

_ENDINGS, _LOG_ENDINGS = (".csv.gz", ".parquet"), (".csv", ".csv.gz")


@dataclass(frozen=True, slots=True)
class ReplayAgreement:
    """A comparison of the engine's flow control of a queue with a real broker's reports of the queue."""

    queue: str
    # The number of reports from the engine's first event on, and of those with the engine's state.
    polls: int
    agreeing: int
    # The most microseconds from any other report to the nearest change of the engine's state.
    farthest: int
    # Microseconds between two reports (the median).
    gap: int
    turned_on: int
    really_turned_on: int
    # Time of the last report, in microseconds.
    until: int
    # Messages by which the two depths differ at a report (the median).
    depth_difference: int

    def sentences(self) -> list[str]:
        """Return the comparison in sentences.

        >>> print(ReplayAgreement("q", 100, 99, 20_000, 50_000, 3, 3, 6_000_000, 1).sentences()[0])
        The real broker reported the state of q 100 times, about every 50 ms until 6.000 s: 99 times the \
engine agrees; the one other report is within 20 ms of a change.
        """
        others, verdict = self.polls - self.agreeing, "the engine agrees every time."
        if others:
            rest = "the one other report is" if others == 1 else f"the {others} others are"
            near = f"within {_ms(self.farthest)} of a change"
            verdict = f"{self.agreeing} times the engine agrees; {rest} {near}."
        return [
            f"The real broker reported the state of {self.queue} {self.polls} times, "
            f"about every {_ms(self.gap)} until {seconds(self.until)}: {verdict}",
            f"The real {self.queue} turned ON {times(self.really_turned_on)}, "
            f"the engine's {times(self.turned_on)}.",
            f"At the typical report, the two depths differ by {self.depth_difference} messages.",
        ]


def recorded_picture(name: str) -> Picture:
    """Return the picture of a recording of the kit, such as ``slow-consumer``, replayed through the engine.

    The lanes and samples of the picture contain the real broker's reports; its claims say how well the engine
    agrees with them.

    Raises:
        LogError: If there is no such recording; the message lists the names of the recordings.

    >>> recorded_picture("ring").frames.topology.queues[0].name
    'q'
    """
    return _replay_picture(*_load(name))


def _replay_picture(
    log: ClientLog, workload: Workload, progress: Callable[..., Any] | None = None
) -> Picture:
    """Return the picture of a client log replayed through the engine, with the real broker's reports."""
    run = replay(log, workload, progress)
    reports = {index: log.statistics(queue) for index, queue in enumerate(workload.queues)}
    reports = {index: heard for index, heard in reports.items() if heard}
    lanes = [Lane(index, "real broker ON", "real", _on_spans(heard)) for index, heard in reports.items()]
    samples = [
        Samples(
            index,
            "reported by the real broker",
            tuple((at.ts_us, at.msgDepth) for at in heard if at.ts_us >= 0),
        )
        for index, heard in reports.items()
    ]
    picture = picture_of(run, more_lanes=lanes, samples=samples)
    queues, said = list(workload.queues), list(picture.claims)
    for index, heard in reports.items():
        said += agreement(picture.frames, queues[index], heard).sentences()
    return replace(picture, claims=tuple(said))


def agreement(frames: Frames, queue: str, reports: Sequence[QueueSample]) -> ReplayAgreement:
    """Return the comparison of the engine's flow control of a queue with a real broker's reports."""
    flow = frames.column(f"queue.{queue}.flow")
    depth = frames.column(f"queue.{queue}.depth")
    changes = [change for change in frames.transitions if change.queue == queue]
    # Reports from before the first event are left out.
    heard = [(report, frames.index_at(report.ts_us)) for report in reports if report.ts_us >= 0]
    # A report and a change at the same time may be in either order. So disagreement is measured by the time
    # to the engine's nearest change, and not by the number of differing reports.
    others = [report.ts_us for report, index in heard if bool(flow[index]) != report.flowStopped]
    near = [min((abs(time - change.time) for change in changes), default=0) for time in others]
    last = reports[-1]
    return ReplayAgreement(
        queue,
        len(heard),
        len(heard) - len(others),
        max(near, default=0),
        median_high([after[0].ts_us - before[0].ts_us for before, after in pairwise(heard)] or [0]),
        sum(change.is_on for change in changes),
        last.flowStoppedCount,
        last.ts_us,
        median_high([abs(depth[index] - report.msgDepth) for report, index in heard] or [0]),
    )


def _on_spans(reports: Sequence[QueueSample]) -> tuple[Span, ...]:
    """Return a real broker's ON intervals, each from its first report of ON to its first report of OFF."""
    return spans_of(((report.ts_us, report.flowStopped) for report in reports), reports[-1].ts_us)


def _load(name: str) -> tuple[ClientLog, Workload]:
    folder = kit_path("data") / "recordings" / "workloads"
    logs = {path.name.split(".")[0]: path for path in folder.iterdir() if path.name.endswith(_ENDINGS)}
    if name not in logs:
        raise LogError(f"there is no recording {name!r}; there are {', '.join(sorted(logs)) or 'none'}")
    return ClientLog.load(logs[name]), Workload.load(folder / f"{name}.json")


def _ms(microseconds: int) -> str:
    return f"{-(-microseconds // 1000)} ms"


MOST_QUEUES = 6


def trace_picture(
    path: str | Path,
    *,
    workload: str | Path | None = None,
    queues: Sequence[str] = (),
    progress: Progress | None = None,
) -> Picture:
    """Return the picture of a trace or a client log.

    Parameters:
        path: A trace (``.parquet``, ``.jsonl``, ``.jsonl.gz``), or what clients recorded (``.csv``,
            ``.csv.gz``, ``.parquet``). A client log is replayed through the engine first.
        workload: For a client log, the file of the workload that it was recorded with; None for the ``.json``
            file of the same name beside the log.
        queues: The names of the queues to show, with the clients that use them. With (), all are shown, or if
            there are more than six, the first one and those that share clients with it.
        progress: A function that is called with the progress, and may raise an exception to stop the reading.
            With None, the progress is shown on standard error.

    Raises:
        TraceError, LogError: If the file is neither a trace nor a client log, or lacks one of the queues.
        WorkloadError: If the workload file is not valid.
        OSError: If a file cannot be opened.

    >>> from qflow.kit import kit_path
    >>> picture = trace_picture(kit_path("data") / "recordings" / "workloads" / "ring.csv.gz")
    >>> picture.frames.topology.queues[0].name
    'q'
    """
    path = Path(path)
    log = _log_of(path)
    if log is not None:
        model = Workload.load(_workload_path(path, workload))
        with _report_progress(f"replaying {path.name}", progress, len(log.rows)) as done:
            # The engine is compared with the real broker only if all queues are drawn.
            if len(model.queues) <= MOST_QUEUES:
                return _replay_picture(log, model, done)
            run = replay(log, model, done)
        return run_picture(run, queues)
    with _report_progress(f"reading {path.name}", progress) as done:
        trace = load_trace(path, done)
    events = list(trace.events())
    run = Run(trace.workload or Workload(trace.run, 1, {}), events, events[-1].time if events else 0)
    return run_picture(run, queues)


@contextmanager
def _report_progress(
    what: str, given: Progress | None, total: int | None = None
) -> Iterator[Callable[..., Any]]:
    """Yield a function to report progress to: the caller's own, or one that shows a progress line."""
    if given is None:
        with show_progress(what, total) as shown:
            yield shown
    else:
        yield lambda done, *_: given(done, total)


def run_picture(run: Run, queues: Sequence[str] = ()) -> Picture:
    """Return the picture of a run whose clients are known only from its events, or of some of its queues."""
    topology = topology_of_events(run)
    names = [spot.name for spot in topology.queues]
    if not names:
        raise TraceError("no queue is declared in this trace, so there is nothing to draw")
    for queue in queues:
        if queue not in names:
            raise TraceError(f"no queue {queue!r} in this trace; there are {', '.join(names)}")
    if not queues and len(names) <= MOST_QUEUES:
        return picture_of(run, topology=topology)
    # Queues that share clients with the first one explain its waits; others would be drawn unconnected.
    chosen = set(queues) or neighbours(topology, names[0], MOST_QUEUES)
    part = part_of(topology, chosen)
    picture = picture_of(replace(run, events=list(_about(run.events, topology, part))), topology=part)
    shown = ", ".join(spot.name for spot in part.queues)
    rest = f"{len(part.queues)} of {len(names)} queues are shown: {shown}."
    return replace(picture, claims=(rest, *picture.claims))


def _about(events: Iterable[Event], whole: Topology, part: Topology) -> Iterable[Event]:
    queues = {spot.name for spot in whole.queues} - {spot.name for spot in part.queues}
    sessions = sessions_of(whole) - sessions_of(part)
    return (event for event in events if event.queue not in queues and event.session not in sessions)


def _log_of(path: Path) -> ClientLog | None:
    """Return the client log in a file, or None if the file is a trace."""
    if path.name.endswith(_LOG_ENDINGS):
        return ClientLog.load(path)
    if path.name.endswith(".parquet"):
        # The two kinds of Parquet files differ only in their columns; a file that is no log may be a trace.
        with suppress(LogError):
            return ClientLog.load(path)
    return None


def _workload_path(path: Path, given: str | Path | None) -> Path:
    beside = path.with_name(f"{path.name.split('.')[0]}.json")
    if given is None and not beside.is_file():
        raise LogError(
            f"{path.name} is a client log, which is replayed with the workload it was recorded with: "
            f"name that file, or put it beside the log as {beside.name}"
        )
    return Path(given or beside)
