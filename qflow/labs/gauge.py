"""Gauge: limits and thresholds of a queue as two scales, drawn without anything having run."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from qflow.configuration.explanation import Explanation

WIDTH, HEIGHT, TOP, BOTTOM = 860, 300, 58, 26
_SCALE = 120
# Styles of a drawing inside a page hold for the whole page: hence the class. In a lab the page's theme gives
# the colours; anywhere else the ones behind the commas hold.
_COLORS = {
    "limit": "var(--qf-soft,#57606a)",
    "stop": "var(--qf-stop,#c04c00)",
    "resume": "var(--qf-go,#007a59)",
}
_STYLE = (
    ".qfg text{font:13px sans-serif;fill:var(--qf-soft,#57606a)}"
    ".qfg .t{font-weight:bold;fill:var(--qf-ink,#1c2126);font-size:15px}.qfg .n{font-weight:600}"
    ".qfg .g{fill:none;stroke:var(--qf-soft,#57606a);stroke-width:2.5}"
    ".qfg .h{fill:var(--qf-stop,#c04c00);fill-opacity:.14}.qfg .p{fill:var(--qf-card,#fff)}"
    ".qfg .b{fill:#56b4e9;fill-opacity:.28}.qfg .e{font-size:14px;fill:var(--qf-ink,#1c2126)}"
)


def draw_gauge(explanation: Explanation) -> str:
    """Draw a queue's thresholds and limits, messages beside bytes.

    Parameters
    ----------
    explanation
        What its configuration comes to.

    Returns
    -------
    str
        A complete SVG document. Between resume and stop the state depends on what was before; the area
        above the stop threshold, where producers are held, is tinted.

    Examples
    --------
    >>> from qflow.configuration.explanation import explain
    >>> from qflow.configuration.reading import read_line
    >>> draw_gauge(explain(read_line("orders --max-queue-count 90"))).count("stop 72")
    1
    """
    values = {
        item.name: item.value for item in (*explanation.levels, *explanation.limits, *explanation.alerts)
    }
    name = escape(explanation.declaration.name)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="qfg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" role="img">',
        f"<title>Limits and thresholds of {name}</title><style>{_STYLE}</style>",
        f'<rect class="p" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="t" x="24" y="26">{name}</text>',
    ]
    if explanation.refusal:
        parts.append('<text class="e" x="24" y="70">refused: no such queue exists</text>')
    else:
        parts += _scale(values, "count", "messages", 40)
        parts += _scale(values, "size", "bytes", 40 + WIDTH // 2)
    return "\n".join([*parts, "</svg>"])


def _scale(values: dict[str, int], unit: str, noun: str, x: int) -> list[str]:
    marks = [
        ("limit", values.get(f"max_{unit}", 0)),
        ("stop", values.get(f"stop_{unit}", 0)),
        ("resume", values.get(f"resume_{unit}", 0)),
    ]
    marks = [(name, value) for name, value in marks if value]
    floor = HEIGHT - BOTTOM
    parts = [f'<text class="n" x="{x}" y="{TOP - 12}">{noun}</text>']
    box = f'x="{x}" y="{TOP}" width="{_SCALE}" height="{floor - TOP}"'
    if not marks:
        return [
            *parts,
            f'<rect class="g" {box}/>',
            f'<text x="{x + _SCALE + 16}" y="{TOP + 20}">no limit</text>',
        ]
    top = max(value for _, value in marks) * 1.08
    levels = {name: round(floor - (floor - TOP) * value / top, 1) for name, value in marks}
    if "stop" in levels:
        parts.append(
            f'<rect class="h" x="{x}" y="{TOP}" width="{_SCALE}" height="{levels["stop"] - TOP:.1f}"/>'
        )
        low = levels.get("resume", floor)
        parts.append(f'<rect class="b" x="{x}" y="{low}" width="{_SCALE}" height="{floor - low:.1f}"/>')
    return [*parts, f'<rect class="g" {box}/>', *_labels(marks, levels, x)]


def _labels(marks: list[tuple[str, int]], levels: dict[str, float], x: int) -> Iterator[str]:
    """Draw a line at each mark, and its number beside it: below the one before where both would touch."""
    free = 0.0
    for name, value in marks:
        at, color = levels[name], _COLORS[name]
        label = max(at, free)
        free = label + 18
        dash = ' stroke-dasharray="7 4"' if name == "resume" else ""
        yield (
            f'<path d="M{x - 8},{at}H{x + _SCALE + 8}L{x + _SCALE + 18},{label}" fill="none" '
            f'style="stroke:{color}" stroke-width="2"{dash}/>'
            f'<text class="n" x="{x + _SCALE + 24}" y="{label + 4.5}" '
            f'style="fill:{color}">{name} {_grouped(value)}</text>'
        )


def _grouped(value: int) -> str:
    """Write large numbers so that they can be read: with a thin space every three digits."""
    return f"{value:,}".replace(",", "\u2009")
