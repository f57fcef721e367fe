"""Moments: three pages that take a minute each, to be shared as links.

They are a depth to guess, a dead producer to explain, and a map on which one cell decides whether a producer
dies. Each asks its question with one picture that can be dragged at once, without Python: the engine makes
the necessary runs when the site is built. What the real broker did is taken from the kit's recordings. No
other figures are shown: a site without a server does not know the guesses of other readers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from qflow.design.settings_map import plan_map
from qflow.kit import kit_path
from qflow.labs.asking import Asking
from qflow.labs.experiments import CAPACITY, capacity_run, flow_run
from qflow.labs.html_export import THEME, pack_text, picture_data, script_element, script_json, to_fragment
from qflow.labs.knobs import begin, fit_levels
from qflow.labs.picture import Picture
from qflow.launch.book import FOLDER, ICON, OWN_SCRIPTS, PAGE, preview
from qflow.logs import ClientLog
from qflow.teaching.predictions import ChapterQuestion

CHAPTER = "notebooks/04-capacity.html"
"""The page of the chapter that the moments are about; it links to them."""


@dataclass(frozen=True)
class Moment:
    """One of the three pages: its name, its title and question, and the text of its preview picture."""

    name: str
    title: str
    question: str
    alt: str

    @property
    def picture(self) -> str:
        """The path of the preview picture, relative to the book's folder."""
        return f"notebooks/images/moment-{self.name}.png"


MOMENTS = (
    Moment(
        "guess",
        "The guess",
        "Flow control turns on above 100 messages. Two producers may have 50 and 15 messages unanswered. How "
        "deep does the queue get?",
        "A tank with a stop line at 100, and a mark to drag: how deep does it get?",
    ),
    Moment(
        "who",
        "Who killed p1?",
        "Flow control is on, and p1 is dead all the same. Scrub back to see it happen. Two settings are "
        "suspects: drag one until p1 lives.",
        "A dead producer, a full queue, and two lines that can be dragged.",
    ),
    Moment(
        "cliff",
        "The cliff",
        "Each cell is a queue of its own. Walk along the line with your finger: one cell over it, a producer "
        "dies.",
        "A map of stop thresholds and windows with a line across it, and beside it a tank.",
    ),
)
"""The three moments, in the order in which the first page of the site lists them."""

_SUSPECTS: dict[str, tuple[int, ...]] = {"stop": tuple(range(40, 61, 2)), "capacity": tuple(range(1, 13))}
"""The values of the two settings whose runs the second page contains; for other values it loads Python."""

_CASE: dict[str, Any] = {"stop": 54, "resume": 10, "limit": 60, "capacity": 10, "prefetch": 4}
_CLIENTS: dict[str, Any] = {"rate": 100.0, "service": 0.04}
"""The settings that have no handle: a burst of messages, and a consumer that needs 40 ms for each."""

_MESSAGES = 220
_CELLS = 16
_MAP_MESSAGES = 300

_SAID = '<div class="moment-said{}" role="status"></div>'
"""The element for the verdict; the gap takes the class that puts it above the picture."""

_BECAUSE = {
    "100": "the stop threshold itself is not above it, and turns nothing on",
    "101": "that is where flow control turns on; what is on its way then still arrives",
    "115": "C2's window is in it, and C1's is not",
    "150": "C1's window is in it, and C2's is not",
    "151": "C1's window is in it, and C2's is not",
    "180": "that is the limit of the queue, and it is not reached",
}


def write_moments(site: Path) -> None:
    """Write the three pages into the top folder of a site, and links to them into their chapter's page."""
    for moment, (body, held) in zip(MOMENTS, (_guess(), _who(), _cliff()), strict=True):
        text = (PAGE / "moment.html").read_text(encoding="utf-8")
        others = "".join(link_card(other, "") for other in MOMENTS if other is not moment)
        drawn = text.format(
            title=escape(moment.title),
            question=escape(moment.question),
            about=escape(moment.question),
            theme=THEME,
            icon=ICON,
            preview=preview(
                f"{moment.title} · qflow", moment.question, "", f"{FOLDER}/{moment.picture}", moment.alt
            ),
            body=f"{_still(moment)}{body}",
            held=script_json({"kind": moment.name, **held}),
            others=others,
            chapter=f"{FOLDER}/{CHAPTER}",
            scripts=script_element("moments.js", PAGE),
        )
        (site / f"{moment.name}.html").write_text(drawn, encoding="utf-8")
    chapter = site / FOLDER / CHAPTER
    text, end = chapter.read_text(encoding="utf-8"), '<nav aria-label="Before and after this page"'
    cards = "".join(link_card(moment, "../../") for moment in MOMENTS)
    linked = f'<h2 id="moments">To pass on: three moments</h2><div class="moments">{cards}</div>{end}'
    chapter.write_text(text.replace(end, linked, 1), encoding="utf-8")


