"""Book: the chapters, exercises and reference pages as static HTML, for readers without a kernel.

nbconvert turns notebooks and Markdown into HTML. The templates in ``page``, beside this module, add what
surrounds the cells: the table of contents of the book, the list of the page's sections, and links to the
previous and next page. The labs of a page replay the runs that the notebook stored
(:mod:`qflow.labs.html_export`), and each page links to the same chapter in JupyterLite. The questions of a
chapter are asked in the page itself (:mod:`qflow.launch.book_questions`). Pages lie in the same folders as
their sources in the checkout, so that links between them change only in their suffix. A page loads nothing
from any other server.
"""

from __future__ import annotations

import base64
import importlib
import json
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from qflow.kit import kit_path
from qflow.labs.html_export import THEME, script_json, styled_script
from qflow.labs.scripts import join_script, read_styles
from qflow.labs.share import site_address
from qflow.labs.still import PHONE, still
from qflow.launch.book_questions import ask_in_page
from qflow.launch.chapters import list_files
from qflow.launch.page_labs import RECORDINGS, live_cells, recorded_folder, without_keys
from qflow.launch.sections import (
    PageSection,
    add_anchors,
    link_sections,
    read_sections,
    write_index,
    write_packed,
    write_rules,
)
from qflow.teaching.rules import RULE, rule_book

PAGE = Path(__file__).with_name("page")
"""The folder of templates, styles and scripts of the site's own pages."""

FOLDER = "book"
"""The book's folder on the site."""

ICON = (
    '<link rel="icon" type="image/svg+xml" href="data:image/svg+xml,'
    "%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 16 16%22%3E"
    "%3Cpath fill=%22%230969da%22 d=%22M3 8h10v6H3z%22/%3E"
    "%3Cpath fill=%22none%22 stroke=%22%23888%22 stroke-width=%221.5%22 d=%22M2.5 2v12.5h11V2%22/%3E"
    '%3Cpath stroke=%22%23c04c00%22 stroke-width=%221.5%22 d=%22M1 5h14%22/%3E%3C/svg%3E">'
)
"""The pages' icon: a tank, and a stop line above its level."""

EXECUTED_ONLY = ("13-", "15-")
"""Chapters that no browser can run, as they need Java or a port; their outputs are shown."""

_GROUPS = {
    "The book": r"notebooks/[0-8]\d-",
    "Ways through it": r"notebooks/9\d-",
    "Exercises": r"exercises/",
    "For teachers": r"notebooks/teachers/",
    "To look up": r"notebooks/reference/(?!functions-)[^/]*$",
    "Functions and classes": r"notebooks/reference/functions[-/]",
}
"""The table of contents: the title of each group of pages, and the pattern with which their paths begin."""

_READ = (".ipynb", ".md")
# Only relative links without a scheme: those to other sites may end in .md as well.
_LINK = re.compile(r'(href="(?![a-z]+:|#)[^"#?]*)\.(?:ipynb|md)(?=["#])')
_TAG = re.compile(r"(<[^>]*>)")
_APART = re.compile(r"<(/?)(?:a|pre|script|style|h[1-6]|title|svg|summary)(?=[ >])")
"""The opening or closing tag of an element in which rule ids are not linked."""
_TEMPLATE = "book.html.j2"
_PICTURE = f"{FOLDER}/notebooks/images/preview.png"
_ALT = "A producer, a queue above its stop threshold, a consumer; 90 completions are held."
# A notebook's output brings its own scripts; the labs of a page share those of the book.
OWN_SCRIPTS = re.compile(
    r'<script class="qf-scripts">.*?</script>|<script>globalThis\.qflowShow\?\.\(\);</script>', re.DOTALL
)
"""The scripts stored with a run; they are removed from a page that loads the same scripts itself."""
_CHART = re.compile(r'(src|srcset)="data:image/svg\+xml;base64,([^"]+)"')
_RUN = re.compile(
    r"(<noscript>(?:(?!</noscript>).)*</noscript>|)\s*"
    r'<script [^>]*class="qf-run"[^>]*>(.*?)</script>',
    re.DOTALL,
)
"""A stored run in a page: its still picture, if there is one, and the script element with its data."""
_CELL, _NUMBERED = re.compile(r"<td[^>]*>[^<]*</td>"), re.compile(r"\w[\w-]*-\d[\d.]*")
"""A cell of a table, and the name of a message in a cell, such as A-1 or p-8..9."""
_LIGHT, _DARK = "default", "github-dark"


@dataclass(frozen=True)
class Page:
    """A page of the book: its source, its path in a checkout, its title, and a summary of its content."""

    source: Path
    path: str
    title: str
    about: str = ""

    @property
    def file(self) -> str:
        """The path of the HTML file, relative to the book's folder."""
        return re.sub(r"\.\w+$", ".html", self.path)

    @property
    def room(self) -> str:
        """The subpackage of qflow whose functions the page describes, or "" for any other page."""
        found = re.match(r"notebooks/reference/functions[-/](\w+)", self.path)
        return found[1] if found else ""

    @property
    def live(self) -> str:
        """The address of the notebook in JupyterLite, or "" for a page that no browser can run."""
        if self.source.suffix != ".ipynb" or self.source.name.startswith(EXECUTED_ONLY):
            return ""
        return f"lab/index.html?path={self.path.removeprefix('notebooks/')}"


