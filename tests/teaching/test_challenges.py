"""Challenges: the engine's run decides, par is enough, and the obvious wrong way does not win."""

import json
import re

import pytest
from commands import output_of

import qflow as qf
from qflow.kit import RefusalError
from qflow.teaching import learner
from qflow.teaching.challenges import _count_moves, challenges, report_challenges

NAMES = [one.name for one in challenges()]

# A move is a setting (as its slider has it) or an act by hand: consumer, verdict, message, and when.
Moves = list[tuple]

WINNING: dict[str, list[Moves]] = {
    "overflow": [[("capacity_1", 66)], [("capacity_2", 31)], [("limit", 160)]],
    "deeper": [[("capacity_1", 60)], [("capacity_2", 30)]],
    "nervous": [[("stop", 500)]],
    "unnoticed": [[("rate", 1_000)]],
    "drained": [[("resume", 1)], [("resume_size", 100)]],
    "mixed": [[("size", 400), ("resume", 5)], [("stop_size", 8_000), ("resume", 5)]],
    "starve": [[("slow", 50)], [("medium", 50)]],
    "ring": [[("stop", 10)], [("stop", 5)]],
    "order": [[("c2", "release", "B-1", 2_500_000)], [("c3", "accept", "C-2", 2_500_000)]],
    "asleep": [[("c2", "accept", "B-1", None), ("c1", "accept", "A-1", None)]],
}
"""For each challenge, ways to win it within par."""

WRONG: dict[str, list[Moves]] = {
    # Faster clients come to stand as well; without flow control nothing is broken with the brake on.
    "overflow": [[("rate", 1_000)], [("service", 50)], [("resume", 0), ("stop", 0)]],
    # Faster clients; a window so large that a session dies; another stop.
    "deeper": [[("rate", 1_000)], [("capacity_1", 240)], [("stop", 110)]],
    # No gap at all, where the queue seldom is; a larger flood.
    "nervous": [[("resume", 900)], [("rate", 3_000)]],
    # A window as large as can be; no flow control at all.
    "unnoticed": [[("capacity", 240)], [("resume", 0), ("stop", 0)]],
    # 0 is no threshold, it becomes the stop.
    "drained": [[("resume", 0)], [("resume_size", 0)]],
    "mixed": [[("size", 400)], [("resume", 5)]],
    # A consumer that is faster still; a producer with nothing to send.
    "starve": [[("fast", 1)], [("rate", 20)]],
    # Just below the limit; the smallest window alone; a consumer so quick that the ring loses nothing.
    "ring": [[("stop", 19)], [("capacity", 1)], [("service", 10)]],
    # As much prefetch as there is; a release by who holds no other; a reject; groups off.
    "order": [
        [("prefetch-c1", 8), ("prefetch-c2", 8)],
        [("c1", "release", "A-1", 2_500_000)],
        [("c2", "reject", "B-1", 2_500_000)],
        [("button", "groups")],
    ],
    "asleep": [
        [("c2", "accept", "B-1", None), ("c1", "release", "A-1", None)],
        [("c1", "accept", "A-1", None)],
    ],
}
"""Plausible ways that do not win."""


@pytest.fixture(autouse=True)
def progress_file(tmp_path, monkeypatch):
    file = tmp_path / "progress.json"
    monkeypatch.setenv("QFLOW_PROGRESS", str(file))
    return file


@pytest.fixture
def play():
    """Return what opens a challenge and makes moves in it, as a mouse does; all is closed at the end."""
    opened = []

    def play_challenge(name, moves=()):
        played = qf.challenge(name)
        opened.append(played)
        for move in moves:
            make(played.lab, move)
        return played

    yield play_challenge
    for played in opened:
        played.close()


def make(lab, move):
    """Make a move as it comes from the browser: a slider let go of, a message or a button clicked."""
    if move[0] in lab.sliders:
        lab.sliders[move[0]].value = move[1]
    elif move[0] == "button":
        lab._answer(None, {"ask": "do", "what": move[1]}, None)
    else:
        consumer, verdict, label, time = move
        now = lab.table.broker.now if time is None else time
        asked = {"ask": "settle", "verdict": verdict, "message": [consumer, label], "time": now}
        lab._answer(None, asked, None)
    assert not lab.scene.refusal


def ways(table):
    return [(name, moves) for name in NAMES for moves in table[name]]


def test_there_are_ten_over_six_labs():
    labs = {one.lab for one in challenges()}
    assert len(NAMES) == 10 and labs == {"flow", "capacity", "bytes", "fanout", "policy", "group"}
    assert all(len(one.hints) == 3 and one.par > 0 for one in challenges())
    assert set(WINNING) == set(WRONG) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_not_won_where_it_begins(name, play):
    played = play(name)
    assert not played.asked.judge(played.lab.picture)
    assert (played.moves, played.is_won, played.shown_card.value) == (0, False, "")
    assert "{" not in played.asked.tell(played.lab.picture)


@pytest.mark.parametrize(("name", "moves"), ways(WINNING))
def test_par_is_enough(name, moves, play, progress_file):
    played = play(name, moves)
    assert played.is_won and played.won == len(moves) <= played.asked.par
    kept = json.loads(progress_file.read_text())["challenges"]
    assert kept == {name: {"hints": 0, "moves": len(moves), "solved": True}}


@pytest.mark.parametrize(("name", "moves"), ways(WRONG))
def test_the_obvious_wrong_way_does_not_win(name, moves, play, progress_file):
    played = play(name, moves)
    assert played.moves == len(moves)
    assert not played.is_won and not progress_file.exists()


