"""QueueHandler: the ``queue`` and ``exchange`` commands, for administration."""

from __future__ import annotations

from collections.abc import Mapping

from qflow.broker.command import command
from qflow.broker.conversions import Argument
from qflow.broker.errors import NotAllowedException, ResourceLockedException
from qflow.broker.message import HeaderValue
from qflow.broker.message_handler import MessageHandler
from qflow.broker.queries import (
    ExchangeBoundResult,
    ExchangeQueryResult,
    QueueQueryResult,
    query_bound,
    query_exchange,
    query_queue,
)
from qflow.broker.queue import Queue
from qflow.broker.removal import MessageFilter, purge
from qflow.broker.settings import QueueSettings


def _check_key(queue: str, exchange: str, key: str = "", *_: object, **__: object) -> None:
    if len(key.encode()) > 255:
        raise ValueError(f"a binding key is at most 255 bytes; got {len(key.encode())}")


class QueueHandler(MessageHandler):
    """Declare, delete, purge, bind, unbind."""

    __slots__ = ()

    @command("queue.declare")
    def queue_declare(
        self,
        queue: str,
        arguments: Mapping[str, Argument] | None = None,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        exclusive: bool = False,
        passive: bool = False,
        alternate_exchange: str = "",
    ) -> None:
        """Make a queue, unless there is one of that name already (CF-04, CF-05).

        Parameters
        ----------
        queue : str
            Its name.
        arguments : mapping or None
            Rule book 8.3, such as ``{"qpid.max_count": 1000, "qpid.flow_stop_count": 900}``.
        auto_delete : bool
            Delete it when it is not used any more (QT-08).
        exclusive : bool
            Let only this session declare, consume, bind, unbind and delete it (CN-23).
        passive : bool
            Only ask whether it exists; without a name this is a declare like any other.
        alternate_exchange : str
            Where rejected, evicted and orphaned messages go (EX-09).

        Raises
        ------
        SessionException
            542 for the arguments, 404 for a missing queue or alternate, 405 for exclusivity.
        """
        registry = self.core.queues
        if passive and queue:
            target = registry.get(queue)
        else:
            settings = QueueSettings.from_arguments(arguments or {})
            alternate = self.core.exchanges.alternate(alternate_exchange)
            target, is_new = registry.declare(
                queue, settings, auto_delete=auto_delete, alternate=alternate, durable=durable
            )
            if is_new:
                self.core.exchanges.default.bind(target, queue, {})
                if exclusive:
                    self._own(target)
                return
        if exclusive:
            self._demand_ownership(target, passive)

    def _demand_ownership(self, queue: Queue, passive: bool) -> None:
        if queue.lifetime.owner == self.name:
            return
        if queue.lifetime.owner or passive or queue.users.consumers:
            raise ResourceLockedException(f"Cannot grant exclusive access to queue {queue.name}")
        self._own(queue)

    def _own(self, queue: Queue) -> None:
        queue.lifetime.owner = self.name
        queue.lifetime.use()
        queue.users.owner_connection = self.connection.name
        self.exclusive_queues.append(queue.name)

    @command("queue.delete")
    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> None:
        """Delete a queue with all its messages (QT-21, FC-21).

        Raises
        ------
        SessionException
            531, 404, 405, 406.
        """
        self.core.queues.check_delete(queue, self.name, if_unused, if_empty)
        self.core.destroy_queue(queue, "delete")

    @command("queue.purge")
    def queue_purge(self, queue: str) -> None:
        """Drop every message that nobody has acquired (QT-22)."""
        purge(self.core.queues.get(queue), 0, MessageFilter(None))

    @command("exchange.declare")
    def exchange_declare(
        self,
        exchange: str,
        type: str | None = None,
        *,
        alternate_exchange: str = "",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> None:
        """Make an exchange, unless there is one of that name and type already (EX-03).

        Without a type it is a topic exchange.  With ``passive`` it is only asked whether there is such
        an exchange: of that name, and of that type and that alternate if these are given; the broker's own
        exchanges can be declared in no other way.

        Raises
        ------
        SessionException
            404, 530.
        """
        registry = self.core.exchanges
        alternate = registry.alternate(alternate_exchange)
        if passive:
            registry.check(exchange, type or "", alternate)
            return
        if exchange.startswith(("amq.", "qpid.")):
            raise NotAllowedException(
                f'Exchange names beginning with "amq." or "qpid." are reserved. (exchange="{exchange}")'
            )
        kind = "topic" if type is None else type
        registry.declare(exchange, kind, alternate, durable, auto_delete, arguments)

    @command("exchange.delete")
    def exchange_delete(self, exchange: str) -> None:
        """Delete an exchange (EX-03)."""
        self.core.exchanges.delete(exchange)

    @command("exchange.bind", check=_check_key)
    def exchange_bind(
        self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, HeaderValue] | None = None
    ) -> None:
        """Bind a queue to an exchange; binding it again changes nothing (EX-12).

        Raises
        ------
        SessionException
            404, 405, 541 (headers), 542 (default exchange).
        """
        source, target = self.core.bindable(exchange, queue, "Bind", self.name)
        scope = self.name if (arguments or {}).get("x-scope") == "session" else ""
        source.bind(target, key, arguments or {}, scope)

    @command("exchange.unbind", check=_check_key)
    def exchange_unbind(self, queue: str, exchange: str, key: str = "") -> None:
        """Remove a binding; removing none changes nothing (EX-12)."""
        source, target = self.core.bindable(exchange, queue, "Unbind", self.name)
        if source.unbind(target, key):
            self.core.exchanges.consider(source)

    @command("queue.query")
    def queue_query(self, queue: str) -> QueueQueryResult:
        """Describe a queue; an unknown one gives an empty answer."""
        return query_queue(self.core.queues, queue)

    @command("exchange.query")
    def exchange_query(self, exchange: str) -> ExchangeQueryResult:
        """Describe an exchange."""
        return query_exchange(self.core.exchanges, exchange)

    @command("exchange.bound")
    def exchange_bound(
        self,
        exchange: str,
        queue: str | None = None,
        key: str | None = None,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> ExchangeBoundResult:
        """Say whether a binding exists, by what of it does not hold (EX-13)."""
        return query_bound(self.core.queues, self.core.exchanges, exchange, queue, key, arguments)
