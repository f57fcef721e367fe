"""Writing files: completely or not at all, under the given name, and never over an input."""

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from commands import refusal, run_python
from recordings import WORKLOADS

from qflow.logs.workload_file import write_workload
from qflow.teaching import learner
from qflow.trace import read_trace, trace_of, write_trace
from qflow.workload import Consumer, Producer, Workload, simulate
from qflow.writing import require_apart, write_whole

SMALL = Workload(
    "small",
    1,
    {"q": {}},
    producers=(Producer("p", ("", "q"), rate=100, capacity=5, size=100),),
    consumers=(Consumer("c", "q", prefetch=5, service=("const", 0.001)),),
)
LOG = WORKLOADS / "overflow-despite-flow-control.csv.gz"
NAMES = ["t.jsonl", "t.jsonl.gz", "t.parquet"]


@pytest.fixture(scope="module")
def trace():
    return trace_of(simulate(SMALL))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")], ids=repr
)
def test_what_was_there_stays_until_the_new_one_is_whole(tmp_path, trace, name, error):
    path = tmp_path / name
    write_trace(trace, path)
    good = path.read_bytes()

    def fail(done):
        raise error

    with pytest.raises(type(error)) as caught:
        write_trace(trace, path, fail)
    assert path.read_bytes() == good
    assert names(tmp_path) == [name]
    if isinstance(error, OSError):
        assert caught.value.filename == str(path)


@pytest.mark.parametrize("name", NAMES)
def test_two_writers_give_one_of_their_files(tmp_path, trace, name):
    """The second starts while the first is writing; the file of the first, which ends last, remains."""
    path = tmp_path / name
    other = trace_of(simulate(SMALL.replace(duration=0.5)))
    inside = []

    def meanwhile(done):
        if not inside:
            inside.append(done)
            second = threading.Thread(target=write_trace, args=(other, path))
            second.start()
            second.join()
            assert len(read_trace(path)[0]) == len(other)

    write_trace(trace, path, meanwhile)
    back, quarantine = read_trace(path)
    assert (len(back), quarantine) == (len(trace), [])
    assert names(tmp_path) == [name]


def test_a_link_leads_to_its_file_and_rights_stay(tmp_path, trace):
    real, link = tmp_path / "real.jsonl", tmp_path / "link.jsonl"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_trace(trace, link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert len(read_trace(real)[0]) == len(trace)


@pytest.mark.parametrize("place", ["no/such/t.jsonl", "folder.jsonl"])
def test_a_place_that_cannot_be_is_named(tmp_path, trace, place):
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(OSError) as refusal:
        write_trace(trace, tmp_path / place)
    assert refusal.value.filename == str(tmp_path / place)
    assert names(tmp_path) == ["folder.jsonl"]


def test_the_longest_of_names_can_be_written(tmp_path):
    path = tmp_path / f"{'n' * 250}.json"
    write_workload(SMALL, path)
    assert Workload.load(path).producers == SMALL.producers


def test_nothing_is_left_where_nothing_was_written(tmp_path):
    with pytest.raises(ValueError, match="stop"), write_whole(tmp_path / "x") as beside:
        beside.write_text("half")
        raise ValueError("stop")
    assert names(tmp_path) == []


# What is read is not written over


@pytest.fixture
def folder(tmp_path, trace, monkeypatch):
    write_trace(trace, tmp_path / "t.jsonl")
    write_workload(SMALL, tmp_path / "w.jsonl")
    shutil.copy(LOG, tmp_path / "log.csv.gz")
    shutil.copy(LOG.with_name("overflow-despite-flow-control.json"), tmp_path / "log.json")
    (tmp_path / "same.jsonl").hardlink_to(tmp_path / "t.jsonl")
    (tmp_path / "log.jsonl").symlink_to(tmp_path / "log.csv.gz")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("trace", "replay", "t.jsonl", "-o", "t.jsonl"),
        ("trace", "replay", "t.jsonl", "-o", "./same.jsonl"),
        ("trace", "info", "w.jsonl", "t.jsonl", "--quarantine", "t.jsonl"),
        ("trace", "import", "log.csv.gz", "-o", "log.jsonl"),
        ("trace", "import", "log.csv.gz", "--workload", "log.csv.gz"),
        ("trace", "import", "log.csv.gz", "--workload", "log.json"),
        ("trace", "import", "log.csv.gz", "log.json", "--workload", "../{}/log.json"),
        ("trace", "import", "log.csv.gz", "-o", "new.jsonl", "--workload", "./new.jsonl"),
        ("run", "w.jsonl", "--trace", "w.jsonl"),
        ("design", "w.jsonl", "--picture", "w.jsonl"),
        ("design", "log.json", "--log", "log.csv.gz", "--picture", "./log.csv.gz"),
    ],
    ids=" ".join,
)
def test_no_command_writes_over_what_it_reads(folder, capsys, words):
    before = {name: Path(name).read_bytes() for name in names(folder)}
    said = refusal(capsys, *(word.format(folder.name) for word in words))
    assert "so it is not written over; give the output another name" in said
    assert {name: Path(name).read_bytes() for name in names(folder)} == before


# A learner's progress


