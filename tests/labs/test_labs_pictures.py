"""The labs without widgets: their pictures and claims agree with the engine's events."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from sentences import step_sentence

from qflow.configuration.declaration import ConfigurationError
from qflow.kit import kit_path
from qflow.labs import (
    bytes_run,
    capacity_run,
    config_run,
    fanout_run,
    flow_run,
    group_run,
    history_run,
    picture_of,
    policy_run,
    state_space_run,
    trace_picture,
)
from qflow.labs.experiments import NAMES, flow_workload
from qflow.labs.frames import NEVER
from qflow.labs.group import GroupTable, group_picture
from qflow.labs.opened import MOST_QUEUES, run_picture
from qflow.labs.running import draw_steps, finish_steps
from qflow.labs.topology import layout_of
from qflow.labs.words import DEAD, times
from qflow.trace import LogError
from qflow.trace.files import write_trace
from qflow.trace.replaying import trace_of
from qflow.trace.schema import TraceError
from qflow.workload import Consumer, Producer, Workload, WorkloadError, simulate


def last(picture) -> dict[str, int]:
    return picture.frames.at(-1)


@pytest.mark.parametrize("run", [flow_run, capacity_run, fanout_run, policy_run, history_run])
@pytest.mark.parametrize("messages", [-5, 0, True, 2.5, None, 1_000_001, 10**9])
def test_a_run_has_a_number_of_messages(run, messages):
    with pytest.raises(WorkloadError, match="messages must be a whole number from 1 to 1,000,000, got"):
        run(messages=messages)


# Bytes and counts


@pytest.mark.parametrize(
    ("size", "resume_size", "on", "last"),
    [
        (200, 4_000, "messages", "bytes"),  # 245 bytes each: 41 messages come before 12,001 bytes
        (200, 9_900, "messages", "messages"),  # 30 messages are 7,350 bytes
        (600, 4_000, "bytes", "bytes"),  # 19 messages are above 12,000
    ],
)
def test_one_unit_turns_it_on_and_both_turn_it_off(size, resume_size, on, last):
    picture = bytes_run(size=size, resume_size=resume_size)
    frames = picture.frames
    depth, volume = (frames.column(f"queue.orders.{name}") for name in ("depth", "bytes"))
    changes = frames.transitions
    assert len(changes) >= 4
    for change in changes:
        at = (depth[change.frame] > 40, volume[change.frame] > 12_000)
        if change.is_on:
            assert at == (on == "messages", on == "bytes")
        else:
            assert depth[change.frame] < 30 and volume[change.frame] < resume_size
            before = change.frame - 1
            late = (depth[before] >= 30, volume[before] >= resume_size)
            assert late == (last == "messages", last == "bytes")
    number = sum(change.is_on for change in changes)
    assert f"by {on} {times(number)}" in picture.claims[0]
    assert f"{last} {times(number)}" in picture.claims[1]
    for unit in ("messages", "bytes"):
        frame = changes[-1].frame
        said = [text for at, text in picture.drawing["verdicts"][unit] if at < frame][-1]
        assert said.startswith("not below" if unit == last else "below")


# Capacity


@pytest.mark.parametrize(("one", "two"), [(50, 15), (1, 1)])
def test_a_run_is_as_deep_as_stop_plus_all_capacities(one, two):
    """The bound is reached before the consumer subscribes; within the limit nothing is refused."""
    picture = capacity_run(capacity_1=one, capacity_2=two, messages=600)
    depths = picture.frames.column("queue.orders.depth")
    assert max(depths) == 100 + one + two
    first = picture.frames.at(depths.index(max(depths)))
    assert first["consumer.reader.present"] == 0
    assert (first["producer.C1.held"], first["producer.C2.held"]) == (one, two)
    assert picture.run.errors == {}
    assert f"The bound is 100 + {one} + {two} = {100 + one + two} messages" in picture.claims[0]


def test_windows_beyond_the_limit_kill_sessions_although_flow_control_is_on():
    picture = capacity_run(capacity_1=100)
    assert picture.run.errors
    assert f"{len(picture.run.errors)} of 2 sessions died of it" in picture.claims[1]
    for name in picture.run.errors:
        assert last(picture)[f"producer.{name}.mood"] == 3


def test_the_gate_counts_the_completions_that_somebody_waits_for():
    """CM-09: a dead session's completions reach no client; all counts in the picture agree."""
    picture = capacity_run(capacity_1=100)
    frames, stays = picture.frames, picture.frames.lasting["stays"]
    died = picture.frames.column("producer.C1.mood").index(3)
    assert frames.at(died - 1)["producer.C1.held"] > 50, "a death that leaves no held message shows nothing"
    for frame in range(frames.count):
        seen = frames.at(frame)
        marks = sum(stay["held_start"] <= frame < stay["held_end"] for stay in stays)
        assert seen["producer.C1.held"] + seen["producer.C2.held"] == seen["queue.orders.held"] == marks
    assert max(frames.column("step.freed")[died:]) <= 15, "C2's window"


