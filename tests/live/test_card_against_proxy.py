"""The check of the checks: each statement of a card beside the count of a proxy that stood in between."""

import json
import re
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("proton")

from checked_programs import PROGRAMS
from client_programs import client_command
from stranger_programs import RECEIVERS as STRANGE_RECEIVERS
from stranger_programs import SENDERS as STRANGE_SENDERS

from qflow.live import Conditions, check_client, check_faults
from qflow.live.brakes import BRAKES
from qflow.live.client_faults import FAULTS

HERE = Path(__file__).parent
GIVEN = Conditions(messages=200, still=0.5, timeout=8.0)
PATIENT = GIVEN._replace(timeout=20.0)
CASES = ("free", "stopped", "resumed", "limit", "released", "deleted")
REFUSED = ("released", "rejected", "modified")
SENDERS = [name for name in PROGRAMS if not name.startswith(("receives", "settles", "prefetch"))]
RECEIVERS = [name for name in PROGRAMS if name not in SENDERS]
TRANSACTIONAL = ("transactions", "rolls back")
# A program that opens a connection for each message is too slow for so short a run.
PATIENT_SENDERS = [name for name in SENDERS if name != "a connection each"]
# Its own time-outs, of a second each, end it before or after the bench acts, as the machine is quick or slow.
OF_THE_CLOCK = ["tries four times"]
EVERY = [*PATIENT_SENDERS, *RECEIVERS, *STRANGE_SENDERS, *STRANGE_RECEIVERS]
OF_THE_LOAD = [name for name in EVERY if name not in OF_THE_CLOCK]
QUICK = ["one by one", "two connections", "window 20", "resends later", "dies", "bursts"]
QUICK_RECEIVERS = ["receives on two links", "receives by time", "prefetch 1"]
OF_NODE = ["rhea_sender.js credit", "rhea_sender.js window", "rhea_promise_sender.js one", "rhea_cured.js"]
OF_NODE += ["rhea_promise_cured.js", "amqp10_cured.js"]


def proxied(folder, name):
    """Return how to run a program behind the proxy, which counts into a folder."""
    program = [sys.executable, str(HERE / "stranger_programs.py"), name]
    if ".js" in name:
        program = client_command(*name.split())
    return [sys.executable, str(HERE / "counting_proxy.py"), str(folder), "--", *program]


def counts(folder):
    """Return the proxy's counts, run by run."""
    runs = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    are_alike = {one["body"] for one in runs[0]["transfers"]} == {repr("tick")} if runs else False
    for run in runs if are_alike else ():
        # This program sends nothing again, so each transfer is a message of its own.
        for number, one in enumerate(run["transfers"]):
            one["body"] = number
    return [Counted(run) for run in runs]


class Counted:
    """The proxy's count of one run: of the queue under test, and of the others."""

    def __init__(self, found):
        every = found["transfers"]
        self.here = [one for one in every if one["node"] == "orders"]
        self.others = Counter(one["node"] for one in every if one["node"] not in ("orders", "coordinator"))
        self.delivered, self.settled = found["delivered"], sum(found["settled"])
        self.sent = len(self.here)
        self.bodies = {one["body"] for one in self.here}
        self.outcomes = Counter(one["outcome"] for one in self.here)
        self.refused = sum(self.outcomes[word] for word in REFUSED)
        # A withheld outcome is that of a stored message, a settled one has none.
        self.open = sum(not one["outcome"] and not one["settled"] for one in self.here)
        came = {one["body"] for one in self.here if one["outcome"] not in REFUSED}
        told = {one["body"] for one in self.here if one["outcome"]}
        self.lost = len(self.bodies - came)
        self.links = len({one["connection"] for one in self.here})
        self.is_presettled = all(one["settled"] for one in self.here)
        # Without an outcome it is not known what became of these.
        self.unknown = len({one["body"] for one in self.here if one["settled"]} - told)


def number(pattern, words):
    found = re.search(pattern, words)
    return found and int(found[1].replace(",", ""))


