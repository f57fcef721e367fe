"""Cleaning: sort the rows of a client log, drop duplicates, correct clocks, and find missing rows.

A client log passes through syslog, Kafka or Spark before it is a file, and is damaged there without any fault
of the clients or the broker.  Three kinds of damage are repaired: late rows are sorted in (:class:`_Sorter`),
exact duplicates are dropped, and a host's clock that is ahead of the others or behind them is corrected
(:meth:`~qflow.logs.tolerance.Ways.offsets`).  Two kinds cannot be repaired and are reported: rows that are
missing within the log (:class:`_GapFinder`), and quarantined rows.  The messages that these make uncertain
are passed to the audit as a :class:`~qflow.logs.tolerance.Doubt`, so that it reports no finding about a
message whose rows are merely missing from the log.

This module reads no files: it gets rows and returns rows, of a whole log, of one component, or in batches.
The largest lateness and the clocks' offsets must be known before the first clean row is returned.  Therefore
:class:`CleanLog` reads a log once if its rows are in order, and otherwise two or three times.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from operator import attrgetter, itemgetter
from typing import NamedTuple, Protocol, TypeVar

from qflow.logs.foreign_columns import Recognised
from qflow.logs.log_file import SETTLEMENTS, Bit, LogRow, forget_oldest
from qflow.logs.tolerance import MOST_UNDER_WAY, Doubt, Gap, Tolerance, Ways
from qflow.trace.files import Quarantine
from qflow.wording import format_count
from qflow.workload.agenda import SECOND

_MILLISECOND = 1_000

T = TypeVar("T", bound="_Taker")

AUTO = "auto"
"""The skew with which the clocks' offsets are estimated from the log itself."""

Skew = str | int | Mapping[str, int]
"""``auto``; or the offset of each host's clock in microseconds; or a tolerated difference in microseconds.

With a tolerated difference, no clock is corrected."""

_MUCH = 0.05
"""The share of quarantined rows above which an audit is said to cover only the rest of a log."""


# Order


class _Sorter:
    """A buffer that returns rows in order of time, each as soon as no earlier row can follow.

    >>> sorter = _Sorter(window=5)
    >>> late = [LogRow(time, "p", "block", "", "", 0, "") for time in (3, 1, 9, 9)]
    >>> [row.ts_us for row in [*sorter.take(late), *sorter.finish()]], sorter.duplicates
    ([1, 3, 9], 1)
    """

    # window: The largest lateness of a row in microseconds; 0 for rows that are in order.
    # offsets: By how many microseconds each client's clock is ahead, which is subtracted from its times.
    # shift: Microseconds to subtract from all times.
    # is_certain: Whether the order of rows within one instant is the order in which clients wrote them.
    # has_order: Whether the order of the given rows has a meaning.  If not, the rows of one instant are first
    #     sorted by their columns, so that the result does not depend on the order in a table.
    # duplicates (int): The number of rows that were dropped because they equal another row in all columns.

    def __init__(
        self,
        window: int = 0,
        offsets: Mapping[str, int] | None = None,
        shift: int = 0,
        *,
        is_certain: bool = True,
        has_order: bool = True,
    ) -> None:
        self.duplicates = 0
        self._has_order = has_order
        self._window, self._offsets, self._shift = window, dict(offsets or {}), shift
        self._is_certain = is_certain
        self._waiting: list[LogRow] = []
        self._latest = 0

    def take(self, rows: Sequence[LogRow]) -> list[LogRow]:
        """Add rows in the file's order, and return the rows that no later row can precede."""
        if not rows:
            return []
        if self._offsets or self._shift:
            offsets, shift = self._offsets, self._shift
            rows = [row._replace(ts_us=row.ts_us - shift - offsets.get(row.client, 0)) for row in rows]
        waiting = self._waiting
        waiting.extend(rows)
        if self._window or self._offsets:
            waiting.sort(key=attrgetter("ts_us"))
        self._latest = max(self._latest, waiting[-1].ts_us)
        # More rows of the last instant may follow.
        until = self._latest - self._window
        keep = len(waiting)
        while keep and waiting[keep - 1].ts_us >= until:
            keep -= 1
        self._waiting = waiting[keep:]
        del waiting[keep:]
        return self._arrange(waiting)

    def finish(self) -> list[LogRow]:
        """Return the remaining rows."""
        rows, self._waiting = self._waiting, []
        return self._arrange(rows)

    def _arrange(self, rows: list[LogRow]) -> list[LogRow]:
        """Return rows in order of time without duplicates, with causes before effects within an instant."""
        instants = [place for place, (row, after) in enumerate(pairwise(rows)) if row.ts_us == after.ts_us]
        if not instants:
            return rows
        arranged: list[LogRow] = []
        done = 0
        for place in instants:
            if place < done:
                continue
            arranged += rows[done:place]
            done, time = place + 1, rows[place].ts_us
            while done < len(rows) and rows[done].ts_us == time:
                done += 1
            instant = list(dict.fromkeys(rows[place:done]))
            self.duplicates += done - place - len(instant)
            if not self._has_order:
                instant.sort()
            arranged += instant if self._is_certain and _is_caused(instant) else _by_cause(instant)
        return arranged + rows[done:]


