"""The reference inside the kit: generated pages are what the code says, and every link leads somewhere."""

import re
from pathlib import Path

import pytest

from qflow import maintain
from qflow.maintain import __main__ as command
from qflow.maintain import reference
from qflow.maintain.reference import docstring, room_page
from qflow.teaching.rules import cited_in_chapters, rule_book

_LINK = re.compile(r"\]\(([^)#]+)(#[^)]*)?\)")


@pytest.mark.parametrize("kind", ["reference", "glossary", "sentences"])
def test_no_page_is_stale(kind):
    assert reference.stale(kind) == [], f"run: python -m qflow.maintain {kind} build"


def test_every_link_leads_somewhere(root):
    folder = root / "notebooks" / "reference"
    dead = [
        f"{page.name}: {target}"
        for page in folder.glob("*.md")
        for target, _ in _LINK.findall(page.read_text())
        if "://" not in target and not (folder / target).exists()
    ]
    assert dead == []


def test_every_page_is_reached_from_the_first(root):
    folder = root / "notebooks" / "reference"
    seen, left = set(), ["README.md"]
    while left:
        name = left.pop()
        if name not in seen and (folder / name).exists():
            seen.add(name)
            left += [target for target, _ in _LINK.findall((folder / name).read_text())]
    assert {page.name for page in folder.glob("*.md")} <= seen


def test_the_rules_page_has_every_rule(root):
    page = reference.rules_page(root)
    for rule in rule_book():
        assert f"\n### {rule}\n" in page


def test_a_rule_names_its_chapters(root):
    assert "01" in cited_in_chapters(root / "notebooks" / "sources")["FC-14"]


def test_a_page_that_changed_is_written_anew(root, tmp_path):
    names = reference.build(top=tmp_path)
    assert {Path(name).name for name in names} == set(reference.pages())
    left_out = f"{reference.FOLDER}/left-out.md"
    (tmp_path / left_out).write_text("old")
    assert reference.build(top=tmp_path) == [left_out]


def test_a_room_page_shows_examples_as_code():
    page = room_page("conformance")
    assert page.count("```python") == page.count("\n```\n")
    assert ":func:" not in page


def test_a_docstring_becomes_markdown():
    def member():
        """Return it.

        Parameters
        ----------
        size : int
            Bytes; see :func:`qflow.other`.

        Examples
        --------
        >>> 1
        1

        Afterwards.
        """

    assert docstring(member) == [
        "Return it.",
        "",
        "**Parameters**",
        "",
        "- **size : int**  ",
        "  Bytes; see `qflow.other`.",
        "",
        "**Examples**",
        "",
        "```python",
        ">>> 1",
        "1",
        "```",
        "",
        "Afterwards.",
    ]


def test_away_from_a_checkout(monkeypatch, capsys):
    monkeypatch.setattr(maintain, "checkout_root", lambda: None)
    for words in (["reference", "check"], ["bench"], ["notebooks", "build"], ["--help"]):
        assert command.main(words) == 2
        assert capsys.readouterr().err.count("needs a checkout of qflow") == 1


@pytest.mark.parametrize("name", ["README.md", "formats.md", "defence-of-design.md", "contributing.md"])
def test_headings_are_in_order(root, name):
    text = (root / "notebooks" / "reference" / name).read_text()
    levels = [len(marks) for marks in re.findall(r"^(#+) ", re.sub(r"```.*?```", "", text, flags=re.S), re.M)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
