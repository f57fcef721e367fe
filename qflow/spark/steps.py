"""Steps: work that may take hours, each part kept as soon as it is done.

Killed at any moment, the same work over the same folder goes on with the first part that is missing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PLAN = "_plan.json"
"""What a folder is for; Spark passes over names that begin with an underscore."""

AT_ONCE = 64
"""Tasks of one step: enough that all cores are busy, few enough that little is lost with a step."""


class Steps:
    """A folder that is filled step by step, on any file system that Spark reaches."""

    def __init__(
        self,
        spark: SparkSession,
        folder: str | Path,
        what: str,
        decided_by: str,
        items: Sequence[Any],
        *,
        # What lies there of something else is replaced, and not refused.
        replaces: bool = False,
        at_once: int | None = None,
    ) -> None:
        self.folder = str(folder)
        self._items, self._at_once = items, at_once or AT_ONCE
        self._files = _Files(spark, folder)
        plan = {"what": what, "decided_by": decided_by, "steps": -(-len(items) // self._at_once)}
        had = self._files.plan()
        if had == plan:
            return
        if self._files.holds_something():
            if not (replaces and had is not None and had["what"] == what):
                holds = "something else" if had is None else f"{had['what']} of {had['decided_by']}"
                raise RefusalError(f"{folder}: {what} needs a new folder, and this one holds {holds}")
            self._files.clear()
        self._files.write(_PLAN, json.dumps(plan, sort_keys=True))

    def run(self, make: Callable[[Sequence[Any]], DataFrame], by: str | None = None) -> Iterator[int]:
        """Do all steps that are missing, and yield after each step how many items are done."""
        for number, start in enumerate(range(0, len(self._items), self._at_once)):
            part = self._items[start : start + self._at_once]
            if not self._files.has(_mark(number)):
                writing = make(part).write.mode("overwrite")
                (writing.partitionBy(by) if by else writing).parquet(f"{self.folder}/{_name(number)}")
            yield start + len(part)


def require_finished(spark: SparkSession, folder: str | Path) -> None:
    """Refuse a folder in which something is missing."""
    files = _Files(spark, folder)
    if files.has("_temporary"):
        # Spark takes it away when all files are in their places.
        raise RefusalError(f"{folder}: its writing was broken off; clear the folder and make it again")
    plan = files.plan() or {"steps": 0}
    for number in range(plan["steps"]):
        if not files.has(_mark(number)):
            raise RefusalError(
                f"{folder}: step {number + 1} of {plan['steps']} is missing; "
                "the command that made it goes on where it was"
            )


def _name(number: int) -> str:
    return f"step={number:06d}"


def _mark(number: int) -> str:
    # Spark puts it there when all of a step's files are in their places.
    return f"{_name(number)}/_SUCCESS"


class _Files:
    """A folder as Hadoop's file systems see it: this machine's, HDFS, an object store."""

    def __init__(self, spark: SparkSession, folder: str | Path) -> None:
        self._jvm: Any = spark.sparkContext._jvm
        self._folder = self._jvm.org.apache.hadoop.fs.Path(str(folder))
        self._system = self._folder.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, name)

    def has(self, name: str) -> bool:
        return bool(self._system.exists(self._path(name)))

    def holds_something(self) -> bool:
        return bool(self._system.exists(self._folder)) and len(self._system.listStatus(self._folder)) > 0

    def clear(self) -> None:
        self._system.delete(self._folder, True)

    def plan(self) -> dict[str, Any] | None:
        if not self.has(_PLAN):
            return None
        stream = self._system.open(self._path(_PLAN))
        try:
            plan: dict[str, Any] = json.loads(
                self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            )
        finally:
            stream.close()
        return plan

    def write(self, name: str, text: str) -> None:
        # Under another name first: it is there whole or not at all.
        fresh = self._path(f"{name}.part")
        stream = self._system.create(fresh, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        self._system.rename(fresh, self._path(name))
