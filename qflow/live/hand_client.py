"""HandClient: a client of AMQP 1.0 that does nothing by itself.

Client libraries send, wait, grant credit and settle on their own, which hides the behaviour of a
broker.  This client does each of these only when it is called, with Proton on a real socket, and shows the
results.

:meth:`HandClient.round_trip` makes a request without effect and waits for the answer.  All earlier answers of
the broker have then arrived, so that the printed results do not depend on time.
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
    """A client that acts only when called; it has one connection and session, and a container-id."""

    def __init__(self, url: str, name: str) -> None:
        self.name = name
        self._io = BlockingConnection(url, container_id=name, timeout=_TIMEOUT)
        self._session = self._io.conn.session()
        self._session.open()
        self._links: list[Link] = []
        self._is_lost = False
        self._transaction: tuple[Link, bytes] | None = None

    def sender(self, node: str) -> HandSender:
        """Attach a link on which the client sends to a node."""
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
        """Attach a link on which the client receives; with ``unsettled`` it requires unsettled deliveries."""
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
        # AMQP has no ping, but the broker answers a session's begin and end after all its earlier output. It
        # may also have closed the connection meanwhile, which is an answer, too.
        with suppress(ProtonException):
            session = self._io.conn.session()
            session.open()
            self._io.wait(lambda: session.state & Endpoint.REMOTE_ACTIVE)
            session.close()
            self._io.wait(lambda: session.state & Endpoint.REMOTE_CLOSED)

    def listen(self) -> None:
        """Read from the socket for a fifth of a second."""
        # The condition is never true, so the library's reactor runs until the time-out.
        with suppress(Timeout):
            self._io.wait(lambda: False, timeout=_LISTENS)

    @property
    def closed_for(self) -> str:
        """The reason why the broker closed the connection, or ""."""
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
        """Commit the transaction; return the outcome."""
        assert self._transaction is not None
        (link, number), self._transaction = self._transaction, None
        delivery = link.send(Message(body=Described(symbol("amqp:discharge:list"), [number, False])))
        # The broker closes the connection if a queue has no room for the transaction's messages.
        with suppress(ProtonException):
            self._io.wait(lambda: delivery.remote_state)
        return _name_outcome(delivery)

    # The end

    def drop(self) -> None:
        """Break the connection without closing it in the protocol."""
        # Proton has no call for this, so close the socket of its reactor.
        self._io.conn.transport._selectable._delegate.close()
        self._is_lost = True

    def close(self) -> None:
        """Close the connection in the protocol, unless it was dropped."""
        if not self._is_lost:
            with suppress(ProtonException):
                self._io.close()


class HandSender:
    """A link on which the client sends a message at each call of :meth:`send`."""

    def __init__(self, client: HandClient, link: Link) -> None:
        self.client = client
        self.link = link
        self.deliveries: list[Delivery] = []

    @property
    def credit(self) -> int:
        """The credit left, in transfers."""
        return int(self.link.credit)

    def send(self, body: object = "", **properties: Any) -> None:
        """Send a message without waiting; ``properties`` are Proton's, such as ``group_id``."""
        delivery = self.link.send(Message(body=body, **properties))
        transaction = self.client._transaction
        if transaction is not None:
            delivery.local.data = [transaction[1]]
            delivery.update(TRANSACTIONAL)
        self.deliveries.append(delivery)

    def outcomes(self) -> list[str]:
        """Return the present outcome of each transfer, in words."""
        return [_name_outcome(delivery) for delivery in self.deliveries]

    def count(self, outcome: str = "no outcome yet") -> int:
        """Return the number of transfers with the given outcome; by default those without one."""
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
        """Grant the broker additional credit, in messages, and wait for its effect."""
        self.link.flow(credit)
        self.client.round_trip()

    def received(self) -> list[Any]:
        """Return the bodies of all received messages."""
        while (delivery := self.link.current) is not None and delivery.readable and not delivery.partial:
            message = Message()
            message.decode(self.link.recv(delivery.pending))
            self.link.advance()
            self.deliveries.append(delivery)
            self.bodies.append(message.body)
        return list(self.bodies)

    def accept(self, count: int = 1) -> None:
        """Accept the oldest unsettled messages."""
        self.received()
        for delivery in self.deliveries[:count]:
            delivery.update(Delivery.ACCEPTED)
            delivery.settle()
        del self.deliveries[:count]
        self.client.round_trip()

    @property
    def is_settled_already(self) -> bool:
        """Whether the broker sent all unaccepted deliveries settled (at most once)."""
        self.received()
        return all(delivery.settled for delivery in self.deliveries)

    def detach(self) -> None:
        """Detach the link without closing it, as a durable subscriber does that will return."""
        self.link.detach()
        self.client.round_trip()


def _name_outcome(delivery: Delivery) -> str:
    state = int(delivery.remote_state)
    if state:
        return OUTCOMES.get(state, str(delivery.remote_state))
    return "settled without a state" if delivery.settled else "no outcome yet"