# Fanout


def test_the_slow_queue_alone_holds_up_the_producer():
    picture = fanout_run(messages=300)
    on = {name for name in ("fast", "medium", "slow") if picture.frames.spans(f"queue.{name}.flow")}
    assert on == {"slow"}
    assert picture.frames.spans("producer.p1.blocked")
    assert "fast and medium never turned ON" in picture.claims[2]
    assert picture.frames.topology.exchanges == ("amq.fanout",)
    assert picture.frames.topology.bindings == ((0, 0), (0, 1), (0, 2))


# Groups


def test_a_groups_messages_keep_their_order_if_everybody_accepts():
    picture = group_run(messages="AABACBBCADAB", prefetch=(1, 2, 3))
    assert "Every group was accepted in the order in which it was sent." in picture.claims
    assert last(picture)["queue.carts.depth"] == 0


def test_a_release_behind_another_breaks_the_order():
    """MG-18, CN-14: c1 holds A-1 and A-2, releases A-1, accepts A-2; A-1 is redelivered."""
    actions = [("c1", "release", "A-1"), ("c1", "accept", "A-2"), ("c1", "accept")]
    picture = group_run(messages="AA", prefetch=(2,), actions=actions)
    assert "Accepted in another order than sent: group A (MG-18)." in picture.claims
    stays = picture.frames.lasting["stays"]
    again = [stays.row(row)["again"] for row in range(len(stays))]
    assert [value < NEVER for value in again] == [True, False]
    assert "c1 releases A-1." in " ".join(said for _, said in picture.drawing["captions"])


def test_the_order_is_broken_while_an_earlier_message_is_on_the_queue():
    """MG-18: A-2 is accepted while the released A-1 waits; a rejected message does not count."""
    kept = "Every group was accepted in the order in which it was sent."
    broken = "Accepted in another order than sent: group A (MG-18)."
    for first, claim in (("release", broken), ("reject", kept)):
        actions = [("c1", first, "A-1"), ("c1", "accept", "A-2")]
        claims = group_run(messages="AAB", prefetch=(2,), actions=actions).claims
        assert claim in claims, first
        assert len({kept, broken} & set(claims)) == 1


def test_the_owner_in_the_picture_is_the_engines():
    table = GroupTable("AABACBBCAD", prefetch=(2, 2, 2))
    for consumer, verdict in (("c1", "accept"), ("c2", "release"), ("c3", "reject"), ("c1", "accept")):
        if table.holds(consumer):
            table.settle(consumer, verdict)
        frames = table.picture().frames
        locks, consumers = frames.lasting["locks"], frames.topology.consumers
        last = map(locks.row, locks.alive(frames.count - 1))
        shown = {frames.groups[row["group"] - 1]: consumers[row["consumer"] - 1].name for row in last}
        assert shown == table.owners()


