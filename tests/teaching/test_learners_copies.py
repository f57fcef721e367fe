"""Learners' copies of the chapters: what a chapter asks is not answered above the question."""

import json
import re
from pathlib import Path

import pytest

from qflow.launch.chapters import _strip_outputs
from qflow.teaching.predictions import questions

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
CHAPTERS = [
    path.stem
    for path in sorted(NOTEBOOKS.glob("[01][0-9]-*.ipynb"))
    if "predictions.ask(" in path.read_text()
]

EXCEPTIONS: dict[tuple[str, str], str] = {
    ("01-thresholds", "at_most"): "1,000 is the limit too: whether it fits to the message is the question",
    ("02-bytes-and-counts", "state"): "ON is what the question begins with: whether it stays so is asked",
    ("03-held-completions", "complete"): "4 is the number of the last command",
    ("04-capacity", "again"): "165 is what the question begins with: whether the queue gets there again",
    ("05-message-groups", "third"): "A-2 is one of the messages that lie on the queue",
    ("08-several-queues", "holders"): "2 is a stop threshold",
    ("10-how-it-was-designed", "java"): "1 is the number of a chapter to read first",
    ("11-errata", "true"): "2 is the number of the second sentence",
    ("13-spark", "components"): "24 is how many producers there are; what follows from that is the question",
    ("14-under-the-hood", "observers"): "1 is the number of a chapter to read first",
    ("15-your-own-clients", "lost"): "0 is the number of the first chapter",
    ("15-your-own-clients", "timeout"): "3 is the number of a chapter to read first",
}
"""Answers that stand above their question all the same, and why."""

PLAIN_WORDS = {"yes", "no", "ON", "OFF"}
"""Choices that any text holds."""


def text_of(cell: dict) -> str:
    """Return all that a reader of a cell can see: what it says, and what it showed when it ran."""
    return "".join(cell["source"]) + json.dumps(cell.get("outputs", []))


def answers(name: str) -> dict[str, str]:
    """Return what the chapter compares guesses with, from the stored output of the kit's own notebook."""
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())["cells"]
    (compare,) = (cell for cell in cells if "predictions.compare(" in "".join(cell["source"]))
    printed = "".join("".join(output.get("text", [])) for output in compare["outputs"])
    found = re.findall(r"^(\w+) {2,}(.+?) {3}you made no guess$", printed, re.MULTILINE)
    return {question: answer.strip() for question, answer in found}


def above(name: str, question: str) -> str:
    """Return all that a learner sees up to a question, its own sentence included."""
    copied = json.loads(_strip_outputs(f"{name}.ipynb", (NOTEBOOKS / f"{name}.ipynb").read_bytes()))
    seen = []
    for cell in copied["cells"]:
        seen.append(text_of(cell))
        asked = re.search(r"predictions\.ask\(([^)]*)", "".join(cell["source"]))
        if asked and (f'"{question}"' in asked[1] or '"' not in asked[1]):
            return "\n".join([*seen, questions(name)[question].question])
    raise AssertionError(f"{name} never asks {question}")


def is_in(text: str, value: str) -> bool:
    """Return whether a text holds a value as a whole: a number with or without its commas, a word."""
    forms = {value, f"{int(value):,}"} if value.isdigit() else {value}
    return any(re.search(rf"(?<![\w.,-]){re.escape(form)}(?![\w]|[-.,]\d)", text) for form in forms)


def test_a_number_is_found_as_a_whole():
    assert is_in("It is 1,000.", "1000") and is_in("up to 901, not", "901")
    assert not is_in("1,901 or 901.5 or 9010 or x901", "901")


@pytest.mark.parametrize("name", CHAPTERS)
def test_every_question_is_asked_and_answered_once(name):
    assert set(answers(name)) == set(questions(name))


@pytest.mark.parametrize(
    ("name", "question"), [(name, question) for name in CHAPTERS for question in questions(name)]
)
def test_no_answer_stands_above_its_question(name, question):
    answer, choices = answers(name)[question], questions(name)[question].choices
    if answer in PLAIN_WORDS:
        return
    seen = above(name, question)
    # Of choices the right one may be named with others.
    others = [choice for choice in choices if choice != answer and is_in(seen, choice)]
    is_told = is_in(seen, answer) and not others
    assert is_told == ((name, question) in EXCEPTIONS), f"{name}: {answer} stands above {question!r}"


@pytest.mark.parametrize("name", CHAPTERS)
def test_no_output_is_left_and_the_questions_are_closed(name):
    copied = json.loads(_strip_outputs(f"{name}.ipynb", (NOTEBOOKS / f"{name}.ipynb").read_bytes()))
    code = [cell for cell in copied["cells"] if cell["cell_type"] == "code"]
    assert code and not any(cell["outputs"] or cell["execution_count"] for cell in code)
    for cell in code:
        if re.search(r"predictions\.(ask|compare)\(", "".join(cell["source"])):
            assert cell["metadata"]["jupyter"]["source_hidden"], cell["id"]
