"""Scenarios: readers of recordings of a real broker, with their validation.

A file of scenarios has one JSON object on each line: the broker's options, the steps, and for each step
everything that the clients could see afterwards (``data/recordings/scenarios/FORMAT.md``).  Consecutive
message labels are packed: ``p-1..5`` means p-1 to p-5.  A file of *starts* has the command-line options of
several starts of a broker, and its error messages for the options that it refused (FC-10).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from qflow.broker import BrokerOptions
from qflow.broker.errors import StartupError
from qflow.kit import read_text
from qflow.qflow_error import QflowError

_RUN = re.compile(r"(.*?)(\d+)\.\.(\d+)(\*?)")
_ONE = re.compile(r"(.*?)(\d+)(\*?)")


def unpack(packed: Iterable[str]) -> list[str]:
    """Return the labels of a packed list one by one, the inverse of :func:`pack`."""
    labels: list[str] = []
    for item in packed:
        run = _RUN.fullmatch(item)
        if run is None:
            labels.append(item)
        else:
            stem, first, last, star = run.groups()
            labels += [f"{stem}{number}{star}" for number in range(int(first), int(last) + 1)]
    return labels


def pack(labels: Iterable[str]) -> list[str]:
    """Return labels in packed form, with consecutive labels joined to one entry, as in the recordings.

    >>> pack(["p1-3", "p1-4", "p1-5", "A-1", "x-1*", "x-2*"])
    ['p1-3..5', 'A-1', 'x-1..2*']
    """
    packed: list[str] = []
    # The stem and star of the last entry of `packed`, if its label ends in a number.
    run: tuple[str, str] | None = None
    first = last = 0
    for label in labels:
        one = _ONE.fullmatch(label)
        if one is None:
            run = None
            packed.append(label)
            continue
        stem, number, star = one[1], int(one[2]), one[3]
        if run == (stem, star) and number == last + 1:
            packed[-1] = f"{stem}{first}..{number}{star}"
        else:
            run, first = (stem, star), number
            packed.append(label)
        last = number
    return packed


class ScenarioError(QflowError):
    """An unreadable scenario file; the message names the file, the line and the reason."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A recording of a real broker's behaviour, step by step.

    Attributes:
        id, title, area: The scenario's identifier, its title, and the area of behaviour that it covers.
        source: The origin of its numbers: documentation, a test of the original suites, or a source file.
        broker: Additional command-line options of the broker.
        steps: The steps, each a mapping with the action ``op``, its parameters, and ``expect``, the state
            that clients could see afterwards.
        final: For each queue the messages that a newly attached browser saw after the last step.
        unknown: The names of attributes in the recording that this module does not know.
    """

    id: str
    title: str
    area: str
    source: str
    broker: tuple[str, ...]
    steps: tuple[Mapping[str, Any], ...]
    final: Mapping[str, list[str]]
    unknown: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Scenario:
        """Return the scenario that a decoded line of JSON contains.

        Raises:
            ScenarioError: If an attribute is missing or has the wrong type.
        """
        if not isinstance(record, Mapping) or not isinstance(record.get("steps"), list):
            raise ScenarioError("a scenario is an object with a list of steps")
        for number, step in enumerate(record["steps"], 1):
            if not isinstance(step, Mapping) or "op" not in step or "expect" not in step:
                raise ScenarioError(f"step {number}: a step is an object with op and expect")
        broker, final = record.get("broker") or [], record.get("final") or {}
        if not isinstance(broker, list) or not all(isinstance(option, str) for option in broker):
            raise ScenarioError(f"broker must be a list of options as texts, got {json.dumps(broker)[:60]}")
        if not isinstance(final, Mapping):
            raise ScenarioError(f"final must be an object of labels by queue, got {json.dumps(final)[:60]}")
        return cls(
            id=str(record.get("id", "?")),
            title=str(record.get("title", "")),
            area=str(record.get("area", "")),
            source=str(record.get("source", "")),
            broker=tuple(broker),
            steps=tuple(record["steps"]),
            final=final,
            unknown=tuple(name for name in record if name not in _ATTRIBUTES),
        )


_ATTRIBUTES = {field.name for field in fields(Scenario)} - {"unknown"}


def load_scenarios(path: str | Path) -> Iterator[Scenario]:
    """Yield the scenarios of a file with one JSON object on each line.

    Scenarios that share an id are told apart by their line, which is added to the id: ``fc-equal (line 7)``.

    Raises:
        ScenarioError: If the file or one of its lines cannot be read, or if the file contains no scenario.

    >>> from qflow.kit import kit_path
    >>> path = kit_path("data") / "recordings" / "scenarios" / "random-ring.jsonl"
    >>> next(load_scenarios(path)).id
    'rnd-ring-002'
    """
    numbered = list(_scenarios(path))
    if not numbered:
        raise ScenarioError(f"{path}: no scenario in it; a scenario is a line of JSON")
    times = Counter(scenario.id for _, scenario in numbered)
    for number, scenario in numbered:
        is_alone = times[scenario.id] == 1
        yield scenario if is_alone else replace(scenario, id=f"{scenario.id} (line {number})")


def _scenarios(path: str | Path) -> Iterator[tuple[int, Scenario]]:
    try:
        lines = read_text(path).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, Scenario.from_json(json.loads(line))
            except ValueError as error:
                # A number of thousands of digits is valid JSON, but Python refuses to convert it.
                raise ScenarioError(f"{path}, line {number}: not JSON: {error}") from error
            except RecursionError:
                raise ScenarioError(f"{path}, line {number}: nested too deeply to be read") from None
            except ScenarioError as error:
                raise ScenarioError(f"{path}, line {number}: {error}") from error


def load_startups(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the recorded starts of a file, each with ``options``, ``starts`` and ``stderr``."""
    try:
        entries = json.loads(read_text(path))
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from error
    except RecursionError:
        raise ScenarioError(f"{path}: nested too deeply to be read") from None
    if not isinstance(entries, list):
        raise ScenarioError(f"{path}: must be a list of recorded starts; got {type(entries).__name__}")
    if not entries:
        raise ScenarioError(f"{path}: no recorded start in it")
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict) or not isinstance(entry.get("options"), list):
            raise ScenarioError(f"{path}, entry {number}: an entry is an object with a list of options")
        yield entry


def start(options: list[str]) -> dict[str, Any]:
    """Start a broker with options; return whether it starts, and its lines on standard error."""
    try:
        BrokerOptions.parse(options)
    except StartupError as error:
        failed, unexpected = "[Broker] critical Broker start-up failed", "[Broker] critical Unexpected error"
        if str(error).startswith("Error in command line options"):
            return {"starts": False, "stderr": [f"{unexpected}: {error}"]}
        stderr = [f"{what}: invalid-argument: {error}" for what in (failed, unexpected)]
        return {"starts": False, "stderr": stderr}
    return {"starts": True, "stderr": []}
