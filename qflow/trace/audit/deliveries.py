"""What consumers logged, held against the rules: who may have which message, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from qflow.broker.settings import QueueSettings
from qflow.trace.audit.findings import Finding, Tolerance
from qflow.trace.audit.membership import NumberedRow
from qflow.trace.log_rows import LogRow
from qflow.workload.model import Workload

SETTLED = ("accept", "release", "reject")
OldKey = tuple[str, str, str]


@dataclass(slots=True)
class _Pending:
    """A delivery out of a group that another consumer still holds; its settlement tells how long."""

    number: int
    row: LogRow
    owner: str


@dataclass(slots=True)
class _Queue:
    """What a log has shown of one queue so far."""

    is_fifo: bool
    is_grouped: bool
    holders: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    newest: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    groups: dict[str, dict[str, int]] = field(default_factory=dict)
    pending: dict[str, list[_Pending]] = field(default_factory=dict)


class DeliveryAudit:
    """Goes through a log's rows in order, and notes what consumers cannot have seen.

    Parameters
    ----------
    workload : Workload
        What was run.
    tolerance : Tolerance
        What is no finding.

    Examples
    --------
    >>> audit = DeliveryAudit(Workload("w", 1, {"q": {}}), Tolerance(0, 0))
    >>> audit.take([(1, LogRow(5, "c", "deliver", "q", "p-1", 7, ""))])
    >>> audit.findings[0].kind
    'never sent'
    """

    def __init__(self, workload: Workload, tolerance: Tolerance) -> None:
        self.findings: list[Finding] = []
        self._tolerance = tolerance
        self._prefetch = {consumer.name: consumer.prefetch for consumer in workload.consumers}
        self._held = dict.fromkeys(self._prefetch, 0)
        self._sent: dict[str, tuple[int, int, str]] = {}
        self._queues = {
            name: _queue(QueueSettings.from_arguments(arguments))
            for name, arguments in workload.queues.items()
        }
        self._groups: dict[str, str] = {}

    def take(self, rows: Sequence[NumberedRow]) -> None:
        """Look at rows, and at what is still open after the last."""
        self._collect(rows)
        for number, row in rows:
            if row.event == "deliver":
                self._deliver(number, row)
            elif row.event in SETTLED:
                self._settle(number, row)
            elif row.event == "error":
                self._end(row)
        if rows:
            for queue in self._queues.values():
                for group in list(queue.pending):
                    self._resolve(queue, group, "", rows[-1][1].ts_us)

    def _collect(self, rows: Sequence[NumberedRow]) -> None:
        for place, (_, row) in enumerate(rows):
            if row.event == "transfer":
                self._sent.setdefault(row.label, (row.ts_us, place, row.client))
                self._groups[row.label] = row.group

    def _note(
        self, number: int, row: LogRow, kind: str, rule: str, seen: str, allowed: str, gap: int = 0
    ) -> None:
        self.findings.append(
            Finding(number, row.ts_us, kind, rule, row.client, row.queue, row.label, seen, allowed, gap)
        )

    # Deliveries

    def _deliver(self, number: int, row: LogRow) -> None:
        queue = self._queues[row.queue]
        sent = self._sent.get(row.label)
        if sent is None:
            self._note(number, row, "never sent", "CM-01", "delivered", "a message that a producer sent")
            return
        early = sent[0] - row.ts_us
        if early > self._tolerance.skew:
            self._note(
                number, row, "before it was sent", "CM-01", f"delivered {early} us early", "after", early
            )
        holder = queue.holders.get(row.label)
        if holder is not None or row.label in queue.gone:
            seen = f"delivered again, {holder or 'a consumer'} {'holds' if holder else 'accepted'} it"
            self._note(number, row, "delivered twice", "CN-10", seen, "once, unless it is given back")
            return
        queue.holders[row.label] = row.client
        self._held[row.client] += 1
        over = self._held[row.client] - self._prefetch[row.client]
        if over > 0:
            allowed = f"{self._prefetch[row.client]} at a time"
            self._note(
                number, row, "credit exceeded", "CN-04", f"{over} more than it may hold", allowed, over
            )
        if queue.is_grouped:
            self._group(number, row, queue)
        self._order(number, row, queue, sent)

    def _group(self, number: int, row: LogRow, queue: _Queue) -> None:
        group = self._groups[row.label]
        owners = queue.groups.setdefault(group, {})
        for owner, count in owners.items():
            if owner != row.client and count:
                queue.pending.setdefault(group, []).append(_Pending(number, row, owner))
        owners[row.client] = owners.get(row.client, 0) + 1

    def _order(self, number: int, row: LogRow, queue: _Queue, sent: tuple[int, int, str]) -> None:
        """A queue gives the oldest first: of a group, or to one consumer, what one producer sent in order."""
        if not queue.is_fifo or row.label in queue.returned:
            return
        whose = (f"group {self._groups[row.label]}" if queue.is_grouped else row.client, sent[2])
        place, newest = queue.newest.get(whose, (-1, ""))
        if sent[1] < place:
            rule, kind = ("MG-06", "group order") if queue.is_grouped else ("CN-27", "order")
            late = self._sent[newest][0] - sent[0]
            self._note(
                number, row, kind, rule, f"delivered after {newest}", "the one sent first, first", late
            )
        else:
            queue.newest[whose] = (sent[1], row.label)

    # Settlements

    def _settle(self, number: int, row: LogRow) -> None:
        queue = self._queues[row.queue]
        holder = queue.holders.get(row.label)
        if holder != row.client:
            seen = f"{row.event}, {holder} holds it" if holder else f"{row.event}, it does not hold it"
            self._note(number, row, "not held", "CN-13", seen, "what was delivered to it and not settled")
            return
        del queue.holders[row.label]
        self._held[row.client] -= 1
        (queue.gone if row.event == "accept" else queue.returned).add(row.label)
        self._leave_group(row.client, row.label, queue, row.ts_us)

    def _leave_group(self, client: str, label: str, queue: _Queue, now: int) -> None:
        if not queue.is_grouped:
            return
        group = self._groups[label]
        owners = queue.groups[group]
        owners[client] -= 1
        if not owners[client]:
            self._resolve(queue, group, client, now)

    def _resolve(self, queue: _Queue, group: str, owner: str, now: int) -> None:
        """Note by how much another consumer got too early what it got of a group whose owner lets go now."""
        waiting = queue.pending.get(group, [])
        queue.pending[group] = [one for one in waiting if owner and one.owner != owner]
        for one in waiting:
            gap = now - one.row.ts_us
            if (not owner or one.owner == owner) and gap > self._tolerance.skew:
                seen = f"group {group} delivered while {one.owner} holds some of it"
                self._note(
                    one.number, one.row, "group owned by another", "MG-07", seen, f"to {one.owner}", gap
                )

    def _end(self, row: LogRow) -> None:
        """A session that ends gives back all it holds (MG-16)."""
        for queue in self._queues.values():
            for label in [label for label, holder in queue.holders.items() if holder == row.client]:
                del queue.holders[label]
                queue.returned.add(label)
                self._leave_group(row.client, label, queue, row.ts_us)
        if row.client in self._held:
            self._held[row.client] = 0


def _queue(settings: QueueSettings) -> _Queue:
    is_fifo = not settings.priorities and not settings.last_value_queue_key
    return _Queue(is_fifo, bool(settings.group_header_key))
