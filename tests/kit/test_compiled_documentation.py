"""The compiled engine has the same docstrings and signatures as its source.

Run on the readable form this reads what it compares with, and so finds nothing.
"""

import ast
import importlib
import inspect
import pydoc
from pathlib import Path
from types import ModuleType

import pytest

import hatch_build
import qflow
from qflow.broker import Broker, Message, Session

ROOT = Path(qflow.__file__).parents[1]
NAMES = [path.removesuffix(".py").replace("/", ".") for path in hatch_build.modules(ROOT)]
"""The modules that are compiled where they can be."""


def source_of(module: ModuleType) -> ast.Module:
    """Return the Python source of a module, which is beside the compiled one."""
    path = ROOT / f"{module.__name__.replace('.', '/')}.py"
    return ast.parse(path.read_text(encoding="utf-8"))


def described(module: ModuleType) -> list[tuple[str, object, ast.ClassDef | ast.FunctionDef]]:
    """Return the classes, methods, functions and properties of a module, by their places in its source."""
    found: list[tuple[str, object, ast.ClassDef | ast.FunctionDef]] = []
    for node in source_of(module).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.append((node.name, getattr(module, node.name), node))
        if isinstance(node, ast.ClassDef):
            owner = getattr(module, node.name)
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and not part.name.startswith("__"):
                    found.append((f"{node.name}.{part.name}", getattr(owner, part.name), part))
    return found


def signature_of(node: ast.FunctionDef) -> list[tuple[str, bool]]:
    """Return the names of a function's parameters in its source, and whether they have a default."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    given = len(positional) - len(arguments.defaults)
    found = [(each.arg, number >= given) for number, each in enumerate(positional)]
    found += [(arguments.vararg.arg, False)] if arguments.vararg else []
    keyword = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    found += [(each.arg, default is not None) for each, default in keyword]
    found += [(arguments.kwarg.arg, False)] if arguments.kwarg else []
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_docstring_is_there(name):
    module = importlib.import_module(name)
    assert inspect.getdoc(module) == ast.get_docstring(source_of(module))
    missing = [
        place
        for place, found, node in described(module)
        if (text := ast.get_docstring(node)) and inspect.getdoc(found) != text
    ]
    assert missing == []


@pytest.mark.parametrize("name", NAMES)
def test_every_signature_is_there(name):
    """Names and defaults are compared; a compiled function has no annotations."""
    wrong = []
    for place, found, node in described(importlib.import_module(name)):
        if not isinstance(node, ast.FunctionDef) or not callable(found) or isinstance(found, property):
            continue
        expected = signature_of(node)
        decorated = {getattr(each, "id", "") for each in node.decorator_list}
        if "classmethod" in decorated:
            expected = expected[1:]
        try:
            got = [
                (parameter.name, parameter.default is not parameter.empty)
                for parameter in inspect.signature(found).parameters.values()
            ]
        except ValueError as error:
            wrong.append((place, str(error)))
            continue
        if got != expected:
            wrong.append((place, f"{got} is not {expected}"))
    assert wrong == []


def test_the_signature_of_a_class():
    assert list(inspect.signature(Broker).parameters) == ["options", "store"]
    assert list(inspect.signature(Message).parameters)[:2] == ["content_size", "routing_key"]


def test_help_shows_it():
    """help() and Shift+Tab work for a class, a method, a command, and a bound method."""
    session = Broker().session("s")
    for shown, words in (
        (Message, "A message as a producer sends it: properties and a number of content bytes."),
        (Broker.advance, "Set the time and run the timers that are due by then."),
        (Session.queue_declare, "Declare a queue, which is created if it does not exist"),
        (session.queue_declare, "Declare a queue, which is created if it does not exist"),
    ):
        assert words in pydoc.plain(pydoc.render_doc(shown))
        assert words in str(inspect.getdoc(shown))
