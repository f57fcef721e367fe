"""``qflow record`` between real clients and a server: bytes pass, the log is whole and says what happened."""

import json
import os
import random
import signal
import socket
import threading
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress

import pytest

pytest.importorskip("proton")
pytest.importorskip("pyarrow")

from commands import output_of, status_of
from proton import Message, SSLDomain
from proton.utils import BlockingConnection, SendException
from small_recording import Recorder, recording, recording_here
from waiting import wait_until

from qflow import __version__
from qflow.kit import INTERRUPTED, RefusalError
from qflow.live import serve
from qflow.live.certificates import make_certificate
from qflow.live.hand_client import HandClient
from qflow.live.recording import CaptureReader, Recording, Upstream, _CaptureWriter
from qflow.logs import ClientLog, audit
from qflow.logs.client_log import client_rows
from qflow.spark.ingest import _bits, _is_trace, _log_files
from qflow.workload import Workload

SECRET = "correct-horse-battery"
QUEUE = "orders --flow-stop-count=10 --flow-resume-count=5"
SETTLED = ("accept", "release", "reject")
CLIENTS = ("shop", "kitchen")


@contextmanager
def recorded_sender(out):
    """Yield a recorder, and what is sent through it: one accepted message after the other, to the end."""
    is_over, sent = threading.Event(), []

    def send():
        with suppress(Exception):
            connection = BlockingConnection(f"127.0.0.1:{tap.port}", container_id="shop")
            sender = connection.create_sender("orders")
            while not is_over.wait(0.005):
                sender.send(Message(body="one"))
                sent.append(1)

    with serve("orders") as broker:
        tap = Recorder(broker.url, out, "--no-statistics")
        threading.Thread(target=send, daemon=True).start()
        yield tap, sent
        is_over.set()


def report_of(out):
    return json.loads((out / "_recording.json").read_text())


def finding_texts(out):
    return [each["sentence"] for each in report_of(out)["findings"]]


def so_far(out):
    return ClientLog.load(out).rows if list(out.glob("part-*")) else []


def statistics(out):
    return [row for row in so_far(out) if row.event == "stats"]


# What a recording says


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """400 messages of a sender of window 40 through a queue that goes ON; the recording, and the trace."""
    out = tmp_path_factory.mktemp("recorded") / "orders.parquet"
    with serve(QUEUE) as server:
        with recording(server.url, out) as tap:
            shop, kitchen = (HandClient(f"127.0.0.1:{tap.port}", name) for name in CLIENTS)
            sender, inbox = shop.sender("orders"), None
            while sender.count("accepted") < 400:
                for _ in range(min(40 - sender.count(), 400 - len(sender.deliveries))):
                    sender.send("x")
                shop.round_trip()
                if inbox is not None:
                    inbox.received()
                    taken = len(inbox.deliveries)
                    inbox.accept(taken), inbox.give_credit(taken)
                elif sender.count() == 40:
                    wait_until(lambda: statistics(out), "the broker's statistics while the window is full")
                    inbox = kitchen.receiver("orders", credit=10)
            shop.close(), kitchen.close()
        trace = server.trace()
    return out, list(client_rows(trace.events())), tap.words


def of_clients(rows):
    """What each client did, in its own order: times differ by the way between tap and engine."""
    own = {name: [] for name in CLIENTS}
    for row in rows:
        if row.client in own:
            own[row.client].append((row.event, row.queue, row.label, row.size))
    return own


def test_the_recording_says_what_the_trace_says(recorded):
    out, traced, words = recorded
    rows = ClientLog.load(out).rows
    assert f" {len(rows)} rows written, 0 of 2 connections open" in words
    said, expected = of_clients(rows), of_clients(traced)
    assert Counter(event for event, *_ in expected["shop"]) == {"transfer": 400, "complete": 400}
    for client in CLIENTS:
        for events in (("transfer",), ("complete",), ("deliver",), SETTLED):
            seen, known = ([each for each in log[client] if each[0] in events] for log in (said, expected))
            # Of one disposition, Proton gives a server the deliveries in an order of its own.
            assert events == SETTLED or seen == known, (client, events)
            assert sorted(seen) == sorted(known), (client, events)


