"""A sender that sends while it has credit: the pattern of Proton's documentation.

Of the outcomes it handles ``on_accepted`` only, as that does.
"""

import os

from proton import Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Container

TOTAL = int(os.environ.get("AMQP_MESSAGES", "0"))


class CreditSender(MessagingHandler):
    """Sends while there is credit, and closes when all is accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = self.accepted = 0

    def on_start(self, event: Event) -> None:
        """Connect."""
        connection = event.container.connect(os.environ["AMQP_URL"])
        event.container.create_sender(connection, os.environ["AMQP_QUEUE"])

    def on_sendable(self, event: Event) -> None:
        """Send as many as there is credit for."""
        while event.sender.credit and self.sent < TOTAL:
            event.sender.send(Message(body=f"order {self.sent}"))
            self.sent += 1

    def on_accepted(self, event: Event) -> None:
        """Count, and close after the last."""
        self.accepted += 1
        if self.accepted == TOTAL:
            event.connection.close()


if __name__ == "__main__":
    Container(CreditSender()).run()
