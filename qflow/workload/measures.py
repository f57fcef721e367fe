"""Measures: the numbers computed from the events of a run or from the rows of a log, each defined once, here.

Times are in seconds.  Shares, rates and counts refer to the **time base**, the interval from 0 to an instant
``end``; later events do not count.  It is the time in which messages fall due: the workload's duration, or
for a run with a limited number of messages the time until the last is sent
(:attr:`qflow.workload.Run.time_base`). The ten seconds after it, in which clients catch up, are left out, as
they would lower every share and rate of a short run.

==================== ==================================================================================
``max_depth``        the largest number of messages on a queue at any time
``mean_depth``       the number of messages on a queue, averaged over time
``max_bytes``        the largest number of bytes on a queue at any time, as the broker counts them (DQ-05)
``share_on``         the share of time in which flow control was ON
``flowStoppedCount`` the number of times that flow control turned ON (FC-19)
``throughput``       messages accepted per second (of a queue or consumer), or sent per second (of a producer)
``blocked_share``    the share of time in which a producer was blocked by its full window; a block ends when
                     the producer resumes, when its session ends, or at ``end``
``latency_p50``, …   percentiles (50, 90, 99) of the time from a transfer until its producer learns of its
                     completion.  A transfer that is incomplete when the session or the time base ends counts
                     with the time until then.  None if nothing was sent.
``wait_p50``, …      percentiles (50, 99) and maximum (``wait_max``) of the time from a message's due time to
                     its transfer, in which it waits for its producer's window, or behind messages that do.  A
                     message not sent when the session or the time base ends counts with the time until then.
                     None if no message was due; absent for a log, which does not record due times.
``sessions_ended``   the producers whose session an error ended (506, LP-05)
``discards``         the number of messages that a ring dropped, as QMF counts them (LP-10); a consumer that
                     had acquired such a message may still accept it
``lost``             the number of messages that a ring dropped and that no consumer accepted
==================== ==================================================================================

``qflow run``, predictions, Spark and the labs that simulate all show these measures, computed here.  Code
that needs only a few, such as :mod:`qflow.workload.measured`, may compute fewer of them, but by the same
definitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile, tee
from math import inf
from typing import Any, NamedTuple

from qflow.broker.events import Event, of_kinds
from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import due_messages
from qflow.workload.model import Producer, Senders, Workload

Measures = dict[str, float | int | None]
"""Measures by name, each with its value, or None if it is unknown."""

_PERCENTILES = (50, 90, 99)
_UNITS = {
    "of the time": ("share_on", "blocked_share", "busy_share"),
    "times": ("flowStoppedCount", "blocks"),
    "messages/s": ("throughput",),
    "s": (*(f"latency_p{part}" for part in _PERCENTILES), "wait_p50", "wait_p99", "wait_max"),
    "bytes": ("max_bytes",),
    "messages": (
        *("mean_depth", "max_depth", "depth", "discards", "lost", "sent", "accepts"),
        *("enqueued", "dequeued", "dropped", "held"),
    ),
}


def unit_of(measure: str) -> str:
    """Return the unit of a measure or event count, or "" if its name implies the unit."""
    return next((unit for unit, names in _UNITS.items() if measure in names), "")


def measures_text(measures: Mapping[str, float | int | None]) -> str:
    """Return measures as one line of text, each with its name, value and unit."""
    words = []
    for name, value in measures.items():
        unit = unit_of(name)
        if value == 1 and unit in ("times", "messages", "bytes"):
            unit = unit.removesuffix("s")
        words.append(f"{name} {measure_text(value)} {unit}".rstrip())
    return ", ".join(words)


def measure_text(value: float | int | None) -> str:
    """Return a measure's value as text: with four significant digits if a float below 1000, else rounded."""
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) and abs(value) < 1000 else f"{value:.0f}"