def test_consumers_that_fetch_once_let_a_released_message_go_to_another():
    """In window mode, the consumer that released a message gets it again at once (chapter 6)."""
    table = GroupTable("AAA", prefetch=(2, 1), mode="credit")
    table.settle("c1", "release", "A-1")
    assert (table.holds("c1"), table.holds("c2")) == (["A-2"], [])
    table.settle("c1", "accept", "A-2")
    # The group is free, and nobody is woken (MG-13).
    assert (table.owners(), table.holds("c2")) == ({}, [])
    table.send("A")
    assert table.holds("c2") == ["A-1"]
    window = GroupTable("AAA", prefetch=(2, 1))
    window.settle("c1", "release", "A-1")
    assert window.holds("c1") == ["A-2", "A-1"]
    with pytest.raises(ValueError, match="mode must be one of window, credit, got 'free'"):
        GroupTable("A", mode="free")


def test_who_waits_beside_a_free_group_is_told():
    """An accept that frees a group wakes no consumer; a consumer without credit does not wait for it."""
    fetched = GroupTable("AAB", prefetch=(1, 2), mode="credit")
    fetched.settle("c1", "accept")
    assert not any("MG-13" in claim for claim in group_picture(fetched).claims), "c1 has fetched its one"
    fetched.settle("c2", "accept")
    said = "c2 waits with free credit although group A is free: nothing has woken it (MG-13)."
    assert group_picture(fetched).claims[-1] == said
    table = GroupTable("AAAA", prefetch=(1, 1))
    assert table.holds("c2") == []
    for verdict, label in (("nod", ""), ("accept", "A-9")):
        with pytest.raises(ValueError, match="c1 holds A-1;|a consumer can accept, release, reject"):
            table.settle("c1", verdict, label)
    with pytest.raises(ValueError, match="there is no consumer 'c9'; there are c1, c2"):
        table.settle("c9", "accept")


# Policies


def test_five_policies_on_the_same_messages():
    both = policy_run()
    lost = {name: last(picture)["queue.orders.discards"] for name, picture in both.pictures.items()}
    assert list(lost) == ["reject", "ring", "self-destruct", "last value", "priority"]
    assert lost["reject"] == 0
    assert "p1" in both["reject"].run.errors
    assert last(both["self-destruct"])["queue.orders.gone"] == 1
    for name in ("ring", "last value", "priority"):
        kinds = Counter(event.kind for event in both[name].run.events)
        gone = Counter(event.detail["reason"] for event in both[name].run.events if event.kind == "dequeued")
        assert lost[name] == kinds["dropped"] + gone["ring"] + gone["lvq"]
        assert kinds["message.transfer"] == 150


@pytest.mark.parametrize("name, told", [("ring", "is thrown out"), ("last value", "is replaced")])
def test_what_is_sent_and_what_gives_way_are_two_messages(name, told):
    """FC-23: each lost message is named once, as in the trace."""
    shown = policy_run(limit=12, messages=60).pictures[name]
    reason = {"ring": "ring", "last value": "lvq"}[name]
    lost = [
        event.message
        for event in shown.run.events
        if event.kind == "dequeued" and event.detail["reason"] == reason
    ]
    said = [step_sentence(shown.frames, frame) for frame in range(shown.frames.count)]
    said = [sentence for sentence in said if told in sentence]
    assert len(said) == len(lost) > 5
    for sentence, message in zip(said, lost, strict=True):
        assert sentence.startswith("p1 sends p1-")
        assert f"{message} {told}" in sentence
        assert f"sends {message}." not in sentence


def test_a_priority_queue_hands_out_the_most_urgent_first():
    """QT-05: no waiting message is more urgent than a message that is delivered."""
    frames = policy_run()["priority"].frames
    stays, holdings = frames.lasting["stays"], frames.lasting["holdings"]

    def urgency(stay: int) -> int:
        return int(frames.groups[stays.get(stay, "group") - 1][1:])

    for row in range(len(holdings)):
        frame = holdings.get(row, "start")
        taken = {holdings.get(one, "stay") for one in holdings.alive(frame)}
        waiting = [stay for stay in stays.alive(frame) if stay not in taken]
        assert all(urgency(stay) >= urgency(holdings.get(row, "stay")) for stay in waiting)


