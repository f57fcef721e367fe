"""Risk: how many bytes a full window holds but once in a million, where the hard bound is far off.

The hard bound counts each place of a window as a message of the largest size: 300 places of 260 kB are 78 MB,
though 300 sizes that are drawn hardly ever sum up to that.  This bound is not proved for every run; it is
exceeded with at most a stated probability, each time the windows are filled, if the sizes are drawn
independently.

It is Chernoff's: for every t above 0, P(S >= s) <= E[exp(t S)] exp(-t s), and the smallest s is taken for
which some t makes that the risk.  Two things keep it from being too low.  The message that turns a queue ON
is larger than most, as large messages cross a level more often: it counts as drawn in proportion to its size
(*size-biased*).  And sizes are taken in steps of half a percent, each rounded up.  Where a distribution has
no largest, half of the risk pays for cutting it off, so that its moments are finite.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log
from statistics import NormalDist

RISK = 1e-6

_STEP = 0.005
_NORMAL = NormalDist()


class _Sizes:
    """The sizes of one producer's messages, as a table of (bytes, probability)."""

    def __init__(self, mu: float, sigma: float, largest: float, header: int, cut: float) -> None:
        # What is above the largest is of the largest size; what is above the cut is paid for.
        top = min(largest, exp(mu + sigma * sigma + sigma * _NORMAL.inv_cdf(1 - cut)))
        self.table: list[tuple[float, float]] = []
        edge, below = exp(mu - 7 * sigma), 0.0
        while edge < top:
            share = _NORMAL.cdf((log(edge) - mu) / sigma)
            self.table.append((edge + header, share - below))
            edge, below = edge * exp(_STEP), share
        self.table.append((top + header, 1 - below))

    def log_moments(self, t: float) -> tuple[float, float]:
        """Return log E[exp(t X)], and the same of a size drawn in proportion to itself."""
        # From the largest size down, so that nothing overflows.
        top = self.table[-1][0]
        weights = [(size, share * exp(t * (size - top))) for size, share in self.table]
        mean = sum(share * size for size, share in self.table)
        plain, biased = sum(w for _, w in weights), sum(size * w for size, w in weights) / mean
        return t * top + log(plain), t * top + log(biased)


def bytes_at_risk(windows: Iterable[tuple[int, int | tuple[float, ...], int]], risk: float = RISK) -> float:
    """Return how many bytes full windows exceed at most with a probability of ``risk``.

    ``windows``: of each producer its capacity, its sizes as :class:`~qflow.workload.Producer` has them, and
    the bytes of a header.

    >>> capacity, drawn = 300, (9.1, 0.75, 40_000)
    >>> round(bytes_at_risk([(capacity, drawn, 0)]) / 1000), capacity * 40
    (4315, 12000)
    """
    fixed, drawn = 0.0, list[tuple[int, _Sizes]]()
    given = list(windows)
    total = sum(capacity for capacity, _, _ in given)
    for capacity, size, header in given:
        if isinstance(size, int) or not size[1]:
            fixed += capacity * ((size if isinstance(size, int) else exp(size[0])) + header)
        else:
            largest = size[2] if len(size) == 3 else float("inf")
            drawn.append((capacity, _Sizes(size[0], size[1], largest, header, risk / 2 / (total + 1))))
    if not drawn:
        return fixed
    is_cut = any(not isinstance(size, int) and len(size) == 2 for _, size, _ in given)
    target = log(1 / (risk / 2 if is_cut else risk))
    return fixed + _least(drawn, target)


def _least(drawn: list[tuple[int, _Sizes]], target: float) -> float:
    """Return the least sum that Chernoff's bound gives; it has one minimum in t."""

    def bound(t: float) -> float:
        moments = [(capacity, *sizes.log_moments(t)) for capacity, sizes in drawn]
        # One message, whoever's, is the one that turned the queue ON.
        extra = max(biased - plain for _, plain, biased in moments)
        return (sum(capacity * plain for capacity, plain, _ in moments) + extra + target) / t

    top = max(sizes.table[-1][0] for _, sizes in drawn)
    # In powers of t, as its best value may be anywhere below what the largest size allows.
    low, high = log(1e-6 / top), log(100 / top)
    for _ in range(40):
        third = (high - low) / 3
        if bound(exp(low + third)) < bound(exp(high - third)):
            high -= third
        else:
            low += third
    hard = sum(capacity * sizes.table[-1][0] for capacity, sizes in drawn)
    return min(bound(exp((low + high) / 2)), hard)
