"""Faults: the ledger of what a client loses, repeats and mixes up, against a count from both ends."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("proton")

from client_programs import PROGRAMS
from commands import output_of, status_of
from proton import Message
from test_client_report import card

from qflow.kit import RefusalError
from qflow.live import Conditions, check_faults, cli, client_check, client_faults
from qflow.live.amqp_frames import section_places
from qflow.live.client_faults import FAULTS, Ledger, ledger_table
from qflow.live.coordinator import COMMITTED, FAILED
from qflow.live.message_ledger import MessageLedger
from qflow.live.peer import SeenTransfer
from qflow.trace import read_trace

CURED = [sys.executable, str(PROGRAMS / "proton_window_cured.py")]
FEW = Conditions(messages=90, timeout=20, still=0.5)


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory):
    """The ledgers of the cured client and of the documented one, and where the traces of the first are."""
    folder = tmp_path_factory.mktemp("traces")
    traces, program = folder / "cured", folder / "client.py"
    # As Proton's documentation sends, once; each message that is given to the library is counted.
    text = (PROGRAMS / "proton_credit.py").read_text("utf-8")
    text = text.replace('environ["AMQP_URL"])', 'environ["AMQP_URL"], reconnect=False)')
    counted = "sender = CreditSender()\n    Container(sender).run()\n    print(sender.sent, sender.accepted)"
    program.write_text(text.replace("Container(CreditSender()).run()", counted))
    with ThreadPoolExecutor() as pool:
        cured = pool.submit(check_faults, CURED, FEW, traces=traces)
        documented = pool.submit(check_faults, [sys.executable, str(program)], FEW)
    made = ({ledger.fault: ledger for ledger in each.result()} for each in (cured, documented))
    return (*made, traces)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_cured_client_loses_nothing_and_comes_back(ledgers, fault):
    ledger = ledgers[0][fault]
    assert (ledger.lost, ledger.missing, ledger.out_of_order, ledger.status) == (0, 0, 0, 0)
    assert ledger.strikes == ((30, 60) if fault == "cut" else (30,))
    assert None not in ledger.back
    # What had no outcome is sent again, at most a window each time.
    assert 0 <= ledger.duplicated <= 50 * len(ledger.strikes)
    assert ledger.stored == 90 + ledger.duplicated


@pytest.mark.slow
def test_the_trace_of_a_fault_says_what_happened(ledgers, capsys):
    cured, _, traces = ledgers
    path = traces / "cut.jsonl"
    kinds = list(read_trace(path)[0].kind)
    assert kinds.count("message.transfer") == cured["cut"].stored
    names = {"free", *(fault.replace(" ", "-") for fault in FAULTS)}
    assert {path.stem for path in traces.iterdir()} == names
    assert "orders" in output_of(capsys, "trace", "why", path, "30s", "queue:orders")


@pytest.mark.slow
def test_the_ledger_of_the_documented_client_is_what_both_ends_count(ledgers):
    documented = ledgers[1]
    for fault in ("cut", "half open", "refused"):
        ledger = documented[fault]
        # The broker has 30, whatever the client had given to its library, and was told of none.
        sent, accepted = (int(number) for number in ledger.output.split()[-2:])
        assert (sent, accepted) == (90, 0)
        assert (ledger.stored, ledger.missing) == (30, sent - 30)
        # It was told to send them all, and the connection took them with it, sent or not.
        assert (ledger.unseen, ledger.lost) == (60, 0)
        assert "60 of 90 not sent, or lost with the connection" in str(ledger)
        assert ledger.back == (None,)
    slow = documented["slow"]
    assert (slow.lost, slow.stored, slow.status) == (0, 90, 0)


class Link:
    """A link on which messages come, in a session of its own."""

    def __init__(self):
        self.session = object()


def send(ledger, bodies, link, word="accepted", **properties):
    """Show messages to a ledger, as a server does."""
    for number, body in enumerate(bodies):
        message = Message(body=body, properties=properties or None)
        places = section_places(bytes(message.encode()))
        bare = bytes(message.encode())[places.bare :]
        ledger.transferred(SeenTransfer(link, "orders", number, bare), word)


def expected(*runs):
    """What an undisturbed run sent, each argument on a link of its own."""
    ledger = MessageLedger("orders")
    for bodies in runs:
        send(ledger, bodies, Link())
    return ledger.expect()


@pytest.mark.parametrize(
    ("taken", "missing", "duplicated", "out_of_order"),
    [
        ("abcd", 0, 0, 0),
        ("abbcd", 0, 1, 0),
        ("abd", 1, 0, 0),
        ("acbd", 0, 0, 1),
        ("dabc", 0, 0, 3),
        ("ababcd", 0, 2, 0),
        ("aaaa", 3, 3, 0),
    ],
)
def test_messages_are_told_apart_by_their_bodies(taken, missing, duplicated, out_of_order):
    ledger = MessageLedger("orders", expected("abcd"))
    send(ledger, taken, Link())
    assert (4 - ledger.arrived, ledger.repeated) == (missing, duplicated)
    assert ledger.count_disorder() == out_of_order


def test_losses_are_not_netted_against_duplicates():
    ledger = MessageLedger("orders", expected("abcdefgh"))
    link = Link()
    send(ledger, "abc", link, "released")
    send(ledger, "defgh", link)
    send(ledger, "de", link)
    assert (ledger.missing, ledger.repeated, ledger.transfers - ledger.messages) == (3, 2, 2)
    send(ledger, "ab", link)
    assert (ledger.missing, ledger.words["released"], ledger.words["accepted"]) == (1, 3, 9)


def test_order_is_compared_within_a_link():
    two = expected("aceg", "bdfh")
    ledger = MessageLedger("orders", two)
    first, second = Link(), Link()
    send(ledger, "bdfh", second)
    send(ledger, "aceg", first)
    assert ledger.count_disorder() == 0
    mixed = MessageLedger("orders", two)
    send(mixed, "gace", first)
    assert mixed.count_disorder() == 3


def test_messages_that_are_alike_are_as_many_as_the_undisturbed_run_had():
    ledger = MessageLedger("orders", expected("xxxx"))
    send(ledger, "xxx", Link())
    assert not ledger.is_told_apart
    assert (ledger.messages, ledger.arrived, ledger.count_disorder()) == (3, 3, None)
    one = Ledger("slow", 4, 3, 1, 1, 0, None, (1,), (None,), None, "", 20.0)
    assert "not known" in str(ledger_table([one]))
    assert str(one) == "1 of 4 not sent, when the bench ended it after 20 s; back not within 20 s"


def test_a_message_id_tells_bodies_apart_that_are_alike():
    undisturbed = MessageLedger("orders")
    for number in range(4):
        send(undisturbed, "x", Link(), number=number)
    ledger = MessageLedger("orders", undisturbed.expect())
    send(ledger, "x", Link(), number=2)
    send(ledger, "x", Link(), number=2)
    assert (ledger.messages, ledger.repeated, ledger.is_told_apart) == (1, 1, True)


def test_a_transaction_brings_its_messages_when_it_is_committed():
    ledger, link = MessageLedger("orders", expected("abcd")), Link()
    for body in "ab":
        bare = bytes(Message(body=body).encode())
        ledger.transferred(SeenTransfer(link, "orders", 1, bare, True), "accepted")
    assert (ledger.messages, ledger.arrived, ledger.uncommitted) == (2, 0, 2)
    ledger.discharged(link.session, FAILED)
    assert (ledger.arrived, ledger.uncommitted, ledger.missing) == (0, 0, 2)


def test_other_nodes_are_counted_apart():
    ledger = MessageLedger("orders")
    audit = Link()
    audit.wrapper = SimpleNamespace(remote_target=SimpleNamespace(dynamic=False))
    ledger.transferred(SeenTransfer(audit, "audit", 1, b"x"), "accepted")
    send(ledger, "a", Link())
    assert (ledger.transfers, dict(ledger.elsewhere)) == (1, {"audit": 1})


def test_a_program_that_says_that_it_failed_has_lost_nothing_in_silence():
    ledger = Ledger("cut", 300, 100, 200, 150, 0, 0, (100,), (None,), 1, "error")
    assert ledger.lost == 0
    assert str(ledger) == (
        "ends with status 1, 50 of 300 sent, and not on the queue, "
        "150 of 300 not sent, or lost with the connection; back never"
    )


def test_what_the_broker_saw_and_what_it_never_saw_are_told_apart():
    ledger = Ledger("recreated", 300, 280, 20, 5, 0, 0, (100,), (1.0,), 0, "")
    assert (ledger.lost, str(ledger)) == (15, "15 of 300 lost, 5 of 300 not sent; back after 1.0 s")


LATER = """
import os, threading, time
from proton import Message
from proton.utils import BlockingConnection
count, first_has_ended = int(os.environ["AMQP_MESSAGES"]), threading.Event()

