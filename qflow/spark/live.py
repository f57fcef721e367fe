"""Live: what a stream has found so far, as figures and sentences, while its folder grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.spark.figures import FleetChart, heat_map
from qflow.spark.questions import on_over_time
from qflow.spark.shipper import Shipper
from qflow.spark.stream import audit_stream, read_results, read_stream, start
from qflow.trace.log_rows import LogRow
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEP = 5


@dataclass(frozen=True)
class Glance:
    """One look at a stream.

    Parameters
    ----------
    chart : FleetChart
        Which queue was ON when, as far as is known: an interval shows once it has ended.
    results : int
        How many results there are so far.
    """

    chart: FleetChart
    results: int

    def __repr__(self) -> str:
        return f"{self.results} results so far.\n{self.chart!r}"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {**self.chart._repr_mimebundle_(), "text/plain": repr(self)}


def glance(spark: SparkSession, folder: str | Path, queues: Sequence[str], seconds: int) -> Glance:
    """Look at what a stream has written so far.

    Parameters
    ----------
    spark : SparkSession
    folder : str or Path
        Where the stream writes (:func:`qflow.spark.stream.start`).
    queues : sequence of str
        Which queues to draw.
    seconds : int
        How long the log is, as far as has been sent.

    Raises
    ------
    RefusalError
        If the stream has written nothing yet.
    """
    results = read_results(spark, folder)
    rows = on_over_time(results, STEP * 1_000_000).collect()
    return Glance(heat_map(rows, queues, seconds, STEP), results.count())


def watch(
    spark: SparkSession,
    source: str,
    workload: Workload,
    rows: Sequence[LogRow],
    folder: str | Path,
    every: int = 15,
) -> Iterator[Glance]:
    """Play a log into a folder, bit by bit, and look at the audit's stream after each bit.

    The lab of chapter 13: the folder is read by a stream as a real one would be; a log that grows by itself
    needs only :func:`qflow.spark.stream.start` and :func:`glance`.

    Parameters
    ----------
    spark : SparkSession
    source : str
        Name of the log.
    workload : Workload
    rows : sequence of LogRow
        The log, in order.
    folder : str or Path
        New; gets ``incoming`` and ``out``.
    every : int
        Seconds of the log in one bit.

    Yields
    ------
    Glance
        After each bit that gave results; the last one knows all.
    """
    folder = Path(folder)
    shipper = Shipper(source, workload, folder / "incoming")
    queues = sorted(workload.queues)
    for until, part in _bits(rows, every):
        shipper.send(part)
        if until is None:
            shipper.end()
        stream = audit_stream(read_stream(spark, folder / "incoming"))
        start(stream, folder / "out", once=True).awaitTermination()
        seconds = until or rows[-1].ts_us // 1_000_000 + 1
        if any((folder / "out").glob("results/step=*/_SUCCESS")):
            yield glance(spark, folder / "out", queues, seconds)


def _bits(rows: Sequence[LogRow], every: int) -> Iterator[tuple[int | None, list[LogRow]]]:
    """Yield the rows of so many seconds each; with the last ones comes None instead of a time."""
    part: list[LogRow] = []
    until = every
    for row in rows:
        while row.ts_us >= until * 1_000_000:
            yield until, part
            part, until = [], until + every
        part.append(row)
    yield None, part
