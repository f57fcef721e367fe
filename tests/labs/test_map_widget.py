"""The map and the prose of a lab: a click on the map moves the lab, and the lab moves the dot."""

import asyncio

import pytest

from qflow.kit import RefusalError
from qflow.labs import capacity_lab, flow_lab, policy_lab, state_space_lab
from qflow.labs.map_widget import MapWidget


@pytest.fixture
def small():
    lab = flow_lab(messages=60, stop=100, resume=60, limit=160)
    return lab, lab.map(cells=12, messages=60)


def test_it_begins_with_the_coarse_cells_and_its_map_can_be_run_whole(small):
    _, made = small
    assert len(made.drawn.found) == 4 and "So far 4 of 144 are run" in made.words[1]
    made.drawn.run()
    assert len(made.drawn.found) == 144 and "Of all, with 60 messages each" in made.claims[1]
    assert len(made.cells) == 8 * 144 and len(made.courses) == 40 * 144


def test_a_click_moves_the_lab_in_one_run_and_an_own_slider_moves_the_dot(small):
    lab, made = small
    made.chosen = {"stop": 30, "capacity": 12, "number": 1}
    assert (lab.settings["stop"], lab.settings["capacity"], lab.settings["resume"]) == (30, 12, 30)
    assert lab.scene.run == 2 and not lab.scene.refusal and made.dot == [30, 12]
    drawn = made.drawn
    made.chosen = {"stop": 100, "capacity": 12, "number": 2}
    assert lab.settings["resume"] == 60
    lab.sliders["capacity"].value = 20
    assert made.dot == [100, 20] and made.drawn is drawn


def test_another_slider_begins_another_map(small):
    lab, made = small
    lab.sliders["limit"].value = 200
    assert made.drawn.limit == 200 and "the limit, 200" in made.words[0]
    assert made.axes["across"]["values"][-1] == 200
    drawn = made.drawn
    lab.sliders["resume"].value = 250
    assert lab.scene.refusal and made.drawn is drawn


def test_a_slider_that_moves_drops_the_runs_under_way():
    async def story():
        lab = flow_lab(messages=60, stop=100, resume=60, limit=160)
        made = lab.map(cells=12, messages=60)
        assert made._task is None
        made._handle_custom_msg({"ask": "runs"}, [])
        first, begun = made.drawn, made._task
        await asyncio.sleep(0)
        lab.sliders["limit"].value = 200
        await begun
        assert len(first.found) < 144
        await made._task
        return first, made

    first, made = asyncio.run(story())
    assert made.drawn is not first and len(made.drawn.found) == 144
    assert "Of all" in made.words[1]


def test_every_lab_with_a_stop_and_a_capacity_has_a_map():
    assert isinstance(flow_lab(messages=60).map(cells=2, messages=60), MapWidget)
    made = capacity_lab(messages=60).map(cells=2, messages=60)
    assert (made.drawn.up.setting, made.drawn.up.label) == ("capacity_1", "capacity of C1")
    with pytest.raises(RefusalError, match="no map"):
        state_space_lab(stop=1, resume=1, capacity_1=1, capacity_2=0).map()
    with pytest.raises(RefusalError, match="beside each other"):
        policy_lab(messages=60).map()


def test_without_a_kernel_it_is_a_drawing_with_its_words():
    made = capacity_lab(messages=60).map(cells=3, messages=60)
    bundle, _ = made._repr_mimebundle_()
    assert bundle["text/plain"] == "\n".join(made.claims)
    assert (
        bundle["image/svg+xml"].startswith("<svg") and "a session died of it (506)" in bundle["image/svg+xml"]
    )


# Prose


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
