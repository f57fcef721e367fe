"""Predictions, what becomes of them, and the file that keeps them."""

import json
import stat
from math import isfinite
from pathlib import Path

import pytest

from qflow.kit import RefusalError
from qflow.teaching import Predictions, learner
from qflow.teaching import predictions as asking
from qflow.teaching.predictions import _field, _ShownQuestions, questions, report_calibration

QUESTIONS = """\
[CHAPTER.on]
question = "ON at?"
revisit = "FC-14"
because.900 = "equal"
because.5 = "far off"

[CHAPTER.state]
question = "Then?"
choices = ["ON", "OFF"]
revisit = "FC-16"
"""


@pytest.fixture(autouse=True)
def nothing_typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(learner, "_typed", {})
    data = tmp_path / "questions"
    data.mkdir()
    text = "".join(QUESTIONS.replace("CHAPTER", chapter) for chapter in ("01", "02"))
    (data / "predictions.toml").write_text(text)
    monkeypatch.setattr(asking, "kit_path", lambda name: data)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    kept = tmp_path / "deep" / "progress.json"
    monkeypatch.setenv("QFLOW_PROGRESS", str(kept))
    return kept


def ask(chapter: str = "01", **guesses: object) -> Predictions:
    predictions = Predictions(chapter)
    predictions.ask("on", guess=guesses.get("on"), sure=guesses.get("sure"))
    predictions.ask("state", guess=guesses.get("state"))
    return predictions


def test_without_guesses_the_output_is_always_the_same_and_nothing_is_kept(file, capsys):
    for _ in range(2):
        ask().compare(on=901, state="ON")
    said = capsys.readouterr().out
    half = len(said) // 2
    assert said[:half] == said[half:] != ""
    assert "no predictions" in said
    assert not file.exists()


def test_right_and_wrong_guesses_and_the_misunderstanding_behind_one(file, capsys):
    ask(on=900, state="on", sure=100).compare(on=901, state="ON")
    said = capsys.readouterr().out
    assert "you said 900: equal" in said
    assert "You had 1 of 2." in said
    assert "Worth another look: FC-14." in said
    assert "FC-16" not in said
    assert json.loads(file.read_text())["predictions"]["01"]["on"] == {"right": False, "sure": 100}


def test_numbers_of_numpy_are_guesses_answers_and_certainties(file, capsys):
    numpy = pytest.importorskip("numpy")
    predictions = Predictions("01")
    predictions.ask("on", guess=numpy.int64(901), sure=numpy.int64(80))
    predictions.compare(on=numpy.int32(901))
    assert "you had it" in capsys.readouterr().out
    assert json.loads(file.read_text())["predictions"]["01"] == {"on": {"right": True, "sure": 80}}
    predictions.ask("on", guess=numpy.float64(5))
    predictions.compare(on=numpy.int32(901))
    assert "you said 5.0" in capsys.readouterr().out


def test_calibration_over_chapters(file):
    for chapter, guess in (("01", 901), ("02", 900)):
        ask(chapter, on=guess, sure=50).compare(on=901, state="ON")
    assert report_calibration(learner.read("predictions")) == [
        "Predictions: 1 of 2 right.",
        "You were 50 % sure on average, and right in 50 %: well judged.",
    ]


@pytest.mark.parametrize(
    ("names", "guess", "sure", "said"),
    [
        (["on"], 1, -1, "0 to 100"),
        (["on"], 1, 101, "0 to 100"),
        (["state"], "open", None, "one of ON, OFF"),
        ([], 901, None, "a guess is for one question; got 2: on, state"),
    ],
)
def test_a_guess_that_cannot_be_one_is_refused(names, guess, sure, said):
    with pytest.raises(ValueError, match=said):
        Predictions("01").ask(*names, guess=guess, sure=sure)


def test_without_a_name_all_questions_of_the_chapter_are_asked(capsys):
    predictions = Predictions("01")
    predictions.ask()
    assert capsys.readouterr().out == "ON at? No guess yet.\nThen? (ON or OFF) No guess yet.\n"
    assert list(predictions.asked) == ["on", "state"]


