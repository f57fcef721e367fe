"""`qflow serve --setup`: whole setups, asked by a client of AMQP 1.0."""

import pytest

pytest.importorskip("proton")

from commands import refusal
from proton import Message, Timeout
from proton.utils import BlockingConnection, LinkDetached, SendException
from test_serve_command import command, url


def take(connection, queue):
    """Return the bodies on a queue."""
    receiver = connection.create_receiver(queue, credit=10)
    bodies = []
    try:
        while True:
            bodies.append(receiver.receive(timeout=1 if bodies else 10).body)
            receiver.accept()
    except Timeout:
        pass
    receiver.close()
    return bodies


SENT = {
    "shop": [
        ("shop.events/order.eu.new", "order.eu.new", ["orders", "orders.eu"]),
        ("shop.commands/refund", "refund", ["refunds"]),
        ("shop.broadcast", "", ["mail", "sms", "push"]),
        ("shop.dead", "", ["dead-letters"]),
    ],
    "plant": [
        ("plant.raw/line.2.temperature", "line.2.temperature", ["line-2.readings", "archive"]),
        ("plant.alarms/3", "3", ["line-3.alarms"]),
        ("plant.all", "", ["shift.early", "shift.late", "shift.night"]),
        ("plant.clean/line.1.speed", "line.1.speed", ["dashboard"]),
    ],
    "bank": [
        ("payments/pay.07.in", "pay.07.in", ["branch.07"]),
        ("postings/swift", "swift", ["post.swift"]),
        ("notices", "", ["mobile"]),
        ("rates/eur.usd", "eur.usd", ["rates.eur"]),
    ],
}


@pytest.mark.parametrize("name", SENT)
def test_messages_reach_what_a_setup_has_bound(root, tmp_path, name):
    folder = root / "data" / "setups" if name == "shop" else root / "tests" / "configuration" / "setups"
    setup = folder / f"{name}.sh"
    (tmp_path / "qpidd.conf").write_text(
        "auth=no\nacl-file=/etc/qpid/qpid.acl\ndefault-flow-stop-threshold=90\n"
    )
    words = ("serve", "--port", "0", "--setup", str(setup), "--broker-config", str(tmp_path / "qpidd.conf"))
    with command(*words) as (_, port):
        connection = BlockingConnection(url(port), timeout=20)
        for number, (node, subject, _) in enumerate(SENT[name]):
            exchange = node.partition("/")[0]
            connection.create_sender(exchange).send(Message(f"{name}-{number}", subject=subject))
        for number, (_, _, queues) in enumerate(SENT[name]):
            for queue in queues:
                assert f"{name}-{number}" in take(connection, queue), queue
        connection.close()


def test_refused_lines_are_told_and_the_rest_is_served(root):
    setup = root / "tests" / "configuration" / "setups" / "bank.sh"
    with command("serve", "--port", "0", "--setup", str(setup)) as (process, port):
        connection = BlockingConnection(url(port), timeout=20)
        with pytest.raises((LinkDetached, SendException)):
            connection.create_sender("oddly").send(Message("x"))
        connection.close()
        process.terminate()
        said = process.communicate(timeout=20)[1]
    assert said.count("refused: line") == 6 and "refused: line 33: qpid-config add queue oddly" in said


def test_a_file_that_the_broker_refuses_is_refused(tmp_path, capsys):
    (tmp_path / "qpidd.conf").write_text("async-queue-events=no\n")
    said = refusal(capsys, "serve", "--port", 0, "--broker-config", tmp_path / "qpidd.conf")
    assert "Bad argument: |async-queue-events=no|" in said
