"""A recorded workload, replayed through the engine and laid beside what the real broker reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from qflow.kit import kit_path
from qflow.labs.claims import seconds, times
from qflow.labs.frames import Frames, Span, Transition
from qflow.labs.picture import Lane, Picture, Samples, picture_of
from qflow.trace import ClientLog, LogError, QueueSample, replay
from qflow.workload import Workload

_ENDINGS = (".csv.gz", ".parquet")


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the engine's flow control compares with what a real broker reported of one queue.

    Parameters
    ----------
    queue
        The queue.
    polls
        How many reports there are between the engine's first and last event.
    agreeing
        At how many of them both are in the same state.
    farthest
        Microseconds from the worst of the others to the nearest change of the engine's state.
    gap
        Microseconds between two reports, typically.
    turned_on, really_turned_on
        How often flow control turned ON in the engine, and in the real broker.
    until
        Time of the last report, in microseconds.
    depth_difference
        Messages by which the two depths differ at the typical report.
    """

    queue: str
    polls: int
    agreeing: int
    farthest: int
    gap: int
    turned_on: int
    really_turned_on: int
    until: int
    depth_difference: int

    def sentences(self) -> list[str]:
        """Say it in words.

        Returns
        -------
        list of str

        Examples
        --------
        >>> print(Agreement("q", 100, 99, 20_000, 50_000, 3, 3, 6_000_000, 1).sentences()[0])
        The real broker reported the state of q 100 times, about every 50 ms until 6.000 s: 99 times the \
engine agrees; the one other report is within 20 ms of a change.
        """
        others = self.polls - self.agreeing
        if not others:
            verdict = "the engine agrees every time."
        else:
            rest = "the one other report is" if others == 1 else f"the {others} others are"
            verdict = (
                f"{self.agreeing} times the engine agrees; {rest} within {_ms(self.farthest)} of a change."
            )
        return [
            f"The real broker reported the state of {self.queue} {self.polls} times, "
            f"about every {_ms(self.gap)} until {seconds(self.until)}: {verdict}",
            f"The real {self.queue} turned ON {times(self.really_turned_on)}, "
            f"the engine's {times(self.turned_on)}.",
            f"At the typical report, the two depths differ by {self.depth_difference} messages.",
        ]


def recorded_picture(name: str) -> Picture:
    """Replay a recorded workload through the engine, with the real broker's reports beside it.

    Parameters
    ----------
    name
        A recording of the kit, such as ``slow-consumer``.

    Returns
    -------
    Picture
        Its lanes and samples hold what the real broker reported; its claims say how well the two agree.

    Raises
    ------
    LogError
        If there is no such recording; the message lists those there are.

    Examples
    --------
    >>> recorded_picture("ring").frames.topology.queues[0].name
    'q'
    """
    return replayed_picture(*_load(name))


def replayed_picture(
    log: ClientLog, workload: Workload, tell: Callable[[int], None] | None = None
) -> Picture:
    """Replay a client log through the engine, with what the real broker reported beside it.

    Parameters
    ----------
    log
        What the clients recorded.
    workload
        What they were told to do.
    tell
        Told now and then how many rows are replayed; it may raise to stop.

    Returns
    -------
    Picture

    Raises
    ------
    LogError
        If the log names queues or clients that the workload does not have.
    """
    run = replay(log, workload, tell)
    reports = {queue: log.statistics(queue) for queue in workload.queues}
    lanes, samples, said = [], [], []
    for index, heard in enumerate(reports.values()):
        if not heard:
            continue
        depths = tuple((report.ts_us, report.msgDepth) for report in heard if report.ts_us >= 0)
        lanes.append(Lane(index, "real broker ON", "real", on_spans(heard)))
        samples.append(Samples(index, "reported by the real broker", depths))
    picture = picture_of(run, more_lanes=lanes, samples=samples)
    for queue, heard in reports.items():
        said += [] if not heard else agreement(picture.frames, queue, heard).sentences()
    return replace(picture, claims=(*picture.claims, *said))


def agreement(frames: Frames, queue: str, reports: Sequence[QueueSample]) -> Agreement:
    """Compare the engine's flow control with a real broker's reports.

    Parameters
    ----------
    frames
        What the engine did.
    queue
        Which queue.
    reports
        What the real broker said of it, in order of time.

    Returns
    -------
    Agreement
        Reports from before the first event are left out: nothing had happened yet.
    """
    flow = frames.column(f"queue.{queue}.flow")
    depth = frames.column(f"queue.{queue}.depth")
    changes = [change for change in frames.transitions if change.queue == queue]
    heard = [(report, frames.index_at(report.ts_us)) for report in reports if report.ts_us >= 0]
    others = [report.ts_us for report, index in heard if bool(flow[index]) != report.flowStopped]
    gaps = sorted(after[0].ts_us - before[0].ts_us for before, after in pairwise(heard))
    differences = sorted(abs(depth[index] - report.msgDepth) for report, index in heard)
    return Agreement(
        queue,
        len(heard),
        len(heard) - len(others),
        max((_distance(time, changes) for time in others), default=0),
        gaps[len(gaps) // 2] if gaps else 0,
        sum(change.is_on for change in changes),
        reports[-1].flowStoppedCount if reports else 0,
        reports[-1].ts_us if reports else 0,
        differences[len(differences) // 2] if differences else 0,
    )


def on_spans(reports: Sequence[QueueSample]) -> tuple[Span, ...]:
    """List the times during which a real broker reported flow control ON.

    Parameters
    ----------
    reports
        In order of time.

    Returns
    -------
    tuple of pairs
        From the first report of ON to the first of OFF, or to the last report.

    Examples
    --------
    >>> heard = ((0, False), (50, True), (90, False))
    >>> on_spans([QueueSample(time, 0, 0, on, 0, 0, 0, 0) for time, on in heard])
    ((50, 90),)
    """
    spans: list[Span] = []
    begun: int | None = None
    for report in reports:
        if report.flowStopped and begun is None:
            begun = report.ts_us
        elif not report.flowStopped and begun is not None:
            spans.append((begun, report.ts_us))
            begun = None
    if begun is not None:
        spans.append((begun, reports[-1].ts_us))
    return tuple(spans)


def _distance(time: int, changes: Sequence[Transition]) -> int:
    return min((abs(time - change.time) for change in changes), default=0)


def _load(name: str) -> tuple[ClientLog, Workload]:
    folder = kit_path("data") / "recordings" / "workloads"
    for ending in _ENDINGS:
        if (folder / f"{name}{ending}").is_file():
            return ClientLog.load(folder / f"{name}{ending}"), Workload.load(folder / f"{name}.json")
    raise LogError(f"there is no recording {name!r}; there are {', '.join(_names(folder)) or 'none'}")


def _names(folder: Path) -> list[str]:
    return sorted({path.name.split(".")[0] for path in folder.iterdir() if path.name.endswith(_ENDINGS)})


def _ms(microseconds: int) -> str:
    return f"{-(-microseconds // 1000)} ms"
