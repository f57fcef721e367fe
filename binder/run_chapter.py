"""Run a chapter as a session of Binder does, and say how much memory it and all that it started took at most.

Usage: python run_chapter.py CHAPTER.ipynb     (status 1 if a cell fails or it takes more than Binder gives)
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from pathlib import Path

import nbformat
import psutil
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from traitlets.config import Config

ROOM = 1.4
"""Gigabytes that a chapter may take of the two that a session has: JupyterLab takes the rest."""
START = Path(__file__).with_name("start")
"""The program through which Binder starts each session."""
CELL_SECONDS = 600
"""Seconds that a cell may take."""


class Peak(threading.Thread):
    """Looks twice a second at how much memory the children of this process take.

    Parameters
    ----------
    pause : float
        Seconds between two looks.
    """

    def __init__(self, pause: float = 0.5) -> None:
        super().__init__(daemon=True)
        self.pause, self.highest, self.is_over = pause, 0, False

    def run(self) -> None:
        """Look until told that it is over."""
        while not self.is_over:
            self.highest = max(self.highest, self.memory())
            time.sleep(self.pause)

    @staticmethod
    def memory() -> int:
        """Return the bytes taken now; what processes share is counted once."""
        total = 0
        # This process itself is not there in a session.
        for process in psutil.Process().children(recursive=True):
            try:
                known = process.memory_full_info()
                total += getattr(known, "pss", known.uss)
            except psutil.Error:
                continue  # it ended meanwhile
        return total


def main(path: str) -> int:
    """Run one chapter; return the exit status."""
    chapter = Path(path)
    book = nbformat.read(chapter, 4)
    peak = Peak()
    peak.start()
    start = time.monotonic()
    config = Config()
    # A kernel that talks in plain text says so on standard error.
    config.KernelManager.transport_encryption = "auto"
    folder = {"metadata": {"path": str(chapter.parent)}}
    client = NotebookClient(
        book, timeout=CELL_SECONDS, kernel_name="python3", resources=folder, config=config
    )
    try:
        client.execute()
    except CellExecutionError as error:
        print(f"{chapter.name}: {error}", file=sys.stderr)
        return 1
    except CellTimeoutError:
        print(f"{chapter.name}: a cell ran longer than {CELL_SECONDS} s", file=sys.stderr)
        return 1
    except (DeadKernelError, AssertionError) as error:
        # A watchdog for memory, `timeout` and Ctrl-C signal this process, not the kernel. nbclient 0.11 then
        # ends the kernel, ends it again as it leaves, and fails with a bare AssertionError, for there is none
        # any more (client.py, _async_cleanup_kernel). A failed assert in a cell is a CellExecutionError.
        by_signal = getattr(client, "_async_cleanup_kernel_future", None) is not None
        if isinstance(error, AssertionError) and not by_signal:
            raise
        # Its tasks fail after it, and asyncio would report each.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        how = "a signal ended the run" if by_signal else "the kernel was ended, as it is when memory runs out"
        used = f"{peak.highest / 1e9:.2f} GB were taken at most, of {ROOM} GB"
        print(f"{chapter.name}: {how}; {used}", file=sys.stderr)
        return 1
    peak.is_over = True
    used, seconds = peak.highest / 1e9, time.monotonic() - start
    print(f"{chapter.name}: {seconds:.0f} s, at most {used:.2f} GB (of {ROOM} GB)")
    return int(used > ROOM)


if __name__ == "__main__":
    if "SPARK_DRIVER_MEMORY" not in os.environ:
        os.execv(START, [str(START), sys.executable, *sys.argv])
    sys.exit(main(sys.argv[1]))
