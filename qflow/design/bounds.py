"""Bounds: the greatest depth of a queue under any clients, and whether it can overflow.

All proofs here assume the following, and nothing else.

- **The window** (CAP-01): a producer has at most *capacity* incomplete transfers outstanding.  This holds
  for the ideal window and for the windows of qpid-cpp and qpid-python, which differ only in *when* they
  learn of a completion: they may count a complete transfer as outstanding, but never an incomplete one as
  complete.
- **One window per producer**: a producer that dies and reconnects opens a second window, while the messages
  of its first window stay on the queue and held (CM-09): count its capacity once more for each reconnection
  that may happen.  The bounds do not cover unreliable links, which have no window (CAP-06), and transfers in
  a transaction, which are never held (CM-10).
- **Only producers put messages on the queue**: a message that is moved to it, or routed to it by an
  alternate exchange, takes no place in any producer's window, so no window limits such messages (FC-22).
- **Bytes** are those the broker counts: header and content, or content only with
  ``message_size="content"`` (DQ-05, DQ-09).

Each bound is a function of the thresholds in force (``FlowThresholds.of``) and of the **traffic**: the
producers that send to the queue, with their windows and message sizes.  :func:`traffic_of` determines it with
the engine.

The bounds in bytes count each place of a window as a message of the largest size: 300 places of 260 kB are
78 MB, although 300 random sizes hardly ever add up to that.  :func:`bytes_at_risk` is smaller, and not a
bound for every run: full windows exceed it with at most a stated probability each time they are filled, if
the sizes are drawn independently.
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
"""How many of a producer's messages are examined for the largest random size; later ones are not."""


class DesignError(RefusalError):
    """A design question that has no answer; the text names the rejected value and the allowed ones."""


# Traffic


@dataclass(frozen=True, slots=True)
class TrafficSource:
    """A producer's traffic to one queue.

    Parameters:
        capacity: The producer's window: its greatest number of incomplete transfers (CAP-01).
        largest, smallest: The largest and smallest message, in bytes as the broker counts them: header
            included unless the broker is configured otherwise (DQ-05, DQ-09).
        is_drawn: Whether the sizes are random without an upper limit; ``largest`` is then only the largest
            size that was seen, and nothing is proved from it.
        sure: How many places of the window at least one run is certain to fill with messages on this queue;
            None for the whole window. A queue with a filter may take none of the messages, a last value
            queue keeps one of them, and another queue that nobody reads may receive them all; and real
            windows also count transfers as outstanding that are complete behind a held one, or whose
            completion the client has not asked for (CAP-02, CAP-07).

    Raises:
        DesignError: If ``capacity`` is below 1 or not an integer, or ``smallest`` is negative.

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

    Each producer sends its possibly largest and smallest messages to a broker of the engine with the
    workload's bindings, whose queues accept every message that reaches them.  Messages that a queue's own
    filter would reject are counted as well: which ones it rejects depends on chance.

    Parameters:
        workload: The workload. Random sizes without an upper limit get the largest size drawn within its
            duration, and ``is_drawn``.

    Returns:
        Queue name to producer name to :class:`TrafficSource`. A producer whose messages reach several queues
        appears at each of them with its whole window: the queues share the window, and any of them may take
        all of it.

    >>> producer = Producer("p1", ("", "q"), rate=100, capacity=5, size=100)
    >>> traffic_of(Workload("w", 1, {"q": {}, "r": {}}, producers=(producer,)))
    {'q': {'p1': TrafficSource(capacity=5, largest=146, smallest=140)}, 'r': {}}
    """
    traffic: dict[str, dict[str, TrafficSource]] = {name: {} for name in workload.queues}
    plain = _Probe(workload, dict.fromkeys(workload.queues, {}))
    # Two probes: one whose queues accept everything shows which queues a message can reach at all; one with
    # the queues' own filters and kinds shows which of these are certain to keep it.
    own = _Probe(workload, {name: _without_limits(given) for name, given in workload.queues.items()})
    read = {consumer.queue for consumer in workload.consumers}
    last = most_acts(workload)
    for producer in workload.producers:
        kinds = _kinds(producer, workload.duration)
        # A message's label contains its number, so the last message that a run can send has the longest
        # label.
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
    """Return a sentence with the destination for each producer whose messages reach no queue."""
    reaching = {name for senders in traffic.values() for name in senders}
    return {
        producer.name: f"{producer.name}'s messages reach no queue: no binding of exchange "
        f"{producer.to[0]!r} matches the key {producer.to[1]!r} (EX-08)"
        for producer in workload.producers
        if producer.name not in reaching
    }


