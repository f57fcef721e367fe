"""Cuts: a component cut in time where nothing is under way, each cut checked, so that it is never wrong.

Where every message sent has been accepted, a fresh engine ought to go on as the old one does.  The log
alone shows such places (:func:`rest_places`), so pieces can be audited at once, each from a fresh state
(:func:`audit_piece`).  Whether the fresh state was the right one shows afterwards: what decides the future
(:func:`rest_key`) must be equal.  Where it is not, the piece is audited again from the true state
(:func:`stitch`).

Checkpoints: a component cut in time, so that its pieces can be audited at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.broker.snapshot import only_counts
from qflow.spark.auditor import BEGIN, END, Auditor, LakeRow, ResultRow
from qflow.spark.tables import CHECKPOINTS, LAKE, RESULTS, runs, to_batches, tuples
from qflow.spark.touches import touches_of
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Checkpoint = tuple[str, int, str]
"""A row of CHECKPOINTS."""


def record(component: str, rows: Iterable[LakeRow], every: int) -> Iterator[Checkpoint]:
    """Yield a checkpoint before the first and every so many events of a component.

    It takes one audit from start to end; audits after that can begin anywhere.

    Parameters
    ----------
    component : str
    rows : iterable of rows of LAKE, without the component
        In order.
    every : int
        Events between two checkpoints.
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


def record_checkpoints(lake: DataFrame, every: int) -> DataFrame:
    """Return checkpoints of every component of a lake.

    Parameters
    ----------
    lake : DataFrame of LAKE
        As for :func:`qflow.spark.lake_audit.audit`.
    every : int
        Events between two checkpoints.

    Returns
    -------
    DataFrame of CHECKPOINTS
    """
    work = partial(_record_batches, every=every)
    return lake.select(*LAKE.names).mapInArrow(work, CHECKPOINTS.ddl)


def audit_from(lake: DataFrame, checkpoints: DataFrame, partitions: int) -> DataFrame:
    """Audit a lake in pieces between checkpoints, the pieces of one component on several workers.

    Parameters
    ----------
    lake : DataFrame of LAKE
        In any order.
    checkpoints : DataFrame of CHECKPOINTS
        The first of each component at ``seq`` 0.
    partitions : int
        How many tasks.

    Returns
    -------
    DataFrame of RESULTS
        The same as of an audit in one go.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    known = {(row.component, row.seq): row.state for row in checkpoints.select(*CHECKPOINTS.names).collect()}
    starts = lake.sparkSession.createDataFrame(
        [(component, seq) for component, seq in known], "component string, piece bigint"
    )
    by_component = Window.partitionBy("component").orderBy("piece")
    edges = starts.withColumn("next", sf.lead("piece").over(by_component))
    inside = (lake.seq >= sf.col("piece")) & (sf.col("next").isNull() | (lake.seq < sf.col("next")))
    placed = lake.join(sf.broadcast(edges), "component").where(inside)
    key = sf.concat_ws("@", "component", "piece")
    ordered = placed.withColumn("part", key).repartition(partitions, "part")
    ordered = ordered.sortWithinPartitions("component", "seq")
    last = dict(starts.groupBy("component").agg(sf.max("piece")).collect())
    work = partial(_piece_batches, states=known, last=last)
    return ordered.select(*LAKE.names, "piece").mapInArrow(work, RESULTS.ddl)


def _record_batches(batches: Iterator[Any], every: int) -> Iterator[Any]:
    auditor: Auditor | None = None
    for batch in batches:
        for component, part in runs(batch, "component"):
            if auditor is None or auditor.component != component:
                auditor = Auditor(component)
            start = 0
            while start < part.num_rows:
                due = auditor.next_seq % every
                if due == 0:
                    state = (component, auditor.next_seq, auditor.state())
                    yield from to_batches([state], CHECKPOINTS)
                length = min(every - due, part.num_rows - start)
                auditor.feed(tuples(part.slice(start, length), LAKE.names[1:]))
                start += length


def _piece_batches(
    batches: Iterator[Any], states: Mapping[tuple[str, int], str], last: Mapping[str, int]
) -> Iterator[Any]:
    auditor: Auditor | None = None
    current: tuple[str, int] = ("", -1)
    for batch in batches:
        results: Sequence[ResultRow] = []
        for component, of_component in runs(batch, "component"):
            for piece, part in runs(of_component, "piece"):
                if (component, piece) != current or auditor is None:
                    results = [*results, *_ended(auditor, current, last)]
                    current = (component, piece)
                    auditor = Auditor(component, states[current])
                results = [*results, *auditor.feed(tuples(part, LAKE.names[1:]))]
        yield from to_batches(results, RESULTS)
    yield from to_batches(_ended(auditor, current, last), RESULTS)


def _ended(auditor: Auditor | None, current: tuple[str, int], last: Mapping[str, int]) -> list[ResultRow]:
    if auditor is None or last[current[0]] != current[1]:
        return []
    return auditor.cut_off()


class Piece(NamedTuple):
    """A piece of a component, audited from a fresh state.

    Fields
    ------
    start_key : str
        What decided its future at its start.
    results : list
        Rows of RESULTS, numbered from 0.
    state : str
        The auditor's state at its end.
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

    Parameters
    ----------
    rows : sequence of rows of LAKE, without the component
        The whole component, in order.

    Examples
    --------
    >>> from qflow.spark.lake_audit import lake_of
    >>> rest_places(lake_of("log", Workload("w", 1, {"q": {}}), [])["log/q"])
    []
    """
    workload = Workload.from_json(json.loads(rows[0][5]))
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
    """Audit a piece from a fresh state.

    Parameters
    ----------
    component : str
    rows : sequence of rows of LAKE
        The piece, without the component's end.
    begin : row of LAKE
        The component's begin.
    """
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

    Parameters
    ----------
    state : str
        What :meth:`Auditor.state` gave.
    """
    value = json.loads(state)
    player, intervals = value["player"], value["intervals"]
    if player is None or not _is_at_rest(player, intervals):
        return ""
    parts = [
        [kind, "counts" if only_counts(kind) else fields] for kind, fields in player["broker"]["objects"][1:]
    ]
    return json.dumps([parts, player["joins"], player["refused"]], separators=(",", ":"))


