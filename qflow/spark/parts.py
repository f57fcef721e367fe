"""Parts: a table that grows by day and by part, wherever Spark can write one.

Spark commits a part whole or not at all, and a part that is written again takes the place of what was there.
So long work is kept part by part, and goes on with the first that is missing; what is done again changes
nothing; and what is new is told from what was there. The name of a part says what it is made of, and how many
such parts there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qflow.kit import RefusalError
from qflow.spark.tables import KEYS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

AT_ONCE = 64
"""Parts that are written at once: enough that all cores are busy, few enough that little is lost."""

FORMAT = "parquet"
"""What a table is, unless another format is named that Spark has, such as ``delta``."""

NO_DAY = "undated"
"""The day of what belongs to none."""

Part = tuple[str, str]
"""Its day and its name: a row of KEYS."""


def digest_of(*decided_by: object) -> str:
    """Return a short name for what decides a table's rows.

    >>> digest_of("a log", 7) == digest_of("a log", 7), len(digest_of())
    (True, 12)
    """
    return hashlib.sha256(repr(decided_by).encode()).hexdigest()[:12]


def part_names(digest: str, total: int) -> list[str]:
    """Return the names of so many parts that are made of one thing.

    >>> part_names("c0ffee", 2)
    ['c0ffee-00000-00002', 'c0ffee-00001-00002']
    """
    return [f"{digest}-{number:05d}-{total:05d}" for number in range(total)]


class GrowingTable:
    """A table of parts, read and written by Spark alone: on this machine, HDFS, an object store."""

    def __init__(self, spark: SparkSession, place: str | Path, form: str = FORMAT) -> None:
        self.place = str(place)
        self._spark, self._form = spark, form

    def frame(self) -> DataFrame | None:
        """Return what is there with its KEYS, or None; what others wrote without has a part for each file."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as sf

        try:
            frame = self._spark.read.format(self._form).load(self.place)
            names = frame.columns
        except (PySparkException, Py4JError) as error:
            words = " ".join(str(error).split())[:300]
            if "PATH_NOT_FOUND" in words or "UNABLE_TO_INFER_SCHEMA" in words:
                return None
            raise RefusalError(f"{self.place}: no table can be read there: {words}") from None
        if set(KEYS.names) <= set(names):
            # Spark takes what looks like a date for one.
            return frame.withColumn("day", sf.col("day").cast("string"))
        place, changed = sf.col("_metadata.file_path"), sf.col("_metadata.file_modification_time")
        file = sf.substring(sf.sha2(sf.concat(place, changed.cast("string")), 256), 1, 12)
        part = sf.concat(file, sf.lit("-00000-00001")).alias("part")
        return frame.select("*", sf.lit(NO_DAY).alias("day"), part)

    def names(self) -> set[Part]:
        """Return which parts are there."""
        frame = self.frame()
        rows = [] if frame is None else frame.select(*KEYS.names).distinct().collect()
        return {(row.day, row.part) for row in rows}

    def whole_names(self) -> set[Part]:
        """Return which parts are there, if none is missing.

        Raises:
            RefusalError: If one is.
        """
        names = self.names()
        missing = missing_of(part for _, part in names)
        if missing:
            raise RefusalError(
                f"{self.place}: {missing[0]} of {missing[1]} parts are missing; "
                "the command that made it goes on where it was"
            )
        return names

    def write(self, frame: DataFrame) -> None:
        """Write all parts that a frame holds."""
        writing = frame.write.format(self._form).mode("overwrite")
        writing.option("partitionOverwriteMode", "dynamic").partitionBy(*KEYS.names).save(self.place)

    def fill(
        self, wanted: Iterable[Part], make: Callable[[Sequence[Part]], DataFrame], at_once: int | None = None
    ) -> Iterator[int]:
        """Write the wanted parts that are missing, some at once; yield how many are done after each time."""
        wanted, there, at_once = sorted(wanted), self.names(), at_once or AT_ONCE
        todo = [part for part in wanted if part not in there]
        for start in range(0, len(todo), at_once):
            some = todo[start : start + at_once]
            self.write(make(some))
            yield len(wanted) - len(todo) + start + len(some)


def missing_of(parts: Iterable[str]) -> tuple[int, int] | None:
    """Return how many parts of one thing are missing, and of how many; None if none is.

    >>> missing_of(["a-00000-00001", "b-00002-00003"]), missing_of(["a-00000-00001"])
    ((2, 3), None)
    """
    there: dict[tuple[str, int], int] = {}
    for part in parts:
        made_of, _, total = part.rsplit("-", 2)
        there[made_of, int(total)] = there.get((made_of, int(total)), 0) + 1
    return next(((total - some, total) for (_, total), some in sorted(there.items()) if some < total), None)


def of_parts(frame: DataFrame, parts: Iterable[Part]) -> DataFrame:
    """Return the rows of some parts; Spark reads no others."""
    names = [name for _, name in parts]
    rows: DataFrame = frame.where(frame.part.isin(names))
    return rows
