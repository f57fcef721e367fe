"""Each command that a page names, in an environment that holds what the page names and nothing else.

``commands.csv`` is the table: an environment (how qflow is installed, with which extras), what the machine is
without, a command, its status, and words that it says. With the status ``until`` a command goes on; it is
interrupted as soon as it has said the words, and has to end quietly. A row marked ``release`` takes too long
for CI, and is asked for with ``-m matrix_release``.

An environment is made once, for all its rows; they run one after the other in one folder, at the top of which
are the recordings, as in a checkout.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path
from threading import Timer
from typing import NamedTuple

import pytest

from qflow import cli

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("commands.csv")
TOOLS = {
    "java": ("java",),
    "npm": ("npm", "node"),
    "cc": ("cc", "gcc", "as", "ld"),
    "browser": ("chromium", "google-chrome", "firefox"),
}
EVERYDAY = (
    "awk basename bash cat chmod cp cut date dirname env find git grep head id ln ls mkdir mktemp mv rm "
    "sed sh sleep sort tail tar tee touch tr uname wc xargs"
)
CHAPTERS = ("00-tour", "01-thresholds", "03-held-completions", "05-message-groups", "08-several-queues")
SOLUTIONS = ("02-bytes-and-counts", "04-capacity", "05-groups")
SMALL = """{"duration": 2, "queues": {"orders": {"qpid.flow_stop_count": 10}},
"producers": [{"name": "p1", "to": ["", "orders"], "rate": 100, "capacity": 5, "size": 100}],
"consumers": [{"name": "c1", "queue": "orders", "prefetch": 5, "service": ["const", 0.02]}]}"""
"""A workload of two seconds: what a row does is of interest here, not how long."""
KEPT = ("HTTP", "NO_PROXY", "NPM_", "PIP_", "REQUESTS_", "SSL_", "UV_", "http", "no_proxy", "npm_config_")
"""How variables begin that say where a machine gets packages from."""
TIME = 600
"""Seconds that a command may take; only one that hangs does."""


class Row(NamedTuple):
    environment: str
    without: str
    command: str
    status: str
    says: str
    when: str

    @property
    def mark(self):
        return pytest.mark.matrix if self.when == "ci" else pytest.mark.matrix_release


def rows() -> list[Row]:
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [Row(**row) for row in csv.DictReader(file)]


# Environments


@cache
def wheel(folder: Path) -> Path:
    """Build the wheel as pure Python; compiled wheels are tested elsewhere."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(
        command, cwd=ROOT, env={**os.environ, "QFLOW_COMPILE": "0"}, check=True, capture_output=True
    )
    return next(folder.glob("*.whl"))


def install(python: Path, *what: str) -> None:
    """Install packages with uv if it is available, or else with pip, which is slower."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None or subprocess.run([uv, "pip", "install", "-q", "--python", python, *what]).returncode:
        subprocess.run([python, "-m", "pip", "install", "-q", *what], check=True)


@pytest.fixture(scope="session")
def environments(tmp_path_factory):
    """Return a function that returns the program folder of an environment, creating it on first use."""
    folder = tmp_path_factory.mktemp("environments")

    @cache
    def make(name: str) -> Path:
        if name == "editable[test]":
            return Path(sys.executable).parent
        form, extras = re.fullmatch(r"(\w+)(.*)", name).groups()
        place = folder / re.sub(r"\W", "-", name)
        # With pip, as README's own command makes it: the site and the workshop ask pip.
        venv.create(place, with_pip=True)
        python = place / "bin" / "python"
        target = ["-e", f"{ROOT}{extras}"] if form == "editable" else [f"{wheel(folder / 'wheel')}{extras}"]
        install(python, *target, *(["nbval>=0.11,<0.12", "pytest>=9,<10"] if extras == "[lab]" else []))
        return place / "bin"

    return make


@pytest.fixture(scope="session")
def workplaces(tmp_path_factory):
    """Return a function that returns the folder in which the rows of an environment run."""

    @cache
    def make(name: str) -> Path:
        folder = tmp_path_factory.mktemp("work")
        (folder / "data").symlink_to(ROOT / "data")
        (folder / "small.json").write_text(SMALL)
        (folder / "setup.sh").write_text("qpid-config add queue orders --max-queue-count=10\n")
        if name.startswith("editable"):
            return folder
        for place, names in (("notebooks", CHAPTERS), ("exercises/solutions", SOLUTIONS)):
            copies = folder / "chapters" / Path(place).name
            copies.mkdir(parents=True)
            for one in names:
                shutil.copy(ROOT / place / f"{one}.ipynb", copies)
        return folder

    return make


@pytest.fixture(scope="session")
def cargo(tmp_path_factory):
    """Return the cache folder of the site's downloads, which is empty at first to test downloading."""
    return os.environ.get("QFLOW_MATRIX_CARGO") or str(tmp_path_factory.mktemp("cargo"))


