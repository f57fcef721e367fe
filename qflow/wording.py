"""Wording: numbers and lists of names in sentences, and the hint at a misspelt word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def format_count(number: int, noun: str, form: str = "") -> str:
    """Return a number of things as text, with ``,`` as the form in groups of thousands."""
    return f"{number:{form}} {noun}" if number == 1 else f"{number:{form}} {noun}s"


def format_names(names: Sequence[str]) -> str:
    """Return names as text; of more than five, the first two and the last.

    >>> format_names(["a"]), format_names(["a", "b", "c"]), format_names([f"m{n}" for n in range(50)])
    ('a', 'a, b and c', 'm0, m1, … m49')
    """
    if len(names) > 5:
        return f"{names[0]}, {names[1]}, … {names[-1]}"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def format_thousands(number: float) -> str:
    """Return a number with a thin space every three digits."""
    return f"{number:,}".replace(",", "\u2009")


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """Return a hint at the allowed word closest to the given one; "" if none is close."""
    # Only who has mistyped pays for it.
    from difflib import get_close_matches

    near = get_close_matches(given, list(allowed), 1, 0.7)
    return f"; did you mean {near[0]!r}?" if near else ""
