"""What a report's work costs: planes through what a log shows, as little bent by interruptions as can be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import mean, median
from typing import NamedTuple

ENOUGH = 20
"""Points that make a plane."""

PARTS = 20
"""Into how many parts points are divided by what had been sent; each of them again in three."""


class Report(NamedTuple):
    """One completion that a client learned of, straight after another.

    Fields
    ------
    sent : int
        How many messages it had sent.
    outstanding : int
        Of how many it had not learned yet that they are complete, this one included.
    time : int
        Microseconds of work.
    """

    sent: int
    outstanding: int
    time: int


class Cost(NamedTuple):
    """What a report's work costs, in microseconds: so much, and for each message sent, and outstanding.

    Examples
    --------
    >>> Cost(10, 0.05, 1).of(sent=2000, outstanding=100)
    210.0
    """

    start: float
    growth: float
    share: float

    def of(self, sent: int, outstanding: int) -> float:
        """Return what one report costs."""
        return self.start + self.growth * sent + self.share * outstanding


def cost(points: Sequence[Report], growth: float, share: float) -> Cost:
    """Return what reports cost that grow with what is sent and outstanding as given.

    If so much growth leaves less than nothing at the start, there is less of it.

    Examples
    --------
    >>> points = [Report(n, 7, 114 + 2 * n) for n in range(100)]
    >>> cost(points, 2, 2), cost(points, 9, 1).start, cost([], 1, 1).growth
    (Cost(start=100.0, growth=2, share=2), 0.0, 0.0)
    """
    if len(points) < ENOUGH:
        return Cost(0.0, 0.0, 0.0)
    middles = _middles(points)
    sent, outstanding, time = (mean(values) for values in zip(*middles, strict=True))
    grown = growth * sent + share * outstanding
    if grown <= time:
        return Cost(float(time - grown), growth, share)
    return Cost(0.0, growth * time / grown, share * time / grown)


def growths(sets: Iterable[Sequence[Report]]) -> tuple[float, float]:
    """Return what each message sent, and each one outstanding, adds to a report's work in several sets.

    Each set has a start of its own; neither number is below 0.

    Examples
    --------
    >>> one = [Report(n, n % 10, 100 + n + 20 * (n % 10)) for n in range(200)]
    >>> other = [Report(n, n % 10, n + 20 * (n % 10)) for n in range(900, 999)]
    >>> [round(value) for value in growths([one, other])]
    [1, 20]
    """
    across = slope = both = up = right = 0.0
    for points in sets:
        if len(points) >= ENOUGH:
            for sent, outstanding, time in _centred(_middles(points)):
                across += sent * sent
                slope += outstanding * outstanding
                both += sent * outstanding
                up += sent * time
                right += outstanding * time
    area = across * slope - both * both
    growth, share = (0.0, 0.0)
    # What lies on one line says nothing of the other direction.
    if area > across * slope / 10:
        growth, share = (up * slope - right * both) / area, (right * across - up * both) / area
    if growth > 0 and share > 0:
        return growth, share
    if share <= 0:
        return max(0.0, up / across if across else 0.0), 0.0
    return 0.0, max(0.0, right / slope if slope else 0.0)


def _centred(points: Sequence[tuple[float, float, float]]) -> Iterator[tuple[float, ...]]:
    middle = [mean(values) for values in zip(*points, strict=True)]
    for point in points:
        yield tuple(value - other for value, other in zip(point, middle, strict=True))


def _middles(points: Sequence[Report]) -> list[tuple[float, float, float]]:
    """Return the medians of parts of points: what was interrupted for a short time counts little."""
    found: list[tuple[float, float, float]] = []
    for part in _parts(sorted(points), PARTS):
        for cell in _parts(sorted(part, key=lambda point: point.outstanding), 3):
            sent, outstanding, time = zip(*cell, strict=True)
            found.append((median(sent), median(outstanding), median(time)))
    return found


def _parts(points: Sequence[Report], number: int) -> list[Sequence[Report]]:
    size = max(5, len(points) // number)
    return [points[begin : begin + size] for begin in range(0, len(points) - size + 1, size)]
