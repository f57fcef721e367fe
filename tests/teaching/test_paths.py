"""Learning paths fit: what they ask for takes the minutes they give, for the slowest of three readers."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "notebooks" / "sources"
PATHS = sorted(SOURCES.glob("9*-path-*.py"))

SPEEDS = {"slow": 110, "middle": 160, "fast": 230}
"""Words a minute: of one who reads in a second language and thinks, up to one who knows the field."""

LINE, CELL, LAB, GUESS = 4, 12, 60, 60
"""Seconds besides: for a line of code that is shown, to run a cell and look, for a lab, for a guess."""

ITEM = re.compile(r"^\d+\. (?P<text>.*?)(?=^\d+\. |^$|\Z)", re.MULTILINE | re.DOTALL)


def cells(name: str, folder: Path = SOURCES):
    """Yield the head and body of each cell of a source."""
    for part in re.split(r"^# %%", (folder / f"{name}.py").read_text(encoding="utf-8"), flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        yield head, re.sub(r"^# ?", "", body, flags=re.M) if "[markdown]" in head else body


def questions(name: str, body: str) -> int:
    """Count the guesses that a cell asks for."""
    asked = tomllib.loads((ROOT / "data" / "predictions.toml").read_text(encoding="utf-8")).get(name, {})
    named = re.findall(r'"(\w+)"', " ".join(re.findall(r"\.ask\(([^)]*)\)", body)))
    return len(named) if named else len(asked) * (".ask(" in body)


@cache
def sections(name: str, speed: int) -> dict[str, float]:
    """Return the minutes of each section of a chapter, by its heading, in order."""
    minutes: dict[str, float] = {}
    heading = ""
    for head, body in cells(name):
        if "[markdown]" in head:
            found = re.search(r"^#+ (.+)$", body, re.M)
            heading = found[1] if found else heading
            words = len(re.findall(r"\w+", re.sub(r"\]\([^)]*\)", "]", body)))
            spent = words / speed
        else:
            lines = 0 if "source_hidden" in head else sum(bool(line.strip()) for line in body.splitlines())
            labs = bool(re.search(r"_lab\(|\.tell\(|Lab\(", body))
            spent = (lines * LINE + CELL + labs * LAB + questions(name, body) * GUESS) / 60
        minutes[heading] = minutes.get(heading, 0) + spent
    return minutes


def items(path: Path) -> list[tuple[str, int, str]]:
    """Return what a path consists of: the file it leads to or "", its minutes, and its text."""
    (text,) = (body for head, body in cells(path.stem) if 'id="title"' in head)
    found = []
    for line in re.findall(r"^\d+\. (.*(?:\n +.*)*)", text, re.M):
        item = " ".join(line.split())
        link = re.search(r"\]\(([^)]+)\.ipynb\)", item)
        found.append((link[1] if link else "", int(re.search(r"\*\*(\d+) minutes\*\*", item)[1]), item))
    return found


def named(item: str, mark: str) -> list[str]:
    """Return the headings after a mark, such as "Only:", up to the end of its sentence."""
    listed = re.search(rf"{mark}: ((?:\*[^*]+\*(?:, )?)+)\.", item)
    return re.findall(r"\*([^*]+)\*", listed[1]) if listed else []


def minutes_of(name: str, item: str, speed: int) -> float:
    """Return what an item of a path takes: its chapter, without what is left out."""
    spent = sections(name, speed)
    only, skipped = named(item, "Only"), named(item, "May be skipped")
    assert {*only, *skipped} <= set(spent), f"{name} has other headings"
    title = next(iter(spent))
    return sum(spent[heading] for heading in (title, *only) if only) or sum(
        minutes for heading, minutes in spent.items() if heading not in skipped
    )


def length(path: Path) -> int:
    """Return the minutes that a path promises in its second line."""
    said = re.search(r"^# \*(\d+)(½?) (minutes|hours)", path.read_text(encoding="utf-8"), re.M)
    return int(said[1]) * (1 if said[3] == "minutes" else 60) + (30 if said[2] else 0)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
class TestPaths:
    def test_its_parts_make_up_its_length(self, path):
        assert sum(minutes for _, minutes, _ in items(path)) == length(path)

    @pytest.mark.parametrize("speed", SPEEDS)
    def test_each_chapter_takes_no_longer_than_it_says(self, path, speed):
        chapters = [item for item in items(path) if (SOURCES / f"{item[0]}.py").exists()]
        assert len(chapters) >= 3
        for name, minutes, item in chapters:
            assert minutes_of(name, item, SPEEDS[speed]) <= minutes, name

    def test_no_time_is_left_over_for_the_slowest(self, path):
        for name, minutes, item in items(path):
            if (SOURCES / f"{name}.py").exists():
                assert minutes_of(name, item, SPEEDS["slow"]) > minutes - 2, name

    def test_it_has_an_exercise_and_a_break_in_time(self, path):
        since = 0
        exercises = [name for name, _, _ in items(path) if name.startswith("../exercises/")]
        assert exercises
        for name in exercises:
            tasks = (ROOT / "exercises" / "sources" / f"{name.rpartition('/')[2]}.py").read_text(
                encoding="utf-8"
            )
            (item,) = (item for link, _, item in items(path) if link == name)
            assert [task for task in re.findall(r"`(\w+)`", item) if f"qf.check({task})" not in tasks] == []
        for _, minutes, item in items(path):
            since = 0 if item.startswith("Break") else since + minutes
            assert since <= 115, "people sit too long"
