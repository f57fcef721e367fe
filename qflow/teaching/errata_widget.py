"""errata_game: a page of the documents; the learner marks what seems wrong, and the engine decides.

What :mod:`qflow.teaching.errata` knows of a sentence leaves Python only when the marks are judged, so that no
output gives its answers away. A page of the book has no Python behind it: it holds them packed, see
:func:`to_store`.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from qflow.labs.html_export import STYLES, read_static
from qflow.teaching.errata import PAGES, Erratum, describe_rule, errata, score_page


class _ErrataGame(anywidget.AnyWidget):
    """One page of the game."""

    _esm = read_static("svg.js", "errata.js")
    _css = read_static(*STYLES, "errata.css")

    page = traitlets.Dict().tag(sync=True)
    marked = traitlets.List().tag(sync=True)
    is_judged = traitlets.Bool(False).tag(sync=True)
    answers = traitlets.List().tag(sync=True)
    score = traitlets.Unicode("").tag(sync=True)

    def __init__(self, page: str) -> None:
        self._name = page
        super().__init__(page=_pose(page))
        self.observe(self._answer_marks, names="is_judged")

    def judge(self, *numbers: int) -> str:
        """Mark the sentences of these numbers, from 1, as wrong; return the score, once all are tried."""
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
        self.answers = [_write_answer(one) for one in errata(self._name)]
        self.score = score_page(self._name, len(marked & mistakes), len(marked - mistakes))[1]

    def __repr__(self) -> str:
        heading = f"{self.page['heading']}: which of these sentences are wrong?"
        numbered = enumerate(self.page["sentences"], 1)
        lines = [f"{number}. {one['text']} ({one['from']})" for number, one in numbered]
        return "\n".join([heading, *lines, self.page["rule"]])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, "text/plain": repr(self)}, metadata


def _pose(page: str) -> dict[str, Any]:
    """Return what is shown of a page before it is judged."""
    sentences = [{"from": one.document, "text": one.sentence} for one in errata(page)]
    return {"heading": PAGES[page], "rule": describe_rule(page), "sentences": sentences}


def _write_answer(one: Erratum) -> dict[str, Any]:
    observed = one.observe()
    return {
        "id": one.id if one.is_wrong else "",
        "isWrong": one.is_wrong,
        "truth": one.truth,
        "steps": [[step.tried, step.seen] for step in observed],
    }


def to_store(page: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a page without a kernel shows at first, and what it needs to judge: answers and scores."""
    known = errata(page)
    wrong = sum(one.is_wrong for one in known)
    counts = ((found, other) for found in range(wrong + 1) for other in range(len(known) - wrong + 1))
    scores = {f"{found} {suspected}": score_page(page, found, suspected)[1] for found, suspected in counts}
    return _pose(page), {"answers": [_write_answer(one) for one in known], "scores": scores}


def errata_game(page: str) -> _ErrataGame:
    """Open a page of the documents: mark each sentence that seems wrong, and see what the engine does.

    A mistake that is marked is a point, a true sentence that is marked costs two; two thirds of the mistakes
    win.

    Parameters:
        page ({"states", "names", "configuration", "clients", "groups", "history"}): Which page.

    Returns:
        A widget. Without widgets: ``judge(2, 4)`` marks two sentences and returns the score, or
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