_EFFECTS = {"complete": "transfer", "refused": "transfer", "deliver": "transfer"}
_EFFECTS |= dict.fromkeys(("accept", "reject"), "deliver")
"""For each event, the event of the same message that must precede it."""


def _is_caused(instant: Sequence[LogRow]) -> bool:
    """Return whether each cause precedes its effects among the rows of one instant."""
    effects: set[tuple[str, str]] = set()
    for row in instant:
        if (row.event, row.label) in effects:
            return False
        cause = _EFFECTS.get(row.event)
        if cause is not None:
            effects.add((cause, row.label))
    return True


def _by_cause(instant: Sequence[LogRow]) -> list[LogRow]:
    """Return the rows of one instant in an order in which causes precede their effects."""
    # A settlement of a message that was delivered earlier comes first, as it returns credit for the next
    # delivery. For the same reason, a settlement of a message of this instant directly follows its delivery.
    sent = {row.label for row in instant if row.event == "transfer"}
    delivered: dict[tuple[str, str], tuple[int, str]] = {}
    for place, row in enumerate(instant):
        if row.event == "deliver":
            delivered.setdefault((row.queue, row.label), (place, row.client))
    ranks = {"unblock": 1, "transfer": 2, "deliver": 3, "block": 5, "error": 6, "stats": 7}

    def rank(place: int) -> tuple[int, int, int]:
        row = instant[place]
        event = row.event
        if event in SETTLEMENTS:
            first, client = delivered.get((row.queue, row.label), (place, ""))
            # A message that one consumer releases may be delivered to another in the same instant.
            return (3, first, 1) if client and (event != "release" or client == row.client) else (0, place, 0)
        if event in ("complete", "refused"):
            return (4 if row.label in sent else 0), place, 0
        # Within one instant, the number in the label gives the order in which messages were sent.
        digits = row.label.rpartition("-")[2]
        number = int(digits) if event == "transfer" and digits.isdecimal() and len(digits) < 18 else 0
        return ranks[event], number, place

    return [instant[place] for place in sorted(range(len(instant)), key=rank)]


@dataclass
class Order:
    """The disorder of a log: the number of late rows and their lateness, measured in one pass."""

    rows: int = 0
    late: int = 0
    latest_us: int = 0
    first: int = 0
    last: int = 0
    # The largest number of a row, plus one.
    end: int = 0

    def take(self, numbers: Sequence[int], rows: Sequence[LogRow]) -> None:
        """Measure the next rows in the file's order, with their numbers."""
        if not rows:
            return
        self.end = max(self.end, max(numbers) + 1)
        if not self.rows:
            self.first = self.last = rows[0].ts_us
        self.rows += len(rows)
        last = self.last
        for row in rows:
            time = row.ts_us
            if time < last:
                self.late += 1
                self.latest_us = max(self.latest_us, last - time)
                self.first = min(self.first, time)
            else:
                last = time
        self.last = last


# Missing rows

_MOST_SILENCES = 4_096
_MOST_WINDOWS = 1_000
_MOST_PASSED = 1_000
_NEARLY = 0.8
"""An outstanding silence is the gap if at least this share of the largest number of windows contains it."""
_FEW_LOST = 5
"""The largest number of rows without a cause that are a client's own findings; more are lost by the log."""
_MANY_GAPS = 4
"""From this number of gaps on, the gaps are more probably single lost rows that share silences by chance."""
_FEW_RARE = 4
"""The largest number of outstanding silences, which are more than twice as long as all other silences."""
_FEW_JUMPS = 20
"""A producer that skips a number more than once in this many transfers does not number all its messages."""


