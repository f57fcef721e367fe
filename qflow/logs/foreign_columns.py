"""Foreign columns: the meaning of the columns of a log that another program wrote, and the unit of its times.

A log has seven columns (:class:`qflow.logs.log_file.LogRow`), but few programs write exactly these.  A *map*
gives the column for each meaning: ``time=@timestamp,client=host``.  For a meaning that the map leaves out,
the column with that name or with a usual name (``timestamp``, ``message_id``) is guessed; the import prints
such guesses.  A column may be a path into JSON text, such as ``value.id`` in a column ``value`` that a
connector of Kafka wrote; and the time may be in two columns, ``date+time``.

Times may be numbers since 1970 in seconds, milliseconds, microseconds or nanoseconds.  The unit follows from
the size of the numbers: from 2000 to 2100, no number is possible in two units.  Times may also be ISO text,
or numbers that count from another start: whole numbers are then microseconds, others seconds.  All times are
converted to microseconds since the earliest of the first rows.  The unit is taken from the first two
successive rows that agree.  A row in another unit is quarantined, and so is a row more than :data:`FAR` from
the row before it: such a difference is a clock that was set, as no workload pauses for that long.

ISO text without a zone is read in the given zone, or else in UTC.  At the end of summer time, an hour of
local time occurs twice; of the two possible instants, the one nearer to the row before it is chosen.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

_USUAL_NAMES: Mapping[str, tuple[str, ...]] = {
    "seq": (),
    "time": ("ts_us", "timestamp", "@timestamp", "ts", "datetime"),
    "client": ("client_id", "clientid", "host", "hostname"),
    "event": ("event_type", "action", "operation"),
    "queue": ("queue_name", "address", "destination", "routing_key"),
    "label": ("message_id", "messageid", "msg_id", "id"),
    "size": ("bytes", "length", "content_length"),
    "group": ("group_id", "groupid", "jmsxgroupid"),
}
"""The meanings of columns, and the usual names of each in other programs, in lower case."""

_REQUIRED = ("time", "client", "event", "queue", "label")
"""The meanings for which a log must have a column; the others are optional."""

FAR = 7 * 86_400_000_000
"""The largest plausible difference between the times of successive rows, in microseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SINCE, _UNTIL = 946_684_800, 4_102_444_800
"""The starts of the years 2000 and 2100, in seconds since 1970."""

_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_UNITS = {
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "iso": "ISO text without a zone, read as UTC",
    "iso with a zone": "ISO text with a zone",
}
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,2})?")
_OFFSET = re.compile(r"[+-]\d\d:?\d\d")
_TIME_COLUMN = re.compile(r"(.+?)(?::(s|ms|us|ns|iso))?")
_EVENT_COLUMN = re.compile(r"(.+?)(?::\{(.*)\})?")


# Times


def _number(value: object) -> int | Decimal | None:
    """Return the exact number in a value, or None if it is not a number."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = Decimal(value.strip())
    elif isinstance(value, float) and abs(value) < float("inf"):
        # From its shortest text: the exact value of a float has digits that the writer did not mean.
        value = Decimal(repr(value))
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _unit_of(number: int | Decimal) -> str:
    """Return the unit in which a number since 1970 is a time between 2000 and 2100, or ""."""
    fitting = (unit for unit, many in _A_SECOND.items() if _SINCE * many <= number < _UNTIL * many)
    return next(fitting, "")


@lru_cache(16)
def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name or its offset from UTC; ValueError if the machine does not know it.

    >>> print(zone_of("+01:00"), zone_of("Europe/Berlin"), zone_of(""))
    UTC+01:00 Europe/Berlin UTC
    """
    try:
        if _OFFSET.fullmatch(name):
            return datetime.strptime(name, "%z").tzinfo or UTC
        return ZoneInfo(name) if name else UTC
    except (OSError, ValueError, KeyError):
        allowed = "a name of the time zone database, such as Europe/Berlin, or an offset such as +01:00"
        raise ValueError(f"the zone must be {allowed}; got {name!r}") from None