class DepthMeter:
    """A meter of one queue's depth and flow state, which averages them over the time from 0 to `end`."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._since = self._depth = self._stopped = self._area = self._on = self._filled = 0
        self._most = self.stops = 0

    def at(self, time: int, depth: int, is_stopped: bool) -> None:
        """Record the depth and flow state that hold from the instant `time` on."""
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
        """Return the share of the time base in which the queue was not empty."""
        self._pass(self._end)
        return self._filled / self._end

    def measures(self) -> Measures:
        """Return mean_depth, max_depth and share_on of the time base."""
        self._pass(self._end)
        return {
            "mean_depth": self._area / self._end,
            "max_depth": self._most,
            "share_on": self._on / self._end,
        }


class QueueMeters:
    """A meter of every queue of a run, which takes the run's events in order."""

    def __init__(self, workload: Workload, end: int) -> None:
        self._end = end
        self.meters = meters = {name: DepthMeter(end) for name in workload.queues}
        self._depth, self._stopped = dict.fromkeys(meters, 0), dict.fromkeys(meters, False)
        self._accepts, self._discards, self.max_bytes = (dict.fromkeys(meters, 0) for _ in range(3))
        # Accepts minus dequeues by accept: the accepts of messages that a ring had already dropped (LP-11).
        self._late_accepts = dict.fromkeys(meters, 0)
        self._readers = {consumer.name: consumer.queue for consumer in workload.consumers}

    def take(self, events: Iterable[Event]) -> None:
        """Count the next events of the run."""
        depth = self._depth
        for event in of_kinds(events, _OF_QUEUES):
            kind, queue = event.kind, event.queue
            # The share of time ON, the mean depth and the rates all refer to the same time base; a message
            # that is settled in the grace period after it counts in none of them.
            if event.time > self._end:
                break
            if kind == "message.accept":
                if event.session in self._readers:
                    # One accept may settle several deliveries.
                    queue, count = self._readers[event.session], len(_detail(event, "transfers", ()))
                    self._accepts[queue] += count
                    self._late_accepts[queue] += count
                continue
            if kind == "enqueued":
                depth[queue] += 1
                self.max_bytes[queue] = max(self.max_bytes[queue], _detail(event, "bytes", 0))
            elif kind == "dequeued":
                depth[queue] -= 1
                reason = _detail(event, "reason", "")
                self._discards[queue] += reason == "ring"
                self._late_accepts[queue] -= reason == "accept"
            else:
                self._stopped[queue] = kind == "flow_stopped"
            self.meters[queue].at(event.time, depth[queue], self._stopped[queue])

    def lost(self, queue: str) -> int:
        """Return the number of messages that a ring dropped and no consumer accepted."""
        # QMF counts a message that is evicted while a consumer serves it as discarded and as accepted: 500
        # sent were once 497 discards and 301 accepts.
        return self._discards[queue] - self._late_accepts[queue] if self._discards[queue] else 0

    def measures(self) -> dict[str, Measures]:
        """Return the measures of all queues, by queue name."""
        return {
            name: {
                **meter.measures(),
                "flowStoppedCount": meter.stops,
                "throughput": self._accepts[name] * SECOND / self._end,
                "discards": self._discards[name],
            }
            for name, meter in self.meters.items()
        }


def queue_measures(
    events: Iterable[Event], workload: Workload, end: int, filled: dict[str, float] | None = None
) -> dict[str, Measures]:
    """Return all queues' measures by name; add to ``filled`` the shares of time with messages on them."""
    meters = QueueMeters(workload, end)
    meters.take(events)
    if filled is not None:
        filled.update((name, meter.filled_share()) for name, meter in meters.meters.items())
    return meters.measures()


_OF_QUEUES = frozenset(("message.accept", "enqueued", "dequeued", "flow_stopped", "flow_resumed"))


def _detail(event: Event, key: str, otherwise: Any) -> Any:
    return event.detail.get(key, otherwise) if isinstance(event.detail, dict) else otherwise


# Producers


class Act(NamedTuple):
    """An act or observation of a client, as a row of its log."""

    ts_us: int
    client: str
    event: str
    queue: str
    label: str


def acts_of(events: Iterable[Event], producers: Iterable[Producer] = ()) -> Iterator[Act]:
    """Yield the log rows that the clients of a simulated run would have written."""
    # Events of the broker also serve as acts of a producer without a network: its transfers reach the broker
    # at once, and it knows at once of their completion.
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
"""The kinds of event that clients log, each with the name of the act in a log."""