def test_the_replay_agrees_with_the_brokers_statistics_but_for_what_is_in_flight(recorded):
    """CM-15; the queue's arguments are those that management reports.

    How often it turned ON is not the log's to say: which of two commands came first that passed the tap at
    one time, on two connections, only the broker knows.
    """
    out = recorded[0]
    log, workload = ClientLog.load(out), Workload.load(out.with_name("orders.json"))
    assert workload.queues["orders"] == {"qpid.flow_stop_count": 10, "qpid.flow_resume_count": 5}
    found = audit(log, workload)
    assert [finding.text() for finding in found.findings] == [] and not found.run.errors
    agreement = found.agreements["orders"]
    assert log.statistics("orders")[0].flowStopped and agreement.samples >= 1
    window, prefetch = workload.producers[0].capacity, workload.consumers[0].prefetch
    assert (window, prefetch) == (40, 10)
    assert agreement.max_depth_difference <= window + prefetch
    assert agreement.recorded_stops >= 1 and agreement.engine_stops >= 1


def test_who_was_there_which_broker_it_was_and_what_is_inferred(recorded):
    out = recorded[0]
    report, stated = report_of(out), json.loads(out.with_name("orders.json").read_text())
    roles = {client["name"]: client["role"] for client in report["clients"]}
    assert roles == {"shop": "producer", "kitchen": "consumer"}
    assert report["broker"]["product"].startswith("qflow") and report["broker"]["is_qpid_cpp"]
    assert report["statistics"]["since_us"] >= 0 and not report["statistics"]["missing"]
    assert report["thresholds_unknown"] == {} and "queues.orders" not in stated["inferred"]
    assert stated["inferred"]["producers.shop.capacity"].startswith("the most that was unsettled at once, 40")


def test_import_predict_why_the_lake_and_other_readers_take_a_recording(recorded, tmp_path, capsys):
    from pyarrow import dataset

    out = recorded[0]
    given, trace, count = out.with_name("orders.json"), tmp_path / "trace.parquet", len(so_far(out))
    assert status_of("trace", "import", out, given, "--out", trace) == 0, capsys.readouterr().out
    assert f"{count} rows became" in capsys.readouterr().out
    assert status_of("trace", "why", trace, "1s", "queue:orders") == 0
    assert "orders" in output_of(capsys, "predict", given, out, "--replays", "1")
    # The folder is one log of the lake, and not a folder of logs.
    assert list(_log_files([out])) == [str(out)] and not _is_trace(str(out))
    assert list(_log_files([out.parent])) == [str(out)]
    bits = list(_bits(str(out), None))
    assert (sum(len(bit.rows) for bit in bits), [bit.problems for bit in bits if bit.problems]) == (count, [])
    assert dataset.dataset(out, format="parquet").to_table().num_rows == count


def test_after_a_restart_of_the_broker_its_statistics_come_again(tmp_path):
    out = tmp_path / "restarted.parquet"
    with serve(QUEUE) as first:
        port = first.server.address[1]
        tap = Recorder(first.url, out)
        connection = BlockingConnection(f"127.0.0.1:{tap.port}")
        connection.create_sender("orders").send(Message(body="one"))
        wait_until(lambda: statistics(out), "the broker's statistics")
    tap.wait_for("recording: no statistics of the broker: ")
    with serve(QUEUE, port=port):
        tap.wait_for("recording: the broker sends statistics\n")
        again = "the broker's statistics are available again"
        wait_until(lambda: again in finding_texts(out), again)
        tap.stop()
    assert any(text.startswith("without the broker's statistics: ") for text in finding_texts(out))
    assert not report_of(out)["statistics"]["missing"]


def test_that_no_statistics_come_is_said_at_once_and_no_thresholds_are_claimed(tmp_path):
    """A broker that brakes in another way has no such management: it takes requests, and answers none."""
    out = tmp_path / "silent.parquet"
    with serve(QUEUE, brake="credit") as broker, recording(broker.url.partition("//")[2], out) as tap:
        tap.wait_for("recording: no statistics of the broker: ")
        connection = BlockingConnection(f"127.0.0.1:{tap.port}", timeout=10, container_id="shop")
        sender = connection.create_sender("orders")
        for number in range(11):
            sender.send(Message(body=f"order {number}"))
        connection.close()
    report, stated = report_of(out), json.loads(out.with_name("silent.json").read_text())
    assert any(text.startswith("without the broker's statistics: ") for text in finding_texts(out))
    assert report["broker"] == {"product": f"brakes by credit {__version__}", "is_qpid_cpp": False}
    assert report["statistics"]["since_us"] is None and report["statistics"]["missing"]
    assert list(report["thresholds_unknown"]) == ["orders"]
    assert "qpid.flow_stop_count" not in stated["queues"]["orders"]
    assert stated["inferred"]["queues.orders"].startswith("not seen: its thresholds are unknown: ")
    assert "'orders': its thresholds are unknown: the broker is brakes by credit" in tap.words
    log = ClientLog.load(out)
    found = audit(log, Workload.load(out.with_name("silent.json")))
    assert [finding.text() for finding in found.findings] == []
    assert [row.event for row in log.rows].count("complete") == 11


