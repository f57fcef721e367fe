"""Book questions: the questions of chapters and exercises, in pages that have no kernel.

A notebook asks a question with a widget, which needs a kernel. In a page of the book each such output is
replaced by a *place*: an element with the question and everything that is known about it when the site is
built, such as the outcome, the comment on each guess, the run of the engine, and the hints. These are
compressed, so that nobody reads them by accident before answering. ``page/ask.js`` draws the places. An
exercise needs the engine itself: :func:`answer` checks its code, in the same worker that runs Python for
the first page of the site.

The wording is that of the notebooks: :mod:`qflow.teaching.predictions`, :mod:`qflow.teaching.errata`
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
"""Kinds of places whose cell's code is hidden: it would reveal the answers, or has no effect in a page."""
_NO_ENGINE = ("13-fleet",)
"""Exercises that a page cannot check, as they need a graph library besides the engine."""


def ask_in_page(book: NotebookNode, path: str) -> bool:
    """Replace the questions of a notebook by places, in the notebook itself; return whether it has any."""
    from nbformat.v4 import new_output  # installed only where a site is built

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
"""A cell of a notebook, and the place to insert below it, as the data that ``page/ask.js`` draws."""


def _place_predictions(book: NotebookNode, chapter: str) -> list[_Place]:
    """Remove the prediction widgets and comparisons from a chapter's outputs; return places for them."""
    # The place of a comparison includes the questions that labs ask, as the printed comparison does.
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
    """Return the printed outcome of a question, its tolerance, and the comment on each kind of guess."""
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
    """Return a place for each exercise, and remove the cells that check it: in a page a button does that."""
    cells = {cell.id: cell for cell in book.cells}
    tasks = exercises(theme)
    # A cell has the name of its exercise as its id; the cell that checks it adds "-check".
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
    """Return the HTML element of a place: the text of the question, and the data for the script."""
    text = f'<p class="qf-place-text">{escape(place["question"])}</p>' if "question" in place else ""
    data = f'<script type="application/json">{script_json(place)}</script>'
    return f'<div class="qf-place">{text}{data}</div>'


def answer(asked: str) -> str:
    """Check a reader's code for an exercise, given as JSON; return the lines to show as JSON."""
    # The request has the ``id`` of the exercise, its ``setup`` code and the reader's ``code``. If ``shows``
    # is true, the answer has the picture of the first failed case instead of the verdict.
    given = json.loads(asked)
    _, theme, name = given["id"].split("/")
    exercise = next(task for task in exercises(theme) if task.name == name)
    # What a learner's code prints is shown below the code; it must not mix with the worker's own messages.
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            function = _run_code(exercise, given["setup"], given["code"])
        except RefusalError as error:
            found = {"passed": False, "lines": [f"NOT YET  {name}: it could not be run.", str(error)]}
        else:
            found = (_show_case if given.get("shows") else _check)(exercise, function)
    return json.dumps({**found, "printed": write_briefly(printed.getvalue(), str)})


def _run_code(exercise: Exercise, setup: str, code: str) -> Answer:
    """Run an exercise's setup and a learner's code; return the function that the code defines."""
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
    # The last line of a failed verdict says what to type for a hint; the page has a button for that.
    lines = verdict.lines if verdict else verdict.lines[:-1]
    shows = exercise.lab == "run" and not verdict and not verdict.is_unwritten
    return {"passed": bool(verdict), "lines": lines, "hints": int(verdict.is_unwritten), "shows": shows}


def _show_case(exercise: Exercise, function: Answer) -> dict[str, Any]:
    """Return an HTML element that replays the engine's run of the first failed case."""
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
    """Return a one-line description of an error in a learner's code, with the line number if it is known."""
    places = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    line = error.lineno if isinstance(error, SyntaxError) else places[-1] if places else None
    said = error.msg if isinstance(error, SyntaxError) else write_briefly(error, str)
    return f"{f'Line {line}: ' if line else ''}{type(error).__name__}: {said}"
