"""``qflow record`` between real clients and a server: bytes pass, the log is whole, others take it."""

import asyncio
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from collections import Counter
from contextlib import suppress

import pytest

pytest.importorskip("proton")
pytest.importorskip("pyarrow")

from commands import status_of
from proton import Message, SSLDomain
from proton.handlers import MessagingHandler
from proton.reactor import Container
from proton.utils import BlockingConnection, SendException
from small_broker import SmallBroker, SmallQueue
from small_recording import Recorder, recording
from waiting import wait_until

from qflow.kit import INTERRUPTED, RefusalError
from qflow.live.certificates import make_certificate
from qflow.live.recording import CaptureReader, Recording, Upstream, _CaptureWriter, _RecordingTap
from qflow.logs import ClientLog, audit
from qflow.spark.ingest import _is_trace, _log_files, _read_events
from qflow.workload import Workload

SECRET = "correct-horse-battery"


class Sender(MessagingHandler):
    """Sends a number of messages with a window, as a program with Proton does."""

    def __init__(self, port, count, window):
        super().__init__(auto_settle=True)
        self.port, self.count, self.window = port, count, window
        self.sent = self.open = 0
        self.outcomes = Counter()

    def on_start(self, event):
        connection = event.container.connect(f"127.0.0.1:{self.port}", reconnect=False)
        self.link = event.container.create_sender(connection, "orders")

    def on_sendable(self, event):
        self.go_on()

    def go_on(self):
        while self.link.credit and self.sent < self.count and self.open < self.window:
            self.link.send(Message(body=f"message {self.sent}"))
            self.sent += 1
            self.open += 1

    def on_settled(self, event):
        self.open -= 1
        self.outcomes[str(event.delivery.remote_state)] += 1
        self.go_on()
        if sum(self.outcomes.values()) == self.count:
            event.connection.close()


class Receiver(MessagingHandler):
    def __init__(self, port, count):
        super().__init__(prefetch=10)
        self.port, self.count = port, count

    def on_start(self, event):
        connection = event.container.connect(f"127.0.0.1:{self.port}", reconnect=False)
        event.container.create_receiver(connection, "orders")

    def on_message(self, event):
        self.count -= 1
        if not self.count:
            event.connection.close()


def send_slowly(port, is_over, sent):
    """Send one message after the other, each of which is accepted, until the connection is lost."""
    connection = BlockingConnection(f"127.0.0.1:{port}", container_id="shop")
    sender = connection.create_sender("orders")
    with suppress(Exception):
        while not is_over.is_set():
            sender.send(Message(body="one"))
            sent.append(1)
            is_over.wait(0.005)


def in_thread(handler, name):
    container = Container(handler)
    container.container_id = name
    thread = threading.Thread(target=container.run, daemon=True)
    thread.start()
    return thread


