"""``show_progress()``: which exercises are solved, with how many tries and hints; and the predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qflow.teaching import progress
from qflow.teaching.calibration import kept_calibration
from qflow.teaching.catalogue import THEMES, exercises


def show_progress() -> None:
    """Print the learner's progress, theme by theme."""
    print(*report(progress.read("exercises"), progress.read("predictions")), sep="\n")
    file = progress.progress_file()
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
