"""Figures of a fleet: what they show of names that a log holds."""

from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from qflow.spark.figures import frontier, group_bars, heat_map, hold_boxes, offender_bars

MARKUP = "<b>%{x}</b>"
SHOWN = "&#60;b&#62;%&#123;x}&#60;/b&#62;"


def test_a_name_is_shown_as_it_is_and_not_as_markup():
    """Plotly reads HTML and %{...} in labels; a queue or a group may be called anything."""
    chart = heat_map([SimpleNamespace(queue=MARKUP, step=0, on_us=500_000)], [MARKUP], seconds=1, step=1)
    assert chart.figure.data[0].y == (SHOWN,)
    assert [list(row) for row in chart.figure.data[0].z] == [[0.5]]
    row = SimpleNamespace(queue="q", group=MARKUP, owned_us=2_000_000, tenures=1, owners=1)
    assert f"q {SHOWN}" in group_bars([row]).figure.data[0].y


QUEUES = ["q01", "q02", "q03"]
ON = [SimpleNamespace(queue="q02", step=at, on_us=us) for at, us in ((1, 250_000), (2, 1_000_000))]
HELD = [
    SimpleNamespace(queue=queue, held=held, flowStoppedCount=2, on_us=3_000_000, held_us=held * 10_000)
    for queue, held in (("q02", 1_800), ("q01", 40))
]
WAITS = [
    SimpleNamespace(queue=queue, p50_us=half, p90_us=2 * half, p99_us=9 * half)
    for queue, half in (("q01", 8_000), ("q02", 310_000))
]
GROUPS = [
    SimpleNamespace(queue="q03", group=group, owned_us=owned, tenures=3, owners=2)
    for group, owned in (("A", 9_000_000), ("B", 2_000_000))
]
COSTS = [
    SimpleNamespace(setting=setting, section=section, name=name, measure=measure, predicted=value)
    for setting, values in (("stop 100", (125, 0.31, 12)), ("stop 400", (425, 0.07, 3)))
    for (section, name, measure), value in zip(
        (
            ("queues", "q01", "max_depth"),
            ("producers", "p1", "blocked_share"),
            ("queues", "q01", "flowStoppedCount"),
        ),
        values,
        strict=True,
    )
]


@pytest.mark.parametrize(
    ("chart", "marks", "words"),
    [
        (heat_map(ON, QUEUES, 5, 1), ("rect", 2), ["25%", "100%", *QUEUES]),
        (offender_bars(HELD), ("rect", 2), ["q02", "q01", "1800 transfers, ON 2 times"]),
        (hold_boxes(WAITS), ("path", 6), ["q01", "q02", "half of them", "99 %", "0.01", "1"]),
        (group_bars(GROUPS), ("rect", 2), ["q03 A", "q03 B"]),
        (frontier(COSTS, "q01", "p1"), ("path", 3), ["stop 100", "stop 400", "30%", "deepest, messages"]),
    ],
    ids=["heat map", "offenders", "hold times", "groups", "frontier"],
)
def test_a_page_without_scripts_shows_a_still(chart, marks, words):
    root = ElementTree.fromstring(chart._repr_mimebundle_()["image/svg+xml"])
    assert {element.text for element in root.iter() if element.text} >= set(words)
    name, count = marks
    drawn = root.findall(f"{{*}}{name}[@fill]")
    # The ground is a rectangle, too, and so are the entries of a legend.
    assert len(drawn) - (name == "rect") == count