def _time_of(value: object, zone: str = "", fold: int = 0) -> tuple[str, int | Decimal] | None:
    """Return the unit ("" if unknown) and number of a time, or None if the value is not a time."""
    number = _number(value)
    if number is not None:
        return _unit_of(number), number
    try:
        date = datetime.fromisoformat(value.strip()) if isinstance(value, str) else None
        # Converting to UTC can lead outside the years that datetime supports.
        known = date and date.replace(tzinfo=date.tzinfo or zone_of(zone), fold=fold).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    if date is None or known is None:
        return None
    return "iso with a zone" if date.tzinfo else "iso", (known - _EPOCH) // timedelta(microseconds=1)


def _microseconds(number: int | Decimal, unit: str) -> int:
    many = _A_SECOND.get(unit, _A_SECOND["us"])
    if isinstance(number, int):
        return number * _A_SECOND["us"] // many
    return int((number * _A_SECOND["us"] / many).to_integral_value(ROUND_FLOOR))


@dataclass(frozen=True, slots=True)
class Clock:
    """The unit, zone and start of a log's times, which convert them to microseconds since the start."""

    unit: str
    start: int
    is_epoch: bool
    is_guess: bool = True
    zone: str = ""
    # The first time that a spreadsheet rounded, as the file has it; empty if there is none.
    rounded: str = ""
    # The UTC offset of the first time with a zone, such as +01:00; empty for UTC.
    offset: str = ""

    @classmethod
    def of(cls, values: Sequence[object], unit: str = "", zone: str = "") -> Clock:
        """Return the clock for a column's first values, or raise a ValueError if none is a time."""
        if zone:
            zone_of(zone)
        found = [time for time in (_time_of(value, zone) for value in values) if time is not None]
        if unit:
            # A stated unit decides whether times are text or numbers; values of the other kind are ignored.
            found = [(kind, number) for kind, number in found if kind.startswith("iso") == (unit == "iso")]
        if not found:
            got = repr(values[0])[:40] if values else "no row"
            raise ValueError(f"must be numbers or ISO text, such as 2026-01-31T09:30:00.5Z, got {got}")
        # Two successive rows must agree, so that a single odd row, even the first, does not decide the unit.
        agreeing = (one for one, next_ in pairwise(found) if one[0] == next_[0])
        kind, first = next(agreeing, found[0])
        is_epoch = bool(kind)
        if unit and unit != "iso":
            is_epoch, kind = kind == unit, unit
        elif not kind:
            kind = "s" if any(isinstance(number, Decimal) for _, number in found) else "us"
        is_of_it = (lambda own: own == kind) if is_epoch else (lambda own: not own.startswith("iso"))
        times = (_microseconds(number, kind) for own, number in found if is_of_it(own))
        base = _microseconds(first, kind)
        # The earliest of the first rows is the start, so that no late row has a negative time. Rows more than
        # FAR away are ignored: a single wrong date would move the whole log by years.
        start = min(time for time in times if abs(time - base) <= FAR)
        rounded = next(filter(None, map(_rounded, values)), "")
        return cls(
            kind,
            start,
            is_epoch,
            not unit,
            zone,
            rounded,
            _offset_of(values) if kind == "iso with a zone" else "",
        )

    def read(self, value: object, near: int | None = None) -> int:
        """Return a time in microseconds since the start, in a repeated hour the one nearest to `near`."""
        kind, number = _time_of(value, self.zone) or (None, 0)
        if kind == "iso" and self.zone and near is not None:
            _, later = _time_of(value, self.zone, fold=1) or (None, number)
            number = min(number, later, key=lambda time: abs(int(time) - self.start - near))
        is_foreign = kind != self.unit and (kind or self.unit.startswith("iso"))
        if kind is None or (is_foreign and (self.is_epoch or kind.startswith("iso"))):
            shown = f", which is {self._words(kind)}" if kind else ""
            raise ValueError(f"must be {self.words()} as in the first rows; got {str(value)[:40]!r}{shown}")
        return _microseconds(number, self.unit) - self.start

    def words(self) -> str:
        """Return the unit of the times in words."""
        return self._words(self.unit, self.is_epoch)

    def _words(self, unit: str, is_epoch: bool = True) -> str:
        words = _UNITS[unit] + " since 1970" * (unit in _A_SECOND and is_epoch)
        return words.replace("UTC", self.zone or "UTC")

    def start_text(self) -> str:
        """Return the instant of time 0 as text: a date, or a number of microseconds if no date is known."""
        if not self.is_epoch:
            return f"{self.start} us"
        return (_EPOCH + timedelta(microseconds=self.start)).isoformat()

    def sentence(self, last: int) -> str:
        """Return a sentence on the times' unit and the log's length, with alternatives to a guessed unit."""
        seconds = last / _A_SECOND["us"]
        text = f"times: {self.words()}{' (guessed)' * self.is_guess}; 0 is {self.start_text()}, "
        text += f"and the log lasts {seconds:g} s"
        if self.unit in _A_SECOND and self.is_guess:
            others = [
                f"{seconds * _A_SECOND[self.unit] / many:g} s in {_UNITS[unit]}"
                for unit, many in _A_SECOND.items()
                if unit != self.unit
            ]
            text += f" (it would be {', '.join(others)}: time=COLUMN:UNIT says which)"
        elif self.unit == "iso" and not self.zone:
            text += (
                " (a change to or from summer time inside the log would be an hour too much or too little; "
                "--zone says which zone it is)"
            )
        if self.rounded:
            text += (
                f"; warning: {self.rounded} is a rounded time, rows within its last digit are of one instant"
            )
        return text


