"""The workload model: the data that describes a run, namely queues, producers, consumers, and a duration.

A workload determines a run completely.  :class:`Producer` and :class:`Consumer` describe the behaviour of a
client, and :class:`Workload` combines them with queues and bindings; each class refuses an invalid value when
an object is constructed.  :func:`qflow.workload.simulate` runs a workload: :mod:`qflow.workload.arrivals`
draws the due times and service times of messages, and :mod:`qflow.workload.clients` implements the clients.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from qflow import client_windows
from qflow.broker.errors import StartupError
from qflow.broker.options import BrokerOptions
from qflow.broker.settings import Argument
from qflow.kit import read_text
from qflow.workload.attributes import (
    Rules,
    WorkloadError,
    as_tuple,
    is_all,
    is_name,
    is_none_or,
    is_number,
    is_positive,
    is_text,
    is_tuple_of,
    is_whole,
    one_of,
    require,
    require_all,
    require_keys,
)
from qflow.workload.network import Network

INFERRED = "inferred"
"""The key of a workload file under which a recorder lists values that it inferred, with their evidence."""

NOT_SEEN_DECLARED = {"qflow.arguments": "unknown"}
"""The argument that marks a queue whose declaration was not recorded, so that its thresholds are unknown."""

SETUP = "setup"
"""The name of the session that declares the queues, which no client may have."""

_ARRIVALS = ("poisson", "const", "recorded")
MODELS = ("open", "closed")
_WINDOWS = tuple(sorted(client_windows.WINDOWS))
_SERVICES = ("exp", "const")

MESSAGES_PER_SECOND = 1_000_000
"""The highest rate of a producer: one message per microsecond, the resolution of virtual time."""

_LARGEST_PRIORITY = 9
"""The highest of AMQP's ten priorities, although the broker would accept any byte (QT-04)."""

_FURTHEST_DRAW = 13
"""The number of standard deviations from the mean that no draw of :func:`random.normalvariate` exceeds."""

_LARGEST_MU = 27
"""The largest logarithm of a drawn size: e to the 27th power is about half a terabyte."""

_LONGEST_TEXT = 65_535
"""The largest number of UTF-8 bytes in a text among declare arguments (str16)."""

LARGEST_PREFETCH = 0xFFFFFFFE
"""The largest prefetch, one less than the credit that AMQP reads as infinite."""


_is_network = is_none_or(lambda value: isinstance(value, Network))
_is_from_0 = partial(is_number, at_least=0)
_is_from_1 = partial(is_whole, at_least=1)


def _is_priority(value: object) -> bool:
    return value is None or value == "group" or is_whole(value, 0, _LARGEST_PRIORITY)


def _is_recorded(value: object) -> bool:
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    return is_number(value[0], 0) and is_whole(value[1], 0) and is_text(value[2])


def _is_service(value: Any) -> bool:
    if is_tuple_of(lambda kind: kind == "recorded", is_all(is_positive))(value):
        return len(value[1]) > 0
    return is_tuple_of(lambda kind: kind in _SERVICES, is_positive)(value)


def _is_spell(value: Any) -> bool:
    return bool(is_all(_is_from_0)(value) and len(value) == 3 and value[0] < value[1] and value[2] > 0)


def _is_size(value: object) -> bool:
    drawn = (is_number, _is_from_0)
    return is_whole(value, 0) or is_tuple_of(*drawn)(value) or is_tuple_of(*drawn, _is_from_1)(value)


def _as_size(value: Any) -> Any:
    """Return a size in its stored form; a mapping with ``lognormal`` and ``max`` becomes (mu, sigma, max)."""
    if not isinstance(value, Mapping):
        return as_tuple(value)
    given = require_keys("size", value, ("lognormal", "max"), ("lognormal",))
    drawn = as_tuple(given["lognormal"])
    largest = (given["max"],) if "max" in given else ()
    return (*drawn, *largest) if isinstance(drawn, tuple) else (drawn,)


