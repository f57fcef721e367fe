"""The lake: a fleet's rows as Parquet, each component's together and in order.

A component is a sequential state machine, so its rows are read by one worker, in order. The layout pays for
that once: components are packed into files by size (:func:`pack`), a file is sorted once, and every later
job replays it without a shuffle. A file can also be read without Spark (:func:`read_lake_file`). How far a
fleet can be spread is decided by its largest component (:func:`speed_up`).
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from qflow.kit import RefusalError
from qflow.logs.audit import BEGIN, END
from qflow.logs.checks import Tolerance
from qflow.logs.components import components_of, parts_of, touches_of
from qflow.logs.log_file import MOST_ROWS
from qflow.spark.steps import Steps, require_finished
from qflow.spark.tables import COMPONENTS, EVENTS, LAKE, QUARANTINE, TOUCHES
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_lake_file(path: str, rows: int = MOST_ROWS) -> Iterator[Any]:
    """Yield a file's rows in order, as Arrow batches of LAKE."""
    with _open_file(path) as file:
        yield from file.iter_batches(batch_size=rows, columns=list(LAKE.names))


def components_in_file(path: str) -> dict[str, int]:
    """Return the components of a file, in order, and how many rows each has."""
    with _open_file(path, read_dictionary=["component"]) as file:
        counted = file.read(columns=["component"]).column(0).value_counts()
    return {str(count["values"]): count["counts"] for count in counted.to_pylist()}


@contextmanager
def _open_file(path: str, **options: Any) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path, **options) as file:
            # Of the file, not of what it is read as.
            found = file.metadata.schema.to_arrow_schema()
            _require_columns(path, dict(zip(found.names, found.types, strict=True)), LAKE.arrow())
            yield file
    except (pyarrow.ArrowException, OSError) as error:
        words = str(error).strip().splitlines()[0]
        raise RefusalError(f"{path}: the file is cut off or damaged, or no Parquet ({words})") from None


def _require_columns(place: str, types: Mapping[str, object], columns: Iterable[Any]) -> None:
    """Refuse a lake for the first column that is missing or of another type, as Arrow or Spark calls it."""
    for column in columns:
        got = types.get(column.name)
        if got != column.type:
            found = "missing" if got is None else f"of type {got}"
            raise RefusalError(
                f"{place}: a lake has the column {column.name} of type {column.type}, here it is {found}"
            )


def touches(events: DataFrame, workloads: Mapping[str, Workload]) -> DataFrame:
    """Return who touches what: what the workloads declare, and what the logs show in addition."""
    from pyspark.sql import functions as sf

    stated = [touch for source in sorted(workloads) for touch in touches_of(source, workloads[source])]
    known = events.sparkSession.createDataFrame(stated, TOUCHES.ddl)
    consumed = sf.col("event").isin("deliver", "accept", "release", "reject")
    shown = events.where(consumed).select(*TOUCHES.names).distinct()
    # A log may only add what a workload knows: unknown clients go to the quarantine, not into a component.
    clients = known.select("source", "client").distinct()
    queues = known.select("source", "queue").distinct()
    shown = shown.join(clients, ["source", "client"], "left_semi")
    shown = shown.join(queues, ["source", "queue"], "left_semi").select(*TOUCHES.names)
    return known.union(shown).distinct()


def components(touches: DataFrame) -> DataFrame:
    """Return the component of each client and queue, as networkx finds them on the driver."""
    # Who touches what grows with clients, not with events: it is small.
    found = components_of((row.source, row.client, row.queue) for row in touches.collect())
    rows = [(source, component, member, role) for (source, role, member), component in found.items()]
    return touches.sparkSession.createDataFrame(rows, COMPONENTS.ddl)


_FIRST, _LAST = -1, (1 << 63) - 1
_PLACED = f"component string, {EVENTS.ddl}, workload string"


def assign(events: DataFrame, components: DataFrame) -> DataFrame:
    """Return events with their component; null where the workload has no such client or queue."""
    from pyspark.sql import functions as sf

    is_report = sf.col("event") == "stats"
    keyed = events.withColumn("role", sf.when(is_report, "queue").otherwise("client"))
    keyed = keyed.withColumn("member", sf.when(is_report, sf.col("queue")).otherwise(sf.col("client")))
    found = keyed.join(sf.broadcast(components), ["source", "role", "member"], "left")
    return found.select("component", *EVENTS.names)


def strangers(assigned: DataFrame) -> DataFrame:
    """Return the rows that belong to no component, for the quarantine."""
    from pyspark.sql import functions as sf

    reason = sf.concat(sf.lit("must be a client or queue of the workload, got "), sf.col("client"))
    return (
        assigned.where(sf.col("component").isNull())
        .select(
            "source",
            (sf.col("row") + 1).alias("row"),
            sf.lit("client").alias("column"),
            reason.alias("reason"),
            sf.substring(sf.to_json(sf.struct(*EVENTS.names[2:])), 1, 500).alias("values"),
        )
        .select(*QUARANTINE.names)
    )


