"""The site's first page and the book below it: true runs, every chapter, nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import zipfile
import zlib
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from browser import chromium_page
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from qflow.labs import flow_run
from qflow.labs.html_export import to_fragment
from qflow.labs.picture import payload_of
from qflow.labs.share import Token
from qflow.launch import book, cargo, front_door, sections, site
from qflow.maintain import notebooks

DOOR = re.compile(r'class="qf-door">(.*?)</script>', re.S)


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text.translate(str.maketrans("-_.", "+/0"))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The first page, as `qflow site build` writes it."""
    top = tmp_path_factory.mktemp("site")
    book._write_style(top)
    front_door.write_front_door(top, book._list_pages())
    return top


@pytest.fixture(scope="module")
def door(folder) -> dict:
    """What the first page holds, its runs unpacked."""
    held = json.loads(DOOR.search((folder / "index.html").read_text())[1])
    return {**held, **json.loads(unpacked(held["runs"])), "numbers": unpacked(held["numbers"])}


def write_book(top: Path, pages: dict[str, Path]) -> list[book.Page]:
    """Write a book of a few files, by where each is in a checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(book, "list_contents", pages.items)
        return book.write_book(top)


class Links(HTMLParser):
    """What a page loads, and where its links lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("src", "href"):
                (self.links if tag == "a" else self.loads).append(value)


def outside(page: str) -> list[str]:
    """List what a page, its scripts included, would load from elsewhere."""
    scripts = "".join(unpacked(packed).decode() for packed in re.findall(r'\("([-\w.=]+)"\);</script>', page))
    asked = re.findall(r"""(?:url\(|from |import |import\(|fetch\()\s*["']?(https?:|//)""", page + scripts)
    return [link for link in Links(page).loads if re.match(r"[a-z]+:(?<!data:)|//", link)] + asked


def test_each_run_that_the_page_holds_is_a_run_of_the_engine(door):
    slices = door["numbers"]
    assert list(door["runs"]) == [str(stop) for stop in front_door.STOPS]
    size, count = door["slice"], len(front_door.STOPS)
    for place, (stop, run) in enumerate(door["runs"].items()):
        picture = front_door.draw_run({**front_door.SETTINGS, "stop": int(stop)})
        (fresh,) = payload_of(picture)
        numbers = zlib.decompress(fresh.pop("numbers"))
        drawn = {**door["shared"], **run["picture"]}
        own = (slices[at : at + size] for at in range(place * size, len(slices), count * size))
        assert b"".join(own)[: drawn.pop("numbers")] == numbers
        assert drawn.pop("digest") == hashlib.sha256(numbers).hexdigest()
        assert drawn == json.loads(json.dumps(fresh))
        assert run["claims"] == list(picture.claims)
    begun = dict(door["first"])
    cameras = [beat["camera"] for beat in begun.pop("story")]
    assert cameras == ["whole", "gate", "queue", "held", "window", "whole", "whole"]
    first = {**door["shared"], **door["runs"][str(door["settings"]["stop"])]["picture"]}
    assert len(unpacked(begun.pop("numbers"))) == first.pop("numbers")
    assert begun == first


def test_above_stop_50_the_window_does_not_fit_and_the_producer_dies(door):
    """Up to a stop of limit - capacity nothing is refused."""
    dead = {int(stop) for stop, run in door["runs"].items() if run["picture"]["deaths"]}
    assert dead == {52, 54, 56, 58, 60}


def test_python_answers_as_the_page_does(door):
    answered = json.loads(front_door.answer(json.dumps({**front_door.SETTINGS, "stop": 12})))
    assert answered["picture"]["digest"] == door["runs"]["12"]["picture"]["digest"]
    refused = json.loads(front_door.answer('{"stop": 11, "resume": 12}'))
    assert list(refused) == ["refusal"]


def test_the_page_gets_code_and_rules_without_chapters_and_recordings(tmp_path):
    names = ["qflow/kit.py", "qflow/_kit/data/rules.csv"]
    others = ("notebooks/a.ipynb", "exercises/a.ipynb", "data/recordings/a")
    left_out = [f"qflow/_kit/{name}" for name in others]
    (tmp_path / "pypi").mkdir()
    (tmp_path / "book").mkdir()
    with zipfile.ZipFile(tmp_path / "pypi" / "qflow_kit-1-py3-none-any.whl", "w") as wheel:
        for name in names + left_out:
            wheel.writestr(name, name)
    pyodide = tmp_path / "static" / "pyodide"
    pyodide.mkdir(parents=True)
    for name in cargo.FETCHED:
        (pyodide / name).write_text(name)
    for name in cargo._IN_A_PAGE:
        stem = name.replace("-", "_")
        folder = pyodide if name in cargo._LIBRARIES else tmp_path / "pypi"
        with zipfile.ZipFile(folder / f"{stem}-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{stem}/__init__.py", "")
            wheel.writestr(f"{stem}/labextension/package.json", "not for a page")
    script = front_door.write_worker(tmp_path).read_text()
    assert front_door.ENGINE in script and front_door.WIDGETS in script
    with zipfile.ZipFile(tmp_path / "book" / front_door.ENGINE) as engine:
        assert engine.namelist() == names
    with zipfile.ZipFile(tmp_path / "book" / front_door.WIDGETS) as widgets:
        held = widgets.namelist()
    assert "traitlets/__init__.py" in held and not [name for name in held if "labextension" in name]
    sizes = json.loads((tmp_path / "book" / "engine.json").read_text())
    counted = sum((pyodide / name).stat().st_size for name in cargo.FETCHED)
    assert sizes["bytes"] == counted + (tmp_path / "book" / front_door.ENGINE).stat().st_size


