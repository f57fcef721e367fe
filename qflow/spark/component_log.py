"""A component's rows as a client log and a workload, for what needs all of them at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from qflow.spark.auditor import BEGIN, END, LakeRow
from qflow.spark.batches import runs, tuples
from qflow.spark.schema import LAKE
from qflow.trace.client_log import ClientLog
from qflow.trace.log_rows import LogRow
from qflow.workload.model import Workload

MOST_ROWS = 5_000_000
"""A component with more rows is left out of what needs them all in memory, about 1 kB each."""


class TooLarge(NamedTuple):
    """A component that was not kept: how many rows it has, and how many are allowed.

    Examples
    --------
    >>> TooLarge(12, 10).text()
    'too large: 12 events, 10 are allowed; an audit takes it, or allow more'
    """

    rows: int
    allowed: int

    def text(self) -> str:
        """Say it in a sentence."""
        return f"too large: {self.rows} events, {self.allowed} are allowed; an audit takes it, or allow more"


def component_log(component: str, rows: Iterable[LakeRow]) -> tuple[Workload, ClientLog]:
    """Return the workload and the log of a component.

    Raises
    ------
    ValueError
        If the component has no begin, and so no workload.

    Examples
    --------
    >>> from qflow.spark.memory import lake_of
    >>> lake = lake_of("log", Workload("w", 1, {"q": {}}), [LogRow(7, "broker", "stats", "q", "[]", 0, "")])
    >>> workload, log = component_log("log/q", lake["log/q"])
    >>> workload.name, len(log.rows)
    ('log/q', 1)
    """
    workload: Workload | None = None
    kept: list[LogRow] = []
    for _, time, client, event, queue, label, size, group in rows:
        if event == BEGIN:
            workload = Workload.from_json(json.loads(label), name=component)
        elif event != END:
            kept.append(LogRow(time, client, event, queue, label, size, group))
    if workload is None:
        raise ValueError(f"component {component!r} has no begin, and so no workload")
    return workload, ClientLog(component, kept)


def whole_components(
    batches: Iterator[Any], allowed: int = MOST_ROWS
) -> Iterator[tuple[str, list[LakeRow] | TooLarge]]:
    """Yield each component of a partition with all its rows; of one that is too large, only how large.

    Parameters
    ----------
    batches : iterator of Arrow batches of LAKE
    allowed : int
        Most rows that are kept.
    """
    current, count = "", 0
    kept: list[LakeRow] = []
    for batch in batches:
        for component, part in runs(batch, "component"):
            if component != current:
                if current:
                    yield current, kept if count <= allowed else TooLarge(count, allowed)
                current, kept, count = component, [], 0
            count += part.num_rows
            if count <= allowed:
                kept += tuples(part, LAKE.names[1:])
            else:
                kept = []
    if current:
        yield current, kept if count <= allowed else TooLarge(count, allowed)
