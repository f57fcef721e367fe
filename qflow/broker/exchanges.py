"""Exchange: bindings, routing and alternates, as all types have them (EX)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from qflow.broker.context import BrokerContext
from qflow.broker.errors import SessionException
from qflow.broker.message import HeaderValue
from qflow.broker.queue import Queue
from qflow.broker.restorable import Restorable
from qflow.broker.routing import Router
from qflow.broker.statistics import BindingStatistics, ExchangeStatistics
from qflow.broker.transfer import Transfer

Arguments = Mapping[str, HeaderValue]
Identity = tuple[str, str]
MSG_SEQUENCE = "qpid.msg_sequence"
INITIAL_VALUE = "qpid.ive"


class Binding(Restorable):
    """A queue's interest in what an exchange gets."""

    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = ("queue", "key", "arguments", "scope", "matched")

    def __init__(self, queue: Queue, key: str, arguments: Arguments, scope: str = "") -> None:
        self.queue = queue
        self.key = key
        self.arguments = dict(arguments)
        self.scope = scope
        self.matched = 0


class Exchange(Router):
    """Common part of all types: bindings in order, the alternate, and what is counted.

    A deleted exchange keeps its bindings counted until nobody refers to the object any more: the
    sessions whose last transfer went to it, and exchanges whose alternate it is (RF-18).
    """

    type: ClassVar[str] = ""

    __slots__ = (
        "context",
        "bindings",
        "alternate",
        "alternate_users",
        "references",
        "is_deleted",
        "deletes_itself",
        "durable",
        "sequence",
        "annotates",
        "keeps_last",
        "last_transfer",
        "msg_receives",
        "byte_receives",
        "msg_drops",
        "byte_drops",
        "msg_routes",
        "byte_routes",
    )

    def __init__(
        self,
        context: BrokerContext,
        name: str,
        alternate: Exchange | None = None,
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Arguments | None = None,
    ) -> None:
        super().__init__(name)
        options = arguments or {}
        self.context = context
        self.bindings: dict[Identity, Binding] = {}
        self.alternate = alternate
        self.alternate_users = 0
        self.references = 0
        self.is_deleted = False
        self.deletes_itself = auto_delete
        self.durable = durable
        # Their presence counts, whatever their value.
        self.sequence: int | None = 0 if MSG_SEQUENCE in options else None
        self.keeps_last = INITIAL_VALUE in options
        self.annotates = self.keeps_last or self.sequence is not None
        self.last_transfer: Transfer | None = None
        self.msg_receives = self.byte_receives = 0
        self.msg_drops = self.byte_drops = 0
        self.msg_routes = self.byte_routes = 0
        self.make_index()
        if alternate is not None:
            alternate.alternate_users += 1
            alternate.references += 1

    def make_index(self) -> None:
        """Prepare what a type needs to find bindings fast."""

    # Bindings

    def bind(self, queue: Queue, key: str, arguments: Arguments, scope: str = "") -> bool:
        """Add a binding; return False if it was there already (EX-12)."""
        self.check(arguments)
        identity = self.identity(queue, key)
        existing = self.bindings.get(identity)
        if existing is not None and self.check_again(existing, arguments):
            return False
        if self.has_same(queue, arguments):
            return False
        self.insert(identity, Binding(queue, self.normal_key(key), arguments, scope))
        queue.binding_count += 1
        if self.context.observer is not None:
            self.context.emit("bind", queue.name, link=self.name, detail={"key": key})
        if self.last_transfer is not None:
            self.route(self.last_transfer)
        return True

    def unbind(self, queue: Queue, key: str) -> bool:
        """Remove a binding; return False if there was none (EX-12)."""
        return self._remove(self.identity(queue, key))

    def unbind_queue(self, queue: Queue) -> bool:
        """Remove every binding of a queue; return whether there was one."""
        return self._remove_all([i for i, binding in self.bindings.items() if binding.queue is queue])

    def unbind_scope(self, scope: str) -> bool:
        """Remove the bindings that end with a session (EX-11); return whether there was one."""
        return self._remove_all([i for i, binding in self.bindings.items() if binding.scope == scope])

    def _remove_all(self, identities: list[Identity]) -> bool:
        for identity in identities:
            self._remove(identity)
        return bool(identities)

    def insert(self, identity: Identity, binding: Binding) -> None:
        """Keep a new binding."""
        self.bindings[identity] = binding

    def _remove(self, identity: Identity) -> bool:
        binding = self.bindings.pop(identity, None)
        if binding is None:
            return False
        binding.queue.binding_count -= 1
        if self.context.observer is not None:
            self.context.emit("unbind", binding.queue.name, link=self.name, detail={"key": binding.key})
        self.removed(binding)
        return True

    def removed(self, binding: Binding) -> None:
        """Take note that a binding is gone."""

    def check(self, arguments: Arguments) -> None:
        """Refuse binding arguments that make no sense for this type."""

    def check_again(self, existing: Binding, arguments: Arguments) -> bool:
        """Return whether to bind again changes nothing; refuse it if it makes no sense for this type."""
        return True

    def has_same(self, queue: Queue, arguments: Arguments) -> bool:
        """Return whether a binding under another key is the same one for this type."""
        return False

    def normal_key(self, key: str) -> str:
        """Return the form in which a key is kept."""
        return key

    def identity(self, queue: Queue, key: str) -> Identity:
        """Return what makes two bindings the same one."""
        return queue.name, self.normal_key(key)

    def covers(self, binding: Binding, key: str) -> bool:
        """Return whether ``exchange.bound`` takes a binding to be one for this key (EX-13)."""
        return binding.key == self.normal_key(key)

    def covers_arguments(self, binding: Binding, arguments: Arguments) -> bool:
        """Return whether ``exchange.bound`` takes a binding to be one with these arguments."""
        return True

    def matching(self, transfer: Transfer) -> Sequence[Binding]:
        """Return the bindings a transfer satisfies, at most one for each queue, in order.

        Routing may change the bindings; what was returned stays as it is.
        """
        raise NotImplementedError

    # Routing

    def route(self, transfer: Transfer, delivery_count: int = -1) -> bool:
        """Give the transfer to every matching queue (LP-08); return whether there was one.

        Raises
        ------
        SessionException
            The first refusal, after every queue has been tried; what was accepted stays.
        """
        if self.annotates:
            self._annotate(transfer)
        bindings = self.matching(transfer)
        refusal: SessionException | None = None
        for binding in bindings:
            try:
                binding.queue.deliver(transfer, delivery_count)
                binding.matched += 1
            except SessionException as error:
                refusal = refusal or error
        if refusal is not None:
            raise refusal
        self._count(transfer, len(bindings))
        return bool(bindings)

    def _annotate(self, transfer: Transfer) -> None:
        """Number messages, and keep the last one for queues bound later, if asked to (EX-11)."""
        if self.sequence is not None:
            self.sequence += 1
            transfer.annotate(MSG_SEQUENCE, self.sequence)
        if self.keeps_last:
            # A queue that is bound later gets it at once, whatever becomes of its transaction.
            self.last_transfer = transfer if transfer.transaction is None else transfer.apart()

    def route_with_alternate(self, transfer: Transfer, delivery_count: int = -1) -> bool:
        """Route, or else through the alternate exchange, once (EX-08)."""
        if self.route(transfer, delivery_count):
            return True
        return self.alternate is not None and self.alternate.route(transfer, delivery_count)

    def _count(self, transfer: Transfer, copies: int) -> None:
        self.msg_receives += 1
        self.byte_receives += transfer.size
        if copies:
            self.msg_routes += copies
            self.byte_routes += copies * transfer.size
        else:
            self.msg_drops += 1
            self.byte_drops += transfer.size
            self.context.discardsNoRoute += 1
            if self.context.observer is not None:
                self.context.emit(
                    "unroutable",
                    session=transfer.origin,
                    link=self.name,
                    message=transfer.label,
                    size=transfer.size,
                )

    # End of life

    def refer(self) -> None:
        """Note one more holder of this object."""
        self.references += 1

    def dismiss(self) -> None:
        """Note one holder less; the last one of a deleted exchange ends its bindings (RF-18)."""
        self.references -= 1
        if self.is_deleted:
            self.die_if_forgotten()

    def die_if_forgotten(self) -> None:
        """Uncount the bindings of a deleted exchange which nobody refers to."""
        if self.references:
            return
        self._remove_all(list(self.bindings))
        alternate, self.alternate = self.alternate, None
        if alternate is not None:
            alternate.dismiss()

    def statistics(self) -> ExchangeStatistics:
        """Return what management shows of the exchange."""
        return ExchangeStatistics(
            name=self.name,
            type=self.type,
            bindingCount=len(self.bindings),
            msgReceives=self.msg_receives,
            byteReceives=self.byte_receives,
            msgDrops=self.msg_drops,
            byteDrops=self.byte_drops,
            msgRoutes=self.msg_routes,
            byteRoutes=self.byte_routes,
        )

    def binding_statistics(self) -> list[BindingStatistics]:
        """Return what management shows of the bindings."""
        return [
            BindingStatistics(exchange=self.name, queue=b.queue.name, key=b.key, msgMatched=b.matched)
            for b in self.bindings.values()
        ]
