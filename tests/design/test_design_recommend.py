"""Recommendations: safe by the bound, safe when simulated, and what the command says of them."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from functools import cache, partialmethod

import pytest
from commands import output_of, refusal
from hypothesis import given, settings
from hypothesis import strategies as st

from qflow import cli
from qflow.configuration.notations import read_line
from qflow.design import DesignError, Limits, Recommendation, frontier, judge_workload, recommend, traffic_of
from qflow.design.frontier import MESSAGE_LIMIT, Part, best, cover, mark, parts_of
from qflow.design.recommend import recommendation_text
from qflow.design.settings_map import map_of_queue
from qflow.logs.workload_file import workload_json
from qflow.prediction.evidence import Demand
from qflow.workload import Consumer, Producer, Workload, simulate


def orders(**changes):
    """Two producers and a reader too slow for them; as declared, the queue overflows."""
    made = {
        "duration": 2,
        "queues": {"orders": {"qpid.max_count": 100}},
        "producers": (
            Producer("C1", ("", "orders"), rate=300, capacity=50, size=100, arrival="const"),
            Producer("C2", ("", "orders"), rate=150, capacity=15, size=100, arrival="const"),
        ),
        "consumers": (Consumer("reader", "orders", prefetch=10, service=("const", 0.004)),),
    }
    return Workload("orders", **{**made, **changes})


def written(tmp_path, **changes):
    """Write a workload file; return its path."""
    path = tmp_path / "orders.json"
    path.write_text(json.dumps(workload_json(orders()) | changes))
    return str(path)


@cache
def made_of_orders():
    """What is recommended for them, after short runs."""
    return recommend(orders(), message_limit=200)


@cache
def rows_of_orders():
    """The frontier of their settings."""
    return frontier(orders(), message_limit=400)


# Safe


def test_what_overflowed_as_declared_is_safe_as_recommended():
    """CAP-11: the same clients, the same limit, no 506."""
    workload = orders()
    assert {error.code for error in simulate(workload).errors.values()} == {506}
    made = recommend(workload)
    assert made.declared.errors and made.before["orders"].can_overflow
    run = simulate(made.workload)
    assert run.errors == {} == dict(made.evidence.errors)
    assert made.evidence.max_depth["orders"] <= 100


@settings(max_examples=12)
@given(
    st.integers(20, 120),
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from([100, (4.0, 1.0)])), min_size=1, max_size=3),
    st.sampled_from([None, 3_000, 30_000]),
    st.sampled_from([0.0005, 0.01]),
    st.integers(0, 99),
)
def test_no_recommendation_ever_dies_of_506(limit, senders, size, service, seed):
    """CAP-11: in messages and bytes; or it is said that there is none."""
    producers = tuple(
        Producer(f"p{n}", ("", "q"), 400, capacity, volume, seed=seed + n)
        for n, (capacity, volume) in enumerate(senders)
    )
    consumer = Consumer("c", "q", prefetch=5, service=("exp", service), seed=seed)
    workload = Workload("drawn", 0.3, {"q": {}}, producers=producers, consumers=(consumer,))
    try:
        made = recommend(workload, {"q": Limits(limit, size)}, message_limit=150)
    except DesignError as refusal:
        assert "no thresholds are safe" in str(refusal)
        volume = sum(max(1, int(s.capacity * 0.1)) * s.largest for s in traffic_of(workload)["q"].values())
        assert sum(max(1, int(c * 0.1)) for c, _ in senders) >= limit or (size and volume >= size)
        return
    assert not any(verdict.can_overflow for verdict in judge_workload(made.workload).values())
    assert simulate(made.workload, message_limit=400).errors == {}


def test_every_row_of_the_frontier_is_safe():
    for row in rows_of_orders():
        with_row = orders(queues=row.arguments)
        for name, capacity in row.capacities.items():
            with_row = with_row.with_producer(name, capacity=capacity)
        assert not judge_workload(with_row)["orders"].can_overflow
        assert row.costs.errors == {}


def test_the_lines_declare_what_is_recommended():
    """Read back, they are the arguments that were simulated."""
    made = made_of_orders()
    declaration = read_line(made.lines["orders"])
    assert declaration.name == "orders"
    assert dict(declaration.arguments) == dict(made.workload.queues["orders"])


def test_other_arguments_of_a_queue_stay():
    grouped = {"qpid.group_header_key": "g", "qpid.shared_msg_group": 1}
    workload = orders(queues={"orders": grouped})
    made = recommend(workload, {"orders": Limits(200)}, message_limit=200, keep_capacities=True)
    assert grouped.items() <= made.workload.queues["orders"].items()
    assert made.capacities == {"C1": 50, "C2": 15}


def test_a_queue_without_a_limit_and_a_ring_stay_as_they_are():
    """FC-03, LP-01."""
    queues = {
        "orders": {"qpid.max_count": 300},
        "free": {},
        "ring": {"qpid.max_count": 3, "qpid.policy_type": "ring"},
    }
    made = recommend(orders(queues=queues), message_limit=200)
    assert set(made.kept) == {"free", "ring"}
    assert all(made.workload.queues[name] == queues[name] for name in made.kept)


def test_a_shared_window_is_narrowed_for_the_tightest_queue():
    """One window, two queues; both are safe with it."""
    queues = {"a": {"qpid.max_count": 30}, "b": {"qpid.max_count": 300}}
    made = recommend(
        Workload(
            "fan",
            1,
            queues,
            binds=(("amq.fanout", "a", ""), ("amq.fanout", "b", "")),
            producers=(Producer("p", ("amq.fanout", ""), 500, 40, 100),),
            consumers=(Consumer("c", "b", prefetch=5, service=("const", 0.001)),),
        ),
        message_limit=200,
    )
    assert made.capacities["p"] < 30
    assert not any(verdict.can_overflow for verdict in made.verdicts.values())


# The frontier


def test_just_what_no_other_row_beats_is_on_the_frontier():
    rows = rows_of_orders()
    marked = [row.costs.objectives() for row in rows if row.is_pareto]
    assert len(marked) > 1 and best(rows).is_pareto and mark(rows) == rows
    for row in rows:
        mine = row.costs.objectives()
        at_least_as_good = [o for o in marked if all(a <= b for a, b in zip(o, mine, strict=True))]
        assert at_least_as_good == [mine] if row.is_pareto else at_least_as_good


def test_the_same_workload_gives_the_same_recommendation():
    again = recommend(orders(), message_limit=200)
    assert json.dumps(again.asdict()) == json.dumps(made_of_orders().asdict())


def test_the_frontier_is_the_same_from_several_processes(monkeypatch):
    heard = []

    def hear(done, total, part=""):
        heard.append((done, total))

    alone = frontier(orders(), message_limit=60, progress=hear)
    monkeypatch.setattr(sys.modules["qflow.design.frontier"], "ALONE", 0)
    assert frontier(orders(), message_limit=60, progress=hear) == alone
    total = len(heard) // 2
    assert heard == 2 * [(done, total) for done in range(1, total + 1)]


def test_parts_are_joined_by_producers_and_by_sessions():
    """CAP-09."""
    one, two, three = {"p": 1}, {"r": 1}, {"p": 1, "s": 1}
    assert parts_of({"a": one, "b": two, "c": three}) == [
        Part(("a", "c"), ("p", "s")),
        Part(("b",), ("r",)),
    ]
    joined = parts_of({"a": one, "b": two, "c": three}, {"r": "shared", "s": "shared"})
    assert joined == [Part(("a", "b", "c"), ("p", "r", "s"))]


# The command


GOLDEN = """\
qpid-config add queue orders --max-queue-count=100 --flow-stop-count=35 --flow-resume-count=31
  messages: stop 35 + capacities 65 = 100, which is within the limit of 100 (CAP-11)
  bytes: at most 15100, by the other unit's stop and capacities × largest messages 9815, which is within the \
limit of 104857600 (CAP-11)
  proved: never more than 100 messages at once, whatever the clients do
  simulated: 65 messages at once at most, in 10 runs that differ by chance
  resume 31 is below the sum of the capacities, 65: while its producers always have something to send, the \
