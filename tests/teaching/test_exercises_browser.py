"""A task notebook in JupyterLab, as a learner uses it: unsolved, wrong in a typical way, and right."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TASK = "exercises/01-thresholds.ipynb"

_WRITE = """([id, text]) => {
    const cells = window.jupyterapp.shell.currentWidget.content.widgets;
    cells.find(cell => cell.model.id === id).model.sharedModel.setSource(text);
}"""
_OUTPUT = """id => {
    const cells = window.jupyterapp.shell.currentWidget.content.widgets;
    const cell = cells.find(cell => cell.model.id === id);
    return cell.node.querySelector(".jp-OutputArea").innerText;
}"""


def answer(lab_page, text: str) -> str:
    """Write an answer to the first exercise, run everything, and return what the check says."""
    if text:
        lab_page.page.evaluate(_WRITE, ["on_and_off", text])
    lab_page.run_all()
    return str(lab_page.page.evaluate(_OUTPUT, "on_and_off-check"))


def test_a_learner_is_led_from_a_hint_to_the_right_answer(lab_page):
    lab_page.open_notebook(TASK)
    unsolved = answer(lab_page, "")
    assert "NOT YET" in unsolved
    assert "Hint 1 of 3: Chapter 1 sends 900 messages" in unsolved
    assert lab_page.cell_errors() == []

    wrong = answer(lab_page, "def on_and_off(limit, stop, resume):\n    return stop, resume")
    assert 'This looks like "reached is enough"' in wrong

    right = answer(lab_page, "def on_and_off(limit, stop, resume):\n    return stop + 1, resume - 1")
    assert "RIGHT" in right
