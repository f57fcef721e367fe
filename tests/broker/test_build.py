"""What the build hook leaves to the interpreter, and what it compiles beside the engine, is there."""

import ast
import importlib.util
import inspect
import pkgutil
import re
from functools import cache

import pytest

import qflow.broker
from qflow.broker.restorable import Dependent, Frozen, Restorable
from qflow.broker.snapshot import ONLY_COUNT


@pytest.fixture(scope="module")
def hook(root):
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", root / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_module_that_is_named_exists(hook, root):
    there = {path.stem for path in (root / "qflow" / "broker").rglob("*.py")}
    assert set(hook.INTERPRETED) <= there
    compiled = list(hook.modules(root))
    assert all((root / path).is_file() for path in compiled)
    beside = len(hook.WORKLOAD_LOOP) + len(hook.BESIDE_IT)
    assert len(compiled) == len(there) - 1 - len(hook.INTERPRETED) + beside


def test_each_has_its_reason(hook):
    assert all(reason.strip() for reason in hook.INTERPRETED.values())


LOOPS = {"any", "all", "next"}
"""What the compiler turns into a loop that ends where Python's would."""
TAKERS = {"tuple", "list", "set", "frozenset", "dict", "sum", "min", "max", "sorted", "join", "fromkeys"}
"""What asks for every item in any case."""


@cache
def parsed(path):
    return ast.parse(path.read_text("utf-8"))


def test_nothing_compiled_relies_on_a_generator_expression_being_lazy(hook, root):
    """Compiled, all items are made first: also one that nobody would have asked for, and that may raise."""
    lazy = []
    for path in hook.modules(root):
        tree = parsed(root / path)
        parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        for node in ast.walk(tree):
            parent = parents.get(node)
            if isinstance(parent, ast.Call):
                taker = parent.func
                name = taker.attr if isinstance(taker, ast.Attribute) else getattr(taker, "id", "")
                is_safe = name in TAKERS or (isinstance(taker, ast.Name) and name in LOOPS)
            else:
                # Unpacked: a, b = (…), or f(*(…)).
                is_safe = isinstance(parent, ast.Assign | ast.Starred)
            if isinstance(node, ast.GeneratorExp) and not is_safe:
                lazy.append(f"{path}:{node.lineno}: {ast.unparse(parent)}")
    assert lazy == []


def test_nothing_compiled_promises_what_any_function_returns(hook, root):
    """``Callable[..., int]``: compiled, a float that comes back is a TypeError."""
    promises = []
    for path in hook.modules(root):
        for node in ast.walk(parsed(root / path)):
            if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Callable":
                given, returned = map(ast.unparse, node.slice.elts)
                if given == "..." and returned not in ("Any", "object"):
                    promises.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    assert promises == []


def test_nobody_asks_for_the_cause_of_an_error(root):
    """``raise … from``: compiled, the cause is lost; who needs it finds it in an attribute of the error."""
    asking = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in sorted((root / "qflow").rglob("*.py"))
        if re.search("__(cause|context)__", path.read_text("utf-8"))
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in ("__cause__", "__context__")
    ]
    assert asking == []


def parts(kind: type = Restorable) -> set[type]:
    """Return every class of the engine's state."""
    import_all()
    return {kind}.union(*map(parts, kind.__subclasses__()))


def import_all() -> None:
    for info in pkgutil.walk_packages(qflow.broker.__path__, "qflow.broker."):
        importlib.import_module(info.name)


def test_what_only_counts_is_a_part_of_a_state():
    """By its name, as a snapshot has it."""
    assert {kind.__name__ for kind in parts()} >= ONLY_COUNT


def test_every_part_of_a_state_can_be_made_empty():
    """Compiled, ``__new__`` calls the constructor of a class without the compiler's mark."""
    for kind in sorted(parts(), key=lambda kind: kind.__name__):
        if not issubclass(kind, Dependent | Frozen):
            given = list(inspect.signature(kind.__init__).parameters.values())[1:]
            assert all(
                p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in given
            ), kind