def test_the_first_page_leads_to_every_chapter_and_asks_nobody(folder, root):
    page = (folder / "index.html").read_text()
    links = Links(page).links
    for path in (root / "notebooks").glob("[0-8]*.ipynb"):
        assert f"book/notebooks/{path.stem}.html" in links
        live = f"lab/index.html?path={path.name}"
        assert (live in links) == (not path.name.startswith(site.EXECUTED_ONLY))
    assert '<script id="jupyter-config-data" ' in page, "JupyterLite, one folder below, reads it"
    assert outside(page) == []
    assert outside(
        '<script src="//a.example/x.js"></script><style>a{background:url(http://b.example)}</style>'
    )


def index_of(site: Path) -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    """Read what a search looks through: for each page its file, its title and its sections."""
    script = (site / "book" / "search-index.js").read_text()
    index = json.loads(unpacked(re.fullmatch(r'qflowPacked = "(.*)";\n', script)[1]))
    served = zlib.decompress((site / "book" / "search-index.z").read_bytes())
    assert json.loads(served) == index, "from a folder as from a server"
    return index["pages"]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> Path:
    """Where a book with two chapters and a text is."""
    return tmp_path_factory.mktemp("shelf")


@pytest.fixture(scope="module")
def small_book(shelf) -> dict[str, str]:
    """Its pages, by where each is in a checkout."""
    runs = [new_output("display_data", {"text/html": to_fragment(flow_run(messages=n))}) for n in (20, 30)]
    hidden = {"jupyter": {"source_hidden": True}}
    cells = [new_markdown_cell("# 0 · Tour\n\n[To the text](reference/README.md#a)")]
    for number, run in enumerate(runs):
        cells.append(new_code_cell(f"lab({number})", metadata=hidden if number else {}, outputs=[run]))
    made = {
        "notebooks/00-tour.ipynb": nbformat.writes(notebooks._tidy(new_notebook(cells=cells))),
        "notebooks/13-spark.ipynb": nbformat.writes(new_notebook(cells=[new_markdown_cell("# 13 · Spark")])),
        "notebooks/reference/README.md": "# To look up\n\n[0](../00-tour.ipynb), [x](https://example.org/x.md)"
        "\n\n## Below\n\nA **rule**, FC-14; `on_off` & more.",
    }
    files = {path: shelf / "kit" / path for path in made}
    for path, file in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(made[path])
    return {page.path: (shelf / "book" / page.file).read_text() for page in write_book(shelf, files)}


def test_a_chapter_is_a_page_whose_labs_play_and_can_be_made_live(small_book):
    tour, spark, text = small_book.values()
    assert tour.count('class="qflow-stored"') == 2 and 'class="qf-scripts"' not in tour
    # The labs share the book's scripts; a notebook in JupyterLab is a click away, on a phone too.
    assert tour.count('<script src="../../book/navigation.js">') == 1
    assert tour.count('href="../../lab/index.html?path=00-tour.ipynb"') == 2
    (cells,) = re.findall(r'class="qf-cells"[^>]*>(.*?)</script>', tour)
    assert [cell["source"] for cell in json.loads(cells).values()] == ["lab(0)", "lab(1)"]
    assert tour.count("<details><summary>the code of this cell") == 1
    assert 'class="after" href="../../book/notebooks/13-spark.html"' in tour
    assert "lab/index.html" not in spark
    assert {"reference/README.html#a"} < set(Links(tour).links)
    assert {"../00-tour.html", "https://example.org/x.md"} < set(Links(text).links)
    assert [outside(page) for page in small_book.values()] == [[], [], []]