@pytest.fixture
def progress(tmp_path, monkeypatch):
    file = tmp_path / "progress.json"
    monkeypatch.setenv("QFLOW_PROGRESS", str(file))
    return file


def test_a_damaged_progress_file_is_set_aside(progress, tmp_path):
    for text, aside in (
        ('{"exercises": {"a": {"solved": true}', "progress.damaged.json"),
        ("[]", "progress.damaged2.json"),
        ('{"exercises": 5}', "progress.damaged3.json"),
        ("\udcff", "progress.damaged4.json"),
        ("[" * 100_000, "progress.damaged5.json"),
    ):
        progress.write_bytes(text.encode(errors="surrogateescape"))
        assert learner.read("exercises") == {}
        with pytest.warns(UserWarning, match=f"progress.json is damaged; it is kept as {aside}"):
            assert learner.keep("exercises", "b", {"solved": True})
        assert (tmp_path / aside).read_bytes() == text.encode(errors="surrogateescape")
        assert learner.read("exercises") == {"b": {"solved": True}}


def test_progress_with_a_byte_order_mark_is_whole(progress, tmp_path):
    progress.write_text(json.dumps({"exercises": {"a": {"solved": True}}, "later": 1}), encoding="utf-8-sig")
    assert learner.keep("exercises", "b", {})
    assert set(learner.read("exercises")) == {"a", "b"}
    assert names(tmp_path) == ["progress.json"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may read everything")
def test_progress_that_may_not_be_read_is_not_replaced(progress, tmp_path):
    progress.write_text("{}")
    progress.chmod(0)
    assert not learner.keep("exercises", "b", {})
    assert names(tmp_path) == ["progress.json"]


def test_a_second_interrupt_leaves_no_part(tmp_path, monkeypatch):
    """Ctrl-C is pressed again while the written file is moved to its place."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", interrupt)
    with pytest.raises(KeyboardInterrupt), write_whole(tmp_path / "out.json") as beside:
        beside.write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_ends_hears_no_further_interrupt():
    """A second Ctrl-C while Python ends once printed a traceback of its threading module."""
    program = (
        "import signal, sys, qflow.cli as cli\n"
        "def interrupt(given): raise KeyboardInterrupt\n"
        "cli._answer = interrupt\n"
        "status = cli.main()\n"
        "signal.raise_signal(signal.SIGINT)\n"
        "sys.exit(status)"
    )
    done = run_python("-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "qflow: interrupted\n")


# Outputs that are no regular files. The nodes are the test's own; never a real device.


def test_a_pipe_is_written_and_stays_a_pipe(tmp_path, trace):
    pipe = tmp_path / "trace.jsonl"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_trace(trace, pipe)
    reader.join(60)
    write_trace(trace, tmp_path / "file.jsonl")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert got == [(tmp_path / "file.jsonl").read_bytes()]


def test_a_device_is_opened_and_stays_a_device(tmp_path):
    node = tmp_path / "node"
    try:
        # The numbers of the null device, in a folder of the test's own.
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        node.write_bytes(b"")
    except OSError as refused:
        pytest.skip(f"this user may not make or open a device: {refused.strerror}")
    before = node.lstat()
    write_workload(SMALL, node)
    write_workload(SMALL, node)
    assert (node.lstat().st_rdev, node.lstat().st_ino) == (before.st_rdev, before.st_ino)
    assert names(tmp_path) == ["node"]


def test_a_link_to_a_pipe_leads_to_it(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "out.json"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_workload(SMALL, link)
    reader.join(60)
    assert json.loads(got[0])["name"] == "small"
    assert link.is_symlink()
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_nothing_reaches_a_pipe_of_what_failed(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Held open, so that writing would not wait for a reader.
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    with pytest.raises(ValueError, match="stop"), write_whole(pipe) as beside:
        beside.write_text("half")
        raise ValueError("stop")
    with pytest.raises(BlockingIOError):
        os.read(end, 1)
    os.close(end)


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="this system has no /dev/stdout")
def test_standard_output_is_shared_with_what_is_printed(tmp_path, name):
    program = (
        "import sys; from qflow.writing import write_file\n"
        f"print('before'); write_file({name!r}, 'written\\n'); print('after')"
    )
    out = tmp_path / "out.txt"
    out.write_text("an earlier run, longer than all that is written now\n")
    with out.open("w") as file:
        subprocess.run([sys.executable, "-c", program], stdout=file, check=True, cwd=tmp_path, timeout=60)
    assert out.read_text() == "before\nwritten\nafter\n"
    assert names(tmp_path) == ["out.txt"]
    assert run_python("-c", program).stdout == "before\nwritten\nafter\n"


def test_one_pipe_takes_two_outputs(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    require_apart([tmp_path / "pipe", tmp_path / "pipe"], [])


@pytest.mark.parametrize("words", [["run", "w.json"], ["conform", "w.json"], ["config", "script", "w.json"]])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_of_powershell_is_named_as_such(tmp_path, capsys, monkeypatch, words, encoding):
    monkeypatch.chdir(tmp_path)
    Path("w.json").write_bytes("\ufeff{}".encode(encoding))
    said = refusal(capsys, *words)
    assert "w.json: " in said
    assert "this file is UTF-16, as PowerShell's > writes it; save it as UTF-8" in said
