"""StoreListener: whoever hears what a message store is told from outside."""

from __future__ import annotations

from qflow.broker.restorable import Restorable


class StoreListener(Restorable):
    """Whoever wants to know what a store is told from outside; a broker does, for its observer."""

    __slots__ = ()

    def store_finishes(self, label: str) -> None:
        """Take note that the store is about to be done with a message."""
        raise NotImplementedError
