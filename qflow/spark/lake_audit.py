"""Audits of a lake: run the engine over each component in constant memory, and over a long one in pieces.

A component is one task, so the largest component determines how long an audit takes at least.  There are two
ways to divide a component into pieces; both give the same results as an undivided audit.

- A *checkpoint* is the auditor's state at a row, which is recorded in one pass over the component.  Each
  piece begins with the state at its first row (:func:`audit_from_checkpoint`).
- A *cut* needs no earlier pass.  At a row where every message that was sent has been accepted, a fresh engine
  usually continues as the old one would.  The log alone shows such places (:func:`rest_places`), so each
  piece is audited from a fresh state.  Afterwards, :func:`_follow` checks whether that state was right: the
  state that determines the future (:meth:`Auditor.rest_key`) must be equal; counts (of results, of intervals
  ON) are added.  If it was not right, the piece is audited again from the true state, so that the result is
  always correct.

:func:`audit_cut` audits the pieces in memory, :class:`_CutAudit` on Spark, with a task for each piece. The
driver compares the states of the pieces and never sees their results.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.kit import RefusalError
from qflow.logs.audit import Auditor
from qflow.logs.components import touches_of
from qflow.logs.findings import Result
from qflow.logs.log_file import BEGIN, END, LakeRow
from qflow.progress import Progress
from qflow.spark.lake import NO_END, in_order, require_lake, take_slices
from qflow.spark.tables import (
    FORMAT,
    KEYS,
    LAKE,
    RESULTS,
    GrowingTable,
    Part,
    Schema,
    by_component,
    frame_of,
    lake_rows,
    of_parts,
    run_of,
    shuffle_partitions,
    to_batches,
    tuples,
)
from qflow.spark.workers import map_batches
from qflow.trace.files import QuarantinedRow
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

_CUT_ROWS = 1_000_000
"""The size of a piece in rows; a larger component is cut into such pieces if possible."""
_PROBE_ROWS = 20_000
"""The number of rows, from a component's beginning, on which a cut is tried first."""
RESULTS_HAVE = "results have"
LOG = "log"
"""The kind of the row of results that has the :class:`~qflow.spark.tables.LogFacts` of a component."""


def audit(lake: DataFrame, partitions: int | None = None) -> DataFrame:
    """Return the intervals and findings of every component.

    Parameters:
        lake (DataFrame of LAKE): The rows of the lake, in any order.  Missing rows cause findings.
        partitions: The number of tasks; None for the session's number of shuffle partitions.

    Returns:
        A table of RESULTS, in no particular order, with the key ``component`` and ``number``.
    """
    return without_logs(map_batches(in_order(lake.select(*LAKE), partitions), _audit_batches, RESULTS))


def without_logs(results: DataFrame) -> DataFrame:
    """Return results without the rows that have the facts of the logs."""
    return results.where(f"kind != '{LOG}'").select(*RESULTS)


def audit_large(
    lake: DataFrame,
    peak: Accumulator[int] | None = None,
    cut: int = _CUT_ROWS,
    kept: list[DataFrame] | None = None,
) -> DataFrame:
    """Return the results and the facts of the logs; components above the limit are cut where it pays."""
    # kept: A list to which the persisted data frames of pieces are added.
    # Rows of a growing table have its KEYS, and so do their results.
    keys = [name for name in KEYS if name in lake.columns]
    table = Schema({**RESULTS, **{name: KEYS[name] for name in keys}})
    places = _find_cuts(lake, cut)
    is_cut = lake.component.isin(list(places))
    whole = in_order((lake.where(~is_cut) if places else lake).select(*LAKE, *keys))
    parts = [map_batches(whole, partial(_audit_batches, table=table), table, peak)]
    if places:
        few = lake.where(is_cut)
        results = _CutAudit(few.select(*LAKE), places, peak).results(kept)
        parts.append(_with_keys(results, few) if keys else results)
    return _union(parts)


