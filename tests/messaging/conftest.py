"""The bench that most tests of the messaging API work at."""

import pytest
from messaging_support import Bench


@pytest.fixture
def bench() -> Bench:
    """A broker of the test's own, with an open connection and a session."""
    return Bench()
