"""Questions in the picture, answered like a learner: drag or choose, press go, read the comment."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import play_until
from live_scene import LiveScene, live_page
from test_motion import OVERLAPS

from qflow.labs import capacity_lab, completion_lab, flow_lab, group_lab
from qflow.teaching import Predictions, learner

pytestmark = [pytest.mark.browser]

MARK = ".qf-guess-mark"
NEXT = ".qf-ask-next"
# Words of the question and of the marks lie on no other words.
CLASHES = """() => {
    const isSeen = element => element.checkVisibility({ visibilityProperty: true });
    const words = ".qf-guess text, .qf-stage .qf-depth, .qf-ask :is(p, button, input, select)";
    const boxes = [...document.querySelectorAll(words)]
        .filter(isSeen).map(element => [element.textContent, element.getBoundingClientRect()]);
    const found = [];
    boxes.forEach(([one, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
        const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (wide > 2 && tall > 4) found.push(`${one} / ${other}`);
    }));
    return found;
}"""


class Asked(LiveScene):
    """A lab with questions in a page, operated like a learner does."""

    def ask(self, chapter: str, *names: str, lab, **more: bool) -> Predictions:
        """Open a lab with questions, and wait until its run has paused."""
        predictions = Predictions(chapter)
        predictions.ask(*names, lab=lab)
        self.open(lab, **more)
        self.scene("scene.player.setSpeed(10);")
        self.await_pause()
        return predictions

    def await_pause(self) -> None:
        """Wait until the run has paused for the question."""
        frame = self.lab.scene.asking["frame"]
        script = "frame => { const { player } = document.querySelector('.qflow-scene').scene;"
        script += " return player.track.frame(0, player.place) === frame && !player.isPlaying; }"
        play_until(self.page, script, frame)

    def go(self) -> str:
        """Press go; return the comment on the guess."""
        self.page.locator(".qf-ask-go").click()
        self.await_answer()
        return self.text(".qf-ask-told")

    def await_answer(self) -> None:
        """Wait until the run shows the answer, and a button to continue."""
        play_until(self.page, "next => document.querySelector(next)?.checkVisibility()", NEXT)

    def look(self, name: str) -> None:
        """Check that no texts overlap, and save a screenshot if a folder for it is given."""
        assert self.page.evaluate(OVERLAPS) == []
        assert self.page.evaluate(CLASHES) == []
        assert self.page.locator(".qflow-scene").bounding_box()["height"] <= 720
        self.shot(name)

    @property
    def marked(self) -> str:
        """Return the number beside the mark on the tank."""
        return self.page.locator(MARK).get_attribute("aria-valuenow")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    with live_page(tmp_path_factory.mktemp("asked"), Asked) as page:
        yield page


@pytest.fixture(autouse=True)
def nothing_typed(monkeypatch):
    monkeypatch.setattr(learner, "_typed", {})


def test_no_answer_is_taken_before_the_run_pauses(asked):
    """A click before the pause would be lost without a message."""
    Predictions("01-thresholds").ask("on", lab=(lab := flow_lab()))
    asked.open(lab)
    asked.scene("scene.player.pause();")
    skip = asked.page.locator(".qf-ask-skip")
    assert skip.is_visible() and skip.is_disabled()
    asked.scene("scene.player.setSpeed(2); scene.player.play();")
    asked.await_pause()
    go = asked.page.locator(".qf-ask-go")
    assert go.is_disabled() and asked.text(".qf-ask-wants") == "drag the mark or type a number first"
    skip.click()
    asked.await_answer()


def test_a_mark_is_dragged_and_the_run_answers(asked, capsys):
    predictions = asked.ask("01-thresholds", "on", "off", lab=flow_lab())
    page = asked.page
    frames = asked.lab.first.frames
    # What would give it away is not there, and no key gets there.
    telling = ":is(.qf-plots, .qf-later, .qf-scrub, .qf-line-hint):visible"
    assert page.locator(telling).count() == 0 and "901" not in page.locator("body").inner_text()
    for key in ("End", "Shift+ArrowRight", "Space"):
        page.locator(".qflow-scene").press(key)
    asked.await_pause()
    asked.look("asks-on")

    box = page.locator(".qf-guess-catch").bounding_box()
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle, box["y"] + box["height"] * 0.7)
    page.mouse.down()
    page.mouse.move(middle, box["y"] + box["height"] * 0.35, steps=4)
    page.mouse.up()
    assert 550 < int(asked.marked) < 850
    assert page.locator(".qf-ask input").input_value() == asked.marked
    # At a line of the queue the mark is on it exactly.
    page.mouse.click(middle, page.locator(".qf-line-stop line").first.bounding_box()["y"] + 2)
    assert asked.marked == "900"
    page.locator(".qf-ask select").select_option("80")
    asked.look("asks-on-marked")
    said = asked.go()
    assert said.startswith("It turned ON at 901. You said 900: 900 is not more than 900.")
    assert page.locator(".qf-guess text").all_text_contents() == ["you: 900", "ON at 901"]
    shown = page.locator(".qf-stage").evaluate("stage => ({ ...stage.dataset })")
    assert (shown["depth"], shown["flow"]) == ("901", "ON")
    assert int(shown["frame"]) == frames.transitions[0].frame
    asked.look("told-on")

    # The keyboard and a screen reader reach the second.
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('.qf-ask-count').textContent === '2 of 2'")
    asked.scene("scene.player.setSpeed(10);")
    asked.await_pause()
    assert page.locator(".qf-ask input").evaluate("field => field === document.activeElement")
    page.keyboard.type("480")
    mark = page.locator(MARK)
    assert (mark.get_attribute("role"), mark.get_attribute("aria-valuetext")) == ("slider", "OFF at 480")
    mark.focus()
    for key in ("PageUp", "PageUp", "ArrowDown"):
        page.keyboard.press(key)
    assert asked.marked == "499"
    asked.look("asks-off")
    page.keyboard.press("Enter")
    asked.await_answer()
    assert asked.text(".qf-ask-told") == "It turned OFF at 499. You had it."
    asked.look("told-off")

    page.keyboard.press("Enter")
    page.locator(".qf-plots").first.wait_for()
    assert page.locator(".qf-ask:visible, .qf-guess").count() == 0
    assert page.locator(".qf-later").is_visible()
    predictions.compare()
    assert "you said 900: 900 is not more than 900" in capsys.readouterr().out


def test_how_deep_it_gets_is_marked_on_a_tank_of_single_messages(asked):
    small = {"capacity_1": 3, "capacity_2": 2, "stop": 2, "resume": 1, "limit": 12}
    asked.ask("04-capacity", "two", lab=capacity_lab(**small, rate=5, messages=40))
    asked.look("asks-deepest")
    asked.page.locator(".qf-ask input").fill("8")
    assert asked.go().startswith("It got 7 deep. You said 8: the message that turns it ON is the first")
    asked.look("told-deepest")


def test_a_consumer_is_clicked_and_the_run_says_who_it_was(asked):
    asked.ask("05-message-groups", "next", lab=group_lab())
    asked.look("asks-gets")
    asked.page.locator(".qf-consumer[data-name=c3] .qf-name").first.click()
    assert asked.page.locator("[data-choice=c3]").get_attribute("aria-checked") == "true"
    assert asked.page.locator(".qf-guess text").all_text_contents() == ["gets it"]
    asked.look("asks-gets-chosen")
    assert asked.go().startswith("c1 got it. You said c3: being quick does not help")
    assert asked.page.locator(".qf-guess text").all_text_contents() == ["you", "gets it"]
    asked.look("told-gets")


def test_yes_or_no_is_chosen_by_keyboard(asked):
    asked.ask("03-held-completions", "sync", lab=completion_lab())
    asked.look("asks-sync")
    asked.page.locator("[data-choice=yes]").focus()
    asked.page.keyboard.press("Space")
    said = asked.go()
    assert said.startswith("Answered at once: no. You said yes. Worth another look: a sync waits for every")
    asked.look("told-sync")
