"""Exercises: solutions pass, tasks begin with their first hint, and wrong answers are told what they show."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from commands import output_of
from ipywidgets.widgets.widget import _instances
from sentence_map import listed
from wrong_answers import WRONG

from qflow import cli, displays
from qflow.kit import RefusalError
from qflow.labs.config_widget import ConfigLab
from qflow.labs.lab import Lab
from qflow.launch import chapters as launch
from qflow.maintain import __main__ as maintain
from qflow.maintain.notebooks import _PLACEHOLDER, _solution_of, _task_of, select
from qflow.teaching import check, checking, hint, hints
from qflow.teaching import learner as progress
from qflow.teaching.cases import _case_lab, case_picture
from qflow.teaching.checking import judge
from qflow.teaching.exercise import Exercise, _all_exercises, exercises, find, themes
from qflow.teaching.rules import rule_book

ALL = _all_exercises()
FILES = {file.name: file for file in select(kind="exercises")}
TABLE = [(name, misconception) for name, answers in WRONG.items() for misconception in answers]


def functions(notebook) -> dict[str, object]:
    """Run a notebook's code cells, without a kernel, and return what they define."""
    names: dict[str, object] = {}
    with redirect_stdout(StringIO()):
        for cell in notebook.cells:
            if cell.cell_type == "code":
                exec(compile(cell.source, cell.id, "exec"), names)
    return names


@pytest.fixture(scope="module")
def solved() -> dict[str, object]:
    """Every solution by the exercise's name."""
    found: dict[str, object] = {}
    for file in FILES.values():
        names = functions(_solution_of(file))
        found.update({name: names[name] for name in ALL if name in names})
    return found


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    kept = tmp_path / "progress.json"
    monkeypatch.setenv("QFLOW_PROGRESS", str(kept))
    return kept


def test_every_theme_has_its_source_and_asks_its_exercises():
    assert sorted(FILES) == sorted(themes())
    for name, file in FILES.items():
        cells = [cell.id for cell in _task_of(file).cells]
        for exercise in exercises(name):
            assert {exercise.name, f"{exercise.name}-task", f"{exercise.name}-check"} <= set(cells)


@pytest.mark.parametrize("name", FILES)
def test_tasks_and_solutions_are_what_their_source_says(name):
    assert FILES[name].drift() == []


@pytest.mark.parametrize("name", FILES)
def test_tasks_do_not_give_the_solution_away(name):
    task, solution = _task_of(FILES[name]), _solution_of(FILES[name])
    asked = {exercise.name for exercise in exercises(name)}
    assert sum(_PLACEHOLDER in cell.source for cell in task.cells) == len(asked)
    assert not any("SOLUTION" in cell.source for cell in (*task.cells, *solution.cells))
    assert not any(cell.id.endswith("-why") for cell in task.cells)
    assert sum(cell.id.endswith("-why") for cell in solution.cells) == len(asked)


@pytest.mark.parametrize("name", ALL)
def test_the_solution_passes(name, solved):
    verdict = judge(ALL[name], solved[name])
    assert verdict, verdict


@pytest.mark.parametrize("name", FILES)
def test_an_unsolved_task_fails_with_its_first_hint(name):
    names = functions(_task_of(FILES[name]))
    for exercise in exercises(name):
        verdict = judge(exercise, names[exercise.name])
        assert not verdict
        assert f"Hint 1 of 3: {exercise.hints[0]}" in repr(verdict)
        assert verdict.misconception == ""


@pytest.mark.parametrize("name", ALL)
def test_an_empty_or_a_constant_answer_never_passes(name, solved):
    exercise = ALL[name]
    constants = [None, ..., 0, 1, True, "", [], {}]
    if exercise.name != "give_up":
        constants += [exercise.try_answer(solved[name], case) for case in exercise.cases]
    for constant in constants:
        assert not judge(exercise, lambda *_, value=constant: value), constant


@pytest.mark.parametrize(("name", "misconception"), TABLE)
def test_a_wrong_answer_is_told_what_it_shows(name, misconception):
    exercise = ALL[name]
    verdict = judge(exercise, WRONG[name][misconception])
    assert not verdict
    assert verdict.misconception == misconception, verdict
    if misconception:
        assert exercise.misconceptions[misconception].message in repr(verdict)
    else:
        assert "This looks like" not in repr(verdict)


