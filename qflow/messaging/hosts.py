"""The brokers of this process by URL, the passing of virtual time, and threads that wait for each other.

A :class:`Host` is one broker together with what its clients share: a generator of unique names, the
management agent that publishes events to consoles, and one lock.

**Time.**  The engine has no clock: its time is *virtual*, and passes only when a caller advances it.  Here,
the calls that wait advance it.  A wait fires the broker's timers in order (auto-delete time-outs, the expiry
cleaner), checks its condition after each, and finally advances time to the end of its time-out, all at once.
A wait without a time-out ends when no timer is left that could change anything.

**Threads.**  Every call of the API holds the host's lock, so one thread at a time uses the engine.  A call
that waits releases the lock.  What happens then depends on the other threads that *use this broker*, that is,
those that have called its API and are alive:

* If one of them does not wait at this broker itself, it can act.  The call blocks, as on a network, until its
  condition holds or its time-out has passed in real time.
* If all of them wait at this broker, too (or in ``join`` for a thread that does), none can act.  Virtual time
  passes to the next timer or to the earliest end of a time-out.  If there is neither, this is a deadlock: the
  call that notices it first raises, and the others continue to wait, as that thread may act now.
* If there are none, the second case applies to the single thread.

A thread that waits at *another* broker can act here later in two cases: if its time-out, or the time-out of
any thread that waits there, ends sooner than anything happens here; or if another thread can act there.

A thread that has not called the API yet is regarded as able to act for :data:`_STARTING` seconds after it was
first seen, as it may be about to call it.  A call may block although no other thread can help, because the
client never requested a report of the completion that it waits for (CM-05); after :data:`PATIENCE` seconds it
issues a warning.

**Deliveries and reports of completions** reach a client in the middle of a command of another client.  They
are only recorded then; after the command, :meth:`Host.settle` lets each client act on them.
"""

from __future__ import annotations

import re
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import wraps
from math import inf
from typing import Protocol
from uuid import NAMESPACE_URL, uuid5
from weakref import WeakKeyDictionary

from qflow.broker import Broker, BrokerOptions
from qflow.broker.message import AVAILABLE
from qflow.broker.session import Session
from qflow.messaging.messages import AMQP_PORT
from qflow.messaging.qmf import Agent

_MICROSECONDS = 1_000_000
_MOST_STEPS = 10_000
"""The largest number of timers that fire in a wait without a time-out, as a timer may set itself again."""

POLL = 0.05
"""Seconds of real time after which a blocked thread checks again for ended threads and its time-out."""

_STARTING = 2.0
"""Seconds for which a thread that has not used the broker yet is assumed to be about to use it."""

PATIENCE = 1.0
"""Seconds after which a blocked call warns that its condition cannot come true."""

DEFAULT_URL = "localhost"
REFUSED = "[Errno 111] Connection refused"
_URL = re.compile(
    r"(?:amqps?:(?://)?)?(?:(?P<user>[^@/:]*)(?:[/:](?P<password>[^@]*))?@)?(?:tcp:)?"
    r"(?P<host>\[[^\]]*\]|[^:/]+)(?::(?P<port>\d+))?/?"
)

_Warn = Callable[[], str | None]
"""A function that returns the reason why a wait cannot end, or None if it can."""

_TimeLeft = Callable[[], float]
"""A function that returns the microseconds until the next timer or end of a time-out at a broker."""


# The times at which threads were first seen that may be about to use a broker. Daemon threads that exist
# already are a Jupyter kernel's own, and count as seen long ago.
_first_seen = WeakKeyDictionary({t: -inf for t in threading.enumerate() if t.daemon})

# For each thread that waits in ``join`` without a time-out, the thread that it waits for.
_joined: dict[threading.Thread, threading.Thread] = {}


_join = threading.Thread.join


@wraps(_join)
def _note_join(thread: threading.Thread, timeout: float | None = None) -> None:
    me = threading.current_thread()
    if timeout is None:
        _joined[me] = thread
    try:
        _join(thread, timeout)
    finally:
        _joined.pop(me, None)


