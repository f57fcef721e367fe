"""The command lines of qflow predict and qflow run."""

import gzip
import json
from pathlib import Path

import pytest
from commands import output_of, refusal, room_command, status_of
from recordings import paths

from qflow.design import cli as design_cli
from qflow.prediction import cli
from qflow.prediction.report import report_text
from qflow.workload import cli as run_cli


@pytest.fixture(scope="module")
def beginning(tmp_path_factory):
    """The files of a recording's first five seconds: what was run, and what its clients logged."""
    workload, log = paths("capacity-165")
    folder = tmp_path_factory.mktemp("beginning")
    stated, logged = folder / "capacity-165.json", folder / "capacity-165.csv"
    stated.write_text(json.dumps(json.loads(Path(workload).read_text()) | {"duration": 5}))
    with gzip.open(log, "rt") as lines, logged.open("w") as rows:
        rows.write(next(lines))
        rows.writelines(line for line in lines if int(line.partition(",")[0]) < 5_000_000)
    return str(stated), str(logged)


def test_predict_prints_one_json_object(capsys, beginning):
    workload, log = beginning
    words = ["--queue-arguments", '{"q": {"qpid.flow_stop_count": 60}}', "--settings", workload]
    words += ["--prefetch", "late=2", "--json", "--replays", "1", "--model", "closed"]
    report = json.loads(output_of(capsys, "predict", workload, log, *words))
    assert report["model"] == "closed"
    assert report["settings"]["queue_arguments"]["q"]["qpid.flow_stop_count"] == 60
    assert report["settings"]["prefetch"] == {"late": 2}
    assert report["queues"]["q"]["predicted"]["max_depth"] <= 125
    assert "recorded" in report_text(report)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--capacity", "p1"], "--capacity: must be NAME=N, N a whole number from 1, got 'p1'"),
        (["--capacity", "C1=" + "9" * 5000], "--capacity: must be NAME=N, N a whole number from 1"),
        (["--capacity", "nobody=5"], "the producer to change must be one of C1, C2, got 'nobody'"),
        (["--queue-arguments", "5"], "--queue-arguments: must be a JSON map"),
        (["--queue-arguments", '{"q": {"qpid.flow_resume_count": 900}}'], "resume"),
        (["--settings", paths("fanout-one-slow")[0]], "a queue must be one of q, got 'fast, medium, slow'"),
        (["--replays", "0"], "replays must be a whole number from 1"),
    ],
)
def test_predict_refuses_in_one_sentence(capsys, words, sentence):
    assert status_of("predict", *paths("capacity-165"), *words) == 2
    # On a slow machine a line of progress comes before.
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("qflow")]
    assert len(told) == 1
    assert sentence in told[0]


def test_settings_of_a_file_with_other_clients_name_what_is_left_out(tmp_path, capsys, beginning):
    other = {
        "duration": 5,
        "queues": {"q": {"qpid.flow_stop_count": 30}, "audit": {}},
        "producers": [{"name": "C1", "to": ["", "q"], "rate": 9, "capacity": 4, "size": 9}],
    }
    path = tmp_path / "other.json"
    path.write_text(json.dumps(other))
    words = "--settings", path, "--json", "--replays", "1"
    report = json.loads(output_of(capsys, "predict", *beginning, *words))
    assert report["settings"]["left_out"] == ["consumer late", "producer C2", "queue audit"]
    assert report["settings"]["capacity"] == {"C1": 4}
    said = "only one of the two files has them: consumer late, producer C2, queue audit"
    assert said in report_text(report)


def test_the_command_writes_a_receipt_and_scores_it(tmp_path, capsys, beginning):
    (workload, log), receipt = beginning, tmp_path / "receipt.json"
    words = "--replays", "3", "--receipt", str(receipt), "--detail", "constants"
    assert output_of(capsys, "predict", workload, log, *words)
    assert json.loads(receipt.read_text())["detail"] == "constants"
    text = output_of(capsys, "predict", "--score", receipt, log)
    assert text.startswith("from capacity-165, ")
    assert "of 6 are inside; 80 % are expected" in text
    none = "a receipt must be one that --receipt wrote, got None"
    assert none in refusal(capsys, "predict", "--score", workload, log)
    assert "needs WORKLOAD.json and LOG" in refusal(capsys, "predict", workload)


def write(tmp_path, arguments=None, **more):
    producer = {"name": "p", "to": ["", "q"], "rate": 100, "capacity": 5, "size": 9, **more}
    queues = {"q": arguments or {"qpid.flow_stop_count": 5}}
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"duration": 1, "queues": queues, "producers": [producer]}))
    return str(path)


def test_run_refuses_in_one_sentence(tmp_path, capsys):
    assert "window must be 'ideal'" in refusal(capsys, "run", write(tmp_path, window="wide"))
    assert "a trace is" in refusal(capsys, "run", write(tmp_path), "--trace", "out.xlsx")


def test_an_interrupted_run_ends_in_good_order(tmp_path, capsys, monkeypatch):
    asked = iter(range(10_000))

    def interrupt(self, done):
        if next(asked) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr("qflow.progress.ProgressLine.__call__", interrupt)
    assert room_command(run_cli, "run", write(tmp_path), "--json") == 130
    summary = json.loads(capsys.readouterr().out)
    assert summary["interrupted"] is True
    assert summary["seconds"] == 0.5


def test_slow_predictions_show_progress(monkeypatch, capsys, beginning):
    monkeypatch.setattr("qflow.progress.PATIENCE", 0.0)
    assert room_command(cli, "predict", *beginning, "--replays", "1") == 0
    error = capsys.readouterr().err
    assert "reading the evidence in capacity-165.csv" in error
    assert "predicting, one replay: " in error
    assert " of 5 s" in error


# Declare arguments in a workload file


@pytest.mark.parametrize(("room", "name"), [(run_cli, "run"), (design_cli, "design")])
def test_a_misspelt_argument_is_passed_over_and_said_so_in_one_line(tmp_path, capsys, room, name):
    path = write(tmp_path, {"qpid.flow_stop_cuont": 5, "qpid.max_count": 50})
    assert room_command(room, name, path) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"qflow {name}: queue 'q': the broker passes over 'qpid.flow_stop_cuont' (CF-02); "
        "did you mean 'qpid.flow_stop_count'?"
    ]


def test_predict_says_so_too_of_what_is_changed(capsys, beginning):
    workload, log = beginning
    changed = "--queue-arguments", '{"q": {"x-mine": 5}}'
    assert room_command(cli, "predict", workload, log, *changed, "--replays", "1") == 0
    assert "qflow predict: queue 'q': the broker passes over 'x-mine' (CF-02)\n" in capsys.readouterr().err


def test_an_argument_of_the_wrong_type_is_refused_with_its_queue_and_key(tmp_path, capsys):
    path = write(tmp_path, {"qpid.max_count": "many"})
    words = "qflow: queue 'q', 'qpid.max_count': invalid conversion: Cannot convert many\n"
    assert refusal(capsys, "run", path) == words
