"""Cuts: a long component audited in pieces, one after the other or as tasks, with the result of the whole.

There are two ways. A *checkpoint* is the auditor's state at a row, recorded in one pass over the component;
each piece then begins with the state that the row before it left (:func:`audit_from_checkpoint`). A *cut*
needs no pass before: where every message sent has been accepted, a fresh engine goes on as the old one
would. The log alone shows such places (:func:`rest_places`), so each piece begins with a fresh state.
Whether that state was right shows afterwards (:func:`_follow`): what decides the future
(:meth:`Auditor.rest_key`) has to be equal; what only counts (results, times ON) is added. Where it is not,
the piece is audited again from the true state, so the result is never wrong.

:func:`audit_cut` does this in memory, :class:`CutAudit` on Spark: a task a piece. The driver compares the
pieces' states and sees none of their results.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.logs.audit import BEGIN, END, Auditor, LakeRow, ResultRow
from qflow.logs.components import touches_of
from qflow.spark.lake import in_order
from qflow.spark.tables import LAKE, RESULTS, Schema, by_component, to_batches, tuples
from qflow.spark.workers import map_batches
from qflow.trace.schema import Column
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame

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


def rest_places(rows: Sequence[LakeRow]) -> list[int]:
    """Return the numbers of the events before which nothing is under way, as far as the log shows.

    Parameters:
        rows (sequence of rows of LAKE, without the component): The whole component, in order.

    >>> from qflow.logs.components import lake_of
    >>> rest_places(lake_of("log", Workload("w", 1, {"q": {}}), [])["log/q"])
    []
    """
    return list(_rests((row[0], row[2], row[3], row[8]) for row in rows))


_SEEN = ("seq", "client", "event", "workload")
"""What of LAKE it takes to see where a component rests."""


def _rests(rows: Iterable[tuple[int, str, str, str | None]]) -> Iterator[int]:
    copies: dict[str, int] = {}
    blocked: set[str] = set()
    waiting, is_rested = 0, False
    for seq, client, event, text in rows:
        if event == "transfer":
            # What had to be completed has been completed by now.
            if is_rested and not waiting and not blocked:
                yield seq
            is_rested = False
            waiting += copies.get(client, 0)
        elif event == "accept":
            waiting -= 1
            is_rested = True
        elif event == "block":
            blocked.add(client)
        elif event == "unblock":
            blocked.discard(client)
        elif event == BEGIN:
            copies = _copies_of(Workload.from_json(json.loads(text or "null")))


def _copies_of(workload: Workload) -> dict[str, int]:
    """Return of how many queues each producer's messages reach one."""
    copies = {producer.name: 0 for producer in workload.producers}
    for _, client, _ in touches_of("", workload):
        if client in copies:
            copies[client] += 1
    return copies


