"""The pytest fixture ``qflow_broker``, which runs the engine for real clients in a team's own tests.

pytest finds it where qflow is installed (entry point ``pytest11``)::

    def test_our_sender(qflow_broker):
        card = qflow_broker.check([sys.executable, "our_sender.py"])
        assert card.stops and card.loses_nothing

    def test_a_stopped_queue(qflow_broker):
        broker = qflow_broker("orders --flow-stop-count=10")
        ...  # connect to broker.url
        assert broker.broker.queue("orders").message_depth == 11

pytest loads only this module of qflow until a test uses the fixture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from qflow.live.client_card import ClientCard
    from qflow.live.serving import Serving


class Bench:
    """The value of the fixture: a call starts a broker, as :func:`qflow.live.serve` does, for one test."""

    def __init__(self, closing: ExitStack) -> None:
        self._closing = closing

    def __call__(self, *queues: str, **given: Any) -> Serving:
        """Start a broker with the given queues; clients connect to its ``url``."""
        from qflow.live.serving import serve

        return self._closing.enter_context(serve(*queues, **given))

    def check(self, command: Sequence[str], **conditions: Any) -> ClientCard:
        """Check a client program, as :func:`qflow.live.client_check.check_client` does."""
        from qflow.live.client_card import Conditions
        from qflow.live.client_check import check_client

        return check_client(command, Conditions(**conditions))


@pytest.fixture
def qflow_broker() -> Iterator[Bench]:
    """A :class:`Bench` for this test, which closes its brokers at the end."""
    with ExitStack() as closing:
        yield Bench(closing)
