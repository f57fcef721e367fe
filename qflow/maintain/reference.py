"""Pages that are made from code, rules, tests and tables: the reference and the glossary.

A page that repeats what the code says goes stale unless it is made from it. These are; a test compares them.
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

ROOMS: dict[str, str] = {
    "broker": "the engine",
    "messaging": "the client API people know from qpid.messaging",
    "configuration": "qpid-config's options, addresses and declare arguments",
    "workload": "producers and consumers in virtual time",
    "logs": "client logs: read, replayed through the engine, audited",
    "trace": "traces of the engine; the time machine; explain",
    "prediction": "what would have happened under other settings",
    "design": "thresholds that are safe",
    "conformance": "recordings of a real broker, played against the engine",
    "labs": "pictures that move",
    "teaching": "chapters, exercises, challenges, predictions",
}
"""The rooms that have a page, and what each is."""

_WIDTH = 78
"""How long a line with all parameters may be."""

_SECTION = re.compile(r"(Attributes|Fields|Parameters|Raises|Returns|Yields):")
_ENTRY = re.compile(r" {4}(\S.*?)(?:: (.*))?")
_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")


def _rooms_index() -> list[str]:
    """Return the page that leads to the rooms' pages."""
    return [
        "# Functions and classes",
        "",
        "Every public function and class with its own description and example. The tests run each example.",
        "",
        *(f"- [`qflow.{room}`](functions-{room}.md): {what}" for room, what in ROOMS.items()),
        "",
        "`qflow.spark` is described in chapter 13 and in [Spark in operation](spark-operations.md).",
    ]


def _room_page(room: str) -> list[str]:
    """Return the page of a room: its modules, and what each holds."""
    package = importlib.import_module(f"qflow.{room}")
    lines = [f"# qflow.{room}", "", *docstring(package)]
    for module in _modules(package):
        page = f"functions/{_page_name(module)}"
        lines += ["", f"## [{module.__name__}]({page})", "", _first_paragraph(module), ""]
        lines += [
            f"- [`{name}`]({page}#{anchor(name)}): {_first_paragraph(one)}" for name, one in _members(module)
        ]
    return lines


def _module_page(module: ModuleType) -> list[str]:
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
    return lines


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
_TABLES: dict[str, tuple[str, str]] = {
    "order-of-events": (
        "Order of events",
        "What happens to one transfer outside of a transaction, and to one message that leaves a queue.",
    ),
    "qpid-config-options": (
        "qpid-config options",
        "Of `qpid-config add queue NAME`. No integer where one is needed: usage error, exit status 2. "
        "`qpid-config del queue` sends if_empty and if_unused unless `--force`, `--force-if-not-empty` or "
        "`--force-if-used` clears them.",
    ),
    "broker-options": (
        "Broker options",
        "Of qpidd: on the command line, before the environment (`QPID_<NAME>`), before a configuration file "
        "(name=value). Unknown ones are refused on the command line and in the file.",
    ),
    "error-codes": ("Error codes", "Of AMQP 0-10, and what an error ends."),
    "golden-scenarios": (
        "Golden scenarios",
        "Short stories that were all seen on the real broker; tests and exercises cite them.",
    ),
    "contradictions": (
        "Contradictions",
        "Where a document says one thing and the broker does another; chapter 11 tries them.",
    ),
}
_WORDS = (
    "**Held**: a transfer whose completion a stopped queue withholds. **ON, OFF**: the flow control state of "
    "a queue, `flowStopped` true or false. A message on a queue is **AVAILABLE** or **ACQUIRED**. "
    "**Completion** (`session.completed`) means that a command is processed, **accept** that a consumer "
    "takes responsibility; they are different things."
)


def pages(kind: str = "reference") -> dict[str, Callable[[], list[str]]]:
    """Return the pages of a kind: the path of each in a checkout, and what gives its lines."""
    if kind == "glossary":
        return {GLOSSARY: _glossary_page}
    made: dict[str, Callable[[], list[str]]] = {
        "rules.md": _rules_page,
        "clients.md": _clients_page,
        "left-out.md": _left_out_page,
        "trace-format.md": _trace_page,
        "workload-format.md": _workload_page,
        "functions.md": _rooms_index,
    }
    for room in ROOMS:
        made[f"functions-{room}.md"] = partial(_room_page, room)
        for module in _modules(importlib.import_module(f"qflow.{room}")):
            made[f"functions/{_page_name(module)}"] = partial(_module_page, module)
    return {f"{FOLDER}/{name}": page for name, page in made.items()}


