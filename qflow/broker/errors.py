"""The exceptions of AMQP 0-10, with the broker's codes and wording.

Every refusal of the broker raises one of these classes. ``str(error)`` is the text that the real broker
prints (``resource-limit-exceeded: Maximum depth exceeded on q: …``), so that a learner can search for the
exact words of a production log.  The codes are listed in rules.md#error-codes.  A feature that the model does
not implement is refused with the reason in ``data/rule-tables/left-out.csv``.
"""

from __future__ import annotations

from typing import ClassVar

from qflow.qflow_error import QflowError


class AmqpException(QflowError):
    """A refusal by the broker of a client's command, in the broker's own words where those are known.

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
    """An error that ends the session of the command, but not its connection or other sessions (LP-06)."""


class UnauthorizedAccessException(SessionException):
    """403: the client is not authorized to do this."""

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
    """408: the queue of a subscription has been deleted (CN-18)."""

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
    """540: the broker, or this model of it, does not implement the command."""

    code: ClassVar[int] = 540
    name: ClassVar[str] = "not-implemented"


class InternalErrorException(SessionException):
    """541: the broker failed, for instance to prepare a transaction (LP-09)."""

    code: ClassVar[int] = 541
    name: ClassVar[str] = "internal-error"


class InvalidArgumentException(SessionException):
    """542: an argument has an invalid value (CF-03, FC-05)."""

    code: ClassVar[int] = 542
    name: ClassVar[str] = "invalid-argument"


class LinkException(SessionException):
    """An AMQP 1.0 link is refused or closed, with an error condition of that protocol (LNK-08)."""

    def __init__(self, text: str, condition: str = "amqp:internal-error") -> None:
        super().__init__(text)
        self.condition = condition


class InvalidConversion(InvalidArgumentException):
    """542: a declare argument has the wrong type (CF-03); the text omits the code's name (RF-23)."""

    def __str__(self) -> str:
        return self.text


class BrokerFailure(NotImplementedException):
    """540: the command would hang or crash the real broker, and is refused here."""

    # In other cases the model continues and warns.  Both emit the event broker_failure, and the page
    # broker-failures.md lists all known cases.

    def __init__(self, text: str, how: str = "hang") -> None:
        super().__init__(text)
        # "hang" or "crash".
        self.how = how


class BrokerFailureWarning(UserWarning):
    """A warning that the real broker would hang or crash here, for all clients; the model continues."""


class FramingErrorException(AmqpException):
    """501: the client broke the protocol, which ends its whole connection (LP-06)."""

    code: ClassVar[int] = 501
    name: ClassVar[str] = "framing-error"


class ConnectionForcedException(AmqpException):
    """320: an operator closed the connection by a management method (CF-11)."""

    code: ClassVar[int] = 320
    name: ClassVar[str] = "connection-forced"


class SessionDetached(AmqpException):
    """A command on an ended session; the client's library raises this, and the broker is not affected."""

    code: ClassVar[int] = 409
    name: ClassVar[str] = "detached"


class StartupError(QflowError):
    """The broker does not start with the given options (FC-10); the text is that of qpidd.

    >>> from qflow.broker import BrokerOptions
    >>> try:
    ...     BrokerOptions(default_flow_stop_threshold=101)
    ... except StartupError as refusal:
    ...     print(refusal)
    Default queue flow ratios must be between 0 and 100, inclusive: flowStopRatio=101 flowResumeRatio=70
    """


class ManagementError(QflowError):
    """A management method has answered with a status other than 0 (CF-08)."""

    def __init__(self, status: int, text: str, cause: AmqpException | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        # The exception behind status 7, as compiled code loses Python's __cause__.
        self.cause = cause
