"""What the build hook leaves to the interpreter, and what it compiles beside the engine, is there."""

import importlib.util

import pytest


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
    assert len(compiled) == len(there) - 1 - len(hook.INTERPRETED) + len(hook.WORKLOAD_LOOP)


def test_each_has_its_reason(hook):
    assert all(reason.strip() for reason in hook.INTERPRETED.values())
