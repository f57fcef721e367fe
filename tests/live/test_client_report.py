"""What a build does with a card: a baseline, JUnit, Markdown, several brakes, short runs, TLS."""

import json
import re
import sys
from xml.etree import ElementTree

import pytest

pytest.importorskip("proton")

from client_programs import PROGRAMS
from commands import refusal, status_of

from qflow.kit import RefusalError
from qflow.live import client_check
from qflow.live.client_card import ClientCard, ClientRun, Conditions, Figures
from qflow.live.client_faults import Ledger
from qflow.live.client_report import ClientReport, read_baseline

CASES = ("free", "stopped", "resumed", "limit", "released", "deleted")


def card(window=50, lost=0, pause="waits", brake="silence"):
    """A sender that stops with a window, goes on, and loses so many at the limit without flow control."""
    few = 10 + window
    held = Figures(few, 10, unsettled=window, stored=few, depth=few, messages=few, arrived=few)
    whole = Figures(300, 300, stored=300, depth=few, messages=300, arrived=300)
    came = 300 - lost
    less = Figures(300, came, released=lost, stored=came, depth=30, messages=300, arrived=came)
    after = {
        "free": whole,
        "stopped": held,
        "resumed": whole,
        "limit": whole,
        "released": less,
        "deleted": held,
    }
    runs = {
        case: ClientRun(case, less if case == "released" else held, after[case], window, pause)
        for case in CASES
    }
    return ClientCard(("send",), "sender", Conditions(messages=300, brake=brake), 300, False, runs)


def worse(before, now):
    earlier = json.loads(json.dumps(ClientReport({"silence": before}).as_json()))
    return [(line, words) for _, line, words in ClientReport({"silence": now}).find_worse(earlier)]


def test_what_is_as_it_was_or_better_is_not_worse():
    assert worse(card(), card()) == worse(card(50, lost=7), card(20)) == []


@pytest.mark.parametrize(
    ("now", "line", "words"),
    [
        (card(51), "its window", "was: 50 without an outcome; is: 51 without an outcome"),
        (
            card(lost=7),
            "limit 30, without",
            "was: 30 on the queue; loses nothing; "
            "is: 30 on the queue, 7 released; goes on; loses 7 of 300 without a word, none sent again within "
            "0 s",
        ),
        (
            card(pause="still sends"),
            "does it stop",
            "was: yes: 60 on the queue, 50 past the stop; nothing more for 0 s; "
            "is: no: 60 on the queue, 50 past the stop, and it still sends after 60 s",
        ),
    ],
)
def test_what_got_worse_is_said_by_the_line_and_the_words_of_both(now, line, words):
    assert (line, words) in worse(card(), now)


def test_a_baseline_of_another_role_or_brake_is_refused():
    report = ClientReport({"credit": card(brake="credit")})
    with pytest.raises(RefusalError, match="the baseline has no card under the brake credit"):
        report.find_worse({"brakes": {"silence": card().as_json()}})
    with pytest.raises(RefusalError, match="no sender"):
        ClientReport({"silence": card()}).find_worse({**card().as_json(), "role": "receiver"})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"facts": None}, "the baseline lacks facts, or they are malformed"),
        ({"lost": {"limit": "many"}}, "the baseline lacks lost, or"),
        ({"card": []}, "the baseline lacks card, or"),
        ({"client_window": "large"}, "lacks client_window"),
        ({"stop": 20, "timeout": 5.0}, r"under other conditions: stop 20 \(now 10\), timeout 5 \(now 60\)"),
        ({"messages": 6000}, r"under other conditions: messages 6000 \(now 300\)"),
        ({"brakes": []}, "the baseline has no card under the brake silence"),
        ({"brakes": {"silence": 5}}, "the baseline has no card under the brake silence"),
    ],
)
def test_a_baseline_that_is_malformed_or_of_other_conditions_is_refused(change, words):
    baseline = json.loads(json.dumps(card().as_json())) | change
    with pytest.raises(RefusalError, match=words):
        ClientReport({"silence": card()}).find_worse(baseline)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "is not JSON"), ("[]", "is not a report of qflow"), ('{"a": 1}', "is not a report of qflow")],
)
def test_a_baseline_that_is_none_is_refused_before_anything_is_measured(tmp_path, capsys, text, words):
    path = tmp_path / "card.json"
    path.write_text(text)
    with pytest.raises(RefusalError, match=words):
        read_baseline(path)
    assert words in refusal(capsys, "check-client", "--baseline", path, "--", "no-such-program")
    missing = tmp_path / "none.json"
    assert "No such file" in refusal(capsys, "check-client", "--baseline", missing, "--", "no-such-program")


def test_junit_fails_the_lines_that_miss_a_fact_or_got_worse():
    report = ClientReport({"silence": card(lost=7), "credit": card(brake="credit")})
    found = ElementTree.fromstring(
        report.as_junit(["loses-nothing"], [("credit", "after resume", "was: goes on; is: does not")])
    )
    cases = {(case.get("classname"), case.get("name")): case for case in found}
    assert (found.get("tests"), found.get("failures"), len(cases)) == ("12", "2", 12)
    failed = {key: case.find("failure").get("message") for key, case in cases.items() if len(case) > 1}
    assert failed == {
        (
            "check-client.silence",
            "limit 30, without",
        ): "loses-nothing is required; 30 on the queue, 7 released; "
        "goes on; loses 7 of 300 without a word, none sent again within 0 s",
        ("check-client.credit", "after resume"): "was: goes on; is: does not",
    }


