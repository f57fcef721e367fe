"""Showing a prediction's question: as text anywhere, and with a field to fill in where widgets work."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Protocol

CERTAINTIES = (50, 60, 70, 80, 90, 100)
"""What one can choose from to say how sure one is, in percent."""


class Asked(Protocol):
    """A question that can be shown, as :class:`qflow.teaching.predictions.Prediction` is one."""

    name: str
    question: str
    guess: Any
    sure: int | None

    @property
    def choices(self) -> tuple[str, ...]:
        """The states to choose from; empty if a number is asked for."""

    is_typed: bool

    def sentence(self) -> str:
        """Say in one line what is asked and what was guessed."""

    def keep(self, guess: Any, sure: int | None) -> None:
        """Take a guess that was typed; None takes it back."""


class Question:
    """What a notebook displays for a question.

    Readers without a kernel, and the notebook tests, get the sentence; JupyterLab gets the field too.

    Parameters
    ----------
    asked
        The question; the field writes the guess into it.
    """

    def __init__(self, asked: Asked) -> None:
        self.asked = asked

    def __repr__(self) -> str:
        return self.asked.sentence()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        # The text is taken before a field exists: it says what the call said, not what was typed later.
        bundle: dict[str, Any] = {"text/plain": self.asked.sentence()}
        if self.asked.is_typed and (field := _field(self.asked)) is not None:
            bundle = {**field._repr_mimebundle_(**kwargs), **bundle}
        return bundle


def show(asked: Asked) -> None:
    """Display a question in a notebook, or print it elsewhere.

    Parameters
    ----------
    asked
        The question to show.
    """
    if _in_notebook():
        importlib.import_module("IPython.display").display(Question(asked))
    else:
        print(asked.sentence())


def _in_notebook() -> bool:
    # Only a kernel can show anything; and whoever runs in one has imported IPython already.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def _field(asked: Asked) -> Any:
    """Make the field, or return None where there are no widgets."""
    try:
        widgets = importlib.import_module("ipywidgets")
    except ImportError:
        return None
    # The question is the name that a screen reader says for the field.
    if asked.choices:
        options = [("no guess", ""), *((choice, choice) for choice in asked.choices)]
        entry = widgets.Dropdown(options=options, value="", description="Your guess")
    else:
        entry = widgets.Text(placeholder="a number", description="Your guess", continuous_update=False)
    certainties = [("not said", 0), *((f"{percent} %", percent) for percent in CERTAINTIES)]
    sure = widgets.Dropdown(options=certainties, value=0, description="How sure")
    said = widgets.HTML(value="")
    entry.tooltip = sure.tooltip = asked.question
    if asked.guess is not None:
        entry.value = str(asked.guess)
        sure.value = asked.sure if asked.sure in CERTAINTIES else 0

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
    for kind in (int, float):
        try:
            return kind(cleaned)
        except ValueError:
            continue
    return None