def stitch(component: str, pieces: Sequence[Piece], rows: Sequence[Sequence[LakeRow]]) -> Stitched:
    """Put a component's pieces together, and audit again what was begun in a wrong state.

    Parameters
    ----------
    component : str
    pieces : sequence of Piece
        In order.
    rows : sequence of sequences of rows of LAKE
        Each piece's rows; after the last piece's, the component's end.

    Returns
    -------
    Stitched
        The results are those of an audit in one go.
    """
    results = list(pieces[0].results)
    state = pieces[0].state
    repeated = 0
    for piece, part in zip(pieces[1:], rows[1:], strict=True):
        key = rest_key(state)
        if key and key == piece.start_key:
            before = json.loads(state)
            results += _shifted(piece.results, before)
            state = _joined(before, json.loads(piece.state))
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

    Examples
    --------
    >>> from qflow.spark.lake_audit import lake_of
    >>> rows = lake_of("log", Workload("w", 1, {"q": {}}), [])["log/q"]
    >>> audit_cut("log/q", rows, 4)
    Stitched(results=[], repeated=0)
    """
    places = [0, *chosen_places(rows, pieces), len(rows)]
    parts = [rows[start:end] for start, end in zip(places, places[1:], strict=False)]
    made = [audit_piece(component, [row for row in part if row[3] != END], rows[0]) for part in parts]
    return stitch(component, made, parts)


def _is_at_rest(player: Mapping[str, Any], intervals: Mapping[str, Any]) -> bool:
    under_way = [player["holders"], player["early"], player["shown"], *player["owned"].values()]
    going_on = [intervals["flow"], intervals["held"], intervals["groups"], intervals["blocked"]]
    return not any(under_way) and not any(going_on) and not any(intervals["depth"].values())


def _shifted(results: Sequence[ResultRow], before: Mapping[str, Any]) -> list[ResultRow]:
    """Return a piece's results with the numbers they have in the whole."""
    first, stops = before["counts"][1], before["intervals"]["stops"]
    shifted: list[ResultRow] = []
    for component, number, kind, queue, *rest in results:
        if kind == "held":
            rest[-2] += stops.get(queue, 0)
        shifted.append((component, first + number, kind, queue, *rest))
    return shifted


def _joined(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return the state after a piece, with what was counted before it."""
    old, new = before["intervals"], after["intervals"]
    after["counts"][1] += before["counts"][1]
    new["stops"] = {queue: old["stops"].get(queue, 0) + new["stops"].get(queue, 0)
                    for queue in {**old["stops"], **new["stops"]}}  # fmt: skip
    for name in ("drops", "differs"):
        counted = {(one, other): number for one, other, number in old[name]}
        for one, other, number in new[name]:
            counted[one, other] = counted.get((one, other), 0) + number
        new[name] = [[*key, number] for key, number in counted.items()]
    for queue, most in old["most"].items():
        new["most"][queue] = [max(pair) for pair in zip(most, new["most"].get(queue, most), strict=True)]
    for queue, sample in old["samples"].items():
        own = new["samples"].get(queue, [0, 0, 0, 0])
        summed = [a + b for a, b in zip(sample[:3], own[:3], strict=True)]
        new["samples"][queue] = [*summed, max(sample[3], own[3])]
    return json.dumps(after, separators=(",", ":"))
