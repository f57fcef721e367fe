"""Management: the QMF methods of the broker, of its queues and of its connections.

A method runs with all of its effects, like a command of a session (:mod:`qflow.broker.session`).  It has no
number and no session that could end, so a refusal is a :class:`~qflow.broker.errors.ManagementError` with a
status.

Rules: CF-07, CF-08, CF-11.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, cast

from qflow.broker.consuming import OutputScheduler
from qflow.broker.context import BrokerContext
from qflow.broker.errors import AmqpException, BrokerFailure, ManagementError, NotImplementedException
from qflow.broker.exchanges import EXCHANGE_TYPES, Arguments
from qflow.broker.link_nodes import POLICIES, LinkNodes
from qflow.broker.queue import Queue
from qflow.broker.registry import EXCEPTION, MessageFilter, QueueRegistry, end_redirect, move, purge
from qflow.broker.restorable import Dependent
from qflow.broker.settings import Argument, to_bool, to_text
from qflow.broker.signature import Signature

UNKNOWN_OBJECT, UNKNOWN_METHOD, NOT_IMPLEMENTED, INVALID_PARAMETER = 1, 2, 3, 4
USER = 0x10000
_LOG_LEVELS = ("trace", "debug", "info", "notice", "warning", "error", "critical")
_FEDERATION = ("link", "bridge")
_NO_FEDERATION = "links and bridges to other brokers are left out"


Filter = Mapping[str, object] | None
Method = TypeVar("Method", bound=Callable[..., Any])

METHODS: dict[str, Signature] = {}
"""The signatures of all methods, by name."""


def _method(method: Method) -> Method:
    """Make a method emit an event, run to quiescence, and turn each AMQP refusal into status 7 (CF-08)."""
    name = method.__name__
    signature = METHODS[name] = Signature(name, method)

    @functools.wraps(method)
    def run(self: Management, *args: Any, **kwargs: Any) -> Any:
        given = signature.bind(args, kwargs)
        if self.context.observer is not None:
            self.context.emit("management", detail={"method": name, "arguments": given})
        self.scheduler.reading = None
        try:
            return method(self, **given)
        except AmqpException as error:
            if isinstance(error, BrokerFailure):
                self.context.note_failure(error.how, error.text)
            raise ManagementError(EXCEPTION, str(error), error) from error
        finally:
            self.scheduler.quiesce()

    return cast(Method, run)


class Management(Dependent):
    """The methods that ``qpid-config`` and ``qpid-tool`` call, which refuse with a :class:`ManagementError`.

    >>> from qflow.broker import Broker
    >>> broker = Broker()
    >>> broker.management.create("queue", "orders", {"qpid.max_count": 10})
    >>> broker.queue("orders").flow_limit.thresholds.stop_count
    8
    """

    VOLATILE: ClassVar[tuple[str, ...]] = ("log_level",)

    __slots__ = ("context", "queues", "exchanges", "scheduler", "nodes", "log_level")

    def __init__(
        self, context: BrokerContext, queues: QueueRegistry, scheduler: OutputScheduler, nodes: LinkNodes
    ) -> None:
        self.nodes = nodes
        self.context = context
        self.queues = queues
        self.exchanges = queues.exchanges
        self.scheduler = scheduler
        # As the model writes no log, the level has no effect, and is not part of the state.
        self.log_level: str | None = None

    @_method
    def create(
        self, type: str, name: str, properties: Mapping[str, Argument] | None = None, strict: bool = False
    ) -> None:
        """Create a queue, exchange, binding or node policy (LNK-20); ``strict`` is ignored (IN-06)."""
        options = dict(properties or {})
        if type == "queue":
            self._create_queue(name, options)
        elif type in ("exchange", "topic"):
            self._create_exchange(name, options)
        elif type == "binding":
            self._bind(name, options)
        elif type in POLICIES:
            self.nodes.add_policy(type, name, options)
        elif type in _FEDERATION:
            raise NotImplementedException(f"create {type}: {_NO_FEDERATION}")
        else:
            raise ManagementError(EXCEPTION, f"unknown object type: {type}")

    @_method
    def delete(
        self, type: str, name: str, options: Mapping[str, Argument] | None = None, strict: bool = False
    ) -> None:
        """Delete a queue, exchange, binding or node policy; ``strict`` is ignored."""
        given = options or {}
        if type == "queue":
            if_unused, if_empty = (to_bool(given.get(key, False)) for key in ("if_unused", "if_empty"))
            self.queues.check_delete(name, None, if_unused, if_empty)
            self.queues.destroy(name, "delete")
        elif type in ("exchange", "topic"):
            self.exchanges.delete(name)
        elif type == "binding":
            self.queues.unbind(*_split_binding(name))
        elif type in POLICIES:
            self.nodes.remove_policy(type, name)
        elif type in _FEDERATION:
            raise NotImplementedException(f"delete {type}: {_NO_FEDERATION}")
        else:
            raise ManagementError(EXCEPTION, f"unknown object type: {type}")

    @_method
    def query(self, type: str, name: str) -> dict[str, object]:
        """Return the state of a queue's groups (MG-24), or {} for a queue without groups."""
        if type in ("exchange", "topic", "binding"):
            raise ManagementError(NOT_IMPLEMENTED, "NotImplemented")
        if type != "queue":
            raise ManagementError(EXCEPTION, f"unknown object type: {type}")
        queue = self._find(name)
        if queue.groups is None:
            return {}
        state = {"group_header_key": queue.groups.header_key, "group_state": queue.groups.state()}
        return {"qpid.message_group_queue": state}

    @_method
    def purge(self, queue: str, request: int = 0, filter: Filter = None) -> None:
        """Drop the first ``request`` matching messages of a queue, or all if it is 0 (QT-22)."""
        target = self._find_object(queue)
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
        """Route the first ``request`` matching messages of a queue, or all, to an exchange (QT-23)."""
        source = self._find_object(queue)
        target = source.alternate if useAltExchange else self.exchanges.exchanges.get(exchange)
        if target is None:
            raise ManagementError(INVALID_PARAMETER, "InvalidParameter")
        purge(source, request, MessageFilter(filter), target)

    @_method
    def queueMoveMessages(self, srcQueue: str, destQueue: str, qty: int = 0, filter: Filter = None) -> None:
        """Move the first ``qty`` matching messages, or all if it is 0, to another queue (QT-23)."""
        source = self.queues.queues.get(srcQueue)
        target = self.queues.queues.get(destQueue)
        if source is None or target is None:
            raise ManagementError(INVALID_PARAMETER, "InvalidParameter")
        move(source, target, qty, MessageFilter(filter))

    @_method
    def queueRedirect(self, sourceQueue: str, targetQueue: str = "") -> None:
        """Swap the incoming messages of two queues; without a target, end the swap (QT-18, RF-26)."""
        source = self._find(sourceQueue)
        if not targetQueue:
            peer = source.redirect
            if peer is None or not source.is_redirect_source:
                raise ManagementError(USER, "")
            # The redirect is still in force, so the messages moved from the target return to it.
            move(peer, source, 0, MessageFilter())
            end_redirect(source)
            return
        target = self._find(targetQueue)
        if source is target or any(
            queue.lifetime.deletes_itself or queue.redirect is not None for queue in (source, target)
        ):
            raise ManagementError(USER, "")
        source.redirect, target.redirect = target, source
        source.is_redirect_source = True
        self.context.emit("queueRedirect", sourceQueue, link=targetQueue)

    @_method
    def echo(self, sequence: int, body: str) -> tuple[int, str]:
        """Return the request's sequence number and text."""
        return sequence, body

    @_method
    def close(self, connection: str) -> None:
        """Close a client's connection: each of its sessions ends with 320, connection-forced."""
        if not self.context.close_connection(connection):
            raise _unknown_object("connection", connection)

    @_method
    def getTimestampConfig(self) -> bool:
        """Return whether messages get a timestamp on arrival."""
        return self.context.stamps_arrivals

    @_method
    def setTimestampConfig(self, receive: bool) -> None:
        """Set whether messages get a timestamp on arrival, like the option ``enable-timestamp``."""
        self.context.stamps_arrivals = receive

    @_method
    def getLogLevel(self) -> str:
        """Return the log level that was set, or the default level; this model writes no log."""
        return self.log_level or "notice+"

    @_method
    def setLogLevel(self, level: str) -> None:
        """Check and store log selectors such as ``"notice+ debug+:broker"``, which have no effect."""
        selectors = level.replace(",", " ").split()
        for selector in selectors:
            name = selector.removeprefix("!").partition(":")[0].rstrip("+-")
            if name not in _LOG_LEVELS:
                raise ManagementError(EXCEPTION, f"Invalid log level name: {name}")
        self.log_level = ",".join(selectors)

    def _find(self, name: str) -> Queue:
        queue = self.queues.queues.get(name)
        if queue is None:
            raise ManagementError(UNKNOWN_OBJECT, "UnknownObject")
        return queue

    def _find_object(self, name: str) -> Queue:
        queue = self.queues.queues.get(name)
        if queue is None:
            raise _unknown_object("queue", name)
        return queue

    def _create_queue(self, name: str, options: dict[str, Argument]) -> None:
        durable = to_bool(options.pop("durable", False))
        auto_delete = to_bool(options.pop("auto-delete", False))
        alternate = to_text(options.pop("alternate-exchange", ""))
        _, is_new = self.queues.declare(name, options, auto_delete, alternate, durable)
        if not is_new:
            raise ManagementError(EXCEPTION, f"object already exists: {name}")

    def _create_exchange(self, name: str, options: dict[str, Argument]) -> None:
        durable, auto_delete = (to_bool(options.pop(key, False)) for key in ("durable", "auto-delete"))
        kind = to_text(options.pop("exchange-type", "topic"))
        alternate = self.exchanges.alternate(to_text(options.pop("alternate-exchange", "")))
        if name in self.exchanges.exchanges:
            raise ManagementError(EXCEPTION, f"object already exists: {name}")
        if kind not in EXCHANGE_TYPES:
            raise ManagementError(EXCEPTION, f"Invalid exchange type: {kind}")
        self.exchanges.declare(name, kind, alternate, durable, auto_delete, cast(Arguments, options))

    def _bind(self, name: str, options: dict[str, Argument]) -> None:
        exchange, queue, key = _split_binding(name)
        self.queues.bind(exchange, queue, key, cast(Arguments, options))


def _unknown_object(kind: str, name: str) -> ManagementError:
    identity = f"org.apache.qpid.broker:{kind}:{name}"
    return ManagementError(UNKNOWN_OBJECT, f"No object found with ID=0-0-0--0({identity})")


def _split_binding(name: str) -> tuple[str, str, str]:
    """Split ``exchange/queue/key`` into its parts; a single part is the name of the queue (CF-07)."""
    parts = [part for part in name.split("/") if part]
    if not 1 <= len(parts) <= 3:
        raise ManagementError(EXCEPTION, f"invalid binding: {name}")
    if len(parts) == 1:
        return "", parts[0], ""
    return parts[0], parts[1], "".join(parts[2:])
