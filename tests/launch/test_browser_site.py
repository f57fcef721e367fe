"""The site without a server: chapters that run inside the browser, engine, sliders and all.

Two chapters are run with ``-m release``. All of them, with the paths and exercises, take half an hour::

    QFLOW_TEST_WHOLE_SITE=1 python -m pytest -m release tests/launch/test_browser_site.py
"""

import hashlib
import json
import os
import re
import shutil
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import REQUIRED, LabServer, chromium_page, find_chromium
from test_front_door import index_of

from qflow.kit import RefusalError
from qflow.labs import capacity_run
from qflow.labs.share import Token
from qflow.launch import cargo, front_door, site
from qflow.teaching.rules import rule_book

pytestmark = [pytest.mark.browser, pytest.mark.release]

STAGE = ".qflow-lab:has(.qf-panel) .qf-stage"
INTERACTIVE_SECONDS = 120
"""A page that takes this long is broken; how long it does take is printed."""
CHAPTER_SECONDS = 600

ROOT = Path(__file__).resolve().parents[2]
IN_CI = ["00-tour.ipynb", "01-thresholds.ipynb"]


def chapters_to_run() -> list[str]:
    """Name what the site lets a reader run: two chapters, or everything if asked for."""
    if os.environ.get("QFLOW_TEST_WHOLE_SITE") != "1":
        return IN_CI
    books = [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "exercises").glob("*.ipynb")]
    names = sorted(path.relative_to(ROOT).as_posix().removeprefix("notebooks/") for path in books)
    return [name for name in names if not Path(name).name.startswith(site.EXECUTED_ONLY)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The site, built as `qflow site build` does."""
    find_chromium()
    keep = cargo.cargo_folder()
    if not REQUIRED and shutil.which("npm") is None and not (keep / f"pyodide-{cargo.VERSION}").exists():
        pytest.skip("Pyodide has to be fetched, and there is no npm")
    return site.build(tmp_path_factory.mktemp("site") / "out")


@pytest.fixture(scope="module")
def server(built, tmp_path_factory):
    """The site on a port of its own."""
    files = partial(SimpleHTTPRequestHandler, directory=str(built))
    with ThreadingHTTPServer(("127.0.0.1", 0), files) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{listening.server_port}"
        yield LabServer(url, built, tmp_path_factory.mktemp("log") / "none")
        listening.shutdown()


@pytest.fixture
def page(server):
    """A browser that has never seen the site; its pages have no errors, and ask nobody outside."""
    with chromium_page(server) as lab:
        yield lab
        assert (lab.page_errors, lab.foreign_requests) == ([], [])


def open_chapter(lab, name: str) -> float:
    """Open a chapter and wait for its kernel; return the seconds that took."""
    start = time.monotonic()
    lab.page.goto("about:blank")
    lab.page.goto(f"{lab.server.url}/lab/index.html?path={name}")
    lab.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=INTERACTIVE_SECONDS * 1000)
    lab.wait_idle(INTERACTIVE_SECONDS)
    return time.monotonic() - start


@pytest.mark.parametrize("name", chapters_to_run())
def test_a_chapter_runs_and_asks_nobody_outside(page, name, capsys):
    """In the tour a slider is moved besides: the engine answers inside the browser."""
    seconds = open_chapter(page, name)
    start = time.monotonic()
    page.run_all(CHAPTER_SECONDS)
    ran = time.monotonic() - start
    with capsys.disabled():
        print(f"\n{name}: {seconds:.1f} s from the link to a kernel at rest, {ran:.1f} s to run all of it")
    assert page.cells_not_run() == []
    assert page.cell_errors() == []
    if name == "00-tour.ipynb":
        move_a_slider(page)


def move_a_slider(page):
    """Move the slider of a lab, and wait for the run that follows."""
    stage = page.page.locator(f"{STAGE}[data-run]").first
    stage.wait_for(timeout=INTERACTIVE_SECONDS * 1000)
    stage.scroll_into_view_if_needed()
    before = int(stage.get_attribute("data-run"))
    page.page.locator(".qf-story-end").first.click()
    page.page.locator(".qflow-lab:has(.qf-panel) .qf-more").first.click()
    rail = page.page.locator(".qf-slider-capacity .noUi-target").first
    rail.scroll_into_view_if_needed()
    box = rail.bounding_box()
    rail.click(position={"x": 0.65 * box["width"], "y": box["height"] / 2})
    grown = "([stage, run]) => Number(document.querySelector(stage).dataset.run) > run"
    page.page.wait_for_function(grown, arg=[STAGE, before], timeout=INTERACTIVE_SECONDS * 1000)
    assert int(stage.get_attribute("data-run")) > before


def test_the_spark_chapter_is_shown_as_it_was_executed(page):
    lab = page.page
    lab.goto(f"{page.server.url}/lab/index.html?path=13-spark.ipynb")
    lab.wait_for_selector(".jp-Notebook .jp-Cell", timeout=INTERACTIVE_SECONDS * 1000)
    lab.locator(".jp-RenderedMarkdown", has_text="you see this chapter as it was executed").wait_for()
    cells = "window.jupyterapp.shell.currentWidget.content.widgets"
    assert lab.evaluate(f"() => {cells}.filter(cell => cell.outputArea?.model.length).length") > 10
    assert page.cell_errors() == []
    output = lab.locator(".jp-OutputArea-output").first
    output.scroll_into_view_if_needed()
    assert output.inner_text().strip()


def test_the_first_page_moves_and_python_answers_for_any_value(page):
    page.page.goto(f"{page.server.url}/")
    page.page.wait_for_function("() => document.querySelector('.qflow-scene')?.scene.player.isPlaying")
    line = page.page.locator("[data-setting=stop]")
    assert line.get_attribute("data-step") == "2", "from run to run of those that the page holds"
    page.page.get_by_text("Python, for all others, is loaded when you touch the picture").wait_for()
    assert page.page.workers == [], "what is only looked at fetches no Python"
    line.focus()
    page.page.get_by_text("Python is here").wait_for(timeout=INTERACTIVE_SECONDS * 1000)
    page.page.keyboard.press("ArrowUp")
    page.page.wait_for_function("() => document.querySelector('.qf-stage').dataset.stop === '41'")
    fresh = front_door.draw_run({**front_door.SETTINGS, "stop": 41})
    assert tuple(page.page.locator(".claims li").all_inner_texts()) == fresh.claims
    page.page.locator("[data-setting=limit]").focus()
    for _ in range(2):
        page.page.keyboard.press("PageDown")
    refused = page.page.locator(".qf-refusal")
    refused.get_by_text("The broker refuses these settings").wait_for()


def test_a_visit_fetches_little_and_python_the_engine_only(page, built, capsys):
    """28.8 MB were fetched on any visit, and a wheel of 15 MB for one function of the engine."""
    fetched = {}
    page.page.on("response", lambda got: fetched.update({urlsplit(got.url).path: len(got.body())}))
    page.page.goto(f"{page.server.url}/index.html")
    page.page.wait_for_function("() => document.querySelector('.qflow-scene')?.scene.player.isPlaying")
    page.page.get_by_text("is loaded when you touch the picture").wait_for()
    page.page.wait_for_load_state("networkidle")
    with capsys.disabled():
        print(f"\na visit fetches {sum(fetched.values()):,} bytes: {fetched}")
    assert sum(fetched.values()) <= 300_000
    assert (built / "book" / front_door.ENGINE).stat().st_size <= 1_500_000


def test_a_link_opens_the_run_of_a_lab_at_its_instant(page):
    token = Token("capacity", {"capacity_1": 60, "messages": 300}, 1_500_000)
    page.page.goto("about:blank")
    page.page.goto(f"{page.server.url}/index.html#{token.text()}")
    drawn = "() => document.querySelector('.qf-stage')?.dataset.stop === '100'"
    page.page.wait_for_function(drawn, timeout=INTERACTIVE_SECONDS * 1000)
    page.page.get_by_text("100 + 60 + 15 = 175 messages").first.wait_for()
    frames = capacity_run(capacity_1=60, messages=300).frames
    time = str(frames.at(frames.index_at(1_500_000))["time"])
    page.page.wait_for_function("time => document.querySelector('.qf-stage').dataset.time === time", arg=time)


def test_an_exercise_is_checked_in_its_page_wrong_and_right_and_stopped(page):
    lab = page.page
    lab.goto(f"{page.server.url}/book/exercises/01-thresholds.html")
    box = lab.locator(".qf-exercise").first
    verdict = box.locator(".qf-verdict")

    def check(code: str) -> str:
        box.locator("textarea").fill(f"def on_and_off(limit, stop, resume):\n    {code}")
        box.locator(".qf-check").click()
        box.locator(".qf-check:not([aria-disabled=true])").wait_for(timeout=INTERACTIVE_SECONDS * 1000)
        return verdict.inner_text()

    assert lab.workers == [], "what is only read fetches no Python"
    wrong = check("return stop, resume")
    assert "the broker says (901, 499)" in wrong and 'This looks like "reached is enough"' in wrong
    box.get_by_text("show me this case").click()
    box.locator(".qf-case-shown .qf-stage[data-stop='900']").wait_for()
    box.locator("textarea").fill("def on_and_off(limit, stop, resume):\n    while True: pass")
    box.locator(".qf-check").click()
    verdict.get_by_text("tried on the engine").wait_for()
    box.locator(".qf-stop").click()
    verdict.get_by_text("Stopped. The next check starts Python anew.").wait_for()
    assert check("return stop + 1, resume - 1").startswith("RIGHT on_and_off: right in all 8 cases")
    lab.reload()
    lab.get_by_text("Solved on this device: 1 of 3.").wait_for()
    assert box.locator(".qf-solved").inner_text() == "solved on this device"
    assert "stop + 1" in box.locator("textarea").input_value()


def labs_of(built) -> list[str]:
    """The pages with labs, by their paths on the site."""
    pages = sorted((built / "book" / "notebooks").glob("[01]*.html"))
    return [path.relative_to(built).as_posix() for path in pages if "qf-cells" in path.read_text("utf-8")]


WALKED = {"handles": 0, "numbers": 0, "sliders": 0, "answers": 0, "messages": 0, "cells": 0}
"""What a walk through the whole book has done with its hand, at least once each."""


TO_FIRST_LAB = """() => {
    const cells = JSON.parse(document.querySelector(".qf-cells").textContent);
    const [first] = Object.keys(cells).filter((id) => cells[id].kind === "lab");
    document.getElementById(`cell-id=${first}`).scrollIntoView();
}"""


def test_what_a_page_says_of_its_labs_can_be_done_there(page, built, capsys):
    """Each lab of each chapter is touched, and all that can be dragged, clicked or pressed is tried once."""
    lab = page.page
    names = labs_of(built)
    assert len(names) >= 14
    for name in names if os.environ.get("QFLOW_TEST_WHOLE_SITE") == "1" else names[:2] + names[4:6]:
        start = time.monotonic()
        lab.goto("about:blank")
        lab.goto(f"{page.server.url}/{name}")
        bars = lab.locator(".qf-touch")
        # What plays labs is loaded as one comes near.
        lab.evaluate(TO_FIRST_LAB)
        bars.first.wait_for()
        assert "Shift+Enter" not in lab.locator("main").inner_text()
        assert lab.workers == [], "what is only read fetches no Python"
        for number in range(bars.count()):
            bar = bars.nth(number)
            if bar.locator(".qf-touch-go").is_visible():
                bar.locator(".qf-touch-go").click()
            live = bar.get_by_text("Live: the engine runs in this page")
            live.wait_for(timeout=INTERACTIVE_SECONDS * 1000)
            use_lab(lab, bar.locator("xpath=preceding-sibling::div[contains(@class, 'qf-widgets')]"))
        for number in lab.locator(".qf-prose-number").all():
            number.scroll_into_view_if_needed()
            before = number.inner_text()
            number.press("ArrowLeft" if number.get_attribute("aria-valuemin") != before else "ArrowRight")
            lab.wait_for_function(
                "([one, text]) => one.textContent !== text", arg=[number.element_handle(), before]
            )
            WALKED["numbers"] += 1
        with capsys.disabled():
            print(f"\n{name}: {bars.count()} labs in {time.monotonic() - start:.0f} s")
    if os.environ.get("QFLOW_TEST_WHOLE_SITE") == "1":
        assert min(WALKED.values()) > 0


def use_lab(lab, shown):
    """Answer what a lab asks, move one of its handles and sliders, ask why, and act on a message."""
    for _ in range(4):
        if not shown.locator(".qf-ask:not([hidden])").count():
            break
        answer_question(lab, shown)
    if shown.locator(".qf-map").count():
        cell = shown.locator(".qf-map")
        cell.focus()
        cell.press("ArrowRight")
        of_lab = shown.locator(".qf-stage[data-run]").last
        before = float(of_lab.get_attribute("data-run"))
        cell.press("Enter")
        lab.wait_for_function(
            "([stage, run]) => Number(stage.dataset.run) > run",
            arg=[of_lab.element_handle(), before],
            timeout=INTERACTIVE_SECONDS * 1000,
        )
        WALKED["cells"] += 1
    stage = shown.locator(".qf-stage[data-run]").last
    if not stage.count():
        return
    skip = shown.locator(".qf-story-end")
    if skip.count() and skip.is_visible():
        skip.click()
    # The engine answers: with another run, or with the broker's refusal of these settings.
    drawn = """([stage, run]) => Number(stage.dataset.run) > run
        || !stage.closest(".qflow-scene").querySelector(".qf-refusal").hidden"""
    handle = shown.locator("[data-handle]").first
    if handle.count():
        before = float(stage.get_attribute("data-run"))
        handle.focus()
        is_least = handle.get_attribute("aria-valuenow") == handle.get_attribute("aria-valuemin")
        handle.press("ArrowUp" if is_least else "ArrowDown")
        lab.wait_for_function(drawn, arg=[stage.element_handle(), before], timeout=INTERACTIVE_SECONDS * 1000)
        WALKED["handles"] += 1
    slot = shown.locator(".qf-slot[role=button], .qf-take").first
    if slot.count() and slot.is_visible():
        slot.focus()
        WALKED["messages"] += 1
    slider = shown.locator(".qf-slider input").first
    if slider.count():
        shown.locator(".qf-more").first.click()
        before = float(stage.get_attribute("data-run"))
        slider.press("ArrowRight" if slider.input_value() == slider.get_attribute("min") else "ArrowLeft")
        lab.wait_for_function(drawn, arg=[stage.element_handle(), before], timeout=INTERACTIVE_SECONDS * 1000)
        WALKED["sliders"] += 1
        ask_why(lab, shown)


def answer_question(lab, shown):
    """Guess, and go on."""
    choice, field = shown.locator("[role=radio]").first, shown.locator(".qf-ask input[type=number]")
    go = shown.locator(".qf-ask-go")
    if choice.count():
        choice.click()
    else:
        field.fill("7")
    lab.wait_for_function("go => !go.disabled", arg=go.element_handle(), timeout=INTERACTIVE_SECONDS * 1000)
    go.click()
    next_one = shown.locator(".qf-ask-next")
    next_one.wait_for(timeout=INTERACTIVE_SECONDS * 1000)
    next_one.click()
    next_one.wait_for(state="hidden")
    WALKED["answers"] += 1


def ask_why(lab, shown):
    """Ask why a queue is as it is, by choosing it and by the button, and read the reason."""
    reason = shown.locator(".qf-why li").first
    shown.locator(".qf-why-bar select").first.select_option(index=1)
    reason.wait_for(timeout=INTERACTIVE_SECONDS * 1000)
    shown.locator(".qf-why-close").first.click()
    reason.wait_for(state="detached")
    shown.locator(".qf-why-bar button").first.click()
    reason.wait_for(timeout=INTERACTIVE_SECONDS * 1000)


def test_a_link_of_a_moment_needs_one_drag(page):
    """From a link to the surprise without Python: the mark is let go, the run plays past it."""
    lab = page.page
    start = time.monotonic()
    lab.goto(f"{page.server.url}/guess.html")
    box = lab.locator(".qf-guess-catch").bounding_box()
    lab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    lab.mouse.down()
    lab.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 3)
    lab.mouse.up()
    lab.get_by_text("The real broker, recorded").wait_for()
    print(f"{time.monotonic() - start:.1f} s to the surprise")
    lab.goto(f"{page.server.url}/who.html")
    stop = lab.locator("[data-setting=stop]").first
    stop.focus()
    for _ in range(4):
        stop.press("ArrowDown")
        lab.wait_for_timeout(300)
    lab.get_by_text("Saved in one move.").wait_for()
    assert lab.locator(".case").get_attribute("href").endswith("#stop=50&capacity=10")
    lab.goto(f"{page.server.url}/cliff.html")
    lab.locator(".cliff-map").press("ArrowUp")
    lab.locator(".moment-said").get_by_text("within the limit of 180").wait_for()
    assert lab.workers == []


def test_every_link_between_the_pages_leads_somewhere(built):
    pages = [built / "index.html", *(built / "book").rglob("*.html")]
    assert len(pages) > 40
    found = re.compile(r'(?:href|src|srcset)="(?![a-z]+:|#)([^"#?]+)')
    links = {(page, link) for page in pages for link in found.findall(page.read_text(encoding="utf-8"))}
    # A run lies there in two forms: bytes for a server, and a script for who opens the page from a folder.
    ends = {link: (".z", ".js") if "/book/runs/" in link else ("",) for _, link in links}
    there = {(page, link): [page.parent / unquote(link + end) for end in ends[link]] for page, link in links}
    assert [
        (page.name, link) for (page, link), files in there.items() if not all(map(Path.exists, files))
    ] == []


def test_every_anchor_that_is_linked_to_is_there(built):
    """313 links within the rule book led nowhere."""
    texts = {path: path.read_text(encoding="utf-8") for path in (built / "book").rglob("*.html")}
    there = {path.resolve(): set(re.findall(r'\bid="([^"]+)"', text)) for path, text in texts.items()}
    found = re.compile(r'href="(?![a-z]+:)([^"#?]*)#([^"]+)"')
    links = {(path, *link) for path, text in texts.items() for link in found.findall(text)}
    index = built / "book" / "search-index.js"
    links |= {(index, file, name) for file, _, sections in index_of(built) for name, *_ in sections}
    links |= {(index, "notebooks/reference/rules.html", rule) for rule in rule_book()}
    assert len(links) > 3_000
    lost = []
    for path, file, name in links:
        target = (path.parent / unquote(file)).resolve() if file else path.resolve()
        lost += [] if unquote(name) in there.get(target, ()) else [(path.name, file, name)]
    assert lost == []


_WIDEST = """() => Math.max(
    document.documentElement.scrollWidth,
    ...[...document.querySelectorAll(".text_cell table")].map((table) => table.scrollWidth),
)"""
"""How wide a page is, and each table of its text."""


def test_no_page_is_wider_than_a_phone(page, built):
    page.page.set_viewport_size({"width": 390, "height": 844})
    wide = {}
    for path in [built / "index.html", *(built / "book").rglob("*.html")]:
        page.page.goto(path.as_uri())
        width = page.page.evaluate(_WIDEST)
        if width > 390:
            wide[path.name] = width
    assert wide == {}


def test_it_holds_every_chapter(built, root):
    listed = json.loads((built / "api" / "contents" / "all.json").read_text())
    held = {entry["name"] for entry in listed["content"]}
    assert {path.name for path in (root / "notebooks").glob("*.ipynb")} <= held


def test_texts_are_joined_as_a_server_would(tmp_path):
    """A list of lines would be shown with commas between them."""
    site._write_contents(tmp_path)
    books = [json.loads(path.read_text(encoding="utf-8")) for path in tmp_path.glob("*.ipynb")]
    outputs = [output for book in books for cell in book["cells"] for output in cell.get("outputs", ())]
    texts = [output["text"] for output in outputs if output["output_type"] == "stream"]
    texts += [text for output in outputs for text in output.get("data", {}).values()]
    assert len(texts) > 100
    assert [text for text in texts if isinstance(text, list)] == []


def test_what_spark_needs_is_shown_as_executed():
    book = {"cells": [{"cell_type": "markdown", "source": "# 13"}, {"cell_type": "code", "source": "1"}]}
    shown = site._adapt_notebook(book, runs=False)["cells"]
    assert [cell["cell_type"] for cell in shown] == ["markdown", "markdown", "code"]
    assert "have to run on a computer" in shown[1]["source"]
    book["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "1"}]
    assert "as it was executed" in site._adapt_notebook(book, runs=False)["cells"][1]["source"]
    run = site._adapt_notebook(book, runs=True)["cells"]
    assert [cell["cell_type"] for cell in run] == ["markdown", "code", "code"]
    assert "piplite.install" in run[1]["source"]


class TestTheLock:
    """Pyodide refuses a library whose digest is not the lock's."""

    def test_every_library_has_the_digest_of_its_wheel(self, built):
        place = built / "static" / "pyodide"
        packages = json.loads((place / "pyodide-lock.json").read_text())["packages"]
        assert sorted(packages) == sorted(cargo._LIBRARIES)
        for entry in packages.values():
            assert hashlib.sha256((place / entry["file_name"]).read_bytes()).hexdigest() == entry["sha256"]
            assert set(entry["depends"]) <= set(packages)

    def test_a_missing_wheel_names_the_cure(self, tmp_path):
        package = tmp_path / "package"
        package.mkdir()
        for name in (*cargo._CORE, "pyodide-lock.json"):
            (package / name).write_text('{"packages": {}}')
        with pytest.raises(RefusalError, match="no wheel of asttokens .* qflow site fetch"):
            cargo.copy_interpreter(package, tmp_path, tmp_path / "out")
