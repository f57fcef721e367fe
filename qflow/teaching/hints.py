"""``hint(name, tier)``: three hints an exercise, from a nudge to almost the answer."""

from __future__ import annotations

import textwrap

from qflow.kit import RefusalError
from qflow.teaching import progress

TIERS = (1, 2, 3)
WIDTH = 96
"""Columns of a line; Jupyter breaks longer ones in the middle of words."""


def hint(exercise: str, tier: int = 1) -> None:
    """Print one hint, and keep with the learner's progress how far the hints were needed.

    Parameters
    ----------
    exercise
        The exercise's name, which is that of the function to write.
    tier
        1 for a nudge, 2 for the rule behind it, 3 for almost the answer.

    Raises
    ------
    RefusalError
        If there is no such exercise or no such hint.

    Examples
    --------
    >>> hint("on_and_off", 1)
    Hint 1 of 3 for on_and_off: ...
    >>> hint("on_and_off", 4)
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: There are hints 1, 2 and 3; got 4.
    """
    from qflow.teaching.catalogue import find

    found = find(exercise)
    if tier not in TIERS:
        raise RefusalError(f"There are hints 1, 2 and 3; got {tier!r}.")
    print(textwrap.fill(f"Hint {tier} of 3 for {found.name}: {found.hints[tier - 1]}", WIDTH))
    kept = progress.read("exercises").get(found.name, {})
    before = kept.get("hints", 0)
    most = max(before if isinstance(before, int) else 0, tier)
    progress.keep("exercises", found.name, {"tries": 0, "solved": False, **kept, "hints": most})
