"""A sender of ``azure-servicebus`` that waits for each outcome, connected as to Microsoft's emulator."""

import os

from azure.servicebus import ServiceBusClient, ServiceBusMessage

CONNECTION = "Endpoint=sb://{}:{};SharedAccessKeyName=any;SharedAccessKey=any;UseDevelopmentEmulator=true;"


def main() -> None:
    """Send all messages, one after the other."""
    address = CONNECTION.format(os.environ["AMQP_HOST"], os.environ["AMQP_PORT"])
    client = ServiceBusClient.from_connection_string(address)
    with client, client.get_queue_sender(os.environ["AMQP_QUEUE"]) as sender:
        for number in range(int(os.environ["AMQP_MESSAGES"])):
            sender.send_messages(ServiceBusMessage(f"order {number}"))


if __name__ == "__main__":
    main()
