"""Synth: a plausible fleet of any size, one partition a seed, laid out as a lake."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.broker.events import Event
from qflow.kit import RefusalError
from qflow.spark.auditor import BEGIN, END
from qflow.spark.batches import to_batches
from qflow.spark.fleet_model import FleetModel, recorded_fleet
from qflow.spark.schema import LAKE
from qflow.spark.steps import Steps
from qflow.spark.touches import workload_text
from qflow.spark.workers import freeze_modules, peak_memory
from qflow.workload.model import Workload
from qflow.workload.simulate import set_up
from qflow.workload.stage import Stage, uncollected

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

REPORT = 50_000
"""Microseconds between two reports of the broker, as in the recorded fleet."""

Logged = tuple[int, str, str, str, str, int, str]


class _ClientSide(list[Event]):
    """Takes the engine's events and keeps what clients would have logged of them."""

    def __init__(self, workload: Workload) -> None:
        super().__init__()
        self.rows: list[Logged] = []
        self._names = {producer.name: producer.to[1] or producer.to[0] for producer in workload.producers}
        self._queues = {consumer.name: consumer.queue for consumer in workload.consumers}
        self._commands: dict[tuple[str, int], str] = {}
        self._deliveries: dict[tuple[str, int], str] = {}
        self._sizes: dict[tuple[str, str], tuple[int, str]] = {}
        self._sending = (0, "")
        self._kinds: dict[str, Callable[[Event, Any], None]] = {
            "message.transfer": self._transfer,
            "completed": self._completed,
            "enqueued": self._enqueued,
            "dequeued": self._dequeued,
            "delivered": self._delivered,
            "message.accept": self._settled,
            "message.release": self._settled,
            "exception": self._died,
            "client.block": self._window,
            "client.unblock": self._window,
        }

    def append(self, event: Event) -> None:
        """Take note of an event."""
        kind = self._kinds.get(event.kind)
        if kind is not None:
            kind(event, event.detail)

    def _transfer(self, event: Event, detail: Any) -> None:
        message = detail["message"]
        group = str(message.headers.get("group", ""))
        self._sending = (message.content_size, group)
        self._commands[event.session, detail["command"]] = event.message
        name = self._names[event.session]
        self.rows.append(
            (event.time, event.session, "transfer", name, event.message, message.content_size, group)
        )

    def _completed(self, event: Event, detail: Any) -> None:
        label = self._commands.pop((event.session, detail["command"]), None)
        if label is not None:
            self.rows.append((event.time, event.session, "complete", "", label, 0, ""))

    def _enqueued(self, event: Event, _: Any) -> None:
        self._sizes[event.queue, event.message] = self._sending

    def _dequeued(self, event: Event, _: Any) -> None:
        self._sizes.pop((event.queue, event.message), None)

    def _delivered(self, event: Event, detail: Any) -> None:
        self._deliveries[event.session, detail["delivery"]] = event.message
        size, group = self._sizes[event.queue, event.message]
        self.rows.append((event.time, event.session, "deliver", event.queue, event.message, size, group))

    def _settled(self, event: Event, detail: Any) -> None:
        verdict = event.kind.partition(".")[2]
        for number in detail["transfers"]:
            label = self._deliveries.pop((event.session, number))
            queue = self._queues[event.session]
            self.rows.append((event.time, event.session, verdict, queue, label, 0, ""))

    def _died(self, event: Event, detail: Any) -> None:
        text = f"{detail['code']} {detail['name']}: {detail['text']}"
        self.rows.append((event.time, event.session, "error", "", text, 0, ""))

    def _window(self, event: Event, _: Any) -> None:
        self.rows.append((event.time, event.session, event.kind.partition(".")[2], "", "", 0, ""))