def finding_texts(out):
    return [each["sentence"] for each in json.loads((out / "_recording.json").read_text())["findings"]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """2,000 messages of one Proton sender of window 40 to one receiver, over a queue of stop 10, resume 5."""
    out = tmp_path_factory.mktemp("recorded") / "orders.parquet"
    with (
        SmallBroker({"orders": SmallQueue(10, 5)}) as broker,
        recording(f"127.0.0.1:{broker.port}", out) as tap,
    ):
        sender = Sender(tap.port, 2000, 40)
        sending = in_thread(sender, "shop")
        # The first are held: 10 accepted, and the window of 40 without an outcome.
        wait_until(lambda: sender.sent == 50, "the window is full")
        receiving = in_thread(Receiver(tap.port, 2000), "kitchen")
        for thread in (sending, receiving):
            thread.join(60)
        wait_until(lambda: sum(sender.outcomes.values()) == 2000, "all have outcomes")
    return out, tap.words


def test_every_transfer_completion_delivery_and_accept_is_in_the_log(recorded):
    out, words = recorded
    log = ClientLog.load(out)
    counts = Counter((row.client, row.event) for row in log.rows)
    assert counts == {
        ("shop", "transfer"): 2000,
        ("shop", "complete"): 2000,
        ("kitchen", "deliver"): 2000,
        ("kitchen", "accept"): 2000,
    }
    assert [row.label for row in log.rows if row.event == "deliver"] == [f"shop-{n + 1}" for n in range(2000)]
    assert "orders.parquet: 8000 rows written, 0 of 2 connections open" in words


def test_the_window_and_the_prefetch_are_as_the_clients_had_them_and_marked(recorded):
    out, _ = recorded
    stated = json.loads(out.with_name("orders.json").read_text())
    workload = Workload.load(out.with_name("orders.json"))
    assert workload.producers[0].capacity == 40
    assert workload.consumers[0].prefetch == 10
    assert stated["inferred"]["producers.shop.capacity"].startswith("the most that was unsettled at once, 40")
    report = json.loads((out / "_recording.json").read_text())
    assert {client["name"]: client["role"] for client in report["clients"]} == {
        "shop": "producer",
        "kitchen": "consumer",
    }


def test_import_predict_why_and_the_lake_take_a_recording(recorded, tmp_path, capsys):
    out, _ = recorded
    workload = json.loads(out.with_name("orders.json").read_text())
    workload["queues"]["orders"] = {"qpid.flow_stop_count": 10, "qpid.flow_resume_count": 5}
    given, trace = tmp_path / "given.json", tmp_path / "trace.parquet"
    given.write_text(json.dumps(workload))
    assert status_of("trace", "import", out, given, "--out", trace) == 0, capsys.readouterr().out
    assert "8000 rows became" in capsys.readouterr().out
    assert status_of("trace", "why", trace, "1s", "queue:orders") == 0
    assert status_of("predict", given, out, "--replays", "1") == 0
    assert "orders" in capsys.readouterr().out
    # The folder is one log of the lake, and not a folder of logs.
    assert list(_log_files([out])) == [str(out)] and not _is_trace(str(out))
    assert list(_log_files([out.parent])) == [str(out)]
    batches = [batch for good, bad in _read_events(str(out)) for batch in (*good, *bad)]
    assert sum(batch.num_rows for batch in batches) == 8000


def test_the_audit_of_an_honest_recording_finds_nothing(recorded):
    out, _ = recorded
    workload = Workload.load(out.with_name("orders.json"))
    stated = workload.with_queue("orders", {"qpid.flow_stop_count": 10, "qpid.flow_resume_count": 5})
    found = audit(ClientLog.load(out), stated)
    assert [finding.text() for finding in found.findings] == []
    assert not found.run.errors


def test_other_readers_of_parquet_take_the_folder_as_one_table(recorded):
    from pyarrow import dataset

    out, _ = recorded
    assert dataset.dataset(out, format="parquet").to_table().num_rows == 8000


def test_released_transfers_are_refused_in_the_log_and_no_finding_of_the_audit(tmp_path):
    """Amqp10 a7: at the limit a transfer comes back released; the link lives."""
    out = tmp_path / "limit.parquet"
    with (
        SmallBroker({"orders": SmallQueue(limit=3)}) as broker,
        recording(f"127.0.0.1:{broker.port}", out, "--no-statistics") as tap,
    ):
        connection = BlockingConnection(f"127.0.0.1:{tap.port}")
        sender = connection.create_sender("orders")
        for number in range(5):
            if number < 3:
                sender.send(Message(body="in"))
            else:
                with pytest.raises(SendException):
                    sender.send(Message(body="out"))
        reading = BlockingConnection(f"127.0.0.1:{tap.port}")
        receiver = reading.create_receiver("orders", credit=5)
        for _ in range(3):
            receiver.receive(timeout=10)
            receiver.accept()
        reading.close()
        connection.close()
    rows = tap.rows()
    assert Counter(row.event for row in rows) == {
        "transfer": 5, "complete": 3, "refused": 2, "deliver": 3, "accept": 3
    }  # fmt: skip
    found = audit(ClientLog.load(out), Workload.load(out.with_name("limit.json")))
    assert found.findings == []


@pytest.mark.parametrize("whole", [False, True], ids=["the tap", "all its processes"])
def test_what_was_written_is_whole_after_kill_9(tmp_path, whole):
    out = tmp_path / "killed.parquet"
    with SmallBroker({"orders": SmallQueue()}) as broker:
        tap = Recorder(f"127.0.0.1:{broker.port}", out, "--no-statistics")
        sending, sent = threading.Event(), []
        threading.Thread(target=send_slowly, args=(tap.port, sending, sent), daemon=True).start()
        wait_until(lambda: len(list(out.glob("part-*.parquet"))) >= 2, "two parts")
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(tap.process.pid)], capture_output=True, text=True
        ).stdout.split()
        assert children
        if whole:
            for child in map(int, children):
                os.kill(child, signal.SIGKILL)
        os.kill(tap.process.pid, signal.SIGKILL)
        tap.process.wait()
        sending.set()
        if not whole:
            # What reads behind comes to the end of what passed, and takes the capture away.
            wait_until(lambda: not list(out.glob("_capture-*")), "all is read")
    rows = ClientLog.load(out).rows
    assert rows and {row.event for row in rows} <= {"transfer", "complete", "error"}
    assert Workload.load(out.with_name("killed.json")).producers[0].to == ("", "orders")
    if not whole:
        written = sum(row.event == "transfer" for row in rows)
        assert len(sent) <= written <= len(sent) + 1


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_in_good_order_while_clients_send(tmp_path, sign):
    out = tmp_path / "ended.parquet"
    with SmallBroker({"orders": SmallQueue()}) as broker:
        tap = Recorder(f"127.0.0.1:{broker.port}", out, "--no-statistics")
        over, sent = threading.Event(), []
        threading.Thread(target=send_slowly, args=(tap.port, over, sent), daemon=True).start()
        wait_until(lambda: len(sent) > 20, "some messages")
        tap.process.send_signal(sign)
        words, errors = tap.process.communicate(timeout=120)
        over.set()
    assert tap.process.returncode == INTERRUPTED and "Traceback" not in errors
    written = sum(row.event == "transfer" for row in tap.rows())
    assert len(sent) <= written <= len(sent) + 1
    assert "the recorder was stopped" in words
    assert not list(out.glob("_capture-*"))