Kind = tuple[int, str]
"""The content size of a message in bytes, and its group."""

_GROUPS = 1000
"""How many of a producer's groups are tried in search of one that a queue's filter admits."""


def _is_drawn(producer: Producer) -> bool:
    size = producer.size
    return producer.arrival != "recorded" and not isinstance(size, int) and len(size) == 2 and size[1] > 0


def _kinds(producer: Producer, duration: float) -> list[Kind]:
    """Return the distinct (size, group) pairs of a producer's messages; of many groups only some."""
    if producer.arrival == "recorded":
        return sorted({(size, group) for _, size, group in producer.recorded}) or [(0, "")]
    count = producer.groups[0] if producer.groups else 0
    groups = [f"g{number}" for number in (*range(1, min(count, _GROUPS) + 1), count)] if count else [""]
    sizes = {0, _largest_drawn(producer, duration)} if _is_drawn(producer) else {Arrivals(producer).size}
    if not isinstance(producer.size, int) and len(producer.size) == 3:
        sizes = {0, producer.size[2]}
    return [(size, group) for size in sorted(sizes) for group in groups]


def _largest_drawn(producer: Producer, duration: float) -> int:
    """Return the largest random content size of a producer within a duration, in bytes."""
    end, largest = round(duration * SECOND), 0
    for due, size, _ in islice(due_messages(producer), _SIZE_LIMIT):
        if due > end and largest:
            break
        largest = max(largest, size)
    return largest


def _extremes(producer: Producer, kinds: Iterable[Kind], last: int) -> list[Message]:
    """Return candidate messages that include the smallest and the largest, however bytes are counted."""
    exchange, messages = producer.to[0], list[Message]()
    for number, choose in ((1, min), (last, max)):
        made = [message_of(producer, number, size, group) for size, group in kinds]
        messages.append(choose(made, key=lambda message: message.encoded_size(exchange)))
        messages.append(choose(made, key=lambda message: message.content_size))
    return messages


class _Probe:
    """A broker with a workload's bindings, to test the routing of single messages."""

    def __init__(self, workload: Workload, queues: Mapping[str, Mapping[str, Argument]]) -> None:
        # No default limit either, so that the broker refuses no message.
        options = replace(workload.options, default_queue_limit=0)
        # The engine routes: a second implementation of bindings would have to know headers, topics,
        # alternates and federation as well.
        self._broker = Stage(workload.replace(queues=queues, options=options), 0).broker
        self._session = self._broker.session(SETUP)
        self._names = list(queues)

    def send(self, producer: Producer, messages: Iterable[Message]) -> tuple[list[str], list[int]]:
        """Send messages; return the queues that keep all of them, and each message's size in bytes."""
        before = self._depths()
        sizes = [self._session.message_transfer(message, producer.to[0]).size for message in messages]
        after = self._depths()
        return [name for name in self._names if after[name] - before[name] == len(sizes)], sizes

    def find_keepers(self, producer: Producer, kinds: Iterable[Kind], wanted: Collection[str]) -> set[str]:
        """Return the queues that keep every message of some kind, and so can be filled by it."""
        kept: set[str] = set()
        # One message is not enough: a last value queue keeps one message of each value, and would look like
        # a queue that keeps all.
        for group, size in islice({group: size for size, group in kinds}.items(), _GROUPS + 1):
            kept.update(self.send(producer, [message_of(producer, n, size, group) for n in (1, 2)])[0])
            if kept.issuperset(wanted):
                break
        return kept

    def sure(self, queue: str, producer: Producer) -> int | None:
        """Return the number of window places certain to fill on a queue; None for the whole window."""
        is_choosy = self._broker.queue(queue).is_choosy
        # For other windows only one message is proved: they also count transfers as outstanding that are
        # complete behind a held one (CAP-07), or whose completion they have not asked for (CAP-02).
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
    """A depth of a queue, in messages and in bytes; None for unbounded.

    Parameters:
        count: Messages.
        size: Bytes, as the broker counts them (DQ-05).

    >>> Depth(165, None)
    Depth(count=165, size=None)
    """

    count: int | None
    size: int | None