# There is no other safe way to know which thread is joined: reading a running thread's frames can crash
# Python.
threading.Thread.join = _note_join  # type: ignore[assignment, method-assign]


class SessionReader(Protocol):
    """The client's side of one session of the engine: a channel."""

    engine: Session

    def write(self) -> AbstractContextManager[None]:
        """Send the commands of a block in one write."""

    def read(self) -> None:
        """Act on the completions that have been reported."""


@dataclass(slots=True)
class _Wait:
    """A thread's wait: the host, the condition, and the end in virtual time (None without a time-out)."""

    host: Host
    is_done: Callable[[], bool]
    deadline: int | None
    warn: _Warn | None
    noticed: threading.Condition
    is_asleep: bool = False


# A thread waits at one broker at a time.
_waits: dict[threading.Thread, _Wait] = {}


class Host:
    """A broker with the state that its clients share; a client uses it in a block ``with host:``."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.agent = Agent.of(broker)
        # Held by every call of the API, and by a thread that uses the broker directly while others do, too.
        self.lock = threading.RLock()
        # The reason why connections are refused, or None.
        self.refusal: str | None = None
        self._names = 0
        # The clients with deliveries or reports that they have not acted on, in the order of arrival.
        self._news: dict[SessionReader, None] = {}
        self._is_settling = False
        # The threads that have used the broker, in the order of their first use.
        self._users: dict[threading.Thread, None] = {}

    def __enter__(self) -> Host:
        """Acquire the broker's lock, and let clients act on what they were sent meanwhile."""
        self.lock.acquire()
        try:
            me = threading.current_thread()
            if me not in self._users:
                self._forget_ended()
                self._users[me] = None
            self.begin()
            self.settle()
        except BaseException:
            self.lock.release()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Publish the events of the block, let other clients act on what they were sent, release the lock."""
        try:
            self.publish_events()
            self.settle()
        finally:
            self.lock.release()

    def announce(self, reader: SessionReader) -> None:
        """Record that a client was sent a delivery or report, which it has to act on."""
        self._news[reader] = None

    def settle(self) -> None:
        """Let each client act on its deliveries and reports, and wake the threads whose wait is over."""
        if self.broker.reporters:
            # A store finished messages between two commands (CM-12), and their completion is not sent yet.
            self.broker.scheduler.quiesce()
        if self._is_settling or not self._news:
            return
        self._is_settling = True
        try:
            while self._news:
                connection = next(iter(self._news)).engine.connection
                readers = [one for one in self._news if one.engine.connection is connection]
                # The driver of a connection reads all data first, and then answers it in one write (RF-08).
                with ExitStack() as writes:
                    for reader in readers:
                        del self._news[reader]
                        writes.enter_context(reader.write())
                    for reader in readers:
                        reader.read()
                self.publish_events()
        finally:
            self._is_settling = False
            self._wake()

    def _wake(self) -> None:
        for wait in self._waits():
            if self._is_over(wait):
                wait.is_asleep = False
                wait.noticed.notify()

    def _waits(self) -> list[_Wait]:
        return [wait for wait in list(_waits.values()) if wait.host is self]

    def _is_over(self, wait: _Wait) -> bool:
        return (wait.deadline is not None and self.broker.now >= wait.deadline) or wait.is_done()

    def begin(self) -> None:
        """Observe the broker's events if a console needs them; to be called before each command."""
        agent = self.agent
        if agent.bindings or agent.listeners or self.broker.observer is agent.own_observer:
            agent.watch()

    def publish_events(self) -> None:
        """Publish the management events since the last command; to be called after each command."""
        if self.agent.pending or self.agent.listeners:
            self.agent.publish_events()

    def unique_name(self, kind: str) -> str:
        """Return a session name that is not in use at the broker; it is deterministic, and not random."""
        while True:
            self._names += 1
            name = f"{kind}-{self._names}"
            if not any(session.startswith(name) for session in self.broker.sessions):
                return name

    def unique_id(self) -> str:
        """Return a new UUID to name a temporary node; it comes from a counter, so runs are repeatable."""
        return str(uuid5(NAMESPACE_URL, self.unique_name("node")))

    def wait(self, is_done: Callable[[], bool], timeout: float | None, warn: _Warn | None = None) -> bool:
        """Wait up to a time-out in seconds until a condition holds or never can; return whether it holds."""
        with self.lock:
            if self._look(is_done):
                return True
            if timeout is not None and timeout <= 0:
                return False
            me = threading.current_thread()
            deadline = ends = None
            if timeout is not None:
                deadline, ends = self.broker.now + round(timeout * _MICROSECONDS), time.monotonic() + timeout
            self._users[me] = None
            _waits[me] = wait = _Wait(self, is_done, deadline, warn, threading.Condition(self.lock))
            try:
                return self._block(wait, ends)
            finally:
                del _waits[me]

    def _block(self, wait: _Wait, ends: float | None) -> bool:
        steps, began = 0, time.monotonic()
        while not self._look(wait.is_done):
            if wait.deadline is not None and self.broker.now >= wait.deadline:
                return False
            if self._others_can_act():
                self._sleep(wait, ends)
                if wait.warn is not None and time.monotonic() - began >= PATIENCE:
                    self._warn(wait)
                continue
            due = self._next_moment()
            steps += wait.deadline is None
            if due is None or steps > _MOST_STEPS:
                return False
            self.broker.advance(max(due, self.broker.now))
            self._wake()
        return True

    def _sleep(self, wait: _Wait, ends: float | None) -> None:
        """Let other threads act for a moment, or expire a time-out that has passed in real time."""
        left = POLL if ends is None else min(POLL, ends - time.monotonic())
        if left > 0:
            wait.is_asleep = True
            try:
                wait.noticed.wait(left)
            finally:
                wait.is_asleep = False
            self.begin()
        elif wait.deadline is not None:
            self.broker.advance(max(wait.deadline, self.broker.now))
            self._wake()

    def _warn(self, wait: _Wait) -> None:
        text = None if wait.warn is None or wait.is_done() else wait.warn()
        if text is not None:
            wait.warn = None
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _next_moment(self) -> int | None:
        """Return the virtual time of the next timer or end of a time-out, or None if there is neither."""
        deadlines = self._deadlines()
        if not deadlines:
            return _next_event(self.broker)
        timer = self.broker.timers.next_due
        looks = [self.agent.next_look] if self.agent.listeners else []
        return min([*deadlines, *looks, *([] if timer is None else [timer])])

    def _look(self, is_done: Callable[[], bool]) -> bool:
        self.publish_events()
        self.settle()
        return is_done()

    def _deadlines(self) -> list[int]:
        return [wait.deadline for wait in self._waits() if wait.deadline is not None]

    # Other threads

    def _others_can_act(self) -> bool:
        """Return whether another thread may still act on the broker."""
        self._forget_ended()
        now = time.monotonic()
        starting = [t for t in threading.enumerate() if now - _first_seen.setdefault(t, now) < _STARTING]
        stuck = {threading.current_thread()}
        stuck.update(t for t, wait in list(_waits.items()) if wait.host is self and not self._is_over(wait))
        return any(self._can_act(thread, stuck, self._time_left) for thread in {*self._users, *starting})

    def _can_act(self, thread: threading.Thread, stuck: set[threading.Thread], left: _TimeLeft) -> bool:
        """Return whether a thread may act at this broker, now or after its wait at another broker."""
        # Other hosts are read without their locks; nothing that is read here changes while threads wait.
        wait = _waits.get(thread)
        if thread in stuck:
            return False
        if wait is None:
            joined = _joined.get(thread)
            return joined is None or joined not in self._users or self._can_act(joined, stuck, left)
        if wait.host is self or not wait.is_asleep:
            return True
        host, stuck = wait.host, stuck | {thread}
        ends = min(host._deadlines(), default=inf) - host.broker.now
        return ends < left() or any(host._can_act(other, stuck, left) for other in list(host._users))

    def _time_left(self) -> float:
        due = self._next_moment()
        return inf if due is None else due - self.broker.now

    def _forget_ended(self) -> None:
        for thread in [thread for thread in self._users if not thread.is_alive()]:
            del self._users[thread]

    def count_others(self) -> int:
        """Return the number of other threads that use this broker."""
        return len(self._users.keys() - {threading.current_thread()})


