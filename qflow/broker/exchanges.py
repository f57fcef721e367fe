"""Exchanges: the routing of messages to queues, by bindings (EX).

An :class:`Exchange` has bindings in order, and possibly an alternate exchange for messages that no binding
matches (EX-08, EX-09).  In the four types, a binding matches a message with the same key (direct, EX-04), any
message (fanout, EX-05), a routing key that fits a pattern of words (topic, EX-06), or headers that meet
conditions (headers, EX-07).  The :class:`ExchangeRegistry` declares, deletes and finds exchanges
(EX-01 … EX-03).

A broker that is federated with others binds on their behalf, and names the other broker in
``qpid.fed.origin``.  A binding with origins exists until each of them has withdrawn it, by a bind with
``qpid.fed.op`` "U" (RF-31, RF-49).

The two exchanges ``qmf.default.…`` first check whether a message is a request to management.  Such a request
is passed to the agent (:attr:`qflow.broker.context.BrokerContext.agent`), which answers at the end of the
command (CF-16).

The bindings of a deleted exchange stay counted while something refers to the exchange: a session whose last
transfer was sent to it, or an exchange that has it as its alternate (RF-18).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import ClassVar, Final
from uuid import UUID

from qflow.broker.context import BrokerContext
from qflow.broker.errors import (
    InternalErrorException,
    InvalidArgumentException,
    NotAllowedException,
    NotFoundException,
    SessionException,
)
from qflow.broker.message import HeaderValue, Router, Transfer
from qflow.broker.queue import Queue
from qflow.broker.restorable import Dependent
from qflow.broker.statistics import BindingStatistics, ExchangeStatistics

Arguments = Mapping[str, HeaderValue]
Identity = tuple[str, str]
_MSG_SEQUENCE = "qpid.msg_sequence"
_INITIAL_VALUE = "qpid.ive"
FED_OP = "qpid.fed.op"
FED_ORIGIN = "qpid.fed.origin"
AGENT_NAME = "apache.org:qpidd:qflow"
_REQUEST_KEYS: Final = {
    "qmf.default.direct": ("broker", AGENT_NAME),
    "qmf.default.topic": ("console.request.agent_locate",),
}
"""The routing keys that mark a message as a request to the management agent, by exchange."""


class _Binding(Dependent):
    __slots__ = ("queue", "key", "arguments", "matched")

    def __init__(self, queue: Queue, key: str, arguments: Arguments) -> None:
        self.queue = queue
        self.key = key
        self.arguments = dict(arguments)
        self.matched = 0


class Exchange(Router):
    """Base class of all types of exchange, with bindings in order, an alternate exchange, and counters."""

    type: ClassVar[str] = ""
    keeps_origins: ClassVar[bool] = True

    __slots__ = (
        "context", "bindings", "origins", "replaced", "alternate", "references", "is_deleted",
        "deletes_itself", "durable", "sequence", "annotates", "keeps_last", "last_transfer", "msg_receives",
        "byte_receives", "msg_drops", "byte_drops", "msg_routes", "byte_routes",
    )  # fmt: skip

    def __init__(self, context: BrokerContext, name: str) -> None:
        super().__init__(name)
        self.context = context
        self.bindings: dict[Identity, _Binding] = {}
        # The federation origins of bindings, by key and by the name of the queue.  They are not stored in the
        # binding, as they outlive it while another queue is bound by the key (RF-49).
        self.origins: dict[str, dict[str, set[str]]] = {}
        # The number of bindings that an exclusive one has replaced: management still counts them (RF-39).
        self.replaced = 0
        self.alternate: Exchange | None = None
        self.references = 0
        self.is_deleted = False
        self.deletes_itself = False
        self.durable = False
        self.sequence: int | None = None
        self.annotates = False
        self.keeps_last = False
        self.last_transfer: Transfer | None = None
        self.msg_receives = self.byte_receives = 0
        self.msg_drops = self.byte_drops = 0
        self.msg_routes = self.byte_routes = 0

    def configure(
        self, alternate: Exchange | None, durable: bool, auto_delete: bool, arguments: Arguments | None
    ) -> None:
        """Apply the settings of a declare; an argument takes effect if present, regardless of its value."""
        options = arguments or {}
        self.alternate = alternate
        self.durable = durable
        self.deletes_itself = auto_delete
        self.sequence = 0 if _MSG_SEQUENCE in options else None
        self.keeps_last = _INITIAL_VALUE in options
        self.annotates = self.keeps_last or self.sequence is not None
        if alternate is not None:
            alternate.alternate_users += 1
            alternate.references += 1

    @property
    def arguments(self) -> dict[str, int]:
        """The declare arguments in force, each with the value 1, which has no meaning (EX-11)."""
        options = {_MSG_SEQUENCE: self.sequence is not None, _INITIAL_VALUE: self.keeps_last}
        return {key: 1 for key, is_set in options.items() if is_set}

    # Bindings

    def bind(self, queue: Queue, key: str, arguments: Arguments) -> bool:
        """Bind a queue, or perform ``qpid.fed.op``; return whether that may end the exchange (RF-50)."""
        # A repeated bind changes nothing (EX-12), except that it may add an origin.
        operation, may_end = fed_op(arguments), False
        if operation == "U":
            may_end = self._withdraw(queue, key, fed_origin(arguments))
        elif operation in ("", "B") and not self._add(queue, key, arguments):
            return False
        if self.last_transfer is not None:
            self.route(self.last_transfer)
        return may_end

    def _add(self, queue: Queue, key: str, arguments: Arguments) -> bool:
        self._check(arguments)
        identity = self._identity(queue, key)
        existing = self.bindings.get(identity)
        is_there = existing is not None and self._check_again(existing, arguments)
        if not is_there:
            if self._has_same(queue, arguments):
                return False
            self._insert(identity, _Binding(queue, self._normalize_key(key), arguments))
            queue.binding_count += 1
            if self.context.observer is not None:
                self.context.emit("bind", queue.name, link=self.name, detail={"key": key})
        origin = fed_origin(arguments)
        if origin and self.keeps_origins:
            self.origins.setdefault(self._normalize_key(key), {}).setdefault(queue.name, set()).add(origin)
        return not is_there

    def _withdraw(self, queue: Queue, key: str, origin: str) -> bool:
        """Remove an origin, and unbind after the last one; return whether the exchange may end (RF-49)."""
        by_queue = self.origins.get(self._normalize_key(key), {})
        origins = by_queue.get(queue.name)
        if origins is not None:
            origins.discard(origin)
            if origins:
                return False
            del by_queue[queue.name]
        return self._remove(self._identity(queue, key))

    def unbind(self, queue: Queue, key: str) -> bool:
        """Remove a binding; return whether that may end an auto-delete exchange (EX-12)."""
        return self._remove(self._identity(queue, key))

    def unbind_queue(self, queue: Queue) -> bool:
        """Remove every binding of a queue; return whether there was one."""
        return self._remove_all([i for i, binding in self.bindings.items() if binding.queue is queue])

    def _remove_all(self, identities: list[Identity]) -> bool:
        for identity in identities:
            self._remove(identity)
        return bool(identities)

    def _insert(self, identity: Identity, binding: _Binding) -> None:
        """Add a new binding."""
        self.bindings[identity] = binding

    def _remove(self, identity: Identity) -> bool:
        binding = self.bindings.pop(identity, None)
        if binding is None:
            return False
        binding.queue.binding_count -= 1
        if self.context.observer is not None:
            self.context.emit("unbind", binding.queue.name, link=self.name, detail={"key": binding.key})
        self._forget_binding(binding)
        if binding.key in self.origins and self._drops_key(binding.key):
            del self.origins[binding.key]
        return True

    def _drops_key(self, key: str) -> bool:
        """Return whether the origins of a key are dropped because no binding with the key is left."""
        return not any(binding.key == key for binding in self.bindings.values())

    @property
    def is_idle(self) -> bool:
        """Whether an auto-delete exchange may end: it has no bindings and is no alternate (EX-11)."""
        return not self.bindings and not self.alternate_users

    def _forget_binding(self, binding: _Binding) -> None:
        """Remove a binding from an index that a subclass keeps."""

    def _check(self, arguments: Arguments) -> None:
        """Raise an exception for binding arguments that are invalid for this type of exchange."""

    def _check_again(self, existing: _Binding, arguments: Arguments) -> bool:
        """Return whether a repeated bind has no effect; raise an exception if its arguments are invalid."""
        return True

    def _has_same(self, queue: Queue, arguments: Arguments) -> bool:
        """Return whether the queue has a binding under another key that counts as the same one."""
        return False

    def _normalize_key(self, key: str) -> str:
        """Return a binding key in the form in which this type of exchange stores it."""
        return key

    def _identity(self, queue: Queue, key: str) -> Identity:
        """Return the identity of a binding: two binds with the same identity make one binding."""
        return queue.name, self._normalize_key(key)

    def is_bound(self, queue: Queue | None, key: str, arguments: Arguments) -> bool:
        """Return whether one binding satisfies every criterion given (RF-33)."""
        return any(
            (queue is None or binding.queue is queue) and (not key or self._has_key(binding, key, queue))
            for binding in self.bindings.values()
        )

    def _has_key(self, binding: _Binding, key: str, queue: Queue | None) -> bool:
        """Return whether ``exchange.bound`` regards a binding as one with this key."""
        return binding.key == key

    def has_arguments(self, arguments: Arguments) -> bool:
        """Return whether ``exchange.bound`` finds the arguments; only headers exchanges compare (RF-33)."""
        return True

    def _match(self, transfer: Transfer) -> tuple[_Binding, ...]:
        """Return the bindings that match a transfer, in order, in a tuple that routing does not change."""
        raise NotImplementedError

    # Routing

    def route(self, transfer: Transfer, delivery_count: int = -1) -> bool:
        """Deliver a transfer to each matching queue, and raise the first refusal after the last (LP-08)."""
        if self.name in _REQUEST_KEYS and transfer.message.routing_key in _REQUEST_KEYS[self.name]:
            self.context.ask_agent(transfer)
            if self.type == "direct":
                return True
        if self.annotates:
            self._annotate(transfer)
        bindings = self._match(transfer)
        refusal: SessionException | None = None
        for binding in bindings:
            try:
                binding.queue.deliver(transfer, delivery_count)
                binding.matched += 1
            except SessionException as error:
                refusal = refusal or error
        if refusal is not None:
            # Not counted, as in the real broker, although some queues may have got the message (LP-08).
            raise refusal
        self._count(transfer, len(bindings))
        return bool(bindings)

    def _annotate(self, transfer: Transfer) -> None:
        """Number the message, or store it for queues bound later, if the exchange is declared so (EX-11)."""
        if self.sequence is not None:
            self.sequence += 1
            transfer.annotate(_MSG_SEQUENCE, self.sequence)
        if self.keeps_last:
            # A queue that is bound later gets it at once, even if the message's transaction is rolled back.
            self.last_transfer = transfer if transfer.transaction is None else transfer.apart()

    def route_with_alternate(self, transfer: Transfer, delivery_count: int = -1) -> bool:
        """Route a transfer; if no binding matches, route it through the alternate exchange once (EX-08)."""
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
        """Count a new reference to the exchange."""
        self.references += 1

    def dismiss(self) -> None:
        """Remove a reference; the bindings of a deleted exchange end with the last (RF-18)."""
        # Explicit reference counts replace the broker's shared pointers, as Python does not report the moment
        # at which the last reference ends.
        self.references -= 1
        if self.is_deleted:
            self.unbind_if_unreferenced()

    def unbind_if_unreferenced(self) -> None:
        """Remove the bindings of a deleted exchange, if there are no references to it."""
        if self.references:
            return
        # Not before: until then management counts the bindings of an exchange that routes nothing any more
        # (RF-18).
        self._remove_all(list(self.bindings))
        alternate, self.alternate = self.alternate, None
        if alternate is not None:
            alternate.dismiss()

    def statistics(self) -> ExchangeStatistics:
        """Return the exchange's statistics, as management shows them."""
        return ExchangeStatistics(
            name=self.name,
            type=self.type,
            bindingCount=len(self.bindings) + self.replaced,
            msgReceives=self.msg_receives,
            byteReceives=self.byte_receives,
            msgDrops=self.msg_drops,
            byteDrops=self.byte_drops,
            msgRoutes=self.msg_routes,
            byteRoutes=self.byte_routes,
        )

    def binding_statistics(self) -> list[BindingStatistics]:
        """Return the statistics of all bindings of the exchange, as management shows them."""
        return [
            BindingStatistics(exchange=self.name, queue=b.queue.name, key=b.key, msgMatched=b.matched)
            for b in self.bindings.values()
        ]


