"""The command line: output, exit status, and refusals."""

import importlib.util
import io
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser import get, serve_chapters
from commands import output_of, refusal, run_python, status_of

from qflow import __version__, cli
from qflow.kit import RefusalError, install_command
from qflow.launch import chapters as launch
from qflow.maintain import __main__ as maintain
from qflow.progress import ProgressLine, StatusLine


def kit_with(folder: Path, **chapters: str) -> Path:
    """Create a folder of chapters, each with one cell."""
    for name, source in chapters.items():
        path = folder / f"{name.replace('_', '-').lstrip('c')}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(notebook(source))
    return folder


def notebook(source: str, count: int = 1) -> str:
    """Return the JSON of a notebook with one code cell."""
    cell = (
        f'{{"cell_type": "code", "id": "one", "execution_count": {count}, "metadata": {{}}, "outputs": [],'
        f' "source": ["{source}"]}}'
    )
    return f'{{"cells": [{cell}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 5}}\n'


def test_a_terminal_without_an_arrow_shows_a_question_mark(monkeypatch):
    """An answer is printed even if the encoding of the output is not UTF-8."""
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    monkeypatch.setattr(cli, "_answer", lambda *given: print("q is ON \u2190 101 \u00d7 1") or 0)
    assert cli.main(["rules"]) == 0
    sys.stdout.flush()
    assert sys.stdout.buffer.getvalue().split() == b"q is ON ? 101 ? 1".split()


class TestRefusals:
    @pytest.mark.parametrize(
        ("target", "says"),
        [("t.txt", ".jsonl.gz file"), ("no/t.jsonl", "an existing folder"), ("t.parquet", "a folder")],
    )
    def test_a_trace_that_cannot_be_written_is_refused_before_the_run(self, capsys, tmp_path, target, says):
        (tmp_path / "t.parquet").mkdir()
        (tmp_path / "never-read.json").write_text("no JSON")
        said = refusal(capsys, "run", str(tmp_path / "never-read.json"), "--trace", str(tmp_path / target))
        assert says in said

    def test_a_number_that_no_memory_holds(self, capsys, root, tmp_path):
        """Python refuses to convert a number of more than 4300 digits, which any of these options may get."""
        digits = "9" * 5_000
        path = tmp_path / "big.json"
        path.write_text(f'{{"name": "x", "duration": {digits}, "queues": {{}}}}')
        lines = tmp_path / "big.jsonl"
        lines.write_text(f'{{"id": "x", "steps": [{{"op": "x", "expect": {{"n": {digits}}}}}]}}')
        ring = str(root / "data" / "recordings" / "workloads" / "ring.json")
        for command in (
            ("run", str(path)),
            ("conform", str(lines)),
            ("design", ring, "--max-count", digits),
            ("config", "add", "queue", "q", "--declare", f'{{"x": {digits}}}'),
        ):
            assert len(refusal(capsys, *command)) < 1_500

    @pytest.mark.parametrize("command", ["run", "design", "conform"])
    def test_what_is_nested_too_deeply(self, capsys, tmp_path, command):
        path = tmp_path / "deep.json"
        path.write_text("[" * 100_000)
        assert "nested too deeply" in refusal(capsys, command, str(path))

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ([], "COMMAND"),
            (["brew"], "'brew'"),
            (["conform", "file.jsonl", "--fast"], "'--fast'"),
            (["conform"], "FILE.jsonl"),
            (["lab", "--port=eighty"], "a port must be a number from 0 to 65535; got 'eighty'"),
            (["lab", "--port=70000"], "a port must be a number from 0 to 65535; got '70000'"),
            (["lab", "--port=-1"], "a port must be a number from 0 to 65535; got '-1'"),
        ],
    )
    def test_what_is_missing_or_wrong_is_named(self, capsys, words, said):
        assert said in refusal(capsys, *words)

    def test_a_file_where_a_folder_is_due(self, capsys, tmp_path, monkeypatch):
        (tmp_path / "notes.txt").write_text("")
        assert "--dir takes a folder" in refusal(capsys, "lab", "--dir", str(tmp_path / "notes.txt"))
        monkeypatch.chdir(tmp_path)
        before = sorted(tmp_path.iterdir())
        assert "--dir takes a folder, but got an empty name" in refusal(capsys, "lab", "--dir", "")
        assert sorted(tmp_path.iterdir()) == before

    def test_a_missing_dependency(self, capsys, monkeypatch):
        real = importlib.util.find_spec
        hidden = {"jupyterlab", "anywidget"}
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in hidden else real(name))
        assert refusal(capsys, "lab") == (
            "qflow: JupyterLab and anywidget are not installed here; "
            f"install the missing packages with: {install_command('lab')}\n"
        )

    def test_an_unknown_chapter(self, capsys, tmp_path):
        said = refusal(capsys, "notebooks", "build", "--dir", str(tmp_path), main=maintain.main)
        assert "no chapter source" in said
        (tmp_path / "sources").mkdir()
        (tmp_path / "sources" / "01-one.py").write_text("# %%\n1\n")
        said = refusal(capsys, "notebooks", "check", "--dir", str(tmp_path), "02-two", main=maintain.main)
        assert "'02-two'" in said and "01-one" in said


