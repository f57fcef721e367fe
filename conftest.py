"""Settings shared by all tests of the repository, including the chapters, which nbval runs as tests."""

import gc
import os
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

import pytest

# Kernels and servers that tests start must import the qflow under test, whether it is installed or not.
_ROOT = str(Path(__file__).resolve().parent)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))
# With a compiled engine, pytest collects the examples of a source file but imports the compiled module.
os.environ["PY_IGNORE_IMPORTMISMATCH"] = "1"
os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"
# Tests must not be recorded as the learner's progress of the person who runs them.
os.environ["QFLOW_PROGRESS"] = ""
# Java does not verify Spark's 10,000 classes as it loads them, which would take three seconds at each start.
os.environ["SPARK_SUBMIT_OPTS"] = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)

# pytest finds the plugin by its entry point only if qflow is installed; here it may be on the path alone.
pytest_plugins = ["qflow.launch.pytest_notebooks"]

_SHARED = {
    "a JupyterLab": "tests/*browser*.py",
    "a Spark session": "tests/spark/test_spark_*.py",
    "a Chromium": "tests/labs/test_[ms]*.py",
}
"""Costly resources that a single worker shall have, each with the pattern of the test files that use it."""
_LONG = [*_SHARED.values(), "notebooks/13-*", "tests/spark/*"]
_LONG += ["tests/prediction/*", "tests/live/*", "notebooks/*", "tests/labs/*"]
"""Patterns of the tests to start first, in this order: a long file started last would keep one worker."""

_LIVE = ("qflow/live/", "tests/live/", "notebooks/15-")
_WHOLE_FLEET = "notebooks/13-"
"""The chapter that runs Spark over half a million events, for 100 s; tests/spark uses far fewer events."""


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect garbage rarely, and not at all during the collection of tests.

    The first saves 6 % of the time of all tests, the second a third of the time of the collection.
    """
    gc.disable()
    outcome = yield
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()
    return outcome


def pytest_itemcollected(item):
    """Mark the tests that need the extra "live", so that they can run separately, and the longest chapter."""
    if item.nodeid.startswith(_LIVE):
        item.add_marker("live")
    if item.nodeid.startswith(_WHOLE_FLEET):
        item.add_marker("release")


def pytest_collection_modifyitems(items):
    """Move long tests to the front; xdist keeps the order, because of its option --no-loadscope-reorder."""

    def place(item):
        return next((number for number, long in enumerate(_LONG) if fnmatch(item.nodeid, f"{long}::*")), 99)

    items.sort(key=place)


if find_spec("proton") is None:
    # These files import the extra "live"; the tests in tests/live are skipped one by one, with the reason.
    collect_ignore_glob = ["qflow/live/*", "tests/live/[!t]*.py"]
    collect_ignore_glob += ["notebooks/15-your-own-clients.ipynb"]


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers():
    """Start one worker more than there are cores, as a worker often waits for a browser, kernel or Spark."""
    return (yield) + ("PYTEST_XDIST_AUTO_NUM_WORKERS" not in os.environ)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each worker whole files, and all files that share a costly resource to the same worker."""
    from xdist.scheduler import LoadFileScheduling

    # xdist's own groups (the mark xdist_group) have no effect under pytest 9.2 (xdist's issue 1386): it
    # writes them where it does not read them.
    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return next((shared for shared, pattern in _SHARED.items() if fnmatch(file, pattern)), file)

    return Together(config, log)
