"""Components: groups of clients and queues that can influence one another, and logs split by component.

The history of a queue is a sequence that cannot be split, but queues without a common client are independent.
Two queues with a common client belong to one component: a transfer is complete only when each of its queues
has released it (CM-03), so the state of one queue influences what a producer sends to the other.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from qflow.broker.errors import AmqpException
from qflow.broker.events import Event
from qflow.logs.audit import Auditor
from qflow.logs.cleaning import CleanLog, Nobody, clean_rows
from qflow.logs.findings import Result
from qflow.logs.log_file import LakeRow, LogRow, read_log, source_of
from qflow.logs.tolerance import Tolerance
from qflow.logs.workload_file import workload_text
from qflow.workload.model import Workload
from qflow.workload.stage import Stage, make_message

_Touch = tuple[str, str, str]
"""A client that uses a queue: source (name of the log), client and queue."""


def touches_of(source: str, workload: Workload) -> list[_Touch]:
    """Return the clients of a workload with the queues that each sends to or reads from.

    The engine's exchanges determine the queues that a producer's messages reach.
    """
    pairs = {(queue, queue) for queue in workload.queues}
    pairs |= {(consumer.name, consumer.queue) for consumer in workload.consumers}
    try:
        pairs |= routes_of(workload)
    except AmqpException:
        # The broker refuses a queue, so the workload cannot start; the audit reports that for all clients.
        pairs |= {(p.name, queue) for p in workload.producers for queue in workload.queues}
    pairs |= {(session, queue) for session, queue in _shared_sessions(workload, pairs)}
    return [(source, client, queue) for client, queue in sorted(pairs)]


def routes_of(workload: Workload) -> set[tuple[str, str]]:
    """Return the pairs of a producer and a queue that its messages reach."""
    # A message of each producer is sent through the engine, so that exchanges are not modelled twice.
    stage = Stage(workload, 0)
    pairs: set[tuple[str, str]] = set()
    for producer in workload.producers:
        exchange, key = producer.to
        reached: list[Event] = []
        stage.broker.observe(reached.append)
        session = stage.broker.session(producer.name)
        # A refused message has no effect on any queue.
        with suppress(AmqpException):
            session.message_transfer(make_message(key, "probe", 0, ""), exchange)
        session.close()
        pairs |= {(producer.name, event.queue) for event in reached if event.kind in ("enqueued", "dropped")}
        if exchange == "amq.match":
            # amq.match is the only headers exchange, as a workload declares no exchanges.
            pairs |= {(producer.name, queue) for name, queue, _ in workload.binds if name == exchange}
    return pairs


def _shared_sessions(workload: Workload, pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return each producer on a shared session with all queues of that session (CAP-09)."""
    by_session: dict[str, set[str]] = {}
    for producer in workload.producers:
        if producer.session:
            queues = {queue for client, queue in pairs if client == producer.name}
            by_session.setdefault(producer.session, set()).update(queues)
    return {
        (producer.name, queue)
        for producer in workload.producers
        for queue in by_session.get(producer.session, ())
    }


def components_of(touches: Iterable[_Touch]) -> dict[tuple[str, str, str], str]:
    """Return the component of each client and each queue.

    Components are the connected parts of the graph that connects each client with its queues.
    """
    import networkx

    graph = networkx.Graph()
    for source, client, queue in touches:
        graph.add_edge((source, "client", client), (source, "queue", queue))
    found: dict[tuple[str, str, str], str] = {}
    for part in networkx.connected_components(graph):
        source = min(part)[0]
        # Named after the alphabetically first queue, so that the name does not depend on the order of rows.
        least = min(member for _, role, member in part if role == "queue")
        found.update(dict.fromkeys(part, f"{source}/{least}"))
    return dict(sorted(found.items()))


def parts_of(workload: Workload, components: Mapping[tuple[str, str, str], str]) -> dict[str, Workload]:
    """Return the workload of each component, by the component's name."""
    members: dict[str, dict[str, set[str]]] = {}
    for (_, role, member), component in components.items():
        members.setdefault(component, {"client": set(), "queue": set()})[role].add(member)
    return {
        component: workload.replace(
            name=component,
            queues={name: workload.queues[name] for name in workload.queues if name in own["queue"]},
            binds=tuple(bind for bind in workload.binds if bind[1] in own["queue"]),
            producers=tuple(p for p in workload.producers if p.name in own["client"]),
            consumers=tuple(c for c in workload.consumers if c.name in own["client"]),
        )
        for component, own in sorted(members.items())
    }


