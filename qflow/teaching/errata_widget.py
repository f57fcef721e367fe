"""The widget of the errata game: the reader marks the sentences of a page that are wrong.

The sentences, their experiments and the rule of the game are in :mod:`qflow.teaching.errata`.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from qflow.labs.scripts import STYLES, join_modules, read_styles
from qflow.teaching.errata import errata, pose_page, score_page, write_answer


class _ErrataGame(anywidget.AnyWidget):
    """The widget of one page of the errata game."""

    _esm = join_modules("errata.js")
    _css = read_styles(*STYLES, "errata.css")

    page = traitlets.Dict().tag(sync=True)
    marked = traitlets.List().tag(sync=True)
    is_judged = traitlets.Bool(False).tag(sync=True)
    answers = traitlets.List().tag(sync=True)
    score = traitlets.Unicode("").tag(sync=True)

    def __init__(self, page: str) -> None:
        self._name = page
        super().__init__(page=pose_page(page))
        self.observe(self._answer_marks, names="is_judged")

    def judge(self, *numbers: int) -> str:
        """Mark the sentences with these numbers, from 1, as wrong, judge the marks, and return the score."""
        sentences = len(errata(self._name))
        if strange := [number for number in numbers if number not in range(1, sentences + 1)]:
            raise IndexError(f"there is no sentence {strange[0]}; there are {sentences}")
        self.marked = sorted({number - 1 for number in numbers})
        self.is_judged = True
        score: str = self.score
        return score

    def _answer_marks(self, _: object) -> None:
        mistakes = {place for place, one in enumerate(errata(self._name)) if one.is_wrong}
        marked = set(self.marked)
        self.answers = [write_answer(one) for one in errata(self._name)]
        self.score = score_page(self._name, len(marked & mistakes), len(marked - mistakes))[1]

    def __repr__(self) -> str:
        heading = f"{self.page['heading']}: which sentences are wrong?"
        numbered = enumerate(self.page["sentences"], 1)
        lines = [f"{number}. {one['text']} ({one['from']})" for number, one in numbered]
        return "\n".join([heading, *lines, self.page["rule"]])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, "text/plain": repr(self)}, metadata


def errata_game(page: str) -> _ErrataGame:
    """Open the errata game: mark the wrong sentences of a page, and see the engine's experiments.

    Marking a wrong sentence gains one point, marking a true one costs two; two thirds of the possible points
    win.

    Parameters:
        page ({"states", "names", "configuration", "clients", "groups", "history"}): The name of the page.

    Returns:
        A widget. Its method ``judge(2, 4)`` marks two sentences and returns the score, without a mouse.
        :func:`qflow.teaching.errata` returns the sentences with their experiments, without widgets.

    Raises:
        RefusalError: If there is no such page.

    >>> game = errata_game("states")
    >>> game.judge(2, 4)
    'Not won: 2 points, and 4 win. You found 2 of the 6 mistakes, and marked 0 true sentences.'
    >>> game.answers[1]["truth"]
    'OFF at first, and while 900 or fewer are'
    """
    errata(page)
    return _ErrataGame(page)
