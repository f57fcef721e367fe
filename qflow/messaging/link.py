"""Link: what senders and receivers share: an address, its node, and a life that ends once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qflow.broker.errors import AmqpException
from qflow.messaging.address import LexError, ParseError, parse
from qflow.messaging.address_options import find_error
from qflow.messaging.endpoint import Endpoint
from qflow.messaging.exceptions import Detached, InvalidOption, LinkClosed, LinkError, MalformedAddress
from qflow.messaging.nodes import Link as LinkAddress
from qflow.messaging.nodes import Node, delete, resolve

if TYPE_CHECKING:
    from qflow.messaging.channel import Channel
    from qflow.messaging.session import Session


class TemporaryAddress(str):
    """An address whose ``#`` has become a name of its own: the node is made for this one use."""

    __slots__ = ()


class LinkEndpoint(Endpoint):
    """A sender or receiver of a session.

    Attributes
    ----------
    session : Session
        Where it belongs.
    options : dict
        As given to ``session.sender`` or ``session.receiver``; what is not known is ignored.
    linked, closed : bool
        Whether it is attached to its node; whether it has ended.
    """

    ROLE = ""
    ADDRESS_NAME = ""

    def __init__(self, session: Session, id: int, address: str | None, options: dict[str, Any]) -> None:
        super().__init__()
        self.session = session
        self.id = id
        self.options = options
        self.linked = False
        self.closing = False
        self.closed = False
        self._given = address
        self._address: LinkAddress | None = None

    # Errors

    def get_error(self) -> Exception | None:
        """Return what went wrong here, in the session, or in the connection; or None."""
        return self.session.get_error() or self._error

    def check_closed(self) -> None:
        """Refuse a call on a link that has ended.

        Raises
        ------
        LinkClosed
            If it has.
        """
        if self.closed:
            raise LinkClosed(text=f"the {self.ROLE} for {self._given!r} is closed")

    def _check_linked(self) -> Channel:
        """Return the channel to work on, or raise why there is none."""
        self.check_error()
        self.check_closed()
        channel = self.session.channel
        if channel is None or not self.linked:
            raise Detached(text=f"the {self.ROLE} for {self._given!r} is not attached")
        return channel

    # Linking

    def link(self) -> None:
        """Attach to the node of the address, unless that has been done or has failed before.

        What goes wrong is kept as the link's or the session's error.
        """
        channel = self.session.channel
        if channel is None or self.linked or self.closed or self._error is not None:
            return
        try:
            self._address = self._parse()
            self._attach(channel, self._address, resolve(channel, self._address))
        except LinkError as error:
            self.closed = True
            self.error = error
        except AmqpException as error:
            self.session.fail(error)
        else:
            self.linked = True

    def detached(self) -> None:
        """Take note that the connection is gone; the next one attaches anew."""
        self.linked = False

    def _parse(self) -> LinkAddress:
        if self._given is None:
            raise MalformedAddress(text=f"{self.ADDRESS_NAME} is None")
        try:
            name, subject, parsed = parse(self._given)
        except (LexError, ParseError) as error:
            raise MalformedAddress(text=str(error)) from error
        error_text = find_error(parsed or {}, self.ROLE)
        if error_text:
            raise InvalidOption(text=f"error in options: {error_text}")
        options: dict[str, Any] = {str(key): value for key, value in (parsed or {}).items()}
        if isinstance(self._given, TemporaryAddress):
            _make_temporary(options)
        return LinkAddress(name, subject, options, self.ROLE)

    def _attach(self, channel: Channel, address: LinkAddress, node: Node) -> None:
        raise NotImplementedError

    # Closing

    def close(self, timeout: float | None = None) -> None:
        """End the link, and delete its node if the address says so.

        Parameters
        ----------
        timeout : float or None
            Seconds of told time to wait for what is outstanding.
        """
        self.closing = True
        channel, address = self.session.channel, self._address
        try:
            if self.linked and not self.closed and channel is not None and address is not None:
                self.check_error()
                self._unlink(channel, address)
                if self.session.error is None:
                    self.closed = True
                self.check_error()
            elif not self.linked:
                self.closed = True
        finally:
            self._leave()

    def _unlink(self, channel: Channel, address: LinkAddress) -> None:
        def end() -> None:
            self._detach(channel, address)
            if address.wants("delete"):
                delete(channel, address)

        self._guarded(end)

    def _guarded(self, action: Callable[[], object]) -> None:
        """Do something with the broker; a refusal becomes the session's error."""
        try:
            action()
        except AmqpException as error:
            self.session.fail(error)

    def _detach(self, channel: Channel, address: LinkAddress) -> None:
        raise NotImplementedError

    def _leave(self) -> None:
        raise NotImplementedError


def _make_temporary(options: dict[str, Any]) -> None:
    """Let the node be made, and go with the session that uses it."""
    options["create"] = "always"
    declare = options.setdefault("node", {}).setdefault("x-declare", {})
    declare.setdefault("auto-delete", True)
    declare.setdefault("exclusive", True)
