"""Learner: a learner's progress, stored on the learner's own machine only.

One small JSON file holds which exercises were tried, hinted at and solved, which challenges were won, which
predictions were made, and the guesses that were typed into a field. It is a convenience: where it cannot be
read or written (a read-only disk, a borrowed machine), everything else works as before and nothing is kept.
"""

from __future__ import annotations

import importlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

from qflow.writing import write_file

_VARIABLE = "QFLOW_PROGRESS"
"""The environment variable that names another file; empty means that nothing is kept."""

KINDS = ("exercises", "challenges", "predictions", "guesses")
"""The kinds of entries in the file."""

Entry = dict[str, Any]
Guess = int | float | str
"""A guess: a number, or a state such as ``"ON"``."""

_UNTRIED: dict[str, Entry] = {
    "exercises": {"tries": 0, "hints": 0, "solved": False},
    "challenges": {"moves": None, "hints": 0, "solved": False},
}
"""The entries of an exercise and a challenge before the first try."""

# Also in memory: without a file, or on a disk that is full, a chapter still compares guesses with answers.
_typed: dict[str, Entry] = {}


def remember(chapter: str, name: str, guess: Guess | None, sure: int | None) -> None:
    """Store the guess for a question and its certainty in percent; None deletes the guess."""
    guesses = _guesses(chapter)
    if guess is None:
        guesses.pop(name, None)
    else:
        guesses[name] = {"guess": guess, "sure": sure}
    _typed[chapter] = guesses
    keep("guesses", chapter, guesses)


def recall(chapter: str, name: str) -> tuple[Guess | None, int | None]:
    """Return the stored guess for a question and its certainty; None for a missing one."""
    found = _guesses(chapter).get(name)
    # The file is the learner's, and may have been edited.
    if not isinstance(found, dict) or isinstance(found.get("guess"), bool | list | dict):
        return None, None
    sure = found.get("sure")
    return found.get("guess"), sure if isinstance(sure, int) else None


def _guesses(chapter: str) -> Entry:
    return dict(_typed[chapter] if chapter in _typed else read("guesses").get(chapter, {}))


def progress_file() -> Path | None:
    """Return the progress file: ``QFLOW_PROGRESS``, else one in the user's data folder; None for no file."""
    named = os.environ.get(_VARIABLE)
    if named is not None:
        return Path(named).expanduser() if named else None
    try:
        folders = importlib.import_module("platformdirs")
    except ImportError:
        return None
    return Path(folders.user_data_dir("qflow", appauthor=False)) / "progress.json"


def read(kind: str) -> dict[str, Entry]:
    """Return the stored entries of one kind, by name; empty if the file is missing or unreadable."""
    try:
        found = (_read_all() or {}).get(kind, {})
    except OSError:
        return {}
    return {name: entry for name, entry in found.items() if isinstance(entry, dict)}


def keep(kind: str, name: str, entry: Entry) -> bool:
    """Store one entry, replacing an earlier one of its name; return whether that was possible."""
    file = progress_file()
    if file is None:
        return False
    try:
        # Read again for each entry: other notebooks of this learner write to the same file.
        everything = _read_all()
        if everything is None:
            _quarantine(file)
            everything = {}
        everything[kind] = {**everything.get(kind, {}), name: entry}
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, json.dumps(everything, indent=1, sort_keys=True) + "\n")
    except OSError:
        return False
    return True


def entry_of(kind: str, name: str) -> Entry:
    """Return the stored entry of an exercise or a challenge; a fresh one if it is missing or damaged."""
    kept = read(kind).get(name, {})
    return {
        key: kept[key] if isinstance(kept.get(key), int) else none for key, none in _UNTRIED[kind].items()
    }


def keep_hint(kind: str, name: str, tier: int) -> None:
    """Store the number of hints read of an exercise or a challenge."""
    entry = entry_of(kind, name)
    keep(kind, name, {**entry, "hints": max(entry["hints"], tier)})


def _read_all() -> dict[str, Any] | None:
    """Return the file's content; None if it is damaged. An unreadable file is an OSError."""
    file = progress_file()
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig")) if file is not None else {}
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not all(isinstance(found.get(kind, {}), dict) for kind in KINDS):
        return None
    return found


def _quarantine(file: Path) -> None:
    names = (file.with_name(f"{file.stem}.damaged{number}{file.suffix}") for number in ("", *range(2, 1000)))
    aside = next(name for name in names if not name.exists())
    os.rename(file, aside)
    warnings.warn(f"{file} is damaged; it is kept as {aside.name}, and a new one begun", stacklevel=3)


def make_plain(value: Any) -> Any:
    """Convert tuples to lists, so that either is a right answer."""
    if hasattr(value, "tolist"):
        # An array or a number of NumPy, from a learner who likes it.
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(make_plain(part) for part in value)
    if isinstance(value, dict):
        return {key: make_plain(part) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return frozenset(value)
    return value
