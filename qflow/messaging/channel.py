"""Channel: a session's attachment to the broker, and what its client has been told on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from qflow.broker import Message as BrokerMessage
from qflow.broker.range_set import RangeSet
from qflow.broker.semantic_state import OnDelivery
from qflow.messaging.holds import Holds, find_holds
from qflow.messaging.hosts import Host

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Channel:
    """Gives commands to one engine session, and hears its reports.

    Parameters
    ----------
    host : Host
        The broker.
    name, connection : str
        Names of the session and of its connection there.
    on_delivery : callable
        Called with each delivery, in the middle of any command of any client.
    """

    def __init__(self, host: Host, name: str, connection: str, on_delivery: OnDelivery) -> None:
        self.host = host
        self.engine = host.broker.session(name, connection)
        self.engine.completions.on_report = self._hear
        self.engine.consuming.on_delivery = on_delivery
        self._reported = RangeSet()
        self._synced_at = -1

    def _hear(self, completed: RangeSet) -> None:
        self._reported = completed

    @property
    def reported(self) -> RangeSet:
        """Commands of which the client knows that they are complete."""
        if self.host.broker.reporters:
            # A store finished something between two commands (CM-12); its report is on the way.
            self.host.broker.quiesce()
        return self._reported

    @property
    def next_number(self) -> int:
        """The number of the next command."""
        return self.engine.completions.next_number

    def run(
        self, method: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Give a command whose completion the client wants to know of, as the real client does.

        Raises
        ------
        AmqpException
            The broker's refusal; the session is gone then.
        """
        self.engine.completions.report_when_complete(self.next_number)
        return self.control(method, *args, **kwargs)

    def control(
        self, method: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Give a command or a control that asks for no report by itself."""
        self.host.begin()
        try:
            return method(*args, **kwargs)
        finally:
            self.host.events.publish()

    def transfer(self, message: BrokerMessage, exchange: str, sync: bool) -> int:
        """Send a message; return the number of the transfer."""
        number = self.next_number
        self.control(self.engine.message_transfer, message, exchange, sync)
        return number

    def sync(self, number: int) -> None:
        """Ask to be told when a command and all before it are complete, unless asked already (CM-06)."""
        if number > self._synced_at:
            self._synced_at = self.next_number
            self.control(self.engine.execution_sync)

    def is_confirmed(self, number: int) -> bool:
        """Return whether a command and all those before it are known to be complete (CM-14)."""
        ranges = self.reported.ranges()
        return bool(ranges) and ranges[0][0] == 0 and number <= ranges[0][1]

    def wait(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Wait in told time, until it is so or the session is gone."""
        self.host.wait(lambda: is_done() or not self.engine.is_attached, timeout)
        return is_done()

    def holds(self) -> Holds:
        """Describe the transfers whose completion is withheld."""
        return find_holds(self.host.broker, self.engine)
