"""Who withholds the completions that a client waits for, and what would free them (FC-15, FC-16)."""

from __future__ import annotations

from typing import NamedTuple

from qflow.broker import Broker, Session
from qflow.broker.flow_limit import FlowThresholds


class Holds(NamedTuple):
    """The held transfers of a session, the queues (or the store) that hold them, and all in words."""

    labels: tuple[str, ...]
    holders: tuple[str, ...]
    text: str


def find_holds(broker: Broker, session: Session) -> Holds:
    """Describe what is held of a session's transfers.

    Examples
    --------
    >>> from qflow.broker import Message
    >>> broker = Broker()
    >>> session = broker.session("p")
    >>> limits = {"qpid.flow_stop_count": 1, "qpid.max_size": 0}
    >>> session.queue_declare("orders", limits)
    >>> for _ in range(2):
    ...     last = session.message_transfer(Message(10, routing_key="orders"))
    >>> print(find_holds(broker, session).text)
    p-2 is held by queue 'orders' (flow control ON at 2 messages; OFF below 1)
    """
    held = session.held
    labels = tuple(transfer.label for transfer in held)
    holders = tuple(dict.fromkeys(holder for transfer in held for holder in transfer.held_by))
    if not held:
        return Holds((), (), "nothing is held")
    verb = "is" if len(labels) == 1 else "are"
    by = " and ".join(_describe(broker, holder) for holder in holders)
    return Holds(labels, holders, f"{_shorten(labels)} {verb} held by {by}")


def _describe(broker: Broker, holder: str) -> str:
    queue = broker.queues.queues.get(holder)
    if queue is None:
        return f"the {holder}"
    # Historic variants of flow control have levels of other kinds (ALT-05, ALT-07).
    resume: FlowThresholds | None = getattr(queue.flow_limit, "thresholds", None)
    if resume is None:
        return f"queue {holder!r}"
    depth, limits = _messages(queue.message_depth), []
    if resume.resume_count:
        limits.append(f"{resume.resume_count}")
    if resume.resume_size:
        depth += f", {queue.byte_depth} bytes"
        limits.append(f"{resume.resume_size} bytes")
    return f"queue {holder!r} (flow control ON at {depth}; OFF below {' and '.join(limits)})"


def _messages(count: int) -> str:
    return f"{count} message" if count == 1 else f"{count} messages"


def _shorten(labels: tuple[str, ...]) -> str:
    if len(labels) > 6:
        return f"{', '.join(labels[:3])} … {labels[-1]} ({len(labels)} transfers)"
    return " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))
