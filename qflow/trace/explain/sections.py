"""Where a rule is documented: the original document and its section, or the rule book's own chapter."""

from __future__ import annotations

from typing import NamedTuple

FLOW = "Producer Flow Control"
GROUPS = "Using Message Groups"
ISSUE = "QPID-2935"
RULES = "Broker behaviour reference"


class Section(NamedTuple):
    """A place in a document.

    Examples
    --------
    >>> str(Section("Producer Flow Control", "1.1.1 Example"))
    'Producer Flow Control, 1.1.1 Example'
    """

    document: str
    title: str

    def __str__(self) -> str:
        return f"{self.document}, {self.title}"


_OVERVIEW = Section(FLOW, "1.1 Overview")
_STATES = Section(FLOW, "1.1.1 Example")
_COMPLETIONS = Section(FLOW, "1.1.2 Example")
_INTERFACE = Section(FLOW, "1.2 User Interface")
_SOLUTION = Section(ISSUE, "A high-level description of a proposed solution")
_ISSUES = Section(ISSUE, "Issues with this approach")
_DESCRIPTION = Section(ISSUE, "Description")
_ROLE = Section(GROUPS, "The Role of the Broker")
_BEHAVED = Section(GROUPS, "Well Behaved Consumers")
_GROUPING = Section(GROUPS, "Grouping Messages")
_CONFIGURED = Section(GROUPS, "Broker Configuration")

# What an original document says too, by rule. All other rules are only in the rule book.
_DOCUMENTED: dict[str, Section] = {
    "FC-01": _INTERFACE,
    "FC-02": _INTERFACE,
    "FC-03": _INTERFACE,
    "FC-04": _INTERFACE,
    "FC-05": _OVERVIEW,
    "FC-08": _INTERFACE,
    "FC-10": _INTERFACE,
    "FC-13": _STATES,
    "FC-14": _STATES,
    "FC-15": _COMPLETIONS,
    "FC-16": _STATES,
    "FC-17": _COMPLETIONS,
    "FC-19": _INTERFACE,
    "FC-24": _ISSUES,
    "FC-26": _STATES,
    "CM-01": _COMPLETIONS,
    "CM-03": _COMPLETIONS,
    "CM-06": _ISSUES,
    "CM-15": _INTERFACE,
    "CAP-01": _COMPLETIONS,
    "CAP-08": _COMPLETIONS,
    "CAP-09": _ISSUES,
    "CAP-11": _COMPLETIONS,
    "LP-05": _DESCRIPTION,
    "LP-06": _DESCRIPTION,
    "LP-10": _INTERFACE,
    "MG-01": _CONFIGURED,
    "MG-03": _CONFIGURED,
    "MG-04": _GROUPING,
    "MG-05": Section(GROUPS, "Default Group"),
    "MG-06": _ROLE,
    "MG-07": _ROLE,
    "MG-08": _ROLE,
    "MG-09": _ROLE,
    "MG-10": _ROLE,
    "MG-12": _ROLE,
    "MG-13": _ROLE,
    "MG-14": _ROLE,
    "MG-18": _BEHAVED,
    "ALT-06": Section(ISSUE, "A very hacky proof-of-concept"),
    "ALT-07": _SOLUTION,
}

_CHAPTERS: dict[str, str] = {
    "DQ": "1 Queue depth, limits and limit policies",
    "LP": "1 Queue depth, limits and limit policies",
    "FC": "2 Producer flow control",
    "CM": "2.3 What a held transfer means on the wire",
    "CAP": "3 Producer capacity window",
    "MG": "4 Message groups",
    "CN": "5 Consumers",
    "EX": "6 Exchanges and bindings",
    "QT": "7 Other queue types and features",
    "CF": "8 Configuration surfaces",
    "ALT": "9 Design alternatives around QPID-2935",
    "IN": "12 Inert or surprising things",
    "RF": "Corrections to the rule book",
}


def section_of(rule: str) -> Section:
    """Return where a rule is documented, the original documents first.

    Raises
    ------
    KeyError
        If it is no rule of the rule book.

    Examples
    --------
    >>> str(section_of("FC-14"))
    'Producer Flow Control, 1.1.1 Example'
    >>> str(section_of("CN-19"))
    'Broker behaviour reference, 5 Consumers'
    """
    if rule in _DOCUMENTED:
        return _DOCUMENTED[rule]
    return Section(RULES, _CHAPTERS[rule.partition("-")[0]])
