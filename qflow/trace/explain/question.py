"""Questions: :func:`explain` answers why a subject is in its state at an instant of a trace.

A question has two parts.  The instant is a row of the trace, or a time.  The subject is a producer, transfer,
queue, message, group or consumer, written as kind and name, such as ``queue:orders``; the kind may be left
out if only one subject in the trace has the name.  The module for the subject's kind makes the answer from
the broker at that instant, and from the trace's rows before and after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import SupportsIndex

from qflow.trace.explain.chain import Explanation, Link, Reason, Subject, section_of
from qflow.trace.explain.consumers import explain_consumer, explain_group
from qflow.trace.explain.instant import Instant, name_consumer
from qflow.trace.explain.producers import explain_message, explain_producer, explain_transfer
from qflow.trace.explain.queues import explain_queue
from qflow.trace.schema import Trace, TraceError
from qflow.trace.timeline import RowIndex, Timeline

KINDS = ("producer", "queue", "consumer", "group", "message", "transfer")
"""The kinds of subjects.  A message and its transfer share a label, which alone means the message."""

_SHOWN = 8


class _Subjects:
    """The names of all subjects in a trace, by kind."""

    def __init__(self, trace: Trace, index: RowIndex) -> None:
        self.trace, self.index = trace, index
        self._names: dict[str, Collection[str]] = {}

    def names(self, kind: str) -> Collection[str]:
        if kind not in self._names:
            self._names[kind] = _LISTERS[kind](self)
        return self._names[kind]

    def find(self, text: str) -> Subject:
        """Return the subject that a text such as ``queue:orders`` or ``C1`` names, or raise a TraceError."""
        kind, separator, name = text.partition(":")
        if separator and kind in KINDS:
            return self._find_one(kind, name)
        found = [kind for kind in KINDS if kind != "transfer" and self._match(kind, text)]
        if len(found) == 1:
            return self._find_one(found[0], text)
        if found:
            choices = " or ".join(f"{kind}:{text}" for kind in found)
            raise TraceError(f"{text!r} is the name of a {' and of a '.join(found)}; ask for {choices}")
        raise TraceError(f"nothing in this trace is called {text!r}; {self._hint()}")

    def _match(self, kind: str, name: str) -> list[str]:
        """Return the full names of the subjects of a kind that a short name may mean."""
        names = self.names(kind)
        if name in names:
            return [name]
        if kind == "consumer":
            return [full for full in names if name in full.split("/", 1)]
        if kind == "group":
            return [full for full in names if full.split("/", 1)[-1] == name]
        return []

    def _find_one(self, kind: str, name: str) -> Subject:
        matching = self._match(kind, name)
        if len(matching) == 1:
            return Subject(kind, matching[0])
        if matching:
            choices = " or ".join(f"{kind}:{full}" for full in matching[:_SHOWN])
            raise TraceError(f"there are several {kind}s {name!r} in this trace; ask for {choices}")
        has = _some(self.names(kind))
        # Only among the first names, as comparing a million labels letter by letter takes long.
        close = get_close_matches(name, list(islice(self.names(kind), 10_000)), 1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise TraceError(f"there is no {kind} {name!r} in this trace; {meant}its {kind}s are {has}")

    def _hint(self) -> str:
        parts = (f"{kind}s {_some(self.names(kind))}" for kind in KINDS[:4] if self.names(kind))
        return f"it has {', '.join(parts) or 'nothing to ask about'}; messages go by their labels"


def _some(names: Collection[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(islice(names, _SHOWN)) + more or "none"


def _producers(subjects: _Subjects) -> list[str]:
    workload = subjects.trace.workload
    if workload is not None and workload.producers:
        return [producer.name for producer in workload.producers]
    return subjects.index.names("session", ("message.transfer",))


def _consumers(subjects: _Subjects) -> list[str]:
    trace, index = subjects.trace, subjects.index
    found = [
        name_consumer(session, trace.link[row])
        for session in index.names("session", ("subscribe",))
        for row in index.rows("subscribe", "session", session)
    ]
    planned = trace.workload.consumers if trace.workload is not None else ()
    return list(dict.fromkeys([*found, *(consumer.name for consumer in planned)]))


def _groups(subjects: _Subjects) -> list[str]:
    """Return the names of all groups, as ``queue/group`` if several queues have a group of the name."""
    times = Counter(group for _, group in subjects.index.groups)
    return [group if times[group] == 1 else f"{queue}/{group}" for queue, group in subjects.index.groups]


_LISTERS: dict[str, Callable[[_Subjects], Collection[str]]] = {
    "producer": _producers,
    "queue": lambda subjects: subjects.index.names("queue", ("queueDeclare", "queue.declare")),
    "consumer": _consumers,
    "group": _groups,
    "message": lambda subjects: subjects.index.labels,
    "transfer": lambda subjects: subjects.index.labels,
}


def explain(
    where: Timeline | Trace, instant: int | None = None, subject: str = "", *, time: int | None = None
) -> Explanation:
    """Return the explanation of a subject's state at an instant, down to the root causes.

    The explanation uses the engine's state at that instant, the trace's rows before it, and the rows after
    it, which show for example when a consumer settles a message.

    Parameters:
        where: A timeline or a trace.  A trace is made a timeline first, which takes as long as replaying it;
            to ask more than once, make the timeline once.
        instant: A row's ``seq``; None for the timeline's cursor, or if ``time`` is given.
        subject: ``producer:C1``, ``queue:q``, ``transfer:C1-57``, ``consumer:late``, ``message:A-1`` or
            ``group:A``; the kind may be left out if only one subject has the name.
        time: Instead of ``instant``, a time in microseconds: the instant is the last row at or before it.

    Returns:
        The explanation, whose first link is the answer.

    Raises:
        TraceError: If the trace has no such instant or subject (the text lists the existing ones), or both
            ``instant`` and ``time`` are given.

    >>> from qflow.trace.replaying import trace_of
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
            ← q has no consumer, and gets none before the trace ends at 0.16 s.
    """
    timeline = where if isinstance(where, Timeline) else Timeline(where)
    # The timeline's cursor is the same before and after a question.
    before = timeline.cursor
    try:
        return _explain_subject(timeline, instant, time, subject)
    finally:
        timeline.cursor = before


def _explain_subject(timeline: Timeline, instant: int | None, time: int | None, subject: str) -> Explanation:
    _go(timeline, instant, time, subject)
    found = _Subjects(timeline.trace, timeline.index).find(subject)
    seen = Instant(timeline.trace, timeline.index, timeline.broker, timeline.cursor)
    links = _make_links(seen, _EXPLAINERS[found.kind](seen, found.name))
    return Explanation(found, timeline.row.seq, timeline.row.time, tuple(links))


def _go(timeline: Timeline, instant: int | None, time: int | None, subject: str) -> None:
    for what, value in (("a row's seq", instant), ("a time", time)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, SupportsIndex)):
            shown = repr(value) if isinstance(value, str | int | float) else f"a {type(value).__name__}"
            raise TraceError(
                f"{what} must be a whole number, got {shown}; an instant is a row's seq, such as "
                'explain(trace, 1200, "q"), or a time in microseconds, such as '
                'explain(trace, subject="q", time=500_000)'
            )
    if not isinstance(subject, str):
        raise TraceError(f"a subject is a text, such as 'queue:q', got a {type(subject).__name__}")
    if instant is not None and time is not None:
        raise TraceError(f"an instant is either a row or a time; got row {instant} and time {time}")
    if instant is not None:
        timeline.seek(int(instant))
    elif time is not None:
        if time < 0:
            raise TraceError(f"a time is microseconds from 0, got {time}")
        timeline.seek_time(int(time))


def _explain_named_group(instant: Instant, name: str) -> Reason:
    """Explain the group with a name, which includes the queue if several queues have such a group."""
    groups = instant.index.groups
    return explain_group(instant, *next(pair for pair in groups if name in ("/".join(pair), pair[1])))


_EXPLAINERS: dict[str, Callable[[Instant, str], Reason]] = {
    "producer": explain_producer,
    "transfer": explain_transfer,
    "queue": explain_queue,
    "message": explain_message,
    "group": _explain_named_group,
    "consumer": explain_consumer,
}


def _make_links(instant: Instant, reason: Reason) -> Iterator[Link]:
    seq, time = instant.trace.seq, instant.trace.time
    for level, item in reason.flat():
        row = instant.row if item.row is None else item.row
        section = section_of(item.rules[0])
        yield Link(item.text, item.rules, section, seq[row], time[row], item.subject, level)
