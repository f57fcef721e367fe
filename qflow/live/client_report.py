"""ClientReport: a client's cards, one for each brake, in the forms that a build needs.

A build uses three of them: facts that it requires (``--require``), an earlier report to compare with
(``--baseline``: nothing may get worse), and a page for people (Markdown for a pull request, JUnit for the
build's own view).  The comparison with a baseline is made for each line of the card:

===================== =========================================================================
line                  worse means
===================== =========================================================================
does it stop          it stopped, and no longer does
its window            more transfers are without an outcome
after resume          it resumed, and no longer does
limit …               more messages are lost, or never sent, while the program reports no failure
does it settle        it settled, and no longer does
locked with a sender  it could not be locked, and now can
===================== =========================================================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from qflow.kit import RefusalError
from qflow.live.client_card import COMPARED, COUNTED, FACTS, SUBJECTS, WINDOW, ClientCard, Conditions

if TYPE_CHECKING:
    from qflow.live.client_faults import Ledger

_COLUMN = 38
_READ: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("facts", "lost", "unsent", "card"), dict),
    **dict.fromkeys(COMPARED, (int, float)),
    "client_window": (int, type(None)),
}
"""The parts of a report that are needed for a comparison, with their types."""


@dataclass(frozen=True)
class ClientReport:
    """The measurements of one client: a card for each brake, and a ledger for each fault."""

    cards: Mapping[str, ClientCard]
    ledgers: Sequence[Ledger] = ()

    @property
    def first(self) -> ClientCard:
        """The card under the first brake."""
        return next(iter(self.cards.values()))

    def find_missed(self, required: Sequence[str]) -> list[tuple[str, str]]:
        """Return the required facts that do not hold, each with its brake."""
        return [
            (brake, name)
            for brake, card in self.cards.items()
            for name in required
            # None means unknown, which find_unknown returns.
            if card.fact(name) is False
        ]

    def find_unknown(self, required: Sequence[str]) -> list[tuple[str, str, str]]:
        """Return the required facts that are unknown: brake, name, and the reason."""
        return [
            (brake, name, card.doubt(name))
            for brake, card in self.cards.items()
            for name in required
            if card.role == FACTS[name] and card.doubt(name)
        ]

    def find_worse(self, baseline: Mapping[str, Any]) -> list[tuple[str, str, str]]:
        """Return the lines that are worse than in an earlier report: brake, line, both texts."""
        found = []
        for brake, card in self.cards.items():
            before = find_comparable(baseline, card.given)
            if before.get("role") != card.role:
                raise RefusalError(f"the baseline has no {card.role} under the brake {brake}")
            words = dict(card.lines())
            for line in _worse_lines(before, card):
                found.append((brake, line, f"was: {before['card'].get(line)}; is: {words[line]}"))
        return found

    # Forms

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON value: the card, or with several brakes a card for each."""
        if len(self.cards) == 1:
            found = self.first.as_json()
        else:
            found = {"brakes": {brake: card.as_json() for brake, card in self.cards.items()}}
        return {**found, "faults": [one.as_json() for one in self.ledgers]} if self.ledgers else found

    def as_markdown(self, worse: Sequence[tuple[str, str, str]] = ()) -> str:
        """Return a Markdown table with a column for each brake, and the worse lines below it."""
        heads = list(self.cards) if len(self.cards) > 1 else [""]
        table = [[subject, *(text.replace("|", "\\|") for text in texts)] for subject, texts in self._rows()]
        rows = [" | ".join(["", *cells, ""]).strip() for cells in table]
        lines = [f"**`{' '.join(self.first.command)}`**", ""]
        lines += [" | ".join(["", "", *heads, ""]).strip(), "|" + " --- |" * (len(heads) + 1), *rows]
        if self.ledgers:
            lines += [
                "",
                "| fault | |",
                "| --- | --- |",
                *(f"| {one.fault} | {one} |" for one in self.ledgers),
            ]
        lines += [f"\n**worse, {line}** ({brake}): {words}" for brake, line, words in worse]
        return "\n".join(lines) + "\n"

    def as_junit(self, required: Sequence[str] = (), worse: Sequence[tuple[str, str, str]] = ()) -> str:
        """Return JUnit XML: each line is a test case, failed if it is worse or misses a required fact."""
        suite = ElementTree.Element("testsuite", name="qflow check-client")
        failures = {(brake, line): words for brake, line, words in worse}
        for brake, name in self.find_missed(required):
            words = dict(self.cards[brake].lines())
            for line in _lines_of(name, self.cards[brake]):
                # A line that also got worse keeps the words of the comparison, which show both states.
                failures.setdefault((brake, line), f"{name} is required; {words[line]}")
        for brake, name, doubt in self.find_unknown(required):
            line = self.cards[brake].subject(name if name in SUBJECTS else COUNTED[-1])
            failures.setdefault((brake, line), f"{name} is required; cannot tell: {doubt}")
        for brake, card in self.cards.items():
            for line, text in card.lines():
                case = ElementTree.SubElement(suite, "testcase", classname=f"check-client.{brake}", name=line)
                if (brake, line) in failures:
                    ElementTree.SubElement(case, "failure", message=failures[brake, line])
                ElementTree.SubElement(case, "system-out").text = text
        suite.set("tests", str(len(suite)))
        suite.set("failures", str(len(suite.findall(".//failure"))))
        ElementTree.indent(suite)
        return ElementTree.tostring(suite, "unicode", xml_declaration=True) + "\n"

    def __str__(self) -> str:
        cards = str(self.first) if len(self.cards) == 1 else self._columns()
        if not self.ledgers:
            return cards
        from qflow.live.client_faults import ledger_table

        return f"{cards}\n\n{ledger_table(self.ledgers)}"

    def _columns(self) -> str:
        width = max(len(subject) for subject, _ in self._rows())
        heads = "  ".join(brake.ljust(_COLUMN) for brake in self.cards)
        lines = [*str(self.first).splitlines()[:2], "", f"{'':<{width}}  {heads}".rstrip()]
        for subject, texts in self._rows():
            parts = zip_longest(*(wrap(text, _COLUMN) for text in texts), fillvalue="")
            for number, row in enumerate(parts):
                name = "" if number else subject
                lines.append("  ".join([name.ljust(width), *(part.ljust(_COLUMN) for part in row)]).rstrip())
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, list[str]]]:
        columns = [dict(card.lines()) for card in self.cards.values()]
        return [(subject, [column.get(subject, "") for column in columns]) for subject in columns[0]]