def _normalize_pattern(pattern: str) -> str:
    """Return a topic pattern in the broker's form, with each ``#`` after adjacent ``*`` words (EX-06)."""
    words: list[str] = []
    for is_wild, run in groupby(pattern.split("."), lambda word: word in ("*", "#")):
        part = list(run)
        if is_wild:
            part = ["*"] * part.count("*") + ["#"] * ("#" in part)
        words += part
    return ".".join(words)


_TopicRank = tuple[int, ...]
"""The place of a pattern in the order in which the broker's search finds the patterns that match a key."""

_HASH, _STAR, _WORD = 0, 1, 2
_HERE, _BELOW = -1, 0
_LAST = 1 << 30


def topic_matches(pattern: str, key: str) -> bool:
    """Return whether a routing key matches a pattern, in which ``*`` is one word and ``#`` any number.

    >>> topic_matches("a.#", "a"), topic_matches("*.x", ".x"), topic_matches("a.#.b.*", "a.b")
    (True, True, False)
    """
    return _rank_topic(pattern, key) is not None


@lru_cache(maxsize=4096)
def _rank_topic(pattern: str, key: str) -> _TopicRank | None:
    """Return the rank of a pattern in the broker's search for a key, or None if it does not match."""
    return _rank_words(tuple(pattern.split(".")), tuple(key.split(".")))


