"""A sender of Proton's ``BlockingConnection`` without a time-out, which sends again what is released.

A time-out is not a refusal: the message is on the queue, and has no outcome yet.  Each retry adds one.
"""

import os
from time import sleep

from proton import Message
from proton.utils import BlockingConnection, SendException

PAUSE = 0.2


def main() -> None:
    """Send all messages, one after the other, each until it is accepted."""
    connection = BlockingConnection(os.environ["AMQP_URL"], timeout=None)
    sender = connection.create_sender(os.environ["AMQP_QUEUE"])
    for number in range(int(os.environ["AMQP_MESSAGES"])):
        while True:
            try:
                sender.send(Message(body=f"order {number}"), timeout=False)
                break
            except SendException:
                sleep(PAUSE)
    connection.close()


if __name__ == "__main__":
    main()
