"""The completion lab: its strip shows the state of the engine's session."""

from __future__ import annotations

import pytest
from sentences import ask

from qflow.labs import completion_lab, completion_run, group_lab, group_run, open_token
from qflow.labs.completion import MOST, STORY, SessionTable
from qflow.labs.frames import NEVER


def complete(picture) -> str:
    return str(picture.drawing["complete"][-1][1])


@pytest.mark.parametrize(
    ("moves", "done", "report"),
    [
        ([("busy",), ("busy",)], "0-1", ""),  # CM-05: nobody asked
        ([("busy",), ("busy",), ("busy",), ("idle",), ("flush",)], "0-1 3", "0-1 3"),  # CM-04: a hole
        ([("busy",), ("busy",), ("busy",), ("sync",), ("idle",)], "0-1 4", ""),  # CM-06: the sync waits
        # FC-17: the message itself leaves; its own transfer is complete, and with it the sync.
        ([("busy",), ("busy",), ("busy",), ("sync",), ("take", "p1-2")], "0-3", "0-3"),
        # The first was not held: nothing becomes complete, and 2 on the queue are not below 1.
        ([("busy",), ("busy",), ("busy",), ("sync",), ("take", "p1-0")], "0-1", ""),
        # FC-16, FC-20: a purge takes all; the queue turns OFF.
        ([("busy",), ("busy",), ("busy",), ("busy",), ("purge", "busy"), ("flush",)], "0-3", "0-3"),
    ],
)
def test_what_is_complete_and_what_is_reported(moves, done, report):
    table = SessionTable(moves)
    drawing = table.picture().drawing
    assert str(table.session.completed) == done == complete(table.picture())
    assert (drawing["reports"][-1][1] if drawing["reports"] else "") == report
    shown = {row[0] for row in drawing["commands"] if row[4] != NEVER}
    assert shown == {number for number in range(MOST) if number in table.session.completed}
    held = {row[0] for row in drawing["commands"] if row[3] != NEVER and row[4] == NEVER}
    assert held == {transfer.number for transfer in table.session.held}


def test_what_is_complete_and_never_reported():
    """RF-48: if the asking transfer is released first, the others are not reported until a sync."""
    lost = [*[("busy",)] * 3, ("busy", "sync"), *(("take", f"p1-{n}") for n in (3, 0, 1, 2))]
    table = SessionTable(lost, stop=1)
    picture = table.picture()
    assert (complete(picture), picture.drawing["reports"][-1][1]) == ("0-3", "0 3")
    assert picture.claims == (
        "Complete are the commands 0-3 of 4 (CM-04).",
        "The last report to the client names 0 3 (CM-05).",
        "Complete and not reported: 1-2, and nobody has asked. The client counts 3 as outstanding (CM-14).",
    )
    assert "Command 3: p1-3 goes to busy, and asks for a report." in dict(picture.drawing["captions"])[4]
    table.do("sync")
    assert table.picture().claims[1:] == ("The last report to the client names 0-4 (CM-05).",)


@pytest.mark.parametrize("run", [completion_run, group_run])
def test_every_step_has_a_sentence(run):
    picture = run()
    assert [frame for frame, _ in picture.drawing["captions"]] == list(range(1, picture.frames.count))
    assert set(picture.drawing["turns"]) <= set(dict(picture.drawing["captions"]))


def test_the_story_asks_three_times():
    assert len([move for move in STORY if move[0] in ("sync", "flush")]) == 3


def test_the_lab_takes_a_message_off_a_queue_and_answers_the_sync():
    lab = completion_lab(moves=[("busy",), ("busy",), ("busy",), ("sync",)])
    ask(lab, ask="do", what="take", name="p1-2")
    assert lab.claims == (
        "Complete are the commands 0-3 of 4 (CM-04).",
        "The last report to the client names 0-3 (CM-05).",
    )
    again = open_token(lab.token(0, 0))
    assert again.table.broker.state_hash() == lab.table.broker.state_hash()
    ask(lab, ask="do", what="again")
    assert complete(lab.picture) == "0-1"
    lab.stop.value = 3
    assert complete(lab.picture) == "0-3"


SETTLED = {"ask": "settle", "verdict": "accept", "message": ["c2", "B-9"], "time": 10**7}


def strip(move="busy", number=1):
    return lambda: completion_lab(moves=[(move,)] * number)


@pytest.mark.parametrize(
    ("make", "content", "said"),
    [
        (strip(), {"what": "fly"}, "a move must be one of busy, idle, sync, flush, take, purge; got 'fly'"),
        (strip(), {"what": "take", "name": "p1-9"}, "'p1-9' is not on a queue; there are p1-0"),
        (strip(), {"what": "idle", "name": "no"}, "the option of a message must be 'sync' or ''; got 'no'"),
        (strip(), {"what": "purge", "name": "x"}, "there is no queue 'x'; there are busy, idle"),
        (strip("idle", MOST), {"what": "idle"}, "the strip has room for 16 commands: start again"),
        (group_lab, SETTLED, "c2 holds A-3; it cannot accept B-9"),
        (group_lab, {"what": "dance"}, "this lab has no button 'dance'"),
    ],
)
def test_what_cannot_be_done_is_said_and_loses_nothing(make, content, said):
    lab = make()
    before = lab.picture
    ask(lab, **{"ask": "do", **content})
    assert lab.scene.refusal == said
    assert lab.picture is before


def test_what_is_done_after_a_fork_is_shown_and_ends_the_comparison():
    lab = completion_lab()
    ask(lab, ask="fork", action="purge:busy", frame=3, time=300_000)
    assert len(lab.scene.pictures) == 2
    ask(lab, ask="do", what="idle")
    assert len(lab.table.moves) == len(STORY) + 1
    assert "of 9 (CM-04)" in lab.picture.claims[0] and len(lab.scene.pictures) == 1
    assert not lab.can_compare
