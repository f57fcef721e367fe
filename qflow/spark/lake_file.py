"""A lake's file, read by whoever needs its rows, with or without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from qflow.spark.batches import MOST_ROWS
from qflow.spark.schema import LAKE


class LakeError(ValueError):
    """A file that is no file of a lake, or cannot be read to its end."""


def read_lake_file(path: str, rows: int = MOST_ROWS) -> Iterator[Any]:
    """Yield a file's rows in order, as Arrow batches of LAKE.

    Parameters
    ----------
    path : str
        A Parquet file.
    rows : int
        Rows of a batch, at most.

    Raises
    ------
    LakeError
        If the file is damaged, or has other columns.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            _require_columns(path, file.schema_arrow)
            yield from file.iter_batches(batch_size=rows, columns=list(LAKE.names))
    except (pyarrow.ArrowException, OSError) as error:
        words = str(error).strip().splitlines()[0]
        raise LakeError(f"{path}: the file is cut off or damaged, or no Parquet ({words})") from None


def _require_columns(path: str, got: Any) -> None:
    for field in LAKE.arrow():
        found = got.field(field.name).type if field.name in got.names else None
        if found != field.type:
            here = f"of type {found}" if found else "missing"
            raise LakeError(
                f"{path}: a lake has the column {field.name} of type {field.type}, here it is {here}"
            )
