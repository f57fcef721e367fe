"""Book questions: what chapters and exercises ask their readers, asked by a page that has no kernel.

A notebook asks with a widget, and a widget asks its kernel. In a page of the book each such output is
replaced by a place that holds the question, and what is known of it when the site is built: what came, what
is said of a guess, what the engine showed, the hints. That is packed, so that it is not met by accident
before the reader has answered. ``page/ask.js`` draws the places. An exercise needs the engine itself: its
code is checked by :func:`answer`, in the worker that the first page of the site has, too.

The words are those of the notebooks: :mod:`qflow.teaching.predictions`, :mod:`qflow.teaching.errata`
and :mod:`qflow.teaching.checking`.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import traceback
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.labs.html_export import pack_text, script_json, to_fragment
from qflow.teaching.cases import case_picture
from qflow.teaching.checking import judge
from qflow.teaching.errata import to_store
from qflow.teaching.exercise import Answer, Exercise, exercises, write_briefly
from qflow.teaching.predictions import ChapterQuestion, calibration_words, questions

if TYPE_CHECKING:
    from nbformat import NotebookNode

_COMPARED = re.compile(r"^(\w+) {2,}(.+?) {3}you made no guess$", re.MULTILINE)
_GAME = re.compile(r'qf\.errata_game\("(\w+)"\)')
_ALONE = ("comparison", "progress")
"""Places shown without their cell's code, which would give the answers away or do nothing in a page."""
_NO_ENGINE = ("13-fleet",)
"""Exercises that need more than the engine: a library for graphs."""


def ask_in_page(book: NotebookNode, path: str) -> bool:
    """Insert places for questions into a notebook, given by its path; return whether there are any."""
    from nbformat.v4 import new_output  # only a build has it

    room, _, name = path.removesuffix(".ipynb").partition("/")
    if room == "exercises":
        places = _place_exercises(book, name) if name not in _NO_ENGINE else []
    else:
        places = _place_predictions(book, name) + _place_games(book)
    for cell, place in places:
        if place["kind"] in _ALONE:
            cell["source"] = ""
        cell["outputs"].append(new_output("display_data", {"text/html": _write_place(place)}))
    return bool(places)


_Place = tuple[Any, dict[str, Any]]
"""A cell, and the questions below it."""


def _place_predictions(book: NotebookNode, chapter: str) -> list[_Place]:
    """Return the questions with fields, and the comparison, which includes the labs' questions."""
    try:
        known = questions(chapter)
    except RefusalError:
        return []
    asked = {question.sentence(): question for question in known.values()}
    places = []
    for cell in book.cells:
        for output in list(cell.get("outputs", ())):
            answers = dict(_COMPARED.findall(str(output.get("text", ""))))
            data = output.get("data", {})
            question = asked.get(data.get("text/plain")) if len(data) == 1 else None
            if question is not None:
                places.append((cell, {"kind": "prediction", **_pose(question)}))
            elif answers:
                packed = [_pose(known[name]) | _pack(_answer(known[name], answers[name])) for name in answers]
                places.append((cell, {"kind": "comparison", "asked": packed, "words": calibration_words()}))
            else:
                continue
            cell["outputs"].remove(output)
    return places


def _pose(question: ChapterQuestion) -> dict[str, Any]:
    asked = {"id": f"{question.chapter}/{question.name}", "question": question.question}
    return {**asked, "choices": question.choices, "certainties": question.certainties}


def _answer(question: ChapterQuestion, printed: str) -> dict[str, Any]:
    """Return the printed outcome of a comparison, and the comment on each guess."""
    came = printed.strip()
    value = came if question.choices else float(came)
    said = question.sayings(int(value) if isinstance(value, float) and value.is_integer() else value)
    return {"came": came, "within": question.within, "said": said}


def _place_games(book: NotebookNode) -> list[_Place]:
    places = []
    for cell in book.cells:
        if found := _GAME.search(cell.source):
            page, kept = to_store(found[1])
            cell["outputs"] = []
            places.append((cell, {"kind": "errata", "page": page, **_pack(kept)}))
    return places