def _rank_words(pattern: tuple[str, ...], words: tuple[str, ...]) -> _TopicRank | None:
    head, rest = pattern[0], pattern[1:]
    # The broker searches a tree of the patterns' words: at each node first "#", then "*", then the key's
    # word. Sorting the patterns by rank gives the order in which that search finds them, without the tree.
    if head == "#":
        if not rest:
            return (_HASH, _LAST)
        for skipped in range(len(words)):
            found = _rank_words(rest, words[skipped:])
            if found is not None:
                return (_HASH, skipped, *found)
        return None
    if not words or head not in ("*", words[0]):
        return None
    branch = _STAR if head == "*" else _WORD
    if not rest:
        return (branch, _HERE) if len(words) == 1 else None
    found = _rank_words(rest, words[1:])
    return None if found is None else (branch, _BELOW, *found)


def fed_op(arguments: Arguments) -> str:
    """Return the federation operation in a bind's arguments, or "" for an ordinary bind (RF-31)."""
    operation = arguments.get(FED_OP)
    return operation if isinstance(operation, str) else ""


def fed_origin(arguments: Arguments) -> str:
    """Return the federation origin in a bind's arguments, or "" if it is absent (RF-49)."""
    origin = arguments.get(FED_ORIGIN)
    return origin if isinstance(origin, str) else ""


