"""The exceptions of ``qpid.messaging``, with the names and base classes that programs catch.

One family is new.  If no other thread uses the broker, a call that the real client would let wait for ever
raises a :class:`WouldBlockForever`, whose text names what the call waits for.  Each of its subclasses is also
a subclass of the exception that the same call raises after a time-out.
"""

# ruff: noqa: N818  (the names are the real client's)

from __future__ import annotations

from collections.abc import Sequence

from qflow.broker.errors import AmqpException, SessionDetached, SessionException
from qflow.qflow_error import QflowError


class Timeout(QflowError):
    """The time-out of a call has expired, in virtual time."""


class MessagingError(QflowError):
    """The base class of the API's errors, except for :class:`Timeout`.

    Parameters:
        code: The broker's error code if the broker refused a command (rules.md#error-codes), or None.
        text: The reason.
        **info: Further values, which are shown after the text.

    >>> print(MessagingError(542, "invalid-argument: no"))
    invalid-argument: no(542)
    """

    def __init__(self, code: int | None = None, text: str | None = None, **info: object) -> None:
        self.code = code
        self.text = text
        self.info = info
        message = f"{text}" if code is None else f"{text}({code})"
        if info:
            message += " " + ", ".join(f"{key}={value!r}" for key, value in info.items())
        super().__init__(message)


class InternalError(MessagingError):
    """The client itself failed."""


class ConnectionError(MessagingError):
    """The connection has failed with all its sessions, or cannot be established."""


class ConnectError(ConnectionError):
    """There is no broker to connect to."""


class VersionError(ConnectError):
    """The peers speak different protocols."""


class AuthenticationFailure(ConnectError):
    """The peer rejects the user."""


class ConnectionClosed(ConnectionError):
    """The connection is not attached."""


class HeartbeatTimeout(ConnectionError):
    """The peer has sent nothing for longer than the heartbeat interval allows."""


class SessionError(MessagingError):
    """The session has ended: the broker refused one of its commands (LP-06)."""


class Detached(SessionError):
    """The call needs a session that is attached."""


class NontransactionalSession(SessionError):
    """A commit or rollback was called on a session that is not transactional."""


class TransactionError(SessionError):
    """The transaction failed."""


class TransactionAborted(TransactionError):
    """The transaction had no effect (LP-09)."""


class TransactionUnknown(TransactionError):
    """The outcome of the transaction is unknown."""


class UnauthorizedAccess(SessionError):
    """The broker forbids the command (error code 403)."""


class ServerError(SessionError):
    """The broker failed to perform the command (error code 541)."""


class SessionClosed(SessionError):
    """The session has been closed."""


class LinkError(MessagingError):
    """A sender or receiver cannot be created or used; its session remains usable."""


class InsufficientCapacity(LinkError):
    """The window of a sender stayed full until the time-out, or has a capacity of 0 (CAP-07)."""


class AddressError(LinkError):
    """The address is invalid."""


class MalformedAddress(AddressError):
    """The address does not follow the grammar (CF-14)."""


class InvalidOption(AddressError):
    """The address has an unknown option, or an option with a value that is not allowed (CF-14)."""


class ResolutionError(AddressError):
    """The node of the address does not exist, or differs from what the address asserts."""


class AssertionFailed(ResolutionError):
    """The node differs from what the address asserts (never raised: a wrong type raises NotFound, CF-15)."""


class NotFound(ResolutionError):
    """The node does not exist, and the address does not create it."""


class LinkClosed(LinkError):
    """The sender or receiver has been closed."""


class SenderError(LinkError):
    """A sender failed."""


class SendError(SenderError):
    """A message could not be sent."""


class TargetCapacityExceeded(SendError):
    """The queue is full, and the broker has ended the session (error code 506, LP-05)."""


class ReceiverError(LinkError):
    """A receiver failed, such as on a queue in another client's exclusive use (error code 405, CN-02)."""


class FetchError(ReceiverError):
    """A message could not be fetched."""


class Empty(FetchError):
    """No message came within the time-out."""


class ContentError(MessagingError):
    """The content does not match its content type; only the call fails, and the session remains usable."""


class EncodeError(ContentError):
    """The content cannot be encoded."""


class DecodeError(ContentError):
    """The content cannot be decoded."""


class WouldBlockForever(MessagingError):
    """A call that would wait for ever on the real client: no thread and no timer can end the wait.

    Attributes:
        held (tuple of str): Labels of the transfers whose completion is withheld, in the order sent.
        held_by (tuple of str): Names of the queues (or the store) that withhold them.
    """

    def __init__(self, text: str, held: Sequence[str] = (), held_by: Sequence[str] = ()) -> None:
        super().__init__(text=text)
        self.held = tuple(held)
        self.held_by = tuple(held_by)


class SendWouldBlock(WouldBlockForever, InsufficientCapacity):
    """A ``send`` without a time-out would wait for ever for room in a window whose transfers are held."""


class SyncWouldBlock(WouldBlockForever, Timeout):
    """A call without a time-out would wait for ever for completions behind a held transfer.

    ``sync``, ``send(sync=True)``, ``acknowledge``, ``close``, ``session.sender``, ``session.receiver``, and a
    ``fetch`` that withdraws its credit, all wait until every earlier command of the session is complete, too
    (CM-14, CAP-12).
    """


class FetchWouldBlock(WouldBlockForever, Empty):
    """A ``fetch`` without a time-out would wait for ever for a message, as no thread can send one."""


_BY_CODE: dict[int, type[MessagingError]] = {
    403: UnauthorizedAccess,
    404: NotFound,
    405: ReceiverError,
    506: TargetCapacityExceeded,
    541: ServerError,
}


def from_broker(error: AmqpException) -> MessagingError:
    """Return the exception of this API for an error that the broker raised."""
    if isinstance(error, SessionDetached):
        return Detached(text=error.text)
    if not isinstance(error, SessionException):
        return ConnectionError(error.code, str(error))
    return _BY_CODE.get(error.code, SessionError)(error.code, str(error))
