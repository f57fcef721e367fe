"""Situation: an engine with its clients between two actions, and what can happen next."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import groupby
from typing import Any

from qflow.broker.broker import Broker
from qflow.broker.events import Event
from qflow.broker.transfer import Transfer
from qflow.design.clients import EXCHANGE, Action, Reader, Sender
from qflow.design.small import SmallConfiguration

SETUP = "setup"
FREE = "."


class Situation:
    """A broker of the engine, its producers and its consumers.

    Every action is what a client does; what follows from it is left to the engine.

    Parameters
    ----------
    configuration : SmallConfiguration
        Who and what there is.
    observer : callable or None
        Sees everything the broker does, from its start: called with each :class:`qflow.broker.events.Event`.

    Examples
    --------
    >>> situation = Situation(SmallConfiguration.of(stop=1, capacities=(1,)))
    >>> situation.perform("C1 sends"); situation.perform("C1 sends"); list(situation.actions())
    ['consumer takes and accepts']
    """

    def __init__(
        self, configuration: SmallConfiguration, observer: Callable[[Event], None] | None = None
    ) -> None:
        self.configuration = configuration
        self.broker = Broker(configuration.options)
        if observer is not None:
            self.broker.observe(observer)
        setup = self.broker.session(SETUP)
        for name, arguments in configuration.queues.items():
            setup.queue_declare(name, arguments)
        for producer in configuration.capacities:
            for queue in configuration.targets(producer):
                setup.exchange_bind(queue, EXCHANGE, producer)
        setup.close()
        oldest = configuration.consumers().values() if configuration.order == "oldest" else ()
        self._ordered = frozenset(oldest)
        self.senders = [Sender(name, self.broker, configuration) for name in configuration.capacities]
        self.readers = [
            Reader(name, queue, self.broker, configuration)
            for name, queue in configuration.consumers().items()
        ]

    def actions(self) -> dict[str, Action]:
        """Return all that can happen next, by name: what producers do first, then consumers."""
        possible: dict[str, Action] = {}
        for sender in self.senders:
            possible.update(sender.actions())
        for reader in self.readers:
            possible.update(reader.actions())
        return possible

    def perform(self, action: str) -> None:
        """Let something happen."""
        self.actions()[action]()

    def key(self) -> Hashable:
        """Return what tells this state from those with another future.

        Two messages differ only by their size, by whether a stopped queue holds their transfer and whose
        it is, and by whether a consumer has taken them.  Labels, positions, command numbers and statistics
        only ever grow; no rule reads them.  So a queue is a word with one letter for each message.  The
        order of the letters matters only if somebody takes the oldest: not with ``order="any"``, and not
        on a queue without a consumer.
        """
        queues = self.broker.queues.queues
        parts: list[Hashable] = [sender.key() for sender in self.senders]
        for name in self.configuration.queues:
            queue = queues[name]
            word = [self._letter(name, entry.transfer, entry.state) for entry in queue.store]
            if name not in self._ordered:
                word.sort()
            flow_limit = queue.flow_limit
            is_on = flow_limit is not None and flow_limit.stopped
            parts.append((is_on, tuple((letter, len(list(run))) for letter, run in groupby(word))))
        return tuple(parts)

    def _letter(self, queue: str, transfer: Transfer, state: int) -> tuple[Hashable, ...]:
        holders = transfer.held_by
        if transfer.owner is None or queue not in holders:
            return (FREE, transfer.size, state, "")
        # Copies of one transfer on several queues belong together; the names of its holders tell which do.
        # In one producer's row those with the same holders need no telling apart: a queue that holds one
        # holds all later ones too, and where the order matters the oldest is the first to go.
        return (transfer.origin, transfer.size, state, " ".join(holders))

    def facts(self) -> dict[str, Any]:
        """Return what is seen from outside: depths, flow states, windows, who is blocked and who died."""
        statistics = {name: self.broker.queue(name).statistics() for name in self.configuration.queues}
        depths = {name: values.msgDepth for name, values in statistics.items()}
        return {
            "depth": max(depths.values()),
            "depths": depths,
            "bytes": {name: values.byteDepth for name, values in statistics.items()},
            "on": tuple(name for name, values in statistics.items() if values.flowStopped),
            "held": {sender.name: len(sender.session.held) for sender in self.senders},
            "outstanding": {sender.name: sender.outstanding for sender in self.senders},
            "blocked": tuple(sender.name for sender in self.senders if sender.is_blocked),
            "dead": tuple(sender.name for sender in self.senders if not sender.session.is_attached),
        }
