"""What a run costs its producers: flips, blocked time, and how long completions take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from qflow.workload.agenda import SECOND
from qflow.workload.run import Run
from qflow.workload.stage import GRACE


@dataclass(frozen=True, slots=True)
class Costs:
    """What a run cost one part of a workload.

    Parameters
    ----------
    flips_per_minute : float
        How often its queues turned ON.
    blocked_share : float
        Share of the time for which its producers had something to send and no room in their windows; the
        mean over the producers.
    latency_p50, latency_p99 : float
        Seconds from a transfer to its completion, which half and 99 % of the transfers stayed within.  One
        that was not complete in the end counts with the time until then.
    maximum_depth : mapping
        Queue name to the most messages that were ever on it.
    transfers, accepts : int
        How many messages were sent, and how many consumers accepted.
    seconds : float
        The time over which all this was measured.
    errors : mapping
        Producer name to what its session died of.
    """

    flips_per_minute: float
    blocked_share: float
    latency_p50: float
    latency_p99: float
    maximum_depth: Mapping[str, int]
    transfers: int
    accepts: int
    seconds: float
    errors: Mapping[str, str]

    def objectives(self) -> tuple[float, float, float]:
        """Return what is to be small: flips, blocked share, and the slowest completions."""
        return self.flips_per_minute, self.blocked_share, self.latency_p99


def costs(run: Run, queues: Iterable[str], producers: Iterable[str]) -> Costs:
    """Measure a part of a run, over the time in which messages fell due.

    Parameters
    ----------
    run : Run
        What happened.
    queues, producers : iterable of str
        The names of those that count.

    Returns
    -------
    Costs
        Of those queues and producers only.

    Examples
    --------
    >>> from qflow.workload import Producer, Workload, simulate
    >>> producer = Producer("p", ("", "q"), rate=100, capacity=5, size=100)
    >>> run = simulate(Workload("w", 1, {"q": {"qpid.flow_stop_count": 10}}, producers=(producer,)))
    >>> measured = costs(run, ["q"], ["p"])
    >>> measured.flips_per_minute, measured.maximum_depth, measured.latency_p50, measured.errors
    (60.0, {'q': 15}, 0.0, {})
    """
    end = max(1, min(run.end - GRACE, round(run.workload.duration * SECOND)))
    names, depth = list(producers), dict.fromkeys(queues, 0)
    blocked = {name: _Blocked(end) for name in names}
    sent: dict[tuple[str, Any], int] = {}
    latencies: list[int] = []
    flips = accepts = 0
    for event in run.events:
        if event.time > end:
            break
        kind = event.kind
        if kind == "message.transfer" and event.session in blocked:
            sent[event.session, _detail(event, "command")] = event.time
        elif kind == "completed":
            begin = sent.pop((event.session, _detail(event, "command")), None)
            if begin is not None:
                latencies.append(event.time - begin)
        elif kind == "enqueued" and event.queue in depth:
            depth[event.queue] = max(depth[event.queue], _detail(event, "depth"))
        elif kind == "dequeued" and event.queue in depth:
            accepts += _detail(event, "reason") == "accept"
        elif kind == "flow_stopped":
            flips += event.queue in depth
        elif kind in ("client.block", "client.unblock") and event.session in blocked:
            blocked[event.session].at(event.time, kind == "client.block")
    transfers = len(latencies) + len(sent)
    latencies += [end - begin for begin in sent.values()]
    latencies.sort()
    share = sum(meter.share() for meter in blocked.values()) / len(names) if names else 0.0
    errors = {name: str(error) for name, error in run.errors.items() if name in blocked}
    return Costs(
        flips * 60 * SECOND / end,
        share,
        *_percentiles(latencies),
        depth,
        transfers,
        accepts,
        end / SECOND,
        errors,
    )


class _Blocked:
    """Adds up the time for which one producer is blocked."""

    def __init__(self, end: int) -> None:
        self._end = end
        self._total = 0
        self._since: int | None = None

    def at(self, time: int, is_blocked: bool) -> None:
        if is_blocked and self._since is None:
            self._since = time
        elif not is_blocked and self._since is not None:
            self._total += time - self._since
            self._since = None

    def share(self) -> float:
        still = self._end - self._since if self._since is not None else 0
        return (self._total + still) / self._end


def _percentiles(ordered: list[int]) -> tuple[float, float]:
    if not ordered:
        return 0.0, 0.0
    last = len(ordered) - 1
    return ordered[len(ordered) // 2] / SECOND, ordered[min(last, len(ordered) * 99 // 100)] / SECOND


def _detail(event: Any, key: str) -> Any:
    return event.detail[key] if isinstance(event.detail, Mapping) else 0
