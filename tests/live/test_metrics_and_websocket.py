"""What stands beside the port of `qflow serve`: metrics of its queues, WebSockets, an end of its own."""

import socket
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("proton")

from proton import Message, Timeout
from proton.utils import BlockingConnection
from test_serve_command import command, url
from waiting import wait_until

from qflow.live import serve

STOPS = "orders --flow-stop-count=3 --flow-resume-count=2"


@pytest.fixture
def unused_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def read_metrics(port, accept="application/openmetrics-text"):
    """Return a scrape's samples by name and labels, with the content type."""
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as families

    with urlopen(Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept}), timeout=10) as got:
        text, kind = got.read().decode(), got.headers["Content-Type"]
    samples = [sample for family in families(text) for sample in family.samples]
    return {(one.name, *one.labels.values()): one.value for one in samples}, kind


def test_metrics_are_the_statistics_of_a_stopped_queue(unused_port):
    pytest.importorskip("prometheus_client")
    with command("serve", "--port", "0", "--metrics", str(unused_port), "--queue", STOPS) as (_, port):
        connection = BlockingConnection(url(port), timeout=10)
        sender = connection.create_sender("orders")
        for _ in range(3):
            sender.send(Message(body="x"))
        with pytest.raises(Timeout):
            sender.send(Message(body="x"), timeout=0.5)
        found, kind = read_metrics(unused_port)
        assert kind.startswith("application/openmetrics-text")
        assert found["qflow_queue_flow_stopped", "orders"] == 1
        assert found["qflow_queue_flow_stopped_count_total", "orders"] == 1
        assert found["qflow_queue_held", "orders"] == 1
        assert found["qflow_queue_bytes", "orders"] > 0
        assert (found["qflow_connections",], found["qflow_transfers_total", "accepted"]) == (1, 3)
        receiver = connection.create_receiver("orders", credit=4)
        for _ in range(4):
            receiver.receive(timeout=10)
            receiver.accept()
        connection.close()
        wait_until(lambda: read_metrics(unused_port)[0]["qflow_queue_depth", "orders"] == 0, "it is empty")
        found, _ = read_metrics(unused_port)
        assert found["qflow_queue_held", "orders"] == found["qflow_queue_flow_stopped", "orders"] == 0
        assert found["qflow_transfers_total", "accepted"] == 4


def test_once_ends_with_its_last_client():
    with command("serve", "--port", "0", "--once", "--queue", "orders") as (process, port):
        first, second = (BlockingConnection(url(port), timeout=10) for _ in range(2))
        first.close()
        second.create_sender("orders").send(Message(body="still served"))
        assert process.poll() is None
        second.close()
        assert process.wait(30) == 0


@pytest.fixture
def gate():
    """A server with a gate for WebSockets."""
    pytest.importorskip("websockets")
    from qflow.live.web_socket_gate import WebSocketGate

    with serve("orders") as served:
        gate = WebSocketGate(served.server, "127.0.0.1", 0)
        yield served, gate
        gate.close()


@pytest.mark.parametrize("subprotocol", ["amqp", "AMQPWSB10"])
def test_amqp_over_websocket_is_the_same_stream(gate, subprotocol):
    from test_serving import opening
    from websockets.sync.client import connect

    served, gate = gate
    place = f"ws://127.0.0.1:{gate.port}/$servicebus/websocket"
    with connect(place, subprotocols=[subprotocol], compression=None) as client:
        said = opening("browser")
        # As one library cuts it, and as another.
        for part in (said[:3], said[3:20], said[20:]):
            client.send(part)
        wait_until(lambda: [one["name"] for one in served.snapshot()["clients"]] == ["browser"], "it is open")
        assert client.recv(timeout=10)[:8] == b"AMQP\0\1\0\0"
        assert served.snapshot()["clients"][0]["address"].startswith("127.0.0.1:")
    wait_until(lambda: not served.snapshot()["clients"], "it has gone")


def test_websocket_without_the_subprotocol_is_refused(gate):
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    served, gate = gate
    with pytest.raises(InvalidStatus):
        connect(f"ws://127.0.0.1:{gate.port}/", compression=None)
    assert not served.snapshot()["clients"]
