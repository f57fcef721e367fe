"""Operating the picture: marks, answers beside the click, grips that follow, and tab stops."""

from __future__ import annotations

from typing import Any

import pytest
from browser import play_until
from live_scene import live_page

from qflow.kit import RefusalError
from qflow.labs import (
    bytes_lab,
    capacity_lab,
    completion_lab,
    fanout_lab,
    flow_lab,
    group_lab,
    policy_lab,
)
from qflow.labs.words import MOST_WORDS
from qflow.teaching.predictions import ChapterQuestion

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FRONT = {
    "stop": 40,
    "resume": 10,
    "limit": 60,
    "capacity": 10,
    "prefetch": 4,
    "rate": 100,
    "service": 0.04,
    "messages": 220,
}
SMALL = {"stop": 8, "resume": 5, "limit": 12, "capacity": 3, "prefetch": 2, "rate": 60, "service": 0.05}
LABS = {
    "flow": lambda: flow_lab(messages=60, **SMALL),
    "bytes": lambda: bytes_lab(messages=60),
    "capacity": lambda: capacity_lab(messages=200),
    "fanout": lambda: fanout_lab(messages=120),
    "policies": lambda: policy_lab(messages=60),
    "groups": group_lab,
    "groups by themselves": lambda: group_lab(messages="AAB", prefetch=(1, 1), paces=()),
    "completions": completion_lab,
}
PLAYS = "() => !document.querySelector('.qflow-scene').scene.player.isPlaying"
BOXES = """() => [...document.querySelectorAll('.qf-picture, .qf-plots, .qf-transport')].map((one) => {
    const { x, y, width, height } = one.getBoundingClientRect();
    return [x, y + scrollY, width, height];
})"""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with live_page(tmp_path_factory.mktemp("hand"), height=1000) as page:
        yield page


# Marks


@pytest.mark.parametrize("name", LABS)
def test_at_the_end_of_a_run_every_mark_has_landed(live, name):
    live.open(LABS[name]())
    live.scene("scene.player.setSpeed(40); scene.player.show(0); scene.player.play();")
    play_until(live.page, PLAYS)
    live.wait(6)
    shown = live.lab.picture
    first = next(iter(shown.pictures.values())) if hasattr(shown, "pictures") else shown
    last = first.frames.at(-1)
    held = sum(last[f"queue.{queue.name}.held"] for queue in first.frames.topology.queues)
    assert live.scene("return scene.marks;") == held, "what is held waits, and nothing flies"
    for card in live.page.locator(".qf-view").first.locator(".qf-consumer").all():
        owns = card.locator(".qf-lock[visibility=visible]").count()
        told = card.locator(".qf-end").first.text_content() if card.locator(".qf-end").count() else None
        assert told is None or (told == "owns no group") == (owns == 0) or told == ""


def test_where_a_question_pauses_a_run_nothing_flies(live):
    lab = capacity_lab()
    lab.ask(ChapterQuestion("n", "How deep?", mark="deepest", chapter="99-test"))
    live.open(lab)
    play_until(live.page, PLAYS)
    live.wait(8)
    frame = lab.scene.asking["frame"]
    assert live.scene("return scene.player.place;") == frame
    assert live.scene("return scene.marks;") == lab.first.frames.at(frame)["queue.orders.held"]


def test_a_step_lands_too_and_nothing_later_has_set_out(live):
    live.open(flow_lab(messages=60, **SMALL))
    frames = live.lab.first.frames
    on = next(change.frame for change in frames.transitions if change.is_on)
    live.show(on)
    live.scene("scene.player.step(1);")
    live.wait(4)
    held = frames.at(on + 1)["queue.orders.held"]
    assert live.scene("return scene.marks;") == held, "what is held is the only thing that is not at home"


# A story


@pytest.mark.release
def test_a_story_tells_seven_beats_within_ninety_seconds(live):
    live.open(flow_lab(**FRONT).tell())
    beats = live.lab.first.drawing["story"]
    assert len(beats) == 7
    assert all(len(beat["text"].split()) <= MOST_WORDS for beat in beats)
    told = []
    for _ in range(90):
        told.append(live.text(".qf-story-text"))
        live.wait(1)
        if live.scene("return !scene.player.isPlaying && scene.player.place;") == beats[-1]["to"]:
            break
    assert list(dict.fromkeys(told)) == [beat["text"] for beat in beats]
    assert live.scene("return !scene.player.isPlaying && scene.player.place;") == beats[-1]["to"]
    assert live.text(".qf-story-all") == "again"


