"""group_lab: a queue of message groups on which the reader is the consumers."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets

from qflow.broker.errors import AmqpException
from qflow.labs.group import VERDICTS, GroupTable, group_picture, work_in_turn
from qflow.labs.knobs import Knob
from qflow.labs.lab import Lab
from qflow.labs.slider_lab import slider_of

MESSAGES = "AABACBBCADAB"
_PREFETCH = "Most messages {} may hold; it owns the group of each (MG-07, MG-14)"
_TIPS = {
    "accept": "Take responsibility: the message leaves the queue; the last one of a group frees it (MG-08)",
    "release": "Give it back to its place; it will come again as redelivered (CN-14, MG-18)",
    "reject": "Refuse it: it leaves the queue unread (CN-16)",
}


class GroupLab(Lab):
    """Buttons for what consumers can do, sliders for their prefetch, and the picture.

    Its parameters are those of :func:`group_lab`.

    Attributes
    ----------
    table
        The queue that is played on.
    sliders
        Consumer to the slider of its prefetch.
    """

    name = "group"

    def __init__(
        self, messages: str, prefetch: Sequence[int], wake_up: str, moves: Sequence[Sequence[str]] = ()
    ) -> None:
        self._messages, self._wake_up = messages, wake_up
        self._number = 1
        self.table = GroupTable(messages, prefetch, wake_up=wake_up)
        self.table.play(moves)
        self.sliders = {
            name: slider_of(
                Knob(f"prefetch-{name}", f"prefetch of {name}", _PREFETCH.format(name), 1, 8), credit
            )
            for name, credit in zip(self.table.consumers, prefetch, strict=True)
        }
        self._rows = {name: _Hand(name, self) for name in self.table.consumers}
        self._log = widgets.HTML().add_class("qf-log")
        panel = widgets.Box(list(self.sliders.values())).add_class("qf-panel")
        hands = widgets.VBox([*(row.box for row in self._rows.values()), self._others()])
        played = widgets.Box([hands, self._log]).add_class("qf-table")
        super().__init__(group_picture(self.table), [panel, played])
        self._go_to_the_end()
        for slider in self.sliders.values():
            slider.observe(self._deal, names="value")
        self._refresh()

    def _others(self) -> widgets.Box:
        self.group = widgets.Text(value="A", description="group", layout={"width": "130px"})
        send = _button("send one more", "p1 sends another message of this group (MG-04)", "qf-send")
        work = _button("let them all accept in turn", "Until nobody holds anything", "qf-work")
        again = _button("start again", "The same messages, nothing done yet", "qf-again-button")
        send.on_click(lambda _: self.do(lambda: self.table.send(self.group.value.strip() or "A")))
        work.on_click(lambda _: self.do(lambda: work_in_turn(self.table)))
        again.on_click(lambda _: self._deal(None))
        return widgets.Box([self.group, send, work, again]).add_class("qf-buttons")

    @property
    def settings(self) -> dict[str, Any]:
        """The cards, and what was played so far."""
        prefetch = [slider.value for slider in self.sliders.values()]
        dealt = {"messages": self._messages, "prefetch": prefetch, "wake_up": self._wake_up}
        return {**dealt, "moves": self.table.moves}

    def _settle(self, content: dict[str, Any]) -> None:
        consumer, label = content["message"]
        self.do(lambda: self.table.settle(str(consumer), str(content["verdict"]), str(label)))

    def _handles(self) -> dict[str, widgets.IntSlider]:
        return {f"prefetch-{name}": slider for name, slider in self.sliders.items()}

    def _deal(self, _: object) -> None:
        prefetch = [slider.value for slider in self.sliders.values()]
        self.table = GroupTable(self._messages, prefetch, wake_up=self._wake_up)
        self._show()

    def do(self, action: Any) -> None:
        """Do something at the table and show it; a refusal is shown in the lab."""
        try:
            action()
        except (AmqpException, ValueError) as error:
            self.scene.refusal = str(error)
            return
        self._show()

    def _show(self) -> None:
        self._number += 1
        self.scene.refusal = ""
        picture = group_picture(self.table)
        self.show(picture, self._number)
        self._go_to_the_end()
        self._refresh()

    def _go_to_the_end(self) -> None:
        # The reader has just done something: the picture goes to the instant after it.
        self.scene.place = {"time": self.first.run.end, "back": 0, "number": self._number}

    def _refresh(self) -> None:
        for row in self._rows.values():
            row.refresh()
        done = self.table.done
        first = max(0, len(done) - 6)
        items = "".join(f"<li>{html.escape(line)}</li>" for line in done[first:])
        self._log.value = f'<b>Done so far</b><ol start="{first + 1}">{items}</ol>'


class _Hand:
    """One consumer's row: which message, and what to do with it."""

    def __init__(self, name: str, lab: GroupLab) -> None:
        self.name, self.lab = name, lab
        self.choice = widgets.Dropdown(description=name, layout={"width": "230px"})
        self.choice.add_class(f"qf-hand-{name}")
        self.buttons = []
        for verdict in VERDICTS:
            button = _button(verdict, _TIPS[verdict], f"qf-{verdict}-{name}")
            button.on_click(lambda _, verdict=verdict: self._settle(verdict))
            self.buttons.append(button)
        self.box = widgets.Box([self.choice, *self.buttons]).add_class("qf-buttons")

    def _settle(self, verdict: str) -> None:
        label = self.choice.value or ""
        self.lab.do(lambda: self.lab.table.settle(self.name, verdict, label))

    def refresh(self) -> None:
        held = self.lab.table.holds(self.name)
        self.choice.options = held or [("holds nothing", "")]
        self.choice.value = held[0] if held else ""
        for button in (self.choice, *self.buttons):
            button.disabled = not held


def _button(text: str, tooltip: str, name: str) -> widgets.Button:
    return widgets.Button(description=text, tooltip=tooltip, layout={"width": "auto"}).add_class(name)


def group_lab(
    *,
    messages: str = MESSAGES,
    prefetch: Sequence[int] = (1, 2, 3),
    wake_up: str = "faithful",
    moves: Sequence[Sequence[str]] = (),
) -> GroupLab:
    """Open the group lab: be the consumers of a queue with message groups.

    Parameters
    ----------
    messages
        One letter a message: its group.
    prefetch
        For each consumer, the most messages it may hold.
    wake_up
        Whether freeing a group wakes idle consumers; ``faithful`` as in the real broker (MG-13).
    moves
        What is done at once, such as ``[("accept", "p1-1", "c1"), ("send", "C")]``; a token brings them.

    Returns
    -------
    GroupLab
        A widget; without widgets, use :func:`qflow.labs.group_run`.

    Examples
    --------
    >>> lab = group_lab(messages="AAB", prefetch=(1, 1))
    >>> lab.do(lambda: lab.table.settle("c1", "accept"))
    >>> print(lab.claims[0])
    Group A was owned by c1 (twice).
    """
    return GroupLab(messages, prefetch, wake_up, moves)
