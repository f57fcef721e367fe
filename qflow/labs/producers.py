"""Producers that a workload does not describe: one that obeys the Java broker, one that sets priorities."""

from __future__ import annotations

from dataclasses import replace

from qflow.broker.message import Message
from qflow.workload import Producer
from qflow.workload.producer import ProducerClient
from qflow.workload.stage import Stage


class ObedientProducer(ProducerClient):
    """A producer that stops when the broker tells its session to, as the Java client does (ALT-12).

    Parameters
    ----------
    model, stage, last_due
        As for its base, which it agrees with wherever nobody is told to stop.
    """

    __slots__ = ("_is_told_to_stop",)

    def __init__(self, model: Producer, stage: Stage, last_due: int) -> None:
        self._is_told_to_stop = False
        super().__init__(model, stage, last_due)
        self._session.completions.on_channel_flow = self._on_channel_flow

    def _has_room(self) -> bool:
        return not self._is_told_to_stop and super()._has_room()

    def _on_channel_flow(self, is_active: bool) -> None:
        self._is_told_to_stop = not is_active
        if is_active:
            self._wake()


class PriorityProducer(ProducerClient):
    """A producer whose messages are the more urgent the lower the number of their group."""

    __slots__ = ()

    def _arrive(self, message: Message) -> None:
        super()._arrive(with_priority(message))


def with_priority(message: Message) -> Message:
    """Return a message of group ``g1`` with priority 9, of ``g2`` with 8, and so on down to 0.

    Examples
    --------
    >>> with_priority(Message(headers={"group": "g3"})).priority
    7
    """
    group = str((message.headers or {}).get("group", ""))
    return replace(message, priority=max(0, 10 - int(group[1:]))) if group[1:].isdigit() else message