def test_a_story_is_driven_by_keys_skipped_and_told_again(live):
    live.open(flow_lab(**FRONT).tell())
    page = live.page
    beats = live.lab.first.drawing["story"]
    page.locator(".qflow-scene").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert live.text(".qf-story-text") == beats[3]["text"]
    live.wait(12)
    frame = live.lab.first.frames.at(int(page.locator(".qf-stage").get_attribute("data-frame")))
    assert (frame["queue.orders.depth"], frame["queue.orders.held"]) == (41, 1), "one completion is held"
    assert "scale" in page.locator(".qf-stage").get_attribute("style"), "the camera is near"
    assert live.text(".qf-story-text") == beats[3]["text"], "a hand on it ends what follows by itself"
    page.keyboard.press("ArrowLeft")
    assert live.text(".qf-story-text") == beats[2]["text"]
    page.keyboard.press("Escape")
    assert page.locator(".qf-transport").is_visible()
    assert "scale" not in (page.locator(".qf-stage").get_attribute("style") or "")
    page.locator(".qf-story-begin").click()
    assert live.text(".qf-story-text") == beats[0]["text"]


FOCUSED = "() => [...document.activeElement.classList].join(' ')"


def test_the_focus_of_a_story_is_never_lost(live):
    """At the first beat *back* is disabled; *skip* and *tell it again* disappear when pressed."""
    live.open(flow_lab(**FRONT).tell())
    page = live.page
    for pressed, focused in (
        ("next", "qf-story-next"),
        ("back", "qf-story-next"),
        ("end", "qf-story-begin"),
        ("begin", "qf-story-next"),
    ):
        page.locator(f".qf-story-{pressed}").focus()
        page.keyboard.press("Enter")
        assert page.evaluate(FOCUSED) == focused, pressed


def test_a_message_that_leaves_hands_the_focus_to_its_client(live):
    live.open(flow_lab(messages=60, **SMALL))
    page = live.page
    live.scene("scene.player.pause(); scene.player.show(scene.player.track.count - 30);")
    slot = page.locator(".qf-consumer .qf-slot[role=button]").first
    slot.focus()
    live.scene(
        "scene.player.show(scene.player.track.count - 1); scene.player.look(scene.player.clock + 9e6);"
    )
    live.wait(1)
    assert page.locator(".qf-consumer .qf-slot[role=button]").count() == 0, "all have left"
    assert page.evaluate("() => document.activeElement.dataset.name") == "c1"


def test_a_run_without_a_turn_has_no_story():
    with pytest.raises(RefusalError, match="nobody in it turns ON"):
        flow_lab(messages=200).tell()
    with pytest.raises(RefusalError, match="this run has others"):
        capacity_lab(messages=20).tell()


# Answers


def test_an_answer_stands_beside_the_click_and_moves_nothing(live):
    live.open(capacity_lab(messages=200))
    page = live.page
    live.show(live.scene("return scene.player.track.at(1.5e6);"))
    before = page.evaluate(BOXES)
    cell = page.locator(".qf-cell-held").nth(20)
    spot = cell.bounding_box()
    cell.click()
    page.locator(".qf-why li").first.wait_for()
    assert page.evaluate(BOXES) == before
    card = page.locator(".qf-why").bounding_box()
    assert 0 <= card["x"] - (spot["x"] + spot["width"]) < 30, "beside what was clicked"
    scene = page.locator(".qflow-scene").bounding_box()
    assert card["y"] >= scene["y"]
    assert card["y"] + card["height"] <= scene["y"] + scene["height"]
    page.locator(".qf-why-pin").click()
    page.locator(".qf-producer .qf-name").last.click()
    page.locator(".qf-why:not(.qf-is-kept) li").first.wait_for()
    assert page.locator(".qf-why").count() == 2, "what is pinned stays beside the next"
    page.locator(".qf-why:not(.qf-is-kept) li").first.hover()
    assert page.locator(".qf-lights .qf-lit").count() >= 1, "what a step names is lit"
    page.mouse.move(2, 2)
    page.keyboard.press("Escape")
    assert page.locator(".qf-why").count() == 1
    assert page.locator(".qf-lights").count() == 0
    assert page.evaluate(BOXES) == before


