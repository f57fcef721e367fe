"""The calibration page, written anew from all repeated recordings."""

import os
import sys

import pytest
from calibration import build


@pytest.mark.calibration
def test_the_page_is_written(root, capsys):
    replays = int(os.environ.get("QFLOW_CALIBRATION_REPLAYS", 0)) or None
    with capsys.disabled():
        made = build(root, replays, lambda line: print(line, file=sys.stderr))
    assert all(path.stat().st_size for path in made)
