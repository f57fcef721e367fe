"""Model: the workload behind a client log, which can be run again under other settings.

A log shows what clients did; a prediction needs what they would have done.  Consumers and networks are always
estimated from the log (:mod:`qflow.prediction.costs`, :mod:`qflow.prediction.disturbances`).  Of the workload
file only the structure is used (which client sends to or reads from which queue), never its rates, times or
seeds.

The demand of a producer is known for as long as its window had room.  Where the evidence
(:mod:`qflow.prediction.evidence`) gives only a lower bound, several workloads fit the same log:

- ``least``: each message was due when the producer tried to send it.  No demand that fits the log is later.
- ``most``: all messages of a streak were due at its begin, and a producer that was still behind when the log
  ended has twice as many more to send, due evenly from then on.  For settings under which it cannot send more
  than that, no demand that fits the log is larger.
- ``likely``: the messages of a streak fell due faster than they were sent at first, and later more slowly;
  the rest is as in ``most``.  Under the recorded settings it keeps producers as far behind as they were, in
  spite of chance.

An *open* producer keeps a schedule, and catches up after a block; a *closed* one thinks after each message,
and loses the blocked time.  The log indicates which kind a producer is
(:func:`~qflow.prediction.evidence.catches_up`).  The log contains all think times of a closed producer, so
its demand is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import cycle, pairwise, takewhile
from math import inf

from qflow.logs.client_log import ClientLog
from qflow.logs.log_file import LogRow
from qflow.prediction.costs import constant_networks, credit_returns, delivery_times, read_consumer
from qflow.prediction.disturbances import full_networks
from qflow.prediction.evidence import (
    Demand,
    Send,
    Sends,
    catches_up,
    demand_of,
    from_origin,
    likely_due,
    read_sends,
    seen_rows,
)
from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import due_messages
from qflow.workload.attributes import require
from qflow.workload.model import MODELS, Consumer, Producer, Workload

_DETAILS = ("constants", "full")
"""Levels of cost estimates: constants, or also their variation (:mod:`qflow.prediction.disturbances`)."""

BOUNDS = ("least", "likely", "most")
"""The three demands that fit a log: the least, the likely and the most."""

_WITHOUT_END = 2
"""The further messages of a producer that is behind at a log's end, as a multiple of those sent before."""

_ROUNDING = 0.98
"""The smallest allowed ratio of a stated demand to the rate at which the producer sent."""


def unknown_demand(log: ClientLog, workload: Workload) -> dict[str, Demand]:
    """Return the demands that a log does not show, as their producers were blocked for too long.

    Parameters:
        log: The log of the workload's clients.
        workload: The workload, of which names, windows and duration are used. A producer with a ``demand`` is
            known.

    Returns:
        Producer name to its demand: ``at_least`` is a lower bound in messages a second, ``why`` the reason
        why nothing more is known.  Predictions for settings that relieve such a producer are bounds
        (:func:`qflow.prediction.summary.spread_of`), and designs hold for at least that demand.

    >>> from qflow.logs import LogRow
    >>> rows = [LogRow(9, "p", "transfer", "q", "p-1", 100, ""), LogRow(10, "p", "block", "", "", 0, "")]
    >>> workload = Workload("w", 1, {"q": {}}, producers=(Producer("p", ("", "q"), 7, 1, 1),))
    >>> unknown_demand(ClientLog("w", rows), workload)["p"].why
    'its window was full 100 % of the time, and it never caught up'
    """
    return LogModel(log, workload, "constants").unknown("open")


