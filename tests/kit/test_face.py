"""The public interface: the names in ``import qflow as qf`` and its subpackages, and their import time."""

import ast
import doctest
import inspect
import json
import pkgutil
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from commands import run_python

import qflow as qf
from qflow.rooms import Room, origins

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = [found.name for found in pkgutil.walk_packages(qf.__path__, "qflow.") if found.ispkg]
FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
ROOMS = [name for name in PACKAGES if isinstance(import_module(name), Room)]
# Proton comes from the index as source only, and not each machine has a C compiler.
HAS_LIVE = find_spec("proton") is not None
if not HAS_LIVE:
    ROOMS.remove("qflow.live")


def can_load(name: str) -> bool:
    """Return whether a public name can be imported without an extra that is missing here."""
    return HAS_LIVE or not origins(qf).get(name, "").startswith("qflow.live")


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a statement imports in a new Python process."""
    code = (
        f"import sys, json; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules)\n"
        f"{statement}\nprint(json.dumps(sorted(set(sys.modules) - before)))"
    )
    return set(json.loads(run_python("-c", code).stdout))


def of_the_kit(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "qflow"}


def test_the_face_loads_nothing_else():
    assert of_the_kit(loaded_by("import qflow")) == {"qflow", "qflow.rooms"}
    assert of_the_kit(loaded_by("import qflow; dir(qflow); qflow.__all__")) == {"qflow", "qflow.rooms"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_loads_when_it_is_used(room):
    parents = {room.rpartition(".")[0]} if room.count(".") > 1 else set()
    assert of_the_kit(loaded_by(f"import {room}")) == {"qflow", "qflow.rooms", room} | parents


def test_a_name_loads_what_it_needs():
    assert len(of_the_kit(loaded_by("import qflow; qflow.Predictions"))) < 15
    rooms = {
        name.split(".")[1] for name in of_the_kit(loaded_by("import qflow; qflow.predict")) if "." in name
    }
    assert not rooms & {"configuration", "conformance", "design", "labs", "spark", "teaching"}
    labs = loaded_by("import qflow; qflow.flow_run")
    assert "plotly" not in labs and "anywidget" not in labs


@pytest.mark.parametrize("room", ["qflow", *ROOMS])
def test_every_name_is_there_and_shown(room):
    module = import_module(room)
    assert set(module.__all__) <= set(dir(module))
    for name in filter(can_load, module.__all__):
        assert getattr(module, name) is not None


def test_names_mean_the_same_whatever_was_imported_before():
    first = {(room, name): getattr(import_module(room), name) for room in ROOMS for name in names_of(room)}
    for room in ROOMS:
        for found in pkgutil.iter_modules(import_module(room).__path__, f"{room}."):
            if not found.name.endswith(".cli"):
                import_module(found.name)
    assert {key: getattr(import_module(key[0]), key[1]) for key in first} == first
    assert qf.predict is import_module("qflow.prediction.predict").predict
    assert qf.explain is import_module("qflow.trace.explain").explain


def names_of(room: str) -> list[str]:
    return list(import_module(room).__all__)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^qflow has no 'Borker'; did you mean 'Broker'\?$"):
        qf.Borker  # noqa: B018
    with pytest.raises(AttributeError, match="^qflow has no 'zzz'$"):
        qf.zzz  # noqa: B018


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [("anywidget", "qf.group_lab", "lab"), ("cproton", "qf.live.ClientLimits", "live")],
)
def test_where_a_package_is_missing_the_cure_is_named(package, name, extra):
    # In a process of its own: what is imported without the package would stay so for other tests.
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.modules[{package!r}] = None\n"
    script += f"import qflow as qf\nimport qflow.live\n{name}"
    *_, last = run_python("-c", script).stderr.splitlines()
    name = name.rpartition(".")[2]
    assert re.match(rf"ImportError: {name} needs c?\w+, .*: pip install .*\[{extra}\]", last)


def test_the_table_of_the_face_names_everything():
    table = re.search(r"={10,}.*={10,}", qf.__doc__, re.DOTALL)[0]
    assert sorted(re.findall(r"``(\w+)``", table)) == qf.__all__


def test_every_name_is_used_by_a_chapter_an_exercise_or_the_readme():
    places = [
        ROOT / "README.md",
        *(ROOT / "notebooks/sources").glob("*.py"),
        *ROOT.glob("exercises/sources/*.py"),
    ]
    used = {name for path in places for name in re.findall(r"\bqf\.(\w+)", path.read_text("utf-8"))}
    assert set(qf.__all__) - used == set()


def test_each_name_has_an_example():
    finder = doctest.DocTestParser()
    names = filter(can_load, qf.__all__)
    bare = [name for name in names if not finder.get_examples(inspect.getdoc(getattr(qf, name)) or "")]
    assert bare == []


def test_messaging_is_imported_as_the_real_client_is():
    names: dict[str, object] = {}
    exec("from qflow.messaging import *", names)
    assert {"Connection", "Message", "Timeout", "Empty", "UNLIMITED", "uuid4"} <= set(names)


def of_face(node: ast.expr) -> str:
    """Return the dotted name of an expression that begins with ``qf``, or "" for any other expression."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join(reversed(names)) if isinstance(node, ast.Name) and node.id == "qf" else ""


@pytest.mark.parametrize("folder", ["notebooks", "exercises"])
def test_chapters_import_the_face_alone_and_use_names_it_has(folder):
    for path in sorted((ROOT / folder / "sources").glob("*.py")):
        tree = compile(path.read_text(encoding="utf-8"), path.name, "exec", FLAGS)
        modules = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        deep = [module for module in modules if module and module.startswith("qflow")]
        assert deep == [] or path.name == "14-under-the-hood.py"
        for used in filter(can_load, {of_face(node) for node in ast.walk(tree)} - {""}):
            value: object = qf
            for name in used.split("."):
                value = getattr(value, name)
