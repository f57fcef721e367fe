"""Line ends of CRLF, as Git for Windows writes them: the package works, and Git does not commit them."""

import shutil
import subprocess

import pytest
from commands import run_python

TOLD = "import qflow as qf; from qflow.labs import share; print(qf.Broker, share._engine_hash())"


def copy_package(root, target, ends):
    """Copy the package, with the given line ends."""
    for path in (root / "qflow").rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".so", ".pyd"):
            copied = target / path.relative_to(root)
            copied.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_bytes().replace(b"\r\n", b"\n")
            copied.write_bytes(text.replace(b"\n", ends))


def ask(folder, program=TOLD):
    done = run_python("-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {program}", cwd=folder)
    assert done.stderr == ""
    return done.stdout


def test_the_package_works_whatever_ends_its_lines(root, tmp_path):
    for name, ends in (("lf", b"\n"), ("crlf", b"\r\n")):
        copy_package(root, tmp_path / name, ends)
    where = "import qflow; print(qflow.__file__)"
    assert ask(tmp_path / "crlf", where).startswith(str(tmp_path / "crlf"))
    assert ask(tmp_path / "crlf") == ask(tmp_path / "lf") != ""
    every = "import qflow as qf; print([name for name in dir(qf) if name[0] != '_'])"
    assert ask(tmp_path / "crlf", every) == ask(tmp_path / "lf", every)


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no Git here")
def test_a_clone_that_converts_lines_keeps_ours(root, tmp_path):
    """Git for Windows sets ``core.autocrlf=true``."""
    source = tmp_path / "source"
    copy_package(root, source, b"\n")
    for name in (".gitattributes", "README.md", "pyproject.toml", "hatch_build.py"):
        shutil.copy(root / name, source / name)
    for name in ("binder", ".ci"):
        shutil.copytree(root / name, source / name)
    image = source / "notebooks" / "images" / "flow.gif"
    image.parent.mkdir(parents=True)
    shutil.copy(root / "notebooks" / "images" / "flow.gif", image)

    def git(*words):
        own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "core.hooksPath=/nowhere"]
        subprocess.run(["git", *own, *words], cwd=tmp_path, check=True, capture_output=True, timeout=120)

    git("init", "source")
    git("-C", "source", "add", "--all")
    git("-C", "source", "commit", "-m", "all")
    git("clone", "--config", "core.autocrlf=true", "source", "clone")
    files = [path for path in (tmp_path / "clone").rglob("*") if path.is_file() and ".git" not in path.parts]
    assert len(files) > 200
    assert [path.name for path in files if path.suffix != ".gif" and b"\r\n" in path.read_bytes()] == []
    assert (tmp_path / "clone" / image.relative_to(source)).read_bytes() == image.read_bytes()
    # Without the attributes the same clone has CRLF: this can fail.
    (source / ".gitattributes").unlink()
    git("-C", "source", "commit", "-am", "without")
    git("clone", "--config", "core.autocrlf=true", "source", "converted")
    assert b"\r\n" in (tmp_path / "converted" / "README.md").read_bytes()
