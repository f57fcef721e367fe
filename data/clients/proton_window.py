"""A sender that counts what has no outcome yet, and has at most 50 of them."""

import os

from proton import Event, Message, Sender
from proton.handlers import MessagingHandler
from proton.reactor import Container

TOTAL = int(os.environ.get("AMQP_MESSAGES", "0"))
WINDOW = int(os.environ.get("WINDOW", "50"))


class WindowSender(MessagingHandler):
    """Has at most ``WINDOW`` transfers without an outcome; any outcome is one for it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = self.settled = 0

    def on_start(self, event: Event) -> None:
        """Connect."""
        connection = event.container.connect(os.environ["AMQP_URL"])
        event.container.create_sender(connection, os.environ["AMQP_QUEUE"])

    def on_sendable(self, event: Event) -> None:
        """Fill the window."""
        self.fill(event.sender)

    def fill(self, sender: Sender) -> None:
        """Send while there is credit and room in the window."""
        while sender.credit and self.sent < TOTAL and self.sent - self.settled < WINDOW:
            sender.send(Message(body=f"order {self.sent}"))
            self.sent += 1

    def on_settled(self, event: Event) -> None:
        """Count, fill the window again, and close after the last."""
        self.settled += 1
        self.fill(event.link)
        if self.settled == TOTAL:
            event.connection.close()


if __name__ == "__main__":
    Container(WindowSender()).run()
