"""The map and the games in JupyterLab: their drawings, texts and the engine agree."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from browser import LOOKS_MS
from test_map_widget import TEXT

from qflow.design.settings_map import KINDS

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FOLDER = Path(os.environ.get("QFLOW_SCREENSHOTS", ""))
CODE = "import qflow as qf\nlab = qf.capacity_lab()\ndisplay(lab.map(messages=300, cells=12), lab)"
PROSE = f"lab.prose({TEXT!r})"
PAGE = 'qf.errata_game("groups")'
GAME = "game = qf.state_space_lab(stop=2, resume=1, capacity_1=2, capacity_2=1)\ngame"
COUNT = """root => Object.fromEntries(%s.map(kind => [kind,
    root.querySelectorAll(`.qf-map-field g > .qf-map-${kind}:not(.qf-map-guess)`).length]))"""
MOVED = """root => {
    const { stop, capacity } = root.querySelector(".qf-map-dot").dataset;
    return root.querySelector(".qf-map-title").textContent === `stop ${stop}, capacity ${capacity}`;
}"""
WORDS = """root => [...root.querySelectorAll("svg text")]
    .filter(text => text.textContent && text.checkVisibility({ visibilityProperty: true }))
    .map(text => [text.textContent, text.getBoundingClientRect()])
    .map(([words, box]) => [words, box.left, box.top, box.right, box.bottom])"""


@pytest.fixture(scope="module")
def page(lab_server, lab_page):
    lab_server.write_notebook("map.ipynb", CODE, PROSE, GAME, PAGE)
    lab_page.page.set_viewport_size({"width": 1440, "height": 900})
    lab_page.open_notebook("map.ipynb")
    lab_page.run_all(120)
    return lab_page


def shot(page, name):
    if FOLDER.name:
        page.page.screenshot(path=FOLDER / f"map-{name}.png")


def test_the_map_fills_and_moves_its_lab(page):
    root = page.page.locator(".qf-map")
    shot(page, "coarse")
    page.page.wait_for_function(
        "root => root.dataset.known === root.dataset.cells",
        arg=root.element_handle(),
        timeout=180_000,
        polling=LOOKS_MS,
    )
    assert root.get_attribute("data-cells") == "144"
    shot(page, "kinds")
    # Words and colours are of the same runs; the key has one more of each.
    shown = root.evaluate(COUNT % list(KINDS))
    words = root.locator(".qf-map-words").inner_text()
    said = {"safe": "are safe", "below": "stayed", "full": "reached it", "dead": "ended with"}
    for kind, phrase in said.items():
        assert f"{shown[kind] - 1} {phrase}" in words or shown[kind] == 1
    assert sum(shown.values()) == 144 + len(KINDS)

    root.focus()
    dot = root.locator(".qf-map-dot")
    assert (dot.get_attribute("data-stop"), dot.get_attribute("data-capacity")) == ("100", "50")
    before = int(page.page.locator(".qf-stage").first.get_attribute("data-run"))
    for key in (*["ArrowRight"] * 6, *["ArrowUp"] * 8, "Enter"):
        page.page.keyboard.press(key)
    stage = page.page.locator(".qf-stage").first.element_handle()
    page.page.wait_for_function("([stage, run]) => Number(stage.dataset.run) > run", arg=[stage, before])
    # The lab's picture may come before the map's dot.
    page.page.wait_for_function(MOVED, arg=root.element_handle())
    assert "sessions died (506)" in root.locator(".qf-map-run .qf-map-facts").first.text_content()
    shot(page, "moved")

    for view in ("depth", "blocked"):
        root.locator(f"[data-view={view}]").first.click()
        assert root.get_attribute("data-view") == view
        shot(page, view)
    root.locator("button[data-view=kind]").click()
    field = root.locator(".qf-map-field").bounding_box()
    page.page.mouse.click(field["x"] + field["width"] * 0.1, field["y"] + field["height"] * 0.8)
    page.page.wait_for_function("dot => Number(dot.dataset.stop) <= 20", arg=dot.element_handle())
    assert not page.page_errors


def test_a_number_is_dragged_and_words_and_marks_light_each_other_up(page):
    number, stage = page.page.locator(".qf-prose-number[data-setting=stop]"), page.page.locator(".qf-stage")
    number.scroll_into_view_if_needed()
    before, box = int(number.inner_text()), number.bounding_box()
    page.page.mouse.move(box["x"] + 10, box["y"] + 8)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 10 + 100, box["y"] + 8, steps=6)
    page.page.mouse.up()
    drawn = "stop => document.querySelector('.qf-stage').dataset.stop === stop"
    page.page.wait_for_function(drawn, arg=str(before + 20))
    assert number.inner_text() == stage.first.get_attribute("data-stop")
    number.focus()
    page.page.keyboard.press("ArrowUp")
    page.page.wait_for_function(drawn, arg=str(before + 21))
    page.page.locator(".qf-prose-term", has_text="C1").hover()
    page.page.locator(".qf-lights .qf-producer.qf-lit[data-name=C1]").wait_for()
    page.page.mouse.move(2, 2)
    page.page.locator(".qf-lights").wait_for(state="detached")
    page.page.locator(".qf-producer[data-name=C1] .qf-name").first.hover()
    page.page.locator(".qf-prose-term.qf-is-named", has_text="C1").wait_for()
    assert page.cell_errors() == []


def test_the_map_fits_on_a_screen_and_no_words_overlap(page):
    page.page.set_viewport_size({"width": 1280, "height": 720})
    root = page.page.locator(".qf-map")
    assert root.bounding_box()["height"] < 720
    boxes = root.evaluate(WORDS)
    for number, (one, left, top, right, bottom) in enumerate(boxes):
        for other, left2, top2, right2, bottom2 in boxes[:number]:
            apart = right <= left2 + 1 or right2 <= left + 1 or bottom <= top2 + 3 or bottom2 <= top + 3
            assert apart, (one, other)


def test_the_game_is_walked_with_buttons_and_clicks(page):
    root = page.page.locator(".qf-states")
    root.scroll_into_view_if_needed()
    page.page.locator(".qf-game-begin").click()
    words = page.page.locator(".qf-game-words")
    for moves in ("1 move", "2 moves", "3 moves"):
        page.page.get_by_role("button", name="C1 sends").click()
        words.get_by_text(f"After {moves}: ").wait_for()
    assert "After 3 moves: depth 3 ON" in words.inner_text()
    walk = root.get_attribute("data-walk").split()
    assert len(walk) == 4
    root.locator(f".qf-walker[data-at='{walk[-1]}']").wait_for()
    shot(page, "game")
    page.page.locator(".qflow-lab:has(.qf-states) .qf-stage[data-depth='3']").first.wait_for()
    assert not page.page_errors


def test_a_page_of_the_documents_is_marked_and_judged(page):
    root = page.page.locator(".qf-errata")
    root.scroll_into_view_if_needed()
    for place in (4, 5, 6, 5):
        root.locator(f"[data-place='{place}']").click()
    assert root.locator("[aria-pressed=true]").count() == 2 and root.get_attribute("data-answers") == "0"
    root.locator(".qf-errata-judge").click()
    answer = root.locator(".qf-errata-answer").nth(4)
    answer.get_by_text("group is free; but you marked it").wait_for(state="attached")
    assert "You found 1 of the 4 mistakes" in root.locator(".qf-errata-score").inner_text()
    assert root.get_attribute("data-answers") == "7"
    shot(page, "errata")
