"""The rule book: the rules of the real broker, with their evidence and the tests of the engine for them.

A rule has an id such as FC-14, by which tests, tooltips and ``explain`` cite it. ``data/rules.csv`` contains
the sentence of each rule, its source and its certainty; rules that are tables (options, arguments, the order
of events) are in ``data/rule-tables``. ``notebooks/reference/rules.md`` shows the whole rule book, and
``qflow rules FC-14`` prints one rule.
"""

from __future__ import annotations

import argparse
import ast
import csv
import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from qflow.arguments import add_json
from qflow.kit import RefusalError, checkout_root, kit_path

RULE = re.compile(r"(?<![A-Za-z])(?:DQ|LP|FC|CM|CAP|MG|CN|EX|QT|CF|ALT|IN|RF|LNK)[-_]\d+\b", re.IGNORECASE)
"""The pattern of a citation of a rule; in the name of a test it has an underscore instead of the hyphen."""

CERTAINTIES: dict[str, str] = {
    "observed": "seen on the real broker, in a recording or an experiment",
    "source read": "read in the source or the history of the broker or a client, not tried",
    "documented": "a document says so, and nothing contradicts it",
    "inferred": "follows from other rules",
}
"""The degrees of certainty of a rule, with their meanings; the strongest evidence counts."""

SOURCES: dict[str, str] = {
    "recording": "recorded from the real broker; the names are files of `data/recordings/scenarios` (`m2-`: "
    "the second collection)",
    "live broker": "an experiment with the real broker, qpidd 1.40.0, over AMQP 0-10, for LNK over AMQP 1.0",
    "broker source": "the C++ broker's source; a file without a folder is in `src/qpid/broker`",
    "broker tests": "the test suites of the broker's project",
    "broker history": "the history of its source: the behaviour of an older release",
    "client source": "the source of qpid-python, qpid-cpp's client or the tools",
    "flow control document": "the manual's chapter *Producer Flow Control*",
    "message group document": "the manual's chapter *Using Message Groups*",
    "QPID-2935": "the ticket that introduced flow control, with its comments and attachment",
    "Java broker documents": "public sources on the Java broker's flow control",
    "AMQP 0-10": "the specification",
    "qflow": "a decision of this project",
}
"""The kinds of sources for a rule, with their meanings; in a rule, a colon and details may follow."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the broker: its id, title and sentence, and the evidence for it."""

    rule: str
    title: str
    sentence: str
    source: str  # one or more of SOURCES with details, separated by semicolons
    certainty: str
    untested: str = ""

    def __post_init__(self) -> None:
        if not (self.title and self.sentence):
            raise RefusalError(f"{self.rule}: a title and a sentence are needed.")
        kinds = [part.partition(":")[0] for part in self.source.split("; ")]
        if not set(kinds) <= set(SOURCES):
            raise RefusalError(f"{self.rule}: source {self.source!r}; allowed are {', '.join(SOURCES)}.")
        if self.certainty not in CERTAINTIES:
            raise RefusalError(
                f"{self.rule}: certainty {self.certainty!r}; allowed are {', '.join(CERTAINTIES)}."
            )


def rule_book() -> dict[str, Rule]:
    """Return all rules in the order of the rule book, keyed by id."""
    return _read(kit_path("data") / "rules.csv")


