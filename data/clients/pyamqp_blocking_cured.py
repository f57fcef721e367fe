"""A sender of Azure's pyamqp that knows what ``released`` is, which the library does not.

The library looks for ``rejected`` in each outcome that is not ``accepted``, and after the ``KeyError`` it
waits for ever.  Here any other outcome is an error of ``send_message``, and the message is sent again.
"""

from time import sleep
from typing import Any

from azure.servicebus._pyamqp import SendClient
from azure.servicebus._pyamqp.error import MessageException, RetryPolicy
from pyamqp_blocking import connect, send_all

PAUSE = 0.2
RELEASED = b"amqp:message:released"


def as_rejected(state: Any) -> Any:
    """Return an outcome, as a rejection if it is one that the library does not know."""
    return (
        state
        if not state or {"accepted", "rejected"} & set(state)
        else {"rejected": [[RELEASED, None, None]]}
    )


class CuredClient(SendClient):
    """Sends each message until it is accepted."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, retry_policy=RetryPolicy(retry_total=0), **named)

    def _on_send_complete(self, message_delivery: Any, reason: Any, state: Any) -> None:
        super()._on_send_complete(message_delivery, reason, as_rejected(state))

    def send_message(self, message: Any, **named: Any) -> None:
        """Send a message until it is accepted."""
        while True:
            try:
                super().send_message(message, **named)
                return
            except MessageException as error:
                if error.condition != RELEASED:
                    raise
                sleep(PAUSE)


if __name__ == "__main__":
    send_all(connect(CuredClient))