def link_card(moment: Moment, top: str) -> str:
    """Return the HTML of a card with a moment's picture that links to the moment's page."""
    picture = f'<img src="{top}{FOLDER}/{moment.picture}" alt="" loading="lazy" width="600" height="315">'
    words = f"<b>{escape(moment.title)}</b><span>{escape(moment.question)}</span>"
    return f'<a class="moment-card" href="{top}{moment.name}.html">{picture}{words}</a>'


_STILL = re.compile(r"<noscript>.*?</noscript>", re.DOTALL)


def _still(moment: Moment) -> str:
    """Return the content for a browser without JavaScript: the preview picture, and a sentence."""
    picture = f'<img src="{FOLDER}/{moment.picture}" alt="{escape(moment.alt)}" width="600" height="315">'
    said = "Without JavaScript nothing can be dragged here; the chapter shows the runs."
    return f"<noscript><p>{said}</p>{picture}</noscript>"


def _guess() -> tuple[str, dict[str, Any]]:
    picture = capacity_run()
    question = ChapterQuestion(
        "deepest", "How deep does the queue get? Drag the mark, and let go.", mark="deepest", because=_BECAUSE
    )
    fragment = OWN_SCRIPTS.sub("", to_fragment(picture, asks=Asking(picture, [question]).to_store()))
    # Remove the still picture of the run: it shows how deep the queue gets, which is the answer.
    fragment = _STILL.sub("", fragment)
    return f"{fragment}{_SAID.format('')}", {"real": _recorded_depth()}


def _recorded_depth() -> dict[str, Any]:
    """Return the greatest queue depth that the real broker reported with two such producers."""
    folder = kit_path("data") / "recordings" / "workloads"
    heard = ClientLog.load(folder / "capacity-165.csv.gz").statistics("q")
    return {"deepest": max(report.msgDepth for report in heard), "reports": len(heard)}


def draw_run(settings: Mapping[str, float]) -> Picture:
    """Return the picture of a run of one producer, as the first page and the second moment have it."""
    return flow_run(messages=_MESSAGES, **_CLIENTS, **settings)


def _who() -> tuple[str, dict[str, Any]]:
    runs = {}
    for setting, values in _SUSPECTS.items():
        for value in values:
            (runs[f"{setting} {value}"],) = picture_data(draw_run({**_CASE, setting: value}))
    dead = draw_run(_CASE).frames
    time = dead.at(dead.deaths[0][0])["time"]
    handles = [[name, min(values), max(values), 1] for name, values in _SUSPECTS.items()]
    held = {"settings": _CASE, "handles": handles, "runs": pack_text(json.dumps(runs).encode()), "time": time}
    return f'{_SAID.format(" is-above")}<div class="door"></div>', held


def _cliff() -> tuple[str, dict[str, Any]]:
    # Computed as for the map of the lab, but without its widgets, as a site is built without ipywidgets.
    begins = begin("capacity_lab", CAPACITY.describe, CAPACITY.knobs, {})
    most = {knob.setting: knob.high for knob in fit_levels(CAPACITY.knobs, begins)}
    plan = plan_map(CAPACITY.describe, begins, "stop", "capacity_1", _CELLS, _MAP_MESSAGES, most)
    drawn = plan.run()
    held = {
        "stops": drawn.across.values,
        "windows": drawn.up.values,
        "other": int(drawn.settings["capacity_2"]),
        "limit": drawn.limit,
        "safe": drawn.is_safe,
        "cells": pack_text(drawn.pack()),
        "courses": pack_text(drawn.courses()),
    }
    return f'<div class="cliff"></div>{_SAID.format("")}', held
