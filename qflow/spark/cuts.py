"""Cuts: a long component audited in pieces, at once or one after the other, with the result of the whole.

There are two ways. A *checkpoint* is the auditor's state at a row, recorded in one pass over the component;
each piece then begins with the state that the row before it left (:func:`audit_from_checkpoint`). A *cut*
needs no pass before: where every message sent has been accepted, a fresh engine goes on as the old one
would. The log alone shows such places (:func:`rest_places`), so each piece begins with a fresh state
(:func:`_audit_piece`). Whether that state was right shows afterwards: what decides the future
(:meth:`Auditor.rest_key`) has to be equal. Where it is not, the piece is audited again from the true state
(:func:`_stitch`), so the result is never wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from qflow.logs.audit import BEGIN, END, Auditor, LakeRow, ResultRow
from qflow.logs.components import touches_of
from qflow.workload.model import Workload

_Checkpoint = tuple[str, int, str]
"""The component, the first event after the checkpoint, and the auditor's state before it, as JSON."""


def take_checkpoints(component: str, rows: Iterable[LakeRow], every: int) -> Iterator[_Checkpoint]:
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


class _Piece(NamedTuple):
    """A piece of a component, audited from a fresh state."""

    start_key: str
    """What decided its future at its start."""
    results: list[ResultRow]
    """Rows of RESULTS, numbered from 0."""
    state: str
    """The auditor's, at its end."""


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


def _choose_places(rows: Sequence[LakeRow], pieces: int) -> list[int]:
    """Return where to cut a component into so many pieces of about the same size, or fewer."""
    places = rest_places(rows)
    chosen: set[int] = set()
    for number in range(1, pieces):
        wanted = number * len(rows) // pieces
        if places:
            chosen.add(min(places, key=lambda place: (abs(place - wanted), place)))
    return sorted(chosen)


def _audit_piece(component: str, rows: Sequence[LakeRow], begin: LakeRow) -> _Piece:
    """Audit a piece from a fresh state."""
    auditor = Auditor(component)
    if rows[0][3] != BEGIN:
        # The engine as it is when the clients have joined and nothing has been sent yet.
        auditor.feed([begin])
        auditor.skip_to(rows[0][0], rows[0][1])
    start_key = auditor.rest_key()
    results = auditor.feed(rows)
    return _Piece(start_key, results, auditor.state())


def _stitch(component: str, pieces: Sequence[_Piece], rows: Sequence[Sequence[LakeRow]]) -> Stitched:
    """Put a component's pieces together, and audit again what was begun in a wrong state."""
    results = list(pieces[0].results)
    auditor = Auditor(component, pieces[0].state)
    repeated = 0
    for piece, part in zip(pieces[1:], rows[1:], strict=True):
        key = auditor.rest_key()
        after = Auditor(component, piece.state)
        # A fresh auditor knows nothing of what was before: it finds too much, and never too little.
        is_clean = all(result[2] != "finding" for result in piece.results)
        own = after.join(auditor, piece.results) if is_clean and key and key == piece.start_key else None
        if own is None:
            repeated += 1
            results += auditor.feed(row for row in part if row[3] != END)
        else:
            results += own
            auditor = after
    results += auditor.feed(row for row in rows[-1] if row[3] == END)
    return Stitched(results + auditor.cut_off(), repeated)


def audit_cut(component: str, rows: Sequence[LakeRow], pieces: int) -> Stitched:
    """Audit a component in pieces, one after the other; on many workers each piece is one task.

    >>> from qflow.logs.components import lake_of
    >>> rows = lake_of("log", Workload("w", 1, {"q": {}}), [])["log/q"]
    >>> audit_cut("log/q", rows, 4)
    Stitched(results=[], repeated=0)
    """
    places = [0, *_choose_places(rows, pieces), len(rows)]
    parts = [rows[start:end] for start, end in zip(places, places[1:], strict=False)]
    made = [_audit_piece(component, [row for row in part if row[3] != END], rows[0]) for part in parts]
    return _stitch(component, made, parts)
