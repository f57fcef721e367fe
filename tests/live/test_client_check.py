"""check-client: the rows of the recorded client table, and programs that cannot be measured."""

import json
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("proton")

from client_programs import PROGRAMS, client_command
from commands import output_of, refusal, status_of
from waiting import wait_until

from qflow.kit import RefusalError
from qflow.live import Conditions, check_client, client_check
from qflow.live.client_card import ClientCard, ClientRun, Figures, Settling
from qflow.live.client_check import ClientFailedError

QUICK = Conditions(messages=100, still=0.5, timeout=8.0)
FEW = QUICK._replace(messages=300)


def sample(name, **variables):
    """Return how to run a program of the table, with variables of its own."""
    given = [f"{key}={value}" for key, value in variables.items()]
    return ["env", *given, sys.executable, str(PROGRAMS / f"{name}.py")]


def script(folder, text, **variables):
    """Return how to run a program whose text this is."""
    path = folder / f"client{len(list(folder.iterdir()))}.py"
    path.write_text(textwrap.dedent(text))
    return [*sample("", **variables)[:-1], str(path)]


GIVES_UP = """
    import os
    from proton import Message, ProtonException
    from proton.utils import BlockingConnection

    connection = BlockingConnection(os.environ["AMQP_URL"], timeout=1.5)
    sender = connection.create_sender(os.environ["AMQP_QUEUE"])
    try:
        for number in range(int(os.environ["AMQP_MESSAGES"])):
            sender.send(Message(body="x"))
    except ProtonException as error:
        print("gave up:", type(error).__name__, flush=True)
    os._exit(0)
"""
READER = """
    import json, os
    from proton.handlers import MessagingHandler
    from proton.reactor import Container

    class Reader(MessagingHandler):
        def on_start(self, event):
            connection = event.container.connect(os.environ["AMQP_URL"])
            event.container.create_receiver(connection, os.environ["AMQP_QUEUE"])

        def on_message(self, event):
            message = event.message
            body = message.body if isinstance(message.body, str) else bytes(message.body)
            print(json.loads(body)["order"], message.content_type, message.properties, flush=True)

    Container(Reader()).run()
"""
ONCE = """
    import os
    from proton.utils import BlockingConnection

    connection = BlockingConnection(os.environ["AMQP_URL"])
    receiver = connection.create_receiver(os.environ["AMQP_QUEUE"], credit=5)
    while True:
        receiver.receive(timeout=None)
        receiver.{}
"""
DOES = {
    "reject()": "yes: rejects 3 of 3",
    "release(delivered=False)": "no: ",
    "accept(); connection.close(); raise SystemExit(0)": "yes, one at a time; "
    "ends with status 0 after 1 message",
}
ORDER = {"body": '{"order": 5}', "properties": {"kind": "a", "n": 2}}
TYPED = {**ORDER, "body": ORDER["body"].encode(), "content_type": "application/json"}


@pytest.fixture(scope="module")
def cards(tmp_path_factory):
    """The cards to come of all programs, each measured once: they mostly wait, so five at a time."""
    folder = tmp_path_factory.mktemp("clients")
    credit = (PROGRAMS / "proton_credit.py").read_text("utf-8")
    endless = credit.replace('int(os.environ.get("AMQP_MESSAGES", "0"))', "1 << 60")
    cured = (PROGRAMS / "proton_window_cured.py").read_text("utf-8")
    programs = {
        "gives up": (script(folder, GIVES_UP), QUICK._replace(still=3.0)),
        **{name: (sample(name), FEW) for name in ROWS},
        **{
            batch: (sample("proton_receiver", BATCH=batch), QUICK._replace(timeout=12.0))
            for batch in (5, 100)
        },
        "resends": (script(folder, cured.replace("PAUSE = 0.2", "PAUSE = 0"), WINDOW=10), QUICK),
        "endless": (script(folder, endless), QUICK),
        "dies": (script(folder, READER), QUICK),
        "a text": (script(folder, READER), QUICK._replace(**ORDER)),
        "bytes": (script(folder, READER), QUICK._replace(**TYPED)),
        **{does: (script(folder, ONCE.format(does)), QUICK) for does in DOES},
    }
    with ThreadPoolExecutor(5) as pool:
        yield {name: pool.submit(check_client, *given) for name, given in programs.items()}


