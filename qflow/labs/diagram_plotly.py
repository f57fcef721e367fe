"""A diagram as a plotly figure: hover explains, the tool bar zooms and exports a PNG."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go

from qflow.labs.diagram import COLORS, DASHES, HATCHES, Diagram, SpanRow, ink_on

_LEVELS = {"stop": ("#c04c00", "solid"), "resume": ("#007a59", "dash"), "limit": ("#57606a", "solid")}
LEGEND = {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 1, "xanchor": "right"}
_MARK = ("#a8487f", "dot")
_HATCH = {"shape": "/", "fgcolor": "#c04c00", "bgcolor": "rgba(0,0,0,0)", "size": 7, "solidity": 0.25}


def figure_of(diagram: Diagram) -> go.Figure:
    """Draw a diagram with plotly.

    Parameters
    ----------
    diagram
        What to draw.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> len(figure_of(Diagram("t", "seconds", "messages", (), bars=((0, 3), (1, 2)))).data)
    1
    """
    figure = go.Figure()
    for name, spans in diagram.bands:
        figure.add_scatter(**_band(spans, diagram.top), name=name, fillpattern=_HATCH)
    for index, line in enumerate(diagram.lines):
        style = {"color": COLORS[index % len(COLORS)], "dash": DASHES[index % len(DASHES)], "shape": "hv"}
        x, y = [point[0] for point in line.points], [point[1] for point in line.points]
        hover = f"{line.name}: %{{y}} {diagram.y_title} at %{{x:.3f}} s<extra></extra>"
        figure.add_scatter(x=x, y=y, mode="lines", name=line.name, line=style, hovertemplate=hover)
    if diagram.bars:
        figure.add_bar(**_bars(diagram))
    for index, (name, rows) in enumerate(diagram.rows):
        figure.add_bar(**_spans(name, rows, index, is_alone=len(diagram.rows) == 1))
    for level in diagram.seen_levels:
        color, dash = _LEVELS.get(level.kind, _MARK)
        text = f"{level.name} {level.value:,}".replace(",", "\u2009")
        figure.add_hline(level.value, line={"color": color, "dash": dash, "width": 1.5})
        place = {"x": 1, "xref": "paper", "xanchor": "left", "y": level.value, "showarrow": False}
        figure.add_annotation(**place, xshift=4, text=text, font={"color": color})
    figure.update_layout(**_looks(diagram))
    return figure


def title_of(text: str) -> dict[str, Any]:
    """Return a chart's heading: above its axis, flush left."""
    place = {"x": 0, "xref": "paper", "y": 1, "yref": "paper", "yanchor": "bottom", "pad": {"b": 12}}
    return {"text": f"<b>{text}</b>", "font": {"size": 15}, **place}


def _band(spans: tuple[tuple[float, float], ...], top: float) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for start, to in spans:
        x += [start, start, to, to, None]
        y += [0, top, top, 0, None]
    return {"x": x, "y": y, "fill": "toself", "mode": "none", "hoverinfo": "skip"}


def _spans(name: str, rows: tuple[SpanRow, ...], index: int, *, is_alone: bool) -> dict[str, Any]:
    """Draw one kind of spans: told apart from others by its name, a hatching, and a colour."""
    color = COLORS[index % len(COLORS)]
    hatch = {"shape": HATCHES[index % len(HATCHES)], "fillmode": "overlay", "fgcolor": ink_on(color)}
    return {
        "orientation": "h",
        "base": [start for _, start, _, _ in rows],
        "x": [to - start for _, start, to, _ in rows],
        "y": [row for row, *_ in rows],
        "name": name,
        "text": None if is_alone else [f"<b>{name}</b>"] * len(rows),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "insidetextfont": {"color": ink_on(color), "size": 13},
        "marker": {"color": color, "pattern": {**hatch, "fgopacity": 0.35, "size": 6, "solidity": 0.25}},
        "hovertext": [said for *_, said in rows],
        "hoverinfo": "text",
    }


def _bars(diagram: Diagram) -> dict[str, Any]:
    starts = [x for x, _ in diagram.bars]
    widths = [to - start for start, to in zip(starts, [*starts[1:], diagram.end], strict=True)]
    hover = f"%{{y}} {diagram.y_title}, from %{{x:.3g}}<extra></extra>"
    return {
        "x": starts,
        "y": [y for _, y in diagram.bars],
        "width": widths,
        "offset": 0,
        "marker": {"color": COLORS[0]},
        "hovertemplate": hover,
    }


def _looks(diagram: Diagram) -> dict[str, Any]:
    rows = diagram.row_names
    upright = {"title": {"text": diagram.y_title}, "range": [0, diagram.top], "zeroline": False}
    return {
        "title": title_of(diagram.title),
        "height": 130 + 28 * len(rows) if rows else 340,
        "margin": {"l": 70, "r": 110 if diagram.seen_levels else 24, "t": 56, "b": 48},
        "template": "plotly_white",
        "barmode": "overlay",
        "bargap": 0.14,
        "uniformtext": {"mode": "hide", "minsize": 11},
        "legend": LEGEND,
        "showlegend": len(diagram.lines) + len(diagram.rows) + len(diagram.bands) > 1,
        # Thousands apart by a thin space, as everywhere in the labs.
        "separators": ".\u2009",
        "xaxis": {"title": {"text": diagram.x_title}, "range": [0, diagram.end], "zeroline": False},
        "yaxis": {"autorange": "reversed", "categoryorder": "array", "categoryarray": rows}
        if rows
        else {**upright, "tickformat": ","},
    }
