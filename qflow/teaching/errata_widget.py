"""The errata game in a notebook: a page of the documents, whose wrong sentences the reader marks.

The sentences, their experiments and the rule of the game are :mod:`qflow.teaching.errata`.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from qflow.labs.scripts import STYLES, join_modules, read_styles
from qflow.teaching.errata import errata, pose_page, score_page, write_answer


class _ErrataGame(anywidget.AnyWidget):
    """A page of the errata game."""

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
        """Judge a guess that the sentences with these numbers, from 1, are wrong; return the score."""
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
    """Open a page of the documents: mark each sentence that seems wrong, and compare with the engine.

    A mistake that is marked is a point, a true sentence that is marked costs two; two thirds of the mistakes
    win.

    Parameters:
        page ({"states", "names", "configuration", "clients", "groups", "history"}): Which page.

    Returns:
        A widget. Without a mouse: ``judge(2, 4)`` marks two sentences and returns the score, or
        :func:`qflow.teaching.errata`, whose sentences have ``observe()``.

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
