"""The reference pages and the glossary, which are generated from code, rules, tests and tables.

A page that repeats what the code says becomes outdated unless it is generated from the code. A test compares
these pages with a fresh build. The hand-written text of each page is a file in ``pages``, beside this module,
with named gaps for the generated parts. The function pages are not made here, but on demand by
:mod:`qflow.launch.function_pages`.
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from qflow.broker.settings import KEYS, LEGACY_LVQ_ARGUMENTS
from qflow.launch.function_pages import markdown
from qflow.launch.sections import anchor
from qflow.live.client_card import known_clients
from qflow.maintain import checkout
from qflow.teaching.glossary import terms
from qflow.teaching.rules import (
    CERTAINTIES,
    RULE,
    SOURCES,
    cited_in_chapters,
    cited_rules,
    rule_book,
    rule_table,
)
from qflow.trace.explain.chain import AREAS


def _fill(page: str, **gaps: Iterable[str]) -> str:
    """Return the text of a page, with the given lines inserted at its gaps."""
    filled = {name: "\n".join(lines).strip("\n") for name, lines in gaps.items()}
    return (_TEXTS / f"{page}.md").read_text("utf-8").format(**filled)


FOLDER = "notebooks/reference"
_TEXTS = Path(__file__).with_name("pages")
_TABLES = (
    "order-of-events", "qpid-config-options", "broker-options", "error-codes", "golden-scenarios",
    "contradictions",
)  # fmt: skip
"""The tables below the rules on the page of the rule book, by their names in the kit's data."""


def pages(kind: str = "reference") -> dict[str, Callable[[], str]]:
    """Return the functions that build the pages of a kind, "reference" or "glossary", keyed by path."""
    if kind == "glossary":
        return {_GLOSSARY: _glossary_page}
    made = {
        "rules.md": _rules_page,
        "clients.md": _clients_page,
        "left-out.md": _left_out_page,
        "broker-failures.md": _broker_failures_page,
        "trace-format.md": _trace_page,
        "workload-format.md": _workload_page,
    }
    return {f"{FOLDER}/{name}": page for name, page in made.items()}


def _rules_page() -> str:
    """Return the page of the rule book: each rule with its source, certainty, tests and chapters."""
    root = checkout()
    tests, chapters = cited_rules(root / "tests"), cited_in_chapters(root / "notebooks" / "sources")
    lines, area = [], ""
    for name, rule in rule_book().items():
        if name.split("-")[0] != area:
            area = name.split("-")[0]
            lines += [f"## {area}: {AREAS[area]}", ""]
        held = _count_tests(tests.get(name, [])) or f"none, {rule.untested or 'no reason given'}"
        said = f"**{_link_rules(rule.title)}.** {_link_rules(rule.sentence, name)}"
        known = f"*Source*: {_link_rules(rule.source)}. *Certainty*: {rule.certainty}. *Tests*: {held}."
        if name in chapters:
            known += f" *Chapters*: {', '.join(chapters[name])}."
        lines += [f"### {name}", "", said, "", known, ""]
    found = {"declare-arguments": _declare_arguments(), **{name: rule_table(name) for name in _TABLES}}
    tables = {
        name: _table(head, [map(_link_rules, row) for row in rows]) for name, (head, *rows) in found.items()
    }
    meanings = _table(("word", "meaning"), [*SOURCES.items(), *CERTAINTIES.items()])
    return _fill("rules", rules=lines, meanings=meanings, **tables)


def _declare_arguments() -> list[list[str]]:
    """Return the table of the queue arguments that the engine reads, with their rules, below a header row."""
    kinds = {key: kind.__name__.removeprefix("to_").strip("_") for key, (_, kind) in KEYS.items()}
    kinds |= dict.fromkeys(LEGACY_LVQ_ARGUMENTS, "any")
    rows = [["argument", "type", "rules"]]
    for key, kind in kinds.items():
        named = re.compile(rf"(?<![\w.-]){re.escape(key)}(?![\w-])")
        rows.append(
            [key, kind, ", ".join(one.rule for one in rule_book().values() if named.search(one.sentence))]
        )
    return rows


def _left_out_page() -> str:
    """Return the page of the model's omissions, with the reasons that the engine's refusals give."""
    head, *rows = rule_table("left-out")
    return _fill("left-out", table=_table(head, rows))


def _broker_failures_page() -> str:
    """Return the page of the real broker's failures, each with the shortest commands that cause it."""
    _, *rows = rule_table("broker-failures")
    lines = []
    for what, how, commands, here, source in rows:
        lines += [
            f"## {what[0].upper()}{what[1:]}",
            "",
            f"*{how}*; {here}. *Source*: {_link_rules(source, page='rules.md')}.",
            "",
        ]
        lines += ["```python", *commands.split("; "), "```", ""]
    return _fill("broker-failures", failures=lines[:-1])


