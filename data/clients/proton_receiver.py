"""A receiver that accepts ``BATCH`` messages at a time (1 if not given), with credit for 1,000."""

import os

from proton import Delivery, Event
from proton.handlers import MessagingHandler
from proton.reactor import Container

BATCH = int(os.environ.get("BATCH", "1"))


class BatchReceiver(MessagingHandler):
    """Keeps what it receives until it has a batch, and accepts that."""

    def __init__(self) -> None:
        super().__init__(prefetch=1_000, auto_accept=False)
        self.kept: list[Delivery] = []

    def on_start(self, event: Event) -> None:
        """Connect."""
        connection = event.container.connect(os.environ["AMQP_URL"])
        event.container.create_receiver(connection, os.environ["AMQP_QUEUE"])

    def on_message(self, event: Event) -> None:
        """Keep it, and accept the batch when it is full."""
        self.kept.append(event.delivery)
        if len(self.kept) == BATCH:
            for delivery in self.kept:
                self.accept(delivery)
            self.kept.clear()


if __name__ == "__main__":
    Container(BatchReceiver()).run()
