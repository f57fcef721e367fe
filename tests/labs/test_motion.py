"""Marks in motion: as many as the trace has events, with texts of the same instant.

The pages are exported ones: a saved run is drawn by the same scripts as a widget, and opens at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import chromium_page
from live_scene import ScenePage
from sentences import state_sentence, step_sentence
from test_scripts import SLOW, by_hand

from qflow.labs import (
    Comparison,
    Picture,
    capacity_run,
    compare,
    fanout_run,
    flow_lab,
    flow_run,
    group_lab,
    history_run,
    picture_of,
    policy_run,
    recorded_picture,
    save_html,
    state_space_lab,
)
from qflow.labs.group import PAUSE
from qflow.labs.html_export import to_fragment
from qflow.labs.lab import _fork_picture
from qflow.labs.state_space import Walk
from qflow.teaching.predictions import Predictions
from qflow.workload import Consumer, Producer, Workload, simulate

pytestmark = [pytest.mark.browser]


class Page(ScenePage):
    """An exported run in a headless Chromium."""

    def open(self, picture: Any) -> None:
        self.show(save_html(picture, self.folder / "run.html"))

    def open_text(self, page: str, name: str) -> None:
        path = self.folder / f"{name}.html"
        path.write_text(page, encoding="utf-8")
        self.show(path)

    def show(self, path: Path) -> None:
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(".qf-stage[data-run]")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("motion")
    with chromium_page() as lab:
        lab.page.clock.install()
        yield Page(lab.page, folder)
        assert lab.page_errors == []
        assert lab.foreign_requests == []


def test_words_and_numbers_are_of_the_instant_that_is_drawn(saved):
    """Texts, cards and tank equal the filled cells while it plays, and at rest those of the frame."""
    picture = flow_run(messages=150, rate=400, service=0.02, **SLOW)
    saved.open(picture)
    saved.scene("scene.player.setSpeed(0.05); scene.player.show(0); scene.player.play();")
    read = """() => {
        const cells = (what) =>
            document.querySelectorAll(`.qf-stage :is(${what})`).length;
        const text = (what) => document.querySelector(what).textContent;
        const numbers = (what) => text(what).match(/\\d+/g).map(Number);
        const { dataset } = document.querySelector('.qf-stage');
        return {
            frame: Number(dataset.frame), depth: Number(dataset.depth),
            said: text('.qf-state').match(/\\d+(?= )/g).map(Number),
            producer: numbers('.qf-producer .qf-count'),
            gate: Number(text('.qf-gate-number')),
            consumer: numbers('.qf-consumer .qf-count'),
            held: [cells('.qf-cell-held'), cells('.qf-entry-held')],
            outstanding: cells('.qf-cell-full, .qf-cell-held'),
            queued: cells('.qf-entry-full, .qf-entry-held, .qf-entry-taken'),
            taken: cells('.qf-slot-full'),
        };
    }"""
    seen = []
    for _ in range(16):
        saved.page.clock.run_for(730)
        seen.append(saved.page.evaluate(read))
    saved.scene("scene.player.pause();")
    assert len({one["frame"] for one in seen}) > 8, "it did not play"
    truth = [picture.frames.at(one["frame"])["producer.p1.outstanding"] for one in seen]
    assert any(one["outstanding"] > true for one, true in zip(seen, truth, strict=True)), "nothing flew"
    for one in seen:
        frame = picture.frames.at(one["frame"])
        assert one["queued"] == one["depth"] == frame["queue.orders.depth"]
        assert one["producer"] == [one["outstanding"], SLOW["capacity"], one["held"][0]]
        assert one["held"] == [one["gate"]] * 2
        assert one["consumer"] == [one["taken"], SLOW["prefetch"]]
        assert one["said"] == [
            one["gate"],
            one["outstanding"],
            SLOW["capacity"],
            one["taken"],
            SLOW["prefetch"],
        ]
    saved.scene("scene.player.show(value);", seen[-1]["frame"])
    assert saved.text(".qf-state") == state_sentence(picture.frames, seen[-1]["frame"])


def test_while_it_plays_a_screen_reader_hears_turns_at_most_one_a_second(saved):
    """All live regions are watched; a clock in one of them would speak at each frame."""
    saved.open(capacity_run(messages=400, capacity_1=90))
    saved.scene("scene.player.setSpeed(4); scene.player.show(0);")
    saved.page.clock.run_for(100)
    saved.page.evaluate("""() => {
        window.heard = [];
        const live = '[aria-live]:not([aria-live=off]), [role=status], [role=alert], [role=log], output';
        new MutationObserver((changes) => {
            for (const { target } of changes) {
                const region = (target.parentElement ?? target).closest(live) ?? target.closest?.(live);
                if (region) window.heard.push([performance.now(), region.textContent]);
            }
        }).observe(document.body, { subtree: true, childList: true, characterData: true });
    }""")
    saved.scene("scene.player.play();")
    for _ in range(30):
        saved.page.clock.run_for(400)
    saved.scene("scene.player.pause();")
    heard = saved.page.evaluate("window.heard.filter(([, words]) => words)")
    turns = [words for _, words in heard if "flow control turns O" in words or "session dies" in words]
    assert len(turns) >= 3, heard
    assert len(turns) == len(heard), "something else is announced"
    times = [at for at, _ in heard]
    assert all(later - earlier >= 999 for earlier, later in zip(times, times[1:], strict=False))


def test_at_off_all_held_completions_go_through_in_order(saved):
    """The picture waits at this instant until those that were held are on their way."""
    picture = flow_run(messages=60, rate=400, service=0.02, **SLOW)
    off = next(change for change in picture.frames.transitions if not change.is_on)
    saved.open(picture)
    saved.scene(f"scene.player.setSpeed(1); scene.player.show({off.frame - 1});")
    held = picture.frames.at(off.frame - 1)["queue.orders.held"]
    assert saved.scene("return scene.marks;") >= held > 0
    saved.scene(f"scene.player.show({off.frame}); scene.player.look(scene.player.clock + 3e5);")
    assert saved.text(".qf-step") == step_sentence(picture.frames, off.frame)
    assert saved.scene("return scene.player.place;") == off.frame
    saved.shot("off")


def test_a_death_says_the_brokers_words(saved):
    """A grey card, a cross, a mark on the time line, and the broker's text where it happened."""
    picture = capacity_run(messages=300, capacity_1=100)
    frame, producer, words = picture.frames.deaths[0]
    saved.open(picture)
    saved.scene(f"scene.player.show({frame - 1});")
    assert not saved.page.locator(".qf-callout.qf-is-shown").count()
    saved.scene(f"scene.player.show({frame});")
    name = picture.frames.topology.producers[producer].name
    assert saved.text(".qf-callout.qf-is-shown") == f"{name} is dead {words}"
    assert words.startswith("resource-limit-exceeded: ")
    assert saved.page.locator(f".qf-producer.qf-is-dead[data-name={name}]").count() == 1
    assert saved.page.locator(".qf-plot .qf-death").count() == len(picture.frames.deaths)