def test_version_and_module_entry():
    said = run_python("-m", "qflow", "--version").stdout
    assert re.fullmatch(rf"qflow {re.escape(__version__)} \((compiled|pure Python)\)\n", said)


class TestLabArguments:
    def test_what_jupyterlab_is_told(self, tmp_path):
        kit_with(tmp_path, c01_thresholds="1", c02_more="2")
        arguments = launch._lab_arguments(tmp_path, browser=False, port=9001, further=["--debug"])
        assert f"--ServerApp.root_dir={tmp_path}" in arguments
        assert "--LabApp.default_url=/lab/tree/01-thresholds.ipynb" in arguments
        assert {"--no-browser", "--port=9001"} <= set(arguments)
        assert arguments[-1] == "--debug"

        arguments = launch._lab_arguments(tmp_path, browser=True, port=None)
        assert not [a for a in arguments if a.startswith(("--no-browser", "--port"))]

    def test_further_options_reach_jupyterlab(self, monkeypatch):
        calls = []
        monkeypatch.setattr(launch, "lab", lambda *a, **k: calls.append((a, k)) or 0)
        assert cli.main(["lab", "--no-browser", "--ServerApp.token=x", "--port", "8899", "--debug"]) == 0
        named = {"browser": False, "port": 8899, "further": ["--ServerApp.token=x", "--debug"]}
        assert calls == [((None,), named)]


class TestWhichFolder:
    @pytest.fixture
    def away(self, tmp_path, monkeypatch):
        """Change to a folder outside any checkout, with an installed kit of one chapter."""
        here = tmp_path / "here"
        here.mkdir()
        monkeypatch.chdir(here)
        kit = kit_with(tmp_path / "kit", c01_thresholds="1")
        monkeypatch.setattr(launch, "kit_path", lambda name: kit)
        monkeypatch.setattr("qflow.kit.checkout_root", lambda: None)
        return here

    def test_away_from_a_checkout_and_from_inside_the_folder(self, away, monkeypatch):
        chapters, said = launch._find_chapters(None)
        assert chapters == away / "qflow-chapters"
        assert (chapters / "01-thresholds.ipynb").exists()
        assert f"Copied the chapters to {chapters}: 01-thresholds.ipynb." in said
        assert launch._find_chapters("mine")[0] == away / "mine"
        assert (away / "mine" / "01-thresholds.ipynb").exists()
        monkeypatch.chdir(chapters)
        assert launch._find_chapters(None) == (chapters, [f"The chapters are in {chapters}."])

    def test_in_a_checkout(self, away, tmp_path, monkeypatch):
        checkout = tmp_path / "checkout"
        kit_with(checkout / "notebooks", c01_thresholds="1")
        (checkout / "pyproject.toml").write_text('[project]\nname = "qflow-kit"\n')
        monkeypatch.chdir(checkout / "notebooks")
        before = (checkout / "notebooks" / "01-thresholds.ipynb").read_bytes()
        assert launch._find_chapters(None)[0] == checkout / "qflow-chapters"
        assert (checkout / "qflow-chapters" / "01-thresholds.ipynb").exists()
        assert (checkout / "notebooks" / "01-thresholds.ipynb").read_bytes() == before
        with pytest.raises(RefusalError, match="holds the kit's own chapters"):
            launch._find_chapters(".")

    def test_a_kit_without_chapters_leaves_no_folder(self, away, tmp_path):
        (tmp_path / "kit" / "01-thresholds.ipynb").unlink()
        with pytest.raises(RefusalError, match="no chapter"):
            launch._find_chapters(None)
        assert not (away / "qflow-chapters").exists()

    def test_a_folder_that_cannot_be_made(self, away):
        (away / "file").write_text("")
        with pytest.raises(RefusalError, match="--dir FOLDER"):
            launch._find_chapters("file/inside")


