"""Challenges in JupyterLab: won with a mouse and keys, by what the labs offer."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOLDER = Path(os.environ.get("QFLOW_SCREENSHOTS", ""))


@pytest.fixture(scope="module")
def page(lab_server, lab_page):
    code = "import qflow as qf", *(f'qf.challenge("{name}")' for name in ("overflow", "asleep"))
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(line) for line in code])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(made, lab_server.folder / "challenges.ipynb")
    lab_page.page.set_viewport_size({"width": 1440, "height": 900})
    lab_page.open_notebook("challenges.ipynb")
    lab_page.run_all(120)
    assert lab_page.cell_errors() == []
    return lab_page


def shot(page, name):
    if FOLDER.name:
        page.page.screenshot(path=FOLDER / f"challenge-{name}.png")


def test_a_slider_and_a_hint(page):
    root = page.page.locator(".qf-challenge").first
    root.scroll_into_view_if_needed()
    goal, card = root.locator(".qf-goal"), root.locator(".qf-result")
    assert "Par: 1 move. So far: 0 moves." in goal.inner_text()
    assert not card.inner_text().strip()
    root.locator(".qf-hint").click()
    root.get_by_text("Hint 1 of 3: Flow control asks producers to stop.").wait_for()
    shot(page, "begins")
    handle = root.locator("[data-setting=capacity_1]")
    handle.focus()
    for _ in range(16):
        page.page.keyboard.press("ArrowRight")
    card.get_by_text("Won in 1 move, par 1.").wait_for()
    assert "Messages refused while flow control was ON: 1." in card.inner_text()
    assert 'qf.labs.open_token("qf1.' in card.inner_text()
    assert "So far: 1 move. This run:" in goal.inner_text()
    goal.scroll_into_view_if_needed()
    shot(page, "won")


def test_messages_that_are_clicked(page):
    root = page.page.locator(".qf-challenge").nth(1)
    root.scroll_into_view_if_needed()
    for moves, consumer in enumerate(("c2", "c1"), 1):
        root.locator(f".qf-consumer[data-name={consumer}] .qf-slot[data-why]").first.click()
        root.locator(".qf-menu [data-verdict=accept]").click()
        root.locator(".qf-goal").get_by_text(f"So far: {moves} move").wait_for()
        # What follows is played; an act before it is over is one at an earlier instant.
        root.locator(".qf-play").get_by_text("play").wait_for()
    root.locator(".qf-result").get_by_text("Won in 2 moves, par 2.").wait_for()
    root.locator(".qf-goal").scroll_into_view_if_needed()
    shot(page, "asleep")
    assert page.cell_errors() == []