def audit_to(
    spark: SparkSession,
    lake: str | Path,
    out: str | Path,
    progress: Progress | None = None,
    peak: Accumulator[int] | None = None,
    form: str = FORMAT,
    cut: int = _CUT_ROWS,
) -> DataFrame:
    """Audit the parts of a lake that a table of results lacks, and add their results to it.

    Parameters:
        spark: The Spark session.
        lake: The folder or address of the lake.
        out: The folder or address of the table of results, which is created if it does not exist.
        progress: A function that is called with the number of finished parts and of all parts.
        peak: An accumulator that gets the peak memory of the workers.
        form: The format of both tables, such as ``parquet``.
        cut: The size of a piece in rows; a larger component is cut if possible.

    Returns:
        The results of the whole lake, with the facts of its logs in rows of the kind ``log``.

    Raises:
        RefusalError: If there is no lake, or another version wrote one of the tables.
    """
    source, table = GrowingTable(spark, lake, form), GrowingTable(spark, out, form)
    rows = require_lake(source)
    table.read(RESULTS, RESULTS_HAVE)
    wanted = source.done_parts()
    kept: list[DataFrame] = []

    def audit_parts(some: Sequence[Part]) -> DataFrame:
        return audit_large(of_parts(rows, some), peak, cut, kept)

    def note(done: int, total: int | None = None, _: str = "") -> None:
        while kept:
            # Pieces are persisted only until the parts to which they belong are written.
            kept.pop().unpersist()
        if progress is not None:
            progress(done, total)

    done = table.done_runs()
    table.fill({part for part in wanted if run_of(part) not in done}, audit_parts, note)
    table.finish({run: words for run, words in source.done_runs().items() if run not in done})
    return of_parts(_read_results(table), wanted).select(*RESULTS)


def _with_keys(results: DataFrame, lake: DataFrame) -> DataFrame:
    """Return results with the KEYS of their components in the lake."""
    from pyspark.sql import functions as sf

    # A component is in one part, so the smallest name is the only one.
    keys = lake.groupBy("component").agg(*(sf.min(name).alias(name) for name in KEYS))
    return results.join(sf.broadcast(keys), "component").select(*RESULTS, *KEYS)


def results_with_keys(
    spark: SparkSession, folder: str | Path, form: str = FORMAT
) -> tuple[DataFrame, set[Part]]:
    """Return all rows that :func:`audit_to` wrote with their KEYS, and the parts of unfinished runs."""
    table = GrowingTable(spark, folder, form)
    return _read_results(table), table.parts - table.done_parts()


def _read_results(table: GrowingTable) -> DataFrame:
    frame = table.read(RESULTS, RESULTS_HAVE)
    if frame is None:
        raise RefusalError(f"{table.place}: there are no results of an audit")
    return frame


def _union(parts: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda some, more: some.unionByName(more), parts)


def _audit_batches(
    batches: Iterator[Any],
    auditor_of: Callable[[str], Auditor | _PieceAudit] = Auditor,
    table: Schema = RESULTS,
) -> Iterator[Any]:
    """Audit the rows of one partition in batches; a component's results have its KEYS."""
    for component, parts in by_component(batches):
        auditor = auditor_of(component)
        keys: list[Any] = []
        for part in parts:
            keys = [part.column(name)[0].as_py() for name in KEYS if name in table]
            rows = list(lake_rows(part))
            own = _facts_of(component, rows[0]) if isinstance(auditor, Auditor) else []
            yield from to_batches(([*one, *keys] for one in [*own, *auditor.feed(rows)]), table)
        yield from to_batches(([*one, *keys] for one in auditor.cut_off()), table)


def audit_items(items: Iterable[tuple[str, LakeRow] | QuarantinedRow]) -> Iterator[Result | QuarantinedRow]:
    """Yield the results of a log's components with the facts of the log, and the quarantined rows."""
    lake: dict[str, list[LakeRow]] = {}
    for item in items:
        if isinstance(item, QuarantinedRow):
            yield item
        else:
            lake.setdefault(item[0], []).append(item[1])
    for component, own in sorted(lake.items()):
        auditor = Auditor(component)
        yield from [*_facts_of(component, own[0]), *auditor.feed(own), *auditor.cut_off()]


def _facts_of(component: str, row: LakeRow) -> list[Result]:
    """Return the facts in a component's ``begin`` row as a list of one result, or [] if it has none."""
    has_facts = row.event == BEGIN and row.group
    return [Result(component, -1, LOG, "", "", 0, None, message=row.group)] if has_facts else []


# Checkpoints

_Checkpoint = tuple[str, int, str]
"""A checkpoint: the component, the number of the next row, and the auditor's state before it, as JSON."""


