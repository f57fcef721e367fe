"""What the kit needs of Jupyter: a kernel in this very Python, and the scripts that draw widgets."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from qflow.launch.findings import Finding, good

EXTENSIONS = {
    "@jupyter-widgets/jupyterlab-manager": "jupyterlab-widgets",
    "anywidget": "anywidget",
    "jupyterlab-plotly": "plotly",
}
"""What JupyterLab loads to draw sliders, scenes and charts, and the package that brings each."""


def kernel(folder: Path) -> Iterator[Finding]:
    """Look whether a notebook runs in the Python that has qflow."""
    if find_spec("jupyter_client") is None or find_spec("ipykernel") is None:
        yield Finding("kernel", "bad", "notebooks have no kernel here.", "pip install 'qflow[lab]'")
        return
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    cure = "python -m ipykernel install --sys-prefix"
    try:
        spec = KernelSpecManager().get_kernel_spec("python3")
    except NoSuchKernel:
        yield Finding("kernel", "bad", "there is no kernel called python3.", cure)
        return
    command = spec.argv[0]
    if os.path.isabs(command) and not _is_this(command):
        yield Finding("kernel", "bad", f"notebooks would run in {command}, where qflow is not.", cure)
    else:
        yield good("kernel", "notebooks run in this Python.")


def _is_this(command: str) -> bool:
    # Not the resolved file: every environment's python leads to the same one.
    return Path(command).parent == Path(sys.executable).parent


def extensions(folder: Path) -> Iterator[Finding]:
    """Look whether JupyterLab finds the scripts that draw widgets and charts, and has them switched on."""
    if find_spec("jupyter_core") is None:
        return  # told of the packages
    from jupyter_core.paths import jupyter_config_path, jupyter_path

    places = [Path(place) for place in jupyter_path("labextensions")]
    missing = [
        name for name in EXTENSIONS if not any((place / name / "package.json").exists() for place in places)
    ]
    if missing:
        brought = " ".join(sorted({EXTENSIONS[name] for name in missing}))
        cure = f"pip install --force-reinstall --no-deps {brought}"
        yield Finding("widgets", "bad", f"JupyterLab does not find {', '.join(missing)}.", cure)
        return
    disabled = sorted(_disabled([Path(place) for place in jupyter_config_path()]) & set(EXTENSIONS))
    if disabled:
        cure = f"jupyter labextension enable {' '.join(disabled)}"
        yield Finding("widgets", "bad", f"{', '.join(disabled)} is switched off in JupyterLab.", cure)
    else:
        yield good("widgets", "JupyterLab finds what draws sliders, scenes and charts.")


def _disabled(places: list[Path]) -> set[str]:
    found: set[str] = set()
    for place in places:
        try:
            page = json.loads((place / "labconfig" / "page_config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        listed = page.get("disabledExtensions", {})
        found |= {name for name in listed if not isinstance(listed, dict) or listed[name]}
    return found


def folders(folder: Path) -> Iterator[Finding]:
    """Look whether Jupyter can write where it keeps its own files."""
    if find_spec("jupyter_core") is None:
        return
    from jupyter_core.paths import jupyter_runtime_dir

    place = Path(jupyter_runtime_dir())
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as problem:
        cure = "Make it writable for you, or name another: export JUPYTER_RUNTIME_DIR=FOLDER"
        yield Finding("Jupyter", "bad", f"{place} cannot be written ({problem.strerror}).", cure)
