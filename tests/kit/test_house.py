"""House rules: imports in one direction, names, docstrings and plain English."""

import ast
import re
import sys
from collections import Counter
from functools import cache
from importlib import import_module

import pytest
from networkx import DiGraph, simple_cycles

from qflow.broker import Broker, Message
from qflow.messaging import Connection
from qflow.teaching.rules import RULE

WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SAME_NAME_EVERYWHERE = {"__init__.py", "__main__.py", "cli.py"}


def modules(root):
    """Return the file of each module, keyed by the module's dotted name."""
    files = sorted((root / "qflow").rglob("*.py"))
    places = [file.parent if file.stem == "__init__" else file.with_suffix("") for file in files]
    return {".".join(place.relative_to(root).parts): file for place, file in zip(places, files, strict=True)}


@cache
def parse(file):
    return ast.parse(file.read_text("utf-8"))


def imported(tree, known):
    """Yield the modules that a module imports, at its top level or in a function."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_two_modules_import_each_other_by_any_way(root):
    known = modules(root)
    graph = DiGraph()
    for name, file in known.items():
        # A room's own list of names is read by type checkers; the room loads nothing.
        if file.stem != "__init__":
            graph.add_edges_from((name, other) for other in imported(parse(file), known))
    assert len(graph) > 100
    assert next(simple_cycles(graph), None) is None


def test_what_travels_does_not_import_what_maintainers_run(root):
    known = modules(root)
    importing = set()
    for name, file in known.items():
        # importlib.import_module takes a text.
        texts = [node.value for node in ast.walk(parse(file)) if isinstance(node, ast.Constant)]
        names = [*imported(parse(file), known), *map(str, texts)]
        if any(re.match(r"qflow\.maintain\b", one) for one in names):
            importing.add(name)
    assert {name for name in importing if not name.startswith("qflow.maintain")} == set() != importing


def test_no_two_files_have_one_name(root):
    files = [*modules(root).values(), *(root / "tests").rglob("*.py")]
    names = Counter(file.name for file in files if "conftest" not in file.name)
    assert {name for name, count in names.items() if count > 1} <= SAME_NAME_EVERYWHERE


PROTOCOLS_HAVE_IT = {"Agent", "Broker", "Connection", "Event", "Message", "Node", "Session"}
"""Class names that AMQP 0-10 and 1.0, qpid.messaging and QMF's console give to things of their own."""


def top_level(root):
    """Yield file, node and parsed module of each public function and class at the top of a module."""
    for file in modules(root).values():
        tree = parse(file)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                yield file, node, tree


def test_no_two_classes_have_one_name(root):
    names = Counter(node.name for _, node, _ in top_level(root) if isinstance(node, ast.ClassDef))
    assert {name for name, count in names.items() if count > 1} <= PROTOCOLS_HAVE_IT


def offered(tree):
    """Return the words in the types of public functions and fields, which their callers use."""
    types = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            types += [node.returns, *(argument.annotation for argument in node.args.args)]
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            types += [field.annotation for field in node.body if isinstance(field, ast.AnnAssign)]
    return set(re.findall(r"\w+", " ".join(map(ast.unparse, filter(None, types)))))


FOUND_OTHERWISE = {
    "UnauthorizedAccessException": "an error code of AMQP 0-10, found by its number",
    "IllegalStateException": "an error code of AMQP 0-10, found by its number",
    "IdealWindow": "a client's window, chosen by its name",
    "QpidCppWindow": "a client's window, chosen by its name",
    "Console": "scripts of QMF's console subclass it",
    "pytest_collectstart": "a hook of pytest's, found by its name",
    "auto_fetch_reconnect_urls": "programs that use qpid.messaging.util import it",
}


