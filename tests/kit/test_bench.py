"""qflow bench: what it prints and refuses; how long things take is asserted nowhere."""

import json
from importlib.util import find_spec

import pytest

from qflow.cli import main
from qflow.form import form


@pytest.mark.release
def test_it_prints_rates_ratios_growth_and_memory(capsys):
    assert main(["bench", "--json", "--messages", "100", "--largest", "1000"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["form"] == form()
    assert {"life_cycle", "fan_out_to_10", "groups", "held_release", "ring"} <= set(results["rates"])
    ours = {"messages_on_a_queue", "groups", "held_transfers", "holes"}
    theirs = {"messages_in_a_simpy_store"} if find_spec("simpy") else set()
    assert set(results["growth"]) == ours | theirs
    assert {"seek", "lab_frame_100_messages"} <= set(results["milliseconds"])
    assert "trace_to_no_trace" in results["ratios"]
    pairs = {"life_cycle_to_simpy_store", "life_cycle_to_simpy_life_cycle", "backlog_of_1000_to_simpy_store"}
    assert pairs <= set(results["ratios"]) if find_spec("simpy") else not pairs & set(results["ratios"])


def test_a_message_on_a_queue_is_small():
    from qflow.bench.measure import _memory

    assert _memory(lambda name: None)["bytes_a_message"] < 400


def test_too_few_messages_are_refused(capsys):
    assert main(["bench", "--messages", "5"]) == 2
    assert "from 100" in capsys.readouterr().err
