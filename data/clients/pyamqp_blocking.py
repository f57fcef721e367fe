"""A sender that waits for each outcome: Azure's pyamqp, which comes with ``azure-servicebus``."""

import os
from typing import Any
from urllib.parse import urlsplit

from azure.servicebus._pyamqp import SendClient
from azure.servicebus._pyamqp.authentication import SASLPlainAuth
from azure.servicebus._pyamqp.message import Message
from azure.servicebus._pyamqp.sasl import SASLAnonymousCredential


def connect(kind: type[Any]) -> Any:
    """Return a client of this kind, without TLS and without a user."""
    auth = SASLPlainAuth("", "")
    auth.sasl = SASLAnonymousCredential()
    where = urlsplit(os.environ["AMQP_URL"]).netloc
    return kind(where, os.environ["AMQP_QUEUE"], use_tls=False, auth=auth)


def send_all(client: SendClient) -> None:
    """Send all messages, one after the other."""
    client.open()
    for number in range(int(os.environ["AMQP_MESSAGES"])):
        client.send_message(Message(data=[f"order {number}".encode()]))
    client.close()


if __name__ == "__main__":
    send_all(connect(SendClient))
