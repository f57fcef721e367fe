"""Explain: what it is asked, what it answers in, and that it can always answer."""

from __future__ import annotations

import json

import pytest
from explain_story import Story, story_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_explain_stories import flow_165
from trace_commands import Cast, all_commands, fresh

from qflow.broker import Broker, Message
from qflow.teaching.rules import rule_book
from qflow.trace.explain import Explanation, Subject, explain
from qflow.trace.explain.chain import section_of
from qflow.trace.explain.question import KINDS, _Subjects
from qflow.trace.replaying import record, trace_of
from qflow.trace.schema import TraceError
from qflow.trace.timeline import Timeline
from qflow.workload import Consumer, Producer, Workload, simulate


@pytest.fixture(scope="module")
def timeline():
    return Timeline(story_of(flow_165).trace)


# The question


def test_an_instant_is_a_seq_or_a_time_or_the_cursor(timeline):
    by_time = explain(timeline, subject="C1", time=2_500_000)
    seq = by_time.seq
    assert explain(timeline, seq, "C1") == by_time
    timeline.seek(seq)
    assert explain(timeline, subject="producer:C1") == by_time
    assert explain(timeline.trace, seq, "C1") == by_time, "a trace will do, it only takes longer"
    with pytest.raises(TraceError, match=f"either a row or a time; got row {seq} and time 5"):
        explain(timeline, seq, "C1", time=5)
    with pytest.raises(TraceError, match="a time is microseconds from 0, got -1"):
        explain(timeline, subject="C1", time=-1)
    with pytest.raises(TraceError, match=r"this trace has seq 0 to \d+, got -3"):
        explain(timeline, -3, "C1")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            {"instant": "0.5s"},
            "a row's seq must be a whole number, got '0.5s'; an instant is a row's seq, such",
        ),
        ({"instant": 0.5}, "a row's seq must be a whole number, got 0.5; "),
        ({"instant": True}, "a row's seq must be a whole number, got True; "),
        ({"time": "1s"}, r"a time must be a whole number, got '1s'; .* time=500_000\)"),
        ({"instant": 5, "subject": None}, "a subject is a text, such as 'queue:q', got a NoneType"),
    ],
)
def test_what_is_no_instant_and_no_subject_gets_a_sentence_with_what_is_allowed(timeline, asked, sentence):
    with pytest.raises(TraceError, match=sentence):
        explain(timeline, **{"subject": "C1", **asked})


def test_asking_moves_nothing(timeline):
    timeline.seek(300)
    state = timeline.broker.state_hash()
    for kind in KINDS:
        for name in list(_Subjects(timeline.trace, timeline.index).names(kind))[:3]:
            explain(timeline, 700, f"{kind}:{name}")
    assert timeline.cursor == 300
    assert timeline.broker.state_hash() == state


@pytest.mark.parametrize(
    ("subject", "sentence"),
    [
        (
            "nobody",
            "nothing in this trace is called 'nobody'; it has producers C1, C2, queues q, consumers late, ",
        ),
        ("", "nothing in this trace is called ''; it has producers C1, C2"),
        (
            "producer:C3",
            "there is no producer 'C3' in this trace; its producers are C1, C2",
        ),
        ("queue:orders", "there is no queue 'orders' in this trace; its queues are q"),
        ("consumer:C1", "there is no consumer 'C1' in this trace; its consumers are late"),
        ("message:C1-9999", "there is no message 'C1-9999' in this trace; did you mean 'C1-99'?"),
    ],
)
def test_a_wrong_name_gets_one_sentence_with_what_there_is(timeline, subject, sentence):
    with pytest.raises(TraceError) as caught:
        explain(timeline, 100, subject)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_names_that_several_things_have_are_told_apart():
    story = Story()
    story.grouped("A")
    story.grouped("B")
    for queue in "AB":
        story.send_grouped("P", "A-1", to=queue)
        story.session("s").message_subscribe(queue, queue)
    story.session("t").message_subscribe("B", "B")
    timeline = Timeline(story.trace)
    end = len(story.trace) - 1
    with pytest.raises(
        TraceError, match="'A' is the name of a queue and of a consumer and of a group; ask for"
    ):
        explain(timeline, end, "A")
    with pytest.raises(
        TraceError, match="several consumers 'B' in this trace; ask for consumer:s/B or consumer:t/B"
    ):
        explain(timeline, end, "consumer:B")
    with pytest.raises(TraceError, match="several groups 'A' in this trace; ask for group:A/A or group:B/A"):
        explain(timeline, end, "group:A")
    assert explain(timeline, end, "group:B/A").answer.startswith("Group A of B has no owner")
    assert explain(timeline, end, "t/B").subject == Subject("consumer", "t/B")
    assert explain(timeline, end, "A-1").subject.kind == "message", "a label alone is the message's"


# The answer


TOO_LARGE = "c has 50 bytes of credit left, and m needs"
PASSED = "The cursor of c has passed m; only a release or a freed group sets it back."


@pytest.mark.parametrize(
    ("arguments", "is_first_scan", "reason"),
    [
        pytest.param({}, False, TOO_LARGE, id="plain"),
        pytest.param({"qpid.priorities": 10}, False, PASSED, id="priority"),
        pytest.param({"qpid.priorities": 10}, True, TOO_LARGE, id="priority, the first scan of all"),
    ],
)
def test_a_message_too_large_for_the_credit(arguments, is_first_scan, reason):
    """CN-08, RF-10: a cursor is put back, but not those of a priority queue's levels."""
    broker = Broker()
    trace = record(broker)
    session = broker.session("c")
    session.queue_declare("q", arguments)
    messages = [Message(100, routing_key="q", priority=7, label="m")]
    if is_first_scan:
        session.message_transfer(messages.pop())
    session.message_subscribe("q", "c")
    session.message_flow("c", 0, 5)
    session.message_flow("c", 1, 50)
    for message in messages:
        session.message_transfer(message)
    told = str(explain(trace, len(trace) - 1, "consumer:c"))
    assert [text for text in (TOO_LARGE, PASSED) if text in told] == [reason]


