"""What the build hook leaves to the interpreter, and what it compiles beside the engine, is there."""

import importlib.util
import inspect
import pkgutil

import pytest

import qflow.broker
from qflow.broker.restorable import Dependent, Frozen, Restorable


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


def parts(kind: type = Restorable) -> set[type]:
    """Return every class of the engine's state."""
    import_all()
    return {kind}.union(*map(parts, kind.__subclasses__()))


def import_all() -> None:
    for info in pkgutil.walk_packages(qflow.broker.__path__, "qflow.broker."):
        importlib.import_module(info.name)


def test_every_part_of_a_state_can_be_made_empty():
    """Compiled, ``__new__`` calls the constructor of a class without the compiler's mark."""
    for kind in sorted(parts(), key=lambda kind: kind.__name__):
        if not issubclass(kind, Dependent | Frozen):
            given = list(inspect.signature(kind.__init__).parameters.values())[1:]
            assert all(
                p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in given
            ), kind
