"""Pages that are made from code, rules, tests and tables: the reference and the glossary.

A page that repeats what the code says goes stale unless it is made from it. These are; a test compares them.
What is written by hand of a page is a text in ``pages``, beside this module, with gaps for what is made.
The page of a room names every public function and class; that of a module has them with their docstrings.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from qflow.broker.settings import KEYS, LEGACY_LVQ_ARGUMENTS
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

ROOMS = (
    "broker", "messaging", "configuration", "workload", "logs", "trace", "prediction", "design",
    "conformance", "labs", "teaching",
)  # fmt: skip
"""The rooms that have a page."""

_WIDTH = 78
"""How long a line with all parameters may be."""

_SECTION = re.compile(r"(Attributes|Fields|Parameters|Raises|Returns|Yields):")
_ENTRY = re.compile(r" {4}(\S.*?)(?:: (.*))?")
_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")


def _fill(page: str, **gaps: Iterable[str]) -> str:
    """Return a page: its text, with lines in its gaps."""
    filled = {name: "\n".join(lines).strip("\n") for name, lines in gaps.items()}
    return (_TEXTS / f"{page}.md").read_text("utf-8").format(**filled)


def _room_page(room: str) -> str:
    """Return the page of a room: its modules, and what each holds."""
    package = importlib.import_module(f"qflow.{room}")
    lines = [f"# qflow.{room}", "", *docstring(package)]
    for module in _modules(package):
        page = f"functions/{_page_name(module)}"
        lines += ["", f"## [{module.__name__}]({page})", "", _first_paragraph(module), ""]
        lines += [
            f"- [`{name}`]({page}#{anchor(name)}): {_first_paragraph(one)}" for name, one in _members(module)
        ]
    return "\n".join([*lines, ""])


def _module_page(module: ModuleType) -> str:
    """Return the page of a module: its theory, and each of its functions and classes."""
    room = module.__name__.split(".")[1]
    lines = [
        f"# {module.__name__}",
        "",
        f"Of [qflow.{room}](../functions-{room}.md).",
        "",
        *docstring(module),
    ]
    for name, member in _members(module):
        lines += ["", f"## `{name}`", "", "```python", *_declaration(name, member), "```", ""]
        lines += docstring(member)
        if inspect.isclass(member):
            lines += _methods(member)
    return "\n".join([*lines, ""])


def _page_name(module: ModuleType) -> str:
    return f"{module.__name__.removeprefix('qflow.')}.md"


def _first_paragraph(member: object) -> str:
    return _prose((inspect.getdoc(member) or "").split("\n\n")[0].replace("\n", " "), "")


def _declaration(name: str, member: object) -> list[str]:
    """Return how something is called, on one line or with a line for each parameter."""
    parameters = _parameters(member)
    line = f"{name}({', '.join(parameters)})"
    return [line] if len(line) <= _WIDTH else [f"{name}(", *(f"    {one}," for one in parameters), ")"]


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    names = sorted(found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    for name in names:
        if not any(part.startswith("_") or part == "cli" for part in name.split(".")):
            module = importlib.import_module(name)
            if any(_members(module)):
                yield module


def _members(module: ModuleType) -> Iterator[tuple[str, object]]:
    for name, member in sorted(vars(module).items()):
        if name.startswith("_") or not (inspect.isclass(member) or inspect.isfunction(member)):
            continue
        if member.__module__ == module.__name__ and inspect.getdoc(member):
            yield name, member


def _methods(owner: type) -> list[str]:
    lines = []
    for name, member in vars(owner).items():
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if name.startswith("_") or not inspect.isfunction(member) or not member.__doc__:
            continue
        lines.append(f"- `{name}({', '.join(_parameters(member))})`: {_first_paragraph(member)}")
    return ["", *lines] if lines else []


def _parameters(member: object) -> list[str]:
    if dataclasses.is_dataclass(member):
        return [
            _format_parameter(field.name, field.type) for field in dataclasses.fields(member) if field.init
        ]
    try:
        parameters = inspect.signature(member).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    # Without defaults, so that no object's address is printed.
    marks: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = [one for one in parameters if one.name != "self"]
    return [_format_parameter(marks.get(one.kind, "") + one.name, one.annotation) for one in shown]


def _format_parameter(name: str, annotation: object) -> str:
    return f"{name}: {annotation}" if isinstance(annotation, str) else name


def docstring(member: object) -> list[str]:
    """Return a docstring as Markdown: sections as bold lines, what they list as a list, examples as code."""
    lines: list[str] = []
    section, is_code = "", False
    for line in (inspect.getdoc(member) or "").splitlines():
        if found := _SECTION.fullmatch(line):
            section = found[1]
            lines += [f"**{section}**", ""]
            continue
        if line and not line.startswith(" "):
            section = ""
        if line.startswith(">>>") and not is_code:
            lines.append("```python")
            is_code = True
        if is_code and not line.strip():
            lines.append("```")
            is_code = False
        lines.append(line if is_code else _prose(line, section))
    return [*lines, "```"] if is_code else lines


def _prose(line: str, section: str) -> str:
    plain = _ROLE.sub(r"`\1`", line).replace("``", "`")
    if not section or not plain:
        return plain
    entry = None if section in ("Returns", "Yields") else _ENTRY.fullmatch(plain)
    if entry is None:
        return f"  {plain.strip()}" if section not in ("Returns", "Yields") else plain.strip()
    return f"- `{entry[1]}`" + (f": {entry[2]}" if entry[2] else "")


FOLDER = "notebooks/reference"
_TEXTS = Path(__file__).with_name("pages")
_TABLES = (
    "order-of-events", "qpid-config-options", "broker-options", "error-codes", "golden-scenarios",
    "contradictions",
)  # fmt: skip
"""What stands below the rules."""


def pages(kind: str = "reference") -> dict[str, Callable[[], str]]:
    """Return the pages of a kind: the path of each in a checkout, and what makes it."""
    if kind == "glossary":
        return {_GLOSSARY: _glossary_page}
    made: dict[str, Callable[[], str]] = {
        "rules.md": _rules_page,
        "clients.md": _clients_page,
        "left-out.md": _left_out_page,
        "trace-format.md": _trace_page,
        "workload-format.md": _workload_page,
    }
    for room in ROOMS:
        made[f"functions-{room}.md"] = partial(_room_page, room)
        for module in _modules(importlib.import_module(f"qflow.{room}")):
            made[f"functions/{_page_name(module)}"] = partial(_module_page, module)
    return {f"{FOLDER}/{name}": page for name, page in made.items()}


def _rules_page() -> str:
    """Return the rule book: each rule with its source, its certainty, its tests and its chapters."""
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
    """Return the table of arguments that the engine reads, with their rules; the first row is its head."""
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
    """Return what the model leaves out, with the reasons that the engine's refusals give."""
    head, *rows = rule_table("left-out")
    return _fill("left-out", table=_table(head, rows))


