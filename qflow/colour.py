"""Colour: terminal colours for headings, errors, and the states ON and OFF of flow control.

Output to a pipe or a file stays plain, as does output to a terminal if ``NO_COLOR`` is set (no-color.org) or
the terminal is ``dumb``.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

_CODES = {"heading": "1", "error": "1;31", "ON": "33", "OFF": "32"}


def _shows_colour(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return False
    # The old console of Windows prints colour codes as text.
    return os.name != "nt" or "WT_SESSION" in os.environ


def paint(text: str, kind: str, stream: TextIO | None = None) -> str:
    """Return a text in the colour of its kind, or unchanged if the stream (stdout by default) has none."""
    return f"\x1b[{_CODES[kind]}m{text}\x1b[0m" if _shows_colour(stream or sys.stdout) else text


def paint_states(text: str, stream: TextIO | None = None) -> str:
    """Return a text with each word ON or OFF in its colour."""
    return re.sub(r"\b(ON|OFF)\b", lambda found: paint(found[0], found[0], stream), text)


def paint_headings(text: str, stream: TextIO | None = None) -> str:
    """Return a help text or report with its headings in bold: lines that end in a colon, and ``usage:``."""
    # The argparse module of Python 3.14 colours its help itself.
    if "\x1b" in text:
        return text
    return re.sub(
        r"^(usage:|\w[^\n:]*:$)", lambda found: paint(found[0], "heading", stream), text, flags=re.MULTILINE
    )
