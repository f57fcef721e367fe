"""Ingest: client logs as good rows, and a quarantine of the others, each with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.spark.batches import to_batches
from qflow.spark.log_reader import ENDINGS, read_log, source_of
from qflow.spark.schema import EVENTS, QUARANTINE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRACE_ENDINGS = (".jsonl", ".jsonl.gz")


def log_files(paths: Iterable[str | Path]) -> list[str]:
    """Return the log files that are named, or lie in the folders that are.

    Raises
    ------
    RefusalError
        If there is none, or two have the same name.
    """
    files: list[str] = []
    for path in map(Path, paths):
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        found = [str(item) for item in inside if item.name.endswith((*ENDINGS, *TRACE_ENDINGS))]
        if not found:
            raise RefusalError(
                f"{path}: no client log is there; a log is a .parquet, .csv, .csv.gz or .jsonl file"
            )
        files += found
    names = [source_of(file) for file in files]
    for name in names:
        if names.count(name) > 1:
            raise RefusalError(f"two logs are named {name!r}; a log's name tells brokers and runs apart")
    return files


def ingest(spark: SparkSession, files: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """Return the good rows of client logs, and the rows that were set aside.

    Every row is in one of the two.  A file that cannot be read at all is one row of the quarantine.

    Parameters
    ----------
    spark : SparkSession
    files : sequence of str
        Paths that the workers can read too.

    Returns
    -------
    (DataFrame of EVENTS, DataFrame of QUARANTINE)
    """
    named = spark.createDataFrame([(file,) for file in files], "file string")
    named = named.repartition(max(1, min(len(files), 64)))
    return named.mapInArrow(_good, EVENTS.ddl), named.mapInArrow(_bad, QUARANTINE.ddl)


def _good(batches: Iterator[Any]) -> Iterator[Any]:
    for path in _paths(batches):
        yield from (bit.good for bit in read_log(path) if bit.good is not None)


def _bad(batches: Iterator[Any]) -> Iterator[Any]:
    for path in _paths(batches):
        for bit in read_log(path):
            yield from to_batches(bit.problems, QUARANTINE)


def _paths(batches: Iterator[Any]) -> Iterator[str]:
    for batch in batches:
        yield from batch.column("file").to_pylist()


def gaps(events: DataFrame, quarantine: DataFrame) -> DataFrame:
    """Return what is missing in logs that number their events, as rows of the quarantine.

    Parameters
    ----------
    events : DataFrame of EVENTS
    quarantine : DataFrame of QUARANTINE
        Rows that were set aside are not missing.

    Returns
    -------
    DataFrame of QUARANTINE
        One row a log with gaps, with how many events are missing.
    """
    from pyspark.sql import functions as sf

    aside = quarantine.where("row > 0").groupBy("source").agg(sf.count("*").alias("aside"))
    counted = (sf.countDistinct("row").alias("seen"), (sf.max("row") + 1).alias("all"))
    seen = events.groupBy("source").agg(*counted)
    missing = sf.col("all") - sf.col("seen") - sf.coalesce(sf.col("aside"), sf.lit(0))
    lost = seen.join(aside, "source", "left").withColumn("missing", missing).where("missing > 0")
    words = sf.lit(" events are missing between 0 and ")
    reason = sf.concat(sf.col("missing").cast("string"), words, sf.col("all") - 1)
    empty = sf.lit("")
    return lost.select(
        "source", sf.lit(0).cast("bigint").alias("row"), sf.lit("seq").alias("column"),
        reason.alias("reason"), empty.alias("values"),
    )  # fmt: skip
