"""A question in the picture, as a learner answers it: drag the mark, press go, read what the run says."""

from __future__ import annotations

import pytest

from qflow.labs import flow_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SCENE = ".qflow-scene"
MARK = f"{SCENE} .qf-guess-mark"
PAUSED = """() => {
    const player = document.querySelector(".qflow-scene")?.scene?.player;
    return player && player.place > 3 && !player.isPlaying;
}"""
FASTER = """() => document.querySelector(".qflow-scene").scene.player.setSpeed(10)"""
# No two of the words that are seen lie on one another; a pill may lie on a line.
OVERLAPS = """() => {
    const words = ".qflow-scene svg text, .qflow-scene .qf-ask :is(p, button, input, select)";
    const isSeen = element => element.checkVisibility({ visibilityProperty: true });
    const boxes = [...document.querySelectorAll(words)]
        .filter(element => element.textContent + (element.value ?? "") && isSeen(element))
        .map(element => [element.textContent, element.getBoundingClientRect()]);
    const found = [];
    boxes.forEach(([one, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 2 && tall > 4) found.push(`${one} / ${other}`);
    }));
    return found;
}"""


@pytest.fixture(scope="module")
def page(lab_page):
    lab_page.page.set_viewport_size({"width": 1280, "height": 720})
    lab_page.open_notebook("01-thresholds.ipynb")
    lab_page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; }")
    lab_page.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.activate()")
    for _ in range(3):
        lab_page.page.keyboard.press("Shift+Enter")
        lab_page.wait_idle()
    lab_page.page.wait_for_function(PAUSED, timeout=20_000)
    return lab_page.page


def seen(page) -> dict[str, str]:
    return dict(page.locator(f"{SCENE} .qf-stage").evaluate("stage => ({ ...stage.dataset })"))


def test_it_fills_and_pauses_and_gives_nothing_away(page):
    frames = flow_run().frames
    assert 0 < int(seen(page)["depth"]) < 500
    assert (
        page.locator(
            f"{SCENE} :is(.qf-plots, .qf-later, .qf-scrub, .qf-claims, .qf-line-hint):visible"
        ).count()
        == 0
    )
    text = page.locator(".qflow-lab").first.inner_text()
    assert "How many are on the queue when flow control turns ON?" in text and "901" not in text
    page.locator(SCENE).first.press("End")
    page.locator(SCENE).first.press("Shift+ArrowRight")
    assert int(seen(page)["frame"]) < frames.transitions[0].frame
    assert page.evaluate(OVERLAPS) == []


def test_the_mark_is_dragged_and_the_run_answers(page):
    box = page.locator(f"{SCENE} .qf-guess-catch").bounding_box()
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle, box["y"] + box["height"] * 0.7)
    page.mouse.down()
    page.mouse.move(middle, box["y"] + box["height"] * 0.35, steps=4)
    page.mouse.up()
    dragged = int(page.locator(MARK).get_attribute("aria-valuenow"))
    assert 550 < dragged < 850
    assert page.locator(f"{SCENE} .qf-ask input").input_value() == str(dragged)
    # At a line the mark is on it exactly.
    line = page.locator(f"{SCENE} .qf-line-stop line").first.bounding_box()
    page.mouse.click(middle, line["y"] + 2)
    assert page.locator(MARK).get_attribute("aria-valuenow") == "900"
    page.locator(f"{SCENE} .qf-ask select").select_option("80")
    page.evaluate(FASTER)
    page.locator(f"{SCENE} .qf-ask-go").click()
    page.locator(f"{SCENE} .qf-ask-next").wait_for(timeout=20_000)
    said = page.locator(f"{SCENE} .qf-ask-told").inner_text()
    assert said.startswith("It turned ON at 901. You said 900: 900 is not more than 900.")
    pills = page.locator(f"{SCENE} .qf-guess text").all_text_contents()
    assert pills == ["you: 900", "ON at 901"]
    shown = seen(page)
    assert (shown["depth"], shown["flow"]) == ("901", "ON")
    assert int(shown["frame"]) == flow_run().frames.transitions[0].frame
    assert page.evaluate(OVERLAPS) == []


def test_the_keyboard_and_a_screen_reader_reach_it(page):
    page.keyboard.press("Enter")  # the focus is on "next question"
    page.wait_for_function("() => document.querySelector('.qf-ask-count').textContent === '2 of 2'")
    page.wait_for_function(PAUSED, timeout=20_000)
    field = page.locator(f"{SCENE} .qf-ask input")
    assert field.evaluate("field => field === document.activeElement")
    page.keyboard.type("480")
    mark = page.locator(MARK)
    assert mark.get_attribute("role") == "slider"
    assert mark.get_attribute("aria-valuetext") == "OFF at 480"
    mark.focus()
    page.keyboard.press("PageUp")
    page.keyboard.press("PageUp")
    page.keyboard.press("ArrowDown")
    assert page.locator(MARK).get_attribute("aria-valuenow") == "499"
    assert page.locator(MARK).evaluate("mark => mark === document.activeElement")
    assert page.evaluate(OVERLAPS) == []
    page.keyboard.press("Enter")
    page.locator(f"{SCENE} .qf-ask-next").wait_for(timeout=20_000)
    assert page.locator(f"{SCENE} .qf-ask-told").inner_text() == "It turned OFF at 499. You had it."
    assert page.evaluate(OVERLAPS) == []


def test_then_the_lab_is_whole_and_what_was_said_is_kept(page, lab_page):
    page.keyboard.press("Enter")
    page.locator(f"{SCENE} .qf-plots").first.wait_for()
    assert page.locator(f"{SCENE} .qf-ask:visible, {SCENE} .qf-guess").count() == 0
    assert page.locator(f"{SCENE} .qf-later").is_visible()
    assert lab_page.page_errors == lab_page.cell_errors() == []
