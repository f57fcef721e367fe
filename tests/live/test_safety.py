"""A client can hurt only itself: its connection ends in the protocol's own words, and the server goes on."""

import gc
import random
import socket
import sys
from contextlib import ExitStack, suppress
from itertools import islice
from selectors import SelectSelector
from time import sleep

import pytest

pytest.importorskip("proton")

from proton import ConnectionException, Described, Endpoint, Message, Terminus, symbol
from proton.utils import BlockingConnection, SendException
from scenario10 import Client, World, reason
from test_serving import opening
from test_wire_log import CLIENT, dialogue
from waiting import wait_until

from qflow.live import ClientLimits, serve
from qflow.live import cli as live_cli
from qflow.live import server as server_module

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

    def fill(self, bodies):
        """Send messages to the queue, settled as sent, as fast as there is credit."""
        link = self.sender(self.client("filler"))
        for number, body in enumerate(bodies):
            self.pump(lambda: link.credit)
            delivery = link.delivery(str(number))
            link.send(Message(id=number, body=body).encode())
            link.advance()
            delivery.settle()
        self.pump(quiet=0.05)

    def closed(self, client):
        """Wait until the server has closed a client's connection; return condition and text."""
        assert self.pump(lambda: client.is_gone), "still open"
        found = reason(client.connection.remote_condition) or reason(client.transport.condition)
        return found or []


@pytest.fixture
def world(served):
    return Clients(served)


def is_alive(served, queue="q"):
    """Whether the server still takes a message and gives it back."""
    connection = BlockingConnection(served.url, timeout=10)
    connection.create_sender(queue).send(Message(body="alive"))
    receiver = connection.create_receiver(queue)
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


def receive_without_reading(client, **source):
    """Attach a link that gives credit for everything, and read nothing from now on."""
    link = client.session.receiver("r")
    link.source.address = "q"
    for name, value in source.items():
        setattr(link.source, name, value)
    link.open()
    link.flow(1_000_000)
    client.write()


@pytest.mark.parametrize(("size", "count"), [(100, 20_000), (50_000, 400), (3_000_000, 9)])
def test_receiver_that_does_not_read_gets_what_its_socket_takes(size, count):
    """The rest stays on the queue, where others can have it, however many messages that is."""
    with serve("q --max-queue-size=0", is_traced=False) as served:
        world = Clients(served)
        world.fill([b"x" * size] * count)
        client = world.client()
        world.pump(lambda: client.connection.state & Endpoint.REMOTE_ACTIVE)
        receive_without_reading(client)
        wait_until(lambda: served.snapshot()["queues"]["q"]["messageCount"] < count, "some are given")
        with served.lock:
            left = served.broker.queue("q").statistics().messageCount
            # The loopback's own buffers take some, and a message of any size fits into the rest.
            assert served.server.peers()[-1].queued <= (1 << 19) + size
            assert (count - left) * size <= (6 << 20) + size
        connection = BlockingConnection(served.url, timeout=30)
        receiver = connection.create_receiver("q", credit=1)
        assert receiver.receive(timeout=10).id >= count - left
        client.socket.close()
        connection.close()


def test_slow_reader_gets_every_message_in_order():
    """What is read makes room for more, and a drain ends where it should."""
    with serve("q --max-queue-size=0", is_traced=False) as served:
        world = Clients(served)
        bodies = ["x" * size + str(number) for number in range(8) for size in (10, 400_000, 20, 1_000_000)]
        world.fill(bodies)
        client = world.client()
        link = client.session.receiver("r")
        link.source.address = "q"
        link.open()
        link.drain(100)
        world.pump(lambda: link.state & Endpoint.REMOTE_ACTIVE and not link.credit)
        assert [body for body, _ in client.held["r"]] == bodies


def test_browsers_that_do_not_read_leave_room_for_others():
    """A hundred of them cost a thousand messages each at most, and a client beside them is served."""
    with serve("q --max-queue-size=0", "other", is_traced=False) as served:
        world = Clients(served)
        world.fill([b"x" * 2_000] * 5_000)
        for number in range(30):
            client = world.client(f"browser-{number}", sasl=False)
            receive_without_reading(client, distribution_mode=Terminus.DIST_MODE_COPY)
        wait_until(lambda: len(served.snapshot()["clients"]) == 31, "all browse")
        connection = BlockingConnection(served.url, timeout=30)
        assert is_alive(served, "other")
        with served.lock:
            assert sum(peer.held for peer in served.server.peers()) < 31 * (3 << 20)
        connection.close()


@pytest.mark.parametrize(
    ("count", "size", "browsers"),
    [(2_000, 200, 30), pytest.param(20_000, 200, 100, marks=pytest.mark.thorough)],
)
def test_browsers_that_come_at_once_are_given_little_before_others_are_served(count, size, browsers):
    """Of small messages a whole share takes long: a client beside a hundred waited for all of theirs."""
    with serve("q --max-queue-size=0", "other", is_traced=False) as served:
        world = Clients(served)
        world.fill([b"x" * size] * count)
        clients = [world.client(f"browser-{number}", sasl=False) for number in range(browsers)]
        given, serve_one = [], served.server._serve

        def watched(peer, *how):
            before = peer.queued
            serve_one(peer, *how)
            given.append(peer.queued - before)

        served.server._serve = watched
        for client in clients:
            receive_without_reading(client, distribution_mode=Terminus.DIST_MODE_COPY)
        assert is_alive(served, "other")
        wait_until(lambda: len(served.snapshot()["clients"]) == browsers + 1, "all browse")
        wait_until(lambda: served.server.peers()[-1].queued > 1 << 17, "the last is given its share")
        with served.lock:
            assert max(given) < 1 << 15
            assert sum(peer.held for peer in served.server.peers()) < browsers * (3 << 20)


