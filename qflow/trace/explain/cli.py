"""``qflow trace why FILE INSTANT SUBJECT``: say why something is as it is at an instant of a trace."""

from __future__ import annotations

import argparse
import json
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from qflow.kit import RefusalError
from qflow.trace.progress import progress

_SECOND = 1_000_000


def add_arguments(actions: Any) -> None:
    """Add ``why`` to the actions of ``qflow trace``."""
    why = actions.add_parser(
        "why",
        help="say why something is as it is at an instant, down to the root causes",
        description="Say why a producer is blocked, a transfer not complete, a queue ON, a message not "
        "delivered, a group not free, or a consumer idle.",
    )
    why.add_argument("file", metavar="FILE", help="a trace")
    why.add_argument("instant", metavar="INSTANT", help="a row's seq, such as 1200; or a time, such as 2.5s")
    why.add_argument(
        "subject",
        metavar="SUBJECT",
        help="producer:C1, transfer:C1-57, queue:q, message:A-1, group:A or consumer:late; "
        "or the name alone, if only one thing has it",
    )
    why.add_argument("--json", action="store_true", help="print one JSON object")


def run(namespace: argparse.Namespace) -> int:
    """Print the chain.

    Returns
    -------
    int
        0.

    Raises
    ------
    RefusalError
        If the instant is none.
    TraceError
        If the file holds no trace, or the trace no such instant or subject.
    """
    # Imported here, as the engine is: a command line that asks for something else shall not wait for it.
    from qflow.trace.explain.question import explain
    from qflow.trace.files import read_trace
    from qflow.trace.timeline import Timeline

    seq, time = instant(namespace.instant)
    name = Path(namespace.file).name
    with progress(f"reading {name}") as shown:
        trace, _ = read_trace(namespace.file, shown)
    with progress(f"replaying {name}", len(trace)) as shown:
        timeline = Timeline(trace, progress=shown)
    explanation = explain(timeline, seq, namespace.subject, time=time)
    print(json.dumps(explanation.data()) if namespace.json else explanation.text())
    return 0


def instant(text: str) -> tuple[int | None, int | None]:
    """Read an instant: a row's ``seq``, or a time in seconds; the other of the two is None.

    Raises
    ------
    RefusalError
        If it is neither.

    Examples
    --------
    >>> instant("1200"), instant("2.5s")
    ((1200, None), (None, 2500000))
    """
    if text.isascii() and text.isdecimal():
        return int(text), None
    try:
        time = Decimal(text.removesuffix("s")) * _SECOND
    except InvalidOperation:
        time = Decimal("NaN")
    if text.endswith("s") and time.is_finite() and time >= 0:
        return None, int(time)
    raise RefusalError(f"an instant is a row's seq, such as 1200, or a time, such as 2.5s; got {text!r}")
