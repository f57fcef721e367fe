"""The name of the distribution, the command that installs it, and the files that it leaves out."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from qflow import kit
from qflow.kit import DISTRIBUTION, explain_missing, install_command

ROOT = Path(__file__).resolve().parents[2]
SHORT = "qflow"
OLD_WORDS = (
    rf"\b{SHORT}\[",  # an extra of another project's package
    rf"pip3? install[^\n`&;|]*[ '\"]{SHORT}\b(?![-_/.])",
    rf"(?:requires|version|distribution)\(['\"]{SHORT}['\"]\)",
    rf"\b{SHORT}-\*\.whl|\b{SHORT}-\d[\w.]*-py3",
)


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Simulate an installed package: no checkout, and pip's record of where the package came from."""

    def note(**origin):
        place = tmp_path / "site" / "qflow_kit-0.dist-info"
        place.mkdir(parents=True)
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: 0\n")
        if origin:
            (place / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(tmp_path / "site")
        monkeypatch.setattr(kit, "checkout_root", lambda: None)
        monkeypatch.chdir(tmp_path)

    return note


def test_in_a_checkout_it_is_installed_from_there(monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    assert install_command("spark") == 'pip install -e ".[spark]"'
    monkeypatch.chdir(tmp_path)
    assert install_command("spark") == f'pip install -e "{ROOT}[spark]"'
    assert install_command(options="--upgrade") == f'pip install --upgrade -e "{ROOT}"'


PLAIN = f"{DISTRIBUTION}[spark]"
GIT = {"url": "ssh://host/qflow.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}


@pytest.mark.parametrize(
    ("origin", "target"),
    [
        ({"url": ROOT.as_uri(), "dir_info": {}}, f'"{ROOT}[spark]"'),
        ({"url": ROOT.as_uri(), "dir_info": {"editable": True}}, f'-e "{ROOT}[spark]"'),
        ({"url": Path(__file__).as_uri(), "archive_info": {}}, f'"{PLAIN} @ {Path(__file__).as_uri()}"'),
        (GIT, f'"{PLAIN} @ git+ssh://host/qflow.git@abc"'),
        # A wheel or a checkout that has gone, and an index.
        ({"url": "file:///gone/a.whl", "archive_info": {}}, f'"{PLAIN}"'),
        ({"url": "file:///gone", "dir_info": {}}, f'"{PLAIN}"'),
        ({}, f'"{PLAIN}"'),
    ],
)
def test_elsewhere_it_is_installed_from_where_it_came(installed, origin, target, monkeypatch):
    installed(**origin)
    monkeypatch.setattr(kit, "IS_PUBLISHED", True)
    assert install_command("spark") == f"pip install {target}"


def test_as_long_as_no_index_has_it_a_checkout_is_named(installed):
    installed()
    assert install_command("spark") == 'pip install ".[spark]", in a checkout of qflow'


def texts() -> list[Path]:
    """Return the files of the repository that people read or run, except this one with the patterns."""
    git = shutil.which("git")
    command = [git or "git", "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False).stdout if git else b""
    paths = [ROOT / name for name in listed.decode().split("\0") if name]
    paths = paths or [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]
    kinds = {".py", ".md", ".ipynb", ".toml", ".html", ".js", ".csv", ".txt", ""}
    unread = ROOT / "data" / "recordings"
    return [
        path
        for path in paths
        if path.suffix in kinds and path != Path(__file__) and path.exists() and unread not in path.parents
    ]


def test_the_patterns_find_the_old_words():
    said = f"""pip install '{SHORT}[spark]'
    pip install {SHORT}
    requires('{SHORT}')
    {SHORT}-0.1.0-py3-none-any.whl"""
    assert [bool(re.search(pattern, said)) for pattern in OLD_WORDS] == [True] * len(OLD_WORDS)


def test_nothing_names_the_package_of_another_project():
    paths = texts()
    assert len(paths) > 300
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in paths
        for pattern in OLD_WORDS
        for match in re.finditer(pattern, path.read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []


def test_a_workshops_laptop_is_not_sent_to_an_index(tmp_path, monkeypatch):
    """It has no network, and its environment is in the folder that the teacher made."""
    (tmp_path / "made-for.json").write_text("{}")
    monkeypatch.setattr("sys.prefix", str(tmp_path / "environment"))
    assert "qflow workshop --with live" in install_command("live")
    assert "pip" not in install_command("lab") + explain_missing("A tap", "proton", "live")