# On queue, window, lost at the limit with flow control and without it, status without it, goes on.  A window
# below the number of messages is seen only where they are many.
ROWS = {
    "proton_blocking": (11, 1, 0, 0, 1, True),
    "proton_credit": ("all", None, "rest", "rest", None, True),
    "proton_window": (60, 50, "rest", "rest", 0, True),
    "proton_presettled": ("all", None, "rest", "rest", 0, True),
}


def assert_row(card, row, total):
    words = {"all": total, "rest": total - 30}
    depth, window, at_limit, released, status, goes_on = (words.get(value, value) for value in row)
    assert card.total == total
    assert card.runs["stopped"].before.depth == depth
    assert (card.stops, card.client_window) == (window is not None, window)
    assert card.past_stop == depth - 10
    assert (card.count_lost("limit"), card.count_lost("released")) == (at_limit, released)
    assert card.runs["released"].status == status
    assert card.goes_on is goes_on
    assert card.loses_nothing is (at_limit == released == 0)


@pytest.mark.slow
@pytest.mark.parametrize("total", [300, pytest.param(6_000, marks=pytest.mark.release)])
@pytest.mark.parametrize("name", ROWS)
def test_the_clients_of_the_table_come_out_as_recorded(name, total, cards):
    # LNK-02, LNK-05: S accepted and W without an outcome, and at the limit released.
    card = cards[name].result() if total == 300 else check_client(sample(name))
    assert_row(card, ROWS[name], total)
    is_unseen = total == 300 and name == "proton_credit"
    assert json.loads(json.dumps(card.as_json()))["stops"] is (None if is_unseen else card.stops)
    assert ("a window above 289 is not seen" in card.doubt("stops")) is is_unseen


@pytest.mark.release
@pytest.mark.parametrize(
    ("manner", "depth", "window"), [("credit", 2_058, 2_048), ("window", 60, 50), ("presettled", None, None)]
)
def test_the_manners_of_rhea_come_out_as_recorded(manner, depth, window):
    card = check_client(client_command("rhea_sender.js", manner))
    assert card.client_window == window
    assert card.stops is (window is not None)
    if depth is None:
        # Closing at once loses what is still buffered: how much, depends on the machine.
        assert card.runs["stopped"].before.depth > 2_058
    else:
        assert card.runs["stopped"].before.depth == depth
        assert card.goes_on
    assert card.runs["released"].after.stored == 30
    assert not card.loses_nothing


@pytest.mark.slow
@pytest.mark.parametrize(("batch", "is_locked", "never_locks"), [(5, False, True), (100, True, False)])
def test_a_receiver_that_settles_in_batches_above_the_window_is_locked_with_its_sender(
    cards, batch, is_locked, never_locks
):
    card = cards[batch].result()
    assert (card.role, card.settling.batch, card.settling.credit) == ("receiver", batch, 1_000)
    assert (card.settling.is_locked, card.never_locks) == (is_locked, never_locks)
    if is_locked:
        # Recorded for a receiver of batches of 100 and a sender of window 20: all 30 are delivered.
        assert (card.settling.delivered_locked, card.settling.unsettled_locked) == (30, 30)


@pytest.mark.slow
def test_a_client_that_resends_what_is_released_spins_where_nothing_stops_it(cards):
    """And what it says of a deleted queue is on its card."""
    card = cards["resends"].result()
    assert card.stops and card.client_window == 10 and card.goes_on and card.loses_nothing
    assert card.runs["released"].pause == "sends again and again"
    words = dict(card.lines())
    assert words["limit 30, without"] == (
        "30 on the queue, resends what is released; all arrive when there is room"
    )
    assert words["queue deleted"].startswith(
        "ends with status 1, 20 of 100 messages sent before, and says 'amqp:"
    )


@pytest.mark.slow
def test_a_client_without_end_does_not_stop_and_its_runs_end(cards):
    card = cards["endless"].result()
    assert card.is_endless and not card.stops and not card.loses_nothing
    assert "sends without end" in str(card)


def facts(*values):
    """Return a card's facts; those of the other role are not known."""
    names = ("stops", "goes-on", "loses-nothing", "settles", "never-locks")
    return dict.fromkeys(names) | dict(zip(names, values, strict=False))


