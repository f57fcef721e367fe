"""The question: which instant, which subject; and the answer, link by link."""

from __future__ import annotations

from collections.abc import Callable

from qflow.trace.explain.consumers import explain_consumer
from qflow.trace.explain.explanation import Explanation, Link, Reason, Subject
from qflow.trace.explain.groups import explain_group
from qflow.trace.explain.instant import Instant
from qflow.trace.explain.messages import explain_message
from qflow.trace.explain.producers import explain_producer
from qflow.trace.explain.queues import explain_queue
from qflow.trace.explain.sections import section_of
from qflow.trace.explain.subjects import Subjects
from qflow.trace.explain.transfers import explain_transfer
from qflow.trace.schema import Trace, TraceError
from qflow.trace.timeline import Timeline


def explain(
    where: Timeline | Trace, instant: int | None = None, subject: str = "", *, time: int | None = None
) -> Explanation:
    """Say why something is as it is at an instant, down to the root causes.

    The facts are those of the engine at that instant and of the trace's rows before it; when somebody
    finishes what it is at work on is told by the rows after it.

    Parameters
    ----------
    where : Timeline or Trace
        A trace is made into a timeline first, which takes as long as replaying it; make one yourself to
        ask more than once.
    instant : int or None
        A row's ``seq``; None for the timeline's cursor, or for ``time``.
    subject : str
        ``producer:C1``, ``queue:q``, ``transfer:C1-57``, ``consumer:late``, ``message:A-1`` or
        ``group:A``; the kind may be left out where only one thing has that name.
    time : int or None
        Instead of ``instant``: a time in microseconds; the last row at or before it counts.

    Returns
    -------
    Explanation
        Its first link is the answer.

    Raises
    ------
    TraceError
        If there is no such instant or subject; the sentence says what there is.

    Examples
    --------
    >>> from qflow.trace.record import trace_of
    >>> from qflow.workload import Producer, Workload, simulate
    >>> workload = Workload(
    ...     "stall",
    ...     duration=1,
    ...     queues={"q": {"qpid.flow_stop_count": 10, "qpid.max_size": 0}},
    ...     producers=(Producer("p", ("", "q"), rate=100, capacity=5, size=100, arrival="const"),),
    ... )
    >>> timeline = Timeline(trace_of(simulate(workload)))
    >>> print(explain(timeline, subject="p", time=1_000_000).text(with_sources=False))
    p is blocked: a message has been due since 0.16 s, and its window is full.
    ← p has 5 of 5 outstanding; 5 transfers are held: p-11, p-12, p-13, p-14 and p-15.
      ← Transfer p-11 is not complete: it is held by q.
        ← q has been ON since 0.11 s: p-11 made it 11 messages, more than its stop threshold of 10.
          ← The stop threshold of q is 10 messages: it is declared with qpid.flow_stop_count.
          ← q stays ON: 15 messages are not fewer than 10.
            ← The resume threshold of q is 10 messages: a resume threshold of 0 means the stop threshold.
            ← Nobody consumes from q, and nobody will before the trace ends at 0.16 s.
    """
    timeline = where if isinstance(where, Timeline) else Timeline(where)
    before = timeline.cursor
    try:
        return _explained(timeline, instant, time, subject)
    finally:
        timeline.cursor = before


def _explained(timeline: Timeline, instant: int | None, time: int | None, subject: str) -> Explanation:
    _go(timeline, instant, time)
    found = Subjects(timeline.trace, timeline.index).find(subject)
    seen = Instant(timeline.trace, timeline.index, timeline.broker, timeline.cursor)
    return _explanation(seen, found, _EXPLAINERS[found.kind](seen, found.name))


def _go(timeline: Timeline, instant: int | None, time: int | None) -> None:
    if instant is not None and time is not None:
        raise TraceError(f"an instant is either a row or a time; got row {instant} and time {time}")
    if instant is not None:
        timeline.seek(instant)
    elif time is not None:
        if time < 0:
            raise TraceError(f"a time is microseconds from 0, got {time}")
        timeline.seek_time(time)


def _group(instant: Instant, name: str) -> Reason:
    """Find the queue of a group: the name says it if there are several."""
    for queue, group in instant.index.groups:
        if name in (f"{queue}/{group}", group):
            return explain_group(instant, queue, group)
    raise TraceError(f"there is no group {name!r} in this trace")


_EXPLAINERS: dict[str, Callable[[Instant, str], Reason]] = {
    "producer": explain_producer,
    "transfer": explain_transfer,
    "queue": explain_queue,
    "message": explain_message,
    "group": _group,
    "consumer": explain_consumer,
}


def _explanation(instant: Instant, subject: Subject, reason: Reason) -> Explanation:
    trace, links = instant.trace, []
    for level, item in reason.flat():
        row = instant.row if item.row is None else item.row
        link = Link(
            item.text,
            item.rules,
            section_of(item.rules[0]),
            trace.seq[row],
            trace.time[row],
            item.subject,
            level,
        )
        links.append(link)
    return Explanation(subject, trace.seq[instant.row], trace.time[instant.row], tuple(links))