def compare_sender(card, runs, brake, is_transactional):
    """Compare each number and each claim of a sender's card with the proxy's counts."""
    words, seen = dict(card.lines()), dict(zip(CASES, runs, strict=True))
    free, stopped = seen["free"], seen["stopped"]
    total = len(free.bodies)
    if card.is_endless:
        return
    if not card.is_whole:
        # Ended in the middle: one message for each link may be on its way.
        assert card.total <= total and "not ended" in str(card)
        return
    assert card.total == total
    if others := words.get("also sends to"):
        assert number(r": ([\d,]+)", others) == free.others.total()
    else:
        assert not free.others
    told = words["does it stop"]
    # Stored are those that were accepted, and those whose outcome is withheld; without one under another
    # brake was on its way when the bench ended the program.
    stored = stopped.sent - stopped.refused
    if brake != "silence" and "resends" in told:
        stored = stopped.outcomes["accepted"]
    least_stored = stored - stopped.unknown
    if is_transactional:
        # What is rolled back is sent again, and an open transaction has nothing on the queue yet.
        stored = len(stopped.bodies) - stopped.lost
        least_stored = stored - number(r"of up to ([\d,]+) messages", words["its window"])
    if (least := number(r"more than ([\d,]+) on the queue", told)) is not None:
        assert least < stored
    elif (depth := number(r"([\d,]+) on the queue", told)) is not None:
        # What the sender settles may be refused in silence.
        assert least_stored <= depth <= stored
        if (past := number(r"([\d,]+) past the stop", told)) is not None:
            assert past == depth - card.given.stop
    if (rejected := number(r"([\d,]+) rejected", told)) is not None:
        assert rejected == stopped.refused
    if told.startswith("yes"):
        assert len(stopped.bodies) < total
    if told.startswith("no") and "ends with status" not in told and "resends" not in told:
        assert len(stopped.bodies) == total or card.varies or "others go to" in told
    if (window := number(r"^([\d,]+) without", words["its window"])) is not None:
        assert window == stopped.open
    if words["its window"].startswith("none: it waits"):
        assert free.is_presettled
    if "waits for each commit" in words["its window"]:
        assert is_transactional
    told = words["after resume"]
    if told.startswith("goes on: sends the others") and " in all" not in told:
        assert card.varies or "others go to" in told
    elif told.startswith("goes on: sends the others"):
        assert len(seen["resumed"].bodies) == total == number(r"([\d,]+) in all", told)
    elif told.startswith("had nothing left"):
        assert len(seen["resumed"].bodies) == total or card.varies or "others go to" in told
    for line, run in zip(("does it stop", "after resume"), (stopped, seen["resumed"]), strict=True):
        if "others go to" in words[line]:
            assert run.others.total() >= total - len(run.bodies) > 0
    for case in ("limit", "released"):
        compare_limit(words[card.subject(case)], seen[case], card, case, is_transactional)
    told = words["queue deleted"]
    if (before := number(r"([\d,]+) of [\d,]+ messages sent before", told)) is not None:
        assert before <= len(seen["deleted"].bodies)
    if "messages sent before" not in told and "had ended before" not in told and "cannot" not in told:
        assert "nothing left" not in told or len(seen["deleted"].bodies) == total


def compare_limit(told, run, card, case, is_transactional):
    total = card.total
    if "its links together" in told:
        return
    if "others go to" in told:
        # What the queue refused, and nobody sent to another node, would be lost.
        assert run.others and run.lost <= run.others.total()
        return
    if (refused := number(r"([\d,]+) (?:released|rejected)", told)) is not None:
        assert refused == run.refused
    if is_transactional or run.is_presettled:
        # The proxy sees no outcome that says whether these came onto the queue.
        if run.is_presettled and (lost := number(r"loses ([\d,]+)", told)) is not None:
            assert lost == total - most_stored(card, case)
        elif "loses all others" in told:
            assert card.varies and card.runs[case].before.depth == most_stored(card, case)
        elif run.is_presettled:
            assert told.startswith("never at the limit") and card.given.brake == "credit"
        return
    lost = number(r"loses ([\d,]+) of", told)
    if lost is not None and run.unknown:
        assert run.lost <= lost == card.count_lost(case) <= run.lost + run.unknown
    elif lost is not None:
        assert lost == run.lost == card.count_lost(case)
    elif "loses messages" in told:
        assert run.lost == card.count_lost(case) > 0
    elif "dies" not in told and "cannot tell" not in told:
        assert run.lost == card.count_lost(case) == 0
    if "all arrive" in told:
        assert (len(run.bodies), run.lost) == (total, 0)
    if "resends" in told or "sends some again" in told:
        assert run.sent > len(run.bodies)
    if (after := number(r"after ([\d,]+) of [\d,]+ messages", told)) is not None:
        assert after == len(run.bodies)
    if (unsent := card.count_unsent(case)) or "before all were sent" in told:
        assert total - len(run.bodies) >= max(unsent, 1)


