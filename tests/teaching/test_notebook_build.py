"""Building chapters: the same bytes twice, stable ids, no noise; and noticing drift."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from waiting import wait_until

from qflow.kit import RefusalError
from qflow.labs import flow_run
from qflow.labs.html_export import to_fragment
from qflow.maintain import __main__ as maintain
from qflow.maintain import notebooks

TINY = """\
# %% [markdown] id="intro"
# # Tiny

# %%
import ipywidgets as widgets

# %% tags=["nbval-ignore-output"]
print("an", object())

# %%
widgets.IntSlider(description="stop")

# %%
x = 1

# %%
x = 1
"""


def chapters_with(folder: Path, source: str, name: str = "01-tiny") -> notebooks.Chapter:
    """Write a chapter's source."""
    path = folder / "sources" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    return notebooks.Chapter(path)


def ids(chapter: notebooks.Chapter) -> list[str]:
    """List the cell ids of a chapter's source."""
    return [cell.id for cell in notebooks.read_source(chapter.source).cells]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A tiny chapter, built once."""
    chapter = chapters_with(tmp_path_factory.mktemp("chapters"), TINY)
    assert notebooks.build(folder=str(chapter.built.parent)) == 0
    return chapter


@pytest.fixture
def copy(built, tmp_path):
    """That chapter, in a folder a test may spoil."""
    chapter = chapters_with(tmp_path, TINY)
    chapter.built.write_bytes(built.built.read_bytes())
    return chapter


def check(chapter, capsys) -> tuple[int, str]:
    """Run the check as the command does."""
    status = maintain.main(["notebooks", "check", "--dir", str(chapter.built.parent)])
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    return status, said.err


class TestBuild:
    def test_the_same_bytes_twice(self, built):
        first = built.built.read_bytes()
        assert notebooks.build(["01-tiny"], folder=str(built.built.parent)) == 0
        assert built.built.read_bytes() == first
        assert not list(built.built.parent.glob(".*"))

    def test_a_built_notebook_holds_no_noise_of_its_run(self, built):
        text = built.built.read_text()
        notebook = json.loads(text)
        assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
        assert notebook["metadata"]["language_info"] == {"name": "python"}
        assert "widget-view" not in text
        assert "an <object object at 0xADDR>" in text
        assert "IntSlider(value=0, description='stop')" in text
        cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        assert [cell["execution_count"] for cell in cells] == [1, 2, 3, 4, 5]
        assert cells[1]["metadata"] == {"tags": ["nbval-ignore-output"]}

    @pytest.mark.parametrize(
        ("code", "said"),
        [
            ("1 / 0", "01-tiny.py: a cell failed with ZeroDivisionError; nothing was written."),
            ("import os\n\nos._exit(3)", "01-tiny.py: its kernel died; nothing was written."),
        ],
    )
    def test_a_cell_that_fails_writes_nothing(self, tmp_path, capsys, code, said):
        chapter = chapters_with(tmp_path, f"# %%\nprint('before')\n\n# %%\n{code}\n")
        assert maintain.main(["notebooks", "build", "--dir", str(tmp_path)]) == 1
        complaint = capsys.readouterr().err
        assert said in complaint and "Traceback (most recent call last):\n  File" not in complaint
        assert not chapter.built.exists()

    def test_ctrl_c_while_a_cell_runs_is_one_line(self, tmp_path):
        started = tmp_path / "started"
        chapter = chapters_with(
            tmp_path, f"# %%\nimport time\n\nopen({str(started)!r}, 'w').close()\ntime.sleep(60)\n"
        )
        command = [sys.executable, "-m", "qflow.maintain", "notebooks", "build", "--dir", str(tmp_path)]
        work = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(started.exists, "the cell runs")
        work.send_signal(signal.SIGINT)
        assert work.communicate(timeout=60) == ("", "qflow: interrupted\n")
        assert work.returncode == 130
        assert not chapter.built.exists()


class TestIds:
    def test_given_and_derived(self, tmp_path):
        chapter = chapters_with(tmp_path, TINY)
        names = ids(chapter)
        assert names[0] == "intro"
        assert len(set(names)) == len(names) == 6
        assert names == ids(chapter)

    def test_an_inserted_cell_leaves_the_others_alone(self, tmp_path):
        before = ids(chapters_with(tmp_path, TINY))
        after = ids(chapters_with(tmp_path, TINY.replace("# %%\nimport", "# %%\ny = 0\n\n# %%\nimport")))
        assert len(after) == len(before) + 1
        assert [name for name in after if name in before] == before

    @pytest.mark.parametrize(
        ("source", "why"),
        [
            ('# %% id="a"\n1\n\n# %% id="a"\n2\n', "'a' is used twice"),
            ('# %% id="a b"\n1\n', "'a b' may hold at most 64"),
        ],
    )
    def test_bad_ids_are_refused(self, tmp_path, source, why):
        with pytest.raises(RefusalError, match=why):
            ids(chapters_with(tmp_path, source))


class TestCheck:
    def test_an_unchanged_notebook_agrees_with_its_source(self, copy, capsys):
        assert check(copy, capsys) == (0, "")

    @pytest.mark.parametrize(
        ("source", "said"),
        [
            (TINY.replace('"stop"', '"resume"'), "cell 4 differs in its source"),
            (TINY + "\n# %%\ny = 2\n", "it has 6 cells, the source has 7"),
            (TINY.replace("nbval-ignore-output", "other"), "cell 3 differs in its metadata"),
        ],
    )
    def test_a_changed_source_is_reported(self, copy, capsys, source, said):
        copy.source.write_text(source)
        status, complaint = check(copy, capsys)
        assert status == 1
        assert f"differs from its source: {said}; build it again with: " in complaint
        assert "python -m qflow.maintain notebooks build 01-tiny" in complaint

    def test_a_missing_notebook(self, copy, capsys):
        copy.built.unlink()
        status, said = check(copy, capsys)
        assert (status, "is missing; build it again" in said) == (1, True)

    def test_a_notebook_without_a_source(self, copy, capsys):
        (copy.built.parent / "09-other.ipynb").write_text("{}")
        assert "09-other.ipynb has no source" in check(copy, capsys)[1]

    @pytest.mark.parametrize(
        ("part", "other", "said"),
        [
            ("{", "", "cannot be read as a notebook"),
            ('"execution_count": 5', '"execution_count": null', "never run"),
            ('"name": "python"\n', '"name": "python",\n "version": "3"\n', "traces of a run by hand"),
        ],
    )
    def test_a_notebook_changed_by_hand_is_reported(self, copy, capsys, part, other, said):
        copy.built.write_text(copy.built.read_text().replace(part, other))
        assert said in check(copy, capsys)[1]


def test_the_chapters_agree_with_their_sources(root, capsys):
    assert list((root / "notebooks" / "sources").glob("*.py"))
    status = maintain.main(["notebooks", "check", "--dir", str(root / "notebooks")])
    assert status == 0, capsys.readouterr().err


def test_the_chapters_name_no_folder_of_a_machine(root):
    built = sorted((root / "notebooks").glob("*.ipynb"))
    assert built
    for chapter in built:
        text = chapter.read_text()
        assert not re.search(r"/(?:home|root|Users|tmp)/|site-packages", text), chapter.name


def test_a_notebook_keeps_the_scripts_of_stored_runs_once():
    runs = [
        nbformat.v4.new_output("display_data", {"text/html": to_fragment(flow_run(messages=n))})
        for n in (5, 6)
    ]
    cells = [nbformat.v4.new_code_cell(outputs=[output]) for output in runs]
    before = [output.data["text/html"] for output in runs]
    notebooks._tidy(nbformat.v4.new_notebook(cells=cells))
    first, second = (output.data["text/html"] for output in runs)
    assert first == before[0] and len(second) < len(before[1]) / 2
    # For nbval a run that brings its scripts and one that does not are the same.
    for pattern, new in notebooks._sanitizing(are_stored=True):
        before[1], second = pattern.sub(new, before[1]), pattern.sub(new, second)
    assert before[1] == second and '"digest": "' in second


def test_folders_of_this_machine_are_replaced(root):
    assert notebooks._tidy_text(f"{root}/qflow/cli.py:1") == "qflow-checkout/qflow/cli.py:1"
    assert (
        notebooks._tidy_text("no folder here, <Queue at 0x7f21a4c0d5e0>")
        == "no folder here, <Queue at 0xADDR>"
    )


def code_lines(cell) -> list[str]:
    """List a cell's lines of code: those that are neither empty nor a comment."""
    lines = cell.source.splitlines() if cell.cell_type == "code" else []
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def test_the_tour_begins_with_a_lab_that_plays_and_is_short(root):
    cells = notebooks.read_source(root / "notebooks" / "sources" / "00-tour.py").cells
    title, lab = cells[:2]
    assert title.cell_type == "markdown" and len(title.source) < 300
    first, _, made, told = code_lines(lab)
    assert (first, told) == ("import qflow as qf", "tour.tell()")
    assert "qf.flow_lab(" in made
    assert sum(len(code_lines(cell)) for cell in cells) < 25


