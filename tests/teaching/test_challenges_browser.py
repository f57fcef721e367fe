"""Challenges in JupyterLab: each is won by mouse alone, and lost by mouse the way most people try first."""

from __future__ import annotations

from typing import Any

import pytest
from browser import FIRST_CELL, ShownLab
from test_challenges import NAMES, WINNING, WRONG

pytestmark = [pytest.mark.browser, pytest.mark.release]

BY_MOUSE = {
    **{name: moves[0] for name, moves in WRONG.items()},
    # A pixel of a rail is not always one; the ends are.
    "starve": [("rate", 20)],
    "order": [("c1", "release", "A-1", 2_500_000)],
}
"""For each challenge, a wrong way that a mouse can go."""
RIGHT = {**{name: moves[0] for name, moves in WINNING.items()}, "overflow": [("capacity_1", 90)]}


_STEPS_OFF = """(one, time) => {
    const { track, place } = one.closest('.qflow-scene').scene.player;
    return place - (time === null ? track.count - 1 : track.at(time));
}"""


@pytest.fixture(scope="module")
def page(lab_server, lab_page):
    """Open a notebook in which each challenge stands twice: to be lost, and to be won."""
    code = ["import qflow as qf", *(f'qf.challenge("{name}")' for name in NAMES for _ in range(2))]
    lab_server.write_notebook("challenges.ipynb", *code)
    lab_page.page.set_viewport_size({"width": 1440, "height": 900})
    lab_page.open_notebook("challenges.ipynb")
    lab_page.run_all(180)
    assert lab_page.cell_errors() == []
    return lab_page


class Played(ShownLab):
    """A challenge of the page, under the mouse."""

    def __init__(self, page: Any, place: int) -> None:
        super().__init__(page, page.page.locator(".qf-challenge").nth(place))
        self.root.scroll_into_view_if_needed()
        self.root.locator(".qf-stage[data-run]").first.wait_for()

    def play(self, moves: list[tuple[Any, ...]]) -> None:
        for number, move in enumerate(moves, 1):
            if len(move) == 2:
                self.slide(*move)
            else:
                self.settle(*move)
            self.root.locator(".qf-goal").get_by_text(f"So far: {number} move").wait_for()
            # What follows is played; an act before it is over is one at an earlier instant.
            self.root.locator(".qf-play").first.get_by_text("play").wait_for()

    def open(self) -> None:
        """Open the rest of the lab: its sliders and single steps."""
        more = self.root.locator(".qf-more").first
        if more.get_attribute("aria-expanded") == "false":
            more.click()

    def slide(self, setting: str, value: int) -> None:
        """Click a slider's rail where a value is, and again until it is that."""
        self.open()
        rail = self.root.locator(f".qf-slider-{setting} .noUi-target")
        handle = rail.locator(".noUi-handle")
        low, high = (float(handle.get_attribute(f"aria-value{end}")) for end in ("min", "max"))
        # A pixel of a long rail is more than one.
        unit, at = (high - low) / rail.bounding_box()["width"], value
        for _ in range(6):
            self.click_rail(setting, min(0.999, max(0, (at - low) / (high - low))))
            self.page.wait_for_timeout(450)
            now = float(handle.get_attribute("aria-valuenow"))
            if abs(now - value) <= (0 if unit < 0.8 else unit):
                return
            at += value - now
        raise AssertionError(f"{setting} stands at {now}, not at {value}")

    def settle(self, consumer: str, verdict: str, label: str, time: int | None) -> None:
        """Click a message at a consumer, and what is to happen to it; at a time, or at the end so far."""
        scrub = self.root.locator(".qf-scrub").first
        self.open()
        share = scrub.evaluate(
            "(one, time) => { const { track } = one.closest('.qflow-scene').scene.player;"
            " return time === null ? 1 : track.at(time) / (track.count - 1); }",
            time,
        )
        if scrub.evaluate("one => one.closest('.qflow-scene').scene.player.isPlaying"):
            self.root.locator(".qf-play").first.click()
        box = scrub.bounding_box()
        # The knob of a range is as wide as it is tall; its middle does not come to the ends.
        knob = 16
        scrub.click(position={"x": knob / 2 + (box["width"] - knob) * share, "y": box["height"] / 2})
        while (off := scrub.evaluate(_STEPS_OFF, time)) != 0:
            self.root.locator(".qf-step-back" if off > 0 else ".qf-step-on").first.click()
        slot = f".qf-consumer[data-name={consumer}] .qf-slot[data-why='message:{label}']"
        self.root.locator(slot).first.click()
        self.root.locator(f".qf-menu [data-verdict={verdict}]").click()

    @property
    def card(self) -> Any:
        return self.root.locator(".qf-result")


@pytest.mark.parametrize("name", NAMES)
def test_each_is_won_by_mouse_and_not_the_obvious_wrong_way(page, name):
    lost = Played(page, 2 * NAMES.index(name))
    lost.play(BY_MOUSE[name])
    lost.root.locator(".qf-goal").get_by_text("This run:").wait_for()
    assert not lost.card.inner_text().strip(), "the wrong way does not win"
    won = Played(page, 2 * NAMES.index(name) + 1)
    won.play(RIGHT[name])
    won.card.get_by_text("Won in ").wait_for()
    assert 'qf.labs.open_token("qf1.' in won.card.inner_text()
    assert page.cell_errors() == []


def test_a_hint_says_a_little_more_each_time(page):
    played = Played(page, 0)
    played.root.locator(".qf-hint").click()
    told = played.root.get_by_text("Hint 1 of 3: Flow control asks producers to stop.")
    told.wait_for()
    assert "Hint 2" not in played.root.inner_text(), "one at a time"


FOCUSED = "() => document.activeElement.dataset.setting ?? ''"


def test_a_challenge_is_won_by_keyboard_alone(lab_server, lab_page):
    """From its notebook to the card: no mouse, and the focus is not lost on the way."""
    lab_server.write_notebook("by-keyboard.ipynb", 'import qflow as qf\n\nqf.challenge("overflow")')
    lab_page.open_notebook("by-keyboard.ipynb")
    keyboard = lab_page.page.keyboard
    lab_page.page.evaluate(FIRST_CELL)
    keyboard.press("Shift+Enter")
    lab_page.wait_idle()
    lab_page.page.locator(".qf-challenge .qf-stage[data-run]").wait_for()
    # As a learner of the keyboard does: to the lab, and from stop to stop.
    lab_page.page.locator(".qf-challenge .qflow-scene").evaluate("scene => scene.focus()")
    for _ in range(40):
        keyboard.press("Tab")
        if lab_page.page.evaluate(FOCUSED) == "capacity_1":
            break
    assert lab_page.page.evaluate(FOCUSED) == "capacity_1"
    keyboard.press("End")
    lab_page.page.locator(".qf-challenge .qf-result").get_by_text("Won in ").wait_for()
    assert lab_page.page.evaluate(FOCUSED) == "capacity_1", "the focus stays where the learner was"
