"""The statements of the README and other files are true: links, commands, example, numbers, version."""

import re
from pathlib import Path

import pytest
from commands import run_python

from qflow import __version__, cli
from qflow.conformance import load_scenarios
from qflow.conformance.scenario import load_startups

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
WORD = "[a-z]+(?:-[a-z]+)*"


def commands() -> list[str]:
    """Return the commands in the README's table, such as ``trace info``."""
    found = []
    for cell in re.findall(r"^\| (`qflow .*?`) \|", TEXT, re.MULTILINE):
        group: list[str] = []
        for span in re.findall(r"`(.+?)`", cell):
            words = re.match(rf"{WORD}( {WORD})*", span.removeprefix("qflow "))
            name = words[0].split() if words else []
            group = name if span.startswith("qflow ") else [*group[:-1], *name]
            found.append(" ".join(group))
    return found


@pytest.mark.parametrize("name", ["README.md", ".github/CONTRIBUTING.md"])
def test_every_link_leads_to_a_file(name):
    file = ROOT / name
    links = re.findall(r"\]\((?!\w+://)([^)#]+)", file.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (file.parent / link).exists()] == []


def test_it_is_read_in_a_few_minutes():
    assert len(TEXT.split()) <= 900


def test_a_citation_and_the_changes_are_of_this_version():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", cited, re.MULTILINE) == [__version__]
    changes = (ROOT / "notebooks" / "reference" / "changes.md").read_text(encoding="utf-8")
    assert re.findall(r"^## ([\d.]+)", changes, re.MULTILINE)[0] == __version__


def test_its_table_names_commands_that_are_there_and_every_room():
    known = {parser.prog.removeprefix("qflow ") for parser in cli.list_parsers(cli.whole_parser())}
    assert set(commands()) <= known
    assert {command.split()[0] for command in commands()} == set(cli.ROOMS)


@pytest.mark.parametrize("example", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_each_example_prints_what_its_comment_says(example):
    done = run_python("-c", example, cwd=ROOT)
    (said,) = re.findall(r"# (.*)", example)
    assert (done.stdout, done.stderr) == (f"{said}\n", "")


def test_as_many_recordings_come_along_as_it_says():
    """That the engine agrees with them is tested by test_conformance.py."""
    folder = ROOT / "data" / "recordings" / "scenarios"
    scenarios = sum(len(list(load_scenarios(path))) for path in folder.glob("*.jsonl"))
    starts = sum(len(list(load_startups(path))) for path in folder.glob("*.json"))
    assert f"all {scenarios} recorded scenarios and {starts} recorded broker starts" in " ".join(TEXT.split())