@pytest.mark.slow
def test_what_was_never_sent_is_counted_of_a_client_that_ends_as_if_all_were_well(cards):
    card = cards["gives up"].result()
    alike = " (its messages are alike: counted only)"
    gave_up = "with status 0 after 11 of 100 messages, and says 'gave up: Timeout'"
    assert dict(card.lines()) == {
        "does it stop": f"yes: 11 on the queue, 1 past the stop; ends {gave_up}",
        "its window": "1 without an outcome",
        "after resume": f"had ended before, {gave_up}",
        "limit 30, with flow control": f"11 on the queue{alike}; ends {gave_up}",
        "limit 30, without": f"30 on the queue, 1 released{alike}; loses 1 of 100, and ends with status 0 "
        "after 31 of 100 messages, and says 'gave up: SendException'",
        "queue deleted": f"had ended before, {gave_up}",
    }
    assert not card.runs["stopped"].is_told_apart
    got = json.loads(json.dumps(card.as_json()))
    assert got["unsent"] == {"stopped": 89, "resumed": 89, "limit": 89, "released": 69}
    assert got["facts"] == facts(True, False, False)
    assert "never sent" in str(card)


@pytest.mark.slow
def test_a_receiver_that_dies_of_a_message_is_said_to_have_died(cards):
    card = cards["dies"].result()
    words = dict(card.lines())
    error = "'json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)'"
    assert words["does it settle"] == f"not known: dies with status 1 after 1 message, and says {error}"
    assert words["locked with a sender"] == f"not known: dies with status 1, and says {error}"
    assert not card.settles and not card.never_locks
    got = card.as_json()
    assert got["facts"] == facts(None, None, None, False, False)
    assert {got[name] for name in ("stops", "past_stop", "client_window", "asked", "total")} == {None}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [("a text", None), ("bytes", "application/json")])
def test_a_receiver_is_sent_the_messages_that_it_understands(cards, name, kind):
    card = cards[name].result()
    assert card.settles and card.never_locks
    assert dict(card.lines())["does it settle"] == "yes, one at a time"
    assert set(card.runs["free"].output.splitlines()) == {f"5 {kind} {{'kind': 'a', 'n': 2}}"}


@pytest.mark.parametrize(
    ("options", "conditions"), [([], ORDER), (["--content-type", "application/json"], TYPED)]
)
def test_what_a_receiver_is_sent_is_given_by_options(monkeypatch, tmp_path, options, conditions):
    given = []

    def note(command, asked, progress):
        given.append(asked)
        raise RefusalError("it is noted")

    monkeypatch.setattr(client_check, "check_client", note)
    body = tmp_path / "body.json"
    body.write_text(ORDER["body"])
    command = ["--body", body, "--properties", '{"kind": "a", "n": 2}', *options, "--", "x"]
    assert status_of("check-client", *command) == 2
    assert given == [Conditions(**conditions)]


@pytest.mark.slow
@pytest.mark.parametrize(("does", "words"), DOES.items())
def test_what_a_receiver_does_with_a_message_is_said_as_it_is(cards, does, words):
    said = dict(cards[does].result().lines())["does it settle"]
    assert said.startswith(words) and "wait" not in said


CASES = ("free", "stopped", "resumed", "limit", "released", "deleted")


def of_runs(sent, accepted=10, end="waits", pause="waits", total=6_000, depth=11, stored=11, **more):
    """The card of a sender of which every run was this one."""
    before = Figures(11, accepted, stored=depth, depth=depth, messages=11, arrived=11)
    after = Figures(sent, accepted, stored=stored, depth=depth, messages=sent, arrived=stored)
    runs = {case: ClientRun(case, before, after, min(accepted, 1), pause, end=end, **more) for case in CASES}
    return dict(ClientCard(("send",), "sender", Conditions(), total, False, runs).lines())


RESUME, LIMIT, DELETED = "after resume", "limit 30, without", "queue deleted"
WITH = "limit 30, with flow control"
MORE = {"sent": 12, "stored": 12}
LOST = {"sent": 60, "stored": 30, "depth": 30}
# A client that closes at once leaves a part of what it wrote behind, each time another.
DIFFERS = {**LOST, "sent": 4_885, "accepted": 0, "total": 4_058, "status": 0}
SAID = "link closed: amqp:resource-deleted"
OFFLINE = {"is_connected": False, "reaction": "x\namqp:resource-deleted\nI retry"}


