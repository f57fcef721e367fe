"""Figures of a fleet's audit, drawn by plotly with their claims as sentences; and the report on a day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from html import escape
from math import ceil, floor, log10
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.kit import RefusalError
from qflow.labs.charts import Chart, plain
from qflow.logs.findings import finding_of
from qflow.logs.foreign_columns import zone_of
from qflow.spark import questions
from qflow.spark.lake_audit import results_with_keys, without_logs
from qflow.spark.tables import FORMAT, RESULTS
from qflow.workload.agenda import SECOND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_BLUE, _STOP, _SOFT = "#0072b2", "#c04c00", "#57606a"


def _set_layout(
    figure: Any, title: str, x_title: str, x_range: Sequence[float], names: Sequence[str] = ()
) -> None:
    """Set the title, the axes and, if there are names, the rows of a figure, the first name at the top."""
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


def _bars(
    title: str, x_title: str, names: Sequence[str], values: Sequence[float], color: str, texts: Any = None
) -> Any:
    """Return a figure with a horizontal bar for each name, the first at the top."""
    import plotly.graph_objects as go

    figure = go.Figure(go.Bar(x=values, y=names, orientation="h", marker={"color": color}, text=texts))
    _set_layout(figure, title, x_title, [0, max(values, default=1)], names)
    return figure


class DayClock(NamedTuple):
    """The clock of a page: the instant of second 0 in microseconds since 1970, and the labels' time zone."""

    origin_us: int
    zone: str = "UTC"

    def text(self, second: float, form: str = "%H:%M:%S") -> str:
        """Return the clock time at a second as text.

        >>> DayClock(1_764_237_600_000_000, "Europe/Berlin").text(90)
        '11:01:30'
        """
        time = datetime.fromtimestamp(self.origin_us // SECOND, UTC) + timedelta(seconds=second)
        return f"{time.astimezone(zone_of(self.zone)):{form}}"

    def ticks(self, seconds: float) -> tuple[list[float], list[str]]:
        """Return the tick positions on an axis of `seconds` seconds, and their labels."""
        lengths = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 14_400, 43_200, 86_400)
        length = next((one for one in lengths if seconds <= 8 * one), lengths[-1])
        offset = datetime.fromisoformat(self.text(0, "%Y-%m-%dT%H:%M:%S%z")).utcoffset() or timedelta()
        first = -(self.origin_us // SECOND + round(offset.total_seconds())) % length
        places = [float(place) for place in range(first, int(seconds) + 1, length)]
        form = "%H:%M:%S" if length < 60 else "%H:%M" if seconds <= 86_400 else "%d %b %H:%M"
        return places, [self.text(place, form) for place in places]


def heat_map(
    rows: Sequence[Any],
    queues: Sequence[str],
    seconds: int,
    step: int,
    clock: DayClock | None = None,
    most: Any = None,
) -> Chart:
    """Return a map of when each queue was ON, with a row for each queue and a cell for each step of time.

    A cell's colour is stronger the larger the share of the step for which the queue was ON.

    Parameters:
        rows: The collected rows of :func:`qflow.spark.questions.on_over_time`.
        queues: The names of all queues, including those that were never ON.
        seconds: The duration of the log in seconds.
        step: The duration of a step in seconds.
        clock: The clock of the log; None for a log without dates.
        most: The row that :func:`qflow.spark.questions.most_at_once` returned.
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
            # The colour of a small share differs visibly from that of 0.
            colorscale=[[0, "#f6f8fa"], [0.001, "#efd5c5"], [1, _STOP]],
            colorbar={"title": "share ON"},
            hovertemplate="%{y}, from second %{x}: ON for %{z:.0%} of the time<extra></extra>",
        )
    )
    # plotly centres a cell at the second with which its step begins, so the axis begins half a step earlier.
    title = "When each queue was ON; the stronger the colour, the larger the share of the time"
    words = f"clock time, {clock.zone}" if clock else "seconds"
    _set_layout(figure, title, words, [-step / 2, (count - 0.5) * step], names)
    if clock:
        places, ticks = clock.ticks(seconds)
        figure.update_xaxes(tickvals=places, ticktext=ticks)
    return Chart(figure, tuple(_heat_claims(rows, len(queues), seconds, clock, most)))


def _heat_claims(
    rows: Sequence[Any], queues: int, seconds: int, clock: DayClock | None, most: Any
) -> Iterator[str]:
    """Yield sentences on the queues that were ever ON, the longest ON, and the largest number at once."""

    def at(us: int) -> str:
        return clock.text(us / SECOND) if clock else f"second {us / SECOND:.1f}"

    ever = sorted({row.queue for row in rows})
    span = f"between {at(0)} and {at(seconds * SECOND)}" if clock else f"in {seconds} seconds"
    yield f"{len(ever)} of {queues} queues were ON at some time {span}."
    if not ever:
        return
    times = {queue: sum(row.on_us for row in rows if row.queue == queue) for queue in ever}
    longest = max(ever, key=lambda queue: (times[queue], queue))
    yield f"{longest} was ON longest: {times[longest] / SECOND:.1f} s in all."
    if most is not None:
        length = (most.end_us - most.begin_us) / SECOND
        queues_were = "1 queue was" if most.number == 1 else f"{most.number} queues were"
        yield f"At most {queues_were} ON at a time, first from {at(most.begin_us)} on, for {length:.1f} s."


def offender_bars(rows: Sequence[Any], shown: int = 8) -> Chart:
    """Return a bar chart of the queues that held transfers longest.

    Parameters:
        rows: The collected rows of :func:`qflow.spark.questions.offenders`.
        shown: The largest number of queues in the chart.
    """
    top = list(rows)[:shown]
    names, waits = [plain(row.queue) for row in top], [row.held_us / SECOND for row in top]
    texts = [f"{row.held} transfers, ON {_times(row.flowStoppedCount)}" for row in top]
    title = "Seconds of waiting, summed over the transfers each queue held"
    figure = _bars(title, "transfer-seconds", names, waits, _STOP, texts)
    total = sum(row.held_us for row in rows) or 1
    claims = tuple(
        f"{row.queue}: ON {_times(row.flowStoppedCount)}, {row.on_us / SECOND:.1f} s; held {row.held} "
        f"transfers, {row.held_us / SECOND:.1f} s taken together ({row.held_us / total:.0%} of all waiting)."
        for row in top[:4]
    )
    return Chart(figure, claims)


def hold_boxes(rows: Sequence[Any]) -> Chart:
    """Return a chart of the hold times by queue; `rows` are of :func:`qflow.spark.questions.hold_times`."""
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
    _set_layout(figure, "How long a held transfer waited, at most", "seconds", powers, names)
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
    """Return a bar chart of the groups that were owned longest.

    Parameters:
        rows: The collected rows of :func:`qflow.spark.questions.group_spots`.
        shown: The largest number of groups in the chart.
    """
    top = list(rows)[:shown]
    names, owned = [plain(f"{row.queue} {row.group}") for row in top], [row.owned_us / SECOND for row in top]
    figure = _bars("Groups by the time they were owned", "seconds", names, owned, _BLUE)
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
    """Return a chart of a producer's blocked share against a queue's depth, under each setting.

    Parameters:
        rows: Collected rows of MEASURES.
        queue: The name of the queue.
        producer: The name of the producer.
    """
    import plotly.graph_objects as go

    points = _points(rows, queue, producer)
    ordered = sorted(points, key=lambda name: (points[name].depth, name))
    figure = go.Figure(
        go.Scatter(
            x=[points[name].depth for name in ordered],
            y=[points[name].blocked for name in ordered],
            mode="lines+markers+text",
            text=[plain(name) for name in ordered],
            # Alternating, as the points of similar settings are close to each other.
            textposition=[("top center", "bottom center")[at % 2] for at in range(len(ordered))],
            line={"color": _SOFT, "dash": "dot"},
            marker={"color": _BLUE, "size": 10},
        )
    )
    title = plain(f"What thresholds of {queue} cost: depth against blocking")
    deepest = max((point.depth for point in points.values()), default=0) or 1
    blocked = max((point.blocked for point in points.values()), default=0) or 1
    upright = {"title": plain(f"share of time {producer} is blocked"), "tickformat": ".0%"}
    _set_layout(figure, title, "deepest, messages", [0, 1.1 * deepest])
    figure.update_layout(yaxis={**upright, "range": [0, 1.15 * blocked]})
    claims = tuple(
        f"{name}: at most {points[name].depth:.0f} messages, {producer} blocked {points[name].blocked:.1%} "
        f"of the time, ON {_times(points[name].stops)}."
        for name in ordered
    )
    return Chart(figure, claims)


class _Cost(NamedTuple):
    """The costs of a setting: the queue's greatest depth, the producer's blocked share, the queue's stops."""

    depth: float
    blocked: float
    stops: float


def _points(rows: Sequence[Any], queue: str, producer: str) -> Mapping[str, _Cost]:
    wanted = (("queues", queue, "max_depth"), ("producers", producer, "blocked_share"),
              ("queues", queue, "flowStoppedCount"))  # fmt: skip
    found = {(row.setting, row.section, row.name, row.measure): row.predicted for row in rows}
    settings = dict.fromkeys(row.setting for row in rows)
    return {
        setting: _Cost(*(found[setting, *key] for key in wanted))
        for setting in settings
        if all(found.get((setting, *key)) is not None for key in wanted)
    }


def _times(number: float) -> str:
    return "once" if number == 1 else f"{number:.0f} times"


# The report on a day

_WORST = 20
"""The largest number of queues, of findings and of logs in a report."""
_STEPS = 60
"""The number of steps of time in the map of a day."""

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>:root{{color-scheme:light dark}}
body{{font:15px/1.5 system-ui,sans-serif;margin:24px auto;max-width:900px;padding:0 16px}}
body{{background:#fff;color:#1c2126}}
figure{{margin:16px 0}}div.qflow-wide{{overflow-x:auto}}svg{{width:100%;min-width:640px;height:auto}}
table{{border-collapse:collapse}}
td,th{{padding:3px 12px 3px 0;text-align:left;border-bottom:1px solid #d0d7de}}
td.number,th.number{{text-align:right}}th,td.number,td:first-child{{white-space:nowrap}}
@media (prefers-color-scheme:dark){{body{{background:#171b20;color:#e8edf2}}td,th{{border-color:#3a424c}}}}
</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


@dataclass(frozen=True)
class DayReport:
    """A report on a day's results; a notebook displays it, and :meth:`page` returns it as a page of HTML."""

    title: str
    claims: tuple[str, ...]
    logs: Sequence[tuple[str, str, str]]
    """The first logs with dates: the name, the clock time of the begin, and the time zone."""
    worst: Sequence[Any]
    """The queues that held transfers longest, as rows of :func:`qflow.spark.questions.offenders`."""
    findings: Sequence[Any]
    """The first findings that contradict a rule, as rows of RESULTS."""
    charts: tuple[Chart, ...]

    def __repr__(self) -> str:
        return "\n".join((self.title, *self.claims))

    def _repr_html_(self) -> str:
        return "\n".join(self._body())

    def page(self) -> str:
        """Return the report as a complete page of HTML."""
        return _PAGE.format(title=escape(self.title), body=self._repr_html_())

    def _body(self) -> Iterator[str]:
        yield f"<ul>{''.join(f'<li>{escape(claim)}</li>' for claim in self.claims)}</ul>"
        if self.logs:
            yield "<h2>The logs</h2>"
            yield _table(("log", "begins at", "zone"), self.logs, texts=3)
        if self.worst:
            yield "<h2>The queues that held transfers longest</h2>"
            rows = [
                (row.source, row.queue, f"{row.flowStoppedCount:,}", f"{row.on_us / SECOND:,.1f} s",
                 f"{row.held:,}", f"{row.held_us / SECOND:,.1f} s", f"{row.longest_held_us / SECOND:,.1f} s")
                for row in self.worst
            ]  # fmt: skip
            heads = ("log", "queue", "times ON", "ON for", "held", "waited, all", "waited, longest")
            yield _table(heads, rows, texts=2)
        yield "<h2>Findings</h2>"
        found = [(row.component, row.finding, finding_of(row).sentence()) for row in self.findings]
        none = "<p>None: nothing in the logs breaks a rule.</p>"
        yield _table(("component", "kind", "findings"), found, texts=3) if found else none
        for chart in self.charts:
            claims = "".join(f"<li>{escape(claim)}</li>" for claim in chart.claims)
            yield f'<figure><div class="qflow-wide">{chart.svg}</div><ul>{claims}</ul></figure>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """Return a table as HTML; the columns after the first `texts` are numbers."""
    lines = []
    for name, row in (("th", heads), *(("td", row) for row in rows)):
        cells = (
            f"<{name}{' class=number' if at >= texts else ''}>{escape(word)}</{name}>"
            for at, word in enumerate(row)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f'<div class="qflow-wide"><table>{"".join(lines)}</table></div>'


def report_day(
    spark: SparkSession, results: str | Path, day: str | None = None, form: str = FORMAT
) -> DayReport:
    """Return the report on one day of an audit's stored results.

    Parameters:
        spark: The Spark session.
        results: The folder or address of the table that :func:`qflow.spark.audit_to` wrote.
        day: The day, such as ``2026-11-27``; None for the last day in the table.
        form: The format of the table, such as ``parquet``.

    Raises:
        RefusalError: If there are no results, or none of the given day.
    """
    rows, unfinished = results_with_keys(spark, results, form)
    days = sorted(row.day for row in rows.select("day").distinct().collect())
    day = day or days[-1]
    if day not in days:
        raise RefusalError(f"{results}: there are no results of {day}, but of {', '.join(days)}")
    report = report_on(rows.where(rows.day == day).select(*RESULTS), day)
    if day not in {of for of, _ in unfinished}:
        return report
    words = "The audit has not ended: parts are missing; the command that makes it continues with them."
    return replace(report, claims=(words, *report.claims))


def report_on(results: DataFrame, of: str) -> DayReport:
    """Return the report on the results of an audit.

    Parameters:
        results (DataFrame of RESULTS): The results of :func:`qflow.spark.audit`, or stored results with the
            facts of the logs, with which the report shows clock times.
        of: The subject of the report, for its title.
    """
    facts = questions.facts_of_logs(results).persist()
    alone = without_logs(results)
    found = questions.summarise(results, _WORST)
    charts = tuple(_charts(alone, found.offenders, facts)) if found.offenders else ()
    dated = facts.where("origin_us IS NOT NULL").select("source", "origin_us", "zone").distinct()
    logs = [
        (row.source, DayClock(row.origin_us, row.zone).text(0, "%Y-%m-%d %H:%M:%S"), row.zone)
        for row in dated.orderBy("origin_us", "source").limit(_WORST).collect()
    ]
    facts.unpersist()
    claims = tuple(found.sentences())
    return DayReport(f"Flow control: {of}", claims, logs, found.offenders, found.findings, charts)


def _charts(results: DataFrame, worst: Sequence[Any], facts: DataFrame) -> Iterator[Chart]:
    """Yield the charts of the worst queues, with clock times if their logs have dates."""
    from pyspark.sql import functions as sf

    source, queue = sf.substring_index("component", "/", 1), sf.col("queue")
    chosen = sorted({(row.source, row.queue) for row in worst})
    few = results.where(sf.struct(source, queue).isin([sf.struct(*map(sf.lit, pair)) for pair in chosen]))
    ((first,),) = facts.agg(sf.min("origin_us")).collect()
    timed = questions.on_clock(few, facts, first or 0).persist()
    ends, dated = sf.coalesce("end_us", "begin_us"), sf.when(sf.col("origin_us").isNotNull(), sf.col("zone"))
    ((begin, end, zones),) = timed.agg(sf.min("origin_us"), sf.max(ends), sf.collect_set(dated)).collect()
    begin = None if begin is None else begin // SECOND * SECOND
    # If the logs have different time zones, the page uses UTC.
    clock = None if begin is None else DayClock(begin, zones[0] if len(zones) == 1 else "UTC")
    seconds = max(1, -(-(end - (begin or 0)) // SECOND))
    step = -(-seconds // _STEPS)
    few = timed.withColumns({name: sf.col(name) - sf.lit(begin or 0) for name in ("begin_us", "end_us")})
    logs = {row.source for row in worst}
    names = {pair: pair[1] if len(logs) == 1 else "/".join(pair) for pair in chosen}
    on = questions.on_over_time(few, step * SECOND).collect()
    most = questions.most_at_once(few)
    worst_first = [names[row.source, row.queue] for row in worst]
    yield heat_map(_name_queues(on, names), worst_first, seconds, step, clock, most)
    yield offender_bars(_name_queues(worst, names))
    held = questions.hold_times(few).collect()
    if held:
        yield hold_boxes(_name_queues(held, names))
    timed.unpersist()


def _name_queues(rows: Sequence[Any], names: dict[tuple[str, str], str]) -> list[Any]:
    """Return rows with unique names of queues, if several logs have a queue of the same name."""
    return [SimpleNamespace(**{**row.asDict(), "queue": names[row.source, row.queue]}) for row in rows]
