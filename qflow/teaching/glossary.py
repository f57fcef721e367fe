"""The glossary: every term in qflow's words and in the broker's.

One table, ``data/glossary.csv``, serves the page for readers and :func:`look_up` in a notebook.
"""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass
from pathlib import Path

from qflow.kit import RefusalError, checkout_root, kit_path

PAGE = Path("notebooks") / "teachers" / "glossary.md"

_KINDS = {
    "word": "Words",
    "setting": "Settings of a queue",
    "option": "Options of the broker",
    "statistic": "Statistics",
}
_HEAD = """# Glossary

*Made by `qflow exercises glossary` from `data/glossary.csv`; do not edit.*

The first column is how this book says it, the second how the broker, its tools or the protocol do. Codes
such as FC-14 are rules of the project's rule book; `qflow rules FC-14` prints one. In a notebook,
`from qflow.teaching.glossary import look_up` and `look_up("held")` give the same.
"""


@dataclass(frozen=True)
class Term:
    """One term.

    Parameters
    ----------
    term, broker
        How qflow says it, and how the broker does; empty if the broker has no word for it.
    kind
        ``word``, ``setting``, ``option`` or ``statistic``.
    meaning
        One or two sentences.
    rules
        The rules that say it exactly.
    """

    term: str
    broker: str
    kind: str
    meaning: str
    rules: tuple[str, ...]

    def __repr__(self) -> str:
        spelling = f" (the broker's: {self.broker})" if self.broker not in ("", self.term) else ""
        rules = f" [{', '.join(self.rules)}]" if self.rules else ""
        return f"{self.term}{spelling}: {self.meaning}{rules}"


def terms() -> list[Term]:
    """Read all terms."""
    with open(kit_path("data") / "glossary.csv", encoding="utf-8", newline="") as file:
        return [
            Term(row["term"], row["broker"], row["kind"], row["meaning"], tuple(row["rules"].split()))
            for row in csv.DictReader(file)
        ]


def look_up(term: str) -> Term:
    """Find a term by qflow's word or the broker's.

    Parameters
    ----------
    term
        In any case; underscores and hyphens are alike.

    Raises
    ------
    RefusalError
        If there is none; the nearest is named.

    Examples
    --------
    >>> look_up("flowStopped").meaning
    'Of a queue: flow control is ON.'
    >>> look_up("heldd")
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: The glossary has no 'heldd'; the nearest is 'held'.
    """
    known: dict[str, Term] = {}
    for found in terms():
        for spelling in (found.term, found.broker):
            known.setdefault(_plain(spelling), found)
    if (plain := _plain(term)) in known and plain:
        return known[plain]
    near = difflib.get_close_matches(plain, known, 1)
    nearest = f"; the nearest is {known[near[0]].term!r}" if near else ""
    raise RefusalError(f"The glossary has no {term!r}{nearest}.")


def page() -> str:
    """Write the glossary, in Markdown."""
    parts = [_HEAD]
    for kind, title in _KINDS.items():
        rows = sorted((found for found in terms() if found.kind == kind), key=lambda t: t.term.casefold())
        parts.append(f"\n## {title}\n\n| here | the broker's | meaning | rules |\n|---|---|---|---|\n")
        for found in rows:
            broker = f"`{found.broker}`" if found.kind != "word" else found.broker
            parts.append(f"| {found.term} | {broker} | {found.meaning} | {' '.join(found.rules)} |\n")
    return "".join(parts)


def run() -> int:
    """Write the page into the checkout; return 0."""
    root = checkout_root()
    if root is None:
        raise RefusalError("The page is made in a checkout of qflow; run this command there.")
    (root / PAGE).write_text(page(), encoding="utf-8", newline="\n")
    print(f"Wrote {PAGE.as_posix()}: {len(terms())} terms.")
    return 0


def _plain(term: str) -> str:
    return term.casefold().replace("_", "-").strip()
