"""What a worker does besides its work: it tells how much memory it took, and keeps out of its own way."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

_known_modules = 0


def peak_memory() -> int:
    """Return the most bytes this process had in memory at any time; 0 where the system does not say.

    Examples
    --------
    >>> peak_memory() >= 0
    True
    """
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def freeze_modules() -> None:
    """Take what has been imported out of the garbage collector's sight, whenever more has been.

    After every task Spark lets a worker collect garbage, and to walk over all that pandas, pyarrow and qflow
    consist of takes longer than to audit a thousand events.
    """
    global _known_modules
    if len(sys.modules) > _known_modules:
        _known_modules = len(sys.modules)
        gc.freeze()


def peak_accumulator(spark: SparkSession) -> Accumulator[int]:
    """Return an accumulator that keeps the largest number it was given."""
    from pyspark.accumulators import AccumulatorParam

    class Largest(AccumulatorParam[int]):
        def zero(self, value: int) -> int:
            return 0

        def addInPlace(self, value1: int, value2: int) -> int:  # noqa: N802
            return max(value1, value2)

    return spark.sparkContext.accumulator(0, Largest())
