"""Sweep: every component under every setting; may be killed at any moment and goes on where it was."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.spark.batches import to_batches
from qflow.spark.component_log import MOST_ROWS, whole_components
from qflow.spark.fleet_settings import FleetSettings, require_unique
from qflow.spark.schema import LAKE, MEASURES, Column, Table
from qflow.spark.whatif import Measure, measured

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELLS = Table([Column("component", "string", "source/queue"), Column("setting", "string", "its name")])
"""What a worker says it has done."""

Tell = Callable[[int, int], None]


def sweep(
    lake: DataFrame,
    settings: Sequence[FleetSettings],
    folder: str | Path,
    tell: Tell | None = None,
    allowed: int = MOST_ROWS,
) -> DataFrame:
    """Return the measures of every component under every setting.

    A component under a setting is a cell.  Each cell's measures are written to a file of their own as soon
    as they are known, under a temporary name first; so a sweep that was killed goes on with the cells that
    are missing, and none is done twice.

    Parameters
    ----------
    lake : DataFrame of LAKE
        As for :func:`qflow.spark.audit.audit`.
    settings : sequence of FleetSettings
        With names that differ.
    folder : str or Path
        Where cells are kept; on a cluster, a folder that the driver and all workers share.
    tell : callable or None
        Told now and then how many cells of how many are done.
    allowed : int
        Most rows of a component, as for :func:`qflow.spark.whatif.what_if`.

    Returns
    -------
    DataFrame of MEASURES

    Raises
    ------
    SettingsError
        If two settings have the same name.
    RefusalError
        If the folder cannot be made.
    """
    require_unique(settings)
    cells = _cells_folder(folder)
    components = sorted(row.component for row in lake.select("component").distinct().collect())
    by_name = {setting.name: setting for setting in settings}
    pending = _pending(components, list(by_name.values()), cells)
    if pending:
        total = len(components) * len(settings)
        few = lake.where(lake.component.isin(list(pending))).select(*LAKE.names)
        work = partial(_sweep_batches, pending=pending, settings=by_name, cells=str(cells), allowed=allowed)
        with _Watch(cells, components, settings, total, tell):
            few.mapInArrow(work, CELLS.ddl).count()
    rows = [row for c in components for s in settings for row in read_cell(cells / cell_name(c, s))]
    return lake.sparkSession.createDataFrame(rows, MEASURES.ddl)


def cell_name(component: str, setting: FleetSettings) -> str:
    """Return the name of a cell's file: another for any other component or setting.

    Examples
    --------
    >>> cell_name("log/q", FleetSettings("a")) == cell_name("log/q", FleetSettings("b"))
    False
    """
    return hashlib.sha256(f"{component}\n{setting.text()}".encode()).hexdigest()[:24] + ".json"


def write_cell(path: Path, rows: Sequence[Measure]) -> None:
    """Write a cell's measures, all or none."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}.part")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(rows, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def read_cell(path: Path) -> list[tuple[Any, ...]]:
    """Read a cell's measures."""
    return [tuple(row) for row in json.loads(path.read_text(encoding="utf-8"))]


def _pending(
    components: Sequence[str], settings: Sequence[FleetSettings], cells: Path
) -> dict[str, list[str]]:
    done = {path.name for path in cells.glob("*.json")}
    pending: dict[str, list[str]] = {}
    for component in components:
        missing = [setting.name for setting in settings if cell_name(component, setting) not in done]
        if missing:
            pending[component] = missing
    return pending


def _sweep_batches(
    batches: Iterator[Any],
    pending: Mapping[str, list[str]],
    settings: Mapping[str, FleetSettings],
    cells: str,
    allowed: int,
) -> Iterator[Any]:
    for component, rows in whole_components(batches, allowed):
        missing = [settings[name] for name in pending.get(component, ())]
        done = []
        for setting, measures in zip(missing, measured(component, rows, missing), strict=True):
            write_cell(Path(cells, cell_name(component, setting)), measures)
            done.append((component, setting.name))
        yield from to_batches(done, CELLS)


def _cells_folder(folder: str | Path) -> Path:
    cells = Path(folder) / "cells"
    try:
        cells.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RefusalError(f"{folder}: the sweep keeps its cells there: {error.strerror or error}") from None
    return cells


class _Watch:
    """Counts the cells that are done while Spark is at work."""

    def __init__(
        self,
        cells: Path,
        components: Sequence[str],
        settings: Sequence[FleetSettings],
        total: int,
        tell: Tell | None,
    ) -> None:
        self._wanted = {cell_name(component, setting) for component in components for setting in settings}
        self._cells, self._total, self._tell = cells, total, tell
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while self._tell is not None:
            over = self._is_over.wait(0.5)
            done = sum(path.name in self._wanted for path in self._cells.glob("*.json"))
            self._tell(done, self._total)
            if over:
                return