def most_stored(card, case):
    """Return how many messages come onto the queue, of a program that settles its own."""
    return card.given.limit if card.given.brake != "reject" or case == "released" else card.given.stop + 1


def compare_receiver(card, runs):
    words = dict(card.lines())
    free, locked = runs[0], runs[1]
    settling = card.settling
    if settling.is_presettled:
        assert words["does it settle"].startswith("has no need to")
        assert (free.settled, free.delivered) == (0, settling.fed)
        return
    if words["locked with a sender"].startswith("no message leaves"):
        # What it releases comes again at once, and some is always on its way.
        assert settling.is_browser or free.settled > settling.fed
        return
    assert free.delivered - free.settled == settling.unsettled
    if (kept := number(r"([\d,]+) of [\d,]+ not settled", words["does it settle"])) is not None:
        assert kept == free.delivered - free.settled
    if "releases some" in words["does it settle"]:
        assert free.settled > settling.fed
    if words["does it settle"].startswith("yes"):
        assert free.settled > 0
    if (batch := number(r"in batches of ([\d,]+)", words["does it settle"])) is not None:
        assert free.settled % batch == 0
    told = words["locked with a sender"]
    if told.startswith("yes"):
        assert number(r"([\d,]+) delivered", told) == locked.delivered
        assert number(r"([\d,]+) of them not settled", told) == locked.delivered - locked.settled
    if told.startswith(("no,", "not with")):
        assert locked.settled > 0


def check(name, brake, folder, given=GIVEN):
    """Check a program, and compare its card with what the proxy counted."""
    folder.mkdir()
    card = check_client(proxied(folder, name), given._replace(brake=brake))
    runs = counts(folder)
    if card.role == "sender":
        compare_sender(card, runs, brake, name in TRANSACTIONAL)
    else:
        compare_receiver(card, runs)
    return card


def cards(names, brake, folder, workers=3, given=GIVEN):
    """Check programs side by side, as they mostly wait."""
    places = {name: folder / f"{number}-{brake}" for number, name in enumerate(names)}
    with ThreadPoolExecutor(workers) as pool:
        made = {name: pool.submit(check, name, brake, places[name], given) for name in names}
    return {name: card.result() for name, card in made.items()}


EXPECTED = {
    "one by one": (True, True, True),
    "two connections": (True, True, False),
    "window 20": (True, True, False),
    "resends later": (True, True, True),
    "dies": (True, True, True),
    "bursts": (None, True, False),
}


@pytest.mark.slow
def test_each_statement_of_a_card_is_what_the_proxy_counted(tmp_path):
    made = cards(QUICK, "silence", tmp_path)
    for name, card in made.items():
        told = tuple(card.fact(fact) for fact in ("stops", "goes-on", "loses-nothing"))
        assert (name, told) == (name, EXPECTED[name])


@pytest.mark.slow
def test_each_statement_of_a_receivers_card_is_what_the_proxy_counted(tmp_path):
    made = cards(QUICK_RECEIVERS, "silence", tmp_path)
    assert {name: card.fact("never-locks") for name, card in made.items()} == {
        "receives on two links": False,
        "receives by time": True,
        "prefetch 1": False,
    }
    assert {name: card.fact("settles") for name, card in made.items()} == dict.fromkeys(made, True)


@pytest.mark.slow
def test_losses_under_faults_are_what_the_proxy_counted(tmp_path):
    compare_faults("two connections", tmp_path / "two")


