"""A pytest plugin that lets ``pytest --nbval`` check the kit's notebooks, and a team's copies of them.

nbval runs a notebook again and compares its outputs with the stored ones. Some outputs differ without an
error: addresses in memory, the last digit of numbers in a chart, which depends on the processor, and the
learner's earlier guesses. This plugin excludes, replaces or resets these. pytest loads it wherever qflow is
installed (entry point ``pytest11``), so that a copy of a chapter needs no settings of its own. It changes the
checks only of notebooks that import qflow.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

SANITIZING = Path(__file__).with_name("nbval_sanitize.cfg")
"""The file of the replacements that nbval makes in outputs before it compares them.

:mod:`qflow.maintain.notebooks` makes the same replacements when it builds the chapters.
"""

_UNCOMPARED = ("application/vnd.plotly.v1+json", "stderr")
"""Outputs that are not compared. A chart's claims are text, which is compared; stderr may hold warnings."""

_KERNEL = {"PLOTLY_RENDERER": "plotly_mimetype", "QFLOW_PROGRESS": ""}
"""The kernel's environment: charts as JSON, and no record of a learner's guesses, as for the chapters."""


def pytest_collectstart(collector: Any) -> None:
    """Adapt nbval's collector to a notebook that imports qflow: what to compare, and the environment."""
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
        return False  # nbval itself reports a file that cannot be read
