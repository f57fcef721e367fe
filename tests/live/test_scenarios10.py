"""The recorded AMQP 1.0 clients see the same of the engine behind a port as they saw of the real broker."""

import json

import pytest
from recordings import RECORDINGS

pytest.importorskip("proton")

from scenario10 import Player, in_short
from test_serving import assert_replays

from qflow.live import serve

FILES = sorted((RECORDINGS / "amqp10").glob("*.json"))


@pytest.fixture(scope="module")
def served():
    with serve() as broker:
        yield broker


@pytest.fixture(scope="module")
def player(served):
    return Player(served)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_recorded_scenario_is_seen_again(path, player):
    """LNK-01 f03; LNK-02 and LNK-03 f01, f07, f12, f22, f23, f24; LNK-05 f08, f11, f28; LNK-06 f16;
    LNK-07 f05, f06; LNK-08 f27; LNK-09 f11, f14; LNK-10 r01, r07; LNK-12 r02; LNK-13 r05; LNK-14 r10, n06;
    LNK-15 g09, g10, g12, g13; LNK-16 n01; LNK-17 n02; LNK-18 n04; LNK-19 n06, n13, n14; LNK-20 n07, n10;
    LNK-21 f18, f19, f30; LNK-22 f20, f21; LNK-23 f29; LNK-24 n12; LNK-26 g02; MG-13 g09;
    RF-51 h51; RF-52 h45; RF-53 h49; RF-54 h47; RF-55 h07; RF-58 h56.
    """
    scenario = json.loads(path.read_text("utf-8"))
    seen = json.loads(json.dumps(player.play(scenario), default=str))
    for number, (step, expected, got) in enumerate(
        zip(scenario["steps"], scenario["seen"], seen, strict=True)
    ):
        assert got == expected, f"step {number}: {step}"


def test_there_are_recordings():
    assert len(FILES) == 51


def test_what_was_served_replays_to_the_same_state(served, player):
    """Last of this file: the trace of all scenarios that were played above."""
    assert_replays(served)
    assert not served.server.failures


def test_events_are_put_into_few_words():
    seen = ["accepted s0", "accepted s2", "accepted s1", {"closed": None}, "r5 first", "r6 first", "r8 first"]
    assert in_short(seen) == ["accepted s0..2", {"closed": None}, "r5..6 first", "r8 first"]
