"""JupyterLab in a headless Chromium: what the browser tests are made of.

A test asks for the fixture ``lab_page`` and goes on from there::

    @pytest.mark.browser
    def test_stop_slider(lab_page):
        lab_page.open_notebook("01-thresholds.ipynb")
        lab_page.run_all()
        lab_page.page.locator(".stop-slider").click()

``lab_page.page`` is Playwright's own page, with everything it offers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from qflow import maintain
from qflow.kit import RefusalError

REQUIRED = os.environ.get("QFLOW_REQUIRE_BROWSER") == "1"
START_SECONDS = 90
CELLS_SECONDS = 180
PATIENCE_SECONDS = 90
"""What a page is waited for where nothing else is said: long, as other work goes on beside the tests."""
PLAYED_SECONDS = 120
"""For how long a page whose clock a test moves is played at most, in seconds of that clock."""
LOOKS_MS = 50
"""How often it is looked whether a long wait is over; to look at every frame costs a tenth of a core."""
VIEWPORT = {"width": 1400, "height": 1000}
FIRST_CELL = """() => {
    const { content } = window.jupyterapp.shell.currentWidget;
    content.activeCellIndex = 0;
    content.mode = "command";
    content.activate();
}"""
"""Goes to the first cell of the notebook, where a reader begins."""

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Drawn without a graphics card, few large tiles take two thirds of what many small ones take.
    "--default-tile-width=2048",
    "--default-tile-height=2048",
    # Playwright's own list, whose place this one takes, and two pages for an address bar that is never seen.
    "--disable-features=AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,"
    "HttpsFirstBalancedModeAutoEnable,MediaRouter,PaintHolding,ThirdPartyStoragePartitioning,AimEnabled,"
    "OptimizationHints,NetworkTimeServiceQuerying,PreconnectToSearch,WebUIOmniboxPopup,WebUIOmniboxAimPopup",
)

_running: list[tuple[Any, Any]] = []
"""Chromium and what drives it: once for all files that a process tests one after the other."""

# The time between letting go of the slider and the frame in which a new picture is on the screen: of a run
# that takes longer first its beginning, up to the instant that is looked at or later, then the whole.
WATCH_SLIDER = """selector => {
    const stage = document.querySelector(selector);
    window.qflowDrawn = [];
    let released = 0;
    document.addEventListener("pointerup", () => { released = performance.now(); }, true);
    new MutationObserver(() => {
        const drawn = { ...stage.dataset };
        requestAnimationFrame(() => setTimeout(() => {
            window.qflowDrawn.push({ ...drawn, ms: performance.now() - released });
        }));
    }).observe(stage, { attributes: true, attributeFilter: ["data-run", "data-whole"] });
}"""

# The panel in front and its kernel, by way of the application object that JupyterLab shows on request.
_IDLE = """() => {
    const panel = window.jupyterapp?.shell.currentWidget;
    const kernel = panel?.sessionContext?.session?.kernel;
    if (!kernel || kernel.status !== "idle" || panel.sessionContext.hasNoKernel) return false;
    return panel.content.widgets.every(cell => cell.model.executionState !== "running");
}"""
_RUN_ALL = """async () => { await window.jupyterapp.commands.execute("notebook:run-all-cells"); }"""
_PROBLEMS = """() => window.jupyterapp.shell.currentWidget.content.widgets.flatMap(cell => {
    const tags = cell.model.getMetadata("tags") ?? [];
    if (cell.model.type !== "code" || tags.includes("raises-exception")) return [];
    const errors = cell.model.outputs.toJSON().filter(output => output.output_type === "error");
    return errors.map(error => `${error.ename}: ${error.evalue}`);
})"""
_NOT_RUN = """() => window.jupyterapp.shell.currentWidget.content.widgets
    .map(cell => cell.model)
    .filter(model => model.type === "code" && model.sharedModel.getSource().trim())
    .filter(model => model.executionCount === null)
    .map(model => model.id)"""
# Loading JupyterLab costs more than all that a test does in it: the next notebook is opened in the same page.
_OPEN = """async name => {
    const app = window.jupyterapp;
    const open = [...app.shell.widgets("main")];
    await Promise.all(open.map(panel => panel.sessionContext?.shutdown()));
    for (const panel of open) {
        panel.context?.dispose();
        panel.dispose();
    }
    await app.commands.execute("docmanager:open", { path: name });
}"""
_TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@dataclass
class LabServer:
    """A running JupyterLab."""

    url: str  # without a slash at the end
    folder: Path  # of the chapters it shows
    log: Path  # of its output

    def write_notebook(self, name: str, *cells: str) -> None:
        """Write a notebook of code cells beside the chapters."""
        import nbformat

        made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(made, self.folder / name)


@dataclass(eq=False)
class LabPage:
    """A page of JupyterLab and what a learner does with it."""

    page: Any  # Playwright's
    server: LabServer
    page_errors: list[str] = field(default_factory=list)  # of JavaScript, uncaught so far
    foreign_requests: list[str] = field(default_factory=list)  # outside this machine, asked for so far

    def open_notebook(self, name: str) -> None:
        """Open a chapter alone, and wait until its kernel is ready."""
        if self.page.url.startswith(self.server.url):
            self.page.evaluate(_OPEN, name)
        else:
            # The address is that of any chapter opened before, but for the name; so leave the page first.
            self.page.goto("about:blank")
            self.page.goto(f"{self.server.url}/lab/tree/{name}?reset")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=START_SECONDS * 1000)
        self.wait_idle(START_SECONDS)

    def run_all(self, seconds: float = CELLS_SECONDS) -> None:
        """Run all cells and wait until the last one has finished and the page has drawn it."""
        self.page.evaluate(_RUN_ALL)
        self.wait_idle(seconds)

    def wait_idle(self, seconds: float = CELLS_SECONDS) -> None:
        """Wait until the kernel has nothing left to do and the page has drawn the outcome."""
        self.page.wait_for_function(_IDLE, timeout=seconds * 1000, polling=LOOKS_MS)
        self.page.evaluate(_TWO_FRAMES)

    def cell_errors(self) -> list[str]:
        """List the errors shown by cells that are not meant to fail."""
        return list(self.page.evaluate(_PROBLEMS))

    def cells_not_run(self) -> list[str]:
        """List the ids of code cells that have not been run."""
        return list(self.page.evaluate(_NOT_RUN))

    def screenshot(self, path: Path | str, of: str | None = None) -> Path:
        """Take a picture of the page, or of the first element a selector finds."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if of is None:
            self.page.screenshot(path=str(target))
        else:
            element = self.page.locator(of).first
            element.scroll_into_view_if_needed()
            element.screenshot(path=str(target))
        return target


