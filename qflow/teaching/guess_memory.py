"""Guesses that were typed into a field, remembered so that running the cell again does not lose them.

They are kept with the learner's progress, and in any case as long as the kernel lives. A guess written in
the cell itself needs no remembering, and wins.
"""

from __future__ import annotations

from typing import Any

from qflow.teaching import progress

Guess = int | float | str

_typed: dict[str, dict[str, dict[str, Any]]] = {}


def remember(chapter: str, name: str, guess: Guess | None, sure: int | None) -> None:
    """Remember what was typed, or forget it if the field was emptied.

    Parameters
    ----------
    chapter, name
        Which question.
    guess, sure
        The number or state, and the certainty in percent; None for neither.
    """
    guesses = _guesses(chapter)
    if guess is None:
        guesses.pop(name, None)
    else:
        guesses[name] = {"guess": guess, "sure": sure}
    _typed[chapter] = guesses
    progress.keep("guesses", chapter, guesses)


def recall(chapter: str, name: str) -> tuple[Guess | None, int | None]:
    """Recall what was typed for a question: the guess and the certainty, None where there is none.

    Examples
    --------
    >>> remember("99-doctest", "depth", 901, 80)
    >>> recall("99-doctest", "depth")
    (901, 80)
    >>> remember("99-doctest", "depth", None, None)
    >>> recall("99-doctest", "depth")
    (None, None)
    """
    found = _guesses(chapter).get(name)
    if not isinstance(found, dict) or isinstance(found.get("guess"), bool | list | dict):
        return None, None
    sure = found.get("sure")
    return found.get("guess"), sure if isinstance(sure, int) else None


def _guesses(chapter: str) -> dict[str, Any]:
    kept = _typed[chapter] if chapter in _typed else progress.read("guesses").get(chapter, {})
    return dict(kept)
