"""Front door: the first page of the site, an animated broker with the book's table of contents below it.

A visitor sees back-pressure before any Python is loaded. The page contains the runs of the engine for a grid
of stop thresholds, made when the site is built. Dragging the stop line moves it from one threshold of the
grid to the next, never between them: what is shown is always a run of the engine. Meanwhile a worker loads
the site's own Python. From then on :func:`answer` runs the engine in the reader's browser, for any value of
any handle. If the page is opened from a folder, where browsers start no worker, it says so and offers only
the grid.
"""

from __future__ import annotations

import json
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from qflow.kit import RefusalError
from qflow.labs.html_export import (
    THEME,
    draw_still,
    pack_text,
    picture_data,
    script_element,
    script_json,
)
from qflow.labs.picture import Picture
from qflow.labs.running import refusal_text
from qflow.labs.share import run_of_token
from qflow.labs.words import story_of
from qflow.launch.book import FOLDER, ICON, PAGE, Page, group_pages, preview
from qflow.launch.cargo import FETCHED, OWN, write_engine, write_widgets
from qflow.launch.moments import MOMENTS, draw_run, link_card

ENGINE = "engine.zip"
"""The archive that the page's Python unpacks: qflow's wheel without chapters and recordings."""

WIDGETS = "widgets.zip"
"""The archive of the libraries that the labs of a chapter need besides qflow."""

SETTINGS = {"stop": 40, "resume": 10, "limit": 60, "capacity": 10, "prefetch": 4}
"""The page's initial settings. Stop threshold plus window stay within the limit for stops up to 50."""

STOPS = tuple(range(10, 61, 2))
"""The stop thresholds whose runs the page contains."""

_SLICE = 1_000
"""The size in bytes of the blocks by which the numbers of the runs are interleaved."""

_HANDLES = {
    "stop": (10, 60, 1),
    "resume": (1, 60, 1),
    "limit": (20, 80, 1),
    "capacity": (1, 20, 1),
    "prefetch": (1, 8, 1),
}
"""The settings that can be dragged once Python is loaded, each with its minimum, maximum and step."""

_LINKED = (
    "qflow: a message broker you can hold in your hand",
    "See what back-pressure does, drag a threshold, and ask why. Free, in your browser, exact to recordings "
    "of the real broker.",
)
"""The preview of a link to the page: title and text."""

_WAYS = {
    "start": "notebooks/00-tour.html",
    "team": "notebooks/teachers/README.html",
    "clients": "notebooks/reference/clients.html",
    "others": "notebooks/reference/other-brokers.html",
}
"""The pages that the first screen links to."""

_LISTS = {
    "paths": "Ways through it",
    "exercises": "Exercises",
    "teachers": "For teachers",
    "reference": "To look up",
}
"""The groups of pages that are listed below the chapters."""

_OWN_TO_EACH = ("topology", "count", "lasting", "numbers", "digest", "start", "turns", "deaths", "lanes")
"""The parts of a run's data that differ from run to run; all other parts are in the page once."""


def answer(settings: str) -> str:
    """Run the engine for settings, or for a shared run's token; return the picture or a refusal as JSON."""
    try:
        asked = json.loads(settings)
        if "token" in asked:
            token, shown = run_of_token(asked["token"])
            place = {"time": token.time, "back": token.back}
            return json.dumps({"pictures": picture_data(shown), "claims": shown.claims, "place": place})
        picture = draw_run({**SETTINGS, **asked})
    except Exception as error:  # a reader who only dragged a line is never shown a traceback
        return json.dumps({"refusal": refusal_text(error)})
    return json.dumps(_pack_run(picture))


