"""errata_game: a page of the documents; the learner clicks what seems wrong, and the engine decides.

What :mod:`qflow.teaching.errata` knows of a sentence leaves Python only when it is clicked, so that no page
gives its answers away, stored outputs included.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from qflow.labs.html_export import STYLES, read_static
from qflow.teaching.errata import PAGES, Erratum, errata


class _ErrataGame(anywidget.AnyWidget):
    """One page of the game."""

    _esm = read_static("svg.js", "errata.js")
    _css = read_static(*STYLES, "errata.css")

    page = traitlets.Dict().tag(sync=True)
    clicked = traitlets.List().tag(sync=True)
    answers = traitlets.Dict().tag(sync=True)
    score = traitlets.Unicode("").tag(sync=True)

    def __init__(self, page: str) -> None:
        self._errata = errata(page)
        said = [{"from": one.document, "text": one.sentence} for one in self._errata]
        super().__init__(page={"heading": PAGES[page], "sentences": said})
        self._answer_clicks(None)
        self.observe(self._answer_clicks, names="clicked")

    def click(self, number: int) -> Erratum:
        """Click the sentence of a number, from 1, as it is shown; return what is true of it."""
        if number not in range(1, len(self._errata) + 1):
            raise IndexError(f"there is no sentence {number}; there are {len(self._errata)}")
        self.clicked = [*self.clicked, number - 1]
        return self._errata[number - 1]

    def _answer_clicks(self, _: object) -> None:
        known = {place for place in self.clicked if place in range(len(self._errata))}
        answers = {str(place): _write_answer(self._errata[place]) for place in sorted(known)}
        mistakes = [place for place, one in enumerate(self._errata) if one.is_wrong]
        found, misses = len(known & set(mistakes)), len(known - set(mistakes))
        also = f", and clicked {misses} true sentence{'s' * (misses > 1)}" if misses else ""
        self.answers = answers
        self.score = f"You have found {found} of {len(mistakes)} mistakes{also}."

    def __repr__(self) -> str:
        heading = f"{self.page['heading']}: which of these sentences are wrong?"
        numbered = enumerate(self.page["sentences"], 1)
        lines = [f"{number}. {one['text']} ({one['from']})" for number, one in numbered]
        return "\n".join([heading, *lines])

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, "text/plain": repr(self)}, metadata


def _write_answer(one: Erratum) -> dict[str, Any]:
    observed = one.observe()
    return {
        "id": one.id if one.is_wrong else "",
        "isWrong": one.is_wrong,
        "truth": one.truth,
        "steps": [[step.tried, step.seen] for step in observed],
        "isChecked": all(step.is_right for step in observed),
    }


def errata_game(page: str) -> _ErrataGame:
    """Open a page of the documents: click a sentence that seems wrong, and see what the engine does.

    Parameters:
        page ({"states", "names", "configuration", "clients", "groups", "history"}): Which page.

    Returns:
        A widget. Without widgets: :func:`qflow.teaching.errata`, whose sentences have ``observe()``.

    Raises:
        RefusalError: If there is no such page.

    >>> game = errata_game("states")
    >>> game.click(2).truth
    'OFF at first, and while 900 or fewer are'
    >>> game.score
    'You have found 1 of 6 mistakes.'
    """
    return _ErrataGame(page)