class Splitter:
    """A splitter of a log by components, which numbers the rows of each from ``begin`` to ``end``."""

    # shown: The pairs of client and queue in the log, which are added to those of the workload.
    def __init__(
        self,
        source: str,
        workload: Workload,
        tolerance: Tolerance | None = None,
        shown: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._source, self._time = source, 0
        touches = touches_of(source, workload)
        _, clients, queues = map(set, zip(*touches, strict=True)) if touches else (set(), set(), set())
        # Only clients and queues of the workload; others belong to no component.
        touches += [(source, *pair) for pair in shown if pair[0] in clients and pair[1] in queues]
        self._components = components_of(touches)
        parts = parts_of(workload, self._components)
        first = next(iter(parts), "")
        # Only the first component reports the log's gaps, so that each gap is one finding.
        labels = {"": ""}
        if tolerance is not None:
            labels = dict.fromkeys(parts, tolerance.unreported().text()) | {first: tolerance.text()}
        self._begins = {
            name: LakeRow.begin(workload_text(part), labels.get(name, "")) for name, part in parts.items()
        }
        self._next = dict.fromkeys(self._begins, 1)

    def begin(self) -> Iterator[tuple[str, LakeRow]]:
        """Yield the ``begin`` row of each component at the first call."""
        begins, self._begins = self._begins, {}
        yield from begins.items()

    def place(self, row: LogRow) -> tuple[str, LakeRow] | None:
        """Return a row's component and numbered row, or None if the workload lacks its client or queue."""
        self._time = max(0, row.ts_us)
        component = self.component_of(row.client, row.event, row.queue)
        if component is None:
            return None
        seq = self._next[component]
        self._next[component] = seq + 1
        return component, LakeRow.of(seq, row)

    def component_of(self, client: str, event: str, queue: str) -> str | None:
        """Return the component of a row's client (of its queue if the row is a report), or None."""
        role, member = ("queue", queue) if event == "stats" else ("client", client)
        return self._components.get((self._source, role, member))

    def split(self, rows: Iterable[LogRow]) -> Iterator[tuple[str, LakeRow]]:
        """Yield the ``begin`` row of each component, then the rows that have a component."""
        yield from self.begin()
        yield from filter(None, map(self.place, rows))

    def end(self) -> Iterator[tuple[str, LakeRow]]:
        """Yield the ``end`` row of each component, at the end of the log."""
        for name, seq in self._next.items():
            yield name, LakeRow.end(seq, self._time)


def lake_of(source: str, workload: Workload, rows: Sequence[LogRow]) -> dict[str, list[LakeRow]]:
    """Return the numbered rows of each component of a log, after cleaning it, in memory."""
    clean = clean_rows(rows)
    rows = clean.rows()
    splitter = Splitter(source, workload, clean.tolerance)
    lake: dict[str, list[LakeRow]] = {}
    for component, row in (*splitter.split(rows), *splitter.end()):
        lake.setdefault(component, []).append(row)
    return lake


def read_components(
    path: str | Path, workload: Workload, chosen: Collection[str] = ()
) -> tuple[dict[str, int], dict[str, list[LakeRow]]]:
    """Read a log file in batches: count the rows of all components, and keep the rows of some.

    This saves memory: for a log of half a million rows, keeping all rows takes 200 MB more than keeping four
    components.

    Parameters:
        path: The log; it is read at least twice.
        workload: The workload that was recorded.
        chosen: The components to keep, as :func:`components_of` names them.

    Returns:
        The number of rows of each component, ``begin`` and ``end`` included, and the rows of the chosen
        components.

    Raises:
        LogError: If the file cannot be read as a log.

    >>> from qflow import Workload, kit_path
    >>> ring = kit_path("data") / "recordings" / "workloads"
    >>> counts, lake = read_components(ring / "ring.csv.gz", Workload.load(ring / "ring.json"), ["ring/q"])
    >>> counts["ring/q"] == len(lake["ring/q"])
    True
    """
    clean = CleanLog(lambda: read_log(path))
    clean.look(Nobody)
    splitter = Splitter(source_of(path), workload, clean.tolerance)
    counts: Counter[str] = Counter()
    lake: dict[str, list[LakeRow]] = {name: [] for name in chosen}
    rows = splitter.split(chain.from_iterable(clean.parts()))
    for component, row in chain(rows, splitter.end()):
        counts[component] += 1
        if component in lake:
            lake[component].append(row)
    return dict(counts), lake


def audit_in_memory(lake: Mapping[str, Iterable[LakeRow]]) -> list[Result]:
    """Audit each component, and return the results in order of component and number."""
    results: list[Result] = []
    for component in sorted(lake):
        auditor = Auditor(component)
        results += auditor.feed(lake[component])
        results += auditor.cut_off()
    return results


def result_hash(results: Iterable[Sequence[object]]) -> str:
    """Return a hash of results that is independent of their order, to compare two audits."""
    digest = hashlib.sha256()
    for line in sorted(json.dumps(list(row), separators=(",", ":")) for row in results):
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()
