"""Conveyor: a queue as one line with its head in front, and what its consumers look at.

The frames of a run say where each message lies. What else a conveyor shows is read off the events here: each
*look* of a consumer, which passes a message over, takes one, or finds none; a sentence for every frame; and
the *race*: how many carts had an item removed before it was added.

A message is called by its group and its place in it. In the story of the shopping cart the odd ones add an
item and the even ones remove it again: ``A-3`` adds the second item of cart A, ``A-4`` removes it.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from qflow.broker.events import Event
from qflow.labs.frames import Frames, Spans
from qflow.labs.picture import Picture
from qflow.wording import format_count

_LOOKS = ("consumer", "stay", "kind", "start", "end")
"""A look: the consumer, from 1; the message's row among the stays, -1 for the end; what came of it."""

PASSED, TAKEN, NOTHING = range(3)


@dataclass(frozen=True, slots=True)
class Race:
    """How the carts of a run came off."""

    # Of each message that removes an item before it is added: the frame of its accept, and its row of stays.
    wrong: tuple[tuple[int, int], ...]
    # Each time another cart goes wrong: the frame, and how many carts are wrong then.
    carts: tuple[tuple[int, int], ...]
    # How many carts there are.
    of: int

    @property
    def count(self) -> int:
        """How many carts went wrong."""
        return len(self.carts)


class _Line:
    """One queue and its consumers, while the events of a run go by."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._index = {spot.link: number for number, spot in enumerate(frames.topology.consumers, 1)}
        self._names = {spot.link: spot.name for spot in frames.topology.consumers}
        self._stays = 0
        # By position: the row of the stay, the label, the group; and who has it.
        self._line: dict[int, tuple[int, str, str]] = {}
        self._holder: dict[int, str] = {}
        self._cursor: dict[str, int] = defaultdict(int)
        self._owned: set[str] = set()
        self._done: set[str] = set()
        self._bad: dict[str, None] = {}
        self._groups: set[str] = set()
        self.frame = 0
        self.looks: list[int] = []
        self.said: dict[int, list[str]] = defaultdict(list)
        self.turns: set[int] = set()
        self.wrong: list[tuple[int, int]] = []
        self.carts: list[tuple[int, int]] = []

    def follow(self, events: list[Event]) -> None:
        handlers = {name.removeprefix("_on_"): getattr(self, name) for name in dir(self) if "_on_" in name}
        for place, event in enumerate(events):
            handler = handlers.get(event.kind.rpartition(".")[2])
            if handler is not None:
                self.frame = self._frames.showing(place, event.time)
                handler(event)

    def _note(self, sentence: str, *, is_turn: bool = False) -> None:
        self.said[self.frame].append(sentence)
        if is_turn:
            self.turns.add(self.frame)

    def _on_subscribe(self, event: Event) -> None:
        if event.kind == "message.subscribe":
            self._note(f"{event.session} subscribes to {event.queue}.")

    def _on_enqueued(self, event: Event) -> None:
        position = _position(event)
        self._line[position] = self._stays, event.message, event.group
        self._groups.add(event.message.rpartition("-")[0])
        self._stays += 1
        self._note(f"{event.message} comes to {event.queue}.")

    def _on_group_owned(self, event: Event) -> None:
        self._owned.add(event.group)

    def _on_group_freed(self, event: Event) -> None:
        self._note(f"The lock of {event.group} opens.", is_turn=True)
        # Where more of the group waits, every consumer begins at the head again (MG-11).
        if any(group == event.group for _, _, group in self._line.values()):
            self._cursor.clear()

    def _on_acquired(self, event: Event) -> None:
        if event.link not in self._index:
            return
        position = _position(event)
        row, label, group = self._line[position]
        passed = self._pass_over(event.link, position)
        self._look(event.link, row, TAKEN)
        self._cursor[event.link], self._holder[position] = position, event.link
        name = self._names[event.link]
        over = f" passes over {format_count(passed, 'message')} of others, and" if passed else ""
        if is_first := group in self._owned:
            self._owned.discard(group)
        now = f": group {group} is {name}'s" if is_first else ""
        self._note(f"{name}{over} takes {label}{now}.", is_turn=is_first)

    def _on_idle(self, event: Event) -> None:
        if event.link in self._index:
            passed = self._pass_over(event.link, max(self._line, default=0) + 1)
            self._look(event.link, -1, NOTHING)
            self._cursor[event.link] = max(self._line, default=0)
            over = f" passes over {format_count(passed, 'message')} of others, and" if passed else ""
            self._note(f"{self._names[event.link]}{over} finds nothing to take.")

    def _on_dequeued(self, event: Event) -> None:
        row, label, _ = self._line.pop(_position(event))
        link, reason = self._holder.pop(_position(event), ""), (event.detail or {})["reason"]
        if reason not in ("accept", "reject") or not link:
            self._note(f"{label} leaves {event.queue}: {reason}.")
            return
        self._note(f"{self._names[link]} {reason}s {label}.")
        if reason == "accept":
            self._done.add(label)
            self._race(row, label)

    def _race(self, row: int, label: str) -> None:
        cart, _, number = label.rpartition("-")
        add = f"{cart}-{int(number) - 1}"
        if int(number) % 2 or add not in {label for _, label, _ in self._line.values()}:
            return
        self._note(f"{label} removes what {add} has not added yet: cart {cart} is wrong.", is_turn=True)
        self.wrong.append((self.frame, row))
        if cart not in self._bad:
            self._bad[cart] = None
            self.carts.append((self.frame, len(self._bad)))

    def _on_requeued(self, event: Event) -> None:
        position = _position(event)
        link = self._holder.pop(position, "")
        self._note(f"{self._names.get(link, 'The broker')} gives {event.message} back.", is_turn=True)
        for reader in self._cursor:
            self._cursor[reader] = min(self._cursor[reader], position - 1)

    def _pass_over(self, link: str, until: int) -> int:
        """Note the messages that wait between where a consumer looked last and where it looks now."""
        between = [at for at in sorted(self._line) if self._cursor[link] < at < until]
        waiting = [at for at in between if at not in self._holder]
        for at in waiting:
            self._look(link, self._line[at][0], PASSED)
        return len(waiting)

    def _look(self, link: str, row: int, kind: int) -> None:
        self.looks += [self._index[link], row, kind, self.frame, self.frame + 1]

    @property
    def race(self) -> Race:
        return Race(tuple(self.wrong), tuple(self.carts), len(self._groups))


def conveyor_of(picture: Picture, **settings: Any) -> tuple[Picture, Race]:
    """Return the picture of a run with one queue, to be drawn as a conveyor, and its race."""
    frames = picture.frames
    line = _Line(frames)
    line.follow(list(picture.run.events))
    looks = Spans(_LOOKS, [array("i", line.looks[column :: len(_LOOKS)]) for column in range(len(_LOOKS))])
    race = line.race
    drawing: Mapping[str, object] = {
        "form": "conveyor",
        "captions": [[frame, " ".join(said)] for frame, said in sorted(line.said.items())],
        "turns": sorted(line.turns),
        "wrong": race.wrong,
        "carts": race.carts,
        "of": race.of,
        "tried": -1,
        **settings,
    }
    return replace(
        picture, frames=replace(frames, lasting={**frames.lasting, "looks": looks}), drawing=drawing
    ), race


def _position(event: Event) -> int:
    return int(str((event.detail or {})["position"]))
