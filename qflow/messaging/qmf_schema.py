"""The schema of management: which classes there are, and what their objects, methods and events hold.

A console learns it before it asks for objects; ``qpid-tool`` shows it.  It is the part of the real broker's
schema that this model has values for (CF-09 … CF-12).  A *property* says what an object is, a *statistic*
counts what has become of it.  Types are QMF's, by name and by number; an object is named by those of its
properties that are its *index*.
"""

# ruff: noqa: N802, N815  (the names are the real console's)

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from uuid import UUID, uuid5

from qflow.messaging.qmf import EVENT_FIELDS, FLOW_TO_DISK, MALLOC, METHODS, PACKAGE, RESULTS

_TYPES = {
    "uint16": 2, "uint32": 3, "uint64": 4, "count32": 3, "count64": 4, "hilo32": 3, "sstr": 6, "lstr": 7,
    "absTime": 8, "deltaTime": 9, "objId": 10, "bool": 11, "map": 15,
}  # fmt: skip
"""The numbers that consoles know the types by."""

_COUNTED = (
    "msgTotalEnqueues msgTotalDequeues byteTotalEnqueues byteTotalDequeues msgDepth byteDepth "
    "msgPersistEnqueues msgPersistDequeues bytePersistEnqueues bytePersistDequeues "
    "msgTxnEnqueues msgTxnDequeues byteTxnEnqueues byteTxnDequeues acquires releases discardsTtl "
    "discardsRing discardsLvq discardsOverflow discardsSubscriber discardsPurge reroutes "
) + " ".join(FLOW_TO_DISK)
_EXCHANGE_COUNTED = "msgReceives msgDrops msgRoutes byteReceives byteDrops byteRoutes"
_TRAFFIC = "framesFromClient framesToClient bytesFromClient bytesToClient msgsFromClient msgsToClient"

# Words are name:type; the name's * is an index, the type's ? is optional; without a type it is count64.
_CLASSES: dict[str, tuple[str, str]] = {
    "broker": (
        "*name:sstr",
        f"uptime:deltaTime queueCount {_COUNTED} discardsNoRoute abandoned abandonedViaAlt",
    ),
    "memory": (" ".join(["*name:sstr", *(f"{name}:uint64?" for name in MALLOC)]), ""),
    "queue": (
        "*name:sstr durable:bool autoDelete:bool exclusive:bool arguments:map altExchange:objId?",
        f"{_COUNTED} consumerCount:hilo32 bindingCount:hilo32 flowStopped:bool flowStoppedCount:count32 "
        "redirectPeer:sstr redirectSource:bool",
    ),
    "exchange": (
        "*name:sstr type:sstr durable:bool autoDelete:bool altExchange:objId? arguments:map",
        f"bindingCount:hilo32 {_EXCHANGE_COUNTED}",
    ),
    "binding": ("*exchangeRef:objId *queueRef:objId *bindingKey:lstr arguments:map", "msgMatched"),
    "session": (
        "*name:sstr connectionRef:objId attached:bool",
        "unackedMessages:uint64 TxnStarts TxnCommits TxnRejects TxnCount:count32",
    ),
    "subscription": (
        "*sessionRef:objId *queueRef:objId *name:sstr browsing:bool acknowledged:bool exclusive:bool "
        "creditMode:sstr",
        "delivered",
    ),
    "connection": (
        "*address:sstr incoming:bool authIdentity:sstr saslMechanism:sstr saslSsf:uint16 "
        "remoteProperties:map protocol:sstr",
        f"closing:bool {_TRAFFIC}",
    ),
}

_ARGUMENT_TYPES = (
    "properties:map options:map filter:map results:map strict:bool useAltExchange:bool receive:bool "
    "qty:uint32 request:uint32 sequence:uint32 body:lstr"
)


@dataclass(frozen=True)
class ClassKey:
    """Names a class of objects or of events."""

    package: str
    name: str
    type: str

    def getPackageName(self) -> str:
        """Return the package."""
        return self.package

    def getClassName(self) -> str:
        """Return the name of the class."""
        return self.name

    def getType(self) -> str:
        """Return "_data" or "_event"."""
        return self.type

    def getHash(self) -> UUID:
        """Return what differs between two classes of one name; here it is made of the names."""
        return uuid5(UUID(int=0), f"{self.package}:{self.name}:{self.type}")

    def getHashString(self) -> str:
        """Return the hash as text."""
        return str(self.getHash())

    def getPackageKey(self) -> tuple[str, UUID]:
        """Return what names the class inside its package."""
        return self.name, self.getHash()

    def __repr__(self) -> str:
        return f"{self.package}:{self.name}:{self.type}({self.getHashString()})"