def test_beside_a_page_are_the_contents_of_the_book_and_its_own_sections(small_book, shelf):
    tour, spark, text = small_book.values()
    files = sorted((file for file, *_ in index_of(shelf)), key=lambda file: "ref" in file)
    for page in (tour, spark, text):
        links = Links(re.search(r'<nav [^>]*class="contents".*?</nav>', page, re.S)[0]).links
        top = "../../../" if page == text else "../../"
        assert links == [f"{top}book/{file}" for file in files]
        assert page.count('aria-current="page"') == 1
        assert page.index('href="#the-text"') < page.index('class="contents"'), "a way past them"
    assert '<a aria-current="page" href="../../book/notebooks/00-tour.html"><span>0</span>Tour</a>' in tour
    assert '<li class="level-2"><a href="#below">Below</a></li>' in text and 'class="sections"' not in spark


def test_sections_are_found_by_what_is_read_of_them(small_book, shelf):
    ((file, title, found),) = [row for row in index_of(shelf) if "reference" in row[0]]
    assert (file, title) == ("notebooks/reference/README.html", "To look up")
    assert found == [
        ["to-look-up", "To look up", "0, x"],
        ["below", "Below", "A rule, FC-14; on_off & more."],
    ]
    words = " ".join(text for *_, found in index_of(shelf) for _, _, text in found)
    assert "At its deepest, orders had" in words, "what a lab shows, as text"
    assert "qf-scripts" not in words and len(words) < 10_000, "but not its script"


def test_a_rule_is_linked_to_as_it_is_written():
    unknown = "-".join(("FC", "00"))
    headed = sections.add_anchors(f"<h3>FC-14</h3><h3>{unknown}</h3>", rows=False)
    assert 'id="fc-14"' in headed and 'id="FC-14"' in headed and f'id="{unknown}"' not in headed
    assert sections.read_sections(headed)[0].heading == "FC-14"


def test_a_preview_names_its_picture_by_its_whole_address(monkeypatch, root):
    monkeypatch.setenv("QFLOW_SITE", "https://example.org/kit/")
    picture = "notebooks/images/preview.png"
    assert f'content="https://example.org/kit/book/{picture}"' in book.preview("a", "b", "../")
    assert (root / picture).exists()
    monkeypatch.delenv("QFLOW_SITE")
    preview = book.preview('"', "b", "../")
    assert f'content="../book/{picture}"' in preview
    assert '<meta property="og:title" content="&quot;">' in preview


@pytest.fixture(scope="module")
def true_book(tmp_path_factory, root) -> Path:
    """Four true pages, as `qflow site build` writes them."""
    top = tmp_path_factory.mktemp("book")
    chapters = ("05-message-groups.ipynb", "10-how-it-was-designed.ipynb")
    paths = [f"notebooks/{name}" for name in (*chapters, "reference/rules.md", "teachers/glossary.md")]
    front_door.write_front_door(top, write_book(top, {path: root / path for path in paths}))
    return top


@pytest.fixture
def page():
    """A page that asks nobody outside and has no errors."""
    with chromium_page() as lab:
        yield lab.page
        assert (lab.page_errors, lab.foreign_requests) == ([], [])


FOUND = {
    "FC-14": ("notebooks/reference/rules.html#fc-14", "makes the level exceed"),
    "prefetch": ("notebooks/teachers/glossary.html#row-prefetch", "How many messages a consumer may hold"),
    "overflow": ("notebooks/teachers/glossary.html#row-overflowed", "Messages refused at the limit"),
}


@pytest.mark.browser
def test_a_search_finds_it_from_a_folder_and_goes_there(page, true_book):
    for asked, (first, said) in FOUND.items():
        page.goto((true_book / "index.html").as_uri())
        assert page.locator("script[src*=search-index]").count() == 0, "not before it is asked for"
        page.keyboard.press("/")
        page.keyboard.type(asked)
        found = page.locator(".found li a")
        found.first.wait_for()
        assert found.first.get_attribute("href") == f"{true_book.as_uri()}/book/{first}"
        assert said in found.first.inner_text()
        assert {mark.lower() for mark in page.locator(".found mark").all_inner_texts()} == {asked.lower()}
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/{first}")
        heading = page.locator(f"[id='{first.partition('#')[2]}']")
        assert 50 < heading.bounding_box()["y"] < 800, "in view, below the head"
    page.keyboard.press("/")
    page.keyboard.type("xyzzy")
    page.get_by_text("0 sections").wait_for()
    page.keyboard.press("Escape")
    assert page.locator(".found").is_hidden()


