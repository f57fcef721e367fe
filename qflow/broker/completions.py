"""Completions: the completed commands of a session, and the reports of them to its client (CM).

The commands of a session are numbered.  A command is *completed* once the broker has processed it, and
*reported* once a ``session.completed`` has told the client so, as ranges of numbers; a completed command may
stay unreported until the client requests a report (CM-05).  A gap in the completed numbers is a transfer
whose completion a queue or the store withholds, or a sync that waits behind such a transfer (CM-04, CM-06).
Compare the two classes ``SessionState`` of the C++ broker, in ``broker`` and in the common library.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final, SupportsIndex

from qflow.broker.context import BrokerContext
from qflow.broker.message import CommandOwner, Transfer, integer, show, whole
from qflow.broker.restorable import Restorable
from qflow.broker.snapshot import mypyc_attr

_SHIFT: Final = 10
_SIZE: Final = 1 << _SHIFT


@mypyc_attr(free_list_len=1)
class RangeSet(Restorable):
    """A set of command numbers, stored compactly: all numbers below ``front``, and some above it.

    Attributes:
        front (int): The smallest number, from 0, that is not in the set.

    >>> completed = RangeSet()
    >>> for number in (0, 1, 3, 4):
    ...     completed.add(number)
    >>> completed, completed.front
    (RangeSet('0-1 3-4'), 2)
    >>> 2 in completed, len(completed)
    (False, 4)
    """

    __slots__ = ("front", "_blocks", "_behind")

    def __init__(self) -> None:
        self.front = 0
        # The numbers above the front as bits, by block of 1,024; bits up to the front's own are never set.
        self._blocks: dict[int, int] = {}
        self._behind = 0

    @classmethod
    def of(cls, ranges: Iterable[tuple[SupportsIndex, SupportsIndex]]) -> RangeSet:
        """Return a set of the numbers in (first, last) pairs, which are disjoint and in ascending order.

        Raises:
            TypeError: If `ranges` does not consist of pairs of whole numbers.
        """
        made = cls()
        try:
            pairs = [(one, other) for one, other in ranges]
        except (TypeError, ValueError):
            raise TypeError(f"ranges must be pairs (first, last), got {show(ranges)}") from None
        for one, other in pairs:
            first, last = whole("first", one), whole("last", other)
            if first == made.front:
                made.front = max(first, last + 1)
            else:
                for number in range(first, last + 1):
                    made._add(number)
        return made

    def copy(self) -> RangeSet:
        """Return an independent copy of the set."""
        made = RangeSet()
        made.front = self.front
        if self._behind:
            made._blocks, made._behind = self._blocks.copy(), self._behind
        return made

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return RangeSet.of, (self.ranges(),)

    def add(self, number: SupportsIndex) -> None:
        """Add a number to the set; a number that is already in the set changes nothing."""
        self._add(whole("number", number))

    def _add(self, number: int) -> None:
        if number == self.front:
            self.front = number + 1
            if self._behind:
                self._move_front()
        elif number > self.front:
            block, bit = number >> _SHIFT, 1 << (number & (_SIZE - 1))
            bits = self._blocks.get(block, 0)
            if not bits & bit:
                self._blocks[block] = bits | bit
                self._behind += 1

    def _move_front(self) -> None:
        """Move the front past all numbers of the set that follow it without a gap."""
        while True:
            block, place = self.front >> _SHIFT, self.front & (_SIZE - 1)
            bits = self._blocks.get(block, 0) >> place
            run = _count_ones(bits)
            if not run:
                return
            self.front += run
            self._behind -= run
            rest = bits >> run
            if rest:
                self._blocks[block] = rest << (place + run)
                return
            del self._blocks[block]

    def __contains__(self, number: object) -> bool:
        one = integer("number", number)
        if one < self.front:
            return one >= 0
        return bool(self._blocks.get(one >> _SHIFT, 0) >> (one & (_SIZE - 1)) & 1)

    def __len__(self) -> int:
        return self.front + self._behind

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges():
            yield from range(first, last + 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self.front == other.front and self._blocks == other._blocks

    __hash__ = None  # type: ignore[assignment]

    def ranges(self) -> list[tuple[int, int]]:
        """Return the numbers as ascending (first, last) pairs, both ends included."""
        ranges = [(0, self.front - 1)] if self.front else []
        for block in sorted(self._blocks):
            bits, number = self._blocks[block], block << _SHIFT
            while bits:
                zeros = (bits & -bits).bit_length() - 1
                run = _count_ones(bits >> zeros)
                first, number = number + zeros, number + zeros + run
                if ranges and ranges[-1][1] == first - 1:
                    # A range that continues from one block to the next.
                    first = ranges.pop()[0]
                ranges.append((first, number - 1))
                bits >>= zeros + run
        return ranges

    def __str__(self) -> str:
        if not self._behind and self.front > 1:
            return f"0-{self.front - 1}"
        return " ".join(f"{a}-{b}" if a != b else str(a) for a, b in self.ranges())

    def __repr__(self) -> str:
        return f"RangeSet({str(self)!r})"


def _count_ones(bits: int) -> int:
    return (bits + 1 & ~bits).bit_length() - 1


KNOWN_COMPLETED_INTERVAL: Final = 65_536

_COMPLETED: Final[tuple[str, ...]] = ("command",)
_REPORTED: Final[tuple[str, ...]] = ("completed",)


class Completions(CommandOwner):
    """The command numbers of a session, the set of completed ones, and the reports to its client."""

    VOLATILE: ClassVar[tuple[str, ...]] = ("on_report", "on_channel_flow", "_has_parked")
    __slots__ = (
        "context", "session", "next_number", "completed", "reported", "incomplete", "wants_report",
        "blocking_queues", "_is_in_order", "_done_early", "_awaited", "_due", "_wants_all", "on_report",
        "on_channel_flow", "_has_parked",
    )  # fmt: skip

    def __init__(self, context: BrokerContext, session: str) -> None:
        self.context = context
        self.session = session
        self.next_number = 0
        # A gap in it is a held transfer, or a sync that waits behind one (CM-04).
        self.completed = RangeSet()
        self.reported = RangeSet()
        # The incomplete commands in order of number: each a held transfer, or None for a waiting sync.
        self.incomplete: OrderedDict[int, Transfer | None] = OrderedDict()
        # Whether a sync point may be parked; None, after a snapshot, if that is not known.
        self._has_parked: bool | None = False
        self.wants_report = False
        # Queues for which the client is to stop sending, in the Java broker's way (ALT-12).
        self.blocking_queues: list[str] = []
        self._is_in_order = context.options.completions == "in-order"
        self._done_early: dict[int, str] = {}
        self._awaited: set[int] = set()
        # What is to be reported: as it was when each command with the sync flag completed, and all there is.
        self._due: list[RangeSet] = []
        self._wants_all = False
        self.on_report: Callable[[RangeSet], None] | None = None
        self.on_channel_flow: Callable[[bool], None] | None = None

    def begin(self) -> int:
        """Take the next command number and return it."""
        number = self.next_number
        self.next_number += 1
        if self.next_number % KNOWN_COMPLETED_INTERVAL == 0:
            self.want_report()
        return number

    def retract(self, number: int) -> None:
        """Make the number of the last command available again, as the command was refused before it began."""
        self.next_number = number
        # Cancel the report that every 65,536th command requests (RF-05), or the next one would request two.
        if (number + 1) % KNOWN_COMPLETED_INTERVAL == 0:
            self.wants_report = self._wants_all = False
            self.context.reporters.remove(self)

    def want_report(self) -> None:
        """Request a report of all completed commands, to be sent at the end of the current command."""
        self._wants_all = True
        self._enter()

    def _enter(self) -> None:
        if not self.wants_report:
            self.wants_report = True
            self.context.reporters.append(self)

    def report_when_complete(self, number: int) -> None:
        """Record that a command has the sync flag, so that its completion is reported (CM-05 a)."""
        self._awaited.add(number)

    def is_awaited(self, number: int) -> bool:
        """Return whether a command has the sync flag and is not complete."""
        return bool(self._awaited) and number in self._awaited

    def hold(self, transfer: Transfer) -> None:
        """Record a transfer whose completion a queue withholds."""
        self.incomplete[transfer.number] = transfer

    def sync_point(self, number: int, is_reported: bool = True) -> bool:
        """Complete a sync, or let it wait for earlier incomplete commands; return whether it is complete."""
        # Without the sync flag its completion is not reported (RF-40).
        if is_reported:
            self.report_when_complete(number)
        # A waiting sync is stored among the incomplete commands, so that the last earlier command to complete
        # finds it without a search.
        if self.incomplete:
            self.incomplete[number] = None
            self._has_parked = True
            return False
        self.complete(number)
        return True

    def complete(self, number: int, label: str = "") -> None:
        """Complete a command, but with completions="in-order" only once all earlier ones are (CM-04)."""
        if not self._is_in_order:
            self._complete(number, label)
            return
        self._done_early[number] = label
        # As the set has no gaps in this case, its length is the first number that is missing.
        while (first := len(self.completed)) in self._done_early:
            self._complete(first, self._done_early.pop(first))

    def _complete(self, number: int, label: str) -> None:
        self.completed._add(number)
        if self._awaited and number in self._awaited:
            self._awaited.discard(number)
            # The report shows the state now, without later completions of the same command (RF-40).
            self._due.append(self.completed.copy())
            self._enter()
        if self.context.observer is not None:
            self.context.tell(
                "completed", session=self.session, message=label, names=_COMPLETED, values=(number,)
            )

    def transfer_complete(self, transfer: Transfer) -> None:
        """Complete a transfer, and every sync that now has no earlier incomplete command (CM-06)."""
        if self.incomplete and transfer.number in self.incomplete:
            del self.incomplete[transfer.number]
        # The label is made when it is first read, which is not necessary without an observer.
        is_asked = self._is_in_order or self.context.observer is not None
        self.complete(transfer.number, transfer.label if is_asked else "")
        # Not "if it is true": in a restored session it is None, which means unknown.
        if self._has_parked is not False:
            self._complete_parked()

    def _complete_parked(self) -> None:
        while self.incomplete:
            number, first = next(iter(self.incomplete.items()))
            if first is not None:
                return
            del self.incomplete[number]
            self.complete(number)
        self._has_parked = False

    @property
    def held(self) -> list[Transfer]:
        """The transfers whose completion is withheld, in order of sending."""
        return [transfer for transfer in self.incomplete.values() if transfer is not None]

    def report(self) -> None:
        """Send the requested completion reports to the client (CM-08, RF-40)."""
        due, self._due = self._due, []
        if self._wants_all and (not due or due[-1] != self.completed):
            due.append(self.completed.copy())
        self.wants_report = self._wants_all = False
        for completed in due:
            self.reported = completed
            if self.on_report is not None:
                self.on_report(completed)
            if self.context.observer is not None:
                values = (str(completed),)
                self.context.tell("reported", session=self.session, names=_REPORTED, values=values)

    def block_channel(self, queue: str) -> None:
        """Request that the client stop sending, on behalf of a queue (ALT-12)."""
        self.blocking_queues.append(queue)
        if len(self.blocking_queues) == 1:
            self._channel_flow(is_active=False)

    def unblock_channel(self, queue: str) -> None:
        """End a queue's request to stop; the client may send again once no queue has one (ALT-12)."""
        self.blocking_queues.remove(queue)
        if not self.blocking_queues:
            self._channel_flow(is_active=True)

    def _channel_flow(self, is_active: bool) -> None:
        if self.context.observer is not None:
            self.context.emit("channel_flow", session=self.session, detail={"active": is_active})
        if self.on_channel_flow is not None:
            self.on_channel_flow(is_active)

    def abandon(self) -> None:
        """Forget all incomplete commands at the end of the session; their messages stay queued (CM-09)."""
        # The messages stay on their queues; when their holds are released later, no completion is reported.
        for transfer in self.held:
            transfer.owner = None
        self.incomplete.clear()
        self._awaited.clear()
        self._due.clear()