@pytest.mark.parametrize("name", ALL)
def test_every_misconception_is_wrong_and_tells_itself_from_the_others(name):
    exercise = ALL[name]
    for name, misconception in exercise.misconceptions.items():
        verdict = judge(exercise, lambda *given, m=misconception: m.answer(*given))
        assert not verdict
        assert verdict.misconception == name, verdict


@pytest.mark.parametrize("exercise", ALL.values(), ids=lambda exercise: exercise.name)
def test_hints_are_three_as_are_misconceptions_and_rules_exist(exercise: Exercise):
    assert len(exercise.misconceptions) >= 3
    assert len(exercise.hints) == len(set(exercise.hints)) == 3
    assert all(exercise.hints)
    assert set(exercise.rules) <= set(rule_book())
    assert exercise.rules


_NAMES = re.compile(r"--[\w-]+|qpid\.\w+|default[-_]\w+[-_]\w+")
"""Options and keys: what a task about notations asks for."""


def _runs(text: str, length: int = 4) -> set[tuple[str, ...]]:
    words = re.findall(r"[\w.%-]+", text.lower())
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}


@pytest.mark.parametrize("exercise", ALL.values(), ids=lambda exercise: exercise.name)
def test_a_diagnosis_leaves_the_hints_something_to_say(exercise: Exercise):
    """It says what is not so; the rule (hint 2) and almost the answer (hint 3) are not in it."""
    first, *further = exercise.hints
    for name, known in exercise.misconceptions.items():
        told = set(_NAMES.findall(known.message)) - set(_NAMES.findall(first + name))
        repeated = _runs(known.message) & set().union(*map(_runs, further)) - _runs(first)
        assert (told, repeated) == (set(), set()), name


def test_every_golden_scenario_has_an_exercise():
    shown = {golden for exercise in ALL.values() for golden in exercise.shows}
    assert shown == {f"G-{number:02d}" for number in range(1, 19)}


# What the documents' examples and the golden scenarios come to, as the real broker was seen to do it.
SEEN = (
    ("on_and_off", (1000, 900, 500), (901, 499)),
    ("message_bytes", ("", "q1", 1), 13),
    ("states_both", ([(11, 1100), (5, 500), (4, 400)], (10, 2000), (5, 1000)), ("ON", "ON", "OFF")),
    ("last_left", (100, 8500), 69),
    ("completed", (["X", "X", "Y", "Y"], {"X": 1, "Y": 9}), (0, 2, 3)),
    ("completed_after_purges", ({"f1": 1, "f2": 2}, 3, ["f1", "f2"]), ((1,), (1, 2), (1, 2, 3))),
    ("worst_depth", (100, [50, 15]), 165),
    ("after_the_stall", (100, [50, 15]), (165, 66, 164, 2)),
    ("cpp_depth", (10, 1), 11),
    ("cpp_depth", (10, 2), 12),
    ("cpp_depth", (10, 3), 12),
    ("overflow", (3, 2, 4), (3, "ON", 506, False)),
    ("default_thresholds", (100, 90, 75), (90, 75)),
    ("default_thresholds", (90, 80, 70), (72, 62)),
    ("second_gets", (["A-1", "A-2", "A-3", "B-1", "B-2"], False), "B-1"),
    ("next_gets", (2, ["release", "accept"], 1), ("A-1", "A-3")),
    ("idle_gets", (["owner accepts"],), ()),
    ("idle_gets", (["owner accepts", "B-1 arrives"],), ("A-2", "B-1")),
    ("turns", (7, 3), ((0, 3, 6), (1, 4), (2, 5))),
    ("ring_priorities", (3, [5, 6, 7, 4, 5, 9]), (5, 2, 1)),
    ("ring_last_values", (3, ["a", "b", "c", "b"]), ("c", "b")),
    ("self_destruct", (10, 9), (True, 9, 1)),
    ("self_destruct", (10, 10), (True, 10, 2)),
    ("self_destruct", (10, 11), (False, 0, 0)),
    ("lvq_at_stop", (10, 1), (10, "ON", 1, 1)),
    ("after_move", (5, 2, 0), (0, 2, 3)),
    ("survives", (1, 1, False), False),
    ("transaction", (5, 4, 10), (541, 0, "OFF", False)),
    ("transaction", (100, 5, 10), (0, 10, "ON", False)),
)


@pytest.mark.parametrize(("name", "case", "outcome"), SEEN)
def test_documented_examples_are_among_the_cases_and_come_out_as_seen(name, case, outcome):
    exercise = ALL[name]
    assert exercise.wanted[exercise.cases.index(case)] == outcome


