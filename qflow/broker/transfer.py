"""One ``Message.Transfer`` and what still holds its completion (the broker's AsyncCompletion).

Router: whatever a transfer can be handed to; a queue's alternate exchange is one (EX-09).
"""

from __future__ import annotations

from typing import ClassVar

from qflow.broker.message import HeaderValue, Message
from qflow.broker.restorable import Restorable
from qflow.broker.transactions import TxBuffer


class CommandOwner(Restorable):
    """Whoever wants to know that a command is complete; a session's completions are."""

    __slots__ = ()

    def transfer_complete(self, transfer: Transfer) -> None:
        """Take note that the last holder of ``transfer`` has let go."""
        raise NotImplementedError

    def report(self) -> None:
        """Tell the client what is complete."""
        raise NotImplementedError

    def block_channel(self, queue: str) -> None:
        """Tell the client to stop sending, as the Java broker does (ALT-12)."""
        raise NotImplementedError

    def unblock_channel(self, queue: str) -> None:
        """Let the client go on as far as this queue is concerned (ALT-12)."""
        raise NotImplementedError


class RoutingListener(Restorable):
    """Whoever wants to know that a transfer has been given to all its queues."""

    __slots__ = ()

    def routed(self, transfer: Transfer) -> None:
        """Take note that routing is over."""
        raise NotImplementedError


class Transfer(Restorable):
    """A message on its way from a producer, shared by all queues that got a copy.

    ``pending`` counts what the completion still waits for: routing itself, each stopped queue,
    the store (CM-02).  At 0 the owner is told, once.

    Parameters
    ----------
    owner : CommandOwner or None
        Told on completion; None for messages that no session sent.
    number : int
        The command's number in its session.
    message : Message
        The properties; never changed.
    size : int
        Bytes the broker counts, fixed when the transfer arrives (DQ-05).
    label : str
        Name for people and traces; "" for one made of origin and serial.
    expiration : int or None
        Virtual microseconds after which the message is dead (QT-07).
    origin, connection : str
        Names of the session and connection that sent it.
    serial : int
        How many transfers that session has sent, this one included.

    Examples
    --------
    >>> transfer = Transfer(None, 7, Message(100), 112, "p1-1")
    >>> transfer.hold("orders")
    True
    >>> transfer.end_routing(); transfer.held_by
    ('orders',)
    >>> transfer.let_go("orders"); transfer.is_complete
    True
    >>> transfer.hold("late")                                    # FC-22: too late to matter
    False
    """

    VOLATILE: ClassVar[tuple[str, ...]] = ("_made_label",)

    __slots__ = (
        "owner",
        "number",
        "message",
        "size",
        "_label",
        "_made_label",
        "expiration",
        "origin",
        "connection",
        "serial",
        "transaction",
        "annotations",
        "listener",
        "pending",
        "_holders",
    )

    def __init__(
        self,
        owner: CommandOwner | None,
        number: int,
        message: Message,
        size: int,
        label: str,
        expiration: int | None = None,
        origin: str = "",
        connection: str = "",
        serial: int = 0,
    ) -> None:
        self.owner = owner
        self.number = number
        self.message = message
        self.size = size
        self._label = label
        self._made_label: str | None = None
        self.expiration = expiration
        self.origin = origin
        self.connection = connection
        self.serial = serial
        self.transaction: TxBuffer | None = None
        self.annotations: dict[str, HeaderValue] | None = None
        self.listener: RoutingListener | None = None
        self.pending = 1
        self._holders: list[str] | None = None

    @property
    def label(self) -> str:
        """Name for people and traces."""
        if self._label:
            return self._label
        # Made when it is first asked for, as without a trace nobody asks; a trace asks again and again.
        if self._made_label is None:
            self._made_label = f"{self.origin}-{self.serial}"
        return self._made_label

    def is_expired(self, now: int) -> bool:
        """Return whether the message's time to live is over (QT-07)."""
        return self.expiration is not None and self.expiration < now

    def annotate(self, key: str, value: HeaderValue) -> None:
        """Add what the broker tells consumers beside the message's own headers (EX-11); not counted."""
        if self.annotations is None:
            self.annotations = {}
        self.annotations[key] = value

    def apart(self) -> Transfer:
        """Return the same message outside its transaction: complete, and nobody's to hold."""
        twin = Transfer(
            None,
            self.number,
            self.message,
            self.size,
            self._label,
            self.expiration,
            self.origin,
            self.connection,
            self.serial,
        )
        twin.annotations = self.annotations
        twin.finish()
        return twin

    @property
    def held_by(self) -> tuple[str, ...]:
        """Names of the queues (or the store) which withhold the completion, in order."""
        return tuple(self._holders or ())

    @property
    def is_complete(self) -> bool:
        """Whether nothing holds the completion any more."""
        return self.pending == 0

    def hold(self, holder: str) -> bool:
        """Withhold the completion; return whether that still means anything (FC-22)."""
        if not self.pending:
            return False
        self.pending += 1
        if self._holders is None:
            self._holders = []
        self._holders.append(holder)
        return True

    def let_go(self, holder: str) -> None:
        """End one hold; a holder the transfer does not know is ignored (CM-02)."""
        if self._holders and holder in self._holders:
            self._holders.remove(holder)
            self.finish()

    def end_routing(self) -> None:
        """Note that all queues have been tried; complete, if nothing holds (rules.md#order-of-events)."""
        if self.listener is not None:
            self.listener.routed(self)
        self.finish()

    def finish(self) -> None:
        """Take one off the count; at 0 the owner learns of the completion."""
        if not self.pending:
            return
        self.pending -= 1
        if not self.pending and self.owner is not None:
            self.owner.transfer_complete(self)


class Router(Restorable):
    """Routes transfers to queues."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def route(self, transfer: Transfer, delivery_count: int = -1) -> bool:
        """Give the transfer to every queue that a binding selects; return whether one did."""
        raise NotImplementedError

    def route_with_alternate(self, transfer: Transfer, delivery_count: int = -1) -> bool:
        """Route, or else through the alternate exchange, once (EX-08)."""
        raise NotImplementedError
