"""The AMQP 0-10 exceptions, with the broker's codes and wording.

Every refusal of the broker is one of these classes. ``str(error)`` reads as the real broker
prints it (``resource-limit-exceeded: Maximum depth exceeded on q: …``), so that a learner can
search for the very words a production log shows.  Their codes: rules.md#error-codes.
"""

from __future__ import annotations


class AmqpException(Exception):
    """A refusal that the broker tells its peer about.

    Parameters
    ----------
    text : str
        What went wrong, in the broker's own words where it has them.

    Examples
    --------
    >>> error = NotFoundException("Queue not found: orders")
    >>> error.code, error.name
    (404, 'not-found')
    >>> print(error)
    not-found: Queue not found: orders
    """

    code = 541
    name = "internal-error"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class SessionException(AmqpException):
    """Ends the session that sent the command; its connection and other sessions survive (LP-06)."""


class UnauthorizedAccessException(SessionException):
    """403: the peer may not do this."""

    code = 403
    name = "unauthorized-access"


class NotFoundException(SessionException):
    """404: no such queue, exchange or subscription."""

    code = 404
    name = "not-found"


class ResourceLockedException(SessionException):
    """405: somebody else has exclusive use of the queue (CN-02, CN-23)."""

    code = 405
    name = "resource-locked"


class PreconditionFailedException(SessionException):
    """406: ``if_empty`` or ``if_unused`` does not hold (QT-21)."""

    code = 406
    name = "precondition-failed"


class ResourceDeletedException(SessionException):
    """408: the queue went away under its consumer (CN-18)."""

    code = 408
    name = "resource-deleted"


class IllegalStateException(SessionException):
    """409: the command does not fit the state of the session."""

    code = 409
    name = "illegal-state"


class CommandInvalidException(SessionException):
    """503: the command is not allowed here, such as a commit outside a transaction."""

    code = 503
    name = "command-invalid"


class ResourceLimitExceededException(SessionException):
    """506: the queue is full (LP-05)."""

    code = 506
    name = "resource-limit-exceeded"


class NotAllowedException(SessionException):
    """530: the broker forbids this use."""

    code = 530
    name = "not-allowed"


class IllegalArgumentException(SessionException):
    """531: an argument is missing."""

    code = 531
    name = "illegal-argument"


class NotImplementedException(SessionException):
    """540: the broker (or this model of it) does not do that."""

    code = 540
    name = "not-implemented"


class InternalErrorException(SessionException):
    """541: the broker failed, such as a transaction which cannot be prepared (LP-09)."""

    code = 541
    name = "internal-error"


class InvalidArgumentException(SessionException):
    """542: an argument is present but makes no sense (CF-03, FC-05)."""

    code = 542
    name = "invalid-argument"


class InvalidConversion(InvalidArgumentException):
    """542: a declare argument of the wrong type (CF-03).

    The real broker raises a bare conversion error and maps it to 542 at the session; management
    therefore shows its text without the code name (RF-23), and so does ``str()``.
    """

    def __str__(self) -> str:
        return self.text


class FramingErrorException(AmqpException):
    """501: the peer broke the protocol; this one ends the whole connection (LP-06)."""

    code = 501
    name = "framing-error"


class SessionDetached(AmqpException):
    """A command was given to a session that has been closed or has died.

    The real client raises this without asking the broker; nothing in the broker changes.
    """

    code = 409
    name = "detached"


class StartupError(Exception):
    """The broker does not start with these options (FC-10); the text is qpidd's own.

    Examples
    --------
    >>> from qflow.broker import BrokerOptions
    >>> try:
    ...     BrokerOptions(default_flow_stop_threshold=101)
    ... except StartupError as refusal:
    ...     print(refusal)
    Default queue flow ratios must be between 0 and 100, inclusive: flowStopRatio=101 flowResumeRatio=70
    """


class ManagementError(Exception):
    """A management method answered with a status other than 0 (CF-08).

    Parameters
    ----------
    status : int
        1 UnknownObject, 2 UnknownMethod, 3 NotImplemented, 4 InvalidParameter, 7 exception.
    text : str
        The status text; for status 7 the text of the exception.

    Examples
    --------
    >>> error = ManagementError(4, "InvalidParameter")
    >>> error.status, str(error)
    (4, 'InvalidParameter')
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
