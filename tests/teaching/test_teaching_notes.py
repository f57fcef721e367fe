"""The teachers' material speaks of every chapter, and of nothing that does not exist."""

import re
from itertools import pairwise
from pathlib import Path

from qflow.conformance import check
from qflow.teaching import scenarios
from qflow.teaching.exercise import themes

SOURCES = Path(__file__).resolve().parents[2] / "notebooks" / "sources"
# From 90 on they are learning paths.
CHAPTERS = sorted(source.name[:2] for source in SOURCES.glob("[0-8][0-9]-*.py"))
PARTS = ("Why", "Pacing", "Where people trip", "What to say", "Exercises")


def read(root, name):
    return (root / "notebooks" / "teachers" / name).read_text(encoding="utf-8")


def test_every_chapter_has_its_notes(root):
    sections = re.split(r"^## ", read(root, "instructor-notes.md"), flags=re.MULTILINE)[1:]
    assert [section[:2] for section in sections] == CHAPTERS
    for section in sections:
        assert re.findall(r"^- \*\*([^*]+)\.\*\*", section, flags=re.MULTILINE) == list(PARTS)
        assert "minutes" in section


def test_chapters_are_numbered_without_a_gap():
    assert list(map(int, CHAPTERS)) == list(range(len(CHAPTERS)))
    assert len(CHAPTERS) >= 15


def test_the_exercises_named_exist_and_none_is_forgotten(root):
    named = set(re.findall(r"\*(\d\d-[a-z-]+)\*", read(root, "instructor-notes.md")))
    assert named == set(themes())


def test_profiles_have_a_path_of_chapters_and_exercises_that_exist(root):
    profiles = re.split(r"^## ", read(root, "learner-profiles.md"), flags=re.MULTILINE)[1:]
    assert len(profiles) >= 4
    for profile in profiles:
        path = re.search(r"\*\*Path:\*\* (.*)", profile)[1]
        chapters, _, exercises = path.partition("Exercises")
        assert set(re.findall(r"\d\d", chapters)) <= set(CHAPTERS)
        assert {f"{int(number):02d}" for number in re.findall(r"\d+", exercises)} <= {t[:2] for t in themes()}
        for part in ("Comes for", "Needs", "At the end"):
            assert part in profile


def test_each_chapter_ends_at_its_own_exercises_and_they_lead_to_the_next_chapter(root):
    """A theme has the number of its chapter; what follows the exercises is the chapter after it."""
    names = sorted(source.stem for source in SOURCES.glob("[0-8][0-9]-*.py"))
    for chapter, following in pairwise(names):
        theme = next((theme for theme in themes() if theme[:2] == chapter[:2]), None)
        if theme is None:
            continue
        last = (SOURCES / f"{chapter}.py").read_text(encoding="utf-8").rpartition("# %%")[2]
        assert f"](../exercises/{theme}.ipynb)" in last and f"]({following}.ipynb)" in last
        tasks = (root / "exercises" / "sources" / f"{theme}.py").read_text(encoding="utf-8")
        assert f"](../notebooks/{following}.ipynb)" in tasks.rpartition("# %%")[2]
    assert {theme[:2] for theme in themes()} <= set(CHAPTERS)


def test_chapters_and_exercises_speak_of_no_golden_scenario():
    for source in (*SOURCES.glob("*.py"), *(SOURCES.parents[1] / "exercises" / "sources").glob("*.py")):
        assert not re.search(r"golden|\bG-\d\d\b", source.read_text(encoding="utf-8")), source.name


def test_recordings_that_chapters_show_beside_the_model_agree_with_it():
    """What a chapter's table says below "what the real broker did" is so."""
    named = {
        (source.stem, scenario)
        for source in SOURCES.glob("*.py")
        for scenario in re.findall(r'qf\.beside\(\s*"([^"]+)"', source.read_text(encoding="utf-8"))
    }
    assert len(named) > 15
    known = scenarios()
    assert [(chapter, name) for chapter, name in sorted(named) if not check(known[name]).agrees] == []
