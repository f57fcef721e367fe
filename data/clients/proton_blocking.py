"""A sender that waits for each outcome: Proton's ``BlockingConnection``."""

import os

from proton import Message
from proton.utils import BlockingConnection


def main() -> None:
    """Send all messages, one after the other."""
    connection = BlockingConnection(os.environ["AMQP_URL"])
    sender = connection.create_sender(os.environ["AMQP_QUEUE"])
    for number in range(int(os.environ["AMQP_MESSAGES"])):
        sender.send(Message(body=f"order {number}"))
    connection.close()


if __name__ == "__main__":
    main()