@pytest.mark.browser
def test_the_contents_are_behind_a_button_on_a_phone_only(page, true_book):
    address = (true_book / "book" / "notebooks" / "05-message-groups.html").as_uri()
    link = page.locator(".contents").get_by_role("link", name="How it was designed")
    section = page.locator(".sections").get_by_role("link", name="Prefetch: the first N")
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(address)
    assert link.is_visible() and section.is_visible()
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip", "a way past the contents"
    section.click()
    page.locator(".sections [aria-current=location]", has_text="Prefetch: the first N").wait_for()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("about:blank")
    page.goto(address)
    assert link.is_hidden() and section.is_hidden()
    page.locator(".contents > details > summary").click()
    assert link.is_visible()
    page.mouse.click(200, 835)
    assert link.is_hidden(), "a touch of the page closes them"
    page.set_viewport_size({"width": 1100, "height": 800})
    link.wait_for()
    page.set_viewport_size({"width": 390, "height": 844})
    link.wait_for(state="hidden")
    page.locator(".contents > details > summary").click()
    link.click()
    page.wait_for_url("**/10-how-it-was-designed.html")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390


PLAYER = "document.querySelector('.qflow-scene')?.scene.player"


@pytest.mark.browser
def test_it_moves_and_its_stop_line_is_dragged_from_a_folder(page, folder):
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto((folder / "index.html").as_uri())
    page.wait_for_function(f"() => {PLAYER}?.isPlaying && {PLAYER}.clock > 0")
    page.get_by_text("opened from a folder").wait_for()
    stage = page.locator(".qf-stage")
    assert page.locator("[data-handle]").count() == 1, "one handle"
    pill = page.locator("[data-setting=stop] .qf-pill").bounding_box()
    x, y = pill["x"] + pill["width"] / 2, pill["y"] + pill["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 30, steps=4)
    page.mouse.move(x, y - 75, steps=4)
    page.wait_for_function("() => Number(document.querySelector('.qf-stage').dataset.stop) > 50")
    page.mouse.up()
    page.wait_for_function(f"() => {PLAYER}.isPlaying")
    stop = int(stage.get_attribute("data-stop"))
    assert stop in front_door.STOPS, "only what was run"
    drawn = front_door.draw_run({**front_door.SETTINGS, "stop": stop})
    assert drawn.claims == tuple(page.locator(".claims li").all_inner_texts())
    page.locator("[data-setting=stop]").focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function(f"() => document.querySelector('.qf-stage').dataset.stop == {stop - 2}")
    page.locator(".qflow-scene").press("End")
    assert "p1 is dead" in page.locator(".qf-callout").inner_text()
    if "QFLOW_SCREENSHOTS" in os.environ:
        page.screenshot(path=str(Path(os.environ["QFLOW_SCREENSHOTS"]) / "front-door.png"))


@pytest.mark.browser
def test_a_shared_link_opens_that_run_at_that_instant_from_a_folder_and_on_a_phone(page, folder):
    page.goto((folder / "index.html").as_uri())
    page.locator(".qf-story-end").click()
    page.locator("[data-setting=stop]").focus()
    page.keyboard.press("ArrowUp")
    page.wait_for_function("() => document.querySelector('.qf-stage').dataset.stop === '42'")
    time = page.evaluate(f"() => {{ {PLAYER}.pause(); {PLAYER}.seek(700000); return {PLAYER}.time; }}")
    page.locator(".qf-more").click()
    page.locator(".qf-token").click()
    link = page.locator(".qf-copy-link input").input_value()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_function("() => document.querySelector('.qf-stage')?.dataset.stop === '42'")
    page.wait_for_function(f"time => {PLAYER}.time === time", arg=time)
    assert page.evaluate(f"() => {PLAYER}.isPlaying") is False
    page.goto("about:blank")
    page.goto((folder / "index.html").as_uri() + "#" + Token("capacity", {"capacity_1": 60}).text())
    page.get_by_text("a browser starts from a server only").wait_for()


def test_a_link_with_a_token_is_answered_with_its_labs_run():
    token = Token("capacity", {"capacity_1": 60, "messages": 300}, 1_500_000, 2)
    answered = json.loads(front_door.answer(json.dumps({"token": token.text()})))
    assert answered["place"] == {"time": 1_500_000, "back": 2}
    assert "100 + 60 + 15 = 175" in answered["claims"][0]
    for text in (Token("config", {"typed": "orders"}).text(), Token("trace", {"path": "/etc/hosts"}).text()):
        assert json.loads(front_door.answer(json.dumps({"token": text})))["refusal"]


@pytest.mark.browser
def test_a_film_of_the_next_seconds_is_saved(page, folder, tmp_path):
    page.goto((folder / "index.html").as_uri())
    page.locator(".qf-story-end").click()
    page.locator(".qf-more").click()
    page.evaluate(f"() => {{ {PLAYER}.setSpeed(1); {PLAYER}.seek({PLAYER}.track.end - 1e6); }}")
    with page.expect_download() as saved:
        page.locator(".qf-film").click()
    saved.value.save_as(tmp_path / "run.webm")
    assert (tmp_path / "run.webm").read_bytes()[:4] == b"\x1a\x45\xdf\xa3", "the mark of a WebM file"
    assert (tmp_path / "run.webm").stat().st_size > 5_000
