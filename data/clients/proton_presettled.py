"""A sender that wants no outcomes: Proton's ``AtMostOnce``."""

import os

from proton import Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import AtMostOnce, Container

TOTAL = int(os.environ.get("AMQP_MESSAGES", "0"))


class PresettledSender(MessagingHandler):
    """Sends while there is credit, settled already, and closes after the last."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = 0

    def on_start(self, event: Event) -> None:
        """Connect."""
        connection = event.container.connect(os.environ["AMQP_URL"])
        event.container.create_sender(connection, os.environ["AMQP_QUEUE"], options=AtMostOnce())

    def on_sendable(self, event: Event) -> None:
        """Send as many as there is credit for."""
        while event.sender.credit and self.sent < TOTAL:
            event.sender.send(Message(body=f"order {self.sent}"))
            self.sent += 1
        if self.sent == TOTAL:
            event.connection.close()


if __name__ == "__main__":
    Container(PresettledSender()).run()
