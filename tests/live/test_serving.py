"""What ``qflow serve`` and ``qf.serve`` give: queues, a trace, what can be seen, simulated clients beside."""

import json
import socket
import sys

import pytest

pytest.importorskip("proton")

from proton import Connection, Message, SSLDomain, Transport
from proton.utils import BlockingConnection
from waiting import wait_until

import qflow as qf
from qflow.broker.snapshot import _find_class, _state_fields
from qflow.kit import RefusalError
from qflow.live import serve
from qflow.live.certificates import make_certificate
from qflow.trace.replaying import Replay
from qflow.workload import Consumer, Producer, Workload

ARGUMENTS = "{'qpid.flow_stop_count': 3, 'qpid.flow_resume_count': 2}"
STOP = f"orders; {{node: {{x-declare: {{arguments: {ARGUMENTS}}}}}}}"


@pytest.mark.parametrize(
    "queue", [STOP, "orders --flow-stop-count=3 --flow-resume-count=2", "qpid-config add queue orders"]
)
def test_queues_are_written_as_anywhere_else(queue):
    with qf.serve(queue, "second") as broker:
        assert list(broker.snapshot()["queues"]) == ["orders", "second"]
        assert "orders" in repr(broker) and broker.url in broker._repr_html_()


def test_a_snapshot_says_who_is_there_and_what_waits():
    """A sender's window is measured, as the server sets none."""
    with qf.serve("orders --flow-stop-count=2 --flow-resume-count=2 --max-queue-count=5") as broker:
        shop, flood = broker.client("shop"), broker.client("flood")
        shop.receiver("orders")
        out = flood.sender("orders")
        for _ in range(8):
            out.send()
        flood.round_trip()
        seen = broker.snapshot()
        links = {link["name"]: (client, link) for client in seen["clients"] for link in client["links"]}
        client, link = links["to-orders-0"]
        assert (client["container"], link["node"], link["unsettled"]) == ("flood", "orders", 3)
        assert link["outcomes"] == {"accepted": 2, "released": 3, "rejected": 0, "presettled": 0, "lost": 0}
        assert client["address"].startswith("127.0.0.1:")
        client, link = links["from-orders-0"]
        assert (client["name"], link["role"], link["credit"], link["delivered"]) == ("shop", "receiver", 0, 0)
        orders = seen["queues"]["orders"]
        assert (orders["msgDepth"], orders["flowStopped"], orders["discardsOverflow"]) == (5, True, 3)
        assert json.dumps({key: value for key, value in seen.items() if key != "events"})
        assert len(broker.snapshot(seen["count"])["events"]) == 0
        flood.close()
        wait_until(lambda: len(broker.snapshot()["clients"]) == 1, "one has gone")
        outcomes = {"accepted": 2, "released": 3, "rejected": 0, "presettled": 0, "lost": 3}
        assert broker.snapshot()["outcomes"] == outcomes
        fresh = broker.snapshot(seen["count"])["events"]
        assert "session.detach" in {event[1] for event in fresh}
        shop.close()


def without_contents(snapshot):
    """Return the objects of a snapshot without the contents of messages, which no trace has."""
    place = _state_fields(_find_class("Message")).index("content")
    return [
        [name, [*fields[:place], None, *fields[place + 1 :]] if name == "Message" else fields]
        for name, fields in snapshot["objects"]
    ]


def assert_replays(broker):
    """The trace of a broker, as far as it is, replays to the state that it has now."""
    with broker.lock:
        trace, state, now = broker.trace(), broker.broker.snapshot(), broker.broker.now
    again = Replay(trace)
    again.run()
    assert again.difference() is None
    again.broker.advance(now)
    assert without_contents(again.broker.snapshot()) == without_contents(state)


def test_a_thousand_connections():
    with qf.serve("orders", is_traced=False) as broker:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # Both ends are in this process.
        wanted = 2_300
        if hard != resource.RLIM_INFINITY and hard < wanted:
            pytest.skip("this machine does not allow so many files")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
        hello = opening("crowd")
        sockets = []
        for _ in range(1_000):
            one = socket.create_connection(broker.server.address)
            one.sendall(hello)
            sockets.append(one)
        wait_until(lambda: len(broker.snapshot()["clients"]) == 1_000, "all are there")
        assert {client["name"] for client in broker.snapshot()["clients"]} >= {
            "crowd",
            "crowd#2",
            "crowd#1000",
        }
        for one in sockets:
            one.close()
        wait_until(lambda: not broker.snapshot()["clients"], "all have gone")
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert not broker.server.failures


