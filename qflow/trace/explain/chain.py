"""Explanations: an answer with its reasons, link by link, down to causes outside the broker.

An explanation is a tree of reasons.  Each reason is one true sentence, with the broker's rules that it
follows from, the row of the trace that caused it, and the subject that it describes; one can ask about that
subject next.  The last reason of each branch is a root cause: a client's own decision, a setting, or an event
that has not happened.

Each link also cites a section: the section of the original document that states its rule or, if none does,
the rule book's part on the rule's area.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

FLOW = "Producer Flow Control"
GROUPS = "Using Message Groups"
_ISSUE = "QPID-2935"
_RULES = "The rules of the broker"


class Section(NamedTuple):
    """A section of a document that states a rule.

    >>> str(Section("Producer Flow Control", "1.1.1 Example"))
    'Producer Flow Control, 1.1.1 Example'
    """

    document: str
    title: str

    def __str__(self) -> str:
        return f"{self.document}, {self.title}"


# The rules that each section of the original documents states. All other rules are only in the rule book.
_STATED = (
    (FLOW, "1.1 Overview", "FC-05"),
    (FLOW, "1.1.1 Example", "FC-13 FC-14 FC-16 FC-26"),
    (FLOW, "1.1.2 Example", "FC-15 FC-17 CM-01 CM-03 CAP-01 CAP-08 CAP-11"),
    (FLOW, "1.2 User Interface", "FC-01 FC-02 FC-03 FC-04 FC-08 FC-10 FC-19 CM-15 LP-10"),
    (_ISSUE, "Description", "LP-05 LP-06"),
    (_ISSUE, "A high-level description of a proposed solution", "ALT-07"),
    (_ISSUE, "A very hacky proof-of-concept", "ALT-06"),
    (_ISSUE, "Issues with this approach", "FC-24 CM-06 CAP-09"),
    (GROUPS, "Broker Configuration", "MG-01 MG-03"),
    (GROUPS, "Default Group", "MG-05"),
    (GROUPS, "Grouping Messages", "MG-04"),
    (GROUPS, "The Role of the Broker", "MG-06 MG-07 MG-08 MG-09 MG-10 MG-12 MG-13 MG-14"),
    (GROUPS, "Well Behaved Consumers", "MG-18"),
)
_DOCUMENTED = {rule: Section(where, title) for where, title, rules in _STATED for rule in rules.split()}

AREAS: dict[str, str] = {
    "DQ": "Counting: messages and bytes",
    "LP": "Limits and limit policies",
    "FC": "Producer flow control",
    "CM": "Completions",
    "CAP": "Capacity, the producer's window",
    "MG": "Message groups",
    "CN": "Consumers",
    "EX": "Exchanges and bindings",
    "QT": "Other kinds of queues",
    "CF": "Configuration and management",
    "ALT": "Design alternatives",
    "IN": "Without effect, or surprising",
    "RF": "Corrections found by recording",
    "LNK": "Links: differences on AMQP 1.0",
}
"""The areas of the rule book, by the letters of their ids: headings of ``notebooks/reference/rules.md``."""


def section_of(rule: str) -> Section:
    """Return the section of an original document that states a rule, or else the rule book's part on it."""
    if rule in _DOCUMENTED:
        return _DOCUMENTED[rule]
    area = rule.partition("-")[0]
    return Section(_RULES, f"{area}: {AREAS[area]}")


class Subject(NamedTuple):
    """The subject of a question or of one link of an answer.

    >>> str(Subject("producer", "C1"))
    'producer:C1'
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Reason:
    """One true sentence and the reasons for it; rows are given by their index in the trace."""

    text: str
    rules: tuple[str, ...]
    row: int | None  # The row that caused it; None for the row of the instant.
    subject: Subject
    because: tuple[Reason, ...] = field(default=())

    def flat(self, level: int = 0) -> Iterator[tuple[int, Reason]]:
        """Yield this reason and all reasons below it, each with its depth in the tree."""
        yield level, self
        for reason in self.because:
            yield from reason.flat(level + 1)


@dataclass(frozen=True, slots=True)
class Link:
    """One link of an explanation: a sentence, its rules, and the row that caused it.

    Parameters:
        text: One plain sentence.
        rules: The ids of its rules; ``qflow rules FC-14`` prints a rule.
        section: The section of a document that states the first rule.
        seq, time: The ``seq`` of the row that caused it, and its time in microseconds.
        subject: The subject that the sentence describes; :func:`explain` takes it as a question.
        level: The depth in the tree: 0 for the answer, 1 for its reasons, 2 for theirs.
    """

    text: str
    rules: tuple[str, ...]
    section: Section
    seq: int
    time: int
    subject: Subject
    level: int

    def data(self) -> dict[str, Any]:
        """Return the link as a JSON value."""
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
    """The explanation of a state at one instant: an answer and the tree of its reasons.

    Parameters:
        subject: The subject of the question.
        seq, time: The instant: a row's ``seq``, and its time in microseconds.
        links: The links of the tree, depth first: the answer, then its first reason with all reasons below.

    >>> from qflow.trace.explain.chain import section_of
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
        """The answer itself: the sentence of the first link."""
        return self.links[0].text

    def text(self, with_sources: bool = True) -> str:
        """Return the links as plain text, one per line; ``with_sources`` adds seq, time and rules."""
        return "\n".join(self._line(link, with_sources) for link in self.links)

    def _line(self, link: Link, with_sources: bool) -> str:
        arrow = "  " * (link.level - 1) + "← " if link.level else ""
        source = f"  [seq {link.seq}, {seconds(link.time)}; {', '.join(link.rules)}]" if with_sources else ""
        return f"{arrow}{link.text}{source}"

    def data(self) -> dict[str, Any]:
        """Return the explanation as a JSON value."""
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
        lines = [f"**{_escape(self.answer)}** {_cite(self.links[0])}", ""]
        for link in self.links[1:]:
            lines.append(f"{'  ' * (link.level - 1)}- because {_escape(link.text)} {_cite(link)}")
        return "\n".join(lines)


def seconds(time: int) -> str:
    """Return a time in microseconds as exact text in seconds."""
    whole, part = divmod(time, 1_000_000)
    return f"{whole}.{part:06d}".rstrip("0").rstrip(".") + " s"


def _cite(link: Link) -> str:
    return f"<small>({seconds(link.time)}, seq {link.seq}; {', '.join(link.rules)}; *{link.section}*)</small>"


def _escape(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "\\`*_{}[]<>#|" else letter for letter in text)
