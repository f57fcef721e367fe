"""Charts: quantities of a run over time, drawn by plotly, each with sentences that state its content.

A chart consists of lines, horizontal lines for thresholds and limits (*levels*), hatched bands for the times
when flow control was ON, bars, or rows of time spans. It is drawn once, as a plotly figure. JupyterLab, the
site, a saved page and a chart linked to a lab show this figure. GitHub, a printed notebook and other places
that run no scripts show a still picture of it (:mod:`qflow.labs.still`). Its sentences, the *claims*, say the
same in text.

Colours are never the only distinction: each line has a dash pattern, each span a hatching and a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.labs.frames import NEVER, Frames, Span
from qflow.labs.picture import Picture
from qflow.labs.topology import QueueSpot
from qflow.labs.words import seconds, times
from qflow.wording import format_thousands

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from qflow.logs.broker_log import BrokerLog
    from qflow.logs.client_log import ClientLog
    from qflow.prediction.predict import Prediction

_Points = Sequence[tuple[float, float]]
"""Pairs of a time in seconds and a quantity, or of the start and end of a span in seconds."""
_Trace = dict[str, Any]
"""The attributes of one plotly trace."""

_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a8000", "#7a5195")
"""The colour-blind-safe palette of Okabe and Ito, without its yellow, which is too pale on white."""
_DASHES = ("solid", "dash", "dot", "dashdot")
_HATCHES = ("", "/", "\\", "x", "-", "|", "+", ".")
_STOP, _REAL = "#c04c00", "#a8487f"
_LEVELS = {"stop": (_STOP, "solid"), "resume": ("#007a59", "dash"), "limit": ("#57606a", "solid")}
_PALE = "rgba(0,114,178,0.25)"
_INK = "#797979"
"""Letters that stand out from a white page as much as from a black one, by 4.3 to 1."""
_CLEAR = dict.fromkeys(("paper_bgcolor", "plot_bgcolor"), "rgba(0,0,0,0)")
_GRID = dict.fromkeys(("gridcolor", "linecolor", "zerolinecolor"), "rgba(128,128,128,0.3)")
_LEGEND = {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 1, "xanchor": "right"}
_SLICES, _BINS = 400, 40

# Characters that plotly would interpret as markup, as a template or as TeX.
_LETTERS = {ord(letter): f"&#{ord(letter)};" for letter in "<>&{$"}


def plain(text: str) -> str:
    """Return a text escaped so that plotly shows it literally."""
    return text.translate(_LETTERS)


@dataclass(frozen=True, repr=False)
class Chart:
    """A plotly figure, free to be changed or exported, and sentences that state what it shows."""

    figure: go.Figure
    claims: tuple[str, ...]
    # Whether the x axis is the time of the run in seconds, so that the chart can show a scene's cursor.
    has_time: bool = False

    @property
    def svg(self) -> str:
        """A still picture of the figure, as a complete SVG document."""
        # Imported only here, as few uses of a chart need a still picture.
        from qflow.labs.still import still

        return still(self.figure)

    def to_html(self) -> str:
        """Return a self-contained HTML page of the figure and its claims, which needs no network."""
        title = unescape(self.figure.layout.title.text).removeprefix("<b>").removesuffix("</b>")
        figure = self.figure.to_html(full_html=False, include_plotlyjs=True)
        claims = "".join(f"<li>{escape(claim)}</li>" for claim in self.claims)
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
            f'</head>\n<body style="font:15px system-ui,sans-serif">{figure}<ul>{claims}</ul></body></html>\n'
        )

    def __repr__(self) -> str:
        return "\n".join(self.claims)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        shown = self.figure.to_plotly_json()
        layout = shown["layout"]
        # A notebook's own renderer does not tell a figure whether the page is dark.
        axes = {name: layout[name] | _GRID for name in ("xaxis", "yaxis") if name in layout}
        layout |= _CLEAR | axes | {"font": layout.get("font", {}) | {"color": _INK}}
        return {
            "application/vnd.plotly.v1+json": shown,
            "image/svg+xml": self.svg,
            "text/plain": repr(self),
        }


# Queues


def depth_chart(picture: Picture | Prediction, queue: str | None = None) -> Chart:
    """Return a chart of a queue's depth over time, with its thresholds and the times of flow control ON.

    Parameters:
        picture: The picture of a run, over which the reports of a real broker are drawn if it has any; or a
            prediction, of which the chart shows the 80 % interval of the depth at each moment, and the depth
            in one replay.
        queue: The name of the queue; None for the first one.

    Raises:
        KeyError: If there is no such queue.

    >>> from qflow.labs import flow_run
    >>> chart = depth_chart(flow_run(messages=300, stop=20, resume=10))
    >>> [trace.name for trace in chart.figure.data]
    ['flow control ON', 'depth of orders']
    """
    if isinstance(picture, Mapping):
        return _predicted_depth(picture, queue)
    frames, spot = picture.frames, _queue(picture.frames, queue)
    index, name = frames.topology.queues.index(spot), f"depth of {spot.name}"
    spans = {lane.kind: _in_seconds(lane.spans) for lane in picture.lanes if lane.queue == index}
    lines = [_line(name, _steps_of(frames, f"queue.{spot.name}.depth"), "messages")]
    reported = [point for sample in picture.samples if sample.queue == index for point in sample.points]
    if reported:
        points = [(time / 1e6, float(depth)) for time, depth in reported]
        lines.append(_draw_sampled("real broker: depth", points, "messages"))
    levels = {
        "limit": spot.max_count,
        "stop": spot.stop_count,
        "resume": spot.resume_count if spot.stop_count else 0,
    }
    return _chart(
        name,
        ("seconds", "messages"),
        picture.claims,
        lines,
        _end_of(frames),
        on={"flow control ON": spans.get("on", ())},
        real=spans.get("real", ()),
        levels=levels,
        reach=max(1, spot.stop_count),
    )


def _predicted_depth(report: Prediction, queue: str | None) -> Chart:
    """Return a chart of a predicted depth: the interval of 80 % of the replays, and one replay as a line."""
    # Imported only here, as it would slow down the first picture of every lab.
    from qflow.prediction.report import in_words

    queues = report["queues"]
    if queue is not None and queue not in queues:
        raise KeyError(f"no queue {queue!r} in this prediction; there are {', '.join(queues)}")
    queue = queue or next(iter(queues))
    course, levels = queues[queue]["course"], queues[queue]["thresholds"]
    moments, depths = course["seconds"], [float(depth) for depth in course["depth"]]
    begins = [0.0, *moments]
    name, traces = f"predicted depth of {queue}", []
    if course["low"]:
        boxes = zip(begins[:-1], moments, course["low"], course["high"], strict=True)
        traces.append(_area("80 of 100 replays", boxes, fillcolor=_PALE))
    traces.append(_line(name, list(zip(begins, [*depths, depths[-1]], strict=True)), "messages"))
    claims = tuple(line for line in in_words(report) if line.startswith(f"queue {queue}"))
    reach = max(1.0, levels["stop"])
    return _chart(name, ("seconds", "messages"), claims, traces, moments[-1], levels=levels, reach=reach)


def bytes_chart(picture: Picture, queue: str | None = None) -> Chart:
    """Return a chart of a queue's bytes over time, with its byte thresholds and the times when it was ON.

    The arguments are those of :func:`depth_chart`.

    >>> from qflow.labs import flow_run
    >>> print(bytes_chart(flow_run(messages=300)))
    At its largest, orders had 37869 bytes.
    """
    frames = picture.frames
    spot = _queue(frames, queue)
    name, channel = f"bytes of {spot.name}", f"queue.{spot.name}.bytes"
    levels = {"limit": spot.max_size, "stop": spot.stop_size, "resume": spot.resume_size}
    claims = (f"At its largest, {spot.name} had {max(frames.column(channel))} bytes.",)
    lines = [_line(name, _steps_of(frames, channel), "bytes")]
    on = _on_bands(frames, [spot])
    return _chart(name, ("seconds", "bytes"), claims, lines, _end_of(frames), on=on, levels=levels)


def held_chart(picture: Picture) -> Chart:
    """Return a chart of the number of held completions over time, with a line for each producer.

    >>> from qflow.labs import flow_run
    >>> print(held_chart(flow_run(messages=300, stop=20, resume=10, capacity=5)))
    At most 5 completions of p1 were held at once.
    """
    frames = picture.frames
    channels = {spot.name: f"producer.{spot.name}.held" for spot in frames.topology.producers}
    lines = [
        _line(name, _steps_of(frames, channel), "completions", index)
        for index, (name, channel) in enumerate(channels.items())
    ]
    claims = tuple(
        f"At most {max(frames.column(channel))} completions of {name} were held at once."
        for name, channel in channels.items()
    )
    on, axes = _on_bands(frames, frames.topology.queues), ("seconds", "completions")
    return _chart("completions held", axes, claims, lines, _end_of(frames), on=on)


# Clients


def latency_chart(picture: Picture) -> Chart:
    """Return a histogram of the times from a transfer until its producer learns of the completion.

    The x axis is the time in milliseconds, the y axis the number of transfers.

    >>> from qflow.labs import flow_run
    >>> print(latency_chart(flow_run(messages=300, stop=20, resume=10, capacity=5)))
    Of 300 completed transfers, 210 were complete at once; half took at most 0.0 ms, the slowest 83.2 ms.
    """
    frames = picture.frames
    title, axes = "time to completion", ("milliseconds", "transfers")
    times_of, sendings = frames.column("time"), frames.lasting["sendings"]
    pairs = zip(sendings.column("start"), sendings.column("end"), strict=True)
    taken = sorted((times_of[end] - times_of[start]) / 1e3 for start, end in pairs if end != NEVER)
    if not taken:
        return _chart(title, axes, ("No transfer was completed.",), [], 1.0, has_time=False)
    longest = max(taken[-1], 0.001)
    # The bars are counted here, as plotly's own histogram would put every transfer into the page.
    width = longest / _BINS
    counts = [0.0] * _BINS
    for value in taken:
        counts[min(_BINS - 1, int(value / width))] += 1
    at_once = sum(value == 0 for value in taken)
    claim = (
        f"Of {len(taken)} completed transfers, {at_once} were complete at once; half took at most "
        f"{taken[len(taken) // 2]:.1f} ms, the slowest {longest:.1f} ms."
    )
    starts = [index * width for index in range(_BINS)]
    bars = {
        "type": "bar",
        "x": starts,
        "y": counts,
        "width": [to - start for start, to in pairwise([*starts, longest])],
        "offset": 0,
        "marker": {"color": _COLORS[0]},
        "hovertemplate": f"%{{y}} {axes[1]}, from %{{x:.3g}}<extra></extra>",
    }
    return _chart(title, axes, (claim,), [bars], longest, has_time=False)


def ownership_chart(picture: Picture) -> Chart:
    """Return a chart of the consumer that owns each message group over time.

    Each group has a row. The name, hatching and colour of a span show the owner; a tooltip shows its times.

    >>> from qflow.labs import group_run
    >>> print(ownership_chart(group_run(messages="AAB", prefetch=(1, 1))))
    A was owned twice, by c1.
    B was owned once, by c2.
    """
    frames = picture.frames
    moments = frames.column("time")
    rows: dict[str, list[tuple[str, int, int]]] = {spot.name: [] for spot in frames.topology.consumers}
    owners: dict[str, list[str]] = {}
    for lock in frames.lasting["locks"]:
        group = frames.groups[lock["group"] - 1]
        who = frames.topology.consumers[lock["consumer"] - 1].name if lock["consumer"] else "someone"
        # A group still owned when the run ends is owned up to the end of the axis.
        to = moments[lock["end"]] if lock["end"] != NEVER else frames.topology.end
        rows.setdefault(who, []).append((group, moments[lock["start"]], to))
        owners.setdefault(group, []).append(who)
    claims = tuple(
        f"{group} was owned {times(len(names))}, by {', '.join(dict.fromkeys(names))}."
        for group, names in sorted(owners.items())
    ) or ("No group was ever owned.",)
    traces = [
        _draw_owner(who, spans, index, is_alone=len(rows) == 1)
        for index, (who, spans) in enumerate(rows.items())
    ]
    # Sorted by length first, so that p2 comes before p10.
    names = sorted(owners, key=lambda name: (len(name), name))
    return _chart("the owner of each group", ("seconds", ""), claims, traces, _end_of(frames), names=names)


# A broker's own log


def broker_log_chart(log: BrokerLog, clients: ClientLog | None = None) -> Chart:
    """Return a chart of each queue's ON periods over clock time, from the broker's own log.

    Each queue that turned ON has a row; a cross marks a session that died because of a full queue.

    Parameters:
        log: The broker's log.
        clients: A log that clients recorded at the same time, with times since 1970. Its transfers are drawn
            as points, its waits for completions as spans. If the two logs do not overlap in time, as when
            the broker's clock was read in another time zone, a sentence says so.

    Raises:
        ValueError: If the client log has no date.

    >>> from qflow.kit import kit_path
    >>> from qflow.logs import BrokerLog
    >>> log = BrokerLog.load(kit_path("data") / "recordings" / "broker-logs" / "info-hires.log")
    >>> [trace.name for trace in broker_log_chart(log).figure.data]
    ['flow control ON', 'session died']
    """
    start, span = log.begin_us, max(log.end_us - log.begin_us, 1)
    spans = [
        (one.queue, one.begin_us - start, (log.end_us if one.end_us is None else one.end_us) - start)
        for one in log.spells
    ]
    claims = list(log.sentences())
    traces: list[_Trace] = []
    if spans:
        said = [f"{queue} ON from {log.when(a + start)} to {log.when(b + start)}" for queue, a, b in spans]
        traces.append(_row_spans("flow control ON", spans, said, _STOP, "/"))
    names = list(dict.fromkeys(queue for queue, *_ in spans))
    if log.deaths:
        deaths = [(death.queue, (death.time_us - start) / 1e6) for death in log.deaths]
        traces.append(_row_points("session died", deaths, _REAL, "x"))
        names += [queue for queue, _ in deaths if queue not in names]
    if clients is not None:
        if clients.start_us is None:
            raise ValueError(f"{clients!r}: its times must be since 1970, got times since its start")
        drawn = _client_traces(clients, clients.start_us - start, span, log)
        traces += drawn.traces
        names += [name for name in drawn.names if name not in names]
        claims += drawn.claims
    rows = names or [queue.name for queue in log.queues.values()] or [log.name]
    title, end = "flow control in the broker's log", span / 1e6
    chart = _chart(title, ("", ""), tuple(claims), traces, end, names=rows, has_time=False)
    places, words = _clock_ticks(log)
    day = log.when(start)[:10]
    chart.figure.update_xaxes(tickvals=places, ticktext=words, title_text=f"the broker's clock, {day}")
    longest = max(map(len, rows))
    chart.figure.update_layout(showlegend=bool(traces), margin_l=min(260, max(70, 7 * longest)))
    return chart


class _ClientMarks(NamedTuple):
    """The traces and row names that a client log adds to a chart, and sentences about them."""

    traces: list[_Trace]
    names: list[str]
    claims: list[str]


_WAIT = 100_000
"""The microseconds that a completion takes at least for the chart to show a wait."""


class _Wait(NamedTuple):
    """A span in which at least one of a producer's transfers waited for its completion."""

    since: int
    until: int


