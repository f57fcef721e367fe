"""``qflow trace why FILE INSTANT SUBJECT``: say why something is as it is at an instant of a trace."""

from __future__ import annotations

import argparse
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.trace.explain.explanation import seconds
from qflow.trace.progress import progress

if TYPE_CHECKING:
    from qflow.trace.schema import Trace

_SECOND = 1_000_000
# No more digits than 64 bits hold: a seq and a time in microseconds are columns.
_ROW = re.compile(r"[0-9]{1,18}")
_SHOWN = 60
_TIME = re.compile(r"([0-9]{1,12}(\.[0-9]*)?|\.[0-9]+)s")


def add_arguments(actions: Any) -> None:
    """Add ``why`` to the actions of ``qflow trace``."""
    why = actions.add_parser(
        "why",
        help="say why something is as it is at an instant, down to the root causes",
        description="Say why a producer is blocked, a transfer not complete, a queue ON, a message not "
        "delivered, a group not free, or a consumer idle. An instant after the trace's end is answered for "
        "its end, and the answer says so.",
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
    note = past_the_end(trace, seq, time)
    if namespace.json:
        print(json.dumps({**explanation.data(), "note": note}))
    else:
        print(explanation.text() if note is None else f"{note}\n{explanation.text()}")
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
    if _ROW.fullmatch(text):
        return int(text), None
    if _TIME.fullmatch(text):
        return None, int(Decimal(text.removesuffix("s")) * _SECOND)
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    raise RefusalError(f"an instant is a row's seq, such as 1200, or a time, such as 2.5s; got {shown!r}")


def past_the_end(trace: Trace, seq: int | None, time: int | None) -> str | None:
    """Say that an instant lies after all that the trace tells, so that the answer is about its end.

    Where the workload was to last longer than the last row, that time is the trace's too: nothing happened
    in it.

    Parameters
    ----------
    trace : Trace
        What was asked about.
    seq, time : int or None
        The instant: a row's ``seq``, or a time in microseconds; the other is None.

    Returns
    -------
    str or None
        The sentence; None if the instant is one of the trace's.

    Examples
    --------
    >>> from qflow.broker import Broker
    >>> from qflow.trace.record import record
    >>> broker = Broker()
    >>> trace = record(broker)
    >>> broker.advance(1_500_000)
    >>> session = broker.session("p")
    >>> past_the_end(trace, None, 99_000_000)
    'The trace ends at 1.5 s (seq 0); this is the state at its end.'
    >>> past_the_end(trace, None, 1_500_000) is None
    True
    """
    last = trace.time[-1]
    planned = trace.workload.duration * _SECOND if trace.workload is not None else 0
    if (seq is None or seq <= trace.seq[-1]) and (time is None or time <= max(last, planned)):
        return None
    return f"The trace ends at {seconds(last)} (seq {trace.seq[-1]}); this is the state at its end."
