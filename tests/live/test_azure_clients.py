"""Clients of Azure's services connect: tokens, the partitions of an event hub, entities named by URLs."""

import subprocess
import sys

import pytest

pytest.importorskip("proton")

from client_programs import client_command
from proton import Array, Endpoint, Message
from test_safety import Clients, spoken

from qflow.live import Conditions, check_client, serve


@pytest.fixture
def served():
    with serve("orders") as broker:
        yield broker
        assert not broker.server.failures


def ask(world, client, node, *requests):
    """Send requests to a node over a pair of links; return the answers."""
    sender, receiver = client.session.sender(f"to {node}"), client.session.receiver(f"from {node}")
    sender.target.address = receiver.source.address = node
    receiver.target.address = "answers"
    for link in (receiver, sender):
        link.open()
    receiver.flow(len(requests))
    world.pump(lambda: sender.credit)
    answers = []

    def keep(link, delivery, data):
        answers.append(Message())
        answers[-1].decode(data)

    client.got = keep
    for number, request in enumerate(requests):
        sender.delivery(str(number))
        sender.send(request.encode())
        sender.advance()
    world.pump(lambda: len(answers) == len(requests), timeout=5)
    return answers


def test_every_token_is_accepted(served):
    client = Clients(served).client()
    asked = {"operation": "put-token", "type": "servicebus.windows.net:sastoken"}
    tokens = [Message("any", id=name, reply_to="answers", properties=asked) for name in "ab"]
    answers = ask(client.world, client, "$cbs", *tokens)
    assert [answer.correlation_id for answer in answers] == ["a", "b"]
    assert [answer.properties["status-code"] for answer in answers] == [202, 202]
    with served.lock:
        assert served.server.peers()[0].outcomes["accepted"] == 0, "a token is no message"


def test_an_event_hub_has_one_partition(served):
    client = Clients(served).client()
    known = {"operation": "READ", "name": "orders", "type": "com.microsoft:eventhub"}
    requests = [
        Message(id=1, properties=known),
        Message(id=2, properties={**known, "type": "com.microsoft:x"}),
    ]
    hub, other = ask(client.world, client, "$management", *requests)
    assert hub.properties["status-code"] == 200
    assert (hub.body["name"], hub.body["partition_count"]) == ("orders", 1)
    assert isinstance(hub.body["partition_ids"], Array)
    assert list(hub.body["partition_ids"].elements) == ["0"]
    assert (other.properties["status-code"], other.body) == (501, None)


@pytest.mark.parametrize(
    ("address", "is_there"),
    [
        ("orders", True),
        ("amqps://localhost/orders", True),
        ("amqp://localhost:5672/orders", True),
        ("sb://name.servicebus.example/orders/Partitions/0", True),
        ("amqps://localhost/other", False),
        ("amqps://localhost", False),
        ("https://localhost/orders", False),
        ("orders/Partitions/0", False),
    ],
)
def test_an_entity_is_named_by_its_url_or_literally(served, address, is_there):
    world = Clients(served)
    client = world.client()
    for link in (client.session.sender("s"), client.session.receiver("r")):
        (link.target if link.is_sender else link.source).address = address
        link.open()
        # A link to an unknown node is detached in the same read that attaches it.
        world.pump(lambda link=link: link.state & (Endpoint.REMOTE_ACTIVE | Endpoint.REMOTE_CLOSED))
        side = link.remote_target if link.is_sender else link.remote_source
        assert (side.address == "orders") is is_there


def test_links_to_a_service_node_end_with_their_session(served):
    world = Clients(served)
    client = world.client()
    for _ in range(3):
        assert ask(world, client, "$cbs", Message("any", id="a"))
        client.session.close()
        world.pump(quiet=0.05)
        client.session = client.connection.session()
        client.session.open()
    with served.lock:
        assert served.server.peers()[0]._services._replies == {}


def test_a_password_is_not_replaced_by_a_token():
    """Without SASL PLAIN nobody comes as far as the node of tokens."""
    init = bytes.fromhex("0000001d 02010000 005341 c01002") + b"\xa3\x07MSSBCBS\xa0\x04none"
    init = len(init).to_bytes(4, "big") + init[4:]
    for password, outcome in (("", b"\x50\x00"), ("right", b"\x50\x03")):
        with serve("orders", password=password) as served:
            back = spoken(served, b"AMQP\3\1\0\0" + init, handshake=0.5)
            assert (b"MSSBCBS" in back) is not bool(password)
            assert outcome in back[-12:]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("program", ["azure_servicebus", "azure_eventhub"])
def test_azure_s_own_senders_get_a_card(program):
    pytest.importorskip(program.replace("_", "."))
    card = check_client(client_command(f"{program}.py"), Conditions(messages=60, still=1.0, timeout=15.0))
    assert (card.stops, card.goes_on, card.client_window) == (True, True, 1)
    assert card.runs["stopped"].before.depth == 11


OVER_WEBSOCKET = """
import sys
from azure.{package} import {client} as Client, {message} as Message, TransportType
key = "SharedAccessKeyName=any;SharedAccessKey=any;UseDevelopmentEmulator=true;"
gate = "ws://localhost:" + sys.argv[1]
way = dict(transport_type=TransportType.AmqpOverWebsocket, custom_endpoint_address=gate)
with Client.from_connection_string("Endpoint=sb://localhost:1;" + key, **way{hub}) as client:
    {send}
"""
SENDERS = {
    "eventhub": ("EventHubProducerClient", "EventData", ", eventhub_name='orders'", "client.send_event"),
    "servicebus": ("ServiceBusClient", "ServiceBusMessage", "", ""),
}


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("package", SENDERS)
def test_azure_s_own_senders_send_over_websocket(served, package):
    pytest.importorskip(f"azure.{package}")
    pytest.importorskip("websockets")
    from qflow.live.web_socket_gate import WebSocketGate

    client, message, hub, call = SENDERS[package]
    send = f"for number in range(5): {call}(Message(str(number)))"
    if not call:
        send = "sender = client.get_queue_sender('orders'); sender.send_messages([Message('a')] * 5)"
    text = OVER_WEBSOCKET.format(package=package, client=client, message=message, hub=hub, send=send)
    gate = WebSocketGate(served.server, "127.0.0.1", 0)
    try:
        subprocess.run([sys.executable, "-c", text, str(gate.port)], check=True, timeout=60)
    finally:
        gate.close()
    with served.lock:
        # A list is sent as one batch, which is one message here.
        assert served.broker.queue("orders").message_depth == (5 if call else 1)
