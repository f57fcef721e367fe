"""The pages of functions: each public name is on its page, and every link holds."""

import ast
import inspect
import pkgutil
import re
import textwrap
from importlib import import_module
from pathlib import Path

import pytest

from qflow.launch.chapters import copy_all_chapters, list_files
from qflow.launch.function_pages import _Module, _module_page, markdown, write_pages

OVERVIEW = Path("notebooks", "reference", "functions.md")
ROOMS = re.findall(
    r"\(\.\./\.\./qflow/(\w+)\)", (Path(__file__).parents[2] / OVERVIEW).read_text(encoding="utf-8")
)
_LINK = re.compile(r"\]\(([^)#]+)(?:#([^)]*))?\)")
DEFINED_TWICE = {"mypyc_attr"}
"""Where the compiler is not installed, the engine defines its mark itself; nobody else calls it."""


@pytest.fixture(scope="module")
def made(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    write_pages((root / OVERVIEW).read_text(encoding="utf-8"), folder)
    return folder


def test_every_room_but_spark_and_the_tools_has_a_page():
    rooms = {found.name for found in pkgutil.iter_modules(import_module("qflow").__path__) if found.ispkg}
    assert rooms - set(ROOMS) == {"launch", "live", "maintain", "spark"}


@pytest.mark.parametrize("room", ROOMS)
def test_a_page_names_what_an_import_finds(made, room):
    package = import_module(f"qflow.{room}")
    found = set()
    for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not any(part.startswith("_") or part == "cli" for part in each.name.split(".")):
            found |= {
                (each.name, name)
                for name, one in vars(import_module(each.name)).items()
                if inspect.isclass(one) or inspect.isfunction(one)
                if one.__module__ == each.name and inspect.getdoc(one) and name[0] != "_"
            }
    shown = {
        (f"qflow.{page.stem}", name)
        for page in (made / "functions").glob(f"{room}.*.md")
        for name in re.findall(r"^## `(.+)`$", page.read_text(encoding="utf-8"), re.M)
    }
    assert {one for one in found - shown if one[1] not in DEFINED_TWICE} == set()
    # Others are functions behind a decorator that are no plain functions any more.
    assert all(hasattr(import_module(module), name) for module, name in shown - found)
    listed = re.findall(r"^- \[`\w+`\]\((.+)#(.+)\): \S", (made / f"functions-{room}.md").read_text(), re.M)
    assert set(listed) == {(f"functions/{module[6:]}.md", name.lower()) for module, name in shown} != set()


SOURCE = '''
"""The theory."""

@dataclass(frozen=True)
class Base:
    """What has a size."""
    size: int
    kind: ClassVar[str] = "base"

@dataclasses.dataclass
class Field(Base):
    """A field more."""
    note: str = field(default="", kw_only=True)
    made: int = field(init=False)

    @property
    def double(self) -> int:
        """Not a method."""

    @classmethod
    def of(cls, text: str) -> Field:
        """Read a text."""

class Point(NamedTuple):
    """Two numbers."""
    x: int
    y: int

class Derived(Plain):
    """Made as its base is."""

class Plain:
    """Made by a constructor."""
    def __init__(self, name, *rest: str, limit: int | None = None, **more: object) -> None: ...

async def send(body, /, *, sync: bool = False) -> None:
    """Send it."""

def _hidden():
    """Not shown."""

def bare(): ...
'''


def test_a_definition_is_shown_with_its_parameters():
    page = _module_page(_Module("qflow.x.y", ast.parse(SOURCE)), "x")
    shown = re.findall(r"```python\n(.*?)\n```", page, re.S)
    assert shown == [
        "Base(size: int)",
        "Derived(name, *rest: str, limit: int | None, **more: object)",
        "Field(size: int, note: str)",
        "Plain(name, *rest: str, limit: int | None, **more: object)",
        "Point(x: int, y: int)",
        "send(body, *, sync: bool)",
    ]
    assert re.findall(r"^- `.*", page, re.M) == ["- `of(text: str)`: Read a text."]
    assert "The theory." in page


def test_the_learners_folder_has_them_and_every_link_leads_somewhere(tmp_path):
    copy_all_chapters(tmp_path)
    folder = tmp_path / "reference"
    assert len(list(folder.glob("functions/*.md"))) > 100
    pages = {page: page.read_text(encoding="utf-8") for page in folder.rglob("*.md")}
    dead = [
        (page.name, target)
        for page, text in pages.items()
        for target, _ in _LINK.findall(text)
        # Tests, data and the engine's source stay in the repository.
        if "://" not in target and not target.startswith("../../") and not (page.parent / target).exists()
    ]
    assert dead == []
    seen, left = set(), [folder / "README.md"]
    while left:
        page = left.pop().resolve()
        if page not in seen and page in pages:
            seen.add(page)
            left += [page.parent / target for target, _ in _LINK.findall(pages[page])]
    assert pages.keys() == seen


def test_a_second_layout_changes_nothing(tmp_path):
    copy_all_chapters(tmp_path)
    assert copy_all_chapters(tmp_path) == [f"The chapters are in {tmp_path}."]


def test_pages_that_a_wheel_carries_are_taken_as_they_are(tmp_path):
    folder = tmp_path / "reference"
    (folder / "functions").mkdir(parents=True)
    (folder / "functions.md").write_text("- [`qflow.broker`](functions-broker.md): the engine\n")
    (folder / "functions" / "broker.queue.md").write_text("carried\n")
    assert list_files(tmp_path) == {
        f"reference/{name}": folder / name for name in ("functions/broker.queue.md", "functions.md")
    }


def test_git_keeps_none(root):
    kept = [
        path for path in (root / "notebooks" / "reference").glob("functions*") if path.name != OVERVIEW.name
    ]
    assert kept == []


def test_a_page_can_be_read(made):
    """The engine's was 69 screens long."""
    sizes = {page.name: page.stat().st_size for page in (made / "functions").glob("*.md")}
    assert {name: size for name, size in sizes.items() if size > 15_000} == {}


def test_a_docstring_becomes_markdown():
    text = textwrap.dedent(
        """\
        Return it.

        Parameters:
            size: Bytes; see :func:`qflow.other`. It says so in a sentence that takes another line: it is
                as long as that.
            kind

        Returns:
            Something else: it.

        >>> 1
        1

        Afterwards.
        """
    )
    # Empty lines, which separate paragraphs, are left out here.
    assert [line for line in markdown(text) if line] == [
        "Return it.",
        "**Parameters**",
        "- `size`: Bytes; see `qflow.other`. It says so in a sentence that takes another line: it is",
        "  as long as that.",
        "- `kind`",
        "**Returns**",
        "Something else: it.",
        *("```python", ">>> 1", "1", "```"),
        "Afterwards.",
    ]


def test_examples_are_code(made):
    page = (made / "functions" / "conformance.scenario.md").read_text(encoding="utf-8")
    assert page.count("```python") == page.count("\n```\n") > 7
    assert ":func:" not in page
