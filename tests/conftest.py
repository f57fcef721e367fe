"""Fixtures shared by the tests of all rooms."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from browser import VIEWPORT, LabPage, LabServer, chromium_page, end_chromium, find_chromium, serve_chapters

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


_OPEN: dict[LabPage, ExitStack] = {}
"""The page of JupyterLab, and what closes it; to load both takes as long as what is done with them."""


@pytest.fixture(scope="module")
def lab_page(lab_server: LabServer) -> LabPage:
    """A page of headless Chromium on that JupyterLab; see :class:`browser.LabPage`."""
    if not _OPEN:
        closing = ExitStack()
        _OPEN[closing.enter_context(chromium_page(lab_server))] = closing
    (page,) = _OPEN
    page.page_errors.clear()
    page.foreign_requests.clear()
    page.page.set_viewport_size(VIEWPORT)
    return page


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close that page if the next module does without, and Chromium if the next test does.

    While Playwright's event loop runs, no other can.
    """
    is_over = nextitem is None or nextitem.path != item.path
    if is_over and "lab_page" not in getattr(nextitem, "fixturenames", ()):
        while _OPEN:
            _OPEN.popitem()[1].close()
    if nextitem is None or nextitem.get_closest_marker("browser") is None:
        end_chromium()
