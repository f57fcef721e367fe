"""What the engine's tests share: a bench with a broker on it, readers, refusals, and what can be seen.

The tests say what a client does and what it, or a console, then sees; so do the helpers here. They use
the commands, the statistics and the events of the engine, and none of its inner parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from ledger import GROUP as GROUP
from ledger import through_json as through_json
from ledger import visible as visible

from qflow.broker import INFINITE, Broker, BrokerOptions, Event, Message, Session
from qflow.broker.errors import AmqpException, ManagementError
from qflow.broker.message import Transfer

BYTES, MESSAGES = 1, 0
CREDIT, WINDOW = 0, 1
NONE = 1


def arguments(**short: object) -> dict[str, object]:
    """Write declare arguments without their prefix: ``max_count=3`` for ``qpid.max_count``."""
    return {f"qpid.{name}": value for name, value in short.items()}


def sized(size: int, exchange: str = "", **properties: object) -> Message:
    """Return a message for which the broker counts exactly ``size`` bytes."""
    overhead = Message(**properties).encoded_size(exchange)
    assert overhead <= size, f"the properties alone take {overhead} bytes of {size}"
    return Message(size - overhead, **properties)


@contextmanager
def refused(code: int, text: str = "") -> Iterator[None]:
    """Expect an AMQP exception by its code and the beginning of its text (IN-12)."""
    with pytest.raises(AmqpException) as raised:
        yield
    assert (raised.value.code, raised.value.text[: len(text)]) == (code, text)


@contextmanager
def management_refused(status: int, text: str = "") -> Iterator[None]:
    """Expect a management error by its status and the beginning of its text (CF-08)."""
    with pytest.raises(ManagementError) as raised:
        yield
    assert (raised.value.status, raised.value.text[: len(text)]) == (status, text)


def rows_of(table: Mapping[Any, Mapping[str, object]]) -> list[Any]:
    """Return the parameters of a table: what is expected, then by its name what it is expected of."""
    return [
        pytest.param(*(expected if isinstance(expected, tuple) else (expected,)), given, id=name)
        for expected, rows in table.items()
        for name, given in rows.items()
    ]


def words_of(kind: type[Exception], act: Callable[..., object], *given: object, **named: object) -> str:
    """Return the words with which a call is refused, by an exception of this kind."""
    with pytest.raises(kind) as refusal:
        act(*given, **named)
    return str(refusal.value)


class Reader:
    """One subscription as its client sees it: what it got, and what it does with that."""

    def __init__(self, bench: Bench, session: Session, tag: str) -> None:
        self.bench = bench
        self.session = session
        self.tag = tag

    def deliveries(self) -> list[Event]:
        """Every delivery so far."""
        return [
            event
            for event in self.bench.seen("delivered")
            if event.session == self.session.name and event.link == self.tag
        ]

    @property
    def got(self) -> str:
        """Labels of all deliveries so far, ``*`` for redelivered, separated by blanks."""
        return " ".join(e.message + ("*" if e.detail["redelivered"] else "") for e in self.deliveries())

    @property
    def unacked(self) -> int:
        """What management says of the session's outstanding deliveries."""
        return self.session.statistics().unackedMessages

    def numbers(self, labels: Iterable[str]) -> list[int]:
        """Numbers of the latest deliveries of these labels; of all deliveries, if none is named."""
        known = {event.message: event.detail["delivery"] for event in self.deliveries()}
        wanted = list(labels)
        return [known[label] for label in wanted] if wanted else list(known.values())

    def accept(self, *labels: str) -> None:
        self.session.message_accept(self.numbers(labels))

    def reject(self, *labels: str) -> None:
        self.session.message_reject(self.numbers(labels))

    def release(self, *labels: str, set_redelivered: bool = False) -> None:
        self.session.message_release(self.numbers(labels), set_redelivered)

    def acquire(self, *labels: str) -> list[int]:
        return self.session.message_acquire(self.numbers(labels))

    def complete(self, *labels: str) -> None:
        self.session.session_completed(self.numbers(labels))

    def grant(self, messages: int | None = None, volume: int | None = None) -> None:
        """Grant bytes, then messages; what is None is not granted."""
        if volume is not None:
            self.session.message_flow(self.tag, BYTES, volume)
        if messages is not None:
            self.session.message_flow(self.tag, MESSAGES, messages)

    def mode(self, mode: int) -> None:
        self.session.message_set_flow_mode(self.tag, mode)

    def stop(self) -> None:
        self.session.message_stop(self.tag)

    def flush(self) -> None:
        self.session.message_flush(self.tag)

    def cancel(self) -> None:
        self.session.message_cancel(self.tag)

    def fetch(self) -> str:
        """Get one message as a client without prefetch does; its label, or "" for none."""
        before = len(self.deliveries())
        self.session.fetch(self.tag)
        return " ".join(event.message for event in self.deliveries()[before:])


