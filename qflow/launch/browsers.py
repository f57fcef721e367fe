"""Which browsers there are: one list for all code that looks for one, or drives one."""

from __future__ import annotations

import shutil
import subprocess

from qflow.kit import RefusalError

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
"""The commands of browsers that Playwright drives as Chromium."""

BROWSERS = (*CHROMIUMS, "firefox", "microsoft-edge", "safari")
"""The commands of browsers that show JupyterLab."""


def find_chromium() -> str:
    """Find a Chromium or Chrome that starts."""
    failing = []
    for path in filter(None, map(shutil.which, CHROMIUMS)):
        # On some systems the command is there but only prints how to install the browser.
        asked = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
        if asked.returncode == 0:
            return path
        failing.append(f"{path} does not start")
    reason = "; ".join(failing) or f"none of {', '.join(CHROMIUMS)} is on the PATH"
    raise RefusalError(f"There is no Chromium to drive: {reason}.")
