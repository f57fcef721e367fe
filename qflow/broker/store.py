"""MessageStore: asynchronous storage of durable messages (CM-12).

The model keeps nothing on disk.  What it keeps is the *delay*: a durable transfer is complete when
the store is done with it **and** every stopped queue has let go.
"""

from __future__ import annotations

from typing import Protocol

from qflow.broker.message import Transfer, encodable, flag
from qflow.broker.snapshot import Flag, Text, mypyc_attr


class _StoreListener(Protocol):
    """The receiver of a store's reports: its broker, which emits them."""

    def store_finishes(self, label: str) -> None:
        """Handle the store's report that it is about to finish a message."""


STORE = "store"
"""By this name a store holds a transfer; see :attr:`qflow.broker.message.Transfer.held_by`."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageStore:
    """A store that finishes each message at once."""

    __slots__ = ("listener",)

    def __init__(self) -> None:
        self.listener: _StoreListener | None = None

    def enqueue(self, queue: str, transfer: Transfer) -> None:
        """Take a durable message for a queue."""

    def flush(self) -> None:
        """Finish the pending writes: a client syncs."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedStore(MessageStore):
    """A store that is done with a message when :meth:`finish` says so.

    >>> from qflow.broker import Broker, Message
    >>> store = DelayedStore()
    >>> session = Broker(store=store).session("p")
    >>> session.queue_declare("q")
    >>> transfer = session.message_transfer(Message(1, routing_key="q", durable=True))
    >>> transfer.held_by
    ('store',)
    >>> store.finish(transfer.label); transfer.is_complete
    True
    """

    __slots__ = ("flushes_on_sync", "_pending")

    def __init__(self, flushes_on_sync: Flag = False) -> None:
        super().__init__()
        self.flushes_on_sync = flag("flushes_on_sync", flushes_on_sync)
        self._pending: list[Transfer] = []

    @property
    def pending(self) -> list[str]:
        """Labels of the messages that are not stored yet, in order of arrival."""
        return [transfer.label for transfer in self._pending]

    def enqueue(self, queue: str, transfer: Transfer) -> None:
        """Hold the transfer until :meth:`finish` or :meth:`flush`."""
        if transfer.hold(STORE):
            self._pending.append(transfer)

    def finish(self, label: Text) -> None:
        """Finish one pending message, in any order; KeyError for any other."""
        label = encodable("label", label)
        for transfer in self._pending:
            if transfer.label == label:
                if self.listener is not None:
                    self.listener.store_finishes(label)
                self._pending.remove(transfer)
                transfer.release_hold(STORE)
                return
        raise KeyError(f"no message {label!r} is pending in the store; pending are {self.pending}")

    def flush(self) -> None:
        """Finish the pending writes, if this store flushes on a sync."""
        if self.flushes_on_sync:
            # A part of the command that syncs, and so no news for the listener.
            pending, self._pending = self._pending, []
            for transfer in pending:
                transfer.release_hold(STORE)