def _choose_places(places: Iterable[int], total: int, pieces: int) -> list[int]:
    """Return which of some places, in order, cut so many events into pieces of about the same size.

    >>> _choose_places([10, 48, 60, 70, 90], 100, 4)
    [10, 48, 70]
    """
    wanted = [number * total // pieces for number in range(pieces - 1, 0, -1)]
    chosen: set[int] = set()
    before: int | None = None
    for place in places:
        while wanted and place >= wanted[-1]:
            aim = wanted.pop()
            chosen.add(before if before is not None and aim - before <= place - aim else place)
        before = place
    return sorted({*chosen, *([before] if wanted and before is not None else [])})


class _Piece(NamedTuple):
    """A piece of a component, audited: what it takes to put its results after those of the one before."""

    start_key: str | None
    """What decided its future at its start; None for one that began in the true state."""
    is_clean: bool
    state: str
    """The auditor's, at its end."""


class _Counts(NamedTuple):
    """What is added to a piece's results: results, and times ON of each queue, before it."""

    results: int = 0
    stops: Mapping[str, int] = {}

    def add(self, results: Iterable[ResultRow]) -> Iterator[ResultRow]:
        """Yield results as those of the whole component; one that was held says which time ON held it."""
        for result in results:
            component, number, kind, queue = result[:4]
            count = result[9] + (self.stops.get(queue, 0) if kind == "held" else 0)
            yield (component, self.results + number, *result[2:9], count, *result[10:])


class _PieceAudit:
    """An audit of one piece: from the true state, if it is known, else from a fresh one."""

    def __init__(self, component: str, start: int, begin: LakeRow, state: str | None = None) -> None:
        self._auditor = Auditor(component, state)
        self._start_key: str | None = None
        self._is_clean = True
        self._start, self._begin, self._is_fresh = start, begin, state is None and start > 0

    def feed(self, rows: Iterable[LakeRow]) -> list[ResultRow]:
        """Take rows, which begin with the piece's first."""
        rows = list(rows)
        if self._is_fresh:
            # The engine as it is when the clients have joined and nothing has been sent yet.
            self._auditor.feed([self._begin])
            self._auditor.skip_to(self._start, rows[0][1])
            self._start_key, self._is_fresh = self._auditor.rest_key(), False
        results = self._auditor.feed(row for row in rows if row[3] != END)
        self._is_clean = self._is_clean and all(result[2] != "finding" for result in results)
        return results

    def piece(self) -> _Piece:
        """Return what is known of the piece after its last row."""
        return _Piece(self._start_key, self._is_clean, self._auditor.state())


def _follow(auditor: Auditor, piece: _Piece, start: int) -> tuple[Auditor, _Counts] | None:
    """Return the auditor after a piece, and what to add to its results; None if it was begun wrongly."""
    after = Auditor(auditor.component, piece.state)
    if piece.start_key is None:
        return after, _Counts()
    # A fresh auditor knows nothing of what was before: it finds too much, and never too little.
    if not piece.is_clean or auditor.next_seq != start or auditor.rest_key() != piece.start_key:
        return None
    counts = _Counts(*auditor.counts())
    return (after, counts) if piece.start_key and after.join(auditor) else None


class Stitched(NamedTuple):
    """A component's results, put together from pieces, and how many pieces had to be audited again."""

    results: list[ResultRow]
    repeated: int


def audit_cut(component: str, rows: Sequence[LakeRow], pieces: int) -> Stitched:
    """Audit a component in pieces, one after the other; on Spark each piece is a task.

    >>> from qflow.logs.components import lake_of
    >>> rows = lake_of("log", Workload("w", 1, {"q": {}}), [])["log/q"]
    >>> audit_cut("log/q", rows, 4)
    Stitched(results=[], repeated=0)
    """
    return _audit_at(component, rows, _choose_places(rest_places(rows), len(rows), pieces))


def _audit_at(component: str, rows: Sequence[LakeRow], places: Iterable[int]) -> Stitched:
    """Audit a component that is cut before the events with these numbers."""
    auditor, results, repeated = Auditor(component), list[ResultRow](), 0
    for start, end in pairwise([0, *places, len(rows)]):
        audit, part = _PieceAudit(component, start, rows[0]), rows[start:end]
        own = audit.feed(part)
        followed = _follow(auditor, audit.piece(), start)
        if followed is None:
            repeated += 1
            results += auditor.feed(row for row in part if row[3] != END)
        else:
            auditor, counts = followed
            results += counts.add(own)
    results += auditor.feed(row for row in rows[-1:] if row[3] == END)
    return Stitched(results + auditor.cut_off(), repeated)


# On Spark

CUT_ROWS = 1_000_000
"""A component of more rows is cut, where it can be, into pieces of about so many."""
_PROBE_ROWS = 20_000
"""Whether a component can be cut is tried with so many of its first events."""
_ROW = LAKE.names[1:]

_PLACES = Schema([Column("component", "string", "its name"), Column("place", "bigint", "an event's number")])


def find_cuts(lake: DataFrame, events: Mapping[str, int], rows: int = CUT_ROWS) -> dict[str, list[int]]:
    """Return before which events to cut each component of more rows that it pays for."""
    # It pays if one task would get more than its share, and if the engine at rest is as a fresh one.
    tasks = int(str(lake.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    least = max(rows, sum(events.values()) / tasks)
    large = {name: count for name, count in events.items() if count > least}
    if large:
        begins = lake.where(lake.component.isin(list(large)) & (lake.seq < _PROBE_ROWS))
        rested = map_batches(in_order(begins.select(*LAKE.names)), _try_to_cut, _PLACES)
        large = {row.component: large[row.component] for row in rested.collect()}
    if not large:
        return {}
    seen = lake.where(lake.component.isin(list(large))).select("component", *_SEEN)
    work = partial(_find_places, events=large, rows=rows)
    found: dict[str, list[int]] = {}
    for row in map_batches(in_order(seen, events=large), work, _PLACES).collect():
        found.setdefault(row.component, []).append(row.place)
    return {name: sorted(places) for name, places in found.items()}


def _try_to_cut(batches: Iterator[Any]) -> Iterator[Any]:
    """Give the components that rest, and whose engine is then as a fresh one."""
    for component, parts in by_component(batches):
        rows = [row for part in parts for row in tuples(part, _ROW)]
        for place in rest_places(rows)[-1:]:
            auditor, piece = Auditor(component), _PieceAudit(component, place, rows[0])
            auditor.feed(rows[:place])
            piece.feed(rows[place : place + 1])
            if _follow(auditor, piece.piece(), place) is not None:
                yield from to_batches([(component, place)], _PLACES)


def _find_places(batches: Iterator[Any], events: Mapping[str, int], rows: int) -> Iterator[Any]:
    for component, parts in by_component(batches):
        places = _rests(row for part in parts for row in tuples(part, _SEEN))
        total = events[component]
        chosen = _choose_places(places, total, -(-total // rows))
        yield from to_batches(((component, place) for place in chosen), _PLACES)


@dataclass
class _Seam:
    """How far the pieces of a component are put together."""

    auditor: Auditor
    starts: Sequence[int]
    pieces: dict[int, _Piece] = field(default_factory=dict)
    done: int = 0

    def follow(self) -> Iterator[tuple[int, _Counts]]:
        """Yield which pieces hold, with what to add to their results, up to one that does not."""
        while self.done < len(self.starts):
            followed = _follow(self.auditor, self.pieces[self.done], self.starts[self.done])
            if followed is None:
                return
            self.auditor, counts = followed
            yield self.done, counts
            self.done += 1


_NO_END = (1 << 63) - 1
_PIECE = Column("piece", "string", "of the last row of a piece: what is known of it, as JSON")


class CutAudit:
    """An audit of cut components, each piece a task; the driver compares what the pieces begin with."""

    def __init__(
        self,
        lake: DataFrame,
        places: Mapping[str, Sequence[int]],
        events: Mapping[str, int],
        table: Schema = RESULTS,
        peak: Accumulator[int] | None = None,
    ) -> None:
        self._lake, self._table, self._keys, self._peak = lake, table, table.names[len(RESULTS) :], peak
        self._bounds = {name: list(pairwise([0, *own, _NO_END])) for name, own in places.items()}
        self._events = events
        edges = lake.where(lake.event.isin(BEGIN, END)).select(*LAKE.names, *self._keys)
        self._edges = {(row.component, row.event): tuple(row) for row in edges.collect()}
        self._parts: list[DataFrame] = []

    def results(self) -> DataFrame:
        """Audit the pieces, and again those that began in a wrong state; return the results of all."""
        seams = {
            name: _Seam(Auditor(name), [start for start, _ in own]) for name, own in self._bounds.items()
        }
        wanted: dict[_Cut, str | None] = {
            (name, at): None for name in seams for at in range(len(seams[name].starts))
        }
        placed: dict[_Cut, tuple[int, _Counts]] = {}
        made_in: dict[_Cut, int] = {}
        while wanted:
            made_in |= dict.fromkeys(wanted, len(self._parts))
            made = self._audit_pieces(wanted).persist()
            self._parts.append(made)
            for row in made.where("piece IS NOT NULL").select("component", "piece").collect():
                name, at = _parse_name(row.component)
                seams[name].pieces[at] = _Piece(*json.loads(row.piece))
            for name, seam in seams.items():
                placed |= {(name, at): (made_in[name, at], counts) for at, counts in seam.follow()}
            unfinished = {name: seam for name, seam in seams.items() if seam.done < len(seam.starts)}
            wanted = {(name, seam.done): seam.auditor.state() for name, seam in unfinished.items()}
        parts = [
            self._add_counts(made, {cut: counts for cut, (at, counts) in placed.items() if at == number})
            for number, made in enumerate(self._parts)
        ]
        parts.append(self._end({name: seam.auditor for name, seam in seams.items()}))
        return reduce(lambda some, more: some.unionByName(more), parts)

    def release(self) -> None:
        """Let go of what Spark keeps of the pieces; their results cannot be asked for any more."""
        for part in self._parts:
            part.unpersist()

    def _audit_pieces(self, wanted: Mapping[_Cut, str | None]) -> DataFrame:
        from pyspark.sql import functions as sf

        spark = self._lake.sparkSession
        bounds = {_name(name, at): (name, *self._bounds[name][at]) for name, at in wanted}
        table = [(name, start, end, piece) for piece, (name, start, end) in bounds.items()]
        pieces = spark.createDataFrame(table, "component string, first bigint, next bigint, piece string")
        names = sorted({name for name, _ in wanted})
        rows = self._lake.where(self._lake.component.isin(names) & (self._lake.event != END))
        inside = rows.join(sf.broadcast(pieces), "component").where("seq >= first AND seq < next")
        named = inside.drop("component").withColumnRenamed("piece", "component")
        # Of a component with rows that are missing a piece may seem to have none.
        sizes = {
            piece: max(1, min(end, self._events[name]) - start)
            for piece, (name, start, end) in bounds.items()
        }
        work = partial(
            _audit_pieces,
            begins={name: self._edges[name, BEGIN][1 : len(LAKE)] for name in names},
            bounds=bounds,
            states={_name(*cut): state for cut, state in wanted.items()},
            table=Schema([*self._table, _PIECE]),
        )
        ordered = in_order(named.select(*LAKE.names, *self._keys), events=sizes)
        return map_batches(ordered, work, Schema([*self._table, _PIECE]), self._peak)

    def _add_counts(self, made: DataFrame, placed: Mapping[_Cut, _Counts]) -> DataFrame:
        """Return the results of the pieces that hold, as those of whole components."""
        from pyspark.sql import functions as sf

        counts = made.sparkSession.createDataFrame(
            [(_name(*cut), *counts) for cut, counts in placed.items()],
            "component string, before bigint, stops map<string, bigint>",
        )
        joined = made.where("piece IS NULL").join(sf.broadcast(counts), "component")
        added = {
            "component": sf.expr("substring(component, instr(component, ' ') + 1)"),
            "number": sf.col("number") + sf.col("before"),
            "count": sf.expr("`count` + if(kind = 'held', coalesce(stops[queue], 0), 0)"),
        }
        return joined.withColumns(added).select(*self._table.names)

    def _end(self, auditors: Mapping[str, Auditor]) -> DataFrame:
        """Return the last results of each component."""
        rows = []
        for name, auditor in auditors.items():
            edges = [self._edges[edge] for edge in ((name, END), (name, BEGIN)) if edge in self._edges]
            results = auditor.feed(edge[1 : len(LAKE)] for edge in edges if edge[4] == END)
            rows += [(*result, *edges[0][len(LAKE) :]) for result in results + auditor.cut_off()]
        return self._lake.sparkSession.createDataFrame(rows, self._table.ddl)


_Cut = tuple[str, int]
"""A component, and which of its pieces."""


def _name(component: str, at: int) -> str:
    return f"{at} {component}"


def _parse_name(name: str) -> _Cut:
    at, _, component = name.partition(" ")
    return component, int(at)


def _audit_pieces(
    batches: Iterator[Any],
    begins: Mapping[str, LakeRow],
    bounds: Mapping[str, tuple[str, int, int]],
    states: Mapping[str, str | None],
    table: Schema,
) -> Iterator[Any]:
    """Audit the pieces of one partition; the last row of each says what is known of it."""
    keys = table.names[len(RESULTS) : -1]
    for piece, parts in by_component(batches):
        component, start, _ = bounds[piece]
        audit = _PieceAudit(component, start, begins[component], states[piece])
        own: tuple[Any, ...] = ()
        for part in parts:
            own = own or tuple(part.column(name)[0].as_py() for name in keys)
            results = audit.feed(tuples(part, _ROW))
            yield from to_batches(((piece, *result[1:], *own, None) for result in results), table)
        yield from to_batches([(piece, *[None] * (len(table) - 2), json.dumps(audit.piece()))], table)
