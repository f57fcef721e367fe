"""Questions to ask of an audit's results, each a small table: where, how long, who, and because of whom.

What still went on at a log's end counts up to there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.workload.agenda import SECOND

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_IS_COUNT = "kind = 'finding' AND finding IN ('max_depth', 'dropped', 'differs', 'reports')"
"""Findings that say only what the engine counted; a log without a fault has them, too."""


def spans(results: DataFrame, kind: str) -> DataFrame:
    """Return the intervals of one kind with ``source`` and ``length_us``."""
    from pyspark.sql import functions as sf

    ends = results.groupBy(_source().alias("of")).agg(
        sf.max(sf.coalesce("end_us", "begin_us")).alias("log_end")
    )
    mine = results.where(sf.col("kind") == kind).withColumn("source", _source())
    joined = mine.join(sf.broadcast(ends), sf.col("of") == sf.col("source"))
    closed = joined.withColumn("end_us", sf.coalesce("end_us", "log_end")).drop("of", "log_end")
    return closed.withColumn("length_us", sf.col("end_us") - sf.col("begin_us"))


def on_over_time(results: DataFrame, step_us: int = 5 * SECOND) -> DataFrame:
    """Return ``on_us``, for how much of each ``step`` of time a queue was ON, of ``source, queue, step``."""
    from pyspark.sql import functions as sf

    on = spans(results, "flow_on").where("length_us > 0")
    first = sf.floor(sf.col("begin_us") / step_us)
    last = sf.floor((sf.col("end_us") - 1) / step_us)
    steps = on.withColumn("step", sf.explode(sf.sequence(first, last)))
    start = sf.col("step") * step_us
    inside = sf.least(sf.col("end_us"), start + step_us) - sf.greatest(sf.col("begin_us"), start)
    return steps.groupBy("source", "queue", "step").agg(sf.sum(inside).alias("on_us"))


def offenders(results: DataFrame) -> DataFrame:
    """Return the queues that were ON, ordered by the total time for which they held transfers.

    Returns:
        ``source``, ``queue``, ``flowStoppedCount``, ``on_us``, ``longest_on_us``, ``held`` (transfers),
        ``held_us`` (the sum of their times), ``longest_held_us``.
    """
    return _offenders_in(_totals(results))


def hold_times(results: DataFrame) -> DataFrame:
    """Return hold times by queue: ``source, queue, held``, exact percentiles and the maximum."""
    from pyspark.sql import functions as sf

    grouped = spans(results, "held").groupBy("source", "queue")
    percentiles = [
        sf.expr(f"percentile_disc({share / 100}) within group (order by length_us)").alias(f"p{share}_us")
        for share in (50, 90, 99)
    ]
    most = sf.max("length_us").alias("most_us")
    return grouped.agg(sf.count("*").alias("held"), *percentiles, most).orderBy("source", "queue")


def group_spots(results: DataFrame) -> DataFrame:
    """Return ``tenures, owned_us, owners`` of each ``source, queue, group``, the longest owned first."""
    from pyspark.sql import functions as sf

    grouped = spans(results, "group_owned").groupBy("source", "queue", "group")
    counted = grouped.agg(
        sf.count("*").alias("tenures"),
        sf.sum("length_us").alias("owned_us"),
        sf.countDistinct("client").alias("owners"),
    )
    return counted.orderBy(sf.desc("owned_us"), "source", "queue", "group")


def findings(results: DataFrame) -> DataFrame:
    """Return the findings, in order of component, kind, queue and client.

    Collected, each gives its sentence: ``finding_of(row).sentence()`` (:mod:`qflow.logs.findings`).
    """
    return results.where("kind = 'finding'").orderBy("component", "finding", "queue", "client", "number")


class Summary(NamedTuple):
    """What an audit comes to."""

    components: int
    kinds: Mapping[str, int]
    """How many results of each kind; ``count`` for findings that only count."""
    offenders: Sequence[Any]
    blame: Sequence[Any]
    """Whose transfers were held by which queue, and for how long."""
    findings: Sequence[Any]
    """Findings that break a rule."""


def summarise(results: DataFrame, shown: int) -> Summary:
    """Return the summary of an audit, given its numbers of queues, clients and findings."""
    from pyspark.sql import functions as sf

    # One pass over all results; what follows asks a table of queues and clients.
    table = _totals(results).persist()
    counts = table.groupBy("component", "kind").agg(sf.sum("number").alias("all")).collect()
    kinds: Counter[str] = Counter()
    for row in counts:
        kinds[row.kind] += row.all
    held = table.where("kind = 'held'").groupBy("source", "client", "queue")
    blame = held.agg(sf.sum("number").alias("held"), sf.sum("total_us").alias("held_us"))
    found = findings(results).where(f"NOT ({_IS_COUNT})").limit(shown)
    summary = Summary(
        len({row.component for row in counts}),
        dict(sorted(kinds.items())),
        _offenders_in(table).limit(shown).collect() if "flow_on" in kinds else [],
        blame.orderBy(sf.desc("held_us"), "source", "client", "queue").limit(shown).collect()
        if "held" in kinds
        else [],
        found.collect() if "finding" in kinds else [],
    )
    table.unpersist()
    return summary


def _totals(results: DataFrame) -> DataFrame:
    """Return counts and durations by component, kind, queue and client, in one pass."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    kind = sf.expr(f"CASE WHEN {_IS_COUNT} THEN 'count' ELSE kind END").alias("kind")
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
    # No larger than queues and clients are many: what is asked of it is one task, and no shuffle.
    return found.coalesce(1).withColumn("source", _source()).select(
        "source", "component", "kind", "queue", "client", "number",
        (sf.col("closed_us") + sf.col("open") * end - sf.col("open_us")).alias("total_us"),
        sf.greatest("longest_us", end - sf.col("first_open_us")).alias("longest_us"),
    )  # fmt: skip


def _offenders_in(totals: DataFrame) -> DataFrame:
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


def _source() -> Column:
    from pyspark.sql import functions as sf

    return sf.substring_index("component", "/", 1)
