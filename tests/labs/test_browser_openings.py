"""Chapters that begin with a lab: after Shift+Enter the whole lab is visible, and it plays."""

from __future__ import annotations

import pytest
from browser import FIRST_CELL

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SEEN = """() => {
    const lab = document.querySelector(".qflow-lab").getBoundingClientRect();
    const page = document.querySelector(".jp-WindowedPanel-outer").getBoundingClientRect();
    return lab.top > page.top - 2 && lab.bottom < page.bottom + 2;
}"""
MOVES = """() => {
    const { place, isPlaying } = document.querySelector(".qflow-scene")?.scene?.player ?? {};
    const asks = document.querySelector(".qflow-scene.qf-is-asking");
    return asks ? place > 0 : isPlaying && place > 3;
}"""


ABOVE = """() => {
    const [first] = document.querySelectorAll(".jp-WindowedPanel-outer .jp-Cell");
    const lab = document.querySelector(".qflow-lab").getBoundingClientRect();
    return lab.top - first.getBoundingClientRect().top;
}"""


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("00-tour", 2),
        # Of the drawings one each: the tank is the tour's, too.
        pytest.param("01-thresholds", 3, marks=pytest.mark.release),
        ("02-bytes-and-counts", 5),
        ("03-held-completions", 5),
        pytest.param("04-capacity", 5, marks=pytest.mark.release),
        ("05-message-groups", 5),
    ],
)
def test_the_lab_is_seen_as_a_whole_and_plays(lab_page, name, cells):
    page = lab_page.page
    page.set_viewport_size({"width": 1280, "height": 720})
    lab_page.open_notebook(f"{name}.ipynb")
    page.evaluate(FIRST_CELL)
    for _ in range(cells):
        page.keyboard.press("Shift+Enter")
        lab_page.wait_idle()
    page.wait_for_function(MOVES)
    page.wait_for_function(SEEN)
    assert page.locator(".qflow-stored").count() == 0, "the widget, and not what the notebook keeps as well"
    assert page.evaluate(ABOVE) < 1_080, "a screen and a half"
    assert lab_page.cell_errors() == lab_page.page_errors == []
