"""The maintainers' commands, ``python -m qflow.maintain COMMAND`` in a checkout; the wheel lacks them."""

import shutil
import subprocess
from pathlib import Path

from qflow.kit import RefusalError, checkout_root
from qflow.launch.doctor import CHROMIUMS


def checkout() -> Path:
    """Return the top folder of the checkout that this module is in; refuse if it is not in a checkout."""
    root = checkout_root()
    if root is None:
        raise RefusalError("What maintainers run needs a checkout of qflow; run this command in one.")
    return root


def find_chromium() -> str:
    """Return the path of a Chromium or Chrome that starts, for Playwright; refuse if no such one is found."""
    failing = []
    for path in filter(None, map(shutil.which, CHROMIUMS)):
        # On some systems the command exists but only prints how to install the browser.
        asked = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
        if asked.returncode == 0:
            return path
        failing.append(f"{path} does not start")
    reason = "; ".join(failing) or f"no browser on the PATH; looked for {', '.join(CHROMIUMS)}"
    raise RefusalError(f"There is no Chromium to drive: {reason}.")
