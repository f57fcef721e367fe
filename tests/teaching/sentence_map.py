"""Which cell runs which sentence of the original documents.

The documents themselves are not part of qflow. ``data/sentences.csv`` lists every sentence by a fingerprint,
by which it is found again in a copy of its document, with what it says in our own words and, if it claims
anything about behaviour, the chapter cells and exercises that run it.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from qflow.kit import kit_path
from qflow.teaching.exercise import exercises, themes

_TAGS_THAT_END = re.compile(
    r"</?(?:para|title|listitem|entry|row|programlisting|section|table|itemizedlist)\b[^>]*>"
)
_TAGS = re.compile(r"<[^>]*>")
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
_ENDS = re.compile(r"(?<=[.!?:])\s+(?=[A-Z(\"'*0-9-])")
_BULLET = re.compile(r"^[\s*o•)(\-–|#>+]+")


def sentences(text: str) -> list[str]:
    """Return the sentences of a page, Markdown, a ticket or a mail with DocBook in it, without markup."""
    found = []
    for paragraph in _paragraphs(text):
        for sentence in _ENDS.split(paragraph):
            plain = _BULLET.sub("", sentence).strip()
            if re.search(r"[A-Za-z]{2}", plain):
                found.append(plain)
    return found


def fingerprint(sentence: str) -> str:
    """Return what a sentence is found again by: the same for every markup, wrapping and case."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"[_\\]", "", sentence.lower()))
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


def _paragraphs(text: str) -> Iterator[str]:
    if "<section id=" in text:
        body = text[text.index("\n+<section id=") :].split("\n-----", 1)[0]
        # A commit mail: every line of the document begins with a plus, but for what the mailer wrapped.
        joined = re.sub(r"\n\+?", " ", _COMMENTS.sub(" ", body))
        parts = _TAGS_THAT_END.sub("\n", joined)
    elif "added a comment" in text:
        parts = _ticket(text)
    elif re.search(r"^# ", text, re.MULTILINE):
        # Markdown: lines of a paragraph belong together.
        parts = re.sub(r"(?<!\n)\n(?![\n|])(?! {4})", " ", text)
    else:
        parts = text
    for part in _TAGS.sub("", parts).split("\n"):
        for cell in re.split(r"\s\|\s|^\||\|$", part):
            if plain := re.sub(r"\s+", " ", cell).strip():
                yield plain


def _ticket(text: str) -> str:
    """Take a ticket's description and comments, and each comment only once."""
    lines = text[text.index("Description") :].split("\n")
    kept, is_repeated = [], False
    for line in lines:
        stripped = line.strip()
        if is_repeated and stripped:
            is_repeated = False
            continue
        is_repeated = is_repeated or stripped == "Show"
        kept.append(stripped)
    return "\n".join(kept).split("\nPeople", 1)[0]


@dataclass(frozen=True)
class Sentence:
    """One sentence of the documents."""

    id: str  # such as F-004
    fingerprint: str
    documents: tuple[str, ...]
    is_claim: bool  # of a behaviour; headings and news of the project claim none
    says: str  # in our own words
    where: tuple[str, ...]  # chapter cells (01-thresholds#held) and exercises (exercise:completed)


def listed() -> list[Sentence]:
    """Return all sentences, in the order of the documents."""
    with open(kit_path("data") / "sentences.csv", encoding="utf-8", newline="") as file:
        return [
            Sentence(name, print_, tuple(documents.split()), kind == "claim", says, tuple(where.split()))
            for name, print_, documents, kind, says, where in list(csv.reader(file))[1:]
        ]


def targets(root: Path) -> set[str]:
    """List every chapter cell that runs and every exercise of a checkout, as `where` names them."""
    found = {f"exercise:{exercise.name}" for theme in themes() for exercise in exercises(theme)}
    for source in (root / "notebooks" / "sources").glob("[0-9][0-9]-*.py"):
        cells = re.findall(r'^# %% id="([^"]+)"', source.read_text(encoding="utf-8"), re.MULTILINE)
        found |= {f"{source.stem}#{cell}" for cell in cells}
    return found


def missing(document: Path) -> list[str]:
    """List the sentences of a document that the table does not know."""
    known = {sentence.fingerprint for sentence in listed()}
    found = sentences(document.read_text(encoding="utf-8"))
    return [sentence for sentence in found if fingerprint(sentence) not in known]
