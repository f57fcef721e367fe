"""From letting go of a slider to the new picture, in JupyterLab; not part of the plain test run.

``python -m pytest -n 0 -s -m bench tests/benchmarks/test_slider_latency.py`` prints the wait for the
first true picture of the instant that is looked at, the wait until the run is drawn as a whole, and the
processor time that kernel and browser need for it, which differs less from one busy hour to the next. A
click on the rail is the hardest case; then a slider is dragged as a hand does it, which comes to rest
before it lets go. No time is asserted; what is drawn is compared with Python's own frames.
"""

from __future__ import annotations

import json
import statistics
import sys

import nbformat
import pytest
from browser import WATCH_SLIDER, LabPage, chromium_page, serve_chapters

from qflow.labs import flow_run

pytestmark = [pytest.mark.bench, pytest.mark.browser, pytest.mark.slow]

STAGE = ".qflow-lab .qf-stage"
MOVES = {2_000: 9, 20_000: 5, 100_000: 3}
CELL = """import json, time
from qflow.labs import flow_lab
lab = flow_lab(messages={messages})
slider, spent = lab.sliders["stop"], []
plain = slider._trait_notifiers["value"]["change"]
plain.insert(0, lambda change: spent.append([0, False, time.process_time()]))
note = lambda change: spent.append([lab.scene.run, lab.scene.is_whole, time.process_time()])
lab.scene.observe(note, names=["run", "is_whole"])
lab"""
ASK = """async code => {
    const { kernel } = window.jupyterapp.shell.currentWidget.sessionContext.session;
    const asked = kernel.requestExecute({ code });
    let told = "";
    asked.onIOPub = message => { if (message.header.msg_type === "stream") told += message.content.text; };
    await asked.done;
    return told;
}"""
WHOLE = """([selector, run]) => {
    const { dataset } = document.querySelector(selector);
    return Number(dataset.run) > run && dataset.whole === "yes";
}"""
THERE = """([selector, stop]) => {
    const { dataset } = document.querySelector(selector);
    return dataset.stop === stop && dataset.whole === "yes";
}"""
# The next notebook is opened in the same page: what is heard there is heard once.
RELEASED = """selector => {
    window.qflowReleased = [];
    window.qflowHear ??= () => window.qflowReleased.push(document.querySelector(selector).dataset.stop);
    document.addEventListener("pointerup", window.qflowHear, true);
}"""
DRAG_MS, REST_MS = 250, 150


@pytest.fixture(scope="module")
def labs(tmp_path_factory):
    scratch = tmp_path_factory.mktemp("latency")
    folder = scratch / "chapters"
    folder.mkdir()
    for messages in MOVES:
        cells = [nbformat.v4.new_code_cell(CELL.format(messages=messages))]
        made = nbformat.v4.new_notebook(cells=cells)
        made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(made, folder / f"{messages}.ipynb")
    command = [sys.executable, "-m", "jupyter", "lab", "--allow-root", f"--ServerApp.root_dir={folder}"]
    with serve_chapters(scratch, *command, folder=folder) as server, chromium_page(server) as page:
        yield page


