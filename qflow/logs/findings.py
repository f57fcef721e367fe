"""Findings and results: the rows of an audit, and the sentence for each kind of finding.

A *finding* is a contradiction between a log and the broker's rules, a doubt, or a count of the engine.  A
*result* is a row of an audit's table: a finding, or an interval in which a queue was ON, a transfer was held,
a producer was blocked or a group was owned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from qflow.logs.tolerance import Gap
from qflow.workload.agenda import SECOND


class Finding(NamedTuple):
    """A finding of an audit, such as a contradiction between a log and the rules.

    Fields:
        row: The row of the log, from 1 without the header; 0 if it is about no single row.
        time: The time in microseconds since the start.
        kind: A key of :data:`_SENTENCES`, such as ``completed while held``.
        client, queue, message: The names in the row; each may be empty.
        name: A further name, which depends on the kind: the message's holder, the group's owner, the row's
            event, or the queue's policy.
        seen, expected: The observed number, and the number that the rules allow.
        gap: The difference in time from what the rules allow, in microseconds.
        max_depth, max_bytes: Measures of the queue (:mod:`qflow.workload.measures`).
        depth_off, depth_off_most: The sum and the largest of the differences in msgDepth between the broker's
            reports and the engine.
        number: The number of messages, events or reports that the finding is about.

    >>> Finding(7, 5_000, "never sent", "c", "q", "p-9", "deliver").text()
    'row 7, 0.005 s: never sent (CM-01), c, q, p-9: deliver; allowed: a message that a producer sent before'
    """

    row: int
    time: int
    kind: str
    client: str = ""
    queue: str = ""
    message: str = ""
    name: str = ""
    seen: int | None = None
    expected: int | None = None
    gap: int = 0
    max_depth: int = 0
    max_bytes: int = 0
    depth_off: int = 0
    depth_off_most: int = 0
    number: int = 1

    @property
    def rule(self) -> str:
        """The rule that the log contradicts, such as ``FC-15``, or empty text."""
        return _SENTENCES[self.kind][0]

    @property
    def needs_reader(self) -> bool:
        """Whether a reader of the audit must see the finding: it contradicts a rule, or rows are missing."""
        return bool(self.rule) or self.kind == "rows missing"

    def sentence(self) -> str:
        """Return the finding as a sentence, with the allowed behaviour if it contradicts a rule."""
        words = _SENTENCES[self.kind][1]
        gap = Gap(self.time, self.time + self.gap, self.number).text() if "{missing}" in words else ""
        late = f"{self.gap / SECOND:.3g}"
        return words.format(**self._asdict(), mean=self._mean_off(), missing=gap, late=late)

    def text(self) -> str:
        """Return the finding as one line, with its row, time, kind, names and sentence."""
        if self.kind == "rows missing":
            return self.sentence()
        what = ", ".join(part for part in (self.client, self.queue, self.message) if part)
        rule = f" ({self.rule})" if self.rule else ""
        gap = f"; gap {self.gap}" if self.gap else ""
        return f"row {self.row}, {self.time / SECOND:g} s: {self.kind}{rule}, {what}: {self.sentence()}{gap}"

    def _mean_off(self) -> str:
        # Computed in whole hundredths, so that the text is the same on every machine.
        reports = self.expected or 1
        mean = (100 * self.depth_off + reports // 2) // reports
        return f"{mean // 100}.{mean % 100:02d}"


_SENTENCES: dict[str, tuple[str, str]] = {
    # Contradictions to the rules
    "unknown producer": ("CAP-01", "{name}; allowed: a producer of the workload"),
    "not subscribed": ("CN-03", "{name}; allowed: a consumer of this queue, from when it subscribes on"),
    "never sent": ("CM-01", "{name}; allowed: a message that a producer sent before"),
    "sent twice": ("CM-01", "sent again; allowed: each label once"),
    "before it was sent": ("CM-01", "delivered {gap} us early; allowed: after it was sent"),
    "completed twice": ("CM-02", "complete again; allowed: once"),
    "completed while held": (
        "FC-15",
        "complete, {queue} is ON; allowed: not before {queue} releases it, {gap} us later",
    ),
    "withheld without cause": (
        "CM-02",
        "complete {gap} us after any queue could hold it; allowed: at once",
    ),
    "completed late": (
        "CM-02",
        "complete {late} s late, after a later transfer to the same queues; allowed: at once",
    ),
    "never completed": (
        "CM-02",
        "never complete, {late} s long no queue can hold it; allowed: complete as soon as no queue holds it",
    ),
    "thresholds differ": (
        "CM-02",
        "{number} completions are withheld for up to {late} s, though {queue} is OFF by the workload's "
        "thresholds; allowed: complete at once while OFF (the broker has lower ones, or clients are slow)",
    ),
    "delivered twice": ("CN-10", "delivered again, {name} has it; allowed: once, unless it is released"),
    "credit exceeded": ("CN-04", "{seen} at a time; allowed: {expected}"),
    "order": ("CN-27", "delivered after {name}; allowed: the one sent first, first"),
    "group order": ("MG-06", "delivered after {name}; allowed: the one sent first, first"),
    "group owned by another": ("MG-07", "delivered while {name} owns its group; allowed: to {name}"),
    "not held": ("CN-13", "{name}; allowed: an unsettled delivery to the client"),
    "sends on": (
        "LP-06",
        "{number} messages left out, the engine has ended its session; allowed: an error in its log, then a "
        "new session",
    ),
    "discarded": ("LP-05", "never delivered, later ones are; allowed: policy {name} drops nothing it took"),
    # Doubts, which make results uncertain
    "rows missing": (
        "",
        "{missing}; consequences are not judged",
    ),
    "gap": ("", "events {expected} to {seen} are missing; what follows is not certain"),
    "cut-off": ("", "the log breaks off after event {seen}: its end is missing"),
    "no-begin": ("", "its workload is missing; nothing audited"),
    "refused": ("", "the engine cannot start: {name}"),
    "unknown": ("", "{name} is no event of a client's log"),
    # Counts of the engine
    "died": ("", "{name}"),
    "max_depth": ("", "the deepest it was"),
    "dropped": ("", "messages left without being accepted: {name}"),
    "differs": ("", "settled in the log, in the engine {name}"),
    "reports": (
        "",
        "flowStopped agrees in {seen} of {expected} reports of the broker; the depth is off by {mean} "
        "messages on average, {depth_off_most} at most",
    ),
    # Contradictions between the broker's own log and an audit
    "broker disagrees": (
        "FC-02",
        "{name} in the broker's own log, which refutes {number} findings; allowed: the thresholds that the "
        "broker ran with, not the workload's",
    ),
}
"""The rule (or "") and the sentence for each kind of finding."""


class Result(NamedTuple):
    """A result of an audit; a column that the result's kind does not use is None.

    Fields:
        component, number: The key of the result: the name of its component, and its number there, from 0.
        kind: ``flow_on``, ``held``, ``blocked``, ``group_owned`` or ``finding``.
        queue: The queue; for ``blocked``, the queues that hold the producer's transfers.
        client: The producer for ``held`` and ``blocked``, the owner for ``group_owned``, the client of a
            ``finding``.
        begin_us, end_us: The begin and end of the interval in microseconds; the end is None if the interval
            was still open at the log's end.
        message: The message that turned the queue ON for ``flow_on``, the held message for ``held``, the
            message of a ``finding``.
        group: The group, for ``group_owned``.
        cause: For ``held``, how the hold ended: resumed or dequeued.  For ``blocked``, why the producer was
            blocked: held or round trip.
        depth, bytes: The depth of the queue when it turned ON, for ``flow_on``.
        size: The bytes of the message on the queue, for ``held``.
        flowStoppedCount: For ``held``, the number of the queue's interval ON that held the message, from 1.
        transfers: The number of the producer's held transfers at the begin, for ``blocked``.
        finding: The kind of a :class:`Finding`, whose fields are in the further columns: its row in ``seq``,
            its number in ``affected``, its gap in ``gap_us``, its time in ``begin_us`` and ``end_us``.

    >>> result_of(Finding(7, 5_000, "not held", "c"), "log/q", 0)[:7]
    ('log/q', 0, 'finding', '', 'c', 5000, 5000)
    """

    component: str
    number: int
    kind: str
    queue: str
    client: str
    begin_us: int
    end_us: int | None
    message: str | None = None
    group: str | None = None
    cause: str | None = None
    depth: int | None = None
    bytes: int | None = None
    size: int | None = None
    flowStoppedCount: int | None = None  # noqa: N815
    transfers: int | None = None
    finding: str | None = None
    seq: int | None = None
    name: str | None = None
    seen: int | None = None
    expected: int | None = None
    gap_us: int | None = None
    max_depth: int | None = None
    max_bytes: int | None = None
    depth_off: int | None = None
    depth_off_most: int | None = None
    affected: int | None = None


_COLUMNS = [
    {"row": "seq", "time": "begin_us", "kind": "finding", "gap": "gap_us", "number": "affected"}.get(
        name, name
    )
    for name in Finding._fields
]
"""The columns of a result that hold the fields of a finding, in the order of the fields."""


def result_of(found: Finding, component: str, number: int) -> Result:
    """Return the result with the fields of a finding."""
    values: dict[str, Any] = dict(zip(_COLUMNS, found, strict=True))
    return Result(component, number, "finding", end_us=found.time, **values)


def finding_of(result: Sequence[Any]) -> Finding:
    """Return the finding in a result of the kind ``finding``.

    Parameters:
        result: A :class:`Result`, or a row of its table.

    >>> from qflow.logs import Auditor
    >>> finding_of(Auditor("log/q").cut_off()[0]).sentence()
    'the log breaks off after event -1: its end is missing'
    """
    values = Result(*result)
    return Finding(*(getattr(values, name) for name in _COLUMNS))
