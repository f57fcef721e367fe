"""Measures: from events, or from recorded rows, to numbers; each is defined here, and once.

Times are in seconds, shares are of the time from 0 to an instant ``end``; what comes later does not count.

==================== ==================================================================================
``max_depth``        most messages that were on a queue at one time
``mean_depth``       messages on a queue, averaged over time
``max_bytes``        most bytes that were on a queue at one time, as the broker counts them (DQ-05)
``share_on``         share of the time in which flow control was ON; it may be so at the end
``flowStoppedCount`` how often flow control turned ON (FC-19)
``throughput``       of a queue or a consumer: messages accepted a second; of a producer: sent a second
``blocked_share``    share of the time in which a producer waited for its window: until it went on, its
                     session ended, or the end
``latency_p50``, …   from a transfer to its completion as its producer learns of it: half of them, 90 %, 99 %
                     took no longer.  One that is not complete when the session or the time ends counts with
                     what it has waited.  None if nothing was sent.
``sessions_ended``   producers whose session an error ended (506, LP-05)
``discards``         messages that a ring dropped (LP-10)
==================== ==================================================================================

Whatever :meth:`DepthMeter.measures` returns is shown by ``qflow run``, predictions, Spark, and labs that
simulate.  Whoever needs less counts less, as :mod:`qflow.workload.measured` does, and never differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from qflow.broker.events import Event, of_kinds
from qflow.workload.agenda import SECOND
from qflow.workload.model import Producer, Senders, Workload

Measures = dict[str, float | int | None]
"""Measure to value; None where nothing is known."""

_PERCENTILES = (50, 90, 99)
_UNITS = {
    "of the time": ("share_on", "blocked_share", "busy_share"),
    "times": ("flowStoppedCount", "blocks"),
    "messages/s": ("throughput",),
    "s": tuple(f"latency_p{part}" for part in _PERCENTILES),
    "bytes": ("max_bytes",),
    "messages": (
        *("mean_depth", "max_depth", "depth", "discards", "sent", "accepts"),
        *("enqueued", "dequeued", "dropped", "held"),
    ),
}


def unit_of(measure: str) -> str:
    """Return the unit of a measure or of a count of events; "" where its name says what is counted.

    >>> unit_of("throughput"), unit_of("sessions_ended")
    ('messages/s', '')
    """
    return next((unit for unit, names in _UNITS.items() if measure in names), "")


class DepthMeter:
    """Averages one queue over time, from the start to an instant.

    >>> meter = DepthMeter(end=SECOND)
    >>> meter.at(0, 10, False); meter.at(SECOND // 2, 20, True); meter.measures()["mean_depth"]
    15.0
    """

    def __init__(self, end: int) -> None:
        self._end = end
        self._since = self._depth = self._stopped = self._area = self._on = self._filled = 0
        self._most = self.stops = 0

    def at(self, time: int, depth: int, is_stopped: bool) -> None:
        """Note the depth, and whether flow control is ON, from an instant on."""
        self._pass(time)
        if time <= self._end:
            self.stops += is_stopped and not self._stopped
            self._depth, self._stopped = depth, int(is_stopped)
            self._most = max(self._most, depth)

    def _pass(self, time: int) -> None:
        span = min(time, self._end) - self._since
        if span > 0:
            self._area += self._depth * span
            self._on += self._stopped * span
            self._filled += span if self._depth else 0
            self._since += span

    def filled_share(self) -> float:
        """Return for what share of time there were messages, up to the end."""
        self._pass(self._end)
        return self._filled / self._end

    def measures(self) -> Measures:
        """Return mean_depth, max_depth and share_on, up to the end."""
        self._pass(self._end)
        return {
            "mean_depth": self._area / self._end,
            "max_depth": self._most,
            "share_on": self._on / self._end,
        }


def queue_measures(
    events: Iterable[Event], workload: Workload, end: int, filled: dict[str, float] | None = None
) -> dict[str, Measures]:
    """Measure every queue of a run up to an instant; ``filled`` gets the share of time with messages."""
    meters = {name: DepthMeter(end) for name in workload.queues}
    depth, stopped = dict.fromkeys(meters, 0), dict.fromkeys(meters, False)
    accepts, discards = (dict.fromkeys(meters, 0) for _ in range(2))
    readers = {consumer.name: consumer.queue for consumer in workload.consumers}
    for event in of_kinds(events, _OF_QUEUES):
        kind, queue = event.kind, event.queue
        if event.time > end:
            break
        if kind == "message.accept":
            if event.session in readers:
                accepts[readers[event.session]] += len(_detail(event, "transfers", ()))
            continue
        if kind in ("enqueued", "dequeued"):
            depth[queue] += 1 if kind == "enqueued" else -1
            discards[queue] += kind == "dequeued" and _detail(event, "reason", "") == "ring"
        else:
            stopped[queue] = kind == "flow_stopped"
        meters[queue].at(event.time, depth[queue], stopped[queue])
    if filled is not None:
        filled.update((name, meter.filled_share()) for name, meter in meters.items())
    return {
        name: {
            **meter.measures(),
            "flowStoppedCount": meter.stops,
            "throughput": accepts[name] * SECOND / end,
            "discards": discards[name],
        }
        for name, meter in meters.items()
    }


_OF_QUEUES = frozenset(("message.accept", "enqueued", "dequeued", "flow_stopped", "flow_resumed"))


def _detail(event: Event, key: str, otherwise: Any) -> Any:
    return event.detail.get(key, otherwise) if isinstance(event.detail, dict) else otherwise


# Producers


class Act(NamedTuple):
    """What a client does or learns, as it would log it."""

    ts_us: int
    client: str
    event: str
    queue: str
    label: str


class _Logged(Protocol):
    """An :class:`Act`, or a recorded row of a log."""

    @property
    def ts_us(self) -> int:
        """When, in microseconds since the start."""

    @property
    def client(self) -> str:
        """Whose it is."""

    @property
    def event(self) -> str:
        """What it is: transfer, complete, refused, block, unblock, error."""

    @property
    def label(self) -> str:
        """Which message it is about."""


def acts_of(events: Iterable[Event], producers: Iterable[Producer] = ()) -> Iterator[Act]:
    """Yield what the clients of a simulated run would have logged."""
    # What a producer without a network sends is at the broker at once, and what is complete it knows.
    direct = [producer for producer in producers if producer.network is None]
    senders = Senders(direct)
    for event in of_kinds(events, _LOGGED if direct else {"exception", *_BY_CLIENTS}):
        kind, message = event.kind, event.message
        if kind == "exception":
            names: tuple[str, ...] = senders.on(event.session) or (event.session,)
        elif kind in _AT_THE_BROKER:
            sender = senders.of(event.session, message)
            names = (sender,) if sender and message else ()
        else:
            names = (event.session,)
        for name in names:
            yield Act(event.time, name, _LOGGED[kind], event.queue, message)


_AT_THE_BROKER = {"message.transfer": "transfer", "completed": "complete", "exception": "error"}
_CLIENT = ("block", "unblock", "transfer", "complete", "accept", "release", "reject", "deliver")
_BY_CLIENTS = {f"client.{kind}": kind for kind in _CLIENT}
_LOGGED = {**_AT_THE_BROKER, **_BY_CLIENTS}
"""Kinds of event to what clients log of them."""


class ProducerMeter:
    """Measures one producer, from what it did to an instant.

    >>> meter = ProducerMeter()
    >>> meter.note("transfer", 0, "p-1"); meter.note("transfer", 0, "p-2")
    >>> meter.note("complete", 9000, "p-1")
    >>> meter.measures(SECOND)["latency_p50"]
    1.0
    """

    def __init__(self) -> None:
        self.transfers = 0
        self._sent: dict[str, int] = {}
        self._latencies: list[int] = []
        self._waits: list[tuple[int, int]] = []
        self._since: int | None = None

    def note(self, kind: str, time: int, label: str = "") -> None:
        """Note what the producer did or learned: transfer, complete, refused, block, unblock, error."""
        if kind == "block":
            if self._since is None:
                self._since = time
        elif kind == "transfer":
            self.transfers += 1
            self._sent[label] = time
        elif kind == "complete":
            if label in self._sent:
                self._latencies.append(time - self._sent.pop(label))
        elif kind == "refused":
            self._sent.pop(label, None)
        if kind in ("unblock", "error") and self._since is not None:
            self._waits.append((self._since, time))
            self._since = None
        if kind == "error":
            # Nobody waits any more.
            self._latencies += [time - begin for begin in self._sent.values()]
            self._sent.clear()

    def latencies(self, end: int) -> list[int]:
        """Return the microseconds that each transfer took, or has waited at the end."""
        return self._latencies + [end - begin for begin in self._sent.values()]

    def blocked_share(self, end: int) -> float:
        """Return for what share of time the producer waited for its window."""
        still = [] if self._since is None else [(self._since, end)]
        return sum(max(0, min(until, end) - since) for since, until in self._waits + still) / end

    def measures(self, end: int) -> Measures:
        """Return blocked_share, throughput and the percentiles of the time to completion."""
        return {
            "blocked_share": self.blocked_share(end),
            "throughput": self.transfers * SECOND / end,
            **latency_measures(self.latencies(end)),
        }


def latency_measures(latencies: list[int]) -> Measures:
    """Return the percentiles of times in microseconds."""
    ordered, found = sorted(latencies), Measures()
    for percent in _PERCENTILES:
        place = min(len(ordered) - 1, len(ordered) * percent // 100)
        found[f"latency_p{percent}"] = ordered[place] / SECOND if ordered else None
    return found


def meters_of(acts: Iterable[_Logged], names: Iterable[str], end: int) -> dict[str, ProducerMeter]:
    """Return a meter of each producer, with what it did up to an instant."""
    meters = {name: ProducerMeter() for name in names}
    for act in acts:
        if act.ts_us <= end and act.client in meters:
            meters[act.client].note(act.event, act.ts_us, act.label)
    return meters


def producer_measures(rows: Sequence[_Logged], end: int) -> Measures:
    """Measure one producer by its rows, in their order."""
    meter = ProducerMeter()
    for row in rows:
        if row.ts_us > end:
            break
        meter.note(row.event, row.ts_us, row.label)
    return meter.measures(end)