def _trace_page() -> str:
    """Return the schema of traces: columns and kinds of rows."""
    from qflow.trace.schema import COLUMNS, FORMAT, KINDS

    columns = [(f"`{one.name}`", one.type, one.meaning) for one in COLUMNS]
    kinds = [(f"`{kind}`", meaning) for kind, meaning in KINDS.items()]
    return _fill(
        "trace-format",
        format=[FORMAT],
        columns=_table(("column", "type", "meaning"), columns),
        kinds=_table(("kind", "what it says"), kinds),
    )


def _workload_page() -> str:
    """Return what a workload file may hold: the attributes of its parts, as their classes describe them."""
    from qflow.workload import Consumer, Network, Producer, Workload

    parts = []
    for part in (Workload, Producer, Consumer, Network):
        parts += [f"## {part.__name__}", "", *docstring(part), ""]
    return _fill("workload-format", parts=parts)


def _clients_page() -> str:
    """Return the table of clients, what each learned and what to do, and the programs that cure them."""
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


def _find_changes(kind: str, root: Path) -> dict[str, str | None]:
    """Return what generated pages that differ have to hold, by their path; None for one that has to go."""
    wanted = {name: page() for name, page in pages(kind).items()}
    # A module that was taken away or renamed leaves its page behind.
    made = (root / FOLDER / "functions").glob("*.md") if kind == "reference" else ()
    left = sorted({page.relative_to(root).as_posix() for page in made} - wanted.keys())
    there = {name: (root / name).read_text("utf-8") for name in wanted if (root / name).exists()}
    changed = {name: text for name, text in wanted.items() if there.get(name) != text}
    return {**changed, **dict.fromkeys(left)}


def build(kind: str = "reference", top: Path | None = None) -> list[str]:
    """Write the generated pages that differ from what is there; return their paths."""
    root = top or checkout()
    changes = _find_changes(kind, root)
    for name, text in changes.items():
        path = root / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
    return list(changes)


def stale(kind: str = "reference") -> list[str]:
    """Return the paths of the generated pages that are no longer what they are made from."""
    return list(_find_changes(kind, checkout()))


_GLOSSARY = "notebooks/teachers/glossary.md"

_KINDS = {
    "word": "Words",
    "setting": "Settings of a queue",
    "option": "Options of the broker",
    "statistic": "Statistics",
}


def _glossary_page() -> str:
    """Return the glossary, a table for each kind of terms."""
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


def _link_rules(text: str, own: str = "") -> str:
    """Return text with its signs as Markdown shows them, and each other rule's id as a link to it."""
    plain = re.sub(r"[\\`*<\[\]]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)
    return RULE.sub(lambda id: id[0] if id[0] == own else f"[{id[0]}](#{id[0].lower()})", plain)
