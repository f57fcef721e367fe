"""The AMQP 0-10 exceptions, with the broker's codes and wording.

Every refusal of the broker is one of these classes. ``str(error)`` reads as the real broker
prints it (``resource-limit-exceeded: Maximum depth exceeded on q: …``), so that a learner can
search for the very words a production log shows.  Their codes: rules.md#error-codes.  What the model leaves
out is refused with the reason that ``data/rule-tables/left-out.csv`` gives.
"""

from __future__ import annotations

from typing import ClassVar

from qflow.qflow_error import QflowError


class AmqpException(QflowError):
    """A refusal that the broker sends to its peer, in the broker's own words where it has them.

    >>> error = NotFoundException("Queue not found: orders")
    >>> error.code, error.name
    (404, 'not-found')
    >>> print(error)
    not-found: Queue not found: orders
    """

    code: ClassVar[int] = 541
    name: ClassVar[str] = "internal-error"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class SessionException(AmqpException):
    """Ends the session that sent the command; its connection and other sessions survive (LP-06)."""


class UnauthorizedAccessException(SessionException):
    """403: the peer may not do this."""

    code: ClassVar[int] = 403
    name: ClassVar[str] = "unauthorized-access"


class NotFoundException(SessionException):
    """404: no such queue, exchange or subscription."""

    code: ClassVar[int] = 404
    name: ClassVar[str] = "not-found"


class ResourceLockedException(SessionException):
    """405: another session has exclusive use of the queue (CN-02, CN-23)."""

    code: ClassVar[int] = 405
    name: ClassVar[str] = "resource-locked"


class PreconditionFailedException(SessionException):
    """406: ``if_empty`` or ``if_unused`` does not hold (QT-21)."""

    code: ClassVar[int] = 406
    name: ClassVar[str] = "precondition-failed"


class ResourceDeletedException(SessionException):
    """408: the queue went away under its consumer (CN-18)."""

    code: ClassVar[int] = 408
    name: ClassVar[str] = "resource-deleted"


class IllegalStateException(SessionException):
    """409: the command does not fit the state of the session."""

    code: ClassVar[int] = 409
    name: ClassVar[str] = "illegal-state"


class CommandInvalidException(SessionException):
    """503: the command is not allowed here, such as a commit outside a transaction."""

    code: ClassVar[int] = 503
    name: ClassVar[str] = "command-invalid"


class ResourceLimitExceededException(SessionException):
    """506: the queue is full (LP-05)."""

    code: ClassVar[int] = 506
    name: ClassVar[str] = "resource-limit-exceeded"


class NotAllowedException(SessionException):
    """530: the broker forbids this use."""

    code: ClassVar[int] = 530
    name: ClassVar[str] = "not-allowed"


class IllegalArgumentException(SessionException):
    """531: an argument is missing."""

    code: ClassVar[int] = 531
    name: ClassVar[str] = "illegal-argument"


class NotImplementedException(SessionException):
    """540: the broker (or this model of it) does not do that."""

    code: ClassVar[int] = 540
    name: ClassVar[str] = "not-implemented"


class InternalErrorException(SessionException):
    """541: the broker failed, such as a transaction which cannot be prepared (LP-09)."""

    code: ClassVar[int] = 541
    name: ClassVar[str] = "internal-error"


class InvalidArgumentException(SessionException):
    """542: an argument is present but makes no sense (CF-03, FC-05)."""

    code: ClassVar[int] = 542
    name: ClassVar[str] = "invalid-argument"


class LinkException(SessionException):
    """A link of AMQP 1.0 is refused or closed, under a condition of that protocol (LNK-08)."""

    def __init__(self, text: str, condition: str = "amqp:internal-error") -> None:
        super().__init__(text)
        self.condition = condition


class InvalidConversion(InvalidArgumentException):
    """542: a declare argument of the wrong type (CF-03); its text has no code name in front (RF-23)."""

    def __str__(self) -> str:
        return self.text


class BrokerFailure(NotImplementedException):
    """540: a command that hangs or crashes the real broker, and is refused here."""

    # Where the model continues instead, it warns.  Both are an event of a trace, broker_failure, and the page
    # broker-failures.md lists all that is known.

    def __init__(self, text: str, how: str = "hang") -> None:
        super().__init__(text)
        # "hang" or "crash".
        self.how = how


class BrokerFailureWarning(UserWarning):
    """The real broker would hang or crash here, for all clients; the model continues."""


class FramingErrorException(AmqpException):
    """501: the peer broke the protocol; this one ends the whole connection (LP-06)."""

    code: ClassVar[int] = 501
    name: ClassVar[str] = "framing-error"


class ConnectionForcedException(AmqpException):
    """320: an operator closed the connection, by management (CF-11)."""

    code: ClassVar[int] = 320
    name: ClassVar[str] = "connection-forced"


class SessionDetached(AmqpException):
    """A command to an ended session; the client raises this itself, and nothing changes."""

    code: ClassVar[int] = 409
    name: ClassVar[str] = "detached"


class StartupError(QflowError):
    """The broker does not start with these options (FC-10); the text is qpidd's own.

    >>> from qflow.broker import BrokerOptions
    >>> try:
    ...     BrokerOptions(default_flow_stop_threshold=101)
    ... except StartupError as refusal:
    ...     print(refusal)
    Default queue flow ratios must be between 0 and 100, inclusive: flowStopRatio=101 flowResumeRatio=70
    """


class ManagementError(QflowError):
    """A management method answered with a status other than 0 (CF-08)."""

    def __init__(self, status: int, text: str, cause: AmqpException | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        # What a 7 stands for; compiled code loses what Python calls the cause.
        self.cause = cause
