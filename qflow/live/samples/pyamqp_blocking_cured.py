"""The cure of ``pyamqp_blocking``: the library knows no ``released``, so it is told what that is.

Its own handling looks for ``rejected`` in each outcome that is not ``accepted``, and waits for ever after the
``KeyError``.  Here such an outcome is an error that :meth:`send_message` raises, and the message is sent again.
"""

from time import sleep
from typing import Any

from azure.servicebus._pyamqp import SendClient
from azure.servicebus._pyamqp.error import MessageException, RetryPolicy

from qflow.live.samples.pyamqp_blocking import connect, send_all

PAUSE = 0.2
RELEASED = b"amqp:message:released"


def as_rejected(state: Any) -> Any:
    """Return an outcome, as a rejection if it is one that the library does not know."""
    return state if not state or {"accepted", "rejected"} & set(state) else {"rejected": [[RELEASED, None, None]]}


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
                return super().send_message(message, **named)
            except MessageException as error:
                if error.condition != RELEASED:
                    raise
                sleep(PAUSE)


if __name__ == "__main__":
    send_all(connect(CuredClient))
