"""Function pages: reference pages of every public function and class, with docstring and example.

There is a page for each subpackage of qflow and one for each of its public modules. They are generated when
they are needed: by ``qflow lab`` for the learner's folder, by ``qflow site`` for the book, and by
``hatch_build.py`` for a wheel. They are not kept in Git, so they cannot become outdated. The source is parsed
and not imported: a wheel is built where neither plotly nor Spark is installed, and compiled functions have no
annotations.

The overview, ``functions.md``, is written by hand. In the repository its links lead to the source of each
subpackage; in the generated pages they lead to the page of that subpackage.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

_PACKAGE = Path(__file__).resolve().parents[1]
_OVERVIEW = "functions.md"
_TO_SOURCE = re.compile(r"\]\(\.\./\.\./qflow/(\w+)\)")
_WIDTH = 78
"""The most characters of a signature that is written on one line."""

_SECTION = re.compile(r"(Attributes|Fields|Parameters|Raises|Returns|Yields):")
_ENTRY = re.compile(r" {4}(\S.*?)(?:: (.*))?")
_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")

_Member = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Module:
    name: str
    tree: ast.Module

    @property
    def page(self) -> str:
        return f"functions/{self.name.removeprefix('qflow.')}.md"

    def members(self) -> list[_Member]:
        """Return the public functions and classes that have a docstring, sorted by name."""
        # Of several definitions with one name, such as overloads, the last one is in effect.
        last = {node.name: node for node in self.tree.body if isinstance(node, _Member)}
        return [last[name] for name in sorted(last) if name[0] != "_" and ast.get_docstring(last[name])]


def write_pages(overview: str, folder: Path) -> None:
    """Write the function pages, and the overview with links to them, into a folder of reference pages."""
    rooms = _TO_SOURCE.findall(overview)
    pages = {_OVERVIEW: _TO_SOURCE.sub(r"](functions-\1.md)", overview)}
    for room in rooms:
        package, *modules = _read_modules(room)
        pages[f"functions-{room}.md"] = _room_page(package, modules)
        pages |= {module.page: _module_page(module, room) for module in modules}
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


@cache
def _built(overview: Path) -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="qflow-functions-")
    write_pages(overview.read_text(encoding="utf-8"), Path(folder.name))
    return folder


def find_pages(reference: Path) -> dict[str, Path]:
    """Return generated function pages for a folder of reference pages, or an empty dict if it has them."""
    overview = reference / _OVERVIEW
    if not overview.is_file() or not _TO_SOURCE.search(overview.read_text(encoding="utf-8")):
        return {}
    built = Path(_built(overview).name)
    return {path.relative_to(built).as_posix(): path for path in sorted(built.rglob("*.md"))}


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _read_modules(room: str) -> list[_Module]:
    """Return a subpackage, followed by those of its public modules that have members, sorted by name."""
    found = []
    for path in sorted((_PACKAGE / room).rglob("*.py")):
        parts = path.relative_to(_PACKAGE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        if not any(part.startswith("_") or part == "cli" for part in parts):
            name = ".".join(("qflow", *parts))
            found.append(_Module(name, _parse(path)))
    package, *modules = sorted(found, key=lambda module: module.name)
    return [package, *(module for module in modules if module.members())]


def _room_page(package: _Module, modules: list[_Module]) -> str:
    """Return the text of a subpackage's page: its modules with their functions and classes."""
    lines = [f"# {package.name}", "", *markdown(ast.get_docstring(package.tree))]
    for module in modules:
        lines += ["", f"## [{module.name}]({module.page})", "", _first_paragraph(module.tree), ""]
        lines += [
            f"- [`{one.name}`]({module.page}#{one.name.lower()}): {_first_paragraph(one)}"
            for one in module.members()
        ]
    return "\n".join([*lines, ""])


def _module_page(module: _Module, room: str) -> str:
    """Return the text of a module's page: the module's docstring, then each of its functions and classes."""
    up = f"Part of [qflow.{room}](../functions-{room}.md)."
    lines = [f"# {module.name}", "", up, "", *markdown(ast.get_docstring(module.tree))]
    for one in module.members():
        lines += ["", f"## `{one.name}`", "", "```python", *_declaration(one, module), "```", ""]
        lines += markdown(ast.get_docstring(one))
        if isinstance(one, ast.ClassDef):
            lines += _methods(one)
    return "\n".join([*lines, ""])


def _first_paragraph(node: ast.Module | _Member) -> str:
    return _prose((ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " "), "")


