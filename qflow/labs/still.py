"""Still: draws a plotly figure as an SVG picture, for places that run no scripts.

Such places are GitHub, nbviewer and printed notebooks. The still picture is drawn from the figure alone, and
shows what plotly would show, for those elements that the charts of a run and of a fleet use: filled bands,
stepped and sampled lines, points, bars, rows of spans, bars and shaded cells, named levels, a legend and
axes.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape, unescape
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go

WIDTH, PHONE = 860, 358
"""The width of a drawing in a page, and on a phone, in pixels."""
_LETTER = 6.6
"""The approximate width of a letter in pixels, as text cannot be measured without a browser."""
_STYLE = (
    "text{font:12px sans-serif;fill:#57606a}.t{font-weight:bold;fill:#1c2126;font-size:14px}"
    ".a{fill:none;stroke:#57606a}"
)
DARK = {
    "#0072b2": "#62b5f0",
    "#c04c00": "#ff9350",
    "#007a59": "#35c49b",
    "#57606a": "#a5b0bb",
    "#1c2126": "#e8edf2",
    "#a8487f": "#e79cc6",
    "#8a8000": "#d0c540",
    "#7a5195": "#b890d8",
    "#ffffff": "#171b20",
    "#fff": "#171b20",
}
"""The colours that replace those of a chart on a dark page."""

_DARK_STYLE = "".join(
    f'[{name}="{light}"]{{{name}:{dark}}}' for light, dark in DARK.items() for name in ("fill", "stroke")
) + "".join(f'[style*="fill:{light}"]{{fill:{dark}!important}}' for light, dark in DARK.items())
_STYLE += (
    f"@media (prefers-color-scheme:dark){{text{{fill:{DARK['#57606a']}}}.t{{fill:{DARK['#1c2126']}}}"
    f".a{{stroke:{DARK['#57606a']}}}{_DARK_STYLE}}}"
)
_DASHES = {"dash": "8 4", "dot": "2 4", "dashdot": "8 3 2 3"}
_WAYS = {
    "/": "M0,8L8,0",
    "\\": "M0,0L8,8",
    "x": "M0,0L8,8M0,8L8,0",
    "-": "M0,4H8",
    "|": "M4,0V8",
    "+": "M0,4H8M4,0V8",
    ".": "M3,4H5",
}
_POINTS = {"circle": "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0Z", "diamond": "M0,-5L5,0L0,5L-5,0Z"}
_CROSS = "M-3,-5L0,-2L3,-5L5,-3L2,0L5,3L3,5L0,2L-3,5L-5,3L-2,0L-5,-3Z"
_TAG = re.compile(r"<[^>]*>")
_LOOK = 'text-anchor="{}" style="fill:{}"'


def still(figure: go.Figure | Mapping[str, Any], width: int = WIDTH) -> str:
    """Return a figure as a complete SVG document of a given width; its layout determines the height."""
    pen = (_Pen if width == WIDTH else _PhonePen)(
        figure if isinstance(figure, Mapping) else figure.to_plotly_json(), width
    )
    title = _text(pen.layout["title"]["text"])
    marks = [*pen.marks()]
    size = f'viewBox="0 0 {width} {pen.height}" width="{width}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style><defs>{''.join(pen.patterns)}</defs>",
            f'<rect width="{width}" height="{pen.height}" fill="#fff"/>',
            *pen.title(),
            *marks,
            *pen.axes(),
            *pen.levels(),
            *pen.legend(),
            "</svg>",
        ]
    )


def _text(markup: str) -> str:
    """Return a text with plotly's markup as plain text, escaped for SVG."""
    return escape(unescape(_TAG.sub("", markup)))