queue, once ON, stays ON (FC-16, FC-17)
  as declared it could overflow: messages: stop 80 + capacities 65 = 145, which is above the limit of 100 by \
45 (CAP-11)

producer C1: capacity 50 messages (as it was)
producer C2: capacity 15 messages (as it was)
"""


def test_the_command_prints_lines_with_reasons(tmp_path, capsys):
    said = output_of(capsys, "design", written(tmp_path), "--keep-capacities")
    assert said.startswith(GOLDEN)
    assert "as declared: " in said and "C1 died: resource-limit-exceeded" in said
    table = said[said.index("frontier of orders") :].splitlines()
    named = "capacities stop/resume (messages) flips/min blocked p50 p99 wait p99 accepted"
    assert " ".join(table[1].split()) == named
    assert [line[0] for line in table[2:]].count(">") == 1


def test_the_command_draws_the_map(tmp_path, capsys, monkeypatch):
    drawn = partialmethod(Recommendation.map, cells=3, messages=50, processes=1)
    monkeypatch.setattr(Recommendation, "map", drawn)
    file = tmp_path / "map.svg"
    said = output_of(capsys, "design", written(tmp_path), "--messages", "100", "--picture", str(file))
    assert "stop × capacity of orders" in said and "of the 9 settings" in said
    assert file.read_text(encoding="utf-8").startswith("<svg")


def test_a_limit_in_bytes_is_drawn_in_bytes_with_the_goal_s_line(tmp_path, capsys, monkeypatch):
    """CAP-11 in bytes: stop + capacities × largest message."""
    drawn = partialmethod(Recommendation.map, cells=4, messages=300, processes=1)
    monkeypatch.setattr(Recommendation, "map", drawn)
    path, file = written(tmp_path, queues={"orders": {}}), tmp_path / "map.svg"
    words = ["design", path, "--max-size", "30000", "--messages", "300", "--slo", "blocked < 40%"]
    assert cli.main([*words, "--picture", str(file)]) in (0, 1)
    said = capsys.readouterr().out
    assert "The law: where stop + capacities × largest messages is at most the limit, 30000, no" in said
    assert "of them keep blocked < 40%; those beyond the dashed line do not." in said
    picture = file.read_text(encoding="utf-8")
    assert "qpid.flow_stop_size" in picture and picture.count('class="qf-map-missed"') == 2


def test_a_cell_of_a_map_is_run_as_long_as_the_workload_needs():
    """Of bursts of twenty seconds each cell has three, at a part of the rates if they are many messages."""
    made = map_of_queue(BURSTS.with_producer("p", rate=900), "q", cells=2, processes=1)
    assert made.covers and made.is_enough
    brief = map_of_queue(BURSTS, "q", cells=2, messages=20, processes=1)
    assert not brief.is_enough and "by luck" not in brief.claims[1]


def test_of_several_queues_each_has_a_file_whatever_its_name(tmp_path, monkeypatch):
    drawn = partialmethod(Recommendation.map, cells=2, messages=20, processes=1)
    monkeypatch.setattr(Recommendation, "map", drawn)
    names = ("a/b", "../c", "d e")
    producers = [Producer(f"p{n}", ("", name), 100, 2, 10) for n, name in enumerate(names)]
    workload = Workload("odd", 1, {name: {"qpid.max_count": 20} for name in names}, producers=producers)
    (tmp_path / "odd.json").write_text(json.dumps(workload_json(workload)))
    words = ["design", str(tmp_path / "odd.json"), "--messages", "20", "--picture", str(tmp_path / "map.svg")]
    assert cli.main(words) == 0
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == ["map-..%2Fc.svg", "map-a%2Fb.svg", "map-d e.svg", "odd.json"]


def test_the_command_as_json_is_the_recommendation(tmp_path, capsys):
    path = written(tmp_path)
    arguments = "--max-count orders=80 --max-count 200 --seed 3 --messages 200 --json"
    said = json.loads(output_of(capsys, "design", path, *arguments.split()))
    made = recommend(Workload.load(path).with_seed(3), {"orders": Limits(80)}, message_limit=200)
    assert said == json.loads(json.dumps(made.asdict()))
    queue = said["queues"]["orders"]
    assert queue["arguments"]["qpid.max_count"] == 80
    assert shlex.split(queue["line"])[:4] == ["qpid-config", "add", "queue", "orders"]
    assert queue["could_overflow_before"] and not queue["can_overflow"]


def test_the_command_takes_the_traffic_of_a_client_log(root, capsys):
    folder = root / "data" / "recordings" / "workloads"
    files = [str(folder / "capacity-165.json"), "--log", str(folder / "capacity-165.csv.gz")]
    assert "+ capacities 65 = 200, which is within" in output_of(
        capsys, "design", *files, "--max-count", "200", "--keep-capacities", "--messages", "400"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--max-count", "many"], "--max-count: must be a whole number from 1, or NAME=N, got 'many'"),
        (["--max-count", "0"], "--max-count: must be a whole number from 1"),
        (["--max-count", "=5"], "--max-count: must be a whole number from 1, or NAME=N, got '=5'"),
        (["--max-count", "٣"], "--max-count: must be a whole number from 1, or NAME=N, got '٣'"),
        (["--max-size", "-5"], "--max-size: must be a whole number from 1, or NAME=N, got '-5'"),
        (["--max-size", "nope=5"], "--max-size: no queue 'nope' in the workload, which has orders"),
        (["--messages", "-1"], "--messages: must be a whole number from 0, got -1"),
        (["--max-count", "60", "--keep-capacities"], "no thresholds are safe"),
        (["--max-count", "2"], "no thresholds are safe"),
        (["--seed", "-3"], "the seed must be a whole number from 0, got -3"),
        (["--log", "nowhere.csv"], "nowhere.csv: No such file"),
        (["--frobnicate"], "unknown argument '--frobnicate'"),
    ],
)
def test_the_command_refuses_in_one_sentence(tmp_path, capsys, arguments, sentence):
    assert sentence in refusal(capsys, "design", written(tmp_path), *arguments)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"queues": {"orders": {}}}, "there is nothing to design"),
        ({"queues": {"orders": {"qpid.max_count": "abc"}}}, "invalid conversion"),
        ({"queues": {"orders": {"qpid.max_count": 10, "qpid.flow_stop_count": 99}}}, "must be less than"),
        ({"duration": -1}, "duration must be"),
    ],
)
def test_workloads_that_make_no_sense_are_refused_in_one_sentence(tmp_path, capsys, changes, sentence):
    assert cli.main(["design", written(tmp_path, **changes)]) == 2
    # On a slow machine a line of progress comes before.
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("simulating the")]
    assert len(said) == 1
    assert sentence in said[0]


def sender(name, key):
    return {"name": name, "to": ["", key], "rate": 200, "capacity": 5, "size": 100}


def test_a_queue_that_nothing_reaches_is_not_designed(tmp_path, capsys):
    """With a mistyped key no setting of the queue has an effect, and the messages are gone."""
    astray = "p's messages reach no queue: no binding of exchange '' matches the key 'oders' (EX-08)"
    alone = written(tmp_path, producers=[sender("p", "oders")])
    assert cli.main(["design", alone, "--max-count", "100"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"qflow: there is nothing to design: no producer's messages reach orders; {astray}"

    queues = {"orders": {"qpid.max_count": 100}, "other": {"qpid.max_count": 100}}
    path = written(tmp_path, queues=queues, producers=[sender("p", "oders"), sender("r", "other")])
    made = json.loads(output_of(capsys, "design", path, "--keep-capacities", "--json"))
    assert list(made["queues"]) == ["other"]
    assert made["kept"] == {"orders": "orders: left as it is; no producer's messages reach it"}
    assert made["unrouted"] == {"p": astray}
    assert astray in output_of(capsys, "design", path, "--keep-capacities").splitlines()


def reader(**changes):
    return (Consumer("c", "q", prefetch=5, service=("const", 0.03), **changes),)


BURSTS = Workload(
    "bursts",
    4,
    {"q": {"qpid.max_count": 3_000}},
    producers=(Producer("p", ("", "q"), rate=40, capacity=20, size=100, burst=(20, 20), arrival="const"),),
    consumers=reader(),
)
STEADY = BURSTS.with_producer("p", burst=None)


@pytest.mark.parametrize(
    ("workload", "seconds", "limit"),
    [
        (BURSTS, 120, MESSAGE_LIMIT),
        (BURSTS.with_producer("p", rate=400), 120, None),
        (STEADY, 4, MESSAGE_LIMIT),
        (BURSTS.with_producer("p", burst=(20, 0)), 4, MESSAGE_LIMIT),
        (STEADY.replace(consumers=reader(slow=((10, 30, 3.0),))), 50, MESSAGE_LIMIT),
        (BURSTS.replace(consumers=reader(slow=((100, 110, 3.0),))), 120, MESSAGE_LIMIT),
        (STEADY.replace(consumers=reader(start=8, crash=20)), 40, MESSAGE_LIMIT),
    ],
)
def test_a_simulation_covers_three_of_the_longest_cycle_and_what_happens_once(workload, seconds, limit):
    longer, messages = cover(workload)
    assert (longer.duration, messages) == (seconds, limit)
    # A number that was asked for is the user's.
    assert cover(workload, 700) == (workload, 700)


def test_what_would_take_too_long_is_refused_with_what_it_needs():
    hours = BURSTS.with_producer("p", rate=400, burst=(3_600, 3_600))
    with pytest.raises(
        DesignError, match="3 bursts of p, 7200 s each .* lasts 21600 s and sends 4,320,000 messages"
    ):
        recommend(hours)


def test_a_queue_that_fills_in_a_burst_of_twenty_seconds_is_seen_to():
    """5,000 messages were simulated whatever the workload did: of twenty seconds the first four."""
    made = recommend(BURSTS.with_producer("p", rate=100), {"q": Limits(500)}, keep_capacities=True)
    assert made.evidence.seconds == 120
    # 100 a second come for 20 s, and 33 a second are read: the producer waits in each burst.
    assert made.evidence.blocked_share > 0.2


def test_a_sizing_from_a_blocked_producers_log_says_for_which_demand_it_holds():
    bounds = {"C1": Demand(280.4, blocked_share=0.8, streaks=1, is_behind=True)}
    made = replace(recommend(orders(), message_limit=60, slo="depth < 5000"), bounds=bounds)
    said = recommendation_text(made, made.capacities)
    assert said.startswith("these settings keep all goals for the least demand that the log shows (in ")
    assert "thresholds are safe for any demand, costs and goals hold for the least" in said
    assert (
        "\n  C1: at least 280.4 a second; its window was full 80 % of the time, and it never caught" in said
    )
    shown = made.asdict()["demand"]["C1"]
    why = "its window was full 80 % of the time, and it never caught up"
    assert shown == {"known": False, "at_least": 280.4, "why": why, "blocked_share": 0.8}
    known = recommend(orders(), message_limit=60, slo="depth < 5000")
    said = recommendation_text(known, known.capacities)
    assert known.asdict()["demand"] == {} and "least demand" not in said
