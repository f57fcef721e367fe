"""Receipts: what was predicted, from what; and after the change, what came of it.

A receipt is written before the change: a JSON file with the workload as it will be set up, the log by its
hash, the intervals and the branches.  A log recorded afterwards is held against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qflow.logs.client_log import ClientLog
from qflow.prediction.intervals import branch_of, ended_words, is_of_branch
from qflow.prediction.replays import recorded_sections
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import require
from qflow.workload.model import Workload
from qflow.workload.run import measure_text

_FORMAT = "qflow receipt 1"


def receipt_of(prediction: Mapping[str, Any]) -> dict[str, Any]:
    """Return the receipt of a prediction, for :func:`score`: a mapping ready for JSON.

    >>> from qflow.prediction import predict
    >>> receipt_of(predict(Workload("w", 1, {"q": {}}), ClientLog("w", []), replays=1))["intervals"]
    {'q': {}}
    """
    names = ("inputs", "settings", "model", "detail", "replays", "branches")
    return {
        "format": _FORMAT,
        **{name: prediction[name] for name in names},
        "intervals": {queue: entry["interval"] for queue, entry in prediction["queues"].items()},
        "dies": {name: entry["dies"] for name, entry in prediction["producers"].items()},
    }


def score(receipt: Mapping[str, Any], log: ClientLog) -> dict[str, Any]:
    """Return what came: for each measure whether it lies in its interval, and which branch came.

    Parameters:
        receipt: Of :func:`receipt_of`.
        log: What the clients saw after the change.

    Returns:
        A mapping, ready for JSON: ``measures`` lists for each queue and measure what was ``recorded``, the
        interval (``low``, ``high``), and whether it is ``inside``; of the branch that came also
        ``in_branch``.  ``ended`` says which sessions ended, at which second; ``branch`` is the branch that
        came, or None.

    Raises:
        WorkloadError: If it is no receipt.

    >>> score({"format": "?"}, ClientLog("w", []))
    Traceback (most recent call last):
        ...
    qflow.workload.attributes.WorkloadError: score: a receipt must be one that --receipt wrote, got '?'
    """
    kind = receipt.get("format") if isinstance(receipt, Mapping) else receipt
    require(kind == _FORMAT, "score", "a receipt", kind, "one that --receipt wrote")
    workload = Workload.from_json(receipt["inputs"]["workload"])
    recorded = recorded_sections(workload, log, round(workload.duration * SECOND))["queues"]
    errors = reversed([row for row in log.rows if row.event == "error"])
    ended = {row.client: row.ts_us / SECOND for row in errors}
    branch = branch_of(receipt["branches"], ended)
    measures = []
    for queue, intervals in receipt["intervals"].items():
        for measure, (low, high) in intervals.items():
            value = recorded.get(queue, {}).get(measure)
            if value is None:
                continue
            names = {"queue": queue, "measure": measure, "recorded": value, "low": low, "high": high}
            measures.append(names | {"inside": low <= value <= high})
            if branch is not None:
                first, last = branch["queues"][queue][measure]
                measures[-1]["in_branch"] = first <= value <= last
    return {"inputs": receipt["inputs"], "measures": measures, "ended": ended, "branch": branch}


def score_text(found: Mapping[str, Any]) -> str:
    """Return what :func:`score` gives as lines of plain text."""
    inputs, measures, branch = found["inputs"], found["measures"], found["branch"]
    title = f"from {inputs['log']['name']}, {inputs['log']['sha256'][:8]}"
    lines = [f"{title:<30}{'recorded':>12}{'low':>12}{'high':>12}"]
    for one in measures:
        words = "".join(f"{measure_text(one[name]):>12}" for name in ("recorded", "low", "high"))
        is_inside = "inside" if one["inside"] else "OUTSIDE"
        lines.append(f"{one['queue']:<12}{one['measure']:<18}{words}  {is_inside}")
    lines.append(f"{sum(one['inside'] for one in measures)} of {len(measures)} lie inside; 80 of 100 are to")
    if branch is not None:
        held = sum(one["in_branch"] for one in measures)
        which, share = ended_words(branch["when"]["ended"]), 100 * branch["share"]
        if not is_of_branch(branch, found["ended"]):
            came = ended_words({name: [second, second] for name, second in found["ended"].items()})
            which = f"{came}, as in no replay; nearest to that: {which}"
        lines.append(
            f"what came: {which} (predicted: {share:.0f} %); {held} of {len(measures)} lie inside of that"
        )
    return "\n".join(lines)