@pytest.mark.parametrize(
    ("given", "case", "words"),
    [
        ({**MORE, "idle": 4.0}, RESUME, "does not go on: 1 more, then it waits, for 4 s"),
        ({**MORE, "status": 0}, RESUME, "does not go on: 1 more, then it ends with status 0"),
        (
            {**MORE, "end": "still sends"},
            RESUME,
            "cannot tell: it still sent after 60 s; a --timeout above 60 tells",
        ),
        ({**MORE, "pause": "still sends"}, RESUME, "was not still within 30 s, and does not send all"),
        (
            {**MORE, "pause": "still sends"},
            LIMIT,
            "11 on the queue; cannot tell: not at the limit after 30 s",
        ),
        ({"sent": 6_000, "stored": 6_000}, RESUME, "goes on: sends the others, 6,000 in all"),
        (
            {**LOST, "idle": 20.0},
            LIMIT,
            "30 on the queue; loses 30 of 6,000 without a word, none sent again within 20 s",
        ),
        (MORE, LIMIT, "11 on the queue; loses nothing; 5,988 of 6,000 not sent, nothing for 0 s"),
        (
            {**LOST, "end": "still sends", "is_told_apart": False},
            LIMIT,
            "30 on the queue (its messages are alike: counted only); loses 30 of 6,000 without a word, none "
            "sent again so far",
        ),
        (
            {"sent": 6_010, "stored": 5_990, "is_told_apart": False},
            LIMIT,
            "11 on the queue; cannot tell: a message that is sent again looks like a new one",
        ),
        (DIFFERS, WITH, "30 on the queue; goes on; loses all others without a word"),
        (
            {**DIFFERS, "is_told_apart": False},
            WITH,
            "30 on the queue; goes on; loses all others without a word",
        ),
        ({**DIFFERS, "pause": "ended"}, RESUME, "had nothing left to send"),
        ({**DIFFERS, "pause": "ended"}, DELETED, "had ended before, with status 0"),
        (
            {**DIFFERS, "total": 4_885},
            WITH,
            "30 on the queue; goes on; loses 4,855 of 4,885 without a word",
        ),
        ({**LOST, "status": 0}, LIMIT, "30 on the queue; loses 30 of 6,000, and ends {0} after 60 {1}"),
        ({"sent": 11, "status": 0, "pause": "ended"}, DELETED, "had ended before, {0} after 11 {1}"),
        (
            {"sent": 11, "total": 11},
            DELETED,
            "had nothing left to send; is still there, and has said nothing",
        ),
        ({"sent": 11}, DELETED, "is still there, and has said nothing"),
        (
            {"sent": 20, "status": 3, "output": SAID},
            DELETED,
            f"ends with status 3, 11 of 6,000 messages sent before, and says {SAID!r}",
        ),
        (
            {"sent": 11, **OFFLINE},
            DELETED,
            "says 'amqp:resource-deleted', and is still there, without a connection",
        ),
        ({"sent": 13}, DELETED, "goes on: sends more, to no queue, within 60 s"),
    ],
)
def test_sentences_say_how_a_run_ended(given, case, words):
    often = ("with status 0", "of 6,000 messages without a word")
    assert of_runs(**given)[case] == words.format(*often)


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        (
            Settling(10, False, 0, 400, 400, waited=8.0),
            None,
            "cannot tell: nothing was settled within 8 s; a --timeout above 60 tells",
        ),
        (
            Settling(10, False, 0, 400, 400, waited=60.0),
            None,
            "no: none is settled within 60 s",
        ),
        (
            Settling(10, False, 0, 11, 10, undelivered=1, waited=60.0),
            None,
            "no: 10 wait, none is settled within 60 s",
        ),
        (
            Settling(20, False, 4, 7, 3, links=2, waited=9.0),
            None,
            "yes, in batches of 4 on each link; fewer are not settled within 9 s",
        ),
        (Settling(10, False, 1, 9, 0, alone=1.5), None, "yes, one at a time, within 1.5 s"),
        (
            Settling(1, False, 1, 2, 0, undelivered=1, waited=9.0),
            None,
            "yes, one at a time; gives no more credit within 9 s",
        ),
        (Settling(0, False, 0, 1, 0), None, "no: it gives no credit"),
        (Settling(10, False, 0, 1, 0), None, "not known: its link is gone after 1 message"),
        (Settling(10, False, 0, 9, 5, released=7), None, "no: releases its messages"),
        (Settling(10, True, 0, 9, 0, is_browser=True), None, "no: it only browses"),
        (Settling(10, False, 0, 9, 0), 0, "no: ends with status 0 after 9 messages"),
        (Settling(10, False, 0, 1, 0), 1, "not known: dies with status 1 after 1 message"),
        (Settling(10, False, 3, 3, 0), 1, "yes, in batches of 3; dies with status 1 after 3 messages"),
        (Settling(10, False, 1, 1, 0, rejected=1), None, "yes: rejects 1 of 1"),
    ],
)
def test_sentences_say_what_a_receiver_did(given, status, words):
    seen = Figures()
    runs = {case: ClientRun(case, seen, seen, status=status) for case in ("free", "deleted")}
    card = ClientCard(("read",), "receiver", Conditions(), 6_000, False, runs, given)
    assert dict(card.lines())["does it settle"] == words
    told = None if words.startswith("cannot tell") else words.startswith("yes") and status is None
    assert card.fact("settles") is told