def work(numbers):
    connection = BlockingConnection(os.environ["AMQP_URL"])
    sender = connection.create_sender(os.environ["AMQP_QUEUE"])
    for number in numbers:
        sender.send(Message(body=number))
    first_has_ended.set()
    second.join()
    connection.close()

def work_later():
    first_has_ended.wait()
    connection = BlockingConnection(os.environ["AMQP_URL"])
    sender = connection.create_sender(os.environ["AMQP_QUEUE"])
    for number in range(count // 2, count):
        sender.send(Message(body=number))
    connection.close()

second = threading.Thread(target=work_later)
second.start()
try:
    work(range(count // 2))
finally:
    first_has_ended.set()
    second.join()
"""


AT_ONCE = """    first_has_ended.set()
    second.join()
    connection.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("closes", [AT_ONCE, "    connection.close()\n"])
def test_a_second_connection_that_opens_after_the_fault_is_no_return(tmp_path, monkeypatch, closes):
    """It may open when the first is still there, or has closed, as on a slow machine."""
    program = tmp_path / "later.py"
    program.write_text(LATER.replace(AT_ONCE, closes))
    monkeypatch.setattr(client_faults, "FAULTS", ("cut",))
    (ledger,) = check_faults([sys.executable, str(program)], FEW)
    assert (ledger.stored, ledger.back) == (60, (None, None))
    assert ledger.status == 1


def test_a_program_that_cannot_be_judged_is_refused():
    with pytest.raises(RefusalError, match="cannot be run"):
        check_faults(["no-such-program"])
    with pytest.raises(RefusalError, match="sent 0 messages to 'orders' without a fault"):
        check_faults([sys.executable, "-c", "pass"], FEW)


def test_the_command_ends_the_card_with_the_ledger(monkeypatch, capsys):
    given, asked = [], Conditions(**cli._SHORT)
    monkeypatch.setattr(client_check, "check_client", lambda *_, progress: card())

    def check(command, conditions, *, traces, progress):
        given.append((command, conditions, traces))
        return [Ledger("cut", 300, 310, 0, 0, 10, 0, (100, 200), (0.1, None), 0, "")]

    monkeypatch.setattr(client_faults, "check_faults", check)
    assert status_of("check-client", "--short", "--faults", "--json", "--traces", "here", "--", "send") == 0
    assert given == [(["send"], asked, "here")]
    found = json.loads(capsys.readouterr().out)
    assert [(one["fault"], one["lost"]) for one in found["faults"]] == [("cut", 0)]
    assert found["facts"]["stops"]


@pytest.mark.slow
def test_a_program_that_has_not_ended_undisturbed_is_judged_by_what_it_sent(monkeypatch):
    # It has thousands to send, one each 20 ms: the undisturbed run says nothing about how many these are.
    monkeypatch.setattr(client_faults, "FAULTS", ("slow",))
    program = [sys.executable, str(Path(__file__).with_name("checked_programs.py")), "paced"]
    (ledger,) = check_faults(program, FEW._replace(messages=5_000, timeout=3, still=0.3))
    assert (ledger.is_whole, ledger.unseen, ledger.missing) == (False, 0, 0)
    assert 0 < ledger.stored == ledger.messages < 5_000
    assert "; undisturbed it had not ended within 3 s" in str(ledger)


class Seen:
    """What a ledger is told of a session or a link."""

    def __init__(self, **given):
        self.__dict__.update(given)


def test_a_transaction_without_a_message_is_no_return():
    told = []
    server = SimpleNamespace(note_stored=lambda peer, origin: told.append((peer, origin)))
    ledger = client_faults._ServedLedger(server, "orders", None)
    session = Seen(peer="a client")
    ledger.discharged(session, COMMITTED)
    assert told == []
    sending = Seen(session=session)
    ledger.transferred(SeenTransfer(sending, "orders", 1, b"", is_transactional=True), "accepted")
    ledger.discharged(session, COMMITTED)
    assert told == [("a client", None)]
