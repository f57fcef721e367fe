"""What a queue writes on a message for its consumers: its position, and where it has been (QT-15, QT-17)."""

from __future__ import annotations

from qflow.broker.queued_message import QueuedMessage
from qflow.broker.settings import QueueSettings
from qflow.broker.transfer import Transfer

TRACE = "x-qpid.trace"


def annotate(message: QueuedMessage, settings: QueueSettings) -> None:
    """Add the queue's sequence header and trace id, as far as they are asked for.

    A last value queue does not number its messages (QT-15).
    """
    if settings.queue_msg_sequence and not settings.last_value_queue_key:
        message.annotate(settings.queue_msg_sequence, message.position)
    if settings.trace_id:
        been = _trace(message.transfer)
        message.annotate(TRACE, f"{been},{settings.trace_id}" if been else settings.trace_id)


def is_excluded(transfer: Transfer, excluded: str) -> bool:
    """Return whether the message has been where a queue does not want it to come from (QT-17)."""
    return not _names(_trace(transfer)).isdisjoint(_names(excluded))


def _names(trace: str) -> set[str]:
    """Take a list apart; commas and blanks separate, as in the broker."""
    return set(trace.replace(",", " ").split(" ")) - {""}


def _trace(transfer: Transfer) -> str:
    value = transfer.message.header(TRACE)
    return value if isinstance(value, str) else ""