class TestLayingOut:
    def test_an_edited_chapter_is_never_overwritten(self, tmp_path):
        kit, mine = kit_with(tmp_path / "kit", c01_one="1", c02_two="2"), tmp_path / "mine"
        launch._copy_chapters(kit, mine)
        (mine / "01-one.ipynb").write_text(notebook("my own thoughts"))
        kit_with(kit, c01_one="1 + 1", c02_two="2 + 2", c03_three="3")
        for _ in range(2):
            again = launch._copy_chapters(kit, mine)
            assert again.kept == ["01-one.ipynb"]
            assert (mine / "01-one.ipynb").read_text() == notebook("my own thoughts")
        for name, source in (("02-two", "2 + 2"), ("03-three", "3")):
            (cell,) = json.loads((mine / f"{name}.ipynb").read_text())["cells"]
            assert "".join(cell["source"]) == source

    def test_a_copy_holds_no_outputs_and_its_links_lead_to_its_exercises(self, tmp_path):
        kit, mine = kit_with(tmp_path / "kit", c01_one="[e](../exercises/01.ipynb)"), tmp_path / "mine"
        kept = json.loads((kit / "01-one.ipynb").read_text())
        kept["cells"][0]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["901\n"]}]
        (kit / "01-one.ipynb").write_text(json.dumps(kept))
        (kit / "reference").mkdir()
        (kit / "reference" / "rules.md").write_text("[e](../../exercises/01.ipynb)")
        launch._copy_chapters(kit, mine)
        (cell,) = json.loads((mine / "01-one.ipynb").read_text())["cells"]
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        assert cell["source"] == ["[e](exercises/01.ipynb)"]
        assert (mine / "reference" / "rules.md").read_text() == "[e](../exercises/01.ipynb)"
        assert "901" in (kit / "01-one.ipynb").read_text()
        # A learner's own outputs are no change, and stay.
        (mine / "01-one.ipynb").write_text(json.dumps(kept).replace("../exercises", "exercises"))
        assert launch._copy_chapters(kit, mine).refreshed == []
        assert "901" in (mine / "01-one.ipynb").read_text()

    def test_running_a_chapter_is_not_editing_it(self, tmp_path):
        kit, mine = kit_with(tmp_path / "kit", c01_one="1"), tmp_path / "mine"
        launch._copy_chapters(kit, mine)
        (mine / "01-one.ipynb").write_text(notebook("1", count=7))
        again = launch._copy_chapters(kit, mine)
        assert (again.added, again.refreshed, again.kept) == ([], [], [])
        assert (mine / "01-one.ipynb").read_text() == notebook("1", count=7)
        kit_with(kit, c01_one="1 + 1")
        assert launch._copy_chapters(kit, mine).refreshed == ["01-one.ipynb"]

    def test_what_was_there_before_a_spoilt_register_and_a_spoilt_chapter_stay(self, tmp_path):
        kit, mine = kit_with(tmp_path / "kit", c01_one="1"), kit_with(tmp_path / "mine", c01_one="theirs")
        assert launch._copy_chapters(kit, mine).kept == ["01-one.ipynb"]
        assert (mine / "01-one.ipynb").read_text() == notebook("theirs")
        (mine / launch._REGISTER).write_text("{")
        (mine / "01-one.ipynb").write_text("not a notebook any more")
        assert launch._copy_chapters(kit, mine).kept == ["01-one.ipynb"]

    def test_sources_and_checkpoints_stay_at_home(self, tmp_path):
        kit, mine = kit_with(tmp_path / "kit", c01_one="1"), tmp_path / "mine"
        for inner in ("sources", ".ipynb_checkpoints", "images"):
            kit_with(kit / inner, c01_one="1")
        assert launch._copy_chapters(kit, mine).added == ["01-one.ipynb", "images/01-one.ipynb"]


@pytest.mark.slow
def test_the_lab_answers_on_a_chapter(tmp_path):
    with serve_chapters(tmp_path) as server:
        first = launch._first_chapter(server.folder)
        status, page = get(f"{server.url}/lab/tree/{first}")
        assert (status, "JupyterLab" in page) == (200, True)
        assert get(f"{server.url}/api/contents/{first}?content=0")[0] == 200
        # Its address is the first thing that is said after warnings, and works as it stands there.
        said = server.log.read_text().splitlines()
        address = next(line for line in said if not line.startswith("[W "))
        # It selects the first cell of code: the first Shift+Enter runs that.
        assert (address, get(address)[0]) == (f"{server.url}/lab/tree/{first}#cell-id=lab", 200)
        # The question whether to fetch news would lie over the first picture.
        answer = get(f"{server.url}/lab/api/settings/@jupyterlab/apputils-extension:notification")[1]
        settings = json.loads(answer)["schema"]["properties"]
        assert settings["fetchNews"]["default"] == "false"
        assert settings["checkForUpdates"]["default"] is False


