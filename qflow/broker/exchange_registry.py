"""ExchangeRegistry: the exchanges a broker has, and what may be done with them (EX-01 … EX-03)."""

from __future__ import annotations

from qflow.broker.context import BrokerContext
from qflow.broker.errors import InvalidArgumentException, NotAllowedException, NotFoundException
from qflow.broker.exchange_types import EXCHANGE_TYPES, DirectExchange
from qflow.broker.exchanges import Arguments, Exchange
from qflow.broker.queue import Queue
from qflow.broker.restorable import Restorable

PREDECLARED = {
    "amq.direct": "direct",
    "amq.topic": "topic",
    "amq.fanout": "fanout",
    "amq.match": "headers",
    "qpid.management": "topic",
    "qmf.default.topic": "topic",
    "qmf.default.direct": "direct",
}
UNDELETABLE = ("amq.direct", "amq.topic", "amq.fanout", "amq.match", "qpid.management")


class ExchangeRegistry(Restorable):
    """Exchanges by name; the default exchange has the empty one."""

    __slots__ = ("context", "exchanges", "default")

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self.default = DirectExchange(context, "")
        self.exchanges: dict[str, Exchange] = {"": self.default}
        for name, kind in PREDECLARED.items():
            self.exchanges[name] = EXCHANGE_TYPES[kind](context, name)

    def get(self, name: str) -> Exchange:
        """Return an exchange.

        Raises
        ------
        NotFoundException
            404, for an unknown one.
        """
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFoundException(f"Exchange not found: {name}")
        return exchange

    def alternate(self, name: str) -> Exchange | None:
        """Return the exchange that is named as an alternate; None without a name.

        Raises
        ------
        NotFoundException
            404, for an unknown one (EX-03).
        """
        return self.get(name) if name else None

    def declare(
        self,
        name: str,
        kind: str,
        alternate: Exchange | None = None,
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Arguments | None = None,
    ) -> tuple[Exchange, bool]:
        """Return the exchange of that name, made now if it does not exist, and whether it was made.

        Raises
        ------
        NotFoundException
            404: unknown type.
        NotAllowedException
            530: another type, or another alternate (EX-03).
        """
        existing = self.exchanges.get(name)
        if existing is not None:
            _check_same(existing, kind, alternate)
            return existing, False
        if kind not in EXCHANGE_TYPES:
            raise NotFoundException(f"Exchange type not implemented: {kind}")
        exchange = EXCHANGE_TYPES[kind](self.context, name, alternate, durable, auto_delete, arguments)
        self.exchanges[name] = exchange
        if self.context.observer is not None:
            self.context.emit("exchangeDeclare", link=name, detail={"type": kind})
        return exchange, True

    def check(self, name: str, kind: str, alternate: Exchange | None) -> None:
        """Make sure that there is an exchange of that name, and of that type and alternate, if given.

        Raises
        ------
        NotFoundException, NotAllowedException
            404, 530: as :meth:`declare`.
        """
        _check_same(self.get(name), kind, alternate)

    def delete(self, name: str) -> None:
        """Delete an exchange; its bindings may outlive it for a while (RF-18).

        Raises
        ------
        NotAllowedException
            530: it is somebody's alternate, or one of the broker's own.
        """
        if not name:
            raise InvalidArgumentException("Delete not allowed for default exchange")
        exchange = self.get(name)
        if exchange.alternate_users:
            raise NotAllowedException(f"Cannot delete {name}, in use as alternate-exchange.")
        if name in UNDELETABLE:
            raise NotAllowedException(f"Cannot delete default exchange: '{name}'")
        del self.exchanges[name]
        exchange.is_deleted = True
        if self.context.observer is not None:
            self.context.emit("exchangeDelete", link=name)
        if exchange.alternate is not None:
            exchange.alternate.alternate_users -= 1
        exchange.die_if_forgotten()

    def unbind_everywhere(self, queue: Queue) -> None:
        """Remove every binding of a queue that goes away; auto-delete exchanges may follow it."""
        for exchange in list(self.exchanges.values()):
            if exchange.unbind_queue(queue):
                self.consider(exchange)

    def consider(self, exchange: Exchange) -> None:
        """Delete an auto-delete exchange whose last binding is gone (EX-11)."""
        is_idle = not exchange.bindings and not exchange.alternate_users
        if exchange.deletes_itself and is_idle and self.exchanges.get(exchange.name) is exchange:
            self.delete(exchange.name)


def _check_same(existing: Exchange, kind: str, alternate: Exchange | None) -> None:
    if kind and kind != existing.type:
        raise NotAllowedException(f"Exchange declared to be of type {existing.type}, requested {kind}")
    if alternate is not None and alternate is not existing.alternate:
        declared = existing.alternate.name if existing.alternate is not None else "<none>"
        raise NotAllowedException(
            f"Exchange declared with alternate-exchange {declared}, requested {alternate.name}"
        )
