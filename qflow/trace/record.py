"""Recording: from a broker that runs, or from a finished run, to a trace."""

from __future__ import annotations

from qflow.broker.broker import Broker
from qflow.broker.event_table import EventTable
from qflow.broker.store import DelayedStore, MessageStore
from qflow.trace.schema import Trace, TraceError
from qflow.workload.run import Run


def record(broker: Broker, run: str = "run") -> Trace:
    """Let a trace grow with everything a broker is told and does, from now on.

    Parameters
    ----------
    broker : Broker
        One that nothing has been asked of yet: a trace starts at the beginning, or it could not be
        replayed.
    run : str
        The run's name.

    Returns
    -------
    Trace
        The trace itself; ``broker.observe(None)`` ends it.

    Raises
    ------
    TraceError
        If the broker has been used already, or has a store of a kind that a replay could not make.

    Examples
    --------
    >>> broker = Broker()
    >>> trace = record(broker)
    >>> broker.session("s").queue_declare("q")
    >>> trace.kind
    ['session.attach', 'queue.declare', 'queueDeclare', 'bind', 'completed']
    """
    if broker.now or broker.sessions or broker.queues.queues:
        raise TraceError(
            "a trace starts with a fresh broker, so that it can be replayed; this one has been used already"
        )
    if type(broker.store) not in (MessageStore, DelayedStore):
        raise TraceError(
            f"a broker with a {type(broker.store).__name__} cannot be replayed; "
            "record one without a store, or with a DelayedStore"
        )
    trace = Trace(run, broker.options)
    broker.observe(trace.append)
    if isinstance(broker.store, DelayedStore):
        broker.emit("store.open", detail={"flushes_on_sync": broker.store.flushes_on_sync})
    return trace


def trace_of(run: Run) -> Trace:
    """Return a run of a workload as a trace.

    Parameters
    ----------
    run : Run
        What :func:`qflow.workload.simulate` gave.

    Returns
    -------
    Trace
        It holds the workload too, so that a what-if can start from the file alone.

    Examples
    --------
    >>> from qflow.workload import Workload, simulate
    >>> trace = trace_of(simulate(Workload("w", 1, {"q": {}})))
    >>> trace.run, trace.kind[0], trace.kind[-1]
    ('w', 'session.attach', 'session.detach')
    """
    trace = Trace(run.workload.name, run.workload.options, run.workload)
    events = run.events
    trace.extend(events if isinstance(events, EventTable) else EventTable(events))
    return trace
