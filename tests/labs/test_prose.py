"""Prose: numbers in a text that are a lab's own, and terms that light its marks up."""

from __future__ import annotations

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


def test_a_number_that_the_lab_does_not_have_is_refused():
    with pytest.raises(RefusalError, match="this lab has no handle 'size'; it has stop, resume, limit"):
        flow_lab(messages=60).prose("Each has {size} bytes.")