@pytest.mark.parametrize(
    ("why", "given"), [("releases them all", {"released": 7}), ("only browses", {"is_browser": True})]
)
def test_a_receiver_that_leaves_all_on_the_queue_holds_a_sender_up(why, given):
    still = Figures()
    settling = Settling(10, False, 0, 9, 5, is_locked=True, delivered_locked=900, **given)
    runs = {case: ClientRun(case, still, still) for case in ("free", "locked", "deleted")}
    card = ClientCard(("read",), "receiver", Conditions(), 6_000, False, runs, settling)
    words = f"no message leaves the queue, as it {why}: a sender waits for ever"
    assert dict(card.lines())["locked with a sender"] == words
    assert (card.fact("never-locks"), card.doubt("never-locks")) == (False, "")


def test_a_program_without_end_that_is_never_still_cannot_be_resumed():
    many = Figures(4_100, 11, 0, 4_089, stored=11, depth=11, messages=4_100, arrived=11)
    runs = {case: ClientRun(case, many, many, 0, "still sends") for case in CASES}
    card = ClientCard(("send",), "sender", Conditions(brake="reject"), 4_100, True, runs)
    assert dict(card.lines())[RESUME] == "cannot tell: it has no end, and was never still"
    assert card.fact("goes-on") is None


def test_a_number_that_is_another_in_each_run_is_in_the_head_only():
    """As a client that settles its own messages has, and that closes before all is written."""

    def run(case, sent, depth):
        figures = Figures(sent, stored=depth, depth=depth, messages=sent, arrived=depth)
        return ClientRun(case, figures, figures, pause="ended", status=0, end="ended")

    sent = dict(zip(CASES, (4_345, 4_256, 4_448, 4_300, 4_152, 4_060), strict=True))
    runs = {case: run(case, n, 30 if case in ("limit", "released") else n) for case, n in sent.items()}
    card = ClientCard(("send",), "sender", Conditions(), 4_345, False, runs)
    head = "a sender, which sends 4,060 to 4,448 messages (6,000 were asked for), another number in each run;"
    assert head in str(card)
    loses = "30 on the queue; goes on; loses all others without a word"
    assert dict(card.lines()) == {
        "does it stop": "no: all that it sends is on the queue",
        "its window": "none: it waits for no outcomes",
        RESUME: "had nothing left to send",
        WITH: loses,
        LIMIT: loses,
        DELETED: "had ended before, with status 0",
    }
    assert {card.count_unsent(case) for case in CASES} == {0}
    assert [card.fact(name) for name in ("stops", "goes-on", "loses-nothing")] == [False, True, False]


def test_a_receiver_that_dies_beside_a_sender_settles_with_that_said():
    still = Figures()
    runs = {case: ClientRun(case, still, still) for case in ("free", "deleted")}
    runs["locked"] = ClientRun("locked", still, still, status=7, output="poison")
    card = ClientCard(("read",), "receiver", Conditions(), 6_000, False, runs, Settling(10, False, 1, 3, 0))
    words = "yes, one at a time; dies with status 7 beside a sender, and says 'poison'"
    assert (dict(card.lines())["does it settle"], card.fact("settles")) == (words, False)