class TestTerminalManners:
    """What a shell does to a command: a closed pipe, a full disk, Ctrl-C."""

    @staticmethod
    def started(*arguments: str, **streams: object) -> subprocess.Popen[str]:
        # With unbuffered output a print would fail by itself; the usual buffer fails only at the end.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
        command = [sys.executable, "-m", "qflow", *arguments]
        return subprocess.Popen(command, text=True, env=environment, **streams)

    @pytest.mark.parametrize(
        ("stream", "arguments", "status"),
        [
            ("stdout", ("--help",), 1),
            ("stdout", ("rules", "--json"), 1),
            ("stderr", ("trace", "info", "no-such-file.jsonl"), 2),
        ],
    )
    def test_a_reader_that_goes_away_is_no_mistake(self, stream, arguments, status):
        reading, writing = os.pipe()
        os.close(reading)
        command = self.started(*arguments, **{stream: writing})
        os.close(writing)
        assert not any(command.communicate())
        assert command.returncode == status

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
    def test_a_full_disk_is_told_in_one_sentence(self):
        with open("/dev/full", "w") as full:
            command = self.started("config", "add", "queue", "q", stdout=full)
            assert command.communicate()[1] == "qflow: No space left on device\n"
        assert command.returncode == 2

    def test_progress_in_a_file_is_lines(self):
        """A carriage return has no effect in a file, so progress is written as separate lines."""
        told = io.StringIO()
        line = ProgressLine("reading", 9, stream=told, patience=0)
        line(1)
        line(2)
        line.end()
        assert told.getvalue() == "reading: 1 of 9 rows\n"

    @pytest.mark.parametrize("columns", [40, 12])
    def test_progress_on_a_terminal_never_wraps(self, columns, monkeypatch):
        """A line that wraps could not be overwritten by the next one."""
        monkeypatch.setenv("COLUMNS", str(columns))
        ours, theirs = os.openpty()
        with os.fdopen(theirs, "w") as terminal:
            line = StatusLine(terminal)
            line.show("reading a-file-with-quite-a-long-name.jsonl: 1000 rows")
            line.show("done")
            line.end()
        shown = ""
        while not shown.endswith("\n"):
            shown += os.read(ours, 4096).decode()
        os.close(ours)
        first, second = shown.removesuffix("\r\n").split("\r")
        assert first == "reading a-file-with-quite-a-long-name.jsonl"[: columns - 1]
        assert second == "done".ljust(columns - 1)

    @pytest.mark.parametrize("arguments", [("trace", "info"), ("run", "--json"), ("conform", "--json")])
    def test_what_is_told_underway_is_not_on_standard_output(self, arguments, root, monkeypatch, capsys):
        monkeypatch.setattr("qflow.progress.PATIENCE", -1.0)
        recordings = root / "data" / "recordings"
        file = {
            "trace": "scenarios/hand.jsonl",
            "run": "workloads/ring.json",
            "conform": "scenarios/random-ring.jsonl",
        }[arguments[0]]
        status = cli.main([*arguments, str(recordings / file)])
        said = capsys.readouterr()
        assert said.err and "\r" not in said.err
        if arguments[0] == "trace":
            assert (status, said.out) == (2, "")
        else:
            assert all(isinstance(json.loads(line), dict) for line in said.out.splitlines())
            assert (status, said.out != "") == (0, True)


