"""``qflow spark``: every request that cannot be fulfilled ends in one sentence and status 2."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import output_of
from spark_kit import fleet_results
from waiting import wait_until

from qflow.cli import main
from qflow.spark import spark_session as session


def refused(capsys, *arguments):
    assert main(["spark", *map(str, arguments)]) == 2
    told = capsys.readouterr()
    *progress, sentence = told.err.splitlines()
    # On a slow machine a bar was shown before.
    assert told.out == "" and all(" [" in line for line in progress)
    return sentence


def test_what_is_missing_is_told_before_spark_is_started(capsys, tmp_path):
    assert "nowhere: no such file or folder" in refused(capsys, "audit", tmp_path / "nowhere")
    assert "name one log or more" in refused(capsys, "audit")
    bad = refused(capsys, "synth", "--queues=none", "--events=5", "--out", tmp_path)
    assert "must be a whole number from 1, got 'none'" in bad
    assert "no such file or folder" in refused(capsys, "stream", tmp_path / "in", "--out", tmp_path)
    assert "name the folder where files appear" in refused(capsys, "stream", "--out", tmp_path)


@pytest.mark.parametrize(
    ("given", "allowed"),
    [
        (["stream", ".", "--out", "out", "--watermark", "1.2.3s"], "a length of time such as 90s"),
        (["stream", ".", "--out", "out", "--idle", ".h"], "a length of time such as 90s"),
        (["audit", "log.csv", "--fail-on", "findings > 1.2.3"], "NAME > NUMBER[%]"),
    ],
)
def test_a_number_that_is_none_is_refused_with_what_is_allowed(capsys, given, allowed):
    sentence = refused(capsys, *given)
    assert allowed in sentence and repr(given[-1]) in sentence


def test_ctrl_c_while_java_starts_waits_until_it_has(monkeypatch):
    """Broken off half-way, it would stay behind and never end."""
    context = pytest.importorskip("pyspark").SparkContext
    started = []

    def launch(*given, **named):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        started.append("java")

    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", launch)
    monkeypatch.setattr(context, "_gateway", None)
    monkeypatch.setattr(context, "_active_spark_context", None)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        session.session("local[1]")
    assert started == ["java"]
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.release
def test_ctrl_c_while_spark_works_is_one_line_and_nothing_is_there_by_halves(capsys, tmp_path):
    pytest.importorskip("pyspark")
    words = ["synth", "--queues", "2", "--out", str(tmp_path / "fleet"), "--events"]
    said = tmp_path / "said"
    with said.open("w") as stderr:
        work = subprocess.Popen([sys.executable, "-m", "qflow", "spark", *words, "5000000"], stderr=stderr)
    wait_until(lambda: said.read_text() or work.poll() is not None, "how far the work is")
    work.send_signal(signal.SIGINT)
    status, told = work.wait(timeout=60), said.read_text()
    assert status == 130, told
    *progress, last = told.splitlines()
    assert last == "qflow: interrupted"
    assert progress and all(line.startswith("making a fleet [") for line in progress), told
    assert "6000 events of 2 components" in output_of(capsys, "spark", *words, "6000")
    assert "must have a new folder; got one with other rows" in refused(capsys, *words, "9000")


def test_a_synthetic_fleet_tells_what_its_workers_took(capsys, tmp_path, spark):
    assert main(["spark", "synth", "--queues=2", "--events=200", f"--out={tmp_path / 'fleet'}"]) == 0
    said = re.fullmatch(
        r"200 events of 2 components in .*\nno worker took more than (\d+) MiB\n", capsys.readouterr().out
    )
    assert 10 < int(said[1]) < 1000


def test_what_was_counted_of_a_clean_log_is_no_finding(spark):
    """A clean log has counts: how deep each queue was, how far the broker's reports agree."""
    from qflow.spark import cli
    from qflow.spark.tables import RESULTS

    clean = [row for row in fleet_results() if row[0] == "fleet/q10"]
    assert {row.finding for row in clean if row.kind == "finding"} == {"max_depth", "reports"}
    broken = next(row for row in fleet_results() if row.kind == "finding")._replace(finding="order")
    summary = cli._summary(spark.createDataFrame([*clean, broken], RESULTS.ddl))
    assert (summary["results"]["count"], summary["results"]["finding"]) == (4, 1)
    lines = cli._summary_text(summary).splitlines()
    assert "4 counts of the engine, 1 finding" in lines[0] and " order: " in lines[-1]
    del summary["results"]["finding"]
    lines = cli._summary_text({**summary, "findings": []}).splitlines()
    assert "finding" not in lines[0] and lines[-1].startswith("no findings: ")


