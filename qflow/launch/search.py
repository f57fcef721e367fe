"""Search: the sections of the book and their words, for a page to look through by itself.

Nobody answers a search on a site without a server, and from a folder browsers fetch nothing. They load
scripts there: so the words are one, packed, which a page loads when its search is first used. What is found
is a place in a text, shown with what stands around it; an index of words would have to be loaded besides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from html import unescape
from pathlib import Path

from qflow.labs.html_export import pack_text

_HEADING = re.compile(r'<h([1-4]) id="([^"]*)">(.*?)</h\1>', re.DOTALL)
_ROW = re.compile(r'<tr id="([^"]*)">\s*<td[^>]*>(.*?)</td>(.*?)</tr>', re.DOTALL)
_BETWEEN_CELLS = re.compile(r"</td>\s*<td")
_UNREAD = re.compile(r'<(script|style|svg|nav)\b.*?</\1>|<a class="anchor".*?</a>', re.DOTALL)
_WITHIN_A_WORD = re.compile(r"</?(?:a|b|code|em|i|span|strong)\b[^>]*>")
_ROW_LEVEL = "7"
_TAG = re.compile(r"<[^>]*>")


@dataclass(frozen=True)
class PageSection:
    """A heading of a page and what stands below it, or the first cell of a row and what stands beside it."""

    anchor: str
    heading: str
    text: str
    level: int


def sections(body: str) -> list[PageSection]:
    """Return the sections of a page whose headings have anchors; a row that has one is a section by itself.

    >>> sections('<h2 id="on">ON <a class="anchor" href="#on">#</a></h2><p>See <code>stop</code>.</p>')
    [PageSection(anchor='on', heading='ON', text='See stop.', level=2)]
    >>> [(row.heading, row.text) for row in sections('<tr id="row-on"><td>ON</td><td>a</td> <td>b</td></tr>')]
    [('ON', 'a · b')]
    """
    body = _UNREAD.sub(" ", body)
    parts = _HEADING.split(_ROW.sub(" ", body))[1:]
    below = list(zip(*[iter(parts)] * 4, strict=True))
    rows = [(_ROW_LEVEL, *row, _BETWEEN_CELLS.sub(" · <td", rest)) for *row, rest in _ROW.findall(body)]
    return [
        PageSection(anchor, _words(heading), _words(text), int(level))
        for level, anchor, heading, text in below + rows
    ]


def write_index(script: Path, found: Mapping[str, tuple[str, Sequence[PageSection]]]) -> None:
    """Write the script that holds all sections: for each page its file, its title and the sections."""
    rows = [[file, title, [astuple(section)[:3] for section in its]] for file, (title, its) in found.items()]
    packed = pack_text(json.dumps(rows, ensure_ascii=False).encode())
    script.write_text(f'globalThis.qflowIndex = "{packed}";\n', encoding="utf-8")


def _words(part: str) -> str:
    return " ".join(unescape(_TAG.sub(" ", _WITHIN_A_WORD.sub("", part))).split())
