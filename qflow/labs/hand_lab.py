"""Labs in which the reader acts as a client: the group lab and the completion lab.

The models behind them need no widgets: :mod:`qflow.labs.group` and :mod:`qflow.labs.completion`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import cycle, islice
from typing import Any

import ipywidgets as widgets

from qflow.kit import RefusalError
from qflow.labs.completion import STORY, SessionTable
from qflow.labs.group import PAUSE, GroupTable, group_picture
from qflow.labs.knobs import Knob
from qflow.labs.lab import Lab, beside, button_of
from qflow.labs.picture import Comparison, Picture
from qflow.labs.slider_lab import slider_of


class HandLab(Lab):
    """A lab in which the reader makes moves in the run itself: each move redraws the run and continues it."""

    def _show_from(self, picture: Picture, time: int, *, plays: bool = True) -> None:
        """Show another picture from its first step at or after `time`, and play it from there."""
        self.scene.refusal, self._alone = "", None
        self.show(picture, self.scene.run + 1)
        times = picture.frames.column("time").tolist()
        later = [one for one in times if one >= time] or times[-1:]
        # At the last step it does not play, as the scene would start again from the beginning.
        # Several frames may have the same time: `back` counts from the last of them to the first.
        place = {"time": later[0], "back": later.count(later[0]) - 1, "plays": plays and len(later) > 1}
        # The number of the run is sent too, as the browser may still be drawing the previous run.
        self.scene.place = {**place, "number": self.scene.run}


# Groups

MESSAGES = "ABCADBBEEEDDCABEAE"
"""Messages with which no group stays with one consumer: four of five change owners, D is free for a while."""
PACES = (3.2, 2.1, 1.2)
_PREFETCH = Knob(
    "prefetch-c{}",
    "prefetch of c{}",
    "Most messages c{} may hold; it owns the group of each (MG-07, MG-14)",
    low=1,
    high=8,
)
_PACE = Knob(
    "pace-c{}",
    "pace of c{} (0.1 s)",
    "How long c{} works on a message before it accepts it (CN-13)",
    low=2,
    high=80,
    unit=0.1,
)


def _sliders(knob: Knob, values: Iterable[float]) -> dict[str, widgets.IntSlider]:
    """Return a slider for each consumer, keyed by setting; the knob's texts have a gap for its number."""
    made = {}
    for number, value in enumerate(values, 1):
        setting, label, tooltip = (text.format(number) for text in (knob.setting, knob.label, knob.tooltip))
        made[setting] = slider_of(replace(knob, setting=setting, label=label, tooltip=tooltip), value)
    return made


class GroupLab(HandLab):
    """The group lab: a conveyor, sliders for prefetch and pace, the reader's moves; see :func:`group_lab`."""

    name = "group"

    def __init__(
        self,
        messages: str,
        prefetch: Sequence[int],
        wake_up: str,
        grouped: bool,
        paces: Sequence[float],
        moves: Sequence[Sequence[Any]],
        mode: str,
    ) -> None:
        self._messages, self._wake_up, self._grouped, self._mode = messages, wake_up, grouped, mode
        self._works = bool(paces)
        # The number of wrong carts in the last run with groups (True) and without (False).
        self._tried: dict[bool, int] = {}
        seconds = list(paces) or list(islice(cycle(PACES), len(prefetch)))
        self.sliders = _sliders(_PREFETCH, prefetch) | _sliders(_PACE, seconds)
        self.group = widgets.Text(value="A", description="group", layout={"width": "130px"})
        tip = "The shop sends another message of this group (MG-04)"
        send = button_of("send one more", tip, "qf-send")
        send.on_click(lambda _: self._do({"what": "send"}))
        panel = widgets.Box([*self.sliders.values(), self.group, send]).add_class("qf-panel")
        super().__init__(self._play(moves), [panel])
        for slider in self.sliders.values():
            slider.observe(self._deal, names="value")
        if not self._works:
            self.scene.place = {"time": self.table.broker.now, "back": 0, "number": self.scene.run}

    def _values(self, kind: str) -> list[int]:
        return [slider.value for name, slider in self.sliders.items() if name.startswith(kind)]

    @property
    def _dealt(self) -> dict[str, Any]:
        paces = [tenths / 10 for tenths in self._values("pace")] if self._works else []
        prefetch = self._values("prefetch")
        given = {"wake_up": self._wake_up, "grouped": self._grouped, "mode": self._mode}
        return {"prefetch": prefetch, "paces": paces, **given}

    @property
    def settings(self) -> dict[str, Any]:
        """The messages, the consumers' settings, and the reader's moves until now."""
        return {"messages": self._messages, **self._dealt, "moves": self.table.moves}

    def _handles(self) -> dict[str, widgets.IntSlider]:
        return {name: slider for name, slider in self.sliders.items() if name.startswith("prefetch")}

    def _play(self, moves: Sequence[Sequence[Any]]) -> Picture:
        """Start again with the same messages, and make `moves`; return the picture."""
        table = self._table(moves)
        picture = self._draw(table)
        self.table = table
        if self._works:
            self._tried[self._grouped] = len(picture.drawing["carts"])
        return picture

    def _table(self, moves: Sequence[Sequence[Any]]) -> GroupTable:
        table = GroupTable(self._messages, **self._dealt)
        table.play(moves)
        return table

    def _draw(self, table: GroupTable) -> Picture:
        """Let the consumers work until all are idle, and return the picture."""
        table.work()
        return group_picture(table, tried=self._tried.get(not self._grouped, -1))

    def _fork_at(self, picture: Picture, action: str, frame: int, time: int) -> Comparison:
        """Return the run side by side with one in which the action happens, and the consumers react to it."""
        table = self._table(self._moves_until(time))
        table.work(time)
        kind, _, name = action.partition(":")
        if kind == "purge":
            table.purge()
        else:
            table.leave(name)
        return beside(picture, self._draw(table), action, reacts=True)

    def settle(
        self, consumer: str, verdict: str, label: str = "", time: int | None = None, *, plays: bool = False
    ) -> None:
        """Let a consumer settle a message at a time of the picture; later moves are undone."""
        self._act((verdict, label, consumer), time, plays=plays)

    def _moves_until(self, time: int) -> list[tuple[Any, ...]]:
        return [move for move in self.table.moves if move[-1] <= time]

    def _act(self, move: tuple[str, ...], time: int | None = None, *, plays: bool = False) -> None:
        now = self.table.broker.now if time is None else time
        # The engine cannot undo: the messages are sent again, and every earlier move is made again.
        picture = self._play([*self._moves_until(now), (*move, now + PAUSE)])
        self._show_from(picture, self.table.moves[-1][-1], plays=plays or not self._works)

    def _settle(self, content: dict[str, Any]) -> None:
        consumer, label = content["message"]
        self.settle(consumer, content["verdict"], label, content["time"], plays=content.get("plays", False))

    def _do(self, content: dict[str, Any]) -> None:
        what = content["what"]
        if what == "send":
            self._act(("send", self.group.value.strip() or "A"), content.get("time"))
            return
        if what == "groups":
            self._grouped = not self._grouped
        elif what == "work":
            self._works = not self._works
        elif what != "again":
            raise RefusalError(f"this lab has no button {what!r}")
        self._deal(None)

    def _deal(self, _: object) -> None:
        """Start again from the beginning, without any moves."""
        self._show_from(self._play(()), 0)