class _Window(NamedTuple):
    """A time interval in which a row of a client is missing from the log."""

    begin: int
    end: int
    label: str
    kind: str
    rows: int = 1


_STOPPED = ("incomplete", "undelivered", "unsettled")
"""The steps of a message that may be missing: its completion, delivery and settlement."""


class _Waiting:
    """A client's messages that wait for one step, which is completion, delivery or settlement."""

    # Later messages pass a message whose step is missing for ever; a message whose step is late is passed
    # until it takes the step.

    __slots__ = ("number", "passed", "_waiting")

    def __init__(self) -> None:
        self.number = 0
        # By label, the start and end of the interval in which the step may have happened.
        self.passed: dict[str, tuple[int, int]] = {}
        self._waiting: dict[str, int] = {}

    def begin(self, label: str, time: int) -> None:
        """Record that a message begins to wait for its step."""
        self.number += 1
        self._waiting[label] = time
        forget_oldest(self._waiting, MOST_UNDER_WAY)

    def end(self, label: str, time: int) -> int | None:
        """Record that a message takes its step, and return the start of its wait, or None."""
        begun = self._waiting.pop(label, None)
        if begun is None:
            passed = self.passed.pop(label, None)
            return passed and passed[0]
        waiting = self._waiting
        while waiting:
            first = next(iter(waiting))
            # Of two messages of one instant, neither passes the other.
            if waiting[first] >= begun:
                break
            self.passed[first] = waiting.pop(first), time
            forget_oldest(self.passed, _MOST_PASSED)
        return begun

    def forget(self) -> None:
        """Forget all messages, because their session has ended."""
        self._waiting.clear()
        self.passed.clear()

    def windows(self, kind: str) -> list[_Window]:
        """Return the windows of missing steps, or [] if the step is missing too often to be lost rows."""
        if len(self.passed) * _FEW_JUMPS > self.number:
            return []
        return [_Window(begin, end, label, kind) for label, (begin, end) in self.passed.items()]


@dataclass(slots=True)
class _Client:
    """A client's state in the search for missing rows: its numbering, and its waiting messages."""

    number: int = 0
    prefix: str = ""
    sent: int = 0
    jumps: list[_Window] = field(default_factory=list)
    sent_at: int = -1
    done_from: int = -1
    got_from: int = -1
    settled_from: int = -1
    incomplete: _Waiting = field(default_factory=_Waiting)
    undelivered: _Waiting = field(default_factory=_Waiting)
    unsettled: _Waiting = field(default_factory=_Waiting)


