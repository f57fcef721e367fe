"""Chapter 1 in JupyterLab, operated like a learner does; the tests look at the drawing, not at Python."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import WATCH_SLIDER, ShownLab

from qflow.labs import flow_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]

CHAPTER = "01-thresholds.ipynb"
STAGE = ".qflow-lab:has(.qf-panel) .qf-stage"
LAB = ".qflow-lab:has(.qf-panel)"
MOVES = 2

# The chapter's lab plays by itself up to what it asks; it is looked at where it would otherwise open.
PLAYED = """selector => document.querySelector(selector).closest(".qflow-scene").scene.player.place > 3"""
FASTER = """selector => document.querySelector(selector).closest(".qflow-scene").scene.player.setSpeed(10)"""
PAUSE_AT = """([selector, frame]) => {
    const { player } = document.querySelector(selector).closest(".qflow-scene").scene;
    player.pause();
    player.show(player.track.place(0, frame));
}"""


class Lab(ShownLab):
    """The flow lab of the chapter in a browser."""

    def button(self, name: str) -> None:
        self.page.locator(f"{LAB} .qf-{name}").click()

    def readout(self, slider: str) -> str:
        return str(self.page.locator(f".qf-slider-{slider} .widget-readout").inner_text())

    def drag(self, slider: str, share: float) -> None:
        """Move a slider's handle, on which the mouse is pressed, to a place on its rail."""
        box = self.page.locator(f".qf-slider-{slider} .noUi-base").bounding_box()
        self.page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2, steps=6)

    @contextmanager
    def dragging(self, slider: str, share: float) -> Iterator[None]:
        """Press the mouse on a slider and move it; release it at the end of the block."""
        self.page.locator(f".qf-slider-{slider} .noUi-handle").hover()
        self.page.mouse.down()
        self.drag(slider, share)
        yield
        self.page.mouse.up()

    def seek(self, *shares: float) -> list[int]:
        """Press the mouse in the plot and drag it; return the times that are shown meanwhile."""
        plot = self.page.locator(f"{LAB} .qf-plot .qf-catch")
        plot.scroll_into_view_if_needed()
        times = []
        for share in shares:
            box = plot.bounding_box()
            plot.hover(position={"x": box["width"] * share, "y": box["height"] / 2})
            self.page.mouse.down()
            times.append(int(self.seen()["time"]))
        self.page.mouse.up()
        return times

    def settle(self) -> None:
        """Wait until the picture of the last requested run is drawn."""
        slider = f"{LAB} .qf-slider-stop .widget-readout"
        script = "([stage, handle, slider]) => { const seen = document.querySelector(stage).dataset;"
        script += " const handled = document.querySelector(handle).ariaValueNow;"
        script += " const stops = [handled, document.querySelector(slider).innerText];"
        script += " return seen.whole === 'yes' && stops.every(stop => stop === seen.stop); }"
        self.labs.wait_idle()
        self.page.wait_for_function(script, arg=[STAGE, f"{LAB} [data-setting=stop]", slider])


@pytest.fixture(scope="module")
def lab(lab_page) -> Lab:
    lab_page.open_notebook(CHAPTER)
    lab_page.run_all()
    lab_page.page.wait_for_selector(f"{STAGE}[data-run]")
    lab = Lab(lab_page, lab_page.page.locator(LAB))
    lab.page.wait_for_function(PLAYED, arg=STAGE)
    lab.page.evaluate(FASTER, STAGE)
    for _ in range(2):
        lab.button("ask-skip")
        lab.button("ask-next")
    # That there is no further question is the kernel's answer, and then the run plays on.
    lab.page.wait_for_selector(f"{LAB} .qf-ask", state="hidden")
    lab.page.evaluate(PAUSE_AT, [STAGE, flow_run().frames.most_telling()])
    lab.button("more")
    return lab


def shot(lab: Lab, name: str, tmp_path: Path, of: str = LAB) -> None:
    """Save a screenshot in the folder QFLOW_SCREENSHOTS, or else among the test's own files."""
    folder = Path(os.environ.get("QFLOW_SCREENSHOTS", tmp_path))
    lab.page.set_viewport_size({"width": 1640, "height": 1400})
    lab.page.locator(of).evaluate("lab => lab.scrollIntoView({ block: 'center' })")
    lab.page.mouse.move(0, 0)
    if "QFLOW_SCREENSHOTS" in os.environ:
        lab.page.wait_for_timeout(300)
    path = lab.labs.screenshot(folder / f"{name}.png", of=of)
    lab.page.set_viewport_size({"width": 1400, "height": 1000})
    assert path.stat().st_size > 20_000