def test_with_flow_control_the_limit_is_never_reached():
    both = policy_run(stop=9, limit=20)
    assert both["reject"].run.errors == {}
    assert last(both["self-destruct"])["queue.orders.gone"] == 0
    assert both["ring"].frames.transitions == (), "a ring has no flow control (FC-03)"


# History


def test_the_alternatives_differ_as_the_rule_book_says():
    both = history_run()
    assert list(both.pictures) == list(NAMES.values())
    assert set(both["before the feature"].run.errors) == {"p1"}
    assert all(not both[name].run.errors for name in both.pictures if name != "before the feature")
    assert max(both["proof of concept"].frames.column("queue.orders.depth")) == 80
    assert not any(both["Java broker"].frames.column("queue.orders.held")), "ALT-12: nothing is withheld"
    assert 4 in both["Java broker"].frames.column("producer.p1.mood")


def test_an_obedient_producer_is_the_usual_one_where_nobody_is_told_to_stop():
    workload = flow_workload(stop=20, resume=10)
    ours = finish_steps(draw_steps(workload.with_producer("p1", obeys_flow=True), 300)).run.events
    assert ours == simulate(workload, message_limit=300).events


# Configuration


def test_the_configuration_lab_says_what_the_engine_says():
    picture = config_run('{"qpid.max_count": 90}')
    assert (picture.values()["stop_count"].value, picture.values()["resume_count"].value) == (72, 62)
    assert any("(FC-02.5)" in claim for claim in picture.claims)
    assert "stop 72" in picture.svg
    refused = config_run("orders --max-queue-count 100 --flow-stop-count 5")
    assert "must be less or equal to qpid.flow_stop_count=5" in refused.refusal
    with pytest.raises(ConfigurationError):
        config_run("orders --no-such-option 3")


# Traces


def test_a_trace_without_its_workload_shows_what_the_run_shows(tmp_path):
    run = simulate(flow_workload(stop=20, resume=10, capacity=5), message_limit=200)
    trace = trace_of(run)
    trace.workload = None
    write_trace(trace, tmp_path / "run.jsonl")
    seen, known = trace_picture(tmp_path / "run.jsonl"), picture_of(run)
    for channel in ("queue.orders.depth", "producer.p1.held", "consumer.c1.holds", "queue.orders.flow"):
        assert seen.frames.column(channel) == known.frames.column(channel)
    assert seen.frames.topology.producers[0].capacity == 5
    assert seen.frames.topology.consumers[0].prefetch == 20


def test_a_client_log_is_replayed_with_its_workload(tmp_path):
    """A recorded producer whose session died is never free to send again."""
    log = kit_path("data") / "recordings" / "workloads" / "overflow-despite-flow-control.csv.gz"
    picture = trace_picture(log)
    assert any("the engine agrees" in claim for claim in picture.claims)
    moods = picture.frames.column("producer.p1.mood").tolist()
    assert set(moods[moods.index(DEAD) :]) == {DEAD}
    assert last(picture)["producer.p1.blocked"] == 0
    (tmp_path / "log.csv.gz").write_bytes(log.read_bytes())
    with pytest.raises(LogError, match="put it beside the log as log.json"):
        trace_picture(tmp_path / "log.csv.gz")


def test_of_many_queues_some_are_shown_and_which_is_said():
    queues = {f"q{n}": {} for n in range(9)}
    producers = tuple(
        Producer(f"p{n}", ("", f"q{n}"), rate=50, capacity=5, size=10, seed=n) for n in range(9)
    )
    workload = Workload("nine", duration=1, queues=queues, producers=producers)
    picture = run_picture(simulate(workload, message_limit=90), ["q3", "q4"])
    assert picture.claims[0] == "2 of 9 queues are shown: q3, q4."
    assert [spot.name for spot in picture.frames.topology.producers] == ["p3", "p4"]
    assert len(run_picture(simulate(workload, message_limit=9)).frames.topology.queues) <= MOST_QUEUES
    with pytest.raises(TraceError, match="no queue 'q10' in this trace"):
        run_picture(simulate(workload, message_limit=9), ["q10"])


