"""qflow workshop: the folder for a room, and the script each laptop runs."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
from commands import refusal, run_python
from test_front_door import Links

from qflow.kit import RefusalError
from qflow.launch import cargo, site, workshop


@pytest.fixture(scope="module")
def room(tmp_path_factory) -> Path:
    """A workshop without what would have to be fetched."""
    with pytest.MonkeyPatch.context() as patch:
        asked = []
        patch.setattr(workshop, "fetch", lambda wheels, *kind: asked.append(kind[:2]))
        folder = workshop.prepare(
            tmp_path_factory.mktemp("workshop") / "room",
            systems=["here", "windows"],
            pythons=["3.11", "3.12"],
            with_site=False,
        )
        assert asked == [("here", "3.11"), ("here", "3.12"), ("windows", "3.11"), ("windows", "3.12")]
    return folder


@pytest.mark.release
def test_all_that_a_room_needs_is_there(room, root):
    assert {"start.py", "teacher.html", "notebooks", "wheels"} <= {path.name for path in room.iterdir()}
    (wheel,) = (room / "wheels").glob(cargo.OWN)
    assert wheel.name.endswith("py3-none-any.whl"), "one for all laptops, not compiled for this one"
    chapters = {path.name for path in (root / "notebooks").glob("*.ipynb")}
    assert chapters <= {path.name for path in (room / "notebooks").iterdir()}


@pytest.mark.release
def test_learners_get_neither_outputs_nor_solutions(room):
    notebooks = [*(room / "notebooks").rglob("*.ipynb")]
    assert (room / "notebooks" / "exercises" / "01-thresholds.ipynb") in notebooks
    cells = [cell for path in notebooks for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    assert [cell for cell in cells if cell.get("outputs")] == []
    assert [path for path in notebooks if "solutions" in path.parts] == []
    exercises = [path.read_text() for path in notebooks if path.parent.name == "exercises"]
    assert all("raise NotImplementedError" in text for text in exercises)


@pytest.mark.release
def test_live_without_a_compiler_is_refused_before_anything_is_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RefusalError, match=r"there is no C compiler \(cc\) here"):
        workshop.prepare(tmp_path / "room", extras=["live"], with_site=False)
    assert not (tmp_path / "room").exists()


@pytest.mark.parametrize("version", ["3.10", "3.9", "3.11.2", "4.11", "python3"])
def test_a_python_that_qflow_does_not_run_on_is_refused(version, capsys):
    said = refusal(capsys, "workshop", "--python", version)
    assert f"3.11 or later, such as {workshop._HERE}, got '{version}'" in said


def test_it_says_what_it_was_made_for(room):
    made = json.loads((room / "made-for.json").read_text())
    kinds = [[system, python] for system in (workshop._SYSTEM, "windows") for python in ("3.11", "3.12")]
    assert made == {"for": kinds, "with": []}


def write_wheel(wheels: Path) -> None:
    """Put an empty wheel of qflow where the command builds its own."""
    wheels.mkdir(exist_ok=True)
    (wheels / "qflow_kit-0-py3-none-any.whl").write_text("")


class TestWithExtras:
    """Chapter 13 needs Spark and a Java, chapter 15 Proton; both come as sources."""

    @pytest.fixture
    def asked(self, monkeypatch):
        asked = []
        monkeypatch.setattr(cargo, "run", lambda command, **options: asked.append(command))
        monkeypatch.setattr(cargo, "build_wheel", write_wheel)
        return asked

    def test_they_are_built_here_first(self, tmp_path, asked):
        folder = tmp_path / "room"
        workshop.prepare(folder, systems=["windows"], pythons=["3.99"], extras=["spark"], with_site=False)
        first, here, there = asked
        assert "download" in first and "wheel" in here and "download" in there
        assert first[-1].startswith("qflow-kit[lab] @ file:")
        # pip chooses for the oldest patch of each version; what is built here is held to that choice.
        assert f"--python-version={workshop._HERE}.0" in first
        assert "--python-version=3.99.0" in there
        assert "--constraint" in here
        for command in asked[1:]:
            assert command[-1].startswith("qflow-kit[lab,spark] @ file:")
        for command in asked:
            assert command[command.index("--find-links") + 1] == str(folder / "wheels")
        made = json.loads((folder / "made-for.json").read_text())
        assert made == {"for": [[workshop._SYSTEM, workshop._HERE], ["windows", "3.99"]], "with": ["spark"]}

    def test_proton_is_compiled_for_laptops_like_this_one_only(self, tmp_path, asked):
        with pytest.raises(RefusalError, match="leave out live, or --for and --python"):
            workshop.prepare(tmp_path / "room", systems=["here", "windows"], extras=["live"], with_site=False)
        assert (asked, [*tmp_path.iterdir()]) == ([], [])

    def test_the_command_says_what_there_is(self, capsys):
        assert "'sprak' is not one of spark, live" in refusal(capsys, "workshop", "--with", "sprak")


@pytest.mark.release
def test_an_older_workshop_is_brought_up_to_date(room, root, monkeypatch):
    monkeypatch.setattr(workshop, "fetch", lambda *arguments: None)
    # The wheel itself was built for the room a moment ago.
    monkeypatch.setattr(cargo, "build_wheel", lambda wheels: None)
    (room / "teacher.html").write_text("old")
    workshop.prepare(room, systems=["here", "windows"], pythons=["3.11", "3.12"], with_site=False)
    kept = root / "qflow" / "launch" / "room" / "teacher.html"
    assert (room / "teacher.html").read_bytes() == kept.read_bytes()


@pytest.mark.parametrize("name", ["thesis.txt", "start.py", "jupyter-lite.json"])
@pytest.mark.parametrize("what", ["workshop", "site"])
def test_nothing_else_is_overwritten(tmp_path, what, name):
    (tmp_path / name).write_text("years of work")
    builds = [site.build, site.check_ready, lambda folder: cargo.claim(folder, "site")]
    if what == "workshop":
        builds = [lambda folder: workshop.prepare(folder, with_site=False)]
    for build in builds:
        with pytest.raises(RefusalError, match=f"not a {what} of qflow; choose another with --out"):
            build(tmp_path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "years of work")]


def test_a_site_is_put_in_place_of_an_earlier_one_only(tmp_path):
    for text in ("old", "new"):
        built = tmp_path / "built"
        built.mkdir()
        (built / "index.html").write_text(text)
        site._replace(built, tmp_path / "out")
    assert (tmp_path / "out" / "index.html").read_text() == "new"
    workshops = tmp_path / "room"
    cargo.claim(workshops, "workshop")
    with pytest.raises(RefusalError, match="not a site"):
        site.check_ready(workshops)


def test_a_workshop_that_the_network_ended_is_gone_on_with(tmp_path, monkeypatch):
    def unreachable(*arguments):
        raise RefusalError("pip download failed. It could not reach the network.")

    monkeypatch.setattr(cargo, "build_wheel", write_wheel)
    monkeypatch.setattr(workshop, "fetch", unreachable)
    with pytest.raises(RefusalError, match="network"):
        workshop.prepare(tmp_path / "room", with_site=False)
    monkeypatch.setattr(workshop, "fetch", lambda *arguments: None)
    assert (workshop.prepare(tmp_path / "room", with_site=False) / "notebooks" / "00-tour.ipynb").exists()


def test_what_is_there_already_is_not_fetched(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(cargo, "run", lambda command: asked.append(command))
    write_wheel(tmp_path)
    workshop.fetch(tmp_path, "here", workshop._HERE)
    (command,) = asked
    assert "--no-index" in command


class TestRefusals:
    """Another program failed; what it said last is told, and whether the network was the trouble."""

    def refusal(self, said: str) -> str:
        program = f"import sys; sys.exit({said!r})"
        with pytest.raises(RefusalError) as refused:
            cargo.run([sys.executable, "-c", program])
        return str(refused.value)

    def test_the_last_line_is_told(self):
        assert self.refusal("first\nERROR: No such package").endswith("failed: No such package")

    def test_the_network_is_named(self):
        retry = "Retrying after NewConnectionError('... Temporary failure in name resolution')"
        said = f"{retry}\nERROR: No luck."
        assert self.refusal(said).endswith("failed: No luck. It could not reach the network.")


def test_a_system_nobody_has_wheels_for(tmp_path):
    with pytest.raises(RefusalError, match="linux, windows, macos-arm, macos-intel; got 'amiga'"):
        workshop.fetch(tmp_path, "amiga", "3.11")


def test_away_from_a_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cargo, "nearest_checkout", lambda: None)
    monkeypatch.setattr(cargo, "origin_folder", lambda: None)
    said = refusal(capsys, "workshop", "--no-site", "--out", tmp_path / "room")
    assert "built from its checkout" in said
    assert not (tmp_path / "room").exists()


def test_after_the_first_command_of_the_readme(root, tmp_path, monkeypatch):
    """It installs the checkout without `-e` and without a site's tools: qflow is not imported from it."""
    monkeypatch.setattr("qflow.kit.checkout_root", lambda: None)
    monkeypatch.chdir(root / "notebooks")
    assert cargo.find_checkout() == root
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cargo, "origin_folder", lambda: root)
    assert cargo.find_checkout() == root
    monkeypatch.setattr(site, "TOOLS", {"no_such_module": "JupyterLite"})
    with pytest.raises(RefusalError, match="JupyterLite is not installed here"):
        workshop.prepare(tmp_path / "room")
    assert not (tmp_path / "room").exists()