def test_a_limit_that_was_not_reached_proves_nothing():
    below = Figures(11, 11, stored=11, depth=11, messages=11, arrived=11)
    runs = {case: ClientRun(case, below, below, 1, "still sends", end="still sends") for case in CASES}
    card = ClientCard(("send",), "sender", Conditions(), 11, False, runs, is_whole=False)
    assert card.fact("loses-nothing") is None
    assert card.doubt("loses-nothing").startswith("it was not at the limit after 30 s; a --timeout above 60")


def test_one_of_alike_messages_that_never_end_is_not_taken_for_a_resent_one():
    more = Figures(400, 100, 300, stored=100, depth=30, messages=300, arrived=100)
    runs = {case: ClientRun(case, more, more, 20, is_told_apart=False) for case in CASES}
    card = ClientCard(("send",), "sender", Conditions(), 300, True, runs)
    assert "resends" not in str(card)
    assert "some released" in dict(card.lines())[LIMIT]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "no program was given"),
        (("--", "no-such-program"), "'no-such-program' cannot be run: No such file or directory"),
        (("--require", "brakes", "--", "x"), "'brakes' is not one of stops, goes-on, loses-nothing"),
        (("--stop", "0", "--", "x"), "must be a whole number from 1 to 2147483647, got '0'"),
        (("--still", "nan", "--", "x"), "must be a number of seconds above 0, got 'nan'"),
        (("--resume", "11", "--", "x"), "resume <= stop < limit must hold, got resume 11, stop 10, limit 30"),
        (("--messages", "30", "--", "x"), "30 messages are too few to reach the limit of 30"),
        (("--queue", "", "--", "x"), "name"),
        (("--body", "no-such-file", "--", "x"), "no-such-file: No such file or directory"),
        (("--properties", "[1]", "--", "x"), "must be a JSON object of strings, numbers, true and false"),
        (("--brake", "silence,hope", "--", "x"), "'hope' is not one of silence, credit, reject"),
        (("--traces", "folder", "--", "x"), "--traces requires --faults"),
    ],
)
def test_bad_commands_give_a_sentence(capsys, words, sentence):
    assert sentence in refusal(capsys, "check-client", *words)


def test_a_program_that_never_uses_the_queue_is_refused_with_its_output(capsys, tmp_path):
    text = "print('no broker for me', flush=True)"
    assert status_of("check-client", "--", *script(tmp_path, text)) == 2
    error = capsys.readouterr().err
    assert "ended with status 0, and neither sent to the queue 'orders'" in error
    assert "no broker for me" in error
    text = f"import time; {text}; time.sleep(60)"
    assert status_of("check-client", "--timeout", 3, "--json", "--", *script(tmp_path, text)) == 2
    found = json.loads(capsys.readouterr().out)
    assert "ran for 3 s, and neither" in found["error"] and "it never connected; a larger" in found["error"]
    assert found["output"] == "no broker for me"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--json", "--limit", "x", "--", "x"), "must be a whole number from 1 to 2147483647, got 'x'"),
        (("--json", "--require", "all", "--", "x"), "'all' is not one of stops, goes-on"),
        (("--json", "--limits=3"), "unknown argument '--limits=3'"),
        (("--limit", "x", "--", "x", "--json"), None),
    ],
)
def test_arguments_that_cannot_be_read_give_an_object_with_json(capsys, words, sentence):
    """The program's own options are not the command's."""
    printed = output_of(capsys, "check-client", *words, status=2)
    assert sentence in json.loads(printed)["error"] if sentence else not printed


def test_a_client_that_sends_too_little_is_refused():
    with pytest.raises(ClientFailedError, match="the program sent 12 messages, too few to reach the limit"):
        check_client(sample("proton_window", AMQP_MESSAGES=12), QUICK)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("required", "status", "sentence"),
    [
        ("goes-on,loses-nothing", 1, "required, and does not hold: loses-nothing"),
        ("stops,settles", 2, "must name facts of a sender, stops, goes-on, loses-nothing; got settles"),
    ],
)
def test_what_is_required_and_not_so_or_of_the_other_role_is_the_status(
    monkeypatch, capsys, cards, required, status, sentence
):
    card = cards["proton_presettled"].result()
    monkeypatch.setattr(client_check, "check_client", lambda command, conditions, progress: card)
    assert status_of("check-client", "--json", "--require", required, "--", "x") == status
    got = capsys.readouterr()
    found = json.loads(got.out)
    assert sentence in got.err and found.get("error", sentence).endswith(sentence)
    assert found["facts"] == facts(False, True, False)


