"""Scripts: the modules of the browser's side, joined into the one text that a widget or a page loads.

Each module (``static``) names what it uses of another and what it offers, and Node tests it as it lies there.
anywidget wants one text that imports nothing, and a page that was opened from a folder may fetch no module.
So a module becomes a function before all that import it, and its exports are that function's result.

A bundler such as esbuild would do this, too. It comes from npm, though, and a notebook draws its labs from a
checkout or a wheel on machines that have Python alone, so a bundle would have to be built beforehand, kept in
Git, and go stale. The regular expressions below rely on the formatter's spelling: an import or export begins
its line, and names are in braces. Anything else fails at once: a missing file, a name that is not exported,
or a syntax error in the browser tests.
"""

from __future__ import annotations

import re
from pathlib import Path

from qflow.qflow_error import QflowError

STATIC = Path(__file__).with_name("static")
STYLES = ("scene.css", "labs.css", "guess.css", "live.css")

_IMPORT = re.compile(r'^import \{\s+([^}]+?),?\s+\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
# Comments are for readers of the sources.
_COMMENT = re.compile(r"^\s*//.*\n", re.MULTILINE)


def read_styles(*names: str) -> str:
    """Return style sheets of the widgets, one after the other."""
    return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)


def join_modules(name: str, folder: Path = STATIC) -> str:
    """Return a module and all its imports as one text, imports first."""
    modules: dict[Path, tuple[str, str]] = {}
    last = (folder / name).resolve()
    _add(last, modules, ())
    scopes = [
        f"const ${path.stem} = (() => {{\n{text}return {{ {exports} }};\n}})();\n"
        for path, (text, exports) in modules.items()
        if path != last
    ]
    return "".join([*scopes, modules[last][0]])


def join_script(name: str, folder: Path = STATIC) -> str:
    """Return a module and all its imports as a script with its own scope, without exports."""
    return f"(() => {{\n{_without_default(join_modules(name, folder))}}})();\n"


def _add(path: Path, modules: dict[Path, tuple[str, str]], above: tuple[Path, ...]) -> None:
    """Add a module after its imports: its text, and its exported names."""
    if path in above:
        raise QflowError("modules import each other: " + " → ".join(one.name for one in (*above, path)))
    if path in modules:
        return
    if not path.is_file():
        raise QflowError(f"{above[-1].name if above else 'a page'} imports {path.name}, which is not there")
    text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
    for names, place in _IMPORT.findall(text):
        other = (path.parent / place).resolve()
        _add(other, modules, (*above, path))
        if strange := set(re.split(r",\s+", names)) - set(modules[other][1].split(", ")):
            raise QflowError(f"{path.name} imports {', '.join(strange)}, which {other.name} does not export")
    exports = ", ".join(name for _, name in _EXPORT.findall(text))
    text = _IMPORT.sub(lambda found: f"const {{ {found[1]} }} = ${Path(found[2]).stem};\n", text)
    text = _EXPORT.sub(r"\1", text)
    modules[path] = (_without_default(text) if above else text, exports)


def _without_default(text: str) -> str:
    return re.sub(r"^export default .*\n", "", text, flags=re.MULTILINE)
