"""The README's moving picture: the instants it shows, and that it moves."""

from itertools import groupby

import pytest
from browser import find_chromium

from qflow.labs import flow_run
from qflow.maintain import __main__ as maintain
from qflow.maintain import moving_picture


def test_it_shows_both_turns_from_off_to_off_and_lingers_at_each():
    picture = flow_run()
    frames = picture.frames
    chosen = moving_picture.steps(picture, moving_picture.STILLS)
    assert chosen == sorted(chosen)
    states = [frames.at(step)["queue.orders.flow"] for step in chosen]
    assert [state for state, _ in groupby(states)] == [0, 1, 0, 1, 0]
    stays = moving_picture.pauses(picture, chosen)
    first_of_each = [number for number in range(1, len(states)) if states[number] != states[number - 1]]
    long_ones = [number for number, stay in enumerate(stays) if stay == moving_picture.LINGER]
    assert long_ones == [*first_of_each, len(chosen) - 1]


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


def test_the_picture_lasts_as_long_as_the_run_that_it_shows(tmp_path, capsys):
    pytest.importorskip("PIL")
    assert maintain.main(["moving-picture", "check"]) == 0
    assert maintain.main(["moving-picture", "check", str(tmp_path / "none.gif")]) == 1
    assert "is missing" in capsys.readouterr().err


def test_the_readme_shows_it(root):
    text = (root / "README.md").read_text()
    assert text.index("notebooks/images/flow.gif") < text.index("<!-- command one -->")
    assert (root / "notebooks" / "images" / "flow.gif").stat().st_size < 1_000_000