def test_what_is_drawn_is_what_python_says_and_the_chapter_asks_nobody_outside(lab):
    page = lab.labs
    assert page.cell_errors() == page.page_errors == page.foreign_requests == []
    frames = flow_run().frames
    seen = lab.seen()
    assert_true(seen)
    assert int(seen["frame"]) == frames.most_telling()
    assert seen["flow"] == "ON"
    held = frames.at(int(seen["frame"]))["producer.p1.held"]
    assert lab.page.locator(f"{LAB} .qf-cell-held rect").count() - 1 == held  # 1: legend


def test_the_keyboard_does_all_of_it(lab):
    cells = "() => window.jupyterapp.shell.currentWidget.content.activeCellIndex"
    last = str(int(lab.seen()["frames"]) - 1)
    active = None
    for key, what, value in [
        *(("Home", "frame", "0"), ("ArrowRight", "frame", "1"), ("ArrowLeft", "frame", "0")),
        *(("Shift+ArrowRight", "flow", "ON"), ("Shift+ArrowRight", "flow", "OFF")),
        *(("End", "frame", last), ("Shift+ArrowLeft", "flow", "OFF"), ("Home", "frame", "0")),
    ]:
        lab.press(key)
        active = lab.page.evaluate(cells) if active is None else active
        assert lab.seen()[what] == value, key
    assert lab.page.evaluate(cells) == active, "JupyterLab took the arrow keys for itself"
    lab.press("Space")
    lab.page.wait_for_function(PLAYED, arg=STAGE)
    lab.press("Space")
    stopped = lab.seen()["frame"]
    lab.page.wait_for_timeout(150)
    assert lab.seen()["frame"] == stopped


def test_dragging_in_the_plot_scrubs(lab):
    end = flow_run().frames.topology.end
    for share, shown in zip((0.2, 0.6), lab.seek(0.2, 0.6), strict=True):
        assert abs(shown - share * end) < 0.02 * end


def handle(lab: Lab, setting: str) -> Any:
    """Return a handle on the tank."""
    return lab.page.locator(f"{LAB} [data-setting={setting}]")


def grip(lab: Lab, setting: str) -> tuple[float, float]:
    """Press the mouse on a handle; return the position of the press."""
    pill = handle(lab, setting).locator(".qf-pill")
    pill.scroll_into_view_if_needed()
    box = pill.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    lab.page.mouse.move(x, y)
    lab.page.mouse.down()
    return x, y


def test_a_level_dragged_on_the_tank_redraws(lab):
    """The line follows the pointer, runs are drawn while it is held, and the slider follows."""
    before = lab.seen()
    x, y = grip(lab, "stop")
    lab.page.mouse.move(x, y + (14 if int(before["stop"]) >= 850 else -14), steps=1)
    lab.await_run(int(before["run"]))
    held = lab.seen()
    assert held["stop"] != before["stop"]
    assert_true(held)
    lab.page.mouse.up()
    follows = "stop => document.querySelector('.qf-slider-stop .widget-readout').innerText === stop"
    lab.page.wait_for_function(follows, arg=held["stop"])
    assert lab.seen()["stop"] == held["stop"]


def test_a_hand_that_moves_on_sees_pictures_on_its_way(lab):
    """Each move requests another run; a run that is abandoned before it is drawn shows nothing."""
    most = flow_run(stop=int(lab.seen()["stop"])).frames.most_telling()
    lab.page.evaluate(PAUSE_AT, [STAGE, most])
    before = lab.seen()
    x, y = grip(lab, "stop")
    moves = 0
    while lab.seen()["run"] == before["run"]:
        moves += 1
        # Downwards: a line above the limit is refused, and has no picture.
        lab.page.mouse.move(x, y + 30 - 10 * (moves % 4), steps=1)
        lab.page.wait_for_timeout(10)
        assert moves < 300, "the hand moved on, and its picture stayed as it was"
    lab.page.mouse.up()
    lab.await_run(int(before["run"]))
    lab.settle()


def test_the_handles_are_there_for_the_keyboard_and_a_screen_reader(lab):
    for setting, key in (("stop", "ArrowDown"), ("limit", "ArrowDown"), ("capacity", "ArrowLeft")):
        before, found = lab.seen(), handle(lab, setting)
        value = int(found.get_attribute("aria-valuenow"))
        assert found.get_attribute("role") == "slider"
        assert setting in found.get_attribute("aria-label")
        found.press(key)
        lab.await_run(int(before["run"]))
        after = handle(lab, setting)
        assert int(after.get_attribute("aria-valuenow")) == value - int(after.get_attribute("data-step"))
        assert lab.readout(setting) == after.get_attribute("aria-valuenow")
        assert after.evaluate("handle => handle === document.activeElement"), "the focus was lost"
        run = int(lab.seen()["run"])
        after.press({"ArrowDown": "ArrowUp", "ArrowLeft": "ArrowRight"}[key])
        lab.await_run(run)
    names = lab.page.locator(".qf-slider .noUi-handle[aria-label]")
    names.first.wait_for(state="attached")
    assert names.count() == lab.page.locator(".qf-slider .noUi-handle").count() > 3
    assert all(handle.get_attribute("aria-label") for handle in names.all()), "not only: slider, 60"