@pytest.mark.parametrize("lab", dict.fromkeys(one.lab for one in challenges()))
def test_no_extreme_of_a_slider_breaks_a_judge(lab, play, monkeypatch):
    """One run of a lab is for all that judge such a lab."""
    judges = [one for one in challenges() if one.lab == lab]
    played = play(judges[0].name)
    for slider in played.lab.sliders.values():
        first = slider.value
        for value in (slider.min, slider.max):
            slider.value = value
            assert "{" not in "".join(one.tell(played.lab.picture) for one in judges)
        with monkeypatch.context() as patched:
            # That run was seen when the lab was opened.
            patched.setattr(played.lab, "run_again", lambda: None, raising=False)
            slider.value = first


def test_less_than_par_is_not_enough(play):
    """Where par is two, none of its moves alone wins."""
    for name, moves in ways(WINNING):
        if len(moves) == 2:
            assert not any(play(name, [move]).is_won for move in moves)


def test_what_the_broker_refuses_changes_nothing(play):
    played = play("overflow")
    before = played.words.value
    played.lab.sliders["resume"].value = 200  # above the stop (FC-05)
    assert "must be less or equal" in played.lab.scene.refusal
    assert (played.moves, played.words.value, played.is_won) == (0, before, False)
    played.lab.sliders["resume"].value = 90
    played.lab.sliders["capacity_1"].value = 70
    assert (played.moves, played.is_won) == (1, True)


def test_a_setting_that_is_back_is_no_move():
    begun = {"stop": 100, "prefetch": [1, 2], "paces": [1.0], "moves": []}
    assert _count_moves(begun, begun) == 0
    assert _count_moves(begun, {**begun, "stop": 9, "prefetch": [2, 1], "paces": []}) == 4


def test_the_card_keeps_the_fewest_moves(play):
    played = play("overflow", [("rate", 200), ("prefetch", 5), ("capacity_1", 70)])
    assert "Won in 3 moves, par 1. It can be done in fewer." in played.shown_card.value
    make(played.lab, ("rate", 100))
    make(played.lab, ("prefetch", 10))
    assert played.won == 1 and "Won in 1 move, par 1.<" in played.shown_card.value
    card = played.shown_card.value
    make(played.lab, ("capacity_1", 50))
    assert (played.moves, played.shown_card.value, played.is_won) == (0, card, True)
    assert learner.read("challenges")["overflow"]["moves"] == 1


@pytest.mark.parametrize("name", ["overflow", "ring", "order", "asleep"])
def test_the_cards_token_opens_what_was_won(name, play):
    played = play(name, WINNING[name][0])
    (token,) = re.findall(r'open_token\("(.+?)"\)', played.shown_card.value)
    lab = qf.labs.open_token(token)
    try:
        assert played.asked.judge(lab.picture) and lab.claims == played.lab.claims
    finally:
        lab.close()


def test_another_course_of_events_is_not_judged(play):
    played = play("asleep")
    before = played.words.value
    played.lab._answer(None, {"ask": "fork", "action": "purge:carts", "frame": 3, "time": 300_000}, None)
    assert played.lab.is_forked and played.words.value == before


def test_of_a_pinned_run_the_one_of_now_is_judged(play):
    played = play("overflow")
    played.lab.compare()
    make(played.lab, ("capacity_1", 70))
    assert played.is_won and played.lab.can_compare


def test_hints_are_given_one_by_one_and_counted(play):
    played = play("ring")
    for hint in played.asked.hints:
        assert hint.split(".")[0] not in played.hints.text.value
        played.hints.button.click()
    assert all(hint.split("?")[0] in played.hints.text.value for hint in played.asked.hints)
    assert learner.read("challenges")["ring"] == {"hints": 3, "moves": None, "solved": False}
    make(played.lab, ("stop", 10))
    assert learner.read("challenges")["ring"] == {"hints": 3, "moves": 1, "solved": True}


def test_words_say_goal_par_and_whether_it_is_won(play):
    played = play("deeper")
    goal = played.asked.goal
    assert repr(played).splitlines() == [
        f"Deeper than 165. {goal}",
        "Par: 1 move. Not won yet; so far 0 moves.",
    ]
    bundle = played._repr_mimebundle_()
    assert bundle["text/plain"] == repr(played)
    assert goal in bundle["text/html"] and "Par: 1 move" in bundle["text/html"]
    assert not any(hint in bundle["text/html"] for hint in played.asked.hints)
    make(played.lab, ("capacity_1", 60))
    assert repr(played).splitlines()[1:] == [
        "Par: 1 move. Won in 1 move, par 1.",
        "The queue was 175 deep at most, with stop 100; sessions that died: 0.",
    ]


def test_qflow_exercises_counts_them(play, capsys):
    play("overflow", [("capacity_1", 70)])
    said = output_of(capsys, "exercises")
    assert "16-break-it          1 of 10 solved" in said
    assert "[x] overflow   Overflow it with the brake on (1 move, par 1)" in said
    told = json.loads(output_of(capsys, "exercises", "--json"))["challenges"]
    assert list(told) == NAMES
    assert told["overflow"] == {"moves": 1, "hints": 0, "solved": True, "par": 1}
    assert told["ring"] == {"moves": None, "hints": 0, "solved": False, "par": 1}


def test_a_damaged_entry_is_no_reason_to_fail(progress_file):
    odd = {"overflow": {"solved": True, "moves": "many", "hints": None}, "unknown": {"solved": True}}
    progress_file.write_text(json.dumps({"challenges": odd}))
    assert report_challenges()[:2] == [
        "16-break-it          1 of 10 solved",
        "  [x] overflow   Overflow it with the brake on",
    ]


def test_no_such_challenge():
    with pytest.raises(RefusalError, match="no challenge 'ringg'; did you mean 'ring'; there are over"):
        qf.challenge("ringg")
