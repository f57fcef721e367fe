"""Diagram: what a chart shows, before anybody has drawn it: lines, bands, bars, and rows of spans."""

from __future__ import annotations

from dataclasses import dataclass, field

Point = tuple[float, float]
SpanRow = tuple[str, float, float, str]
"""A row's name, from and to in seconds, and what is said when it is pointed at."""

COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a8000", "#7a5195")
"""Okabe and Ito's, with one of its own for the yellow that no white page shows."""
DASHES = ("solid", "dash", "dot", "dashdot")
HATCHES = ("", "/", "\\", "x", "-", "|", "+", ".")
"""What tells kinds of spans apart where colours cannot: lines this way or that, crosses, dots."""


def ink_on(color: str) -> str:
    """Return black or white: what is read more easily on a colour.

    Examples
    --------
    >>> [ink_on(color) for color in COLORS[:3]]
    ['#ffffff', '#000000', '#000000']
    """
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 105 else "#ffffff"


@dataclass(frozen=True, slots=True)
class Line:
    """A quantity over time; each point holds until the next."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A line across: a threshold or a limit; `kind` is ``stop``, ``resume``, ``limit`` or ``mark``."""

    name: str
    value: float
    kind: str


@dataclass(frozen=True)
class Diagram:
    """What a chart shows.

    Parameters
    ----------
    title
        What it is about.
    x_title, y_title
        The axes, with their units.
    claims
        What it shows, in sentences.
    lines, levels
        Quantities over time, and the thresholds they are held against.
    bands
        (name, spans): from and to in seconds, hatched from top to bottom.
    bars
        (where, how much): a distribution; each bar reaches to the next.
    rows
        (name, spans): for each kind of span, all of its rows.
    end
        The right end of the axis.

    Examples
    --------
    >>> Diagram("depth", "seconds", "messages", ("It is empty.",), end=3)
    It is empty.
    """

    title: str
    x_title: str
    y_title: str
    claims: tuple[str, ...]
    lines: tuple[Line, ...] = ()
    levels: tuple[Level, ...] = ()
    bands: tuple[tuple[str, tuple[Point, ...]], ...] = ()
    bars: tuple[Point, ...] = ()
    rows: tuple[tuple[str, tuple[SpanRow, ...]], ...] = ()
    end: float = field(default=1.0)

    @property
    def row_names(self) -> tuple[str, ...]:
        """The names of all rows, each once, in the order of their names: p2 before p10."""
        return tuple(sorted({row[0] for _, rows in self.rows for row in rows}, key=lambda n: (len(n), n)))

    @property
    def top(self) -> float:
        """The upper end of the scale; a level far above everything else is left out."""
        highest = max([y for line in self.lines for _, y in line.points] + [y for _, y in self.bars] + [1.0])
        near = [level.value for level in self.levels if level.value <= 2.5 * highest]
        return 1.06 * max([highest, *near])

    @property
    def seen_levels(self) -> tuple[Level, ...]:
        """The levels that the scale reaches."""
        return tuple(level for level in self.levels if level.value <= self.top)

    def __repr__(self) -> str:
        return "\n".join(self.claims)
