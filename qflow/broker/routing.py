"""Router: whatever a transfer can be handed to; a queue's alternate exchange is one (EX-09)."""

from __future__ import annotations

from qflow.broker.restorable import Restorable
from qflow.broker.transfer import Transfer


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