# Texts that lie on one another or on a line, or leave their card.
OVERLAPS = """() => {
    const box = element => element.getBoundingClientRect();
    const isSeen = element => {
        const style = getComputedStyle(element);
        return style.visibility !== "hidden" && box(element).width && element.textContent.trim();
    };
    const found = [];
    for (const stage of document.querySelectorAll(".qf-stage, .qf-plot, .qf-graph")) {
        const said = stage.parentElement.querySelectorAll(".qf-callout.qf-is-shown");
        const texts = [...stage.querySelectorAll("text:not(.qf-letter)"), ...said].filter(isSeen);
        const links = [...stage.querySelectorAll(".qf-link, .qf-back")].map((link) => {
            const matrix = link.getScreenCTM();
            const steps = Math.floor(link.getTotalLength() / 3);
            const point = (_, step) => link.getPointAtLength(3 * step).matrixTransform(matrix);
            return Array.from({ length: steps + 1 }, point);
        });
        texts.forEach((one, index) => {
            const a = box(one);
            for (const other of texts.slice(index + 1)) {
                const b = box(other);
                const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                const tall = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                if (wide > 1 && tall > 3) found.push(`${one.textContent} / ${other.textContent}`);
            }
            const all = box(stage);
            const isOut = a.left < all.left - 1 || a.right > all.right + 1;
            if (isOut) found.push(`${one.textContent} / the end of the drawing`);
            const isIn = ({ x, y }) => x > a.left + 1 && x < a.right - 1 && y > a.top + 4 && y < a.bottom - 4;
            const card = one.closest(".qf-producer, .qf-consumer")?.querySelector(".qf-card");
            if (card && a.right > box(card).right) found.push(`${one.textContent} / the edge of its card`);
            if (links.some((points) => points.some(isIn))) found.push(`${one.textContent} / a link`);
        });
    }
    return [...new Set(found)];
}"""


def with_long_names() -> Picture:
    """Return a run whose names are as long as those in production."""
    groups = ("customer-4711-eu-west", "customer-0815-us-east", "a", "customer-17")
    sent = tuple((0.01 * number, 100, groups[number % 4]) for number in range(60))
    shared = {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1, "qpid.flow_stop_count": 20}
    queue = "orders-of-the-web-shop"
    producer = Producer("checkout-service-1", ("", queue), 1, 9, 100, arrival="recorded", recorded=sent)
    consumers = [
        Consumer(f"billing-worker-eu-west-{number}", queue, prefetch=3, service=("const", 0.1))
        for number in (1, 2)
    ]
    workload = Workload("long names", 5, {queue: shared}, (), (producer,), tuple(consumers))
    return picture_of(simulate(workload))


