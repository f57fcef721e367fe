"""Bounds: the greatest depth of a queue under any clients, and whether it can overflow.

All proofs here assume the following, and nothing else.

- **The window** (CAP-01): a producer has at most *capacity* transfers outstanding that are not complete.
  This holds for the ideal window and for those of qpid-cpp and qpid-python, which differ only in *when*
  they learn of a completion: they may take complete transfers for outstanding, never the other way round.
- **One window a producer**: one that dies and comes back brings a second window, and what it left on the
  queue stays held (CM-09): count its capacity once more for each time that may happen.  Unreliable links
  have no window (CAP-06), and transfers in a transaction are never held (CM-10): nothing here is for them.
- **Only producers put messages on the queue**: what is moved there, or comes by an alternate exchange, is
  held for no producer whose window could fill (FC-22).
- **Bytes** are those the broker counts: header and content, or content only with
  ``message_size="content"`` (DQ-05, DQ-09).

Each bound is a function of the thresholds in force (``FlowThresholds.of``) and of the **traffic**: who
sends to the queue, with its window and the sizes of its messages, which :func:`traffic_of` gets from the
engine.

In bytes these bounds count each place of a window as a message of the largest size: 300 places of 260 kB are
78 MB, though 300 sizes that are drawn hardly ever sum up to that.  :func:`bytes_at_risk` is not proved for
every run: it is exceeded with at most a stated probability each time the windows are filled, if the sizes
are drawn independently.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from math import exp, log
from statistics import NormalDist
from typing import NamedTuple

from qflow.broker.errors import AmqpException
from qflow.broker.flow_limit import FlowThresholds, effective_max_size
from qflow.broker.history import ARGUMENT
from qflow.broker.message import Message
from qflow.broker.options import BrokerOptions
from qflow.broker.settings import Argument, QueueSettings
from qflow.kit import RefusalError
from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import Arrivals, due_messages
from qflow.workload.model import SETUP, Producer, Workload
from qflow.workload.simulate import most_acts
from qflow.workload.stage import Stage, message_of

_SIZE_LIMIT = 1_000_000
"""Messages of one producer that are looked at for the largest that is drawn; later ones are not."""


class DesignError(RefusalError):
    """A design question without an answer; the text names the value and the allowed ones."""


# Traffic


@dataclass(frozen=True, slots=True)
class TrafficSource:
    """A producer's traffic to one queue.

    Parameters:
        capacity: Its window: most transfers that are sent and not complete (CAP-01).
        largest, smallest: Bytes the broker counts for its messages, header included unless the broker is set
            otherwise (DQ-05, DQ-09).
        is_drawn: Whether its sizes are drawn, so that there is no largest; ``largest`` is then only what was
            seen, and nothing is proved from it.
        sure: Of its window, how much surely gets on this queue in some run; None for all. A queue with a
            filter may take none of its messages, a last value queue keeps one of them, another queue that
            nobody reads may have them all; and real windows, in order, take for outstanding what is complete
            behind a message that is held, or what the client has not asked about (CAP-02, CAP-07).

    Raises:
        DesignError: If a value makes no sense.

    >>> TrafficSource(capacity=50, largest=145).smallest
    0
    """

    capacity: int
    largest: int = 0
    smallest: int = 0
    is_drawn: bool = field(default=False, repr=False)
    sure: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if type(self.capacity) is not int or self.capacity < 1:
            raise DesignError(f"capacity must be a whole number from 1, got {self.capacity!r}")
        if self.smallest < 0:
            raise DesignError(f"smallest must be a number of bytes from 0, got {self.smallest!r}")


Traffic = Mapping[str, TrafficSource]
"""The traffic of one queue: producer name to :class:`TrafficSource`."""


def traffic_of(workload: Workload) -> dict[str, dict[str, TrafficSource]]:
    """Return the traffic of each queue of a workload: its producers and their message sizes.

    Each producer sends the messages that could be its largest and smallest to a broker of the engine that has
    the workload's bindings, and queues that take whatever reaches them.  What a queue's own filter keeps out
    is counted as well: which messages that is depends on chance.

    Parameters:
        workload: Sizes that are drawn have no largest value; the largest that it draws within its duration is
            given for them, and that it is none.

    Returns:
        Queue name to producer name to :class:`TrafficSource`; a producer whose messages reach several queues
        appears at each, with its whole window: the queues share it, and each may have all of it.

    >>> producer = Producer("p1", ("", "q"), rate=100, capacity=5, size=100)
    >>> traffic_of(Workload("w", 1, {"q": {}, "r": {}}, producers=(producer,)))
    {'q': {'p1': TrafficSource(capacity=5, largest=146, smallest=140)}, 'r': {}}
    """
    traffic: dict[str, dict[str, TrafficSource]] = {name: {} for name in workload.queues}
    plain = _Probe(workload, dict.fromkeys(workload.queues, {}))
    # Two probes: one whose queues take everything tells which queues a message can reach at all; one with
    # the queues' own filters and kinds tells which of those surely keep it.
    own = _Probe(workload, {name: _without_limits(given) for name, given in workload.queues.items()})
    read = {consumer.queue for consumer in workload.consumers}
    last = most_acts(workload)
    for producer in workload.producers:
        kinds = _kinds(producer, workload.duration)
        # A label has the number of its message: the last one that a run can have is the longest.
        reached, sizes = plain.send(producer, _extremes(producer, kinds, last))
        keeping = own.find_keepers(producer, kinds, reached)
        for queue in reached:
            traffic[queue][producer.name] = TrafficSource(
                producer.capacity,
                max(sizes),
                min(sizes),
                is_drawn=_is_drawn(producer),
                sure=own.sure(queue, producer) if queue in keeping and set(reached) - read <= {queue} else 0,
            )
    return traffic


def find_unrouted(workload: Workload, traffic: Mapping[str, Traffic]) -> dict[str, str]:
    """Return a sentence for each producer whose messages reach no queue, with its destination."""
    reaching = {name for senders in traffic.values() for name in senders}
    return {
        producer.name: f"{producer.name}'s messages reach no queue: no binding of exchange "
        f"{producer.to[0]!r} matches the key {producer.to[1]!r} (EX-08)"
        for producer in workload.producers
        if producer.name not in reaching
    }


Kind = tuple[int, str]
"""Content bytes and group of a message."""

_GROUPS = 1000
"""The number of a producer's groups that are tried in search of one that a queue's filter admits."""


def _is_drawn(producer: Producer) -> bool:
    size = producer.size
    return producer.arrival != "recorded" and not isinstance(size, int) and len(size) == 2 and size[1] > 0


def _kinds(producer: Producer, duration: float) -> list[Kind]:
    """Return a producer's kinds of messages, which differ in more than number; only some of many groups."""
    if producer.arrival == "recorded":
        return sorted({(size, group) for _, size, group in producer.recorded}) or [(0, "")]
    count = producer.groups[0] if producer.groups else 0
    groups = [f"g{number}" for number in (*range(1, min(count, _GROUPS) + 1), count)] if count else [""]
    sizes = {0, _largest_drawn(producer, duration)} if _is_drawn(producer) else {Arrivals(producer).size}
    if not isinstance(producer.size, int) and len(producer.size) == 3:
        sizes = {0, producer.size[2]}
    return [(size, group) for size in sorted(sizes) for group in groups]


