"""Questions that a lab asks in its picture: the pause, the answer, and the data sent to the browser."""

import json

import pytest
from sentences import ask

from qflow.kit import RefusalError
from qflow.labs import capacity_lab, completion_lab, flow_lab, flow_run, group_lab
from qflow.labs.asking import Asking
from qflow.teaching import Predictions, learner
from qflow.teaching.predictions import ChapterQuestion, _ShownQuestions


@pytest.fixture(autouse=True)
def nothing_typed(monkeypatch):
    monkeypatch.setattr(learner, "_typed", {})


def hear(lab, **content):
    """Send a message as the browser would; return the state that it is sent."""
    ask(lab, **content)
    return lab.scene.asking


def asked(mark, **more):
    return ChapterQuestion("n", "How many?", mark=mark, chapter="99-test", **more)


# The answers follow from the settings: more than stop (FC-14), fewer than resume (FC-16), and windows of
# 50 and 15 above a stop of 100 (CAP-11).
@pytest.mark.parametrize(
    ("lab", "mark", "answer"),
    [
        (flow_lab, "ON", 901),
        (flow_lab, "OFF", 499),
        (capacity_lab, "ON", 101),
        (capacity_lab, "OFF", 89),
        (capacity_lab, "deepest", 165),
    ],
)
def test_the_run_answers_and_pauses_before_that(lab, mark, answer):
    shown = lab().ask(asked(mark))
    before = shown.scene.asking["frame"]
    assert "answer" not in shown.scene.asking
    after = hear(shown, ask="guess", guess=answer, sure=None)
    assert (after["answer"], after["said"].endswith("You had it.")) == (answer, True)
    assert before < after["frame"]
    depths = shown.first.frames.column("queue.orders.depth")
    assert depths[after["frame"]] == answer
    assert answer not in depths[: before + 1] or mark == "OFF"


def test_a_wrong_guess_hears_its_misunderstanding_and_is_remembered(capsys):
    predictions = Predictions("01-thresholds")
    lab = flow_lab()
    predictions.ask("on", "off", lab=lab)
    assert "901" not in json.dumps(lab.scene.asking)
    told = hear(lab, ask="guess", guess=900, sure=80)
    assert told["said"].startswith(
        "It turned ON at 901. You said 900: 900 is not more than 900. Worth another"
    )
    assert (told["answer"], told["guess"]) == (901, 900)
    second = hear(lab, ask="next")
    assert (second["number"], second["of"], second["guess"]) == (2, 2, None)
    assert "You made no guess." in hear(lab, ask="guess", guess=None, sure=None)["said"]
    assert hear(lab, ask="next") == {}
    predictions.compare(on=901, off=499)
    assert "you said 900: 900 is not more than 900" in capsys.readouterr().out
    again = flow_lab()
    Predictions("01-thresholds").ask("on", lab=again)
    assert (again.scene.asking["guess"], again.scene.asking["sure"]) == (900, 80)


def test_a_notebook_keeps_the_questions_and_a_picture_that_asks_them():
    predictions, lab = Predictions("01-thresholds"), flow_lab()
    predictions.ask("on", "off", lab=lab)
    kept = _ShownQuestions(*predictions.asked.values(), lab=lab)._repr_mimebundle_()
    assert set(kept) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert kept["text/plain"].splitlines() == [asked.sentence() for asked in predictions.asked.values()]
    # Where no script runs, the questions are left, and no claim of the picture.
    assert all(f"<li>{asked.question}</li>" in kept["text/html"] for asked in predictions.asked.values())
    assert not any(claim in kept["text/html"] for claim in lab.claims)


def test_what_a_lab_cannot_ask_is_refused():
    with pytest.raises(
        RefusalError, match="mark of question 'n' must be one of ON, OFF, deepest, sync, gets; got ''"
    ):
        flow_lab().ask(asked(""))
    with pytest.raises(RefusalError, match="does not answer 'n': orders never turns ON"):
        flow_lab(stop=0, resume=0, messages=100).ask(asked("ON"))
    with pytest.raises(RefusalError, match="01-thresholds has no question 'one'"):
        Predictions("01-thresholds").ask("one", lab=flow_lab())


def test_a_choice_is_answered_by_what_happens():
    """A message goes to the owner of its group; CM-06: a sync waits for all commands before it."""
    lab = group_lab().ask(asked("gets A-2", choices=("c1", "c2", "c3")))
    assert hear(lab, ask="guess", guess="c1", sure=None)["said"] == "c1 got it. You had it."
    with pytest.raises(RefusalError, match="'n': gets A-2 is answered before it can be asked"):
        group_lab(grouped=False).ask(asked("gets A-2", choices=("c1", "c2", "c3")))
    lab = completion_lab().ask(asked("sync", choices=("yes", "no")))
    assert hear(lab, ask="guess", guess=None, sure=None)["answer"] == "no"
    with pytest.raises(RefusalError, match="does not answer 'n': no consumer gets Z-9"):
        group_lab().ask(asked("gets Z-9"))


def test_what_a_lab_asked_needs_no_answer_of_the_chapter(capsys):
    predictions = Predictions("03-held-completions")
    predictions.ask("complete", guess=4)
    predictions.ask("sync", lab=completion_lab())
    predictions.compare(complete=4)
    assert "sync       no   you made no guess" in capsys.readouterr().out


def test_a_guess_in_the_cell_is_where_the_mark_is():
    lab = flow_lab()
    Predictions("01-thresholds").ask("on", guess=700, lab=lab)
    assert lab.scene.asking["guess"] == 700


@pytest.mark.parametrize("mark", ["ON", "OFF", "deepest"])
def test_where_it_pauses_follows_from_the_settings_alone(mark):
    """A pause that depended on the answer would reveal it."""
    picture = flow_run(stop=20, resume=10, limit=100, messages=300)
    frames, state = picture.frames, Asking(picture, [asked(mark)]).state()
    depth = frames.at(state["frame"])["queue.orders.depth"]
    assert depth == (15 if mark == "OFF" else 10)
