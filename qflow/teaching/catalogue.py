"""The catalogue of all exercises, in the order of the chapters they belong to."""

from __future__ import annotations

import difflib
import importlib
from functools import cache

from qflow.kit import RefusalError
from qflow.teaching.exercise import Exercise

THEMES = {
    "01-thresholds": ("thresholds",),
    "02-bytes-and-counts": ("bytes_counts",),
    "03-held-completions": ("held",),
    "04-capacity": ("capacity",),
    "05-configuration": ("configuration", "spellings", "disabling"),
    "06-several-queues": ("several_queues",),
    "07-groups": ("groups", "group_settings"),
    "08-consumers": ("consumers",),
    "09-other-queues": ("rings", "other_queues", "removals", "transactions"),
    "10-design-history": ("designs",),
    "11-design-tasks": ("design_tasks",),
    "13-fleet": ("fleets",),
}
"""For each exercise notebook the modules of :mod:`qflow.teaching.exercises` that hold what it asks."""


@cache
def exercises(theme: str) -> tuple[Exercise, ...]:
    """Return the exercises of one notebook, in order.

    Parameters
    ----------
    theme
        The notebook's name, such as ``"01-thresholds"``.
    """
    found: list[Exercise] = []
    for module in THEMES[theme]:
        found += importlib.import_module(f"qflow.teaching.exercises.{module}").EXERCISES
    return tuple(found)


def all_exercises() -> list[Exercise]:
    """Return every exercise, in order.

    Examples
    --------
    >>> all_exercises()[0].name
    'on_and_off'
    """
    return [exercise for theme in THEMES for exercise in exercises(theme)]


def find(name: str) -> Exercise:
    """Find an exercise by its name.

    Parameters
    ----------
    name
        The name of the function it asks for.

    Raises
    ------
    RefusalError
        If there is none; the nearest name is given.

    Examples
    --------
    >>> find("on_and_of")
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: There is no exercise 'on_and_of'; did you mean 'on_and_off'?
    """
    known = {exercise.name: exercise for exercise in all_exercises()}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, 1)
    advice = f"did you mean {near[0]!r}?" if near else "check(…) takes the function the task asks for."
    raise RefusalError(f"There is no exercise {name!r}; {advice}")
