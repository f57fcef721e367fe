"""The package as installed: fast to import, complete as a wheel, and independent of the checkout."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

import pytest
from browser import get, serve_chapters
from commands import run_python

import qflow


def chapters(folder: Path) -> list[str]:
    """Return the names of the built chapters in a folder."""
    return sorted(path.name for path in folder.glob("[0-9][0-9]-*.ipynb"))


def build(checkout: Path, folder: Path, **environment: str) -> Path:
    """Build the wheel of a checkout into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=checkout, env={**os.environ, **environment}, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def wheel(root, tmp_path_factory) -> Path:
    """Return a wheel built from this checkout as pure Python; .ci/run tests the compiled one."""
    return build(root, tmp_path_factory.mktemp("wheel"), QFLOW_COMPILE="0", PYTHONHASHSEED="1")


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> Path:
    """Unpack the wheel as an installer would; first on the path, it hides the checkout."""
    site = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


@pytest.mark.parametrize(
    "room", ["qflow", "qflow.broker", "qflow.cli", "qflow.conformance", "qflow.workload"]
)
def test_rooms_without_third_party_packages(room):
    code = (
        f"import sys; sys.path.insert(0, {_top()!r}); before = set(sys.modules); import {room};"
        "print(*(set(sys.modules) - before))"
    )
    # Without site-packages nothing but the standard library can be imported.
    done = run_python("-I", "-S", "-c", code)
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - set(sys.stdlib_module_names) == {"qflow"}


def test_an_older_python_is_told_so_in_a_sentence(root, monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(SystemExit, match="this is Python 3.10; qflow needs 3.11 or newer"):
        # By its path: a package with a plugin of pytest is imported by pytest, which runpy cannot ask.
        runpy.run_path(str(root / "qflow" / "__main__.py"), run_name="__main__")


def test_no_base_dependencies_and_no_addresses(root):
    text = (root / "pyproject.toml").read_text()
    assert tomllib.loads(text)["project"]["dependencies"] == []
    # The repository's own are all there are; a dependency that is an address could not be published.
    urls = set(tomllib.loads(text)["project"]["urls"].values())
    assert set(re.findall(r'"(https?://[^"]*)"', text)) == urls


@pytest.mark.release
def test_the_wheel_carries_chapters_exercises_and_recordings(root, wheel):
    carried = zipfile.ZipFile(wheel).namelist()
    for name in chapters(root / "notebooks"):
        assert f"qflow/_kit/notebooks/{name}" in carried
    exercises = [path.stem for path in (root / "exercises" / "sources").glob("[0-9]*.py")]
    assert exercises
    for name in exercises:
        assert f"qflow/_kit/exercises/{name}.ipynb" in carried
        assert f"qflow/_kit/exercises/solutions/{name}.ipynb" in carried
    for path in (root / "data").rglob("*"):
        if path.is_file() and path.parent.name != "__pycache__":
            assert f"qflow/_kit/{path.relative_to(root).as_posix()}" in carried
    maintainers = root / "qflow" / "maintain"
    for path in (root / "qflow").rglob("*"):
        if path.suffix in {".py", ".js", ".css", ".json"} and maintainers not in path.parents:
            assert path.relative_to(root).as_posix() in carried
    tops = {name.partition("/")[0] for name in carried}
    assert tops == {"qflow", f"qflow_kit-{qflow.__version__}.dist-info"}
    unwanted = re.compile(r"sources/|qflow/maintain|\.ipynb_checkpoints|__pycache__|\.pyc$|/tests/")
    assert not [name for name in carried if unwanted.search(name)]


@pytest.mark.release
def test_a_wheel_built_again_elsewhere_has_the_same_bytes(root, wheel, tmp_path):
    """The folder, the order and times of its files, and the hash seed differ."""
    copy = tmp_path / "copy"
    copy.mkdir()
    unwanted = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
    for name in ("qflow", "notebooks", "exercises", "data"):
        shutil.copytree(root / name, copy / name, ignore=unwanted, copy_function=shutil.copyfile)
    for name in ("README.md", "LICENSE", ".gitignore", "hatch_build.py", "pyproject.toml"):
        shutil.copyfile(root / name, copy / name)
    again = build(copy, tmp_path / "wheel", QFLOW_COMPILE="0", PYTHONHASHSEED="2")
    assert again.name == wheel.name
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.release
def test_the_wheel_finds_its_own_kit(installed, tmp_path):
    code = "from qflow import kit; print(kit.checkout_root(), kit.kit_path('notebooks'))"
    done = run_python("-c", code, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(installed)})
    assert done.stdout.strip() == f"None {installed / 'qflow' / '_kit' / 'notebooks'}"


@pytest.mark.release
def test_the_lab_of_an_installed_wheel_away_from_the_checkout(installed, root, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(installed))
    laid_out = tmp_path / "qflow-chapters"
    start = time.monotonic()
    with serve_chapters(tmp_path, sys.executable, "-m", "qflow", "lab", folder=laid_out) as server:
        print(f"from the command to the first answer: {time.monotonic() - start:.1f} s")
        assert chapters(laid_out) == chapters(root / "notebooks")
        assert get(f"{server.url}/lab/tree/{chapters(laid_out)[0]}")[0] == 200
    assert f"Copied the chapters to {laid_out}" in server.log.read_text()


def _top() -> str:
    """Return the folder that contains the package under test."""
    return str(Path(qflow.__file__).resolve().parent.parent)
