"""A client can hurt only itself: its connection ends in the protocol's own words, and the server goes on."""

import gc
import random
import socket
import sys
from contextlib import ExitStack, suppress
from itertools import islice

import pytest

pytest.importorskip("proton")

from proton import Described, Endpoint, Message, symbol
from proton.utils import BlockingConnection
from scenario10 import Client, World, reason
from test_serving import opening
from test_wire_log import CLIENT, dialogue
from waiting import wait_until

from qflow.live import ClientLimits, serve

AMQP, SASL = b"AMQP\0\1\0\0", b"AMQP\3\1\0\0"
SMALL = ClientLimits(connections=30, sessions=4, links=10, message_size=20_000, queued_bytes=200_000)


@pytest.fixture
def served():
    with serve("q", limits=SMALL) as broker:
        yield broker
        assert not broker.server.failures


class Clients(World):
    """Clients as a scenario has them, that send to one queue."""

    def client(self, name="c", **given):
        return Client(self, name, **given)

    def sender(self, client, name="s"):
        """Attach a link to send to the queue, and wait for its credit, or for the end."""
        link = client.session.sender(name)
        link.target.address = "q"
        link.open()
        self.pump(lambda: link.credit or client.is_gone)
        return link

    def send(self, link, data):
        link.delivery("1")
        link.send(data)
        link.advance()
        self.pump(lambda: link.state & Endpoint.REMOTE_CLOSED)
        return link.remote_condition.name

    def closed(self, client):
        """Wait until the server has closed a client's connection; return condition and text."""
        assert self.pump(lambda: client.is_gone), "still open"
        found = reason(client.connection.remote_condition) or reason(client.transport.condition)
        return found or []


@pytest.fixture
def world(served):
    return Clients(served)


def is_alive(served):
    """Whether the server still takes a message and gives it back."""
    connection = BlockingConnection(served.url, timeout=10)
    connection.create_sender("q").send(Message(body="alive"))
    receiver = connection.create_receiver("q")
    body = receiver.receive(timeout=10).body
    receiver.accept()
    connection.close()
    return body == "alive"


def spoken(served, said, handshake=SMALL.handshake):
    """Send bytes, and return all that comes back until the server closes, after so many seconds at most."""
    usual = served.server.limits
    served.server.limits = usual._replace(handshake=handshake)
    with socket.create_connection(served.server.address, timeout=30) as connection:
        connection.sendall(said)
        back = heard(connection)
    served.server.limits = usual
    return back


def heard(connection):
    """Return all that comes until the server closes."""
    got = b""
    with suppress(ConnectionResetError):
        while data := connection.recv(1 << 16):
            got += data
    return got


def test_silence_after_an_announced_time_closes_the_connection(served, world):
    """LNK-25: the broker announces the client's own time, and closes after twice that."""
    client = world.client(idle=0.4)
    world.pump(lambda: client.connection.state & Endpoint.REMOTE_ACTIVE)
    assert client.transport.remote_idle_timeout == pytest.approx(0.2)
    assert world.closed(client) == ["amqp:resource-limit-exceeded", "local-idle-timeout expired"]
    assert is_alive(served)


RUBBISH = [
    b"GET / HTTP/1.1\r\n\r\n",
    b"AMQP\0\0\x09\1",
    AMQP + b"\xff" * 64,
    AMQP + (2 << 30).to_bytes(4, "big") + b"\2\0\0\0" + b"x" * 1000,
    AMQP + b"\0\0\0\4\2\0\0\0",
    AMQP + b"\0\0\0\x10\2\0\0\0\0\x53\x99\xc0\1\0\0\0",
    SASL + b"\0\0\0\x20" + b"\2\1\0\0" + b"\0" * 24,
    SASL + (2 << 30).to_bytes(4, "big") + b"\2\1\0\0",
    SASL + b"\0\0\0\x0c\2\1\0\0\0\x53\x41\x45",
]


@pytest.mark.parametrize("rubbish", RUBBISH, ids=range(len(RUBBISH)))
def test_what_is_no_amqp_is_answered_and_closed(served, rubbish):
    assert spoken(served, rubbish, handshake=0.5)[:4] == b"AMQP"
    assert is_alive(served)


