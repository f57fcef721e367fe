"""The completion experiment: the commands of one session on a numbered strip, with their completion states.

It is chapter 3 in one picture. A producer's commands are numbered. Some are complete and some are held, so
the set of complete numbers may have gaps; a sync is complete only when all commands before it are.
:class:`SessionTable` is a session of the engine with two queues: flow control of ``busy`` turns ON, and
``idle`` has none. :func:`completion_run` performs a list of moves on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

from qflow.broker.broker import Broker
from qflow.broker.completions import RangeSet
from qflow.broker.consuming import BYTE_UNIT, INFINITE, MESSAGE_UNIT, DeliveryRecord
from qflow.broker.events import Event
from qflow.broker.message import Message
from qflow.labs.fold import fold
from qflow.labs.frames import NEVER, Frames
from qflow.labs.group import PAUSE
from qflow.labs.picture import Narration, Picture, picture_of
from qflow.labs.topology import Topology
from qflow.workload import Consumer, Producer, Run, Workload

QUEUES = ("busy", "idle")
MOVES = ("busy", "idle", "sync", "flush", "take", "purge")
STORY = (
    *(("busy",), ("busy",), ("busy",), ("idle",), ("busy",), ("idle",), ("flush",), ("sync",)),
    *(("idle",), ("take", "p1-2"), ("flush",)),
)
"""Moves that show held transfers, a gap, a waiting sync, and a transfer completed as its message leaves."""

MOST = 16
"""The most commands that the strip has room for."""

_OWN_STEPS = frozenset({"execution.sync", "session.flush"})


class SessionTable:
    """A producer's session, two queues, and a consumer, which act only when the learner makes a move."""

    def __init__(self, moves: Iterable[Sequence[str]] = (), *, stop: int = 2) -> None:
        self.broker = Broker()
        self.stop = stop
        self.moves: list[tuple[str, ...]] = []
        self._events: list[Event] = []
        self._known: dict[int, tuple[str, str]] = {}
        self._browsed: dict[str, DeliveryRecord] = {}
        self.broker.observe(self._events.append)
        self.arguments = {
            "busy": {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": 1},
            "idle": {"qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0},
        }
        self._admin = self.broker.session("admin")
        for queue, arguments in self.arguments.items():
            self._admin.queue_declare(queue, arguments)
        self.session = self.broker.session("p1")
        self._reader = self.broker.session("c1")
        self._reader.consuming.on_delivery = lambda record: self._browsed.update({record.label: record})
        for queue in QUEUES:
            # The subscription browses, so that a message leaves its queue only when the learner takes it.
            self._reader.message_subscribe(queue, f"c1-{queue}", acquire_mode=1)
            self._reader.message_flow(f"c1-{queue}", BYTE_UNIT, INFINITE)
            self._reader.message_flow(f"c1-{queue}", MESSAGE_UNIT, INFINITE)
        for move in moves:
            self.do(*move)

    def do(self, what: str, name: str = "") -> None:
        """Make one of :data:`MOVES`; raise ValueError if the move, message or queue does not exist."""
        if what not in MOVES:
            raise ValueError(f"a move must be one of {', '.join(MOVES)}; got {what!r}")
        number = self.session.completions.next_number
        if what in (*QUEUES, "sync") and number >= MOST:
            raise ValueError(f"the strip has room for {MOST} commands: start again")
        if what in QUEUES and name not in ("", "sync"):
            raise ValueError(f"the option of a message must be 'sync' or ''; got {name!r}")
        if what == "take" and name not in (waiting := self.waiting()):
            raise ValueError(f"{name!r} is not on a queue; there are {', '.join(waiting) or 'none'}")
        if what == "purge" and name not in QUEUES:
            raise ValueError(f"there is no queue {name!r}; there are {', '.join(QUEUES)}")
        self.broker.advance(self.broker.now + PAUSE)
        if what in QUEUES:
            label = f"p1-{number}"
            self._known[number] = (what, label)
            message = Message(100, routing_key=what, label=label)
            self.session.message_transfer(message, sync=bool(name))
        elif what == "sync":
            self._known[number] = ("sync", "")
            self.session.execution_sync()
        elif what == "flush":
            self.session.session_flush()
        elif what == "take":
            record = self._browsed[name]
            self._reader.message_acquire((record.id,))
            self._reader.message_accept((record.id,))
        else:
            self._admin.queue_purge(name)
        self.moves.append((what, name) if name else (what,))

    def fork(self, time: int, queue: str) -> SessionTable:
        """Return a table with the same moves, as far as they are possible, and one more purge at a time."""
        before = time // PAUSE
        # Each move takes one pause, so the time gives the number of moves before it.
        table = SessionTable([*self.moves[:before], ("purge", queue)], stop=self.stop)
        for move in self.moves[before:]:
            # A purged message cannot be taken any more; all other moves are still possible.
            if move[0] != "take" or move[1] in table.waiting():
                table.do(*move)
        return table

    def waiting(self) -> list[str]:
        """Return the labels of the messages on both queues."""
        return [message.transfer.label for queue in QUEUES for message in self.broker.queue(queue).store]

    def picture(self) -> Picture:
        """Return the picture of the moves made until now."""
        sent = max(1, len(self._known))
        workload = Workload(
            "a session by hand",
            duration=3_600,
            queues=self.arguments,
            producers=(Producer("p1", ("", "busy"), rate=1, capacity=sent, size=100),),
            consumers=(Consumer("c1", "busy", prefetch=1, service=("const", 1.0)),),
        )
        run = Run(workload, list(self._events), self.broker.now)
        # A sync or a flush changes no number of a frame: it needs a step of its own in order to be shown.
        frames = fold(run, Topology.of(workload, run.end), _OWN_STEPS)
        picture = picture_of(run, frames=frames)
        strip = _Strip(frames, self._known)
        strip.follow(run.events)
        drawing = {
            **strip.drawing("strip"),
            "commands": [list(astuple(command)) for _, command in sorted(strip.commands.items())],
            "complete": strip.complete,
            "reports": strip.reports,
            "beat": 0.9,
            "most": MOST,
        }
        return replace(picture, drawing=drawing, claims=self._claims(strip))

    def _claims(self, strip: _Strip) -> tuple[str, ...]:
        completions, complete = self.session.completions, self.session.completed
        said = [f"Complete are the commands {complete or 'none'} of {len(self._known)} (CM-04)."]
        if held := ", ".join(str(transfer.number) for transfer in self.session.held):
            said.append(f"Held by busy: {held}. The messages are on the queue (CM-01).")
        for number, (kind, _) in self._known.items():
            if kind == "sync" and number not in complete:
                said.append(f"The sync with number {number} waits for all before it (CM-06).")
        reported = strip.reports[-1][1] if strip.reports else "none"
        said.append(f"The last report to the client names {reported} (CM-05).")
        unreported = RangeSet()
        for number in self._known:
            if number in complete and number not in completions.reported:
                unreported.add(number)
        # The broker reports completions only when a command that asked for it is complete.
        if len(unreported) and not any(map(completions.is_awaited, completions.incomplete)):
            outstanding = len(self._known) - completions.reported.front
            said.append(
                f"Complete and not reported: {unreported}, and nobody has asked."
                f" The client counts {outstanding} as outstanding (CM-14)."
            )
        return tuple(said)


@dataclass
class _Command:
    """A command on the strip, with the frames in which it was sent, was held and became complete."""

    number: int
    kind: str
    sent: int
    held: int = NEVER
    complete: int = NEVER


class _Strip(Narration):
    """The narration of a session: the states of each command, and a sentence for each event."""

    def __init__(self, frames: Frames, known: dict[int, tuple[str, str]]) -> None:
        super().__init__(frames)
        self._known = known
        self.commands: dict[int, _Command] = {}
        self.complete: list[list[object]] = []
        self.reports: list[list[object]] = []
        self._done = RangeSet()

    def receive(self, event: Event) -> None:
        """Record the effect of one event on the commands of the producer ``p1``."""
        detail: Any = event.detail or {}
        match event.kind:
            case "message.transfer":
                self._begin(detail["command"], ", and asks for a report" * bool(detail["sync"]))
            case "execution.sync":
                self._begin(self._next_sync())
            case "session.flush":
                self.note("session.flush asks for the completed commands.")
            case "held":
                number = detail["command"]
                self.commands[number].held = self.frame
                self.note(f"Completion {number} is held.", is_turn=True)
            case "completed" if event.session == "p1":
                self._complete(detail["command"])
            case "reported" if event.session == "p1":
                self.reports.append([self.frame, detail["completed"]])
                self.note(f"session.completed names {detail['completed']}.", is_turn=True)
            case "flow_stopped" | "flow_resumed":
                state = "ON" if event.kind == "flow_stopped" else "OFF"
                self.note(f"{event.queue} turns {state}.", is_turn=True)
            case "acquired":
                self.note(f"c1 takes {event.message}.")
            case "dequeued":
                how = {"accept": "c1 accepts", "purge": "A purge removes"}[detail["reason"]]
                self.note(f"{how} {event.message}, which leaves {event.queue}.")

    def _next_sync(self) -> int:
        # The event of a sync has no command number; but syncs arrive in the order of their numbers.
        syncs = (number for number, (kind, _) in self._known.items() if kind == "sync")
        return next(number for number in syncs if number not in self.commands)

    def _begin(self, number: int, request: str = "") -> None:
        kind, label = self._known[number]
        self.commands[number] = _Command(number, kind, self.frame)
        asks = "execution.sync asks for a report when all before it are complete"
        what = f"{label} goes to {kind}{request}" if label else asks
        self.note(f"Command {number}: {what}.", is_turn=not label)

    def _complete(self, number: int) -> None:
        self.commands[number].complete = self.frame
        self._done.add(number)
        self.complete.append([self.frame, str(self._done)])
        kind, _ = self._known[number]
        was_held = self.commands[number].held != NEVER
        if kind == "sync":
            self.note(f"All before {number} are complete: the sync is answered.", is_turn=True)
        else:
            self.note(f"{number} is complete{' after all' if was_held else ''}.", is_turn=was_held)


def completion_run(*, moves: Iterable[Sequence[str]] = STORY, stop: int = 2) -> Picture:
    """Make a list of moves in a producer's session, and return the picture of the session.

    Parameters:
        moves: The moves, in order: ``("busy",)`` or ``("idle",)`` sends a message to that queue, and with
            "sync" as a second item asks for a report; ``("sync",)``, ``("flush",)``, ``("take", "p1-2")`` for
            a message that the consumer takes, and ``("purge", "busy")`` for a queue.
        stop: The stop threshold of the queue ``busy``, in messages.

    Returns:
        The picture; its claims name the commands that are complete, those that are held, and the waiting
        syncs.

    Raises:
        ValueError: If a move is not possible.

    >>> print(completion_run())
    Complete are the commands 0-3 5 7 of 8 (CM-04).
    ...
    """
    return SessionTable(moves, stop=stop).picture()
