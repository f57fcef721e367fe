"""The glossary: every term as qflow and as the broker spell it, with its meaning.

The table ``data/glossary.csv`` is the source both of :func:`look_up` and of the glossary page for readers.
"""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass

from qflow.kit import RefusalError, kit_path


@dataclass(frozen=True)
class _Term:
    """A term of the glossary: its names in qflow and in the broker, and its meaning."""

    term: str
    broker: str
    kind: str  # word, setting, option or statistic
    meaning: str
    rules: tuple[str, ...]
    # Other words for it, such as those of other products, that people may search for.
    asked: tuple[str, ...] = ()

    def __repr__(self) -> str:
        spelling = f" (the broker's: {self.broker})" if self.broker not in ("", self.term) else ""
        rules = f" [{', '.join(self.rules)}]" if self.rules else ""
        return f"{self.term}{spelling}: {self.meaning}{rules}"


def terms() -> list[_Term]:
    """Return all terms of the glossary, sorted as in the table."""
    with open(kit_path("data") / "glossary.csv", encoding="utf-8", newline="") as file:
        return [
            _Term(
                *(row["term"], row["broker"], row["kind"], row["meaning"], tuple(row["rules"].split())),
                tuple(row["asked"].split("; ")) if row["asked"] else (),
            )
            for row in csv.DictReader(file)
        ]


def synonyms() -> dict[str, list[str]]:
    """Return the terms for each word that people may search for, all in lower case."""
    found: dict[str, list[str]] = {}
    for one in terms():
        for word in one.asked:
            found.setdefault(word.casefold(), []).append(one.term.casefold())
    return found


def look_up(term: str) -> _Term:
    """Return the entry of a term, given by any of its names; case does not matter, nor - or _."""
    known: dict[str, _Term] = {}
    for found in terms():
        for spelling in (found.term, found.broker):
            known.setdefault(_plain(spelling), found)
    for found in terms():
        for spelling in found.asked:
            known.setdefault(_plain(spelling), found)
    if (plain := _plain(term)) in known and plain:
        return known[plain]
    near = difflib.get_close_matches(plain, known, 1)
    nearest = f"; the nearest is {known[near[0]].term!r}" if near else ""
    raise RefusalError(f"The glossary has no {term!r}{nearest}.")


def _plain(term: str) -> str:
    return term.casefold().replace("_", "-").strip()
