"""The labs of one idea each: their stories in a browser, checked at every turn, and their handles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser import play_until
from live_scene import LiveScene, live_page
from sentences import step_sentence
from test_motion import OVERLAPS

from qflow.labs import bytes_lab, capacity_lab, completion_lab, group_lab

pytestmark = [pytest.mark.browser]

LABS: dict[str, Callable[[], Any]] = {
    "conveyor": group_lab,
    "conveyor without groups": lambda: group_lab(grouped=False),
    "completion strip": completion_lab,
    "law of capacity": lambda: capacity_lab(messages=300),
    "bytes and counts": lambda: bytes_lab(messages=120),
}


def captions(lab: Any) -> dict[int, str]:
    return dict(lab.first.drawing.get("captions", ()))


CLICK, DRAG = "click", "drag"
TASKS: dict[str, tuple[Callable[[], Any], list[tuple[Any, ...]], Callable[[Any], bool]]] = {
    "make the producer die": (
        capacity_lab,
        [(DRAG, "[data-setting=capacity_1]", 0, 60)],
        lambda lab: set(lab.first.run.errors) == {"C1"},
    ),
    "make c2 wait for a group": (
        lambda: group_lab(messages="AAAB", prefetch=(1, 1), paces=()),
        [(CLICK, "[data-name=c2] .qf-slot[data-why]"), (CLICK, "[data-verdict=accept]")],
        lambda lab: captions(lab)[max(captions(lab))].endswith("c2 finds nothing to take."),
    ),
    "have an item removed before it is added": (
        group_lab,
        [(CLICK, "[role=switch]")],
        lambda lab: len(lab.first.drawing["carts"]) > 0,
    ),
    "let the client hear that its sync is answered": (
        completion_lab,
        [(CLICK, '[aria-label^="p1-4 "]')],
        lambda lab: lab.first.drawing["reports"][-1][1] == "0-7",
    ),
    "make the bytes turn it ON, not the messages": (
        bytes_lab,
        [(DRAG, "[data-setting=size]", 140, 0)],
        lambda lab: lab.claims[0].startswith("It turned ON by messages never, by bytes "),
    ),
}
"""What a reader may want to see: the lab, at most three actions of the mouse, and when it is done."""


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveScene]:
    with live_page(tmp_path_factory.mktemp("stories")) as page:
        yield page


@pytest.mark.parametrize("name", LABS)
def test_the_words_at_every_turn_are_those_of_the_trace(live, name):
    live.open(LABS[name]())
    picture = live.lab.first
    said = captions(live.lab)
    turns = picture.payload()["turns"]
    # Without sentences of its own a run has one turn again and again.
    for turn in turns if said else turns[:4]:
        live.show(turn)
        assert live.text(".qf-step") == (said[turn] if said else step_sentence(picture.frames, turn))
        assert live.page.evaluate(OVERLAPS) == []
    assert live.page.locator(".qflow-scene").bounding_box()["height"] <= 720
    for moment, share in enumerate((0.45, 0.6, 0.9)):
        live.show(int(share * picture.frames.count))
        live.page.wait_for_timeout(60)
        live.shot(f"{name}-{moment}")


def test_a_conveyor_shows_every_look_and_counts_the_race(live):
    live.open(group_lab(grouped=False))
    drawing = live.lab.first.drawing
    for frame, count in drawing["carts"]:
        live.show(frame - 1)
        number = live.page.locator(".qf-race.qf-is-now .qf-race-number")
        assert number.text_content() == str(count - 1)
        live.show(frame)
        assert number.text_content() == str(count)
    assert live.page.locator(".qf-plots").is_hidden(), "no depth, no flow control"
    assert live.page.locator(".qf-gate, .qf-badge").count() == 0
    assert "where a consumer looks" in live.text(".qf-key")


def test_a_message_at_a_consumer_is_answered_where_it_is(live):
    """CN-14: by mouse and by keyboard; the lab's sentences name the settlement."""
    live.open(group_lab(messages="AABACBBCAD", paces=()))
    slot = live.page.locator(".qf-consumer[data-name=c2] .qf-slot[data-why]").first
    label = slot.get_attribute("data-why").removeprefix("message:")
    run = live.run
    slot.click()
    live.page.locator(".qf-menu [data-verdict=release]").click()
    live.await_run(run)
    live.await_words(f"c2 releases {label}.")
    slot.focus()
    for key in ("Enter", "ArrowDown", "ArrowUp", "Enter"):
        live.page.keyboard.press(key)
    live.await_run(run + 1)
    verdict, _, consumer, _ = live.lab.table.moves[-1]
    assert (verdict, consumer) == ("accept", "c2")
    live.page.locator(".qf-consumer[data-name=c1] [data-handle]").press("ArrowRight")
    live.await_run(run + 2)
    assert len(live.lab.table.holds("c1")) == 2
    lock = live.page.locator(".qf-lock[visibility=visible]").first
    play_until(live.page, "() => document.querySelector('.qf-lock[visibility=visible]')")
    lock.click()
    live.page.locator(".qf-why li").first.wait_for()
    assert live.page.locator(".qf-why").get_attribute("data-subject").startswith("group:")


