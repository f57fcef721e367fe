"""Wording: how messages write numbers and lists of names, and their hint at a misspelt word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def format_count(number: int, noun: str, form: str = "") -> str:
    """Return a count with its noun, such as ``2 queues``; the form ``","`` groups the digits by thousands."""
    return f"{number:{form}} {noun}" if number == 1 else f"{number:{form}} {noun}s"


def format_names(names: Sequence[str]) -> str:
    """Return names as a phrase; more than five are shortened to the first two and the last.

    >>> format_names(["a"]), format_names(["a", "b", "c"]), format_names([f"m{n}" for n in range(50)])
    ('a', 'a, b and c', 'm0, m1, … m49')
    """
    if len(names) > 5:
        return f"{names[0]}, {names[1]}, … {names[-1]}"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def format_thousands(number: float) -> str:
    """Return a number as text, with a thin space between groups of three digits."""
    return f"{number:,}".replace(",", "\u2009")


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """Return ``; did you mean 'word'?`` for the closest allowed word, or "" if no word is close."""
    # The import takes time, which only a misspelt word has to cost.
    from difflib import get_close_matches

    near = get_close_matches(given, list(allowed), 1, 0.7)
    return f"; did you mean {near[0]!r}?" if near else ""
