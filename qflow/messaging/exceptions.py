"""The exceptions of ``qpid.messaging``, with the names and ancestors that programs catch.

One family is new.  Where no other thread uses the broker, a call that waits without end has nothing to wait
for, so it raises a :class:`WouldBlockForever`, which says what it waits for.  Each of its kinds is also the
exception that the same call raises after a time-out.
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
        code: The broker's code, if the broker refused something (rules.md#error-codes).
        **info: Shown behind the text.

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
    """The connection has failed with all its sessions, or cannot be made."""


class ConnectError(ConnectionError):
    """There is no broker to connect to."""


class VersionError(ConnectError):
    """The peers speak different protocols."""


class AuthenticationFailure(ConnectError):
    """The peer rejects the user."""


class ConnectionClosed(ConnectionError):
    """The connection is not attached."""


class HeartbeatTimeout(ConnectionError):
    """The peer fell silent."""


class SessionError(MessagingError):
    """The session has ended: the broker refused one of its commands (LP-06)."""


class Detached(SessionError):
    """The call needs a session that is attached."""


class NontransactionalSession(SessionError):
    """Commit or rollback on a session that is not transactional."""


class TransactionError(SessionError):
    """The transaction failed."""


class TransactionAborted(TransactionError):
    """The transaction had no effect (LP-09)."""


class TransactionUnknown(TransactionError):
    """The outcome of the transaction is unknown."""


class UnauthorizedAccess(SessionError):
    """403: the broker forbids it."""


class ServerError(SessionError):
    """541: the broker failed."""


class SessionClosed(SessionError):
    """The session has been closed."""


class LinkError(MessagingError):
    """A sender or receiver cannot be made or used; its session lives on."""


class InsufficientCapacity(LinkError):
    """The window of a sender stayed full until the time-out, or has no room at all (CAP-07)."""


class AddressError(LinkError):
    """The address is invalid."""


class MalformedAddress(AddressError):
    """The address does not follow the grammar (CF-14)."""


class InvalidOption(AddressError):
    """The address has an option that is unknown, or a value that is not allowed (CF-14)."""


class ResolutionError(AddressError):
    """The address names a missing node, or one that differs from its description."""


class AssertionFailed(ResolutionError):
    """The node differs from the address; qpid-python compares its type only, which is NotFound (CF-15)."""


class NotFound(ResolutionError):
    """The node does not exist, and the address does not create it."""


class LinkClosed(LinkError):
    """The sender or receiver has been closed."""


class SenderError(LinkError):
    """A sender failed."""


class SendError(SenderError):
    """A message could not be sent."""


class TargetCapacityExceeded(SendError):
    """506: the queue is full (LP-05); the session has ended."""


class ReceiverError(LinkError):
    """405: another client has exclusive use of the queue (CN-02)."""


class FetchError(ReceiverError):
    """A message could not be fetched."""


class Empty(FetchError):
    """No message came within the time-out."""


class ContentError(MessagingError):
    """The content does not fit its type; the call fails, everything else continues."""


class EncodeError(ContentError):
    """The content cannot be encoded."""


class DecodeError(ContentError):
    """The content cannot be decoded."""


class WouldBlockForever(MessagingError):
    """An endless wait of the real client: no thread and no timer can fulfil its condition.

    Attributes:
        held (tuple of str): Labels of the transfers whose completion is withheld, in the order sent.
        held_by (tuple of str): Names of the queues (or the store) that withhold them.
    """

    def __init__(self, text: str, held: Sequence[str] = (), held_by: Sequence[str] = ()) -> None:
        super().__init__(text=text)
        self.held = tuple(held)
        self.held_by = tuple(held_by)


class SendWouldBlock(WouldBlockForever, InsufficientCapacity):
    """``send`` without a time-out waits for room in a window whose messages are held."""


class SyncWouldBlock(WouldBlockForever, Timeout):
    """A call waits without a time-out for completions that a held transfer hides.

    ``sync``, ``send(sync=True)``, ``acknowledge``, ``close``, ``session.sender``, ``session.receiver``, and a
    ``fetch`` that has to take its credit back, all wait for an unbroken row of completions (CM-14, CAP-12).
    """


class FetchWouldBlock(WouldBlockForever, Empty):
    """``fetch`` without a time-out waits for a message that no thread can send."""


_BY_CODE: dict[int, type[MessagingError]] = {
    403: UnauthorizedAccess,
    404: NotFound,
    405: ReceiverError,
    506: TargetCapacityExceeded,
    541: ServerError,
}


def from_broker(error: AmqpException) -> MessagingError:
    """Return the API's exception for a refusal of the broker."""
    if isinstance(error, SessionDetached):
        return Detached(text=error.text)
    if not isinstance(error, SessionException):
        return ConnectionError(error.code, str(error))
    return _BY_CODE.get(error.code, SessionError)(error.code, str(error))
