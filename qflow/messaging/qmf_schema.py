"""The management schema: the classes of objects and events, with their properties, statistics and methods.

A console reads the schema before it queries objects; ``qpid-tool`` shows it.  It is the part of the real
broker's schema for which this model has values (CF-09 … CF-12).  A *property* describes an object, such as
the name of a queue; a *statistic* is a measured value, such as its depth.  Types are QMF's, with names and
numbers.  The properties that are an *index* identify an object.

In the tables, each word is ``name:type``; without a type it is a count64.  ``*`` before the name of a
property makes it an index; before the name of an argument, ``>`` makes it an output, and ``=`` both an input
and an output.  A ``?`` at the end makes a property or argument optional.
"""

# ruff: noqa: N802, N815  (the names are the real console's)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from uuid import UUID, uuid5

PACKAGE = "org.apache.qpid.broker"

_TYPES = {
    "uint16": 2, "uint32": 3, "uint64": 4, "count32": 3, "count64": 4, "hilo32": 3, "sstr": 6, "lstr": 7,
    "absTime": 8, "deltaTime": 9, "objId": 10, "bool": 11, "map": 15,
}  # fmt: skip
"""The number of each QMF type, by which consoles identify it."""

FLOW_TO_DISK = [f"{unit}Ftd{what}" for unit in ("msg", "byte") for what in ("Enqueues", "Dequeues", "Depth")]
MALLOC = [
    f"malloc_{name}" for name in ("arena", "ordblks", "hblks", "hblkhd", "uordblks", "fordblks", "keepcost")
]
_COUNTED = (
    "msgTotalEnqueues msgTotalDequeues byteTotalEnqueues byteTotalDequeues msgDepth byteDepth "
    "msgPersistEnqueues msgPersistDequeues bytePersistEnqueues bytePersistDequeues "
    "msgTxnEnqueues msgTxnDequeues byteTxnEnqueues byteTxnDequeues acquires releases discardsTtl "
    "discardsRing discardsLvq discardsOverflow discardsSubscriber discardsPurge reroutes "
) + " ".join(FLOW_TO_DISK)
_EXCHANGE_COUNTED = "msgReceives msgDrops msgRoutes byteReceives byteDrops byteRoutes"
_TRAFFIC = "framesFromClient framesToClient bytesFromClient bytesToClient msgsFromClient msgsToClient"

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

_METHODS: dict[str, dict[str, str]] = {
    "broker": {
        "create": "type:sstr name:sstr properties:map? strict:bool?",
        "delete": "type:sstr name:sstr options:map? strict:bool?",
        "query": "type:sstr name:sstr >results:map",
        "queueMoveMessages": "srcQueue:sstr destQueue:sstr qty:uint32? filter:map?",
        "queueRedirect": "sourceQueue:sstr targetQueue:sstr?",
        "getTimestampConfig": ">receive:bool",
        "setTimestampConfig": "receive:bool",
        "getLogLevel": ">level:sstr",
        "setLogLevel": "level:sstr",
        "echo": "=sequence:uint32 =body:lstr",
    },
    "queue": {
        "purge": "request:uint32? filter:map?",
        "reroute": "request:uint32? useAltExchange:bool? exchange:sstr filter:map?",
    },
    "connection": {"close": ""},
}
"""The arguments of each method in order, by class of object and name of the method (CF-11)."""

_WHO = "rhost:sstr user:sstr"
_DEPTHS = "qName:sstr msgDepth byteDepth"
_EVENTS: dict[str, str] = {
    "clientConnect": f"{_WHO} properties:map",
    "clientConnectFail": f"{_WHO} reason:lstr properties:map",
    "clientDisconnect": f"{_WHO} properties:map",
    "brokerLinkUp": "rhost:sstr",
    "brokerLinkDown": "rhost:sstr",
    "queueDeclare": f"{_WHO} qName:sstr args:map",
    "queueDelete": f"{_WHO} qName:sstr",
    "exchangeDeclare": f"{_WHO} exName:sstr exType:sstr",
    "exchangeDelete": f"{_WHO} exName:sstr",
    "bind": f"{_WHO} exName:sstr qName:sstr key:lstr",
    "unbind": f"{_WHO} exName:sstr qName:sstr key:lstr",
    "subscribe": f"{_WHO} qName:sstr dest:sstr",
    "unsubscribe": f"{_WHO} qName:sstr dest:sstr",
    "queueThresholdCrossedUpward": _DEPTHS,
    "queueThresholdCrossedDownward": _DEPTHS,
    "queueThresholdExceeded": _DEPTHS,
    "queueRedirect": "qName:sstr qTarget:sstr",
    "queueRedirectCancelled": "qName:sstr qTarget:sstr",
}
EVENTS = tuple(_EVENTS)[5:]
"""The kinds of events that happen in this model (CF-12): all in the schema but the first five."""


