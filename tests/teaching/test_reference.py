"""The reference inside the kit: generated pages are what the code says, and every link leads somewhere.

The pages of functions, which Git does not keep, have tests/launch/test_function_pages.py.
"""

import pkgutil
import re
from pathlib import Path

import pytest

from qflow import maintain
from qflow.kit import form
from qflow.maintain import __main__ as command
from qflow.maintain import reference
from qflow.teaching.rules import cited_in_chapters

KINDS = ("reference", "glossary")
TOP = Path(__file__).resolve().parents[2]
PAGES = {page.relative_to(TOP).as_posix() for page in (TOP / "notebooks").glob("[rt]e*/*.md")}
HAND_WRITTEN = sorted({"README.md", "data/README.md", *PAGES}.difference(*map(reference.pages, KINDS)))
_PLACEHOLDER = re.compile(r"NAME|NN|FILE|…")
_PATH = re.compile(r"(?:qflow|tests|notebooks|exercises|data|binder|\.ci)/[\w./*-]*")
_LINK = re.compile(r"\]\(([^)#]+)(#[^)]*)?\)")


@pytest.mark.skipif(form() == "compiled", reason="the types of its parameters are read off the sources' form")
@pytest.mark.parametrize("kind", KINDS)
def test_no_page_is_stale(kind):
    assert reference.stale(kind) == [], f"run: python -m qflow.maintain {kind} build"


@pytest.mark.parametrize("folder", ["reference", "teachers"])
def test_every_link_leads_somewhere(root, folder):
    links = {
        (page, target)
        for page in (root / "notebooks" / folder).rglob("*.md")
        for target, _ in _LINK.findall(page.read_text())
        if "://" not in target
    }
    assert len(links) > 3
    assert [(page.name, target) for page, target in links if not (page.parent / target).exists()] == []


def code_spans(root: Path, page: str) -> list[str]:
    """Return what a page has in backticks, each on one line."""
    text = re.sub(r"```.*?```", "", (root / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]


@pytest.mark.parametrize("page", HAND_WRITTEN)
def test_every_path_name_and_command_exists(root, page):
    for span in code_spans(root, page):
        for path in filter(_PATH.fullmatch, span.split()):
            assert _PLACEHOLDER.search(path) or [*root.glob(path.rstrip("/"))], path
        called = span.partition("(")[0]
        if re.fullmatch(r"(qflow|qf)(\.\w+)+", called) and called != "qflow.zip":
            try:
                pkgutil.resolve_name(re.sub(r"^qf\b", "qflow", called))
            except ImportError as error:
                # The name is there; what it stands on comes with an extra.
                assert "is not installed; to install it: " in str(error)
        if span.startswith("python -m qflow.maintain "):
            command._parser().parse_args(span.split()[3:])


def test_the_guide_finds_names_where_it_says(root):
    text = " ".join((root / "notebooks" / "reference" / "contributing.md").read_text().split())
    named = re.findall(r"`(\w+)` (?:of|in) `([\w./-]+\.py)`", text)
    assert len(named) > 5
    for name, path in named:
        assert name.startswith("NAME") or re.search(rf"\b{name}\b", (root / path).read_text()), (name, path)


def test_every_page_is_reached_from_the_first(root):
    folder = root / "notebooks" / "reference"
    seen, left = set(), [folder / "README.md"]
    while left:
        page = left.pop().resolve()
        if page not in seen and page.exists() and page.suffix == ".md":
            seen.add(page)
            left += [page.parent / target for target, _ in _LINK.findall(page.read_text())]
    assert {page.resolve() for page in folder.rglob("*.md")} <= seen


def test_a_rule_names_its_chapters(root):
    assert "01" in cited_in_chapters(root / "notebooks" / "sources")["FC-14"]


def test_a_page_that_changed_is_written_anew(root, tmp_path):
    assert set(reference.build(top=tmp_path)) == set(reference.pages())
    left_out = f"{reference.FOLDER}/left-out.md"
    (tmp_path / left_out).write_text("old")
    assert reference.build(top=tmp_path) == [left_out]


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