def opening(container):
    """Return the bytes with which a client opens a connection."""
    connection, transport = Connection(), Transport()
    connection.container = container
    transport.bind(connection)
    connection.open()
    return bytes(transport.peek(transport.pending()))


WORKLOAD = Workload(
    "beside",
    duration=60,
    queues={"orders": {"qpid.flow_stop_count": 20}, "mine": {}},
    producers=(Producer("p", ("", "orders"), rate=200, capacity=5, size=100),),
    consumers=(Consumer("c", "orders", prefetch=5, service=("const", 0.02)),),
)


def test_simulated_clients_work_beside_real_ones():
    """In real time; a real receiver gets what they send, in the encoding of AMQP 1.0."""
    with qf.serve(workload=WORKLOAD) as broker:
        wait_until(lambda: broker.snapshot()["queues"]["orders"]["msgTotalDequeues"] > 5, "some are consumed")
        connection = BlockingConnection(broker.url, timeout=30)
        connection.create_sender("mine").send(Message(body="real"))
        got = connection.create_receiver("orders", credit=1).receive(timeout=30)
        assert got.properties["label"].startswith("p-")
        connection.close()
        assert_replays(broker)
        assert not broker.server.failures


def test_a_client_of_the_messaging_api_reads_the_same_queue():
    """The bytes, as they came: the body is not translated."""
    with qf.serve("orders") as broker:
        connection = BlockingConnection(broker.url, timeout=30)
        connection.create_sender("orders").send(Message(body=b"sent", inferred=True, properties={"n": 1}))
        connection.close()
        with broker.lock:
            qf.messaging.brokers.install("served", broker.broker)
            session = qf.messaging.Connection.establish("served").session()
            got = session.receiver("orders").fetch()
            assert got.content.endswith(b"sent")
            assert got.properties["n"] == 1
            session.acknowledge()


def test_a_console_gets_management_s_events():
    """CF-12: of what other clients do, as messages."""
    with qf.serve() as broker:
        connection = BlockingConnection(broker.url, timeout=10)
        console = connection.create_receiver("qmf.default.topic", credit=10)
        connection.create_receiver("amq.fanout")
        seen = console.receive(timeout=10)
        connection.close()
    assert seen.properties["qmf.content"] == "_event"
    assert not broker.server.failures


def test_without_proton_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "qflow.live.server", None)
    monkeypatch.setitem(sys.modules, "proton", None)
    monkeypatch.delitem(sys.modules, "qflow.live.server")
    for name in ("peer", "encoded", "sasl", "terminus", "coordinator"):
        monkeypatch.delitem(sys.modules, f"qflow.live.{name}", raising=False)
    with pytest.raises(RefusalError, match=r"pip install .*\[live\]"):
        serve()


def test_a_port_with_tls_serves_those_who_trust_it_and_names_the_others(tmp_path):
    pytest.importorskip("trustme")
    certificate = make_certificate(tmp_path)
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(certificate.ca)
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    with serve("orders --flow-stop-count=10", certificate=certificate) as broker:
        assert broker.url.startswith("amqps://localhost:")
        connection = BlockingConnection(broker.url, timeout=10, ssl_domain=domain)
        sender = connection.create_sender("orders")
        # Larger than what TLS decrypts at a time, and than what is read at once.
        sender.send(Message(body="x" * 200_000))
        sender.send(Message(body="y"))
        connection.close()
        assert broker.broker.queue("orders").message_depth == 2
        with socket.create_connection(broker.server.address) as plain:
            plain.sendall(b"AMQP\x00\x01\x00\x00" * 3)
            wait_until(lambda: broker.snapshot()["incidents"], "an incident")
        assert "no TLS, or none that is taken" in broker.snapshot()["incidents"][-1]