@pytest.mark.slow
@pytest.mark.parametrize(("required", "status"), [("stops", 2), ("stops,loses-nothing", 1), ("goes-on", 0)])
def test_a_required_fact_that_could_not_be_told_is_status_2(monkeypatch, capsys, cards, required, status):
    card = cards["proton_credit"].result()
    monkeypatch.setattr(client_check, "check_client", lambda command, conditions, progress: card)
    assert status_of("check-client", "--require", required, "--", "x") == status
    error = capsys.readouterr().err
    told = "required, and cannot tell: stops (silence): with 300 messages a window above 289 is not seen"
    assert (told in error) is ("stops" in required)


ASKS_ELSEWHERE = """
    import os, sys
    from proton import Message
    from proton.utils import BlockingConnection

    connection = BlockingConnection(os.environ["AMQP_URL"], timeout=5)
    for node in sys.argv[1:]:
        try:
            connection.create_sender(node).send(Message(body="x"))
        except Exception:
            pass
"""


def test_a_program_that_asks_for_another_node_is_told_which_and_the_answer(tmp_path):
    with pytest.raises(ClientFailedError) as failure:
        check_client([*script(tmp_path, ASKS_ELSEWHERE), "Orders", "amq.fanout"], QUICK)
    told = str(failure.value)
    assert "it asked for 'Orders' as a sender and was told 'amqp:not-found: Node not found: Orders'" in told
    assert "it asked for 'amq.fanout' as a sender; it sent 1 messages to 'amq.fanout'" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_client_and_what_it_has_started(tmp_path, number):
    pids = tmp_path / "pids"
    command = script(
        tmp_path,
        f"""
        import os, subprocess, sys, time
        sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
        child = subprocess.Popen(sleep)
        daemon = subprocess.Popen(sleep, start_new_session=True)
        open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{child.pid}} {{daemon.pid}}.")
        time.sleep(600)
        """,
    )
    bench = subprocess.Popen(
        [sys.executable, "-m", "qflow", "check-client", "--", *command], stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: pids.exists() and pids.read_text().endswith("."), "both run")
    bench.send_signal(number)
    error = bench.communicate(timeout=30)[1]
    assert bench.returncode == 130
    assert error == "qflow: interrupted\n"
    started = pids.read_text().rstrip(".").split()
    # Only Linux shows which processes in other sessions are the program's.
    for pid in map(int, started if sys.platform == "linux" else started[:2]):
        wait_until(lambda pid=pid: not is_running(pid), "it has ended")


def is_running(pid):
    """Whether a process is there and has not ended; what waits for its parent has ended."""
    asked = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return asked.stdout.strip()[:1] not in ("", "Z")


FIXTURE_TEST = """
    import sys
    import pytest
    from qflow.kit import RefusalError

    def test_a_broker(qflow_broker):
        from proton import Message
        from proton.utils import BlockingConnection

        broker = qflow_broker("orders --flow-stop-count=10")
        connection = BlockingConnection(broker.url)
        connection.create_sender("orders").send(Message(body="one"))
        assert broker.broker.queue("orders").message_depth == 1

    def test_a_check(qflow_broker):
        with pytest.raises(RefusalError, match="cannot be run"):
            qflow_broker.check(["no-such-program"], still=0.5)
"""


def test_the_fixture_gives_a_broker_and_the_bench(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    path = tmp_path / "test_ours.py"
    path.write_text(textwrap.dedent(FIXTURE_TEST))
    options = ["-p", "qflow.live.pytest_broker", "-p", "no:cacheprovider", "-q", f"--rootdir={tmp_path}"]
    assert pytest.main([*options, str(path)]) == 0
    assert "2 passed" in capsys.readouterr().out


def test_pytest_finds_the_fixture_by_itself_where_qflow_is_installed(root):
    import tomllib

    points = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    assert points["qflow.live.pytest_broker"] == "qflow.live.pytest_broker"
