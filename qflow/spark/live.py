"""Live: what a stream has found so far, as figures and sentences, while its folder grows.

Shipper: a log as a folder that grows, as a stream reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.logs.client_log import LogRow
from qflow.spark.auditor import BEGIN, END
from qflow.spark.figures import FleetChart, heat_map
from qflow.spark.questions import on_over_time
from qflow.spark.stream import audit_stream, read_results, read_stream, start
from qflow.spark.tables import LAKE, to_batches
from qflow.spark.touches import components_of, parts_of, touches_of
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Shipper:
    """Numbers each component's events and puts them into a folder, one file a call.

    Each component has its own ``seq``, without gaps; so the reader of the stream can tell what is late and
    what came twice, whatever order files and rows arrive in.

    Parameters
    ----------
    source : str
        Name of the log.
    workload : Workload
        Queues, bindings and clients.
    folder : str or Path
        Is made if it does not exist.
    """

    def __init__(self, source: str, workload: Workload, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._source = source
        self._components = components_of(touches_of(source, workload))
        self._begins = parts_of({source: workload}, self._components)
        self._next: dict[str, int] = {}
        self._files = self._time = 0

    def send(self, rows: Iterable[LogRow]) -> Path | None:
        """Put some rows into a file of their own; the first file also begins all components."""
        numbered = [self._numbered(name, 0, "", BEGIN, "", text) for name, text in self._begins.items()]
        self._begins = {}
        for row in rows:
            self._time = max(0, row.ts_us)
            role, member = ("queue", row.queue) if row.event == "stats" else ("client", row.client)
            component = self._components.get((self._source, role, member))
            if component is not None:
                numbered.append(self._numbered(component, self._time, *row[1:]))
        return self._write(numbered)

    def end(self) -> Path | None:
        """End all components."""
        return self._write([self._numbered(name, self._time, "", END, "", "") for name in list(self._next)])

    def _numbered(
        self, component: str, time: int, client: str, event: str, queue: str, label: str,
        size: int = 0, group: str = "",
    ) -> tuple[object, ...]:  # fmt: skip
        seq = self._next.get(component, 0)
        self._next[component] = seq + 1
        return (component, seq, time, client, event, queue, label, size, group)

    def _write(self, rows: list[tuple[object, ...]]) -> Path | None:
        if not rows:
            return None
        path = self.folder / f"{self._source}-{self._files:06d}.parquet"
        self._files += 1
        write_rows(path, rows)
        return path


def write_rows(path: Path, rows: list[tuple[object, ...]]) -> None:
    """Write rows of LAKE to a file that appears whole or not at all."""
    import pyarrow
    from pyarrow import parquet

    # Spark passes over names that begin with an underscore.
    fresh = path.with_name(f"_{path.name}")
    parquet.write_table(pyarrow.Table.from_batches(to_batches(rows, LAKE)), fresh)
    fresh.replace(path)


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