def _place_exercises(book: NotebookNode, theme: str) -> list[_Place]:
    """Return the boxes for code, and drop the cells that check it: on a page a button does."""
    cells = {cell.id: cell for cell in book.cells}
    tasks = exercises(theme)
    # Cells have the ids of their exercises.
    left_out = {f"{task.name}-check" for task in tasks}
    book["cells"] = [cell for cell in book.cells if cell.id not in left_out]
    setup = cells["setup"].source
    places: list[_Place] = []
    for task in tasks:
        cell = cells[task.name]
        asked = {
            "id": f"exercises/{theme}/{task.name}",
            "title": task.title,
            "setup": setup,
            "code": cell.source,
        }
        places.append((cell, {"kind": "exercise", **asked, **_pack(task.hints)}))
    ids = [place["id"] for _, place in places]
    return [*places, (cells["progress"], {"kind": "progress", "ids": ids})]


def _pack(value: object) -> dict[str, str]:
    return {"packed": pack_text(json.dumps(value).encode())}


def _write_place(place: Mapping[str, Any]) -> str:
    """Return the element in which a script draws; at first it holds the question alone."""
    text = f'<p class="qf-place-text">{escape(place["question"])}</p>' if "question" in place else ""
    data = f'<script type="application/json">{script_json(place)}</script>'
    return f'<div class="qf-place">{text}{data}</div>'


def answer(asked: str) -> str:
    """Return, as JSON, the verdict on code for an exercise, or the picture of its first failed case."""
    given = json.loads(asked)
    _, theme, name = given["id"].split("/")
    exercise = next(task for task in exercises(theme) if task.name == name)
    # A learner's print belongs below the code, not among the worker's answers.
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            function = _run_code(exercise, given["setup"], given["code"])
        except RefusalError as error:
            found = {"passed": False, "lines": [f"NOT YET  {name}: it could not be run.", str(error)]}
        else:
            found = (_show_case if given.get("shows") else _check)(exercise, function)
    return json.dumps({**found, "printed": write_briefly(printed.getvalue(), str)})


def _run_code(exercise: Exercise, setup: str, code: str) -> Answer:
    """Run a learner's code; return the function it defines."""
    names: dict[str, Any] = {}
    try:
        exec(compile(setup, "setup", "exec"), names)
        exec(compile(code, exercise.name, "exec"), names)
    # SystemExit as well: `exit()` in a learner's code must not end the page's Python.
    except (Exception, SystemExit) as error:
        raise RefusalError(_describe_error(error, exercise.name)) from None
    if exercise.name not in names:
        raise RefusalError(f"The code defines no function of the name {exercise.name}.")
    function: Answer = names[exercise.name]
    return function


def _check(exercise: Exercise, function: Answer) -> dict[str, Any]:
    verdict = judge(exercise, function)
    # The last line says what to type for a hint, where the page has a button.
    lines = verdict.lines if verdict else verdict.lines[:-1]
    shows = exercise.lab == "run" and not verdict and not verdict.is_unwritten
    return {"passed": bool(verdict), "lines": lines, "hints": int(verdict.is_unwritten), "shows": shows}


def _show_case(exercise: Exercise, function: Answer) -> dict[str, Any]:
    """Return an element that plays the engine's run of the first failed case."""
    case = judge(exercise, function).case
    if case is None:
        return {"lines": ["This answer is right in all cases."]}
    try:
        picture = case_picture(exercise, case, function)
    except RefusalError as error:
        return {"lines": [str(error)]}
    shown = f"The broker's behaviour: {exercise.call(case)}"
    return {"lines": [shown], "picture": to_fragment(picture, plays=True)}


def _describe_error(error: BaseException, file: str) -> str:
    """Return the error of a learner's code on one line, with its line number."""
    places = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    line = error.lineno if isinstance(error, SyntaxError) else places[-1] if places else None
    said = error.msg if isinstance(error, SyntaxError) else write_briefly(error, str)
    return f"{f'Line {line}: ' if line else ''}{type(error).__name__}: {said}"
