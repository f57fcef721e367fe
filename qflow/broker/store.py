"""Message stores: the asynchronous storage of durable messages (CM-12).

The model stores nothing on disk, but it models the *delay*: a durable transfer is complete when the store has
finished it **and** every queue has released its hold.
"""

from __future__ import annotations

from typing import Protocol

from qflow.broker.message import Transfer, encodable, flag
from qflow.broker.snapshot import Flag, Text, mypyc_attr


class _StoreListener(Protocol):
    """The interface of the broker to its store, which reports finished messages to it."""

    def store_finishes(self, label: str) -> None:
        """Handle the report that the store is about to finish a message."""


STORE = "store"
"""The name of the store among the holders of a transfer (:attr:`qflow.broker.message.Transfer.held_by`)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class MessageStore:
    """A store that finishes each message at once, and the base class of other stores."""

    __slots__ = ("listener",)

    def __init__(self) -> None:
        self.listener: _StoreListener | None = None

    def enqueue(self, queue: str, transfer: Transfer) -> None:
        """Store a durable message that was enqueued on a queue."""

    def flush(self) -> None:
        """Finish the pending messages if possible, as a client has requested a sync."""


@mypyc_attr(allow_interpreted_subclasses=True)
class DelayedStore(MessageStore):
    """A store that finishes a message when :meth:`finish` is called.

    Parameters:
        flushes_on_sync: Whether a client's sync finishes all pending messages.

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
        """The labels of the messages that are not finished, in order of arrival."""
        return [transfer.label for transfer in self._pending]

    def enqueue(self, queue: str, transfer: Transfer) -> None:
        """Hold the transfer until :meth:`finish` or :meth:`flush`."""
        if transfer.hold(STORE):
            self._pending.append(transfer)

    def finish(self, label: Text) -> None:
        """Finish a pending message; the order of messages does not matter.

        Parameters:
            label: The label of the message.

        Raises:
            KeyError: If no message with this label is pending.
        """
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
        """Finish all pending messages, if the store was made with ``flushes_on_sync``."""
        if self.flushes_on_sync:
            # Not reported to the listener, as this is an effect of the command that requests the sync.
            pending, self._pending = self._pending, []
            for transfer in pending:
                transfer.release_hold(STORE)
