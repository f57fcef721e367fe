"""The README's animation: the scene of a lab, played in a browser and recorded as a GIF.

A second file, ``preview.png``, shows one instant of the same run; other sites show it as the preview of a
link to the kit's site. Rebuild both whenever the scene's appearance changes.
"""

from __future__ import annotations

import io
import tempfile
from itertools import pairwise
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from qflow.labs import flow_run
from qflow.labs.html_export import to_html
from qflow.labs.picture import Picture
from qflow.maintain import find_chromium

_WIDTH = 1000
"""The width of the scene in the browser, and of the GIF, in pixels."""
_STILLS = 96
_PAUSE = 90
"""Milliseconds that each still is shown."""
_LINGER = 1000
"""Milliseconds that the last still, and each at which flow control turns ON or OFF, is shown."""
_PREVIEW = {"width": 1200, "height": 630}
"""The size in pixels of the preview that other sites show of a link."""
_TITLE = "qflow: a message broker you can hold in your hand"
_SEEK = """([slider, step]) => {
    slider.value = step;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""


def _stills(picture: Picture) -> list[tuple[int, int]]:
    """Return the steps to show, evenly spaced in time, each with the milliseconds for which it is shown."""
    # They end a little after the last time that flow control turns ON or OFF.
    frames = picture.frames
    turns = [turn.time for turn in frames.transitions]
    end = frames.at(frames.count - 1)["time"]
    until = min(end, int(1.08 * turns[-1])) if turns else end
    steps = [frames.index_at(until * number // (_STILLS - 1)) for number in range(_STILLS)]
    times = [frames.at(step)["time"] for step in steps]
    is_turn = [any(before < turn <= now for turn in turns) for before, now in pairwise(times)]
    return [
        (step, _LINGER if lingers else _PAUSE)
        for step, lingers in zip(steps, [False, *is_turn[:-1], True], strict=True)
    ]


def write(path: Path) -> Path:
    """Draw the scene in a headless browser at each step; write the GIF, and ``preview.png`` beside it."""
    picture, images = flow_run(), []
    shown = _stills(picture)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder, "run.html")
        page_file.write_text(to_html(picture, _TITLE), encoding="utf-8")
        flags = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"]
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=flags)
        page = browser.new_page(viewport={"width": _WIDTH + 60, "height": 1100})
        page.goto(page_file.as_uri())
        # Hide the controls, as a picture has nothing to press.
        page.add_style_tag(content=".qf-transport, .qf-keys { display: none !important; }")
        scene = page.locator(".qflow-scene")
        slider = page.locator(".qflow-scene input[type=range]").element_handle()
        for step, _ in shown:
            page.evaluate(_SEEK, [slider, step])
            images.append(Image.open(io.BytesIO(scene.screenshot())).convert("RGB"))
        page.evaluate(_SEEK, [slider, next(step for step, stay in shown if stay == _LINGER)])
        page.set_viewport_size(_PREVIEW)
        preview = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
        preview.quantize(64, dither=0).save(path.with_name("preview.png"), optimize=True)
        browser.close()
    # All stills share one palette; with a palette for each, the colours would flicker.
    palette = images[len(images) // 2].quantize(64)
    first, *rest = (image.quantize(palette=palette, dither=0) for image in images)
    stays = [stay for _, stay in shown]
    first.save(path, save_all=True, append_images=rest, duration=stays, loop=0, optimize=True)
    return path