def _declaration(one: _Member, module: _Module) -> list[str]:
    """Return the lines of a signature: one line, or a line for each parameter if that would be too long."""
    parameters = _class_parameters(one, module) if isinstance(one, ast.ClassDef) else _parameters(one)
    line = f"{one.name}({', '.join(parameters)})"
    return [line] if len(line) <= _WIDTH else [f"{one.name}(", *(f"    {each}," for each in parameters), ")"]


def _methods(owner: ast.ClassDef) -> list[str]:
    lines = [
        f"- `{node.name}({', '.join(_parameters(node))})`: {_first_paragraph(node)}"
        for node in owner.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not {"property", "setter", "cached_property"} & _decorators(node)
        and ast.get_docstring(node)
    ]
    return ["", *lines] if lines else []


def _decorators(node: _Member) -> set[str]:
    """Return the names of a definition's decorators, without modules, such as ``dataclass`` or ``setter``."""
    return {ast.unparse(one).partition("(")[0].rpartition(".")[2] for one in node.decorator_list}


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """Return the parameters with their types, but without defaults, which would double their length."""
    given = node.args
    positional = [one for one in (*given.posonlyargs, *given.args) if one.arg not in ("self", "cls")]
    star = [_format(given.vararg, "*")] if given.vararg else ["*"] if given.kwonlyargs else []
    rest = [_format(given.kwarg, "**")] if given.kwarg else []
    return [*map(_format, positional), *star, *map(_format, given.kwonlyargs), *rest]


def _format(parameter: ast.arg, stars: str = "") -> str:
    said = f": {ast.unparse(parameter.annotation)}" if parameter.annotation else ""
    return f"{stars}{parameter.arg}{said}"


def _class_parameters(owner: ast.ClassDef, module: _Module) -> list[str]:
    """Return the fields of a dataclass or named tuple, or the parameters of a class's constructor."""
    if "dataclass" in _decorators(owner) or any(ast.unparse(base) == "NamedTuple" for base in owner.bases):
        return list(_fields(owner, module).values())
    for node in owner.body:
        if isinstance(node, ast.FunctionDef) and node.name in ("__init__", "__new__"):
            return _parameters(node)
    inherited = (_class_parameters(base, module) for base in _bases(owner, module))
    return next(filter(None, inherited), [])


def _fields(owner: ast.ClassDef, module: _Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in _bases(owner, module):
        found |= _fields(base, module) if "dataclass" in _decorators(base) else {}
    for node in owner.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            kind, value = ast.unparse(node.annotation), ast.unparse(node.value) if node.value else ""
            if not kind.startswith("ClassVar") and "init=False" not in value:
                found[node.target.id] = "*" if kind == "KW_ONLY" else f"{node.target.id}: {kind}"
    return found


def _bases(owner: ast.ClassDef, module: _Module) -> Iterator[ast.ClassDef]:
    """Yield those base classes of a class that are defined in qflow."""
    for name in (ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in owner.bases):
        near = [node for node in module.tree.body if isinstance(node, ast.ClassDef) and node.name == name]
        yield from near or _classes().get(name, [])


@cache
def _classes() -> dict[str, list[ast.ClassDef]]:
    """Return the first definition of each class name in qflow, as a list with this one class."""
    found: dict[str, list[ast.ClassDef]] = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        for node in _parse(path).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, [node])
    return found


def markdown(text: str | None) -> list[str]:
    """Return a docstring as lines of Markdown: bold section titles, lists of entries, examples as code."""
    lines: list[str] = []
    section, is_code = "", False
    for line in (text or "").splitlines():
        if found := _SECTION.fullmatch(line):
            section = found[1]
            lines += [f"**{section}**", ""]
            continue
        if line and not line.startswith(" "):
            section = ""
        if line.startswith(">>>") and not is_code:
            lines.append("```python")
            is_code = True
        if is_code and not line.strip():
            lines.append("```")
            is_code = False
        lines.append(line if is_code else _prose(line, section))
    return [*lines, "```"] if is_code else lines


def _prose(line: str, section: str) -> str:
    plain = _ROLE.sub(r"`\1`", line).replace("``", "`")
    if not section or not plain:
        return plain
    entry = None if section in ("Returns", "Yields") else _ENTRY.fullmatch(plain)
    if entry is None:
        return f"  {plain.strip()}" if section not in ("Returns", "Yields") else plain.strip()
    return f"- `{entry[1]}`" + (f": {entry[2]}" if entry[2] else "")
