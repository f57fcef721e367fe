"""Verdicts: what was recorded compared with what the engine does, and how a difference is printed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from qflow.broker.errors import StartupError
from qflow.conformance.scenario import Scenario, load_scenarios, load_startups, pack, start
from qflow.conformance.scenario_player import Player, UnknownStepError, browse_everything, normalize, observe


@dataclass(frozen=True, slots=True)
class _Disagreement:
    """One thing that was expected and not seen, or seen and not expected."""

    path: str
    expected: Any
    got: Any


@dataclass(frozen=True, slots=True)
class ScenarioVerdict:
    """Whether the engine agrees with one scenario, and where it does not.

    Attributes:
        agrees: Whether every step, and the end, was as recorded.
        steps, step: How many steps agreed, and the one that did not, as JSON; "" if all did.
        not_built: Words of the scenario that are unknown here; "" for none.
        differences: Of that step.
    """

    id: str
    area: str
    agrees: bool
    steps: int
    step: str = ""
    not_built: str = ""
    differences: tuple[_Disagreement, ...] = ()

    def text(self) -> str:
        """Return the verdict as text: expected and got side by side."""
        if self.agrees:
            return f"{self.id}: agrees in {self.steps} steps"
        if self.not_built:
            return f"{self.id}: not agreeing at step {self.steps + 1}, not built: {self.not_built}"
        lines = [f"{self.id}: differs at step {self.steps + 1}: {self.step}"]
        width = max((len(difference.path) for difference in self.differences), default=0)
        for difference in self.differences:
            expected, got = json.dumps(difference.expected), json.dumps(difference.got)
            lines.append(f"    {difference.path:<{width}}  expected {expected}   got {got}")
        return "\n".join(lines)

    def asdict(self) -> dict[str, Any]:
        """Return the verdict as plain values."""
        return dataclasses.asdict(self)


def check(scenario: Scenario) -> ScenarioVerdict:
    """Play a scenario and compare after every step; stop at the first difference."""
    verdict = partial(ScenarioVerdict, scenario.id, scenario.area)
    if scenario.unknown:
        return verdict(False, 0, not_built=f"{', '.join(map(repr, scenario.unknown))} of a scenario")
    try:
        player = Player(scenario.broker)
    except StartupError as error:
        return verdict(False, 0, not_built=str(error))
    for number, step in enumerate(scenario.steps):
        shown = json.dumps({key: value for key, value in step.items() if key != "expect"})
        try:
            player.play(step)
        except UnknownStepError as error:
            return verdict(False, number, shown, str(error))
        wanted, seen = normalize(step["expect"]), observe(player)
        for answer in ("sent", "acquired", "result"):
            if answer in step:
                wanted[answer] = step[answer]
                seen[answer] = (
                    player.answer if answer == "result" or player.answer is None else pack(player.answer)
                )
        if differences := tuple(_compare(wanted, seen)):
            return verdict(False, number, shown, "", differences)
    differences = tuple(_compare(scenario.final, browse_everything(player), "final"))
    agrees = not differences
    return verdict(agrees, len(scenario.steps), "" if agrees else "final", "", differences)


def _compare(wanted: Any, seen: Any, path: str = "") -> Iterator[_Disagreement]:
    """Yield what differs between two values, down to the leaves of maps."""
    if isinstance(wanted, Mapping) and isinstance(seen, Mapping):
        for key in sorted({*wanted, *seen}):
            yield from _compare(wanted.get(key), seen.get(key), f"{path}.{key}" if path else str(key))
    elif wanted != seen:
        yield _Disagreement(path, wanted, seen)


def _check_startup(entry: Mapping[str, Any]) -> ScenarioVerdict:
    """Start a broker with recorded options and compare whether it starts, and what it writes."""
    options = [str(option) for option in entry["options"]]
    wanted = {"starts": entry.get("starts"), "stderr": entry.get("stderr")}
    differences = tuple(_compare(wanted, start(options)))
    name = f"qpidd {' '.join(options)}".strip()
    shown = "" if not differences else name
    return ScenarioVerdict(name, "startup", not differences, int(not differences), shown, "", differences)


def check_file(path: str | Path) -> Iterator[ScenarioVerdict]:
    """Play every scenario of a ``.jsonl`` file, or try every start of a ``.json`` file; yield the verdicts.

    Raises:
        ScenarioError: If the file cannot be read.

    >>> from qflow.kit import kit_path
    >>> verdicts = check_file(kit_path("data") / "recordings" / "scenarios" / "random-ring.jsonl")
    >>> [verdict.agrees for verdict in verdicts].count(True)
    31
    """
    if str(path).endswith(".json"):
        for entry in load_startups(path):
            yield _check_startup(entry)
        return
    for scenario in load_scenarios(path):
        yield check(scenario)