@pytest.mark.release
class TestStart:
    def test_an_old_python_gets_a_sentence(self, room, monkeypatch, capsys):
        main = runpy.run_path(str(room / "start.py"))["main"]
        monkeypatch.setattr(sys, "version_info", (3, 8))
        assert main([]) == 1
        said = capsys.readouterr().out
        here = f"This is Python 3.8 on {workshop._SYSTEM}"
        assert said.startswith(f"{here}; this folder was made for Python 3.11 on ")
        assert "start with it: " in said and "3.12 start.py" in said
        assert said.endswith(f"qflow workshop --for {workshop._SYSTEM} --python 3.8)\n")

    def test_a_laptop_of_another_kind_gets_the_site(self, room, monkeypatch, capsys):
        main = runpy.run_path(str(room / "start.py"))["main"]
        monkeypatch.setattr("platform.system", lambda: "Darwin")
        monkeypatch.setattr("platform.machine", lambda: "arm64")
        assert main([]) == 1
        said = capsys.readouterr().out
        assert "on macos-arm; this folder was made for " in said
        assert "Ask your teacher for the address of the site" in said

    def test_an_unknown_argument(self, room):
        done = run_python(room / "start.py", "--fast")
        assert (done.returncode, done.stdout) == (2, "start.py takes --check or nothing, got --fast\n")

    def test_a_package_that_is_missing_on_the_stick(self, room):
        # Nothing was fetched, so JupyterLab is not among the wheels.
        done = run_python(room / "start.py", "--check")
        assert done.returncode == 1
        assert "Show these lines to your teacher." in done.stdout
        assert "Traceback" not in done.stdout + done.stderr
        assert not (room / "environment" / "complete").exists(), "the next try has to begin anew"


def test_the_teachers_page_stands_alone(root):
    text = (root / "qflow" / "launch" / "room" / "teacher.html").read_text(encoding="utf-8")
    headings = re.findall(r"<(h[123])\b", text)
    assert headings[0] == "h1" and headings.count("h1") == 1
    page = Links(text)
    assert page.loads + page.links == []
    for part in ("Before", "During", "After"):
        assert f"<h2>{part}</h2>" in text