def test_a_sweep_of_several_replays_says_how_sure_it_is():
    from collections import namedtuple

    from qflow.spark import cli
    from qflow.spark.tables import MEASURES

    row = namedtuple("row", MEASURES)
    rows = [
        row("log/q", "half", "queues", "q", "share_on", 0.5, 0.25, 0.2, 0.3125, ""),
        row("log/q", "half", "producers", "p", "blocked_share", 0.5, 0.25, None, None, ""),
        row("log/q", "half", "producers", "p", "dies", None, 0.3, None, None, ""),
        row("log/q", "half", "producers", "r", "dies", None, 0.0, None, None, ""),
        row("log/q", "odd", "", "", "", None, None, None, None, "refused: no"),
    ]
    assert list(cli._sweep_lines(rows, 10)) == [
        "log/q half: q share_on 0.250 of the time, between 0.200 and 0.312",
        "log/q half: p blocked_share 0.250 of the time",
        "log/q half: p's session dies in 3 of 10 replays",
        "log/q odd: refused: no",
    ]


def test_many_small_logs_are_audited_without_a_lake_with_the_same_summary(capsys, tmp_path, spark):
    """Of five logs one has a row without a time; a lake of the same logs says the same of them."""
    rows = [f"{1000 * n},p,transfer,q,p-{n},1," for n in range(1, 41)]
    rows += [f"{1000 * n + 500 * n},p,complete,q,p-{n},0," for n in range(1, 41)]
    workload = {"name": "w", "duration": 1, "queues": {"q": {"qpid.flow_stop_count": 9}}}
    workload["producers"] = [{"name": "p", "to": ["", "q"], "rate": 1000, "capacity": 50, "size": 1}]
    logs = [str(tmp_path / f"log{number}.csv") for number in range(5)]
    for number, path in enumerate(logs):
        lines = ["ts_us,client,event,queue,label,size,group", *rows, *["noon,p,block,,,,"] * (number == 3)]
        Path(path).write_text("\n".join(lines) + "\n")
        Path(path).with_suffix(".json").write_text(json.dumps(workload))
    found = []
    for more in ([], ["--lake", str(tmp_path / "lake")]):
        assert main(["spark", "audit", *logs, *more, "--json", "--fail-on", "rows"]) == 1
        found.append(json.loads(capsys.readouterr().out))
    one, other = found
    for told in found:
        assert told["worker_bytes"] > 1 << 20 and len(told["first_set_aside"]) == 1
        # A lake's events are also the begin and the end of each component.
        del told["worker_bytes"], told["events"]
    assert {**one, "kept": []} == other and one["metrics"]["times_on"] == 5
    for path in logs:
        Path(path).write_text("ts_us,client,event,queue,label,size,group\nnoon,p,block,,,,\n")
    assert "log0: must be a whole number, got 'noon'" in refused(capsys, "audit", *logs)