def _next_event(broker: Broker) -> int | None:
    """Return the time of the broker's next timer, or None; cleaner runs that remove nothing are skipped."""
    candidates: list[int] = []
    expirations = [
        message.transfer.expiration
        for queue in broker.queues.queues.values()
        for message in queue.store
        if message.state == AVAILABLE and message.transfer.expiration is not None
    ]
    for due, task in broker.timers.tasks:
        if task is not broker.cleaner:
            candidates.append(due)
        elif expirations:
            interval = broker.options.purge_interval_us
            runs_too_early = max(0, -((due - min(expirations) - 1) // interval))
            candidates.append(due + runs_too_early * interval)
    return min(candidates, default=None)


class Brokers:
    """A registry of brokers by URL, which creates a broker with default options for each new URL.

    The scheme, the user and the default port of 5672 are ignored: URLs that differ only in them are one.

    >>> registry = Brokers()
    >>> registry.get("localhost") is registry.get("amqp://guest:guest@localhost:5672")
    True
    >>> registry.install("small", BrokerOptions(default_queue_limit=1000)).options.default_queue_limit
    1000
    """

    def __init__(self) -> None:
        self._hosts: dict[str, Host] = {}

    def get(self, url: object = DEFAULT_URL) -> Broker:
        """Return the broker behind a URL, created if the URL is new."""
        return self.host(url).broker

    def install(self, url: object = DEFAULT_URL, broker: Broker | BrokerOptions | None = None) -> Broker:
        """Install a broker behind a URL in place of the present one, and return it.

        Parameters:
            url: The URL, or an object whose ``str()`` is a URL.
            broker: An existing broker, or the options of a new one; None for the default options.
        """
        made = broker if isinstance(broker, Broker) else Broker(broker)
        known = next((host for host in self._hosts.values() if host.broker is made), None)
        self._hosts[_key(url)] = known or Host(made)
        self._hosts[_key(url)].refusal = None
        return made

    def refuse(self, url: object, text: str = REFUSED) -> None:
        """Refuse every connection to a URL from now on, until a broker is installed there.

        Parameters:
            url: The URL, or an object whose ``str()`` is a URL; open connections stay open.
            text: The reason, as an operating system words it.
        """
        self.host(url).refusal = text

    def host(self, url: object) -> Host:
        """Return the host behind a URL, created if the URL is new."""
        key = _key(url)
        # If two threads call this at once, the first one's host is kept.
        return self._hosts.get(key) or self._hosts.setdefault(key, Host(Broker()))

    def reset(self) -> None:
        """Forget all brokers; open connections keep their brokers."""
        self._hosts.clear()

    def sleep(self, seconds: float, url: object | None = None) -> None:
        """Advance virtual time; the counterpart of ``time.sleep`` in code written for a real broker.

        Parameters:
            seconds: How far to advance; messages expire, and auto-delete time-outs and the expiry cleaner
                run, as they fall due.
            url: The URL of one broker, or None for all brokers in this process.
        """
        hosts = list(self._hosts.values()) if url is None else [self.host(url)]
        for host in {id(host): host for host in hosts}.values():
            with host:
                host.wait(lambda: False, seconds)


brokers = Brokers()
"""The registry of brokers that :class:`~qflow.messaging.Connection` uses."""
refuse, sleep = brokers.refuse, brokers.sleep


def parse_url(url: object) -> tuple[str, int, str | None, str | None]:
    """Return the host, port, user and password of a URL; a text that is not a URL is a host's name.

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
