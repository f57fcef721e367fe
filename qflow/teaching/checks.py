"""``check(answer)``: what is right about an answer, what is not, and which misconception it shows.

``hint(name, tier)``: three hints an exercise, from a nudge to almost the answer.
"""

from __future__ import annotations

import html
import textwrap
from dataclasses import dataclass
from typing import Any

from qflow.kit import RefusalError
from qflow.teaching import learner as progress
from qflow.teaching.exercise import FINE, Answer, Exercise, Failure, Misconception, diagnose


@dataclass(frozen=True)
class Verdict:
    """What a check found.

    Parameters
    ----------
    exercise
        The exercise's name.
    right, cases
        In how many cases the answer was right, and how many there are.
    told
        What to tell the learner, line by line.
    misconception
        The misunderstanding it shows, if it is a known one.
    """

    exercise: str
    right: int
    cases: int
    told: tuple[str, ...]
    misconception: Misconception | None = None

    @property
    def is_right(self) -> bool:
        """Whether the answer was right in every case."""
        return self.right == self.cases

    def __bool__(self) -> bool:
        return self.is_right

    def __repr__(self) -> str:
        return "\n".join(self.told)

    def _repr_html_(self) -> str:
        # Jupyter breaks long lines of plain text in the middle of words; paragraphs it breaks well.
        head, *rest = (html.escape(line, quote=False) for line in self.told)
        paragraphs = "".join(f"<p>{line}</p>" for line in rest)
        return f'<div role="status"><p><strong>{head}</strong></p>{paragraphs}</div>'


def check(answer: Answer) -> Verdict:
    """Check an answer to an exercise, and keep the result with the learner's progress.

    Parameters
    ----------
    answer
        The function the learner wrote; its name says which exercise it answers.

    Returns
    -------
    Verdict
        A notebook shows it as text; it is true if the answer is right.

    Raises
    ------
    RefusalError
        If there is no exercise of that name.

    Examples
    --------
    >>> def on_and_off(limit, stop, resume):
    ...     return stop, resume
    >>> check(on_and_off)
    NOT YET  on_and_off: right in 0 of 8 cases.
    on_and_off(limit=1000, stop=900, resume=500) gave (900, 500); the broker says (901, 499).
    This looks like "reached is enough": ...
    """
    from qflow.teaching.catalogue import find

    exercise = find(getattr(answer, "__name__", repr(answer)))
    verdict = judge(exercise, answer)
    kept = progress.read("exercises").get(exercise.name, {})
    tries, solved = kept.get("tries", 0), kept.get("solved", False)
    progress.keep(
        "exercises",
        exercise.name,
        {**kept, "tries": tries + 1 if isinstance(tries, int) else 1, "solved": bool(solved or verdict)},
    )
    return verdict


def judge(exercise: Exercise, answer: Answer) -> Verdict:
    """Judge an answer without keeping anything.

    Parameters
    ----------
    exercise
        What was asked.
    answer
        The learner's function.

    Returns
    -------
    Verdict
        The same answer always gets the same one.
    """
    wanted, seen = exercise.wanted, exercise.results(answer)
    right = sum(mine == theirs for mine, theirs in zip(seen, wanted, strict=True))
    number = len(wanted)
    if right == number:
        told = f"RIGHT  {exercise.name}: right in all {number} cases, each tried on the engine."
        return Verdict(exercise.name, right, number, (told,))
    if _is_unwritten(seen):
        head = f"NOT YET  {exercise.name}: nothing written yet."
        return Verdict(exercise.name, 0, number, (head, *_with_hint(exercise)))
    has_signs = any(misconception.sign for misconception in exercise.misconceptions)
    returned = [exercise.returned(answer, case) for case in exercise.cases] if has_signs else []
    found = diagnose(seen, wanted, exercise.believed, returned)
    told_all = [f"NOT YET  {exercise.name}: right in {right} of {number} cases."]
    first = next(index for index in range(number) if seen[index] != wanted[index])
    told_all.append(_difference(exercise, exercise.cases[first], seen[first], wanted[first]))
    if found is not None:
        told_all.append(f'This looks like "{found.name}": {found.message}')
    told_all.append(f'Stuck? hint("{exercise.name}", 1), then 2, then 3.')
    return Verdict(exercise.name, right, number, tuple(told_all), found)


def _difference(exercise: Exercise, case: tuple[Any, ...], seen: Any, wanted: Any) -> str:
    call = exercise.call(case)
    if wanted == FINE:
        call = f"Tried with {call[len(exercise.name) + 1 : -1]}"
    if isinstance(seen, Failure):
        return f"{call} ended with {seen!r}".rstrip(".") + "."
    if wanted == FINE:
        return f"{call}: {str(seen).rstrip('.')}."
    return f"{call} gave {seen!r}; the broker says {wanted!r}."


def _is_unwritten(seen: list[Any]) -> bool:
    if all(isinstance(result, Failure) and result.is_unwritten for result in seen):
        return True
    return all(result is None or result is Ellipsis for result in seen)


def _with_hint(exercise: Exercise) -> tuple[str, str]:
    return f"Hint 1 of 3: {exercise.hints[0]}", f'More: hint("{exercise.name}", 2).'


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
