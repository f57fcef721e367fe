"""The moving picture of the README shows the run that would be written now."""

import pytest

from qflow.labs import flow_run


def test_the_picture_lasts_as_long_as_the_run_that_it_shows(root):
    """The durations of the images are compared, and not the images, as browsers draw differently."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("playwright")
    from PIL import ImageSequence

    from qflow.maintain.moving_picture import _stills

    file = root / "notebooks" / "images" / "flow.gif"
    with image.open(file) as made:
        # A still that is like the one before is shown for longer in its place.
        shown = sum(still.info["duration"] for still in ImageSequence.Iterator(made))
    assert shown == sum(stay for _, stay in _stills(flow_run()))
    assert file.stat().st_size < 1_000_000
    with image.open(file.with_name("preview.png")) as preview:
        assert preview.size == (1200, 630), "as other sites show it, uncut"
    text = (root / "README.md").read_text()
    assert text.index("notebooks/images/flow.gif") < text.index("<!-- command one -->")
