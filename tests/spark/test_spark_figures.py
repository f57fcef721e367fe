"""Figures of a fleet: what they show of names that a log holds."""

from types import SimpleNamespace

from qflow.spark.figures import group_bars, heat_map

MARKUP = "<b>%{x}</b>"
SHOWN = "&#60;b&#62;%&#123;x}&#60;/b&#62;"


def test_a_queue_is_shown_by_its_name_and_not_as_markup():
    """Plotly reads HTML and %{...} in labels; a queue may be called anything."""
    chart = heat_map([SimpleNamespace(queue=MARKUP, step=0, on_us=500_000)], [MARKUP], seconds=1, step=1)
    assert chart.figure.data[0].y == (SHOWN,)
    assert [list(row) for row in chart.figure.data[0].z] == [[0.5]]


def test_a_group_is_shown_by_its_name_and_not_as_markup():
    row = SimpleNamespace(queue="q", group=MARKUP, owned_us=2_000_000, tenures=1, owners=1)
    figure = group_bars([row]).figure
    assert f"q {SHOWN}" in figure.data[0].y
