"""Reorder: what a stream brings late or twice, brought into the order of ``seq``."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable

from qflow.spark.auditor import Auditor, LakeRow, ResultRow

PATIENCE = 10_000
"""So many events of a component wait for one that is missing; after that it counts as lost."""


class StreamedComponent:
    """One component of a stream: its auditor, and the events that came too early.

    Parameters
    ----------
    component : str
    state : bytes or None
        What :meth:`state` gave, to continue there.
    patience : int
        How many events may wait for a missing one.

    Examples
    --------
    >>> streamed = StreamedComponent("log/q")
    >>> late = [(1, 9, "", "end", "", "", 0, ""), (0, 0, "", "begin", "", "{}", 0, "")]
    >>> streamed.take(late[:1]), streamed.waiting
    ([], 1)
    >>> streamed.take(late[1:])[0][5], streamed.waiting
    ('refused', 0)
    """

    def __init__(self, component: str, state: bytes | None = None, patience: int = PATIENCE) -> None:
        self.component, self.patience = component, patience
        self._pending: dict[int, LakeRow] = {}
        text = None
        if state is not None:
            value = json.loads(zlib.decompress(state))
            text = value["auditor"]
            self._pending = {row[0]: tuple(row) for row in value["pending"]}
        self._auditor = Auditor(component, text)

    @property
    def waiting(self) -> int:
        """How many events wait for a missing one."""
        return len(self._pending)

    def take(self, rows: Iterable[LakeRow]) -> list[ResultRow]:
        """Take events in any order, each any number of times; return the results that are certain now."""
        auditor, pending = self._auditor, self._pending
        for row in rows:
            if row[0] >= auditor.next_seq:
                pending.setdefault(row[0], row)
        results: list[ResultRow] = []
        while pending:
            ready = self._ready()
            if not ready and len(pending) <= self.patience:
                break
            # Nothing is ready, and too much waits: the auditor notes the gap and goes on after it.
            results += auditor.feed(ready or [pending.pop(min(pending))])
        return results

    def _ready(self) -> list[LakeRow]:
        ready: list[LakeRow] = []
        seq = self._auditor.next_seq
        while seq in self._pending:
            ready.append(self._pending.pop(seq))
            seq += 1
        return ready

    def state(self) -> bytes:
        """Return the state, packed."""
        pending = [self._pending[seq] for seq in sorted(self._pending)]
        value = {"auditor": self._auditor.state(), "pending": pending}
        return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)
