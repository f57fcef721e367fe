"""completion_lab: the commands of one session as a strip, on which the reader sends, asks and takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import ipywidgets as widgets

from qflow.labs.completion import STORY, SessionTable
from qflow.labs.knobs import Knob
from qflow.labs.lab import HandLab, beside
from qflow.labs.picture import Comparison, Picture
from qflow.labs.slider_lab import slider_of

_STOP = Knob("stop", "qpid.flow_stop_count of busy", "More messages than this turn it ON (FC-14)", 1, 8)


class CompletionLab(HandLab):
    """The strip, its queues, and a slider for the stop threshold; see :func:`completion_lab`."""

    name = "completion"

    def __init__(self, moves: Iterable[Sequence[str]], stop: int) -> None:
        self._begun = tuple(tuple(move) for move in moves)
        self.table = SessionTable(self._begun, stop=stop)
        self.stop = slider_of(_STOP, stop)
        self.stop.observe(self._again, names="value")
        super().__init__(self.table.picture(), [widgets.Box([self.stop]).add_class("qf-panel")])
        self.scene.place = {"time": self.table.broker.now, "back": 0, "number": self.scene.run}

    @property
    def settings(self) -> dict[str, Any]:
        """What was done so far, and the threshold."""
        return {"moves": self.table.moves, "stop": self.table.stop}

    def _do(self, content: dict[str, Any]) -> None:
        """Do one of :data:`qflow.labs.completion.MOVES`, or begin again."""
        if content["what"] == "again":
            self._again(None)
            return
        before = self.table.broker.now
        self.table.do(str(content["what"]), str(content.get("name", "")))
        self._show_from(self.table.picture(), before + 1)

    def _fork_at(self, picture: Picture, action: str, frame: int, time: int) -> Comparison:
        """Return the session beside another in which a queue is purged at an instant."""
        forked = self.table.fork(time, action.partition(":")[2]).picture()
        return beside(picture, forked, action, reacts=False)

    def _again(self, _: object) -> None:
        self.table = SessionTable(self._begun, stop=self.stop.value)
        self._show_from(self.table.picture(), 0)


def completion_lab(*, moves: Iterable[Sequence[str]] = STORY, stop: int = 2) -> CompletionLab:
    """Open the completion lab: which commands of a session are complete, held and reported.

    Send to a queue that turns ON or to one without flow control, ask for a sync, and click a message off its
    queue: the strip shows which numbers become complete, and what the client hears of it.

    Parameters:
        moves, stop: As for :func:`qflow.labs.completion_run`, which needs no widgets.

    Returns:
        A widget.

    Raises:
        ValueError: If a move cannot be done.

    >>> lab = completion_lab(moves=[("busy",), ("busy",), ("idle",)], stop=1)
    >>> print(lab.claims[0])
    Complete are the commands 0 2 of 3 (CM-04).
    """
    return CompletionLab(moves, stop)
