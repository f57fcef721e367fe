"""The written trial: bursts and outages, 100 MB, a goal; and a simulation that knows nothing of ours."""

from __future__ import annotations

import json

import pytest
from plain_queue import simulate_plainly

from qflow import cli
from qflow.logs.workload_file import workload_json
from qflow.workload import Workload


def trial(part, pace=1):
    """Return the problem as a workload file has it; at a part of its rates and windows, and faster."""
    producers = [
        {
            "name": f"p{n}",
            "to": ["", "orders"],
            "rate": 400 / part,
            "capacity": 100 // part,
            # From 2 to 40 kB: 95 of 100 messages.
            "size": {"lognormal": [9.1, 0.764], "max": 40_000},
            "burst": [20 / pace, 20 / pace],
            "seed": n,
        }
        for n in range(3)
    ]
    consumers = [
        {
            "name": f"c{n}",
            "queue": "orders",
            "prefetch": 50 // part,
            "service": ["exp", part / 450],
            "outage": [600 / pace, 30 / pace],
            "seed": n + 3,
        }
        for n in range(2)
    ]
    queues = {"orders": {"qpid.max_size": 100_000_000 // part // pace}}
    return {"name": "trial", "duration": 60, "queues": queues, "producers": producers, "consumers": consumers}


def ask(folder, capsys, mapping, *goals, options=()):
    """Ask the command; return its status, and what it says."""
    path = folder / "trial.json"
    path.write_text(json.dumps(mapping))
    words = [word for goal in goals for word in ("--slo", goal)]
    status = cli.main(["design", str(path), *words, *options, "--json"])
    return status, json.loads(capsys.readouterr().out)


def played(mapping, made, seed, seconds):
    """Return what the plain simulation says of what was recommended: p99 wait, refused, most bytes."""
    workload = Workload.from_json(mapping).with_queue("orders", made["queues"]["orders"]["arguments"])
    for name, capacity in made["capacities"].items():
        workload = workload.with_producer(name, capacity=capacity)
    for name, prefetch in made["prefetch"].items():
        workload = workload.with_consumer(name, prefetch=prefetch)
    changed = workload_json(workload)
    for client, given in zip(changed["producers"], mapping["producers"], strict=True):
        client["size"] = given["size"]
    waits, refused, most = simulate_plainly(changed, seed, seconds)
    return waits[len(waits) * 99 // 100], refused, most


def agrees(mapping, made, seeds, seconds=1_800):
    """Check every stated goal with the plain simulation: p99 wait, loss and depth."""
    wait, loss, depth = made["goals"]
    proved = made["queues"]["orders"]["max_bytes_proved"]
    for seed in seeds:
        p99, refused, most = played(mapping, made, seed, seconds)
        # What its own runs differ by, on either side, is what one may differ from them.
        spread = max(wait["values"]) - min(wait["values"])
        assert min(wait["values"]) - 2 * spread <= p99 <= max(wait["values"]) + 2 * spread
        assert (p99 < wait["limit"]) or wait["verdict"] != "holds"
        assert (p99 >= wait["limit"]) or wait["verdict"] != "missed"
        assert refused == 0 and loss["verdict"] == "holds"
        assert most < depth["limit"] and depth["verdict"] == "holds" and most <= proved


@pytest.mark.parametrize(("room", "verdict"), [(1, "missed"), (20, "holds")])
def test_a_plain_simulation_agrees_with_a_small_trial(tmp_path, capsys, room, verdict):
    """A twentieth of the rates, twenty times as fast: what was 2 s is 0.1; with enough room nobody waits."""
    mapping = trial(20, 20)
    limit = mapping["queues"]["orders"]["qpid.max_size"] * room
    mapping["queues"]["orders"]["qpid.max_size"] = limit
    # Of windows as they are, nothing would be safe within the small limit.
    options = ["--keep-capacities"] if room > 1 else []
    goals = ("p99 wait < 0.1s", "loss 0", f"depth < {2 * limit / 1e6}MB")
    status, made = ask(tmp_path, capsys, mapping, *goals, options=options)
    assert (status, made["goals"][0]["verdict"]) == (verdict == "missed", verdict)
    agrees(mapping, made, range(3), 90)


@pytest.mark.thorough
@pytest.mark.parametrize("part", [1, 25])
def test_a_plain_simulation_agrees_with_the_trial(tmp_path, capsys, part):
    """With one of two consumers away for 30 s, 100 MB are full in a dozen: no setting keeps 2 s."""
    mapping = trial(part)
    status, made = ask(tmp_path, capsys, mapping, "p99 wait < 2s", "loss 0", "depth < 120MB")
    assert (status, made["goals"][0]["verdict"]) == (1, "missed")
    agrees(mapping, made, range(2))