def test_an_unknown_question_or_chapter_is_refused_with_those_there_are():
    with pytest.raises(RefusalError, match="01 has no question 'off'; there are: on, state"):
        Predictions("01").ask("off")
    with pytest.raises(RefusalError, match="no questions for the chapter '03'; there are for 01, 02"):
        Predictions("03").ask()


def test_every_question_of_the_kit_can_be_asked(root, monkeypatch):
    """Whatever is written into the data file is a question, in plain words, of a chapter there is."""
    monkeypatch.undo()
    for path in sorted((root / "notebooks" / "sources").glob("[0-9][0-9]-*.py")):
        if "predictions.ask(" not in path.read_text():
            continue
        for asked in questions(path.stem).values():
            assert asked.question.endswith("?") or "? " in asked.question
            assert asked.revisit and "." not in asked.revisit[-1:]
            if not asked.choices:
                assert all(isfinite(float(wrong)) for wrong in asked.because)
            assert not asked.choices or set(asked.because) <= set(asked.choices)


def test_every_question_needs_its_answer():
    predictions = ask()
    with pytest.raises(ValueError, match="state"):
        predictions.compare(on=901)


def test_the_field_writes_into_the_question_and_the_text_stays():
    predictions = ask()
    question = _ShownQuestions(predictions.asked["on"])
    bundle = question._repr_mimebundle_()
    assert bundle["text/plain"] == "ON at? No guess yet."
    assert any("widget" in kind for kind in bundle)


def test_a_typed_number_counts_as_the_guess(capsys):
    predictions = ask()
    entry, sure, said = _field(predictions.asked["on"]).children[1].children
    entry.value = "many"
    assert (predictions.asked["on"].guess, said.value) == (None, "Please type a number.")
    entry.value, sure.value = "1,000", 80
    assert (predictions.asked["on"].guess, predictions.asked["on"].sure) == (1000, 80)


def test_a_typed_guess_survives_running_the_cell_again(file, capsys):
    predictions = ask()
    entry, sure, _ = _field(predictions.asked["on"]).children[1].children
    entry.value, sure.value = "901", 90
    again = ask()
    assert (again.asked["on"].guess, again.asked["on"].sure) == (901, 90)
    field = _field(again.asked["on"]).children[1].children
    assert (field[0].value, field[1].value) == ("901", 90)
    again.compare(on=901, state="ON")
    assert "you had it" in capsys.readouterr().out
    field[0].value = ""
    forgotten = ask()
    assert forgotten.asked["on"].guess is None
    assert json.loads(file.read_text())["guesses"] == {"01": {}}


def test_an_empty_variable_keeps_nothing_but_for_the_kernels_life(monkeypatch):
    monkeypatch.setenv("QFLOW_PROGRESS", "")
    assert learner.progress_file() is None
    assert not learner.keep("exercises", "a", {})
    predictions = ask()
    predictions.asked["state"].keep("ON", None)
    again = ask()
    assert again.asked["state"].guess == "ON"


def test_a_typed_guess_survives_a_new_kernel(file, monkeypatch):
    Predictions("01").ask("on")
    learner.remember("01", "on", 900, None)
    monkeypatch.setattr(learner, "_typed", {})
    predictions = ask()
    assert predictions.asked["on"].guess == 900


def test_what_is_kept_of_one_kind_leaves_the_others(file):
    learner.remember("01", "on", 900, None)
    assert learner.keep("exercises", "first_stop", {"solved": True})
    assert learner.recall("01", "on") == (900, None)
    assert set(learner.read("exercises")) == {"first_stop"}


def test_what_is_written_in_the_cell_wins(file):
    learner.remember("01", "on", 900, 50)
    predictions = ask(on=901)
    assert (predictions.asked["on"].guess, predictions.asked["on"].sure) == (901, None)


def test_a_place_that_cannot_be_written_breaks_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("QFLOW_PROGRESS", "/dev/null/progress.json")
    assert not learner.keep("exercises", "a", {})
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    ask(on=901).compare(on=901, state="ON")
    assert "you had it" in capsys.readouterr().out


def test_the_users_data_folder_is_the_default(monkeypatch):
    monkeypatch.delenv("QFLOW_PROGRESS")
    found = learner.progress_file()
    assert found is not None
    assert found.parts[-2:] == ("qflow", "progress.json")
