"""Audit: the engine over each component of a lake, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from qflow.spark.auditor import Auditor
from qflow.spark.batches import runs, to_batches, tuples
from qflow.spark.schema import LAKE, RESULTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROW = LAKE.names[1:]


def audit(lake: DataFrame) -> DataFrame:
    """Return intervals and findings of every component.

    Parameters
    ----------
    lake : DataFrame of LAKE
        In each partition a component's rows stand together and in order of ``seq``, as in the files that
        :func:`qflow.spark.layout.write_lake` writes; of any other frame,
        :func:`qflow.spark.layout.in_order` makes one.  Rows that are not in order leave findings.

    Returns
    -------
    DataFrame of RESULTS
        In no order; ``component`` and ``number`` are its key.
    """
    return lake.select(*LAKE.names).mapInArrow(audit_batches, RESULTS.ddl)


def audit_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """Audit the rows of one partition, batch by batch; this is what a worker runs."""
    auditor: Auditor | None = None
    for batch in batches:
        results: list[Any] = []
        for component, part in runs(batch, "component"):
            if auditor is None or auditor.component != component:
                if auditor is not None:
                    results += auditor.cut_off()
                auditor = Auditor(component)
            results += auditor.feed(tuples(part, _ROW))
        yield from to_batches(results, RESULTS)
    if auditor is not None:
        yield from to_batches(auditor.cut_off(), RESULTS)