def test_a_click_takes_a_message_off_and_its_number_is_complete(live):
    """The held completion is released, and the sync is answered."""
    live.open(completion_lab(moves=[("busy",), ("busy",), ("busy",), ("idle",), ("sync",)]))
    states = "cells => cells.map(one => one.dataset.state)"
    cells = live.page.locator(".qf-command")
    assert cells.evaluate_all(states) == ["complete", "complete", "held", "complete", "waits"]
    run = live.run
    live.page.locator('.qf-take[aria-label^="p1-2 "]').click()
    live.await_run(run)
    live.await_words("the sync is answered. session.completed names 0-4.")
    all_complete = "() => document.querySelectorAll('.qf-command[data-state=complete]').length === 5"
    play_until(live.page, all_complete)
    assert live.page.locator(".qf-ranges-reported").get_attribute("data-ranges") == "0-4"


def test_a_purge_in_a_strip_is_shown_as_a_strip_beside_it(live):
    """The purge releases held completions and answers the sync; later moves are repeated."""
    live.open(completion_lab())
    turn = captions(live.lab)
    frame = next(frame for frame, said in sorted(turn.items()) if "execution.sync" in said)
    live.show(frame)
    live.page.locator(".qf-more").click()
    run = live.run
    live.page.locator(".qf-fork").select_option("purge:busy")
    live.await_run(run)
    names = ["as it was", "busy is purged\n(clients act as recorded)"]
    assert live.page.locator(".qf-view-name").all_inner_texts() == names
    live.show(10**6)
    states = "cells => cells.map(one => one.dataset.state)"
    was, purged = (live.page.locator(".qf-view").nth(one).locator(".qf-command") for one in (0, 1))
    assert was.evaluate_all(states).count("held") == 1
    assert purged.evaluate_all(states) == ["complete"] * 8
    assert live.page.evaluate(OVERLAPS) == []
    assert live.page.locator(".qflow-scene").bounding_box()["height"] <= 720
    live.shot("strip forked")


def test_marks_have_the_colours_of_a_page_whose_theme_changes(live):
    live.open(group_lab())
    live.show(40)
    read = """canvas => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let sum = 0;
        for (const one of data) sum = (31 * sum + one) % 1000003;
        return sum;
    }"""
    canvas = live.page.locator(".qf-picture canvas")
    light = canvas.evaluate(read)
    live.page.evaluate("() => { document.body.dataset.jpThemeLight = 'false'; }")
    live.page.wait_for_timeout(50)
    dark = canvas.evaluate(read)
    live.open(live.lab, dark=True)
    live.show(40)
    assert light != dark == canvas.evaluate(read)


def test_the_bound_is_reached_before_the_consumer_comes(live):
    """CAP-08: 100 + 50 + 15 = 165, in the picture and the text; the sum follows the windows."""
    live.open(capacity_lab())
    assert live.text(".qf-law > text") == "100 + 50 + 15 = 165"
    live.show(live.lab.first.frames.column("queue.orders.depth").index(165))
    for name, setting, held in (("C1", "capacity_1", "50"), ("C2", "capacity_2", "15")):
        card = live.page.locator(f".qf-producer[data-name={name}]")
        assert card.get_attribute("data-held") == held
        assert card.locator("[data-handle]").get_attribute("data-setting") == setting
    assert "not here" in live.text(".qf-consumer[data-name=reader]")
    live.page.locator("[data-setting=capacity_2]").press("ArrowRight")
    follows = "() => document.querySelector('.qf-law > text')?.textContent.endsWith('= 166')"
    live.page.wait_for_function(follows)


def test_each_unit_says_what_it_says_of_on_and_off(live):
    """One unit above its stop turns ON; both must be below their resume thresholds for OFF."""
    live.open(bytes_lab())
    frames, verdicts = live.lab.first.frames, live.lab.first.drawing["verdicts"]
    for change in frames.transitions[:4]:
        for frame in (change.frame - 1, change.frame):
            live.show(frame)
            for unit, said in verdicts.items():
                text = [words for at, words in said if at <= frame][-1]
                assert live.text(f".qf-verdict[data-unit={unit}]") == text


def drag(page: Any, what: str, across: float, down: float) -> None:
    box = page.locator(what).first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + across, y + down, steps=8)
    page.mouse.up()


@pytest.mark.parametrize("task", TASKS)
def test_what_a_reader_may_want_takes_three_actions_of_the_mouse_at_most(live, task):
    make, actions, is_done = TASKS[task]
    assert len(actions) <= 3
    live.open(make())
    assert not is_done(live.lab), "it is to be done yet"
    run = live.run
    for action, what, *where in actions:
        if action == CLICK:
            live.page.locator(what).first.click()
        else:
            drag(live.page, what, *where)
    live.await_run(run)
    for _ in range(100):
        if is_done(live.lab) and live.run == live.lab.scene.run:
            break
        # The run of what was let go of follows that of where it rested on the way.
        live.page.wait_for_timeout(50)
    assert is_done(live.lab) and live.lab.scene.refusal == ""
    live.shot(f"task {task}")
