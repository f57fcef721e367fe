"""Figures of a fleet: drawn by plotly, and each said in sentences too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import Any

from qflow.labs.charts import Chart, plain
from qflow.workload.agenda import SECOND

_BLUE, _STOP, _SOFT = "#0072b2", "#c04c00", "#57606a"


def _lay_out(
    figure: Any, title: str, x_title: str, x_range: Sequence[float], names: Sequence[str] = ()
) -> None:
    """Give a figure its title, ranges and rows, from the top."""
    rows = {"autorange": "reversed", "type": "category", "categoryorder": "array", "categoryarray": names}
    figure.update_layout(
        title=title,
        template="plotly_white",
        font={"color": _SOFT, "family": "system-ui, sans-serif"},
        height=130 + 24 * len(names) if names else 420,
        margin={"l": max([60, *(7 * len(name) for name in names)]), "r": 40, "t": 70, "b": 48},
        showlegend=False,
        xaxis={"title": x_title, "range": list(x_range)},
        yaxis=rows if names else {},
    )


def heat_map(rows: Sequence[Any], queues: Sequence[str], seconds: int, step: int) -> Chart:
    """Draw which queue was ON when: queues down, time across, darker for a larger share of the step.

    Parameters:
        rows: What :func:`qflow.spark.questions.on_over_time` gave, collected.
        queues: All queues, those that were never ON too.
        seconds, step: How long the log is, and one step.
    """
    import plotly.graph_objects as go

    count = -(-seconds // step)
    share = {(row.queue, row.step): row.on_us / (step * SECOND) for row in rows}
    grid = [[round(share.get((queue, at), 0.0), 3) for at in range(count)] for queue in queues]
    names = [plain(queue) for queue in queues]
    figure = go.Figure(
        go.Heatmap(
            z=grid,
            x=[at * step for at in range(count)],
            y=names,
            zmin=0,
            zmax=1,
            colorscale=[[0, "#f6f8fa"], [1, _STOP]],
            colorbar={"title": "share ON"},
            hovertemplate="%{y}, from second %{x}: ON for %{z:.0%} of the time<extra></extra>",
        )
    )
    # A shade is drawn around the second with which its step begins.
    title = "When each queue was ON; the darker, the larger the share of the time"
    _lay_out(figure, title, "seconds", [-step / 2, (count - 0.5) * step], names)
    return Chart(figure, tuple(_heat_claims(rows, len(queues), seconds, step)))


def _heat_claims(rows: Sequence[Any], queues: int, seconds: int, step: int) -> Iterator[str]:
    """Yield what the map shows in sentences: how many, which longest, and when most at a time."""
    ever = sorted({row.queue for row in rows})
    yield f"{len(ever)} of {queues} queues were ON at some time in {seconds} seconds."
    if not ever:
        return
    times = {queue: sum(row.on_us for row in rows if row.queue == queue) for queue in ever}
    most = max(ever, key=lambda queue: (times[queue], queue))
    yield f"{most} was ON longest: {times[most] / SECOND:.1f} s in all."
    together = {at: len({row.queue for row in rows if row.step == at}) for at in range(-(-seconds // step))}
    busiest = max(together, key=lambda at: (together[at], -at))
    yield (
        f"Most at a time, {together[busiest]} queues, were ON between seconds {busiest * step} and "
        f"{(busiest + 1) * step}."
    )


def offender_bars(rows: Sequence[Any], shown: int = 8) -> Chart:
    """Draw the queues that held transfers longest; rows as of :func:`qflow.spark.questions.offenders`."""
    import plotly.graph_objects as go

    top = list(rows)[:shown]
    names, waits = [plain(row.queue) for row in top], [row.held_us / SECOND for row in top]
    figure = go.Figure(
        go.Bar(
            x=waits,
            y=names,
            orientation="h",
            marker={"color": _STOP},
            text=[f"{row.held} transfers, ON {_times(row.flowStoppedCount)}" for row in top],
        )
    )
    title = "Seconds of waiting, summed over the transfers each queue held"
    _lay_out(figure, title, "transfer-seconds", [0, max(waits, default=1)], names)
    total = sum(row.held_us for row in rows) or 1
    claims = tuple(
        f"{row.queue}: ON {_times(row.flowStoppedCount)}, {row.on_us / SECOND:.1f} s; held {row.held} "
        f"transfers, {row.held_us / SECOND:.1f} s taken together ({row.held_us / total:.0%} of all waiting)."
        for row in top[:4]
    )
    return Chart(figure, claims)


def hold_boxes(rows: Sequence[Any]) -> Chart:
    """Draw how long transfers were held; rows as of :func:`qflow.spark.questions.hold_times`."""
    import plotly.graph_objects as go

    figure = go.Figure()
    names = [plain(row.queue) for row in rows]
    waits = []
    for name, symbol, color in (("p50", "circle", _BLUE), ("p90", "diamond", _SOFT), ("p99", "x", _STOP)):
        waits += (found := [max(getattr(row, f"{name}_us"), 1) / SECOND for row in rows])
        figure.add_scatter(
            x=found,
            y=names,
            mode="markers",
            name={"p50": "half of them", "p90": "90 %", "p99": "99 %"}[name],
            marker={"symbol": symbol, "color": color, "size": 9},
        )
    powers = [floor(log10(min(waits))), ceil(log10(max(waits)))]
    _lay_out(figure, "How long a held transfer waited, at most", "seconds", powers, names)
    figure.update_layout(xaxis_type="log", showlegend=True)
    slow = max(rows, key=lambda row: (row.p50_us, row.queue))
    quick = min(rows, key=lambda row: (row.p50_us, row.queue))
    spread = max(rows, key=lambda row: (row.p99_us / max(row.p50_us, 1), row.queue))
    return Chart(
        figure,
        (
            f"The longest median is that of {slow.queue}: {slow.p50_us / SECOND:.2f} s; the shortest that of "
            f"{quick.queue}: {quick.p50_us / SECOND:.2f} s.",
            f"The widest spread is that of {spread.queue}: half of its transfers waited up to "
            f"{spread.p50_us / SECOND:.2f} s, 99 % up to {spread.p99_us / SECOND:.2f} s.",
        ),
    )


def group_bars(rows: Sequence[Any], shown: int = 10) -> Chart:
    """Draw the groups that were owned longest; rows as of :func:`qflow.spark.questions.group_spots`."""
    import plotly.graph_objects as go

    top = list(rows)[:shown]
    names, owned = [plain(f"{row.queue} {row.group}") for row in top], [row.owned_us / SECOND for row in top]
    figure = go.Figure(go.Bar(x=owned, y=names, orientation="h", marker={"color": _BLUE}))
    _lay_out(figure, "Groups by the time they were owned", "seconds", [0, max(owned, default=1)], names)
    first = top[0]
    queues = len({row.queue for row in rows})
    total = sum(row.owned_us for row in rows) or 1
    share = sum(row.owned_us for row in top) / total
    return Chart(
        figure,
        (
            f"{len(rows)} groups on {queues} queues; the first {len(top)} of them take {share:.0%} of all "
            "time that a group was owned.",
            f"{first.group} of {first.queue} was owned for {first.owned_us / SECOND:.1f} s, in "
            f"{first.tenures} tenures by {first.owners} consumers.",
        ),
    )


def frontier(rows: Sequence[Any], queue: str, producer: str) -> Chart:
    """Draw what settings cost a queue's producer, and how deep they let it become; rows of MEASURES."""
    import plotly.graph_objects as go

    points = _points(rows, queue, producer)
    ordered = sorted(points, key=lambda name: (points[name][0], name))
    figure = go.Figure(
        go.Scatter(
            x=[points[name][0] for name in ordered],
            y=[points[name][1] for name in ordered],
            mode="lines+markers+text",
            text=[plain(name) for name in ordered],
            # Settings that do nearly the same lie side by side.
            textposition=[("top center", "bottom center")[at % 2] for at in range(len(ordered))],
            line={"color": _SOFT, "dash": "dot"},
            marker={"color": _BLUE, "size": 10},
        )
    )
    title = plain(f"What thresholds of {queue} cost: depth against blocking")
    deepest, blocked = (max([point[at] for point in points.values()], default=0) or 1 for at in (0, 1))
    upright = {"title": plain(f"share of time {producer} is blocked"), "tickformat": ".0%"}
    _lay_out(figure, title, "deepest, messages", [0, 1.1 * deepest])
    figure.update_layout(yaxis={**upright, "range": [0, 1.15 * blocked]})
    claims = tuple(
        f"{name}: at most {points[name][0]:.0f} messages, {producer} blocked {points[name][1]:.1%} of the "
        f"time, ON {_times(points[name][2])}."
        for name in ordered
    )
    return Chart(figure, claims)


def _points(rows: Sequence[Any], queue: str, producer: str) -> Mapping[str, tuple[float, float, float]]:
    wanted = (("queues", queue, "max_depth"), ("producers", producer, "blocked_share"),
              ("queues", queue, "flowStoppedCount"))  # fmt: skip
    found = {(row.setting, row.section, row.name, row.measure): row.predicted for row in rows}
    settings = dict.fromkeys(row.setting for row in rows)
    return {
        setting: tuple(found[setting, *key] for key in wanted)
        for setting in settings
        if all(found.get((setting, *key)) is not None for key in wanted)
    }


def _times(number: float) -> str:
    return "once" if number == 1 else f"{number:.0f} times"