def _same_arguments(bound: Arguments, arguments: Arguments) -> bool:
    """Return whether a binding has the same arguments, apart from those with ``qpid.`` keys (RF-27)."""
    return _add_types(bound) == _add_types(_select_conditions(arguments))


def _add_types(arguments: Arguments) -> dict[str, tuple[type, HeaderValue]]:
    return {key: (type(value), value) for key, value in arguments.items()}


def _select_conditions(arguments: Arguments) -> Arguments:
    return {key: value for key, value in arguments.items() if not key.startswith("qpid.")}


def _headers_match(arguments: Mapping[str, HeaderValue], headers: Mapping[str, HeaderValue]) -> bool:
    """Return whether headers meet a binding's conditions, including ``x-match`` (EX-07, RF-29)."""
    wanted = _select_conditions(arguments)
    found = sum(key in headers and _value_matches(value, headers[key]) for key, value in wanted.items())
    # One less than all, because x-match itself is among the conditions, and a message has usually no header
    # of that name. With "any" and no other argument, no message matches.
    return found == len(wanted) - 1 if arguments["x-match"] == "all" else found > 0


def _value_matches(wanted: HeaderValue, got: HeaderValue) -> bool:
    """Compare as the header's type; a binding's value of another type counts as 0 or "" (RF-28)."""
    # The type of the *message's* value decides how both are compared (RF-28); values of the following types
    # equal nothing.
    if isinstance(got, list | dict | UUID):
        return False
    if wanted is None:
        return True
    if isinstance(got, str):
        return got == (wanted if isinstance(wanted, str) else "")
    if isinstance(got, int):
        return got == (wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else 0)
    return isinstance(got, float) and isinstance(wanted, float) and got == wanted