def test_what_no_other_module_uses_begins_with_an_underscore(root):
    """Chapters, pages and the build count as users, tests do not; nor do types in public signatures."""
    files = [*root.glob("*/sources/**/*.py"), *root.glob("*.py")]
    files += [root / "README.md", root / ".ci" / "run", *root.glob("qflow/maintain/pages/*.md")]
    files += root.glob("notebooks/reference/*.md")
    used = Counter(
        word
        for file in [*modules(root).values(), *files]
        for word in set(re.findall(r"\w+", file.read_text("utf-8")))
    )
    lonely = {
        node.name
        for file, node, tree in top_level(root)
        if used[node.name] == 1 and node.name not in offered(tree) and file.stem != "__main__"
    }
    assert lonely - FOUND_OTHERWISE.keys() == set()


DOCUMENTED_WHOLE = {
    "Object": "scripts of QMF's console hold it",
    "close": "Sender and Receiver, which messaging exports, inherit it",
}


def documented(node, exported, is_exported=False):
    """Yield the name and docstring of each function and class that no subpackage exports."""
    for child in node.body:
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            in_class = isinstance(node, ast.ClassDef)
            shown = is_exported and not child.name.startswith("_") if in_class else child.name in exported
            if not shown and (text := ast.get_docstring(child)):
                yield child.name, text
            yield from documented(child, exported, shown)


def test_what_no_room_exports_is_documented_on_one_line(root):
    """Exported names have full docstrings; all others one line, perhaps with an example."""
    rooms = [name for name, file in modules(root).items() if file.stem == "__init__"]
    exported = {name for room in rooms for name in getattr(import_module(room), "__all__", ())}
    long = {
        name
        for file in modules(root).values()
        if file.stem not in exported  # a room may export a module, with all that is public in it
        for name, text in documented(parse(file), exported)
        if "\n" in text.split(">>>")[0].strip()
    }
    assert long - DOCUMENTED_WHOLE.keys() == set()


def test_no_docstring_opens_with_three_ids(root):
    """Rule ids belong below the first paragraph, which they would make hard to read."""
    nodes = [node for file in modules(root).values() for node in ast.walk(parse(file))]
    texts = [ast.get_docstring(node) for node in nodes if isinstance(node, WITH_DOCSTRING)]
    opened = [re.search(r"\(([^()]*)\)\.?$", (text or "").partition("\n\n")[0]) for text in texts]
    assert [found[0] for found in opened if found and len(RULE.findall(found[1])) > 2] == []


_QUESTION = r"(?:what(?:ever)?|who|whom|whose|how|which|when|where|since|until)"
_LITTLE = (
    r"(?:is|are|was|were|has|have|had|does|did|can|may|must|should|would|it|they|this|there|an?|the|its|no"
    r"|each|all|one|some|others?|of|comes?|came|goes|makes|holds|belongs|follows|happens|waits|reads"
    r"|lies)"
)
HABITS = {
    "a clause stands where a noun belongs": rf"\b(?:what(?:ever)?|who|whom|whose) {_LITTLE}\b",
    "a function returns a question": rf"^(?:Returns?|Yields?|Say|Tell) (?:{_QUESTION}|by|for|of|in|between"
    r"|from)\b",
    "nothing is described by a negation": r"\b(?:is|are) none\b|\bthat there (?:is|are)\b|which it is not\b",
    "a prepositional phrase comes before its noun": r"(?:^|[,;:] |\. )(?:of|by|from|for|in) (?:an?|the|each"
    r"|several|one|what|which|those|all|them|its?)\b[^,.;:]{0,40}(?:, | the | how | what | which )",
    "a parameter has no name": r"\bso (?:many|much|few|long|far)\b",
    "an everyday verb is used as a term": r"\b(?:[Ll]ets? go|go(?:es)? on|lay|laid|lies|stands?|gives? back"
    r"|given back|sets? aside|hand(?:s|ed)? (?:on|over))\b",
    "a passive hides who acts": r"\b(?:is|are|was|were) (?:said|told|asked|looked at|spoken of)\b",
}
"""Habits that well-kept projects of the field do not have, each with a pattern that points to it."""


