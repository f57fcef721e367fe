"""Explanation: an answer, and why it is so, link by link down to what nobody in the broker decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qflow.trace.explain.sections import Section


class Subject(NamedTuple):
    """What a question, or one link of an answer, is about.

    Examples
    --------
    >>> str(Subject("producer", "C1"))
    'producer:C1'
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Reason:
    """One true sentence and the reasons for it, before rows are turned into seqs and times.

    Parameters
    ----------
    text : str
        The sentence.
    rules : tuple of str
        Ids of the rules that make it so; the first is the one whose section is cited.
    row : int or None
        Place in the trace of the row that made it so; None for the instant itself.
    subject : Subject
        What it is about.
    because : tuple of Reason
        Why.
    """

    text: str
    rules: tuple[str, ...]
    row: int | None
    subject: Subject
    because: tuple[Reason, ...] = field(default=())

    def flat(self, level: int = 0) -> Iterator[tuple[int, Reason]]:
        """Yield this reason and all that it rests on, each with how deep it lies."""
        yield level, self
        for reason in self.because:
            yield from reason.flat(level + 1)


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the chain.

    Parameters
    ----------
    text : str
        One plain sentence.
    rules : tuple of str
        Ids as in the rule book (``qflow rules``).
    section : Section
        Where the first of them is documented.
    seq, time : int
        The row that made it so, and when that was in microseconds.
    subject : Subject
        What it is about; itself something that can be asked about.
    level : int
        0 for the answer; each link rests on those of the next level that follow it.
    """

    text: str
    rules: tuple[str, ...]
    section: Section
    seq: int
    time: int
    subject: Subject
    level: int

    def data(self) -> dict[str, Any]:
        """Return the link as JSON can hold it."""
        return {
            "text": self.text,
            "rules": list(self.rules),
            "document": self.section.document,
            "section": self.section.title,
            "seq": self.seq,
            "time": self.time,
            "subject": {"kind": self.subject.kind, "name": self.subject.name},
            "level": self.level,
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why something is as it is at one instant.

    Parameters
    ----------
    subject : Subject
        What was asked about.
    seq, time : int
        The instant: a row's ``seq``, and its time in microseconds.
    links : tuple of Link
        The answer, then what it rests on, depth first. The last of each branch is a root cause: a
        client's own decision, a setting, or that something has not happened.

    Examples
    --------
    >>> from qflow.trace.explain.sections import section_of
    >>> link = Link("q is OFF.", ("FC-13",), section_of("FC-13"), 3, 1_500_000, Subject("queue", "q"), 0)
    >>> print(Explanation(Subject("queue", "q"), 9, 2_000_000, (link,)).text())
    q is OFF.  [seq 3, 1.5 s; FC-13]
    """

    subject: Subject
    seq: int
    time: int
    links: tuple[Link, ...]

    @property
    def answer(self) -> str:
        """The first link's sentence."""
        return self.links[0].text

    def text(self, with_sources: bool = True) -> str:
        """Return the chain as plain text, one link a line.

        Parameters
        ----------
        with_sources : bool
            Whether to add row, time and rules to each line.
        """
        return "\n".join(self._line(link, with_sources) for link in self.links)

    def _line(self, link: Link, with_sources: bool) -> str:
        arrow = "  " * (link.level - 1) + "← " if link.level else ""
        source = f"  [seq {link.seq}, {seconds(link.time)}; {', '.join(link.rules)}]" if with_sources else ""
        return f"{arrow}{link.text}{source}"

    def data(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            "subject": {"kind": self.subject.kind, "name": self.subject.name},
            "seq": self.seq,
            "time": self.time,
            "links": [link.data() for link in self.links],
        }

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Explanation({str(self.subject)!r}, seq {self.seq}: {self.answer!r}, {len(self.links)} links)"

    def _repr_markdown_(self) -> str:
        lines = [f"**{_escaped(self.answer)}** {_cited(self.links[0])}", ""]
        for link in self.links[1:]:
            lines.append(f"{'  ' * (link.level - 1)}- because {_escaped(link.text)} {_cited(link)}")
        return "\n".join(lines)


def seconds(time: int) -> str:
    """Say a time in microseconds as seconds, exactly.

    Examples
    --------
    >>> seconds(1_500_000), seconds(0), seconds(12)
    ('1.5 s', '0 s', '0.000012 s')
    """
    whole, part = divmod(time, 1_000_000)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".") + " s"


def _cited(link: Link) -> str:
    return f"<small>({seconds(link.time)}, seq {link.seq}; {', '.join(link.rules)}; *{link.section}*)</small>"


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|" else letter for letter in text)
