"""The pipeline without Spark: the same functions on lists, for small logs, tests and comparison."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from qflow.spark.auditor import BEGIN, END, Auditor, LakeRow, ResultRow
from qflow.spark.touches import components_of, parts_of, touches_of
from qflow.trace.log_rows import LogRow
from qflow.workload.model import Workload


def lake_of(source: str, workload: Workload, rows: Sequence[LogRow]) -> dict[str, list[LakeRow]]:
    """Split a log by components, each with its begin and its end: what layout writes, in memory.

    Parameters
    ----------
    source : str
        Name of the log.
    workload : Workload
        What was run.
    rows : sequence of LogRow
        The log, in order.

    Returns
    -------
    dict
        Component to its rows.  Rows of clients and queues that the workload has not are left out.

    Examples
    --------
    >>> lake = lake_of("log", Workload("w", 1, {"q": {}}), [])
    >>> [row[3] for row in lake["log/q"]]
    ['begin', 'end']
    """
    components = components_of(touches_of(source, workload))
    lake: dict[str, list[LakeRow]] = {
        component: [(0, 0, "", BEGIN, "", text, 0, "")]
        for component, text in parts_of({source: workload}, components).items()
    }
    last = 0
    for row in rows:
        last = max(0, row.ts_us)
        role, member = ("queue", row.queue) if row.event == "stats" else ("client", row.client)
        component = components.get((source, role, member))
        if component is not None:
            part = lake[component]
            part.append((len(part), last, *row[1:]))
    for part in lake.values():
        part.append((len(part), last, "", END, "", "", 0, ""))
    return lake


def audit(lake: Mapping[str, Iterable[LakeRow]]) -> list[ResultRow]:
    """Audit each component; results in order of component and number.

    Examples
    --------
    >>> audit(lake_of("log", Workload("w", 1, {"q": {}}), []))
    []
    """
    results: list[ResultRow] = []
    for component in sorted(lake):
        auditor = Auditor(component)
        results += auditor.feed(lake[component])
        results += auditor.cut_off()
    return results


def result_hash(results: Iterable[Sequence[object]]) -> str:
    """Return a hash of results in any order: equal for equal results, however they came about.

    Parameters
    ----------
    results : iterable of rows
        Rows of RESULTS: tuples, or what Spark's ``collect`` gives.

    Examples
    --------
    >>> result_hash([("b", 1), ("a", 2)]) == result_hash([["a", 2], ["b", 1]])
    True
    """
    digest = hashlib.sha256()
    for line in sorted(json.dumps(list(row), separators=(",", ":")) for row in results):
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()