_EXCLUSIVE_BINDING = "qpid.exclusive-binding"


class DirectExchange(Exchange):
    """An exchange that matches equal routing and binding keys (EX-04), as the default one does (EX-02)."""

    type: ClassVar[str] = "direct"
    __slots__ = ("_by_key", "bare_keys")

    def __init__(self, context: BrokerContext, name: str) -> None:
        super().__init__(context, name)
        self._by_key: dict[str, tuple[_Binding, ...]] = {}
        # Keys without a binding that an operation "U" has added (RF-50): the look-up in the real broker's map
        # inserts an empty entry, and an exchange with an entry counts as bound.
        self.bare_keys: set[str] = set()

    def _check_again(self, existing: _Binding, arguments: Arguments) -> bool:
        return _EXCLUSIVE_BINDING not in arguments

    def _insert(self, identity: Identity, binding: _Binding) -> None:
        """Add a binding, also to the index by key; an exclusive one replaces others of the key (EX-04)."""
        origins = self.origins.get(binding.key)
        if _EXCLUSIVE_BINDING in binding.arguments:
            for other in self._by_key.get(binding.key, ()):
                self.unbind(other.queue, other.key)
                self.replaced += 1
        if origins is not None:
            # The key is still bound, so its origins are kept.
            self.origins[binding.key] = origins
        self.bare_keys.discard(binding.key)
        super()._insert(identity, binding)
        self._by_key[binding.key] = (*self._by_key.get(binding.key, ()), binding)

    def _forget_binding(self, binding: _Binding) -> None:
        others = tuple(other for other in self._by_key[binding.key] if other is not binding)
        if others:
            self._by_key[binding.key] = others
        else:
            del self._by_key[binding.key]

    def _withdraw(self, queue: Queue, key: str, origin: str) -> bool:
        if key not in self._by_key:
            self.bare_keys.add(key)
        return super()._withdraw(queue, key, origin)

    @property
    def is_idle(self) -> bool:
        """Whether an auto-delete exchange may end, which a key without a binding also prevents (RF-50)."""
        return not (self.bindings or self.bare_keys or self.alternate_users)

    def is_bound(self, queue: Queue | None, key: str, arguments: Arguments) -> bool:
        """Return whether a binding meets all criteria; without a queue, a bare key counts as one (RF-50)."""
        is_bare = queue is None and (key in self.bare_keys if key else bool(self.bare_keys))
        return is_bare or super().is_bound(queue, key, arguments)

    def _match(self, transfer: Transfer) -> tuple[_Binding, ...]:
        return self._by_key.get(transfer.message.routing_key or "", ())


class _FanoutExchange(Exchange):
    """An exchange that routes to each bound queue; a queue is bound at most once (EX-05)."""

    type: ClassVar[str] = "fanout"
    __slots__ = ()

    def _normalize_key(self, key: str) -> str:
        return ""

    def _drops_key(self, key: str) -> bool:
        return False

    def is_bound(self, queue: Queue | None, key: str, arguments: Arguments) -> bool:
        """Return whether a queue is bound by any key; always False without a queue (RF-33)."""
        return queue is not None and super().is_bound(queue, "", arguments)

    def _match(self, transfer: Transfer) -> tuple[_Binding, ...]:
        return tuple(self.bindings.values())


class _TopicExchange(Exchange):
    """An exchange that matches routing keys against patterns in the order of the broker's tree (EX-06)."""

    type: ClassVar[str] = "topic"
    __slots__ = ()

    def _normalize_key(self, key: str) -> str:
        return _normalize_pattern(key)

    def _withdraw(self, queue: Queue, key: str, origin: str) -> bool:
        """Remove an origin, if the queue is bound; return False, as that never ends the exchange (RF-50)."""
        if self._identity(queue, key) in self.bindings:
            super()._withdraw(queue, key, origin)
        return False

    def _has_key(self, binding: _Binding, key: str, queue: Queue | None) -> bool:
        """Return whether the patterns are equal; the key is only normalised if a queue is given (RF-33)."""
        return binding.key == (key if queue is None else _normalize_pattern(key))

    def _match(self, transfer: Transfer) -> tuple[_Binding, ...]:
        key = transfer.message.routing_key or ""
        ranked = [(rank, b) for b in self.bindings.values() if (rank := _rank_topic(b.key, key)) is not None]
        ranked.sort(key=itemgetter(0))
        return _choose_one_for_each_queue([binding for _, binding in ranked])


