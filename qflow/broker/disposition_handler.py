"""DispositionHandler: what a consumer does with the messages it was given."""

from __future__ import annotations

from collections.abc import Iterable

from qflow.broker.command import command, require_attached
from qflow.broker.errors import AmqpException
from qflow.broker.session_state import SessionState


class DispositionHandler(SessionState):
    """Accept, release, reject, acquire, complete."""

    __slots__ = ()

    def message_accept(self, transfers: Iterable[int]) -> None:
        """Take responsibility for deliveries; at commit, in a transaction (CN-13, CM-11)."""
        # What @command does, written out: every message passes here.
        require_attached(self, "message.accept")
        number = self.begin()
        if self.core.observer is not None:
            transfers = tuple(transfers)
            self.show_transfers("message.accept", transfers, number)
        try:
            self.consuming.accept(transfers, self.tx_accept)
        except (AmqpException, TypeError, ValueError) as error:
            self.give_up(error, number)
            raise
        self.completions.complete(number)
        self.quiesce()

    @command("message.release")
    def message_release(self, transfers: Iterable[int], set_redelivered: bool = False) -> None:
        """Give deliveries back to their queues, at their old places (CN-14, CN-15)."""
        self.consuming.release(transfers, set_redelivered)

    @command("message.reject")
    def message_reject(self, transfers: Iterable[int]) -> None:
        """Refuse deliveries: they are dropped or go to the alternate exchange (CN-16)."""
        self.consuming.reject(transfers)

    @command("message.acquire")
    def message_acquire(self, transfers: Iterable[int]) -> list[int]:
        """Claim browsed deliveries; return the numbers of those that were granted (RF-02)."""
        return self.consuming.acquire(transfers)

    def session_completed(self, transfers: Iterable[int] = ()) -> None:
        """Tell the broker that deliveries are processed, which moves windows on (CN-06, RF-04)."""
        # A control, so it has no number and is never completed; written out like message_accept.
        require_attached(self, "session.completed")
        self.control()
        if self.core.observer is not None:
            transfers = tuple(transfers)
            self.show_transfers("session.completed", transfers)
        try:
            self.consuming.complete(transfers)
        except AmqpException as error:
            self.give_up(error)
            raise
        self.quiesce()
