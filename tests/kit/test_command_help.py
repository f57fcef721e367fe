"""The help of each command: its group, examples, units of numbers, colours and completion."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from commands import output_of, refusal, status_of

from qflow import cli
from qflow.cli import EXAMPLES, _examples_of
from qflow.colour import paint, paint_headings, paint_states

WHOLE = cli.whole_parser()


ALL = {parser.prog: parser for parser in cli.list_parsers(WHOLE)}
INNERMOST = [name for name, parser in ALL.items() if not parser.commands]


def test_every_command_stands_in_one_group(capsys):
    said = output_of(capsys, "--help")
    for title, names in cli.GROUPS.items():
        block = said.partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert re.findall(r"^  (\S+)  ", block, re.MULTILINE) == list(names)
    assert (
        sum(map(len, cli.GROUPS.values()))
        == len(cli.ROOMS)
        == len(ALL) - 1 - sum(name.count(" ") > 1 for name in ALL)
    )


def test_each_innermost_command_has_examples_of_its_own():
    assert {f"qflow {name}" for name in EXAMPLES} == set(INNERMOST)
    for name, lines in EXAMPLES.items():
        assert 1 <= len(lines) <= 2
        assert all(f"{line} ".startswith(f"qflow {name} ") for line in lines)
    every = [line for lines in EXAMPLES.values() for line in lines]
    assert len(every) == len(set(every))


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_can_be_typed_in_every_shell(line):
    """cmd does not remove single quotes, and PowerShell continues lines differently from POSIX shells."""
    assert not re.search(r"['\\$`!%]", line.partition(" > ")[0])
    assert "\n" not in line


@pytest.mark.parametrize("name", ALL)
def test_each_help_ends_with_examples_of_its_own(name):
    lines = ALL[name].format_help().partition("\nexamples:\n")[2].splitlines()
    assert lines == [f"  {line}" for line in _examples_of(name)]
    assert len(lines) == (1 if name == "qflow site fetch" else 2)
    assert lines[0].startswith(f"  {name}")


@pytest.mark.parametrize("name", ALL)
def test_each_help_fits_a_terminal(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    # An example is on one line, to be copied; the terminal folds it.
    text = ALL[name].format_help().partition("\nexamples:\n")[0]
    assert [line for line in text.splitlines() if len(line) > 80] == []


_UNIT = re.compile(
    r"\b(messages|bytes|KiB|pages|files|partition|seconds|milliseconds|rows|events|components|times|browsers|"
    r"processes|port|seed)\b"
)


@pytest.mark.parametrize("name", INNERMOST)
def test_each_number_has_a_unit(name):
    numbers = [
        action
        for action in ALL[name]._actions
        if re.search(r"(^|=|\])(N|M|S|MS)$", str(action.metavar or "")) and action.help
    ]
    assert [action.option_strings for action in numbers if not _UNIT.search(action.help)] == []


@pytest.mark.parametrize("name", INNERMOST)
def test_each_example_can_be_read(name):
    for line in _examples_of(name):
        words = shlex.split(line.partition(" > ")[0])
        assert WHOLE.parse_args(words[1:]).command == words[1]


def test_examples_run_at_the_top_of_a_checkout(root, tmp_path, monkeypatch, capsys):
    """They run in order, as the second one writes the trace that the next ones read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("QFLOW_PROGRESS", str(tmp_path / "progress.json"))
    recordings = tmp_path / "data" / "recordings"
    # A part of what lies there: tests/conformance plays all scenarios, and a thirtieth of a run is a run.
    for part in ("workloads/ring.json", "scenarios/random-ring.jsonl", "scenarios/random-tx.jsonl"):
        (recordings / part).parent.mkdir(parents=True, exist_ok=True)
        (recordings / part).symlink_to(root / "data" / "recordings" / part)
    slow = json.loads((root / "data/recordings/workloads/slow-consumer.json").read_text())
    producers = [{**one, "rate": one["rate"] / 10} for one in slow["producers"]]
    shorter = {**slow, "duration": 10, "producers": producers}
    (recordings / "workloads/slow-consumer.json").write_text(json.dumps(shorter))
    for name in ("rules", "config add queue", "config address", "run", "trace info", "trace replay",
                 "trace why", "exercises", "conform"):  # fmt: skip
        for line in _examples_of(f"qflow {name}"):
            words = []
            for word in shlex.split(line)[1:]:
                # All of the recordings are played in tests/conformance.
                files = sorted(tmp_path.glob(word), key=lambda file: file.stat().st_size)
                words += [str(file) for file in files[:2]] or [word]
            assert status_of(*words) == 0, line
            assert capsys.readouterr().out, line


# Colour


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch) -> Terminal:
    for name, value in (("NO_COLOR", ""), ("TERM", "xterm"), ("WT_SESSION", "1")):
        monkeypatch.setenv(name, value)
    return Terminal()


def test_headings_and_errors_are_in_colour_on_a_terminal(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert status_of("rules", "--help") == 0
    assert "\x1b[1mexamples:\x1b[0m" in terminal.getvalue()
    assert status_of("rules", "--jsn") == 2
    assert "\x1b[1;31mqflow:\x1b[0m unknown argument" in terminal.getvalue()


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_who_wants_no_colour_gets_none(terminal, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert paint("qflow:", "error", terminal) == "qflow:"


def test_on_and_off_are_words_first(terminal):
    text = "q was ON, now OFF; ONLY that"
    painted = paint_states(text, terminal)
    assert painted == "q was \x1b[33mON\x1b[0m, now \x1b[32mOFF\x1b[0m; ONLY that"
    assert paint_states(text, io.StringIO()) == re.sub(r"\x1b\[\d*m", "", painted) == text


def test_a_file_gets_no_colour(terminal):
    assert paint_headings("options:", io.StringIO()) == "options:"
    assert paint_headings("options:", terminal) == "\x1b[1moptions:\x1b[0m"


# Completion


def completed(script: str, *words: str) -> set[str]:
    """Return the completions that bash offers for the last of the given words."""
    line = " ".join(map(shlex.quote, words))
    asked = f"COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _shtab_qflow"
    done = subprocess.run(
        ["bash", "--norc", "-c", f'{script}\n{asked}; printf "%s\\n" "${{COMPREPLY[@]}}"'],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


@pytest.mark.skipif(os.name == "nt", reason="there is no bash")
def test_bash_completes_commands_options_choices_and_files(capsys, tmp_path, monkeypatch):
    pytest.importorskip("shtab")
    script = output_of(capsys, "completion", "bash")
    assert completed(script, "qflow", "") >= set(cli.ROOMS)
    assert completed(script, "qflow", "tra") == {"trace"}
    assert completed(script, "qflow", "trace", "") >= {"info", "replay", "import", "why"}
    assert completed(script, "qflow", "config", "add", "queue", "q", "--flow-stop") == {
        "--flow-stop-count",
        "--flow-stop-size",
    }
    assert completed(script, "qflow", "serve", "--brake", "") == {"silence", "credit", "reject"}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.json").touch()
    assert completed(script, "qflow", "run", "ord") == {"orders.json"}


@pytest.mark.parametrize(("shell", "says"), [("zsh", "#compdef qflow"), ("fish", "complete -c qflow")])
def test_zsh_and_fish_get_scripts_of_their_own(capsys, shell, says):
    pytest.importorskip("shtab")
    assert says in output_of(capsys, "completion", shell)
    assert status_of("completion", "tcsh") == 2


def test_without_its_library_completion_says_what_to_install(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "shtab is not installed here" in refusal(capsys, "completion", "bash")