def habits_in(text):
    """Return the names of the habits found in the first paragraph of a docstring."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return [habit for habit, pattern in HABITS.items() if re.search(pattern, paragraph)]


@pytest.mark.parametrize(
    ("odd", "plain"),
    [
        ("The rules, with what each says.", "The rules, each with its sentence."),
        ("Return by what the load is divided.", "Return the divisor of the load."),
        ("Return the queue, None if it is none.", "Return the queue, or None for an unknown name."),
        ("The sizes; of each group the members, sorted.", "The sizes, and the members of each group."),
        ("Wait so many seconds.", "Wait `pause` seconds."),
        ("Let go of the held completions.", "Release the held completions; go to the next."),
        ("The broker is asked for its queues.", "Ask the broker for its queues."),
    ],
)
def test_a_habit_is_found_and_its_cure_is_not(odd, plain):
    assert habits_in(odd) != []
    assert habits_in(plain) == []


def test_docstrings_are_plain_english(root):
    """At most 2 % of all docstrings, and 4 % of a subpackage's, may have one of the habits."""
    odd, every = {}, Counter()
    for name, file in modules(root).items():
        parts = name.split(".")
        room = parts[1] if len(parts) > 1 and (root / "qflow" / parts[1]).is_dir() else "top"
        for node in ast.walk(parse(file)):
            if isinstance(node, WITH_DOCSTRING) and (text := ast.get_docstring(node)):
                every[room] += 1
                if found := habits_in(text):
                    place = f"{file.relative_to(root)}:{getattr(node, 'lineno', 1)}"
                    odd.setdefault(room, []).append(f"{place}: {found[0]}: {text[:90]}")
    assert every.total() > 3000
    rough = [place for room, places in odd.items() if len(places) > 0.04 * every[room] for place in places]
    assert rough == [], "\n".join(rough)
    listed = [place for places in odd.values() for place in places]
    assert len(listed) <= 0.02 * every.total(), "\n".join(listed)


def test_one_transfer_is_followed_through_few_files(root):
    """At most 14 files take part in a send to a waiting consumer, 9 in an unobserved transfer."""

    def files_of(act):
        found = set()

        def note(frame, event, _):
            if event == "call" and frame.f_code.co_filename.startswith(str(root / "qflow")):
                found.add(frame.f_code.co_filename)

        sys.setprofile(note)
        try:
            act()
        finally:
            sys.setprofile(None)
        return found

    client = Connection.establish("house").session()
    sender = client.sender("orders; {create: always}")
    client.receiver("orders").capacity = 10
    session, message = Broker().session("s"), Message(10, routing_key="q")
    session.queue_declare("q")
    for act in (lambda: sender.send("warm"), lambda: session.message_transfer(message)):
        act()
    assert len(files_of(lambda: sender.send("a"))) <= 14
    assert len(files_of(lambda: session.message_transfer(message))) <= 9


def reads_as_the_machine_likes(call: ast.Call) -> bool:
    """Return whether a call opens a text file without an encoding, which then depends on the machine."""
    given = {word.arg: word.value for word in call.keywords}
    if "encoding" in given:
        return False
    match call.func:
        case ast.Name("open"):
            mode = given.get("mode") or (call.args[1] if len(call.args) > 1 else ast.Constant("r"))
            return "b" not in ast.unparse(mode)
        case ast.Attribute(attr="write_text"):
            return len(call.args) < 2
        case ast.Attribute(attr="read_text"):
            return not call.args
    return isinstance(text := given.get("text"), ast.Constant) and text.value is True


def test_each_text_names_its_encoding(root):
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in (root / "qflow").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and reads_as_the_machine_likes(node)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("call", "is_so"),
    [
        ("open(path)", True),
        ("open(path, 'w')", True),
        ("open(path, mode='rb')", False),
        ("open(path, 'w', encoding='utf-8')", False),
        ("path.read_text()", True),
        ("path.write_text(text)", True),
        ("path.write_text(text, 'utf-8')", False),
        ("subprocess.run(command, text=True)", True),
        ("subprocess.run(command, text=True, encoding='utf-8')", False),
        ("distribution.read_text('direct_url.json')", False),
    ],
)
def test_a_text_without_an_encoding_is_found(call, is_so):
    assert reads_as_the_machine_likes(ast.parse(call, mode="eval").body) is is_so
