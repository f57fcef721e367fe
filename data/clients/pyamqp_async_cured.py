"""A sender of Azure's pyamqp for asyncio, with the same remedy as ``pyamqp_blocking_cured``."""

import asyncio
import os
from typing import Any

from azure.servicebus._pyamqp.aio import SendClientAsync
from azure.servicebus._pyamqp.error import MessageException, RetryPolicy
from azure.servicebus._pyamqp.message import Message
from pyamqp_blocking import connect
from pyamqp_blocking_cured import PAUSE, RELEASED, as_rejected


class CuredClientAsync(SendClientAsync):
    """Sends each message until it is accepted."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, retry_policy=RetryPolicy(retry_total=0), **named)

    async def _on_send_complete_async(self, message_delivery: Any, reason: Any, state: Any) -> None:
        await super()._on_send_complete_async(message_delivery, reason, as_rejected(state))

    async def send_message_async(self, message: Any, **named: Any) -> None:
        """Send a message until it is accepted."""
        while True:
            try:
                await super().send_message_async(message, **named)
                return
            except MessageException as error:
                if error.condition != RELEASED:
                    raise
                await asyncio.sleep(PAUSE)


async def main() -> None:
    """Send all messages, one after the other."""
    client = connect(CuredClientAsync)
    await client.open_async()
    for number in range(int(os.environ["AMQP_MESSAGES"])):
        await client.send_message_async(Message(data=[f"order {number}".encode()]))
    await client.close_async()


if __name__ == "__main__":
    asyncio.run(main())
