"""Straight lines through what a log shows, as little bent by interruptions as can be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, median

ENOUGH = 20
"""Points that make a line."""


def line(points: Sequence[tuple[int, int]], growth: float | None = None) -> tuple[float, float]:
    """Return the straight line through the medians of up to twenty parts, by least squares.

    Medians, because what was interrupted for a short time only would count too much.

    Parameters
    ----------
    points : sequence of (int, int)
        In any order.
    growth : float or None
        Its slope, if that is known.

    Returns
    -------
    (float, float)
        Its value at 0 (not below 0) and its slope (not below 0).

    Examples
    --------
    >>> [round(value, 6) for value in line([(n, 100 + n) for n in range(100)])]
    [100.0, 1.0]
    """
    if len(points) < ENOUGH:
        return 0.0, 0.0
    middles = _middles(points)
    growth = common_growth([points]) if growth is None else growth
    across, up = mean(x for x, _ in middles), mean(y for _, y in middles)
    start = up - growth * across
    return (start, growth) if start >= 0 else (up, 0.0)


def common_growth(sets: Iterable[Sequence[tuple[int, int]]]) -> float:
    """Return the slope that straight lines through several sets of points have in common, not below 0.

    Examples
    --------
    >>> round(common_growth([[(n, 100 + n) for n in range(100)], [(n, n) for n in range(900, 999)]]), 6)
    1.0
    """
    together = spread = 0.0
    for points in sets:
        if len(points) >= ENOUGH:
            middles = _middles(points)
            across, up = mean(x for x, _ in middles), mean(y for _, y in middles)
            spread += sum((x - across) ** 2 for x, _ in middles)
            together += sum((x - across) * (y - up) for x, y in middles)
    return max(0.0, together / spread) if spread else 0.0


def _middles(points: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """Return the medians of up to twenty parts of points."""
    ordered = sorted(points)
    size = max(5, len(ordered) // 20)
    parts = [ordered[begin : begin + size] for begin in range(0, len(ordered) - size + 1, size)]
    return [(median(x for x, _ in part), median(y for _, y in part)) for part in parts]