class _GapFinder:
    """A search for time intervals with missing rows, which takes the rows in order of time."""

    # A row is missing if a message is completed or delivered that no row sends, if a message is settled that
    # no row delivers, or if a producer skips a number.  Each case gives a window: an interval that must
    # contain the missing row.  A window also results if a message is never completed, delivered or settled:
    # from its last row until a later message passes it.  A single missing row is a finding about its message.
    # But if the windows of several messages contain the same silence of all clients, the silence is a gap:
    # the broker and the clients continued, and only their log did not.

    def __init__(self) -> None:
        self._clients: dict[str, _Client] = {}
        # The producer of each message, by label.
        self._sent: dict[str, _Client] = {}
        self._ahead: dict[str, _Window] = {}
        self._windows: list[_Window] = []
        self._silences: list[tuple[int, int, int]] = []
        self._shortest = 0
        self._first: int | None = None
        self._last = self._rows = 0

    def take(self, row: LogRow) -> None:
        """Examine the next row."""
        time, name, event, _, label, _, _ = row
        if time - self._last > self._shortest:
            self._note_silence(time)
        self._last = time
        self._rows += 1
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = _Client()
        if event == "transfer":
            self._sent[label] = client
            forget_oldest(self._sent, MOST_UNDER_WAY)
            client.incomplete.begin(label, time)
            if self._ahead.pop(label, None) is None:
                client.undelivered.begin(label, time)
            client.sent += 1
            number = client.number + 1
            if client.number and label.endswith(f"-{number}"):
                client.number = number
            else:
                self._note_number(client, label, time)
            client.sent_at = time
        elif event == "deliver":
            client.unsettled.begin(label, time)
            producer = self._sent.get(label)
            if producer is not None:
                sent = producer.undelivered.end(label, time)
                client.got_from = client.got_from if sent is None else sent
            else:
                # The consumer's clock may be behind; then the transfer follows.
                self._ahead[label] = _Window(client.got_from, time, label, event)
                forget_oldest(self._ahead, MOST_UNDER_WAY)
        elif event in SETTLEMENTS:
            delivered = client.unsettled.end(label, time)
            if delivered is None:
                # The window begins at the latest settled delivery, as messages are settled in about the order
                # of their deliveries.
                self._note(_Window(client.settled_from, time, label, "settle"))
            else:
                client.settled_from = delivered
        elif event in ("complete", "refused"):
            if label in self._sent:
                sent = client.incomplete.end(label, time)
                client.done_from = client.done_from if sent is None else sent
                if event == "refused":
                    client.undelivered.end(label, time)
            else:
                self._note(_Window(client.done_from, time, label, "complete"))
        elif event == "error":
            for waiting in (client.incomplete, client.undelivered, client.unsettled):
                waiting.forget()

    def _note(self, window: _Window) -> None:
        if len(self._windows) < _MOST_WINDOWS:
            self._windows.append(window)

    def _note_number(self, client: _Client, label: str, time: int) -> None:
        prefix, _, digits = label.rpartition("-")
        number = int(digits) if prefix and digits.isascii() and digits.isdecimal() and len(digits) < 18 else 0
        if client.number and prefix == client.prefix and number > client.number + 1:
            missing = f"{prefix}-{client.number + 1}"
            client.jumps.append(_Window(client.sent_at, time, missing, "number", number - client.number - 1))
        client.number, client.prefix = number, prefix

    def _note_silence(self, time: int) -> None:
        if self._first is None:
            self._first = time
            return
        heapq.heappush(self._silences, (time - self._last, self._last, time))
        if len(self._silences) > _MOST_SILENCES:
            heapq.heappop(self._silences)
            self._shortest = self._silences[0][0]

    def doubt(self, quarantined: Collection[str], unknown: int) -> Doubt:
        """Return the gaps and the affected messages as a doubt, together with those of quarantined rows."""
        first = self._first or 0
        windows = [window for window in self._all_windows() if window.label not in quarantined]
        found, windows = self._find_gaps(windows[:_MOST_WINDOWS], unknown)
        # Rows that are lost one by one, as when a log is sent over UDP, share silences only by chance.  A
        # client may leave out a step itself, but it cannot complete, receive or settle a message that was
        # not sent or delivered: such windows are lost rows.
        few = _FEW_LOST if len(found) < _MANY_GAPS else _MANY_GAPS * _FEW_LOST
        weak = [span for span, within in found.items() if _count_rows(within) <= few]
        alone = [one for one in chain(windows, *(found[span] for span in weak)) if one.begin >= 0]
        lost = [one for one in alone if one.kind not in _STOPPED]
        is_scattered = len(lost) > _FEW_LOST + unknown and len({one.kind for one in lost}) > 1
        begun = min((end for _, end in found), default=self._last + 1)
        early = [window for window in windows if window.begin < 0 and window.end < begun]
        if len(early) > 1 + unknown:
            # Messages were already under way when the log began.
            found[first - 1, first] = early
        lasts = max(1, self._last - first - sum(map(_length, found)))
        gaps = [
            Gap(begin, end, max(_count_rows(within), round(self._rows * (end - begin) / lasts)))
            for (begin, end), within in sorted(found.items())
            if not is_scattered or (begin, end) not in weak
        ]
        labels = set(quarantined)
        if is_scattered:
            number = _count_rows(alone)
            gaps.insert(0, Gap(first - 1, self._last, number))
            labels.update(one.label for one in alone)
            unknown += number
        return Doubt(tuple(gaps), tuple(sorted(labels)), unknown)

    def _all_windows(self) -> list[_Window]:
        """Return the windows of all clients, without those that recur too often to be missing rows."""
        windows = [*self._windows, *self._ahead.values()]
        for client in self._clients.values():
            if len(client.jumps) * _FEW_JUMPS <= client.sent:
                windows += client.jumps
            for kind in _STOPPED:
                windows += getattr(client, kind).windows(kind)
        return windows

    def _find_gaps(
        self, windows: list[_Window], unknown: int
    ) -> tuple[dict[tuple[int, int], list[_Window]], list[_Window]]:
        """Return the silences that are gaps with the windows that contain each, and the remaining windows."""
        silences = sorted((begin, end) for _, begin, end in self._silences)
        longest = max(silences, key=_length, default=None)
        usual = sorted(map(_length, silences), reverse=True)[_FEW_RARE : _FEW_RARE + 1]
        rare = [one for one in silences if usual and _length(one) > 2 * usual[0]]
        found: dict[tuple[int, int], list[_Window]] = {}
        while left := [window for window in windows if window.begin >= 0]:
            # Take the silence that most windows contain, and of several the longest.  An outstanding silence
            # needs only nearly as many windows, because messages that were passed just before a gap add their
            # windows to short silences.
            counts = _count_around(silences, left)
            span = max(counts, key=lambda one: (counts[one], _length(one)), default=(0, 0))
            most = _NEARLY * counts.get(span, 0)
            span = max((one for one in rare if counts.get(one, 0) >= most), key=_length, default=span)
            within = [one for one in left if one.begin <= span[0] and span[1] <= one.end]
            labels, kinds = {one.label for one in within}, {one.kind for one in within}
            # If all windows are of one kind of missing step, the client may usually omit it; if they are of
            # two kinds, rows of the log are missing.
            is_shared = len(labels) > 1 + unknown and not (len(kinds) == 1 and kinds <= {*_STOPPED})
            # Most windows of the whole log contain its longest silence.
            is_only = not unknown and not found and span == longest and 2 * len(within) > len(windows)
            is_many = _count_rows(one for one in within if one.kind not in _STOPPED) > 2 + unknown
            if not (is_shared or is_only or is_many):
                break
            found[span] = within
            # A message that was passed shortly before the gap may have taken its step late, within the gap.
            near = span[0] - _length(span)
            windows = [
                one
                for one in windows
                if one.label not in labels
                and not (one.kind in _STOPPED and near < one.end and one.begin <= span[0])
            ]
        return found, windows


