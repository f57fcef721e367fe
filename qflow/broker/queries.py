"""Answers to AMQP's questions about queues, exchanges and bindings (EX-13)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from qflow.broker.exchange_registry import ExchangeRegistry
from qflow.broker.exchanges import Exchange
from qflow.broker.message import HeaderValue
from qflow.broker.queue import Queue
from qflow.broker.queue_registry import QueueRegistry


@dataclass(frozen=True, slots=True)
class QueueQueryResult:
    """Answer to ``queue.query``; all empty for an unknown queue, which is no error."""

    queue: str = ""
    message_count: int = 0
    subscriber_count: int = 0
    alternate_exchange: str = ""
    durable: bool = False
    auto_delete: bool = False
    exclusive: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExchangeQueryResult:
    """Answer to ``exchange.query``."""

    type: str = ""
    durable: bool = False
    not_found: bool = False


@dataclass(frozen=True, slots=True)
class ExchangeBoundResult:
    """Answer to ``exchange.bound``: what does *not* hold; all false means bound as asked."""

    exchange_not_found: bool = False
    queue_not_found: bool = False
    queue_not_matched: bool = False
    key_not_matched: bool = False
    args_not_matched: bool = False


def query_queue(queues: QueueRegistry, name: str) -> QueueQueryResult:
    """Describe a queue; ``message_count`` is what nobody has acquired (DQ-01)."""
    queue = queues.queues.get(name)
    if queue is None:
        return QueueQueryResult()
    return QueueQueryResult(
        queue=name,
        message_count=queue.message_count,
        subscriber_count=queue.users.total,
        alternate_exchange=queue.alternate.name if queue.alternate is not None else "",
        durable=queue.durable,
        auto_delete=queue.lifetime.deletes_itself,
        exclusive=bool(queue.lifetime.owner),
        arguments=dict(queue.settings.arguments),
    )


def query_exchange(exchanges: ExchangeRegistry, name: str) -> ExchangeQueryResult:
    """Describe an exchange."""
    exchange = exchanges.exchanges.get(name)
    if exchange is None:
        return ExchangeQueryResult(not_found=True)
    return ExchangeQueryResult(exchange.type, exchange.durable)


def query_bound(
    queues: QueueRegistry,
    exchanges: ExchangeRegistry,
    exchange: str,
    queue: str | None,
    key: str | None,
    arguments: Mapping[str, HeaderValue] | None,
) -> ExchangeBoundResult:
    """Say whether an exchange has a binding with this queue, key and arguments, where they are given.

    The most specific combination that fails is named: with a queue that is bound by other keys
    only, just ``key_not_matched`` is set.
    """
    source = exchanges.exchanges.get(exchange)
    target = queues.queues.get(queue) if queue is not None else None
    missing_queue = queue is not None and target is None
    if source is None or missing_queue:
        return ExchangeBoundResult(exchange_not_found=source is None, queue_not_found=missing_queue)
    return ExchangeBoundResult(
        queue_not_matched=target is not None and not _has(source, target, None, None),
        key_not_matched=key is not None and not _has(source, target, key, None),
        args_not_matched=bool(arguments) and not _has(source, target, None, arguments),
    )


def _has(
    exchange: Exchange, queue: Queue | None, key: str | None, arguments: Mapping[str, HeaderValue] | None
) -> bool:
    return any(
        (queue is None or binding.queue is queue)
        and (key is None or exchange.covers(binding, key))
        and (arguments is None or exchange.covers_arguments(binding, arguments))
        for binding in exchange.bindings.values()
    )