def _rules_page() -> list[str]:
    """Return the rule book: each rule with its source, its certainty, its tests and its chapters."""
    root = checkout()
    tests, chapters = cited_rules(root / "tests"), cited_in_chapters(root / "notebooks" / "sources")
    lines = [
        "# The rules of the broker",
        "",
        "What the real broker does, rule by rule; what that rests on; which tests hold the engine to it;",
        "which chapters show it. Tooltips and `explain` name the ids; FC-02.4 is step (4) of FC-02.",
        "`qflow rules FC-14` prints a rule, `qflow rules` lists all. An RF corrects other rules or adds to",
        "them; those name it.",
        "",
        _WORDS,
    ]
    area = ""
    for name, rule in rule_book().items():
        if name.split("-")[0] != area:
            area = name.split("-")[0]
            lines += ["", f"## {area}: {AREAS[area]}"]
        held = _count_tests(tests.get(name, [])) or f"none, {rule.untested or 'no reason given'}"
        said = f"**{_link_rules(rule.title)}.** {_link_rules(rule.sentence, name)}"
        known = f"*Source*: {_link_rules(rule.source)}. *Certainty*: {rule.certainty}. *Tests*: {held}."
        if name in chapters:
            known += f" *Chapters*: {', '.join(chapters[name])}."
        lines += ["", f"### {name}", "", said, "", known]
    tables = [(title, text, rule_table(table)) for table, (title, text) in _TABLES.items()]
    for title, text, (head, *rows) in [*tables[:1], declare_arguments(), *tables[1:]]:
        lines += ["", f"## {title}", "", text, "", *_table(head, [map(_link_rules, row) for row in rows])]
    meanings = _table(("word", "meaning"), [*SOURCES.items(), *CERTAINTIES.items()])
    return [*lines, "", "## Sources and certainty", "", *meanings]


def declare_arguments() -> tuple[str, str, list[list[str]]]:
    """Return title, text and rows of the table of arguments that the engine reads, with their rules."""
    kinds = {key: kind.__name__.removeprefix("to_").strip("_") for key, (_, kind) in KEYS.items()}
    kinds |= dict.fromkeys(LEGACY_LVQ_ARGUMENTS, "any")
    rows = [["argument", "type", "rules"]]
    for key, kind in kinds.items():
        named = re.compile(rf"(?<![\w.-]){re.escape(key)}(?![\w-])")
        rows.append(
            [key, kind, ", ".join(one.rule for one in rule_book().values() if named.search(one.sentence))]
        )
    text = (
        "What `queue.declare` understands, and the fair share of a level as `qpid.fairshare-N`, a uint32. "
        "Conversions: [CF-03](#cf-03); other arguments: [CF-02](#cf-02)."
    )
    return "Declare arguments", text, rows


def _left_out_page() -> list[str]:
    """Return what the model leaves out, with the reasons that the engine's refusals give."""
    head, *rows = rule_table("left-out")
    return [
        "# What is left out, and why",
        "",
        "Where the broker has a refusal for one of these, asking for it raises that refusal, so that silence",
        "is not taken for an answer; the last column says what a program gets.",
        "",
        *_table(head, rows),
        "",
        "Of the clients, `qflow.messaging` has what works in one process: no reconnection, no TLS.",
        "Of time, the model has what can change what a broker does; the real broker's own speed is not",
        "modelled, and `qflow predict` says how it takes the network's place.",
    ]


def _trace_page() -> list[str]:
    """Return the schema of traces: columns and kinds of rows."""
    from qflow.trace.schema import COLUMNS, FORMAT, KINDS

    return [
        "# The format of a trace",
        "",
        f"`{FORMAT}`: an ordered table, one row an event; commands are rows too, so a trace can be replayed.",
        "Parquet (`.parquet`) and JSON lines (`.jsonl`, `.jsonl.gz`) hold the same rows. In Parquet the",
        "schema's metadata holds the format, the broker's options and the workload; in JSON lines the first",
        "line does.",
        "",
        *_table(("column", "type", "meaning"), [(f"`{one.name}`", one.type, one.meaning) for one in COLUMNS]),
        "",
        "## Kinds of rows",
        "",
        *_table(("kind", "what it says"), [(f"`{kind}`", meaning) for kind, meaning in KINDS.items()]),
    ]


