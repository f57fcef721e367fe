"""The lake: a fleet's rows as a table that grows, each numbered in its component.

A component is a sequential state machine, so one worker takes all its rows, in order (:func:`in_order`). The
numbers are given once, when a log is split (:class:`~qflow.logs.components.Splitter`). Components go to
parts and tasks by a hash of their name: the driver knows neither how many there are nor how large they are,
and a new run adds a few parts and changes no other. The largest component limits the speed-up of a fleet
(:func:`speed_up`).
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
    """Return a bucket for each component: largest first, each into the bucket with the least rows.

    >>> pack({"a": 5, "b": 4, "c": 3, "d": 3, "e": 3}, 2)
    {'a': 0, 'b': 1, 'c': 1, 'd': 0, 'e': 1}
    """
    loads = [(0, bucket) for bucket in range(buckets)]
    packed: dict[str, int] = {}
    # Largest first is within a third of the best packing (Graham's rule). Equal sizes go by name: Spark
    # returns groups in any order, and the parts have to be the same on every machine.
    for component in sorted(events, key=lambda name: (-events[name], name)):
        load, bucket = heapq.heappop(loads)
        packed[component] = bucket
        heapq.heappush(loads, (load + events[component], bucket))
    return packed


def read_lake(spark: SparkSession, folder: str | Path, form: str = FORMAT) -> DataFrame:
    """Return a lake: LAKE, and the KEYS by which it grows.

    Raises:
        RefusalError: If the folder holds no lake; the text names the missing part.
    """
    return require_lake(GrowingTable(spark, folder, form))


def require_lake(table: GrowingTable) -> DataFrame:
    """Return the rows of a table's completed runs."""
    frame = table.read(LAKE, "a lake has")
    if frame is None:
        raise RefusalError(f"{table.place}: there is no lake: the folder is missing or empty")
    if not table.has_runs:
        return frame
    runs = {digest for _, digest in table.done_runs()}
    if not runs:
        words = "parts are missing; the command that made it continues where it stopped"
        raise RefusalError(f"{table.place}: {words}")
    # Quarantined rows lie beside those of the lake, and have no component.
    return frame.where(run_names(frame).isin(sorted(runs)) & frame.component.isNotNull())


def in_order(lake: DataFrame, partitions: int | None = None) -> DataFrame:
    """Return rows in the engine's order: grouped by component, then by number."""
    partitions = partitions or shuffle_partitions(lake.sparkSession)
    # One shuffle, whatever the files' order. The sort is within partitions: a sort of all rows would sample
    # them first, and no component needs to know of another.
    return lake.repartition(partitions, "component").sortWithinPartitions("component", "seq")


NO_END = (1 << 63) - 1
"""The end of a slice that has all events from its first on."""


def take_slices(lake: DataFrame, wanted: Mapping[str, tuple[str, int, int]]) -> DataFrame:
    """Return slices of a few components, ordered as by :func:`in_order`, each slice as a component."""
    from pyspark.sql import functions as sf

    # For each slice: its component, its first event, the event after its last, its name and its task.
    table = [(*bounds, name, place) for place, (name, bounds) in enumerate(wanted.items())]
    kinds = Schema(component="string", first="bigint", next="bigint", slice="string", place="int")
    places = frame_of(lake.sparkSession, table, kinds)
    few = lake.where(lake.component.isin(sorted({component for component, *_ in table})))
    inside = few.join(sf.broadcast(places), "component").where("seq >= first AND seq < next")
    named = inside.withColumn("component", sf.col("slice"))
    # An older Spark can only hash the name: then two slices may be one task. The results are the same.
    has_ids = hasattr(named, "repartitionById")
    spread = named.repartitionById(len(table), "place") if has_ids else named.repartition("component")
    return spread.select(*lake.columns).sortWithinPartitions("component", "seq")


def speed_up(events: Mapping[str, int], workers: int) -> float:
    """Return the best speed-up that whole components allow on a given number of workers.

    A component is one sequence, so an audit without cuts takes as long as its largest component.  This is
    Amdahl's law with a fleet's own numbers.

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
