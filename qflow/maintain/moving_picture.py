"""The moving picture of the README: a lab's own scene, played in a browser and kept as a GIF.

Build it again when the scene looks different.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from qflow.kit import RefusalError, install_command
from qflow.labs import flow_run
from qflow.labs.html_export import to_html
from qflow.labs.picture import Picture
from qflow.launch.browsers import find_chromium

WIDTH = 1000
"""Pixels of the scene in the browser; the GIF has these too."""
STILLS = 96
PAUSE = 90
"""Milliseconds between two stills."""
LINGER = 1000
"""Milliseconds a still stays that shows a turn ON or OFF, and the last one."""
_COLOURS = 64
_FLAGS = ["--no-sandbox", "--disable-gpu", "--force-color-profile=srgb"]
# In a picture there is nothing to press.
_STYLE = ".qf-transport, .qf-keys { display: none !important; }"
_SEEK = """([slider, step]) => {
    slider.value = step;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
}"""


def steps(picture: Picture, stills: int) -> list[int]:
    """Choose the steps to show, evenly in time, from the first arrival to the last turn and a little on.

    >>> chosen = steps(flow_run(messages=1500), 5)
    >>> chosen == sorted(chosen), len(chosen)
    (True, 5)
    """
    frames = picture.frames
    end = frames.at(frames.count - 1)["time"]
    turns = [turn.time for turn in frames.transitions]
    until = min(end, int(1.08 * turns[-1])) if turns else end
    return [frames.index_at(until * number // (stills - 1)) for number in range(stills)]


def pauses(picture: Picture, chosen: list[int]) -> list[int]:
    """Return how many milliseconds each still stays: longer where something turned since the one before.

    >>> run = flow_run()
    >>> pauses(run, steps(run, 20)).count(LINGER)
    5
    """
    turns = [turn.time for turn in picture.frames.transitions]
    times = [picture.frames.at(step)["time"] for step in chosen]
    turned = [any(before < turn <= now for turn in turns) for before, now in pairwise(times)]
    return [LINGER if lingers else PAUSE for lingers in [False, *turned[:-1], True]]


def stills_of(picture: Picture) -> Iterator[Any]:
    """Draw the scene in a headless browser at each step; yield images.

    Raises:
        RefusalError: If there is no browser to drive, or Playwright or Pillow are missing.
    """
    try:
        from PIL import Image
        from playwright.sync_api import sync_playwright
    except ImportError as missing:
        raise RefusalError(
            f"{missing.name} is needed to make the picture; {install_command('test')} brings it"
        ) from None
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder, "run.html")
        page_file.write_text(to_html(picture), encoding="utf-8")
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=_FLAGS)
        page = browser.new_page(viewport={"width": WIDTH + 60, "height": 1100})
        page.goto(page_file.as_uri())
        page.add_style_tag(content=_STYLE)
        scene = page.locator(".qflow-scene")
        slider = page.locator(".qflow-scene input[type=range]").element_handle()
        for step in steps(picture, STILLS):
            page.evaluate(_SEEK, [slider, step])
            yield Image.open(io.BytesIO(scene.screenshot())).convert("RGB")
        browser.close()


def write(path: Path) -> Path:
    """Write the moving picture."""
    picture = flow_run()
    images = list(stills_of(picture))
    # One palette for all: a palette of its own for each would flicker.
    palette = images[len(images) // 2].quantize(_COLOURS)
    drawn = [image.quantize(palette=palette, dither=0) for image in images]
    shown = pauses(picture, steps(picture, STILLS))
    drawn[0].save(path, save_all=True, append_images=drawn[1:], duration=shown, loop=0, optimize=True)
    return path


def drift(path: Path) -> str:
    """Return how a picture differs from what would be written, without a browser; "" if it does not.

    Browsers draw differently, so the images are not compared: how long they are shown is.
    """
    from PIL import Image, ImageSequence

    cure = "build it again with: python -m qflow.maintain moving-picture build"
    if not path.exists():
        return f"{path} is missing; {cure}"
    picture = flow_run()
    with Image.open(path) as made:
        # A still that is like the one before is shown for longer in its place.
        shown = sum(still.info["duration"] for still in ImageSequence.Iterator(made))
    wanted = sum(pauses(picture, steps(picture, STILLS)))
    return "" if shown == wanted else f"{path} lasts {shown} ms, the run {wanted} ms; {cure}"
