"""Hints: three for each exercise and each challenge, one after the other; how far they were needed is kept.

``qf.hint`` prints one.  In JupyterLab a button shows the next, below what a check said or above a challenge.
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
"""Columns of a line; Jupyter breaks longer ones in the middle of words."""


def hint(exercise: str, tier: int = 1) -> None:
    """Print one hint, and record in the learner's progress that it was needed.

    Parameters:
        exercise: The exercise's name, which is that of the function to write.
        tier: 1 for a nudge, 2 for the rule behind it, 3 for almost the answer.

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
        with suppress(ImportError):  # no widgets here
            further = Hints("exercises", found.name, found.hints, tier)
            box = import_module("ipywidgets").VBox([further.text, further.button])
            import_module("IPython.display").display(box)


class Hints:
    """A button that reveals one hint at each press, and the text that shows them."""

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