@cache
def _read(path: Path) -> dict[str, Rule]:
    columns = [column.name for column in fields(Rule)]
    book: dict[str, Rule] = {}
    with open(path, encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if len(row) != len(columns):
                raise RefusalError(
                    f"data/rules.csv, line {number}: {', '.join(columns)}, got {len(row)} columns; "
                    'what holds a comma is written in "quotation marks".'
                )
            if row[0] in book:
                raise RefusalError(f"data/rules.csv, line {number}: {row[0]} is there already.")
            if number > 1:
                book[row[0]] = Rule(*row)
    return book


def rule(cited: str) -> Rule:
    """Return the rule with an id; refuse an unknown id."""
    book = rule_book()
    # FC-02.4 is a part of FC-02, whose sentence contains it.
    name = cited.partition(".")[0]
    found = book.get(normalize(name) if RULE.fullmatch(name) else name)
    if found is None:
        same = [known for known in book if known.split("-")[0] == re.split(r"[-_\d]", cited.upper())[0]]
        allowed = f"{same[0]} to {same[-1]} in this area" if same else "ids such as FC-14 (qflow rules)"
        raise RefusalError(f"no rule {cited!r}; allowed are {allowed}.")
    return found


def rule_table(name: str) -> list[list[str]]:
    """Return the rows of a table of the rule book, with its header row first."""
    with open(kit_path("data") / "rule-tables" / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@cache
def cited_rules(folder: Path) -> dict[str, list[str]]:
    """Return the tests in a folder that cite a rule in their name, decorators or body, keyed by rule."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        for name, source in _tests(path):
            for rule in sorted({normalize(match) for match in RULE.findall(source)}):
                found.setdefault(rule, []).append(f"{path.stem}::{name}")
    return found


def cited_in_chapters(sources: Path) -> dict[str, list[str]]:
    """Return the numbers of the chapters that cite a rule, keyed by rule."""
    found: dict[str, list[str]] = {}
    for path in sorted(sources.glob("[0-9][0-9]-*.py")):
        for rule in sorted({normalize(match) for match in RULE.findall(path.read_text(encoding="utf-8"))}):
            found.setdefault(rule, []).append(path.name[:2])
    return found


def _find_uncovered(folder: Path) -> list[str]:
    """Return the ids of the rules that no test cites, and that have no reason for being untested."""
    cited = cited_rules(folder)
    return [name for name, rule in rule_book().items() if name not in cited and not rule.untested]


def run(chosen: argparse.Namespace) -> int:
    """Run ``qflow rules``: print the given rules in full, or a line for each rule; return the exit status."""
    root, asked = checkout_root(), chosen.rules
    if chosen.json:
        print(json.dumps([asdict(rule(name)) for name in asked or rule_book()], indent=2))
        return 0
    if asked:
        found = [rule(name) for name in asked]
        tests = None if root is None else cited_rules(root / "tests")
        chapters = cited_in_chapters(kit_path("notebooks") / "sources")
        print("\n\n".join(_whole(one, tests, chapters) for one in found))
        return 0
    if root is None:
        print("\n".join(f"{name:<7} {one.title}" for name, one in rule_book().items()))
        return 0
    cited, book = cited_rules(root / "tests"), rule_book()
    for name, one in book.items():
        print(f"{name:<7} {one.title}")
        for test in cited.get(name, []):
            print(f"        {test}")
        if name not in cited:
            print(f"        no test: {one.untested or 'no reason given'}")
    missing = _find_uncovered(root / "tests")
    print(f"{len(book) - len(missing)} of {len(book)} rules have a test or a reason why not")
    return int(bool(missing))


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``rules`` to the ``qflow`` command."""
    parser = rooms.add_parser("rules")
    parser.add_argument("rules", nargs="*", metavar="RULE", help="such as FC-14, to print that rule whole")
    add_json(parser, "the rules, whole,")


def _whole(one: Rule, tests: dict[str, list[str]] | None, chapters: dict[str, list[str]]) -> str:
    """Return the full text of a rule: its sentence, its evidence, its tests and its chapters."""
    lines = [f"{one.rule}  {one.title}", *textwrap.wrap(one.sentence, 100), f"source: {one.source}"]
    lines.append(f"certainty: {one.certainty} ({CERTAINTIES[one.certainty]})")
    if tests is not None:
        lines.append(
            f"tests: {', '.join(tests.get(one.rule, [])) or 'none, ' + (one.untested or 'no reason given')}"
        )
    return "\n".join([*lines, f"chapters: {', '.join(chapters.get(one.rule, [])) or 'none'}"])


def _tests(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each test function in a file, and its source with the tables that it uses."""
    text = path.read_text(encoding="utf-8")
    lines, tree = text.splitlines(), ast.parse(text)
    tables = {
        target.id: "\n".join(lines[node.lineno - 1 : node.end_lineno])
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            # A parametrized test often cites its rules in the table that its decorator uses.
            names = {n.id for d in node.decorator_list for n in ast.walk(d) if isinstance(n, ast.Name)}
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            source = lines[first - 1 : node.end_lineno]
            yield node.name, "\n".join([*source, *(tables[name] for name in sorted(names) if name in tables)])


def normalize(citation: str) -> str:
    """Return the id of a rule in the spelling of the rule book, such as FC-01 for fc_1."""
    area, number = re.split("[-_]", citation.upper())
    return f"{area}-{int(number):02d}"
