"""Predictions: questions of a chapter, guesses before running it, and their comparison at its end.

A chapter asks questions with :meth:`Predictions.ask`, and shows the answers with :meth:`Predictions.compare`.
The questions are in ``data/predictions.toml``, together with the comments on wrong guesses, so that the cells
of a chapter do not contain the answers. In JupyterLab a question has a field for the guess, or a mark to drag
in the picture of a lab. The same call also accepts the guess as an argument and prints plain text, so that it
works without widgets, in a terminal and on paper. Without a guess, both calls always print the same text,
which the notebook tests compare.

In a chapter's source::

    # %% id="predict"
    predictions = qf.Predictions("01-thresholds")
    predictions.ask("at_most")

    # %% id="lab"
    predictions.ask("on", "off", lab=qf.flow_lab())

and at its end, with the results of the cells in between::

    # %% id="compare"
    predictions.compare(on=above_stop.msgDepth, off=below_resume.msgDepth, at_most=full.msgDepth)

A guess that was typed into a field or made with a mark is stored with the learner's progress, so that running
the cell again does not lose it. A guess in the cell itself takes precedence, and is not stored.
"""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from qflow.displays import has_kernel
from qflow.kit import RefusalError, kit_path
from qflow.teaching import learner
from qflow.teaching.learner import Guess, make_plain

if TYPE_CHECKING:
    from qflow.labs.lab import Lab

_FAIR = 15
"""The percentage points by which certainty and success may differ for the certainty to be well judged."""

_HAD = "You had {} of {}."
_SURE = "You were {} % sure on average, and right in {} %: {}."
_JUDGED = ("well judged", "surer than you had reason to be", "you know more than you trust yourself with")
_UNMADE = "You made no predictions here."
_REVISIT = "Worth another look: {}."


@dataclass
class ChapterQuestion:
    """A question of a chapter, with the learner's guess if one was made."""

    certainties: ClassVar[tuple[int, ...]] = (50, 60, 70, 80, 90, 100)  # the choices, in percent

    name: str
    question: str
    guess: Guess | None = None
    choices: tuple[str, ...] = ()  # the possible answers; empty if the answer is a number
    within: float = 0  # the error up to which a number is right
    sure: int | None = None  # the certainty of the guess in percent
    revisit: str = ""  # the concept to look at again after a wrong guess
    because: Mapping[str, str] = field(default_factory=dict)  # comments on typical wrong guesses
    mark: str = ""  # the kind of mark in a lab, a key of qflow.labs.asking.MARKS, and a message's name
    is_typed: bool = False  # whether the guess is made in a field or a picture, and not in the cell
    chapter: str = ""

    def sentence(self) -> str:
        """Return the question and the guess as one line of text."""
        asked = f"{self.question} ({' or '.join(self.choices)})" if self.choices else self.question
        if self.guess is None:
            return f"{asked} No guess yet."
        sure = "" if self.sure is None else f" ({self.sure} % sure)"
        return f"{asked} Your guess: {self.guess}{sure}."

    def keep(self, guess: Guess | None, sure: int | None) -> None:
        """Set the guess and its certainty, and store them as progress; a guess of None deletes it."""
        self.guess, self.sure = guess, sure
        learner.remember(self.chapter, self.name, guess, sure)

    def is_right(self, answer: Guess) -> bool:
        """Return whether the guess is right: a text, ignoring case, or a number within the margin."""
        if isinstance(answer, str) or isinstance(self.guess, str):
            return _plain(self.guess) == _plain(answer)
        return self.guess is not None and bool(abs(self.guess - answer) <= self.within)

    def verdict(self, answer: Guess) -> str:
        """Return a clause on the guess: whether it is right, or which misunderstanding it shows."""
        if self.guess is None:
            return "you made no guess"
        if self.is_right(answer):
            return "you had it"
        known = (text for wrong, text in self.because.items() if _plain(wrong) == _plain(self.guess))
        return ": ".join(filter(None, [f"you said {self.guess}", next(known, "")]))

    def comment(self, answer: Guess) -> str:
        """Return the comment on the guess, to be shown together with the answer."""
        verdict = self.verdict(answer)
        said = f"{verdict[0].upper()}{verdict[1:]}."
        is_wrong = self.guess is not None and not self.is_right(answer)
        return f"{said} {_REVISIT.format(self.revisit)}" if is_wrong and self.revisit else said

    def sayings(self, answer: Guess) -> dict[str, str]:
        """Return the comment on each kind of guess, keyed by guess, for a page without a kernel."""
        guesses: dict[str, Guess | None] = {"none": None, "right": answer, "other": "{}"}
        guesses |= {wrong: wrong for wrong in self.because}
        return {name: replace(self, guess=guess).comment(answer) for name, guess in guesses.items()}


