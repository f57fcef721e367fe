"""The labs of a page: the code that makes them live, and the kernel that runs it."""

import json
import subprocess
import sys

import nbformat
import pytest

from qflow.launch.book import EXECUTED_ONLY
from qflow.launch.page_labs import live_cells, without_keys


def chapters(root):
    """The chapters that a page can run, by their names."""
    paths = sorted((root / "notebooks").glob("[01]*.ipynb"))
    return {path.stem: path for path in paths if not path.name.startswith(EXECUTED_ONLY)}


def test_every_lab_that_a_chapter_stores_can_be_taken_over(root):
    for name, path in chapters(root).items():
        book = nbformat.read(path, as_version=4)
        live = live_cells(book)
        stored = [
            cell.id
            for cell in book.cells
            if any(
                "qflow-stored" in output.get("data", {}).get("text/html", "")
                for output in cell.get("outputs", ())
            )
        ]
        assert set(stored) <= {key for key, cell in live.items() if cell["kind"] == "lab"}, name
        for cell in live.values():
            assert set(cell["needs"]) <= set(live), name


def test_no_page_speaks_of_the_keys_of_a_notebook(root):
    for name, path in {path.stem: path for path in (root / "notebooks").glob("*.ipynb")}.items():
        book = nbformat.read(path, as_version=4)
        text = "".join(without_keys(cell.source) for cell in book.cells if cell.cell_type == "markdown")
        assert "Shift" not in text, name


_RUN = """
import asyncio, json, sys
from qflow.launch import page_kernel

posted = []
page_kernel.connect(lambda text, buffers: posted.append((json.loads(text), buffers)))
cells = json.loads(sys.stdin.read())
ask = lambda asked: json.loads(asyncio.run(page_kernel.answer(json.dumps(asked))))
shown = ask({"cells": cells})
(slider,) = [
    message["comm"]
    for message, _ in posted
    if message["data"].get("state", {}).get("description") == "qpid.flow_stop_count"
]
posted.clear()
ask({"comm": slider, "data": {"method": "update", "state": {"value": 700}, "buffer_paths": []}})
drawn = [message["data"]["state"]["run"] for message, buffers in posted if buffers]
print(json.dumps({"shown": shown, "drawn": drawn, "again": ask({"cells": cells}), "bad": ask({"cells": [
    {"id": "bad", "source": "1 / 0"}]})}))
"""


@pytest.fixture(scope="module")
def answered(root):
    """What the kernel of a page says in a process of its own: it stands in for IPython there."""
    live = live_cells(nbformat.read(chapters(root)["01-thresholds"], as_version=4))
    cells = [{"id": one, "source": live[one]["source"]} for one in (*live["lab-prose"]["needs"], "lab-prose")]
    done = subprocess.run(
        [sys.executable, "-c", _RUN], input=json.dumps(cells), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_a_moved_slider_draws_another_run_in_the_page(answered):
    assert len(answered["shown"]["shown"]) == 1
    assert answered["drawn"] == [2]


def test_a_cell_runs_once_and_an_error_is_a_sentence(answered):
    assert answered["again"] == answered["shown"]
    assert answered["bad"] == {"error": "ZeroDivisionError: division by zero"}