def _offset_of(values: Iterable[object]) -> str:
    """Return the UTC offset of the first time with a zone, such as ``+01:00``, or "" for UTC."""
    for value in values:
        with suppress(ValueError):
            date = datetime.fromisoformat(str(value).strip())
            if date.tzinfo:
                return date.isoformat()[-6:] if date.utcoffset() else ""
    return ""


OWN_CLOCK = Clock("us", 0, is_epoch=False, is_guess=False)
"""The clock of a log's own column ``ts_us``, whose times are microseconds since the start."""


def _rounded(value: object) -> str:
    """Return a number whose exponent shows that a spreadsheet rounded it, as text, or ""."""
    text = str(value).strip() if isinstance(value, str) else ""
    if not _NUMBER.fullmatch(text) or "E" not in text.upper():
        return ""
    exponent = Decimal(text).as_tuple().exponent
    return text if isinstance(exponent, int) and exponent > 3 else ""


# Columns


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """The columns of a foreign log that a user has named, by their meaning.

    >>> made = ColumnMap.of("time=@timestamp:ms,event=action:{sent=transfer,acked=complete}")
    >>> made.columns, made.unit, made.words["acked"]
    ({'time': '@timestamp', 'event': 'action'}, 'ms', 'complete')
    """

    columns: Mapping[str, str]
    unit: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: str | Mapping[str, str]) -> ColumnMap:
        """Read a map from text as on the command line, or from a mapping of meanings to columns."""
        if isinstance(given, str):
            # A comma between braces belongs to the words of events.
            parts = [part for part in re.split(r",(?![^{}]*\})", given) if part.strip()]
            pairs = [part.partition("=")[::2] for part in parts]
        else:
            pairs = list(given.items())
        columns: dict[str, str] = {}
        unit, words = "", {}
        for key, value in pairs:
            meaning = "time" if key.strip() == "ts_us" else str(key).strip()
            if meaning not in _USUAL_NAMES:
                raise ValueError(f"a column must mean one of {', '.join(_USUAL_NAMES)}, got {meaning!r}")
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{meaning} must be given as {meaning}=COLUMN, got {value!r}")
            column = value.strip()
            if meaning == "time" and (found := _TIME_COLUMN.fullmatch(column)):
                column, unit = found[1], found[2] or ""
            elif meaning == "event" and (found := _EVENT_COLUMN.fullmatch(column)):
                column, words = found[1], _words_of(found[2] or "")
            if columns.setdefault(meaning, column) != column:
                raise ValueError(f"two columns for {meaning}: {columns[meaning]!r} and {column!r}")
        return cls(columns, unit, words)

    def found_in(self, header: Sequence[str]) -> Columns:
        """Return the column for each meaning in a file with a header, or raise a ValueError."""
        there = f"the columns are {', '.join(header) or 'none'}"
        places: dict[str, _Place] = {}
        for meaning, column in self.columns.items():
            place = _place_of(column, header)
            if place is None:
                raise ValueError(f"there is no column {column!r} for {meaning}; {there}")
            places[meaning] = place
        used = {index for place in places.values() for index in place.indexes}
        free = [name for index, name in enumerate(header) if index not in used]
        columns, guessed = dict(self.columns), set()
        for meaning, usual in _USUAL_NAMES.items():
            if meaning in columns:
                continue
            likely = [name for name in free if name == meaning]
            # The exact name has precedence, so that a log with both time and timestamp needs no map.
            likely = likely or [name for name in free if name.lower() in (meaning, *usual)]
            # Besides a column date, a column time is a time of day: the instant needs both.
            if meaning == "time" and (dates := [name for name in free if name.lower() == "date"]):
                times = [name for name in free if name.lower() == "time"]
                likely = [f"{dates[0]}+{times[0]}"] if times else likely
            if len(likely) > 1:
                both = " and ".join(map(repr, likely))
                raise ValueError(f"two columns for {meaning}: {both}; say which, {meaning}={likely[0]}")
            if likely:
                columns[meaning] = likely[0]
                guessed.add(meaning)
                place = _place_of(likely[0], header)
                assert place is not None
                places[meaning] = place
            elif meaning in _REQUIRED:
                raise ValueError(f"no column is known to be the {meaning}, say {meaning}=COLUMN; {there}")
        used = {index for place in places.values() for index in place.indexes}
        unused = tuple(name for index, name in enumerate(header) if index not in used)
        ordered = {meaning: columns[meaning] for meaning in _USUAL_NAMES if meaning in columns}
        return Columns(ordered, places, frozenset(guessed), unused, self.words)


