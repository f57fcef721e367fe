"""The build hook: compiles the engine with mypyc when a wheel is built, if this machine can compile.

The same source runs compiled and interpreted, with the same results. Without a C compiler the wheel is pure
Python, which is only slower; an editable install is always pure Python. The environment variable
``QFLOW_COMPILE`` overrides this: with ``0`` nothing is compiled, and with ``1`` the build fails if it cannot
compile.

:func:`documented` rewrites the C code that mypyc has generated, by regular expressions. mypyc drops
docstrings, and with them ``help()``, the tooltips of JupyterLab and the examples that :mod:`doctest` finds;
it has no option, plug-in or template to keep them. Setting docstrings at import would need a Python object
beside each function, and is impossible for a method of a compiled class: its docstring is in a C table that
the interpreter reads. So the docstrings are written into that table. A version of mypyc that writes the table
differently would break this: the patterns would match nothing, and
``tests/kit/test_compiled_documentation.py`` would fail, but nothing else, as only texts are replaced.
Therefore ``pyproject.toml`` requires one minor version of mypy for the build, and a new version is allowed
once it has passed that test.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import string
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SWITCH = "QFLOW_COMPILE"
GROUP = "qflow.engine"

INTERPRETED = {
    "events": "its table is a Sequence, and a compiled class cannot inherit from one that is not",
    "options": "a wrong type is refused in the project's words, not in the compiler's",
    "statistics": "its records are copied by the names of their fields, which the compiler takes no part in",
    "snapshot": "it has the compiler's own mark, and reads and sets the fields of objects of any class",
}
"""Modules of the engine that are not compiled, and why; ``__init__`` modules are not compiled, either."""

WORKLOAD_LOOP = ("agenda", "arrivals", "clients", "measured", "stage")

BESIDE_IT = ("labs/fold",)
"""Modules outside the engine that process every event of a run, as the labs do before drawing a picture."""

OPTIMISED = {
    **dict.fromkeys(("errors", "history", "link_nodes", "links", "management"), "-O0"),
    **dict.fromkeys(("selector", "settings", "signature"), "-O0"),
    "fold": "-O1",
}
"""The optimisation level of modules that the C compiler optimises less, which takes a third of the time.