@pytest.mark.parametrize("messages", MOVES)
def test_slider_to_picture(labs: LabPage, messages: int):
    page = labs.page
    labs.open_notebook(f"{messages}.ipynb")
    labs.run_all(600)
    page.wait_for_selector(f"{STAGE}[data-run]", timeout=120_000)
    page.locator(".qflow-scene .qf-more").click()
    page.evaluate(WATCH_SLIDER, STAGE)
    meter = page.context.new_cdp_session(page)
    meter.send("Performance.enable", {"timeDomain": "threadTicks"})
    began = busy(meter)
    for move in range(MOVES[messages]):
        run = int(page.locator(STAGE).get_attribute("data-run"))
        rail = page.locator(".qf-slider-stop .noUi-target")
        box = rail.bounding_box()
        share = 0.45 + 0.12 * (move % 3) + 0.02 * (move // 3)
        rail.click(position={"x": box["width"] * share, "y": box["height"] / 2})
        page.wait_for_function(WHOLE, arg=[STAGE, run], timeout=120_000)
        page.wait_for_timeout(300)
    browser = (busy(meter) - began) / MOVES[messages]
    drawn = page.evaluate("() => window.qflowDrawn")
    told = json.loads(page.evaluate(ASK, "print(json.dumps(spent))"))
    report(messages, drawn, told, browser)
    assert len({seen["stop"] for seen in drawn}) == MOVES[messages]
    by_hand(page, messages)
    for seen in drawn[-2:]:
        frames = flow_run(messages=messages, stop=int(seen["stop"])).frames
        frame = frames.at(frames.index_at(int(seen["time"])))
        assert int(seen["depth"]) == frame["queue.orders.depth"]
        assert int(seen["held"]) == frame["queue.orders.held"]
        assert seen["whole"] == "no" or int(seen["frames"]) == frames.count


def by_hand(page, messages: int) -> None:
    """Drag the slider to and fro, and print how long it takes from letting go to the picture."""
    page.evaluate("() => { window.qflowDrawn.length = 0; }")
    page.evaluate(RELEASED, STAGE)
    chosen = []
    for move in range(MOVES[messages]):
        page.locator(".qf-slider-stop .noUi-handle").hover()
        box = page.locator(".qf-slider-stop .noUi-base").bounding_box()
        x, y = box["x"] + box["width"] * (0.45 + 0.12 * (move % 3) + 0.02 * (move // 3)), box["y"]
        page.mouse.down()
        for step in range(10):
            page.mouse.move(x - 9 + step, y)
            page.wait_for_timeout(DRAG_MS / 10)
        page.wait_for_timeout(REST_MS)
        page.mouse.up()
        chosen.append(page.locator(".qf-slider-stop .widget-readout").inner_text())
        page.wait_for_function(THERE, arg=[STAGE, chosen[-1]], timeout=120_000)
        page.wait_for_timeout(300)
    shown = page.evaluate("() => window.qflowReleased")
    drawn = page.evaluate("() => window.qflowDrawn")
    waits = [
        0.0 if stop == seen else next(each["ms"] for each in drawn if each["stop"] == stop)
        for stop, seen in zip(chosen, shown, strict=True)
    ]
    print(f"  by hand, resting {REST_MS} ms before letting go: median {statistics.median(waits):.0f}", end="")
    print(f", longest {max(waits):.0f}; already there {waits.count(0.0)} of {len(waits)} times")


def busy(meter) -> float:
    """Return how long the page was at work so far, in milliseconds of processor time."""
    found = {item["name"]: item["value"] for item in meter.send("Performance.getMetrics")["metrics"]}
    return 1000 * sum(found[name] for name in ("ScriptDuration", "LayoutDuration", "RecalcStyleDuration"))


def report(messages: int, drawn: list[dict], told: list[list], browser: float) -> None:
    first = {seen["run"]: seen["ms"] for seen in reversed(drawn)}
    whole = {seen["run"]: seen["ms"] for seen in drawn}
    spent: dict[str, list[float]] = {"kernel to the first picture": [], "kernel to the whole": []}
    begun, is_first = 0.0, False
    for run, is_whole, now in told:
        if not run:
            begun, is_first = now, True
            continue
        if is_first:
            spent["kernel to the first picture"].append(1000 * (now - begun))
            is_first = False
        if is_whole:
            spent["kernel to the whole"].append(1000 * (now - begun))
    waits = {"first true picture": list(first.values()), "whole run": list(whole.values())}
    print(f"\n{messages:,} messages, {len(first)} moves, in ms")
    for name, values in waits.items():
        print(f"  waited for the {name}: median {statistics.median(values):.0f}, fastest {min(values):.0f}")
    for name, values in spent.items():
        print(f"  processor time, {name}: median {statistics.median(values):.0f}, least {min(values):.0f}")
    print(f"  processor time, browser, a move in all: {browser:.0f}")
