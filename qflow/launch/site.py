"""``qflow site``: the chapters and labs as a static site, which any web server can serve without Python.

The first page shows an animated broker (:mod:`qflow.launch.front_door`); behind it are the chapters as pages
to read (:mod:`qflow.launch.book`). Both also work when opened from a folder. Each chapter links to
JupyterLite, a JupyterLab in the browser, where Pyodide runs the same engine. A chapter that cannot run there,
as Spark needs Java and real clients need a port, is shown with the outputs of an earlier execution.
"""

from __future__ import annotations

import argparse
import importlib
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from qflow.kit import DISTRIBUTION
from qflow.launch import cargo
from qflow.launch.book import EXECUTED_ONLY, list_contents, write_book
from qflow.launch.chapters import SETTINGS, inner_links, require
from qflow.launch.front_door import write_front_door, write_worker
from qflow.launch.moments import write_moments

DEFAULT_FOLDER = "qflow-site"
_PACKAGES = ("jupyterlite-core", "jupyterlite-pyodide-kernel", "jupyter-server", "nbconvert", "nbformat")
TOOLS = {name.replace("-", "_"): name for name in _PACKAGES}
_INSTALL = f"""\
# This page runs Python inside your browser. One cell, once: it unpacks qflow there.
import piplite

await piplite.install(["{DISTRIBUTION}", "ipywidgets", "anywidget", "plotly", "networkx"])"""

_SHOWN = (
    "> On this site you see this chapter as it was executed. To run it yourself, install qflow on a "
    "computer: the README says how."
)
_NOT_HERE = (
    "> These cells have to run on a computer, as they need Spark. To work on them, install qflow there: "
    "the README says how."
)

_CONFIGURATION = {
    "jupyter-lite-schema-version": 0,
    "jupyter-config-data": {
        "appName": "qflow",
        "exposeAppInBrowser": True,
        # Otherwise Pyodide would fetch missing packages from PyPI; the site must work without a network.
        "litePluginSettings": {"@jupyterlite/pyodide-kernel-extension:kernel": {"disablePyPIFallback": True}},
    },
}


def build(folder: Path) -> Path:
    """Build the site into a folder, replacing an earlier site there; return the folder."""
    check_ready(folder)
    report_step("Pyodide and its libraries")
    package, libraries, widgets = cargo.fetch(cargo.cargo_folder())
    with tempfile.TemporaryDirectory(prefix="qflow-site-") as name:
        workplace = Path(name)
        report_step("qflow's own wheel")
        cargo.build_wheel(workplace / "pypi")
        for wheel in widgets.glob("*.whl"):
            shutil.copy(wheel, workplace / "pypi")
        cargo.copy_interpreter(package, libraries, workplace / "static" / "pyodide")
        report_step("chapters")
        _write_contents(workplace / "files")
        _write_json(workplace / "jupyter-lite.json", _CONFIGURATION)
        settings = SETTINGS / "labconfig" / "default_setting_overrides.json"
        shutil.copyfile(settings, workplace / "overrides.json")
        report_step("the site")
        command = [sys.executable, "-m", "jupyter", "lite", "build"]
        options = ["--no-sourcemaps", "--apps", "lab", "--apps", "notebooks", "--output-dir", "out"]
        cargo.run([*command, *options, "--contents", "files"], folder=workplace)
        report_step("the book and the front door")
        write_front_door(workplace / "out", write_book(workplace / "out"))
        write_worker(workplace / "out")
        report_step("three moments")
        write_moments(workplace / "out")
        _replace(workplace / "out", folder)
    return folder


def check_ready(folder: Path) -> None:
    """Refuse a build that cannot succeed, before any change or download."""
    cargo.refuse_strangers(folder, "site")
    require(TOOLS, extra="site")
    cargo.find_checkout()
    cargo.require_pip()
    cargo.find_package(cargo.cargo_folder())


def _write_contents(folder: Path) -> None:
    """Copy the chapters and exercises into a folder, with their notebooks adapted to JupyterLite."""
    nbformat = importlib.import_module("nbformat")
    for path, source in list_contents():
        target = folder / path.removeprefix("notebooks/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".ipynb":
            # A notebook file stores texts as lists of lines. A Jupyter server would join them; here is none.
            book = nbformat.read(source, as_version=4)
            _write_json(target, _adapt_notebook(book, runs=not source.name.startswith(EXECUTED_ONLY)))
        else:
            shutil.copyfile(source, target)


def _adapt_notebook(book: dict[str, Any], *, runs: bool) -> dict[str, Any]:
    """Return a notebook with a new cell that installs qflow, or says that the notebook cannot run here."""
    executed = any(cell.get("outputs") for cell in book["cells"])
    text = _INSTALL if runs else _SHOWN if executed else _NOT_HERE
    cell: dict[str, Any] = {"cell_type": "markdown", "id": "site", "metadata": {}, "source": text}
    if runs:
        cell |= {"cell_type": "code", "execution_count": None, "outputs": []}
    cells = [{**each, "source": inner_links(each["source"])} for each in book["cells"]]
    # The new cell comes after the title, which readers look for at the top.
    place = 1 if cells and cells[0]["cell_type"] == "markdown" else 0
    return {**book, "cells": [*cells[:place], cell, *cells[place:]]}


def report_step(what: str) -> None:
    """Print the current step on standard error, as some steps take a minute."""
    print(f"{what} …", file=sys.stderr, flush=True)


def _replace(built: Path, folder: Path) -> None:
    cargo.claim(folder, "site")
    # Called when the new site is complete: a build that fails leaves the earlier site untouched.
    (folder / cargo.MARK).replace(built / cargo.MARK)
    shutil.rmtree(folder)
    shutil.move(built, folder)


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``site`` to the ``qflow`` command."""
    parser = rooms.add_parser("site")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    made = actions.add_parser("build", help="write the site into a folder")
    made.add_argument("--out", metavar="FOLDER", default=DEFAULT_FOLDER, help=f"default: ./{DEFAULT_FOLDER}")
    actions.add_parser("fetch", help="download the external parts of a build, for later builds offline")


def run(chosen: argparse.Namespace) -> int:
    """Run ``qflow site build`` or ``qflow site fetch``; return the exit status."""
    if chosen.action == "fetch":
        cargo.fetch(cargo.cargo_folder())
        print(f"The external parts of a site are in {cargo.cargo_folder()}.")
        return 0
    folder = build(Path(chosen.out).absolute())
    print(f"The site is in {folder} ({cargo.megabytes(folder):.0f} MB). To look at it, open")
    print(f"    {folder / 'index.html'}")
    print("in a browser; to make it live there, open the address that this prints:")
    print(f"    python -m http.server --directory {folder}")
    return 0
