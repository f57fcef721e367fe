"""Pages of the reference with every public function and class of a room, as its docstring tells it."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

ROOMS: dict[str, str] = {
    "broker": "the engine",
    "messaging": "the client API people know from qpid.messaging",
    "configuration": "qpid-config's options, addresses and declare arguments",
    "workload": "producers and consumers in virtual time",
    "trace": "traces and client logs; the time machine; explain",
    "prediction": "what would have happened under other settings",
    "design": "thresholds that are safe",
    "conformance": "recordings of a real broker, played against the engine",
    "labs": "pictures that move",
    "teaching": "chapters, exercises, predictions",
}
"""The rooms that have a page, and what each is."""

_LISTS = {"Attributes", "Parameters", "Raises", "Returns", "Yields"}
_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")


def rooms_index() -> str:
    """Return the page that leads to the rooms' pages."""
    lines = [
        "# Functions and classes",
        "",
        "Every public function and class with its own description and example. The tests run each example.",
        "",
        *(f"- [`qflow.{room}`](functions-{room}.md): {what}" for room, what in ROOMS.items()),
        "",
        "`qflow.spark` is described in chapter 13 and in [Spark in operation](spark-operations.md).",
    ]
    return "\n".join(lines) + "\n"


def room_page(room: str) -> str:
    """Return the page of a room.

    Parameters
    ----------
    room : str
        A key of :data:`ROOMS`.

    Examples
    --------
    >>> room_page("conformance").splitlines()[0]
    '# qflow.conformance'
    """
    package = importlib.import_module(f"qflow.{room}")
    lines = [f"# qflow.{room}", "", *docstring(package)]
    for module in _modules(package):
        members = list(_members(module))
        if members:
            lines += ["", f"## {module.__name__}", "", *docstring(module)]
        for name, member in members:
            lines += ["", f"### `{name}{_signature(member)}`", "", *docstring(member)]
            if inspect.isclass(member):
                lines += _methods(member)
    return "\n".join(lines) + "\n"


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    names = sorted(found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    for name in names:
        if not any(part.startswith("_") or part == "cli" for part in name.split(".")):
            yield importlib.import_module(name)


def _members(module: ModuleType) -> Iterator[tuple[str, object]]:
    for name, member in sorted(vars(module).items()):
        if name.startswith("_") or not (inspect.isclass(member) or inspect.isfunction(member)):
            continue
        if member.__module__ == module.__name__ and inspect.getdoc(member):
            yield name, member


def _methods(owner: type) -> list[str]:
    lines = []
    for name, member in vars(owner).items():
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if name.startswith("_") or not inspect.isfunction(member) or not member.__doc__:
            continue
        first = inspect.cleandoc(member.__doc__).split("\n\n")[0].replace("\n", " ")
        lines.append(f"- `{name}{_signature(member)}`: {first}")
    return ["", *lines] if lines else []


def _signature(member: object) -> str:
    if dataclasses.is_dataclass(member):
        return f"({', '.join(field.name for field in dataclasses.fields(member) if field.init)})"
    try:
        parameters = inspect.signature(member).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    # Names only: the docstring tells types and defaults, and does not print an object's address.
    return f"({', '.join(_named(parameter) for parameter in parameters if parameter.name != 'self')})"


def _named(parameter: inspect.Parameter) -> str:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return f"*{parameter.name}"
    return f"**{parameter.name}" if parameter.kind is inspect.Parameter.VAR_KEYWORD else parameter.name


def docstring(member: object) -> list[str]:
    """Return a docstring as Markdown: sections as bold lines, what they list as a list, examples as code.

    Parameters
    ----------
    member : object
        A module, class or function.

    Examples
    --------
    >>> docstring(docstring)[0]
    'Return a docstring as Markdown: sections as bold lines, what they list as a list, examples as code.'
    """
    lines: list[str] = []
    section, is_code = "", False
    text = (inspect.getdoc(member) or "").splitlines()
    for line, following in zip(text, [*text[1:], ""], strict=True):
        if line and set(line) == {"-"}:
            continue
        if following and set(following) == {"-"}:
            section = line
            lines += [f"**{line}**", ""]
            continue
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
    if section in _LISTS and plain:
        return f"  {plain.strip()}" if plain.startswith(" ") else f"- **{plain}**  "
    return plain
