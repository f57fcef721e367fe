"""Producers and consumers without any time: what each may do next, and how it is done."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any

from qflow.broker.broker import Broker
from qflow.broker.credit import BYTE_UNIT, CREDIT_MODE, INFINITE, MESSAGE_UNIT
from qflow.broker.delivery import DeliveryRecord
from qflow.broker.errors import ResourceLimitExceededException
from qflow.broker.message import Message
from qflow.broker.range_set import RangeSet
from qflow.broker.session import Session
from qflow.design.small import SmallConfiguration
from qflow.messaging.windows import Step, make_window

Action = Callable[[], None]

EXCHANGE = "amq.direct"
"""Each producer sends to this exchange, with its name as the key that leads to its queues."""


class Sender:
    """A producer: its session and its window."""

    def __init__(self, name: str, broker: Broker, configuration: SmallConfiguration) -> None:
        self.name = name
        self.session: Session = broker.session(name)
        self._sizes = configuration.sizes
        self._window = make_window(configuration.window, configuration.capacities[name])
        self._hears_at_once = configuration.window == "ideal"
        self._heard = RangeSet()
        self._syncs_to: int | None = None
        if self._hears_at_once:
            self.session.completions.on_report = self._window.reported

    @property
    def outstanding(self) -> int:
        """How many transfers the client takes to be outstanding; none once its session is gone."""
        return len(self._window.outstanding) if self.session.is_attached else 0

    @property
    def is_blocked(self) -> bool:
        """Whether the window is full, and nothing that the client could hear now would make room."""
        return self.session.is_attached and not self.actions()

    def actions(self) -> dict[str, Action]:
        """Return what the client may do next."""
        if not self.session.is_attached:
            return {}
        possible: dict[str, Action] = {}
        if self._syncs_to is not None:
            if self._is_confirmed(self._syncs_to, self._heard):
                possible = self._sends()
        elif self._window.name != "ideal" and self._is_full():
            possible = {f"{self.name} syncs": self._sync} if self._window.name == "qpid-cpp" else {}
        elif not self._is_full():
            possible = self._sends()
        if not self._hears_at_once and self.session.completions.reported != self._heard:
            possible[f"{self.name} hears"] = self._hear
        return possible

    def _is_full(self) -> bool:
        # A copy is asked: the question itself makes the qpid-cpp window forget what it knows to be complete.
        return _copy_of(self._window).next_step() is not Step.SEND

    def _sends(self) -> dict[str, Action]:
        if len(self._sizes) == 1:
            return {f"{self.name} sends": partial(self._send, self._sizes[0])}
        return {f"{self.name} sends {size} bytes": partial(self._send, size) for size in self._sizes}

    def _send(self, size: int) -> None:
        if self._syncs_to is not None:
            self._syncs_to = None
            self._window.synced()
        self._window.next_step()
        if self._window.wants_flush():
            self.session.session_flush()
        asks = self._window.sync_flag(False)
        self._window.sent(self.session.completions.next_number)
        # LP-06: the session is gone then, and is seen to be.
        with suppress(ResourceLimitExceededException):
            self.session.message_transfer(Message(size, routing_key=self.name), EXCHANGE, sync=asks)

    def _sync(self) -> None:
        self._window.next_step()
        self._syncs_to = self.session.completions.next_number - 1
        self.session.execution_sync()

    def _hear(self) -> None:
        self._heard = self.session.completions.reported.copy()
        self._window.reported(self._heard)

    @staticmethod
    def _is_confirmed(number: int, heard: RangeSet) -> bool:
        ranges = heard.ranges()
        return number < 0 or (bool(ranges) and ranges[0][0] == 0 and number <= ranges[0][1])

    def key(self) -> Hashable:
        """Return what of the client decides its future."""
        if not self.session.is_attached:
            return "dead"
        if self._hears_at_once:
            return self.outstanding
        completions = self.session.completions
        # What is complete, told, and heard of; and whether the broker tells without being asked (CM-05).
        places = [
            (
                number in completions.completed,
                number in completions.reported,
                number in self._heard,
                completions.is_awaited(number),
            )
            for number in self._window.outstanding
        ]
        syncing = None
        if self._syncs_to is not None:
            syncing = self._is_confirmed(self._syncs_to, completions.reported)
        memory = tuple(
            value for name, value in sorted(vars(self._window).items()) if isinstance(value, bool | int)
        )
        hears = completions.reported != self._heard
        return (tuple(places), syncing, memory, hears)


class Reader:
    """A consumer, in credit mode: it asks for each message when it is ready for it."""

    def __init__(self, name: str, queue: str, broker: Broker, configuration: SmallConfiguration) -> None:
        self.name = name
        self._queue = broker.queue(queue)
        self._batch = configuration.batch
        self._takes_any = configuration.order == "any"
        self._has_sizes = len(configuration.sizes) > 1
        self._taken: dict[int, DeliveryRecord] = {}
        self._session = broker.session(name)
        self._session.consuming.on_delivery = self._take
        self._session.message_subscribe(queue, name)
        self._session.message_set_flow_mode(name, CREDIT_MODE)
        self._session.message_flow(name, BYTE_UNIT, INFINITE)
        if self._takes_any:
            self._session.message_flow(name, MESSAGE_UNIT, INFINITE)

    def _take(self, record: DeliveryRecord) -> None:
        self._taken[record.id] = record

    def actions(self) -> dict[str, Action]:
        """Return what the client may do next."""
        if self._takes_any:
            return self._accepts_any()
        if len(self._taken) == self._batch:
            return {f"{self.name} accepts": self._accept_all}
        if not self._queue.message_count:
            return {}
        if self._batch == 1:
            return {f"{self.name} takes and accepts": self._take_and_accept}
        return {f"{self.name} takes": self._ask}

    def _accepts_any(self) -> dict[str, Action]:
        possible: dict[str, Action] = {}
        for number, record in self._taken.items():
            transfer = record.message.transfer
            is_held = transfer.owner is not None and self._queue.name in transfer.held_by
            whose = f"one held for {transfer.origin}" if is_held else "one that is complete"
            size = f" of {transfer.size} bytes" if self._has_sizes else ""
            others = [name for name in transfer.held_by if name != self._queue.name] if is_held else []
            also = f" (also by {', '.join(others)})" if others else ""
            name = f"{self.name} accepts {whose}{size}{also}"
            possible.setdefault(name, partial(self._accept, (number,)))
        return possible

    def _ask(self) -> None:
        self._session.message_flow(self.name, MESSAGE_UNIT, 1)

    def _take_and_accept(self) -> None:
        self._ask()
        self._accept_all()

    def _accept_all(self) -> None:
        self._accept(tuple(self._taken))

    def _accept(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            del self._taken[number]
        self._session.message_accept(numbers)


def _copy_of(window: Any) -> Any:
    twin = make_window(window.name, window.capacity)
    vars(twin).update(vars(window))
    twin.outstanding = window.outstanding.copy()
    return twin
