"""The depth chart as a drawing: text that any viewer of notebooks can show, with nothing installed."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from qflow.labs.curve import Curve
from qflow.labs.frames import Span

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 860, 250, 58, 96, 30, 44
LANE = 20

_STYLE = (
    "text{font:12px sans-serif;fill:#57606a}.t{font-weight:bold;fill:#1c2126}.c{fill:none;stroke:#0072b2;"
    "stroke-width:2}.a{fill:none;stroke:#57606a}.limit{stroke:#57606a}.stop{stroke:#c04c00;stroke-width:1.5}"
    ".resume{stroke:#007a59;stroke-width:1.5;stroke-dasharray:7 4}.on{fill:#c04c00;font-weight:bold;"
    "text-anchor:middle}.b{fill:url(#h);stroke:#c04c00;stroke-opacity:.5}.r{fill:#cc79a7;stroke:#a8487f}"
    ".s{fill:none;stroke:#a8487f;stroke-width:3;stroke-dasharray:1 4;stroke-linecap:round}"
)
_HATCH = (
    '<pattern id="h" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="8" height="8" fill="#c04c00" fill-opacity=".08"/>'
    '<rect width="1.6" height="8" fill="#c04c00" fill-opacity=".45"/></pattern>'
)


def draw(curve: Curve) -> str:
    """Draw a queue's depth over time.

    Parameters
    ----------
    curve
        What to draw.

    Returns
    -------
    str
        A complete SVG document.
    """
    plot = _Plot(curve)
    height = HEIGHT + (LANE if curve.really_on else 0)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>Depth of {escape(curve.queue.name)} over time</title>",
        f"<style>{_STYLE}</style><defs>{_HATCH}</defs>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        *plot.bands(),
        *plot.axes(),
        f'<path class="c" d="{plot.path()}"/>',
        *plot.reports(),
        "</svg>",
    ]
    return "\n".join(parts)


class _Plot:
    """Places on the drawing."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.floor = HEIGHT - BOTTOM

    def x(self, seconds: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * seconds / max(self.curve.end, 1e-6), 1)

    def y(self, depth: float) -> float:
        return round(self.floor - (self.floor - TOP) * depth / self.curve.top, 1)

    def path(self) -> str:
        first, *others = self.curve.points
        steps = [f"M{self.x(first[0])},{self.y(first[1])}"]
        steps += [f"H{self.x(time)}V{self.y(depth)}" for time, depth in others]
        return "".join(steps)

    def bands(self) -> Iterator[str]:
        for left, width in map(self._box, self.curve.on):
            yield f'<rect class="b" x="{left}" y="{TOP}" width="{width}" height="{self.floor - TOP}"/>'
            if width > 24:
                yield f'<text class="on" x="{left + width / 2:.1f}" y="{self.floor - 8}">ON</text>'

    def axes(self) -> Iterator[str]:
        curve, right = self.curve, WIDTH - RIGHT
        title = f"depth of {escape(curve.queue.name)}, in messages"
        yield f'<text class="t" x="{LEFT - 50}" y="16">{title}</text>'
        yield f'<path class="a" d="M{LEFT},{TOP}V{self.floor}H{right}"/>'
        free = 0.0
        for name, depth in curve.levels():
            at = self.y(depth)
            label = max(at + 4, free)
            free = label + 14
            yield f'<line class="{name}" x1="{LEFT}" x2="{right}" y1="{at}" y2="{at}"/>'
            yield f'<text x="{right + 6}" y="{label}">{name} {depth}</text>'
        step = _step(curve.end)
        for number in range(int(curve.end / step) + 1):
            at = self.x(number * step)
            yield f'<text x="{at}" y="{self.floor + 16}" text-anchor="middle">{number * step:g} s</text>'

    def reports(self) -> Iterator[str]:
        curve = self.curve
        if curve.reported:
            points = " ".join(f"{self.x(time)},{self.y(depth)}" for time, depth in curve.reported)
            yield f'<polyline class="s" points="{points}"/>'
            legend = "dotted: as the real broker reported it"
            yield f'<text x="{WIDTH - RIGHT}" y="16" text-anchor="end">{legend}</text>'
        if curve.really_on:
            at = self.floor + 26
            for left, width in map(self._box, curve.really_on):
                yield f'<rect class="r" x="{left}" y="{at}" width="{width}" height="12" rx="2"/>'
            yield f'<text x="{LEFT}" y="{at + 27}">the bars: the real broker reported flow control ON</text>'

    def _box(self, span: Span) -> tuple[float, float]:
        left, right = self.x(span[0] / 1e6), self.x(span[1] / 1e6)
        return left, round(max(right - left, 1.0), 1)


def _step(seconds: float) -> float:
    power = 10.0 ** (len(str(int(seconds))) - 1) / 10
    return next((f * power for f in (1, 2, 5, 10, 20, 50) if f * power * 10 >= seconds), 100 * power)
