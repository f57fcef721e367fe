"""Commands as the tests give them: all of ``qflow``, or one room's part of it."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from qflow import cli


def status_of(*arguments: object, main: Callable[[list[str]], int] = cli.main) -> int | str | None:
    """Run a command, ``qflow`` by default, with these arguments; return the status that a shell would see."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as exit:
        return exit.code


def refusal(
    capsys: pytest.CaptureFixture[str], *arguments: object, main: Callable[[list[str]], int] = cli.main
) -> str:
    """Run a command that must be refused; return its one sentence."""
    status = status_of(*arguments, main=main)
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert said.err.startswith(("qflow", "python -m qflow.maintain"))
    assert said.err.count("\n") == 1, said.err
    assert "Traceback" not in said.err
    return said.err


def output_of(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 0) -> str:
    """Run ``qflow`` with these arguments to a status that is expected; return what it printed."""
    assert status_of(*arguments) == status
    return capsys.readouterr().out


def run_python(*arguments: object, **given: Any) -> subprocess.CompletedProcess[str]:
    """Run a fresh Python with these arguments; return its status and what it printed."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **given)


def room_command(room: ModuleType, *words: object) -> object:
    """Run a room's command without the rest of ``qflow``: what it raises, nobody turns into a sentence."""
    parser = argparse.ArgumentParser(prog="qflow")
    room.add_arguments(parser.add_subparsers(dest="command", required=True))
    return room.run(parser.parse_args([str(word) for word in words]))
