"""What a learner has done so far, kept on the learner's own machine and nowhere else.

One small JSON file holds which exercises were tried, hinted at and solved, and which predictions were made.
It is a convenience: where it cannot be read or written (a read-only disk, a borrowed machine), everything
else works as before and nothing is kept.

``show_progress()``: which exercises are solved, with how many tries and hints; and the predictions.
"""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qflow.teaching.catalogue import THEMES, exercises

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
    keep("guesses", chapter, guesses)


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
    kept = _typed[chapter] if chapter in _typed else read("guesses").get(chapter, {})
    return dict(kept)


VARIABLE = "QFLOW_PROGRESS"
"""The environment variable that names another file; empty means that nothing is kept."""

Entry = dict[str, Any]


def progress_file() -> Path | None:
    """Say where the progress is kept.

    Returns
    -------
    pathlib.Path or None
        The file named by ``QFLOW_PROGRESS``, or else ``progress.json`` in the user's data folder of qflow;
        None if nothing is to be kept, or if nobody can say where that folder is.
    """
    named = os.environ.get(VARIABLE)
    if named is not None:
        return Path(named).expanduser() if named else None
    try:
        folders = importlib.import_module("platformdirs")
    except ImportError:
        return None
    return Path(folders.user_data_dir("qflow", appauthor=False)) / "progress.json"


def read(kind: str) -> dict[str, Entry]:
    """Read what is kept of one kind.

    Parameters
    ----------
    kind
        ``"exercises"`` or ``"predictions"``.

    Returns
    -------
    dict
        Entries by name; empty if there are none, or they cannot be read.
    """
    found = _read_all().get(kind)
    if not isinstance(found, dict):
        return {}
    return {name: entry for name, entry in found.items() if isinstance(entry, dict)}


def keep(kind: str, name: str, entry: Entry) -> bool:
    """Keep one entry, in place of an earlier one of the same name.

    Parameters
    ----------
    kind
        ``"exercises"`` or ``"predictions"``.
    name
        The exercise, or the chapter.
    entry
        What JSON can hold.

    Returns
    -------
    bool
        False if it could not be kept; that is never an error.
    """
    file = progress_file()
    if file is None:
        return False
    everything = _read_all()
    entries = everything.get(kind)
    everything[kind] = {**(entries if isinstance(entries, dict) else {}), name: entry}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # By way of a second file, so that an interrupted kernel never leaves half a file behind.
        partial = file.with_name(f".{file.name}.{os.getpid()}")
        partial.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        os.replace(partial, file)
    except OSError:
        return False
    return True


def _read_all() -> Entry:
    file = progress_file()
    try:
        found = json.loads(file.read_text(encoding="utf-8")) if file is not None else {}
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def show_progress() -> None:
    """Print the learner's progress, theme by theme.

    Examples
    --------
    >>> show_progress()
    01-thresholds ...
    """
    print(*report(read("exercises"), read("predictions")), sep="\n")
    file = progress_file()
    print(f"Kept in {file}." if file is not None else "Nothing is kept on this machine.")


def report(solved: Mapping[str, Mapping[str, Any]], predicted: Mapping[str, Mapping[str, Any]]) -> list[str]:
    r"""Write the progress, line by line.

    Parameters
    ----------
    solved
        For each exercise how many ``tries``, the highest of its ``hints`` and whether it is ``solved``.
    predicted
        For each chapter what became of its predictions.

    Examples
    --------
    >>> print(*report({"on_and_off": {"solved": True, "tries": 2, "hints": 1}}, {})[:3], sep="\n")
    01-thresholds        1 of 3 solved
      [x] on_and_off      At which message ON, at which OFF (2 tries, 1 hint)
      [ ] flow_states     The state after each step
    """
    lines, done, number = [], 0, 0
    for theme in THEMES:
        listed = exercises(theme)
        right = sum(bool(solved.get(exercise.name, {}).get("solved")) for exercise in listed)
        lines.append(f"{theme:<20} {right} of {len(listed)} solved")
        done, number = done + right, number + len(listed)
        width = max(len(exercise.name) for exercise in listed) + 4
        for exercise in listed:
            entry = solved.get(exercise.name, {})
            mark = "[x]" if entry.get("solved") else "[ ]"
            lines.append(f"  {mark} {exercise.name:<{width}} {exercise.title}{_effort(entry)}")
    return [*lines, f"Exercises: {done} of {number} solved.", *kept_calibration(predicted)]


def _effort(entry: Mapping[str, Any]) -> str:
    parts = []
    for key, one, many in (("tries", "try", "tries"), ("hints", "hint", "hints")):
        number = entry.get(key)
        if isinstance(number, int) and number:
            parts.append(f"{number} {one if number == 1 else many}")
    return f" ({', '.join(parts)})" if parts else ""