def path_without(folder: Path, programs: Path, lacking: str) -> str:
    """Return a PATH of basic tools, the environment's programs, and those that the row does not exclude."""
    tools = folder / f"tools-{'-'.join(lacking.split())}"
    if not tools.exists():
        tools.mkdir()
        there = [*EVERYDAY.split(), *(name for tool in TOOLS if tool not in lacking for name in TOOLS[tool])]
        for name in there:
            if found := shutil.which(name):
                (tools / name).symlink_to(found)
    return os.pathsep.join([str(programs), str(tools)])


@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=row.mark, id=f"{row.environment}: {row.command}"[:90]) for row in rows()]
)
def test_a_command_works_or_says_in_one_sentence_why_not(row, environments, workplaces, cargo, tmp_path):
    work = workplaces(row.environment)
    names = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    names |= {"HOME": str(work), "LANG": "C.UTF-8"}
    # Without npm nothing is fetched, unless a row above has done so.
    names["QFLOW_CARGO"] = cargo if "npm" not in row.without or row.status == "until" else f"{work}/none"
    names["PATH"] = path_without(tmp_path, environments(row.environment), row.without)
    folder = ROOT if row.environment == "editable[test]" else work
    words = shlex.split(row.command)
    words[0] = shutil.which(words[0], path=names["PATH"]) or words[0]
    if row.status == "until":
        check_until(row, words, folder, names)
        return
    done = subprocess.run(words, cwd=folder, env=names, capture_output=True, text=True, timeout=TIME)
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == int(row.status), said[-3000:]
    assert row.says in said
    assert tracebacks_of_ours(words, done.stderr) == []
    if row.status == "2":
        # The last line is the sentence; before it there may be lines that say what is being done.
        assert done.stderr.strip().splitlines()[-1].startswith("qflow: ")
        assert done.stdout == ""


def tracebacks_of_ours(command: list[str], said: str) -> list[str]:
    """Return the tracebacks in what a command said, without those of a client that the bench quotes.

    The bench alone quotes: its child's output, below a heading. There a traceback is the client's unless it
    has passed through the kit.
    """
    heading = "\noutput of the run "
    own, _, quoted = said.partition(heading) if "check-client" in command else (said, "", "")
    blocks = re.findall(r"^Traceback .*\n(?:[ \t].*\n|\n)*", quoted, re.MULTILINE)
    kit = re.compile(rf'File "(?:{re.escape(str(ROOT))}|.*[/\\]site-packages)[/\\]qflow\b')
    return [*re.findall("Traceback.*", own), *filter(kit.search, blocks)]