def test_nothing_that_is_there_is_written_over(tmp_path):
    out = tmp_path / "there.parquet"
    out.mkdir()
    (out / "part-00000.parquet").write_text("mine")
    with pytest.raises(RefusalError, match="something is there already"):
        Recording(Upstream("127.0.0.1:1"), out)
    assert (out / "part-00000.parquet").read_text() == "mine"


@pytest.mark.parametrize("text", ["", "http://h:1", "h:x", "amqp://h/path", "h:99999", "amqp://user@h"])
def test_a_broker_that_cannot_be_meant_is_refused(text):
    with pytest.raises(RefusalError, match="a broker is HOST:PORT"):
        Upstream(text)


def test_a_broker_that_is_not_there_ends_the_client_and_is_a_finding(tmp_path):
    out = tmp_path / "away.parquet"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        recording(f"127.0.0.1:{port}", out, "--no-statistics") as tap,
        socket.create_connection(("127.0.0.1", tap.port)) as client,
    ):
        assert client.recv(10) == b""
    assert "no connection to amqp://127.0.0.1" in finding_texts(out)[0]


def test_that_no_statistics_come_is_said_at_once_and_in_the_recording(tmp_path):
    """The small broker takes requests to its management, and answers none."""
    out = tmp_path / "silent.parquet"
    with (
        SmallBroker({"orders": SmallQueue(10, 5)}) as broker,
        recording(f"127.0.0.1:{broker.port}", out) as tap,
    ):
        tap.wait_for("recording: no statistics of the broker: ")
        connection = BlockingConnection(f"127.0.0.1:{tap.port}")
        connection.create_sender("orders").send(Message(body="one"))
        connection.close()
    report = json.loads((out / "_recording.json").read_text())
    assert any(text.startswith("without the broker's statistics: ") for text in finding_texts(out))
    assert report["broker"] == {"product": "", "is_qpid_cpp": None}
    assert report["statistics"]["since_us"] is None and report["statistics"]["missing"]
    assert list(report["thresholds_unknown"]) == ["orders"]
    stated = json.loads(out.with_name("silent.json").read_text())
    assert stated["inferred"]["queues.orders"].startswith("not seen: its thresholds are unknown: ")
    assert "'orders': its thresholds are unknown: nothing shows what it was declared with" in tap.words


