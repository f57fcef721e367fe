"""Questions to ask of an audit's results, each a small table: where, how long, who, and because of whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qflow.spark.tables import COUNTS
from qflow.workload.agenda import SECOND

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

IS_COUNT = "kind = 'finding' AND subject IN ('max_depth', 'dropped', 'differs', 'reports')"
"""Findings that say only what the engine counted; a log without a fault has them, too."""


def spans(results: DataFrame, kind: str) -> DataFrame:
    """Return the intervals of one kind, those still open ended by the log's end, with their length.

    Parameters:
        results (DataFrame of RESULTS)
        kind: ``flow_on``, ``held``, ``blocked`` or ``group_owned``.

    Returns:
        RESULTS, ``length_us``, and ``source``; ``count`` is called what it is of this kind: ``depth``,
        ``stop`` or ``transfers``.
    """
    from pyspark.sql import functions as sf

    ends = results.groupBy(_source().alias("of")).agg(
        sf.max(sf.coalesce("end_us", "begin_us")).alias("log_end")
    )
    mine = results.where(sf.col("kind") == kind).withColumn("source", _source())
    joined = mine.join(sf.broadcast(ends), sf.col("of") == sf.col("source"))
    closed = joined.withColumn("end_us", sf.coalesce("end_us", "log_end")).drop("of", "log_end")
    named = closed.withColumnRenamed("count", COUNTS.get(kind, "count"))
    return named.withColumn("length_us", sf.col("end_us") - sf.col("begin_us"))


def on_over_time(results: DataFrame, step_us: int = 5 * SECOND) -> DataFrame:
    """Return for how much of each step of time each queue was ON.

    Returns:
        ``source``, ``queue``, ``step`` (from 0), ``on_us``; steps in which a queue was never ON are left out.
    """
    from pyspark.sql import functions as sf

    on = spans(results, "flow_on").where("length_us > 0")
    first = sf.floor(sf.col("begin_us") / step_us)
    last = sf.floor((sf.col("end_us") - 1) / step_us)
    steps = on.withColumn("step", sf.explode(sf.sequence(first, last)))
    start = sf.col("step") * step_us
    inside = sf.least(sf.col("end_us"), start + step_us) - sf.greatest(sf.col("begin_us"), start)
    return steps.groupBy("source", "queue", "step").agg(sf.sum(inside).alias("on_us"))


def totals(results: DataFrame) -> DataFrame:
    """Return how often and how long, for each kind, queue and client: the one pass that rankings need.

    Returns:
        ``source``, ``component``, ``kind`` (``count`` for findings that only count), ``queue``, ``client``,
        ``number``, ``total_us``, ``longest_us``; what was still open ended with the log.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    kind = sf.expr(f"CASE WHEN {IS_COUNT} THEN 'count' ELSE kind END").alias("kind")
    begin, length = sf.col("begin_us"), sf.col("end_us") - sf.col("begin_us")
    still_open = sf.when(sf.col("end_us").isNull(), begin)
    found = results.groupBy("component", kind, "queue", "client").agg(
        sf.count("*").alias("number"),
        sf.coalesce(sf.sum(length), sf.lit(0)).alias("closed_us"),
        sf.max(length).alias("longest_us"),
        sf.count(still_open).alias("open"),
        sf.coalesce(sf.sum(still_open), sf.lit(0)).alias("open_us"),
        sf.min(still_open).alias("first_open_us"),
        sf.max(sf.coalesce("end_us", begin)).alias("last_us"),
    )
    end = sf.max("last_us").over(Window.partitionBy("source"))
    return found.withColumn("source", _source()).select(
        "source", "component", "kind", "queue", "client", "number",
        (sf.col("closed_us") + sf.col("open") * end - sf.col("open_us")).alias("total_us"),
        sf.greatest("longest_us", end - sf.col("first_open_us")).alias("longest_us"),
    )  # fmt: skip


def offenders(results: DataFrame) -> DataFrame:
    """Return the queues that were ON, ordered by the total time for which they held transfers.

    Returns:
        ``source``, ``queue``, ``flowStoppedCount``, ``on_us``, ``longest_on_us``, ``held`` (transfers),
        ``held_us`` (the sum of their times), ``longest_held_us``.
    """
    return offenders_in(totals(results))


def offenders_in(totals: DataFrame) -> DataFrame:
    """Return the same from :func:`totals`."""
    from pyspark.sql import functions as sf

    def of(kind: str, column: str) -> Column:
        return sf.when(sf.col("kind") == kind, sf.col(column))

    found = totals.groupBy("source", "queue").agg(
        sf.sum(of("flow_on", "number")).alias("flowStoppedCount"),
        sf.sum(of("flow_on", "total_us")).alias("on_us"),
        sf.max(of("flow_on", "longest_us")).alias("longest_on_us"),
        sf.sum(of("held", "number")).alias("held"),
        sf.sum(of("held", "total_us")).alias("held_us"),
        sf.max(of("held", "longest_us")).alias("longest_held_us"),
    )
    ever_on = found.where("flowStoppedCount > 0").fillna(0)
    return ever_on.orderBy(sf.desc("held_us"), sf.desc("on_us"), "source", "queue")


def blame(results: DataFrame) -> DataFrame:
    """Return whose transfers were held by which queue, and for how long.

    Returns:
        ``source``, ``client``, ``queue``, ``held``, ``held_us``.
    """
    return blame_in(totals(results))


def blame_in(totals: DataFrame) -> DataFrame:
    """Return the same from :func:`totals`."""
    from pyspark.sql import functions as sf

    grouped = totals.where("kind = 'held'").groupBy("source", "client", "queue")
    counted = grouped.agg(sf.sum("number").alias("held"), sf.sum("total_us").alias("held_us"))
    return counted.orderBy(sf.desc("held_us"), "source", "client", "queue")


def hold_times(results: DataFrame) -> DataFrame:
    """Return how long transfers were held by each queue: exact percentiles, in microseconds.

    Returns:
        ``source``, ``queue``, ``held``, ``p50_us``, ``p90_us``, ``p99_us``, ``most_us``.
    """
    from pyspark.sql import functions as sf

    grouped = spans(results, "held").groupBy("source", "queue")
    percentiles = [
        sf.percentile("length_us", share / 100).cast("bigint").alias(f"p{share}_us") for share in (50, 90, 99)
    ]
    most = sf.max("length_us").alias("most_us")
    return grouped.agg(sf.count("*").alias("held"), *percentiles, most).orderBy("source", "queue")


def group_spots(results: DataFrame) -> DataFrame:
    """Return how each group of each queue was owned, the groups that were owned longest first.

    Returns:
        ``source``, ``queue``, ``group``, ``tenures``, ``owned_us``, ``owners`` (how many different ones).
    """
    from pyspark.sql import functions as sf

    grouped = spans(results, "group_owned").groupBy("source", "queue", sf.col("subject").alias("group"))
    counted = grouped.agg(
        sf.count("*").alias("tenures"),
        sf.sum("length_us").alias("owned_us"),
        sf.countDistinct("client").alias("owners"),
    )
    return counted.orderBy(sf.desc("owned_us"), "source", "queue", "group")


def findings(results: DataFrame) -> DataFrame:
    """Return the findings, as rows of RESULTS, in order of component, kind, queue and client.

    Collected, each gives its sentence: ``finding_of(row).sentence()`` (:func:`qflow.logs.audit.finding_of`).
    """
    return results.where("kind = 'finding'").orderBy("component", "subject", "queue", "client", "number")


def _source() -> Column:
    from pyspark.sql import functions as sf

    return sf.substring_index("component", "/", 1)
