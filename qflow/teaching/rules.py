"""The rules of the broker by id, and which tests hold the engine to each (``qflow rules``)."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from pathlib import Path

from qflow.kit import RefusalError, checkout_root, kit_path

RULE = re.compile(r"(?<![A-Za-z])(?:DQ|LP|FC|CM|CAP|MG|CN|EX|QT|CF|ALT|IN|RF)[-_]\d+\b", re.IGNORECASE)
"""How a rule is cited; in a test's name with an underscore."""

ARGUED: dict[str, str] = {
    "FC-27": "the model's counters cannot underflow, which the state machine's invariants show",
    "CAP-10": "there is no transport in process that could fail",
    "CF-13": "what qpid-stat and qpid-queue-stats print is no part of the model; the statistics are (CF-09)",
    "ALT-10": "a list of work done on the way, which says nothing about behaviour",
    "IN-12": "source positions at the end of texts are the real broker's; the model's texts end before",
}
"""Rules that no test can hold the engine to, and why."""


def rule_titles() -> dict[str, str]:
    """Return every rule's id and what it says in a few words.

    Raises
    ------
    RefusalError
        If a line of the list has more than two columns, or an id for the second time.

    Examples
    --------
    >>> rule_titles()["FC-14"]
    'ON when a message makes the level exceed a stop threshold'
    """
    titles: dict[str, str] = {}
    with open(kit_path("data") / "rules.csv", encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if len(row) != 2:
                raise RefusalError(
                    f"data/rules.csv, line {number}: an id and a title, got {len(row)} columns; "
                    'a title with a comma is written in "quotation marks".'
                )
            rule, title = row
            if rule in titles:
                raise RefusalError(f"data/rules.csv, line {number}: {rule} is there already.")
            titles[rule] = title
    del titles["rule"]
    return titles


def cited_rules(folder: Path) -> dict[str, list[str]]:
    """Return, for each rule, the tests that cite it: in their name, decorators, docstring or body.

    Parameters
    ----------
    folder : Path
        Where the tests are, in it or in folders of it.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py"), key=lambda path: path.name):
        for name, source in _tests(path):
            for rule in sorted({normal(match) for match in RULE.findall(source)}):
                found.setdefault(rule, []).append(f"{path.stem}::{name}")
    return found


def uncovered(folder: Path) -> list[str]:
    """Return the rules that no test cites and no argument excuses."""
    cited = cited_rules(folder)
    return [rule for rule in rule_titles() if rule not in cited and rule not in ARGUED]


def show() -> int:
    """Print every rule with its tests; return 1 if one has neither test nor argument.

    Raises
    ------
    RefusalError
        Away from a checkout, where there are no tests.
    """
    root = checkout_root()
    if root is None:
        raise RefusalError("The tests are in a checkout of qflow; run this command there.")
    cited = cited_rules(root / "tests")
    for rule, title in rule_titles().items():
        tests = cited.get(rule, [])
        print(f"{rule:<7} {title}")
        for test in tests:
            print(f"        {test}")
        if not tests:
            print(f"        no test: {ARGUED.get(rule, 'not argued')}")
    missing = uncovered(root / "tests")
    print(f"{len(rule_titles()) - len(missing)} of {len(rule_titles())} rules have a test or an argument")
    return int(bool(missing))


def _tests(path: Path) -> Iterator[tuple[str, str]]:
    """Yield a file's test functions with their source, and the tables their decorators name."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    tree = ast.parse(text)
    tables = {
        target.id: _source(lines, node)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            names = {n.id for d in node.decorator_list for n in ast.walk(d) if isinstance(n, ast.Name)}
            parts: list[ast.stmt | ast.expr] = [*node.decorator_list, node]
            pieces = [_source(lines, part) for part in parts]
            yield node.name, "\n".join([*pieces, *(tables[name] for name in sorted(names) if name in tables)])


def _source(lines: list[str], node: ast.stmt | ast.expr) -> str:
    return "\n".join(lines[node.lineno - 1 : node.end_lineno])


def normal(citation: str) -> str:
    """Return a rule's id as the rule book spells it.

    Examples
    --------
    >>> normal("fc_7")
    'FC-07'
    """
    area, number = re.split("[-_]", citation.upper())
    return f"{area}-{int(number):02d}"