LABS: dict[str, Callable[[], Picture | Comparison]] = {
    "flow": flow_run,
    "capacity": capacity_run,
    "one dies": lambda: capacity_run(capacity_1=100),
    "fanout": fanout_run,
    "groups": by_hand,
    "policies": policy_run,
    "history": history_run,
    "compared": lambda: compare(capacity_run(), capacity_run(capacity_1=100)),
    "carts forked": lambda: _fork_picture(group_lab().first, 40, "leave:c2"),
    "long names": with_long_names,
    "long names compared": lambda: compare(with_long_names(), with_long_names()),
    "recorded": lambda: recorded_picture("slow-consumer"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LABS)
def test_no_text_lies_on_another_and_a_lab_fits_on_a_screen(saved, name):
    saved.page.set_viewport_size({"width": 1280, "height": 720})
    saved.open(LABS[name]())
    assert saved.page.locator(".qflow-scene").bounding_box()["height"] <= 720
    end = saved.scene("return scene.player.track.count - 1;")
    for moment, share in enumerate((0.2, 0.45, 0.8)):
        saved.scene(f"scene.player.show({int(share * end)});")
        assert saved.page.evaluate(OVERLAPS) == []
        saved.shot(f"{name}-{moment}")
    saved.page.set_viewport_size({"width": 1400, "height": 1000})


def test_a_notebook_keeps_the_graph_of_states_and_walks_it_as_the_run_plays(saved):
    lab = state_space_lab(stop=2, resume=1, capacity_1=2, capacity_2=1)
    saved.open_text(f"<!doctype html><body>{lab._repr_mimebundle_()['text/html']}</body>", "states")
    graph = saved.page.locator(".qf-states")
    assert graph.locator(".qf-state-node").count() == len(lab.space.states.graph)
    assert graph.get_attribute("data-chosen") == str(lab.space.states.deepest)
    saved.scene("scene.player.show(0);")
    assert graph.get_attribute("data-chosen") == "0"
    walk = Walk(lab.space.states)
    for action in lab.space.states.path_to(lab.space.node):
        walk = walk.after(action)
        saved.scene(f"scene.player.seek({PAUSE * len(walk.actions)});")
        assert graph.get_attribute("data-walk") == " ".join(map(str, walk.nodes))
    graph.locator(f".qf-state-node[data-node='{walk.nodes[2]}']").click()
    assert graph.get_attribute("data-chosen") == str(walk.nodes[2])
    assert saved.scene("return scene.player.time;") == 2 * PAUSE
    assert saved.page.evaluate(OVERLAPS) == []
    saved.shot("states")


def test_a_notebook_keeps_a_question_and_answers_it_without_a_kernel(saved):
    predictions = Predictions("01-thresholds")
    predictions.ask("on", "off")
    lab = flow_lab().ask(*predictions.asked.values())
    saved.open_text(f"<!doctype html><body>{lab._repr_mimebundle_()['text/html']}</body>", "asked")
    saved.scene("scene.player.setSpeed(10);")
    for guess, said in [
        ("900", "It turned ON at 901. You said 900: 900 is not more than 900. Worth another look: ON means"),
        ("499", "It turned OFF at 499. You had it."),
    ]:
        saved.page.wait_for_function("() => document.querySelector('.qf-ask-skip')?.disabled === false")
        assert not saved.page.locator(".qf-plots").is_visible()
        saved.page.fill(".qf-ask input", guess)
        saved.page.click(".qf-ask-go")
        saved.page.wait_for_function("() => !document.querySelector('.qf-ask-told').hidden")
        assert saved.page.inner_text(".qf-ask-told").startswith(said)
        saved.page.click(".qf-ask-next")
    saved.page.wait_for_selector(".qf-ask", state="hidden")


def test_the_stage_has_the_whole_window_and_the_arrow_keys_go_from_turn_to_turn(saved):
    picture = flow_run(messages=60, rate=400, service=0.02, **SLOW)
    saved.open(picture)
    scene = saved.page.locator(".qflow-scene")
    scene.press("Home")
    scene.press("s")
    assert scene.get_attribute("class").endswith("qf-is-stage")
    for change in picture.frames.transitions[:3]:
        scene.press("ArrowRight")
        assert saved.text(".qf-step") == step_sentence(picture.frames, change.frame)
    saved.shot("stage")
    scene.press("s")
    assert "qf-is-stage" not in scene.get_attribute("class")


def test_one_thing_at_first(saved):
    saved.open(flow_run(messages=60, **SLOW))
    shown = "buttons => buttons.filter(one => one.checkVisibility()).map(one => one.textContent)"
    buttons = saved.page.locator(".qflow-scene button")
    assert buttons.evaluate_all(shown) == ["play", "next change ▸", "full screen", "more"]
    saved.page.locator(".qf-more").click()
    assert {"◂ step", "step ▸", "◂ change"} <= set(buttons.evaluate_all(shown))
    keys = saved.text(".qf-keys")
    assert "W: " not in keys and "C: " not in keys, "a saved page has no kernel that could answer"


def test_a_page_can_play_by_itself_when_it_is_opened(saved):
    kept = to_fragment(flow_run(messages=60, **SLOW), plays=True)
    saved.open_text(f"<!doctype html><body>{kept}</body>", "plays")
    moved = "() => document.querySelector('.qf-stage')?.dataset.frame > 3"
    saved.page.wait_for_function(moved)
    assert saved.scene("return scene.player.isPlaying;")
    saved.scene("scene.player.pause();")