def _trace_page() -> str:
    """Return the page of the trace format: its columns and its kinds of rows."""
    from qflow.trace.schema import COLUMNS, FORMAT, KINDS

    columns = [(f"`{one.name}`", one.type, one.meaning) for one in COLUMNS]
    kinds = [(f"`{kind}`", meaning) for kind, meaning in KINDS.items()]
    return _fill(
        "trace-format",
        format=[FORMAT],
        columns=_table(("column", "type", "meaning"), columns),
        kinds=_table(("kind", "its statement"), kinds),
    )


def _workload_page() -> str:
    """Return the page of the workload file format: the docstrings of the classes of its parts."""
    from qflow.workload import Consumer, Network, Producer, Workload

    parts = []
    for part in (Workload, Producer, Consumer, Network):
        parts += [f"## {part.__name__}", "", *markdown(inspect.getdoc(part)), ""]
    return _fill("workload-format", parts=parts)


def _clients_page() -> str:
    """Return the page of client libraries: their behaviour, cures for it, and programs with these cures."""
    clients, cures, programs = known_clients(), [], []
    head = ("library", "pattern", "AMQP", "stops", "on the queue", "stored at 30", "judgement")
    rows = [
        (one.library, one.pattern, one.wire, one.stops, one.stopped, one.limit or "–", one.judgement)
        for one in clients
    ]
    for one in clients:
        links = ", ".join(f"[{path.name}](#{anchor(path.name)})" for path in one.cures)
        deleted = f" Of the deleted queue: {one.deleted}." if one.deleted else ""
        where = "" if one.measured.startswith("qpidd") else f" Measured on {one.measured}."
        cures.append(
            f"- **{one.library} over {one.wire}, {one.pattern}**: {one.learns}.{deleted}{where} "
            f"*Cure*: {links or one.cure}."
        )
    for path in dict.fromkeys(path for one in clients for path in one.cures):
        language = "python" if path.suffix == ".py" else "javascript"
        programs += [f"### {path.name}", "", f"```{language}", path.read_text("utf-8").rstrip(), "```", ""]
    return _fill("clients", clients=_table(head, rows), cures=cures, programs=programs)


def _find_changes(kind: str, root: Path) -> dict[str, str]:
    """Return the new text of each outdated or missing page of a kind, keyed by its path in the checkout."""
    wanted = {name: page() for name, page in pages(kind).items()}
    there = {name: (root / name).read_text("utf-8") for name in wanted if (root / name).exists()}
    return {name: text for name, text in wanted.items() if there.get(name) != text}


def build(kind: str = "reference", top: Path | None = None) -> list[str]:
    """Write the outdated or missing pages of a kind, "reference" or "glossary"; return their paths."""
    root = top or checkout()
    changes = _find_changes(kind, root)
    for name, text in changes.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8", newline="\n")
    return list(changes)


def stale(kind: str = "reference") -> list[str]:
    """Return the paths of those pages of a kind, "reference" or "glossary", that are outdated or missing."""
    return list(_find_changes(kind, checkout()))


_GLOSSARY = "notebooks/teachers/glossary.md"

_KINDS = {
    "word": "Words",
    "setting": "Settings of a queue",
    "option": "Options of the broker",
    "statistic": "Statistics",
}


def _glossary_page() -> str:
    """Return the page of the glossary, with a table for each kind of terms."""
    lines = []
    for kind, title in _KINDS.items():
        found = sorted((one for one in terms() if one.kind == kind), key=lambda one: one.term.casefold())
        mark = "" if kind == "word" else "`"
        rows = [(one.term, f"{mark}{one.broker}{mark}", one.meaning, " ".join(one.rules)) for one in found]
        lines += [f"## {title}", "", *_table(("here", "the broker's", "meaning", "rules"), rows), ""]
    return _fill("glossary", terms=lines)


def _table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows)]


def _count_tests(tests: list[str]) -> str:
    counts = Counter(test.split("::")[0] for test in tests)
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in counts.items())


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(_cell(cell) for cell in cells)} |"


def _link_rules(text: str, own: str = "", page: str = "") -> str:
    """Return a text escaped for Markdown, in which each rule id except `own` links to that rule."""
    plain = re.sub(r"[\\`*<\[\]]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)
    return RULE.sub(lambda id: id[0] if id[0] == own else f"[{id[0]}]({page}#{id[0].lower()})", plain)
