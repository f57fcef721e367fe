"""What every test in the repository shares, the chapters run by nbval included."""

import gc
import os
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

import pytest

# Kernels and servers that tests start shall see the qflow under test, installed or not.
_ROOT = str(Path(__file__).resolve().parent)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))
# A compiled module is imported for the source beside it, whose examples are run.
os.environ["PY_IGNORE_IMPORTMISMATCH"] = "1"
os.environ["PLOTLY_RENDERER"] = "plotly_mimetype"
# Nor do tests count as the progress of whoever runs them.
os.environ["QFLOW_PROGRESS"] = ""
# Spark's 10,000 classes are not verified as they are loaded: it takes three seconds of each start of Java.
os.environ["SPARK_SUBMIT_OPTS"] = (
    "-XX:+IgnoreUnrecognizedVMOptions -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)

# Found by its entry point where this checkout is installed; elsewhere its source is on the path alone.
pytest_plugins = ["qflow.launch.pytest_notebooks"]

_SHARED = {
    "a JupyterLab": "tests/*browser*.py",
    "a Spark session": "tests/spark/test_spark_*.py",
    "a Chromium": "tests/labs/test_[ms]*.py",
}
"""What only one worker has, and the files whose tests use it; their cells and tests run in their order."""
_LONG = [*_SHARED.values(), "notebooks/13-*", "tests/spark/*"]
_LONG += ["tests/prediction/*", "tests/live/*", "notebooks/*", "tests/labs/*"]
"""What is begun first, in this order: a long file that is begun last has one worker alone at work."""

_LIVE = ("qflow/live/", "tests/live/", "notebooks/15-")
_WHOLE_FLEET = "notebooks/13-"
"""It takes Spark through half a million events, for 100 s; tests/spark does so with a few seconds of them."""


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Look for garbage seldom: 6 % off all tests; and not while they are collected: a third off of that."""
    gc.disable()
    outcome = yield
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()
    return outcome


def pytest_itemcollected(item):
    """Mark what needs the extra live, for where it is run by itself, and the chapter that takes longest."""
    if item.nodeid.startswith(_LIVE):
        item.add_marker("live")
    if item.nodeid.startswith(_WHOLE_FLEET):
        item.add_marker("release")


def pytest_collection_modifyitems(items):
    """Begin with what takes long; xdist keeps the order, by its option no-loadscope-reorder."""

    def place(item):
        return next((number for number, long in enumerate(_LONG) if fnmatch(item.nodeid, f"{long}::*")), 99)

    items.sort(key=place)


if find_spec("proton") is None:
    # Their examples need the extra "live"; the tests of them are skipped one by one, and say so.
    collect_ignore_glob = ["qflow/live/*", "tests/live/[!t]*.py"]
    collect_ignore_glob += ["notebooks/15-your-own-clients.ipynb"]


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_xdist_auto_num_workers():
    """Start one worker more than there are cores: one often waits for a browser, a kernel or Spark."""
    return (yield) + ("PYTEST_XDIST_AUTO_NUM_WORKERS" not in os.environ)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give each worker whole files, and to one of them all files that share something costly."""
    from xdist.scheduler import LoadFileScheduling

    # Groups of xdist's own do nothing under pytest 9.2 (its issue 1386): it writes them where no id is read.
    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return next((shared for shared, pattern in _SHARED.items() if fnmatch(file, pattern)), file)

    return Together(config, log)
