"""Who touches what: which clients and queues can ever influence one another.

Topology: which queues and clients belong together, found on the small table of who touches what.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from qflow.broker.errors import AmqpException
from qflow.broker.events import Event
from qflow.spark.tables import COMPONENTS, TOUCHES
from qflow.workload.model import Workload
from qflow.workload.stage import Stage, make_message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Touch = tuple[str, str, str]
"""Source, client, queue: a row of TOUCHES."""


def touches_of(source: str, workload: Workload) -> list[Touch]:
    """Return who touches what according to a workload.

    Where a producer's messages go is asked of the engine: it routes one of each producer.  Queues of a
    headers exchange are taken to be touched by all who send to it, as there it is the message that decides.

    Parameters
    ----------
    source : str
        Name of the log.
    workload : Workload
        Queues, bindings and clients.

    Examples
    --------
    >>> from qflow.workload import Consumer, Producer
    >>> workload = Workload(
    ...     "w",
    ...     1,
    ...     {"q": {}, "r": {}},
    ...     (("amq.fanout", "q", ""), ("amq.fanout", "r", "")),
    ...     (Producer("p", ("amq.fanout", ""), rate=1, capacity=1, size=1),),
    ...     (Consumer("c", "q", prefetch=1, service=("const", 1)),),
    ... )
    >>> touches_of("log", workload)
    [('log', 'c', 'q'), ('log', 'p', 'q'), ('log', 'p', 'r'), ('log', 'q', 'q'), ('log', 'r', 'r')]
    """
    pairs = {(queue, queue) for queue in workload.queues}
    pairs |= {(consumer.name, consumer.queue) for consumer in workload.consumers}
    try:
        pairs |= _routes(workload)
    except AmqpException:
        # A queue that the broker refuses: what cannot start is told by the audit, of all its clients.
        pairs |= {(p.name, queue) for p in workload.producers for queue in workload.queues}
    pairs |= {(session, queue) for session, queue in _shared_sessions(workload, pairs)}
    return [(source, client, queue) for client, queue in sorted(pairs)]


def _routes(workload: Workload) -> set[tuple[str, str]]:
    stage = Stage(workload, 0)
    headers = {name for name, _, _ in workload.binds if _is_headers(name)}
    pairs: set[tuple[str, str]] = set()
    for producer in workload.producers:
        exchange, key = producer.to
        reached: list[Event] = []
        stage.broker.observe(reached.append)
        session = stage.broker.session(producer.name)
        # Refused or full, it has no effect on any queue.
        with suppress(AmqpException):
            session.message_transfer(make_message(key, "probe", 0, ""), exchange)
        session.close()
        pairs |= {(producer.name, event.queue) for event in reached if event.kind in ("enqueued", "dropped")}
        if exchange in headers:
            pairs |= {(producer.name, queue) for name, queue, _ in workload.binds if name == exchange}
    return pairs


def _is_headers(exchange: str) -> bool:
    # A workload declares no exchanges of its own.
    return exchange == "amq.match"


def _shared_sessions(workload: Workload, pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Producers on one session share its fate and its window (CAP-09)."""
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


def components_of(touches: Iterable[Touch]) -> dict[tuple[str, str, str], str]:
    """Return the component of each client and each queue: connected parts of what touches what.

    Topologies of different times are joined by giving the touches of all of them.

    Parameters
    ----------
    touches : iterable of (source, client, queue)
        In any order, each any number of times.

    Returns
    -------
    dict
        (source, role, member) to component, role ``client`` or ``queue``.  A component is named after its
        source and the least of its queues, the same for any order of the touches.

    Examples
    --------
    >>> components_of([("log", "p", "r"), ("log", "c", "q"), ("log", "p", "q")])[("log", "client", "c")]
    'log/q'
    """
    import networkx

    graph = networkx.Graph()
    for source, client, queue in touches:
        graph.add_edge((source, "client", client), (source, "queue", queue))
    found: dict[tuple[str, str, str], str] = {}
    for part in networkx.connected_components(graph):
        source = min(part)[0]
        least = min(member for _, role, member in part if role == "queue")
        found.update(dict.fromkeys(part, f"{source}/{least}"))
    return dict(sorted(found.items()))


