"""``qflow trace why``: the chain on the command line."""

from __future__ import annotations

import json

import pytest
from test_explain_documents import flow_165

from qflow.cli import main
from qflow.trace.files import write_trace


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("why") / "165.jsonl"
    write_trace(flow_165().trace, path)
    return str(path)


def test_the_chain_is_printed(file, capsys):
    assert main(["trace", "why", file, "2.5s", "C1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("C1 is blocked: a message has been due since 1.14 s, and its window is full.")
    assert lines[-1].strip().startswith("← Nobody consumes from q until late subscribes at 3 s")


def test_the_chain_as_json(file, capsys):
    assert main(["trace", "why", file, "605", "producer:C1", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["seq"] == 605
    assert data["links"][0]["subject"] == {"kind": "producer", "name": "C1"}


@pytest.mark.parametrize(
    ("instant", "subject", "sentence"),
    [
        ("soon", "C1", "an instant is a row's seq, such as 1200, or a time, such as 2.5s; got 'soon'"),
        ("-1s", "C1", "an instant is a row's seq"),
        ("2.5s", "C9", "nothing in this trace is called 'C9'; it has producers C1, C2, queues q"),
        ("2.5s", "queue:orders", "there is no queue 'orders' in this trace; its queues are q"),
    ],
)
def test_a_wrong_question_ends_in_one_sentence(file, capsys, instant, subject, sentence):
    # argparse takes a leading minus for an option, so the instant is told apart by two dashes.
    assert main(["trace", "why", file, "--", instant, subject]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"qflow: {sentence}")
    assert error.count("\n") == 1


def test_a_file_that_is_no_trace_ends_in_one_sentence(tmp_path, capsys):
    (tmp_path / "no.jsonl").write_text("hello\n")
    assert main(["trace", "why", str(tmp_path / "no.jsonl"), "1", "q"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