# States


def test_a_state_in_the_picture_is_the_state_of_the_graph():
    small = {"stop": 2, "resume": 1, "capacity_1": 2, "capacity_2": 1}
    space = state_space_run(**small)
    for node in (0, space.states.deepest, max(space.states.graph)):
        picture = state_space_run(**small, state=node).picture
        facts, seen = space.states.graph.nodes[node], last(picture)
        assert seen["queue.q.depth"] == facts["depth"]
        assert seen["queue.q.flow"] == bool(facts["on"])
        assert seen["producer.C1.held"] == facts["held"]["C1"]
        assert seen["producer.C1.outstanding"] == facts["outstanding"]["C1"]


# Spans, layout, the standard library


@pytest.mark.parametrize(
    "run",
    [lambda: policy_run(messages=60)["ring"], lambda: flow_run(messages=100, stop=20, resume=10, capacity=7)],
    ids=["ring", "held"],
)
def test_spans_agree_with_the_counts_in_every_frame(run):
    frames = run().frames
    stays, holdings, sendings = (frames.lasting[name] for name in ("stays", "holdings", "sendings"))
    starts, ends = stays.column("held_start"), stays.column("held_end")
    for index in range(frames.count):
        now, waiting = frames.at(index), list(stays.alive(index))
        assert len(waiting) == now["queue.orders.depth"]
        assert sum(starts[row] <= index < ends[row] for row in waiting) == now["queue.orders.held"]
        assert len(list(holdings.alive(index))) == now["queue.orders.acquired"]
        assert len(list(sendings.alive(index))) == now["producer.p1.outstanding"]


def test_the_layout_needs_no_numpy_and_crosses_few_lines():
    consumers = tuple(
        Consumer(f"c{n}", f"q{(n * 3) % 5}", prefetch=1, service=("const", 0.1)) for n in range(5)
    )
    workload = Workload("w", duration=1, queues={f"q{n}": {} for n in range(5)}, consumers=consumers)
    order = layout_of(picture_of(simulate(workload)).frames.topology)
    reads = [(n * 3) % 5 for n in order["consumer"]]
    assert [order["queue"].index(queue) for queue in reads] == sorted(range(5))


PICTURES = """
for name in ('capacity', 'fanout', 'flow', 'history', 'policy'):
    getattr(labs, f'{name}_run')(messages=20)
labs.recorded_picture
from qflow.labs.html_export import to_html; to_html(labs.flow_run(messages=20))
assert len(labs.group_run().claims) > 3 and labs.config_run().refusal == ''
"""
WIDGETS = """
lab = labs.flow_lab(messages=60, stop=10, resume=5)
lab.sliders['stop'].value = 20
assert lab.scene.run == 2 and labs.depth_chart(lab.picture).figure.layout.height == 340
"""


@pytest.mark.parametrize(
    ("missing", "script"),
    [
        ("ipywidgets anywidget traitlets plotly networkx numpy pyarrow pandas", PICTURES),
        ("numpy pandas", WIDGETS),
    ],
)
def test_pictures_need_the_standard_library_only_and_labs_no_numpy(missing, script):
    hide = f"import sys\nsys.modules.update(dict.fromkeys({missing.split()}))\nimport qflow.labs as labs\n"
    run = subprocess.run([sys.executable, "-c", hide + script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_a_producer_that_waits_for_a_slow_queue_has_its_lane_there():
    """Of several queues, the one that releases last makes a producer wait."""
    picture = fanout_run()
    [lane] = [lane for lane in picture.lanes if lane.kind == "wait"]
    assert picture.frames.topology.queues[lane.queue].name == "slow"