def list_contents() -> Iterator[tuple[str, Path]]:
    """Yield each file of chapters and exercises for readers: its path in a checkout, and its actual path."""
    for room in ("notebooks", "exercises"):
        yield from ((f"{room}/{name}", path) for name, path in list_files(kit_path(room)).items())


def _list_pages() -> list[Page]:
    """Return a page for each notebook and each Markdown text of the book."""
    return [_page(source, path) for path, source in list_contents() if source.suffix in _READ]


def write_book(site: Path) -> list[Page]:
    """Write the whole book, with its pictures, scripts and search index, into a site; return its pages."""
    book = site / FOLDER
    pages = _list_pages()
    for path, source in list_contents():
        # Files that are no pages, such as pictures and data, keep the paths by which pages link to them.
        if source.suffix not in _READ:
            (book / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, book / path)
    exporter, found, read, beside = _exporter(), {}, set(), _Beside(book)
    for page in pages:
        target = book / page.file
        target.parent.mkdir(parents=True, exist_ok=True)
        drawn, its = _draw_page(page, pages, exporter, beside)
        target.write_text(drawn, encoding="utf-8")
        found[page.file] = (page.title, its)
        read |= set(re.findall(rf'"{RECORDINGS}/([\w.-]+)"', drawn))
    _write_style(site)
    (book / RECORDINGS).mkdir(exist_ok=True)
    for name in sorted(read):
        shutil.copyfile(recorded_folder() / name, book / RECORDINGS / name)
    write_index(book / "search-index", found)
    write_rules(book / "rules-index")
    return pages


def _write_style(site: Path) -> None:
    """Write the styles and scripts that all pages of the site share."""
    book = site / FOLDER
    book.mkdir(parents=True, exist_ok=True)
    page, ask = ((PAGE / name).read_text(encoding="utf-8") for name in ("page.css", "ask.css"))
    shown = {
        "page.css": page,
        "code.css": _colours(),
        # For pages whose labs are not loaded yet: the script of the labs contains these styles as well.
        "scene.css": read_styles("scene.css", "guess.css"),
        "ask.css": f"{read_styles('errata.css')}\n{ask}",
        "navigation.js": join_script("navigation.js", PAGE),
    }
    for name, text in shown.items():
        (book / name).write_text(text, encoding="utf-8")
    write_packed(book / "labs", styled_script("labs.js", PAGE))
    write_packed(book / "ask", join_script("ask.js", PAGE))


class _Beside:
    """The files of charts and stored runs beside the pages, which a page loads as a reader reaches them."""

    def __init__(self, book: Path) -> None:
        self._book = book

    def move(self, body: str, top: str) -> str:
        """Move a page's charts and stored runs into files; return the page with links to the files."""
        body = _CHART.sub(lambda found: self._chart(found[1], base64.b64decode(found[2]).decode(), top), body)
        return _RUN.sub(lambda found: self._run(found[1], found[2], top), body)

    def _chart(self, attribute: str, drawn: str, top: str) -> str:
        size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)
        room = f' width="{size[1]}" height="{size[2]}"' if size else ""
        room += ' loading="lazy"' if attribute == "src" else ""
        place = self._place("charts", drawn).with_suffix(".svg")
        place.write_text(drawn, encoding="utf-8")
        return f'{attribute}="{top}{FOLDER}/charts/{place.name}"{room}'

    def _run(self, still: str, run: str, top: str) -> str:
        place = self._place("runs", run)
        write_packed(place, run)
        if "asks" not in json.loads(run):
            # The still picture is shown on paper, and until the run is loaded. It stays hidden if the run
            # asks a question, as it would show the answer.
            still = still.replace("noscript>", "div>").replace("<div>", '<div class="qf-still">', 1)
        source = f"{top}{FOLDER}/runs/{place.name}"
        return f'{still}<script type="application/json" class="qf-run" data-src="{source}"></script>'

    def _place(self, folder: str, text: str) -> Path:
        (self._book / folder).mkdir(exist_ok=True)
        return self._book / folder / sha256(text.encode()).hexdigest()[:12]


def group_pages(pages: Sequence[Page], current: Page | None = None) -> dict[str, list[Page]]:
    """Return the pages in each group of the contents, with module pages of the current subpackage only."""
    room = current.room if current else ""
    listed = [page for page in pages if "/functions/" not in page.path or page.room == room]
    listed.sort(key=lambda page: (page.room, "/functions/" in page.path))
    return {name: [page for page in listed if re.match(path, page.path)] for name, path in _GROUPS.items()}


def _page(source: Path, path: str) -> Page:
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".ipynb":
        cells = importlib.import_module("nbformat").reads(text, as_version=4).cells
        text = without_keys("\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown"))
    heading = re.search(r"^# +(.+)$", text, re.MULTILINE)
    title = heading[1] if heading else source.stem
    return Page(source, path, _plain(title), _summarize(text))


