"""The quarantine: rows of a file from elsewhere that make no sense, each with the reason.

Every row is looked at before it joins a trace. Good rows are kept, so that one damaged line does not
cost a day's recording; bad ones are set aside where they can be seen.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from qflow.broker.events import EFFECTS
from qflow.trace.schema import COLUMNS, KINDS, NAMES, Row, Trace
from qflow.trace.values import decode_detail

_WHOLE_ROW = ""
_LARGEST = (1 << 63) - 1
_SHOWN = 500
_BACK = "must not go back"
CUT_OFF = "the file is cut off in the midst of this row"


class QuarantinedRow(NamedTuple):
    """A row that was set aside.

    Fields
    ------
    row : int
        Its number in the file, from 1, the header not counted.
    column : str
        The first column that makes no sense; empty if it is the row as a whole.
    reason : str
        What is allowed, and what was got.
    values : str
        What the file has there, as text, at most 500 characters.
    """

    row: int
    column: str
    reason: str
    values: str = ""

    def text(self) -> str:
        """Say it in a sentence."""
        place = f", column {self.column}" if self.column else ""
        return f"row {self.row}{place}: {self.reason}"


class Quarantine(list[QuarantinedRow]):
    """The rows of one file that were set aside, in the file's order.

    Examples
    --------
    >>> quarantine = Quarantine([QuarantinedRow(3, "time", "must not be negative, got -5")])
    >>> quarantine.summary()
    '1 row was set aside; row 3, column time: must not be negative, got -5'
    """

    def add(self, row: int, column: str, reason: str, values: object = "") -> None:
        """Set a row aside."""
        shown = values if isinstance(values, str) else json.dumps(values, ensure_ascii=False, default=str)
        self.append(QuarantinedRow(row, column, reason, shown[:_SHOWN]))

    def summary(self) -> str:
        """Return one sentence: how many, the first of them, and what may help."""
        if not self:
            return "all rows are good"
        count = "1 row was" if len(self) == 1 else f"{len(self)} rows were"
        shuffled = sum(entry.reason.startswith(_BACK) for entry in self) > 1
        help_ = "; the rows look shuffled: sort them by seq and try again" if shuffled else ""
        return f"{count} set aside; {self[0].text()}{help_}"

    def write(self, path: str | Path) -> None:
        """Write the table as JSON lines: row, column, reason, values."""
        with Path(path).open("w", encoding="utf-8", newline="\n") as file:
            for entry in self:
                file.write(json.dumps(entry._asdict(), ensure_ascii=False) + "\n")


class Checker:
    """Looks at rows in the file's order; good ones join the trace, bad ones the quarantine.

    Parameters
    ----------
    trace : Trace
        Without rows yet; its run is the only one allowed.

    Examples
    --------
    >>> checker = Checker(Trace("r"))
    >>> checker.take(1, ("r", 0, -5, "idle", "q", "", "s::t", "", 0, "", ""))
    >>> checker.take(2, ("r", 1, 3, "idel", "q", "", "s::t", "", 0, "", ""))
    >>> [entry.text() for entry in checker.quarantine]
    ['row 1, column time: must not be negative, got -5', \
"row 2, column kind: must be a kind that qflow.trace.schema.KINDS lists, got 'idel'"]
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.quarantine = Quarantine()
        self.seen = 0
        self._labels: set[str] = set()
        self._seq = self._time = -1

    def take(self, number: int, values: Sequence[object]) -> None:
        """Look at one row, its values in the order of the columns."""
        self.seen = number
        problem = self._problem(values)
        if problem is not None:
            self.quarantine.add(number, *problem, list(values))
            return
        row = Row(*values)  # type: ignore[arg-type]
        self._seq, self._time = row.seq, row.time
        if row.kind == "message.transfer":
            self._labels.add(row.message)
        self.trace.append_row(row)

    def refuse(self, number: int, column: str, reason: str, values: object) -> None:
        """Set aside a row that is not even one."""
        self.seen = number
        self.quarantine.add(number, column, reason, values)

    def finish(self) -> None:
        """Note what is missing at the end, if the header said how many rows there are."""
        promised = self.trace.expected
        if promised is not None and len(self.trace) >= promised:
            self.trace.expected = None
        elif promised is not None and self._is_cut_off:
            last = self.quarantine.pop()
            reason = f"{last.reason}; its header promises {promised} rows"
            self.quarantine.append(last._replace(reason=reason))
        elif promised is not None and self.seen < promised:
            reason = f"the file is cut off: its header promises {promised} rows, it holds {self.seen}"
            self.quarantine.add(self.seen + 1, _WHOLE_ROW, reason)

    @property
    def _is_cut_off(self) -> bool:
        last = self.quarantine[-1] if self.quarantine else None
        return last is not None and last.row == self.seen and last.reason == CUT_OFF

    def _problem(self, values: Sequence[object]) -> tuple[str, str] | None:
        """Return the first column that makes no sense, and why."""
        if tuple(map(type, values)) != _TYPES:
            return _wrong_type(values)
        row = Row(*values)  # type: ignore[arg-type]
        if not (0 <= row.seq <= _LARGEST and 0 <= row.time <= _LARGEST and 0 <= row.size <= _LARGEST):
            return _out_of_range(row)
        return self._out_of_place(row) or _wrong_detail(row)

    def _out_of_place(self, row: Row) -> tuple[str, str] | None:
        if row.run != self.trace.run:
            return "run", f"must be {self.trace.run!r} as before, got {row.run!r}; a file holds one run"
        if row.kind not in KINDS:
            return "kind", f"must be a kind that qflow.trace.schema.KINDS lists, got {row.kind!r}"
        if row.seq <= self._seq:
            return "seq", f"{_BACK}, got {row.seq} after {self._seq}"
        if row.time < self._time:
            return "time", f"{_BACK}, got {row.time} after {self._time}"
        if row.message and row.kind in EFFECTS and row.message not in self._labels:
            return "message", f"must be one that a message.transfer row before it sends, got {row.message!r}"
        return None


def _wrong_type(values: Sequence[object]) -> tuple[str, str] | None:
    for name, kind, value in zip(NAMES, _TYPES, values, strict=True):
        if type(value) is not kind:
            return name, f"must be {'a whole number' if kind is int else 'text'}, got {value!r}"
    return None


def _out_of_range(row: Row) -> tuple[str, str] | None:
    for name, number in (("seq", row.seq), ("time", row.time), ("size", row.size)):
        if not 0 <= number <= _LARGEST:
            allowed = "must not be negative" if number < 0 else f"must be at most {_LARGEST}"
            return name, f"{allowed}, got {number}"
    return None


def _wrong_detail(row: Row) -> tuple[str, str] | None:
    if row.detail:
        try:
            detail = decode_detail(row.detail)
        except (ValueError, RecursionError) as error:
            return "detail", f"must be a JSON object as qflow writes it: {error}"
        if row.kind == "message.transfer" and "message" not in detail:
            return "detail", "must hold the message of a message.transfer, got none"
    elif row.kind == "message.transfer":
        return "detail", "must hold the message of a message.transfer, got none"
    return None


_TYPES = tuple(int if column.type == "int64" else str for column in COLUMNS)