class Bench:
    """A broker to try things on: sessions by name, short ways to declare, send, read and look."""

    def __init__(self, **options: object) -> None:
        self.broker = Broker(BrokerOptions(**options))
        self.events: list[Event] = []
        self.broker.observe(self.events.append)
        self.sent: dict[str, int] = {}

    def twin(self) -> Bench:
        """Return a bench on a broker that is restored from a snapshot of this one's."""
        made = Bench()
        made.broker, made.sent = through_json(self.broker), dict(self.sent)
        made.broker.observe(made.events.append)
        return made

    # Doing

    def session(self, name: str, connection: str = "") -> Session:
        """Return the attached session of a name; make it if there never was one."""
        return self.broker.sessions.get(name) or self.broker.session(name, connection)

    @property
    def ctl(self) -> Session:
        """The administrator's session; a new one if the last one died."""
        found = self.broker.sessions.get("ctl")
        return found if found is not None and found.is_attached else self.broker.session("ctl")

    def declare(
        self,
        queue: str,
        others: Mapping[str, object] | None = None,
        *,
        by: str = "ctl",
        alternate: str = "",
        auto_delete: bool = False,
        exclusive: bool = False,
        **short: object,
    ) -> None:
        """Declare a queue; keywords are arguments without ``qpid.``."""
        session = self.ctl if by == "ctl" else self.session(by)
        session.queue_declare(
            queue,
            {**(others or {}), **arguments(**short)},
            alternate_exchange=alternate,
            auto_delete=auto_delete,
            exclusive=exclusive,
        )

    def exchange(self, name: str, kind: str, alternate: str = "", auto_delete: bool = False) -> None:
        self.ctl.exchange_declare(name, kind, alternate_exchange=alternate, auto_delete=auto_delete)

    def bind(
        self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, object] | None = None
    ) -> None:
        self.ctl.exchange_bind(queue, exchange, key, arguments)

    def send(
        self,
        key: str,
        count: int = 1,
        *,
        by: str = "p",
        size: int = 100,
        exchange: str = "",
        label: str = "",
        sync: bool = False,
        **properties: object,
    ) -> list[Transfer]:
        """Send messages of exactly ``size`` bytes; labels run on per session: p-1, p-2, …"""
        made = []
        for _ in range(count):
            self.sent[by] = self.sent.get(by, 0) + 1
            name = label or f"{by}-{self.sent[by]}"
            message = sized(size, exchange, routing_key=key, label=name, **properties)
            made.append(self.session(by).message_transfer(message, exchange, sync))
        return made

    def group(self, queue: str, **more: object) -> None:
        """Declare a grouped queue."""
        self.declare(queue, group_header_key=GROUP, shared_msg_group=1, **more)

    def send_groups(self, queue: str, labels: str, **more: object) -> None:
        """Send messages to a grouped queue; the letter before the dash is the group."""
        for label in labels.split():
            self.send(queue, label=label, headers={GROUP: label.partition("-")[0]}, **more)

    def read(
        self,
        queue: str,
        session: str = "c",
        tag: str = "s",
        *,
        messages: int | None = INFINITE,
        volume: int | None = INFINITE,
        mode: int = CREDIT,
        accept: int = 0,
        browse: bool = False,
        exclusive: bool = False,
        connection: str = "",
        selector: object = None,
    ) -> Reader:
        """Subscribe, and grant credit at once."""
        attached = self.session(session, connection)
        asked = {} if selector is None else {"x-apache-selector": selector}
        attached.message_subscribe(queue, tag, accept, int(browse), exclusive, asked)
        reader = Reader(self, attached, tag)
        if mode == CREDIT:
            reader.mode(CREDIT)
        reader.grant(messages, volume)
        return reader

    def idle(self, queue: str, session: str = "c", tag: str = "s", **more: object) -> Reader:
        """Subscribe without any credit, for readers that fetch."""
        return self.read(queue, session, tag, messages=None, volume=None, **more)

    def take(self, queue: str, count: int = 1, session: str = "taker") -> list[str]:
        """Fetch and accept the next messages."""
        tag = f"take {queue}"
        attached = self.session(session)
        if tag not in attached.consuming.subscriptions:
            self.idle(queue, session, tag)
        reader = Reader(self, attached, tag)
        taken = []
        for _ in range(count):
            taken.append(reader.fetch())
            if taken[-1]:
                reader.accept(taken[-1])
        return taken

    # Seeing

    def seen(self, *kinds: str) -> list[Event]:
        """Events of these kinds so far."""
        return [event for event in self.events if event.kind in kinds]

    def stat(self, queue: str) -> object:
        """The queue's statistics, by their QMF names."""
        return self.broker.queue(queue).statistics()

    def is_on(self, queue: str) -> bool:
        return self.stat(queue).flowStopped

    def exists(self, queue: str) -> bool:
        return queue in self.broker.queues.queues

    def has_exchange(self, name: str) -> bool:
        return name in self.broker.exchanges.exchanges

    def exchange_statistics(self, name: str) -> object:
        return self.broker.exchanges.get(name).statistics()

    def held(self, session: str = "p") -> str:
        """Labels of the session's held transfers."""
        return " ".join(transfer.label for transfer in self.session(session).held)

    def completed(self, session: str = "p") -> str:
        """The ranges of complete commands, as in ``session.completed``."""
        return str(self.session(session).completed)

    def labels(self, queue: str) -> str:
        """What a fresh browser sees: the AVAILABLE messages in reading order."""
        session = self.broker.session("a fresh browser")
        try:
            session.message_subscribe(queue, "b", acquire_mode=1)
            reader = Reader(self, session, "b")
            before = len(reader.deliveries())
            reader.mode(CREDIT)
            reader.grant(INFINITE, INFINITE)
            return " ".join(event.message for event in reader.deliveries()[before:])
        finally:
            session.close()

    def owners(self, queue: str) -> dict[str, tuple[int, str]]:
        """Groups as management shows them: number of messages and owner (MG-24)."""
        answer = self.broker.management.query("queue", queue)
        state = answer["qpid.message_group_queue"]["group_state"]
        return {group["group_id"]: (group["msg_count"], group["consumer"]) for group in state}


def bench_with(queue: str, others: Mapping[str, object] | None = None, **more: Any) -> Bench:
    """Return a bench on which a queue is declared; the parameters are those of :meth:`Bench.declare`."""
    bench = Bench()
    bench.declare(queue, others, **more)
    return bench


def queue_of(count: int, others: Mapping[str, object] | None = None, **more: Any) -> Bench:
    """Return a bench with a queue "q" that has messages p-1, p-2, … of 100 bytes."""
    bench = bench_with("q", others, **more)
    bench.send("q", count)
    return bench


def run(first: int, last: int, star: str = "") -> str:
    """Write the labels of consecutive messages, as a reader shows them."""
    return " ".join(f"p-{number}{star}" for number in range(first, last + 1))


def of_group(name: str) -> dict[str, object]:
    """Return the filter for the messages of one group, as management takes it (QT-22)."""
    return {
        "filter_type": "header_match_str",
        "filter_params": {"header_key": GROUP, "header_value": name},
    }
