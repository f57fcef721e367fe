"""Learner: the progress of a learner, which is stored only on the learner's own machine.

A small JSON file contains the tries, hints and solved exercises, the challenges that were won, the
predictions that were made, and the guesses that were typed into a field. It is a convenience: if it cannot be
read or written, as on a read-only disk, everything else works, and nothing is stored.
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
"""The environment variable with the path of another file; if it is empty, nothing is stored."""

KINDS = ("exercises", "challenges", "predictions", "guesses")
"""The kinds of entries in the progress file."""

Entry = dict[str, Any]
Guess = int | float | str
"""A guess: a number, or a state such as ``"ON"``."""

_UNTRIED: dict[str, Entry] = {
    "exercises": {"tries": 0, "hints": 0, "solved": False},
    "challenges": {"moves": None, "hints": 0, "solved": False},
}
"""The entry of an exercise, and of a challenge, that the learner has not tried yet."""

# Guesses are also kept in memory, so that a chapter can compare them even if the file cannot be written.
_typed: dict[str, Entry] = {}


def remember(chapter: str, name: str, guess: Guess | None, sure: int | None) -> None:
    """Store the guess for a question with its certainty in percent; None deletes the stored guess."""
    guesses = _guesses(chapter)
    if guess is None:
        guesses.pop(name, None)
    else:
        guesses[name] = {"guess": guess, "sure": sure}
    _typed[chapter] = guesses
    keep("guesses", chapter, guesses)


def recall(chapter: str, name: str) -> tuple[Guess | None, int | None]:
    """Return the stored guess for a question and its certainty in percent; either may be None."""
    found = _guesses(chapter).get(name)
    # The learner may have edited the file.
    if not isinstance(found, dict) or isinstance(found.get("guess"), bool | list | dict):
        return None, None
    sure = found.get("sure")
    return found.get("guess"), sure if isinstance(sure, int) else None


def _guesses(chapter: str) -> Entry:
    return dict(_typed[chapter] if chapter in _typed else read("guesses").get(chapter, {}))


def progress_file() -> Path | None:
    """Return the path of the progress file, or None if nothing is to be stored."""
    named = os.environ.get(_VARIABLE)
    if named is not None:
        return Path(named).expanduser() if named else None
    try:
        folders = importlib.import_module("platformdirs")
    except ImportError:
        return None
    return Path(folders.user_data_dir("qflow", appauthor=False)) / "progress.json"


def read(kind: str) -> dict[str, Entry]:
    """Return the stored entries of a kind, keyed by name; an empty dict if the file cannot be read."""
    try:
        found = (_read_all() or {}).get(kind, {})
    except OSError:
        return {}
    return {name: entry for name, entry in found.items() if isinstance(entry, dict)}


def keep(kind: str, name: str, entry: Entry) -> bool:
    """Store an entry, replacing an earlier one with its name; return whether it could be stored."""
    file = progress_file()
    if file is None:
        return False
    try:
        # Read the file again for each entry, as other notebooks of the learner write to it, too.
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
    """Return the stored entry of an exercise or challenge; missing or invalid values are those of no try."""
    kept = read(kind).get(name, {})
    return {
        key: kept[key] if isinstance(kept.get(key), int) else none for key, none in _UNTRIED[kind].items()
    }


def keep_hint(kind: str, name: str, tier: int) -> None:
    """Store that hint number `tier` of an exercise or challenge was read; the highest number is kept."""
    entry = entry_of(kind, name)
    keep(kind, name, {**entry, "hints": max(entry["hints"], tier)})


def _read_all() -> dict[str, Any] | None:
    """Return the content of the progress file, or None if it is damaged; raise OSError if unreadable."""
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
    """Return a value with all lists converted to tuples, so that a list or a tuple may be a right answer."""
    if hasattr(value, "tolist"):
        # A NumPy array or number, which a learner may return.
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(make_plain(part) for part in value)
    if isinstance(value, dict):
        return {key: make_plain(part) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return frozenset(value)
    return value