@dataclass(frozen=True)
class SchemaProperty:
    """A property of a class: ``type`` is one of the numbers of :data:`_TYPES`."""

    name: str
    type: int
    index: bool = False
    optional: bool = False
    access: str = "3"
    unit: str | None = None
    desc: str | None = None

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class SchemaStatistic:
    """A statistic of a class."""

    name: str
    type: int
    unit: str | None = None
    desc: str | None = None

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class SchemaArgument:
    """An argument of a method (``dir`` is I, O or IO) or of an event."""

    name: str
    type: int
    dir: str = "I"
    unit: str | None = None
    default: object = None
    desc: str | None = None


@dataclass(frozen=True)
class SchemaMethod:
    """A method of a class."""

    name: str
    arguments: tuple[SchemaArgument, ...]
    desc: str | None = None

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(a.name for a in self.arguments if 'I' in a.dir)})"


@dataclass(frozen=True)
class SchemaClass:
    """A class: of objects, with properties, statistics and methods, or of events, with arguments."""

    CLASS_KIND_TABLE = 1
    CLASS_KIND_EVENT = 2

    classKey: ClassKey
    kind: int
    properties: tuple[SchemaProperty, ...] = ()
    statistics: tuple[SchemaStatistic, ...] = ()
    methods: tuple[SchemaMethod, ...] = ()
    arguments: tuple[SchemaArgument, ...] = field(default=())

    def getKey(self) -> ClassKey:
        """Return the name of the class."""
        return self.classKey

    def getProperties(self) -> list[SchemaProperty]:
        """Return the properties in order."""
        return list(self.properties)

    def getStatistics(self) -> list[SchemaStatistic]:
        """Return the statistics in order."""
        return list(self.statistics)

    def getMethods(self) -> list[SchemaMethod]:
        """Return the methods in order."""
        return list(self.methods)

    def getArguments(self) -> list[SchemaArgument]:
        """Return the arguments of a class of events."""
        return list(self.arguments)

    def __repr__(self) -> str:
        kind = "Table" if self.kind == self.CLASS_KIND_TABLE else "Event"
        return f"{kind} Class: {self.classKey!r} "


@cache
def schemas() -> dict[str, SchemaClass]:
    """Return all classes by name."""
    tables = {name: _table(name, *words) for name, words in _CLASSES.items()}
    return tables | {name: _event(name, words) for name, words in EVENT_FIELDS.items()}


def _table(name: str, properties: str, statistics: str) -> SchemaClass:
    methods = [_method(method, inputs) for method, inputs in METHODS.get(name, {}).items()]
    return SchemaClass(
        ClassKey(PACKAGE, name, "_data"),
        SchemaClass.CLASS_KIND_TABLE,
        tuple(_property(word) for word in properties.split()),
        tuple(SchemaStatistic(*_split_type(word), unit=_unit(word)) for word in statistics.split()),
        tuple(methods),
    )


def _event(name: str, words: str) -> SchemaClass:
    arguments = tuple(SchemaArgument(*_split_type(word)) for word in words.split())
    key = ClassKey(PACKAGE, name, "_event")
    return SchemaClass(key, SchemaClass.CLASS_KIND_EVENT, arguments=arguments)


def _split_type(word: str) -> tuple[str, int]:
    name, _, kind = word.partition(":")
    return name.lstrip("*"), _TYPES[kind.rstrip("?") or "count64"]


def _property(word: str) -> SchemaProperty:
    is_index = word.startswith("*")
    access = "1" if is_index else "3"
    return SchemaProperty(*_split_type(word), index=is_index, optional=word.endswith("?"), access=access)


def _unit(word: str) -> str | None:
    if word.startswith("byte"):
        return "octet"
    counted = ("msg", "discards", "acquires", "releases", "reroutes", "abandoned", "delivered")
    return "message" if word.startswith(counted) else None


def _method(name: str, inputs: tuple[str, ...]) -> SchemaMethod:
    types = dict(_split_type(word) for word in _ARGUMENT_TYPES.split())
    outputs = RESULTS.get(name, ())
    arguments = []
    for argument in dict.fromkeys((*inputs, *outputs)):
        direction = "I" * (argument in inputs) + "O" * (argument in outputs)
        arguments.append(SchemaArgument(argument, types.get(argument, _TYPES["sstr"]), direction))
    return SchemaMethod(name, tuple(arguments))
