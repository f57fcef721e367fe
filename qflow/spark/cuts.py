"""Cuts: a long component audited in pieces, at once or one after the other, with the result of the whole.

There are two ways. A *checkpoint* is the auditor's state at a row, recorded in one pass over the component;
each piece then begins with the state that the row before it left (:func:`audit_from_checkpoint`). A *cut*
needs no pass before: where every message sent has been accepted, a fresh engine goes on as the old one
would. The log alone shows such places (:func:`rest_places`), so each piece begins with a fresh state
(:func:`audit_piece`). Whether that state was right shows afterwards: what decides the future
(:func:`rest_key`) has to be equal. Where it is not, the piece is audited again from the true state
(:func:`stitch`), so the result is never wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

from qflow.broker.snapshot import only_counts
from qflow.logs.audit import BEGIN, END, Auditor, LakeRow, ResultRow
from qflow.logs.components import touches_of
from qflow.workload.model import Workload

Checkpoint = tuple[str, int, str]
"""The component, the first event after the checkpoint, and the auditor's state before it, as JSON."""


def record(component: str, rows: Iterable[LakeRow], every: int) -> Iterator[Checkpoint]:
    """Yield a checkpoint before the first and every so many events of a component.

    It takes one audit from start to end; audits after that can begin anywhere.

    Parameters:
        rows (iterable of rows of LAKE, without the component): In order.
        every: Events between two checkpoints.
    """
    auditor = Auditor(component)
    iterator = iter(rows)
    while part := list(islice(iterator, every)):
        yield component, auditor.next_seq, auditor.state()
        auditor.feed(part)


def audit_from_checkpoint(
    component: str, state: str, rows: Iterable[LakeRow], is_last: bool
) -> list[ResultRow]:
    """Audit a component from a checkpoint to the next one, or to the end.

    The pieces' results, put together, are those of an audit in one go.
    """
    auditor = Auditor(component, state)
    results = auditor.feed(rows)
    return results + auditor.cut_off() if is_last else results


class Piece(NamedTuple):
    """A piece of a component, audited from a fresh state.

    Fields:
        start_key: What decided its future at its start.
        results: Rows of RESULTS, numbered from 0.
        state: The auditor's state at its end.
    """

    start_key: str
    results: list[ResultRow]
    state: str


class Stitched(NamedTuple):
    """A component's results, put together from pieces, and how many pieces had to be audited again."""

    results: list[ResultRow]
    repeated: int


def rest_places(rows: Sequence[LakeRow]) -> list[int]:
    """Return the places of a component's log before which nothing is under way, as far as the log shows.

    Parameters:
        rows (sequence of rows of LAKE, without the component): The whole component, in order.

    >>> from qflow.logs.components import lake_of
    >>> rest_places(lake_of("log", Workload("w", 1, {"q": {}}), [])["log/q"])
    []
    """
    workload = Workload.from_json(json.loads(rows[0][8] or "null"))
    copies = {producer.name: 0 for producer in workload.producers}
    for _, client, _ in touches_of("", workload):
        if client in copies:
            copies[client] += 1
    places: list[int] = []
    waiting = 0
    blocked: set[str] = set()
    for place, (_, _, client, event, *_) in enumerate(rows, 1):
        if event == "transfer":
            waiting += copies.get(client, 0)
        elif event == "accept":
            waiting -= 1
            if not waiting and not blocked and place < len(rows) - 1:
                places.append(place)
        elif event == "block":
            blocked.add(client)
        elif event == "unblock":
            blocked.discard(client)
    return places


def chosen_places(rows: Sequence[LakeRow], pieces: int) -> list[int]:
    """Return where to cut a component into so many pieces of about the same size, or fewer."""
    places = rest_places(rows)
    chosen: set[int] = set()
    for number in range(1, pieces):
        wanted = number * len(rows) // pieces
        if places:
            chosen.add(min(places, key=lambda place: (abs(place - wanted), place)))
    return sorted(chosen)


def audit_piece(component: str, rows: Sequence[LakeRow], begin: LakeRow) -> Piece:
    """Audit a piece from a fresh state."""
    auditor = Auditor(component)
    if rows[0][3] != BEGIN:
        # The engine as it is when the clients have joined and nothing has been sent yet.
        auditor.feed([begin])
        auditor.skip_to(rows[0][0], rows[0][1])
    start_key = rest_key(auditor.state())
    results = auditor.feed(rows)
    return Piece(start_key, results, auditor.state())


def rest_key(state: str) -> str:
    """Return what decides the future of an auditor, as text; empty if something is under way.

    Parts of the engine that only count what has been are left out; all others (who waits in which order,
    credit, flow state, groups, alarms, timers, settings, and stores of other kinds) are compared as they are.
    """
    value = json.loads(state)
    if value["player"] is None or not _is_at_rest(value):
        return ""
    player = value["player"]
    parts = [
        [kind, "counts" if only_counts(kind) else fields] for kind, fields in player["broker"]["objects"][1:]
    ]
    return json.dumps([parts, player["joins"], player["errors"]], separators=(",", ":"))