def _workload_page() -> list[str]:
    """Return what a workload file may hold: the attributes of its parts, as their classes describe them."""
    from qflow.workload import Consumer, Network, Producer, Workload

    lines = [
        "# The format of a workload file",
        "",
        "One JSON object. Its keys are the attributes of `Workload`; `producers` and `consumers` are lists",
        "of objects with the attributes of `Producer` and `Consumer`. `data/recordings/workloads` has",
        "examples. A file with an unknown attribute, or a value that is not allowed, is refused with a",
        "sentence.",
    ]
    for part in (Workload, Producer, Consumer, Network):
        lines += ["", f"## {part.__name__}", "", *docstring(part)]
    return lines


def _clients_page() -> list[str]:
    """Return the table of clients, what each learned and what to do, and the programs that cure them."""
    text, head, words, cures = _CLIENTS
    clients = known_clients()
    rows = [
        (one.library, one.pattern, one.wire, one.stops, one.stopped, one.limit or "–", one.judgement)
        for one in clients
    ]
    lines = [text, "", *_table(head, rows), "", words, ""]
    for one in clients:
        links = ", ".join(f"[{path.name}](#{anchor(path.name)})" for path in one.cures)
        deleted = f" Of the deleted queue: {one.deleted}." if one.deleted else ""
        where = "" if one.measured.startswith("qpidd") else f" Measured on {one.measured}."
        lines.append(
            f"- **{one.library} over {one.wire}, {one.pattern}**: {one.learns}.{deleted}{where} "
            f"*Cure*: {links or one.cure}."
        )
    lines += ["", cures]
    for path in dict.fromkeys(path for one in clients for path in one.cures):
        language = "python" if path.suffix == ".py" else "javascript"
        lines += ["", f"### {path.name}", "", f"```{language}", path.read_text("utf-8").rstrip(), "```"]
    return lines


_CLIENTS = (
    """# Does your client stop?

The broker brakes AMQP 1.0 by silence: a message above the stop threshold is stored, and its outcome comes
when there is room again (LNK-02). Whether a client stops is its own affair. These patterns were measured
against the real broker, qpidd 1.40.0, on 22 and 23 November 2026, with 6,000 messages each. *On the queue* is
what lay there when nothing moved any more, with stop 10, resume 5 and no consumer; *stored at 30* what was
stored with `qpid.max_count` 30 and the policy `reject` (without flow control where the client stops by
itself). `data/clients.csv` is the same as a file. Your own client is measured by
[`qflow check-client`](check-client.md).""",
    ["library", "pattern", "AMQP", "stops", "on the queue", "stored at 30", "judgement"],
    """## What each learns, and what to do

What the program learned of the messages that had no room, what it said when its queue was deleted, where that
was measured, and what cures it. What is said of libraries without a program here follows from what was
measured of them, and was not run.""",
    """## Programs that cure

Each was run with `qflow check-client --require stops,goes-on,loses-nothing`: python-qpid-proton 0.40, rhea
3.0.5, rhea-promise 3.0.3, amqp10 3.6.0, azure-servicebus 7.15 with its pyamqp, and uamqp 1.6; the tests do
so again where the library is installed. `proton_threads_cured.py`, beside them in `data/clients`, is the same
for an application with threads of its own. All take `AMQP_URL`, `AMQP_QUEUE`, `AMQP_MESSAGES` and, where they
have one, `WINDOW`.""",
)


def _find_changes(kind: str, root: Path) -> dict[str, str | None]:
    """Return what generated pages that differ have to hold, by their path; None for one that has to go."""
    wanted = {name: "\n".join(page()) + "\n" for name, page in pages(kind).items()}
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


GLOSSARY = "notebooks/teachers/glossary.md"

_KINDS = {
    "word": "Words",
    "setting": "Settings of a queue",
    "option": "Options of the broker",
    "statistic": "Statistics",
}
_GLOSSARY_HEAD = """# Glossary

*Made by `python -m qflow.maintain glossary build` from `data/glossary.csv`; do not edit.*

The first column is how this book says it, the second how the broker, its tools or the protocol do. Codes
such as FC-14 are rules of the project's rule book; `qflow rules FC-14` prints one. In a notebook,
`from qflow.teaching.glossary import look_up` and `look_up("held")` give the same."""


def _glossary_page() -> list[str]:
    """Return the glossary, a table for each kind of terms."""
    lines = [_GLOSSARY_HEAD]
    for kind, title in _KINDS.items():
        found = sorted((one for one in terms() if one.kind == kind), key=lambda one: one.term.casefold())
        mark = "" if kind == "word" else "`"
        rows = [(one.term, f"{mark}{one.broker}{mark}", one.meaning, " ".join(one.rules)) for one in found]
        lines += ["", f"## {title}", "", *_table(("here", "the broker's", "meaning", "rules"), rows)]
    return lines


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
