"""The cure of ``proton_credit``, ``proton_window`` and ``proton_presettled``: a window, and an eye on every outcome.

It stops, as it has at most ``WINDOW`` transfers without an outcome.  It loses nothing, as only an accepted message
is done: what is released or rejected is sent again after a pause, or else a full queue is asked some ten
thousand times a second.  What it cannot send any more it counts, and ends with status 1.
"""

import os
import sys
from collections import deque

from proton import Delivery, Event, Link, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

TOTAL = int(os.environ.get("AMQP_MESSAGES", "0"))
WINDOW = int(os.environ.get("WINDOW", "50"))
PAUSE = 0.2


class CuredSender(MessagingHandler):
    """Holds each message until it is accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = deque(range(TOTAL))
        self.unsettled: dict[Delivery, int] = {}
        self.is_paused = False
        self.error = ""

    def on_start(self, event: Event) -> None:
        """Connect."""
        connection = event.container.connect(os.environ["AMQP_URL"], reconnect=False)
        self.sender = event.container.create_sender(connection, os.environ["AMQP_QUEUE"])

    def on_sendable(self, event: Event) -> None:
        """Fill the window."""
        self.fill()

    def fill(self) -> None:
        """Send while there is credit and room in the window; close when all is done."""
        while self.sender.credit and self.waiting and len(self.unsettled) < WINDOW and not self.is_paused:
            number = self.waiting.popleft()
            self.unsettled[self.sender.send(Message(body=f"order {number}"))] = number
        if self.is_done:
            self.sender.connection.close()

    @property
    def is_done(self) -> bool:
        """Whether there is nothing to send, and nothing without an outcome."""
        return not self.waiting and not self.unsettled

    def on_accepted(self, event: Event) -> None:
        """One is done: there is room for another."""
        del self.unsettled[event.delivery]
        self.fill()

    def on_released(self, event: Event) -> None:
        """Keep it, and send it again after a pause."""
        self.waiting.append(self.unsettled.pop(event.delivery))
        if not self.is_paused:
            self.is_paused = True
            event.container.schedule(PAUSE, self)

    on_rejected = on_released

    def on_timer_task(self, event: Event) -> None:
        """Go on after the pause."""
        self.is_paused = False
        self.fill()

    def on_link_error(self, event: Event) -> None:
        """Give up, as the queue is gone."""
        self.give_up(event, event.link)

    def on_connection_error(self, event: Event) -> None:
        """Give up, as the broker has closed the connection."""
        self.give_up(event, event.connection)

    def on_transport_error(self, event: Event) -> None:
        """Give up, as the connection is lost."""
        self.give_up(event, event.transport)

    def give_up(self, event: Event, of: Link) -> None:
        """Note why, and end."""
        condition = getattr(of, "remote_condition", None) or of.condition
        self.error = condition.name
        event.container.stop()


if __name__ == "__main__":
    sender = CuredSender()
    Container(sender).run()
    if sender.error:
        sys.exit(f"{sender.error}: {len(sender.waiting) + len(sender.unsettled)} of {TOTAL} not accepted")