OPENINGS = {
    "01-thresholds": "qf.flow_lab",
    "02-bytes-and-counts": "qf.bytes_lab",
    "03-held-completions": "qf.completion_lab",
    "04-capacity": "qf.capacity_lab",
    "05-message-groups": "qf.group_lab",
    "06-well-behaved-consumers": "qf.group_lab",
    "07-configuration": "qf.config_lab",
    "08-several-queues": "qf.fanout_lab",
    "09-other-queues": "qf.policy_lab",
    "10-how-it-was-designed": "qf.history_lab",
}
"""Chapters that open with a lab, and which."""


@pytest.mark.parametrize("name", OPENINGS)
def test_a_chapter_opens_with_its_lab_and_its_predictions(root, name):
    cells = notebooks.read_source(root / "notebooks" / "sources" / f"{name}.py").cells
    lab = next(cell for cell in cells if OPENINGS[name] in cell.source)
    before = cells[: cells.index(lab)]
    # What is seen before the lab: short texts, and questions without the code that asks them.
    assert sum(len(cell.source) for cell in before if cell.cell_type == "markdown") < 1_500
    asking = [cell for cell in (*before, lab) if "predictions.ask(" in cell.source]
    assert asking and all(cell.metadata["jupyter"]["source_hidden"] for cell in asking)
    # From the start, where no answer is seen: it plays, or plays up to what it asks.
    plays = ".play()" in lab.source or "lab=" in lab.source
    assert plays or OPENINGS[name] == "qf.config_lab"  # a field to type in


def test_each_of_the_fifteen_surprises_is_shown_by_a_client(root):
    cells = notebooks.read_source(root / "notebooks" / "sources" / "15-your-own-clients.py").cells
    shown = {
        int(found[1]): code.source
        for text, code in zip(cells, cells[1:], strict=False)
        if (found := re.search(r"^### (\d+)\. ", text.source, re.MULTILINE))
    }
    assert [number for number, source in shown.items() if "qf.serve(" in source] == list(range(1, 16))
