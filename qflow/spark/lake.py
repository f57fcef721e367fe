"""Lakes: a lake is a growing table of a fleet's log rows, each numbered within its component.

The rows of a component must be processed sequentially, so one worker gets all of them, in order
(:func:`in_order`). The rows are numbered once, when a log is split
(:class:`~qflow.logs.components.Splitter`). A hash of a component's name determines its part of the table and
its task: so the driver need not know the number and sizes of the components, and a new run adds a few parts
and changes no others. The largest component limits the speed-up of a fleet (:func:`speed_up`).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from qflow.kit import RefusalError
from qflow.spark.tables import (
    FORMAT,
    LAKE,
    GrowingTable,
    Schema,
    frame_of,
    run_names,
    shuffle_partitions,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def pack(events: Mapping[str, int], buckets: int) -> dict[str, int]:
    """Return the bucket of each component, after distributing components over buckets of about equal size.

    >>> pack({"a": 5, "b": 4, "c": 3, "d": 3, "e": 3}, 2)
    {'a': 0, 'b': 1, 'c': 1, 'd': 0, 'e': 1}
    """
    loads = [(0, bucket) for bucket in range(buckets)]
    packed: dict[str, int] = {}
    # The largest component is next, and goes into the bucket with the fewest events so far. The result is at
    # most a third worse than the best packing (Graham's rule).
    # Components of equal size are taken by name, because Spark returns groups in any order and the parts must
    # be the same on every machine.
    for component in sorted(events, key=lambda name: (-events[name], name)):
        load, bucket = heapq.heappop(loads)
        packed[component] = bucket
        heapq.heappush(loads, (load + events[component], bucket))
    return packed


def read_lake(spark: SparkSession, folder: str | Path, form: str = FORMAT) -> DataFrame:
    """Return the rows of a lake, with the columns LAKE and the partitioning columns KEYS.

    Parameters:
        spark: The Spark session.
        folder: The folder or address of the lake.
        form: The format of the table, such as ``parquet``.

    Raises:
        RefusalError: If the folder has no lake, or an incomplete one; the text names the missing part.
    """
    return require_lake(GrowingTable(spark, folder, form))


def require_lake(table: GrowingTable) -> DataFrame:
    """Return the rows of a lake's completed runs, or raise a RefusalError for a lake without one."""
    frame = table.read(LAKE, "a lake has")
    if frame is None:
        raise RefusalError(f"{table.place}: there is no lake: the folder is missing or empty")
    if not table.has_runs:
        return frame
    runs = {digest for _, digest in table.done_runs()}
    if not runs:
        words = "parts are missing; the command that made it continues where it stopped"
        raise RefusalError(f"{table.place}: {words}")
    # Quarantined rows are in the same table, without a component.
    return frame.where(run_names(frame).isin(sorted(runs)) & frame.component.isNotNull())


def in_order(lake: DataFrame, partitions: int | None = None) -> DataFrame:
    """Return rows in the engine's order: each component in one partition, sorted by number."""
    partitions = partitions or shuffle_partitions(lake.sparkSession)
    # One shuffle, independent of the files' order. The sort is within partitions, as components are
    # independent; a global sort would first sample all rows.
    return lake.repartition(partitions, "component").sortWithinPartitions("component", "seq")


NO_END = (1 << 63) - 1
"""The end of a slice without a limit, which has all events from its first one on."""


def take_slices(lake: DataFrame, wanted: Mapping[str, tuple[str, int, int]]) -> DataFrame:
    """Return slices of a few components, ordered as by :func:`in_order`, each as a component of its own."""
    from pyspark.sql import functions as sf

    # For each slice: its component, its first event, the event after its last one, its name and its task.
    table = [(*bounds, name, place) for place, (name, bounds) in enumerate(wanted.items())]
    kinds = Schema(component="string", first="bigint", next="bigint", slice="string", place="int")
    places = frame_of(lake.sparkSession, table, kinds)
    few = lake.where(lake.component.isin(sorted({component for component, *_ in table})))
    inside = few.join(sf.broadcast(places), "component").where("seq >= first AND seq < next")
    named = inside.withColumn("component", sf.col("slice"))
    # An older Spark can only hash the name, so two slices may share a task; the results are the same.
    has_ids = hasattr(named, "repartitionById")
    spread = named.repartitionById(len(table), "place") if has_ids else named.repartition("component")
    return spread.select(*lake.columns).sortWithinPartitions("component", "seq")


def speed_up(events: Mapping[str, int], workers: int) -> float:
    """Return the speed-up that a number of workers can reach if components are not cut.

    A component is processed sequentially, so an audit without cuts takes at least as long as its largest
    component.  This is Amdahl's law with the numbers of a fleet.

    Parameters:
        events: The number of events of each component.
        workers: The number of workers.

    >>> speed_up({"a": 60, "b": 20, "c": 20}, 2), speed_up({"a": 60, "b": 20, "c": 20}, 100)
    (1.6666666666666667, 1.6666666666666667)
    """
    loads = [0] * workers
    for component, bucket in pack(events, workers).items():
        loads[bucket] += events[component]
    return sum(events.values()) / max(loads)


def bound(events: Mapping[str, int]) -> float:
    """Return the limit of the speed-up: the number of all events divided by that of the largest component.

    >>> bound({"a": 50, "b": 25, "c": 25})
    2.0
    """
    return sum(events.values()) / max(events.values())
