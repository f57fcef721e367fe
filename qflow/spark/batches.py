"""Arrow batches to tuples and back, for functions that Spark hands batches to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from qflow.spark.schema import Table

MOST_ROWS = 10_000
"""Rows of a batch that is handed on, at most."""


def tuples(batch: Any, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield a batch's rows, with the named columns in that order."""
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def runs(batch: Any, name: str) -> Iterator[tuple[Any, Any]]:
    """Yield the runs of equal values of a column: the value, and the slice of the batch that has it."""
    import pyarrow.compute

    encoded = pyarrow.compute.run_end_encode(batch.column(name))
    start = 0
    for value, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
        yield value, batch.slice(start, end - start)
        start = end


def to_batches(rows: Iterable[Sequence[Any]], table: Table, most: int = MOST_ROWS) -> Iterator[Any]:
    """Yield rows as batches of a table's schema, of so many rows at most."""
    schema = table.arrow()
    part: list[Sequence[Any]] = []
    for row in rows:
        part.append(row)
        if len(part) == most:
            yield _batch(part, schema)
            part = []
    if part:
        yield _batch(part, schema)


def _batch(rows: list[Sequence[Any]], schema: Any) -> Any:
    import pyarrow

    columns = zip(*rows, strict=True)
    arrays = [pyarrow.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
