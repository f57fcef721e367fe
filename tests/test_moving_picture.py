"""The README's moving picture: the instants it shows, and that it moves."""

import pytest
from browser import find_chromium

from qflow.labs import flow_run
from qflow.launch import moving_picture


def test_it_shows_the_whole_turn_from_off_to_off():
    picture = flow_run()
    frames = picture.frames
    chosen = moving_picture.steps(picture, moving_picture.STILLS)
    assert chosen == sorted(chosen)
    states = [frames.at(step)["queue.orders.flow"] for step in chosen]
    assert (states[0], max(states), states[-1]) == (0, 1, 0)


def test_without_a_turn_it_shows_everything():
    picture = flow_run(messages=50)
    assert moving_picture.steps(picture, 3)[-1] == picture.frames.count - 1


@pytest.mark.browser
def test_the_picture_moves(tmp_path, monkeypatch):
    from PIL import Image

    find_chromium()
    monkeypatch.setattr(moving_picture, "STILLS", 4)
    with Image.open(moving_picture.write(tmp_path / "flow.gif")) as made:
        assert made.n_frames == 4


def test_the_readme_shows_it(root):
    text = (root / "README.md").read_text()
    assert text.index("notebooks/images/flow.gif") < text.index("<!-- command one -->")
    assert (root / "notebooks" / "images" / "flow.gif").stat().st_size < 1_000_000
