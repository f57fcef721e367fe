"""Checking of exercises: ``check(answer)`` and ``show_progress()``, which learners call in notebooks.

A check runs the learner's answer on every case of the exercise, compares the results with those of the
engine, and names the misconception that wrong results show. There is no list of right results: see
:mod:`qflow.teaching.exercise`. In JupyterLab a failed check has two buttons: one for the next hint, and one
that opens the first failed case in a lab.
"""

from __future__ import annotations

import argparse
import html
import importlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qflow.arguments import add_json
from qflow.displays import has_kernel
from qflow.kit import RefusalError, kit_path
from qflow.teaching import learner
from qflow.teaching.challenges import progress, report_challenges
from qflow.teaching.exercise import (
    FINE,
    Answer,
    Exercise,
    Failure,
    are_alike,
    exercises,
    find,
    themes,
    write_briefly,
)
from qflow.teaching.predictions import report_calibration
from qflow.wording import format_names

_SOLUTIONS = "qflow-solutions"


@dataclass(frozen=True)
class CheckVerdict:
    """The result of a check; it is true if the answer was right in all cases."""

    exercise: str
    right: int
    cases: int
    lines: tuple[str, ...]
    misconception: str = ""
    is_unwritten: bool = False  # whether the learner has not written anything yet
    case: tuple[Any, ...] | None = None  # the first failed case
    answer: Answer | None = field(default=None, compare=False)

    def __bool__(self) -> bool:
        return self.right == self.cases

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        # Jupyter wraps long lines of plain text in the middle of words, but not those of HTML.
        return _write_paragraphs(self.lines)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        words = {"text/plain": repr(self), "text/html": self._repr_html_()}
        if self.case is None or self.answer is None or not has_kernel():
            return words
        # A button replaces the last line, which says what to type for a hint.
        said, asked = _write_paragraphs(self.lines[:-1]), find(self.exercise)
        try:
            show = importlib.import_module("qflow.teaching.cases").show_verdict
            widget = show(said, asked, self.case, self.answer, is_hint_shown=self.is_unwritten)
        except ImportError:  # ipywidgets is not installed
            return words
        return {**widget._repr_mimebundle_(**kwargs), **words}


def _write_paragraphs(lines: Sequence[str]) -> str:
    head, *rest = (html.escape(line, quote=False) for line in lines)
    paragraphs = "".join(f"<p>{line}</p>" for line in rest)
    return f'<div role="status"><p><strong>{head}</strong></p>{paragraphs}</div>'


def check(answer: Answer) -> CheckVerdict:
    """Check an answer to an exercise, and store the result with the learner's progress.

    Parameters:
        answer: The function that the learner wrote; it has the name of the exercise.

    Returns:
        The verdict, which a notebook shows as text; it is true if the answer is right in all cases.

    Raises:
        RefusalError: If there is no exercise of that name.

    >>> def on_and_off(limit, stop, resume):
    ...     return stop, resume
    >>> check(on_and_off)
    NOT YET  on_and_off: right in 0 of 8 cases.
    on_and_off(limit=1000, stop=900, resume=500) gave (900, 500); the broker says (901, 499).
    This looks like "reached is enough": ...
    """
    exercise = find(str(getattr(answer, "__name__", write_briefly(answer))))
    verdict = judge(exercise, answer)
    entry = learner.entry_of("exercises", exercise.name)
    tried = {"tries": entry["tries"] + 1, "solved": bool(entry["solved"] or verdict)}
    learner.keep("exercises", exercise.name, {**entry, **tried})
    return verdict


def judge(exercise: Exercise, answer: Answer) -> CheckVerdict:
    """Return the verdict on an answer to an exercise, without storing anything."""
    wanted, seen = exercise.wanted, exercise.results(answer)
    wrong = [index for index, right in enumerate(wanted) if not are_alike(seen[index], right)]
    name, number = exercise.name, len(wanted)
    if not wrong:
        line = f"RIGHT  {name}: right in all {number} cases, each tried on the engine."
        return CheckVerdict(name, number, number, (line,))
    if _is_unwritten(seen):
        lines = [
            f"NOT YET  {name}: nothing written yet.",
            f"Hint 1 of 3: {exercise.hints[0]}",
            f'More: qf.hint("{name}", 2).',
        ]
        return CheckVerdict(name, 0, number, tuple(lines), "", True, exercise.cases[0], answer)
    first, right = wrong[0], number - len(wrong)
    lines = [
        f"NOT YET  {name}: right in {right} of {number} cases.",
        _describe_difference(exercise, exercise.cases[first], seen[first], wanted[first]),
    ]
    if form := _describe_form(exercise, seen):
        lines.append(form)
    if found := _diagnose(exercise, answer, seen, wrong):
        lines.append(f'This looks like "{found}": {exercise.misconceptions[found].message}')
    lines.append(f'Stuck? qf.hint("{name}", 1), then 2, then 3.')
    return CheckVerdict(name, right, number, tuple(lines), found, False, exercise.cases[first], answer)


def _diagnose(exercise: Exercise, answer: Answer, seen: Sequence[Any], wrong: Sequence[int]) -> str:
    """Return the name of the misconception that an answer shows, or "" if it matches no known one."""
    if any(known.sign for known in exercise.misconceptions.values()):
        returned = [exercise.try_answer(answer, exercise.cases[index]) for index in wrong]
        for name, known in exercise.misconceptions.items():
            if all(map(known.shows_in, returned)):
                return name
    # The results have to be equal in all cases, and not only in those that are wrong. If the misconception is
    # wrong where the learner is right, the learner does not have it; and a match in one or two wrong cases
    # is mostly chance.
    for name, results in exercise.believed.items():
        if all(map(are_alike, results, seen)):
            return name
    return ""


