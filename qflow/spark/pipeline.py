"""Pipeline: from log files to a lake, as chapters and the command line call it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.spark.ingest import gaps, ingest, log_files
from qflow.spark.layout import assign, lay_out, strangers, write_lake
from qflow.spark.log_reader import source_of
from qflow.spark.schema import QUARANTINE
from qflow.spark.topology import components, touches
from qflow.spark.trace_log import import_trace, is_trace
from qflow.workload.checks import WorkloadError
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN = 1000


@dataclass(frozen=True)
class LakeReport:
    """What became of the logs.

    Parameters
    ----------
    folder : str
        Where the lake lies.
    events : dict
        Component to how many events it has.
    set_aside : int
        How many rows are in the quarantine.
    quarantine : list
        The first thousand of them, rows of QUARANTINE.
    """

    folder: str
    events: dict[str, int]
    set_aside: int
    quarantine: list[Any]

    def __repr__(self) -> str:
        total = sum(self.events.values())
        aside = "none was set aside" if not self.set_aside else f"{self.set_aside} were set aside"
        return f"{total} events of {len(self.events)} components; {aside}"


def make_lake(
    spark: SparkSession,
    logs: Sequence[str | Path],
    folder: str | Path,
    workloads: str | Path | None = None,
    buckets: int = 8,
) -> LakeReport:
    """Make a lake of client logs and of traces, which hold their workload themselves.

    Parameters
    ----------
    spark : SparkSession
    logs : sequence of paths
        Files, or folders of files.
    folder : path
        Where the lake is written; new or empty.
    workloads : path or None
        Folder of the workload files, ``NAME.json`` for the log ``NAME.parquet``; None: beside each log.
    buckets : int
        How many files the lake has.

    Raises
    ------
    RefusalError
        If a log has no workload, or no row of any log is good; the sentence tells the first reason.
    """
    with tempfile.TemporaryDirectory(prefix="qflow-traces-") as scratch:
        return _make_lake(spark, log_files(logs), folder, workloads, buckets, Path(scratch))


def _make_lake(
    spark: SparkSession,
    files: list[str],
    folder: str | Path,
    workloads: str | Path | None,
    buckets: int,
    scratch: Path,
) -> LakeReport:
    traces = [file for file in files if is_trace(file)]
    files = [file for file in files if file not in traces]
    imported = {file: import_trace(file, scratch) for file in traces}
    known = {
        **load_workloads(files, workloads),
        **load_workloads([log for log, _ in imported.values()], None),
    }
    events, bad = ingest(spark, [*files, *(log for log, _ in imported.values())])
    spoilt = [(source_of(file), *entry) for file, (_, quarantine) in imported.items() for entry in quarantine]
    bad = bad.union(spark.createDataFrame(spoilt, QUARANTINE.ddl))
    events = events.persist()
    found = components(touches(events, known))
    assigned = assign(events, found)
    aside = bad.unionByName(strangers(assigned)).unionByName(gaps(events, bad)).persist()
    try:
        count = aside.count()
        first = aside.orderBy("source", "row").limit(SHOWN).collect()
        if first and events.isEmpty():
            raise RefusalError(f"{first[0].source}: {first[0].reason}")
        counts = write_lake(lay_out(assigned, found, known), folder, buckets)
    finally:
        events.unpersist()
        aside.unpersist()
    return LakeReport(str(folder), counts, count, first)


def load_workloads(files: Sequence[str], folder: str | Path | None) -> Mapping[str, Workload]:
    """Return the workload of each log.

    Raises
    ------
    RefusalError
        If a file is missing or is no workload.
    """
    known = {}
    for file in files:
        source = source_of(file)
        path = Path(folder or Path(file).parent) / f"{source}.json"
        try:
            known[source] = Workload.load(path)
        except FileNotFoundError:
            raise RefusalError(
                f"{path}: the workload of log {source!r} belongs there: queues, bindings, clients"
            ) from None
        except WorkloadError as error:
            raise RefusalError(str(error)) from None
    return known