class _Pen:
    """The drawing of a figure: it converts values to positions, and yields the SVG elements of each part."""

    def __init__(self, figure: Mapping[str, Any], width: int) -> None:
        self.traces, self.layout, self.width = figure["data"], figure["layout"], width
        margin = self.layout["margin"]
        self.height = self.layout["height"]
        self.left, self.right = margin["l"] + 22, width - margin["r"]
        self.top, self.floor = margin["t"], self.height - margin["b"]
        # The right end of the title of the time axis.
        self.edge = self.right
        self.rows = list(self.layout["yaxis"].get("categoryarray", ()))
        self.patterns: list[str] = []
        self._keys: list[tuple[str, str]] = []

    def title(self) -> Iterator[str]:
        for number, line in enumerate(self._title_lines()):
            yield f'<text class="t" x="10" y="{18 + 18 * number}">{escape(line)}</text>'

    def _title_lines(self) -> list[str]:
        return [unescape(_TAG.sub("", self.layout["title"]["text"]))]

    def _heights(self) -> list[tuple[float, str]]:
        """Return the values of the ticks of the y axis, with their labels."""
        if self.rows:
            return []
        axis = self.layout["yaxis"]
        is_share = axis.get("tickformat") == ".0%"
        return [
            (value, f"{value:.0%}" if is_share else f"{value:,g}".replace(",", "\u2009"))
            for value in axis.get("tickvals") or _ticks(axis["range"][1])
        ]

    def x(self, value: float) -> float:
        low, high = self.layout["xaxis"]["range"]
        # In plotly, the range of a logarithmic axis is given by exponents.
        value = log10(value) if self.layout["xaxis"].get("type") == "log" else value
        return round(self.left + (self.right - self.left) * (value - low) / max(high - low, 1e-9), 1)

    def y(self, value: float) -> float:
        low, high = self.layout["yaxis"]["range"]
        return round(self.floor - (self.floor - self.top) * (value - low) / (high - low), 1)

    def row(self, name: str) -> tuple[float, float]:
        """Return the upper edge of a row, and its height."""
        height = (self.floor - self.top) / max(1, len(self.rows))
        return self.top + self.rows.index(name) * height, height

    def hatch(self, shape: str, color: str, opacity: float) -> str:
        """Define a hatching, and return the value of the attribute ``fill`` that uses it."""
        name = f"h{len(self.patterns)}"
        self.patterns.append(
            f'<pattern id="{name}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<path d="{_WAYS.get(shape, "")}" stroke="{color}" stroke-opacity="{opacity}" '
            'stroke-width="1.6"/></pattern>'
        )
        return f"url(#{name})"

    def marks(self) -> Iterator[str]:
        for trace in self.traces:
            if trace["type"] == "heatmap":
                yield from self._shades(trace)
            elif trace["type"] == "bar":
                draw = self._bars if trace.get("orientation") != "h" else self._row_bars
                yield from self._spans(trace) if "base" in trace else draw(trace)
            elif trace.get("fill"):
                yield self._band(trace)
            elif len(trace["x"]):
                if "line" in trace:
                    yield self._line(trace)
                if "marker" in trace:
                    yield from self._points(trace)

    def _band(self, trace: dict[str, Any]) -> str:
        hatch = trace.get("fillpattern")
        fill = self.hatch(hatch["shape"], hatch["fgcolor"], 0.5) if hatch else trace["fillcolor"]
        self._keys.append((trace["name"], f'fill="{fill}"'))
        corners = list(zip(trace["x"], trace["y"], strict=True))
        way = []
        for number in range(0, len(corners), 5):
            # charts.py writes a box as four corners and a gap.
            (start, low), (_, high), (to, _) = corners[number : number + 3]
            # A box is at least one pixel wide, so that it is visible.
            left, right = self.x(start), max(self.x(to), self.x(start) + 1)
            way.append(f"M{left},{self.y(low)}V{self.y(high)}H{right:.1f}V{self.y(low)}Z")
        return f'<path class="b" d="{"".join(way)}" fill="{fill}"/>'

    def _line(self, trace: dict[str, Any]) -> str:
        (x, y), *others = zip(trace["x"], trace["y"], strict=True)
        step = "H{}V{}" if trace["line"].get("shape") == "hv" else "L{},{}"
        way = [f"M{self.x(x)},{self.y(y)}", *(step.format(self.x(x), self.y(y)) for x, y in others)]
        dash = _DASHES.get(trace["line"].get("dash", ""))
        stroke = f'stroke="{trace["line"]["color"]}" stroke-width="2"'
        stroke += f' stroke-dasharray="{dash}"' if dash else ""
        self._keys.append((trace.get("name", ""), f'fill="none" {stroke}'))
        return f'<path d="{"".join(way)}" fill="none" {stroke}/>'

    def _points(self, trace: dict[str, Any]) -> Iterator[str]:
        marker = trace["marker"]
        shape, look = _POINTS.get(marker.get("symbol", "circle"), _CROSS), f'fill="{marker["color"]}"'
        self._keys.append((trace.get("name", ""), look))
        for number, (value, other) in enumerate(zip(trace["x"], trace["y"], strict=True)):
            left = self.x(value)
            if self.rows:
                top, height = self.row(other)
                at = top + height / 2
            else:
                at = self.y(other)
            yield f'<path transform="translate({left},{at:.1f})" d="{shape}" {look}/>'
            if trace.get("text"):
                text = _text(trace["text"][number])
                beside = trace.get("textposition", "top")
                where = beside if isinstance(beside, str) else beside[number]
                at += 20 if where.startswith("bottom") else -9
                left, at = self._point_text(left, at, text)
                yield f'<text x="{left}" y="{at:.1f}" text-anchor="middle">{text}</text>'

    def _point_text(self, x: float, y: float, text: str) -> tuple[float, float]:
        """Return the position of the text at a point, given the best position for it."""
        return x, y

    def _shades(self, trace: dict[str, Any]) -> Iterator[str]:
        color, wide = trace["colorscale"][-1][1], trace["x"][1] - trace["x"][0] if len(trace["x"]) > 1 else 1
        for name, shares in zip(trace["y"], trace["z"], strict=True):
            top, height = self.row(name)
            for start, share in zip(trace["x"], shares, strict=True):
                if share:
                    # Plotly centres a cell on its x value.
                    left = self.x(start - wide / 2)
                    box = f'width="{self.x(start + wide / 2) - left:.1f}" height="{height - 1:.1f}"'
                    # The opacity starts at 0.15, so that a small share is visible, too.
                    look = f'fill="{color}" fill-opacity="{0.15 + 0.85 * share:.3g}"'
                    yield f'<rect x="{left}" y="{top:.1f}" {box} {look}><title>{share:.0%}</title></rect>'

    def _row_bars(self, trace: dict[str, Any]) -> Iterator[str]:
        for number, (value, name) in enumerate(zip(trace["x"], trace["y"], strict=True)):
            top, height = self.row(name)
            left, right = self.x(0), self.x(value)
            box = f'x="{left}" y="{top + 3:.1f}" width="{right - left:.1f}" height="{height - 6:.1f}"'
            yield f'<rect {box} fill="{trace["marker"]["color"]}"/>'
            if trace.get("text"):
                text = _text(trace["text"][number])
                at, look = self._bar_text(left, right, text)
                yield f'<text x="{at:.1f}" y="{top + height / 2 + 4:.1f}" {look}>{text}</text>'

    def _bar_text(self, left: float, right: float, text: str) -> tuple[float, str]:
        """Return the position and the attributes of a bar's text: beside a short bar, inside a long one."""
        # A bar is long if it takes half the width, as the texts are short relative to the width.
        return (
            (right - 6, _LOOK.format("end", "#fff"))
            if right > (self.left + self.right) / 2
            else (right + 6, _LOOK.format("start", "#57606a"))
        )

    def _bars(self, trace: dict[str, Any]) -> Iterator[str]:
        for start, value, width in zip(trace["x"], trace["y"], trace["width"], strict=True):
            if value:
                left, top = self.x(start), self.y(value)
                wide = max(1, self.x(start + width) - left - 1)
                box = f'x="{left}" y="{top}" width="{wide:.1f}" height="{self.floor - top:.1f}"'
                yield f'<rect {box} fill="{trace["marker"]["color"]}"><title>{value:g}</title></rect>'

    def _spans(self, trace: dict[str, Any]) -> Iterator[str]:
        color, hatch = trace["marker"]["color"], trace["marker"]["pattern"]
        fill = self.hatch(hatch["shape"], hatch["fgcolor"], hatch["fgopacity"])
        self._keys.append((trace["name"], f'fill="{color}"'))
        for start, width, row, said in zip(
            trace["base"], trace["x"], trace["y"], trace["hovertext"], strict=True
        ):
            left, (top, step) = self.x(start), self.row(row)
            right = max(self.x(start + width), left + 1)
            box = f'x="{left}" y="{top + 3:.1f}" width="{right - left:.1f}" height="{step - 6:.1f}" rx="2"'
            yield f'<rect {box} fill="{color}"/><rect {box} fill="{fill}"><title>{_text(said)}</title></rect>'
            if trace.get("text") and right - left > 9 * len(trace["name"]):
                at, ink = f'x="{(left + right) / 2:.1f}" y="{top + step / 2 + 4:.1f}"', hatch["fgcolor"]
                style = f'text-anchor="middle" style="fill:{ink};font-weight:bold"'
                yield f"<text {at} {style}>{_text(trace['name'])}</text>"

    def axes(self) -> Iterator[str]:
        yield f'<path class="a" d="M{self.left},{self.top}V{self.floor}H{self.right}"/>'
        low, high = self.layout["xaxis"]["range"]
        is_log = self.layout["xaxis"].get("type") == "log"
        places = [10.0**power for power in range(ceil(low), floor(high) + 1)] if is_log else _ticks(high)
        places = self.layout["xaxis"].get("tickvals", places)
        words = self.layout["xaxis"].get("ticktext") or [f"{value:g}" for value in places]
        for tick, word in [*zip(places, words, strict=True)][:: self._every(places, words)]:
            place = f'x="{self.x(tick)}" y="{self.floor + 16}"'
            yield f'<text {place} text-anchor="middle">{_text(word)}</text>'
        title = _text(self.layout["xaxis"]["title"]["text"])
        yield f'<text x="{self.edge}" y="{self.floor + 34}" text-anchor="end">{title}</text>'
        for row in self.rows:
            top, step = self.row(row)
            at = top + step / 2 + 4
            yield f'<text x="{self.left - 8}" y="{at:.1f}" text-anchor="end">{_text(row)}</text>'
        if not self.rows:
            for value, text in self._heights():
                yield f'<text x="{self.left - 8}" y="{self.y(value) + 4}" text-anchor="end">{text}</text>'
            title = _text(self.layout["yaxis"]["title"]["text"])
            yield f'<text x="10" y="{self.top - 12}">{title}</text>'

    def _every(self, places: Sequence[float], words: Sequence[str]) -> int:
        """Return the step between the ticks of the time axis that get a label: 1 labels all of them."""
        return 1

    def levels(self) -> Iterator[str]:
        lines, names = self.layout.get("shapes", ()), self.layout.get("annotations", ())
        free = 0.0
        # From top to bottom, each name is at least a line below the previous one, as thresholds may be close.
        for line, name in sorted(zip(lines, names, strict=True), key=lambda pair: -pair[0]["y0"]):
            at = self.y(line["y0"])
            label = max(at + 4, free)
            free = label + 14
            dash = _DASHES.get(line["line"]["dash"])
            dashed = f' stroke-dasharray="{dash}"' if dash else ""
            color = line["line"]["color"]
            way = f'd="M{self.left},{at}H{self.right}" fill="none"'
            yield f'<path {way} stroke="{color}" stroke-width="1.5"{dashed}/>'
            yield f'<text x="{self.right + 6}" y="{label}" style="fill:{color}">{_text(name["text"])}</text>'

    def legend(self) -> Iterator[str]:
        for x, y, label, look in self._placed_keys():
            yield f'<rect x="{x:.0f}" y="{y - 9}" width="14" height="9" {look}/>'
            yield f'<text x="{x + 19:.0f}" y="{y}">{escape(label)}</text>'

    def _placed_keys(self) -> Iterator[tuple[float, int, str, str]]:
        """Yield each entry of the legend: x, the y of its baseline, its name, and its SVG attributes."""
        x: float = self.right
        for name, look in reversed(self._named_keys()):
            # The legend is aligned to the right, as in plotly.
            x -= 34 + 6.4 * len(name)
            yield x, 18, name, look

    def _named_keys(self) -> list[tuple[str, str]]:
        return [(unescape(name), look) for name, look in self._keys] if self.layout["showlegend"] else []