def take_checkpoints(component: str, rows: Iterable[LakeRow], every: int) -> Iterator[_Checkpoint]:
    """Yield a checkpoint at the start of a component and then after every given number of rows.

    This takes one audit from start to end; later audits can begin at any checkpoint.

    Parameters:
        component: The component's name.
        rows: The rows of the component, in order.
        every: The number of rows between two checkpoints.
    """
    auditor = Auditor(component)
    iterator = iter(rows)
    while part := list(islice(iterator, every)):
        yield component, auditor.next_seq, auditor.state()
        auditor.feed(part)


def audit_from_checkpoint(component: str, state: str, rows: Iterable[LakeRow], is_last: bool) -> list[Result]:
    """Audit a component from a checkpoint to the next one, or to the end.

    The results of all pieces together equal those of an undivided audit.

    Parameters:
        component: The component's name.
        state: The auditor's state at the checkpoint.
        rows: The rows from the checkpoint to the next one.
        is_last: Whether they are the last rows of the component.
    """
    auditor = Auditor(component, state)
    results = auditor.feed(rows)
    return results + auditor.cut_off() if is_last else results


def rest_places(rows: Sequence[LakeRow]) -> list[int]:
    """Return the numbers of the rows before which, according to the log, no message is under way.

    Parameters:
        rows: All rows of the component, in order.

    >>> from qflow.logs.components import lake_of
    >>> rest_places(lake_of("log", Workload("w", 1, {"q": {}}), [])["log/q"])
    []
    """
    return list(_rests((row.seq, row.client, row.event, row.workload) for row in rows))


_SEEN = ("seq", "client", "event", "workload")
"""The columns of LAKE that are needed to find the places where a component rests."""


def _rests(rows: Iterable[tuple[int, str, str, str | None]]) -> Iterator[int]:
    copies: dict[str, int] = {}
    blocked: set[str] = set()
    waiting, is_rested = 0, False
    for seq, client, event, text in rows:
        if event == "transfer":
            # Before a transfer and not after an accept, so that all due completions have come.
            if is_rested and not waiting and not blocked:
                yield seq
            is_rested = False
            # A message that is routed to two queues is accepted twice.
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
    """Return the number of queues that each producer's messages reach."""
    copies = {producer.name: 0 for producer in workload.producers}
    for _, client, _ in touches_of("", workload):
        if client in copies:
            copies[client] += 1
    return copies


def _choose_places(places: Iterable[int], total: int, pieces: int) -> list[int]:
    """Return those of the places, in order, that divide the events into pieces of nearly equal size.

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
    """An audited piece of a component, with the states that are needed to append it to its predecessor."""

    start_key: str | None
    """The rest key at the start of the piece; None for a piece that began in the true state."""
    is_clean: bool
    """Whether the piece has no findings."""
    state: str
    """The auditor's state at the end of the piece."""


class _Counts(NamedTuple):
    """The number of results, and of stops by queue, before a piece, which are added to its results' own."""

    results: int = 0
    stops: Mapping[str, int] = {}

    def add(self, result: Result, component: str) -> Result:
        """Return a result whose number and number of stops are counted in the whole component."""
        stops = result.flowStoppedCount
        if stops is not None:
            stops += self.stops.get(result.queue, 0)
        number = self.results + result.number
        return result._replace(component=component, number=number, flowStoppedCount=stops)


class _PieceAudit:
    """An audit of one piece, which begins with the given state or, without one, with a fresh state."""

    def __init__(self, component: str, start: int, begin: LakeRow, state: str | None = None) -> None:
        self._auditor = Auditor(component, state)
        self._start_key: str | None = None
        self._is_clean = True
        self._start, self._begin, self._is_fresh = start, begin, state is None and start > 0

    def feed(self, rows: Iterable[LakeRow]) -> list[Result]:
        """Audit the next rows of the piece."""
        rows = list(rows)
        if self._is_fresh:
            # A fresh state is the one in which consumers have subscribed and nothing has been sent.
            self._auditor.feed([self._begin])
            self._auditor.skip_to(self._start, rows[0].ts_us)
            self._start_key, self._is_fresh = self._auditor.rest_key(), False
        results = self._auditor.feed(row for row in rows if row.event != END)
        self._is_clean = self._is_clean and all(result.kind != "finding" for result in results)
        return results

    def piece(self) -> _Piece:
        """Return the piece with its states, after its last row."""
        return _Piece(self._start_key, self._is_clean, self._auditor.state())

    def cut_off(self) -> list[Result]:
        """Return the piece, with its states, as one result of the kind ``piece``."""
        # A Spark job has one output table, so the states are a row of the results.
        return [Result(self._auditor.component, 0, "piece", "", "", 0, 0, json.dumps(self.piece()))]


