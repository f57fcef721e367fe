"""A sender of uamqp that does not give a released message up, as the library does after four tries."""

import os
import sys
from time import sleep

from uamqp import Message, SendClient
from uamqp.errors import AMQPError, ErrorPolicy, MessageException
from uamqp_blocking import connect

PAUSE = 0.2


def main() -> None:
    """Send all messages, one after the other, each until it is accepted."""
    client = connect(SendClient, error_policy=ErrorPolicy(max_retries=0))
    try:
        for number in range(int(os.environ["AMQP_MESSAGES"])):
            while True:
                try:
                    client.send_message(Message(f"order {number}".encode()))
                    break
                except MessageException:
                    sleep(PAUSE)
    except AMQPError as error:
        sys.exit(f"not all are accepted: {error}")
    finally:
        # Without it the library may end the whole process.
        client.close()


if __name__ == "__main__":
    main()
