"""Auditor: one component's rows in, intervals and findings out; its state is a plain value."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from qflow.broker.errors import AmqpException
from qflow.spark.intervals import Intervals
from qflow.spark.player import LogPlayer
from qflow.workload.checks import WorkloadError
from qflow.workload.model import Workload
from qflow.workload.stage import uncollected

FORMAT = "qflow auditor 1"

LakeRow = tuple[int, int, str, str, str, str, int, str]
"""Seq, ts_us, client, event, queue, label, size, group: a row of LAKE without its component."""

ResultRow = tuple[str, int, str, str, str, str, int, int | None, str, int, int]
"""A row of RESULTS."""

BEGIN, END = "begin", "end"


class Auditor:
    """The engine over one component.

    Rows come in the order of ``seq``, the first is ``begin`` with the component's workload, the last is
    ``end``.  A ``seq`` that was seen already is a duplicate and changes nothing; one that is skipped
    leaves a finding, as what follows is then no longer certain.

    Parameters
    ----------
    component : str
        Its name.
    state : str or None
        What :meth:`state` gave, to continue there.

    Attributes
    ----------
    next_seq : int
        The number of the next row.
    duplicates : int
        How many rows came again; at-least-once delivery is no finding about the broker.
    is_finished : bool
        Whether its end has been seen.

    Examples
    --------
    >>> workload = {"duration": 1, "queues": {"q": {"qpid.flow_stop_count": 1}},
    ...     "producers": [{"name": "p", "to": ["", "q"], "rate": 1, "capacity": 9, "size": 1}]}
    >>> auditor = Auditor("log/q")
    >>> rows = [(0, 0, "", "begin", "", json.dumps(workload), 0, "")]
    >>> rows += [(n, n, "p", "transfer", "q", f"p-{n}", 1, "") for n in (1, 2)]
    >>> auditor.feed([*rows, (3, 9, "", "end", "", "", 0, "")])[0]
    ('log/q', 0, 'flow_on', 'q', '', '', 2, None, 'p-2', 2, 80)
    """

    __slots__ = ("component", "next_seq", "is_finished", "duplicates", "_number", "_time", "_workload",
                 "_player", "_intervals", "_actions", "_clients", "_cannot")  # fmt: skip

    def __init__(self, component: str, state: str | None = None) -> None:
        self.component = component
        self.next_seq = self.duplicates = self._number = self._time = 0
        self.is_finished = False
        self._workload = self._cannot = ""
        self._player: LogPlayer | None = None
        self._intervals = Intervals()
        self._actions: dict[str, Callable[..., None]] = {}
        self._clients: frozenset[str] = frozenset()
        if state is not None:
            self._continue(json.loads(state))

    def feed(self, rows: Iterable[LakeRow]) -> list[ResultRow]:
        """Take the next rows and return the results that are certain now."""
        with uncollected():
            self._feed(rows)
        return self._take_results()

    def _feed(self, rows: Iterable[LakeRow]) -> None:
        for seq, time, client, event, queue, label, size, group in rows:
            if seq != self.next_seq and not self._is_next(seq, time):
                continue
            self.next_seq = seq + 1
            self._time = time
            action = self._actions.get(event)
            if action is not None and client in self._clients:
                action(time, client, queue, label, size, group)
            elif event == "stats" and self._player is not None:
                self._player.pass_time(time)
                self._intervals.sample(queue, label)
            elif event in (BEGIN, END):
                self._edge(event, label)
            elif event not in ("complete", "stats") and self._player is not None:
                self._intervals.find("unknown", queue, client, time, f"{event} by a client unknown here")

    # Edges and gaps

    def _is_next(self, seq: int, time: int) -> bool:
        if seq < self.next_seq:
            self.duplicates += 1
            return False
        missing = seq - self.next_seq
        sentence = f"events {self.next_seq} to {seq - 1} are missing; what follows is not certain"
        self._intervals.find("gap", "", "", time, sentence, missing)
        return True

    def _edge(self, event: str, label: str) -> None:
        if event == BEGIN:
            self._begin(label)
        else:
            self._finish()

    def _begin(self, label: str) -> None:
        self._workload = label
        try:
            self._play(None)
        except (AmqpException, WorkloadError, ValueError) as error:
            self._cannot = str(error)
            self._intervals.find("refused", "", "", self._time, f"the engine cannot start: {error}")

    def _finish(self) -> None:
        self.is_finished = True
        if self._player is not None:
            self._player.pass_time(self._time)
            for client, text in sorted(self._player.refused.items()):
                self._intervals.find("died", "", client, self._time, text)
            self._intervals.finish(self._time)
        elif not self._cannot:
            self._intervals.find("no-begin", "", "", self._time, "its workload is missing; nothing audited")

    def skip_to(self, seq: int, time: int) -> None:
        """Begin with a later event, as if there had been none before: for pieces of a component."""
        self.next_seq, self._time = seq, time
        if self._player is not None:
            self._player.pass_time(time)

    def cut_off(self) -> list[ResultRow]:
        """Return what is known of a component whose end never came."""
        if self.is_finished:
            return []
        sentence = f"the log breaks off after event {self.next_seq - 1}: its end is missing"
        self._intervals.find("cut-off", "", "", self._time, sentence)
        self._finish()
        return self._take_results()

    def _take_results(self) -> list[ResultRow]:
        results = self._intervals.results
        if not results:
            return []
        self._intervals.results = []
        first = self._number
        self._number += len(results)
        return [(self.component, number, *result) for number, result in enumerate(results, first)]

    # State

    def state(self) -> str:
        """Return the state as JSON text; take it between calls of :meth:`feed`."""
        value = {
            "format": FORMAT,
            "counts": [self.next_seq, self._number, self.duplicates, self._time, self.is_finished],
            "workload": self._workload,
            "cannot": self._cannot,
            "intervals": self._intervals.state(),
            "player": None if self._player is None else self._player.state(),
        }
        return json.dumps(value, separators=(",", ":"))

    def _continue(self, value: Any) -> None:
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            got = value.get("format") if isinstance(value, dict) else value
            raise ValueError(f"an auditor's state has the format {FORMAT!r}, got {got!r}")
        self.next_seq, self._number, self.duplicates, self._time, self.is_finished = value["counts"]
        self._workload, self._cannot = value["workload"], value["cannot"]
        self._intervals = Intervals(value["intervals"])
        if value["player"] is not None:
            self._play(value["player"])

    def _play(self, state: dict[str, Any] | None) -> None:
        workload = Workload.from_json(json.loads(self._workload), name=self.component)
        intervals = self._intervals
        player = self._player = LogPlayer(workload, intervals, intervals.differs, state)
        self._actions = {
            "transfer": player.transfer,
            "deliver": player.deliver,
            "accept": player.accept,
            "release": player.release,
            "error": player.error,
            "block": lambda time, client, *_: intervals.block(time, client),
            "unblock": lambda time, client, *_: intervals.unblock(time, client),
        }
        names = [producer.name for producer in workload.producers]
        self._clients = frozenset([*names, *(consumer.name for consumer in workload.consumers)])

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is under way anywhere, so that a fresh engine would go on alike."""
        return self._player is not None and self._player.is_at_rest() and self._intervals.is_at_rest