def _describe_calibration(answered: Sequence[tuple[ChapterQuestion, Guess]]) -> list[str]:
    """Return lines on the number of right guesses, the learner's certainty, and the concepts to revisit."""
    made = [(asked, asked.is_right(answer)) for asked, answer in answered if asked.guess is not None]
    if not made:
        return [f"{_UNMADE} To make them, answer where the chapter asks and run again."]
    said = [_HAD.format(sum(is_right for _, is_right in made), len(made))]
    said += _compare_certainty([(asked.sure, is_right) for asked, is_right in made if asked.sure is not None])
    # A dict, as several questions may be about the same concept.
    again = dict.fromkeys(asked.revisit for asked, is_right in made if asked.revisit and not is_right)
    return said + [_REVISIT.format(concept) for concept in again]


def report_calibration(kept: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return lines on the predictions in all chapters, given the entries in the progress file."""
    entries = [entry for chapter in kept.values() for entry in chapter.values() if isinstance(entry, dict)]
    if not entries:
        return ["No predictions yet."]
    right = sum(bool(entry.get("right")) for entry in entries)
    sure = [
        (entry["sure"], bool(entry.get("right"))) for entry in entries if isinstance(entry.get("sure"), int)
    ]
    return [f"Predictions: {right} of {len(entries)} right.", *_compare_certainty(sure)]


def _compare_certainty(pairs: Sequence[tuple[int, bool]]) -> list[str]:
    """Return a line that compares certainty with success, for pairs of a certainty and a success."""
    if not pairs:
        return []
    sure = round(sum(percent for percent, _ in pairs) / len(pairs))
    right = round(100 * sum(is_right for _, is_right in pairs) / len(pairs))
    remark = _JUDGED[0 if abs(sure - right) <= _FAIR else 1 if sure > right else 2]
    return [_SURE.format(sure, right, remark)]


def calibration_words() -> dict[str, Any]:
    """Return the texts for the comparison of several guesses, for a page without a kernel."""
    return {"had": _HAD, "sure": _SURE, "judged": _JUDGED, "fair": _FAIR, "none": _UNMADE}


class _ShownQuestions:
    """The display of questions in a notebook: sentences, and with a kernel a field or the lab that asks."""

    def __init__(self, *asked: ChapterQuestion, lab: Lab | None = None) -> None:
        self.asked, self.lab = asked, lab

    def __repr__(self) -> str:
        return "\n".join(asked.sentence() for asked in self.asked)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        # The text is made before the field, so that it does not contain a guess that is typed later.
        said = repr(self)
        widget = self.lab or (_field(self.asked[0]) if self.asked[0].is_typed else None)
        bundle: dict[str, Any] = {} if widget is None else dict(widget._repr_mimebundle_(**kwargs))
        return {**bundle, "text/plain": said}


def _show(question: _ShownQuestions) -> None:
    # Only a kernel can display widgets.
    if has_kernel():
        importlib.import_module("IPython.display").display(question)
    else:
        print(question)


def _field(asked: ChapterQuestion) -> Any:
    """Return the widget of a field for the guess, or None if ipywidgets is not installed."""
    try:
        widgets = importlib.import_module("ipywidgets")
    except ImportError:
        return None
    # Screen readers read the tooltip, which is the question, as the name of the field.
    if asked.choices:
        options = [("no guess", ""), *((choice, choice) for choice in asked.choices)]
        entry = widgets.Dropdown(options=options, value="", description="Your guess")
    else:
        entry = widgets.Text(placeholder="a number", description="Your guess", continuous_update=False)
    certainties = [("not said", 0), *((f"{percent} %", percent) for percent in asked.certainties)]
    sure = widgets.Dropdown(options=certainties, value=0, description="How sure")
    said = widgets.HTML(value="")
    entry.tooltip = sure.tooltip = asked.question
    if asked.guess is not None:
        entry.value = str(asked.guess)
        sure.value = asked.sure if asked.sure in asked.certainties else 0

    def note(_change: Any) -> None:
        guess = (entry.value or None) if asked.choices else _number(entry.value)
        asked.keep(guess, sure.value or None)
        is_text = not asked.choices and bool(entry.value.strip()) and guess is None
        said.value = "Please type a number." if is_text else "Kept." if guess is not None else ""

    entry.observe(note, "value")
    sure.observe(note, "value")
    return widgets.VBox([widgets.HTML(value=asked.question), widgets.HBox([entry, sure, said])])


def _number(text: str) -> int | float | None:
    cleaned = text.strip().replace(",", "")
    with suppress(ValueError):
        return int(cleaned)
    with suppress(ValueError):
        return float(cleaned)
    return None


def questions(chapter: str) -> dict[str, ChapterQuestion]:
    """Return the questions of a chapter in their order, keyed by name; refuse an unknown chapter."""
    with open(kit_path("data") / "predictions.toml", "rb") as file:
        known = tomllib.load(file)
    if chapter not in known:
        listed = ", ".join(known)
        raise RefusalError(f"There are no questions for the chapter {chapter!r}; there are for {listed}.")
    return {
        name: ChapterQuestion(name, **{**asked, "choices": tuple(asked.get("choices", ()))}, chapter=chapter)
        for name, asked in known[chapter].items()
    }


class Predictions:
    """The predictions of one chapter: its questions, the learner's guesses and the final comparison.

    Parameters:
        chapter: The name of the chapter, such as ``"01-thresholds"``, under which its questions are defined
            and its guesses stored.

    >>> predictions = Predictions("01-thresholds")
    >>> predictions.ask("on", guess=900, sure=90)
    Messages arrive faster than they are read. ... turns ON? Your guess: 900 (90 % sure).
    >>> predictions.compare(on=901)
    on   901   you said 900: 900 is not more than 900
    <BLANKLINE>
    You had 0 of 1.
    You were 90 % sure on average, and right in 0 %: surer than you had reason to be.
    Worth another look: ON means more than the stop threshold, never equal to it (FC-14).
    """

    def __init__(self, chapter: str) -> None:
        self.chapter = chapter
        self.asked: dict[str, ChapterQuestion] = {}
        self._lab_answers: dict[str, Guess] = {}

    def ask(
        self, *names: str, guess: Guess | None = None, sure: int | None = None, lab: Lab | None = None
    ) -> None:
        """Ask questions of the chapter, and record the guesses; asking again replaces earlier guesses.

        Parameters:
            *names: The names of the questions; all questions of the chapter if no names are given.
            guess: The guess, a number or a state, if there is one question; with None, the guess is made in a
                field or in the lab.
            sure: The learner's certainty in percent, 0 to 100.
            lab: A lab that asks the questions in its picture, such as ``qf.flow_lab()``; its run has to
                answer them in the given order. Without a lab, each question has a field.

        Raises:
            RefusalError: If the chapter has no such question, or the lab cannot ask it.
            ValueError: If `sure` is not a percentage, `guess` is not one of the choices, or a guess is given
                for several questions.
        """
        known = questions(self.chapter)
        if unknown := [name for name in names if name not in known]:
            listed = ", ".join(known)
            raise RefusalError(f"{self.chapter} has no question {unknown[0]!r}; there are: {listed}.")
        wanted = names or list(known)
        if guess is not None and len(wanted) != 1:
            raise ValueError(f"a guess is for one question; got {len(wanted)}: {', '.join(wanted)}")
        asked = [self._note(known[name], guess, sure) for name in wanted]
        if lab is not None:
            _show(_ShownQuestions(*asked, lab=lab.ask(*asked)))
            self._lab_answers |= lab.asking.answers()
            return
        for question in asked:
            _show(_ShownQuestions(question))

    def _note(self, asked: ChapterQuestion, guess: Guess | None, sure: int | None) -> ChapterQuestion:
        """Record a question as asked, with the given guess or else the stored one."""
        # Convert NumPy numbers to Python numbers, which JSON can represent.
        guess, sure = make_plain(guess), make_plain(sure)
        if sure is not None and not 0 <= sure <= 100:
            raise ValueError(f"sure must be a percentage from 0 to 100, got {sure!r}")
        choices = asked.choices
        if guess is not None and choices and _plain(guess) not in {_plain(choice) for choice in choices}:
            raise ValueError(f"the guess must be one of {', '.join(choices)}, got {guess!r}")
        asked.is_typed = guess is None
        # Running the cell again, or all cells, must not lose a typed guess.
        asked.guess, asked.sure = (
            learner.recall(self.chapter, asked.name) if asked.is_typed else (guess, sure)
        )
        self.asked[asked.name] = asked
        return asked

    def compare(self, **answers: Guess) -> None:
        """Print each answer beside its guess, then how well the certainty was judged; store the results.

        Parameters:
            **answers: The right answers by the name of the question, except for questions that a lab asked.

        Raises:
            ValueError: If an answer belongs to a question that was not asked, or a question has no answer.
        """
        answers = {**self._lab_answers, **answers}
        if unknown := sorted(set(answers) ^ set(self.asked)):
            raise ValueError(f"questions and answers do not match: {', '.join(unknown)}")
        answers = {name: make_plain(answers[name]) for name in self.asked}
        answered = [(self.asked[name], answer) for name, answer in answers.items()]
        widths = [
            max((len(str(part)) for part in column), default=0) for column in (answers, answers.values())
        ]
        for asked, answer in answered:
            print(f"{asked.name:<{widths[0]}}   {answer!s:>{widths[1]}}   {asked.verdict(answer)}")
        print("", *_describe_calibration(answered), sep="\n")
        kept = {
            asked.name: {"right": asked.is_right(answer), "sure": asked.sure}
            for asked, answer in answered
            if asked.guess is not None
        }
        if kept:
            learner.keep("predictions", self.chapter, kept)


def _plain(value: Guess | None) -> str:
    return str(value).strip().casefold()
