"""The registry of a broker's queues: declare, delete, purge, move, and the removal of expired messages.

:class:`QueueRegistry` declares, deletes and finds queues (CF-04, CF-05, QT-21, QT-24), and makes the limit
policy, the flow control and the lifetime of each.  :func:`purge` and :func:`move` remove AVAILABLE messages
from a queue on request (QT-22, QT-23, RF-11), and the :class:`QueueCleaner` removes expired ones regularly
(QT-07).  :func:`query_queue`, :func:`query_exchange` and :func:`query_bound` answer AMQP's queries (EX-13).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from qflow.broker.context import BrokerContext, TimerTask
from qflow.broker.errors import (
    IllegalArgumentException,
    InvalidArgumentException,
    ManagementError,
    NotFoundException,
    PreconditionFailedException,
    ResourceLockedException,
    SessionException,
)
from qflow.broker.exchanges import Exchange, ExchangeRegistry
from qflow.broker.flow_limit import FlowThresholds
from qflow.broker.history import make_flow_control
from qflow.broker.limits import POLICIES, make_policy
from qflow.broker.message import AVAILABLE, HeaderValue, QueuedMessage, Router, Transfer
from qflow.broker.queue import Lifetime, Queue, QueueCounters
from qflow.broker.restorable import Dependent, Frozen, Restorable
from qflow.broker.settings import Argument, QueueSettings, to_text
from qflow.broker.stores import QueueCursor

EXCEPTION = 7
"""The status of a management method that ends with an exception (CF-08)."""


class QueueRegistry(Dependent):
    """The queues of a broker by name, and the exchanges to which they are bound."""

    __slots__ = ("context", "exchanges", "queues", "retired", "lingering")

    def __init__(self, context: BrokerContext, exchanges: ExchangeRegistry) -> None:
        self.context = context
        self.exchanges = exchanges
        self.queues: dict[str, Queue] = {}
        # The sums of the counters of deleted queues, for the broker's totals (CF-10).
        self.retired = QueueCounters()
        # Deleted queues that management shows as long as something refers to them (RF-34, RF-45).
        self.lingering: dict[str, Queue] = {}

    def find_shown(self, name: str) -> Queue | None:
        """Return the queue that management shows for a name, existing or lingering, or None (RF-45)."""
        queue = self.queues.get(name)
        if queue is not None:
            return queue
        lingering = self.lingering.get(name)
        if lingering is None or (lingering.is_unused and not self.context.refers_to(lingering)):
            return None
        return lingering

    def get(self, name: str) -> Queue:
        """Return a queue by name; raise 531 for an empty name (CF-06), 404 for an unknown one."""
        if not name:
            raise IllegalArgumentException("No queue name specified.")
        queue = self.queues.get(name)
        if queue is None:
            raise NotFoundException(f"Queue not found: {name}")
        return queue

    def declare(
        self,
        name: str,
        arguments: Mapping[str, Argument],
        auto_delete: bool,
        alternate_exchange: str,
        durable: bool,
    ) -> tuple[Queue, bool]:
        """Return a queue, created if necessary, and whether it is new; raise 542 or 404 if refused."""
        settings = QueueSettings.from_arguments(arguments)
        alternate = self.exchanges.alternate(alternate_exchange)
        # After the conversion: an invalid argument in a repeated declare is refused, although the arguments
        # then have no effect (CF-04, CF-05).
        existing = self.queues.get(name)
        if existing is not None:
            existing.lifetime.declares += 1
            return existing, False
        settings.validate()
        options = self.context.options
        thresholds = FlowThresholds.of(name, settings, options)
        flow_limit = make_flow_control(self.context, name, settings, thresholds)
        policy = POLICIES[make_policy(settings.policy, settings.priorities > 0, options.limit_policies)]()
        lifetime = Lifetime.of(settings, auto_delete)
        queue = Queue(self.context, name, settings, policy, flow_limit, lifetime, alternate, durable)
        if alternate is not None:
            alternate.alternate_users += 1
        self.queues[name] = queue
        if self.context.observer is not None:
            self.context.emit("queueDeclare", name, detail={"arguments": dict(settings.arguments)})
        self.exchanges.default.bind(queue, name, {})
        return queue, True

    def check_delete(self, name: str, session: str | None, if_unused: bool, if_empty: bool) -> None:
        """Raise 404, 405 (except for management, with session None) or 406 if delete is forbidden (QT-21)."""
        queue = self.queues.get(name)
        if queue is None:
            raise NotFoundException(f"Delete failed. No such queue: {name}")
        if session is not None and queue.lifetime.owner not in ("", session):
            raise ResourceLockedException(f"Cannot delete queue {name}; it is exclusive to another session")
        if if_empty and queue.message_count:
            raise PreconditionFailedException(f"Cannot delete queue {name}; queue not empty")
        if if_unused and not queue.is_unused:
            raise PreconditionFailedException(f"Cannot delete queue {name}; queue in use")

    def bindable(
        self, exchange: str, queue: str, action: str, session: str | None = None
    ) -> tuple[Exchange, Queue]:
        """Return the exchange and queue for a bind or unbind; raise 542, 404 or 405 if forbidden (EX-03)."""
        if not exchange:
            raise InvalidArgumentException(f"{action} not allowed for default exchange")
        source = self.exchanges.get(exchange)
        target = self.queues.get(queue)
        if target is None:
            raise NotFoundException(f"{action} failed. No such queue: {queue}")
        if target.lifetime.owner not in ("", session):
            raise ResourceLockedException(
                f"Cannot {action.lower()} queue {queue}; it is exclusive to another session"
            )
        return source, target

    def bind(
        self,
        exchange: str,
        queue: str,
        key: str,
        arguments: Mapping[str, HeaderValue],
        session: str | None = None,
    ) -> None:
        """Bind a queue, or unbind with ``qpid.fed.op`` "U" (RF-31); raise the errors of :meth:`bindable`."""
        source, target = self.bindable(exchange, queue, "Bind", session)
        if source.bind(target, key, arguments):
            self.exchanges.consider(source)

    def unbind(self, exchange: str, queue: str, key: str, session: str | None = None) -> None:
        """Remove a binding, and an auto-delete exchange after its last; raise as :meth:`bindable` does."""
        source, target = self.bindable(exchange, queue, "Unbind", session)
        if source.unbind(target, key):
            self.exchanges.consider(source)

    def destroy(self, name: str, reason: str) -> None:
        """Delete a queue; then notify its readers, or raise a refusal of the alternate (FC-21, RF-34)."""
        context, queue = self.context, self.queues[name]
        if queue.redirect is not None and reason != "self-destruct":
            end_redirect(queue)
        self.exchanges.unbind_everywhere(queue)
        # Unregistered before its messages are routed on: an exchange with a route to the queue must not find
        # it.
        del self.queues[name]
        queue.is_deleted = True
        orphans = list(queue.store)
        for message in orphans:
            queue.remove(message, "queue-deleted")
        refusal: SessionException | None = None
        if (alternate := queue.alternate) is None:
            context.abandoned += len(orphans)
        else:
            try:
                for message in orphans:
                    with message.route_on() as transfer:
                        alternate.route_with_alternate(transfer, message.delivery_count)
                alternate.alternate_users -= 1
            except SessionException as error:
                # The real broker also stops at the first refusal: the remaining messages are lost, and the
                # alternate stays in use for good.
                refusal = error
            context.abandonedViaAlt += len(orphans)
        self.retired.add(queue.counters)
        if context.observer is not None:
            context.emit("queueDelete", queue.name, detail={"reason": reason})
        if refusal is not None:
            self.lingering[name] = queue
            raise refusal
        queue.listeners.notify_all()


class QueueCleaner(TimerTask):
    """A task that removes expired messages from all queues every ``queue-purge-interval`` seconds (IN-05)."""

    __slots__ = ("context", "queues")

    def __init__(self, context: BrokerContext, queues: QueueRegistry) -> None:
        self.context = context
        self.queues = queues
        self._schedule(context.now)

    def fire(self, due: int) -> None:
        """Remove expired messages, and schedule the next run."""
        for queue in list(self.queues.queues.values()):
            _remove_expired(queue)
        self._schedule(due)

    def skip(self, due: int, until: int) -> int:
        """Return the latest run time, from ``due`` on, before which no run or other task has an effect."""
        timers, interval = self.context.timers, self.context.options.purge_interval_us
        following = timers.next_due
        last = until if following is None else min(until, following - 1)
        if due + interval > last:
            return due
        count = (last - due) // interval
        queues = list(self.queues.queues.values())
        for queue in queues:
            for message in queue.store:
                expiration = message.transfer.expiration
                if expiration is not None and message.state == AVAILABLE:
                    count = min(count, max(0, (expiration - due) // interval + 1))
        timers.pass_over(count)
        self._take_turns([queue for queue in queues if queue.store.turn is not None], count)
        return due + count * interval

    def _take_turns(self, queues: list[Queue], count: int) -> None:
        """Advance the turns of fair shares as `count` runs do, since each run reads the queues (RF-37)."""
        # After some runs the turns repeat; whole periods of that cycle are left out.
        mark, marked, done = [queue.store.turn for queue in queues], 0, 0
        while queues and done < count:
            for queue in queues:
                _remove_expired(queue)
            done += 1
            turns = [queue.store.turn for queue in queues]
            if turns == mark:
                count = done + (count - done) % (done - marked)
            elif not done & (done - 1):
                mark, marked = turns, done

    def _schedule(self, now: int) -> None:
        interval = self.context.options.purge_interval_us
        if interval:
            self.context.timers.schedule(now + interval, self)


class MessageFilter(Restorable):
    """The filter of a management method: it selects all messages, or those with a value of one header."""

    __slots__ = ("_key", "_value")

    def __init__(self, description: Mapping[str, object] | None = None) -> None:
        self._key: str | None = None
        self._value = ""
        if not description:
            return
        is_known = description.get("filter_type") == "header_match_str"
        params = description.get("filter_params") if is_known else None
        if not isinstance(params, Mapping) or not {"header_key", "header_value"} <= params.keys():
            raise ManagementError(EXCEPTION, f"Unrecognized message filter: '{_print_map(description)}'")
        self._key = to_text(params["header_key"])
        self._value = to_text(params["header_value"])

    def matches(self, transfer: Transfer) -> bool:
        """Return whether the filter selects a message."""
        return self._key is None or transfer.message.property_as_string(self._key) == self._value


def purge(queue: Queue, request: int, wanted: MessageFilter, destination: Router | None = None) -> int:
    """Drop or reroute the first ``request`` matching messages, or all if it is 0; return their number."""
    counters = queue.counters
    if destination is None:
        removed = _take_off(queue, request, wanted, "purge", None)
        counters.discardsPurge += removed
    else:
        removed = _take_off(queue, request, wanted, "reroute", destination.route_with_alternate)
        # Not reached if a destination refuses a message: then the messages removed so far are not counted.
        counters.reroutes += removed
    counters.acquires += removed
    return removed


def move(source: Queue, target: Queue, quantity: int, wanted: MessageFilter) -> int:
    """Move the first ``quantity`` matching messages, or all if it is 0; return their number (QT-23)."""
    # All are removed before the first is delivered: after a refusal the remaining ones are lost.
    return _take_off(source, quantity, wanted, "move", target.deliver)


def _take_off(
    queue: Queue,
    limit: int,
    wanted: MessageFilter,
    reason: str,
    send: Callable[[Transfer, int], object] | None,
) -> int:
    """Remove matching messages, pass them to `send` if it is given, and return their number."""
    removed = _remove_available(queue, limit, wanted.matches, reason)
    was_emptied = queue.is_empty
    try:
        if send is not None:
            for message in removed:
                with message.route_on(keeps_trace=reason == "move") as transfer:
                    send(transfer, message.delivery_count)
    finally:
        if removed:
            queue.settle(was_emptied)
    return len(removed)


def end_redirect(queue: Queue) -> None:
    """End the swap of incoming messages between a queue and its peer (RF-26)."""
    peer = queue.redirect
    if peer is None:
        return
    source, target = (queue, peer) if queue.is_redirect_source else (peer, queue)
    source.redirect = target.redirect = None
    source.is_redirect_source = False
    source.context.emit("queueRedirectCancelled", source.name, link=target.name)


def _remove_expired(queue: Queue) -> int:
    """Remove the expired AVAILABLE messages of a queue (QT-07), reading it as a consumer does (RF-37)."""
    now, batch = queue.context.now, queue.context.options.max_purge_batch
    total = 0
    while True:
        dead = len(_remove_available(queue, batch, lambda transfer: transfer.is_expired(now), "ttl"))
        if dead:
            queue.counters.discardsTtl += dead
            queue.settle()
        total += dead
        if not batch or dead < batch:
            return total


def _remove_available(
    queue: Queue, limit: int, is_wanted: Callable[[Transfer], bool], reason: str
) -> list[QueuedMessage]:
    cursor = QueueCursor(acquires=True)
    removed: list[QueuedMessage] = []
    message = queue.store.next(cursor)
    while message is not None:
        if is_wanted(message.transfer):
            if limit and len(removed) == limit:
                break
            queue.remove(message, reason)
            removed.append(message)
        message = queue.store.next(cursor)
    return removed


def _print_map(value: object) -> str:
    """Return a map as the broker prints it, with its keys in ascending order (RF-23)."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}:{_print_map(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_print_map, value)) + "]"
    return to_text(value)