class _Place(NamedTuple):
    """The indexes of the columns that hold a value, and the path to it if the column is JSON text."""

    indexes: tuple[int, ...]
    path: tuple[str, ...] = ()


def _place_of(column: str, header: Sequence[str]) -> _Place | None:
    """Return the place of a column, of two columns ``date+time``, or of a path into JSON text; or None."""
    # The whole text first, as a column's name may contain a plus sign or a dot.
    if column in header:
        return _Place((list(header).index(column),))
    parts = [part.strip() for part in column.split("+")]
    if len(parts) == 2 and all(part in header for part in parts):
        return _Place(tuple(list(header).index(part) for part in parts))
    name, *path = column.split(".")
    while path:
        if name in header:
            return _Place((list(header).index(name),), tuple(path))
        name = f"{name}.{path.pop(0)}"
    return None


@lru_cache(4)
def _parsed(text: object) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _words_of(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    for word, _, event in pairs:
        if not word.strip() or not event.strip():
            raise ValueError(f"words of events must be given as {{WORD=EVENT,…}}, got {{{text}}}")
    return {word.strip(): event.strip() for word, _, event in pairs}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a foreign log by their meaning, as found in its header."""

    names: Mapping[str, str]
    places: Mapping[str, _Place]
    guessed: frozenset[str]
    unused: tuple[str, ...]
    words: Mapping[str, str]

    def times_of(self, rows: Sequence[Sequence[object]]) -> list[object]:
        """Return the times of some rows, as the file has them."""
        return [self.value(row, "time") for row in rows]

    def clock_of(self, rows: Sequence[Sequence[object]], unit: str, zone: str = "") -> Clock:
        """Return the clock for the times of a log's first rows, or raise a ValueError."""
        if zone:
            zone_of(zone)
        try:
            return Clock.of(self.times_of(rows), unit, zone)
        except ValueError as error:
            raise ValueError(f"column {self.names['time']}: times {error}") from None

    def values(self, row: Sequence[object], read: Callable[[object], int]) -> list[object]:
        """Return a row's values in the order of ``LogRow``, with the log's event names and numbers."""
        event = self.value(row, "event")
        size = self.value(row, "size")
        number = 0 if size in (None, "") else _number(size)
        return [
            read(self.value(row, "time")),
            _name(self.value(row, "client")),
            self.words.get(str(event), event),
            _name(self.value(row, "queue")),
            _name(self.value(row, "label")),
            # A size that is not a whole number is unchanged: the validation of the row refuses it, with the
            # file's own text.
            size if number is None or isinstance(number, Decimal) else number,
            _name(self.value(row, "group")),
        ]

    def value(self, row: Sequence[object], meaning: str) -> object:
        """Return a row's value with a meaning, as the file has it, or None if there is no such column."""
        place = self.places.get(meaning)
        if place is None:
            return None
        if len(place.indexes) > 1:
            return " ".join(str(row[index]).strip() for index in place.indexes)
        value = row[place.indexes[0]]
        if place.path:
            value = _parsed(value)
            for key in place.path:
                value = value.get(key) if isinstance(value, dict) else None
        return value

    def sentence(self) -> str:
        """Return a sentence on the columns by their meaning, with a mark at each guess."""
        taken = ", ".join(
            f"{meaning} is {name!r}{' (guessed)' * (meaning in self.guessed)}"
            for meaning, name in self.names.items()
        )
        unused = f"; not used: {', '.join(map(repr, self.unused))}" if self.unused else ""
        absent = {"size": "size is 0", "group": "group is empty"}
        missing = [words for meaning, words in absent.items() if meaning not in self.names]
        return f"columns: {taken}{unused}" + (f"; {', '.join(missing)}: no column" if missing else "")


def _name(value: object) -> object:
    """Return a name; a whole number is converted to text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


@dataclass(frozen=True, slots=True)
class Recognised:
    """The recognised columns and clock of a foreign log."""

    columns: Columns | None
    clock: Clock

    def sentences(self, last: int) -> list[str]:
        """Return sentences on the recognised columns and times; ``last`` is the last time in us."""
        columns = [self.columns.sentence()] if self.columns else []
        return [*columns, self.clock.sentence(last)]

    def as_json(self) -> dict[str, Any]:
        """Return the recognised columns and times as JSON values."""
        columns = self.columns
        return {
            "columns": dict(columns.names) if columns else None,
            "guessed": [name for name in columns.names if name in columns.guessed] if columns else [],
            "unused": list(columns.unused) if columns else [],
            "unit": self.clock.unit,
            "unit_guessed": self.clock.is_guess,
            "start": self.clock.start_text(),
        }


def own_clock(times: Sequence[object], zone: str = "") -> Clock | None:
    """Return the clock for a log's own column ``ts_us`` if its times count from 1970, or None."""
    # As microseconds since the start, such times would be decades, which no log lasts.  Milliseconds or
    # seconds since 1970, however, may be microseconds since a machine was started, and are left unchanged;
    # unless they are not whole numbers, which that column never has.
    given = list(islice(times, 100))
    kinds = [time and time[0] for time in (_time_of(value, zone) for value in given)]
    is_epoch = sum(kind in ("us", "ns") for kind in kinds) > len(kinds) / 2
    is_text = sum(kind is not None and (kind.startswith("iso") or bool(_rounded(value)))
                  for kind, value in zip(kinds, given, strict=True)) > len(kinds) / 2  # fmt: skip
    return Clock.of(times, "", zone) if is_epoch or is_text else None