def _count_rows(windows: Iterable[_Window]) -> int:
    return sum(window.rows for window in windows)


def _length(span: tuple[int, int]) -> int:
    begin, end = span
    return end - begin


def _count_around(
    silences: Sequence[tuple[int, int]], windows: Iterable[_Window]
) -> dict[tuple[int, int], int]:
    """Return the number of windows that contain each silence; the silences must be in order."""
    steps = [0] * (len(silences) + 1)
    for window in windows:
        first = bisect_left(silences, (window.begin, 0))
        end = bisect_right(silences, window.end, key=itemgetter(1))
        if first < end:
            steps[first] += 1
            steps[end] -= 1
    return dict(zip(silences, accumulate(steps), strict=False))


# A log


@dataclass(frozen=True)
class Cleaning:
    """A report on the cleaning of a log: its repairs, and the missing and quarantined rows.

    >>> Cleaning(late=2, latest_us=500).sentences()
    ['2 rows came late, by at most 0.5 ms: sorted by time']
    """

    late: int = 0
    latest_us: int = 0
    duplicates: int = 0
    offsets: Mapping[str, int] = field(default_factory=dict)
    quarantined: int = 0
    rows: int = 0
    missing: int = 0
    doubt: Doubt = field(default_factory=Doubt)

    def sentences(self) -> list[str]:
        """Return a sentence for each kind of repair, and on the messages that cannot be judged."""
        said = []
        if self.late:
            rows = format_count(self.late, "row")
            said.append(f"{rows} came late, by at most {_in_ms(self.latest_us)}: sorted by time")
        if self.missing:
            said.append(f"{format_count(self.missing, 'row')} missing, by the rows' own numbers")
        if self.duplicates:
            rows = format_count(self.duplicates, "exact duplicate")
            said.append(f"{rows} of rows, equal in all columns: dropped, as only a log writes a row twice")
        for client, offset in self.offsets.items():
            side = "ahead of" if offset > 0 else "behind"
            said.append(
                f"clocks: that of {client} is {_in_ms(abs(offset))} {side} the others: its times are "
                "corrected (--skew 0 leaves them)"
            )
        return [*said, *self.doubt.sentences()]

    @property
    def is_partial(self) -> bool:
        """Whether more than 5 % of the rows were quarantined, so that an audit covers only the others."""
        return self.quarantined > _MUCH * (self.rows + self.quarantined)

    def headline(self) -> str:
        """Return a warning if more than 5 % of the rows were quarantined, or ""."""
        if not self.is_partial:
            return ""
        share = self.quarantined / (self.rows + self.quarantined)
        return f"{share:.1%} of the rows were quarantined: the audit covers only the rest"


