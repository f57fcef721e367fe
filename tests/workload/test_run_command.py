"""``qflow run`` and extreme workloads: each ends in a run or in one sentence, and none in a traceback."""

import copy
import json
import re
import sys

import pytest
from commands import status_of

from qflow.workload import Consumer, Producer, Workload, WorkloadError, simulate

DIGITS = int("9" * 400)

SMALL = {
    "name": "small",
    "duration": 1,
    "queues": {"q": {"qpid.max_count": 50}},
    "binds": [["amq.topic", "q", "a.b"]],
    "producers": [{"name": "p", "to": ["", "q"], "rate": 100, "capacity": 5, "size": 100}],
    "consumers": [{"name": "c", "queue": "q", "prefetch": 5, "service": ["const", 0.002]}],
}

RUNS = [
    ("producers.0.rate", 1e-300),
    ("producers.0.rate", 5e-324),
    ("producers.0.burst", [1e-300, 1]),
    ("producers.0.burst", [5e-7, 0]),
    ("producers.0.seed", DIGITS),
    ("producers.0.size", [20, 0.5]),
    ("producers.0.size", 10**12),
    ("producers.0.capacity", 10**12),
    ("producers.0.groups", [10**12, 1e-9]),
    ("consumers.0.service", ["exp", 5e-324]),
    ("consumers.0.service", ["const", 1e12]),
    ("consumers.0.slow", [[0, 1e12, 1e12]]),
    ("consumers.0.start", 1e12),
]


def changed(path, value):
    mapping = copy.deepcopy(SMALL)
    *parents, last = (int(part) if part.isdecimal() else part for part in path.split("."))
    place = mapping
    for part in parents:
        place = place[part]
    place[last] = value
    return mapping


@pytest.fixture
def run(tmp_path, capsys):
    """Run a mapping, or text, as a workload file; return the status, the output and the errors."""

    def run_file(workload, *options):
        file = tmp_path / "w.json"
        file.write_text(workload if isinstance(workload, str) else json.dumps(workload))
        return status_of("run", file, *options), *capsys.readouterr()

    return run_file


@pytest.mark.parametrize("value", [DIGITS, [1, 1e308], {"max": 5}, "\udc80"], ids=lambda one: str(one)[:9])
def test_what_no_broker_could_be_given_is_refused_in_one_sentence(run, value):
    """All that is refused is in test_workload.py."""
    status, _, said = run(changed("producers.0.size", value))
    assert status == 2 and "w.json: " in said and "size" in said
    assert said.count("\n") == 1 and len(said) < 700


@pytest.mark.parametrize(("path", "value"), RUNS, ids=[f"{path}={str(value)[:20]!a}" for path, value in RUNS])
def test_what_is_only_extreme_runs(run, tmp_path, path, value):
    trace = tmp_path / "odd.parquet"
    status, _, said = run(changed(path, value), "--trace", trace)
    # On a slow machine there are lines of progress.
    assert status == 0 and "qflow" not in said
    assert status_of("trace", "replay", trace) == 0


def test_a_number_too_long_to_read_is_refused(run):
    status, _, said = run(json.dumps(SMALL).replace("0.002", "9" * 5000))
    assert status == 2 and said.count("\n") == 1


def test_a_number_too_long_to_show_is_refused():
    with pytest.raises(WorkloadError, match="capacity must be .*, got a number of 166097 bits"):
        Producer("p", ("", "q"), 1, 10**50_000, 1)


def test_a_very_long_time_in_which_little_happens_passes(run):
    status, said, _ = run(changed("producers.0.rate", 1e-6) | {"duration": 1e7}, "--json")
    made = json.loads(said)
    assert status == 0 < made["producers"]["p"]["sent"] == made["consumers"]["c"]["accepts"] < 50


ENDLESS = {
    "what is released comes again": {
        "consumers": (Consumer("c", "q", 5, ("const", 1e-6), release=1.0),),
        "producers": (Producer("p", ("", "q"), 10, 5, 1),),
    },
    "no thought before a message": {
        "producers": (
            Producer("p", ("", "q"), 1, 5, 1, arrival="recorded", model="closed", recorded=((0, 1, ""),)),
        ),
    },
}


@pytest.mark.parametrize("clients", ENDLESS.values(), ids=ENDLESS)
def test_a_run_that_turns_out_too_large_is_refused(monkeypatch, clients):
    monkeypatch.setattr(sys.modules[simulate.__module__], "MOST_ACTS", 10_000)
    workload = Workload("endless", 1, {"q": {"qpid.flow_stop_count": 0}}, **clients)
    with pytest.raises(WorkloadError, match="'endless': by .* s its clients have sent and settled more"):
        simulate(workload)


