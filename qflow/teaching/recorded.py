"""Recorded scenarios compared with the engine: the responses of the real broker and of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from qflow.conformance.scenario import Scenario, load_scenarios
from qflow.conformance.scenario_player import Player, check, normalize, observe
from qflow.kit import RefusalError, kit_path
from qflow.table import Table, write_value


@cache
def scenarios() -> Mapping[str, Scenario]:
    """Return all recorded scenarios of the kit, keyed by id.

    >>> scenarios()["fc-doc-900-500"].title
    'Stop 900, resume 500, limit 1000 messages'
    """
    folder = kit_path("data") / "recordings" / "scenarios"
    return {found.id: found for path in sorted(folder.glob("*.jsonl")) for found in load_scenarios(path)}


class _Beside(Table):
    """A table that compares a recorded scenario with the engine; `agrees` says whether all steps agree."""

    agrees = False


def beside(scenario: str, steps: Sequence[int] = (), **columns: str) -> _Beside:
    """Play a recorded scenario on the engine, and compare it with the recording step by step.

    Parameters:
        scenario: The id of a recorded scenario, such as ``fc-doc-900-500``.
        steps: The numbers of the steps to show, from 1; () shows all. All steps are compared in any case.
        **columns: The columns to show. Each value is a path into the visible state after a step, such as
            ``queues.q.depth``, ``held.p``, ``got.c/s`` or ``groups.q``.

    Returns:
        A table with a row for each step. If broker and model agree on a value, it is shown once, or else as
        ``real ≠ model``.

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
    if scenario not in scenarios():
        raise RefusalError(
            f"There is no recorded scenario {scenario!r}; FORMAT.md beside them says what there is."
        )
    found = scenarios()[scenario]
    player, seen = Player(found.broker), []
    for step in found.steps:
        # All steps are played, as the state after a step depends on all steps before it.
        player.play(step)
        seen.append((normalize(step["expect"]), observe(player)))
    shown_columns = [_compare(path, seen) for path in columns.values()]
    told = zip(range(1, len(seen) + 1), map(words, found.steps), *shown_columns, strict=True)
    rows = [row for row in told if not steps or row[0] in steps]
    verdict = check(found)
    differs = f"the model differs, first at step {verdict.steps + 1}"
    outcome = "the model agrees with all of it" if verdict.agrees else differs
    recorded = f"Recorded from a real broker in {len(found.steps)} steps; {outcome}."
    table = _Beside(rows, ["step", "what was done", *columns], f"{found.id}: {found.title}. {recorded}")
    table.agrees = verdict.agrees
    return table


def words(step: Mapping[str, Any]) -> str:
    """Return a description of a recorded step."""
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
    """Return the recorded state of a message group as text: its number of messages, and its owner."""
    if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], int):
        return f"{entry[0]} ({entry[1] or 'free'})"
    return str(entry)


def _compare(path: str, seen: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[object]:
    """Return the value at a path after each step, or if broker and model disagree, both values as text."""
    pairs = [(_find(real, path), _find(model, path)) for real, model in seen]
    # The value that a missing one stands for in this column.
    kinds = {type(value) for pair in pairs for value in pair if value is not None}
    absent = False if path.endswith(".flow") else 0 if int in kinds else None
    filled = [[absent if value is None else value for value in pair] for pair in pairs]
    return [
        real if real == model else f"{write_value(real)} ≠ {write_value(model)}" for real, model in filled
    ]