def test_every_example_of_the_documents_has_an_exercise():
    examples = [sentence for sentence in listed() if sentence.says.startswith("example: ")]
    assert len(examples) > 20
    for sentence in examples:
        assert any(place.startswith("exercise:") for place in sentence.where), sentence


def test_exercises_are_laid_out_beside_the_chapters(tmp_path, monkeypatch):
    monkeypatch.setattr(launch, "nearest_checkout", lambda: None)
    monkeypatch.chdir(tmp_path)
    chapters, said = launch._find_chapters("mine")
    for name in FILES:
        assert (chapters / "exercises" / f"{name}.ipynb").exists()
    for name in ("sources", "solutions"):
        assert not (chapters / "exercises" / name).exists()
    assert any(line.startswith(f"Copied the exercises to {chapters / 'exercises'}") for line in said)
    for notebook in (*chapters.glob("*.ipynb"), *(chapters / "exercises").glob("*.ipynb")):
        links = re.findall(r"\]\((?!\w+:)([^)#]+\.ipynb)\)", notebook.read_text())
        assert [link for link in links if not (notebook.parent / link).exists()] == [], notebook
    mine = chapters / "exercises" / "01-thresholds.ipynb"
    mine.write_text(mine.read_text().replace("raise NotImplementedError", "return 901, 499"))
    _, said = launch._find_chapters("mine")
    assert any(line.startswith("Left as you changed them: 01-thresholds.ipynb") for line in said)
    assert "return 901, 499" in mine.read_text()


def test_solutions_are_laid_out_by_a_command_of_their_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["exercises", "solutions"]) == 0
    assert {path.stem for path in (tmp_path / "qflow-solutions").glob("*.ipynb")} == set(FILES)
    (tmp_path / "qflow-solutions" / "01-thresholds.ipynb").write_text("my notes")
    assert cli.main(["exercises", "solutions"]) == 2
    assert "exists already" in capsys.readouterr().err
    assert (tmp_path / "qflow-solutions" / "01-thresholds.ipynb").read_text() == "my notes"


def test_a_chapter_with_a_new_number_takes_the_place_of_the_old_one(tmp_path):
    """A copy that nobody changed goes; one with a learner's words in it stays."""
    kit, mine = tmp_path / "kit", tmp_path / "mine"
    kit.mkdir()
    for name in ("05-configuration.ipynb", "06-several-queues.ipynb"):
        (kit / name).write_text('{"cells": []}')
    launch._copy_chapters(kit, mine)
    (mine / "06-several-queues.ipynb").write_text("my notes")
    (kit / "05-configuration.ipynb").rename(kit / "07-configuration.ipynb")
    (kit / "06-several-queues.ipynb").rename(kit / "08-several-queues.ipynb")
    layout = launch._copy_chapters(kit, mine)
    assert layout.added == ["07-configuration.ipynb", "08-several-queues.ipynb"]
    assert (layout.removed, layout.kept) == (["05-configuration.ipynb"], ["06-several-queues.ipynb"])
    assert (mine / "06-several-queues.ipynb").read_text() == "my notes"
    assert not (mine / "05-configuration.ipynb").exists()
    assert "as the kit has them no more: 05-configuration.ipynb." in "".join(layout.sentences())


def test_an_answer_that_spoils_its_arguments_spoils_nothing_else(solved):
    def flow_states(depths, stop, resume):
        states = solved["flow_states"](depths, stop, resume)
        depths.clear()
        return states

    assert judge(ALL["flow_states"], flow_states)
    assert judge(ALL["flow_states"], solved["flow_states"])


def test_an_array_is_as_good_as_a_list():
    class Array:
        def tolist(self):
            return [901, 499]

    exercise = ALL["on_and_off"]
    assert exercise.results(lambda *_: Array())[0] == exercise.wanted[0]


class Incomparable:
    """What a learner may return: it can be neither compared nor written."""

    def __eq__(self, other):
        raise RuntimeError("no")

    __hash__ = None

    def __repr__(self):
        raise RuntimeError("nor this")


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("not even an error")


def unspeakable(*_):
    raise Unspeakable


def on_and_off(limit, stop, resume):
    """A typical wrong answer."""
    return stop, resume


