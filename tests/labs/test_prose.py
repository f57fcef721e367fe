"""Prose: numbers in a text that are a lab's own, and terms that light its marks up."""

from __future__ import annotations

import nbformat
import pytest

from qflow.kit import RefusalError
from qflow.labs import capacity_lab, flow_lab

TEXT = "[orders](queue:orders) turns ON above {stop}; [C1](producer:C1) may have {capacity_1} outstanding."


def test_a_number_is_that_of_the_lab():
    lab = capacity_lab(messages=60)
    text = lab.prose(TEXT)
    assert repr(text) == "orders turns ON above 100; C1 may have 50 outstanding."
    lab.sliders["stop"].value = 90
    assert repr(text) == "orders turns ON above 90; C1 may have 50 outstanding."
    assert "<b>90</b>" in text._repr_mimebundle_()[0]["text/html"]
    text.close()
    lab.sliders["stop"].value = 80
    assert text.values["stop"] == 90, "a text that is closed hears nothing any more"


def test_a_number_that_the_lab_does_not_have_is_refused():
    with pytest.raises(RefusalError, match="this lab has no handle 'size'; it has stop, resume, limit"):
        flow_lab(messages=60).prose("Each has {size} bytes.")


@pytest.mark.browser
@pytest.mark.slow
def test_a_number_is_dragged_and_words_and_marks_light_each_other_up(lab_server, lab_page):
    code = "from qflow.labs import *\nlab = capacity_lab(messages=200)\nlab", f"lab.prose({TEXT!r})"
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(line) for line in code])
    made.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(made, lab_server.folder / "prose.ipynb")
    lab_page.open_notebook("prose.ipynb")
    lab_page.run_all()
    page = lab_page.page
    number = page.locator(".qf-prose-number[data-setting=stop]")
    number.scroll_into_view_if_needed()
    box = number.bounding_box()
    page.mouse.move(box["x"] + 10, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + 10 + 100, box["y"] + 8, steps=6)
    page.mouse.up()
    page.wait_for_function("() => document.querySelector('.qf-stage').dataset.stop === '120'")
    assert number.inner_text() == "120"
    number.focus()
    page.keyboard.press("ArrowUp")
    page.wait_for_function("() => document.querySelector('.qf-stage').dataset.stop === '121'")
    page.locator(".qf-prose-term", has_text="C1").hover()
    page.locator(".qf-lights .qf-producer.qf-lit[data-name=C1]").wait_for()
    page.mouse.move(2, 2)
    page.locator(".qf-lights").wait_for(state="detached")
    page.locator(".qf-producer[data-name=C1] .qf-name").hover()
    page.locator(".qf-prose-term.qf-is-named", has_text="C1").wait_for()
    assert lab_page.cell_errors() == []
    assert lab_page.page_errors == []
