"""What this model leaves out, and why: one list, and the refusal that goes with it.

Asking for one of these raises the broker's own *not-implemented* error with the reason, so that
nobody takes silence for an answer.
"""

from __future__ import annotations

from typing import NoReturn

from qflow.broker.errors import NotImplementedException

LEFT_OUT: dict[str, str] = {
    "paging": "all messages stay in memory, so there is nothing to page (QT-19)",
    "persistence": "nothing is written to disk; what a store's delay does to completions is there (CM-12)",
    "dtx": "distributed transactions need a transaction manager and recovery; local transactions are there",
    "high availability": "there is one broker; replication of queues is another subject (CM-17)",
    "cluster": "removed from the broker in 2012; what replicas had to agree on is in ``history`` (CM-16)",
    "acl": "every client may do everything: access control changes nothing about flow control or groups",
    "wire protocol": "commands are method calls; frames, negotiation and heartbeats are left out",
    "amqp 1.0": "the model speaks AMQP 0-10, as the documents do (CM-18, DQ-10)",
    "federation": "links and bridges to other brokers are left out",
}
"""What is left out, and the reason."""


def refuse(what: str, asked: str) -> NoReturn:
    """Refuse something that is left out.

    Parameters
    ----------
    what : str
        A key of :data:`LEFT_OUT`.
    asked : str
        What was asked for.

    Raises
    ------
    NotImplementedException
        540, always.

    Examples
    --------
    >>> refuse("dtx", "dtx.select")
    Traceback (most recent call last):
        ...
    qflow.broker.errors.NotImplementedException: not-implemented: dtx.select: distributed ...
    """
    raise NotImplementedException(f"{asked}: {LEFT_OUT[what]}")