@pytest.mark.parametrize("half", [b"", b"AM", AMQP, AMQP + b"\0\0\1\0\2\0\0\0\0\x53\x10"])
def test_who_does_not_open_in_time_is_let_go(served, half):
    spoken(served, half, handshake=0.5)
    assert is_alive(served)


def test_links_sessions_and_connections_are_limited(served, world):
    linker, opener = world.client("links"), world.client("sessions")
    for number in range(SMALL.links + 1):
        link = linker.session.sender(f"s{number}")
        link.target.address = "q"
        link.open()
    assert world.closed(linker)[0] == "amqp:resource-limit-exceeded"
    for _ in range(SMALL.sessions):
        opener.connection.session().open()
    assert world.closed(opener)[0] == "amqp:resource-limit-exceeded"
    sockets = [socket.create_connection(served.server.address) for _ in range(SMALL.connections + 3)]
    sockets[-1].settimeout(5)
    assert sockets[-1].recv(10) == b""
    for one in sockets:
        one.close()
    wait_until(lambda: not served.server._connected, "all have gone")
    assert is_alive(served)


def test_many_links_one_after_the_other_leave_nothing_behind(served):
    connection = BlockingConnection(served.url, timeout=10)
    for number in range(300):
        connection.create_sender("q", name=f"s{number}").close()
    with served.lock:
        peer = served.server.peers()[0]
        assert peer.links == {}
        assert served.broker.queue("q").users.senders == 0
    connection.close()


def test_a_message_that_is_too_big_closes_its_link(served, world):
    large = Message(body=b"x" * 30_000).encode()
    assert world.send(world.sender(world.client()), large) == "amqp:link:message-size-exceeded"
    assert is_alive(served)