class ProducerMeter:
    """A meter of one producer, which takes the producer's acts in order."""

    # With the simulated producer and its duration in seconds, the meter can compute when each message was
    # due.

    def __init__(self, producer: Producer | None = None, duration: float = inf) -> None:
        self.transfers = 0
        self._producer = producer
        due = () if producer is None else (due for due, _, _ in due_messages(producer))
        self._due: Iterator[int] = takewhile(lambda time: time <= duration * SECOND, due)
        self._is_closed = producer is not None and producer.model == "closed"
        self._waited: list[int] = []
        self._died: int | None = None
        self._sent: dict[str, int] = {}
        self._latencies: list[int] = []
        self._waits: list[tuple[int, int]] = []
        self._since: int | None = None

    def note(self, kind: str, time: int, label: str = "") -> None:
        """Record an act of the producer or an answer: transfer, complete, refused, block, unblock, error."""
        if kind == "block":
            if self._since is None:
                self._since = time
        elif kind == "transfer":
            self.transfers += 1
            self._sent[label] = time
            if self._producer is not None:
                self._waited.append(max(0, time - self._due_of_next(time)))
        elif kind == "complete":
            if label in self._sent:
                self._latencies.append(time - self._sent.pop(label))
        elif kind == "refused":
            self._sent.pop(label, None)
        if kind in ("unblock", "error") and self._since is not None:
            self._waits.append((self._since, time))
            self._since = None
        if kind == "error":
            self._died = time
            # A transfer that is never confirmed waited until the session ended. Leaving it out would make a
            # run in which producers die look faster than one in which they wait.
            self._latencies += [time - begin for begin in self._sent.values()]
            self._sent.clear()

    def _due_of_next(self, now: int) -> int:
        """Return the due time of the message sent now; a closed producer's is now, or when a block began."""
        if not self._is_closed:
            return next(self._due)
        # A block that ended now began when the message fell due.
        return self._waits[-1][0] if self._waits and self._waits[-1][1] == now else now

    def waits(self, end: int) -> list[int]:
        """Return the microseconds that each due message waited until its transfer, or until the end."""
        until = end if self._died is None else min(end, self._died)
        if self._is_closed:
            return self._waited + ([] if self._since is None else [until - self._since])
        # Messages that fell due and were not sent have waited, too. The schedule is read ahead on a copy.
        self._due, due = tee(self._due)
        return self._waited + [until - time for time in takewhile(lambda time: time <= until, due)]

    def latencies(self, end: int) -> list[int]:
        """Return the microseconds from each transfer to its completion, or to the end if it is incomplete."""
        # Censored at the end: incomplete transfers take at least as long. Percentiles of completed transfers
        # alone would look best where hardly any completes.
        return self._latencies + [end - begin for begin in self._sent.values()]

    def blocked_share(self, end: int) -> float:
        """Return the share of the time up to `end` in which the producer was blocked by its full window."""
        still = [] if self._since is None else [(self._since, end)]
        return sum(max(0, min(until, end) - since) for since, until in self._waits + still) / end

    def measures(self, end: int) -> Measures:
        """Return blocked_share, throughput and latencies, and for a simulated producer also its waits."""
        return {
            "blocked_share": self.blocked_share(end),
            "throughput": self.transfers * SECOND / end,
            **latency_measures(self.latencies(end)),
            **(wait_measures(self.waits(end)) if self._producer else {}),
        }


def wait_measures(waits: list[int]) -> Measures:
    """Return wait_p50, wait_p99 and wait_max in seconds, from waits in microseconds."""
    return _percentiles("wait", waits, 50, 99) | {"wait_max": max(waits) / SECOND if waits else None}


def latency_measures(latencies: list[int]) -> Measures:
    """Return latency_p50, latency_p90 and latency_p99 in seconds, from latencies in microseconds."""
    return _percentiles("latency", latencies, *_PERCENTILES)


def _percentiles(name: str, times: list[int], *percents: int) -> Measures:
    """Return percentiles in seconds, from times in microseconds; each is None if there are no times."""
    ordered = sorted(times)
    return {
        f"{name}_p{percent}": _nearest_rank(ordered, percent) / SECOND if ordered else None
        for percent in percents
    }


def _nearest_rank(ordered: Sequence[int], percent: int) -> int:
    """Return a percentile of sorted values: the smallest that at least ``percent`` % do not exceed."""
    # Without interpolation, so that it is an observed value; Spark calls this percentile_disc. Computed in
    # integers, as 0.99 * 100 is not an integer in floating point.
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def meters_of(events: Iterable[Event], workload: Workload, end: int) -> dict[str, ProducerMeter]:
    """Return the meters of a simulated run's producers by name, after all their acts up to `end`."""
    meters = {producer.name: ProducerMeter(producer, workload.duration) for producer in workload.producers}
    note_acts(meters, events, workload, end)
    return meters


def note_acts(
    meters: dict[str, ProducerMeter], events: Iterable[Event], workload: Workload, end: int
) -> None:
    """Record the producers' acts among the next events of a simulated run, up to `end`, in their meters."""
    for act in acts_of(events, workload.producers):
        if act.ts_us <= end and act.client in meters:
            meters[act.client].note(act.event, act.ts_us, act.label)


def producer_measures(rows: Iterable[Any], end: int) -> Measures:
    """Compute one producer's measures from its acts in order, given as Act objects or rows of a log."""
    meter = ProducerMeter()
    for row in rows:
        if row.ts_us > end:
            break
        meter.note(row.event, row.ts_us, row.label)
    return meter.measures(end)