def _in_ms(time: int) -> str:
    return f"{time / _MILLISECOND:g} ms" if time < 10 * SECOND else f"{time / SECOND:g} s"


class _Taker(Protocol):
    """A receiver of the clean rows of a log, one by one and in order."""

    def take(self, row: LogRow, /) -> None:
        """Process the next row."""


class CleanLog:
    """A log that can be read repeatedly, each time as clean rows."""

    # Arguments:
    # bits: A function that returns the batches of rows as the files have them, from the beginning.
    # skew: The correction of clocks (see Skew).
    # has_order: Whether the rows come in the order in which they were written, which a table does not keep.
    # Attributes that :meth:`look` sets:
    # cleaning (Cleaning): The report on the cleaning.
    # tolerance (Tolerance): The clock difference and delay that are no finding in the clean rows.
    # quarantine (Quarantine): The quarantined rows.
    # order (Order): The disorder of the files' rows.
    # recognised (Recognised | None): The columns and the clock, if they are not the kit's own.
    # may_be_ahead (Mapping): The offsets of clocks that may be ahead, though no early arrival proves it, in
    #     microseconds by client.

    def __init__(
        self, bits: Callable[[], Iterable[Bit]], skew: Skew = AUTO, *, has_order: bool = True
    ) -> None:
        self._bits, self._skew, self._has_order = bits, skew, has_order
        self.cleaning, self.tolerance, self.quarantine = Cleaning(), Tolerance(0), Quarantine()
        self.order = Order()
        self.may_be_ahead: Mapping[str, int] = {}
        self.recognised: Recognised | None = None
        self._is_numbered = False
        self._shift = 0
        self._offsets: Mapping[str, int] = {} if isinstance(skew, str | int) else skew
        # If the rows' own numbers are not in the file's order, all rows sorted by number (empty until then).
        self._renumbered: list[LogRow] | None = None
        self._duplicates = 0

    def look(self, make: Callable[[], T], tell: Callable[[int], None] | None = None) -> T:
        """Analyse the log; return a receiver, created by `make`, that has taken every clean row."""
        # tell: A function that is called now and then with the number of rows read.
        quarantine, unread, order = Quarantine(), list[str](), Order()

        def note(bits: Iterable[Bit]) -> Iterator[Bit]:
            last = -1
            for bit in bits:
                quarantine.extend(bit.problems)
                unread.extend(bit.unread)
                self.recognised, self._is_numbered = bit.recognised, bit.is_numbered
                if bit.is_numbered and self._renumbered is None:
                    if any(after <= before for before, after in pairwise([last, *bit.numbers])):
                        self._renumbered = []
                    last = bit.numbers[-1] if bit.numbers else last
                order.take(bit.numbers, bit.rows)
                if tell is not None:
                    tell(order.rows)
                yield bit

        taker, ways, holes = self._take_all(make, self._sorted(note(self._bits())))
        self.quarantine, self.order = quarantine, order
        again = self._plan_order(order)
        if again:
            taker, ways, holes = self._take_all(make, self.parts())
        if self._skew == AUTO and (offsets := ways.offsets()):
            self._offsets = offsets
            self._plan_order(order)
            taker, ways, holes = self._take_all(make, self.parts())
        if self._skew == AUTO:
            self.may_be_ahead = ways.offsets(is_ahead=True)
        tolerance = ways.tolerance()
        labels = {label for label in unread if label}
        unknown = sum(not label for label in unread)
        if self._is_numbered:
            doubt = Doubt((), tuple(sorted(labels)), unknown)
        else:
            doubt = holes.doubt(labels, unknown)
        skew = self._skew if isinstance(self._skew, int) else tolerance.skew
        self.tolerance = Tolerance(skew, tolerance.lag, doubt)
        is_sorted = bool(order.late) and self._has_order and not self._is_numbered
        self.cleaning = Cleaning(
            order.late if is_sorted else 0,
            order.latest_us if is_sorted else 0,
            self._duplicates,
            self._offsets,
            len(quarantine),
            order.rows - self._duplicates,
            max(0, order.end - order.rows + self._duplicates - sum(row.row > 0 for row in quarantine))
            * self._is_numbered,
            doubt,
        )
        return taker

    def with_clocks(self, offsets: Mapping[str, int]) -> CleanLog:
        """Return the same log with further clocks corrected, already analysed."""
        corrected = CleanLog(self._bits, {**self._offsets, **offsets}, has_order=self._has_order)
        corrected.look(Nobody)
        return corrected

    def _plan_order(self, order: Order) -> bool:
        """Set the largest lateness and the start, and return whether the log must be read again."""
        self.order = order
        if self._is_numbered:
            return self._renumbered is not None
        first = order.first - max(0, *self._offsets.values(), 0)
        is_relative = self.recognised is not None or bool(self._offsets)
        self._shift = first if is_relative and first < 0 else 0
        return bool(order.late or self._shift or self._offsets)

    def _take_all(self, make: Callable[[], T], parts: Iterable[list[LogRow]]) -> tuple[T, Ways, _GapFinder]:
        taker, ways, holes = make(), Ways(), _GapFinder()
        for rows in parts:
            for row in rows:
                ways.take(row)
                holes.take(row)
                taker.take(row)
        return taker, ways, holes

    def parts(self) -> Iterator[list[LogRow]]:
        """Yield the clean rows in order, in batches."""
        return self._sorted(self._bits())

    @property
    def start_us(self) -> int | None:
        """The instant of the clean rows' time 0 in microseconds since 1970; None for a log without dates."""
        clock = self.recognised and self.recognised.clock
        return clock.start + self._shift if clock and clock.is_epoch else None

    def rows(self) -> list[LogRow]:
        """Return all clean rows."""
        return [row for part in self.parts() for row in part]

    def _sorted(self, bits: Iterable[Bit]) -> Iterator[list[LogRow]]:
        if self._is_numbered and self._renumbered is not None:
            yield self._renumber(bits)
            return
        offsets = self._offsets
        spread = max(0, 0, *offsets.values()) - min(0, 0, *offsets.values())
        window = 0 if self._is_numbered else self.order.latest_us + spread
        is_certain = self._has_order and not window
        sorter = _Sorter(window, offsets, self._shift, is_certain=is_certain, has_order=self._has_order)
        for bit in bits:
            yield bit.rows if bit.is_numbered else sorter.take(bit.rows)
        yield sorter.finish()
        self._duplicates = sorter.duplicates

    def _renumber(self, bits: Iterable[Bit]) -> list[LogRow]:
        if not self._renumbered:
            numbered: dict[int, LogRow] = {}
            count = 0
            for bit in bits:
                numbered.update(zip(bit.numbers, bit.rows, strict=True))
                count += len(bit.rows)
            self._duplicates = count - len(numbered)
            self._renumbered = [row for _, row in sorted(numbered.items())]
        return self._renumbered


def clean_rows(rows: Sequence[LogRow], skew: Skew = AUTO, *, has_order: bool = True) -> CleanLog:
    """Return a clean, already analysed log from the rows of a whole log or of one component in memory.

    >>> late = [LogRow(time, "p", "transfer", "q", f"p-{time}", 1, "") for time in (1, 3, 2)]
    >>> clean = clean_rows(late)
    >>> [row.label for part in clean.parts() for row in part], clean.cleaning.late
    (['p-1', 'p-2', 'p-3'], 1)
    """
    whole = [Bit(list(range(len(rows))), list(rows), [])]
    clean = CleanLog(lambda: whole, skew, has_order=has_order)
    clean.look(Nobody)
    return clean


class Nobody:
    """A receiver of rows that ignores them."""

    def take(self, row: LogRow, /) -> None:
        """Ignore the row."""