def test_markdown_is_a_table_with_a_column_for_each_brake():
    ledger = Ledger("cut", 300, 310, 0, 0, 10, 0, (100, 200), (0.1, None), 0, "")
    report = ClientReport({"silence": card(), "reject": card(brake="reject")}, (ledger,))
    lines = report.as_markdown([("reject", "its window", "was: a; is: b")]).splitlines()
    assert lines[0] == "**`send`**"
    assert lines[2:4] == ["|  | silence | reject |", "| --- | --- | --- |"]
    assert len({line.count(" | ") for line in lines[2:10]}) == 1
    assert "| cut | nothing lost, 10 duplicated; back after 0.1 s, never |" in lines
    assert lines[-1] == "**worse, its window** (reject): was: a; is: b"


def test_brakes_stand_side_by_side():
    text = str(ClientReport({"silence": card(), "credit": card(brake="credit")}))
    assert "does it stop                 yes: 60 on the queue, 50 past the" in text
    assert "stop; nothing more for 0 s" in text
    assert max(len(line) for line in text.splitlines()) <= 110


def test_a_build_keeps_a_card_and_fails_where_it_got_worse(monkeypatch, tmp_path, capsys):
    made = [card(), card(lost=7)]
    monkeypatch.setattr(client_check, "check_client", lambda *given, progress: made.pop(0))
    assert status_of("check-client", "--json", "--", "send") == 0
    baseline = tmp_path / "card.json"
    baseline.write_text(capsys.readouterr().out)
    junit, page = tmp_path / "junit.xml", tmp_path / "card.md"
    reports = ["--baseline", baseline, "--junit", junit, "--markdown", page]
    assert status_of("check-client", "--messages", 300, *reports, "--", "send") == 1
    errors = capsys.readouterr().err
    assert (
        "worse than the baseline, limit 30, without (silence): was: 30 on the queue; loses nothing; "
        in errors
    )
    assert int(ElementTree.parse(junit).getroot().get("failures")) >= 1
    assert "**worse, limit 30, without** (silence)" in page.read_text()


def test_with_tls_a_program_is_told_of_its_authority(capsys):
    words = "import os; print(os.environ['AMQP_URL'], os.path.exists(os.environ['AMQP_CA']))"
    assert status_of("check-client", "--tls", "--", sys.executable, "-c", words) == 2
    assert re.search(r"amqps://localhost:\d+ True$", capsys.readouterr().err, re.MULTILINE)


def test_who_has_not_begun_in_time_is_not_judged():
    """A program whose start took longer than the bench waited was said not to stop."""
    runs = card().runs | {
        case: ClientRun(case, Figures(), Figures(), pause="still sends", end="still sends")
        for case in CASES[1:]
    }
    late = ClientCard(("send",), "sender", Conditions(messages=300, timeout=5.0), 300, False, runs)
    assert {fact: late.fact(fact) for fact in ("stops", "goes-on", "loses-nothing")} == {
        "stops": None,
        "goes-on": None,
        "loses-nothing": None,
    }
    for line, words in late.lines():
        assert "had sent nothing" in words and "not seen" in words or "cannot tell" in words, line


STARTS_SLOWLY = """
import os, pathlib, sys, time
from proton import Message
from proton.utils import BlockingConnection

seen = pathlib.Path(sys.argv[1])
time.sleep(float(sys.argv[3 if seen.exists() else 2]))
seen.touch()
connection = BlockingConnection(os.environ["AMQP_URL"], timeout=None)
sender = connection.create_sender(os.environ["AMQP_QUEUE"])
for number in range(int(os.environ["AMQP_MESSAGES"])):
    sender.send(Message(body=f"order {number}"))
connection.close()
"""


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("first", "later", "status", "told"),
    [(3, 3, 0, "yes: 11 on the queue"), (0, 30, 2, "cannot tell: 0 on the queue")],
)
def test_short_waits_for_a_slow_start_or_cannot_tell(tmp_path, capsys, first, later, status, told):
    program = tmp_path / "slow.py"
    program.write_text(STARTS_SLOWLY)
    command = [sys.executable, str(program), str(tmp_path / "seen"), str(first), str(later)]
    assert status_of("check-client", "--short", "--require", "stops", "--", *command) == status
    assert told in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize(("window", "status"), [(189, 0), (190, 2), (500, 2)])
def test_short_says_that_a_large_window_is_not_seen(capsys, window, status):
    command = ["env", f"WINDOW={window}", sys.executable, str(PROGRAMS / "proton_window.py")]
    assert status_of("check-client", "--short", "--require", "stops", "--", *command) == status
    told = capsys.readouterr().out
    assert ("a window above 189 is not seen; a larger --messages tells" in told) is (status == 2)