wrong_on_and_off = on_and_off


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda *_: (17, 4), "gave (17, 4); the broker says"),
        (lambda *_: 1 / 0, "ended with the error ZeroDivisionError: division by zero."),
        (lambda *_: Incomparable(), "gave a Incomparable that cannot be shown (RuntimeError); the broker"),
        (lambda *_: [Incomparable()], "gave a tuple that cannot be shown (RuntimeError); the broker says"),
        (lambda *_: range(10**6).__iter__(), "gave <range_iterator object at"),
        (lambda *_: list(range(10**4)), "… (58890 characters); the broker says"),
        (lambda *_: "x" * 10**6, "… (1000002 characters); the broker says"),
        (unspeakable, "ended with the error Unspeakable: a Unspeakable that cannot be shown (RuntimeError)."),
    ],
)
@pytest.mark.parametrize("name", ["on_and_off", "worst_depth"])
def test_whatever_an_answer_returns_is_judged_in_short_sentences(name, answer, said):
    verdict = judge(ALL[name], answer)
    assert (verdict.right, verdict.misconception) == (0, "")
    assert said in repr(verdict)
    assert len(repr(verdict)) < 2_000


class Obstinate(Incomparable):
    """Nothing can be asked of it."""

    def __iter__(self):
        raise RuntimeError("no")

    def __getattr__(self, name):
        raise RuntimeError("no")


@pytest.mark.parametrize("answer", [Obstinate(), (Obstinate(), Obstinate())], ids=["one", "two"])
@pytest.mark.parametrize(
    "name", [name for name in ALL if any(known.sign for known in ALL[name].misconceptions.values())]
)
def test_an_answer_of_which_nothing_can_be_asked_bears_no_sign_of_a_misconception(name, answer):
    verdict = judge(ALL[name], lambda *_: answer)
    assert (verdict.right, verdict.misconception) == (0, "")


def test_a_table_is_no_answer():
    pandas = pytest.importorskip("pandas")
    verdict = judge(ALL["on_and_off"], lambda *_: pandas.DataFrame({"a": [901], "b": [499]}))
    assert (verdict.right, "the broker says (901, 499)." in repr(verdict)) == (0, True)


ONE_VALUE = (
    ("after_the_stall", lambda stop, caps: stop + sum(caps), "Yours is the depth when all producers are"),
    ("after_the_stall", lambda stop, caps: stop - 1 + sum(caps), "Yours is the depth after the burst."),
    ("after_the_stall", lambda *_: 66, "Yours is the messages taken when it turns OFF in the first case."),
    ("after_the_stall", lambda stop, caps: 17, "Your answer matches none of these."),
    ("on_and_off", lambda limit, stop, resume: stop + 1, "Yours is the depth when it turns ON."),
    ("after_the_stall", lambda stop, caps: (165, 66), "Two values were returned, and four are wanted"),
    ("overflow", lambda *_: {"depth": 3}, "One value was returned, and four are wanted"),
)


@pytest.mark.parametrize(("name", "answer", "said"), ONE_VALUE)
def test_one_value_where_several_are_wanted_is_named_and_the_form_said(name, answer, said):
    verdict = judge(ALL[name], answer)
    assert said in repr(verdict)
    assert f"as in: return {', '.join('abcd'[: len(ALL[name].parts)])}" in repr(verdict)
    assert "are wanted" not in repr(judge(ALL[name], lambda *_: tuple(range(len(ALL[name].parts)))))


def test_parts_name_every_value_of_a_result():
    for exercise in ALL.values():
        lengths = {len(wanted) if isinstance(wanted, tuple) else 1 for wanted in exercise.wanted}
        if exercise.parts:
            assert lengths == {len(exercise.parts)}, exercise.name
    assert {name for name, exercise in ALL.items() if exercise.parts} >= {"on_and_off", "after_the_stall"}


@pytest.mark.parametrize("name", ALL)
def test_a_case_that_failed_is_the_engines_own_run_or_the_configuration_that_was_tried(name):
    exercise = ALL[name]
    case, answer = exercise.cases[0], next(iter(exercise.misconceptions.values())).answer
    if exercise.lab == "run":
        assert case_picture(exercise, case, answer).frames.topology.queues
    elif exercise.lab == "configuration":
        assert isinstance(_case_lab(exercise, case, answer), Lab | ConfigLab)
    else:
        with pytest.raises(RefusalError, match="has no run of the engine to show"):
            case_picture(exercise, case)