class _HeadersExchange(Exchange):
    """An exchange that matches application headers against the arguments of bindings (EX-07)."""

    type: ClassVar[str] = "headers"
    keeps_origins: ClassVar[bool] = False
    __slots__ = ("noted",)

    def __init__(self, context: BrokerContext, name: str) -> None:
        super().__init__(context, name)
        # Queues of which a bind with a federation operation is recorded like a binding (RF-50).
        self.noted: list[Queue] = []

    def bind(self, queue: Queue, key: str, arguments: Arguments) -> bool:
        """Bind a queue, and record the queue of a bind with a federation operation (RF-50)."""
        may_end = super().bind(queue, key, arguments)
        if fed_op(arguments) not in ("", "B") and queue not in self.noted:
            self.noted.append(queue)
        return may_end

    def unbind_queue(self, queue: Queue) -> bool:
        """Remove every binding of a queue; return whether it had a binding or a recorded bind (RF-50)."""
        # The answer decides whether an auto-delete exchange may end (RF-32).
        is_noted = queue in self.noted
        if is_noted:
            self.noted.remove(queue)
        return super().unbind_queue(queue) or is_noted

    def _check(self, arguments: Arguments) -> None:
        """Raise InternalErrorException (541, as in the broker) unless ``x-match`` is all or any (EX-03)."""
        match = arguments.get("x-match", "")
        if match not in ("all", "any"):
            what = "or missing x-match value binding" if isinstance(match, str) else "x-match binding format"
            raise InternalErrorException(
                f'Invalid {what} to headers exchange. Must be a string ["all" or "any"]'
            )

    def _check_again(self, existing: _Binding, arguments: Arguments) -> bool:
        """Raise InternalErrorException (541) if the arguments differ from those of the binding (EX-03)."""
        if not _same_arguments(existing.arguments, arguments):
            raise InternalErrorException(
                f"Exchange: {self.name}, binding key: {existing.key} Duplicate binding key not allowed."
            )
        return True

    def _has_same(self, queue: Queue, arguments: Arguments) -> bool:
        """Return whether the queue is bound with these arguments under any key (EX-12)."""
        return any(
            binding.queue is queue and _same_arguments(binding.arguments, arguments)
            for binding in self.bindings.values()
        )

    def unbind(self, queue: Queue, key: str) -> bool:
        """Remove a binding, if it exists; return True, as the exchange may end in either case (RF-32)."""
        super().unbind(queue, key)
        return True

    def is_bound(self, queue: Queue | None, key: str, arguments: Arguments) -> bool:
        """Return whether one binding satisfies the criteria, among which the key is ignored (RF-33)."""
        return any(
            (queue is None or binding.queue is queue) and (not arguments or _has_all(arguments, binding))
            for binding in self.bindings.values()
        )

    def has_arguments(self, arguments: Arguments) -> bool:
        """Return whether some binding has all its arguments among these, or there are no bindings."""
        return not self.bindings or self.is_bound(None, "", arguments)

    def _match(self, transfer: Transfer) -> tuple[_Binding, ...]:
        headers = transfer.message.headers or {}
        return _choose_one_for_each_queue(
            [b for b in self.bindings.values() if _headers_match(b.arguments, headers)]
        )


def _has_all(arguments: Arguments, binding: _Binding) -> bool:
    """Return whether all arguments of a binding, also x-match, are among these; None equals any value."""
    given = _add_types(arguments)
    wanted = _add_types(_select_conditions(binding.arguments))
    return all(key in given and (value[1] is None or given[key] == value) for key, value in wanted.items())


def _choose_one_for_each_queue(bindings: list[_Binding]) -> tuple[_Binding, ...]:
    # A queue with several matching bindings gets one copy, by the first of them.
    chosen = {id(binding.queue): binding for binding in reversed(bindings)}
    return tuple([binding for binding in bindings if chosen[id(binding.queue)] is binding])


