"""A sender that waits for each outcome: uamqp's ``SendClient``, which speaks TLS only."""

import os
from typing import Any
from urllib.parse import urlsplit

from uamqp import Message, SendClient, authentication, c_uamqp
from uamqp.address import Target


def connect(kind: type[SendClient], **named: Any) -> Any:
    """Return a client of this kind, which trusts the authority that ``AMQP_CA`` names."""
    where, queue = urlsplit(os.environ["AMQP_URL"]), os.environ["AMQP_QUEUE"]
    auth = authentication.SASLAnonymous(where.hostname, port=where.port, verify=os.environ["AMQP_CA"])
    target = Target(f"{os.environ['AMQP_URL']}/{queue}")
    # The library would send the whole URL as the queue's name.
    target._address.address = c_uamqp.string_value(queue.encode())
    return kind(target, auth=auth, **named)


def send_all(client: SendClient) -> None:
    """Send all messages, one after the other."""
    for number in range(int(os.environ["AMQP_MESSAGES"])):
        client.send_message(Message(f"order {number}".encode()))
    client.close()


if __name__ == "__main__":
    send_all(connect(SendClient))