def full_windows(traffic: Traffic) -> tuple[int, int]:
    """Return the contents of full windows: in messages, and in bytes with the largest messages."""
    senders = traffic.values()
    return sum(one.capacity for one in senders), sum(one.capacity * one.largest for one in senders)


def _before_stop(thresholds: FlowThresholds, traffic: Traffic) -> Depth:
    """Return the greatest depth of a queue while it is OFF."""
    # The queue starts empty and OFF (FC-13). An enqueue that leaves more than a stop turns it ON at once
    # (FC-14), and it turns OFF only when both units are below their resume levels, at most the stop levels
    # (FC-05, FC-16). So while it is OFF neither unit is above its stop. A unit without a stop is bounded by
    # the other unit's: at most stop_size // m messages of at least m bytes fit, and stop_count messages of at
    # most M bytes have at most stop_count × M bytes.
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

    Proof.  While the queue is OFF its depth is at most :func:`_before_stop`.  Let it be ON, and let t be the
    time at which it last turned ON.  Just before t the queue was OFF, so it held at most ``stop`` messages.
    Every message put on it at t or later is held (FC-15), and stays held while it is on the queue and the
    queue is ON (FC-17); so its transfer is incomplete, and takes a place in its producer's window.  A
    producer has ``capacity`` places (CAP-01), so there are at most Σ capacity such messages, and at most
    stop + Σ capacity in all.  In bytes each place has at most its producer's largest message, which gives
    stop_size + Σ capacity × largest.

    A message that several queues hold takes one place in the window (CM-03), and one on each queue: shared
    windows can keep the depth of a queue below its bound, but never raise it above.

    The bound is attained in messages: let the queue be filled to the stop level while the windows are
    empty; then every transfer is held, until each producer has ``capacity`` of them (CAP-08).  In bytes it
    is attained if messages can have any size up to ``largest`` and exactly fill the stop level.

    Without flow control (``thresholds`` None) there is no bound, unless no producer sends.  There is no bound
    in bytes if a producer's sizes are random without an upper limit.

    >>> clients = {"C1": TrafficSource(50, largest=112), "C2": TrafficSource(15, largest=112)}
    >>> maximum_depth(FlowThresholds(100, 100, 0, 0), clients)
    Depth(count=165, size=18480)
    """
    if not traffic:
        return Depth(0, 0)
    if thresholds is None:
        return Depth(None, None)
    # The sum, and not the larger of the two: when the queue turns ON it may be filled up to its stop while
    # every window is still empty.
    off, (count, size) = _before_stop(thresholds, traffic), full_windows(traffic)
    is_drawn = any(sender.is_drawn for sender in traffic.values())
    return Depth(
        None if off.count is None else off.count + count,
        None if off.size is None or is_drawn else off.size + size,
    )


def _attained_depth(thresholds: FlowThresholds | None, traffic: Traffic) -> Depth:
    """Return a depth that at least one run reaches without a limit; None if runs reach any depth."""
    # Let one producer send alone, slowly, while nobody reads: its window is empty as long as the queue is OFF
    # (CM-02). The queue turns ON only when it has stop_count messages, or when one more would be above
    # stop_size; until then it holds at least as many as fit at the largest size. From then on every message
    # is held (FC-15), so that each producer in turn adds the certain part of its window; in bytes, each
    # message counts as its producer's smallest. Between this depth and the maximum depth nothing is proved.
    senders = [sender for sender in traffic.values() if sender.sure != 0]
    windows = [sender.capacity if sender.sure is None else sender.sure for sender in senders]
    if not senders:
        return Depth(0, 0)
    if thresholds is None:
        return Depth(None, None if any(sender.smallest for sender in senders) else 0)
    stop_count, stop_size, before = thresholds.stop_count, thresholds.stop_size, list[list[int]]()
    for sender in senders:
        # Messages and bytes at either stop; the stop that is reached first decides.
        stops = [(stop_count, stop_count * sender.smallest)] if stop_count else []
        if stop_size and sender.largest:
            stops.append((stop_size // sender.largest, max(0, stop_size - sender.largest + 1)))
        before.append([min(amounts) for amounts in zip(*stops, strict=True)] or [0, 0])
    count, size = (max(amounts) for amounts in zip(*before, strict=True))
    held = sum(window * sender.smallest for window, sender in zip(windows, senders, strict=True))
    return Depth(count + sum(windows), size + held)


def stays_on(thresholds: FlowThresholds, traffic: Traffic) -> bool:
    """Return whether a queue, once ON, stays ON while its producers always have messages to send.

    It is meant for a queue with a resume level in messages, and for ideal windows.

    Proof.  Let the queue be ON and every window be full: Σ capacity held transfers are on the queue.  When
    one of them is dequeued, its completion is sent (FC-17), its producer sends another message, and that is
    held too (FC-15).  So the depth is below Σ capacity for no longer than a producer takes to learn of a
    completion and to send; if ``resume`` is at most Σ capacity − 1 the depth never falls below ``resume``
    (FC-16).  This is no deadlock; but the producers then work at the consumers' pace, and stop and resume no
    longer matter.  The qpid-cpp window does not have this problem: once full, it waits until *all* its
    transfers are complete (CAP-02).

    >>> clients = {"C1": TrafficSource(50), "C2": TrafficSource(15)}
    >>> stays_on(FlowThresholds(100, 50, 0, 0), clients), stays_on(FlowThresholds(100, 80, 0, 0), clients)
    (True, False)
    """
    return 0 < thresholds.resume_count < full_windows(traffic)[0]


def largest_stop(limit: int, traffic: Traffic, unit: str = "count") -> int:
    """Return the largest stop threshold that cannot overflow a limit: limit − Σ capacity (CAP-11).

    It follows from :func:`maximum_depth`, and from LP-02: a limit that is exactly reached is not exceeded.

    Parameters:
        limit: The queue's limit in ``unit``.
        traffic: The queue's producers.
        unit: "count" for messages, or "size" for bytes.

    Returns:
        The threshold in ``unit``. A result below 1 means that no threshold is safe: the windows alone are as
        large as the limit.

    >>> largest_stop(200, {"C1": TrafficSource(50), "C2": TrafficSource(15)})
    135
    """
    return limit - full_windows(traffic)[unit == "size"]


# Verdicts

# In each unit the maximum depth is compared with the limit in force; filling the limit exactly is allowed
# (LP-02).  If the maximum is within the limit, the queue cannot overflow.  If a depth that some run is
# certain to reach is above the limit, it can.  Otherwise neither is proved, and the answer is None, which is
# not "safe".

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
    # The limit in force; 0 for none.
    limit: int
    # Depths if there were no limit: the proved maximum (None: no bound), and one that some run reaches.
    bound: int | None
    attained: int | None
    reason: str

    @property
    def can_overflow(self) -> bool | None:
        """False if no run exceeds the limit (LP-02), True if at least one does, None if neither is proved."""
        if not self.limit or (self.bound is not None and self.bound <= self.limit):
            return False
        return True if self.attained is None or self.attained > self.limit else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a queue: whether it can overflow.

    Parameters:
        queue: The queue's name.
        policy: The overflow policy: reject, ring or self-destruct.
        units: The verdicts for messages and for bytes, in this order.
        seen: A sentence about the simulation that overflowed the queue; "" if none did.
    """

    queue: str
    policy: str
    units: tuple[UnitVerdict, UnitVerdict]
    seen: str = ""

    @property
    def is_safe(self) -> bool:
        """Whether it is proved that no run overflows the queue, in messages or in bytes."""
        return self.can_overflow is False

    @property
    def can_overflow(self) -> bool | None:
        """Whether at least one run overflows the queue in either unit; None if nothing is proved."""
        found = {unit.can_overflow for unit in self.units}
        if True in found or (None in found and self.seen):
            return True
        return None if None in found else False

    @property
    def never_more_than(self) -> int | None:
        """The proved maximum number of messages on the queue; None without a proof."""
        return self.units[0].bound or None

    @property
    def never_more_bytes_than(self) -> int | None:
        """The proved maximum of bytes on the queue; None without a proof."""
        return self.units[1].bound or None

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons for the verdict, one sentence per unit.

        For a safe queue these are the reasons of all units with a limit.  Otherwise only the units that
        decide the verdict are included, followed by a sentence on what happens when the queue is full.
        """
        if self.is_safe:
            return tuple(unit.reason for unit in self.units if unit.limit)
        full = f"if it is full, {_WHAT_FOLLOWS[self.policy]}"
        # A unit that is certain to overflow decides the verdict, whatever the other one does. Only without
        # such a unit is the verdict "not known".
        deciding = [unit.reason for unit in self.units if unit.can_overflow]
        if deciding:
            return (*deciding, full)
        unknown = [unit.reason for unit in self.units if unit.can_overflow is None]
        return (*unknown, self.seen or "whether any run overflows it is not known", full)


def judge(
    queue: str, arguments: Mapping[str, Argument], traffic: Traffic, options: BrokerOptions | None = None
) -> Verdict:
    """Return the verdict on a queue: its limits compared with the proved bounds of its depth.

    Parameters:
        queue, arguments: The queue's name and its declare arguments.
        traffic: The queue's producers.
        options: The broker's start options; None for the defaults.

    Raises:
        DesignError: If the broker refuses the arguments (the text is the broker's), or if the queue uses one
            of the alternative algorithms of :mod:`qflow.broker.history`, for which nothing is proved here.

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
    """Return the verdict on each queue of a workload, in the workload's order.

    The verdicts hold for any consumers.  See :func:`judge`.

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
        # The other unit's stop may be reached first; then the bound is not the sum with this unit's own stop.
        own = f"stop {stop} + {windows} {window} = {bound}" if stop and stop + window == bound else ""
        own = own or f"at most {bound}, by the other unit's stop and {windows} {window}"
        where = f"within the limit of {limit}"
        if bound > limit:
            where = f"above the limit of {limit} by {bound - limit}"
        reason = f"{what}: {own}, which is {where} (CAP-11)"
    return UnitVerdict(unit, limit, bound, attained, reason)


# Bytes that full windows exceed once in a million

RISK = 1e-6

_STEP = 0.005
_NORMAL = NormalDist()


_Sizes = list[tuple[float, float]]
"""The size distribution of one producer's messages: (bytes, probability) steps, sizes rounded up."""


def _tabulate_sizes(mu: float, sigma: float, largest: float, header: int, cut: float) -> _Sizes:
    # Sizes above the largest are cut to the largest; the probability above the cut is part of the risk.
    # The cut is shifted by sigma squared: the message that turns the queue ON is drawn in proportion to its
    # size, and the cut has to be far out for that distribution, too.
    top = min(largest, exp(mu + sigma * sigma + sigma * _NORMAL.inv_cdf(1 - cut)))
    sizes: _Sizes = []
    edge, below = exp(mu - 7 * sigma), 0.0
    while edge < top:
        share = _NORMAL.cdf((log(edge) - mu) / sigma)
        sizes.append((edge + header, share - below))
        edge, below = edge * exp(_STEP), share
    return [*sizes, (top + header, 1 - below)]


def _log_moments(sizes: _Sizes, t: float) -> tuple[float, float]:
    """Return log E[exp(t X)] of a size X, and of a size drawn in proportion to itself."""
    # Relative to the largest size, so that no exponential overflows.
    top = sizes[-1][0]
    weights = [(size, share * exp(t * (size - top))) for size, share in sizes]
    mean = sum(share * size for size, share in sizes)
    plain, biased = sum(w for _, w in weights), sum(size * w for size, w in weights) / mean
    return t * top + log(plain), t * top + log(biased)


class FullWindow(NamedTuple):
    """A producer's full window: its capacity, the message size (fixed or random), and the header's bytes."""

    capacity: int
    size: int | tuple[float, ...]
    header: int


def bytes_at_risk(windows: Iterable[FullWindow], risk: float = RISK) -> float:
    """Return the bytes that full windows exceed with probability `risk`.

    >>> capacity, drawn = 300, (9.1, 0.75, 40_000)
    >>> round(bytes_at_risk([FullWindow(capacity, drawn, 0)]) / 1000), capacity * 40
    (4315, 12000)
    """
    # Chernoff's bound: for every t above 0, P(S >= s) <= E[exp(t S)] exp(-t s). The result is the smallest s
    # for which some t makes the right side equal to the risk. A distribution without a largest size is cut
    # off, so that its moments are finite, and half of the risk covers the part beyond the cut.
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
    """Return the smallest sum that Chernoff's bound allows, over all t."""

    def bound(t: float) -> float:
        moments = [(capacity, *_log_moments(sizes, t)) for capacity, sizes in drawn]
        # One message, of any producer, turned the queue ON. Large messages cross a level more often, so it
        # counts as drawn in proportion to its size.
        extra = max(biased - plain for _, plain, biased in moments)
        return (sum(capacity * plain for capacity, plain, _ in moments) + extra + target) / t

    top = max(sizes[-1][0] for _, sizes in drawn)
    # The search is over log t, as the best t may be many orders of magnitude below 1 / top.
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
