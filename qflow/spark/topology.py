"""Topology: which queues and clients belong together, found on the small table of who touches what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qflow.spark.schema import COMPONENTS, TOUCHES
from qflow.spark.touches import components_of, touches_of
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
