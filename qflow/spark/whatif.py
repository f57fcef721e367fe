"""What-if: the workload behind each component's log, simulated under other settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from qflow.broker.errors import AmqpException
from qflow.prediction.measures import client_measures, recorded_queue, rows_of_run
from qflow.spark.auditor import LakeRow
from qflow.spark.batches import to_batches
from qflow.spark.component_log import MOST_ROWS, TooLarge, component_log, whole_components
from qflow.spark.fleet_settings import FleetSettings
from qflow.spark.schema import LAKE, MEASURES
from qflow.trace.client_log import ClientLog
from qflow.trace.extract import extract
from qflow.workload.agenda import SECOND
from qflow.workload.checks import WorkloadError
from qflow.workload.measures import Measures, queue_measures
from qflow.workload.model import Workload
from qflow.workload.simulate import simulate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Measure = tuple[str, str, str, str, str, float | None, float | None, str]
"""A row of MEASURES."""
Section = dict[str, Measures]


def what_if(lake: DataFrame, settings: Sequence[FleetSettings], allowed: int = MOST_ROWS) -> DataFrame:
    """Return what each component would have done under each of some settings.

    Parameters
    ----------
    lake : DataFrame of LAKE
        As for :func:`qflow.spark.audit.audit`.
    settings : sequence of FleetSettings
    allowed : int
        Most rows of a component; a larger one gives one row that says so in its ``note``.

    Returns
    -------
    DataFrame of MEASURES
        In no order.
    """
    work = partial(_what_if_batches, settings=list(settings), allowed=allowed)
    return lake.select(*LAKE.names).mapInArrow(work, MEASURES.ddl)


def _what_if_batches(batches: Iterator[Any], settings: list[FleetSettings], allowed: int) -> Iterator[Any]:
    for component, rows in whole_components(batches, allowed):
        for measures in measured(component, rows, settings):
            yield from to_batches(measures, MEASURES)


def measured(
    component: str, rows: list[LakeRow] | TooLarge, settings: Sequence[FleetSettings]
) -> Iterator[list[Measure]]:
    """Yield the measures of a component under one of the settings after the other.

    The workload is extracted once; its chances are those of the log, so that settings are compared on the
    same messages.
    """
    if isinstance(rows, TooLarge):
        for setting in settings:
            yield [_note(component, setting, rows.text())]
        return
    workload, log = component_log(component, rows)
    end = round(workload.duration * SECOND)
    recorded = _recorded(workload, log, end)
    extracted = extract(log, workload).workload
    for setting in settings:
        try:
            predicted = _predicted(setting.of(workload).apply(extracted), end)
        except (AmqpException, WorkloadError) as error:
            yield [_note(component, setting, f"refused: {error}")]
            continue
        yield list(_rows(component, setting, recorded, predicted))


def _predicted(workload: Workload, end: int) -> dict[str, Section]:
    run = simulate(workload)
    producers, consumers = client_measures(
        rows_of_run(run.events),
        [producer.name for producer in workload.producers],
        [consumer.name for consumer in workload.consumers],
        end,
    )
    for name in producers:
        producers[name]["died"] = float(name in run.errors)
    queues = queue_measures(run.events, workload, end)
    return {"queues": queues, "producers": producers, "consumers": consumers}


def _recorded(workload: Workload, log: ClientLog, end: int) -> dict[str, Section]:
    accepted = dict.fromkeys(workload.queues, 0)
    for row in log.rows:
        if row.event == "accept" and row.ts_us <= end and row.queue in accepted:
            accepted[row.queue] += 1
    queues = {name: recorded_queue(log, name, accepted[name], end) for name in workload.queues}
    producers, consumers = client_measures(
        log.rows,
        [producer.name for producer in workload.producers],
        [consumer.name for consumer in workload.consumers],
        end,
    )
    died = {row.client for row in log.rows if row.event == "error"}
    for name in producers:
        producers[name]["died"] = float(name in died)
    known = {name: measures for name, measures in queues.items() if measures is not None}
    return {"queues": known, "producers": producers, "consumers": consumers}


def _rows(
    component: str, setting: FleetSettings, recorded: dict[str, Section], predicted: dict[str, Section]
) -> Iterator[Measure]:
    for section, names in predicted.items():
        for name in sorted(names):
            before = recorded[section].get(name, {})
            for measure, value in sorted(names[name].items()):
                yield (
                    component,
                    setting.name,
                    section,
                    name,
                    measure,
                    _number(before.get(measure)),
                    _number(value),
                    "",
                )


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def _note(component: str, setting: FleetSettings, text: str) -> Measure:
    return (component, setting.name, "", "", "", None, None, text)
