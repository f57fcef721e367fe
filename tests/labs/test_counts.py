"""The texts, counts and marks of every lab agree, at each step of its default run and while it plays.

The counts come from the events of the trace (:mod:`ledger_of_events`), not from the frames that the picture
is made of. Where a picture rests, it shows what the trace says; while it plays, a count differs from that by
the marks that are under way, and by nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from ledger_of_events import Counts, EventLedger, counts_by_frame
from test_motion import saved
from test_scripts import evaluate, node

from qflow.broker.broker import Broker
from qflow.labs import (
    bytes_run,
    capacity_run,
    completion_run,
    config_run,
    fanout_run,
    flow_run,
    group_run,
    history_run,
    policy_run,
    recorded_picture,
    state_space_run,
)
from qflow.labs.picture import Comparison, Picture, pictures_of
from qflow.labs.topology import Topology
from qflow.teaching.trial import Reader, send

__all__ = ["node", "saved"]

TOUR = {"stop": 40, "resume": 10, "limit": 60, "capacity": 10, "prefetch": 4, "rate": 100, "service": 0.04}
LABS: dict[str, Callable[[], Picture | Comparison]] = {
    "tour": lambda: flow_run(**TOUR, messages=220),
    "thresholds": flow_run,
    "bytes and counts": bytes_run,
    "capacity": capacity_run,
    "a small window": lambda: capacity_run(messages=40, rate=5, stop=2, resume=1, capacity_1=3, capacity_2=2),
    "a death": lambda: capacity_run(messages=300, capacity_1=100),
    "fanout": fanout_run,
    "groups": group_run,
    "policies": policy_run,
    "designs": history_run,
    "recorded": lambda: recorded_picture("capacity-165"),
}


@cache
def pictures(name: str) -> list[Picture]:
    return list(pictures_of(LABS[name]()).values())


@pytest.mark.parametrize("name", LABS)
def test_a_picture_at_rest_counts_what_the_trace_says(name):
    said = 0
    for picture in pictures(name):
        # Of a recording of 16,000 steps every fifth.
        step = 1 + 4 * (picture.frames.count > 10_000)
        rested, truth = evaluate(picture, f"rested(timelines[0], {step})"), counts_by_frame(picture)[::step]
        assert len(rested) == len(truth)
        for seen, true in zip(rested, truth, strict=True):
            marks, frame, words = (seen.pop(name) for name in ("marks", "frame", "words"))
            if picture.drawing.get("form") == "conveyor":
                # It has no cards of producers, nor a gate.
                assert seen["consumer"] == true["consumer"], frame
                continue
            assert seen == true, frame
            assert marks.get("held", 0) == sum(held for _, held in true["queue"]), frame
            said += check_words(picture.frames.topology, words, true)
    is_on = any(picture.frames.transitions for picture in pictures(name))
    assert said > 20 or not is_on, "few of its numbers were said"


def check_words(topology: Topology, words: list[str], true: Counts) -> int:
    """Check the numbers in the texts of a step; return how many numbers were checked."""
    step, outlook = words
    depths = {spot.name: depth for spot, (depth, _) in zip(topology.queues, true["queue"], strict=True)}
    found = re.findall(r"(\d+) on ([\w.-]+)(?:, more than (\d+))?: flow control turns ON", step)
    left = re.findall(r"(\d+) left on ([\w.-]+): flow control turns OFF", step)
    for number, queue, *stop in [*found, *left]:
        assert int(number) == depths[queue] and all(int(number) > int(one or 0) for one in stop), step
    room = {
        spot.name: spot.capacity - one[1]
        for spot, one in zip(topology.producers, true["producer"], strict=True)
    }
    may_send = re.findall(r"(\S+) may send (\d+) more", outlook)
    waits = re.findall(r"(\S+) waits until", outlook)
    assert all(room[name] == int(number) > 0 for name, number in may_send), outlook
    assert all(room[name] == 0 for name in waits), outlook
    return len(found) + len(left) + len(may_send) + len(waits)


READ = """() => [...document.querySelectorAll(".qf-view")].map((view) => {
    const members = (kind, read) => [...view.querySelectorAll(`.qf-${kind}`)].map((part) => {
        const said = part.querySelector(":scope > .qf-count, .qf-cell-count, .qf-depth");
        const words = said?.textContent.match(/\\d+/g) ?? [];
        return [words.map(Number), ...read((what) => part.querySelectorAll(what).length, part)];
    });
    const gate = (part) => Number(part.querySelector(".qf-gate-number, .qf-gate-word")?.textContent || 0);
    const entries = ".qf-entry-full, .qf-entry-held, .qf-entry-taken";
    const sent = ".qf-cell-full, .qf-cell-held";
    return {
        producer: members("producer", (count) => [count(sent), count(".qf-cell-held"), count(".qf-cell")]),
        queue: members("queue", (count, part) =>
            [count(entries), count(".qf-entry-held"), gate(part), count(".qf-depth")]),
        consumer: members("consumer", (count) => [count(".qf-slot-full"), count(".qf-slot")]),
    };
})"""


@pytest.mark.browser
@pytest.mark.parametrize("name", [name for name in LABS if name != "groups"])
def test_what_is_written_is_drawn_and_is_what_the_trace_says(saved, name):
    """At a few steps in the browser, the numbers on cards and tanks equal the filled cells."""
    shown = LABS[name]()
    saved.open(shown)
    truths = [counts_by_frame(picture) for picture in pictures(name)]
    for share in (0.08, 0.2, 0.45, 0.7, 0.95):
        first = pictures(name)[0]
        time = int(share * first.run.end)
        saved.scene("scene.player.show(scene.player.track.at(value));", time)
        for picture, truth, seen in zip(pictures(name), truths, saved.page.evaluate(READ), strict=True):
            true = truth[picture.frames.index_at(time)]
            for (words, taken, held, cells), (_, outstanding, is_held) in zip(
                seen["producer"], true["producer"], strict=True
            ):
                assert words[0] == outstanding
                assert not cells or (taken, held) == (outstanding, is_held)
            for (words, entries, held, gate, is_fluid), (depth, is_held) in zip(
                seen["queue"], true["queue"], strict=True
            ):
                assert (words or [0])[0] == depth
                assert is_fluid or (entries, held) == (depth, is_held)
                assert gate in (0, is_held)
            for (words, taken, slots), (holds, _) in zip(seen["consumer"], true["consumer"], strict=True):
                assert (words or [0])[0] == holds
                assert not slots or taken == holds


@pytest.mark.parametrize(("name", "speed"), [("tour", 0.1), ("a small window", 1.0), ("capacity", 0.1)])
def test_while_it_plays_a_count_differs_from_the_trace_by_the_marks_under_way(name, speed):
    (picture,) = pictures(name)
    truth = counts_by_frame(picture)
    windows = [spot.capacity for spot in picture.frames.topology.producers]
    compared = 0
    for seen in evaluate(picture, f"playing(timelines[0], {speed})"):
        true, marks = truth[seen["frame"]], seen["marks"]

        def total(kind: str, at: int, of: dict[str, Any]) -> int:
            return sum(one[at] for one in of[kind])

        if seen["isStream"]:
            # Too many for an eye are drawn as a stream, not one by one.
            continue
        flying = marks.get("sent", 0) + marks.get("completion", 0)
        assert total("producer", 1, seen) - total("producer", 1, true) >= marks.get("sent", 0)
        assert total("producer", 0, seen) == total("producer", 0, true) + marks.get("sent", 0)
        # Those that are let go one after the other are neither held any more nor home yet.
        assert total("producer", 1, seen) == total("producer", 1, true) + flying + waiting(seen, true, marks)
        assert total("producer", 2, seen) == total("queue", 1, seen) <= marks.get("held", 0)
        assert seen["queue"][0][0] == true["queue"][0][0]
        for (_, outstanding, held), most in zip(seen["producer"], windows, strict=True):
            assert held <= outstanding <= most
        compared += flying > 0
    assert compared > 20, "nothing moved"


def waiting(seen: dict[str, Any], true: dict[str, Any], marks: dict[str, int]) -> int:
    """Return the number of completions that are still behind an open gate."""
    return max(0, sum(one[2] for one in seen["producer"]) - sum(one[2] for one in true["producer"]))


STRIP = """() => ({
    states: [...document.querySelectorAll(".qf-command")].map((one) => one.dataset.state),
    held: [...document.querySelectorAll(".qf-command")].map((one) => one.textContent.includes("held")),
    ranges: [...document.querySelectorAll(".qf-ranges")].map((one) => one.lastElementChild.textContent),
    bars: [...document.querySelectorAll(".qf-ranges")].map((one) =>
        one.querySelectorAll("rect:not([visibility=hidden])").length),
    isOn: document.querySelector(".qf-queue[data-name=busy] .qf-badge-word").textContent,
    said: document.querySelector(".qf-says").textContent,
})"""


@pytest.mark.browser
def test_the_strip_shows_what_became_of_each_command_at_each_step(saved):
    picture = completion_run()
    saved.open(picture)
    states: dict[int, str] = {}
    ranges, flow, place = ["none", "none"], "OFF", 0
    for frame, last in enumerate(picture.frames.rows):
        news = []
        for event in picture.run.events[place : last + 1]:
            number = (event.detail or {}).get("command")
            match event.kind:
                case "message.transfer":
                    states[number] = "out"
                case "execution.sync":
                    states[len(states)] = "waits"
                case "held":
                    states[number] = "held"
                    news.append(f"Completion {number} is held.")
                case "completed" if event.session == "p1":
                    states[number] = "complete"
                case "reported" if event.session == "p1":
                    ranges[1] = event.detail["completed"]
                    news.append(f"session.completed names {ranges[1]}.")
                case "flow_stopped" | "flow_resumed":
                    flow = "ON" if event.kind == "flow_stopped" else "OFF"
                    news.append(f"busy turns {flow}.")
        place = last + 1
        saved.scene("scene.player.show(scene.player.track.place(0, value));", frame)
        seen = saved.page.evaluate(STRIP)
        shown = [states.get(number, "later") for number in range(len(seen["states"]))]
        complete = [number for number, state in states.items() if state == "complete"]
        assert seen["states"] == shown, frame
        assert seen["held"] == [state == "held" for state in shown], frame
        assert (seen["isOn"], seen["ranges"][1]) == (flow, ranges[1]), frame
        assert seen["bars"] == [len(complete), len(numbers_in(ranges[1]))], frame
        assert numbers_in(seen["ranges"][0]) == complete, frame
        assert all(one in seen["said"] for one in news), (news, seen["said"])
    assert set(states.values()) == {"held", "complete", "waits"}, "every fate was seen"


def numbers_in(ranges: str) -> list[int]:
    """Return the numbers in a set that is written as in a report, such as "0-2 4"."""
    ends = [tuple(map(int, one.split("-"))) for one in ranges.replace("none", "").split()]
    return [number for first, *last in ends for number in range(first, (last or [first])[0] + 1)]


@pytest.mark.parametrize("settings", [{}, {"stop": 2, "limit": 4, "capacity_1": 3, "capacity_2": 0}])
def test_each_state_says_what_its_way_comes_to(settings):
    """A state's label, sentences and picture are compared with the events of the path to it."""
    graph = state_space_run(**settings).states
    deepest = 0
    for state in graph.graph:
        space = state_space_run(**settings, state=state)
        ledger = EventLedger()
        for event in space.picture.run.events:
            ledger.receive(event)
        true = ledger.counts(space.picture)
        (depth, _), *_ = true["queue"]
        deepest = max(deepest, depth)
        label = graph.label(state)
        assert label.split(" · ")[0] == f"depth {depth}{' ON' if ledger.on else ''}"
        words = " ".join(space.claims)
        for spot, (sent, outstanding, held) in zip(
            space.picture.frames.topology.producers, true["producer"], strict=True
        ):
            assert f"{spot.name} has sent {sent} message{'s' * (sent != 1)}, {held} of them held" in words
            assert f"{spot.name} died" in label or f"{spot.name} {outstanding}/{spot.capacity}" in label
    assert f"No state is deeper than {deepest} messages" in " ".join(state_space_run(**settings).claims)


