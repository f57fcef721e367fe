"""Fixtures shared by the tests of all rooms."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import LabPage, LabServer, chromium_page, find_chromium, serve_chapters

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """JupyterLab, started by ``qflow lab`` on a copy of the chapters."""
    find_chromium()
    with serve_chapters(tmp_path_factory.mktemp("lab")) as server:
        yield server


# Not one for the whole session: while Playwright's event loop runs in this thread, no other can.
@pytest.fixture(scope="module")
def lab_page(lab_server: LabServer) -> Iterator[LabPage]:
    """A page of headless Chromium on that JupyterLab; see :class:`browser.LabPage`."""
    with chromium_page(lab_server) as page:
        yield page
