"""Scenario: one recorded line, read and checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qflow.conformance.vocabulary import SCENARIO


class ScenarioError(Exception):
    """A scenario file cannot be read; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a real broker did, step by step.

    Parameters
    ----------
    id, title, area, source : str
        What it is, and where its numbers come from.
    broker : tuple of str
        Additional options of the broker.
    steps : tuple of mapping
        Each an action with ``op``, its parameters, and ``expect``.
    final : mapping
        What a fresh browser saw on each queue at the end.
    unknown : tuple of str
        What else the recording has, which nothing here knows.
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
        """Make a scenario of one line's content.

        Parameters
        ----------
        record : mapping
            What the line's JSON holds.

        Raises
        ------
        ScenarioError
            If something is missing, or is not what it should be.

        Examples
        --------
        >>> Scenario.from_json({"id": "empty", "steps": []}).id
        'empty'
        """
        if not isinstance(record, Mapping) or not isinstance(record.get("steps"), list):
            raise ScenarioError("a scenario is an object with a list of steps")
        for number, step in enumerate(record["steps"], 1):
            if not isinstance(step, Mapping) or "op" not in step or "expect" not in step:
                raise ScenarioError(f"step {number}: a step is an object with op and expect")
        broker, final = record.get("broker") or [], record.get("final") or {}
        if not isinstance(broker, list) or not all(isinstance(option, str) for option in broker):
            raise ScenarioError(f"broker is a list of options, each a text; got {json.dumps(broker)[:60]}")
        if not isinstance(final, Mapping):
            raise ScenarioError(f"final is an object of labels by queue; got {json.dumps(final)[:60]}")
        return cls(
            id=str(record.get("id", "?")),
            title=str(record.get("title", "")),
            area=str(record.get("area", "")),
            source=str(record.get("source", "")),
            broker=tuple(broker),
            steps=tuple(record["steps"]),
            final=final,
            unknown=tuple(name for name in record if name not in SCENARIO),
        )


def load_scenarios(path: str | Path) -> Iterator[Scenario]:
    """Read a file of scenarios, one JSON object a line.

    Scenarios that share an id are told apart by their lines: ``fc-equal (line 7)``.

    Parameters
    ----------
    path : str or Path
        The file.

    Yields
    ------
    Scenario
        In the file's order.

    Raises
    ------
    ScenarioError
        Naming the file and the line that cannot be read; or if there is no scenario in it.

    Examples
    --------
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
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, Scenario.from_json(json.loads(line))
            except ValueError as error:
                # Also a number of thousands of digits, which is JSON, but none that Python takes.
                raise ScenarioError(f"{path}, line {number}: not JSON: {error}") from error
            except RecursionError:
                raise ScenarioError(f"{path}, line {number}: nested too deeply to be read") from None
            except ScenarioError as error:
                raise ScenarioError(f"{path}, line {number}: {error}") from error