def test_a_frame_that_does_not_end_is_limited(served):
    """LNK-27: no size is announced, and one has to be kept until it is whole."""
    announced = (2 << 30).to_bytes(4, "big") + b"\2\0\0\0"
    with socket.create_connection(served.server.address) as connection:
        connection.settimeout(5)
        with suppress(ConnectionError):
            connection.sendall(opening("big") + announced)
            for _ in range(2 * SMALL.queued_bytes // 1000):
                connection.sendall(b"x" * 1000)
        assert b"a frame has at most 200000 bytes" in heard(connection)
    assert is_alive(served)


def test_unfinished_messages_are_limited_together(served, world):
    client = world.client()
    for number in range(9):
        link = world.sender(client, f"s{number}")
        for _ in range(2):
            link.delivery("part")
            # Never advanced, so the message never ends.
            link.send(b"\0\x53\x75\xb0" + b"x" * 9_000)
            world.pump(quiet=0.01)
    assert is_alive(served)


@pytest.mark.parametrize("part", ["properties", "capabilities", "filter"])
@pytest.mark.parametrize("value", [Described(symbol("x"), [1]), {symbol("lifetime-policy"): 7}, [[None]], 5])
def test_a_terminus_may_hold_anything(served, world, part, value):
    """A fuzzed frame had a described list where a map is due."""
    client = world.client()
    link = client.session.receiver("r")
    link.source.address = "q"
    getattr(link.source, part).put_object(value)
    link.open()
    world.pump(lambda: client.is_gone or link.state & Endpoint.REMOTE_ACTIVE)
    assert is_alive(served)


def test_what_is_no_message_closes_its_link(served, world):
    client = world.client()
    for number, rubbish in enumerate([b"\xff" * 40, b"\0\x53\x70\xc0\xff\x05", b"\0\x53\x72\x05", b"text"]):
        assert world.send(world.sender(client, f"s{number}"), rubbish) == "amqp:decode-error"
    assert not client.is_gone
    assert is_alive(served)


def test_who_does_not_read_is_given_no_more_than_its_socket_takes():
    """The rest stays on the queue, where others can have it."""
    with serve("q --max-queue-size=0") as served:
        connection = BlockingConnection(served.url, timeout=30)
        sender = connection.create_sender("q")
        for _ in range(400):
            sender.send(Message(body=b"x" * 50_000))
        world = Clients(served)
        client = world.client()
        link = client.session.receiver("r")
        link.source.address = "q"
        link.open()
        world.pump(lambda: link.state & Endpoint.REMOTE_ACTIVE)
        link.flow(100_000)
        client.write()
        wait_until(lambda: served.snapshot()["queues"]["q"]["messageCount"] < 400, "some are given")
        with served.lock:
            assert served.server.peers()[-1].queued <= 60 << 20
        receiver = connection.create_receiver("q", credit=1)
        client.socket.close()
        assert len(receiver.receive(timeout=10).body) == 50_000
        connection.close()


def test_an_error_of_the_server_s_own_closes_one_connection(served, world, monkeypatch):
    victim, other = world.client("victim"), world.client("other")
    world.pump(lambda: len(served.snapshot()["clients"]) == 2)
    with served.lock:
        peer = next(one for one in served.server.peers() if one.name == "victim")
        monkeypatch.setattr(peer, "_attach_sending", lambda *given: 1 / 0)
    for client in (victim, other):
        world.sender(client)
    assert world.closed(victim) == ["amqp:internal-error", "division by zero"]
    assert not other.is_gone
    with served.lock:
        assert "ZeroDivisionError" in served.server.failures.pop()
    assert is_alive(served)


def test_with_a_password_plain_alone_is_offered_and_tells_who_it_is():
    """LNK-24."""
    with serve("q", password="right") as served:
        host, port = served.server.address
        connection = BlockingConnection(
            f"amqp://ann:right@{host}:{port}", timeout=30, allow_insecure_mechs=True
        )
        assert served.snapshot()["clients"][0]["user"] == "ann"
        connection.close()
        assert spoken(served, AMQP) == SASL


def frames(count, seed):
    """Yield random frames, and mutations of real ones, behind a header and an open."""
    chance = random.Random(seed)
    real = AMQP + b"".join(data for side, data in dialogue("q") if side == CLIENT)
    for _ in range(count):
        kind = chance.random()
        if kind < 0.25:
            size = chance.randrange(8, 80)
            yield AMQP + size.to_bytes(4, "big") + bytes(chance.randbytes(size - 4))
        elif kind < 0.35:
            yield SASL + chance.randbytes(chance.randrange(60))
        else:
            data = bytearray(real)
            for _ in range(chance.randrange(1, 6)):
                place = chance.randrange(8, len(data))
                what = chance.random()
                if what < 0.6:
                    data[place] = chance.randrange(256)
                elif what < 0.8:
                    del data[place : place + chance.randrange(1, 9)]
                else:
                    data[place:place] = chance.randbytes(chance.randrange(1, 9))
            yield bytes(data)


def fuzz(served, count, seed):
    """Send each to a connection of its own, a hundred of which wait for the server at a time."""
    given = frames(count, seed)
    while some := list(islice(given, 100)):
        with ExitStack() as connections:
            # While the server waits, neither thread takes the interpreter from the other.
            with served.lock:
                for data in some:
                    connection = socket.create_connection(served.server.address, timeout=60)
                    connections.enter_context(connection)
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
            # Once the last is closed, all have been taken.
            heard(connection)
    wait_until(lambda: not served.snapshot()["clients"], "all have gone")
    assert not served.server.failures
    assert is_alive(served)


@pytest.mark.parametrize(("count", "seed"), [(400, 19), pytest.param(100_000, 7, marks=pytest.mark.release)])
def test_random_and_mutated_frames_leave_nothing_behind(count, seed):
    with serve("q", is_traced=False) as served:
        fuzz(served, count, seed)


def pass_through(out, into, count):
    """Let messages go through a queue, a hundred at a time."""
    for _ in range(count // 100):
        for number in range(100):
            out.send(number)
        into.give_credit(100)
        assert len(into.received()) == 100
        into.accept(100)
        for delivery in out.deliveries:
            delivery.settle()
        out.deliveries.clear()
        into.bodies.clear()


def test_messages_that_have_gone_take_no_memory():
    """A server that keeps no events may run for days: of a message that was accepted nothing is left."""
    with serve("q", is_traced=False) as served:
        client = served.client("c")
        out, into = client.sender("q"), client.receiver("q")
        pass_through(out, into, 500)
        gc.collect()
        before = sys.getallocatedblocks()
        pass_through(out, into, 1_500)
        gc.collect()
        assert sys.getallocatedblocks() - before < 1_000
        client.close()
