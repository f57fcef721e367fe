"""Opened: any trace or client log from a file, as a picture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from qflow.broker.events import Event
from qflow.labs.background import Tell
from qflow.labs.picture import Picture, picture_of
from qflow.labs.recorded import replayed_picture
from qflow.labs.seen import topology_of_events
from qflow.labs.topology import Topology
from qflow.labs.topology_part import neighbours, part_of, sessions_of
from qflow.trace import ClientLog, LogError, replay
from qflow.trace.files import load_trace
from qflow.trace.progress import progress
from qflow.trace.schema import TraceError
from qflow.workload import Run, Workload

MOST_QUEUES = 6

_LOG_ENDINGS = (".csv", ".csv.gz")
_READ = 0.8
"""How much of the work reading is; the rest makes the picture."""


def trace_picture(
    path: str | Path,
    *,
    workload: str | Path | None = None,
    queues: Sequence[str] = (),
    tell: Tell | None = None,
) -> Picture:
    """Open a trace or a client log, and return what its lab would show.

    Parameters
    ----------
    path
        A trace (``.parquet``, ``.jsonl``, ``.jsonl.gz``), or what clients recorded (``.csv``, ``.csv.gz``,
        ``.parquet``). A client log is replayed through the engine first.
    workload
        For a client log, the workload file it was recorded with; None for the ``.json`` beside it.
    queues
        Which queues to show, with everyone who uses them; () for all, or, of more than
        six, those that share users with the first.
    tell
        Told now and then which part of the reading is done, from 0 to 1; it may raise to stop. None shows
        the progress on standard error.

    Returns
    -------
    Picture

    Raises
    ------
    TraceError, LogError
        If the file is neither, or a queue is not in it; one sentence says why.
    WorkloadError
        If the workload file is none.
    OSError
        If a file cannot be opened.
    """
    path = Path(path)
    log = _log_of(path)
    if log is not None:
        model = Workload.load(_workload_path(path, workload))
        with _telling(f"replaying {path.name}", tell, len(log.rows)) as told:
            if len(model.queues) <= MOST_QUEUES:
                return replayed_picture(log, model, told)
            run = replay(log, model, told)
        return run_picture(run, queues)
    with _telling(f"reading {path.name}", tell) as told:
        trace = load_trace(path, told)
    events = list(trace.events())
    if tell is not None:
        tell(_READ)
    run = Run(trace.workload or Workload(trace.run, 1, {}), events, events[-1].time if events else 0)
    return run_picture(run, queues)


@contextmanager
def _telling(what: str, tell: Tell | None, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Return what is to be told the rows that are done: a line of progress, or whoever wants the part."""
    if tell is None:
        with progress(what, total) as shown:
            yield shown
    else:
        yield lambda rows: tell(_READ * rows / total if total else 0.0)


def run_picture(run: Run, queues: Sequence[str] = ()) -> Picture:
    """Make a run visible whose topology is only known from its events, or too large to draw whole.

    Parameters
    ----------
    run
        The run.
    queues
        As for :func:`trace_picture`.

    Returns
    -------
    Picture

    Raises
    ------
    TraceError
        If a queue is not in it, or the run has none.

    Examples
    --------
    >>> from qflow.labs.flow import flow_workload
    >>> from qflow.workload import simulate
    >>> picture = run_picture(simulate(flow_workload(), message_limit=50))
    >>> [spot.name for spot in picture.frames.topology.producers]
    ['p1']
    """
    topology = topology_of_events(run)
    names = [spot.name for spot in topology.queues]
    if not names:
        raise TraceError("no queue is declared in this trace, so there is nothing to draw")
    for queue in queues:
        if queue not in names:
            raise TraceError(f"no queue {queue!r} in this trace; there are {', '.join(names)}")
    if not queues and len(names) <= MOST_QUEUES:
        return picture_of(run, topology=topology)
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
    if path.name.endswith(_LOG_ENDINGS):
        return ClientLog.load(path)
    if not path.name.endswith(".parquet"):
        return None
    try:
        return ClientLog.load(path)
    except LogError:
        return None


def _workload_path(path: Path, given: str | Path | None) -> Path:
    beside = path.with_name(f"{path.name.split('.')[0]}.json")
    if given is None and not beside.is_file():
        raise LogError(
            f"{path.name} is a client log, which is replayed with the workload it was recorded with: "
            f"name that file, or put it beside the log as {beside.name}"
        )
    return Path(given or beside)
