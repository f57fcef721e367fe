"""Recorded starts of the broker: which options it takes, and its words for those it does not (FC-10)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qflow.broker import BrokerOptions
from qflow.broker.errors import StartupError
from qflow.conformance.scenario import ScenarioError


def load_startups(path: str | Path) -> Iterator[dict[str, Any]]:
    """Read a file of recorded starts: a list of ``options``, ``starts`` and ``stderr``.

    Raises
    ------
    ScenarioError
        Naming the file and the entry that cannot be read.
    """
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from error
    except RecursionError:
        raise ScenarioError(f"{path}: nested too deeply to be read") from None
    if not isinstance(entries, list):
        raise ScenarioError(f"{path}: expected a list of recorded starts, got {type(entries).__name__}")
    if not entries:
        raise ScenarioError(f"{path}: no recorded start in it")
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict) or not isinstance(entry.get("options"), list):
            raise ScenarioError(f"{path}, entry {number}: an entry is an object with a list of options")
        yield entry


def start(options: list[str]) -> dict[str, Any]:
    """Return what starting a broker with these options shows.

    Examples
    --------
    >>> start(["--default-queue-limit", "0"])
    {'starts': True, 'stderr': []}
    >>> start(["--default-msg-group", "g"])["stderr"]
    ["[Broker] critical Unexpected error: Error in command line options: unrecognised option \
'--default-msg-group'"]
    """
    try:
        BrokerOptions.parse(options)
    except StartupError as error:
        text = str(error)
        if text.startswith("Error in command line options"):
            return {"starts": False, "stderr": [f"[Broker] critical Unexpected error: {text}"]}
        return {
            "starts": False,
            "stderr": [
                f"[Broker] critical {what}: invalid-argument: {text}"
                for what in ("Broker start-up failed", "Unexpected error")
            ],
        }
    return {"starts": True, "stderr": []}