def read_baseline(path: str | Path) -> dict[str, Any]:
    """Read an earlier report, as ``--json`` writes it; raise RefusalError for another file."""
    try:
        read = json.loads(Path(path).read_text("utf-8"))
    except ValueError as error:
        raise RefusalError(f"{path} is not JSON: {error}") from None
    if not isinstance(read, dict) or not ("brakes" in read or "facts" in read):
        raise RefusalError(f"{path} is not a report of qflow check-client --json")
    return read


def find_comparable(baseline: Mapping[str, Any], given: Conditions) -> Mapping[str, Any]:
    """Return an earlier report's card; raise RefusalError if it is malformed or had other conditions."""
    # A report with one brake is the card itself (:meth:`ClientReport.as_json`).
    brakes = baseline.get("brakes", {baseline.get("brake", given.brake): baseline})
    before = brakes.get(given.brake) if isinstance(brakes, dict) else None
    if not isinstance(before, dict):
        raise RefusalError(f"the baseline has no card under the brake {given.brake}")
    # All problems are reported at once, before anything is measured.
    odd = [name for name, kind in _READ.items() if not isinstance(before.get(name), kind)]
    odd += [
        name
        for name in ("lost", "unsent")
        if name not in odd and not all(isinstance(count, int) for count in before[name].values())
    ]
    if odd:
        raise RefusalError(f"the baseline lacks {', '.join(odd)}, or they are malformed; create it again")
    others = [
        f"{name} {before[name]:g} (now {getattr(given, name):g})"
        for name in COMPARED
        if before[name] != getattr(given, name)
    ]
    if others:
        raise RefusalError(f"the baseline was made under other conditions: {', '.join(others)}")
    return before


def _lines_of(fact: str, card: ClientCard) -> list[str]:
    """Return the names of a card's lines that decide a fact."""
    if fact in SUBJECTS:
        return [card.subject(fact)]
    return [card.subject(case) for case in COUNTED if card.count_lost(case) or card.count_unsent(case)]


def _worse_lines(before: Mapping[str, Any], card: ClientCard) -> list[str]:
    """Return the names of a card's lines that are worse than in an earlier card (plain values)."""
    now, window = card.as_json(), before.get("client_window")
    worse = {
        card.subject(name)
        for name, is_so in now["facts"].items()
        if name in SUBJECTS and before["facts"].get(name) and is_so is False
    }
    # Only a larger window is worse, as more messages are in doubt when the connection is lost.
    if window and (now["client_window"] or 0) > window:
        worse.add(WINDOW)
    for case in COUNTED:
        counts = [(now[kind].get(case, 0), before[kind].get(case, 0)) for kind in ("lost", "unsent")]
        # Of a program that sends another number each time only a loss where there was none is worse.
        if any(after > earlier and not (earlier and card.varies) for after, earlier in counts):
            worse.add(card.subject(case))
    return [line for line in now["card"] if line in worse]