def _client_traces(clients: ClientLog, offset: int, span: int, log: BrokerLog) -> _ClientMarks:
    """Return the transfers and waits of each producer, at times relative to the start of a broker's log."""
    sends: dict[tuple[str, int], float] = {}
    waits: dict[str, list[_Wait]] = {}
    open_: dict[tuple[str, str], int] = {}
    for row in clients.rows:
        time = row.ts_us + offset
        if row.event == "transfer":
            # At most one point for each pixel, however many messages there are.
            sends.setdefault((row.client, 2 * _SLICES * time // span), time / 1e6)
            open_[row.client, row.label] = time
        elif row.event in ("complete", "refused"):
            since = open_.pop((row.client, row.label), time)
            if time - since > _WAIT:
                own = waits.setdefault(row.client, [])
                # Overlapping waits of several transfers are one span, up to the last completion.
                if own and since <= own[-1].until:
                    own[-1] = own[-1]._replace(until=max(own[-1].until, time))
                else:
                    own.append(_Wait(since, time))
    names = list(dict.fromkeys(client for client, _ in sends))
    held = [(client, *wait) for client, own in waits.items() for wait in own]
    traces = []
    if held:
        said = [
            f"{client} waits for completions from {log.when(since + log.begin_us)} to "
            f"{log.when(to + log.begin_us)}"
            for client, since, to in held
        ]
        traces.append(_row_spans("waits for completions", held, said, _COLORS[5], "."))
    points = [(client, time) for (client, _), time in sends.items() if 0 <= time <= span / 1e6]
    claims = []
    if points:
        traces.append(_row_points("transfers", points, _COLORS[0], "circle"))
    else:
        claims.append(
            "No transfer of the client log falls into the time of the broker's log: one begins at "
            f"{log.when(offset + log.begin_us)}, the other at {log.when(log.begin_us)}. qpidd writes local "
            "time; the zone says which."
        )
    return _ClientMarks(traces, names, claims)


_CLOCK_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)


def _clock_ticks(log: BrokerLog) -> tuple[list[float], list[str]]:
    """Return positions for the ticks of a time axis at round clock times, and the labels of the ticks."""
    span = (log.end_us - log.begin_us) / 1e6
    step = next((step for step in _CLOCK_STEPS if span / step <= 8), 86400 * (1 + int(span / 8 / 86400)))
    words = log.when(log.begin_us)
    since_midnight = sum(
        60**power * int(part) for power, part in zip((2, 1, 0), words[11:19].split(":"), strict=True)
    )
    first = -since_midnight % step - (log.begin_us % 1_000_000) / 1e6
    places = [first + number * step for number in range(int(max(0, span - first) / step) + 1)]
    texts = [log.when(log.begin_us + round(place * 1e6)) for place in places]
    shown = slice(5, 16) if step >= 86400 or span > 86400 else slice(11, 19 if step < 60 else 16)
    return places, [text[shown] for text in texts]


# Series of a run


def _steps_of(frames: Frames, channel: str) -> _Points:
    """Return a column over time in seconds, reduced to each slice's first, lowest, highest and last value."""
    slices: dict[int, list[tuple[float, float]]] = {}
    end = max(frames.topology.end, 1)
    for time, value in zip(frames.column("time"), frames.column(channel), strict=True):
        slices.setdefault(_SLICES * time // end, []).append((time / 1e6, value))
    kept: list[tuple[float, float]] = []
    for points in slices.values():
        # An average would hide a short ON period; the extremes of each slice, in order of time, preserve
        # every crossing of a threshold.
        lowest = min(points, key=lambda point: point[1])
        highest = max(points, key=lambda point: point[1])
        kept += sorted({points[0], lowest, highest, points[-1]}, key=points.index)
    return [*kept, (end / 1e6, kept[-1][1])] if kept else []


def _queue(frames: Frames, name: str | None) -> QueueSpot:
    spots = {spot.name: spot for spot in frames.topology.queues}
    if name is not None and name not in spots:
        raise KeyError(f"no queue {name!r} in this picture; there are {', '.join(spots)}")
    return spots[name] if name is not None else next(iter(spots.values()))


def _end_of(frames: Frames) -> float:
    return max(frames.topology.end, 1) / 1e6


def _in_seconds(spans: Sequence[Span]) -> _Points:
    return [(start / 1e6, to / 1e6) for start, to in spans]


def _on_bands(frames: Frames, queues: Sequence[QueueSpot]) -> dict[str, _Points]:
    """Return the ON periods of each queue that turned ON, in seconds, keyed by a name for the legend."""
    spans = {f"{spot.name} ON": _in_seconds(frames.spans(f"queue.{spot.name}.flow")) for spot in queues}
    return {name: found for name, found in spans.items() if found}


# Traces of a figure


def _area(name: str, boxes: Iterable[tuple[float, float, float, float]], **fill: Any) -> _Trace:
    """Return a trace of filled boxes, each given by its left, right, lower and upper bound."""
    x: list[float | None] = []
    y: list[float | None] = []
    for start, to, low, high in boxes:
        # All boxes are one trace, separated by None, so that the legend has one entry for them.
        x += [start, start, to, to, None]
        y += [low, high, high, low, None]
    return {
        "x": x,
        "y": y,
        "name": plain(name),
        "fill": "toself",
        "mode": "none",
        "hoverinfo": "skip",
        **fill,
    }


def _line(name: str, points: _Points, unit: str, index: int = 0, **style: Any) -> _Trace:
    """Return a trace of a quantity over time as a step function: each value holds until the next point."""
    look = {"color": _COLORS[index % len(_COLORS)], "dash": _DASHES[index % len(_DASHES)], "shape": "hv"}
    return {
        "x": [x for x, _ in points],
        "y": [y for _, y in points],
        "mode": "lines",
        "name": plain(name),
        "line": style or look,
        "hovertemplate": f"{plain(name)}: %{{y}} {plain(unit)} at %{{x:.3f}} s<extra></extra>",
    }


def _draw_sampled(name: str, points: _Points, unit: str) -> _Trace:
    """Return a trace of a quantity that was measured only at some instants, drawn as a dotted line."""
    return _line(name, points, unit, color=_REAL, dash="dot", width=2)


def _draw_owner(name: str, rows: Sequence[tuple[str, int, int]], index: int, *, is_alone: bool) -> _Trace:
    """Return a trace of the spans in which a consumer owns groups, with its own colour and hatching."""
    color = _COLORS[index % len(_COLORS)]
    ink = _ink_on(color)
    hatch = {"shape": _HATCHES[index % len(_HATCHES)], "fillmode": "overlay", "fgcolor": ink}
    said = [f"{name} owns {group} from {seconds(start)} to {seconds(to)}" for group, start, to in rows]
    return {
        "type": "bar",
        "orientation": "h",
        "base": [start / 1e6 for _, start, _ in rows],
        "x": [to / 1e6 - start / 1e6 for _, start, to in rows],
        "y": [plain(group) for group, *_ in rows],
        "name": plain(name),
        "text": None if is_alone else [f"<b>{plain(name)}</b>"] * len(rows),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "insidetextfont": {"color": ink, "size": 13},
        "marker": {"color": color, "pattern": {**hatch, "fgopacity": 0.35, "size": 6, "solidity": 0.25}},
        "hovertext": [plain(text) for text in said],
        "hoverinfo": "text",
    }


def _row_spans(
    name: str, rows: Sequence[tuple[str, int, int]], said: Sequence[str], color: str, hatch: str
) -> _Trace:
    """Return a trace of spans in named rows; each span has its row, start and end in microseconds."""
    pattern = {"shape": hatch, "fillmode": "overlay", "fgcolor": _ink_on(color), "fgopacity": 0.35}
    return {
        "type": "bar",
        "orientation": "h",
        "base": [start / 1e6 for _, start, _ in rows],
        "x": [(to - start) / 1e6 for _, start, to in rows],
        "y": [plain(row) for row, *_ in rows],
        "name": plain(name),
        "marker": {"color": color, "pattern": {**pattern, "size": 6, "solidity": 0.25}},
        "hovertext": [plain(text) for text in said],
        "hoverinfo": "text",
    }


def _row_points(name: str, points: Sequence[tuple[str, float]], color: str, symbol: str) -> _Trace:
    """Return a trace of points in named rows; each point has its row and its time in seconds."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [at for _, at in points],
        "y": [plain(row) for row, _ in points],
        "name": plain(name),
        "marker": {"color": color, "symbol": symbol, "size": 11 if symbol == "x" else 5},
        "hoverinfo": "name+y",
    }


def _ink_on(color: str) -> str:
    """Return black or white, whichever has the better contrast on a background colour."""
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    # The luma weights of television (Rec. 601): green looks brightest, blue darkest.
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 105 else "#ffffff"


def _chart(
    title: str,
    axes: tuple[str, str],
    claims: tuple[str, ...],
    traces: Sequence[_Trace],
    end: float,
    *,
    on: Mapping[str, _Points] | None = None,
    real: _Points = (),
    levels: Mapping[str, float] | None = None,
    reach: float = 1.0,
    names: Sequence[str] = (),
    has_time: bool = True,
) -> Chart:
    """Return a chart of traces, with hatched bands for ON periods and lines for the levels in its range."""
    import plotly.graph_objects as go

    ends = [y for trace in traces if not names for y in trace["y"] if y is not None]
    highest, levels = max([*ends, reach]), levels or {}
    # A level of more than 2.5 times the highest value is left out, as it would flatten everything else.
    top = 1.06 * max([highest, *(level for level in levels.values() if level <= 2.5 * highest)])
    shown = {name: level for name, level in levels.items() if 0 < level <= top}
    figure = go.Figure([*_bands(on or {}, real, top), *traces])
    _draw_levels(figure, shown)
    heading = {"text": f"<b>{plain(title)}</b>", "font": {"size": 15}, "x": 0, "xref": "paper", "y": 1}
    figure.update_layout(
        title={**heading, "yref": "paper", "yanchor": "bottom", "pad": {"b": 12}},
        height=130 + 28 * len(names) if names else 340,
        margin={"l": 70, "r": 110 if any(levels.values()) else 24, "t": 56, "b": 48},
        template="plotly_white",
        # Spans of one row may overlap; as stacked bars, each would start where the previous one ends.
        barmode="overlay",
        bargap=0.14,
        uniformtext={"mode": "hide", "minsize": 11},
        legend=_LEGEND,
        showlegend=len(figure.data) > 1,
        # A thin space separates thousands, as everywhere in the labs.
        separators=".\u2009",
        xaxis={"title": {"text": plain(axes[0])}, "range": [0, end], "zeroline": False},
        yaxis=_rows_axis(names) if names else _upright_axis(axes[1], top, shown, has_band=bool(real)),
    )
    return Chart(figure, tuple(claims), has_time)


def _bands(on: Mapping[str, _Points], real: _Points, top: float) -> list[_Trace]:
    """Return traces of bands for the ON periods, with those of the real broker below the axis."""
    hatch = {"shape": "/", "fgcolor": _STOP, "bgcolor": "rgba(0,0,0,0)", "size": 7, "solidity": 0.25}
    bands = [
        _area(name, [(*span, 0.0, top) for span in spans], fillpattern=hatch) for name, spans in on.items()
    ]
    if real:
        below = [(*span, -0.2 * top, -0.1 * top) for span in real]
        bands.append(_area("real broker: ON", below, fillcolor=_REAL))
    return bands


def _draw_levels(figure: go.Figure, levels: Mapping[str, float]) -> None:
    """Draw a horizontal line for each level, with its name and value beside the plot."""
    for name, level in levels.items():
        color, dash = _LEVELS[name]
        figure.add_hline(level, line={"color": color, "dash": dash, "width": 1.5})
        # A name inside the plot would hide the depth near the threshold.
        place = {"x": 1, "xref": "paper", "xanchor": "left", "y": level, "showarrow": False}
        text = f"{name} {format_thousands(level)}"
        figure.add_annotation(**place, xshift=4, text=text, font={"color": color})


def _upright_axis(title: str, top: float, levels: Mapping[str, float], has_band: bool) -> dict[str, Any]:
    """Return the y axis of a quantity, with room below zero for the real broker's band if there is one."""
    return {
        "title": {"text": plain(title)},
        "range": [-0.24 * top if has_band else 0, top],
        "zeroline": False,
        **({"tickvals": [0, *levels.values()]} if has_band else {}),
        "tickformat": ",",
    }


def _rows_axis(names: Sequence[str]) -> dict[str, Any]:
    """Return the y axis of named rows, with the first row at the top."""
    return {
        "autorange": "reversed",
        "categoryorder": "array",
        "categoryarray": [plain(name) for name in names],
    }