Those with -O0 run only for declarations, queries, refusals, links, selectors or historic variants of the
broker, and so for few messages; the one with -O1 is only one or two per cent slower.
"""


class ReadmeHook(MetadataHookInterface):
    """Makes the README's relative links absolute, for package indexes, which show it as the description."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the package's description to the README with absolute links to the repository."""
        base = metadata["urls"]["Repository"]
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = re.sub(r"(!\[[^]]*\]\()(?![a-z]+:|#)", rf"\1{base}/raw/main/", text)
        text = re.sub(r"((?<!!)\[[^]]*\]\()(?![a-z]+:|#)", rf"\1{base}/blob/main/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


class CompileHook(BuildHookInterface):
    """Adds the compiled modules, beside their sources, and the function pages to a wheel."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the function pages and compile the modules, for a wheel that is not an editable install.

        Nothing is compiled if ``QFLOW_COMPILE`` is ``0``.

        Raises:
            RuntimeError: If ``QFLOW_COMPILE`` is ``1``, and the modules cannot be compiled.
        """
        choice = os.environ.get(SWITCH, "")
        if self.target_name != "wheel" or version == "editable":
            return
        self._folder = Path(tempfile.mkdtemp(prefix="qflow-build-"))
        self._write_function_pages(build_data)
        if choice == "0":
            return
        problem = what_is_missing()
        if not problem:
            try:
                self._compile(build_data)
                return
            except (Exception, SystemExit) as error:
                problem = f"compiling failed: {str(error).strip() or type(error).__name__}"
        if choice == "1":
            raise RuntimeError(f"{SWITCH}=1 asks for a compiled engine, but {problem}")
        self.app.display_warning(
            f"qflow is installed as pure Python, as {problem}; it gives the same results, more slowly."
        )

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the temporary folder of the build."""
        folder = getattr(self, "_folder", None)
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)

    def _write_function_pages(self, build_data: dict[str, Any]) -> None:
        """Add the function pages, which Git does not keep; making them needs the source alone."""
        sys.path.insert(0, self.root)
        from qflow.launch.function_pages import write_pages

        pages, reference = self._folder / "pages", Path("notebooks", "reference")
        write_pages((Path(self.root) / reference / "functions.md").read_text(encoding="utf-8"), pages)
        for path in pages.rglob("*.md"):
            target = "qflow/_kit" / reference / path.relative_to(pages)
            build_data["force_include"][str(path)] = target.as_posix()

    def _compile(self, build_data: dict[str, Any]) -> None:
        self.app.display_info("Compiling the engine; with two cores this takes about half a minute.")
        for path in compile_modules(Path(self.root), self._folder):
            build_data["force_include"][str(path)] = path.relative_to(self._folder / "out").as_posix()
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def what_is_missing() -> str:
    """Return a description of what this machine lacks for compiling, or "" if it lacks nothing."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if os.name != "nt" and shutil.which(compiler.split()[0]) is None:
        return f"there is no C compiler ({compiler.split()[0]}) here"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        return "Python's header files are not installed here"
    try:
        import mypyc.build  # noqa: F401
        import setuptools  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed here"
    return ""


def modules(root: Path) -> Iterator[str]:
    """Yield the paths of the modules to compile, relative to the top of the checkout."""
    for path in sorted((root / "qflow" / "broker").rglob("*.py")):
        if path.stem != "__init__" and path.stem not in INTERPRETED:
            yield path.relative_to(root).as_posix()
    for name in (*(f"workload/{name}" for name in WORKLOAD_LOOP), *BESIDE_IT):
        yield f"qflow/{name}.py"


def build_on_all_cores() -> type[Any]:
    """Return a variant of setuptools' command build_ext that compiles the files of an extension in parallel.

    The original command compiles only whole extensions in parallel, and nearly all of the engine's C code
    belongs to one extension.
    """
    from setuptools.command.build_ext import build_ext

    class BuildOnAllCores(build_ext):
        def build_extensions(self) -> None:
            # Largest files first, so that no core starts a large file when the others are almost done.
            work = [(path, extension) for extension in self.extensions for path in extension.sources]
            work.sort(key=lambda each: -os.path.getsize(each[0]))
            with ThreadPoolExecutor(self.parallel) as pool:
                compiled = list(pool.map(self.compile_file, *zip(*work, strict=True)))
            objects = {path: made for (path, _), made in zip(work, compiled, strict=True)}
            for extension in self.extensions:
                # Sorted, as mypyc takes part of the list from a set, whose order varies.
                extension.extra_objects = [objects[path] for path in sorted(extension.sources)]
                extension.sources = []
            super().build_extensions()

        def compile_file(self, path: str, extension: Any) -> str:
            level = OPTIMISED.get(Path(path).stem.rpartition("___")[2]) if os.name != "nt" else None
            (made,) = self.compiler.compile(
                [path],
                output_dir=self.build_temp,
                include_dirs=extension.include_dirs,
                # If two optimisation levels are given, the compiler uses the last one.
                extra_postargs=[*extension.extra_compile_args, *([level] if level else [])],
                depends=extension.depends,
            )
            return made

    return BuildOnAllCores


_ESCAPED = '"\\?\t\n\r\v\f'
_PLACES = re.compile(
    r'PyDoc_STR\((?:NULL|"(?P<signature>.*)")\)'
    r"|(?P<property>NULL, NULL\},)$"
    r"|(?P<module>NULL, /\* docstring \*/)$"
)
"""The places in the C code where a docstring can be written."""


def documented(c: str, module: str, source: str) -> str:
    """Return the C code of a module with the docstrings of its Python source, which mypyc has dropped.

    Parameters:
        c: The C code that mypyc has generated.
        module: The name of the module, without its package.
        source: The Python source of the module.

    mypyc writes signatures into the C code, in the form from which Python separates signature and docstring.
    """
    texts = docstrings(source)
    # The beginning of a C table of methods or properties or of a class, and the name of an entry in it.
    table = re.compile(
        rf"static (?:struct )?\w+ (?:CPyType_)?{module}"
        r"(?:___(?P<owner>\w+)_(?:methods|getseters|template_)|module(?:_methods)?)\b"
    )
    entry = re.compile(r'\s+\{"(\w+)",')
    owner = name = ""
    written: set[str] = set()

    def write(place: re.Match[str]) -> str:
        if name not in texts:
            return place[0]
        written.add(name)
        text = c_string((place["signature"] or ""), texts[name])
        if place["property"]:
            return f"{text}, NULL}},"
        return f"{text}, /* docstring */" if place["module"] else f"PyDoc_STR({text})"

    lines = c.split("\n")
    for number, line in enumerate(lines):
        if found := table.match(line):
            owner = name = found["owner"] or ""
        elif found := entry.match(line):
            name = f"{owner}.{found[1]}".lstrip(".")
        lines[number] = _PLACES.sub(write, line)
    # Classes such as named tuples are created by Python when the module runs; set their docstrings then.
    later = [_set_later(name, text) for name, text in texts.items() if name not in written]
    return _RUN.sub(lambda place: place[0] + "".join(later), "\n".join(lines))


_RUN = re.compile(
    r"    char result = CPyDef_\w+_____top_level__\(\);\n    if \(result == 2\)\n        goto fail;\n"
)
"""The place in the C code right after the module has run."""


def _set_later(name: str, text: str) -> str:
    steps = "".join(
        f'        next = owner ? PyObject_GetAttrString(owner, "{part}") : NULL;\n'
        "        Py_XDECREF(owner);\n        owner = next;\n"
        for part in filter(None, name.split("."))
    )
    return (
        "    {\n        PyObject *next, *owner = Py_NewRef(module);\n"
        f"        PyObject *text = PyUnicode_FromString({c_string('', text)});\n{steps}"
        '        if (owner && text) PyObject_SetAttrString(owner, "__doc__", text);\n'
        "        Py_XDECREF(owner); Py_XDECREF(text); PyErr_Clear();\n    }\n"
    )


def docstrings(source: str) -> dict[str, str]:
    """Return the docstrings of a module, its functions, classes and methods, by name; the module's is ""."""
    tree = ast.parse(source)
    found: dict[str, str | None] = {"": ast.get_docstring(tree)}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = ast.get_docstring(node)
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            found |= {f"{node.name}.{method.name}": ast.get_docstring(method) for method in methods}
    return {name: text for name, text in found.items() if text}


