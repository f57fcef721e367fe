"""Day report: what a day's results show, as one page that asks no server for anything, or in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.labs.charts import Chart
from qflow.logs.audit import finding_of
from qflow.spark import figures, questions
from qflow.spark.lake_audit import results_with_keys
from qflow.spark.tables import FORMAT, KEYS, RESULTS, missing_of
from qflow.workload.agenda import SECOND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_WORST = 20
"""Queues and findings that are shown."""
_STEPS = 60
"""Steps of time across the picture of a day."""

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
    """What a day's results show; in a notebook it is shown, and :meth:`page` is the same as a file."""

    title: str
    claims: tuple[str, ...]
    worst: Sequence[Any]
    """The queues whose held transfers waited longest: rows of :func:`qflow.spark.questions.offenders`."""
    findings: Sequence[Any]
    """Findings that break a rule, the first of them, as rows of RESULTS."""
    charts: tuple[Chart, ...]

    def __repr__(self) -> str:
        return "\n".join((self.title, *self.claims))

    def _repr_html_(self) -> str:
        return "\n".join(self._body())

    def page(self) -> str:
        """Return it as a page of HTML."""
        return _PAGE.format(title=escape(self.title), body=self._repr_html_())

    def _body(self) -> Iterator[str]:
        yield f"<ul>{''.join(f'<li>{escape(claim)}</li>' for claim in self.claims)}</ul>"
        if self.worst:
            yield "<h2>The queues that held transfers longest</h2>"
            rows: list[tuple[str, ...]] = [
                (row.source, row.queue, f"{row.flowStoppedCount:,}", f"{row.on_us / SECOND:,.1f} s",
                 f"{row.held:,}", f"{row.held_us / SECOND:,.1f} s", f"{row.longest_held_us / SECOND:,.1f} s")
                for row in self.worst
            ]  # fmt: skip
            heads: tuple[str, ...] = (
                "log",
                "queue",
                "times ON",
                "ON for",
                "held",
                "waited, all",
                "waited, longest",
            )
            yield _table(heads, rows, texts=2)
        yield "<h2>Findings</h2>"
        found = [(row.component, row.subject, finding_of(row).sentence()) for row in self.findings]
        heads = ("component", "kind", "what was found")
        yield _table(heads, found, texts=3) if found else "<p>None: nothing in the logs breaks a rule.</p>"
        for chart in self.charts:
            claims = "".join(f"<li>{escape(claim)}</li>" for claim in chart.claims)
            yield f'<figure><div class="qflow-wide">{chart.svg}</div><ul>{claims}</ul></figure>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """Return a table; columns after the first `texts` are numbers."""
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
    """Return the report on a day of the results that an audit keeps; without a day, on the last one there."""
    rows = results_with_keys(spark, results, form)
    there = rows.select(*KEYS.names).distinct().collect()
    days = sorted({row.day for row in there})
    day = day or days[-1]
    if day not in days:
        raise RefusalError(f"{results}: there are no results of {day}, but of {', '.join(days)}")
    report = report_on(rows.where(rows.day == day).select(*RESULTS.names), day)
    missing = missing_of(row.part for row in there if row.day == day)
    if missing is None:
        return report
    words = f"The audit has not ended: {missing[0]} of {missing[1]} parts are missing."
    return replace(report, claims=(words, *report.claims))


def report_on(results: DataFrame, of: str) -> DayReport:
    """Return the report on some results; `of` says in a word what they are of.

    Parameters:
        results (DataFrame of RESULTS): As :func:`qflow.spark.audit` gives them.
    """
    found = questions.summarise(results, _WORST)
    worst, kinds = found.offenders, found.kinds
    claims = (
        f"Queues were ON {kinds.get('flow_on', 0):,} times, and held {kinds.get('held', 0):,} transfers.",
        f"Producers were blocked {kinds.get('blocked', 0):,} times.",
        f"{kinds.get('finding', 0):,} findings.",
    )
    charts = tuple(_charts(results, worst)) if worst else ()
    return DayReport(f"Flow control: {of}", claims, worst, found.findings, charts)


def _charts(results: DataFrame, worst: Sequence[Any]) -> Iterator[Chart]:
    """Yield the charts of the worst queues."""
    from pyspark.sql import functions as sf

    source, queue = sf.substring_index("component", "/", 1), sf.col("queue")
    chosen = sorted({(row.source, row.queue) for row in worst})
    few = results.where(sf.struct(source, queue).isin([sf.struct(*map(sf.lit, pair)) for pair in chosen]))
    few = few.persist()
    (last,) = few.agg(sf.max(sf.coalesce("end_us", "begin_us")).alias("us")).collect()
    seconds = max(1, -(-last.us // SECOND))
    step = -(-seconds // _STEPS)
    logs = {row.source for row in worst}
    names = {pair: pair[1] if len(logs) == 1 else "/".join(pair) for pair in chosen}
    on = questions.on_over_time(few, step * SECOND).collect()
    worst_first = [names[row.source, row.queue] for row in worst]
    yield figures.heat_map(_name_queues(on, names), worst_first, seconds, step)
    yield figures.offender_bars(_name_queues(worst, names))
    held = questions.hold_times(few).collect()
    if held:
        yield figures.hold_boxes(_name_queues(held, names))
    few.unpersist()


def _name_queues(rows: Sequence[Any], names: dict[tuple[str, str], str]) -> list[Any]:
    """Return rows whose queues are told from queues of the same name in other logs."""
    return [SimpleNamespace(**{**row.asDict(), "queue": names[row.source, row.queue]}) for row in rows]
