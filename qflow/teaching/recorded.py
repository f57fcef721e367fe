"""Recorded scenarios beside the model: what a real broker did at each step, and what the engine does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from qflow.conformance.scenario import Scenario, load_scenarios
from qflow.conformance.scenario_player import Player, check, normalize, observe
from qflow.kit import RefusalError, kit_path
from qflow.table import Table, shown


@cache
def scenarios() -> Mapping[str, Scenario]:
    """Return every recorded scenario of the kit by its id.

    >>> scenarios()["fc-doc-900-500"].title
    'Stop 900, resume 500, limit 1000 messages'
    """
    return {found.id: found for path in _files() for found in load_scenarios(path)}


def _files() -> list[Path]:
    return sorted((kit_path("data") / "recordings" / "scenarios").glob("*.jsonl"))


def _scenario(wanted: str) -> Scenario:
    """Return one scenario, of the file that names it: to read all files takes longer than to play it."""
    name = json.dumps(wanted).encode()
    for path in _files():
        if name in path.read_bytes():
            for found in load_scenarios(path):
                if found.id == wanted:
                    return found
    raise RefusalError(f"There is no recorded scenario {wanted!r}; FORMAT.md beside them says what there is.")


class _Beside(Table):
    """A recorded scenario played on the engine, and whether the engine agrees; made by :func:`beside`."""

    agrees = False


def beside(scenario: str, steps: Sequence[int] = (), **columns: str) -> _Beside:
    """Play a recorded scenario on the engine, and compare step by step.

    Parameters:
        scenario: The id of a recorded scenario, such as ``fc-doc-900-500``.
        steps: Numbers of the steps to show, from 1; none means all. All are played and compared in any case.
        columns: Column name to what it shows, as a path into what could be seen after a step:
            ``queues.q.depth``, ``held.p``, ``got.c/s``, ``groups.q``.

    Returns:
        A value is shown once where broker and model agree; where not, as ``real ≠ model``.

    Raises:
        RefusalError: If there is no such scenario.

    >>> beside("fc-doc-900-500", (4, 7, 9), depth="queues.q.depth", ON="queues.q.flow", held="held.p")
    fc-doc-900-500: Stop 900, resume 500, limit 1000 messages. Recorded from a real broker in 10 steps; \
the model agrees with all of it.
    step  what was done       depth  ON   held
       4  p sends p-901 to q    901  yes  p-901
       7  c accepts p-1..405    500  yes  p-901..905
       9  c accepts p-406       499  no   –
    """
    found = _scenario(scenario)
    texts: list[tuple[int, str]] = []
    pairs: list[list[tuple[object, object]]] = []
    player = Player(found.broker)
    for number, step in enumerate(found.steps, 1):
        player.play(step)
        real, model = normalize(step["expect"]), observe(player)
        pairs.append([(_find(real, path), _find(model, path)) for path in columns.values()])
        texts.append((number, words(step)))
    absent = [
        _default_of_column(path, column)
        for path, column in zip(columns.values(), zip(*pairs, strict=True), strict=True)
    ]
    rows = [
        [*text, *(_pair(*pair, none) for pair, none in zip(values, absent, strict=True))]
        for text, values in zip(texts, pairs, strict=True)
        if not steps or text[0] in steps
    ]
    verdict = check(found)
    differs = f"the model differs, first at step {verdict.steps + 1}"
    outcome = "the model agrees with all of it" if verdict.agrees else differs
    recorded = f"Recorded from a real broker in {len(found.steps)} steps; {outcome}."
    table = _Beside(rows, ["step", "what was done", *columns], f"{found.id}: {found.title}. {recorded}")
    table.agrees = verdict.agrees
    return table


def words(step: Mapping[str, Any]) -> str:
    """Say in words what a recorded step does."""
    who = step.get("session", "a client")
    match step["op"]:
        case "transfer" | "offer":
            where = step.get("exchange") or step.get("key", "")
            window = f", at most {step['capacity']} held" if step["op"] == "offer" else ""
            return f"{who} sends {step['label']} to {where}{window}"
        case "accept" | "reject" | "release" | "acquire" | "complete" as verb:
            labels = ", ".join(step["labels"])
            return f"{who} {verb}s {labels}"
        case "subscribe":
            credit = step.get("messages", "no")
            credit = "unlimited" if credit == "inf" else credit
            kind = "browses" if step.get("acquire_mode") == "not-acquired" else "subscribes to"
            return f"{who} {kind} {step['queue']} with {credit} credit"
        case "flow":
            return f"{who} grants {step.get('messages', 'byte')} more"
        case "fetch":
            return f"{who} fetches one"
        case "declare_queue":
            arguments = ", ".join(
                f"{key.removeprefix('qpid.')}={value}" for key, value in (step.get("args") or {}).items()
            )
            return f"queue {step['queue']}: {arguments or 'no arguments'}"
        case "bind":
            return f"{step['queue']} is bound to {step['exchange']}"
        case "sync":
            return f"{who} asks for a sync, {step['label']}"
        case "qmf":
            return f"management: {step['method']}"
        case other:
            rest = [str(step[key]) for key in ("queue", "sub", "exchange") if key in step]
            return " ".join([who, other.replace("_", " "), *rest])


def _find(seen: Mapping[str, Any], path: str) -> object:
    value: Any = seen
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, Mapping):
        return sorted(f"{name}: {_owner(entry)}" for name, entry in value.items())
    return value


def _owner(entry: object) -> str:
    """Write what is known of a group: its messages and its owner."""
    if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], int):
        return f"{entry[0]} ({entry[1] or 'free'})"
    return str(entry)


def _default_of_column(path: str, column: Sequence[tuple[object, object]]) -> object:
    """Say what it means in this column that nothing was recorded: false, 0 or an empty list."""
    kinds = {type(value) for pair in column for value in pair if value is not None}
    if path.endswith(".flow"):
        return False
    return 0 if int in kinds else None


def _pair(real: object, model: object, absent: object) -> object:
    real, model = (absent if value is None else value for value in (real, model))
    return real if real == model else f"{shown(real)} ≠ {shown(model)}"
