"""The brokers of this process by URL, and how time passes in them.

A :class:`Host` is one broker with what its clients share: names that never repeat, a clock if there is one,
and the consoles that its management events are published to.

The engine has no clock: its time is *virtual*, and passes only when a caller says so.  Here the calls that
wait are those callers.  A wait runs the broker's own timers in their order (auto-delete time-outs, the expiry
cleaner), looks after each of them whether what it waits for has come, and at last lets the rest of its
time-out pass, at once.  A wait without a time-out ends when the broker has nothing more to do by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import repeat
from uuid import NAMESPACE_URL, uuid5

from qflow.broker import Broker, BrokerOptions
from qflow.broker.message import AVAILABLE
from qflow.messaging.messages import AMQP_PORT
from qflow.messaging.qmf import Agent

MICROSECONDS = 1_000_000
MOST_STEPS = 10_000
"""So many timers a wait without a time-out lets run: one that always sets itself again is no help."""

DEFAULT_URL = "localhost"
_URL = re.compile(
    r"(?:amqps?:(?://)?)?(?:(?P<user>[^@/:]*)(?:[/:](?P<password>[^@]*))?@)?(?:tcp:)?"
    r"(?P<host>\[[^\]]*\]|[^:/]+)(?::(?P<port>\d+))?/?"
)

Clock = Callable[[], float]


class Host:
    """One broker, with what its clients share: names that never repeat, virtual time, its management."""

    def __init__(self, broker: Broker, clock: Clock | None = None) -> None:
        self.broker = broker
        self.agent = Agent.of(broker)
        self._names = 0
        self._clock = clock
        self._read_at = clock() if clock is not None else 0.0

    def begin(self) -> None:
        """Let the time pass that has passed on the clock, if any, and observe events if a console does.

        Called before each command: bindings to the topic of events and other observers come and go.
        """
        if self._clock is not None:
            now = self._clock()
            passed, self._read_at = round((now - self._read_at) * MICROSECONDS), now
            if passed > 0:
                self.broker.advance(self.broker.now + passed)
        self.agent.watch()

    def publish_events(self) -> None:
        """Publish the management events since the last time; called after each command."""
        self.agent.publish_events()

    def unique_name(self, kind: str) -> str:
        """Return a name that no session of the broker has; the same in every run, unlike the real ones."""
        while True:
            self._names += 1
            name = f"{kind}-{self._names}"
            if not any(session.startswith(name) for session in self.broker.sessions):
                return name

    def unique_id(self) -> str:
        """Return a UUID for the name of a temporary node; the same in every run."""
        return str(uuid5(NAMESPACE_URL, self.unique_name("node")))

    def wait(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Wait in virtual time until a condition holds; return whether it does.

        Parameters
        ----------
        is_done : callable
            The condition.
        timeout : float or None
            Seconds.  None waits for as long as anything can still happen by itself; False then means
            that it never will.

        Examples
        --------
        >>> host = Host(Broker())
        >>> host.wait(lambda: False, 1.5), host.broker.now
        (False, 1500000)
        >>> host.wait(lambda: False, None), host.broker.now
        (False, 1500000)
        """
        self.begin()
        broker, deadline = self.broker, None
        if timeout is not None:
            deadline = broker.now + max(0, round(timeout * MICROSECONDS))
        for _ in range(MOST_STEPS) if deadline is None else repeat(None):
            if self._look(is_done):
                return True
            due = _next_event(broker) if deadline is None else self._next_step()
            if due is None or (deadline is not None and due > deadline):
                break
            broker.advance(max(due, broker.now))
        if deadline is not None and deadline > broker.now:
            broker.advance(deadline)
        return self._look(is_done)

    def _next_step(self) -> int | None:
        """Return when the broker's next timer is due, or its consoles look at the objects."""
        due = self.broker.timers.next_due
        if not self.agent.listeners:
            return due
        return self.agent.next_look if due is None else min(due, self.agent.next_look)

    def _look(self, is_done: Callable[[], bool]) -> bool:
        self.publish_events()
        return is_done()


