"""Scenario: one recorded line, read and checked.

Labels of messages, and their run-length packed lists (recordings' FORMAT, section Labels).

Vocabulary: every word that a recording may use, so that none is passed over in silence.

Recorded starts of the broker: which options it takes, and its words for those it does not (FC-10).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from qflow.broker import BrokerOptions
from qflow.broker.errors import StartupError

_RUN = re.compile(r"(.*?)(\d+)\.\.(\d+)(\*?)")
_ONE = re.compile(r"(.*?)(\d+)(\*?)")


def unpack(packed: Iterable[str]) -> list[str]:
    """Return every label of a packed list.

    Examples
    --------
    >>> unpack(["p1-3..5", "A-1", "x-1..2*"])
    ['p1-3', 'p1-4', 'p1-5', 'A-1', 'x-1*', 'x-2*']
    """
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
    """Return a list with runs of consecutive labels joined, as in the recordings.

    Examples
    --------
    >>> pack(["p1-3", "p1-4", "p1-5", "A-1", "x-1*", "x-2*"])
    ['p1-3..5', 'A-1', 'x-1..2*']
    """
    packed: list[str] = []
    current: tuple[str, int, int, str] | None = None
    for label in labels:
        one = _ONE.fullmatch(label)
        if one is None:
            current = None
            packed.append(label)
            continue
        stem, number, star = one[1], int(one[2]), one[3]
        if current is not None and (stem, number, star) == (current[0], current[2] + 1, current[3]):
            current = (stem, current[1], number, star)
            packed[-1] = f"{stem}{current[1]}..{number}{star}"
        else:
            current = (stem, number, number, star)
            packed.append(label)
    return packed


SCENARIO = ("id", "title", "area", "source", "broker", "steps", "final")

EVERYWHERE = ("op", "expect", "session")
_MESSAGE = ("exchange", "headers", "priority", "ttl")
_DELIVERIES = (("session",), ("labels", "sub"))

STEPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "session": (("session",), ("connection",)),
    "declare_queue": (
        (),
        ("queue", "args", "durable", "auto_delete", "exclusive", "passive", "alternate"),
    ),
    "delete_queue": ((), ("queue", "if_unused", "if_empty")),
    "purge_queue": ((), ("queue",)),
    "declare_exchange": ((), ("exchange", "type", "alternate", "passive", "args")),
    "delete_exchange": ((), ("exchange",)),
    "bind": ((), ("exchange", "queue", "key", "args")),
    "unbind": ((), ("exchange", "queue", "key", "args")),
    "transfer": (("session", "label", "size"), ("key", *_MESSAGE)),
    "offer": (("session", "label", "size", "capacity"), ("key", "sent", *_MESSAGE)),
    "sync": (("session", "label"), ()),
    "subscribe": (
        ("session", "sub"),
        ("queue", "accept_mode", "acquire_mode", "exclusive", "args", "flow_mode", "bytes", "messages"),
    ),
    "flow": (("session", "sub"), ("bytes", "messages")),
    "stop": (("session", "sub"), ()),
    "flush": (("session", "sub"), ()),
    "fetch": (("session", "sub"), ()),
    "set_flow_mode": (("session", "sub", "flow_mode"), ()),
    "cancel": (("session", "sub"), ()),
    "accept": _DELIVERIES,
    "reject": _DELIVERIES,
    "release": (("session",), ("labels", "sub", "set_redelivered")),
    "acquire": (("session",), ("labels", "sub", "acquired")),
    "complete": _DELIVERIES,
    "tx_select": (("session",), ()),
    "tx_commit": (("session",), ()),
    "tx_rollback": (("session",), ()),
    "close": (("session",), ()),
    "disconnect": (("session",), ()),
    "sleep": (("ms",), ()),
    "qmf": (("method",), ("object", "args", "result")),
}
"""What each step needs, and what it may have besides (FORMAT, section Steps); absent names are empty."""

CHOICES = {
    "accept_mode": ("explicit", "none"),
    "acquire_mode": ("pre-acquired", "not-acquired"),
    "flow_mode": ("credit", "window"),
}

METHODS = {
    "purge": ("request", "filter"),
    "reroute": ("request", "useAltExchange", "exchange", "filter"),
    "queueMoveMessages": ("srcQueue", "destQueue", "qty", "filter"),
    "create": ("type", "name", "properties", "strict"),
    "delete": ("type", "name", "options"),
    "query": ("type", "name"),
}
OF_A_QUEUE = ("purge", "reroute")

EXPECT = ("done", "held", "got", "unacked", "queues", "groups", "errors", "events")

QUEUE = (
    *("depth", "bytes", "avail", "enq", "deq", "txenq", "txdeq", "acq", "rel"),
    *("ttl", "ring", "lvq", "over", "rej", "purged", "rerouted", "cons", "binds", "flow", "flows"),
)


def not_built(step: Mapping[str, Any]) -> str:
    """Say what a step uses that is not built, or does not say; "" if it can be performed and compared.

    Examples
    --------
    >>> not_built({"op": "flush", "session": "c", "sub": "s", "expect": {}})
    ''
    >>> not_built({"op": "flush", "session": "c", "sub": "s", "twice": True, "expect": {"mood": 1}})
    "parameter 'twice' of op 'flush', expectation 'mood'"
    >>> not_built({"op": "flush", "sub": "s", "expect": {}})
    "op 'flush' without 'session'"
    """
    op = step["op"]
    if not isinstance(op, str) or op not in STEPS:
        return f"op {op!r}; known are {', '.join(sorted(STEPS))}"
    return ", ".join([*_parameters(op, step), *_method(step), *_expectations(step["expect"])])


def _parameters(op: str, step: Mapping[str, Any]) -> Iterator[str]:
    needed, possible = STEPS[op]
    for name in needed:
        if name not in step:
            yield f"op {op!r} without {name!r}"
    for name, value in step.items():
        if name not in (*EVERYWHERE, *needed, *possible):
            yield f"parameter {name!r} of op {op!r}"
        elif name in CHOICES and value not in CHOICES[name]:
            yield f"{name} {value!r}; known are {', '.join(CHOICES[name])}"


def _method(step: Mapping[str, Any]) -> Iterator[str]:
    if step["op"] != "qmf" or "method" not in step:
        return
    method = step["method"]
    if not isinstance(method, str) or method not in METHODS:
        yield f"management method {method!r}; known are {', '.join(METHODS)}"
        return
    if method in OF_A_QUEUE and "object" not in step:
        yield f"management method {method!r} without 'object'"
    for name in step.get("args") or ():
        if name not in METHODS[method]:
            yield f"argument {name!r} of management method {method!r}"


def _expectations(expect: Any) -> Iterator[str]:
    if not isinstance(expect, Mapping):
        yield f"an expectation that is a {type(expect).__name__}"
        return
    for name in expect:
        if name not in EXPECT:
            yield f"expectation {name!r}"
    queues = expect.get("queues") or {}
    if not isinstance(queues, Mapping):
        yield f"expected queues that are a {type(queues).__name__}"
        return
    unknown = {key for queue in queues.values() for key in queue or () if key not in QUEUE}
    for key in sorted(unknown):
        yield f"expectation {key!r} of a queue"


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