def c_string(signature: str, text: str) -> str:
    """Return a C string literal of a signature, which is already escaped for C, followed by a text."""
    bare = "".join(
        chr(byte) if chr(byte) in string.printable and chr(byte) not in _ESCAPED else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{signature}{bare}"'


def compile_modules(root: Path, folder: Path) -> list[Path]:
    """Compile the modules of a checkout; return the paths of the extension modules.

    Parameters:
        root: The top of the checkout.
        folder: A folder for temporary files; the extension modules are written below its ``out``.
    """
    from mypyc.build import mypycify
    from setuptools import Distribution

    before = Path.cwd()
    os.chdir(root)
    try:
        # Type errors in other subpackages must not prevent a compiled engine.
        options = [
            "--ignore-missing-imports",
            "--follow-imports=silent",
            f"--cache-dir={folder / 'mypy'}",
            "--no-warn-unused-configs",
        ]
        extensions = mypycify(
            [*options, *modules(root)],
            opt_level=os.environ.get("QFLOW_OPT_LEVEL", "2"),
            debug_level="0",
            # One C file for each module: a single file of 25 MB would keep only one core busy, and take more
            # CPU time in total.
            multi_file=True,
            group_name=GROUP,
            target_dir=str(folder / "c"),
        )
        for path in map(Path, modules(root)):
            generated = folder / "c" / f"__native_{'___'.join(path.with_suffix('').parts)}.c"
            c = documented(generated.read_text(), path.stem, path.read_text(encoding="utf-8"))
            generated.write_text(c)
        for extension in extensions:
            # A new warning of a later C compiler must not make the build fail.
            flags = [flag for flag in extension.extra_compile_args if flag != "-Werror"]
            if os.name != "nt":
                # Keep the name of the temporary folder, which differs from build to build, out of the files.
                flags.append(f"-ffile-prefix-map={folder}=.")
                # No other code calls these functions by name, so the compiler may call them directly.
                flags.append("-fvisibility=hidden")
                # Calls of functions in Python's own library need not go through the linkage table, either.
                flags.append("-fno-plt")
            extension.extra_compile_args = flags
            # The header is in the folder of the group's own extension; the modules' C files are elsewhere.
            extension.include_dirs.append(str(folder / "c" / GROUP.partition(".")[0]))
        command = build_on_all_cores()(Distribution({"name": "qflow", "ext_modules": extensions}))
        command.build_lib, command.build_temp = str(folder / "out"), str(folder / "objects")
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
    finally:
        os.chdir(before)
    return sorted(path for path in (folder / "out").rglob("*") if path.suffix in (".so", ".pyd"))


def main(arguments: list[str]) -> None:
    """Compile the modules of this checkout, beside their sources, or only remove them (``--remove``)."""
    root = Path(__file__).resolve().parent
    for path in (root / "qflow").rglob("*"):
        if path.suffix in (".so", ".pyd"):
            path.unlink()
    if arguments != ["--remove"]:
        with tempfile.TemporaryDirectory(prefix="qflow-build-") as folder:
            for path in compile_modules(root, Path(folder)):
                shutil.copy(path, root / path.relative_to(Path(folder) / "out"))


if __name__ == "__main__":
    main(sys.argv[1:])