def _describe_form(exercise: Exercise, seen: Sequence[Any]) -> str:
    """Return a sentence on the expected values if an answer returns too few or too many, or else ""."""
    parts = exercise.parts
    first = next((value for value in seen if not isinstance(value, Failure)), None)
    if not parts or first is None or (isinstance(first, tuple) and len(first) == len(parts)):
        return ""
    given = len(first) if isinstance(first, tuple | dict | frozenset) else 1
    order = f"{_COUNTS[len(parts)]} are wanted, in this order: {format_names(parts)}"
    said = f"{_COUNTS.get(given, str(given)).capitalize()} value{'s' if given != 1 else ''}"
    form = f"Return them together, as in: return {', '.join('abcd'[: len(parts)])}"
    which = _name_part(exercise, seen) if given == 1 else ""
    return f"{said} {'were' if given != 1 else 'was'} returned, and {order}. {which}{form}"


_COUNTS = {0: "no", 1: "one", 2: "two", 3: "three", 4: "four"}


def _name_part(exercise: Exercise, seen: Sequence[Any]) -> str:
    """Return a sentence that says which of the expected values a single returned value is equal to."""
    pairs = [
        (value, wanted) for value, wanted in zip(seen, exercise.wanted, strict=True) if wanted is not None
    ]
    for chosen, where in ((pairs, ""), (pairs[:1], " in the first case")):
        for number, part in enumerate(exercise.parts):
            if all(are_alike(value, wanted[number]) for value, wanted in chosen):
                return f"Yours is {part}{where}. "
    return "Your answer matches none of these. "


def _describe_difference(exercise: Exercise, case: tuple[Any, ...], seen: Any, wanted: Any) -> str:
    call = exercise.call(case)
    if wanted == FINE:
        call = f"Tried with {call[len(exercise.name) + 1 : -1]}"
    if isinstance(seen, Failure):
        return f"{call} ended with {seen!r}".rstrip(".") + "."
    if wanted == FINE:
        return f"{call}: {write_briefly(seen, str).rstrip('.')}."
    return f"{call} gave {write_briefly(seen)}; the broker says {wanted!r}."


def _is_unwritten(seen: list[Any]) -> bool:
    if all(isinstance(result, Failure) and result.is_unwritten for result in seen):
        return True
    return all(result is None or result is Ellipsis for result in seen)


def show_progress() -> None:
    """Print the learner's progress in exercises and challenges, with the tries and hints, and in predictions.

    >>> show_progress()
    01-thresholds ...
    """
    print(*_report(), sep="\n")
    file = learner.progress_file()
    print(f"Kept in {file}." if file is not None else "Nothing is kept on this machine.")


def _report() -> list[str]:
    """Return the learner's progress as lines of text, one notebook after the other."""
    lines, done, number = [], 0, 0
    for theme in themes():
        tasks, entries = exercises(theme), _entries_of(theme)
        right = sum(entry["solved"] for entry in entries.values())
        lines.append(f"{theme:<20} {right} of {len(tasks)} solved")
        done, number = done + right, number + len(tasks)
        width = max(map(len, entries)) + 4
        for exercise in tasks:
            entry = entries[exercise.name]
            mark = "[x]" if entry["solved"] else "[ ]"
            lines.append(f"  {mark} {exercise.name:<{width}} {exercise.title}{_describe_effort(entry)}")
    total = f"Exercises: {done} of {number} solved."
    return [*lines, *report_challenges(), total, *report_calibration(learner.read("predictions"))]


def _entries_of(theme: str) -> dict[str, learner.Entry]:
    return {asked.name: learner.entry_of("exercises", asked.name) for asked in exercises(theme)}


def _describe_effort(entry: learner.Entry) -> str:
    parts = [
        f"{entry[key]} {one if entry[key] == 1 else key}"
        for key, one in (("tries", "try"), ("hints", "hint"))
        if entry[key]
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _write_solutions(folder: Path) -> int:
    """Copy the solutions of the exercises, which learners' folders lack, to a new folder."""
    if folder.exists():
        raise RefusalError(f"{folder} exists already, and its files may be yours; rename or delete it.")
    shutil.copytree(kit_path("exercises") / "solutions", folder)
    print(f"The solutions are in {folder}.")
    return 0


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``exercises`` to the ``qflow`` command."""
    parser = rooms.add_parser(
        "exercises",
        description="Show which exercises and challenges are solved, with what effort, and how the "
        "predictions went.",
    )
    parser.add_argument(
        "action",
        nargs="?",
        choices=("progress", "solutions"),
        help=f"progress by default; solutions writes them to ./{_SOLUTIONS}, for teachers",
    )
    add_json(parser)


def run(chosen: argparse.Namespace) -> int:
    """Run ``qflow exercises``; return the exit status."""
    if chosen.action == "solutions":
        return _write_solutions(Path(_SOLUTIONS).absolute())
    if not chosen.json:
        show_progress()
        return 0
    solved = {theme: _entries_of(theme) for theme in themes()}
    kept_else = {"challenges": progress(), "predictions": learner.read("predictions")}
    print(json.dumps({"exercises": solved, **kept_else}, indent=2))
    return 0