def test_browsers_of_a_large_message_share_its_bytes():
    """It goes out in pieces, each when the one before was read, and whole to who reads."""
    with serve("q --max-queue-size=0", is_traced=False) as served:
        world, body = Clients(served), bytes(range(256)) * 40_000
        world.fill([body, b"small"])
        for number in range(20):
            client = world.client(f"browser-{number}", sasl=False)
            receive_without_reading(client, distribution_mode=Terminus.DIST_MODE_COPY)
        wait_until(lambda: len(served.snapshot()["clients"]) == 21, "all browse")
        wait_until(lambda: served.server.peers()[-1].queued, "the last is given something")
        with served.lock:
            assert max(peer.held for peer in served.server.peers()) < 1 << 20
        connection = BlockingConnection(served.url, timeout=30)
        receiver = connection.create_receiver("q", credit=5)
        for expected in (body, b"small"):
            # A view, of memory that Proton frees.
            assert bytes(receiver.receive(timeout=10).body) == expected
            receiver.accept()
        connection.close()
        wait_until(lambda: not served.broker.queue("q").message_depth, "both are settled")


MEMORY = SMALL._replace(memory=5 << 20, message_size=4 << 20, queued_bytes=4 << 20)


def test_used_up_memory_releases_messages_until_there_is_room():
    with serve("q --max-queue-size=0", "other", limits=MEMORY, is_traced=False) as served:
        connection = BlockingConnection(served.url, timeout=30)
        sender = connection.create_sender("q")
        with pytest.raises(SendException):
            for _ in range(2_000):
                sender.send(Message(body=b"x" * 20_000))
                sleep(0.001)
        assert served.server.is_full
        assert served.server.incidents[0].startswith("the memory is used up: ")
        with pytest.raises(ConnectionException, match="no memory left"):
            BlockingConnection(served.url, timeout=10)
        # What it has and has not settled takes memory, too.
        receiver = connection.create_receiver("q", credit=10)
        for _ in range(served.broker.queue("q").message_depth // 2):
            receiver.receive(timeout=10)
            receiver.accept()
        wait_until(lambda: not served.server.is_full, "there is room again")
        assert is_alive(served, "other")
        connection.close()


def test_used_up_memory_closes_who_keeps_most_of_it():
    """Messages that do not end are of no use to anybody; the client with the smallest of them stays."""
    with serve("q", limits=MEMORY, is_traced=False) as served:
        world = Clients(served)
        clients = [world.client(f"c{number}") for number in range(4)]
        for share, client in enumerate(clients):
            link = world.sender(client)
            link.delivery("part")
            for _ in range(30 - 10 * share):
                link.send(b"\0\x53\x75\xb0" + b"x" * 99_996)
                world.pump(quiet=0.01)
        assert world.closed(clients[0])[0] == "amqp:resource-limit-exceeded"
        assert not any(client.is_gone for client in clients[1:])
        assert is_alive(served)


def test_who_waits_with_an_unfinished_message_is_closed_before_who_sends(monkeypatch):
    monkeypatch.setattr(server_module, "MOST_UNFINISHED", 1 << 20)
    with serve("q", is_traced=False) as served:
        world = Clients(served)
        waiting, sending = world.client("waiting"), world.client("sending")

        def send_part(client, pieces):
            link = world.sender(client)
            link.delivery("part")
            for _ in range(pieces):
                link.send(b"\0\x53\x75\xb0" + b"x" * 99_996)
                world.pump(quiet=0.01)

        send_part(waiting, 3)
        sleep(1.2)
        send_part(sending, 9)
        assert world.closed(waiting)[0] == "amqp:resource-limit-exceeded"
        assert not sending.is_gone


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


class FewSockets(SelectSelector):
    """Windows' select(): an error as soon as one socket more than it takes is watched."""

    def select(self, timeout=None):
        if len(self.get_map()) > 40:
            raise ValueError("too many file descriptors in select()")
        return super().select(timeout)


def test_where_select_takes_few_sockets_the_rest_is_refused_in_words(monkeypatch, capsys):
    monkeypatch.setattr(server_module, "DefaultSelector", FewSockets)
    monkeypatch.setattr(server_module, "SELECT_HOLDS", 40)
    with serve("q") as broker, ExitStack() as clients:
        assert broker.server.limits.connections == 38
        live_cli._announce(broker.server, "127.0.0.1")
        assert "at most 38 connections, which is what select() takes here" in capsys.readouterr().err
        for _ in range(38):
            client = clients.enter_context(socket.create_connection(broker.server.address, timeout=10))
            client.sendall(AMQP)
            assert client.recv(8) == AMQP
        late = clients.enter_context(socket.create_connection(broker.server.address, timeout=10))
        assert late.recv(8) == b""
        said = broker.server.incidents
        wait_until(lambda: any("more than 38 connections" in one for one in said), "words")
        assert not broker.server.failures
