"""Which producer, transfer, queue, message, group or consumer a name in a question stands for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from difflib import get_close_matches

from qflow.trace.explain.explanation import Subject
from qflow.trace.row_index import RowIndex
from qflow.trace.schema import Trace, TraceError

KINDS = ("producer", "queue", "consumer", "group", "message", "transfer")
"""What can be asked about. A message's label is its transfer's too; alone it stands for the message."""

_SHOWN = 8


class Subjects:
    """Everything in a trace that can be asked about.

    Parameters
    ----------
    trace : Trace
        A whole one.
    index : RowIndex
        Its rows by what they are about.
    """

    def __init__(self, trace: Trace, index: RowIndex) -> None:
        self.trace, self.index = trace, index
        self._names: dict[str, Iterable[str]] = {}

    def names(self, kind: str) -> Iterable[str]:
        """Return the names there are of one kind, in order of appearance."""
        if kind not in self._names:
            self._names[kind] = _LISTERS[kind](self)
        return self._names[kind]

    def find(self, text: str) -> Subject:
        """Return what a text such as ``queue:orders`` or ``C1`` stands for.

        Raises
        ------
        TraceError
            If nothing in the trace has that name, or several things have; the sentence says what there is.
        """
        kind, separator, name = text.partition(":")
        if separator and kind in KINDS:
            return self._known(kind, name)
        found = [kind for kind in KINDS if kind != "transfer" and self._has(kind, text)]
        if len(found) == 1:
            return self._known(found[0], text)
        if found:
            choices = " or ".join(f"{kind}:{text}" for kind in found)
            raise TraceError(f"{text!r} is the name of a {' and of a '.join(found)}; ask for {choices}")
        raise TraceError(f"nothing in this trace is called {text!r}; {self._hint(text)}")

    def _has(self, kind: str, name: str) -> bool:
        return bool(self._matching(kind, name))

    def _matching(self, kind: str, name: str) -> list[str]:
        """Return the full names that a name may stand for."""
        names = self.names(kind)
        if name in names:
            return [name]
        if kind == "consumer":
            return [full for full in names if name in full.split("/", 1)]
        if kind == "group":
            return [full for full in names if full.split("/", 1)[-1] == name]
        return []

    def _known(self, kind: str, name: str) -> Subject:
        matching = self._matching(kind, name)
        if len(matching) == 1:
            return Subject(kind, matching[0])
        if matching:
            choices = " or ".join(f"{kind}:{full}" for full in matching[:_SHOWN])
            raise TraceError(f"there are several {kind}s {name!r} in this trace; ask for {choices}")
        has = _some(self.names(kind))
        close = get_close_matches(name, list(self.names(kind))[:10_000], 1)
        meant = f"did you mean {close[0]!r}? " if close else ""
        raise TraceError(f"there is no {kind} {name!r} in this trace; {meant}its {kind}s are {has}")

    def _hint(self, text: str) -> str:
        parts = (
            f"{kind}s {_some(self.names(kind))}" for kind in KINDS[:4] if any(True for _ in self.names(kind))
        )
        return f"it has {', '.join(parts) or 'nothing to ask about'}; messages go by their labels"


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more or "none"


def _producers(subjects: Subjects) -> list[str]:
    workload = subjects.trace.workload
    if workload is not None and workload.producers:
        return [producer.name for producer in workload.producers]
    return subjects.index.names("session", ("message.transfer",))


def _queues(subjects: Subjects) -> list[str]:
    return subjects.index.names("queue", ("queueDeclare", "queue.declare"))


def _consumers(subjects: Subjects) -> list[str]:
    """Sessions' subscriptions, ``session/tag``; only the name where the two are the same."""
    trace = subjects.trace
    found: dict[str, None] = {}
    for session in subjects.index.names("session", ("subscribe",)):
        for row in subjects.index.rows("subscribe", "session", session):
            tag = trace.link[row]
            found[session if session == tag else f"{session}/{tag}"] = None
    for consumer in trace.workload.consumers if trace.workload is not None else ():
        found[consumer.name] = None
    return list(found)


def _groups(subjects: Subjects) -> list[str]:
    """Groups by name; ``queue/group`` where several queues have one of that name."""
    times = Counter(group for _, group in subjects.index.groups)
    return [group if times[group] == 1 else f"{queue}/{group}" for queue, group in subjects.index.groups]


_LISTERS: dict[str, Callable[[Subjects], Iterable[str]]] = {
    "producer": _producers,
    "queue": _queues,
    "consumer": _consumers,
    "group": _groups,
    "message": lambda subjects: subjects.index.labels,
    "transfer": lambda subjects: subjects.index.labels,
}
