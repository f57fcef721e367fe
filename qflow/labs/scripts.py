"""Scripts: joins JavaScript modules into the single text that a widget or a page loads.

The modules in ``static`` are ordinary ES modules with imports and exports, and Node tests them as they are.
But anywidget needs one text without imports, and a page opened from a folder cannot load modules. So each
module becomes a function, placed before all modules that import it, and the result of this function are the
module's exports.

A bundler such as esbuild could do this, too. But it is installed from npm, and notebooks draw their labs from
a checkout or a wheel on machines that have only Python. So a bundle would have to be built beforehand and
kept in Git, where it would become outdated. The regular expressions below rely on the style of the formatter:
an import or export is at the beginning of a line, and imported names are in braces. Errors are found at once:
a missing file and a name that is not exported are refused here, and anything else is a syntax error in the
browser tests.
"""

from __future__ import annotations

import re
from pathlib import Path

from qflow.qflow_error import QflowError

STATIC = Path(__file__).with_name("static")
STYLES = ("scene.css", "labs.css", "guess.css", "live.css")

_IMPORT = re.compile(r'^import \{\s+([^}]+?),?\s+\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
# Comments, which are left out of the joined text.
_COMMENT = re.compile(r"^\s*//.*\n", re.MULTILINE)


def read_styles(*names: str) -> str:
    """Return the text of style sheets in ``static``, one after the other."""
    return "\n".join((STATIC / name).read_text(encoding="utf-8") for name in names)


def join_modules(name: str, folder: Path = STATIC) -> str:
    """Return a module and everything that it imports as one text, with the imported modules first."""
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
    """Return a module and everything that it imports as a script with a scope of its own, without exports."""
    return f"(() => {{\n{_without_default(join_modules(name, folder))}}})();\n"


def _add(path: Path, modules: dict[Path, tuple[str, str]], above: tuple[Path, ...]) -> None:
    """Add the text and the exported names of a module to `modules`, after those of its imports."""
    if path in above:
        raise QflowError("modules import each other: " + " → ".join(one.name for one in (*above, path)))
    if path in modules:
        return
    if not path.is_file():
        raise QflowError(f"{above[-1].name if above else 'a page'} imports {path.name}, which is missing")
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
