"""nbval and the kit's notebooks: a team's copy of a chapter passes where the chapter passes.

``pytest --nbval`` runs a notebook again and compares its outputs. A few of them cannot be compared: an
address in memory, a chart's last digit, which processors round differently, a learner's earlier guesses.
pytest loads this module where qflow is installed (entry point ``pytest11``), so that a copy needs no settings
of its own. Only notebooks that import qflow are touched.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

SANITIZING = Path(__file__).with_name("nbval_sanitize.cfg")
"""What nbval replaces in outputs before it compares them; the builder of the chapters tidies by it, too."""

_UNCOMPARED = ("application/vnd.plotly.v1+json", "stderr")
"""The claims beside each chart are text, which is compared. Standard error has other packages' warnings."""

_KERNEL = {"PLOTLY_RENDERER": "plotly_mimetype", "QFLOW_PROGRESS": ""}
"""The chart as JSON, and no learner's progress: the chapters were built without guesses."""


def pytest_collectstart(collector: Any) -> None:
    """Prepare nbval's collector of a notebook that imports qflow."""
    if not hasattr(collector, "skip_compare") or not _imports_qflow(collector.path):
        return
    collector.skip_compare += _UNCOMPARED
    start_kernel, list_files = collector.setup, collector.get_sanitize_files

    def setup() -> None:
        with mock.patch.dict(os.environ, _KERNEL):
            start_kernel()

    collector.setup = setup
    collector.get_sanitize_files = lambda: [*list_files(), str(SANITIZING)]


def _imports_qflow(notebook: Path) -> bool:
    try:
        return "import qflow" in notebook.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False  # nbval says what is wrong with it