def _largest_drawn(producer: Producer, duration: float) -> int:
    """Return the largest content that a producer of random sizes draws within a duration."""
    end, largest = round(duration * SECOND), 0
    for due, size, _ in islice(due_messages(producer), _SIZE_LIMIT):
        if due > end and largest:
            break
        largest = max(largest, size)
    return largest


def _extremes(producer: Producer, kinds: Iterable[Kind], last: int) -> list[Message]:
    """Return messages among which are the smallest and the largest, by any byte count."""
    exchange, messages = producer.to[0], list[Message]()
    for number, choose in ((1, min), (last, max)):
        made = [message_of(producer, number, size, group) for size, group in kinds]
        messages.append(choose(made, key=lambda message: message.encoded_size(exchange)))
        messages.append(choose(made, key=lambda message: message.content_size))
    return messages


class _Probe:
    """A broker with a workload's bindings, to test the routing of single messages."""

    def __init__(self, workload: Workload, queues: Mapping[str, Mapping[str, Argument]]) -> None:
        # The broker refuses nothing here: it has no limit of its own either.
        options = replace(workload.options, default_queue_limit=0)
        # The engine routes, not a second implementation of bindings here: that one would have to know
        # headers, topics, alternates and federation as well.
        self._broker = Stage(workload.replace(queues=queues, options=options), 0).broker
        self._session = self._broker.session(SETUP)
        self._names = list(queues)

    def send(self, producer: Producer, messages: Iterable[Message]) -> tuple[list[str], list[int]]:
        """Send messages; return the queues that keep all of them, and the bytes counted for each message."""
        before = self._depths()
        sizes = [self._session.message_transfer(message, producer.to[0]).size for message in messages]
        after = self._depths()
        return [name for name in self._names if after[name] - before[name] == len(sizes)], sizes

    def find_keepers(self, producer: Producer, kinds: Iterable[Kind], wanted: Collection[str]) -> set[str]:
        """Return the queues that keep every message of one kind, so that enough of that kind fill them."""
        kept: set[str] = set()
        # One message is not enough: a last value queue keeps one of each value, and would pass for a queue
        # that keeps all.
        for group, size in islice({group: size for size, group in kinds}.items(), _GROUPS + 1):
            kept.update(self.send(producer, [message_of(producer, n, size, group) for n in (1, 2)])[0])
            if kept.issuperset(wanted):
                break
        return kept

    def sure(self, queue: str, producer: Producer) -> int | None:
        """Return the part of a window that reaches a queue in some run; None for the whole window."""
        is_choosy = self._broker.queue(queue).is_choosy
        # Of other windows one message only is proved: they take for outstanding what is complete behind a
        # held message (CAP-07), or what they have not asked about (CAP-02).
        is_whole = producer.window == "ideal" or (producer.window == "qpid-cpp" and not is_choosy)
        return None if is_whole else 1

    def _depths(self) -> dict[str, int]:
        return {name: self._broker.queue(name).statistics().msgDepth for name in self._names}