@dataclass(eq=False)
class ShownLab:
    """A lab on a page, in the hands of a learner."""

    labs: LabPage
    root: Any  # what finds it on the page

    @property
    def page(self) -> Any:
        """Playwright's page."""
        return self.labs.page

    def seen(self) -> dict[str, str]:
        """Return what its first picture says of itself."""
        return dict(self.root.locator(".qf-stage").first.evaluate("stage => ({ ...stage.dataset })"))

    def press(self, first: str, *more: str) -> None:
        """Press keys one after the other; to find the scene for each costs more than all it draws."""
        self.root.locator(".qflow-scene").last.press(first)
        for key in more:
            self.page.keyboard.press(key)

    def click_rail(self, slider: str, share: float) -> None:
        """Press and let go of the mouse somewhere on a slider's rail."""
        # The slider is deaf for 0.3 s after a click, while its handle glides.
        rail = self.root.locator(f".qf-slider-{slider} .noUi-target:not(.noUi-state-tap)")
        rail.scroll_into_view_if_needed()
        box = rail.bounding_box()
        rail.click(position={"x": box["width"] * share, "y": box["height"] / 2})

    def move(self, slider: str, share: float) -> None:
        """Move a slider, and wait for the picture of its run."""
        run = int(self.seen()["run"])
        self.click_rail(slider, share)
        self.await_run(run)

    def await_run(self, after: int) -> None:
        """Wait until a later run is drawn, and drawn as a whole."""
        stage = self.root.locator(".qf-stage").first.element_handle()
        script = "([stage, run]) => Number(stage.dataset.run) > run && stage.dataset.whole !== 'no'"
        self.page.wait_for_function(script, arg=[stage, after], polling=LOOKS_MS)


