"""For everybody (WCAG 2.2 AA): what axe-core finds in pages and labs, on a phone and without scripts, too."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import REQUIRED, chromium_page
from test_front_door import write_book

from qflow.kit import RefusalError
from qflow.labs import capacity_run, completion_run, fanout_run, flow_run, group_run, save_html
from qflow.labs.charts import depth_chart, held_chart, latency_chart
from qflow.labs.still import PHONE, still
from qflow.launch import cargo, front_door

pytestmark = [pytest.mark.browser]

AXE = "axe-core@4.14.1"
BOOK = "book/notebooks/{}.html"
PAGES = (
    "index.html",
    *map(
        BOOK.format, ("00-tour", "01-thresholds", "03-held-completions", "04-capacity", "05-message-groups")
    ),
    *map(BOOK.format, ("11-errata", "17-more-about-completions", "reference/rules")),
    "book/exercises/03-held-completions.html",
)
LOOKS = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 390)]
IN_CI = {("book/notebooks/17-more-about-completions.html", "light", 1280), ("index.html", "dark", 390)}
"""Pages in the looks that are tried with every run; the others take minutes."""

FIND = """async selector => {
    const { violations } = await axe.run(selector, { resultTypes: ["violations"] });
    return violations
        .filter(({ impact }) => ["serious", "critical"].includes(impact))
        .flatMap(({ id, nodes }) =>
            nodes.map(({ target, html }) => `${id}: ${target} ${html.slice(0, 160)}`));
}"""


@pytest.fixture(scope="module")
def axe(tmp_path_factory) -> str:
    """The script of axe-core, from npm."""
    if shutil.which("npm") is None:
        pytest.skip("axe-core has to be fetched, and there is no npm")
    try:
        archive = cargo._npm_pack(AXE, tmp_path_factory.mktemp("axe"))
    except RefusalError as problem:
        if REQUIRED:
            raise
        pytest.skip(str(problem))
    with tarfile.open(archive) as packed:
        script = packed.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory, root) -> Path:
    """The pages, as `qflow site build` writes them."""
    top = tmp_path_factory.mktemp("shelf")
    names = [page.removeprefix("book/").removesuffix(".html") for page in PAGES[1:]]
    files = {f"{name}{'.md' if 'reference' in name else '.ipynb'}" for name in names}
    front_door.write_front_door(top, write_book(top, {name: root / name for name in sorted(files)}))
    return top


@pytest.fixture
def page() -> Iterator[Any]:
    """A page without errors."""
    with chromium_page() as lab:
        yield lab.page
        assert lab.page_errors == []


@pytest.mark.parametrize(
    ("name", "scheme", "width"),
    [
        pytest.param(name, *look, marks=() if (name, *look) in IN_CI else pytest.mark.release)
        for name in PAGES
        for look in LOOKS
    ],
)
def test_axe_finds_nothing_serious_on_a_page(axe, shelf, page, name, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto((shelf / name).as_uri())
    if page.locator(".qflow-stored, .qf-run").count():
        # A run is loaded as its place comes near.
        page.evaluate("document.querySelector('.qflow-stored').scrollIntoView()")
        page.wait_for_selector(".qf-stage[data-run]")
    page.evaluate(axe)
    assert page.evaluate(FIND, "body") == []


@pytest.mark.release
@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_axe_finds_nothing_serious_in_three_live_labs(axe, lab_server, lab_page, scheme, width):
    code = ("import qflow as qf", "qf.flow_lab(messages=300)", "qf.group_lab()", "qf.completion_lab()")
    lab_server.write_notebook("everybody.ipynb", *code)
    lab_page.page.set_viewport_size({"width": width, "height": 900})
    lab_page.page.emulate_media(color_scheme=scheme)
    lab_page.open_notebook("everybody.ipynb")
    lab_page.page.evaluate(
        "name => window.jupyterapp.commands.execute('apputils:change-theme', { theme: name })",
        f"JupyterLab {scheme.title()}",
    )
    lab_page.run_all(180)
    labs = lab_page.page.locator(".qflow-lab:has(.qf-stage[data-run])")
    labs.nth(2).wait_for()
    lab_page.page.evaluate(axe)
    assert lab_page.page.evaluate(FIND, ".qflow-lab") == []


@pytest.mark.release
def test_on_a_phone_every_handle_has_room_for_a_thumb(lab_server, lab_page):
    """JupyterLab's own frame takes half of this window: the lab has the width of a telephone."""
    lab_server.write_notebook("thumb.ipynb", "import qflow as qf", "qf.flow_lab(messages=300)")
    lab_page.page.set_viewport_size({"width": 740, "height": 900})
    lab_page.open_notebook("thumb.ipynb")
    lab_page.run_all(180)
    lab_page.page.locator(".qflow-lab .qf-stage[data-run]").first.wait_for()
    assert 340 < lab_page.page.evaluate("() => document.querySelector('.qflow-scene').clientWidth") < 480
    sizes = lab_page.page.evaluate("""() => [...document.querySelectorAll('.qf-handle')].map((one) => {
        const { width, height } = one.getBoundingClientRect();
        return [one.dataset.handle, Math.min(width, height)];
    })""")
    assert len(sizes) == 5 and [one for one in sizes if one[1] < 24] == []