def group_lab(
    *,
    messages: str = MESSAGES,
    prefetch: Sequence[int] = (1, 1, 2),
    wake_up: str = "faithful",
    grouped: bool = True,
    paces: Sequence[float] | None = None,
    moves: Sequence[Sequence[Any]] = (),
    mode: str = "window",
) -> GroupLab:
    """Open the group lab: consumers share a queue of messages for shopping carts, with or without groups.

    Parameters:
        messages, prefetch, wake_up, grouped: As in :func:`qflow.labs.group_run`. A group is a cart; its
            first message adds an item, the second removes it, and so on.
        paces: The seconds that each consumer works on a message; by default one consumer is slow, one medium
            and one fast; () for consumers that act only on the reader's moves.
        moves: Moves to make at once, such as ``[("accept", "A-1", "c1"), ("send", "C")]``; a shared token
            contains them.
        mode ({"window", "credit"}): Whether a consumer gets another message for each one that it settles
            (window), or no more than its prefetch in total (credit) (CN-04).

    Returns:
        The lab, a widget. :func:`qflow.labs.group_run` needs no widgets.

    >>> lab = group_lab(messages="AAB", prefetch=(1, 1), paces=())
    >>> lab.settle("c1", "accept")
    >>> print(lab.claims[0])
    Group A was owned by c1 (twice).
    """
    if paces is None:
        paces = tuple(islice(cycle(PACES), len(prefetch)))
    return GroupLab(messages, prefetch, wake_up, grouped, paces, moves, mode)


# Completions

_STOP = Knob("stop", "qpid.flow_stop_count of busy", "More messages than this turn it ON (FC-14)", 1, 8)


class CompletionLab(HandLab):
    """The completion lab: the strip, its two queues, and a stop threshold; see :func:`completion_lab`."""

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
        """The reader's moves until now, and the stop threshold."""
        return {"moves": self.table.moves, "stop": self.table.stop}

    def _do(self, content: dict[str, Any]) -> None:
        """Make one of :data:`qflow.labs.completion.MOVES`, or start again."""
        if content["what"] == "again":
            self._again(None)
            return
        before = self.table.broker.now
        self.table.do(str(content["what"]), str(content.get("name", "")))
        self._show_from(self.table.picture(), before + 1)

    def _fork_at(self, picture: Picture, action: str, frame: int, time: int) -> Comparison:
        """Return the session side by side with one in which a queue is purged at a given time."""
        forked = self.table.fork(time, action.partition(":")[2]).picture()
        return beside(picture, forked, action, reacts=False)

    def _again(self, _: object) -> None:
        self.table = SessionTable(self._begun, stop=self.stop.value)
        self._show_from(self.table.picture(), 0)


def completion_lab(*, moves: Iterable[Sequence[str]] = STORY, stop: int = 2) -> CompletionLab:
    """Open the completion lab: see which commands of a session are complete, held and reported.

    Send to a queue whose flow control turns ON, or to one without flow control; ask for a sync; and click on
    a message to remove it from its queue. The strip shows which commands become complete, and which of them
    the broker reports to the client.

    Parameters:
        moves, stop: As for :func:`qflow.labs.completion_run`, which needs no widgets.

    Returns:
        The lab, a widget.

    Raises:
        ValueError: If a move is not possible.

    >>> lab = completion_lab(moves=[("busy",), ("busy",), ("idle",)], stop=1)
    >>> print(lab.claims[0])
    Complete are the commands 0 2 of 3 (CM-04).
    """
    return CompletionLab(moves, stop)