class TestSpoiltInput:
    """Any input ends in an answer or in one sentence, never in a traceback."""

    LETTERS = [
        *"{}[]:;,'\"\\/ \n\t=-+.019eE#*?$%&()<>|~`^@!aé漢🎉\0\u202e",
        "qpid.",
        "None",
        "1e400",
        "9" * 5000,
        "{" * 50,
    ]
    ADDRESS = (
        "orders; {create: always, node: {type: queue, x-declare: {alternate-exchange: 'amq.fanout', "
        "arguments: {'qpid.flow_stop_count': 100, 'qpid.policy_type': ring}}, "
        "x-bindings: [{exchange: 'amq.topic', key: 'a.#'}]}}"
    )
    WORDS = (
        "--max-queue-count=10",
        "--flow-stop-count=5",
        "--limit-policy=ring",
        "--argument=a=b",
        "--shared-groups",
    )
    BROKER = ("--broker-option=--default-flow-stop-threshold=90", "--broker-option=default-queue-limit=5")
    GIVEN = {
        "address": ("config address {}", [ADDRESS]),
        "options": ("config add queue q {} {}", WORDS),
        "declare": ("config add queue q --declare {}", ['{"qpid.max_count": 5, "x": [1, {"y": null}]}']),
        "broker": ("config add queue q {}", BROKER),
        "broker file": ("config add queue q --broker-config qpidd.conf", ()),
        "instant": ("trace why no.jsonl {} q", ["2.5s"]),
        "notebook": ("notebooks check {} --dir .", ["01-one"]),
    }
    """Of each command the words, and one of which texts stands spoilt in its gaps."""
    FILE = "default-flow-stop-threshold=90\n# no\ndefault-queue-limit=1000\n"

    def spoilt(self, chance: random.Random, text: str) -> str:
        for _ in range(chance.choice((1, 1, 2, 3, 8))):
            first, second = sorted(chance.randrange(len(text) + 1) for _ in range(2))
            second = chance.choice((first, first + 1, second, len(text)))
            new = chance.choice(("", chance.choice(self.LETTERS), 2 * text[first:second]))
            text = text[:first] + new + text[second:]
        return text

    @pytest.mark.parametrize("what", GIVEN)
    def test_a_hundred_times(self, what, tmp_path, capsys, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("sources").mkdir()
        Path("sources", "01-one.py").write_text("# %%\n1\n")
        chance = random.Random(f"qflow {what}")
        command, texts = self.GIVEN[what]
        refused = 0
        for _ in range(100):
            Path("qpidd.conf").write_text(self.spoilt(chance, self.FILE), encoding="utf-8")
            given = [
                self.spoilt(chance, chance.choice(texts)) if word == "{}" else word
                for word in command.split()
            ]
            status = status_of(*given, main=maintain.main if what == "notebook" else cli.main)
            said = capsys.readouterr()
            assert status in (0, 1, 2), given
            if status == 2:
                assert (said.out, said.err.count("\n"), len(said.err) < 2_000) == ("", 1, True), given
            else:
                assert said.out or said.err, given
            refused += status > 0
        assert refused > 10


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["ruels"], "; did you mean 'rules'?"),
        (["rules", "--jsn"], "unknown argument '--jsn'; did you mean '--json'?"),
        (["design", "w.json", "--mesages=5"], "did you mean '--messages'?"),
        (["serve", "--brake", "credt"], "; did you mean 'credit'?"),
    ],
)
def test_what_is_almost_right_is_answered_with_what_is(capsys, words, hint):
    assert hint in refusal(capsys, *words)
    assert "did you mean" not in refusal(capsys, "zzz")
    # An option of another command is no suggestion.
    assert "did you mean" not in refusal(capsys, "trace", "import", "a.csv", "--trace", "x")


def test_rules_and_exercises_are_objects_where_they_are_asked_for(capsys):
    assert status_of("rules", "FC-13", "lnk-2", "--json") == 0
    assert [one["rule"] for one in json.loads(capsys.readouterr().out)] == ["FC-13", "LNK-02"]
    assert len(json.loads(output_of(capsys, "rules", "--json"))) > 200
    found = json.loads(output_of(capsys, "exercises", "--json"))["exercises"]
    assert found["01-thresholds"]["on_and_off"] == {"tries": 0, "hints": 0, "solved": False}


@pytest.mark.parametrize(
    "words",
    [
        ("run", "no-such.json"),
        ("design", "data/recordings/workloads/ring.json", "--max-count", "0"),
        ("predict", "data/recordings/workloads/ring.json", "no-such.csv"),
        ("conform", "no-such.jsonl"),
        ("trace", "info", "pyproject.toml"),
        ("trace", "import", "pyproject.toml"),
        ("config", "add", "queue", "q", "--declare", "{"),
        ("rules", "FC-99"),
        ("run", "data/recordings/workloads/ring.json", "--seed", "many"),
    ],
    ids=" ".join,
)
def test_a_refusal_is_an_object_where_one_is_asked_for(capsys, monkeypatch, root, words):
    monkeypatch.chdir(root)
    sentence = refusal(capsys, *words).partition(": ")[2].strip()
    assert status_of(*words, "--json") == 2
    said = capsys.readouterr()
    assert json.loads(said.out) == {"error": sentence}
    assert sentence in said.err
