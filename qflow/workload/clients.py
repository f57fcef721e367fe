"""What producers and consumers do, as a workload states it: Producer, Consumer.

What single attributes of producers and consumers may be.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from qflow.workload.checks import as_tuple, is_name, is_number, is_positive, is_whole, require
from qflow.workload.network import Network

SERVICES = ("exp", "const")
LARGEST_PRIORITY = 9
"""AMQP knows ten priorities; the broker would take any byte (QT-04)."""


def one_of(choices: tuple[str, ...]) -> str:
    """Name choices, as a sentence does."""
    return " or ".join(map(repr, choices))


def is_tuple(value: object, length: int) -> bool:
    """Return whether a value is a tuple of so many items."""
    return isinstance(value, tuple) and len(value) == length


def is_size(value: object) -> bool:
    """Return whether a value is a number of bytes, or mu and sigma of one."""
    if isinstance(value, tuple):
        return len(value) == 2 and is_number(value[0]) and is_number(value[1], 0)
    return is_whole(value, 0)


def is_burst(value: object) -> bool:
    """Return whether a value is seconds on and seconds off."""
    return isinstance(value, tuple) and len(value) == 2 and is_positive(value[0]) and is_number(value[1], 0)


def is_groups(value: object) -> bool:
    """Return whether a value is a number of groups and a skew."""
    return isinstance(value, tuple) and len(value) == 2 and is_whole(value[0], 1) and is_positive(value[1])


def is_network(value: object) -> bool:
    """Return whether a value is a network, or none."""
    return value is None or isinstance(value, Network)


def is_recorded(value: object) -> bool:
    """Return whether a value is a recorded message: due time, bytes, group."""
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    return is_number(value[0], 0) and is_whole(value[1], 0) and isinstance(value[2], str)


def is_priority(value: object) -> bool:
    """Return whether a value is a priority, or tells where one comes from."""
    return value is None or value == "group" or is_whole(value, 0, LARGEST_PRIORITY)


def is_service(value: object) -> bool:
    """Return whether a value tells how long a consumer needs."""
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "recorded":
        return is_tuple(value[1], len(value[1])) and value[1] != () and all(map(is_positive, value[1]))
    return isinstance(value, tuple) and len(value) == 2 and value[0] in SERVICES and is_positive(value[1])


def is_spell(value: object) -> bool:
    """Return whether a value is a spell of slowness: from, to, factor."""
    if not isinstance(value, tuple) or len(value) != 3 or not all(is_number(part, 0) for part in value):
        return False
    return bool(value[0] < value[1] and value[2] > 0)


ARRIVALS = ("poisson", "const", "recorded")
MODELS = ("open", "closed")
WINDOWS = ("ideal", "qpid-cpp", "qpid-python")

MESSAGES_PER_SECOND = 1_000_000
"""The highest rate: one message a microsecond, the grain of virtual time."""

LARGEST_PREFETCH = 0xFFFFFFFE
"""One less than what AMQP reads as "infinite"."""


@dataclass(frozen=True, slots=True)
class Producer:
    """A client that sends.

    It sends when a message is due and its window has room; one whose due time has passed while the
    window was full is sent at once (it catches up after a block).

    Parameters
    ----------
    name : str
        Also the name of its session; its messages are called ``<name>-<n>``, n from 1.
    to : (str, str)
        Exchange and routing key; the exchange "" leads to the queue that the key names (EX-02).
    rate : float
        Messages a second, on average.
    capacity : int
        The window: most transfers outstanding, that is sent and not known complete (CAP-01).
    size : int or (float, float)
        Content bytes, or mu and sigma of a log-normal distribution of them.
    burst : (float, float) or None
        Seconds on and seconds off, in turn; the first "on" begins at 0.
    groups : (int, float) or None
        n and a: each message is of group ``g<k>``, k = min(n, floor(n ** (u ** a))), u uniform in
        [0, 1).  The group travels in the application header ``group``.
    seed : int
        Its chance: the same seed gives the same messages at the same times.  Producers that shall
        not march in step need different ones.
    arrival : {"poisson", "const", "recorded"}
        Whether the times between due messages vary or are all the same; or they are those of ``recorded``.
    recorded : tuple of (float, int, str)
        For arrival "recorded": each message's due time (seconds since the start), content bytes and group
        ("" for none).  Rate, size, burst and groups are then only what they are on average.
    model : {"open", "closed"}
        For arrival "recorded": "open" is a schedule, due times as given; "closed" counts each time from the
        moment at which the producer was free to send (its think time).
    window : {"ideal", "qpid-cpp", "qpid-python"}
        How it counts what is outstanding (CAP-02, CAP-07, CAP-08).
    session : str
        The session it sends on; producers of the same session share it (CAP-09).  "" for one of its own.
    network : Network or None
        What lies between it and the broker; None for nothing.
    priority : int, "group" or None
        Its messages' priority, 0 to 9; None sets none (QT-04). "group" makes those of group ``g1`` the most
        urgent, with 9, those of ``g2`` with 8, and so on down to 0.
    obeys_flow : bool
        Whether it stops sending while the broker tells its session to, as the Java client does (ALT-12);
        only the Java broker ever does that.

    Raises
    ------
    WorkloadError
        If a value is not allowed.

    Examples
    --------
    >>> Producer("p1", ("", "orders"), rate=400, capacity=100, size=100).seed
    0
    >>> Producer("p1", ("", "orders"), rate=400, capacity=0, size=100)
    Traceback (most recent call last):
        ...
    qflow.workload.checks.WorkloadError: producer 'p1': capacity must be a whole number from 1, got 0
    """

    name: str
    to: tuple[str, str]
    rate: float
    capacity: int
    size: int | tuple[float, float]
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

    def __post_init__(self) -> None:
        for attribute in ("to", "size", "burst", "groups", "recorded"):
            object.__setattr__(self, attribute, as_tuple(getattr(self, attribute)))
        require(is_name(self.name), "producer", "name", self.name, "text, not empty")
        where = f"producer {self.name!r}"
        has_address = is_tuple(self.to, 2) and all(isinstance(part, str) for part in self.to)
        require(has_address, where, "to", self.to, "an exchange and a routing key, both text")
        require(
            is_positive(self.rate, MESSAGES_PER_SECOND),
            where,
            "rate",
            self.rate,
            f"a number above 0, up to {MESSAGES_PER_SECOND}",
        )
        require(is_whole(self.capacity, 1), where, "capacity", self.capacity, "a whole number from 1")
        require(
            is_size(self.size), where, "size", self.size, "a whole number from 0, or mu and sigma (from 0)"
        )
        require(
            self.burst is None or is_burst(self.burst),
            where,
            "burst",
            self.burst,
            "seconds on (above 0) and seconds off (from 0), or nothing",
        )
        require(
            self.groups is None or is_groups(self.groups),
            where,
            "groups",
            self.groups,
            "a number of groups (from 1) and a skew (above 0), or nothing",
        )
        require(is_whole(self.seed, 0), where, "seed", self.seed, "a whole number from 0")
        require(self.arrival in ARRIVALS, where, "arrival", self.arrival, one_of(ARRIVALS))
        self._check_recorded(where)
        require(self.window in WINDOWS, where, "window", self.window, one_of(WINDOWS))
        require(isinstance(self.session, str), where, "session", self.session, "a name, or nothing")
        is_plain = self.window == "ideal" and not self.session
        is_right = is_network(self.network) and (is_plain or self.network is None)
        allowed = "a Network, or nothing; nothing unless the window is ideal and the session its own"
        require(is_right, where, "network", self.network, allowed)
        allowed = "a whole number from 0 to 9, 'group', or nothing"
        require(is_priority(self.priority), where, "priority", self.priority, allowed)
        is_right = isinstance(self.obeys_flow, bool) and (is_plain or not self.obeys_flow)
        allowed = "true or false; false unless the window is ideal and the session its own"
        require(is_right, where, "obeys_flow", self.obeys_flow, allowed)

    def _check_recorded(self, where: str) -> None:
        require(self.model in MODELS, where, "model", self.model, one_of(MODELS))
        is_right = isinstance(self.recorded, tuple) and all(map(is_recorded, self.recorded))
        shown = self.recorded if not isinstance(self.recorded, tuple) else self.recorded[:1]
        allowed = "a list of (seconds from 0, bytes, group)"
        require(is_right, where, "recorded", shown, allowed)
        is_needed = self.arrival == "recorded"
        require(
            is_needed or not self.recorded, where, "recorded", shown, "absent unless arrival is 'recorded'"
        )


@dataclass(frozen=True, slots=True)
class Consumer:
    """A client that receives, in window mode: one message at a time, each accepted or released.

    Parameters
    ----------
    name : str
        Also the name of its session and the tag of its subscription.
    queue : str
        What it reads.
    prefetch : int
        Message credit; byte credit is unlimited.
    service : (str, float) or ("recorded", tuple of float)
        Time spent on each message: ``("exp", mean)``, ``("const", seconds)``, or recorded ones in turn,
        from the first again after the last.
    slow : tuple of (float, float, float)
        Spells of slowness: from, to (seconds since the start of the run), and the factor by which a
        service that begins in between takes longer.
    start : float
        Seconds since the start of the run at which it subscribes.
    release : float
        Probability that a message is released instead of accepted.
    seed : int
        Its chance.
    reject : float
        Probability that a message is rejected; release and reject are 1 at most, together.
    crash : float or None
        Seconds since the start at which it dies; its session ends, what it holds goes back (MG-16).
    overhead : tuple of float
        Seconds by which the first, second, ... service takes longer, from the first again after the last.
    network : Network or None
        What lies between it and the broker; None for nothing.

    Raises
    ------
    WorkloadError
        If a value is not allowed.

    Examples
    --------
    >>> Consumer("c1", "orders", prefetch=20, service=("exp", 0.005)).start
    0.0
    >>> Consumer("c1", "orders", prefetch=20, service=("exp", 0.005), release=5)
    Traceback (most recent call last):
        ...
    qflow.workload.checks.WorkloadError: consumer 'c1': release must be a probability from 0 to 1, got 5
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

    def __post_init__(self) -> None:
        for attribute in ("service", "slow", "overhead"):
            object.__setattr__(self, attribute, as_tuple(getattr(self, attribute)))
        require(is_name(self.name), "consumer", "name", self.name, "text, not empty")
        where = f"consumer {self.name!r}"
        require(is_name(self.queue), where, "queue", self.queue, "the name of a queue")
        require(
            is_whole(self.prefetch, 1, LARGEST_PREFETCH),
            where,
            "prefetch",
            self.prefetch,
            f"a whole number from 1 to {LARGEST_PREFETCH}",
        )
        require(
            is_service(self.service),
            where,
            "service",
            self.service,
            f"{one_of(SERVICES)}, and seconds (above 0); or 'recorded', and a list of seconds",
        )
        require(
            isinstance(self.slow, tuple) and all(is_spell(spell) for spell in self.slow),
            where,
            "slow",
            self.slow,
            "a list of (from, to, factor), from before to, factor above 0",
        )
        require(is_number(self.start, 0), where, "start", self.start, "a number of seconds from 0")
        require(is_number(self.release, 0, 1), where, "release", self.release, "a probability from 0 to 1")
        require(is_whole(self.seed, 0), where, "seed", self.seed, "a whole number from 0")
        is_right = is_number(self.reject, 0, 1 - self.release)
        allowed = "a probability from 0 to 1, less that of a release"
        require(is_right, where, "reject", self.reject, allowed)
        is_right = self.crash is None or is_number(self.crash, self.start)
        require(is_right, where, "crash", self.crash, "seconds, not before its start, or nothing")
        is_right = isinstance(self.overhead, tuple) and all(is_number(item) for item in self.overhead)
        require(is_right, where, "overhead", self.overhead, "a list of seconds")
        require(is_network(self.network), where, "network", self.network, "a Network, or nothing")