def lay_out(
    assigned: DataFrame,
    components: DataFrame,
    workloads: Mapping[str, Workload],
    tolerances: Mapping[str, Tolerance] | None = None,
) -> DataFrame:
    """Return the rows of a lake: each component's own, numbered, between its begin and its end."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    spark = assigned.sparkSession
    # With the component among the keys, a file of some components does without the rows of all others.
    known = assigned.where(sf.col("component").isNotNull()).dropDuplicates(["component", "source", "row"])
    members = {(row.source, row.role, row.member): row.component for row in components.collect()}
    parts = parts_of(workloads, members)
    last = {
        row.source: row.last
        for row in assigned.groupBy("source").agg(sf.max("ts_us").alias("last")).collect()
    }
    edges: list[tuple[Any, ...]] = []
    for component, text in parts.items():
        source = component.split("/", 1)[0]
        tolerance = (tolerances or {}).get(source)
        label = tolerance.text() if tolerance is not None else ""
        edges.append((component, source, _FIRST, 0, "", BEGIN, "", label, 0, "", text))
        edges.append((component, source, _LAST, last.get(source, 0), "", END, "", "", 0, "", None))
    rows = known.unionByName(spark.createDataFrame(edges, _PLACED), allowMissingColumns=True)
    in_component = Window.partitionBy("component").orderBy("row")
    numbered = rows.withColumn("seq", sf.row_number().over(in_component).cast("bigint") - 1)
    return numbered.select(*LAKE.names)


def pack(events: Mapping[str, int], buckets: int) -> dict[str, int]:
    """Return a bucket for each component: the largest first, each into the bucket that has least so far.

    >>> pack({"a": 5, "b": 4, "c": 3, "d": 3, "e": 3}, 2)
    {'a': 0, 'b': 1, 'c': 1, 'd': 0, 'e': 1}
    """
    loads = [(0, bucket) for bucket in range(buckets)]
    packed: dict[str, int] = {}
    for component in sorted(events, key=lambda name: (-events[name], name)):
        load, bucket = heapq.heappop(loads)
        packed[component] = bucket
        heapq.heappush(loads, (load + events[component], bucket))
    return packed


_QUARTERS = 4
"""In how many steps a lake is written, at least: killed in between, only the one under way is done again."""


def write_lake(lake: DataFrame, folder: str | Path, buckets: int = 8, made_of: str = "") -> dict[str, int]:
    """Write a lake, one file a bucket, and return each component's number of rows.

    Killed at any moment, the same goes on with the buckets that are missing, if it is made of the same.
    """
    from pyspark.sql import functions as sf

    spark = lake.sparkSession
    at_once = -(-buckets // _QUARTERS)
    decided_by = f"{made_of or 'rows of its own'}, {buckets} buckets"
    steps = Steps(spark, folder, "a lake", decided_by, range(buckets), at_once=at_once)
    counts = {row.component: row["count"] for row in lake.groupBy("component").count().collect()}
    packed = pack(counts, buckets)
    table = spark.createDataFrame(sorted(packed.items()), "component string, bucket int")

    def rows_of(some: Sequence[int]) -> DataFrame:
        # Said of the component, it is known before rows are numbered.
        own = lake.where(
            sf.col("component").isin([name for name, bucket in packed.items() if bucket in some])
        )
        placed = own.join(sf.broadcast(table), "component")
        in_buckets = placed.repartition(len(some), "bucket")
        return in_buckets.sortWithinPartitions("bucket", "component", "seq")

    for _ in steps.run(rows_of, by="bucket"):
        pass
    return counts


def read_lake(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return a lake as it lies: one file is one partition, its rows in order.

    Raises:
        RefusalError: If the folder holds no lake; the sentence says what is missing.
    """
    from pyspark.errors import PySparkException

    require_finished(spark, folder)
    try:
        frame = spark.read.parquet(str(folder))
    except PySparkException as error:
        words = str(error).strip().splitlines()[0]
        raise RefusalError(f"{folder}: no lake can be read there: {words}") from None
    _require_columns(str(folder), dict(frame.dtypes), LAKE)
    return frame.select(*LAKE.names)


def lake_files(spark: SparkSession, folder: str | Path) -> list[str]:
    """Return the files of a lake, what takes longest first: paths, or else addresses that Spark knows."""
    files = sorted(read_lake(spark, folder).inputFiles())
    places = [urlsplit(file) for file in files]
    if any(place.scheme != "file" for place in places):
        return files
    paths = [unquote(place.path) for place in places]
    return sorted(paths, key=lambda path: (-os.stat(path).st_size, path))


def only_spark_reads(files: Sequence[str]) -> bool:
    """Return whether files of :func:`lake_files` are addresses that Spark knows, and not paths."""
    return "://" in files[0]


def in_order(lake: DataFrame, partitions: int) -> DataFrame:
    """Return the rows of any frame of LAKE as the audit needs them, at the price of a shuffle."""
    return lake.repartition(partitions, "component").sortWithinPartitions("component", "seq")


def speed_up(events: Mapping[str, int], workers: int) -> float:
    """Return the best speed-up that whole components allow on so many workers.

    A component is one sequence; as long as it is not cut, nothing is done before the largest one is.  This
    is Amdahl's law with a fleet's own numbers.

    Parameters:
        events: Component to how many events it has.

    >>> speed_up({"a": 60, "b": 20, "c": 20}, 2), speed_up({"a": 60, "b": 20, "c": 20}, 100)
    (1.6666666666666667, 1.6666666666666667)
    """
    loads = [0] * workers
    for component, bucket in pack(events, workers).items():
        loads[bucket] += events[component]
    return sum(events.values()) / max(loads)


def bound(events: Mapping[str, int]) -> float:
    """Return the speed-up that no number of workers exceeds: all events over the largest component's.

    >>> bound({"a": 50, "b": 25, "c": 25})
    2.0
    """
    return sum(events.values()) / max(events.values())
