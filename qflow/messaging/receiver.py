"""Receiver: fetches messages, with credit as qpid-python grants it (CN-09)."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

from qflow.broker import BYTE_UNIT, CREDIT_MODE, EXPLICIT, INFINITE, MESSAGE_UNIT, NONE
from qflow.messaging.constants import UNLIMITED, Constant
from qflow.messaging.exceptions import Empty
from qflow.messaging.link import LinkEndpoint
from qflow.messaging.nodes import Link, Node, bind_all, declare_queue
from qflow.messaging.waiting import fetch_blocks

if TYPE_CHECKING:
    from qflow.messaging.channel import Channel
    from qflow.messaging.message import Message
    from qflow.messaging.session import Session

_UNRELIABLE = ("unreliable", "at-most-once")


class Receiver(LinkEndpoint):
    """Receives messages from a queue, or from an exchange through a queue of its own.

    Made by :meth:`Session.receiver`.

    Attributes
    ----------
    source : str or None
        The address.
    capacity : int or Constant
        How many messages are prefetched; 0 for none, ``UNLIMITED`` for all there are.
    threshold : float
        Credit is topped up when at most this share of the capacity is left.
    """

    ROLE = "receiver"
    ADDRESS_NAME = "source"

    def __init__(self, session: Session, id: int, source: str | None, options: dict[str, Any]) -> None:
        super().__init__(session, id, source, options)
        self.source = source
        self.threshold = 0.5
        self.queue = ""
        self.accept_mode = EXPLICIT
        self.received = 0
        self.returned = 0
        # Up to which message (counted like received) credit is wanted, and is granted; None: without end.
        self._granted: int | None = 0
        self._impending: int | None = 0
        self._is_open_for_bytes = False
        self._own_queue = ""
        self._capacity: int | None = 0
        self._set_capacity(options.get("capacity", 0))

    # Capacity

    @property
    def capacity(self) -> int | Constant:
        """How many messages are prefetched."""
        return UNLIMITED if self._capacity is None else self._capacity

    @capacity.setter
    def capacity(self, capacity: int | Constant) -> None:
        self._set_capacity(capacity)
        self._top_up()

    def _set_capacity(self, capacity: int | Constant) -> None:
        self._capacity = None if isinstance(capacity, Constant) else capacity
        self._want_credit()

    def _want_credit(self) -> None:
        self._granted = None if self._capacity is None else self.returned + self._capacity

    def available(self) -> int:
        """Return how many messages are here already, for ``fetch`` to return."""
        return self.received - self.returned

    def unsettled(self) -> int:
        """Return how many acknowledged messages the broker has not confirmed yet."""
        return sum(message._receiver is self for message in self.session.acked)

    # Fetching

    def fetch(self, timeout: float | None = None) -> Message:
        """Return the next message.

        Parameters
        ----------
        timeout : float or None
            Seconds of told time to wait for one; 0 takes what is there.

        Raises
        ------
        Empty
            None came.
        FetchWouldBlock
            None came, none can come, and there is no time-out: the real client would wait for ever.
        LinkClosed
            The receiver has been closed.

        Examples
        --------
        >>> from qflow.messaging import Connection
        >>> session = Connection.establish("doc-receiver").session()
        >>> receiver = session.receiver("orders; {create: always}")
        >>> session.sender("orders").send("to do")
        >>> receiver.fetch(timeout=1).content
        'to do'
        """
        channel = self._check_linked()
        message = self._fetch(channel, timeout)
        if message is None and timeout is None:
            raise fetch_blocks(channel.host.broker, [self.queue])
        if message is None:
            raise Empty(text=f"no message on {self.queue!r} within {timeout:g} s")
        return message

    def _fetch(self, channel: Channel, timeout: float | None) -> Message | None:
        if self._capacity == 0:
            self._granted = self.returned + 1
        if timeout == 0 and self._capacity == 0 and not self.available():
            self._fetch_one(channel)
        else:
            self._top_up()
            self.session.wait(lambda: self.available() > 0, timeout)
        message = self.session.take(self)
        if message is None:
            return self._drain(channel)
        if self._capacity and self.available() <= ceil(self.threshold * self._capacity):
            self._want_credit()
            self._top_up()
        return message

    def _fetch_one(self, channel: Channel) -> None:
        """Grant one and flush, in one write (RF-08): what is not there at once is not waited for."""
        if self._impending is None or self._impending > self.received:
            self._guarded(lambda: channel.run(channel.engine.message_flush, self._tag))
        else:
            self._guarded(lambda: channel.run(channel.engine.fetch, self._tag))
        self._credit_is_gone()
        self.check_error()

    def _drain(self, channel: Channel) -> Message | None:
        """Ask for what may have come at the last moment, and take the credit back (CN-07)."""
        if self._impending != self.received:
            self._guarded(lambda: channel.run(channel.engine.message_flush, self._tag))
            self._credit_is_gone()
            self.check_error()
        message = self.session.take(self)
        self._want_credit()
        self._top_up()
        return message

    # Credit

    @property
    def _tag(self) -> str:
        return str(self.id)

    def _credit_is_gone(self) -> None:
        self._impending = self.received
        self._granted = self.received
        self._is_open_for_bytes = False

    def _top_up(self) -> None:
        """Grant what is wanted and not granted yet; take credit back if less is wanted."""
        channel = self.session.channel
        if channel is None or not self.linked or self.closing:
            return
        if self._impending is not None and self._granted is not None:
            missing = max(self._granted, self.received) - self._impending
        else:
            missing = {(False, True): -1, (True, False): INFINITE}.get(
                (self._granted is None, self._impending is None), 0
            )
        if missing < 0:
            self._guarded(lambda: channel.run(channel.engine.message_stop, self._tag))
            self._impending = self.received
            self._is_open_for_bytes = False
            self._top_up()
        elif missing:
            # The broker delivers within the call, so this is noted before.
            self._impending = None if self._granted is None else (self._impending or 0) + missing
            self._guarded(lambda: self._grant(channel, missing))

    def _grant(self, channel: Channel, messages: int) -> None:
        engine = channel.engine
        with engine.pipelined():
            if not self._is_open_for_bytes:
                self._is_open_for_bytes = True
                channel.run(engine.message_flow, self._tag, BYTE_UNIT, INFINITE)
            channel.run(engine.message_flow, self._tag, MESSAGE_UNIT, messages)

    def stop(self) -> None:
        """Take all credit back, before a rollback."""
        channel = self.session.channel
        if channel is not None and self.linked:
            self._guarded(lambda: channel.run(channel.engine.message_stop, self._tag))

    def restart(self) -> None:
        """Forget what was delivered, after a rollback has given it back, and ask for it again."""
        self.returned = self.received
        self._credit_is_gone()
        self._want_credit()
        self._top_up()

    # Attaching

    def _attach(self, channel: Channel, address: Link, node: Node) -> None:
        default = "unreliable" if node.type == "topic" else "at-least-once"
        reliability = address.link.get("reliability") or default
        self.accept_mode = NONE if reliability in _UNRELIABLE else EXPLICIT
        if node.type == "topic":
            self._make_queue(channel, address, node, reliability)
        else:
            self.queue = address.name
            bind_all(channel, address.link, queue=self.queue)
        subscribe = {
            str(key).replace("-", "_"): v for key, v in (address.link.get("x-subscribe") or {}).items()
        }
        arguments = dict(subscribe.get("arguments") or {})
        if address.link.get("selector"):
            arguments["x-apache-selector"] = address.link["selector"]
        channel.run(
            channel.engine.message_subscribe,
            self.queue,
            self._tag,
            accept_mode=int(subscribe.get("accept_mode", self.accept_mode)),
            acquire_mode=int(subscribe.get("acquire_mode", address.options.get("mode") == "browse")),
            exclusive=bool(subscribe.get("exclusive")),
            arguments=arguments,
        )
        channel.run(channel.engine.message_set_flow_mode, self._tag, CREDIT_MODE)
        self._credit_is_gone()
        self._want_credit()
        self.linked = True
        self._top_up()

    def _make_queue(self, channel: Channel, address: Link, node: Node, reliability: str) -> None:
        """Declare and bind the queue through which messages of an exchange come."""
        link = address.link
        self.queue = link.get("name") or f"{self.session.name}.{self._tag}"
        overrides = dict(link.get("x-declare") or {})
        if link.get("timeout"):
            overrides["arguments"] = {
                "qpid.auto_delete_timeout": link["timeout"],
                **(overrides.get("arguments") or {}),
            }
        declare_queue(
            channel,
            self.queue,
            overrides,
            durable=bool(link.get("durable")),
            exclusive=True,
            auto_delete=reliability == "unreliable",
        )
        self._own_queue = self.queue if overrides.get("exclusive", True) else ""
        subject = address.subject or ("#" if node.subtype == "topic" else None)
        if not bind_all(channel, link, self.queue, address.name, subject):
            channel.run(channel.engine.exchange_bind, self.queue, address.name, subject or "")

    def _detach(self, channel: Channel, address: Link) -> None:
        """Cancel, delete the queue if it is this receiver's own, give back what was prefetched."""
        channel.run(channel.engine.message_cancel, self._tag)
        if self._own_queue:
            channel.run(channel.engine.queue_delete, self._own_queue)
        numbers = self.session.forget_prefetched(self)
        if numbers:
            channel.run(channel.engine.message_release, numbers, True)

    def detached(self) -> None:
        """Take note that the connection is gone."""
        super().detached()
        self._credit_is_gone()

    def _leave(self) -> None:
        if self in self.session.receivers:
            self.session.receivers.remove(self)


__all__ = ["Receiver"]
