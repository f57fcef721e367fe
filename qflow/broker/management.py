"""Management: the QMF methods of the broker and of its queues.

Redirect: two queues swap what is sent to them, without their messages moving (QT-18).

Answers to AMQP's questions about queues, exchanges and bindings (EX-13).

Rules: CF-07, CF-08, CF-11.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from qflow.broker.core import BrokerCore, QueueRegistry
from qflow.broker.errors import AmqpException, ManagementError
from qflow.broker.exchanges import EXCHANGE_TYPES, Arguments, Exchange, ExchangeRegistry
from qflow.broker.message import HeaderValue
from qflow.broker.queue import Queue
from qflow.broker.removal import EXCEPTION, MessageFilter, move, purge
from qflow.broker.settings import Argument, QueueSettings, to_bool, to_text

UNKNOWN_OBJECT, UNKNOWN_METHOD, NOT_IMPLEMENTED, INVALID_PARAMETER = 1, 2, 3, 4


def redirect(queues: QueueRegistry, source: str, target: str) -> None:
    """Let ``source`` and ``target`` get each other's new messages; with no target, end that.

    Raises
    ------
    ManagementError
        Status 1 for an unknown queue, 7 for itself, an auto-delete queue, or one that is redirected.
    """
    first = _find(queues, source)
    if not target:
        _cancel(first)
        return
    second = _find(queues, target)
    if first is second:
        raise ManagementError(EXCEPTION, f"queue {source} cannot be redirected to itself")
    for queue in (first, second):
        if queue.lifetime.deletes_itself:
            raise ManagementError(EXCEPTION, f"queue {queue.name} is auto-delete and cannot be redirected")
        if queue.redirect is not None:
            raise ManagementError(EXCEPTION, f"queue {queue.name} is redirected already")
    first.redirect, second.redirect = second, first
    first.is_redirect_source = True
    first.context.emit("queueRedirect", source, link=target)


def _find(queues: QueueRegistry, name: str) -> Queue:
    queue = queues.queues.get(name)
    if queue is None:
        raise ManagementError(UNKNOWN_OBJECT, f"no such queue: {name}")
    return queue


def _cancel(source: Queue) -> None:
    target = source.redirect
    if target is None:
        raise ManagementError(EXCEPTION, f"queue {source.name} is not redirected")
    source.redirect = target.redirect = None
    source.is_redirect_source = target.is_redirect_source = False
    source.context.emit("queueRedirectCancelled", source.name, link=target.name)


Filter = Mapping[str, object] | None
Method = TypeVar("Method", bound=Callable[..., Any])


def _method(method: Method) -> Method:
    """Run a method to quiescence where the observer sees it; every AMQP refusal becomes status 7 (CF-08)."""
    names = tuple(inspect.signature(method).parameters)[1:]
    name = method.__name__

    @functools.wraps(method)
    def run(self: Management, *args: Any, **kwargs: Any) -> Any:
        if self.core.observer is not None:
            arguments = {**dict(zip(names, args, strict=False)), **kwargs}
            self.core.emit("management", detail={"method": name, "arguments": arguments})
        self.core.scheduler.begin(None)
        try:
            return method(self, *args, **kwargs)
        except AmqpException as error:
            raise ManagementError(EXCEPTION, str(error)) from error
        finally:
            self.core.quiesce()

    return cast(Method, run)


class Management:
    """What ``qpid-config`` and ``qpid-tool`` call.  A refusal is a :class:`ManagementError`.

    Examples
    --------
    >>> from qflow.broker import Broker
    >>> broker = Broker()
    >>> broker.management.create("queue", "orders", {"qpid.max_count": 10})
    >>> broker.queue("orders").flow_limit.thresholds.stop_count
    8
    """

    __slots__ = ("core",)

    def __init__(self, core: BrokerCore) -> None:
        self.core = core

    @_method
    def create(
        self, type: str, name: str, properties: Mapping[str, Argument] | None = None, strict: bool = False
    ) -> None:
        """Create a queue, an exchange or a binding; ``strict`` is ignored, as in the broker (IN-06)."""
        options = dict(properties or {})
        if type == "queue":
            self._create_queue(name, options)
        elif type in ("exchange", "topic"):
            self._create_exchange(name, options)
        elif type == "binding":
            self._bind(name, options)
        else:
            raise ManagementError(EXCEPTION, f"unknown object type: {type}")

    @_method
    def delete(self, type: str, name: str, options: Mapping[str, Argument] | None = None) -> None:
        """Delete a queue, an exchange or a binding."""
        given = options or {}
        if type == "queue":
            if_unused, if_empty = (to_bool(given.get(key, False)) for key in ("if_unused", "if_empty"))
            self._delete_queue(name, if_unused, if_empty)
        elif type in ("exchange", "topic"):
            self.core.exchanges.delete(name)
        elif type == "binding":
            self._unbind(name)
        else:
            raise ManagementError(EXCEPTION, f"unknown object type: {type}")

    @_method
    def query(self, type: str, name: str) -> dict[str, object]:
        """Return what a queue says of its groups (MG-24); {} for a queue without groups."""
        if type in ("exchange", "topic", "binding"):
            raise ManagementError(NOT_IMPLEMENTED, "NotImplemented")
        if type != "queue":
            raise ManagementError(EXCEPTION, f"unknown object type: {type}")
        queue = self.core.queues.queues.get(name)
        if queue is None:
            raise ManagementError(UNKNOWN_OBJECT, "UnknownObject")
        if queue.groups is None:
            return {}
        state = {"group_header_key": queue.groups.header_key, "group_state": queue.groups.state()}
        return {"qpid.message_group_queue": state}

    @_method
    def purge(self, queue: str, request: int = 0, filter: Filter = None) -> None:
        """Drop the first ``request`` matching messages of a queue, 0 = all (QT-22)."""
        target = self._queue_object(queue)
        purge(target, request, MessageFilter(filter))

    @_method
    def reroute(
        self,
        queue: str,
        request: int = 0,
        useAltExchange: bool = False,
        exchange: str = "",
        filter: Filter = None,
    ) -> None:
        """Send the first ``request`` matching messages of a queue through an exchange (QT-23)."""
        source = self._queue_object(queue)
        target = source.alternate if useAltExchange else self.core.exchanges.exchanges.get(exchange)
        if target is None:
            raise ManagementError(INVALID_PARAMETER, "InvalidParameter")
        purge(source, request, MessageFilter(filter), target)

    @_method
    def queueMoveMessages(self, srcQueue: str, destQueue: str, qty: int = 0, filter: Filter = None) -> None:
        """Move the first ``qty`` matching messages from one queue to another, 0 = all (QT-23)."""
        source = self.core.queues.queues.get(srcQueue)
        target = self.core.queues.queues.get(destQueue)
        if source is None or target is None:
            raise ManagementError(INVALID_PARAMETER, "InvalidParameter")
        move(source, target, qty, MessageFilter(filter))

    @_method
    def queueRedirect(self, sourceQueue: str, targetQueue: str = "") -> None:
        """Let two queues swap what is sent to them, or end that (QT-18)."""
        redirect(self.core.queues, sourceQueue, targetQueue)

    @_method
    def echo(self, sequence: int, body: str) -> tuple[int, str]:
        """Answer what was asked."""
        return sequence, body

    def _queue_object(self, name: str) -> Queue:
        queue = self.core.queues.queues.get(name)
        if queue is None:
            identity = f"org.apache.qpid.broker:queue:{name}"
            raise ManagementError(UNKNOWN_OBJECT, f"No object found with ID=0-0-0--0({identity})")
        return queue

    def _create_queue(self, name: str, options: dict[str, Argument]) -> None:
        durable = to_bool(options.pop("durable", False))
        auto_delete = to_bool(options.pop("auto-delete", False))
        other = to_text(options.pop("alternate-exchange", ""))
        settings = QueueSettings.from_arguments(options)
        alternate = self.core.exchanges.alternate(other)
        queue, is_new = self.core.queues.declare(
            name, settings, auto_delete=auto_delete, alternate=alternate, durable=durable
        )
        if not is_new:
            raise ManagementError(EXCEPTION, f"object already exists: {name}")
        self.core.exchanges.default.bind(queue, name, {})

    def _create_exchange(self, name: str, options: dict[str, Argument]) -> None:
        durable, auto_delete = (to_bool(options.pop(key, False)) for key in ("durable", "auto-delete"))
        kind = to_text(options.pop("exchange-type", "topic"))
        alternate = self.core.exchanges.alternate(to_text(options.pop("alternate-exchange", "")))
        if name in self.core.exchanges.exchanges:
            raise ManagementError(EXCEPTION, f"object already exists: {name}")
        if kind not in EXCHANGE_TYPES:
            raise ManagementError(EXCEPTION, f"Invalid exchange type: {kind}")
        self.core.exchanges.declare(name, kind, alternate, durable, auto_delete, cast(Arguments, options))

    def _delete_queue(self, name: str, if_unused: bool, if_empty: bool) -> None:
        self.core.queues.check_delete(name, None, if_unused, if_empty)
        self.core.destroy_queue(name, "delete")

    def _bind(self, name: str, options: dict[str, Argument]) -> None:
        exchange, queue, key = _binding_parts(name)
        source, target = self.core.bindable(exchange, queue, "Bind")
        source.bind(target, key, cast(Arguments, options))

    def _unbind(self, name: str) -> None:
        exchange, queue, key = _binding_parts(name)
        source, target = self.core.bindable(exchange, queue, "Unbind")
        if source.unbind(target, key):
            self.core.exchanges.consider(source)


def _binding_parts(name: str) -> tuple[str, str, str]:
    """Take ``exchange/queue/key`` apart; a single part names the queue, as in the broker (CF-07)."""
    parts = [part for part in name.split("/") if part]
    if not 1 <= len(parts) <= 3:
        raise ManagementError(EXCEPTION, f"invalid binding: {name}")
    if len(parts) == 1:
        return "", parts[0], ""
    return parts[0], parts[1], "".join(parts[2:])


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