def _follow(auditor: Auditor, piece: _Piece, start: int) -> tuple[Auditor, _Counts] | None:
    """Return the auditor after a piece and the counts before it, or None if it began in a wrong state."""
    after = Auditor(auditor.component, piece.state)
    if piece.start_key is None:
        return after, _Counts()
    # A fresh auditor does not know the past, so it may report a false finding, but cannot miss a true one. So
    # a piece without findings is correct, and a piece with findings is audited again.
    if not piece.is_clean or auditor.next_seq != start or auditor.rest_key() != piece.start_key:
        return None
    counts = _Counts(*auditor.counts())
    return (after, counts) if piece.start_key and after.join(auditor) else None


class Stitched(NamedTuple):
    """The results of a component from its pieces, and the number of pieces that were audited again."""

    results: list[Result]
    repeated: int


def audit_cut(component: str, rows: Sequence[LakeRow], pieces: int) -> Stitched:
    """Audit a component in pieces, one after another (on Spark, each piece is a task).

    Parameters:
        component: The component's name.
        rows: All rows of the component, in order.
        pieces: The wanted number of pieces.

    >>> from qflow.logs.components import lake_of
    >>> rows = lake_of("log", Workload("w", 1, {"q": {}}), [])["log/q"]
    >>> audit_cut("log/q", rows, 4)
    Stitched(results=[], repeated=0)
    """
    return _audit_at(component, rows, _choose_places(rest_places(rows), len(rows), pieces))


def _audit_at(component: str, rows: Sequence[LakeRow], places: Iterable[int]) -> Stitched:
    """Audit a component that is cut before the rows with the given numbers."""
    auditor, results, repeated = Auditor(component), list[Result](), 0
    for start, end in pairwise([0, *places, len(rows)]):
        audit, part = _PieceAudit(component, start, rows[0]), rows[start:end]
        own = audit.feed(part)
        followed = _follow(auditor, audit.piece(), start)
        if followed is None:
            # The fresh state was wrong, or a finding needs the true past: the piece is audited again from the
            # state before it. On Spark this costs one more task.
            repeated += 1
            results += auditor.feed(row for row in part if row.event != END)
        else:
            auditor, counts = followed
            results += (counts.add(result, component) for result in own)
    results += auditor.feed(row for row in rows[-1:] if row.event == END)
    return Stitched(results + auditor.cut_off(), repeated)


# Pieces on Spark

_PLACES = Schema(component="string", place="bigint")
"""The columns of the places before which components are cut."""


def _find_cuts(lake: DataFrame, rows: int = _CUT_ROWS) -> dict[str, list[int]]:
    """Return the places at which to cut each component above the limit, if cutting pays."""
    # A cut pays if one task would get more than its share, and if the engine at rest equals a fresh one. The
    # latter is tried on the first rows, before all rows are read to find places.
    # Parquet has the largest row number of each block, so no other blocks are read.
    numbered = lake.where(lake.seq >= rows).groupBy("component").agg({"seq": "max"}).collect()
    large = {component: last + 1 for component, last in numbered}
    if large:
        least = lake.count() / shuffle_partitions(lake.sparkSession)
        large = {name: count for name, count in large.items() if count > least}
    if large:
        begins = lake.where(lake.component.isin(list(large)) & (lake.seq < _PROBE_ROWS))
        rested = map_batches(in_order(begins.select(*LAKE)), _try_to_cut, _PLACES)
        large = {row.component: large[row.component] for row in rested.collect()}
    if not large:
        return {}
    seen = lake.where(lake.component.isin(list(large))).select("component", *_SEEN)
    work = partial(_find_places, events=large, rows=rows)
    found: dict[str, list[int]] = {}
    for row in map_batches(in_order(seen, len(large)), work, _PLACES).collect():
        found.setdefault(row.component, []).append(row.place)
    return {name: sorted(places) for name, places in found.items()}


