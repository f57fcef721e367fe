"""Colour: highlights headings, errors, ON and OFF, on a terminal only.

A pipe or a file gets plain text, and so does who has set ``NO_COLOR`` (no-color.org) or a ``dumb`` terminal.
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
    # The old console of Windows prints the codes as they are.
    return os.name != "nt" or "WT_SESSION" in os.environ


def paint(text: str, kind: str, stream: TextIO | None = None) -> str:
    """Return a text in its kind's colour if the stream, standard output by default, shows colours."""
    return f"\x1b[{_CODES[kind]}m{text}\x1b[0m" if _shows_colour(stream or sys.stdout) else text


def paint_states(text: str, stream: TextIO | None = None) -> str:
    """Return a text with each ON and OFF of flow control in its colour."""
    return re.sub(r"\b(ON|OFF)\b", lambda found: paint(found[0], found[0], stream), text)


def paint_headings(text: str, stream: TextIO | None = None) -> str:
    """Return a help or a report with its headings in bold: the words from a line's start up to a colon."""
    # argparse of Python 3.14 has colours of its own.
    if "\x1b" in text:
        return text
    return re.sub(
        r"^(usage:|\w[^\n:]*:$)", lambda found: paint(found[0], "heading", stream), text, flags=re.MULTILINE
    )