def _next_event(broker: Broker) -> int | None:
    """Return when the broker next does something by itself; a cleaner that finds nothing is no such time."""
    candidates: list[int] = []
    expirations = [
        message.transfer.expiration
        for queue in broker.queues.queues.values()
        for message in queue.store
        if message.state == AVAILABLE and message.transfer.expiration is not None
    ]
    for due, task in broker.timers.scheduled():
        if task is not broker.cleaner:
            candidates.append(due)
        elif expirations:
            interval = broker.options.queue_purge_interval * MICROSECONDS
            runs_too_early = max(0, -((due - min(expirations) - 1) // interval))
            candidates.append(due + runs_too_early * interval)
    return min(candidates, default=None)


class Brokers:
    """Brokers by URL; a URL that is new gets a broker with default options.

    Scheme, user and a port of 5672 make no difference.

    Examples
    --------
    >>> registry = Brokers()
    >>> registry.get("localhost") is registry.get("amqp://guest:guest@localhost:5672")
    True
    >>> registry.install("small", BrokerOptions(default_queue_limit=1000)).options.default_queue_limit
    1000
    """

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}

    def get(self, url: object = DEFAULT_URL) -> Broker:
        """Return the broker behind a URL: for its statistics, its management, its events."""
        return self.host(url).broker

    def install(
        self,
        url: object = DEFAULT_URL,
        broker: Broker | BrokerOptions | None = None,
        clock: Clock | None = None,
    ) -> Broker:
        """Put a broker behind a URL, instead of the one that is there, and return it.

        Parameters
        ----------
        url : object
            Anything whose ``str()`` is a URL.
        broker : Broker, BrokerOptions or None
            Yours; or what a new one is started with; None for the defaults.
        clock : callable or None
            A source of time, in seconds, besides the calls that wait: ``time.monotonic`` lets code that
            sleeps run unchanged, but no two runs are the same then.  None: time passes in calls only.
        """
        made = broker if isinstance(broker, Broker) else Broker(broker)
        known = next((host for host in self._hosts.values() if host.broker is made), None)
        self._hosts[_key(url)] = known or Host(made, clock)
        return made

    def host(self, url: object) -> Host:
        """Return the host behind a URL, made now if there is none."""
        key = _key(url)
        if key not in self._hosts:
            self._hosts[key] = Host(Broker())
        return self._hosts[key]

    def reset(self) -> None:
        """Forget all brokers; connections that are open keep theirs."""
        self._hosts.clear()

    def sleep(self, seconds: float, url: object | None = None) -> None:
        """Let time pass, at once: in every broker, or in the one behind a URL."""
        hosts = list(self._hosts.values()) if url is None else [self.host(url)]
        for host in {id(host): host for host in hosts}.values():
            host.wait(lambda: False, seconds)


brokers = Brokers()
"""The registry that :class:`~qflow.messaging.Connection` uses."""


def sleep(seconds: float, url: object | None = None) -> None:
    """Let virtual time pass without waiting, as ``time.sleep`` does in code that talks to a real broker.

    Parameters
    ----------
    seconds : float
        How much; time-to-live, auto-delete time-outs and the expiry cleaner see it.
    url : object or None
        One broker only; None for all of this process.

    Examples
    --------
    >>> before = brokers.get().now
    >>> sleep(2)
    >>> brokers.get().now - before
    2000000
    """
    brokers.sleep(seconds, url)


def parse_url(url: object) -> tuple[str, int, str | None, str | None]:
    """Return host, port, user and password of a URL; a text that is no URL is a host's name.

    Examples
    --------
    >>> parse_url("guest/secret@example:10000")
    ('example', 10000, 'guest', 'secret')
    """
    match = _URL.fullmatch(str(url))
    if match is None:
        return str(url), AMQP_PORT, None, None
    return match["host"], int(match["port"] or AMQP_PORT), match["user"], match["password"]


def _key(url: object) -> str:
    host, port, *_ = parse_url(url)
    return f"{host.lower()}:{port}"
