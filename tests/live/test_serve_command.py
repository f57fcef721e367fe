"""The commands that serve: who calls in another protocol, passwords, a trace that outlives a kill, Ctrl-C."""

import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager, suppress

import pytest

pytest.importorskip("proton")

from commands import output_of, refusal, status_of
from proton import Message, char
from proton.utils import BlockingConnection
from test_serving import opening
from waiting import wait_until

import qflow as qf
from qflow.live.amqp_frames import foreign_protocol

QUEUE = "orders --flow-stop-count=3 --flow-resume-count=2"


@contextmanager
def command(*words, **given):
    """Run a command; yield the process and the port that its first line names."""
    process = subprocess.Popen(
        [sys.executable, "-m", "qflow", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **given,
    )
    try:
        said = process.stdout.readline()
        yield process, int(said.split(",")[0].rpartition(":")[2])
    finally:
        process.kill()
        process.communicate()


def url(port, user=""):
    return f"amqp://{user}127.0.0.1:{port}"


HELLO = b"\x16\x03\x01\x00\xc4\x01\x00\x00\xc0\x03\x03" + b"\x5a" * 190
FOREIGN = [
    (HELLO, "TLS"),
    (b"AMQP\x02\x01\x00\x00", "TLS"),
    (b"AMQP\x00\x00\x09\x01", "AMQP 0-9-1"),
    (b"AMQP\x01\x01\x00\x0a", "AMQP 0-10"),
    (b"AMQP\x01\x01\x00\x09", "AMQP 0-9"),
    (b"AMQP\x01\x01\x08\x00", "AMQP 0-8"),
    (b"AMQP\x07\x07\x07\x07", "AMQP 7-7-7-7"),
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"),
    (b"POST /api HTTP/1.1\r\n\r\n", "HTTP"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP"),
    (b"SSH-2.0-OpenSSH_9.6\r\n", "no AMQP"),
]


@pytest.mark.parametrize(("first", "name"), FOREIGN, ids=range(len(FOREIGN)))
def test_a_protocol_is_known_by_its_first_bytes(first, name):
    assert foreign_protocol(first).startswith(name)


@pytest.mark.parametrize("first", [b"AMQP\0\1\0\0", b"AMQP\3\1\0\0", b"AM", b""])
def test_amqp_1_0_is_not_foreign(first):
    assert foreign_protocol(first) == ""


@pytest.fixture(scope="module")
def served():
    """A command that serves anybody: the process, and its port."""
    with command("serve", "--port", "0") as (process, port):
        yield process, port
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=20)[1] == "qflow serve: stopped\n"


def test_a_client_of_another_protocol_is_named_at_once(served):
    """While it is still connected: one line a client."""
    process, port = served
    with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(HELLO)
        said = process.stderr.readline()
        assert said.startswith(f"qflow serve: 127.0.0.1:{connection.getsockname()[1]}: speaks TLS")
        assert connection.recv(8)[:4] == b"AMQP"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for part in (b"AMQP\0", b"\0\x09", b"\x01"):
            connection.sendall(part)
        assert "speaks AMQP 0-9-1" in process.stderr.readline()


def test_who_goes_without_a_word_is_named_and_who_only_knocks_is_not(served):
    process, port = served
    for first in (b"", opening("shop")):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(first)
            if first:
                assert connection.recv(8)[:4] == b"AMQP"
    said = process.stderr.readline()
    assert said == "qflow serve: shop: its socket was closed while its connection was open\n"


def test_a_client_s_name_cannot_write_on_the_terminal(served):
    process, port = served
    connection = BlockingConnection(url(port), timeout=20, container_id="a\n\x1b[2Jb")
    with suppress(Exception):
        sender = connection.create_sender("amq.topic")
        sender.send(Message(body=char("x")))
    assert process.stderr.readline().startswith("qflow serve: a??[2Jb: amqp:internal-error: Expected")


# Passwords


def is_let_in(port, user):
    try:
        connection = BlockingConnection(url(port, user), timeout=20, allow_insecure_mechs=True)
    except Exception:
        return False
    connection.close()
    return True


def test_a_password_need_not_be_on_the_command_line(tmp_path):
    """A file comes before the environment; of a file it is the first line."""
    path, environment = tmp_path / "password", {**os.environ, "QFLOW_PASSWORD": "secret"}
    with command("serve", "--port", "0", env=environment) as (process, port):
        assert is_let_in(port, "ann:secret@")
        assert not is_let_in(port, "ann:wrong@")
        assert not is_let_in(port, "")
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(HELLO)
            assert connection.recv(8) == b"AMQP\3\1\0\0"
    path.write_text("of the file\nand a second line\n", "utf-8")
    with command("serve", "--port", "0", "--password-file", str(path), env=environment) as (_, port):
        assert is_let_in(port, "ann:of the file@".replace(" ", "%20"))


REFUSED = [
    (["--port", "70000"], "a port must be a number from 0 to 65535"),
    (["--queue", "q; {nonsense"], "no address"),
    (["--queue", "q --flow-stop-count=1 --flow-resume-count=5"], "must be less or equal"),
    (["--trace", "no/such/folder/x.jsonl"], "must be written to an existing folder; got no/such/folder"),
    (["--trace", "x.txt"], "a trace is a .parquet, .jsonl or .jsonl.gz file"),
    (["--workload", "none.json"], "none.json"),
    (["--host", "no.such.host.invalid"], "qflow"),
    (["--password-file", "no/such/file"], "no/such/file"),
    (["--password-file", os.devnull], "must be a password in UTF-8"),
    (["--password", "x", "--password-file", "y"], "not allowed with argument"),
    (["--brake", "hope"], "invalid choice: 'hope'"),
    (["--cert", "c.pem"], "--cert and --key must be given together; got only --cert"),
    (["--cert", "no.pem", "--key", "k.pem"], "the certificate no.pem with the key k.pem: No such file"),
]


@pytest.mark.parametrize(("words", "text"), REFUSED)
def test_what_makes_no_sense_is_refused_in_a_sentence(words, text, capsys):
    assert text in refusal(capsys, "serve", "--port", 0, *words)


def test_a_port_that_is_taken_is_refused(capsys):
    with qf.serve() as broker:
        assert "in use" in refusal(capsys, "serve", "--port", broker.server.address[1])


# A trace


@pytest.mark.parametrize(
    ("name", "lines"), [("served.jsonl", "served.jsonl"), ("served.parquet", "served.parquet.jsonl")]
)
def test_it_serves_writes_a_trace_and_ends_when_it_is_told_to(name, lines, tmp_path):
    """The lines of a trace give way to the file that was asked for."""
    pytest.importorskip("pyarrow")
    words = ["--port", "0", "--queue", QUEUE, "--trace", str(tmp_path / name), "--host", "0.0.0.0"]
    with command("serve", *words) as (process, port):
        connection = BlockingConnection(url(port), timeout=10)
        connection.create_sender("orders").send(Message(body="hello"))
        connection.close()
        assert [path.name for path in tmp_path.iterdir()] == [lines]
        process.terminate()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read().count("--password-file asks for a password") == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert qf.read_trace(tmp_path / name)[0].kind.count("enqueued") == 1


def test_a_trace_outlives_a_kill(tmp_path, capsys):
    """What has happened is in lines of JSON at once; the file that was asked for is made at the end."""
    asked, lines = tmp_path / "served.jsonl.gz", tmp_path / "served.jsonl.gz.jsonl"
    with command("serve", "--port", "0", "--queue", QUEUE, "--trace", str(asked)) as (process, port):
        connection = BlockingConnection(url(port), timeout=20)
        sender = connection.create_sender("orders")
        for _ in range(3):
            sender.send(Message(body="x"))
        wait_until(lambda: lines.read_text("utf-8").count('"kind":"enqueued"') == 3, "events in the file")
        process.kill()
        process.wait()
    trace, quarantine = qf.read_trace(lines)
    assert not quarantine and trace.kind.count("enqueued") == 3
    assert list(trace.seq) == list(range(len(trace)))
    assert "orders" in output_of(capsys, "trace", "info", lines)
    assert status_of("trace", "why", lines, trace.seq[-1], "queue:orders") == 0


def test_a_disk_without_room_ends_no_server(tmp_path):
    resource = pytest.importorskip("resource")
    words = ["serve", "--port", "0", "--queue", QUEUE, "--trace", str(tmp_path / "served.jsonl")]
    with command(*words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))) as (
        process,
        port,
    ):
        connection = BlockingConnection(url(port), timeout=20)
        receiver, sender = connection.create_receiver("orders"), connection.create_sender("orders")
        for _ in range(30):
            sender.send(Message(body="x"))
            receiver.receive()
            receiver.accept()
        assert "the trace cannot be written as it happens" in process.stderr.readline()
        connection.close()


# Ctrl-C


def ignore_interrupts():
    """Be what a shell's script makes of a command with an ampersand."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@pytest.mark.parametrize("name", ["serve", "record"])
def test_a_script_s_ampersand_does_not_take_ctrl_c_away(name, tmp_path):
    words = ["--port", "0"]
    if name == "record":
        pytest.importorskip("pyarrow")
        words = ["--listen", "0", "--upstream", "127.0.0.1:9", "--out", str(tmp_path / "log.parquet")]
    with command(name, *words, preexec_fn=ignore_interrupts) as (process, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == (0 if name == "serve" else 130)
