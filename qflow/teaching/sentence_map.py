"""Which cell runs which sentence of the original documents.

``data/sentences.csv`` lists every sentence by its fingerprint: what it says in our own words, and, if it
claims anything about behaviour, the chapter cells and exercises that run it. The table that teachers read is
made from it.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qflow.kit import RefusalError, checkout_root, kit_path
from qflow.teaching.catalogue import THEMES, exercises
from qflow.teaching.sentences import fingerprint, sentences

TABLE = Path("notebooks") / "teachers" / "sentence-map.md"

_HEAD = """# Every sentence of the documents, and the cell that runs it

*Made by `qflow exercises sentences` from `data/sentences.csv`; do not edit.*

The documents are the chapter on producer flow control (F: a draft of 2011 and two copies of what was
published), the ticket QPID-2935 (T) and the chapter on message groups (M). Each of their sentences that
claims a behaviour, or sets up an example, is here, in our own words, with the chapter cells and the exercises
in which it is tried on the engine. Not all of them turn out to be true: chapter 11 is about those.
"""


@dataclass(frozen=True)
class Sentence:
    """One sentence of the documents.

    Parameters
    ----------
    id
        Such as ``F-004``.
    fingerprint
        What it is known by; see :func:`qflow.teaching.sentences.fingerprint`.
    documents
        The documents it stands in.
    is_claim
        Whether it claims a behaviour; headings and news of the project do not.
    says
        What it says, in our own words.
    where
        Chapter cells (``01-thresholds#held``) and exercises (``exercise:completed``).
    """

    id: str
    fingerprint: str
    documents: tuple[str, ...]
    is_claim: bool
    says: str
    where: tuple[str, ...]


def listed() -> list[Sentence]:
    """Read all sentences, in the order of the documents.

    Examples
    --------
    >>> next(sentence.where[0] for sentence in listed() if sentence.is_claim)
    '01-thresholds#window'
    """
    with open(kit_path("data") / "sentences.csv", encoding="utf-8", newline="") as file:
        return [
            Sentence(
                row["id"],
                row["fingerprint"],
                tuple(row["documents"].split()),
                row["kind"] == "claim",
                row["says"],
                tuple(row["where"].split()),
            )
            for row in csv.DictReader(file)
        ]


def targets(root: Path) -> set[str]:
    """List every chapter cell that runs and every exercise of a checkout, as `where` names them."""
    found = {f"exercise:{exercise.name}" for theme in THEMES for exercise in exercises(theme)}
    for source in (root / "notebooks" / "sources").glob("[0-9][0-9]-*.py"):
        cells = re.findall(r'^# %% id="([^"]+)"', source.read_text(encoding="utf-8"), re.MULTILINE)
        found |= {f"{source.stem}#{cell}" for cell in cells}
    return found


def missing(document: Path) -> list[str]:
    """List the sentences of a document that the table does not know."""
    known = {sentence.fingerprint for sentence in listed()}
    found = sentences(document.read_text(encoding="utf-8"))
    return [sentence for sentence in found if fingerprint(sentence) not in known]


def table() -> str:
    """Write the table of all claims, in Markdown."""
    rows = [
        f"| {sentence.id} | {sentence.says} | {', '.join(_link(place) for place in sentence.where)} |"
        for sentence in listed()
        if sentence.is_claim
    ]
    counted = f"\n{len(rows)} sentences.\n\n| sentence | says | where it runs |\n|---|---|---|\n"
    return _HEAD + counted + "\n".join(rows) + "\n"


def run(documents: str | None = None) -> int:
    """Write the table, and compare it with copies of the documents if a folder of them is named.

    Parameters
    ----------
    documents
        A folder of documents, or None.

    Returns
    -------
    int
        1 if a sentence is missing or a place does not exist, else 0.

    Raises
    ------
    RefusalError
        Away from a checkout, or if there is no such folder.
    """
    root = checkout_root()
    if root is None:
        raise RefusalError("The table is made in a checkout of qflow; run this command there.")
    problems = list(_problems(root))
    if documents is not None:
        folder = Path(documents)
        if not folder.is_dir():
            raise RefusalError(f"There is no folder {documents}.")
        for path in sorted(folder.glob("*.txt")):
            problems += [f"{path.name}: not in the table: {sentence}" for sentence in missing(path)]
    (root / TABLE).parent.mkdir(exist_ok=True)
    (root / TABLE).write_text(table(), encoding="utf-8", newline="\n")
    print(*problems, sep="\n", end="\n" if problems else "", file=sys.stderr)
    print(f"Wrote {TABLE.as_posix()}: {sum(sentence.is_claim for sentence in listed())} sentences.")
    return int(bool(problems))


def _problems(root: Path) -> Iterator[str]:
    known = targets(root)
    for sentence in listed():
        if sentence.is_claim and not sentence.where:
            yield f"{sentence.id} is run nowhere"
        for place in sentence.where:
            if place not in known:
                yield f"{sentence.id}: there is no {place}"


def _link(place: str) -> str:
    if place.startswith("exercise:"):
        name = place.removeprefix("exercise:")
        theme = next(theme for theme in THEMES if any(found.name == name for found in exercises(theme)))
        return f"[exercise `{name}`](../../exercises/{theme}.ipynb)"
    chapter, _, cell = place.partition("#")
    return f"[{chapter[:2]} `{cell}`](../{chapter}.ipynb)"
