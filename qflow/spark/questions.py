"""Questions about an audit's results, such as which queues were ON longest, each answered by a small table.

An interval that is still open at a log's end is counted up to that end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.logs.cleaning import Cleaning
from qflow.spark.tables import FACTS
from qflow.wording import format_count
from qflow.workload.agenda import SECOND

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SUMMED = ("rows", "quarantined", "duplicates", "missing", "gaps", "unjudged", "blocks")
"""The numbers in LogFacts that are summed over logs."""

_COUNTS = {"findings": "finding", "times_on": "flow_on", "held": "held", "times_blocked": "blocked"}

_IS_COUNT = "kind = 'finding' AND finding IN ('max_depth', 'dropped', 'differs', 'reports')"
"""An SQL condition for findings that only report the engine's counts, which every log has."""


def spans(results: DataFrame, kind: str) -> DataFrame:
    """Return the intervals of one kind, with ``source`` (the log) and ``length_us`` (the duration)."""
    from pyspark.sql import functions as sf

    # The engine's counts, which each component has, have the time of the log's end.
    ends = results.groupBy("component").agg(sf.max(sf.coalesce("end_us", "begin_us")).alias("log_end"))
    mine = results.where(sf.col("kind") == kind).withColumn("source", _source())
    joined = mine.join(ends, "component")
    closed = joined.withColumn("end_us", sf.coalesce("end_us", "log_end")).drop("log_end")
    return closed.withColumn("length_us", sf.col("end_us") - sf.col("begin_us"))


def on_over_time(results: DataFrame, step_us: int = 5 * SECOND) -> DataFrame:
    """Return ``source, queue, step, on_us``: the time for which each queue was ON in each step of time."""
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
        A table of ``source``, ``queue``, ``flowStoppedCount``, ``on_us``, ``longest_on_us``, ``held`` (the
        number of held transfers), ``held_us`` (the total time of their holds) and ``longest_held_us``.
    """
    return _offenders_in(_totals(results))


def hold_times(results: DataFrame) -> DataFrame:
    """Return the hold times of transfers by queue: ``source, queue, held``, percentiles and maximum."""
    from pyspark.sql import functions as sf

    grouped = spans(results, "held").groupBy("source", "queue")
    percentiles = [
        sf.expr(f"percentile_disc({share / 100}) within group (order by length_us)").alias(f"p{share}_us")
        for share in (50, 90, 99)
    ]
    most = sf.max("length_us").alias("most_us")
    return grouped.agg(sf.count("*").alias("held"), *percentiles, most).orderBy("source", "queue")


def group_spots(results: DataFrame) -> DataFrame:
    """Return the message groups, the longest owned first.

    Returns:
        A table of ``source``, ``queue``, ``group``, ``tenures`` (the number of intervals with an owner),
        ``owned_us`` (their total time) and ``owners`` (the number of different owners).
    """
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

    ``finding_of(row).sentence()`` returns the sentence of a collected row (:mod:`qflow.logs.findings`).
    """
    return results.where("kind = 'finding'").orderBy("component", "finding", "queue", "client", "number")


def facts_of_logs(results: DataFrame) -> DataFrame:
    """Return the FACTS on the logs of an audit's components, with the column ``component``."""
    from pyspark.sql import functions as sf

    logs = results.where("kind = 'log'").select(
        "component", sf.from_json("message", FACTS.ddl).alias("facts")
    )
    return logs.select("component", "facts.*")


def on_clock(results: DataFrame, facts: DataFrame, undated_us: int) -> DataFrame:
    """Return results with times since 1970, and with their log's ``origin_us`` and ``zone``.

    Parameters:
        results: The results of an audit.
        facts: The table that :func:`facts_of_logs` returned.
        undated_us: The instant to use as time 0 of a log without dates, in microseconds since 1970.
    """
    from pyspark.sql import functions as sf

    timed = results.join(facts.select("component", "origin_us", "zone"), "component", "left")
    origin = sf.coalesce("origin_us", sf.lit(undated_us))
    return timed.withColumns({name: sf.col(name) + origin for name in ("begin_us", "end_us")})


def most_at_once(results: DataFrame) -> Any:
    """Return the largest number of queues that were ON at once, and its first interval, as one row."""
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    on = spans(results, "flow_on").where("length_us > 0").select("source", "queue", "begin_us", "end_us")
    edges = on.select(sf.col("begin_us").alias("us"), sf.lit(1).alias("more")).unionAll(
        on.select("end_us", sf.lit(-1))
    )
    by_time = Window.orderBy("us")
    changes = edges.groupBy("us").agg(sf.sum("more").alias("more"))
    steps = changes.select(
        sf.sum("more").over(by_time).alias("number"), sf.col("us").alias("begin_us"),
        sf.lead("us").over(by_time).alias("end_us"),
    )  # fmt: skip
    return steps.where("number > 0").orderBy(sf.desc("number"), "begin_us").first()