TEXTS = """() => [...document.querySelectorAll('.qflow-scene svg text')].flatMap((text) => {
    const { width } = text.ownerSVGElement.getBoundingClientRect();
    const scale = width / text.ownerSVGElement.viewBox.baseVal.width;
    const size = parseFloat(getComputedStyle(text).fontSize) * scale;
    if (!text.textContent || !text.getClientRects().length || size >= 11) return [];
    return [`${text.textContent}: ${size}`];
})"""


@pytest.mark.parametrize("run", [flow_run, capacity_run, group_run, completion_run, fanout_run])
def test_on_a_phone_every_word_of_a_picture_can_be_read(page, tmp_path, run):
    """The picture is laid out anew: shrunk, its words would have 7 pixels."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(save_html(run(), tmp_path / "run.html").as_uri())
    page.wait_for_selector(".qf-stage[data-run]")
    assert page.evaluate(TEXTS) == []
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390


OUTSIDE = """() => [...document.querySelectorAll('text')].flatMap((text) => {
    const { left, right } = text.getBoundingClientRect();
    const size = parseFloat(getComputedStyle(text).fontSize);
    return size >= 11 && left >= 0 && right <= 358 ? [] : [`${text.textContent}: ${left}, ${right}, ${size}`];
})"""


@pytest.mark.parametrize("chart", [depth_chart, held_chart, latency_chart])
def test_on_a_phone_every_word_of_a_chart_can_be_read(page, chart):
    """It is laid out for its width, neither shrunk nor scrolled."""
    page.set_viewport_size({"width": 358, "height": 700})
    page.set_content(f"<body style='margin:0'>{still(chart(flow_run()).figure, PHONE)}")
    assert page.locator("text").count() > 8
    assert page.evaluate(OUTSIDE) == []


def test_a_screen_reader_meets_no_cell_that_has_no_name(page, tmp_path):
    """The words beside a window say how many of its cells are full; 120 nameless groups say nothing."""
    page.goto(save_html(flow_run(), tmp_path / "run.html").as_uri())
    page.wait_for_selector(".qf-stage[data-run]")
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    seen = [node for node in tree if not node.get("ignored")]
    nameless = [
        node for node in seen if node["role"]["value"] == "group" and not node.get("name", {}).get("value")
    ]
    assert len(nameless) < 20
    assert len(seen) < 250


def test_without_scripts_a_still_and_a_sentence_stand_where_a_lab_would(tmp_path):
    from playwright.sync_api import Browser

    path = save_html(flow_run(), tmp_path / "run.html")
    with chromium_page() as lab:
        browser: Browser = lab.page.context.browser
        context = browser.new_context(java_script_enabled=False)
        bare = context.new_page()
        bare.goto(path.as_uri())
        text = bare.locator("body").inner_text()
        assert "The picture, standing still" in text and "at most 987" in text
        box = bare.locator("svg").bounding_box()
        assert box and box["width"] > 300 and box["height"] > 80
        context.close()
