"""``qflow completion SHELL``: a script with which a shell completes commands, options, choices and files.

The library shtab writes the script from the argument parsers. Once a shell has read it, completion needs no
Python process. After an update of qflow with new options, the script has to be written again.
"""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from qflow.cli import list_parsers, whole_parser
from qflow.launch.chapters import require

_SHELLS = ("bash", "zsh", "fish")
_FOLDER_WORDS = ("FOLDER", "DIR")
_FILE_WORDS = (".", "FILE", "LOG", "OUT", "TRACE")
"""Parts of the metavars of arguments that are files; the dot stands for a suffix, as in WORKLOAD.json."""


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``completion`` to the ``qflow`` command."""
    parser = rooms.add_parser(
        "completion",
        description="Print a script for your shell, which then completes qflow's commands, options, choices "
        "and files at Tab. Keep it where the shell looks, as in the examples; zsh wants it as _qflow in a "
        'folder of its fpath. For one bash session: eval "$(qflow completion bash)".',
    )
    parser.add_argument("shell", metavar="SHELL", choices=_SHELLS, help=f"one of {', '.join(_SHELLS)}")


def run(chosen: argparse.Namespace) -> int:
    """Run ``qflow completion``; return the exit status."""
    require({"shtab": "shtab"}, extra="lab")
    shtab = importlib.import_module("shtab")
    parser = whole_parser()
    for each in list_parsers(parser):
        _mark_files(each, shtab)
    print(shtab.complete(parser, chosen.shell))
    return 0


def _mark_files(parser: argparse.ArgumentParser, shtab: Any) -> None:
    """Mark the arguments whose values are files or folders, which is known from their metavars alone."""
    for action in parser._actions:
        if isinstance(action.metavar, str) and not action.choices:
            if action.metavar in _FOLDER_WORDS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif any(word in action.metavar for word in _FILE_WORDS) and "=" not in action.metavar:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