class Summary(NamedTuple):
    """The summary of an audit: its numbers, the queues that held transfers longest, its first findings."""

    components: int
    kinds: Mapping[str, int]
    """The number of results of each kind; findings that only report counts are of the kind ``count``."""
    facts: Mapping[str, int]
    """The sums of LogFacts, and ``not_judged``, the number of components that could not be audited."""
    on_share: float
    """The largest share of its log's duration for which a queue was ON."""
    offenders: Sequence[Any]
    """The first rows of :func:`offenders`."""
    blame: Sequence[Any]
    """The number and total time of held transfers by producer and queue, the longest first."""
    findings: Sequence[Any]
    """The first findings that contradict a rule."""

    @property
    def cleaning(self) -> Cleaning:
        """A report on the cleaning of all logs, whose headline warns if many rows were quarantined."""
        return Cleaning(rows=self.facts.get("rows", 0), quarantined=self.facts.get("quarantined", 0))

    def sentences(self) -> Iterator[str]:
        """Yield sentences on doubts about the logs, queues ON, held transfers and findings."""
        facts, kinds = self.facts, self.kinds
        count = partial(format_count, form=",")
        if facts["quarantined"]:
            yield self.cleaning.headline() or f"{count(facts['quarantined'], 'row')} quarantined."
        if facts["gaps"] or facts["missing"]:
            by_number = f"; by the rows' own numbers {facts['missing']:,}" if facts["missing"] else ""
            yield f"Rows are missing in {count(facts['gaps'], 'span')} of time{by_number}."
        if facts["not_judged"]:
            yield f"{count(facts['not_judged'], 'component')} not judged: no workload of theirs can start."
        if facts["unjudged"]:
            yield f"{count(facts['unjudged'], 'message')} not judged, as rows of them were quarantined."
        held = count(kinds.get("held", 0), "transfer")
        yield f"Queues were ON {count(kinds.get('flow_on', 0), 'time')}, and held {held}."
        if facts["blocks"] or "blocked" in kinds:
            yield f"Producers were blocked {count(kinds.get('blocked', 0), 'time')}."
        else:
            yield "No log says when producers were blocked."
        yield f"{count(kinds.get('finding', 0), 'finding')}."

    def metrics(self) -> dict[str, float]:
        """Return the numbers for ``--fail-on``, ``--metrics`` and the JSON line, by name."""
        all_rows = self.facts["rows"] + self.facts["quarantined"]
        numbers = {name: self.kinds.get(kind, 0) for name, kind in _COUNTS.items()}
        return {
            "components": self.components,
            **self.facts,
            **numbers,
            "quarantined_share": self.facts["quarantined"] / all_rows if all_rows else 0.0,
            "on_share": round(self.on_share, 6),
        }


def summarise(results: DataFrame, shown: int) -> Summary:
    """Return the summary of an audit's results, with the first `shown` queues, producers and findings."""
    from pyspark.sql import functions as sf

    # One pass over all results; later questions read a small table by queue and client.
    table = _totals(results.where("kind != 'log'")).persist()
    counts = table.groupBy("kind").agg(
        # A component without a valid row has no duration.
        sf.sum("number").alias("all"),
        sf.max(sf.try_divide("total_us", "log_us")).alias("share"),
    )
    kinds = {row.kind: row for row in counts.collect()}
    (components,) = table.agg(sf.count_distinct("component")).first() or (0,)
    held = table.where("kind = 'held'").groupBy("source", "client", "queue")
    blame = held.agg(sf.sum("number").alias("held"), sf.sum("total_us").alias("held_us"))
    broken = findings(results).where(f"NOT ({_IS_COUNT})")
    not_judged = broken.where("finding IN ('refused', 'no-begin')").count() if "finding" in kinds else 0
    sums = facts_of_logs(results).agg(*(sf.sum(name).alias(name) for name in _SUMMED)).first()
    summary = Summary(
        components,
        {name: row.all for name, row in sorted(kinds.items())},
        {name: sums[name] or 0 for name in _SUMMED if sums is not None} | {"not_judged": not_judged},
        float(kinds["flow_on"].share or 0) if "flow_on" in kinds else 0.0,
        _offenders_in(table).limit(shown).collect() if "flow_on" in kinds else [],
        blame.orderBy(sf.desc("held_us"), "source", "client", "queue").limit(shown).collect()
        if "held" in kinds
        else [],
        broken.limit(shown).collect() if "finding" in kinds else [],
    )
    table.unpersist()
    return summary


def _totals(results: DataFrame) -> DataFrame:
    """Return the counts and durations of results by component, kind, queue and client, in one pass."""
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
    end = sf.max("last_us").over(Window.partitionBy("component"))
    # The table is small: repartitioning makes later questions one task each, and the pass itself many.
    return found.repartition(1).withColumn("source", _source()).select(
        "source", "component", "kind", "queue", "client", "number",
        (sf.col("closed_us") + sf.col("open") * end - sf.col("open_us")).alias("total_us"),
        sf.greatest("longest_us", end - sf.col("first_open_us")).alias("longest_us"), end.alias("log_us"),
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
