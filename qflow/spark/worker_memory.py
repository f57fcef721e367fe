"""How much memory workers took, told by the workers themselves."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession


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


def peak_accumulator(spark: SparkSession) -> Accumulator[int]:
    """Return an accumulator that keeps the largest number it was given."""
    from pyspark.accumulators import AccumulatorParam

    class Largest(AccumulatorParam[int]):
        def zero(self, value: int) -> int:
            return 0

        def addInPlace(self, value1: int, value2: int) -> int:  # noqa: N802
            return max(value1, value2)

    return spark.sparkContext.accumulator(0, Largest())
