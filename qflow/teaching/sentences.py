"""Splitting the original documents into sentences, so that each can be traced to a cell that runs it.

The documents themselves are not part of qflow. What is kept of a sentence is a fingerprint, by which it is
found again in a copy of the document, and what it says in our own words (``data/sentences.csv``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

_TAGS_THAT_END = re.compile(
    r"</?(?:para|title|listitem|entry|row|programlisting|section|table|itemizedlist)\b[^>]*>"
)
_TAGS = re.compile(r"<[^>]*>")
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)
_ENDS = re.compile(r"(?<=[.!?:])\s+(?=[A-Z(\"'*0-9-])")
_BULLET = re.compile(r"^[\s*o•)(\-–|#>+]+")


def sentences(text: str) -> list[str]:
    r"""Split a document into its sentences, whatever it is written in.

    Parameters
    ----------
    text
        A web page as text, Markdown, a ticket as text, or a mail with a commit of DocBook.

    Returns
    -------
    list of str
        In order, without markup; headings and cells of tables count as sentences.

    Examples
    --------
    >>> sentences("A queue is OFF. At first, it is\nempty.")
    ['A queue is OFF.', 'At first, it is', 'empty.']
    """
    found = []
    for paragraph in _paragraphs(text):
        for sentence in _ENDS.split(paragraph):
            plain = _BULLET.sub("", sentence).strip()
            if re.search(r"[A-Za-z]{2}", plain):
                found.append(plain)
    return found


def fingerprint(sentence: str) -> str:
    """Return what a sentence is known by: the same for every markup, wrapping and case.

    Examples
    --------
    >>> fingerprint("It is _ON_, until  the end.") == fingerprint("it is on until the end")
    True
    """
    words = re.findall(r"[a-z0-9]+", re.sub(r"[_\\]", "", sentence.lower()))
    return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]


def fingerprints(path: Path) -> list[str]:
    """Return the fingerprints of a document's sentences, in order, each once."""
    text = path.read_text(encoding="utf-8")
    return list(dict.fromkeys(fingerprint(sentence) for sentence in sentences(text)))


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
