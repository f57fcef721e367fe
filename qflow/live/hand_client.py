"""HandClient: a client of AMQP 1.0 in which nothing happens by itself.

Libraries send, wait, give credit and settle on their own, and so hide what a broker does.  This client does
each of these when it is called, with Proton on a real socket, and shows what has come back.

:meth:`HandClient.round_trip` asks the broker for something of no consequence and waits for the answer.  What
the broker had to say before is known then, so what is printed does not depend on time.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from proton import Delivery, Described, Endpoint, Link, Message, ProtonException, Terminus, Timeout, symbol
from proton.utils import BlockingConnection

from qflow.live.amqp_frames import OUTCOMES, TRANSACTIONAL

_TIMEOUT = 10.0
_LISTENS = 0.2


class HandClient:
    """A client that acts only when called: one connection and session, named by its container-id."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._io = BlockingConnection(url, container_id=name, timeout=_TIMEOUT)
        self._session = self._io.conn.session()
        self._session.open()
        self._links: list[Link] = []
        self._is_lost = False
        self._transaction: tuple[Link, bytes] | None = None

    def sender(self, node: str) -> HandSender:
        """Attach a link to send on."""
        link = self._session.sender(f"to-{node}-{len(self._links)}")
        link.target.address = node
        return HandSender(self, self._attach(link))

    def receiver(
        self,
        node: str,
        credit: int = 0,
        *,
        unsettled: bool = False,
        durable: bool = False,
        browse: bool = False,
    ) -> HandReceiver:
        """Attach a link to receive on; ``unsettled`` asks explicitly to settle each message itself."""
        link = self._session.receiver(f"from-{node}" if durable else f"from-{node}-{len(self._links)}")
        link.source.address = node
        if unsettled:
            link.snd_settle_mode = Link.SND_UNSETTLED
        if browse:
            link.source.distribution_mode = Terminus.DIST_MODE_COPY
        if durable:
            link.source.durability = Terminus.DELIVERIES
            link.source.expiry_policy = Terminus.EXPIRE_NEVER
        made = HandReceiver(self, self._attach(link))
        if credit:
            made.give_credit(credit)
        return made

    def _attach(self, link: Link) -> Link:
        self._links.append(link)
        link.open()
        self._io.wait(lambda: link.state & Endpoint.REMOTE_ACTIVE)
        return link

    def round_trip(self) -> None:
        """Begin and end an extra session: afterwards all earlier answers of the broker have arrived."""
        # The broker may have closed the connection meanwhile, which is an answer, too. AMQP has no ping, but
        # the broker answers a session's begin and end after all that it had to say before.
        with suppress(ProtonException):
            session = self._io.conn.session()
            session.open()
            self._io.wait(lambda: session.state & Endpoint.REMOTE_ACTIVE)
            session.close()
            self._io.wait(lambda: session.state & Endpoint.REMOTE_CLOSED)

    def listen(self) -> None:
        """Listen for a fifth of a second."""
        # A wait for something that never comes, so that the library's reactor runs for a while.
        with suppress(Timeout):
            self._io.wait(lambda: False, timeout=_LISTENS)

    @property
    def closed_for(self) -> str:
        """The reason why the broker closed the connection; "" while it is open."""
        condition = self._io.conn.remote_condition
        return "" if condition is None else f"{condition.name}: {condition.description}"

    # Transactions

    def begin(self) -> None:
        """Begin a transaction, which includes all transfers and accepts until its end."""
        link = self._session.sender("coordinator")
        link.target.type = Terminus.COORDINATOR
        self._attach(link)
        delivery = link.send(Message(body=Described(symbol("amqp:declare:list"), [None])))
        self._io.wait(lambda: delivery.settled or delivery.remote_state)
        self._transaction = link, bytes(delivery.remote.data[0])

    def commit(self) -> str:
        """End the transaction; return its outcome."""
        assert self._transaction is not None
        (link, number), self._transaction = self._transaction, None
        delivery = link.send(Message(body=Described(symbol("amqp:discharge:list"), [number, False])))
        # The broker closes the connection if one queue has no room.
        with suppress(ProtonException):
            self._io.wait(lambda: delivery.remote_state)
        return _name_outcome(delivery)

    # The end

    def drop(self) -> None:
        """Break the connection without a word to the broker."""
        # Proton has no call for it; this is the socket of its reactor.
        self._io.conn.transport._selectable._delegate.close()
        self._is_lost = True

    def close(self) -> None:
        """End the connection in good order."""
        if not self._is_lost:
            with suppress(ProtonException):
                self._io.close()


class HandSender:
    """A link on which the client sends at each call of :meth:`send`."""

    def __init__(self, client: HandClient, link: Link) -> None:
        self.client = client
        self.link = link
        self.deliveries: list[Delivery] = []

    @property
    def credit(self) -> int:
        """The number of transfers that the broker still allows."""
        return int(self.link.credit)

    def send(self, body: object = "", **properties: Any) -> None:
        """Send a message, and wait for nothing; ``group_id`` and ``properties`` are the message's."""
        delivery = self.link.send(Message(body=body, **properties))
        transaction = self.client._transaction
        if transaction is not None:
            delivery.local.data = [transaction[1]]
            delivery.update(TRANSACTIONAL)
        self.deliveries.append(delivery)

    def outcomes(self) -> list[str]:
        """Return the broker's outcome of each transfer."""
        return [_name_outcome(delivery) for delivery in self.deliveries]

    def count(self, outcome: str = "no outcome yet") -> int:
        """Return the number of transfers with a given outcome, or without any."""
        return self.outcomes().count(outcome)

    def close(self) -> None:
        """Close the link, and wait until the broker has closed it too."""
        self.link.close()
        self.client._io.wait(lambda: self.link.state & Endpoint.REMOTE_CLOSED)


class HandReceiver:
    """A link on which a client receives within its credit."""

    def __init__(self, client: HandClient, link: Link) -> None:
        self.client = client
        self.link = link
        self.deliveries: list[Delivery] = []
        self.bodies: list[Any] = []

    def give_credit(self, credit: int) -> None:
        """Grant the broker more credit, in messages."""
        self.link.flow(credit)
        self.client.round_trip()

    def received(self) -> list[Any]:
        """Return the bodies of all messages received."""
        while (delivery := self.link.current) is not None and delivery.readable and not delivery.partial:
            message = Message()
            message.decode(self.link.recv(delivery.pending))
            self.link.advance()
            self.deliveries.append(delivery)
            self.bodies.append(message.body)
        return list(self.bodies)

    def accept(self, count: int = 1) -> None:
        """Accept the oldest messages that are not settled yet."""
        self.received()
        for delivery in self.deliveries[:count]:
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
        del self.deliveries[:count]
        self.client.round_trip()

    @property
    def is_settled_already(self) -> bool:
        """Whether the broker settles its deliveries as it sends them: at most once."""
        self.received()
        return all(delivery.settled for delivery in self.deliveries)

    def detach(self) -> None:
        """Detach without closing, as a subscriber that means to return."""
        self.link.detach()
        self.client.round_trip()


def _name_outcome(delivery: Delivery) -> str:
    state = int(delivery.remote_state)
    if state:
        return OUTCOMES.get(state, str(delivery.remote_state))
    return "settled without a state" if delivery.settled else "no outcome yet"