class LogModel:
    """The evidence of a log, gathered once; :meth:`extract` returns the workloads behind the log.

    >>> from qflow.logs import LogRow
    >>> rows = [LogRow(n * 1000, "p", "transfer", "q", f"p-{n}", 100, "") for n in (1, 2, 3)]
    >>> workload = Workload("w", 1, {"q": {}}, producers=(Producer("p", ("", "q"), 7, 5, 1),))
    >>> LogModel(ClientLog("w", rows), workload).extract().producers[0].recorded[:2]
    ((0.001, 100, ''), (0.002, 100, ''))
    """

    # ``log`` and ``workload`` are the given ones with times counted from the origin of the log's clock;
    # ``end`` is the duration in microseconds.

    def __init__(self, log: ClientLog, workload: Workload, detail: str = "full") -> None:
        require(detail in _DETAILS, "extract", "detail", detail, " or ".join(map(repr, _DETAILS)))
        log, workload, self.span = from_origin(log, workload)
        self.log, self.workload, self.end = log, workload, round(workload.duration * SECOND)
        rows = seen_rows(log, workload)
        own = {producer.name: rows.get(producer.name, []) for producer in workload.producers}
        self._sends = {name: read_sends(rows, self.end) for name, rows in own.items()}
        self.catches_up = {name: catches_up(sends.sent) for name, sends in self._sends.items()}
        self.demands: dict[str, Demand] = {}
        for producer in workload.producers:
            name, stated = producer.name, producer.demand
            found = demand_of(own[name], self._sends[name], self.end)
            allowed = f"at least the {found.at_least:.4g} messages/s that it sent"
            # A stated demand is often rounded: 100 messages/s is accepted although 101 were sent.
            is_right = stated is None or stated >= _ROUNDING * found.at_least
            require(is_right, f"producer {name!r}", "demand", stated, allowed)
            self.demands[name] = found if stated is None else Demand(stated, is_stated=True)
        times = {row.label: row.ts_us for row in log.rows if row.event == "transfer"}
        returns = {
            consumer.name: credit_returns(rows.get(consumer.name, []), consumer.prefetch, times)
            for consumer in workload.consumers
        }
        networks = full_networks if detail == "full" else constant_networks
        deliveries = delivery_times(rows, own, returns)
        self._networks = networks(workload, own, returns, deliveries)
        consumers = [
            read_consumer(item, rows.get(item.name, []), times, self._networks[item.name])
            for item in workload.consumers
        ]
        self._consumers = tuple(_in_order_of_credit(consumers, rows))

    @property
    def model(self) -> str:
        """The kind of the log's producers: "closed" if none that was blocked catches up, else "open"."""
        seen = [answer for answer in self.catches_up.values() if answer is not None]
        return "closed" if seen and not any(seen) else "open"

    def unknown(self, model: str | None = None) -> dict[str, Demand]:
        """Return the producers of whose demand only a lower bound is known, under the given model."""
        is_open = (model or self.model) == "open"
        return {name: demand for name, demand in self.demands.items() if is_open and not demand.is_known}

    def to_design(self) -> tuple[Workload, dict[str, Demand]]:
        """Return the workload to design for, and the demands for which it is only a lower bound."""
        # A producer that never shows its pace is modelled as open: think times would be a guess, too.
        bounds = self.unknown("open")
        return self.extract("open", "least") if bounds else self.extract(), bounds

    def extract(self, model: str | None = None, bound: str = "likely") -> Workload:
        """Return the workload behind the log, under a model and for one of :data:`BOUNDS`."""
        allowed = " or ".join(map(repr, MODELS))
        require(model is None or model in MODELS, "extract", "model", model, f"{allowed}, or None")
        require(bound in BOUNDS, "extract", "bound", bound, " or ".join(map(repr, BOUNDS)))
        model = model or self.model
        producers = []
        for producer in self.workload.producers:
            times = self._times(producer, model, bound)
            producer = _as_recorded(producer, self._sends[producer.name].sent, model, times)
            if producer.window == "ideal" and not producer.session:
                # With another kind of window, or on a shared session, the log does not separate a client's
                # costs from the waits that its window causes, which the engine simulates itself.
                producer = replace(producer, network=self._networks[producer.name])
            producers.append(producer)
        return self.workload.replace(producers=tuple(producers), consumers=self._consumers)

    def _times(self, producer: Producer, model: str, bound: str) -> list[int]:
        """Return the due times of a producer's messages, or its think times, in microseconds."""
        sends, demand = self._sends[producer.name], self.demands[producer.name]
        if demand.is_stated:
            times = _stated_times(producer, self.end)
        elif model == "closed" and not self.catches_up[producer.name]:
            return _think_times(sends.sent)
        elif model == "closed" or demand.is_known:
            times = likely_due(sends)
        else:
            times = _times_at(sends, bound)
        # A producer shows no think times while it catches up; its think times without blocks would be the
        # gaps between due times.
        return (
            [max(0, time - before) for before, time in pairwise([0, *times])] if model == "closed" else times
        )