def _as_rate(value: Any) -> Any:
    """Return a rate as a number of messages a second; a text such as ``400/s`` is converted."""
    if isinstance(value, str):
        try:
            return float(value.removesuffix("/s"))
        except ValueError:
            return value
    return value


def _is_outage(value: Any) -> bool:
    if isinstance(value, tuple) and len(value) == 3:
        return value[0] in _SERVICES and _is_outage(value[1:])
    return is_tuple_of(is_positive, is_positive)(value) and bool(value[1] < value[0])


def _is_bounded_size(value: Any) -> bool:
    return isinstance(value, int) or len(value) == 3 or value[0] + _FURTHEST_DRAW * value[1] <= _LARGEST_MU


def _is_seed(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


_SEED = ("seed", _is_seed, "a whole number from 0")
_PRODUCER: Rules = (
    ("to", is_tuple_of(is_text, is_text), "an exchange and a routing key, both text"),
    (
        "rate",
        partial(is_positive, at_most=MESSAGES_PER_SECOND),
        f"a number above 0, up to {MESSAGES_PER_SECOND}",
    ),
    ("capacity", _is_from_1, "a whole number from 1"),
    ("size", _is_size, "a whole number from 0, or mu and sigma (from 0), and a largest (from 1)"),
    (
        "size",
        _is_bounded_size,
        f"mu and sigma with mu + {_FURTHEST_DRAW} sigma at most {_LARGEST_MU}, or with a largest beside them",
    ),
    (
        "burst",
        is_none_or(is_tuple_of(is_positive, _is_from_0)),
        "seconds on (above 0) and seconds off (from 0), or nothing",
    ),
    (
        "groups",
        is_none_or(is_tuple_of(_is_from_1, is_positive)),
        "a number of groups (from 1) and a skew (above 0), or nothing",
    ),
    _SEED,
    ("arrival", _ARRIVALS.__contains__, one_of(_ARRIVALS)),
    ("model", MODELS.__contains__, one_of(MODELS)),
    ("window", _WINDOWS.__contains__, one_of(_WINDOWS)),
    ("session", is_text, "a name, or nothing"),
    ("priority", _is_priority, "a whole number from 0 to 9, 'group', or nothing"),
    (
        "demand",
        is_none_or(partial(is_positive, at_most=MESSAGES_PER_SECOND)),
        f"messages a second above 0, up to {MESSAGES_PER_SECOND}, such as 400 or '400/s'; or nothing",
    ),
)
_CONSUMER: Rules = (
    ("queue", is_name, "the name of a queue"),
    (
        "prefetch",
        partial(is_whole, at_least=1, at_most=LARGEST_PREFETCH),
        f"a whole number from 1 to {LARGEST_PREFETCH}",
    ),
    (
        "service",
        _is_service,
        f"{one_of(_SERVICES)}, and seconds (above 0); or 'recorded', and a list of seconds",
    ),
    ("slow", is_all(_is_spell), "a list of (from, to, factor), from before to, factor above 0"),
    ("start", _is_from_0, "a number of seconds from 0"),
    ("release", partial(is_number, at_least=0, at_most=1), "a probability from 0 to 1"),
    _SEED,
    ("overhead", is_all(is_number), "a list of seconds"),
    (
        "outage",
        is_none_or(_is_outage),
        "seconds from one to the next and the seconds it lasts, which are fewer ('exp' before if they are "
        "means); or nothing",
    ),
    ("network", _is_network, "a Network, or nothing"),
)


@dataclass(frozen=True, slots=True)
class Producer:
    """A client that sends messages.

    It sends each message when it is due and the client's window has room.  A message whose due time passes
    while the window is full is sent as soon as there is room, so the producer catches up after a block.

    Parameters:
        name (str): The name of the producer and of its session; its messages are labelled ``<name>-<n>``, n
            from 1.
        to ((str, str)): Exchange and routing key; the exchange "" routes to the queue named by the key
            (EX-02).
        rate (float): Messages due per second on average, or during each burst if there is a ``burst``.
        capacity (int): The size of the window: the largest number of outstanding transfers, which are sent
            and not known to be complete (CAP-01).
        size (int, (float, float) or (float, float, int)): The content bytes of each message; or mu and sigma
            of a log-normal distribution of them, optionally with a maximum that caps larger draws.  A
            mapping, as in a file, names these: ``{"lognormal": [9, 0.75], "max": 40000}``.
        burst ((float, float) or None): The durations in seconds of a burst and of the silence after it, which
            alternate, beginning with a burst at 0; None for steady sending.
        groups ((int, float) or None): The number n of message groups and a skew a: each message has the group
            ``g<k>``, k = min(n, floor(n ** (u ** a))), u uniform in [0, 1).  The group is in the application
            header ``group``.  None for no groups.
        seed (int): The seed of the producer's random draws: equal seeds give equal messages at equal times.
            Producers that should not run in lockstep need different seeds.
        arrival ({"poisson", "const", "recorded"}): The times between due messages: exponentially distributed,
            constant, or those of ``recorded``.
        recorded (tuple of (float, int, str)): For arrival "recorded": each message's due time (seconds since
            the start), content bytes and group ("" for none).  Rate, size, burst and groups then only
            describe their averages.
        model ({"open", "closed"}): For arrival "recorded": "open" takes the due times as given; "closed"
            takes them as think times, counted from the moment at which the producer was free to send.
        window ({"ideal", "qpid-cpp", "qpid-python"}): The kind of client window, which determines how
            outstanding transfers are counted (CAP-02, CAP-07, CAP-08).
        session (str): The name of a session that producers with the same value share (CAP-09), or "" for a
            session of the producer's own.
        network (Network or None): The network to the broker; None for no delay.
        priority (int, "group" or None): The priority of its messages, 0 to 9, or None for none (QT-04).
            "group" derives it from the group: 9 for ``g1``, 8 for ``g2``, and so on down to 0.
        demand (float, str or None): The known demand: messages a second, on average, such as 400 or
            ``"400/s"``.  Predictions from the log of a blocked producer use it, because such a log does not
            show the demand; a simulation ignores it.
        obeys_flow (bool): Whether it stops sending while the broker requests that of its session, as the Java
            client does (ALT-12); only the Java broker sends such requests.

    Raises:
        WorkloadError: If a value is not allowed.

    >>> Producer("p1", ("", "orders"), rate=400, capacity=0, size=100)
    Traceback (most recent call last):
        ...
    qflow.workload.attributes.WorkloadError: producer 'p1': capacity must be a whole number from 1, got 0
    """

    name: str
    to: tuple[str, str]
    rate: float
    capacity: int
    size: int | tuple[float, float] | tuple[float, float, int]
    burst: tuple[float, float] | None = None
    groups: tuple[int, float] | None = None
    seed: int = 0
    arrival: str = "poisson"
    recorded: tuple[tuple[float, int, str], ...] = field(default=(), repr=False)
    model: str = "open"
    window: str = "ideal"
    session: str = ""
    network: Network | None = None
    priority: int | str | None = None
    obeys_flow: bool = False
    demand: float | None = None

    def __post_init__(self) -> None:
        for attribute in ("to", "burst", "groups", "recorded"):
            object.__setattr__(self, attribute, as_tuple(getattr(self, attribute)))
        object.__setattr__(self, "size", _as_size(self.size))
        object.__setattr__(self, "demand", _as_rate(self.demand))
        require(is_name(self.name), "producer", "name", self.name, "text, not empty")
        where = f"producer {self.name!r}"
        require_all(where, self, _PRODUCER)
        is_right = is_all(_is_recorded)(self.recorded)
        shown = self.recorded[:1] if isinstance(self.recorded, tuple) else self.recorded
        require(is_right, where, "recorded", shown, "a list of (seconds from 0, bytes, group)")
        is_right = self.arrival == "recorded" or not self.recorded
        require(is_right, where, "recorded", shown, "absent unless arrival is 'recorded'")
        unless = "unless the window is ideal and the session its own"
        is_plain = self.window == "ideal" and not self.session
        is_right = self.network is None or (is_plain and isinstance(self.network, Network))
        require(is_right, where, "network", self.network, f"a Network, or nothing; nothing {unless}")
        is_right = isinstance(self.obeys_flow, bool) and (is_plain or not self.obeys_flow)
        require(is_right, where, "obeys_flow", self.obeys_flow, f"true or false; false {unless}")


@dataclass(frozen=True, slots=True)
class Consumer:
    """A client that receives messages in window mode, and settles them one by one.

    Parameters:
        name (str): The name of the consumer, of its session, and of its subscription.
        queue (str): The queue to which it subscribes.
        prefetch (int): Its message credit; byte credit is unlimited.
        service ((str, float) or ("recorded", tuple of float)): Seconds spent on each message: ``("exp",
            mean)``, ``("const", seconds)``, or a list of recorded times, used in turn and then repeated.
        slow (tuple of (float, float, float)): Periods in which it is slow: begin and end in seconds since the
            start of the run, and the factor by which a service that begins in the period takes longer.
        start (float): Seconds since the start of the run at which it subscribes.
        release (float): The probability that a message is released instead of accepted.
        seed (int): The seed of its random draws.
        reject (float): The probability that a message is rejected; the sum with ``release`` is at most 1.
        crash (float or None): Seconds since the start of the run at which it crashes: its session ends, and
            its messages return to the queue (MG-16).  None for no crash.
        overhead (tuple of float): Seconds added to its services: a list that is used in turn and then
            repeated.
        network (Network or None): The network to the broker; None for no delay.
        outage ((float, float) or (str, float, float) or None): Seconds from the begin of one outage to the
            next, and seconds that each lasts; the seed determines the begin of the first.  During an outage
            the consumer keeps its session and prefetched messages, but starts no service.  A leading
            ``"exp"`` makes both times means of random ones.

    Raises:
        WorkloadError: If a value is not allowed.

    >>> Consumer("c1", "orders", prefetch=20, service=("exp", 0.005), release=5)
    Traceback (most recent call last):
        ...
    qflow.workload.attributes.WorkloadError: consumer 'c1': release must be a probability from 0 to 1, got 5
    """

    name: str
    queue: str
    prefetch: int
    service: tuple[str, float | tuple[float, ...]]
    slow: tuple[tuple[float, float, float], ...] = ()
    start: float = 0.0
    release: float = 0.0
    seed: int = 0
    reject: float = 0.0
    crash: float | None = None
    overhead: tuple[float, ...] = field(default=(), repr=False)
    network: Network | None = None
    outage: tuple[float, float] | tuple[str, float, float] | None = None

    def __post_init__(self) -> None:
        for attribute in ("service", "slow", "overhead", "outage"):
            object.__setattr__(self, attribute, as_tuple(getattr(self, attribute)))
        require(is_name(self.name), "consumer", "name", self.name, "text, not empty")
        where = f"consumer {self.name!r}"
        require_all(where, self, _CONSUMER)
        is_right = is_number(self.reject, 0, 1 - self.release)
        allowed = "a probability from 0 to 1, less that of a release"
        require(is_right, where, "reject", self.reject, allowed)
        is_right = self.crash is None or is_number(self.crash, self.start)
        require(is_right, where, "crash", self.crash, "seconds, not before its start, or nothing")


class Senders:
    """An index that finds the producer of an event, also on a session that several producers share."""

    __slots__ = ("_names", "_sessions")

    def __init__(self, producers: Iterable[Any]) -> None:
        # Each item is a Producer, or another object with the attributes name and session.
        self._sessions: dict[str, tuple[str, ...]] = {}
        for producer in producers:
            session = producer.session or producer.name
            self._sessions[session] = (*self._sessions.get(session, ()), producer.name)
        self._names = {name for names in self._sessions.values() for name in names}

    def of(self, session: str, label: str = "") -> str:
        """Return the name of the producer that an event's session and message label imply, or ""."""
        # In events that only clients report (:data:`qflow.workload.CLIENT_EVENTS`), the session is the name
        # of the producer.
        names = self._sessions.get(session)
        if names is None:
            return session if session in self._names else ""
        if len(names) == 1:
            return names[0]
        name = label.rpartition("-")[0]
        return name if name in names else ""

    def on(self, session: str) -> tuple[str, ...]:
        """Return the names of all producers on a session."""
        return self._sessions.get(session, ())


Client = TypeVar("Client", Producer, Consumer)


@dataclass(frozen=True, slots=True)
class Workload:
    """The complete input of a run; equal workloads give equal events.

    Times are in seconds here, as people and recorded workloads write them; a run uses integer microseconds.

    Parameters:
        name (str): The workload's name, which is shown in titles.
        duration (float): Seconds during which messages fall due; see :func:`qflow.workload.simulate`.
        queues (mapping): The queues by name, each with its declare arguments.
        binds (tuple of (str, str, str)): The bindings, each an exchange, a queue and a binding key.
        producers, consumers (tuple): The clients, all with different names.
        options (BrokerOptions): The broker's start options.

    Raises:
        WorkloadError: If a value is not allowed.

    >>> workload = Workload(
    ...     "small",
    ...     duration=1,
    ...     queues={"orders": {"qpid.flow_stop_count": 10}},
    ...     producers=(Producer("p1", ("", "orders"), rate=100, capacity=5, size=100),),
    ...     consumers=(Consumer("c1", "orders", prefetch=2, service=("const", 0.02)),),
    ... )
    >>> faster = workload.with_consumer("c1", prefetch=20).with_queue("orders", {"qpid.flow_stop_count": 30})
    >>> faster.consumers[0].prefetch, faster.queues["orders"]
    (20, {'qpid.flow_stop_count': 30})
    """

    name: str
    duration: float
    queues: Mapping[str, Mapping[str, Argument]]
    binds: tuple[tuple[str, str, str], ...] = ()
    producers: tuple[Producer, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    options: BrokerOptions = field(default_factory=BrokerOptions)

    def __post_init__(self) -> None:
        where = f"workload {self.name!r}"
        require(is_name(self.name), "workload", "name", self.name, "text, not empty")
        require(is_positive(self.duration), where, "duration", self.duration, "a number of seconds above 0")
        require(
            _is_queues(self.queues), where, "queues", self.queues, "queue names with their declare arguments"
        )
        for name, arguments in self.queues.items():
            for key, value in arguments.items():
                is_right = is_text(key) and _is_argument(value)
                require(is_right, f"queue {name!r}", f"the argument {key!r}", value, _ARGUMENT)
        object.__setattr__(self, "queues", {name: dict(args) for name, args in self.queues.items()})
        for attribute, kind in (("binds", tuple), ("producers", Producer), ("consumers", Consumer)):
            items = as_tuple(getattr(self, attribute))
            is_right = isinstance(items, tuple) and all(isinstance(item, kind) for item in items)
            require(is_right, where, attribute, items, f"a list, each a {kind.__name__}")
            object.__setattr__(self, attribute, items)
        is_right = isinstance(self.options, BrokerOptions)
        require(is_right, where, "options", self.options, "a BrokerOptions")
        self._check_references(where)

    def _check_references(self, where: str) -> None:
        known = f"one of its queues ({', '.join(self.queues) or 'it has none'})"
        for bind in self.binds:
            is_triple = len(bind) == 3 and all(map(is_text, bind))
            require(is_triple, where, "binds", bind, "lists of exchange, queue and binding key, all text")
            require(bind[1] in self.queues, where, "the queue of a bind", bind[1], known)
        names = {SETUP}
        clients: tuple[Producer | Consumer, ...] = (*self.producers, *self.consumers)
        for client in clients:
            allowed = f"unique among the clients, and not {SETUP!r}"
            require(client.name not in names, where, "a client's name", client.name, allowed)
            names.add(client.name)
        for producer in self.producers:
            allowed = "a name that no client has"
            is_free = producer.session not in names
            require(is_free, f"producer {producer.name!r}", "session", producer.session, allowed)
        for consumer in self.consumers:
            require(
                consumer.queue in self.queues, f"consumer {consumer.name!r}", "queue", consumer.queue, known
            )

    # Reading

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        """Read a workload from a JSON file, as in ``data/recordings/workloads``.

        Parameters:
            path: The file's path.

        Raises:
            WorkloadError: If the file is not valid JSON, or not a valid workload; the message names the file.
            OSError: If the file cannot be read.
        """
        path = Path(path)
        try:
            text = read_text(path)
            return cls.from_json(json.loads(text, object_pairs_hook=_without_duplicates), name=path.stem)
        except WorkloadError as error:
            raise WorkloadError(f"{path.name}: {error}") from None
        except ValueError as error:
            raise WorkloadError(f"{path.name}: a workload file must be JSON; {error}") from None

    @classmethod
    def from_json(cls, mapping: Mapping[str, Any], name: str = "workload") -> Workload:
        """Make a workload from the decoded content of a workload file.

        Parameters:
            mapping (mapping): The parameters of :class:`Workload` by name; ``queues`` and ``duration`` are
                required.  Each client is a mapping of its class's parameters, and its ``network`` a mapping
                of those of :class:`qflow.workload.Network`.  The additional attribute ``inferred``, which a
                recorder writes, lists values that it did not observe; a queue listed there, such as
                ``queues.orders``, is treated as one with unknown thresholds.
            name (str): The workload's name if the mapping contains none.

        Raises:
            WorkloadError: If an attribute is missing, unknown or not allowed; the message names the first.

        >>> Workload.from_json({"duration": 5, "queues": {"q": {}}}).duration
        5
        """
        if isinstance(mapping, Mapping):
            mapping = _with_unseen(mapping)
        given = dict(_attributes(cls, "workload", mapping, optional=("name",)))
        for group, kind in (("producers", Producer), ("consumers", Consumer)):
            items = given.get(group, [])
            require(isinstance(items, list | tuple), "workload", group, items, "a list")
            singular = group.removesuffix("s")
            given[group] = tuple(
                kind(**_client_attributes(kind, f"{singular} {index}", item))
                for index, item in enumerate(items, 1)
            )
        if "options" in given:
            given["options"] = _options(given["options"])
        return cls(**{"name": name, **given})

    # Changing

    def replace(self, **changes: Any) -> Workload:
        """Return a copy with the given attributes changed, such as ``duration=5``."""
        return dataclasses.replace(self, **changes)

    def with_queue(self, queue: str, arguments: Mapping[str, Argument | None]) -> Workload:
        """Return a copy in which declare arguments of a queue are added or changed; None removes one.

        >>> workload = Workload("w", 30, {"q": {"qpid.max_count": 10}})
        >>> workload.with_queue("q", {"qpid.flow_stop_count": 8, "qpid.max_count": None}).queues
        {'q': {'qpid.flow_stop_count': 8}}
        """
        allowed = f"one of its queues ({', '.join(self.queues)})"
        require(queue in self.queues, f"workload {self.name!r}", "the queue to change", queue, allowed)
        changed = {**self.queues[queue], **arguments}
        kept = {key: value for key, value in changed.items() if value is not None}
        return self.replace(queues={**self.queues, queue: kept})

    def with_producer(self, name: str, **changes: Any) -> Workload:
        """Return a copy in which attributes of the named producer are changed, such as ``capacity=20``."""
        return self.replace(producers=self._change("producer", self.producers, name, changes))

    def with_consumer(self, name: str, **changes: Any) -> Workload:
        """Return a copy in which attributes of the named consumer are changed, such as ``prefetch=1``."""
        return self.replace(consumers=self._change("consumer", self.consumers, name, changes))

    def with_seed(self, seed: int) -> Workload:
        """Return a copy in which each client has a seed of its own, derived from `seed`."""
        require(_is_seed(seed), f"workload {self.name!r}", "the seed", seed, "a whole number from 0")
        first, second = seed * 1000, seed * 1000 + len(self.producers)
        return self.replace(
            producers=tuple(dataclasses.replace(c, seed=first + n) for n, c in enumerate(self.producers)),
            consumers=tuple(dataclasses.replace(c, seed=second + n) for n, c in enumerate(self.consumers)),
        )

    def _change(
        self, kind: str, clients: tuple[Client, ...], name: str, changes: Mapping[str, Any]
    ) -> tuple[Client, ...]:
        names = [client.name for client in clients]
        where = f"workload {self.name!r}"
        require(name in names, where, f"the {kind} to change", name, f"one of {', '.join(names) or 'none'}")
        require_keys(f"{kind} {name!r}", changes, _names(type(clients[0])), ())
        return tuple(dataclasses.replace(c, **changes) if c.name == name else c for c in clients)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; raise WorkloadError for a repeated key, whose earlier values would be lost."""
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    names = [name for name, _ in pairs]
    key = next(name for name in names if names.count(name) > 1)
    shown = " and ".join(_show_value(value) for name, value in pairs if name == key)
    whose = f" of {made['name']!r}" if "name" in made and key != "name" else ""
    raise WorkloadError(f"each key may be given once, got {key!r}{whose} {names.count(key)} times: {shown}")


def _show_value(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:50]} …"


def _is_queues(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        is_name(name) and isinstance(arguments, Mapping) for name, arguments in value.items()
    )


_ARGUMENT = (
    "what AMQP can carry: a key of at most 255 bytes, whole numbers of 64 bits, text of at most 65535 bytes"
)


def _is_argument(value: object) -> bool:
    """Return whether AMQP can encode a declare argument's value; its meaning is for the broker to check."""
    if isinstance(value, Mapping):
        return all(is_text(key) and _is_argument(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_argument, value))
    if isinstance(value, str):
        return is_text(value, _LONGEST_TEXT)
    return not isinstance(value, int) or -(1 << 63) <= value < 1 << 64


def _names(kind: Callable[..., object]) -> list[str]:
    return [item.name for item in dataclasses.fields(kind)]  # type: ignore[arg-type]


def _attributes(
    kind: Callable[..., object], where: str, mapping: object, optional: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    required = [
        item.name
        for item in dataclasses.fields(kind)  # type: ignore[arg-type]
        if item.default is dataclasses.MISSING
        and item.default_factory is dataclasses.MISSING
        and item.name not in optional
    ]
    return require_keys(where, mapping, _names(kind), required)


def _client_attributes(kind: Callable[..., object], where: str, item: object) -> dict[str, Any]:
    given = dict(_attributes(kind, where, item))
    if given.get("network") is not None:
        given["network"] = Network(**_attributes(Network, f"{where}: network", given["network"]))
    return given


def _options(given: object) -> BrokerOptions:
    values = _attributes(BrokerOptions, "options", given)
    for name, value in values.items():
        default = getattr(BrokerOptions(), name)
        # BrokerOptions itself checks whether a float is allowed.
        is_alike = type(value) in (type(default), float)
        require(is_alike, "options", name, value, f"a value like {default!r}")
    try:
        return BrokerOptions(**values)
    except StartupError as error:
        raise WorkloadError(f"options: {error}") from None


def _with_unseen(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return a workload file's mapping, in which queues with inferred arguments get NOT_SEEN_DECLARED."""
    inferred, queues = mapping.get(INFERRED), mapping.get("queues")
    given = {name: value for name, value in mapping.items() if name != INFERRED}
    if isinstance(inferred, Mapping) and isinstance(queues, Mapping):
        given["queues"] = {
            name: {**arguments, **NOT_SEEN_DECLARED}
            if f"queues.{name}" in inferred and isinstance(arguments, Mapping)
            else arguments
            for name, arguments in queues.items()
        }
    return given


def is_unseen(arguments: Mapping[str, Any]) -> bool:
    """Return whether a queue's thresholds and limits are unknown: neither recorded nor set by the user."""
    levels = ("qpid.flow_", "qpid.max_")
    given = [name for name, value in arguments.items() if value and name.startswith(levels)]
    return not given and NOT_SEEN_DECLARED.items() <= arguments.items()
