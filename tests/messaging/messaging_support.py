"""What the tests of the messaging API share: a fresh broker behind a URL, and short ways to send and drain.

The tests talk to the broker as an application does; what an application cannot see they ask a console.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from qflow.broker import Broker, BrokerOptions
from qflow.messaging import Connection, Empty, Message, Receiver, Sender, Session, brokers, console, sleep

GROUP = "THE-GROUP"
_numbers = count(1)


def address(name: str, arguments: Mapping[str, object] | None = None, **policies: str) -> str:
    """Write an address: ``create: always`` unless said otherwise, and the arguments to declare with."""
    options = {"create": "always", **policies}
    words = [f"{key}: {value}" for key, value in options.items()]
    if arguments:
        pairs = ", ".join(f"'{key}': {value!r}" for key, value in arguments.items())
        words.append(f"node: {{x-declare: {{arguments: {{{pairs}}}}}}}")
    return f"{name}; {{{', '.join(words)}}}"


def contents(messages: Iterable[Message]) -> list[object]:
    return [message.content for message in messages]


def drain(receiver: Receiver, limit: int | None = None, timeout: float = 0) -> list[Message]:
    """Fetch all there is, or so many."""
    messages: list[Message] = []
    while limit is None or len(messages) < limit:
        try:
            messages.append(receiver.fetch(timeout))
        except Empty:
            break
    return messages


def texts(receiver: Receiver, limit: int | None = None) -> str:
    """What can be fetched; ``*`` for redelivered."""
    return " ".join(f"{m.content}{'*' * m.redelivered}" for m in drain(receiver, limit))


def is_empty(receiver: Receiver) -> bool:
    return not drain(receiver)


class Bench:
    """A broker of one test's own, an open connection to it, and a session."""

    def __init__(self, **options: object) -> None:
        self.url = f"bench-{next(_numbers)}"
        self.broker: Broker = brokers.install(self.url, BrokerOptions(**options))
        self.connection = Connection.establish(self.url)
        self.session = self.connection.session()
        self.console = console.Session()
        self.console.addBroker(self.url)

    def new_session(self, transactional: bool = False) -> Session:
        return self.connection.session(transactional=transactional)

    def sender(self, target: str, **options: object) -> Sender:
        return self.session.sender(target, **options)

    def send(self, target: str, *messages: object, **options: object) -> Sender:
        """Send messages, one after the other; return the sender."""
        sender = self.sender(target, **options)
        for message in messages:
            sender.send(message)
        return sender

    def receiver(self, source: str, **options: object) -> Receiver:
        return self.session.receiver(source, **options)

    def consumer(self, source: str, transactional: bool = False) -> Receiver:
        """A receiver on a session of its own."""
        return self.new_session(transactional).receiver(source)

    def object(self, kind: str, name: str) -> console.Object:
        return self.console.getObjects(_class=kind, name=name)[0]

    def stat(self, queue: str) -> console.Object:
        """The queue as a console shows it now."""
        return self.object("queue", queue)

    def exists(self, kind: str, name: str) -> bool:
        return bool(self.console.getObjects(_class=kind, name=name))

    def sleep(self, seconds: float) -> None:
        sleep(seconds, self.url)
