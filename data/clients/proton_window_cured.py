"""A sender of Proton's that stops at its window, and loses nothing.

It has at most ``WINDOW`` transfers without an outcome, and only what is accepted is done.  What is released
or rejected is sent again after a pause; without one it would ask a full queue ten thousand times a second.
What had no outcome when a connection or a queue was lost is sent again, too, and may then be there twice.
Where nothing is accepted any more it gives up, with status 1 and the number of messages that it still has.
"""

import os
import sys
from collections import deque

from proton import Delivery, Event, Message, SSLDomain
from proton.handlers import MessagingHandler
from proton.reactor import Container

TOTAL = int(os.environ.get("AMQP_MESSAGES", "0"))
WINDOW = int(os.environ.get("WINDOW", "50"))
PAUSE = 0.2
TRIES = 25


def trusted() -> SSLDomain | None:
    """Return whom to trust, if ``AMQP_CA`` names an authority's file."""
    authority = os.environ.get("AMQP_CA")
    if not authority:
        return None
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(authority)
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    return domain


class CuredSender(MessagingHandler):
    """Holds each message until it is accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = deque(range(TOTAL))
        self.unsettled: dict[Delivery, int] = {}
        self.is_paused = self.is_lost = False
        self.tries, self.error = 0, ""

    def on_start(self, event: Event) -> None:
        """Connect."""
        self.connect(event.container)

    def connect(self, container: Container) -> None:
        """Connect, and make the link."""
        url = os.environ["AMQP_URL"]
        connection = container.connect(url, reconnect=False, heartbeat=2, ssl_domain=trusted())
        self.sender = container.create_sender(connection, os.environ["AMQP_QUEUE"])

    # Sending

    def on_sendable(self, event: Event) -> None:
        """Fill the window."""
        self.fill()

    def fill(self) -> None:
        """Send while there is credit and room in the window; close when all is done."""
        if self.is_paused or self.is_lost:
            return
        while self.sender.credit and self.waiting and len(self.unsettled) < WINDOW:
            number = self.waiting.popleft()
            self.unsettled[self.sender.send(Message(body=f"order {number}"))] = number
        if self.is_done:
            self.sender.connection.close()

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to send, and nothing without an outcome."""
        return not self.waiting and not self.unsettled

    # Outcomes

    def on_accepted(self, event: Event) -> None:
        """One is done: there is room for another."""
        self.tries = 0
        self.unsettled.pop(event.delivery, None)
        self.fill()

    def on_released(self, event: Event) -> None:
        """Keep it, and send it again after a pause."""
        self.waiting.append(self.unsettled.pop(event.delivery))
        if not self.is_paused:
            self.is_paused = True
            event.container.schedule(PAUSE, self)

    on_rejected = on_released

    def on_timer_task(self, event: Event) -> None:
        """Go on after the pause, on a new connection if the old one is lost."""
        self.is_paused = False
        if self.is_lost:
            self.is_lost = False
            self.connect(event.container)
        else:
            self.fill()

    # Losses

    def on_link_error(self, event: Event) -> None:
        """Begin again, as the queue is gone."""
        condition = event.link.remote_condition
        event.connection.close()
        self.begin_again(event, condition.name)

    def on_connection_error(self, event: Event) -> None:
        """Begin again, as the broker has closed the connection."""
        self.begin_again(event, event.connection.remote_condition.name)

    def on_transport_error(self, event: Event) -> None:
        """Begin again, as the connection is lost."""
        self.begin_again(event, event.transport.condition.name)

    def begin_again(self, event: Event, reason: str) -> None:
        """Keep what has no outcome, in its order, and connect again after a pause, unless that has no use."""
        if self.is_lost or self.error:
            return
        self.is_lost = True
        self.waiting.extendleft(reversed(self.unsettled.values()))
        self.unsettled.clear()
        self.tries += 1
        if self.tries == 1:
            print(f"{reason}: {len(self.waiting)} of {TOTAL} wait for another try", file=sys.stderr)
        if self.tries < TRIES:
            event.container.schedule(PAUSE, self)
        else:
            self.error = reason
            event.container.stop()


if __name__ == "__main__":
    sender = CuredSender()
    Container(sender).run()
    if sender.error:
        sys.exit(f"{sender.error}: {len(sender.waiting)} of {TOTAL} not accepted")