def test_whole_numbers_are_printed_whole(run):
    producers = [{**SMALL["producers"][0], "rate": 11_000, "capacity": 100_000}]
    status, said, _ = run(SMALL | {"queues": {"q": {}}, "producers": producers, "consumers": []})
    assert status == 0
    sent = re.search(r"producer p: sent (\d{5}) messages, blocks 0 times", said)[1]
    assert f"max_depth {sent} messages, " in said


def test_messages_that_reach_no_queue_are_mentioned(run):
    """A mistyped key is no error to the broker."""
    sender = SMALL["producers"][0]
    mistyped = {**sender, "name": "m", "to": ["amq.topic", "a.c"]}
    status, said, _ = run(SMALL | {"producers": [sender, mistyped]}, "--json")
    made = json.loads(said)
    count = made["producers"]["m"]["sent"]
    assert made["unroutable"] == {"m": count}
    assert status == 0 and count > 50
    lines = run(SMALL | {"producers": [sender, mistyped]})[1].splitlines()
    assert lines[-1] == f"{count} of {count} messages of m reached no queue, as no binding matched (EX-08)"
    assert not any("of p reached" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            '{"duration": 1, "duration": 20, "queues": {}}',
            "w.json: each key may be given once, got 'duration' 2 times: 1 and 20",
        ),
        (
            '{"duration": 1, "queues": {"q": {"qpid.max_count": 5, "qpid.max_count": 50}}}',
            "w.json: each key may be given once, got 'qpid.max_count' 2 times: 5 and 50",
        ),
        (
            '{"duration": 1, "queues": {"q": {}}, "consumers": [{"name": "c", "queue": "q", "prefetch": 1, '
            '"prefetch": 2, "service": ["const", 1]}]}',
            "w.json: each key may be given once, got 'prefetch' of 'c' 2 times: 1 and 2",
        ),
    ],
)
def test_a_key_that_is_given_twice_is_refused(run, text, sentence):
    """JSON's readers take the last one: a setting that never takes effect."""
    status, _, said = run(text)
    assert status == 2 and sentence in said


def test_shares_and_rates_are_of_the_time_in_which_messages_fall_due(run):
    """By hand: 300 a second for 5 s; after 11 of them the queue is ON for the rest, as nobody reads."""
    producer = {"name": "p", "to": ["", "q"], "rate": 300, "capacity": 5, "size": 1, "arrival": "const"}
    workload = {"duration": 5, "queues": {"q": {}}, "producers": [producer]}
    found = json.loads(run(workload, "--json")[1])
    assert (found["seconds"], found["simulated_seconds"]) == (5, 15)
    assert (found["producers"]["p"]["throughput"], found["producers"]["p"]["sent"]) == (300, 1500)
    workload["queues"]["q"] = {"qpid.flow_stop_count": 10}
    stopped = json.loads(run(workload, "--json")[1])
    assert stopped["queues"]["q"]["share_on"] == pytest.approx((5 - 11 / 300) / 5, abs=1e-5)
    assert stopped["producers"]["p"]["blocked_share"] == pytest.approx((5 - 16 / 300) / 5, abs=1e-5)
    workload["consumers"] = [
        {"name": "c", "queue": "q", "prefetch": 1, "service": ["const", 0.01], "start": 5}
    ]
    late = json.loads(run(workload, "--json")[1])
    assert (late["consumers"]["c"]["accepts"], late["afterwards"]["accepts"]) == (0, 1000)
    # It sent 15 before, and those that are not accepted are on the queue.
    assert 15 + late["afterwards"]["sent"] - 1000 in range(9, 16)


def test_java_flow_control_says_what_keeps_it_from_acting(run):
    """By hand: above 4,000 bytes, 100 each, the channel is asked to stop, and the client obeys."""
    workload = changed("queues.q", {"qpid.flow_stop_count": 20, "qpid.max_count": 0})
    workload |= {"consumers": [], "options": {"flow_control": "java", "message_size": "content"}}
    said = run(workload)[2]
    assert "'java' only asks producers to stop (ALT-12); these have no \"obeys_flow\": true" in said
    assert "queue 'q': flow_control 'java' stops by bytes only (ALT-12)" in said
    workload["producers"][0] |= {"obeys_flow": True}
    workload["queues"]["q"] = {"qpid.flow_stop_size": 4000, "qpid.flow_resume_size": 2000}
    _, text, said = run(workload, "--json")
    assert said == "" and json.loads(text)["producers"]["p"]["sent"] == 41


def test_every_number_of_the_summary_has_a_unit(run):
    first, base, *lines = run(SMALL)[1].splitlines()
    assert re.search(r": [\d.]+ s, \d+ events$", first)
    assert re.match(r"measured over the first 1 s, .* catch up until 11 s: \d+ messages sent, ", base)
    assert len(lines) == 3
    for line in lines:
        for part in line.partition(": ")[2].split(", "):
            assert re.fullmatch(r"\w+ [\d.]+ (messages(/s)?|bytes|times|of the time|s)", part), part