def test_released_at_the_limit_and_messages_that_come_back(tmp_path):
    """LP-02 on this wire: the transfer past the limit is released; a closed link gives back what it held."""
    out = tmp_path / "limit.parquet"
    with (
        serve("small --max-queue-count=4 --limit-policy=reject --flow-stop-count=0") as server,
        recording_here(server.url, out) as made,
    ):
        sending = BlockingConnection(f"127.0.0.1:{made.tap.port}", container_id="shop")
        sender = sending.create_sender("small")
        for number in range(6):
            with pytest.raises(SendException) if number >= 4 else nullcontext():
                sender.send(Message(body=f"order {number}"))
        for name, count in (("first", 2), ("second", 4)):
            reading = BlockingConnection(f"127.0.0.1:{made.tap.port}", container_id=name)
            receiver = reading.create_receiver("small", credit=count)
            for _ in range(count):
                receiver.receive(timeout=20)
                if name == "second":
                    receiver.accept()
            reading.close()
        sending.close()
    labels = [f"shop-{n}" for n in range(1, 7)]
    by_event = {}
    for row in so_far(out):
        by_event.setdefault((row.client, row.event), []).append(row.label)
    assert by_event["shop", "refused"] == labels[4:]
    assert by_event["first", "deliver"][:2] == labels[:2] and len(by_event["first", "error"]) == 1
    assert by_event["second", "deliver"] == by_event["second", "accept"] == labels[:4]
    assert audit(ClientLog.load(out), Workload.load(out.with_name("limit.json"))).findings == []


# How it ends


@pytest.mark.parametrize("whole", [False, True], ids=["the tap", "all its processes"])
def test_what_was_written_is_whole_after_kill_9(tmp_path, whole):
    out = tmp_path / "killed.parquet"
    with recorded_sender(out) as (tap, sent):
        wait_until(lambda: len(list(out.glob("part-*.parquet"))) >= 2, "two parts")
        (os.killpg if whole else os.kill)(tap.process.pid, signal.SIGKILL)
        tap.process.wait()
        if not whole:
            # What reads behind comes to the end of what passed, and takes the capture away.
            wait_until(lambda: not list(out.glob("_capture-*")), "all is read")
    rows = ClientLog.load(out).rows
    assert rows and {row.event for row in rows} <= {"transfer", "complete", "error"}
    assert Workload.load(out.with_name("killed.json")).producers[0].to == ("", "orders")
    if not whole:
        written = sum(row.event == "transfer" for row in rows)
        assert len(sent) <= written <= len(sent) + 1


def test_it_ends_in_good_order_while_clients_send(tmp_path):
    """As the system ends a process; Ctrl-C ends the recordings of all other tests."""
    out = tmp_path / "ended.parquet"
    with recorded_sender(out) as (tap, sent):
        wait_until(lambda: len(sent) > 20, "some messages")
        tap.process.terminate()
        words, errors = tap.process.communicate(timeout=120)
    assert tap.process.returncode == INTERRUPTED and "Traceback" not in errors
    written = sum(row.event == "transfer" for row in tap.rows())
    assert len(sent) <= written <= len(sent) + 1
    assert "the recorder was stopped" in words
    assert not list(out.glob("_capture-*"))


def test_nothing_that_is_there_is_written_over(tmp_path):
    out = tmp_path / "there.parquet"
    out.mkdir()
    (out / "part-00000.parquet").write_text("mine")
    with pytest.raises(RefusalError, match="must not exist yet, or be empty"):
        Recording(Upstream("127.0.0.1:1"), out)
    assert (out / "part-00000.parquet").read_text() == "mine"


@pytest.mark.parametrize("text", ["", "http://h:1", "h:x", "amqp://h/path", "h:99999", "amqp://user@h"])
def test_a_broker_that_cannot_be_meant_is_refused(text):
    with pytest.raises(RefusalError, match="a broker must be HOST:PORT"):
        Upstream(text)


def test_a_broker_that_is_not_there_ends_the_client_and_is_a_finding(tmp_path):
    out = tmp_path / "away.parquet"
    with (
        socket.socket() as taken,
        # Nobody listens there, and nobody else is given the port.
        recording_here(bind(taken), out) as made,
        socket.create_connection(("127.0.0.1", made.tap.port)) as client,
    ):
        assert client.recv(10) == b""
    assert "no connection to amqp://127.0.0.1" in finding_texts(out)[0]


