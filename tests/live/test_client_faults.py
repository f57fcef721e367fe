"""Faults: the ledger of what a client loses, repeats and mixes up, against a count from both ends."""

import json
import sys
import textwrap

import pytest

pytest.importorskip("proton")

from commands import status_of

from qflow.kit import RefusalError, kit_path
from qflow.live import Conditions, check_faults
from qflow.live.client_faults import FAULTS, Ledger, _account, ledger_table
from qflow.trace import read_trace

CURED = [sys.executable, str(kit_path("data") / "clients" / "proton_window_cured.py")]
FEW = Conditions(messages=90, timeout=20)

COUNTING = """
    import os, sys
    from proton import Message
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    # As Proton's documentation sends; each message that is given to the library is counted.
    class Sender(MessagingHandler):
        sent = accepted = 0

        def on_start(self, event):
            connection = event.container.connect(os.environ["AMQP_URL"], reconnect=False)
            event.container.create_sender(connection, os.environ["AMQP_QUEUE"])

        def on_sendable(self, event):
            while event.sender.credit and self.sent < int(os.environ["AMQP_MESSAGES"]):
                event.sender.send(Message(body=f"order {self.sent}"))
                self.sent += 1

        def on_accepted(self, event):
            self.accepted += 1
            if self.accepted == int(os.environ["AMQP_MESSAGES"]):
                event.connection.close()

    sender = Sender()
    Container(sender).run()
    print(sender.sent, sender.accepted)
"""


@pytest.fixture(scope="module")
def cured(tmp_path_factory):
    traces = tmp_path_factory.mktemp("traces")
    return {ledger.fault: ledger for ledger in check_faults(CURED, FEW, traces=traces)}, traces


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_cured_client_loses_nothing_and_comes_back(cured, fault):
    ledger = cured[0][fault]
    assert (ledger.lost, ledger.missing, ledger.out_of_order, ledger.status) == (0, 0, 0, 0)
    assert ledger.strikes == ((30, 60) if fault == "cut" else (30,))
    assert all(seconds is not None and seconds < 5 for seconds in ledger.back)
    # What had no outcome is sent again, at most a window each time.
    assert 0 <= ledger.duplicated <= 50 * len(ledger.strikes)
    assert ledger.stored == 90 + ledger.duplicated


@pytest.mark.slow
def test_the_trace_of_a_fault_says_what_happened(cured, capsys):
    path = cured[1] / "cut.jsonl"
    kinds = list(read_trace(path)[0].kind)
    assert kinds.count("message.transfer") == cured[0]["cut"].stored
    assert {path.stem for path in cured[1].iterdir()} == {
        "free",
        *(fault.replace(" ", "-") for fault in FAULTS),
    }
    assert status_of("trace", "why", path, "30s", "queue:orders") == 0
    assert "orders" in capsys.readouterr().out


@pytest.mark.slow
def test_the_ledger_of_the_documented_client_is_what_both_ends_count(tmp_path):
    path = tmp_path / "client.py"
    path.write_text(textwrap.dedent(COUNTING))
    ledgers = {ledger.fault: ledger for ledger in check_faults([sys.executable, str(path)], FEW)}
    for fault in ("cut", "half open", "refused"):
        ledger = ledgers[fault]
        # The broker has 30, whatever the client had given to its library, and was told of none.
        sent, accepted = (int(number) for number in ledger.output.split()[-2:])
        assert (sent, accepted) == (90, 0)
        assert (ledger.stored, ledger.lost) == (30, sent - 30)
        assert ledger.back == (None,)
    assert (ledgers["slow"].lost, ledgers["slow"].stored, ledgers["slow"].status) == (0, 90, 0)


class Server:
    """What a run has left."""

    fault, strikes, struck, back, status, output = "cut", (2,), [1.0], [1.5], 0, ""

    def __init__(self, *taken):
        self.taken = [encoded(body) for body in taken]


def encoded(body):
    from proton import Message

    return Message(body=body).encode()


@pytest.mark.parametrize(
    ("taken", "missing", "duplicated", "out_of_order"),
    [
        ("abcd", 0, 0, 0),
        ("abbcd", 0, 1, 0),
        ("abd", 1, 0, 0),
        ("acbd", 0, 0, 1),
        ("dabc", 0, 0, 3),
        ("ababcd", 0, 2, 0),
        ("a", 3, 0, 0),
    ],
)
def test_messages_are_told_apart_by_their_bodies(taken, missing, duplicated, out_of_order):
    ledger = _account(Server(*taken), [encoded(body) for body in "abcd"])
    assert (ledger.missing, ledger.duplicated, ledger.out_of_order) == (missing, duplicated, out_of_order)
    assert ledger.back == (0.5,)


def test_messages_that_are_alike_are_counted_only():
    ledger = _account(Server("x", "x", "x"), [encoded("x")] * 4)
    assert (ledger.missing, ledger.duplicated, ledger.out_of_order) == (1, 0, None)
    assert "not known" in str(ledger_table([ledger]))


def test_a_program_that_says_that_it_failed_has_lost_nothing_in_silence():
    ledger = Ledger("cut", 300, 100, 200, 0, 0, (100,), (None,), 1, "error")
    assert ledger.lost == 0
    assert str(ledger) == "ends with status 1, 200 of 300 missing; back never"


def test_a_program_that_cannot_be_judged_is_refused():
    with pytest.raises(RefusalError, match="cannot be run"):
        check_faults(["no-such-program"])
    with pytest.raises(RefusalError, match="sent 0 messages where nothing goes wrong"):
        check_faults([sys.executable, "-c", "pass"], FEW)


@pytest.mark.slow
def test_the_command_ends_the_card_with_the_ledger(capsys):
    assert status_of("check-client", "--short", "--messages", 90, "--faults", "--json", "--", *CURED) == 0
    found = json.loads(capsys.readouterr().out)["faults"]
    assert [(one["fault"], one["lost"]) for one in found] == [(fault, 0) for fault in FAULTS]
