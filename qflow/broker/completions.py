"""Completions: which commands of a session are processed, and what its client has been told (CM).

Lay it beside ``SessionState`` (broker and common part).  *Completed* is what the broker knows;
*reported* is what ``session.completed`` has carried to the client: the two differ until somebody
asks (CM-05).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import ClassVar, Final

from qflow.broker.context import BrokerContext
from qflow.broker.range_set import RangeSet
from qflow.broker.transfer import CommandOwner, Transfer

KNOWN_COMPLETED_INTERVAL: Final = 65_536

_COMPLETED: Final[tuple[str, ...]] = ("command",)
_REPORTED: Final[tuple[str, ...]] = ("completed",)


class Completions(CommandOwner):
    """Numbers a session's commands, and keeps which of them are complete.

    Attributes
    ----------
    completed : RangeSet
        A hole in it is a held transfer, or a sync that waits behind one (CM-04).
    reported : RangeSet
        What the client knows.
    incomplete : OrderedDict
        Number to held transfer, or to None for a parked sync point, in order of number.
    wants_report : bool
        The client is to be told at the end of the current step (CM-05, CM-08).
    blocking_queues : list of str
        Queues for which the client is to stop sending, in the Java broker's way (ALT-12).
    on_report, on_channel_flow : callable or None
        The client's ears; called with what it is told.
    """

    VOLATILE: ClassVar[tuple[str, ...]] = ("on_report", "on_channel_flow")
    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = (
        "context",
        "session",
        "next_number",
        "completed",
        "reported",
        "incomplete",
        "wants_report",
        "blocking_queues",
        "_is_in_order",
        "_done_early",
        "_awaited",
        "on_report",
        "on_channel_flow",
    )

    def __init__(self, context: BrokerContext, session: str) -> None:
        self.context = context
        self.session = session
        self.next_number = 0
        self.completed = RangeSet()
        self.reported = RangeSet()
        self.incomplete: OrderedDict[int, Transfer | None] = OrderedDict()
        self.wants_report = False
        self.blocking_queues: list[str] = []
        self._is_in_order = context.options.completions == "in-order"
        self._done_early: dict[int, str] = {}
        self._awaited: set[int] = set()
        self.on_report: Callable[[RangeSet], None] | None = None
        self.on_channel_flow: Callable[[bool], None] | None = None

    def begin(self) -> int:
        """Return the number of the next command."""
        number = self.next_number
        self.next_number += 1
        if self.next_number % KNOWN_COMPLETED_INTERVAL == 0:
            self.want_report()
        return number

    def want_report(self) -> None:
        """Ask for a report at the end of the current step."""
        if not self.wants_report:
            self.wants_report = True
            self.context.reporters.append(self)

    def report_when_complete(self, number: int) -> None:
        """Remember that a command carries the sync flag (CM-05 a)."""
        self._awaited.add(number)

    def is_awaited(self, number: int) -> bool:
        """Return whether a command carries the sync flag and is not complete."""
        return bool(self._awaited) and number in self._awaited

    def hold(self, transfer: Transfer) -> None:
        """Keep a transfer whose completion a queue withholds."""
        self.incomplete[transfer.number] = transfer

    def sync_point(self, number: int) -> bool:
        """Complete a sync now, or park it behind the incomplete commands before it (CM-06, CM-07).

        Returns
        -------
        bool
            Whether it is complete.
        """
        self.report_when_complete(number)
        if self.incomplete:
            self.incomplete[number] = None
            return False
        self.complete(number)
        return True

    def complete(self, number: int, label: str = "") -> None:
        """Note that a command is processed; before the feature, only when all earlier ones are (CM-04)."""
        if not self._is_in_order:
            self._complete(number, label)
            return
        self._done_early[number] = label
        while (first := len(self.completed)) in self._done_early:
            self._complete(first, self._done_early.pop(first))

    def _complete(self, number: int, label: str) -> None:
        self.completed.add(number)
        if self._awaited and number in self._awaited:
            self._awaited.discard(number)
            self.want_report()
        if self.context.observer is not None:
            self.context.tell(
                "completed", session=self.session, message=label, names=_COMPLETED, values=(number,)
            )

    def transfer_complete(self, transfer: Transfer) -> None:
        """Complete a transfer, and every sync point that waited for just this (CM-06)."""
        if self.incomplete:
            self.incomplete.pop(transfer.number, None)
        # Without a trace nobody asks for the label, which need not even be made then.
        is_asked = self._is_in_order or self.context.observer is not None
        self.complete(transfer.number, transfer.label if is_asked else "")
        while self.incomplete:
            number, first = next(iter(self.incomplete.items()))
            if first is not None:
                return
            del self.incomplete[number]
            self.complete(number)

    def held(self) -> list[Transfer]:
        """Return the transfers whose completion is withheld, in the order sent."""
        return [transfer for transfer in self.incomplete.values() if transfer is not None]

    def report(self) -> None:
        """Tell the client what is complete (CM-08)."""
        self.wants_report = False
        self.reported = self.completed.copy()
        if self.on_report is not None:
            self.on_report(self.reported)
        if self.context.observer is not None:
            completed = str(self.reported)
            self.context.tell("reported", session=self.session, names=_REPORTED, values=(completed,))

    def block_channel(self, queue: str) -> None:
        """Tell the client to stop sending (ALT-12)."""
        self.blocking_queues.append(queue)
        if len(self.blocking_queues) == 1:
            self._channel_flow(is_active=False)

    def unblock_channel(self, queue: str) -> None:
        """Tell the client to go on, if no other queue stops it (ALT-12)."""
        self.blocking_queues.remove(queue)
        if not self.blocking_queues:
            self._channel_flow(is_active=True)

    def _channel_flow(self, is_active: bool) -> None:
        if self.context.observer is not None:
            self.context.emit("channel_flow", session=self.session, detail={"active": is_active})
        if self.on_channel_flow is not None:
            self.on_channel_flow(is_active)

    def abandon(self) -> None:
        """Forget all that is incomplete: the session is gone (CM-09)."""
        for transfer in self.held():
            transfer.owner = None
        self.incomplete.clear()
        self._awaited.clear()
