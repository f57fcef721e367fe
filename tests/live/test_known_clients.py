"""The table of clients: its rows, the programs that cure, and the documented programs beside them."""

import re
from concurrent.futures import ThreadPoolExecutor
from time import monotonic

import pytest

pytest.importorskip("proton")

from client_programs import PROGRAMS, client_command

from qflow.live import Conditions, check_client
from qflow.live.certificates import make_certificate
from qflow.live.client_card import client_table, known_clients

# On a busy machine Node alone has taken more than ten seconds to start.
FEW = Conditions(messages=300, still=0.5, timeout=15.0)


def check(program, tmp_path, *manner, **variables):
    """Return the card of a program, of some by TLS; uamqp speaks nothing else."""
    begun = monotonic()
    command = client_command(program, *manner)
    # The time-out is that of connecting, too, and to load a library for Node takes over ten seconds on two
    # cores with a load of 33 (0.3 s when idle): the bench then ended a sender before it had begun.
    given = FEW._replace(timeout=max(FEW.timeout, 5 * (monotonic() - begun)))
    if program.startswith(("uamqp", "proton_window")):
        given = given._replace(certificate=make_certificate(tmp_path))
    return check_client(["env", *(f"{name}={value}" for name, value in variables.items()), *command], given)


others = pytest.mark.release
CURES_OF_PROTON = [
    ("proton_blocking_cured.py", 1),
    ("proton_window_cured.py", 50),
    ("proton_threads_cured.py", 50),
]
CURES = [
    *CURES_OF_PROTON,
    pytest.param("rhea_cured.js", 50, marks=others),
    pytest.param("rhea_promise_cured.js", 1, marks=others),
    pytest.param("rhea_promise_cured.js", 50, marks=others),
    pytest.param("amqp10_cured.js", 1, marks=others),
    pytest.param("amqp10_cured.js", 50, marks=others),
    pytest.param("pyamqp_blocking_cured.py", 1, marks=others),
    pytest.param("pyamqp_async_cured.py", 1, marks=others),
    pytest.param("uamqp_blocking_cured.py", 1, marks=others),
]


@pytest.fixture(scope="module")
def cured(tmp_path_factory):
    """The cards to come of those that are run each time: they mostly wait, so all at once."""
    folder = tmp_path_factory.mktemp("certificate")
    with ThreadPoolExecutor() as pool:
        yield {name: pool.submit(check, name, folder, WINDOW=window) for name, window in CURES_OF_PROTON}


@pytest.mark.slow
@pytest.mark.parametrize(("program", "window"), CURES)
def test_a_cured_client_stops_goes_on_and_loses_nothing(cured, tmp_path, program, window):
    # LNK-02, LNK-05.
    card = cured[program].result() if program in cured else check(program, tmp_path, WINDOW=window)
    assert (card.stops, card.goes_on, card.loses_nothing) == (True, True, True)
    assert (card.client_window, card.runs["stopped"].before.depth) == (window, 10 + window)
    # What was released arrives in the end, or the program still tries.
    released = card.runs["released"]
    assert released.after.stored == card.total or released.pause == "sends again and again"
    deleted = card.runs["deleted"]
    assert deleted.has_failed or "amqp:resource-deleted" in deleted.reaction


# Program, manner, on the stopped queue, stored at the limit, whether it loses there, its status silent.
DOCUMENTED = [
    ("rhea_promise_sender.js", "one", 11, 30, True),
    ("rhea_promise_sender.js", "fifty", 60, 30, True),
    ("amqp10_sender.js", "", 300, 30, True),
    ("pyamqp_blocking.py", "", 11, 30, True),
    ("uamqp_blocking.py", "", 11, 30, False),
]


@pytest.mark.slow
@pytest.mark.release
@pytest.mark.parametrize(("program", "manner", "depth", "stored", "loses"), DOCUMENTED)
def test_a_documented_client_does_what_the_table_says(tmp_path, program, manner, depth, stored, loses):
    card = check(program, tmp_path, *manner.split())
    assert card.runs["stopped"].before.depth == depth
    assert card.stops is (depth < 300)
    assert card.runs["released"].after.stored == stored
    assert (card.count_lost("released") > 0) is loses


@pytest.mark.release
def test_more_than_2_048_at_a_time_fail_at_once_in_rhea_promise():
    card = check_client(client_command("rhea_promise_sender.js", "all"), FEW._replace(messages=2_200))
    assert (card.total, card.runs["stopped"].before.depth) == (2_048, 2_048)
    assert card.runs["released"].after.stored == 30
    assert "InsufficientCreditError: 152" in card.runs["free"].output


def test_each_row_of_the_table_is_whole_and_its_programs_are_here():
    rows = known_clients()
    for row in rows:
        assert all([row.library, row.pattern, row.stopped, row.judgement, row.measured, row.cure])
        assert row.wire in ("1.0", "0-10") and row.stops in ("yes", "late", "no", "fails")
        assert row.judgement.endswith(".")
        assert row.cure.startswith("not run here: ") or row.cures
        for path in row.cures:
            assert path.exists()
        if row.sample:
            assert (PROGRAMS / row.sample.split()[0]).exists()
    assert {path.name for row in rows for path in row.cures} | {"proton_threads_cured.py"} == {
        path.name for path in PROGRAMS.iterdir() if "cured" in path.name
    }


def test_a_window_of_w_leaves_stop_and_w_messages_in_the_table_too():
    # LNK-02: S accepted, W without an outcome; over 0-10 the first window is waited for as a whole.
    for row in known_clients():
        windows = [int(number.replace(",", "")) for number in re.findall(r"\b[\d,]*\d\b", row.pattern)]
        if row.stops == "yes" and windows:
            assert int(row.stopped.replace(",", "")) == windows[0] + (10 if row.wire == "1.0" else 0)


def test_a_library_is_found_by_part_of_its_name():
    assert len(client_table("jms").rows) == 4
    assert client_table("no such library").rows == []