def test_a_password_reaches_the_broker_and_not_the_disk(tmp_path):
    out = tmp_path / "secret.parquet"
    body = b"\x00\x53\x41\xc0\x24\x02\xa3\x05PLAIN\xa0\x1a\x00user\x00" + SECRET.encode()
    said = b"AMQP\x03\x01\x00\x00" + (8 + len(body)).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body
    with socket.socket() as broker, recording_here(bind(broker), out) as made:
        broker.listen()
        # The reader is stopped, so that all that is captured stays there to be looked at.
        reader = made._reader
        reader.send_signal(signal.SIGSTOP)
        with socket.create_connection(("127.0.0.1", made.tap.port)) as client:
            client.sendall(said[:40])
            server = broker.accept()[0]
            received(server, 40)
            client.sendall(said[40:])
            assert received(server, len(said) - 40) == said[40:]
            wait_until(lambda: (out / "_capture-00000").stat().st_size >= len(said), "it is captured")
            kept = (out / "_capture-00000").read_bytes()
        reader.send_signal(signal.SIGCONT)
    assert SECRET.encode() not in kept and b"AMQP\x03" in kept


# Bytes


def bind(taken):
    """Give a socket a port of its own, and return where that is."""
    taken.bind(("127.0.0.1", 0))
    return f"127.0.0.1:{taken.getsockname()[1]}"


def received(connection, count):
    data = b""
    while len(data) < count and (more := connection.recv(count - len(data))):
        data += more
    return data


def test_random_bytes_pass_unchanged_both_ways_until_both_have_ended(tmp_path):
    """Up to a megabyte each way on each of 20 connections, in random pieces; AMQP 0-10 is a finding."""
    out = tmp_path / "fuzz.parquet"
    chance = random.Random(7)
    versions = (0, 1, 0, 0), (3, 1, 0, 0), (2, 1, 0, 0), (1, 1, 0, 10)
    begins = [b"", *(b"AMQP" + bytes(version) for version in versions)]
    with socket.socket() as broker, recording_here(bind(broker), out) as made:
        broker.listen()
        for number in range(20):
            there = begins[number % 5] + chance.randbytes(chance.randint(0, 1_000_000))
            back = begins[number % 3] + chance.randbytes(chance.randint(0, 1_000_000))
            client = socket.create_connection(("127.0.0.1", made.tap.port))
            server = broker.accept()[0]
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
        assert "of 20 connections open" in made.progress()
    assert not list(out.glob("part-*"))
    words = "only AMQP 1.0 can be read (AMQP, 0, 1.0.0), got AMQP, 1.1.0.10"
    assert any(words in text for text in finding_texts(out))


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


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is full")
def test_a_full_disk_stops_the_recording_and_not_the_bytes(tmp_path):
    hello = b"AMQP\x00\x01\x00\x00 hello"
    with socket.socket() as broker:
        made = Recording(Upstream(bind(broker)), tmp_path / "full.parquet", asks_statistics=False)
        broker.listen()
        made.start("127.0.0.1", 0)
        made.tap.capture._file = os.open("/dev/full", os.O_WRONLY)
        with socket.create_connection(("127.0.0.1", made.tap.port)) as client:
            client.sendall(hello)
            assert received(broker.accept()[0], len(hello)) == hello
        made.stop()
    assert made.problem == "the capture cannot be written: No space left on device"


def test_a_tap_speaks_tls_with_its_clients_and_with_a_broker_that_somebody_vouches_for(tmp_path):
    pytest.importorskip("trustme")
    certificate = make_certificate(tmp_path)
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(certificate.ca)
    known, unknown = tmp_path / "known.parquet", tmp_path / "unknown.parquet"
    options = ("--no-statistics", "--cert", certificate.cert, "--key", certificate.key)
    with serve(QUEUE, certificate=certificate) as broker:
        with recording(broker.url, known, "--ca", certificate.ca, *options) as tap:
            connection = BlockingConnection(f"amqps://localhost:{tap.port}", timeout=10, ssl_domain=domain)
            connection.create_sender("orders").send(Message(body="one"))
            connection.close()
        with (
            recording_here(broker.url, unknown) as made,
            socket.create_connection(("127.0.0.1", made.tap.port)) as client,
            suppress(ConnectionError),
        ):
            assert client.recv(100) == b""
    assert [row.event for row in ClientLog.load(known).rows] == ["transfer", "complete"]
    assert any("certificate" in words.lower() for words in finding_texts(unknown))