def test_quarantined_rows_are_counted_in_summary_and_report_and_set_the_status(capsys, tmp_path, spark):
    """Of 40 rows, 4 have no time; another log of the same lake is whole."""
    rows = [f"{1000 * n},p,transfer,q,p-{n},1," for n in range(1, 21)]
    rows += [f"{1000 * n + 500},p,complete,q,p-{n},0," for n in range(1, 21)]
    workload = {"name": "w", "duration": 1, "queues": {"q": {}}}
    workload["producers"] = [{"name": "p", "to": ["", "q"], "rate": 1000, "capacity": 50, "size": 1}]
    bad = [f"noon,{row.partition(',')[2]}" for row in rows[:2]] + rows[2:20]
    bad += [f"noon,{row.partition(',')[2]}" for row in rows[20:22]] + rows[22:]
    for name, lines in (("bad", bad), ("whole", rows)):
        text = "\n".join(["ts_us,client,event,queue,label,size,group", *lines])
        (tmp_path / f"{name}.csv").write_text(text + "\n")
        (tmp_path / f"{name}.json").write_text(json.dumps(workload))
    places = ["--lake", str(tmp_path / "lake"), "--out", str(tmp_path / "out"), "--day", "2026-11-27"]
    many = "10.0% of the rows were quarantined: the audit covers only the rest"
    audit = ["spark", "audit", *places]
    assert main([*audit, str(tmp_path / "bad.csv")]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("events, 4 rows quarantined") and said[1] == many
    # The lake remembers the count; the results have it for the page.
    for fail_on, status in (("many-rows", 1), ("rows,findings", 1), ("findings", 0), ("", 0)):
        assert main([*audit, "--json", "--fail-on", fail_on]) == status, fail_on
        summary = json.loads(capsys.readouterr().out)
        assert (summary["set_aside"], summary["headline"]) == (4, many)
    report = ["spark", "report", str(tmp_path / "out"), "--page", str(tmp_path / "day.html")]
    assert main(report) == 0 and many in (tmp_path / "day.html").read_text()
    # 4 of 80 rows are not more than a twentieth.
    capsys.readouterr()
    assert main([*audit, str(tmp_path / "whole.csv")]) == 0
    assert "4 rows quarantined" in capsys.readouterr().out
    assert main(report) == 0
    page = (tmp_path / "day.html").read_text()
    assert "4 rows quarantined." in page and many not in page
    capsys.readouterr()
    assert "must be one or more of rows, many-rows, findings, or NAME > NUMBER[%] with" in refused(
        capsys, *audit[1:], "--fail-on", "all"
    )


def test_a_report_on_a_day_is_one_page_with_its_charts(capsys, tmp_path, spark):
    """Of two logs with a queue of one name, which is no markup."""
    from dataclasses import replace
    from xml.etree import ElementTree

    from spark_kit import write_lake
    from test_spark_auditor import STALL, accepts, sends

    from qflow.logs.components import lake_of

    odd = STALL.replace(
        queues={"<q>": STALL.queues["q"]},
        producers=(replace(STALL.producers[0], to=("", "<q>")),),
        consumers=(replace(STALL.consumers[0], queue="<q>"),),
    )
    rows = [row._replace(queue="<q>") for row in sends(1, 2, 3, 4) + accepts((900_000, 1), (990_000, 2))]
    lake = {**lake_of("monday", odd, rows), **lake_of("tuesday", odd, rows)}
    write_lake(tmp_path / "lake", {name.replace("<q>", "q"): own for name, own in lake.items()})
    audit = ["spark", "audit", "--lake", str(tmp_path / "lake"), "--out", str(tmp_path / "out")]
    assert main(audit) == 0
    page = tmp_path / "day.html"
    assert main(["spark", "report", str(tmp_path / "out"), "--page", str(page)]) == 0
    assert capsys.readouterr().out.endswith("day.html: flow control: undated\n")
    text = page.read_text()
    assert "<q>" not in text and "&lt;q&gt;" in text and "held 4 transfers" in text
    # Each log has one that rows are missing at its begin, and two of its accepts.
    assert "6 findings." in text and text.count("an unsettled delivery to the client") == 4
    charts = [ElementTree.fromstring(part.split("</div>")[0]) for part in text.split('qflow-wide">')[3:]]
    assert len(charts) == 3 and all("monday/" in "".join(chart.itertext()) for chart in charts)
    assert "there are no results of 2026-11-27, but of undated" in refused(
        capsys, "report", tmp_path / "out", "--day", "2026-11-27", "--page", page
    )


def test_a_step_of_a_pipeline_fails_by_conditions_and_writes_metrics():
    """Without Spark: what the conditions mean, and that a reader of OpenMetrics reads the text."""
    from qflow.spark import cli

    numbers = dict.fromkeys(cli._METRICS, 0) | {"findings": 3, "on_share": 0.25, "quarantined_share": 0.05}
    for words, holds in (
        ("findings > 0", True),
        ("on_share > 20%, held > 5", True),
        ("on_share > 0.25", False),
        ("on_share >= 25 %", True),
        ("many-rows, rows", False),
        ("findings", True),
        ("", False),
    ):
        assert any(one.holds(numbers) for one in cli._conditions_of(words)) == holds, words
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    read = {
        sample.name: sample.value
        for family in parser.text_string_to_metric_families(cli._open_metrics(numbers))
        for sample in family.samples
    }
    assert read == {f"qflow_{name}": value for name, value in numbers.items()}
