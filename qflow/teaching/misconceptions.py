"""Misconceptions: what a typical wrong answer shows about how somebody thinks a broker works.

Each one is an answer of its own, worked out by somebody who holds the misconception. A learner whose wrong
results agree with it is told so by name; that helps more than the right number would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Answer = Callable[..., Any]
"""What a learner writes: a function."""


@dataclass(frozen=True)
class Misconception:
    """One way to be wrong.

    Parameters
    ----------
    name
        A few words, such as ``"reached is enough"``.
    answer
        The function somebody with this idea would write.
    message
        What to say: what is not so, and how it is.
    sign
        For design tasks, where different ideas may lead to the same trouble: what tells this one from a value
        the learner's function returned. None leaves it to the results.
    """

    name: str
    answer: Answer
    message: str
    sign: Callable[[Any], bool] | None = None

    def shows_in(self, returned: Any) -> bool:
        """Tell whether a returned value bears this misconception's sign."""
        try:
            return self.sign is not None and self.sign(returned)
        except (AttributeError, KeyError, TypeError, ValueError):
            # The value is not even of the right kind, so it bears no sign.
            return False


def diagnose(
    seen: Sequence[Any],
    wanted: Sequence[Any],
    believed: Sequence[tuple[Misconception, Sequence[Any]]],
    returned: Sequence[Any] = (),
) -> Misconception | None:
    """Find the misconception that a learner's results show.

    Parameters
    ----------
    seen, wanted
        For each case what came of the learner's answer, and what should have.
    believed
        For each misconception what comes of it in the same cases.
    returned
        For each case what the learner's function returned, to look for signs in.

    Returns
    -------
    Misconception or None
        The one whose sign all wrong answers bear, or that explains all results, or else the first that
        explains all the wrong ones.

    Examples
    --------
    >>> equal = Misconception("reached is enough", lambda stop: stop, "It has to be exceeded.")
    >>> diagnose([900, 8], [901, 8], [(equal, [900, 7])]).name
    'reached is enough'
    >>> diagnose([900, 8], [901, 9], [(equal, [900, 7])]) is None
    True
    """
    wrong = [index for index, (mine, right) in enumerate(zip(seen, wanted, strict=True)) if mine != right]
    for misconception, _ in believed:
        if returned and wrong and all(misconception.shows_in(returned[index]) for index in wrong):
            return misconception
    for misconception, results in believed:
        if list(results) == list(seen) and wrong:
            return misconception
    for misconception, results in believed:
        if wrong and all(results[index] == seen[index] for index in wrong):
            return misconception
    return None
