"""Replays: the same clients with their interruptions at other times, where little decides much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from qflow.broker.settings import QueueSettings
from qflow.workload.clients import Consumer
from qflow.workload.measures import Measures
from qflow.workload.model import Workload
from qflow.workload.run import Run

REPLAYS = 7
"""How many replays there are where one alone would say too little."""

REPLAYS_CHANGED = 5
"""How many there are under other settings than the recorded ones: what is in the middle is seldom far off."""

PATIENCE = 500_000
"""Events: of a run with more there is only one, if no session ends; that takes long, and of so many queues no
one run is in the middle of all."""

CHANCE = {
    "mean_depth": (0.05, 0.1),
    "share_on": (0.0, 0.03),
    "flowStoppedCount": (0.1, 2.0),
    "throughput": (0.03, 0.1),
}
"""By what share of itself, or by how much at least, a measure may differ and be as good as the same."""

NEAR = 0.95
"""Share of a queue's limit from which a message more or less may end a session."""

Sections = Mapping[str, Mapping[str, Measures]]


@dataclass(frozen=True, slots=True)
class Replay:
    """One replay: what was measured, and what sessions ended by.

    Parameters
    ----------
    sections : mapping
        Queues, producers and consumers with their measures.
    errors : mapping
        Client name to what its session ended by.
    is_near : bool
        Whether a session ended, or a queue came so near its limit that one might have.
    events : int
        How many there were.

    Examples
    --------
    >>> Replay({"queues": {}}, {"p": "resource-limit-exceeded: ..."}, True).ended
    ('p',)
    """

    sections: Sections
    errors: Mapping[str, str]
    is_near: bool
    events: int = 0

    @property
    def ended(self) -> tuple[str, ...]:
        """Names of the clients whose session ended, sorted."""
        return tuple(sorted(self.errors))

    def places(self) -> list[tuple[str, str]]:
        """Return the queues and measures by which replays are told apart."""
        return [
            (queue, key) for queue, found in self.sections["queues"].items() for key in CHANCE if key in found
        ]

    def measure(self, queue: str, key: str) -> float:
        """Return one measure of a queue."""
        return float(self.sections["queues"][queue][key] or 0)

    def distance(self, middles: Mapping[tuple[str, str], float]) -> float:
        """Return how far all measures are from others, each in terms of what is little of it."""
        total = 0.0
        for (queue, key), middle in middles.items():
            share, least = CHANCE[key]
            total += abs(self.measure(queue, key) - middle) / max(least, share * abs(middle))
        return total

    def mean_depth(self) -> float:
        """Return the mean depth of all queues together."""
        return sum(float(measures["mean_depth"] or 0) for measures in self.sections["queues"].values())


def shifted(workload: Workload, place: int, of: int = REPLAYS) -> Workload:
    """Return a workload whose consumers meet the same interruptions at other messages.

    What a log shows of a machine's other work would, on another day, have come at other instants: by that
    alone replays differ.

    Parameters
    ----------
    workload : Workload
        What was extracted from a log.
    place, of : int
        The how many-th of how many; the 0th is the log's own.

    Examples
    --------
    >>> consumer = Consumer("c", "q", 1, ("const", 0.01), overhead=(0.001, 0.002, 0.003))
    >>> shifted(Workload("w", 1, {"q": {}}, consumers=(consumer,)), 1, of=3).consumers[0].overhead
    (0.002, 0.003, 0.001)
    """
    consumers = tuple(_shifted(consumer, place, of) for consumer in workload.consumers)
    return workload.replace(consumers=consumers)


def _shifted(consumer: Consumer, place: int, of: int) -> Consumer:
    kind, service = consumer.service
    if isinstance(service, tuple):
        consumer = replace(consumer, service=(kind, _rotated(service, place, of)))
    return replace(consumer, overhead=_rotated(consumer.overhead, place, of))


def _rotated(items: tuple[float, ...], place: int, of: int) -> tuple[float, ...]:
    first = len(items) * place // of
    return items[first:] + items[:first]


def is_near_limit(run: Run) -> bool:
    """Return whether a session ended, or a queue came so near its limit that one might have.

    A queue whose stop count leaves room for all that its producers may have outstanding cannot reach its
    limit (CAP-11).

    Examples
    --------
    >>> is_near_limit(Run(Workload("w", 1, {"q": {"qpid.max_count": 10}}), [], end=0))
    False
    """
    if run.errors:
        return True
    outstanding = sum(producer.capacity for producer in run.workload.producers)
    limits: dict[str, tuple[float, float]] = {}
    for name, arguments in run.workload.queues.items():
        settings = QueueSettings.from_arguments(arguments)
        stop = settings.flow_stop_count
        is_safe = stop is not None and 0 < stop <= settings.max_count - outstanding
        count = NEAR * settings.max_count if settings.max_count and not is_safe else float("inf")
        if settings.policy == "reject":
            limits[name] = (count, NEAR * settings.max_size if settings.max_size else float("inf"))
    for event in run.events:
        if event.kind == "enqueued" and event.queue in limits and isinstance(event.detail, dict):
            depth, size = limits[event.queue]
            if event.detail["depth"] >= depth or event.detail["bytes"] >= size:
                return True
    return False


def most_likely(replays: Sequence[Replay], *, is_recorded: bool = True) -> Replay:
    """Return the replay to show: of those that ended as most did, the one in the middle.

    Under the recorded settings the first is shown if it is one of these: it has the log's own instants.

    Parameters
    ----------
    replays : sequence of Replay
        The first with the log's own instants.
    is_recorded : bool
        Whether the settings are those of the log.  Under others its instants are as good as any.

    Examples
    --------
    >>> def replay(depth, *ended):
    ...     return Replay({"queues": {"q": {"mean_depth": depth}}}, dict.fromkeys(ended, ""), True)
    >>> most_likely([replay(5), replay(1, "p"), replay(9, "p"), replay(2, "p")]).mean_depth()
    2.0
    >>> most_likely([replay(5), replay(1), replay(2)]).mean_depth()
    5.0
    >>> most_likely([replay(5), replay(1), replay(2)], is_recorded=False).mean_depth()
    2.0
    """
    # Counter keeps the order of the first ones, so that a tie goes to the log's own instants.
    ((ended, _),) = Counter(replay.ended for replay in replays).most_common(1)
    if is_recorded and replays[0].ended == ended:
        return replays[0]
    alike = [replay for replay in replays if replay.ended == ended]
    middles = {place: median(replay.measure(*place) for replay in alike) for place in alike[0].places()}
    return min(alike, key=lambda replay: replay.distance(middles))


def account(replays: Sequence[Replay]) -> dict[str, object]:
    """Return how many replays there were, how they ended, and between what their measures lie.

    Examples
    --------
    >>> account([Replay({"queues": {"q": {"mean_depth": depth}}}, {}, False) for depth in (2.0, 3.0)])
    {'number': 2, 'outcomes': [{'ended': [], 'replays': 2}], 'spread': {'q': {'mean_depth': [2.0, 3.0]}}}
    """
    outcomes = Counter(replay.ended for replay in replays).most_common()
    queues = replays[0].sections["queues"]
    return {
        "number": len(replays),
        "outcomes": [{"ended": list(ended), "replays": number} for ended, number in outcomes],
        "spread": {
            name: {
                key: _extremes(replay.sections["queues"][name][key] for replay in replays) for key in measures
            }
            for name, measures in queues.items()
        },
    }


def _extremes(values: Iterable[float | int | None]) -> list[float | int] | None:
    known = [value for value in values if value is not None]
    return [min(known), max(known)] if known else None