def _summarize(text: str) -> str:
    """Return the opening question of a chapter, or the first paragraph of prose of any other page."""
    paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]
    # A chapter begins with its question, which tells a reader more than its first sentence.
    asked = next((part for part in paragraphs if part.startswith("**A question to begin with.**")), "")
    if asked:
        return _plain(asked.removeprefix("**A question to begin with.**"))
    prose = next((part for part in paragraphs if part[:1].isalpha()), "")
    return _plain(prose)


def _plain(text: str) -> str:
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"[*`]", "", text)).strip()


def _exporter() -> Any:
    nbconvert = importlib.import_module("nbconvert")
    loader = importlib.import_module("jinja2").FileSystemLoader(PAGE)
    exporter = nbconvert.HTMLExporter(
        template_name="basic", template_file=_TEMPLATE, extra_loaders=[loader], exclude_anchor_links=True
    )
    exporter.register_filter("phone_chart", partial(still, width=PHONE))
    return exporter


def _draw_page(
    page: Page, pages: Sequence[Page], exporter: Any, shelf: _Beside
) -> tuple[str, list[PageSection]]:
    """Return the whole HTML text of a page, and the sections in it."""
    nbformat = importlib.import_module("nbformat")
    text = page.source.read_text(encoding="utf-8")
    if page.source.suffix == ".ipynb":
        book = nbformat.reads(text, as_version=4)
    else:
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text, id="text")])
    top = "../" * (page.path.count("/") + 1)
    labs = live_cells(book) if page.live else {}
    for cell in book.cells if page.source.suffix == ".ipynb" else ():
        if cell.cell_type == "markdown":
            cell.source = without_keys(cell.source)
    listed = group_pages(pages, page)
    beside = next((found for found in listed.values() if page in found), [page])
    place = beside.index(page)
    around: dict[str, Any] = {
        "asks": ask_in_page(book, page.path),
        "labs": script_json(labs) if labs else "",
        "title": page.title,
        "about": page.about[:300],
        "icon": ICON,
        "theme": THEME,
        "preview": preview(page.title, page.about[:300], top),
        "top": top,
        "live": page.live and f"{top}{page.live}",
        "this": page,
        "groups": listed,
        "before": beside[place - 1] if place else None,
        "after": beside[place + 1] if place + 1 < len(beside) else None,
    }
    body, _ = exporter.from_notebook_node(book, resources={"page": around})
    if page.live:
        body = OWN_SCRIPTS.sub("", body)
    # A browser may break a line after the hyphen in the name of a message.
    body = _CELL.sub(lambda cell: _NUMBERED.sub(r'<span class="whole">\g<0></span>', cell[0]), body)
    body = shelf.move(body, top)
    body = add_anchors(_LINK.sub(r"\1.html", body), rows=page.source.suffix == ".md")
    its = read_sections(body)
    linked = _link_rules(body, f"{top}{FOLDER}/notebooks/reference/rules.html")
    return linked.replace("</h1>", f"</h1>{link_sections(its)}", 1), its


def preview(title: str, about: str, top: str, picture: str = _PICTURE, alt: str = _ALT) -> str:
    """Return the meta tags from which other sites make the preview of a link to a page."""
    # The picture's address is absolute if the address of the site is known, as other sites need it.
    site = site_address().rpartition("/")[0]
    shown = {
        "og:title": title,
        "og:description": about,
        "og:type": "article" if top else "website",
        "og:image": f"{site}/{picture}" if site else f"{top}{picture}",
        "og:image:alt": alt,
        "twitter:card": "summary_large_image",
    }
    return "\n".join(f'<meta property="{key}" content="{escape(said)}">' for key, said in shown.items())


def _link_rules(body: str, rules: str) -> str:
    """Return a page in which each rule id in running text links to that rule."""
    book, parts, inside = rule_book(), _TAG.split(body), 0

    def link(found: re.Match[str]) -> str:
        rule = found[0]
        return f'<a class="rule" href="{rules}#{rule.lower()}">{rule}</a>' if rule in book else rule

    # The parts are alternately text and tag. Counting the open elements is enough, as nbconvert closes all
    # elements of these names.
    for place, part in enumerate(parts):
        if tag := _APART.match(part):
            inside += -1 if tag[1] else 1
        elif not inside and not part.startswith("<"):
            parts[place] = RULE.sub(link, part)
    return "".join(parts)


def _colours() -> str:
    """Return the style sheet that colours code, for light and dark colour schemes."""
    formatter = importlib.import_module("pygments.formatters").HtmlFormatter
    light, dark = (formatter(style=style).get_style_defs(".highlight") for style in (_LIGHT, _DARK))
    # The contrast of the light style's own violet on a card is a little too low (4.46 to 1).
    plain = ".highlight { background: var(--card); }"
    light += "\n.highlight .ow { color: #8a1ac8 }"
    return f"\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n{plain}\n"