def compare_faults(name, folder):
    folder.mkdir()
    found = check_faults(proxied(folder, name), GIVEN._replace(messages=90))
    free, *runs = counts(folder)
    for ledger, run in zip(found, runs, strict=True):
        told = {one["body"] for one in run.here if one["outcome"] == "accepted"}
        repeated = run.sent - len(run.bodies)
        assert ledger.messages == len(free.bodies) or ledger.varies
        # What was on its way when the connection was lost may have come or not.
        came = ledger.messages - ledger.missing - ledger.diverted
        assert len(told) <= came <= len(run.bodies) or ledger.varies
        assert ledger.duplicated <= repeated
        # Those that went to another node may have been sent to the queue before.
        assert ledger.diverted <= run.others.total()
        if not ledger.diverted and not ledger.varies:
            compare_unseen(ledger, ledger.messages - len(run.bodies))
        if name == "two connections" and ledger.fault in ("cut", "half open", "refused"):
            assert set(ledger.back) == {None}
    return found


def compare_unseen(ledger, unsent):
    """Compare what a ledger says was not sent with what the proxy has not seen, in numbers and in words."""
    if ledger.fault in ("slow", "recreated") and ledger.status is not None:
        assert ledger.unseen == unsent
    else:
        # With a connection that is lost the proxy's last messages may be, too.
        assert ledger.unseen >= unsent
    words = str(ledger)
    assert (number(r"([\d,]+) of [\d,]+ not sent", words) or 0) == ledger.unseen
    refused = number(r"([\d,]+) of [\d,]+ (?:lost|sent, and)", words) or 0
    assert refused == ledger.missing - ledger.unseen
    assert ledger.lost == (refused if ledger.status == 0 else 0)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("brake", BRAKES)
def test_each_statement_about_twenty_programs_is_what_the_proxy_counted(tmp_path, brake):
    cards([*PATIENT_SENDERS, *(RECEIVERS if brake == "silence" else ())], brake, tmp_path, 6, PATIENT)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("brake", BRAKES)
def test_each_statement_about_stranger_programs_is_what_the_proxy_counted(tmp_path, brake):
    cards([*STRANGE_SENDERS, *(STRANGE_RECEIVERS if brake == "silence" else ())], brake, tmp_path, 6, PATIENT)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", OF_NODE)
def test_each_statement_about_programs_of_node_is_what_the_proxy_counted(tmp_path, name):
    check(name, "silence", tmp_path / "run", PATIENT)


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", [*PATIENT_SENDERS, *STRANGE_SENDERS])
def test_faults_of_more_programs_are_what_the_proxy_counted(tmp_path, name):
    found = compare_faults(name, tmp_path / "run")
    assert [ledger.fault for ledger in found] == list(FAULTS)


def statements(card):
    """Return a card's lines without what rests on the clock, and without the program's own words."""
    lines = [re.sub(r",? (?:and )?says .*", "", text) for _, text in card.lines()]
    timed = (
        r"(nothing more for|none sent again within|nothing for|nothing moved for|within|after|for) [\d.]+ s"
    )
    # A time is named from a second on, so one of a second is named or not.
    lines = [re.sub("(one at a time), within [0-9.]+ s", r"\1", line) for line in lines]
    return [re.sub(timed, r"\1 N s", line) for line in lines]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("name", OF_THE_LOAD)
def test_no_statement_depends_on_the_load_of_five_workers(tmp_path, name):
    alone = statements(check(name, "silence", tmp_path / "alone", PATIENT))
    with ThreadPoolExecutor(5) as pool:
        places = [tmp_path / str(number) for number in range(10)]
        made = [pool.submit(check, name, "silence", place, PATIENT) for place in places]
    for card in made:
        pairs = zip(statements(card.result()), alone, strict=True)
        # On a busy machine time may be over before a program has done all; then the card says so.
        assert [pair for pair in pairs if pair[0] != pair[1] and not any(map(ends_by_time, pair))] == []


def ends_by_time(statement):
    """Return whether a statement says what a program had not done, or still did, when its time was over."""
    words = ("cannot tell", "goes on: sends more", "was not still")
    return " N s" in statement and any(word in statement for word in words)