def part_of(workload: Workload, clients: Iterable[str], queues: Iterable[str], name: str) -> Workload:
    """Return the part of a workload that belongs to one component.

    Examples
    --------
    >>> part_of(Workload("w", 1, {"q": {}, "r": {}}), [], ["r"], "w/r").queues
    {'r': {}}
    """
    clients, queues = set(clients), set(queues)
    return workload.replace(
        name=name,
        queues={queue: arguments for queue, arguments in workload.queues.items() if queue in queues},
        binds=tuple(bind for bind in workload.binds if bind[1] in queues),
        producers=tuple(p for p in workload.producers if p.name in clients),
        consumers=tuple(c for c in workload.consumers if c.name in clients),
    )


def workload_text(workload: Workload) -> str:
    """Return a workload as JSON text, the same for the same workload.

    Examples
    --------
    >>> Workload.from_json(json.loads(workload_text(Workload("w", 1, {"q": {}})))).queues
    {'q': {}}
    """
    return json.dumps(dataclasses.asdict(workload), separators=(",", ":"), sort_keys=True)


def parts_of(
    workloads: Mapping[str, Workload], components: Mapping[tuple[str, str, str], str]
) -> dict[str, str]:
    """Return each component's own workload, as JSON text.

    Parameters
    ----------
    workloads : mapping
        Source to its workload.
    components : mapping
        What :func:`components_of` gave.
    """
    members: dict[str, dict[str, Any]] = {}
    for (source, role, member), component in components.items():
        entry = members.setdefault(component, {"source": source, "client": set(), "queue": set()})
        entry[role].add(member)
    return {
        component: workload_text(
            part_of(workloads[entry["source"]], entry["client"], entry["queue"], component)
        )
        for component, entry in sorted(members.items())
        if entry["source"] in workloads
    }


def touches(events: DataFrame, workloads: Mapping[str, Workload]) -> DataFrame:
    """Return who touches what: what the workloads state, and what the logs show besides.

    A topology that changes with time is the union of what it was: give one log and workload a period,
    and :func:`DataFrame.union` the frames.

    Parameters
    ----------
    events : DataFrame of EVENTS
    workloads : mapping
        Source to its workload.

    Returns
    -------
    DataFrame of TOUCHES
    """
    from pyspark.sql import functions as sf

    stated = [touch for source in sorted(workloads) for touch in touches_of(source, workloads[source])]
    known = events.sparkSession.createDataFrame(stated, TOUCHES.ddl)
    consumed = sf.col("event").isin("deliver", "accept", "release")
    shown = events.where(consumed).select(*TOUCHES.names).distinct()
    # A log may only add what a workload knows: unknown clients go to the quarantine, not into a component.
    clients = known.select("source", "client").distinct()
    queues = known.select("source", "queue").distinct()
    shown = shown.join(clients, ["source", "client"], "left_semi")
    shown = shown.join(queues, ["source", "queue"], "left_semi").select(*TOUCHES.names)
    return known.union(shown).distinct()


def components(touches: DataFrame) -> DataFrame:
    """Return the component of each client and queue.

    The table of who touches what is small (it grows with clients, not with events), so that it is taken to
    the driver, where networkx finds the connected components.

    Parameters
    ----------
    touches : DataFrame of TOUCHES

    Returns
    -------
    DataFrame of COMPONENTS
    """
    found = components_of((row.source, row.client, row.queue) for row in touches.collect())
    rows = [(source, component, member, role) for (source, role, member), component in found.items()]
    return touches.sparkSession.createDataFrame(rows, COMPONENTS.ddl)
