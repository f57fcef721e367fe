"""Acknowledging: what a session has received, and what becomes of it (CN-13 … CN-16, CM-11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qflow.broker import EXPLICIT
from qflow.broker.errors import AmqpException
from qflow.messaging.channel import Channel
from qflow.messaging.constants import REJECTED, RELEASED, UNLIMITED, Constant
from qflow.messaging.endpoint import Endpoint
from qflow.messaging.exceptions import Detached, InsufficientCapacity, Timeout
from qflow.messaging.message import Disposition, Message
from qflow.messaging.waiting import sync_blocks

if TYPE_CHECKING:
    from qflow.messaging.receiver import Receiver

ACCEPTED = Disposition(None)


class Acknowledging(Endpoint):
    """The side of a session that settles deliveries."""

    transactional: bool

    def __init__(self) -> None:
        super().__init__()
        self.channel: Channel | None = None
        self.incoming: list[Message] = []
        self.unacked: list[Message] = []
        self.ack_capacity: int | Constant = UNLIMITED
        self.in_transaction: list[int] = []
        self._unconfirmed: list[tuple[Message, int]] = []

    @property
    def acked(self) -> list[Message]:
        """Messages whose acknowledgement is not known to be complete."""
        channel = self.channel
        if channel is not None:
            self._unconfirmed = [
                (message, number) for message, number in self._unconfirmed if not channel.is_confirmed(number)
            ]
        return [message for message, _ in self._unconfirmed]

    def acknowledge(
        self, message: Message | None = None, disposition: Disposition | None = None, sync: bool = True
    ) -> None:
        """Settle a message, or all that have been fetched and not acknowledged.

        Parameters
        ----------
        message : Message or None
            As returned by ``fetch``; None for all.
        disposition : Disposition or None
            None accepts; ``Disposition(RELEASED)`` gives back, ``Disposition(REJECTED)`` refuses.
        sync : bool
            Wait until the broker has confirmed it.

        Raises
        ------
        InsufficientCapacity
            ``ack_capacity`` is 0.
        ValueError
            The message is not one that waits for acknowledgement here.
        SyncWouldBlock
            An earlier transfer of this session is held, and hides the confirmation (CM-14); the
            message is settled nevertheless.
        """
        self.check_error()
        channel = self.require_channel()
        messages = list(self.unacked) if message is None else [message]
        for one in messages:
            self._make_room(channel)
            if one not in self.unacked:
                raise ValueError(f"not waiting for acknowledgement in this session: {one!r}")
            one._disposition = disposition
            self.unacked.remove(one)
            if self.ack_capacity is not UNLIMITED:
                self._settle(channel, [one])
        if messages and self.ack_capacity is UNLIMITED:
            self._settle(channel, messages)
        self.check_error()
        if sync:
            self.wait_for_acks(None, "acknowledge", messages)

    def wait_for_acks(self, timeout: float | None, what: str, messages: list[Message] | None = None) -> None:
        """Wait until acknowledgements are confirmed: of some messages, or of all."""

        def is_done() -> bool:
            return not any(messages is None or one in messages for one in self.acked)

        if not self.acked:
            return
        channel = self.require_channel()
        if not self.wait(is_done, timeout):
            if timeout is None:
                raise sync_blocks(what, channel.holds())
            raise Timeout(f"{what} timed out")

    def wait(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Wait in told time; an error is raised instead."""
        raise NotImplementedError

    def fail(self, error: AmqpException) -> None:
        """Take note that the broker refused a command."""
        raise NotImplementedError

    def require_channel(self) -> Channel:
        """Return the attachment.

        Raises
        ------
        Detached
            There is none.
        """
        if self.channel is None:
            raise Detached(text="the session is not attached")
        return self.channel

    def forget_prefetched(self, receiver: Receiver) -> list[int]:
        """Drop what a receiver has not fetched; return the numbers of the deliveries."""
        dropped = [message for message in self.incoming if message._receiver is receiver]
        self.incoming = [message for message in self.incoming if message._receiver is not receiver]
        receiver.returned += len(dropped)
        return [message._transfer_id for message in dropped if message._transfer_id is not None]

    def forget_deliveries(self) -> list[int]:
        """Drop all deliveries that are not settled for good; return their numbers."""
        numbers = list(self.in_transaction)
        for message in [*self.unacked, *self.incoming]:
            if message._transfer_id is not None:
                numbers.append(message._transfer_id)
        self.in_transaction.clear()
        self.unacked.clear()
        self.incoming.clear()
        self._unconfirmed.clear()
        return sorted(numbers)

    def _make_room(self, channel: Channel) -> None:
        capacity = self.ack_capacity
        if isinstance(capacity, Constant):
            return
        if capacity <= 0:
            raise InsufficientCapacity(text=f"ack_capacity = {capacity}")
        if not self.wait(lambda: len(self.acked) < capacity, None):
            raise sync_blocks("acknowledge", channel.holds())

    def _settle(self, channel: Channel, messages: list[Message]) -> None:
        """Complete the deliveries, then settle runs of the same disposition with one command each."""
        numbers = [message._transfer_id for message in messages if message._transfer_id is not None]
        self._guarded(lambda: channel.control(channel.engine.session_completed, numbers))
        run: list[Message] = []
        for message in messages:
            if message._transfer_id is None or message._receiver.accept_mode != EXPLICIT:
                continue
            if run and not _same(run[-1]._disposition, message._disposition):
                self._dispose(channel, run)
                run = []
            run.append(message)
        if run:
            self._dispose(channel, run)

    def _dispose(self, channel: Channel, messages: list[Message]) -> None:
        disposition = messages[0]._disposition or ACCEPTED
        numbers = [message._transfer_id for message in messages if message._transfer_id is not None]
        command = channel.next_number
        self._unconfirmed += [(message, command) for message in messages]
        engine = channel.engine
        if disposition.type is RELEASED:
            again = bool(disposition.options.get("set_redelivered"))
            self._guarded(lambda: channel.run(engine.message_release, numbers, again))
        elif disposition.type is REJECTED:
            self._guarded(lambda: channel.run(engine.message_reject, numbers))
        else:
            self._guarded(lambda: channel.run(engine.message_accept, numbers))
            if self.transactional:
                self.in_transaction += numbers

    def _guarded(self, action: Callable[[], object]) -> None:
        try:
            action()
        except AmqpException as error:
            self.fail(error)


def _same(one: Disposition | None, other: Disposition | None) -> bool:
    first, second = one or ACCEPTED, other or ACCEPTED
    return first.type is second.type and first.options == second.options