def _grid() -> dict[str, Any]:
    """Return the runs in the page: their common part, and the rest of each run by its stop threshold."""
    drawn = [draw_run({**SETTINGS, "stop": stop}) for stop in STOPS]
    runs = {str(stop): _pack_run(picture) for stop, picture in zip(STOPS, drawn, strict=True)}
    numbers = [zlib.decompress(picture.frames.pack()) for picture in drawn]
    pictures = [run["picture"] for run in runs.values()]
    for picture, its in zip(pictures, numbers, strict=True):
        picture["numbers"] = len(its)
    shared = {key: value for key, value in pictures[0].items() if key not in _OWN_TO_EACH}
    for picture in pictures:
        for key, value in shared.items():
            if picture.pop(key) != value:
                raise AssertionError(f"{key} differs from run to run")
    # The runs are interleaved by slices: similar bytes are then close together, and compress to less than
    # half the size.
    places = range(0, max(map(len, numbers)), _SLICE)
    slices = (its[at : at + _SLICE].ljust(_SLICE, b"\0") for at in places for its in numbers)
    return {"shared": shared, "runs": runs, "numbers": pack_text(b"".join(slices))}


def write_front_door(site: Path, pages: Sequence[Page]) -> None:
    """Write the first page of a site, which links to the book's pages, over the one that JupyterLite made."""
    held = _grid()
    numbers = held.pop("numbers")
    begun = draw_run(SETTINGS)
    first = _pack_run(begun)
    values = {
        "settings": SETTINGS,
        "handles": [[setting, *bounds] for setting, bounds in _HANDLES.items()],
        "grid": [["stop", STOPS[0], STOPS[-1], STOPS[1] - STOPS[0]]],
        "first": {**first["picture"], "story": [asdict(beat) for beat in story_of(begun.frames)]},
        "runs": pack_text(json.dumps(held).encode()),
        "numbers": numbers,
        "slice": _SLICE,
    }
    text = (PAGE / "front.html").read_text(encoding="utf-8")
    drawn = text.format(
        theme=THEME,
        icon=ICON,
        preview=preview(*_LINKED, top=""),
        claims="".join(f"<li>{escape(claim)}</li>" for claim in first["claims"]),
        door=script_json(values),
        still=draw_still(begun),
        moments="".join(link_card(moment, "") for moment in MOMENTS),
        scripts=script_element("front.js", PAGE),
        **{name: f"{FOLDER}/{file}" for name, file in _WAYS.items()},
        **_list_links(pages),
    )
    (site / "index.html").write_text(drawn, encoding="utf-8")


def write_worker(site: Path) -> Path:
    """Write the script and the archives of the worker that runs Python in pages; return the script's path."""
    wheels = sorted((site / "pypi").glob(OWN))
    if not wheels:
        raise RefusalError(f"There is no wheel {OWN} in {site / 'pypi'}.")
    book = site / FOLDER
    write_engine(wheels[-1], book / ENGINE)
    write_widgets(site, book / WIDGETS)
    # Pyodide's main script is not counted, as a module is loaded without a way to report progress.
    engine = [site / "static" / "pyodide" / name for name in FETCHED] + [book / ENGINE]
    version = sha256(b"".join(path.read_bytes() for path in (*engine, book / WIDGETS))).hexdigest()[:12]
    sizes = {"bytes": sum(path.stat().st_size for path in engine), "widgets": (book / WIDGETS).stat().st_size}
    (book / "engine.json").write_text(json.dumps({"version": version, **sizes}), encoding="utf-8")
    return Path(shutil.copyfile(PAGE / "python.js", book / "python.js"))


def _pack_run(picture: Picture) -> dict[str, Any]:
    (drawn,) = picture_data(picture)
    return {"picture": drawn, "claims": picture.claims}


def _list_links(pages: Sequence[Page]) -> dict[str, str]:
    """Return the links to the book's pages as HTML, keyed by the placeholder in the first page."""
    found = group_pages(pages)
    link = '<a class="title" href="{}">{}</a>'
    links = {page: link.format(f"{FOLDER}/{page.file}", escape(page.title)) for page in pages}
    lists = {key: "".join(f"<li>{links[page]}</li>" for page in found[name]) for key, name in _LISTS.items()}
    chapters = []
    for page in found["The book"]:
        live = f'<a class="live" href="{page.live}">as a notebook</a>' if page.live else "<span></span>"
        chapters.append(f"<li>{links[page]}<p>{escape(page.about)}</p>{live}</li>")
    return {**lists, "chapters": "\n".join(chapters)}
