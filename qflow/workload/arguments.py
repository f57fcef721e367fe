"""A look at declare arguments for those who wrote them: the broker passes over what it does not know."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from qflow.broker.errors import AmqpException, InvalidConversion
from qflow.broker.settings import QueueSettings
from qflow.configuration.spelling import is_understood, suggestion
from qflow.workload.checks import WorkloadError
from qflow.workload.model import Workload


def unread_arguments(workload: Workload) -> Iterator[str]:
    """Yield a sentence for each declare argument that means nothing to the broker (CF-02).

    Parameters
    ----------
    workload : Workload
        Whose queues are looked at.

    Examples
    --------
    >>> next(unread_arguments(Workload("w", 1, {"q": {"qpid.flow_stop_cuont": 5}})))
    "queue 'q': the broker passes over 'qpid.flow_stop_cuont' (CF-02); did you mean 'qpid.flow_stop_count'?"
    """
    for queue, arguments in workload.queues.items():
        for key in arguments:
            if not is_understood(key):
                near = suggestion(key)
                meant = f"; did you mean {near!r}?" if near else ""
                yield f"queue {queue!r}: the broker passes over {key!r} (CF-02){meant}"


def require_arguments(workload: Workload) -> None:
    """Refuse an argument that the broker cannot convert (CF-03), and name the queue and the key.

    The broker's own refusal holds the value only.

    Raises
    ------
    WorkloadError
        In the broker's words, after the queue and the key.

    Examples
    --------
    >>> require_arguments(Workload("w", 1, {"q": {"qpid.max_count": "many"}}))
    Traceback (most recent call last):
        ...
    qflow.workload.checks.WorkloadError: queue 'q', 'qpid.max_count': invalid conversion: Cannot convert many
    """
    for queue, arguments in workload.queues.items():
        for key, value in arguments.items():
            try:
                QueueSettings.from_arguments({key: value})
            except InvalidConversion as error:
                raise WorkloadError(f"queue {queue!r}, {key!r}: {error}") from None
            except AmqpException:
                # It may make sense beside the others, and if not the broker says so.
                continue


def look_over(workload: Workload, command: str) -> None:
    """Refuse what the broker cannot convert, and say on standard error what it passes over.

    Parameters
    ----------
    workload : Workload
        What is about to be run.
    command : str
        Who says so: ``qflow run``.

    Raises
    ------
    WorkloadError
        As :func:`require_arguments`.

    Examples
    --------
    >>> look_over(Workload("w", 1, {"q": {"qpid.max_count": 5}}), "qflow run")
    """
    require_arguments(workload)
    for sentence in unread_arguments(workload):
        print(f"{command}: {sentence}", file=sys.stderr)
