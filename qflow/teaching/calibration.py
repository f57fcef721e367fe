"""How well somebody's predictions and somebody's certainty agree with what happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FAIR = 15
"""Percentage points that certainty and success may differ by without a remark."""

NONE_MADE = "You made no predictions here. To make them, put guesses in place of None and run again."


@dataclass(frozen=True)
class Outcome:
    """What became of one prediction.

    Parameters
    ----------
    name, answer
        The question's name, and what really happened.
    verdict
        What to tell the learner.
    is_made, is_right
        Whether there was a guess, and whether it was right.
    sure
        How sure the learner was, in percent, or None.
    revisit
        The concept to look at again if it was wrong.
    """

    name: str
    answer: Any
    verdict: str
    is_made: bool
    is_right: bool
    sure: int | None = None
    revisit: str = ""


def calibration(outcomes: Sequence[Outcome]) -> list[str]:
    """Say how many predictions were right, whether the certainty was justified, and what to revisit.

    Parameters
    ----------
    outcomes
        What became of the predictions; those that nobody made do not count.

    Returns
    -------
    list of str
        One sentence each; never empty.

    Examples
    --------
    >>> calibration([Outcome("a", 1, "", True, True, 80), Outcome("b", 2, "", True, False, 90, "FC-14")])
    ['You had 1 of 2.', 'You were 85 % sure on average, and right in 50 %: surer than ...',
     'Worth another look: FC-14.']
    """
    made = [outcome for outcome in outcomes if outcome.is_made]
    if not made:
        return [NONE_MADE]
    said = [f"You had {sum(outcome.is_right for outcome in made)} of {len(made)}."]
    said += certainty([(outcome.sure, outcome.is_right) for outcome in made if outcome.sure is not None])
    again = [outcome.revisit for outcome in made if outcome.revisit and not outcome.is_right]
    # The same concept may stand behind several questions.
    said += [f"Worth another look: {concept.removesuffix('.')}." for concept in dict.fromkeys(again)]
    return said


def certainty(pairs: Sequence[tuple[int, bool]]) -> list[str]:
    """Compare how sure somebody was with how often that was right.

    Parameters
    ----------
    pairs
        For each prediction the certainty in percent, and whether it was right.

    Returns
    -------
    list of str
        One sentence, or none if nobody said how sure.
    """
    if not pairs:
        return []
    sure = round(sum(percent for percent, _ in pairs) / len(pairs))
    right = round(100 * sum(is_right for _, is_right in pairs) / len(pairs))
    if abs(sure - right) <= FAIR:
        remark = "well judged"
    elif sure > right:
        remark = "surer than you had reason to be"
    else:
        remark = "you know more than you trust yourself with"
    return [f"You were {sure} % sure on average, and right in {right} %: {remark}."]


def kept_calibration(kept: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say the same of all chapters together, from what the progress file holds.

    Parameters
    ----------
    kept
        For each chapter, for each question whether it was ``right`` and how ``sure`` the learner was.

    Returns
    -------
    list of str
        Sentences; one saying so if there are no predictions.

    Examples
    --------
    >>> kept_calibration({"01-thresholds": {"on": {"right": True, "sure": 80}, "off": {"right": False}}})
    ['Predictions: 1 of 2 right.', 'You were 80 % sure on average, and right in 100 %: ...']
    """
    entries = [entry for chapter in kept.values() for entry in chapter.values() if isinstance(entry, dict)]
    if not entries:
        return ["No predictions yet."]
    right = sum(bool(entry.get("right")) for entry in entries)
    sure = [
        (entry["sure"], bool(entry.get("right"))) for entry in entries if isinstance(entry.get("sure"), int)
    ]
    return [f"Predictions: {right} of {len(entries)} right.", *certainty(sure)]