def test_a_client_of_another_protocol_passes_and_is_a_finding(tmp_path):
    out = tmp_path / "old.parquet"
    with (
        Peer() as peer,
        recording(f"127.0.0.1:{peer.port}", out, "--no-statistics") as tap,
        socket.create_connection(("127.0.0.1", tap.port)) as client,
    ):
        client.sendall(b"AMQP\x01\x01\x00\x0a and more")
        assert peer.received(17) == b"AMQP\x01\x01\x00\x0a and more"
    assert "only AMQP 1.0 can be read (AMQP, 0, 1.0.0), got AMQP, 1.1.0.10" in finding_texts(out)[0]


def test_a_password_reaches_the_broker_and_not_the_disk(tmp_path):
    out = tmp_path / "secret.parquet"
    body = b"\x00\x53\x41\xc0\x24\x02\xa3\x05PLAIN\xa0\x1a\x00user\x00" + SECRET.encode()
    said = b"AMQP\x03\x01\x00\x00" + (8 + len(body)).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body
    with Peer() as peer:
        tap = Recorder(f"127.0.0.1:{peer.port}", out, "--no-statistics")
        # The reader is stopped, so that all that is captured stays there to be looked at.
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(tap.process.pid)], capture_output=True, text=True
        ).stdout.split()
        for child in map(int, children):
            os.kill(child, signal.SIGSTOP)
        with socket.create_connection(("127.0.0.1", tap.port)) as client:
            client.sendall(said[:40])
            peer.received(40)
            client.sendall(said[40:])
            assert peer.received(len(said) - 40) == said[40:]
            wait_until(lambda: (out / "_capture-00000").stat().st_size >= len(said), "it is captured")
            kept = (out / "_capture-00000").read_bytes()
        for child in map(int, children):
            os.kill(child, signal.SIGCONT)
        tap.stop()
    assert SECRET.encode() not in kept and b"AMQP\x03" in kept


# Bytes


class Peer:
    """A server that says what it is asked to, and keeps what it hears."""

    def __enter__(self):
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        return self

    def __exit__(self, *_):
        self._server.close()

    def accept(self):
        return self._server.accept()[0]

    def received(self, count):
        if not hasattr(self, "_client"):
            self._client = self.accept()
        return received(self._client, count)


def received(connection, count):
    data = b""
    while len(data) < count and (more := connection.recv(count - len(data))):
        data += more
    return data


def test_random_bytes_pass_unchanged_both_ways_until_both_have_ended(tmp_path):
    """Up to a megabyte each way on each of 20 connections, in random pieces."""
    out = tmp_path / "fuzz.parquet"
    chance = random.Random(7)
    with Peer() as peer, recording(f"127.0.0.1:{peer.port}", out, "--no-statistics") as tap:
        for number in range(20):
            begins = (b"", b"AMQP\x00\x01\x00\x00", b"AMQP\x03\x01\x00\x00", b"AMQP\x02\x01\x00\x00")
            there = begins[number % 4] + chance.randbytes(chance.randint(0, 1_000_000))
            back = begins[number % 3] + chance.randbytes(chance.randint(0, 1_000_000))
            client = socket.create_connection(("127.0.0.1", tap.port))
            server = peer.accept()
            talking = [
                threading.Thread(target=say, args=(client, there, chance.randint(1, 99_999))),
                threading.Thread(target=say, args=(server, back, chance.randint(1, 99_999))),
            ]
            for thread in talking:
                thread.start()
            assert received(server, len(there) + 1) == there
            assert received(client, len(back) + 1) == back
            for thread in talking:
                thread.join()
            client.close()
            server.close()
    assert "of 20 connections open" in tap.words
    assert not list(out.glob("part-*"))


