"""A diagram as a drawing: text that any viewer can show, with nothing installed."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from qflow.labs.diagram import COLORS, HATCHES, Diagram, ink_on

WIDTH, LEFT, RIGHT, TOP, BOTTOM, PLOT, ROW = 860, 92, 110, 52, 44, 210, 22

_STROKES = {"stop": "#c04c00", "resume": "#007a59", "limit": "#57606a", "mark": "#a8487f"}
_DASHES = ("", "8 4", "2 4", "8 3 2 3")
_STYLE = (
    "text{font:12px sans-serif;fill:#57606a}.t{font-weight:bold;fill:#1c2126;font-size:14px}"
    ".a{fill:none;stroke:#57606a}"
)
_WAYS = {
    "/": "M0,8L8,0",
    "\\": "M0,0L8,8",
    "x": "M0,0L8,8M0,8L8,0",
    "-": "M0,4H8",
    "|": "M4,0V8",
    "+": "M0,4H8M4,0V8",
    ".": "M3,4H5",
}
_HATCH = (
    '<pattern id="h" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="8" height="8" fill="#c04c00" fill-opacity=".08"/>'
    '<rect width="1.6" height="8" fill="#c04c00" fill-opacity=".4"/></pattern>'
)


def draw_diagram(diagram: Diagram) -> str:
    """Draw a diagram.

    Parameters
    ----------
    diagram
        What to draw.

    Returns
    -------
    str
        A complete SVG document.

    Examples
    --------
    >>> draw_diagram(Diagram("a < b", "seconds", "messages", ())).splitlines()[1]
    '<title>a &lt; b</title>'
    """
    pen = _Pen(diagram)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {pen.height}" '
            f'width="{WIDTH}" role="img">',
            f"<title>{escape(diagram.title)}</title>",
            f"<style>{_STYLE}</style><defs>{_HATCH}{''.join(pen.hatches())}</defs>",
            f'<rect width="{WIDTH}" height="{pen.height}" fill="#fff"/>',
            f'<text class="t" x="10" y="18">{escape(diagram.title)}</text>',
            *pen.bands(),
            *pen.bars(),
            *pen.rows(),
            *pen.axes(),
            *pen.levels(),
            *pen.lines(),
            *pen.legend(),
            "</svg>",
        ]
    )


class _Pen:
    """Places on the drawing."""

    def __init__(self, diagram: Diagram) -> None:
        self.diagram = diagram
        self.names = diagram.row_names
        tall = len(self.names) * ROW if self.names else PLOT
        self.floor = TOP + tall
        self.height = self.floor + BOTTOM

    def x(self, value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * value / max(self.diagram.end, 1e-9), 1)

    def y(self, value: float) -> float:
        return round(self.floor - (self.floor - TOP) * value / self.diagram.top, 1)

    def bands(self) -> Iterator[str]:
        for _, spans in self.diagram.bands:
            for start, to in spans:
                width = max(1.0, round(self.x(to) - self.x(start), 1))
                yield (
                    f'<rect x="{self.x(start)}" y="{TOP}" width="{width}" '
                    f'height="{self.floor - TOP}" fill="url(#h)"/>'
                )

    def bars(self) -> Iterator[str]:
        bars = self.diagram.bars
        ends = [x for x, _ in (*bars[1:], (self.diagram.end, 0))][: len(bars)]
        for (start, value), to in zip(bars, ends, strict=True):
            if value:
                width, height = max(1.0, self.x(to) - self.x(start) - 1), self.floor - self.y(value)
                yield (
                    f'<rect x="{self.x(start)}" y="{self.y(value)}" width="{width:.1f}" '
                    f'height="{height:.1f}" fill="{COLORS[0]}"><title>{value:g}</title></rect>'
                )

    def rows(self) -> Iterator[str]:
        place = {name: TOP + index * ROW for index, name in enumerate(self.names)}
        for name, y in place.items():
            yield f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            yield f'<path class="a" d="M{LEFT},{y + 11}H{WIDTH - RIGHT}" stroke-opacity=".25"/>'
        for index, (kind, rows) in enumerate(self.diagram.rows):
            for name, start, to, said in rows:
                width = max(1.0, round(self.x(to) - self.x(start), 1))
                at = f'x="{self.x(start)}" y="{place[name] + 3}" width="{width}" height="{ROW - 6}" rx="2"'
                yield f'<rect {at} fill="{COLORS[index % len(COLORS)]}"/>'
                yield f'<rect {at} fill="url(#k{index})"><title>{escape(said)}</title></rect>'
                if len(self.diagram.rows) > 1 and width > 9 * len(kind):
                    ink = ink_on(COLORS[index % len(COLORS)])
                    yield (
                        f'<text x="{self.x(start) + width / 2:.1f}" y="{place[name] + 15}" '
                        f'text-anchor="middle" style="fill:{ink};font-weight:bold">{escape(kind)}</text>'
                    )

    def hatches(self) -> Iterator[str]:
        for index, _ in enumerate(self.diagram.rows):
            ink, way = ink_on(COLORS[index % len(COLORS)]), _WAYS.get(HATCHES[index % len(HATCHES)], "")
            yield (
                f'<pattern id="k{index}" width="8" height="8" patternUnits="userSpaceOnUse">'
                f'<path d="{way}" stroke="{ink}" stroke-opacity=".35" stroke-width="1.6"/></pattern>'
            )

    def axes(self) -> Iterator[str]:
        diagram, right = self.diagram, WIDTH - RIGHT
        yield f'<path class="a" d="M{LEFT},{TOP}V{self.floor}H{right}"/>'
        step = _step(diagram.end)
        for number in range(int(diagram.end / step) + 1):
            at = self.x(number * step)
            yield f'<text x="{at}" y="{self.floor + 16}" text-anchor="middle">{number * step:g}</text>'
        yield f'<text x="{right}" y="{self.floor + 34}" text-anchor="end">{escape(diagram.x_title)}</text>'
        if self.names:
            return
        step = _step(diagram.top)
        for number in range(int(diagram.top / step) + 1):
            at = self.y(number * step)
            yield f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{number * step:g}</text>'
        yield f'<text x="10" y="{TOP - 12}">{escape(diagram.y_title)}</text>'

    def levels(self) -> Iterator[str]:
        free = 0.0
        for level in sorted(self.diagram.seen_levels, key=lambda level: -level.value):
            at, color = self.y(level.value), _STROKES[level.kind]
            label = max(at + 4, free)
            free = label + 14
            dash = ' stroke-dasharray="7 4"' if level.kind == "resume" else ""
            way = f"M{LEFT},{at}H{WIDTH - RIGHT}"
            yield f'<path d="{way}" fill="none" stroke="{color}" stroke-width="1.5"{dash}/>'
            text = f"{escape(level.name)} {level.value:,}".replace(",", "\u2009")
            yield f'<text x="{WIDTH - RIGHT + 6}" y="{label}" style="fill:{color}">{text}</text>'

    def lines(self) -> Iterator[str]:
        for index, line in enumerate(self.diagram.lines):
            if not line.points:
                continue
            first, *others = line.points
            way = [f"M{self.x(first[0])},{self.y(first[1])}"]
            way += [f"H{self.x(x)}V{self.y(y)}" for x, y in others]
            dash = _DASHES[index % len(_DASHES)]
            dashed = f' stroke-dasharray="{dash}"' if dash else ""
            color = COLORS[index % len(COLORS)]
            yield f'<path d="{"".join(way)}" fill="none" stroke="{color}" stroke-width="2"{dashed}/>'

    def legend(self) -> Iterator[str]:
        x = LEFT
        shown = [(line.name, index) for index, line in enumerate(self.diagram.lines)]
        shown += [(name, index) for index, (name, _) in enumerate(self.diagram.rows)]
        if len(shown) < 2:
            return
        for name, index in shown:
            color = COLORS[index % len(COLORS)]
            at = f'x="{x}" y="{TOP - 22}" width="14" height="9"'
            yield f'<rect {at} fill="{color}"/>'
            if self.diagram.rows:
                yield f'<rect {at} fill="url(#k{index})"/>'
            yield f'<text x="{x + 19}" y="{TOP - 13}">{escape(name)}</text>'
            x += 40 + 7 * len(name)


def _step(most: float) -> float:
    power = 10.0 ** (len(str(int(most))) - 1) / 10 if most >= 1 else 0.001
    return next((f * power for f in (1, 2, 5, 10, 20, 50, 100, 200) if f * power * 8 >= most), most)
