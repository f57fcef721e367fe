"""Cells of a notebook that take long say how far they are."""

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")


def test_a_cell_that_takes_long_says_for_how_long_and_a_quick_one_nothing():
    cells = ("import time\nfrom qflow.spark import watch_cells\nwatch_cells()", "time.sleep(2.8)", "1")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=60).execute()
    said = [
        "".join(output.text for output in cell.outputs if output.output_type == "stream")
        for cell in notebook.cells
    ]
    # A busy machine looks later.
    assert int(said[1].partition(" s")[0]) >= 2
    assert said[2] == ""