@dataclass(frozen=True, slots=True)
class QueueQueryResult(Frozen):
    """The answer to ``queue.query``, which is empty for an unknown queue."""

    queue: str = ""
    message_count: int = 0
    subscriber_count: int = 0
    alternate_exchange: str = ""
    durable: bool = False
    auto_delete: bool = False
    exclusive: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExchangeQueryResult(Frozen):
    """The answer to ``exchange.query``."""

    type: str = ""
    durable: bool = False
    not_found: bool = False


@dataclass(frozen=True, slots=True)
class ExchangeBoundResult(Frozen):
    """The answer to ``exchange.bound``: the criteria that are *not* met; if all are False, it is bound."""

    exchange_not_found: bool = False
    queue_not_found: bool = False
    queue_not_matched: bool = False
    key_not_matched: bool = False
    args_not_matched: bool = False


def query_queue(queues: QueueRegistry, name: str) -> QueueQueryResult:
    """Return the description of a queue, in which ``message_count`` excludes acquired messages (DQ-01)."""
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
    """Return the description of an exchange."""
    exchange = exchanges.exchanges.get(name)
    if exchange is None:
        return ExchangeQueryResult(not_found=True)
    return ExchangeQueryResult(exchange.type, exchange.durable)


def query_bound(
    queues: QueueRegistry,
    exchange: str,
    queue: str | None,
    key: str | None,
    arguments: Mapping[str, HeaderValue] | None,
) -> ExchangeBoundResult:
    """Return whether an exchange has a matching binding; if not, which criteria alone have none (RF-33)."""
    source = queues.exchanges.exchanges.get(exchange)
    target = queues.queues.get(queue) if queue else None
    missing_queue = bool(queue) and target is None
    if source is None or missing_queue:
        return ExchangeBoundResult(exchange_not_found=source is None, queue_not_found=missing_queue)
    key, arguments = key or "", arguments or {}
    if source.is_bound(target, key, arguments):
        return ExchangeBoundResult()
    return ExchangeBoundResult(
        queue_not_matched=target is not None and not source.is_bound(target, "", {}),
        key_not_matched=bool(key) and not source.is_bound(None, key, {}),
        args_not_matched=bool(arguments) and not source.has_arguments(arguments),
    )