_APART = 0.001
"""Seconds between the subscriptions of consumers that start together, more than latencies differ."""


def _in_order_of_credit(
    consumers: Sequence[Consumer], rows: Mapping[str, Sequence[LogRow]]
) -> list[Consumer]:
    """Return consumers that start together with starts in the order of their first deliveries."""
    # The first message goes to the first subscription (CN-19), and a group stays with its owner while that
    # holds messages of it: in a replay with another order one of three consumers kept the groups of the other
    # two.  With delayed acknowledgements the first credit arrives at a tick, in an order that the system
    # decides.
    firsts = {
        item.name: next((row.ts_us for row in rows.get(item.name, ()) if row.event == "deliver"), inf)
        for item in consumers
    }
    places: Counter[tuple[str, float]] = Counter()
    starts = {}
    for item in sorted(consumers, key=lambda item: firsts[item.name]):
        if item.network is None or not item.network.ack_delay:
            starts[item.name] = item.start + _APART * places[item.queue, item.start]
            places[item.queue, item.start] += 1
    return [replace(item, start=starts.get(item.name, item.start)) for item in consumers]


def _times_at(sends: Sends, bound: str) -> list[int]:
    """Return due times of a producer's messages in microseconds, for one of :data:`BOUNDS`."""
    if bound == "least":
        return [item.wanted for item in sends.sent]
    times = likely_due(sends) if bound == "likely" else [item.earliest for item in sends.sent]
    if sends.behind_since is not None:
        # Messages that fall due while the window is full matter if the settings relieve the producer.  They
        # are spread evenly: a ring would drop one burst at the end, and be empty afterwards.
        begin, more = max(times[-1:] + [sends.behind_since]), _WITHOUT_END * max(1, len(times))
        times += [begin + (sends.end - begin) * place // more for place in range(more)]
    return times


def _stated_times(producer: Producer, end: int) -> list[int]:
    """Return due times at the stated demand, with the bursts of the workload file."""
    on, off = producer.burst or (1, 0)
    # Recorded due times in the workload file do not match the stated demand.
    arrival = "poisson" if producer.arrival == "recorded" else producer.arrival
    # The stated demand is a mean over time; a producer's rate applies within its bursts.
    rate = (producer.demand or 0) * (on + off) / on
    drawn = replace(producer, arrival=arrival, rate=rate, recorded=(), seed=0)
    return [time for time, _, _ in takewhile(lambda message: message[0] <= end, due_messages(drawn))]


def _think_times(sends: Sequence[Send]) -> list[int]:
    """Return the microseconds from each transfer to the attempt to send the next (the closed model).

    >>> _think_times([Send(10, 10, 10, 7, "", False), Send(90, 20, 20, 7, "", True)])
    [10, 10]
    """
    # Valid only if the producer does not catch up after a block, as it does not think while it catches up.
    ends = [0, *(item.time for item in sends)]
    return [max(0, item.wanted - before) for item, before in zip(sends, ends, strict=False)]


def _as_recorded(model: Producer, sent: Sequence[Send], kind: str, times: Sequence[int]) -> Producer:
    """Return a producer with the given recorded times, and the sizes and groups of its log."""
    # Further messages than the log's repeat its sizes and groups in order, which preserves the mix.
    recorded = tuple(
        (time / SECOND, item.size, item.group) for time, item in zip(times, cycle(sent), strict=False)
    )
    return replace(model, arrival="recorded", recorded=recorded, model=kind, seed=0)