@pytest.mark.parametrize("name", LABS)
def test_no_click_on_a_picture_moves_it(live, name):
    live.open(LABS[name]())
    page = live.page
    live.scene("const { player } = scene; player.pause(); player.show(Math.floor(player.track.count / 2));")
    before = page.evaluate(BOXES)
    for what in (".qf-producer .qf-name", ".qf-queue .qf-name", ".qf-consumer .qf-name", ".qf-badge"):
        thing = page.locator(f".qf-view >> nth=0 >> {what}").first
        if thing.count() and thing.is_visible():
            thing.click()
            page.locator(".qf-why li, .qf-why-refusal").first.wait_for()
            assert page.evaluate(BOXES) == before, f"a click on {what}"
            page.keyboard.press("Escape")
            assert page.locator(".qf-why").count() == 0


# Grips


TENTH = """() => {
    const cell = document.querySelector('.qf-producer').querySelectorAll('.qf-cell')[9];
    const { right, y, height } = cell.getBoundingClientRect();
    return [right, y + height / 2];
}"""


def test_a_grip_follows_the_pointer_over_its_rows_in_one_drag(live):
    live.open(capacity_lab(capacity_1=100))
    page = live.page
    live.scene("scene.player.pause();")
    # Asked in one go, as the drawing may be made anew between two questions.
    edge, middle = page.evaluate(TENTH)
    page.locator("[data-setting=capacity_1]").hover()
    page.mouse.down()
    page.mouse.move(edge, middle, steps=8)
    live.wait(1)
    left = page.evaluate(
        "() => document.querySelector('[data-setting=capacity_1]').getBoundingClientRect().x"
    )
    assert abs(left - edge) < 14, "the grip is under the hand"
    page.mouse.up()
    live.wait(1)
    assert live.lab.sliders["capacity_1"].value == 10


@pytest.mark.parametrize("capacity", [9, 52])
def test_a_grip_stays_under_the_hand_and_inside_its_card(live, capacity):
    """Along the last row and beyond its end, over the next row, and to the bottom of the card."""
    live.open(capacity_lab(capacity_1=capacity))
    page = live.page
    live.scene("scene.player.pause();")
    grip, card = "[data-setting=capacity_1]", ".qf-producer[data-name=C1] .qf-card"
    read = "what => (({ x, y, right, bottom }) => [x, y, right, bottom])"
    read += "(document.querySelector(what).getBoundingClientRect())"
    inside = page.evaluate(read, card)

    def is_inside() -> bool:
        left, top, right, bottom = page.evaluate(read, grip)
        return inside[0] <= left and inside[1] <= top and right <= inside[2] + 1 and bottom <= inside[3] + 1

    assert is_inside(), "before it is touched"
    left, top, right, bottom = page.evaluate(read, grip)
    x, y = (left + right) / 2, (top + bottom) / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for across, down in ((6, 0), (20, 0), (40, 0), (20, 14), (-60, 26), (-140, 30)):
        hand = min(x + across, inside[2] - 14), min(y + down, inside[3] - 22)
        page.mouse.move(*hand, steps=3)
        live.wait(1)
        left, top, right, bottom = page.evaluate(read, grip)
        assert left - 2 <= hand[0] <= right + 2 and top - 2 <= hand[1] <= bottom + 2, (across, down)
        assert is_inside(), (across, down)
    page.mouse.up()


def test_a_mark_behind_the_gate_says_why_and_its_answer_leaves_it_free(live):
    live.open(capacity_lab())
    frames = live.lab.first.frames
    live.show(frames.column("queue.orders.held").index(65))
    live.wait(4)
    middle = "() => { const { drawn } = document.querySelector('.qflow-scene').scene.view;"
    middle += " const [tank] = drawn.places.tanks; const [x, y] = tank.pile(0);"
    middle += (
        " const at = new DOMPoint(x, y).matrixTransform(document.querySelector('.qf-stage').getScreenCTM());"
    )
    middle += " return [at.x, at.y]; }"
    live.page.mouse.click(*live.page.evaluate(middle))
    live.page.locator(".qf-why li").first.wait_for()
    assert live.page.locator(".qf-why").get_attribute("data-subject").startswith("transfer:C")
    covers = """([what, x, y]) => {
        const card = document.querySelector(".qf-why").getBoundingClientRect();
        const at = what ? document.querySelector(what).getBoundingClientRect() : new DOMRect(x, y, 1, 1);
        return card.left < at.right && at.left < card.right && card.top < at.bottom && at.top < card.bottom;
    }"""
    assert not live.page.evaluate(covers, ["", *live.page.evaluate(middle)])
    for part in (".qf-queue > .qf-tank", ".qf-producer > .qf-card"):
        box = live.page.locator(part).first.bounding_box()
        live.page.keyboard.press("Escape")
        live.page.mouse.click(box["x"] + 6, box["y"] + 0.25 * box["height"])
        live.page.locator(".qf-why li").first.wait_for()
        assert not live.page.evaluate(covers, [part, 0, 0]), part