def check_until(row: Row, words: list[str], folder: Path, names: dict[str, str]) -> None:
    """Wait until a command prints the expected words, and then interrupt it as Ctrl-C does."""
    with subprocess.Popen(
        words, cwd=folder, env=names, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as running:
        # One that hangs is ended; its status is that of the signal then.
        hanging = Timer(TIME, running.kill)
        hanging.start()
        said = ""
        while row.says not in said and (line := running.stdout.readline()):
            said += line
        running.send_signal(signal.SIGINT)
        rest, _ = running.communicate()
        hanging.cancel()
    assert row.says in said, said[-3000:]
    assert "Traceback" not in said + rest
    assert running.returncode in (0, 130), said + rest


# The table is complete


def pages() -> list[Path]:
    """Return the pages that name commands: README, and those of .github, the reference and teachers."""
    places = (".github/*.md", "notebooks/reference/*.md", "notebooks/teachers/*.md")
    found = [ROOT / "README.md", *(page for place in places for page in ROOT.glob(place))]
    return [page for page in found if page.name != "changes.md"]


def named_commands(text: str) -> list[str]:
    """Return the commands on a page: code in backticks, or a line of a code block, that begins like one."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    blocks += re.findall(r"^ {4}(.+)$", text, re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    parts = [part.strip(" $") for line in lines for part in re.split(r"&&|;|\|", line)]
    return [part for part in parts if re.match(r"qflow [a-z]|pip install |python -m qflow", part)]


@cache
def parsers() -> dict[str, cli.Parser]:
    return {parser.prog: parser for parser in cli.list_parsers(cli.whole_parser()) if " " in parser.prog}


def innermost(command: str) -> str:
    """Return a command without its options and arguments, such as ``qflow trace why``."""
    known = parsers()
    return max((prog for prog in known if f"{command} ".startswith(f"{prog} ")), key=len, default=command)


def test_each_command_on_a_page_is_in_the_table():
    table = [innermost(row.command) for row in rows()]
    missing = {
        (page.name, command)
        for page in pages()
        for command in named_commands(page.read_text(encoding="utf-8"))
        if command.startswith("qflow ")
        and not any(f"{line} ".startswith(f"{innermost(command)} ") for line in table)
    }
    assert missing == set()


def test_each_command_of_the_parser_is_in_the_table():
    whole = {name for name, parser in parsers().items() if not parser.commands}
    assert whole <= {innermost(row.command) for row in rows()}


def test_each_extra_that_a_page_installs_has_an_environment():
    extras = {
        found[1]
        for page in pages()
        for command in named_commands(page.read_text(encoding="utf-8"))
        if (found := re.search(r"pip install .*\[([\w,]+)\]", command))
    }
    there = {found[1] for row in rows() if (found := re.search(r"\[(.*)\]", row.environment))}
    covered = there | {extra for name in there for extra in name.split(",")}
    assert extras <= covered
    assert {"lab", "trace", "site", "live", "spark", "test"} <= covered


def test_a_traceback_of_ours_is_found_and_a_clients_is_not():
    head, client = "Traceback (most recent call last):\n", '  File "/home/me/qflow/client.py", line 3\n'
    bench, other = ["qflow", "check-client", "--", "python", "client.py"], ["qflow", "serve"]
    quoted = f"it stops\n\noutput of the run 'half':\n{head}{client}    send()\nOSError\n"
    assert tracebacks_of_ours(bench, quoted) == []
    assert len(tracebacks_of_ours(bench, f"{head}{client}OSError\n{quoted}")) == 1
    for place in ("/venv/lib/python3.11/site-packages", ROOT):
        passed = f'  File "{place}/qflow/live/cli.py", line 7\n    run()\nOSError\n'
        assert len(tracebacks_of_ours(bench, f"{quoted}{head}{client}{passed}")) == 1
    assert len(tracebacks_of_ours(other, quoted)) == 1


def test_a_page_with_an_unknown_command_is_found():
    text = "Type `qflow levitate now` or\n\n    qflow lab && qflow fly --high\n"
    assert named_commands(text) == ["qflow lab", "qflow fly --high", "qflow levitate now"]
    assert innermost("qflow trace why x.jsonl 3s") == "qflow trace why"
