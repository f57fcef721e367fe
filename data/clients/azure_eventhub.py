"""A producer of ``azure-eventhub`` that waits for each outcome, connected as to Microsoft's emulator."""

import os

from azure.eventhub import EventData, EventHubProducerClient

CONNECTION = "Endpoint=sb://{}:{};SharedAccessKeyName=any;SharedAccessKey=any;UseDevelopmentEmulator=true;"


def main() -> None:
    """Send all events, one after the other."""
    address = CONNECTION.format(os.environ["AMQP_HOST"], os.environ["AMQP_PORT"])
    hub = os.environ["AMQP_QUEUE"]
    with EventHubProducerClient.from_connection_string(address, eventhub_name=hub) as client:
        for number in range(int(os.environ["AMQP_MESSAGES"])):
            client.send_event(EventData(f"order {number}"))


if __name__ == "__main__":
    main()