def stitch(component: str, pieces: Sequence[Piece], rows: Sequence[Sequence[LakeRow]]) -> Stitched:
    """Put a component's pieces together, and audit again what was begun in a wrong state.

    Parameters:
        pieces: In order.
        rows (sequence of sequences of rows of LAKE): Each piece's rows; after the last piece's, the
            component's end.

    Returns:
        The results are those of an audit in one go.
    """
    results = list(pieces[0].results)
    state = pieces[0].state
    repeated = 0
    for piece, part in zip(pieces[1:], rows[1:], strict=True):
        key = rest_key(state)
        before = json.loads(state)
        joined = _joined(before, json.loads(piece.state)) if key and key == piece.start_key else None
        # A fresh auditor knows nothing of what was before: it finds too much, and never too little.
        if joined is not None and all(result[2] != "finding" for result in piece.results):
            results += _shifted(piece.results, before)
            state = joined
        else:
            repeated += 1
            auditor = Auditor(component, state)
            results += auditor.feed(row for row in part if row[3] != END)
            state = auditor.state()
    auditor = Auditor(component, state)
    results += auditor.feed(row for row in rows[-1] if row[3] == END)
    return Stitched(results + auditor.cut_off(), repeated)


def audit_cut(component: str, rows: Sequence[LakeRow], pieces: int) -> Stitched:
    """Audit a component in pieces, one after the other; on many workers each piece is one task.

    >>> from qflow.logs.components import lake_of
    >>> rows = lake_of("log", Workload("w", 1, {"q": {}}), [])["log/q"]
    >>> audit_cut("log/q", rows, 4)
    Stitched(results=[], repeated=0)
    """
    places = [0, *chosen_places(rows, pieces), len(rows)]
    parts = [rows[start:end] for start, end in zip(places, places[1:], strict=False)]
    made = [audit_piece(component, [row for row in part if row[3] != END], rows[0]) for part in parts]
    return stitch(component, made, parts)


def _is_at_rest(value: Mapping[str, Any]) -> bool:
    player, intervals, checks = value["player"], value["intervals"], value["checks"]
    under_way = [player["holders"], player["early"], player["shown"], *player["owned"].values()]
    under_way += [checks[name] for name in ("sent", "ahead", "pending", "suspects")]
    going_on = [intervals["flow"], intervals["held"], intervals["groups"], intervals["blocked"]]
    return not any(under_way) and not any(going_on) and not any(intervals["depth"].values())


def _shifted(results: Sequence[ResultRow], before: Mapping[str, Any]) -> list[ResultRow]:
    """Return a piece's results with the numbers they have in the whole."""
    first, stops = before["counts"][1], before["intervals"]["flowStoppedCount"]
    shifted: list[ResultRow] = []
    for component, number, kind, queue, *rest in results:
        if kind == "held":
            rest[5] += stops.get(queue, 0)
        shifted.append((component, first + number, kind, queue, *rest))
    return shifted


def _joined(before: dict[str, Any], after: dict[str, Any]) -> str | None:
    """Return a piece's last state with what was counted before it; None if both sent the same message."""
    old, new = before["intervals"], after["intervals"]
    after["counts"][1] += before["counts"][1]
    new["flowStoppedCount"] = _summed(old["flowStoppedCount"], new["flowStoppedCount"])
    for name in ("drops", "differs"):
        for queue, counts in old[name].items():
            new[name][queue] = _summed(counts, new[name].get(queue, {}))
    for name in ("max_depth", "max_bytes"):
        for queue, most in old[name].items():
            new[name][queue] = max(most, new[name].get(queue, 0))
    for queue, sample in old["samples"].items():
        own = new["samples"].get(queue, [0] * len(sample))
        summed = [a + b for a, b in zip(sample[:3], own[:3], strict=True)]
        new["samples"][queue] = [*summed, max(sample[3], own[3]), *own[4:]]
    sets: list[tuple[Any, Any, Any]] = [
        (before["checks"]["labels"], after["checks"]["labels"], place) for place in (0, 1)
    ]
    for queue, had in before["checks"]["queues"].items():
        has = after["checks"]["queues"][queue]
        sets.append((had, has, "gone"))
        for name in ("windows", "returned", "overtaken"):
            has[name] = {**had[name], **has[name]}
        has["evicts"] = had["evicts"] or has["evicts"]
    for had, has, place in sets:
        union = _united(had[place], has[place])
        if union is None:
            return None
        has[place] = union
    return json.dumps(after, separators=(",", ":"))


def _summed(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def _united(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what two states of sets of labels hold together; None if a label is in both."""
    union: dict[str, Any] = {}
    for name in {**one, **other}:
        items = sorted([*one.get(name, ()), *other.get(name, ())])
        for item, after in pairwise(items):
            if (after <= item) if name == "" else (after[0] <= item[1]):
                return None
        union[name] = items
    return union
