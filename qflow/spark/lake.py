"""The lake: a fleet's rows as a table that grows, each numbered in its component.

A component is a sequential state machine, so one worker takes all its rows, in order (:func:`in_order`). The
numbers are given once, when a log is split (:class:`~qflow.logs.components.Splitter`), and components are
packed into parts by size (:func:`pack`), so that a new log adds a few parts and changes no other. The largest
component limits the speed-up of a fleet (:func:`speed_up`).
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from qflow.kit import RefusalError
from qflow.logs.cleaning import Cleaning
from qflow.spark.tables import (
    FORMAT,
    KEYS,
    LAKE,
    GrowingTable,
    missing_of,
    part_names,
)
from qflow.writing import write_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROW_COUNTS = "_rows.json"
"""The file beside a table with the rows of its logs; Spark ignores names that begin with an underscore."""


class RowCount(NamedTuple):
    """The number of good and of quarantined rows of a log, and the log's day."""

    day: str
    rows: int
    quarantined: int


def write_row_counts(folder: str | Path, counts: Mapping[str, RowCount]) -> None:
    """Add the row counts of logs to those beside a table; nothing is kept at an address of Spark's own."""
    if counts and "://" not in str(folder):
        Path(folder).mkdir(parents=True, exist_ok=True)
        write_file(Path(folder, _ROW_COUNTS), json.dumps({**read_row_counts(folder), **counts}) + "\n")


def read_row_counts(folder: str | Path) -> dict[str, RowCount]:
    """Return the row count of each log that is kept beside a table, by the log's name."""
    path = Path(folder, _ROW_COUNTS)
    if "://" in str(folder) or not path.exists():
        return {}
    return {source: RowCount(*count) for source, count in json.loads(path.read_text("utf-8")).items()}


def sum_row_counts(counts: Iterable[RowCount]) -> Cleaning:
    """Return the rows of several logs as one cleaning, whose headline warns of many quarantined rows."""
    counts = list(counts)
    return Cleaning(rows=sum(one.rows for one in counts), quarantined=sum(one.quarantined for one in counts))


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


def write_lake(
    lake: DataFrame,
    folder: str | Path,
    buckets: int,
    made_of: Mapping[str, str],
    day: str,
    form: str = FORMAT,
) -> dict[str, int]:
    """Add rows to a lake, each log in parts named after its digest `made_of`; return component sizes."""
    from pyspark.sql import functions as sf

    counts = count_events(lake)
    table = [(component, day, part) for component, part in _parts_of_logs(counts, buckets, made_of)]
    # One row a component: it goes to every worker, so that the lake's rows are not shuffled for the join.
    placed = lake.join(
        sf.broadcast(lake.sparkSession.createDataFrame(table, f"component string, {KEYS.ddl}")), "component"
    )
    # The hash of a name may put two parts into one partition. Sorted by part first, each is still one file.
    in_parts = placed.repartition(len({part for _, _, part in table}), "part")
    rows = in_parts.sortWithinPartitions("part", "component", "seq")
    GrowingTable(lake.sparkSession, folder, form).write(rows.select(*LAKE, *KEYS))
    return counts


def _parts_of_logs(
    counts: Mapping[str, int], buckets: int, made_of: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    logs: dict[str, dict[str, int]] = {}
    for component, count in counts.items():
        logs.setdefault(component.split("/", 1)[0], {})[component] = count
    for source, own in sorted(logs.items()):
        names = part_names(made_of[source], min(buckets, len(own)))
        for component, bucket in pack(own, len(names)).items():
            yield component, names[bucket]


def read_lake(spark: SparkSession, folder: str | Path, form: str = FORMAT) -> DataFrame:
    """Return a lake: LAKE, and the KEYS by which it grows.

    Raises:
        RefusalError: If the folder holds no lake; the sentence says what is missing.
    """
    return require_lake(GrowingTable(spark, folder, form))


def require_lake(table: GrowingTable) -> DataFrame:
    """Return the same of a table."""
    frame = table.read(LAKE, "a lake has")
    if frame is None:
        raise RefusalError(f"{table.place}: no lake can be read there: nothing is")
    missing = missing_of(part for _, part in table.parts())
    if missing:
        raise RefusalError(
            f"{table.place}: {missing[0]} of {missing[1]} parts are missing; "
            "the command that made it goes on where it was"
        )
    return frame


def count_events(lake: DataFrame) -> dict[str, int]:
    """Return the number of rows of each component."""
    return {row.component: row["count"] for row in lake.groupBy("component").count().collect()}


def in_order(
    lake: DataFrame, partitions: int | None = None, events: Mapping[str, int] | None = None
) -> DataFrame:
    """Return rows as the engine needs them: each component's together, in order; evenly by `events`."""
    from pyspark.sql import functions as sf

    spark = lake.sparkSession
    partitions = partitions or int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    # An older Spark can only hash the name: then two large components may be one task. The results are the
    # same.
    if events is None or not hasattr(lake, "repartitionById"):
        spread = lake.repartition(partitions, "component")
    else:
        packed = pack(events, min(partitions, len(events)))
        places = spark.createDataFrame(list(packed.items()), "component string, place int")
        placed = lake.join(sf.broadcast(places), "component")
        spread = placed.repartitionById(min(partitions, len(events)), "place").drop("place")
    return spread.sortWithinPartitions("component", "seq")


NO_END = (1 << 63) - 1
"""The end of a slice that has all events from its first on."""


def take_slices(
    lake: DataFrame, wanted: Mapping[str, tuple[str, int, int]], events: Mapping[str, int]
) -> DataFrame:
    """Return rows as :func:`in_order` does, of slices of components, each a component by its name."""
    from pyspark.sql import functions as sf

    # For each slice: its component, its first event, the event after its last, and its name.
    table = [(component, start, end, name) for name, (component, start, end) in wanted.items()]
    places = lake.sparkSession.createDataFrame(
        table, "component string, first bigint, next bigint, slice string"
    )
    few = lake.where(lake.component.isin(sorted({component for component, *_ in table})))
    inside = few.join(sf.broadcast(places), "component").where("seq >= first AND seq < next")
    # Where rows are lost, `events` is less than the last `seq`, so a late slice may seem to be empty.
    sizes = {name: max(1, min(end, events[component]) - start) for component, start, end, name in table}
    return in_order(inside.withColumn("component", sf.col("slice")).select(*lake.columns), len(sizes), sizes)


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