def say(connection, data, piece):
    for place in range(0, len(data), piece):
        connection.sendall(data[place : place + piece])
    connection.shutdown(socket.SHUT_WR)


def test_a_capture_is_read_behind_and_takes_no_more_room_than_what_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("qflow.live.recording.SEGMENT", 1_000)
    writer, reader, chance = _CaptureWriter(tmp_path), CaptureReader(tmp_path), random.Random(3)
    written, read = [], []
    for number in range(500):
        written.append((number, number % 7, number % 5, chance.randbytes(chance.randint(0, 400))))
        writer.append(*written[-1])
        if chance.random() < 0.1:
            read += reader.records()
            assert read == written and len(list(tmp_path.iterdir())) == 1
    writer.close()
    read += reader.records()
    reader.remove()
    assert read == written and not list(tmp_path.iterdir())


def test_a_full_disk_stops_the_recording_and_not_the_bytes(tmp_path, monkeypatch):
    capture = _CaptureWriter(tmp_path)

    def refuse(*_):
        raise OSError(28, "No space left on device")

    async def main(upstream):
        tap = _RecordingTap(Upstream(f"127.0.0.1:{upstream}"), capture)
        await tap.listen("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", tap.port)
        monkeypatch.setattr("qflow.live.recording.os.write", refuse)
        writer.write(b"AMQP\x00\x01\x00\x00 hello")
        echoed = await reader.readexactly(14)
        monkeypatch.undo()
        writer.close()
        await tap.stop()
        return echoed

    async def echo(reader, writer):
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    async def both():
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            return await main(server.sockets[0].getsockname()[1])

    assert asyncio.run(both()) == b"AMQP\x00\x01\x00\x00 hello"
    assert capture.error == "the capture cannot be written: No space left on device"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_a_broker_with_tls_is_reached_and_checked(tmp_path):
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    command = [*words.split(), "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    heard = []

    def serve(server):
        for _ in range(2):
            try:
                with context.wrap_socket(server.accept()[0], server_side=True) as client:
                    heard.append(client.recv(100))
                    client.sendall(b"answer")
            except OSError:
                heard.append("refused")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        url = f"amqps://localhost:{server.getsockname()[1]}"
        for number, options in enumerate((["--ca", str(certificate)], [])):
            out = tmp_path / f"tls{number}.parquet"
            answer = b""
            with (
                recording(url, out, "--no-statistics", *options) as tap,
                socket.create_connection(("127.0.0.1", tap.port)) as client,
                suppress(ConnectionError),
            ):
                client.sendall(b"question")
                answer = client.recv(100)
            assert answer == (b"answer" if options else b"")
    assert heard == [b"question", "refused"]
    assert any("certificate" in words.lower() for words in finding_texts(out))


def test_a_tap_speaks_tls_with_its_clients_where_it_is_given_a_certificate(tmp_path):
    pytest.importorskip("trustme")
    certificate = make_certificate(tmp_path)
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(certificate.ca)
    out = tmp_path / "orders.parquet"
    options = ("--no-statistics", "--cert", certificate.cert, "--key", certificate.key)
    with (
        SmallBroker({"orders": SmallQueue(10, 5)}) as broker,
        recording(f"127.0.0.1:{broker.port}", out, *options) as tap,
    ):
        connection = BlockingConnection(f"amqps://localhost:{tap.port}", timeout=10, ssl_domain=domain)
        connection.create_sender("orders").send(Message(body="one"))
        connection.close()
    assert [row.event for row in ClientLog.load(out).rows] == ["transfer", "complete"]
