"""Sections: the parts of a page that can be linked to, listed beside it, and searched.

A section is a heading with the text below it, or a row of a table. The site has no server that could answer
a search, and a page opened from a folder cannot fetch files; it can only load scripts. So the text of all
sections is in one compressed script, which a page loads when its search is first used. A result is a position
in this text, shown with the words around it; an index of words would be a second file to load.

Pages are parsed by regular expressions. All of them are written by nbconvert, which nests neither headings
nor rows. BeautifulSoup was tried: it finds the same sections in all pages, but for a blank in three rows,
and takes 26 times as long (a minute of each build), as it makes an object for every element of every stored
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
"""The level of sections that are table rows, deeper than that of every heading."""

_SECTIONS = (
    '<nav class="sections" aria-label="On this page"><details><summary>On this page</summary>'
    "<ol>{}</ol></details></nav>"
)
_FEW = 40
"""The most headings of levels 2 and 3 for which the list of sections includes level 3."""


@dataclass(frozen=True)
class PageSection:
    """A heading with its text, or the first cell of a table's row with the text of the other cells."""

    anchor: str
    heading: str
    text: str
    level: int


def anchor(heading: str) -> str:
    """Return the anchor that a heading has in links, by GitHub's rules for Markdown.

    >>> anchor("FC-14"), anchor("Under other brakes"), anchor("proton_blocking_cured.py")
    ('fc-14', 'under-other-brakes', 'proton_blocking_curedpy')
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def add_anchors(body: str, *, rows: bool) -> str:
    """Return a page's HTML with an anchor at each heading, and at each table row if `rows` is true."""
    seen: Counter[str] = Counter()
    rules = rule_book()

    def name_of(inner: str, before: str, after: str) -> str:
        # Anchors are named as on GitHub, as the links in the texts have to work there, too.
        name = before + anchor(_words(inner))
        seen[name] += 1
        return f"{name}{after}{seen[name] - 1}" if seen[name] > 1 else name

    def add(heading: re.Match[str]) -> str:
        level, inner = heading.groups()
        name = name_of(inner, "", "-")
        link = f'<a class="anchor" href="#{name}" aria-label="Link to this heading">#</a>'
        # The heading of a rule gets a second anchor with the rule's id in capitals, such as FC-14.
        link += f'<a id="{name.upper()}"></a>' if name.upper() in rules else ""
        return f'<h{level} id="{name}">{inner} {link}</h{level}>'

    body = _BARE_HEADING.sub(add, body)
    if not rows:
        return body
    return _BARE_ROW.sub(lambda row: f'<tr id="{name_of(row[2], "row-", "~")}">{row[1]}', body)


def read_sections(body: str) -> list[PageSection]:
    """Return the sections of a page: each heading and each table row that has an anchor."""
    # A search must not find text in scripts and drawings, or the # of an anchor.
    body = _UNREAD.sub(" ", body)
    parts = _HEADING.split(_ROW.sub(" ", body))[1:]
    below = list(zip(*[iter(parts)] * 4, strict=True))
    rows = [(_ROW_LEVEL, *row, _BETWEEN_CELLS.sub(" · <td", rest)) for *row, rest in _ROW.findall(body)]
    return [
        PageSection(name, _words(heading), _words(text), int(level))
        for level, name, heading, text in below + rows
    ]


def link_sections(its: Sequence[PageSection]) -> str:
    """Return the list of links to a page's sections of level 2, and of level 3 if they are not too many."""
    deepest = 3 if sum(section.level in (2, 3) for section in its) <= _FEW else 2
    links = "".join(
        f'<li class="level-{section.level}"><a href="#{section.anchor}">{escape(section.heading)}</a></li>'
        for section in its
        if 2 <= section.level <= deepest
    )
    return _SECTIONS.format(links) if links else ""


def write_index(place: Path, found: Mapping[str, tuple[str, Sequence[PageSection]]]) -> None:
    """Write the file that the search loads: the synonyms, and the sections of each page."""
    rows = [[file, title, [astuple(section)[:3] for section in its]] for file, (title, its) in found.items()]
    write_packed(place, json.dumps({"synonyms": synonyms(), "pages": rows}, ensure_ascii=False))


def write_rules(place: Path) -> None:
    """Write the title, sentence and certainty of each rule, for the cards that links to rules show."""
    rules = {rule: [held.title, held.sentence, held.certainty] for rule, held in rule_book().items()}
    write_packed(place, json.dumps(rules, ensure_ascii=False))


def write_packed(place: Path, text: str) -> None:
    """Write data that pages load on demand, as compressed bytes and as a script that contains the bytes."""
    # A page opened from a folder can load scripts only; from a server, the bytes are a quarter smaller.
    place.with_suffix(".z").write_bytes(zlib.compress(text.encode(), 9))
    place.with_suffix(".js").write_text(f'qflowPacked = "{pack_text(text.encode())}";\n', encoding="utf-8")


def _words(part: str) -> str:
    return " ".join(unescape(_TAG.sub(" ", _WITHIN_A_WORD.sub("", part))).split())
