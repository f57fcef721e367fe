"""The workload that a log alone lets one guess, when there is no workload file.

A workload as a file that ``qflow run`` accepts: what differs from the defaults, as JSON.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from qflow.logs.client_log import ClientLog
from qflow.logs.log_file import LogError, LogRow
from qflow.trace.schema import Trace
from qflow.workload.agenda import SECOND
from qflow.workload.model import SETUP, Consumer, Producer, Workload
from qflow.writing import written


def inferred_workload(log: ClientLog) -> Workload:
    """Return queues with default arguments, and each client as its rows show it.

    A window is as large as the most that was ever outstanding; producers send to the queue that their
    rows name.  No log says what the queues were declared with.

    Raises
    ------
    LogError
        If the log has no client.

    Examples
    --------
    >>> rows = [LogRow(5, "p", "transfer", "q", "p-1", 7, ""), LogRow(9, "c", "deliver", "q", "p-1", 7, "")]
    >>> workload = inferred_workload(ClientLog("small", rows))
    >>> workload.queues, workload.producers[0].capacity, workload.consumers[0].prefetch
    ({'q': {}}, 1, 1)
    """
    by_client: dict[str, list[LogRow]] = {}
    for row in log.rows:
        if row.event != "stats":
            by_client.setdefault(row.client, []).append(row)
    if not by_client:
        raise LogError("the log tells of no client, so there is no workload behind it")
    seconds = max(1.0, max((row.ts_us for row in log.rows if row.event == "transfer"), default=0) / SECOND)
    producers: list[Producer] = []
    consumers: list[Consumer] = []
    for name, rows in by_client.items():
        kinds = {row.event for row in rows}
        if "transfer" in kinds:
            producers.append(_producer(name, rows, seconds))
        elif "deliver" in kinds:
            consumers.append(_consumer(name, rows))
    queues = {producer.to[1] for producer in producers} | {consumer.queue for consumer in consumers}
    queues |= {row.queue for row in log.rows if row.event == "stats"}
    return Workload(
        log.name, seconds, {name: {} for name in sorted(queues)}, (), tuple(producers), tuple(consumers)
    )


def _producer(name: str, rows: Sequence[LogRow], seconds: float) -> Producer:
    sent = [row for row in rows if row.event == "transfer"]
    size = round(sum(row.size for row in sent) / len(sent))
    window = _most(rows, "transfer", ("complete", "refused"))
    return Producer(name, ("", sent[0].queue), len(sent) / seconds, window, size)


def _consumer(name: str, rows: Sequence[LogRow]) -> Consumer:
    start = max(0, rows[0].ts_us) / SECOND
    prefetch = _most(rows, "deliver", ("accept", "release", "reject"))
    # It subscribed before the first delivery; how long before is not known.
    return Consumer(name, rows[0].queue, prefetch, ("exp", 0.001), start=0.0 if start < 1 else start)


def _most(rows: Sequence[LogRow], more: str, fewer: Sequence[str]) -> int:
    count = most = 0
    for row in rows:
        count += (row.event == more) - (row.event in fewer)
        most = max(most, count)
    return max(1, most)


def workload_json(workload: Workload) -> dict[str, Any]:
    """Return what :meth:`qflow.workload.Workload.from_json` reads back as the same workload.

    Examples
    --------
    >>> workload = Workload("w", 1, {"q": {"qpid.max_count": 5}})
    >>> workload_json(workload)
    {'name': 'w', 'duration': 1, 'queues': {'q': {'qpid.max_count': 5}}}
    >>> Workload.from_json(workload_json(workload)) == workload
    True
    """
    return _different(workload)


def workload_text(workload: Workload) -> str:
    """Return the same as one line of text, the same for the same workload.

    Examples
    --------
    >>> workload_text(Workload("w", 1, {"q": {}}))
    '{"name":"w","duration":1,"queues":{"q":{}}}'
    """
    return json.dumps(workload_json(workload), separators=(",", ":"))


def write_workload(workload: Workload, path: str | Path) -> None:
    """Write a workload file; the same workload gives the same bytes.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    text = json.dumps(workload_json(workload), indent=1) + "\n"
    with written(path) as beside:
        beside.write_text(text, encoding="utf-8")


def _stated(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _different(value)
    if isinstance(value, Mapping):
        return {name: _stated(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_stated(item) for item in value]
    return value


def _different(value: Any) -> dict[str, Any]:
    """Return a record's attributes but those that are as they are without being given."""
    stated: dict[str, Any] = {}
    for item in dataclasses.fields(value):
        given = getattr(value, item.name)
        otherwise = item.default
        if item.default_factory is not dataclasses.MISSING:
            otherwise = item.default_factory()
        if otherwise is dataclasses.MISSING or given != otherwise:
            stated[item.name] = _stated(given)
    return stated


def workload_of(trace: Trace) -> Workload:
    """Return the queues, bindings and clients that a trace's commands tell of.

    Raises
    ------
    LogError
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
            raise LogError(f"session {event.session!r} subscribes twice; a log's clients do one thing each")
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
        raise LogError(
            f"session {session!r} {does} {known[session]!r} and {value!r}; a log's clients do one thing each"
        )