def test_moving_the_stop_slider_redraws(lab):
    """When the slider is released, the engine runs, and everything drawn agrees with the run."""
    lab.page.evaluate(WATCH_SLIDER, STAGE)
    for move in range(MOVES):
        lab.move("stop", 0.45 + 0.12 * move)
        lab.settle()
        lab.page.wait_for_function(
            "count => new Set(window.qflowDrawn.map(one => one.stop)).size === count", arg=move + 1
        )
    drawn = lab.page.evaluate("() => window.qflowDrawn")
    assert len({seen["stop"] for seen in drawn}) == len({seen["run"] for seen in drawn}) == MOVES
    for seen in drawn:
        assert_true(seen)


def assert_true(seen: dict[str, str]) -> None:
    """Compare the drawing, of the complete run or of its finished part, with the complete run in Python."""
    frames = flow_run(stop=int(seen["stop"])).frames
    index = frames.index_at(int(seen["time"]))
    frame = frames.at(index)
    expected = [index, *(frame[f"queue.orders.{name}"] for name in ("depth", "held", "flow"))]
    assert [*(int(seen[name]) for name in ("frame", "depth", "held")), seen["flow"] == "ON"] == expected
    assert seen["whole"] == "no" or int(seen["frames"]) == frames.count


def test_a_slider_that_rests_in_the_hand_has_its_picture_before_it_is_let_go(lab):
    lab.move("stop", 0.75)
    lab.settle()
    before = lab.seen()
    with lab.dragging("stop", 0.6):
        lab.await_run(int(before["run"]))
        # The hand has passed other values, and the last one's picture may be on its way.
        lab.settle()
        held = lab.seen()
        assert held["stop"] == lab.readout("stop") != before["stop"]
        assert_true(held)
    lab.page.wait_for_timeout(500)
    assert lab.seen() == held, "it was run again although nothing was new"


# All that is seen of the drawing, whichever of its elements were there before.
VISIBLE = """stage => [...stage.querySelectorAll(":scope > g *")]
    .filter(one => one.checkVisibility({ visibilityProperty: true }) || one.tagName === "title")
    .map(one => [
        one.tagName,
        ...one.getAttributeNames().map(name => `${name}=${one.getAttribute(name)}`).sort(),
        one.children.length ? "" : one.textContent,
    ].join(" "))
    .sort()"""


def test_a_slider_that_comes_back_to_where_it_was_brings_its_picture_back(lab):
    before, drawing = lab.seen(), lab.page.locator(STAGE).evaluate(VISIBLE)
    assert len(drawing) > 200
    with lab.dragging("stop", 0.8):
        lab.await_run(int(before["run"]))
        # The drag asks for a run at each of its steps.
        lab.settle()
        away = lab.seen()
        assert away["stop"] != before["stop"]
        lab.drag("stop", int(before["stop"]) / 1_200)
        assert lab.readout("stop") == before["stop"]
    lab.await_run(int(away["run"]))
    lab.settle()
    assert lab.seen() == {**before, "run": lab.seen()["run"]}
    assert lab.page.locator(STAGE).evaluate(VISIBLE) == drawing


def test_a_refused_combination_shows_the_brokers_words_and_keeps_the_picture(lab, tmp_path):
    lab.move("stop", 0.75)
    lab.settle()
    before = lab.seen()
    top = "stage => stage.closest('.qf-views').offsetTop"
    place = lab.page.locator(STAGE).evaluate(top)
    lab.click_rail("resume", 0.95)
    lab.page.wait_for_selector(f"{LAB} .qf-refusal:not([hidden])")
    assert lab.page.locator(STAGE).evaluate(top) == place, "the picture moved under the hand"
    assert f"equal to qpid.flow_stop_count={before['stop']}" in lab.root.locator(".qf-refusal").inner_text()
    assert lab.seen() == before
    shot(lab, "flow-lab-refused", tmp_path)
    lab.click_rail("resume", 500 / 1_200)
    # A beginning may be drawn on the way, or none: then the picture that comes is the one that is there.
    lab.page.wait_for_selector(f"{LAB} .qf-refusal", state="hidden")
    same = "".join(f"[data-{name}='{before[name]}']" for name in ("frames", "stop", "resume"))
    lab.page.wait_for_selector(f"{STAGE}[data-whole=yes]{same}")
    assert lab.labs.cell_errors() == []


def test_the_recorded_lab_draws_the_real_broker(lab, tmp_path):
    recorded = ".qflow-lab:not(:has(.qf-panel))"
    assert lab.page.locator(f"{recorded} .qf-lane-real").count() >= 13
    assert lab.page.locator(f"{recorded} .qf-samples").count() == 1
    shot(lab, "recorded-lab", tmp_path, of=recorded)