@pytest.mark.parametrize(
    "text",
    [
        "orders --max-queue-count 90 --flow-stop-count 70 --flow-resume-count 30",
        "orders --max-queue-count 50",
        "orders; {create: always, node: {x-declare: {arguments: {'qpid.flow_stop_count': 20}}}}",
        '{"qpid.max_count": 40, "qpid.flow_resume_count": 5}',
    ],
)
def test_a_configuration_does_what_its_sentence_and_its_gauge_say(text):
    """The queue turns ON and OFF at the depths that the lab writes and draws."""
    picture = config_run(text)
    broker = Broker()
    client = broker.session("client")
    client.queue_declare("orders", picture.explanation.declaration.arguments)
    queue = broker.queue("orders")
    while not queue.statistics().flowStopped:
        send(client, "orders", 1)
    stop = queue.statistics().msgDepth - 1
    reader = Reader(broker, "reader", "orders")
    while queue.statistics().flowStopped:
        reader.take(1)
    resume = queue.statistics().msgDepth + 1
    said = rf"Producers are held above {stop} messages .*resume below {resume} messages"
    assert re.match(said, picture.claims[0])
    values = picture.values()
    assert (values["stop_count"].value, values["resume_count"].value) == (stop, resume)
    assert f">stop {stop}<" in picture.svg and f">resume {resume}<" in picture.svg