def find_chromium() -> str:
    """Find a Chromium to drive; without one, skip the test, or fail it where browser tests are required."""
    try:
        return maintain.find_chromium()
    except RefusalError as refusal:
        if REQUIRED:
            pytest.fail(f"{refusal} QFLOW_REQUIRE_BROWSER=1 forbids skipping.")
        pytest.skip(str(refusal))


def jupyter_environment(scratch: Path) -> dict[str, str]:
    """Make an environment in which Jupyter leaves the settings of whoever runs the tests alone."""
    environment = dict(os.environ)
    for variable, name in {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "IPYTHONDIR": "ipython",
    }.items():
        folder = scratch / name
        folder.mkdir(exist_ok=True)
        environment[variable] = str(folder)
    environment.pop("JUPYTER_TOKEN", None)
    return environment


@contextmanager
def serve_chapters(scratch: Path, *command: str, folder: Path | None = None) -> Iterator[LabServer]:
    """Start ``qflow lab`` on a copy of the chapters, and stop it with all its kernels afterwards."""
    chapters = folder or scratch / "chapters"
    told = scratch / "jupyterlab.log"
    arguments = [*(command or (sys.executable, "-m", "qflow", "lab", "--dir", str(chapters)))]
    # A port that was free when it was asked for may be taken a moment later: the server chooses its own.
    arguments += ["--no-browser", "--port=0", "--ServerApp.ip=127.0.0.1", "--IdentityProvider.token="]
    arguments += ["--LabApp.expose_app_in_browser=True"]
    with open(told, "wb") as log:
        process = subprocess.Popen(
            arguments,
            cwd=scratch,
            env=jupyter_environment(scratch),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield LabServer(_await_answer(told, process), chapters, told)
    finally:
        _stop(process)


@contextmanager
def chromium_page(server: LabServer | None = None) -> Iterator[LabPage]:
    """Open a page of headless Chromium, for a server or files, with cookies and a cache of its own."""
    context = _chromium().new_context(viewport=VIEWPORT, device_scale_factor=1)
    context.set_default_timeout(PATIENCE_SECONDS * 1000)
    lab = LabPage(context.new_page(), server)
    lab.page.on("pageerror", lambda error: _note_error(lab, str(error)))
    lab.page.on("request", lambda request: _note_foreign(lab, request.url))
    try:
        yield lab
    finally:
        context.close()


def end_chromium() -> None:
    """End the Chromium of this process, unless a page of it is in use."""
    while _running and not _running[-1][0].contexts:
        browser, playwright = _running.pop()
        browser.close()
        playwright.stop()


def _chromium() -> Any:
    from playwright.sync_api import sync_playwright

    if not _running:
        chromium = find_chromium()
        playwright = sync_playwright().start()
        browser = playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        _running.append((browser, playwright))
    return _running[-1][0]


def play_until(page: Any, is_so: str, value: object = None) -> None:
    """Move a page's own clock, which was installed, until a script says so: ten pictures a second of it."""
    for _ in range(10 * PLAYED_SECONDS):
        if page.evaluate(is_so, value):
            return
        page.clock.fast_forward(100)
    pytest.fail(f"not within {PLAYED_SECONDS} s of the page's clock: {is_so}")


def get(url: str) -> tuple[int, str]:
    """Ask for a page; return the status and the text."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status), answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        return error.code, ""


def _note_error(lab: LabPage, text: str) -> None:
    # Where jupyterlite is installed too, JupyterLab loads an extension of it that is not meant for it.
    if "@jupyterlite/" not in text:
        lab.page_errors.append(text)


def _note_foreign(lab: LabPage, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme in {"http", "https", "ws", "wss"} and parts.hostname not in {"127.0.0.1", "localhost"}:
        lab.foreign_requests.append(url)


def _await_answer(told: Path, process: subprocess.Popen[bytes]) -> str:
    """Return the address that a server prints, once it answers there."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        # JupyterLab by itself begins its lines with when and what it logs.
        where = r"(?m)(?:^|ServerApp\] )(http://127\.0\.0\.1:\d+)/"
        address = re.search(where, told.read_text(errors="replace"))
        with suppress(OSError):
            if address and get(f"{address[1]}/api/status")[0] == 200:
                return address[1]
        time.sleep(0.2)
    pytest.fail(f"qflow lab did not come up:\n{told.read_text(errors='replace')[-4000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
