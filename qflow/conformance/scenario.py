"""Scenario: one recorded line, read and checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
    """

    id: str
    title: str
    area: str
    source: str
    broker: tuple[str, ...]
    steps: tuple[Mapping[str, Any], ...]
    final: Mapping[str, list[str]]

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Scenario:
        """Make a scenario of one line's content.

        Raises
        ------
        ScenarioError
            If something is missing, or is not what it should be.
        """
        if not isinstance(record, Mapping) or not isinstance(record.get("steps"), list):
            raise ScenarioError("a scenario is an object with a list of steps")
        for number, step in enumerate(record["steps"], 1):
            if not isinstance(step, Mapping) or "op" not in step or "expect" not in step:
                raise ScenarioError(f"step {number}: a step is an object with op and expect")
        return cls(
            id=str(record.get("id", "?")),
            title=str(record.get("title", "")),
            area=str(record.get("area", "")),
            source=str(record.get("source", "")),
            broker=tuple(record.get("broker", ())),
            steps=tuple(record["steps"]),
            final=record.get("final", {}),
        )


def load_scenarios(path: str | Path) -> Iterator[Scenario]:
    """Read a file of scenarios, one JSON object a line.

    Raises
    ------
    ScenarioError
        Naming the file and the line that cannot be read.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield Scenario.from_json(json.loads(line))
            except json.JSONDecodeError as error:
                raise ScenarioError(f"{path}, line {number}: not JSON: {error}") from error
            except ScenarioError as error:
                raise ScenarioError(f"{path}, line {number}: {error}") from error