EXCHANGE_TYPES = ("direct", "fanout", "topic", "headers")


def _make_exchange(kind: str, context: BrokerContext, name: str) -> Exchange:
    if kind == "direct":
        return DirectExchange(context, name)
    if kind == "fanout":
        return _FanoutExchange(context, name)
    return _TopicExchange(context, name) if kind == "topic" else _HeadersExchange(context, name)


PREDECLARED = {
    "amq.direct": "direct",
    "amq.topic": "topic",
    "amq.fanout": "fanout",
    "amq.match": "headers",
    "qpid.management": "topic",
    "qmf.default.topic": "topic",
    "qmf.default.direct": "direct",
}
_UNDELETABLE = ("amq.direct", "amq.topic", "amq.fanout", "amq.match", "qpid.management")


class ExchangeRegistry(Dependent):
    """The exchanges of a broker by name, with "" for the default exchange."""

    __slots__ = ("context", "exchanges", "default")

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self.default = DirectExchange(context, "")
        self.exchanges: dict[str, Exchange] = {"": self.default}
        for name, kind in PREDECLARED.items():
            self.exchanges[name] = _make_exchange(kind, context, name)

    def get(self, name: str) -> Exchange:
        """Return an exchange by name; raise NotFoundException (404) for an unknown name."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise NotFoundException(f"Exchange not found: {name}")
        return exchange

    def alternate(self, name: str) -> Exchange | None:
        """Return the exchange of a name, or None for ""; raise NotFoundException (404) if unknown (EX-03)."""
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
        """Return an exchange, created if necessary, and whether it is new; raise 404 or 530 (EX-03)."""
        existing = self.exchanges.get(name)
        if existing is not None:
            _check_same(existing, kind, alternate)
            return existing, False
        if kind not in EXCHANGE_TYPES:
            raise NotFoundException(f"Exchange type not implemented: {kind}")
        exchange = _make_exchange(kind, self.context, name)
        exchange.configure(alternate, durable, auto_delete, arguments)
        self.exchanges[name] = exchange
        if self.context.observer is not None:
            self.context.emit("exchangeDeclare", link=name, detail={"type": kind})
        return exchange, True

    def check(self, name: str, kind: str, alternate: Exchange | None) -> None:
        """Raise the exceptions of :meth:`declare` unless an exchange has this name, type and alternate."""
        _check_same(self.get(name), kind, alternate)

    def delete(self, name: str) -> None:
        """Delete an exchange (RF-18); raise 530 if it is predeclared, or in use as an alternate."""
        if not name:
            raise InvalidArgumentException("Delete not allowed for default exchange")
        exchange = self.get(name)
        if exchange.alternate_users:
            raise NotAllowedException(f"Cannot delete {name}, in use as alternate-exchange.")
        if name in _UNDELETABLE:
            raise NotAllowedException(f"Cannot delete default exchange: '{name}'")
        del self.exchanges[name]
        exchange.is_deleted = True
        if self.context.observer is not None:
            self.context.emit("exchangeDelete", link=name)
        if exchange.alternate is not None:
            exchange.alternate.alternate_users -= 1
        exchange.unbind_if_unreferenced()

    def unbind_everywhere(self, queue: Queue) -> None:
        """Remove every binding of a deleted queue, and auto-delete exchanges that have none left."""
        for exchange in list(self.exchanges.values()):
            if exchange.unbind_queue(queue):
                self.consider(exchange)

    def consider(self, exchange: Exchange) -> None:
        """Delete an auto-delete exchange whose last binding is gone (EX-11)."""
        if exchange.deletes_itself and exchange.is_idle and self.exchanges.get(exchange.name) is exchange:
            self.delete(exchange.name)


def _check_same(existing: Exchange, kind: str, alternate: Exchange | None) -> None:
    if kind and kind != existing.type:
        raise NotAllowedException(f"Exchange declared to be of type {existing.type}, requested {kind}")
    if alternate is not None and alternate is not existing.alternate:
        declared = existing.alternate.name if existing.alternate is not None else "<none>"
        raise NotAllowedException(
            f"Exchange declared with alternate-exchange {declared}, requested {alternate.name}"
        )
