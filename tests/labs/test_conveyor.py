"""The conveyor: looks agree with the engine, the race is counted, and moves change what follows."""

from __future__ import annotations

import pytest
from sentences import ask

from qflow.labs import group_lab, group_run
from qflow.labs.group import NOTHING, PASSED, TAKEN
from qflow.labs.hand_lab import MESSAGES, PACES
from qflow.labs.lab import _fork_picture

STORY = {"messages": MESSAGES, "prefetch": (1, 1, 2), "paces": PACES}


def test_what_is_passed_over_belongs_to_another_and_what_is_taken_does_not():
    """MG-12: the first waiting message whose group is free or the consumer's own."""
    frames = group_run(**STORY).frames
    stays, locks, looks = (frames.lasting[name] for name in ("stays", "locks", "looks"))
    kinds = set()
    for row in map(looks.row, range(len(looks))):
        kinds.add(row["kind"])
        if row["kind"] == NOTHING:
            continue
        group = stays.get(row["stay"], "group")
        # As it is when the instant is over: a group that was taken has its new owner by then.
        owners = {locks.get(lock, "group"): locks.get(lock, "consumer") for lock in locks.alive(row["start"])}
        assert (owners.get(group, 0) == row["consumer"]) == (row["kind"] == TAKEN), row
    assert kinds == {PASSED, TAKEN, NOTHING}
    assert len([row for row in looks.column("kind") if row == TAKEN]) == len(frames.lasting["holdings"])


@pytest.mark.parametrize(("grouped", "wrong"), [(True, set()), (False, {"A", "E"})], ids=["groups", "none"])
def test_the_race_of_add_and_remove_is_counted(grouped, wrong):
    """MG-18: the test counts again, from the events alone."""
    picture = group_run(**STORY, grouped=grouped)
    left = [event.message for event in picture.run.events if event.kind == "dequeued"]
    found = {
        cart
        for cart, _, number in (label.partition("-") for label in left)
        if int(number) % 2 == 0 and left.index(f"{cart}-{number}") < left.index(f"{cart}-{int(number) - 1}")
    }
    assert found == wrong
    assert [count for _, count in picture.drawing["carts"]] == list(range(1, len(wrong) + 1))
    assert f"An item was removed before it was added in {len(wrong)} of 5 carts." in picture.claims


def test_a_hand_changes_what_follows_and_nothing_before():
    lab = group_lab()
    before = lab.picture
    time = 6_000_000
    c1 = before.frames.lasting["holdings"]
    frame = before.frames.index_at(time)
    held = next(c1.row(row) for row in c1.alive(frame) if c1.get(row, "consumer") == 1)
    stay = before.frames.lasting["stays"].row(held["stay"])
    label = f"{before.frames.groups[stay['group'] - 1]}-{stay['number']}"
    ask(lab, ask="settle", verdict="release", message=["c1", label], time=time, plays=True)
    assert lab.scene.refusal == ""
    events = before.run.events
    kept = [event for event in events if event.time <= time]
    assert lab.picture.run.events[: len(kept)] == kept
    assert lab.picture.run.events != events
    assert [move[:3] for move in lab.table.moves] == [("release", label, "c1")]
    assert lab.scene.place["plays"]
    by_hand = group_lab(messages="AB", prefetch=(1,), mode="credit", paces=())
    by_hand.settle("c1", "accept")
    assert not by_hand.scene.place["plays"], "nothing follows: it would begin at the start"
    assert lab.picture.frames.at(-1)["queue.carts.depth"] == 0, "the consumers work on"
    # What was done later is not done when the course before it changes.
    ask(lab, ask="settle", verdict="release", message=["c1", "A-1"], time=3_000_000)
    assert len(lab.table.moves) == 1


def test_the_switches_deal_again_and_remember_what_was_tried():
    lab = group_lab()
    assert (lab.picture.drawing["grouped"], lab.picture.drawing["tried"]) == (True, -1)
    ask(lab, ask="do", what="groups")
    assert (lab.picture.drawing["grouped"], lab.picture.drawing["tried"]) == (False, 0)
    assert lab.claims[0] == "The queue has no groups: every consumer may have every message."
    ask(lab, ask="do", what="groups")
    assert lab.picture.drawing["tried"] == 2
    ask(lab, ask="do", what="work")
    assert lab.settings["paces"] == []
    assert not any(event.kind == "dequeued" for event in lab.picture.run.events)
    lab.sliders["prefetch-c1"].value = 2
    assert lab.table.holds("c1") == ["A-1", "B-1"]


@pytest.mark.parametrize("grouped", [True, False])
def test_another_course_of_events_is_drawn_as_a_conveyor_too(grouped):
    picture = group_run(**STORY, grouped=grouped)
    both = _fork_picture(picture, 45, "leave:c2")
    forked = list(both.pictures.values())[1]
    same = ("form", "grouped", "works", "tried", "of")
    assert [forked.drawing[name] for name in same] == [picture.drawing[name] for name in same]
    assert "looks" in forked.frames.lasting
    assert forked.drawing["captions"][:20] == picture.drawing["captions"][:20]


def test_a_group_needs_a_name():
    lab = group_lab(messages="A", prefetch=(1,), paces=())
    lab.group.value = "a cart!"
    ask(lab, ask="do", what="send")
    assert lab.scene.refusal == "a group's name must have one to eight letters or digits; got 'a cart!'"


def test_the_consumers_of_a_forked_conveyor_react():
    """MG-10: the leaver's messages go to the others, and all carts are packed."""
    lab = group_lab()
    ask(lab, ask="fork", action="leave:c2", frame=40, time=lab.first.frames.at(40)["time"], back=0)
    assert list(lab.picture.pictures) == ["as it was", "c2 goes away"]
    last = [picture.frames.at(-1) for picture in lab.picture.pictures.values()]
    was, now = ([frame[f"consumer.c{number}.accepted"] for number in (1, 2, 3)] for frame in last)
    assert sum(was) == sum(now) == 18 and now[1] < was[1]