class _PhonePen(_Pen):
    """The drawing for a phone, on which text keeps its size, so that title and legend need more lines."""

    def __init__(self, figure: Mapping[str, Any], width: int) -> None:
        super().__init__(figure, width)
        self.edge = width - 10
        # The middle, the baseline and half the width of the text at each point.
        self._texts: list[tuple[float, float, float]] = []

    def marks(self) -> Iterator[str]:
        # The entries of the legend, which need room, are known only after the marks are drawn.
        for _ in super().marks():
            pass
        self._fit()
        yield from super().marks()

    def _fit(self) -> None:
        """Make room for the title, the legend and the texts beside the axes."""
        words = [text for _, text in self._heights()] or self.rows
        self.left = round(16 + _LETTER * max(len(_TAG.sub("", word)) for word in words))
        names = [name["text"] for name in self.layout.get("annotations", ())]
        self.right = round(self.width - 14 - _LETTER * max(map(len, names), default=0))
        lines = len(self._title_lines()) + len({y for _, y, _, _ in self._placed_keys()})
        more = 18 * lines + (34 if not self.rows else 16) - self.top
        self.top, self.floor, self.height = self.top + more, self.floor + more, self.height + more
        self.patterns, self._keys, self._texts = [], [], []

    def _title_lines(self) -> list[str]:
        (text,) = super()._title_lines()
        return textwrap.wrap(text, int(self.width / 8.4))

    def _point_text(self, x: float, y: float, text: str) -> tuple[float, float]:
        half = _LETTER * len(text) / 2
        x = min(max(x, self.left + half + 4), self.width - half)
        while any(
            abs(other - y) < 14 and abs(middle - x) < half + wide for middle, other, wide in self._texts
        ):
            y += 14
        self._texts.append((x, y, half))
        return x, y

    def _bar_text(self, left: float, right: float, text: str) -> tuple[float, str]:
        room = _LETTER * len(text) + 10
        if right - left >= room:
            return (right - 6, _LOOK.format("end", "#fff"))
        if right + room <= self.width:
            return (right + 6, _LOOK.format("start", "#57606a"))
        # The text fits neither inside nor beside the bar: draw it over the end of the bar.
        return self.width - 4, 'text-anchor="end" paint-order="stroke" stroke="#fff" stroke-width="3"'

    def _every(self, places: Sequence[float], words: Sequence[str]) -> int:
        room = abs(self.x(places[-1]) - self.x(places[0]))
        # Only every second or third label is drawn if there is not enough room for all.
        return ceil(sum(_LETTER * len(word) + 12 for word in words) / room) if room else 1

    def _placed_keys(self) -> Iterator[tuple[float, int, str, str]]:
        x, y = 10.0, 18 + 18 * len(self._title_lines())
        for name, look in self._named_keys():
            wide = 34 + _LETTER * len(name)
            if x > 10 and x + wide > self.width:
                x, y = 10, y + 18
            yield x, y, name, look
            x += wide


def _ticks(end: float) -> list[float]:
    """Return about eight round numbers from 0 to at most `end`, for the ticks of an axis."""
    power = 10.0 ** (len(str(int(end))) - 1) / 10 if end >= 1 else 0.001
    step = next((f * power for f in (1, 2, 5, 10, 20, 50, 100, 200) if f * power * 8 >= end), end)
    return [number * step for number in range(int(end / step) + 1)]
