"""Advice: thresholds for each queue of a fleet that cannot overflow, with the evidence (``qflow.design``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any

from qflow.broker.errors import AmqpException
from qflow.design import DesignError, Limits, Recommendation, recommend
from qflow.logs.audit import LakeRow
from qflow.prediction.extraction import extract
from qflow.spark.lake import in_order
from qflow.spark.sweep import LARGEST_COMPONENT, TooLarge, component_log, whole_components
from qflow.spark.tables import ADVICE, LAKE, to_batches
from qflow.spark.workers import map_batches
from qflow.workload.attributes import WorkloadError
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MESSAGES = 2_000
"""Messages that each simulation of a candidate sends."""

_AdviceRow = tuple[str, str, str, str, str, str, str, str]
"""A row of ADVICE."""


def advise(
    lake: DataFrame,
    limits: Mapping[str, Limits] | None = None,
    messages: int = _MESSAGES,
    allowed: int = LARGEST_COMPONENT,
) -> DataFrame:
    """Return, for each queue, settings that cannot overflow, what they rest on, and what they cost.

    Parameters:
        lake (DataFrame of LAKE): As for :func:`qflow.spark.lake_audit.audit`.
        limits: Pattern of queue names to what a queue may hold, for queues that declare no limit themselves.
        messages: How many messages each simulation of a candidate sends.
        allowed: Most rows of a component, as for :func:`qflow.spark.sweep.what_if`.

    Returns:
        In no order.
    """
    work = partial(_advise_partition, limits=dict(limits or {}), messages=messages, allowed=allowed)
    return map_batches(in_order(lake.select(*LAKE.names)), work, ADVICE)


def _advise_partition(
    batches: Iterator[Any], limits: Mapping[str, Limits], messages: int, allowed: int
) -> Iterator[Any]:
    for component, rows in whole_components(batches, allowed):
        yield from to_batches(_advise_component(component, rows, limits, messages), ADVICE)


def _advise_component(
    component: str,
    rows: list[LakeRow] | TooLarge,
    limits: Mapping[str, Limits],
    messages: int = _MESSAGES,
) -> list[_AdviceRow]:
    """Return the advice on one component's queues."""
    if isinstance(rows, TooLarge):
        return [(component, "", "", "", "", "", "", rows.text())]
    workload, log = component_log(component, rows)
    extracted = extract(log, workload).workload
    given = {
        queue: limit
        for queue, arguments in workload.queues.items()
        for pattern, limit in limits.items()
        if fnmatchcase(queue, pattern) and not {"qpid.max_count", "qpid.max_size"} & arguments.keys()
    }
    try:
        made = recommend(extracted, given, message_limit=messages)
    except (DesignError, AmqpException, WorkloadError) as error:
        return [(component, queue, "", "", "", "", "", str(error)) for queue in workload.queues]
    return list(_rows(component, workload, made))


_WORDS = {True: "could overflow", False: "cannot overflow", None: "not proved"}


def _rows(component: str, workload: Workload, made: Recommendation) -> Iterator[_AdviceRow]:
    windows = {name: made.capacities[name] for name in sorted(made.capacities)}
    costs = {"declared": _costs(made.declared), "recommended": _costs(made.evidence)}
    for queue in workload.queues:
        before, after = made.before[queue], made.verdicts[queue]
        yield (
            component,
            queue,
            made.lines.get(queue, ""),
            _WORDS[before.can_overflow],
            "; ".join(before.reasons),
            "; ".join(after.reasons),
            json.dumps({"capacity": windows, **costs}, sort_keys=True),
            made.kept.get(queue, ""),
        )


def _costs(costs: Any) -> dict[str, float | None]:
    names = ("flips_per_minute", "blocked_share", "latency_p50", "latency_p99")
    return {name: getattr(costs, name) for name in names}
