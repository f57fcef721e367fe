"""A bench for exercises: a broker, one producer, and readers, in few words.

The truth of every exercise comes from here, that is from the engine. The bench only gives commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from qflow.broker import Broker, BrokerOptions, Message, Session
from qflow.broker.errors import AmqpException
from qflow.broker.message import HeaderValue, Transfer
from qflow.broker.statistics import QueueStatistics
from qflow.teaching.clients import Reader

GROUP = "group"
"""The application header that names a message's group here."""


class Bench:
    """A broker to try a case on.

    Parameters
    ----------
    options
        What the broker is started with; None for its defaults.

    Examples
    --------
    >>> bench = Bench()
    >>> bench.declare("q", flow_stop_count=2)
    >>> [transfer.is_complete for transfer in bench.send("q", 3)]
    [True, True, False]
    """

    def __init__(self, options: BrokerOptions | None = None) -> None:
        self.broker = Broker(options or BrokerOptions())
        self.admin = self.broker.session("admin")
        self.producer = self.broker.session("producer")

    def declare(self, queue: str, **short: object) -> None:
        """Declare a queue; keywords are declare arguments without ``qpid.``."""
        self.admin.queue_declare(queue, {f"qpid.{name}": value for name, value in short.items()})

    def refusal(self, queue: str, arguments: object) -> str:
        """Declare a queue with what somebody answered; return what is wrong with that, or "".

        Parameters
        ----------
        queue
            Its name.
        arguments
            Declare arguments, with ``qpid.``, if the answer is of any use.

        Examples
        --------
        >>> Bench().refusal("q", {"qpid.max_count": 9}), Bench().refusal("q", 9)
        ('', 'the declare arguments are a dict of keys and values; got 9')
        >>> Bench().refusal("q", {"qpid.shared_msg_group": 1})
        'the broker refuses it: 542 ...'
        """
        if not isinstance(arguments, Mapping):
            return f"the declare arguments are a dict of keys and values; got {arguments!r}"
        try:
            self.admin.queue_declare(queue, arguments)
        except AmqpException as error:
            return f"the broker refuses it: {error.code} {error}"
        return ""

    def grouped(self, queue: str, **short: object) -> None:
        """Declare a queue with message groups."""
        self.declare(queue, group_header_key=GROUP, shared_msg_group=1, **short)

    def send(
        self,
        queue: str,
        what: int | Iterable[str] = 1,
        *,
        size: int = 100,
        exchange: str = "",
        header: str = "",
        priority: int | None = None,
        by: Session | None = None,
    ) -> list[Transfer]:
        """Send messages for which the broker counts `size` bytes; labels are ``A-1`` and so on.

        With `header`, that application header holds the part of the label before the dash.
        """
        labels = [""] * what if isinstance(what, int) else list(what)
        sent = []
        for label in labels:
            headers: dict[str, HeaderValue] | None = {header: label.partition("-")[0]} if header else None
            bare = Message(routing_key=queue, headers=headers, priority=priority)
            content = max(0, size - bare.encoded_size(exchange))
            message = Message(content, queue, headers, priority, label=label)
            sent.append((by or self.producer).message_transfer(message, exchange))
        return sent

    def reader(self, queue: str, name: str = "consumer", prefetch: int = 0) -> Reader:
        """Attach a consumer with a session of its own; prefetch 0 means one message at each fetch."""
        return Reader(self.broker, name, queue, prefetch)

    def statistics(self, queue: str) -> QueueStatistics:
        """Return a queue's statistics, by their QMF names."""
        return self.broker.queue(queue).statistics()

    def depth(self, queue: str) -> int:
        """Return how many messages count for a queue."""
        return self.statistics(queue).msgDepth

    def is_on(self, queue: str) -> bool:
        """Return whether a queue's flow control is ON."""
        return self.statistics(queue).flowStopped

    def exists(self, queue: str) -> bool:
        """Return whether there is a queue of that name."""
        return self.admin.queue_query(queue).queue == queue

    def left(self, queue: str) -> list[str]:
        """Return the labels of the messages a fresh browser sees, in reading order."""
        browser = Reader(self.broker, "a fresh browser", queue, prefetch=1000, browse=True)
        seen = [label.rstrip("*") for label in browser.got]
        browser.close()
        return seen
