"""Every lab in JupyterLab: run, a slider moved, steps in both directions, a question why, the looks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from browser import LabPage, ShownLab

pytestmark = [pytest.mark.browser, pytest.mark.slow]

OPEN = {
    "capacity": "capacity_lab()",
    "fanout": "fanout_lab()",
    "group": "group_lab()",
    "policy": "policy_lab()",
    "history": "history_lab()",
    "config": "config_lab()",
    "trace": "trace_lab(TRACE)",
    "states": "state_space_lab()",
}
SETUP = """from qflow.labs import *
from qflow.kit import kit_path
TRACE = kit_path("data") / "recordings" / "workloads" / "overflow-despite-flow-control.csv.gz"
"""
MANY = (4, 30)
"""Labs in one notebook."""

ALL_DRAWN = """number => {
    const labs = [...document.querySelectorAll(".qflow-lab")];
    return labs.length === number && labs.every(lab =>
        [...lab.querySelectorAll(".qf-stage")].every(stage => stage.dataset.run));
}"""
RUNS = "() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.executionCount)"


# Whether so many scenes are drawn in the notebook in front.
SCENES = """number => {
    const { node } = window.jupyterapp.shell.currentWidget;
    return node.querySelectorAll(".qf-stage[data-run]").length === number;
}"""


# The other labs of the page draw nothing meanwhile, as those further away do anyway.
ALONE = """lab => {
    for (const one of document.querySelectorAll(".qflow-lab")) {
        one.style.contentVisibility = one === lab ? "" : "hidden";
    }
}"""
_RESTART = """async () => {
    await window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart();
}"""


@pytest.fixture(scope="module")
def labs(lab_server, lab_page):
    opened = [f"{name} = {code}\n{name}" for name, code in OPEN.items()]
    lab_server.write_notebook("labs.ipynb", SETUP, *opened)
    charts = "for make in (held_chart, depth_chart, latency_chart):\n    display(lab.chart(make))"
    lab_server.write_notebook("charts.ipynb", SETUP, "lab = capacity_lab()\nlab", charts)
    for number in MANY:
        made = f"many = [flow_lab(messages=100) for _ in range({number})]\ndisplay(*many)"
        close = "for lab in many:\n    lab.close()"
        lab_server.write_notebook(f"{number}-labs.ipynb", SETUP, made, close)
    return lab_page


@pytest.fixture(scope="module")
def opened(labs) -> LabPage:
    labs.page.set_viewport_size({"width": 1640, "height": 900})
    labs.open_notebook("labs.ipynb")
    labs.run_all(300)
    labs.page.wait_for_function(ALL_DRAWN, arg=len(OPEN))
    return labs


class Seen(ShownLab):
    """One of the labs on the page."""

    def __init__(self, labs: LabPage, name: str) -> None:
        super().__init__(labs, labs.page.locator(".qflow-lab").nth(list(OPEN).index(name)))
        self.name = name
        self.root.evaluate(ALONE)
        self.root.scroll_into_view_if_needed()
        for more in self.root.locator(".qflow-scene:not(.qf-is-open) .qf-more").all():
            more.click()

    def shot(self, moment: str) -> None:
        """Save a screenshot of the lab in the folder QFLOW_SCREENSHOTS, if that is set."""
        if "QFLOW_SCREENSHOTS" not in os.environ:
            return
        folder = Path(os.environ["QFLOW_SCREENSHOTS"])
        folder.mkdir(parents=True, exist_ok=True)
        self.page.mouse.move(0, 0)
        self.page.wait_for_timeout(200)
        path = folder / f"{self.name}-{moment}.png"
        self.root.screenshot(path=str(path))

    def why(self, what: str) -> dict[str, str]:
        """Click an element, and wait for the answer to the question why."""
        self.root.locator(what).first.click()
        panel = self.root.locator(".qf-why li").first
        panel.wait_for()
        return dict(self.root.locator(".qf-why").evaluate("panel => ({ ...panel.dataset })"))


def test_all_labs_open_and_ask_nobody_outside(opened):
    assert opened.cell_errors() == opened.page_errors == opened.foreign_requests == []
    assert opened.page.locator(".qflow-lab").count() == len(OPEN)


@pytest.mark.parametrize(
    ("name", "slider", "share", "thing"),
    [
        ("capacity", "capacity_1", 0.9, ".qf-producer .qf-name"),
        ("policy", "limit", 0.6, ".qf-consumer .qf-name"),
    ],
)
def test_a_lab_with_sliders(opened, name, slider, share, thing):
    lab = Seen(opened, name)
    lab.shot("first")
    before = lab.seen()
    lab.move(slider, share)
    after = lab.seen()
    assert int(after["run"]) > int(before["run"])
    assert after["frames"] != before["frames"]
    lab.press("Home")
    start = lab.seen()
    lab.press(*["ArrowRight"] * 4)
    there = lab.seen()
    assert there != start
    lab.press("ArrowRight", "ArrowLeft")
    assert lab.seen() == there, "a step on and back is the very same picture"
    lab.press(*["ArrowLeft"] * 4)
    assert lab.seen() == start
    lab.press("Shift+ArrowRight")
    lab.shot("moved")
    told = lab.why(thing)
    assert int(told["links"]) >= 1
    lab.shot("why")
    link = lab.root.locator(".qf-why li").last
    frame = int(link.get_attribute("data-frame"))
    link.locator("button").click()
    assert int(lab.seen()["frame"]) == frame
    lab.move(slider, share + 0.06)
    assert not lab.root.locator(".qf-why").is_visible(), "an answer about a run that is not shown any more"


def test_the_keyboard_alone_asks_why_and_goes_there(opened):
    lab = Seen(opened, "capacity")
    lab.press("Home", "Shift+ArrowRight", "w", "Home", "ArrowDown", "ArrowDown", "Enter", "Tab", "Enter")
    links = lab.root.locator(".qf-why-link")
    links.first.wait_for()
    assert lab.root.locator(".qf-why").get_attribute("data-subject") == "producer:C2"
    frame = lab.root.locator(".qf-why li").last.get_attribute("data-frame")
    links.last.press("Enter")
    assert lab.seen()["frame"] == frame
    lab.root.locator(".qf-why-close").press("Enter")


def test_typing_a_configuration(opened):
    lab = Seen(opened, "config")
    field = lab.root.locator(".qf-typed textarea")
    for typed, seen in (
        ("orders --max-queue-count 90", "text=stop 72"),
        ("orders --max-queue-count 100 --flow-stop-count 5", ".qf-refused"),
    ):
        field.fill(typed)
        field.blur()
        lab.root.locator(seen).wait_for()
        lab.shot(seen.strip("."))


def test_clicking_a_state_loads_it(opened):
    lab = Seen(opened, "states")
    lab.shot("first")
    run = int(lab.seen()["run"])
    node = lab.root.locator(".qf-state-node").nth(6)
    node.click()
    lab.await_run(run)
    head = lab.root.locator(".qf-states-head", has_text="state 6 of")
    head.wait_for()
    said = head.inner_text()
    assert f"depth {lab.seen()['depth']}" in said
    assert int(lab.seen()["frame"]) == int(lab.seen()["frames"]) - 1, "the picture is at the state itself"
    lab.shot("chosen")
    lab.press("ArrowLeft", "ArrowRight")
    lab.root.locator(".qf-states").press("Home")
    lab.await_run(run + 1)
    assert lab.seen()["depth"] == "0"
    lab.move("stop", 0.9)
    lab.shot("moved")


def test_fork_compare_and_share(opened):
    lab = Seen(opened, "capacity")
    lab.press("Home", "Shift+ArrowRight")
    run = int(lab.seen()["run"])
    lab.root.locator(".qf-fork").select_option("purge:orders")
    lab.await_run(run)
    assert lab.root.locator(".qf-view-name").all_inner_texts() == ["as it was", "orders is purged"]
    lab.shot("forked")
    # It can be ended where the rest of the tools is out of sight, too.
    more = lab.root.locator(".qf-more").first
    more.click()
    lab.root.locator(".qf-end-comparison").click()
    lab.await_run(run + 1)
    more.click()
    assert lab.root.locator(".qf-view").count() == 1
    assert lab.root.locator(".qf-end-comparison").is_hidden()
    run = int(lab.seen()["run"])
    lab.press("c")
    lab.await_run(run)
    lab.move("capacity_1", 0.3)
    assert lab.root.locator(".qf-view-name").all_inner_texts() == ["pinned", "now"]
    lab.shot("compared")
    levels = "lines => lines.map(line => line.getAttribute('y1'))"
    pinned, now = lab.root.locator(".qf-line-stop > line").evaluate_all(levels)
    assert pinned == now, "the same threshold at two heights"
    lab.root.locator(".qf-token").click()
    lab.root.locator(".qf-copy-cell input").wait_for()
    assert lab.root.locator(".qf-copy-cell input").input_value().startswith('qf.labs.open_token("qf1.')


def test_a_lab_whose_kernel_was_restarted_says_so(opened):
    """It asks for no answer that cannot come; the picture stays, and can be stepped through.

    The tests after this one open notebooks of their own.
    """
    opened.page.evaluate(_RESTART)
    opened.wait_idle(60)
    lab = Seen(opened, "policy")
    lab.root.locator(".qf-queue").first.click()
    refusal = lab.root.locator(".qf-why-refusal")
    refusal.wait_for()
    assert "Run the lab's cell again" in refusal.inner_text()
    assert lab.root.locator(".qf-why-wait").count() == 0
    lab.press("Home", "ArrowRight")
    assert lab.seen()["frame"] == "1"


def test_charts_follow_the_scene_and_lead_it(labs, tmp_path):
    labs.open_notebook("charts.ipynb")
    labs.run_all(120)
    page = labs.page
    page.wait_for_selector(".qf-chart[data-drawn] >> nth=2")
    scripts = page.locator("head script[src^='blob:']").count()
    assert scripts == 1, "one plotly.js for the page"
    scene, charts = page.locator(".qflow-lab .qflow-scene").first, page.locator(".qf-chart")
    read = "charts => charts.map(chart => chart.dataset)"
    for key in ("Home", "Shift+ArrowRight", "End"):
        scene.press(key)
        time = page.locator(".qf-stage").first.get_attribute("data-time")
        seen = charts.evaluate_all(read)
        assert [chart["time"] for chart in seen] == [time] * len(seen)
        held, depth, latency = seen
        assert latency["cursor"] == "", "milliseconds to completion are no instants of the run"
        assert float(held["cursor"]) >= 0 <= float(depth["cursor"])
    asked = page.evaluate("() => window.qflowSent = 0")
    page.evaluate(
        """() => {
            const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
            kernel.anyMessage.connect((_, told) => {
                const isOurs = told.direction === "send" && told.msg.header.msg_type === "comm_msg";
                if (isOurs) window.qflowSent += 1;
            });
        }"""
    )
    # In its middle.
    charts.nth(1).locator(".nsewdrag").first.click()
    end = float(page.locator(".qf-stage").first.evaluate("() => document.querySelector('.qf-scrub').max"))
    time = int(page.locator(".qf-stage").first.get_attribute("data-time"))
    first, last = float(seen[0]["time"]) * 0.4, float(seen[0]["time"]) * 0.6
    assert first < time < last, f"a click in the middle goes to the middle, not to {time} ({end} steps)"
    scene.press("ArrowLeft")
    assert page.evaluate("() => window.qflowSent") == asked == 0, "the kernel hears nothing of a cursor"
    for kind, begins in (("png", b"\x89PNG"), ("svg", b"<svg")):
        with page.expect_download() as told:
            charts.first.locator(f".qf-save-{kind}").press("Enter")
        told.value.save_as(tmp_path / f"chart.{kind}")
        assert (tmp_path / f"chart.{kind}").read_bytes().startswith(begins)
    labs.screenshot(Path(os.environ.get("QFLOW_SCREENSHOTS", tmp_path)) / "charts.png", of=".qf-chart")
    assert labs.page_errors == []
    assert labs.foreign_requests == []


@pytest.mark.parametrize("number", [MANY[0], pytest.param(MANY[1], marks=pytest.mark.release)])
def test_many_labs_leave_the_page_alive_and_closing_them_frees_it(labs, number):
    page = labs.page
    labs.open_notebook(f"{number}-labs.ipynb")
    run = """index => {
        window.jupyterapp.shell.currentWidget.content.activeCellIndex = index;
        return window.jupyterapp.commands.execute('notebook:run-cell');
    }"""
    for index in (0, 1):
        page.evaluate(run, index)
        labs.wait_idle(180)
    page.wait_for_function(SCENES, arg=number)
    page.evaluate(run, 2)
    labs.wait_idle(60)
    assert labs.cell_errors() == []
    assert page.evaluate(RUNS) == [1, 2, 3]
    page.wait_for_function(SCENES, arg=0)
    assert labs.page_errors == []
