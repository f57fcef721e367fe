"""Hints: three for each exercise and challenge, shown one after the other.

``qf.hint`` prints a hint. In JupyterLab a button below the result of a check, or above a challenge, shows the
next one. The number of hints that the learner has read is stored with the learner's progress.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from qflow.displays import has_kernel
from qflow.kit import RefusalError
from qflow.teaching import learner
from qflow.teaching.exercise import find

_WIDTH = 96
"""The most characters of a line; Jupyter wraps longer lines in the middle of words."""


def hint(exercise: str, tier: int = 1) -> None:
    """Print a hint for an exercise, and record in the learner's progress that it was read.

    Parameters:
        exercise: The name of the exercise, which is that of the function to write.
        tier: The number of the hint: 1 for a nudge, 2 for the rule behind it, 3 for almost the answer.

    Raises:
        RefusalError: If there is no such exercise or no such hint.

    >>> hint("on_and_off", 1)
    Hint 1 of 3 for on_and_off: ...
    """
    found = find(exercise)
    if tier not in (1, 2, 3):
        raise RefusalError(f"There are hints 1, 2 and 3; got {tier!r}.")
    print(textwrap.fill(f"Hint {tier} of 3 for {found.name}: {found.hints[tier - 1]}", _WIDTH))
    learner.keep_hint("exercises", found.name, tier)
    if tier < len(found.hints) and has_kernel():
        with suppress(ImportError):  # ipywidgets is not installed
            further = Hints("exercises", found.name, found.hints, tier)
            box = import_module("ipywidgets").VBox([further.text, further.button])
            import_module("IPython.display").display(box)


class Hints:
    """A button that shows one more hint at each press, and the widget with the text of the hints."""

    def __init__(self, kind: str, name: str, hints: Sequence[str], shown: int = 0) -> None:
        widgets: Any = import_module("ipywidgets")
        self._about, self._hints = (kind, name), hints
        self._before = self._shown = shown
        self.button = widgets.Button(layout={"width": "auto"}).add_class("qf-hint")
        self.button.on_click(lambda _: self._show_next())
        self.text = widgets.HTML().add_class("qf-hints")
        self._label()

    def _show_next(self) -> None:
        self._shown += 1
        learner.keep_hint(*self._about, self._shown)
        given = list(enumerate(self._hints, 1))[self._before : self._shown]
        paragraphs = "".join(f"<p>Hint {n} of 3: {html.escape(hint, quote=False)}</p>" for n, hint in given)
        self.text.value = f'<div role="status">{paragraphs}</div>'
        self._label()

    def _label(self) -> None:
        left = len(self._hints) - self._shown
        self.button.description = "hint" if not self._shown else "next hint" if left else "no more hints"
        self.button.tooltip = f"Hint {self._shown + 1} of 3" if left else "All three hints are shown"
        self.button.disabled = not left