def _try_to_cut(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the components that can be cut, as their engine's state at rest equals a fresh one."""
    for component, parts in by_component(batches):
        rows = [row for part in parts for row in lake_rows(part)]
        # At the last place, a state that differs from a fresh one, such as the order of consumers, has had
        # the most time to develop.
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


class _Slice(NamedTuple):
    """The bounds of a piece: its component, the number of its first row, and that of the next piece."""

    component: str
    start: int
    end: int


class _CutAudit:
    """An audit of cut components with a task for each piece, whose states the driver compares."""

    def __init__(
        self,
        lake: DataFrame,
        places: Mapping[str, Sequence[int]],
        peak: Accumulator[int] | None,
    ) -> None:
        self._lake, self._peak = lake, peak
        # The names of the pieces of each component, in order.
        self._pieces = {name: [f"{at} {name}" for at in range(len(own) + 1)] for name, own in places.items()}
        self._bounds = {
            piece: _Slice(name, *bounds)
            for name, own in places.items()
            for piece, bounds in zip(self._pieces[name], pairwise([0, *own, NO_END]), strict=True)
        }
        edges = lake.where(lake.event.isin(BEGIN, END)).collect()
        self._edges = {(row.component, row.event): LakeRow(*row[1:]) for row in edges}

    def results(self, kept: list[DataFrame] | None) -> DataFrame:
        """Audit all pieces, audit those again that began in a wrong state, and return all results."""
        auditors = {name: Auditor(name) for name in self._pieces}
        left = {name: deque(pieces) for name, pieces in self._pieces.items()}
        wanted: dict[str, str | None] = dict.fromkeys(self._bounds)
        made: list[DataFrame] = []
        made_in: dict[str, int] = {}
        audited: dict[str, _Piece] = {}
        placed: dict[str, _Counts] = {}
        while wanted:
            made_in |= dict.fromkeys(wanted, len(made))
            # Persisted, as the states are collected now and the results read later: otherwise Spark would
            # audit twice.
            made.append(self._audit_pieces(wanted).persist())
            for row in made[-1].where("kind = 'piece'").select("component", "message").collect():
                audited[row.component] = _Piece(*json.loads(row.message))
            wanted = {}
            for name, pieces in left.items():
                while pieces and pieces[0] not in wanted:
                    piece = pieces[0]
                    # Pieces are joined from the left. If a piece does not fit, the rest of its component
                    # waits for the next round, as it depends on the state after the repeated piece.
                    followed = _follow(auditors[name], audited[piece], self._bounds[piece].start)
                    if followed is None:
                        wanted[piece] = auditors[name].state()
                    else:
                        auditors[name], placed[piece] = followed
                        pieces.popleft()
        if kept is not None:
            kept += made
        parts = [self._end(auditors)]
        for number, frame in enumerate(made):
            own = {piece: (self._bounds[piece].component, counts)
                   for piece, counts in placed.items() if made_in[piece] == number}  # fmt: skip
            parts.append(map_batches(frame, partial(_add_counts, counts=own), RESULTS))
        return _union(parts)

    def _audit_pieces(self, wanted: Mapping[str, str | None]) -> DataFrame:
        bounds = {piece: self._bounds[piece] for piece in wanted}
        begun = {
            piece: (start, self._edges[name, BEGIN], wanted[piece])
            for piece, (name, start, _) in bounds.items()
        }
        work = partial(_audit_batches, auditor_of=lambda piece: _PieceAudit(piece, *begun[piece]))
        rows = self._lake.where(self._lake.event != END)
        return map_batches(take_slices(rows, bounds), work, RESULTS, self._peak)

    def _end(self, auditors: Mapping[str, Auditor]) -> DataFrame:
        """Return the facts and the last results of each component."""
        results: list[Result] = []
        for name, auditor in auditors.items():
            end = self._edges.get((name, END))
            results += _facts_of(name, self._edges[name, BEGIN])
            results += auditor.feed([end] if end else []) + auditor.cut_off()
        return frame_of(self._lake.sparkSession, results, RESULTS)


def _add_counts(batches: Iterator[Any], counts: Mapping[str, tuple[str, _Counts]]) -> Iterator[Any]:
    """Yield the results of valid pieces, with the numbers that they have in whole components."""
    for piece, parts in by_component(batches):
        if piece in counts:
            component, before = counts[piece]
            for part in parts:
                results = map(Result._make, tuples(part, RESULTS))
                own = (before.add(one, component) for one in results if one.kind != "piece")
                yield from to_batches(own, RESULTS)