def test_every_link_can_be_gone_to_and_asked_about(timeline):
    explanation = explain(timeline, subject="C1", time=3_200_000)
    assert isinstance(explanation, Explanation)
    assert [link.level for link in explanation.links] == [0, 1, 2, 3, 4, 4, 5, 5, 6, 7]
    subjects = [str(link.subject) for link in explanation.links]
    assert subjects == [
        "producer:C1",
        "producer:C1",
        "transfer:C1-64",
        "queue:q",
        "queue:q",
        "queue:q",
        "queue:q",
        "consumer:late",
        "consumer:late",
        "message:C1-1",
    ]
    for link in explanation.links:
        assert timeline.trace.time[link.seq] == link.time
        assert explain(timeline, link.seq, str(link.subject)).links
    on = explanation.links[3]
    assert timeline.trace.kind[on.seq] == "flow_stopped"
    assert str(on.section) == "Producer Flow Control, 1.1.1 Example"
    assert explanation.links[-1].time == 3_500_000, (
        "where the chain ends is told by the rows after the instant"
    )


def test_the_answer_as_data_text_and_markdown(timeline):
    explanation = explain(timeline, subject="C1", time=2_500_000)
    data = json.loads(json.dumps(explanation.data()))
    assert data["subject"] == {"kind": "producer", "name": "C1"}
    assert data["links"][3]["rules"] == ["FC-14"]
    assert data["links"][3]["document"] == "Producer Flow Control"
    assert data["links"][0]["text"] == explanation.answer
    lines = explanation.text().split("\n")
    assert len(lines) == len(explanation.links)
    assert lines[1].startswith("← C1 has 50 of 50 outstanding")
    assert lines[1].endswith("; CAP-01, CAP-08]")
    assert str(explanation) == explanation.text()
    assert repr(explanation).startswith("Explanation('producer:C1', seq ")
    markdown = explanation._repr_markdown_()
    assert markdown.startswith("**C1 is blocked")
    assert "  - because q has been ON since" in markdown


def test_a_name_cannot_break_out_of_markdown():
    story = Story()
    story.queue("<b>*q*", max_size=0)
    assert r"\<b\>\*q\*" in explain(Timeline(story.trace), 5, "queue:<b>*q*")._repr_markdown_()


def test_every_rule_has_a_section():
    assert {str(section_of(rule)).partition(",")[0] for rule in rule_book()} == {
        "Producer Flow Control",
        "Using Message Groups",
        "QPID-2935",
        "The rules of the broker",
    }


# Always an answer


def assert_all_is_answered(timeline, seq, limit=25, other=None):
    """Ask about everything there is at an instant; return the kinds of subjects there were."""
    subjects = _Subjects(timeline.trace, timeline.index)
    rules = rule_book()
    asked = set()
    for kind in KINDS:
        for name in list(subjects.names(kind))[:limit]:
            explanation = explain(timeline, seq, f"{kind}:{name}")
            assert other is None or explain(other, seq, f"{kind}:{name}") == explanation
            asked.add(kind)
            assert (explanation.subject, explanation.seq) == (Subject(kind, name), seq)
            assert [link.level for link in explanation.links].count(0) == 1, (
                "one answer, and what it rests on"
            )
            for link in explanation.links:
                assert link.text.endswith("."), link
                assert ".." not in link.text.replace("...", ""), link
                assert set(link.rules) <= set(rules), link
                assert 0 <= link.seq < len(timeline.trace)
                assert subjects.find(str(link.subject)) == link.subject
    return asked


@settings(max_examples=40)
@given(
    all_commands,
    st.sampled_from(["shipped", "shipped", "overflow-list", "watermark", "java", "pre-feature"]),
    st.data(),
)
def test_everything_can_be_asked_about_at_any_instant(commands, flow_control, data):
    broker = fresh(flow_control=flow_control)
    trace = record(broker)
    Cast(broker).play(commands)
    # The answer is the same wherever a timeline has been, and whatever its checkpoints are.
    timeline, other = Timeline(trace), Timeline(trace, spacing=40)
    for seq in {data.draw(st.integers(0, len(trace) - 1)), len(trace) - 1}:
        other.seek(data.draw(st.integers(0, len(trace) - 1)))
        assert_all_is_answered(timeline, seq, other=other)


def test_a_workload_with_everything_in_it_can_be_asked_about_at_any_instant():
    workload = Workload(
        "all",
        3,
        {"q": {"qpid.flow_stop_count": 20, "qpid.group_header_key": "group", "qpid.shared_msg_group": 1}},
        producers=(
            Producer("p1", ("", "q"), rate=80, capacity=5, size=100, groups=(4, 1.0)),
            Producer("p2", ("", "q"), rate=40, capacity=5, size=100, seed=2, window="qpid-cpp", session="s"),
            Producer(
                "p3", ("", "q"), rate=40, capacity=5, size=100, seed=3, window="qpid-python", session="s"
            ),
        ),
        consumers=(
            Consumer("c1", "q", prefetch=5, service=("exp", 0.02), release=0.1, reject=0.1, crash=2.0),
            Consumer("c2", "q", prefetch=2, service=("exp", 0.02), start=1.0, seed=9),
        ),
    )
    timeline = Timeline(trace_of(simulate(workload)))
    for seq in range(0, len(timeline.trace), len(timeline.trace) // 12):
        kinds = assert_all_is_answered(timeline, seq, limit=6)
        assert kinds == set(KINDS)