@dataclass(frozen=True)
class ClassKey:
    """The key of a class of objects or events: its package, name and type."""

    package: str
    name: str
    type: str

    def getPackageName(self) -> str:
        """Return the name of the package."""
        return self.package

    def getClassName(self) -> str:
        """Return the name of the class."""
        return self.name

    def getType(self) -> str:
        """Return the type: "_data" for a class of objects, "_event" for a class of events."""
        return self.type

    def getHash(self) -> UUID:
        """Return the hash that distinguishes classes with the same name; here it is computed from the key."""
        return uuid5(UUID(int=0), f"{self.package}:{self.name}:{self.type}")

    def getHashString(self) -> str:
        """Return the hash as text."""
        return str(self.getHash())

    def getPackageKey(self) -> tuple[str, UUID]:
        """Return the key of the class inside its package: its name and hash."""
        return self.name, self.getHash()

    def __repr__(self) -> str:
        return f"{self.package}:{self.name}:{self.type}({self.getHashString()})"


@dataclass(frozen=True)
class _Element:
    """A property, statistic or argument: its name, its type as a number in :data:`_TYPES`, and its unit."""

    name: str
    type: int
    unit: str | None = None
    desc: str | None = None

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, repr=False)
class SchemaProperty(_Element):
    """A property of a class of objects."""

    index: bool = False
    optional: bool = False
    access: str = "3"


class SchemaStatistic(_Element):
    """A statistic of a class of objects."""


@dataclass(frozen=True, repr=False)
class SchemaArgument(_Element):
    """An argument of a method (``dir`` is I, O or IO) or of an event."""

    dir: str = "I"
    optional: bool = False
    default: object = None


@dataclass(frozen=True)
class SchemaMethod:
    """A method of a class of objects."""

    name: str
    arguments: tuple[SchemaArgument, ...]
    desc: str | None = None

    def names(self, direction: str) -> list[str]:
        """Return the names of the arguments with a direction: "I" for inputs, "O" for outputs."""
        return [argument.name for argument in self.arguments if direction in argument.dir]

    def find_error(self, given: Mapping[str, object]) -> str:
        """Return an error text if a call's arguments do not match the method's, or ""."""
        names = self.names("I")
        optional = {argument.name for argument in self.arguments if argument.optional}
        if given.get("useAltExchange"):
            optional.add("exchange")
        fits = set(names) - optional <= given.keys() <= set(names)
        return "" if fits else f"{self.name}: got {sorted(given)}, takes {names}"

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.names('I'))})"


@dataclass(frozen=True)
class SchemaClass:
    """A class of objects (with properties, statistics and methods) or of events (with arguments)."""

    CLASS_KIND_TABLE = 1
    CLASS_KIND_EVENT = 2

    classKey: ClassKey
    kind: int
    properties: tuple[SchemaProperty, ...] = ()
    statistics: tuple[SchemaStatistic, ...] = ()
    methods: tuple[SchemaMethod, ...] = ()
    arguments: tuple[SchemaArgument, ...] = ()

    def getKey(self) -> ClassKey:
        """Return the key of the class."""
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
    """Return all classes of objects and events, by name."""
    tables = {name: _table(name, *words) for name, words in _CLASSES.items()}
    return tables | {name: _event(name, words) for name, words in _EVENTS.items()}


def find_method(kind: str, name: str) -> SchemaMethod | None:
    """Return the method with a name of a class of objects, or None."""
    methods = schemas()[kind].methods if kind in _METHODS else ()
    return next((method for method in methods if method.name == name), None)


def _table(name: str, properties: str, statistics: str) -> SchemaClass:
    methods = _METHODS.get(name, {}).items()
    return SchemaClass(
        ClassKey(PACKAGE, name, "_data"),
        SchemaClass.CLASS_KIND_TABLE,
        tuple(_property(word) for word in properties.split()),
        tuple(SchemaStatistic(*_split_type(word), unit=_unit(word)) for word in statistics.split()),
        tuple(SchemaMethod(method, _arguments(words)) for method, words in methods),
    )


def _event(name: str, words: str) -> SchemaClass:
    key = ClassKey(PACKAGE, name, "_event")
    return SchemaClass(key, SchemaClass.CLASS_KIND_EVENT, arguments=_arguments(words))


def _split_type(word: str) -> tuple[str, int]:
    name, _, kind = word.partition(":")
    return name.lstrip("*>="), _TYPES[kind.rstrip("?") or "count64"]


def _property(word: str) -> SchemaProperty:
    is_index = word.startswith("*")
    access = "1" if is_index else "3"
    return SchemaProperty(*_split_type(word), index=is_index, optional=word.endswith("?"), access=access)


def _unit(word: str) -> str | None:
    if word.startswith("byte"):
        return "octet"
    counted = ("msg", "discards", "acquires", "releases", "reroutes", "abandoned", "delivered")
    return "message" if word.startswith(counted) else None


def _arguments(words: str) -> tuple[SchemaArgument, ...]:
    direction = {">": "O", "=": "IO"}
    return tuple(
        SchemaArgument(*_split_type(word), dir=direction.get(word[0], "I"), optional=word.endswith("?"))
        for word in words.split()
    )
