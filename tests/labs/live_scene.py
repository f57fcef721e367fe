"""A lab in a browser page without JupyterLab: this process answers the page's requests to the lab.

The page draws with the same scripts as the widget; its model asks Python through a function of Playwright and
gets the traits that changed. A lab opens in half a second, so that one page can play many.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anywidget import AnyWidget
from browser import chromium_page, play_until

from qflow.labs.lab import Lab
from qflow.labs.scene import Scene
from qflow.labs.scripts import STYLES, join_modules, read_styles

_TRAITS = set(Scene.class_trait_names(sync=True)) - set(AnyWidget.class_trait_names())
"""What a scene tells its page."""

_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<style>body{margin:0 auto;max-width:%(wide)s}
%(style)s</style></head>
<body data-jp-theme-light="%(light)s"><div class="qflow-lab"><div id="scene"></div></div>
<script type="module">%(script)s
const values = {}, heard = {}, unheard = {};
const take = (changed) => {
  for (const part of changed.pictures ?? []) {
    part.numbers = Uint8Array.from(atob(part.numbers), (one) => one.charCodeAt(0));
  }
  Object.assign(values, changed);
  for (const name of Object.keys(changed)) for (const hear of heard[name] ?? []) hear();
};
const model = {
  get: (name) => values[name], set: (name, value) => { values[name] = value; }, save_changes() {}, off() {},
  on(name, hear) { (heard[name.replace("change:", "")] ??= []).push(hear); },
  async send(content, callbacks) {
    take(JSON.parse(await window.askLab(JSON.stringify(content))));
    callbacks?.iopub?.status?.({ content: { execution_state: "idle" } });
  },
};
take(JSON.parse(await window.askLab("null")));
render({ model, el: document.getElementById("scene") });
</script></body></html>"""


class ScenePage:
    """A browser page with a scene, and the folder of its files."""

    def __init__(self, page: Any, folder: Path) -> None:
        self.page, self.folder = page, folder

    def scene(self, script: str, *values: Any) -> Any:
        """Evaluate a script on ``scene``, the object by which a scene can be controlled from its page."""
        found = "const { scene } = document.querySelector('.qflow-scene:not(.qf-states)');"
        return self.page.evaluate(f"(value) => {{ {found} {script} }}", *values)

    def text(self, part: str) -> str:
        """Return the text of an element."""
        return str(self.page.locator(part).first.text_content())

    def shot(self, name: str) -> None:
        """Save a screenshot of the page if a folder for it is given."""
        if "QFLOW_SCREENSHOTS" in os.environ:
            self.page.screenshot(path=str(Path(os.environ["QFLOW_SCREENSHOTS"]) / f"{name}.png"))


class LiveScene(ScenePage):
    """A page that shows one lab after another; its clock is simulated, and runs faster while a test waits."""

    def __init__(self, page: Any, folder: Path) -> None:
        super().__init__(page, folder)
        page.clock.install()
        self.lab: Any = None
        self._known: dict[str, Any] = {}
        page.expose_function("askLab", self._answer)

    def open(self, lab: Lab, *, dark: bool = False) -> None:
        """Open a lab, and wait until its picture is drawn."""
        # A page that is still open may ask once more: it would be told what the next one waits for.
        self.page.goto("about:blank")
        self.lab, self._known = lab, {}
        script = join_modules("scene.js").replace("export default { render };", "")
        light = str(not dark).lower()
        text = _PAGE % {"style": read_styles(*STYLES), "script": script, "light": light, "wide": "1180px"}
        path = self.folder / "lab.html"
        path.write_text(text, encoding="utf-8")
        self.page.goto(path.as_uri())
        self.page.wait_for_selector(".qf-stage[data-run]")

    def _answer(self, content: str) -> str:
        asked = json.loads(content)
        if asked is not None:
            self.lab.scene._handle_custom_msg(asked, [])
        state = {name: getattr(self.lab.scene, name) for name in _TRAITS} | {"progress": 0, "running": 0}
        changed = {name: value for name, value in state.items() if self._known.get(name) is not value}
        self._known = state
        if "pictures" in changed:
            changed["pictures"] = [_as_text(one) for one in changed["pictures"]]
        return json.dumps(changed)

    def show(self, frame: int) -> None:
        """Move to a frame."""
        self.scene("scene.player.pause(); scene.player.show(value);", frame)

    def await_run(self, after: int) -> None:
        """Wait until a later run is drawn."""
        script = "run => Number(document.querySelector('.qf-stage').dataset.run) > run"
        self.page.wait_for_function(script, arg=after)

    def wait(self, seconds: int) -> None:
        """Advance the page's clock, with ten pictures per second."""
        for _ in range(10 * seconds):
            self.page.clock.fast_forward(100)

    def await_words(self, words: str) -> None:
        """Play until the sentence below the picture contains the given words."""
        script = "words => document.querySelector('.qf-step').textContent.includes(words)"
        play_until(self.page, script, words)

    @property
    def run(self) -> int:
        """The number of the run that is drawn."""
        return int(self.page.locator(".qf-stage").first.get_attribute("data-run"))


@contextmanager
def live_page(folder: Path, scene: type[LiveScene] = LiveScene, height: int = 720) -> Iterator[Any]:
    """Open a page for labs; check at the end that it loaded nothing else and had no errors."""
    with chromium_page() as lab:
        lab.page.set_viewport_size({"width": 1280, "height": height})
        yield scene(lab.page, folder)
        assert (lab.page_errors, lab.foreign_requests) == ([], [])


def _as_text(picture: dict[str, Any]) -> dict[str, Any]:
    """Return a picture's payload with its numbers as text."""
    return {**picture, "numbers": base64.b64encode(picture["numbers"]).decode()}