def test_a_heap_behind_the_gate_says_why_of_the_completions_where_it_is_clicked(live):
    """More than 240 form one pile, in order: those held first are at the gate."""
    live.open(flow_lab(stop=300, resume=100, limit=900, capacity=400, messages=900))
    frames = live.lab.first.frames
    live.show(frames.column("queue.orders.held").index(300))
    live.wait(4)
    asked = []
    for share in (0.05, 0.95):
        place = """share => {
            const [{ gate, pile }] = document.querySelector('.qflow-scene').scene.view.drawn.places.tanks;
            const at = new DOMPoint(gate.x + share * (gate.right - gate.x), gate.y)
                .matrixTransform(document.querySelector('.qf-stage').getScreenCTM());
            return pile(0) === null && [at.x, at.y]; }"""
        live.page.mouse.click(*live.page.evaluate(place, share))
        live.page.locator(".qf-why li").first.wait_for()
        asked.append(live.page.locator(".qf-why").get_attribute("data-subject"))
        live.page.keyboard.press("Escape")
    first, last = (int(subject.removeprefix("transfer:p1-")) for subject in asked)
    assert first > 300 and 250 < last - first < 300


def test_a_wheel_steps_the_handle_that_has_the_focus_and_else_scrolls_the_page(live):
    live.open(flow_lab(messages=300))
    page = live.page
    turn = (
        "one => one.dispatchEvent(new WheelEvent('wheel', { deltaY: -100, bubbles: true, cancelable: true }))"
    )
    handle = page.locator("[data-setting=resume]")
    assert handle.evaluate(turn), "the page scrolls"
    handle.focus()
    run = live.run
    assert not handle.evaluate(turn), "the page stays"
    live.await_run(run)
    assert live.lab.sliders["resume"].value == 510


def test_a_line_is_grabbed_inside_the_tank_where_messages_cover_it(live):
    live.open(flow_lab(messages=60, **SMALL))
    page = live.page
    live.scene("scene.player.pause(); scene.player.show(40);")
    line = page.locator(".qf-queue .qf-line-stop line").bounding_box()
    tank = page.locator(".qf-queue .qf-glass").bounding_box()
    run = live.run
    page.mouse.move(tank["x"] + tank["width"] / 2, line["y"] + line["height"] / 2)
    page.mouse.down()
    page.mouse.move(tank["x"] + tank["width"] / 2, tank["y"] + tank["height"] * 0.3, steps=8)
    page.mouse.up()
    live.await_run(run)
    assert live.lab.sliders["stop"].value > SMALL["stop"]


# The keyboard


def test_home_and_end_move_a_handle_to_its_ends(live):
    live.open(flow_lab(messages=60, **SMALL))
    handle = live.page.locator("[data-setting=capacity]")
    for key, end in (("Home", "aria-valuemin"), ("End", "aria-valuemax")):
        handle.focus()
        run, value = live.run, handle.get_attribute(end)
        live.page.keyboard.press(key)
        live.await_run(run)
        assert str(live.lab.sliders["capacity"].value) == value
        assert handle.get_attribute("aria-valuetext") == f"capacity {value} messages"


def test_messages_of_a_consumer_are_one_stop_for_tab_and_arrows_go_through_them(live):
    live.open(group_lab(messages="AAB", prefetch=(2, 1), paces=()))
    page = live.page
    live.scene("scene.player.pause(); scene.player.show(scene.player.track.count - 1);")
    assert page.locator(".qf-slot[role=button]").count() == 3
    assert page.locator(".qf-slot[tabindex='0']").count() == 0
    page.locator(".qf-consumer").first.focus()
    page.keyboard.press("ArrowDown")
    first = page.evaluate("() => document.activeElement.dataset.why")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("() => document.activeElement.dataset.why") != first
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.dataset.name") == "c1"
