"""A trace as a client log: what its clients would have written down, and the workload behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qflow.kit import RefusalError
from qflow.spark.log_reader import source_of
from qflow.spark.touches import workload_text
from qflow.trace.files import read_trace
from qflow.trace.log_rows import LogRow
from qflow.trace.quarantine import Quarantine
from qflow.trace.schema import NAMES, Trace, TraceError
from qflow.workload.clients import Consumer, Producer
from qflow.workload.model import SETUP, Workload


def is_trace(path: str) -> bool:
    """Tell whether a file is a trace and not a client log: by its ending, of Parquet by its columns."""
    if not path.endswith(".parquet"):
        return path.endswith((".jsonl", ".jsonl.gz"))
    import pyarrow
    from pyarrow import parquet

    try:
        return tuple(parquet.read_schema(path).names) == NAMES
    except (OSError, pyarrow.ArrowInvalid):
        # Damaged: ingest will say so, row by row.
        return False


def import_trace(path: str, folder: Path) -> tuple[str, Quarantine]:
    """Write a trace as a client log and its workload, and return the log's path and what was set aside."""
    import pyarrow
    from pyarrow import parquet

    workload, rows, quarantine = trace_log(path)
    source = source_of(path)
    (folder / f"{source}.json").write_text(workload_text(workload), encoding="utf-8")
    types = {"ts_us": pyarrow.int64(), "size": pyarrow.int64()}
    columns = {
        name: pyarrow.array([row[place] for row in rows], types.get(name, pyarrow.string()))
        for place, name in enumerate(LogRow._fields)
    }
    log = folder / f"{source}.parquet"
    parquet.write_table(pyarrow.table(columns), log)
    return str(log), quarantine


def trace_log(path: str | Path) -> tuple[Workload, list[LogRow], Quarantine]:
    """Read a trace for the pipeline.

    Parameters
    ----------
    path : str or Path
        ``.parquet``, ``.jsonl`` or ``.jsonl.gz``.

    Returns
    -------
    (Workload, list of LogRow, Quarantine)
        The workload is the one in the trace's header; of a trace without one, what its commands tell: times
        of clients are then unknown, which an audit does not need.

    Raises
    ------
    RefusalError
        If no row can be read.
    """
    try:
        trace, quarantine = read_trace(path)
    except TraceError as error:
        raise RefusalError(str(error)) from None
    return trace.workload or workload_of(trace), list(log_rows(trace)), quarantine


def log_rows(trace: Trace) -> Iterator[LogRow]:
    """Yield what the clients of a trace would have logged.

    Examples
    --------
    >>> from qflow.broker.events import Event
    >>> trace = Trace()
    >>> trace.append(Event(7, "client.block", session="p"))
    >>> list(log_rows(trace))
    [LogRow(ts_us=7, client='p', event='block', queue='', label='', size=0, group='')]
    """
    labels: dict[tuple[str, int], tuple[str, str]] = {}
    for event in trace.events():
        detail: Any = event.detail or {}
        if event.kind == "message.transfer":
            message = detail["message"]
            key = message.routing_key or event.link
            size = message.content_size
            group = event.group or str((message.headers or {}).get("group", ""))
            yield LogRow(event.time, event.session, "transfer", key, event.message, size, group)
        elif event.kind == "delivered":
            labels[event.session, detail["delivery"]] = event.queue, event.message
            yield LogRow(event.time, event.session, "deliver", event.queue, event.message, 0, event.group)
        elif event.kind in ("message.accept", "message.release"):
            verdict = event.kind.partition(".")[2]
            for number in detail["transfers"]:
                place = labels.pop((event.session, number), None)
                if place is not None:
                    yield LogRow(event.time, event.session, verdict, *place, 0, "")
        elif event.kind in ("client.block", "client.unblock"):
            yield LogRow(event.time, event.session, event.kind.partition(".")[2], "", "", 0, "")
        elif event.kind == "exception":
            text = f"{detail.get('code')} {detail.get('name')}: {detail.get('text')}"
            yield LogRow(event.time, event.session, "error", "", text, 0, "")


def workload_of(trace: Trace) -> Workload:
    """Return the queues, bindings and clients that a trace's commands tell of.

    Raises
    ------
    RefusalError
        If a session sends to several addresses or reads several queues: a log's clients do one thing each.
    """
    queues: dict[str, Any] = {}
    binds: list[tuple[str, str, str]] = []
    sends: dict[str, tuple[str, str]] = {}
    reads: dict[str, tuple[str, int, float]] = {}
    for event in trace.events():
        detail: Any = event.detail or {}
        if event.kind == "queueDeclare":
            queues[event.queue] = detail["arguments"]
        elif event.kind == "bind" and event.link:
            binds.append((event.link, event.queue, detail["key"]))
        elif event.kind == "message.transfer":
            _once(sends, event.session, (event.link, detail["message"].routing_key or ""), "sends to")
        elif event.kind == "message.subscribe" and event.session not in reads:
            reads[event.session] = (event.queue, 1, event.time / 1_000_000)
        elif event.kind == "message.subscribe":
            raise RefusalError(
                f"session {event.session!r} subscribes twice; a log's clients do one thing each"
            )
        elif event.kind == "message.flow" and detail.get("unit") == 0 and event.session in reads:
            queue, _, since = reads[event.session]
            reads[event.session] = (queue, detail["value"], since)
    producers = tuple(
        Producer(name, to, rate=1, capacity=1, size=0) for name, to in sends.items() if name != SETUP
    )
    consumers = tuple(
        Consumer(name, queue, prefetch, ("const", 1.0), start=since)
        for name, (queue, prefetch, since) in reads.items()
    )
    seconds = max(1.0, (trace.time[-1] if len(trace) else 0) / 1_000_000)
    return Workload(trace.run, seconds, queues, tuple(dict.fromkeys(binds)), producers, consumers)


def _once(known: dict[str, tuple[str, str]], session: str, value: tuple[str, str], does: str) -> None:
    if known.setdefault(session, value) != value:
        raise RefusalError(
            f"session {session!r} {does} {known[session]!r} and {value!r}; a log's clients do one thing each"
        )
