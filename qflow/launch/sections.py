"""Sections: the parts of a page that can be linked, listed beside it, and searched.

A section is a heading with what stands below it, or a row of a table. Nobody answers a search on a site
without a server, and from a folder browsers fetch nothing. They load scripts there: so the words of all
sections are one, packed, which a page loads when its search is first used. What is found is a place in a
text, shown with what stands around it; an index of words would have to be loaded besides.

The pages are read by regular expressions: all of them come from one writer, nbconvert, which nests neither
headings nor rows. BeautifulSoup was tried. It finds the same sections of all pages, but for a blank in three
rows, and takes 26 times as long (a minute of each build), as it makes an object of every mark of every stored
picture. A heading with an attribute, or a table inside a row, would not be found here.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from html import escape, unescape
from pathlib import Path

from qflow.labs.html_export import pack_text
from qflow.teaching.glossary import synonyms
from qflow.teaching.rules import rule_book

_BARE_HEADING = re.compile(r"<h([1-4])>(.*?)</h\1>", re.DOTALL)
_BARE_ROW = re.compile(r"<tr>(\s*<td[^>]*>(.*?)</td>)", re.DOTALL)
_HEADING = re.compile(r'<h([1-4]) id="([^"]*)">(.*?)</h\1>', re.DOTALL)
_ROW = re.compile(r'<tr id="([^"]*)">\s*<td[^>]*>(.*?)</td>(.*?)</tr>', re.DOTALL)
_BETWEEN_CELLS = re.compile(r"</td>\s*<td")
_UNREAD = re.compile(r'<(script|style|svg|nav)\b.*?</\1>|<a class="anchor".*?</a>', re.DOTALL)
_WITHIN_A_WORD = re.compile(r"</?(?:a|b|code|em|i|span|strong)\b[^>]*>")
_TAG = re.compile(r"<[^>]*>")
_ROW_LEVEL = "7"
"""Below the level of every heading."""

_SECTIONS = (
    '<nav class="sections" aria-label="On this page"><details><summary>On this page</summary>'
    "<ol>{}</ol></details></nav>"
)
_FEW = 40
"""The number of headings up to which a list of sections includes the third level."""


@dataclass(frozen=True)
class PageSection:
    """A heading with its text, or the first cell of a table's row with the text of the other cells."""

    anchor: str
    heading: str
    text: str
    level: int


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as in links of Markdown.

    >>> anchor("FC-14"), anchor("Under other brakes"), anchor("proton_blocking_cured.py")
    ('fc-14', 'under-other-brakes', 'proton_blocking_curedpy')
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def add_anchors(body: str, *, rows: bool) -> str:
    """Return a page with an anchor at each heading, and optionally at each table row."""
    seen: Counter[str] = Counter()
    rules = rule_book()

    def name_of(inner: str, before: str, after: str) -> str:
        # As GitHub names them: links in the texts have to work in both places.
        name = before + anchor(_words(inner))
        seen[name] += 1
        return f"{name}{after}{seen[name] - 1}" if seen[name] > 1 else name

    def add(heading: re.Match[str]) -> str:
        level, inner = heading.groups()
        name = name_of(inner, "", "-")
        link = f'<a class="anchor" href="#{name}" aria-label="Link to this heading">#</a>'
        # A rule is linked to as it is written, too.
        link += f'<a id="{name.upper()}"></a>' if name.upper() in rules else ""
        return f'<h{level} id="{name}">{inner} {link}</h{level}>'

    body = _BARE_HEADING.sub(add, body)
    if not rows:
        return body
    return _BARE_ROW.sub(lambda row: f'<tr id="{name_of(row[2], "row-", "~")}">{row[1]}', body)


def read_sections(body: str) -> list[PageSection]:
    """Return the sections of a page whose headings, and rows of tables, have anchors."""
    # A search must not find scripts, drawings or the anchors' own signs.
    body = _UNREAD.sub(" ", body)
    parts = _HEADING.split(_ROW.sub(" ", body))[1:]
    below = list(zip(*[iter(parts)] * 4, strict=True))
    rows = [(_ROW_LEVEL, *row, _BETWEEN_CELLS.sub(" · <td", rest)) for *row, rest in _ROW.findall(body)]
    return [
        PageSection(name, _words(heading), _words(text), int(level))
        for level, name, heading, text in below + rows
    ]


def link_sections(its: Sequence[PageSection]) -> str:
    """Return links to the sections of a page, as deep as they remain few."""
    deepest = 3 if sum(section.level in (2, 3) for section in its) <= _FEW else 2
    links = "".join(
        f'<li class="level-{section.level}"><a href="#{section.anchor}">{escape(section.heading)}</a></li>'
        for section in its
        if 2 <= section.level <= deepest
    )
    return _SECTIONS.format(links) if links else ""


def write_index(place: Path, found: Mapping[str, tuple[str, Sequence[PageSection]]]) -> None:
    """Write what the search loads: its synonyms and, page by page, all sections."""
    rows = [[file, title, [astuple(section)[:3] for section in its]] for file, (title, its) in found.items()]
    write_packed(place, json.dumps({"synonyms": synonyms(), "pages": rows}, ensure_ascii=False))


def write_rules(place: Path) -> None:
    """Write title, sentence and certainty of each rule, for the cards of its links."""
    rules = {rule: [held.title, held.sentence, held.certainty] for rule, held in rule_book().items()}
    write_packed(place, json.dumps(rules, ensure_ascii=False))


def write_packed(place: Path, text: str) -> None:
    """Write what pages load once they need it: as deflated bytes, and as a script with the same as text."""
    # From a folder a browser runs a script, and fetches nothing; from a server the bytes are a quarter less.
    place.with_suffix(".z").write_bytes(zlib.compress(text.encode(), 9))
    place.with_suffix(".js").write_text(f'qflowPacked = "{pack_text(text.encode())}";\n', encoding="utf-8")


def _words(part: str) -> str:
    return " ".join(unescape(_TAG.sub(" ", _WITHIN_A_WORD.sub("", part))).split())
