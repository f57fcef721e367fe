"""The four types of exchange: direct, fanout, topic, headers (EX-04 … EX-07)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import ClassVar

from qflow.broker.errors import InternalErrorException
from qflow.broker.exchanges import Arguments, Binding, Exchange, Identity
from qflow.broker.matching import (
    check_header_arguments,
    headers_match,
    normalize_pattern,
    same_arguments,
    topic_rank,
)
from qflow.broker.queue import Queue
from qflow.broker.transfer import Transfer

EXCLUSIVE_BINDING = "qpid.exclusive-binding"


class DirectExchange(Exchange):
    """Routing key equals binding key (EX-04); the default exchange is one, too (EX-02)."""

    type: ClassVar[str] = "direct"
    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = ("_by_key",)

    def make_index(self) -> None:
        """Keep the bindings by their keys, so that routing need not look at others."""
        self._by_key: dict[str, tuple[Binding, ...]] = {}

    def check_again(self, existing: Binding, arguments: Arguments) -> bool:
        """Return whether the queue is just bound again, and not in place of the key's other queues."""
        return EXCLUSIVE_BINDING not in arguments

    def insert(self, identity: Identity, binding: Binding) -> None:
        """Keep the binding under its key, too; an exclusive one replaces all others of the key (EX-04)."""
        if EXCLUSIVE_BINDING in binding.arguments:
            for other in self._by_key.get(binding.key, ()):
                self.unbind(other.queue, other.key)
        super().insert(identity, binding)
        self._by_key[binding.key] = (*self._by_key.get(binding.key, ()), binding)

    def removed(self, binding: Binding) -> None:
        """Forget it under its key."""
        others = tuple(other for other in self._by_key[binding.key] if other is not binding)
        if others:
            self._by_key[binding.key] = others
        else:
            del self._by_key[binding.key]

    def matching(self, transfer: Transfer) -> Sequence[Binding]:
        """Return the bindings this type selects."""
        return self._by_key.get(transfer.message.routing_key or "", ())


class FanoutExchange(Exchange):
    """Every bound queue, whatever the key; a queue is bound at most once (EX-05)."""

    type: ClassVar[str] = "fanout"
    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = ()

    def identity(self, queue: Queue, key: str) -> Identity:
        """Return the same for every key: a queue is bound at most once."""
        return queue.name, ""

    def covers(self, binding: Binding, key: str) -> bool:
        """Return True: the key is not looked at."""
        return True

    def matching(self, transfer: Transfer) -> Sequence[Binding]:
        """Return the bindings this type selects."""
        return list(self.bindings.values())


class TopicExchange(Exchange):
    """Patterns over dotted words; one copy however many patterns match (EX-06).

    The broker keeps the patterns in a tree, and finds queues in the order of its branches.
    """

    type: ClassVar[str] = "topic"
    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = ()

    def normal_key(self, key: str) -> str:
        """Return the pattern as the broker keeps it."""
        return normalize_pattern(key)

    def matching(self, transfer: Transfer) -> Sequence[Binding]:
        """Return the bindings this type selects."""
        key = transfer.message.routing_key or ""
        ranked = [(rank, b) for b in self.bindings.values() if (rank := topic_rank(b.key, key)) is not None]
        ranked.sort(key=itemgetter(0))
        return _one_for_each_queue([binding for _, binding in ranked])


class HeadersExchange(Exchange):
    """Application headers against binding arguments (EX-07)."""

    type: ClassVar[str] = "headers"
    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = ()

    def check(self, arguments: Arguments) -> None:
        """Insist on a proper x-match."""
        check_header_arguments(arguments)

    def check_again(self, existing: Binding, arguments: Arguments) -> bool:
        """Refuse the same queue and key with other arguments: 541 (EX-03)."""
        if not same_arguments(existing.arguments, arguments):
            raise InternalErrorException(
                f"Exchange: {self.name}, binding key: {existing.key} Duplicate binding key not allowed."
            )
        return True

    def has_same(self, queue: Queue, arguments: Arguments) -> bool:
        """Return whether the queue is bound with these arguments already, by whatever key (EX-12)."""
        return any(
            binding.queue is queue and same_arguments(binding.arguments, arguments)
            for binding in self.bindings.values()
        )

    def covers(self, binding: Binding, key: str) -> bool:
        """Return True: the key only names the binding."""
        return True

    def covers_arguments(self, binding: Binding, arguments: Arguments) -> bool:
        """Return whether headers equal to the arguments would match."""
        return headers_match(binding.arguments, arguments)

    def matching(self, transfer: Transfer) -> Sequence[Binding]:
        """Return the bindings this type selects."""
        headers = transfer.message.headers or {}
        return _one_for_each_queue([b for b in self.bindings.values() if headers_match(b.arguments, headers)])


def _one_for_each_queue(bindings: list[Binding]) -> list[Binding]:
    chosen = {id(binding.queue): binding for binding in reversed(bindings)}
    return [binding for binding in bindings if chosen[id(binding.queue)] is binding]


EXCHANGE_TYPES: dict[str, type[Exchange]] = {
    kind.type: kind for kind in (DirectExchange, FanoutExchange, TopicExchange, HeadersExchange)
}
