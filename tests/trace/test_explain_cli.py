"""``qflow trace why``: the chain on the command line."""

from __future__ import annotations

import json

import pytest
from commands import output_of, refusal
from explain_story import story_of
from test_explain_stories import flow_165

from qflow.trace.files import write_trace
from qflow.trace.replaying import trace_of
from qflow.workload import Producer, Workload, simulate


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("why") / "165.jsonl"
    write_trace(story_of(flow_165).trace, path)
    return str(path)


def test_the_chain_is_printed(file, capsys):
    lines = output_of(capsys, "trace", "why", file, "2.5s", "C1").splitlines()
    assert lines[0].startswith("C1 is blocked: a message has been due since 1.14 s, and its window is full.")
    assert lines[-1].strip().startswith("← q has no consumer until late subscribes at 3 s")


def test_the_chain_as_json(file, capsys):
    data = json.loads(output_of(capsys, "trace", "why", file, "605", "producer:C1", "--json"))
    assert data["seq"] == 605
    assert data["links"][0]["subject"] == {"kind": "producer", "name": "C1"}


@pytest.mark.parametrize(
    ("instant", "subject", "sentence"),
    [
        ("soon", "C1", "an instant must be a row's seq (such as 1200) or a time (such as 2.5s); got 'soon'"),
        ("-1s", "C1", "an instant must be a row's seq"),
        ("1e999999999s", "C1", "an instant must be a row's seq"),
        ("9" * 5000, "C1", "an instant must be a row's seq"),
        ("٣s", "C1", "an instant must be a row's seq"),
        ("2.5s", "C9", "nothing in this trace is called 'C9'; it has producers C1, C2, queues q"),
    ],
)
def test_a_wrong_question_ends_in_one_sentence(file, capsys, instant, subject, sentence):
    error = refusal(capsys, "trace", "why", file, instant, subject)
    assert error.startswith(f"qflow: {sentence}") and len(error) < 200


@pytest.mark.parametrize("instant", ["99s", "14.000001s", "812", "999999"])
def test_an_instant_after_the_end_is_answered_for_the_end_and_says_so(file, capsys, instant):
    at_the_end = output_of(capsys, "trace", "why", file, "811", "C1")
    note = "The trace ends at 14 s (seq 811); this is the state at its end."
    words = "trace", "why", file, instant, "C1"
    assert output_of(capsys, *words) == f"{note}\n{at_the_end}"
    assert json.loads(output_of(capsys, *words, "--json"))["note"] == note


@pytest.mark.parametrize("instant", ["14s", "811", "0s"])
def test_an_instant_of_the_trace_needs_no_such_note(file, capsys, instant):
    words = "trace", "why", file, instant, "C1"
    assert "ends at 14 s (seq" not in output_of(capsys, *words)
    assert json.loads(output_of(capsys, *words, "--json"))["note"] is None


def test_the_planned_time_after_the_last_row_belongs_to_the_trace(tmp_path, capsys):
    """Nothing happened in it, which is part of what the run tells."""
    workload = Workload(
        "short",
        1,
        {"q": {}},
        producers=(
            Producer(
                "p", ("", "q"), rate=1, capacity=5, size=1, arrival="recorded", recorded=((0.1, 1, ""),)
            ),
        ),
    )
    path = tmp_path / "short.jsonl"
    write_trace(trace_of(simulate(workload)), path)
    for instant, is_after in (("0.9s", False), ("1s", False), ("1.1s", True)):
        said = output_of(capsys, "trace", "why", path, instant, "q")
        assert said.startswith("The trace ends at") is is_after