def test_the_picture_of_a_case_tells_what_the_check_wanted():
    """After the manual's stall: 165, down to 99, up to 164; each command at an instant of its own."""
    exercise = ALL["after_the_stall"]
    frames = case_picture(exercise, exercise.cases[0]).frames
    depths = frames.column("queue.q.depth")
    on, off, again = frames.transitions
    assert (max(depths), depths[off.frame], depths[-1]) == (165, 99, 164)
    assert [on.is_on, off.is_on, again.is_on] == [True, False, True]
    small = case_picture(ALL["overflow"], (3, 2, 4))
    sent = [event.time for event in small.run.events if event.kind == "message.transfer"]
    assert sent == sorted(set(sent)) and len(sent) == 4


def test_a_refused_configuration_is_shown_with_its_refusal():
    lab = _case_lab(ALL["is_accepted"], ({"max_count": 100, "flow_stop_count": 5},))
    assert "qpid.flow_resume_count=70" in lab.picture.refusal
    lab = _case_lab(ALL["broker_start"], (90, 75, "x"), lambda *_: ["--default-msg-group=x"])
    assert "--default-msg-group" in lab._refusal.value


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (checking, hints, displays):
        monkeypatch.setattr(module, "has_kernel", lambda: True)


def test_in_a_notebook_hints_come_one_by_one_and_the_case_opens_and_closes(file, kernel):
    view = "application/vnd.jupyter.widget-view+json"
    verdict = check(wrong_on_and_off)
    bundle = verdict._repr_mimebundle_()
    assert {view, "text/plain", "text/html"} == set(bundle)
    assert bundle["text/plain"] == repr(verdict)
    widget = _instances[bundle[view]["model_id"]]
    words, hints, buttons, box = widget.children
    more, show_case = buttons.children
    assert "qf.hint" not in words.value
    for number, label in ((1, "next hint"), (2, "next hint"), (3, "no more hints")):
        more.click()
        assert f"Hint {number} of 3" in hints.value
        assert more.description == label
    assert more.disabled
    assert progress.read("exercises")["on_and_off"]["hints"] == 3
    show_case.click()
    head, lab = box.children
    assert "on_and_off(limit=1000, stop=900, resume=500)" in head.value
    assert lab.scene.plays
    show_case.click()
    assert box.children == ()


def test_without_a_kernel_a_check_is_its_words(file):
    bundle = check(wrong_on_and_off)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}


def test_checks_and_hints_are_kept_as_progress(file, solved, capsys):
    check(wrong_on_and_off)
    hint("on_and_off", 2)
    hint("on_and_off", 1)
    assert progress.read("exercises") == {"on_and_off": {"tries": 1, "solved": False, "hints": 2}}
    check(solved["on_and_off"])
    check(wrong_on_and_off)
    assert progress.read("exercises")["on_and_off"] == {"tries": 3, "solved": True, "hints": 2}
    capsys.readouterr()
    said = output_of(capsys, "exercises", "progress")
    assert output_of(capsys, "exercises") == said
    assert "[x] on_and_off" in said
    assert f"Exercises: 1 of {len(ALL)} solved." in said
    assert str(file) in said


def test_a_spoilt_progress_file_is_survived(file, solved):
    file.write_text('{"exercises": {"turns": {"tries": "many", "hints": []}, "completed": 7}}')
    assert check(solved["turns"])
    hint("turns")
    assert cli.main(["exercises"]) == 0


def test_unknown_names_are_refused():
    with pytest.raises(RefusalError, match="did you mean 'turns'"):
        find("turn")
    for nameless in (lambda: 1, Incomparable()):
        with pytest.raises(RefusalError, match="There is no exercise"):
            check(nameless)
    with pytest.raises(RefusalError, match="hints 1, 2 and 3"):
        hint("turns", 0)


def test_drift_is_seen(tmp_path, capsys):
    top = tmp_path / "exercises"
    (top / "sources").mkdir(parents=True)
    (top / "solutions").mkdir()
    for part in ("sources/01-thresholds.py", "01-thresholds.ipynb", "solutions/01-thresholds.ipynb"):
        (top / part).write_bytes((FILES["01-thresholds"].source.parent.parent / part).read_bytes())
    assert maintain.main(["exercises", "check", "--dir", str(top)]) == 0
    source = top / "sources" / "01-thresholds.py"
    source.write_text(source.read_text().replace("return stop + 1, resume - 1", "return stop + 1, resume"))
    assert maintain.main(["exercises", "check", "--dir", str(top)]) == 1
    assert "solutions/01-thresholds.ipynb differs from its source" in capsys.readouterr().err