def _without_limits(arguments: Mapping[str, Argument]) -> dict[str, Argument]:
    limiting = ("qpid.max_", "qpid.flow_", "qpid.policy_type")
    return {key: value for key, value in arguments.items() if not key.startswith(limiting)}


# What is proved


@dataclass(frozen=True, slots=True)
class Depth:
    """An amount on a queue, in both units; None for unbounded.

    Parameters:
        count: Messages.
        size: Bytes, as the broker counts them (DQ-05).

    >>> Depth(165, None)
    Depth(count=165, size=None)
    """

    count: int | None
    size: int | None


def full_windows(traffic: Traffic) -> tuple[int, int]:
    """Return the sum of the capacities: in messages, and in bytes if each message is the largest."""
    senders = traffic.values()
    return sum(one.capacity for one in senders), sum(one.capacity * one.largest for one in senders)


def _before_stop(thresholds: FlowThresholds, traffic: Traffic) -> Depth:
    """Return the greatest depth of a queue while it is OFF."""
    # The queue starts empty and OFF (FC-13). An enqueue that leaves more than a stop turns it ON at once
    # (FC-14), and it turns OFF only when both units are below their resume levels, at most the stop levels
    # (FC-05, FC-16). So while it is OFF neither unit is above its stop. A unit without one is bounded by the
    # other: of messages of at least m bytes at most stop_size // m fit, and stop_count messages of at most M
    # bytes have at most stop_count × M.
    senders, stop_count, stop_size = traffic.values(), thresholds.stop_count, thresholds.stop_size
    smallest = min((sender.smallest for sender in senders), default=0)
    counts, sizes = [stop_count] if stop_count else [], [stop_size] if stop_size else []
    if stop_size and smallest:
        counts.append(stop_size // smallest)
    if stop_count and not any(sender.is_drawn for sender in senders):
        sizes.append(stop_count * max((sender.largest for sender in senders), default=0))
    return Depth(min(counts, default=None), min(sizes, default=None))


def maximum_depth(thresholds: FlowThresholds | None, traffic: Traffic) -> Depth:
    """Return the greatest depth a queue can ever have: stop + Σ capacity (CAP-11).

    Proof.  While the queue is OFF it holds no more than :func:`_before_stop` says.  Let it be ON, and let t
    be the moment at which it last turned ON.  What was on it just before t was there while it was OFF: at
    most ``stop`` messages.  Every message put on it at t or later is held (FC-15), and stays held while it
    is on the queue and the queue is ON (FC-17); so its transfer is not complete, and takes a place in its
    producer's window.  A producer has ``capacity`` places (CAP-01), so at most Σ capacity such messages are
    there: at most stop + Σ capacity in all.  In bytes each place has at most its producer's largest
    message, which gives stop_size + Σ capacity × largest.

    A message that several queues hold takes one place in the window (CM-03), and one on each queue: shared
    windows can keep a queue from its bound, never lead it above.

    The bound is attained, in messages: let the queue be filled to the stop level while the windows are
    empty; then every transfer is held, until each producer has ``capacity`` of them (CAP-08).  In bytes it
    is attained if messages can be as large as they like up to ``largest`` and exactly fill the stop level.

    Without flow control (``thresholds`` None) there is no bound, unless no producer sends; in bytes there is
    none if a producer's sizes are drawn, as they have no largest.

    >>> clients = {"C1": TrafficSource(50, largest=112), "C2": TrafficSource(15, largest=112)}
    >>> maximum_depth(FlowThresholds(100, 100, 0, 0), clients)
    Depth(count=165, size=18480)
    """
    if not traffic:
        return Depth(0, 0)
    if thresholds is None:
        return Depth(None, None)
    # The sum, and not the larger of the two: the message that turns the queue ON may be the last of a full
    # queue, and every window may be empty at that moment.
    off, (count, size) = _before_stop(thresholds, traffic), full_windows(traffic)
    is_drawn = any(sender.is_drawn for sender in traffic.values())
    return Depth(
        None if off.count is None else off.count + count,
        None if off.size is None or is_drawn else off.size + size,
    )


def _attained_depth(thresholds: FlowThresholds | None, traffic: Traffic) -> Depth:
    """Return a depth that some run reaches without a limit; None if runs reach any depth."""
    # Let one producer send alone, slowly, while nobody reads: its window is empty as long as the queue is OFF
    # (CM-02). The queue turns ON only when stop_count messages are there, or when one more would be above
    # stop_size; before, as many are there as of its largest fit. From then on everything is held (FC-15), so
    # that each producer, one after the other, adds what of its window is sure to get there; in bytes, each
    # message counts as its producer's smallest. Between that and the maximum depth nothing is proved.
    senders = [sender for sender in traffic.values() if sender.sure != 0]
    windows = [sender.capacity if sender.sure is None else sender.sure for sender in senders]
    if not senders:
        return Depth(0, 0)
    if thresholds is None:
        return Depth(None, None if any(sender.smallest for sender in senders) else 0)
    stop_count, stop_size, before = thresholds.stop_count, thresholds.stop_size, list[list[int]]()
    for sender in senders:
        # Messages and bytes, by either stop; the one that comes first decides.
        stops = [(stop_count, stop_count * sender.smallest)] if stop_count else []
        if stop_size and sender.largest:
            stops.append((stop_size // sender.largest, max(0, stop_size - sender.largest + 1)))
        before.append([min(amounts) for amounts in zip(*stops, strict=True)] or [0, 0])
    count, size = (max(amounts) for amounts in zip(*before, strict=True))
    held = sum(window * sender.smallest for window, sender in zip(windows, senders, strict=True))
    return Depth(count + sum(windows), size + held)


def stays_on(thresholds: FlowThresholds, traffic: Traffic) -> bool:
    """Return whether a queue, once ON, stays ON while its producers always have messages to send.

    For a queue with a resume level in messages, and ideal windows.

    Proof.  Let the queue be ON and every producer have sent what its window allows: Σ capacity held
    transfers are on the queue.  When one of them is taken off, its completion is free (FC-17), its producer
    sends another, and that is held too (FC-15).  So the depth is below Σ capacity for no longer than a
    producer takes to learn of a completion and to send; if ``resume`` is at most Σ capacity − 1 it never gets
    below ``resume`` (FC-16).  That is no deadlock; but the producers then work at the consumers' pace, and
    stop and resume no longer matter.  The qpid-cpp window is spared: full, it waits until *all* it sent is
    complete (CAP-02).

    >>> clients = {"C1": TrafficSource(50), "C2": TrafficSource(15)}
    >>> stays_on(FlowThresholds(100, 50, 0, 0), clients), stays_on(FlowThresholds(100, 80, 0, 0), clients)
    (True, False)
    """
    return 0 < thresholds.resume_count < full_windows(traffic)[0]


def largest_stop(limit: int, traffic: Traffic, unit: str = "count") -> int:
    """Return the largest stop threshold that cannot overflow a limit: limit − Σ capacity (CAP-11).

    It follows from :func:`maximum_depth`, and from LP-02: a limit that is exactly reached is not exceeded.

    Below 1 if there is none: the windows alone are as large as the limit, in messages ("count") or bytes
    ("size").

    >>> largest_stop(200, {"C1": TrafficSource(50), "C2": TrafficSource(15)})
    135
    """
    return limit - full_windows(traffic)[unit == "size"]


# Verdicts

# In each unit the most that can be on the queue is compared with the limit in force; exactly filling it is
# allowed (LP-02).  If that is above the limit, and so is what some run surely gets to, the queue can
# overflow.  Otherwise neither is proved, and the answer is None, which is not "safe".

_WHAT_FOLLOWS = {
    "reject": "a producer's session would die of 506 (LP-05)",
    "ring": "the oldest messages would be dropped (LP-10)",
    "self-destruct": "the queue would be deleted with all it holds (LP-15)",
}

WINDOWS = {"count": "capacities", "size": "capacities × largest messages"}
"""What full windows hold, by unit."""


@dataclass(frozen=True, slots=True)
class UnitVerdict:
    """The verdict on one unit of one queue: "count" for messages, "size" for bytes."""

    unit: str
    # In force; 0 for none.
    limit: int
    # Were there no limit: what can be on the queue at most (None: no bound), and what is on it in some run.
    bound: int | None
    attained: int | None
    reason: str

    @property
    def can_overflow(self) -> bool | None:
        """False: it is proved that no run exceeds the limit (LP-02). True: some run does. None: not known."""
        if not self.limit or (self.bound is not None and self.bound <= self.limit):
            return False
        return True if self.attained is None or self.attained > self.limit else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a queue can overflow.

    Parameters:
        policy: The action of an overflow: reject, ring or self-destruct.
        units: For messages and for bytes.
        seen: The simulation that overflowed it, if any.
    """

    queue: str
    policy: str
    units: tuple[UnitVerdict, UnitVerdict]
    seen: str = ""

    @property
    def is_safe(self) -> bool:
        """Whether it is proved that no run overflows it, in messages and in bytes."""
        return self.can_overflow is False

    @property
    def can_overflow(self) -> bool | None:
        """Whether some run overflows it, in any unit; None if neither this nor the contrary is proved."""
        found = {unit.can_overflow for unit in self.units}
        if True in found or (None in found and self.seen):
            return True
        return None if None in found else False

    @property
    def never_more_than(self) -> int | None:
        """The proved maximum of messages on the queue; None without a proof."""
        return self.units[0].bound or None

    @property
    def never_more_bytes_than(self) -> int | None:
        """The proved maximum of bytes on the queue; None without a proof."""
        return self.units[1].bound or None

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons, a sentence for each unit, the decisive ones first."""
        if self.is_safe:
            return tuple(unit.reason for unit in self.units if unit.limit)
        full = f"if it is full, {_WHAT_FOLLOWS[self.policy]}"
        # A unit that surely overflows decides whatever the other one does; only if none does is "not known"
        # said.
        deciding = [unit.reason for unit in self.units if unit.can_overflow]
        if deciding:
            return (*deciding, full)
        unknown = [unit.reason for unit in self.units if unit.can_overflow is None]
        return (*unknown, self.seen or "whether any run overflows it is not known", full)


def judge(
    queue: str, arguments: Mapping[str, Argument], traffic: Traffic, options: BrokerOptions | None = None
) -> Verdict:
    """Return whether a queue can overflow: its limits compared with the proved bounds of its depth.

    Parameters:
        queue, arguments: Its name and its declare arguments.
        traffic: Its producers.
        options: The broker's start options; None for the defaults.

    Raises:
        DesignError: If the broker refuses the arguments, in its words; or if the queue has one of the
            alternatives of :mod:`qflow.broker.history`, for which nothing is proved here.

    >>> clients = {"C1": TrafficSource(50, 150), "C2": TrafficSource(15, 150)}
    >>> judge("q", {"qpid.max_count": 200, "qpid.flow_stop_count": 150}, clients).reasons[0]
    'messages: stop 150 + capacities 65 = 215, which is above the limit of 200 by 15 (CAP-11)'
    >>> del clients["C2"]
    >>> judge("q", {"qpid.max_count": 200, "qpid.flow_stop_count": 150}, clients).can_overflow
    False
    """
    options = options or BrokerOptions()
    kind = arguments.get(ARGUMENT, options.flow_control)
    if kind != "shipped":
        raise DesignError(
            f"queue {queue!r}: the bounds hold for flow control as shipped; this queue has {kind!r}"
        )
    try:
        settings = QueueSettings.from_arguments(arguments)
        thresholds = FlowThresholds.of(queue, settings, options)
    except AmqpException as error:
        raise DesignError(f"the broker refuses queue {queue!r}: {error}") from None
    bound, attained = maximum_depth(thresholds, traffic), _attained_depth(thresholds, traffic)
    stops = thresholds or FlowThresholds(0, 0, 0, 0)
    capacity, volume = full_windows(traffic)
    drawn = ", ".join(name for name, sender in traffic.items() if sender.is_drawn)
    size = effective_max_size(settings, options)
    units = (
        _unit("count", settings.max_count, stops.stop_count, bound.count, attained.count, capacity),
        _unit("size", size, stops.stop_size, bound.size, attained.size, volume, drawn if thresholds else ""),
    )
    policy = settings.policy if settings.policy in _WHAT_FOLLOWS else "reject"
    return Verdict(queue, policy, units)


def judge_workload(workload: Workload) -> dict[str, Verdict]:
    """Return the verdict on each queue of a workload, in its order.

    Who consumes does not matter.  See :func:`judge`.

    >>> from qflow.workload import Producer
    >>> producer = Producer("p1", ("", "q"), rate=100, capacity=5, size=100)
    >>> workload = Workload("w", 1, {"q": {"qpid.max_count": 20}}, producers=(producer,))
    >>> judge_workload(workload)["q"].can_overflow            # the default stop is 16: 16 + 5 > 20
    True
    """
    traffic = traffic_of(workload)
    return {
        name: judge(name, arguments, traffic[name], workload.options)
        for name, arguments in workload.queues.items()
    }


def _unit(
    unit: str, limit: int, stop: int, bound: int | None, attained: int | None, window: int, drawn: str = ""
) -> UnitVerdict:
    what, windows = {"count": "messages", "size": "bytes"}[unit], WINDOWS[unit]
    if not limit:
        reason = f"{what}: no limit, so none is exceeded (LP-01)"
    elif bound is None and drawn:
        reason = (
            f"{what}: the sizes of {drawn} are drawn and have no largest, so nothing is proved of the limit "
            f"of {limit}"
        )
    elif bound is None:
        reason = f"{what}: nothing stops the producers before the limit of {limit} (FC-02, FC-03)"
    else:
        # The other unit may stop first; then the sum with this unit's own stop is not what bounds it.
        own = f"stop {stop} + {windows} {window} = {bound}" if stop and stop + window == bound else ""
        own = own or f"at most {bound}, by the other unit's stop and {windows} {window}"
        where = f"within the limit of {limit}"
        if bound > limit:
            where = f"above the limit of {limit} by {bound - limit}"
        reason = f"{what}: {own}, which is {where} (CAP-11)"
    return UnitVerdict(unit, limit, bound, attained, reason)


# What is exceeded once in a million

RISK = 1e-6

_STEP = 0.005
_NORMAL = NormalDist()


_Sizes = list[tuple[float, float]]
"""The sizes of one producer's messages, as a table of (bytes, probability): steps, each rounded up."""


def _tabulate_sizes(mu: float, sigma: float, largest: float, header: int, cut: float) -> _Sizes:
    # What is above the largest is of the largest size; what is above the cut is paid for.
    # Shifted by sigma squared, as sizes are weighed by themselves where the message that turned the queue ON
    # is drawn: the cut has to be far out for that distribution, too.
    top = min(largest, exp(mu + sigma * sigma + sigma * _NORMAL.inv_cdf(1 - cut)))
    sizes: _Sizes = []
    edge, below = exp(mu - 7 * sigma), 0.0
    while edge < top:
        share = _NORMAL.cdf((log(edge) - mu) / sigma)
        sizes.append((edge + header, share - below))
        edge, below = edge * exp(_STEP), share
    return [*sizes, (top + header, 1 - below)]


def _log_moments(sizes: _Sizes, t: float) -> tuple[float, float]:
    """Return log E[exp(t X)] of a size X, and the same of one drawn in proportion to itself."""
    # From the largest size down, so that nothing overflows.
    top = sizes[-1][0]
    weights = [(size, share * exp(t * (size - top))) for size, share in sizes]
    mean = sum(share * size for size, share in sizes)
    plain, biased = sum(w for _, w in weights), sum(size * w for size, w in weights) / mean
    return t * top + log(plain), t * top + log(biased)


class FullWindow(NamedTuple):
    """A producer's window: its messages, the size of each (drawn or fixed), and the header of a drawn one."""

    capacity: int
    size: int | tuple[float, ...]
    header: int


def bytes_at_risk(windows: Iterable[FullWindow], risk: float = RISK) -> float:
    """Return the bytes that full windows exceed with probability `risk`.

    >>> capacity, drawn = 300, (9.1, 0.75, 40_000)
    >>> round(bytes_at_risk([FullWindow(capacity, drawn, 0)]) / 1000), capacity * 40
    (4315, 12000)
    """
    # Chernoff's bound: for every t above 0, P(S >= s) <= E[exp(t S)] exp(-t s), and the smallest s is taken
    # for which some t makes that the risk. Where a distribution has no largest, half of the risk pays for
    # cutting it off, so that its moments are finite.
    fixed, drawn, is_cut = 0.0, list[tuple[int, _Sizes]](), False
    given = list(windows)
    total = sum(capacity for capacity, _, _ in given)
    for capacity, size, header in given:
        if isinstance(size, int) or not size[1]:
            fixed += capacity * ((size if isinstance(size, int) else exp(size[0])) + header)
        else:
            largest = size[2] if len(size) == 3 else float("inf")
            cut = risk / 2 / (total + 1)
            drawn.append((capacity, _tabulate_sizes(size[0], size[1], largest, header, cut)))
            is_cut = is_cut or len(size) == 2
    return fixed + _least_sum(drawn, -log(risk / 2 if is_cut else risk)) if drawn else fixed


def _least_sum(drawn: list[tuple[int, _Sizes]], target: float) -> float:
    """Return the least sum that Chernoff's bound gives; it has one minimum in t."""

    def bound(t: float) -> float:
        moments = [(capacity, *_log_moments(sizes, t)) for capacity, sizes in drawn]
        # One message, whoever's, turned the queue ON. Large ones cross a level more often, so it counts as
        # drawn in proportion to its size.
        extra = max(biased - plain for _, plain, biased in moments)
        return (sum(capacity * plain for capacity, plain, _ in moments) + extra + target) / t

    top = max(sizes[-1][0] for _, sizes in drawn)
    # In powers of t, as its best value may be anywhere below what the largest size allows.
    low, high = log(1e-6 / top), log(100 / top)
    # Ternary search: the bound has one minimum in the logarithm of t. Forty rounds narrow the range by
    # (2/3)^40, to about a ten-millionth.
    for _ in range(40):
        third = (high - low) / 3
        if bound(exp(low + third)) < bound(exp(high - third)):
            high -= third
        else:
            low += third
    # For narrow distributions Chernoff's bound may be above what the largest sizes allow.
    hard = sum(capacity * sizes[-1][0] for capacity, sizes in drawn)
    return min(bound(exp((low + high) / 2)), hard)