def synthetic_rows(seed: int, events: int, model: FleetModel) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of one synthetic component, in order; memory does not grow with their number.

    Parameters
    ----------
    seed : int
        Decides everything.
    events : int
        How many rows, begin and end included; fewer if its clients have come to a stop for good.
    model : FleetModel
        What to draw from.

    Examples
    --------
    >>> rows = list(synthetic_rows(1, 500, FleetModel.recorded()))
    >>> len(rows), rows[0][4], rows[-1][4]
    (500, 'begin', 'end')
    """
    # Long enough for the slowest producer there may be: what ends the run is the number of rows.
    workload = model.draw(seed, duration=float(max(60, events)))
    component = f"synth/{workload.name}"
    yield (component, 0, 0, "", BEGIN, "", workload_text(workload), 0, "")
    seq, time = 1, 0
    for row in _logged(workload):
        if seq >= events - 1:
            break
        time = row[0]
        yield (component, seq, *row)
        seq += 1
    yield (component, seq, time, "", END, "", "", 0, "")


def _logged(workload: Workload) -> Iterator[Logged]:
    with uncollected():
        stage = set_up(workload)
    client_side = _ClientSide(workload)
    stage.broker.observe(client_side.append)
    stage.events = client_side
    now = 0
    while now < stage.agenda.end:
        now += REPORT
        with uncollected():
            stage.run(until=now)
        rows, client_side.rows = client_side.rows, []
        yield from rows
        yield from _reports(stage, workload, now)


def _reports(stage: Stage, workload: Workload, now: int) -> Iterator[Logged]:
    for queue in workload.queues:
        told = stage.broker.queue(queue).statistics()
        values = [
            told.msgDepth,
            told.byteDepth,
            told.flowStopped,
            told.flowStoppedCount,
            told.acquires,
            told.releases,
            told.discardsRing,
        ]
        yield (now, "broker", "stats", queue, json.dumps(values), 0, "")


def share(events: int, queues: int, seed: int) -> int:
    """Return how many of all events a seed's component has: they differ by one at most.

    Examples
    --------
    >>> [share(10, 3, seed) for seed in range(3)]
    [4, 3, 3]
    """
    return events // queues + (seed < events % queues)


def synthetic_fleet(
    spark: SparkSession,
    queues: int,
    events: int,
    seeds: Sequence[int] | None = None,
    peak: Accumulator[int] | None = None,
) -> DataFrame:
    """Return a synthetic fleet: one partition a seed.

    Parameters
    ----------
    spark : SparkSession
    queues : int
        How many components the whole fleet has; seeds 0 to ``queues - 1``.
    events : int
        How many rows the whole fleet has.
    seeds : sequence of int or None
        Only these components of it, in a row; None for all.
    peak : Accumulator or None
        Told the most memory that a worker took (:mod:`qflow.spark.workers`).

    Returns
    -------
    DataFrame of LAKE
        Each partition is one component, in order.

    Raises
    ------
    RefusalError
        If there are fewer than three events a component.
    """
    _require_enough(queues, events)
    chosen = range(queues) if seeds is None else seeds
    # The recorded fleet travels with the task: a worker need not hold qflow's data.
    recorded = workload_text(recorded_fleet())
    made = partial(_made, recorded=recorded, queues=queues, events=events, peak=peak)
    return spark.range(chosen[0], chosen[-1] + 1, 1, len(chosen)).mapInArrow(made, LAKE.ddl)


def _made(
    batches: Iterator[Any], recorded: str, queues: int, events: int, peak: Accumulator[int] | None
) -> Iterator[Any]:
    freeze_modules()
    model = FleetModel.of(Workload.from_json(json.loads(recorded)))
    for batch in batches:
        for seed in batch.column("id").to_pylist():
            yield from to_batches(synthetic_rows(seed, share(events, queues, seed), model), LAKE)
    if peak is not None:
        peak.add(peak_memory())


def write_fleet(
    spark: SparkSession,
    queues: int,
    events: int,
    folder: str | Path,
    tell: Callable[[int], None] | None = None,
    peak: Accumulator[int] | None = None,
) -> None:
    """Write a synthetic fleet as a lake, step by step; killed at any moment, it goes on where it was.

    Parameters
    ----------
    spark : SparkSession
    queues, events : int
        Of the whole fleet.
    folder : str or Path
        New or empty, or begun before with the same numbers.
    tell : callable or None
        Told after each step how many components are done.
    peak : Accumulator or None
        As for :func:`synthetic_fleet`.

    Raises
    ------
    RefusalError
        If the folder holds something else already, or there are fewer than three events a component.
    """
    _require_enough(queues, events)
    numbers = f"{queues} queues and {events} events"
    steps = Steps(spark, folder, "a synthetic fleet", numbers, range(queues))
    for done in steps.run(partial(synthetic_fleet, spark, queues, events, peak=peak)):
        if tell is not None:
            tell(done)


def _require_enough(queues: int, events: int) -> None:
    if queues < 1 or events < 3 * queues:
        raise RefusalError(f"a fleet has 1 queue or more, and 3 events or more each; got {queues}, {events}")
