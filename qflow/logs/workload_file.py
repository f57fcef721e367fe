"""Workload files: guess a workload from a client log without one, and write workloads as JSON.

The guess (:class:`Guess`) contains the clients that the log shows, each producer with the queue that its rows
name.  A producer's capacity is the largest number of its outstanding transfers, which is certain only for a
producer that was blocked.  No log shows the arguments with which queues were declared, so the guessed queues
have no limits and no flow control.

A workload file, which ``qflow run`` accepts, is a JSON object of the values that differ from the defaults.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qflow.logs.log_file import SETTLEMENTS, LogError, LogRow
from qflow.trace.schema import Trace
from qflow.workload.agenda import SECOND
from qflow.workload.model import INFERRED, NOT_SEEN_DECLARED, SETUP, Consumer, Producer, Workload
from qflow.writing import write_file


@dataclass(slots=True)
class _Client:
    """The observed values of a client: its first queue and time, and its counts and largest windows."""

    queue: str
    since: int
    to: str | None = None
    sent: int = 0
    size: int = 0
    outstanding: int = 0
    window: int = 1
    has_blocked: bool = False
    completed: int = 0
    delivered: int = 0
    unsettled: int = 0
    prefetch: int = 1


NOT_SEEN = "not seen"
"""The start of a text in ``inferred`` of a workload file about a value that no record shows."""


class Guess:
    """A guess of the workload from a log's rows, in memory that does not grow with the log's length."""

    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}
        self._queues: set[str] = set()
        self._last = 0
        # The time of the first row, and the latest time.
        self.first: int | None = None
        self.last = 0

    def take(self, row: LogRow) -> None:
        """Add the next row to the guess."""
        time, name, event, queue, _, size, _ = row
        if time > self.last:
            self.last = time
        if self.first is None:
            self.first = time
        if event == "stats":
            self._queues.add(queue)
            return
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = _Client(queue, time)
        if event == "transfer":
            # A workload's producer sends to a single address, so only the first one is used.
            client.to = queue if client.to is None else client.to
            client.sent += 1
            client.size += size
            client.outstanding += 1
            client.window = max(client.window, client.outstanding)
            # Only sends define the duration, as consumers may continue long after the producers' end.
            self._last = max(self._last, time)
        elif event in ("complete", "refused"):
            client.outstanding -= 1
            client.completed += 1
        elif event == "block":
            client.has_blocked = True
        elif event == "deliver":
            client.delivered += 1
            client.unsettled += 1
            client.prefetch = max(client.prefetch, client.unsettled)
        elif event in SETTLEMENTS:
            client.unsettled -= 1

    def collect_inferred(self) -> dict[str, str]:
        """Return why each unobserved value is unknown, by its path, for ``inferred`` of a workload file."""
        words = "no log says how it was declared; thresholds unknown, it is written without limits"
        inferred = {f"queues.{name}": f"{NOT_SEEN}: {words}" for name in self._all_queues()}
        for name, of in self._clients.items():
            # A producer that blocked had its whole window outstanding. Without completions, the number of
            # outstanding transfers only grows and shows nothing.
            if not of.sent or (of.has_blocked and of.completed):
                continue
            words = (
                f"it never blocked, its window may be larger; the most outstanding, {of.window}, is written"
            )
            if not of.completed:
                words = f"no row shows a completion; its number of messages, {of.sent}, is written"
            inferred[f"producers.{name}.capacity"] = f"{NOT_SEEN}: {words}"
        return inferred

    def _all_queues(self) -> list[str]:
        clients = self._clients.values()
        used = {of.to or "" if of.sent else of.queue for of in clients if of.sent or of.delivered}
        return sorted(used | self._queues)

    def workload(self, name: str) -> Workload:
        """Return a workload of the observed clients and queues without limits, or raise a LogError."""
        if not self._clients:
            raise LogError("a log must have rows of clients to guess its workload; got none")
        seconds = max(1.0, self._last / SECOND)
        senders = {name: client for name, client in self._clients.items() if client.sent}
        readers = {n: client for n, client in self._clients.items() if client.delivered and not client.sent}
        producers = tuple(
            Producer(name, ("", of.to or ""), of.sent / seconds, of.window, round(of.size / of.sent))
            for name, of in senders.items()
        )
        # A consumer subscribed before its first delivery; how long before is unknown.
        consumers = tuple(
            Consumer(name, of.queue, of.prefetch, ("exp", 0.001), start=since if since >= 1 else 0.0)
            for name, of in readers.items()
            for since in [max(0, of.since) / SECOND]
        )
        # An explicit 0, as the broker's default limit of 100 MiB applies otherwise (LP-01).
        unlimited = {"qpid.max_size": 0, **NOT_SEEN_DECLARED}
        arguments: dict[str, dict[str, Any]] = dict.fromkeys(self._all_queues(), unlimited)
        return Workload(name, seconds, arguments, (), producers, consumers)


def workload_json(workload: Workload) -> dict[str, Any]:
    """Return a workload as the JSON value that :meth:`qflow.workload.Workload.from_json` reads."""
    return dict(_as_json(workload))


def workload_text(workload: Workload) -> str:
    """Return a workload as one line of JSON; equal workloads give equal text."""
    return json.dumps(workload_json(workload), separators=(",", ":"))


def unseen_capacities(path: str | Path) -> dict[str, str]:
    """Return the producers of a workload file whose capacity no record shows, with the file's reasons."""
    stated = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    inferred = stated.get(INFERRED) if isinstance(stated, dict) else None
    words = inferred.items() if isinstance(inferred, dict) else ()
    return {
        key.removeprefix("producers.").removesuffix(".capacity"): value
        for key, value in words
        if key.startswith("producers.") and key.endswith(".capacity") and str(value).startswith(NOT_SEEN)
    }


def write_workload(workload: Workload, path: str | Path, inferred: Mapping[str, str] | None = None) -> None:
    """Write a workload file; equal workloads give equal bytes."""
    stated = workload_json(workload) | ({INFERRED: dict(inferred)} if inferred else {})
    write_file(path, json.dumps(stated, indent=1) + "\n")


def _as_json(value: Any) -> Any:
    """Return a value as a JSON value; a dataclass becomes an object without its default values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = [(item, getattr(value, item.name)) for item in dataclasses.fields(value)]
        return {item.name: _as_json(own) for item, own in given if own != _default(item)}
    if isinstance(value, Mapping):
        return {name: _as_json(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_as_json(item) for item in value]
    return value


def _default(item: dataclasses.Field[Any]) -> Any:
    return item.default if item.default_factory is dataclasses.MISSING else item.default_factory()


def workload_of(trace: Trace) -> Workload:
    """Return a workload of the queues, bindings and clients in a trace."""
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
            reads[event.session] = (event.queue, 1, event.time / SECOND)
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
    seconds = max(1.0, (trace.time[-1] if len(trace) else 0) / SECOND)
    return Workload(trace.run, seconds, queues, tuple(dict.fromkeys(binds)), producers, consumers)


def _once(known: dict[str, tuple[str, str]], session: str, value: tuple[str, str], does: str) -> None:
    if known.setdefault(session, value) != value:
        raise LogError(
            f"session {session!r} {does} {known[session]!r} and {value!r}; a log's clients do one thing each"
        )
