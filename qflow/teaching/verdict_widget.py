"""What a check shows in JupyterLab: its words, a button for hints, and one that opens the failing case.

A reader without a kernel, a terminal and the notebook tests get the words alone; see
:class:`qflow.teaching.checking.CheckVerdict`.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from qflow.kit import RefusalError
from qflow.teaching.cases import case_lab
from qflow.teaching.exercise import Answer, Exercise


class Hints(widgets.VBox):
    """Three hints, one after the other: each press of the button shows the next one.

    >>> from qflow.teaching.exercise import find
    >>> hints = Hints(find("on_and_off").hints, 1, keep=print)
    >>> hints.button.description
    'next hint'
    >>> hints.button.click()
    2
    """

    def __init__(self, hints: Sequence[str], shown: int, keep: Callable[[int], object]) -> None:
        self._hints, self._keep = hints, keep
        self._given: list[int] = []
        self._shown = shown
        self.button = widgets.Button(layout={"width": "auto"}).add_class("qf-hint")
        self.button.on_click(lambda _: self._next())
        self.text = widgets.HTML().add_class("qf-hints")
        super().__init__([self.text])
        self._label()

    def _next(self) -> None:
        self._shown += 1
        self._given.append(self._shown)
        self._keep(self._shown)
        hints = ((number, html.escape(self._hints[number - 1], quote=False)) for number in self._given)
        paragraphs = "".join(f"<p>Hint {number} of 3: {hint}</p>" for number, hint in hints)
        self.text.value = f'<div role="status">{paragraphs}</div>'
        self._label()

    def _label(self) -> None:
        left = len(self._hints) - self._shown
        self.button.description = "hint" if not self._shown else "next hint" if left else "no more hints"
        self.button.tooltip = f"Hint {self._shown + 1} of 3" if left else "All three hints are shown"
        self.button.disabled = not left


def add_button(hints: Hints) -> widgets.VBox:
    """Return hints with their button below them."""
    return widgets.VBox([hints, hints.button])


class _CaseButton(widgets.Button):
    """A button that opens a case of an exercise in a lab, in a box of its own, and closes it again."""

    def __init__(self, exercise: Exercise, case: tuple[Any, ...], answer: Answer) -> None:
        super().__init__(description="show me this case", layout={"width": "auto"})
        self.tooltip = f"What the broker does: {exercise.call(case)}"
        self.add_class("qf-case")
        self._case = (exercise, case, answer)
        self.box = widgets.VBox()
        self.on_click(lambda _: self._press())

    def _press(self) -> None:
        if self.box.children:
            for child in self.box.children:
                child.close()
            self.box.children = ()
            self.description = "show me this case"
            return
        exercise, case, _ = self._case
        head = f"What the broker does: <code>{html.escape(exercise.call(case))}</code>"
        try:
            lab: widgets.Widget = case_lab(*self._case)
        except RefusalError as error:
            self.box.children = (widgets.HTML(html.escape(str(error))),)
            return
        self.box.children = (widgets.HTML(f"<p>{head}</p>"), lab)
        self.description = "close this case"


def verdict_widget(
    words: str,
    exercise: Exercise,
    case: tuple[Any, ...],
    answer: Answer,
    shown: int,
    keep: Callable[[int], object],
) -> widgets.VBox:
    """Return a verdict's words with the buttons that belong to it."""
    hints = Hints(exercise.hints, shown, keep)
    parts: list[widgets.Widget] = [widgets.HTML(words), hints]
    buttons: list[widgets.Widget] = [hints.button]
    if exercise.lab and not shown:
        opened = _CaseButton(exercise, case, answer)
        buttons.append(opened)
        parts.append(opened.box)
    parts.insert(2, widgets.HBox(buttons))
    return widgets.VBox(parts).add_class("qf-verdict")
