"""Instants: the broker at one row of a trace, and access to the rows before and after that row.

All explanations read the trace and the broker through an :class:`Instant`.  "Now" is the end of the command
that the row belongs to, as the engine runs each command to quiescence.  Sentences about earlier rows are in
the past tense, and sentences about later rows in the present tense.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from qflow.broker.broker import Broker
from qflow.broker.consuming import Subscription
from qflow.broker.events import COMMANDS
from qflow.broker.message import QueuedMessage
from qflow.broker.queue import Queue
from qflow.broker.session import Session
from qflow.trace.explain.chain import seconds
from qflow.trace.schema import Trace, decode_detail
from qflow.trace.timeline import Checkpoint, RowIndex
from qflow.wording import format_names
from qflow.workload.model import Producer, Senders
from qflow.workload.simulate import CLIENT_EVENTS

ACTS = {
    "session.attach": ("attached", "attaches", ""),
    "session.detach": ("ended", "ends", " its session"),
    "session.completed": ("completed", "completes", " deliveries"),
    "message.transfer": ("sent", "sends", " {message}"),
    "message.subscribe": ("subscribed", "subscribes", " as {link}"),
    "message.cancel": ("cancelled", "cancels", " {link}"),
    "message.flow": ("granted", "grants", " credit to {link}"),
    "message.stop": ("took", "takes", " the credit of {link} away"),
    "message.flush": ("flushed", "flushes", " {link}"),
    "message.accept": ("accepted", "accepts", " {settled}"),
    "message.release": ("released", "releases", " {settled}"),
    "message.reject": ("rejected", "rejects", " {settled}"),
    "message.modify": ("modified", "modifies", " {settled}"),
    "link.attach": ("attached", "attaches", " a link"),
    "link.detach": ("detached", "detaches", " a link"),
    "message.acquire": ("acquired", "acquires", " its browsed messages"),
    "queue.declare": ("declared", "declares", " {queue}"),
    "queue.delete": ("deleted", "deletes", " {queue}"),
    "queue.purge": ("purged", "purges", " {queue}"),
    "tx.commit": ("committed", "commits", " its transaction"),
    "tx.rollback": ("rolled back", "rolls back", " its transaction"),
}
"""By kind of command: the verb in the past and in the present tense, and the rest of the sentence."""


def name_consumer(session: str, tag: str) -> str:
    """Return a subscription's name: the session's name, followed by ``/`` and the tag if the tag differs."""
    return session if session == tag else f"{session}/{tag}"


class Instant:
    """One instant of a trace: the broker in its state, and the trace's rows around it."""

    def __init__(self, trace: Trace, index: RowIndex, broker: Broker, row: int) -> None:
        self.trace, self.index, self.broker, self.row = trace, index, broker, row
        # The last row of the command: the broker is in the state after it.
        self.end = self.end_of(row)

    # Rows

    def last(self, kind: str, column: str, name: str, until: int | None = None, **also: str) -> int | None:
        """Return the index of the last row of a kind with the given names in columns up to now, or None."""
        until = self.end if until is None else until
        if not also:
            return self.index.last(kind, column, name, until)
        # The index covers a single column; further columns are checked row by row, backwards from now.
        rows = reversed(self.index.rows(kind, column, name))
        return next((row for row in rows if row <= until and self._holds(row, also)), None)

    def next(self, kind: str, column: str, name: str, **also: str) -> int | None:
        """Return the index of the first such row after now (see :meth:`last`), or None."""
        if not also:
            return self.index.next(kind, column, name, self.end)
        rows = self.index.rows(kind, column, name)
        return next((row for row in rows if row > self.end and self._holds(row, also)), None)

    def began(self, kind: str, ending: str, column: str, name: str, until: int | None = None) -> int | None:
        """Return the index of the last row of a kind, or None if a row of the kind `ending` followed it."""
        begun, ended = self.last(kind, column, name, until), self.last(ending, column, name, until)
        return begun if begun is not None and (ended is None or ended < begun) else None

    def _holds(self, row: int, columns: Mapping[str, str]) -> bool:
        return all(getattr(self.trace, column)[row] == name for column, name in columns.items())

    def about(self, label: str, kind: str, queue: str = "", after: int = -1) -> list[int]:
        """Return the indices of a message's rows of a kind, after a row and up to now."""
        rows = self.index.of_message(label)
        return [row for row in rows if after < row <= self.end and self._is(row, kind, queue)]

    def later_about(self, label: str, kind: str, queue: str = "") -> int | None:
        """Return the index of a message's first row of a kind after now, or None."""
        rows = self.index.of_message(label)
        return next((row for row in rows if row > self.end and self._is(row, kind, queue)), None)

    def _is(self, row: int, kind: str, queue: str) -> bool:
        return self.trace.kind[row] == kind and queue in ("", self.trace.queue[row])

    def detail(self, row: int) -> dict[str, Any]:
        """Return the decoded detail of a row."""
        text = self.trace.detail[row]
        return decode_detail(text) if text else {}

    def when(self, row: int | None, words: str = "{}") -> str:
        """Return a row's time inserted into a phrase, or "" if the row is None."""
        return "" if row is None else words.format(seconds(self.trace.time[row]))

    @property
    def trace_end(self) -> str:
        """The time of the trace's last row, as text."""
        return self.when(len(self.trace) - 1)

    def begins(self, row: int) -> bool:
        """Return whether a row is a command or a client event, and not an effect."""
        kind = self.trace.kind[row]
        return kind in COMMANDS or kind in CLIENT_EVENTS

    def end_of(self, row: int) -> int:
        """Return the index of the last row before the next command or client event."""
        # Effects do not name their command. All rows up to the next command are effects of the one before, as
        # the engine runs each command to quiescence before it performs another.
        while row + 1 < len(self.trace) and not self.begins(row + 1):
            row += 1
        return row

    def command_of(self, row: int) -> int:
        """Return the index of the command that caused a row."""
        while row and self.trace.kind[row] not in COMMANDS:
            row -= 1
        return row

    def cause(self, row: int) -> str:
        """Return in words the command that caused a row, in the present tense if it comes after now."""
        command, is_past = self.command_of(row), row <= self.end
        for place in range(row, command, -1):
            # The nearest cause is named: a command may end a session, and that end has effects too (LP-06).
            if self.trace.kind[place] == "exception" and place != row:
                return f"the session of {self.trace.session[place]} {'died' if is_past else 'dies'}"
        kind, session = self.trace.kind[command], self.trace.session[command]
        if kind == "management":
            method = self.detail(command).get("method")
            return f"management {'called' if is_past else 'calls'} {method}"
        if kind == "advance":
            return f"time {'passed' if is_past else 'passes'}"
        if kind == "store.finish":
            return f"the store {'was' if is_past else 'is'} done with {self.trace.message[command]}"
        past, present, rest = ACTS.get(kind, ("gave", "gives", f" {kind}"))
        names = {name: getattr(self.trace, name)[command] for name in ("message", "link", "queue")}
        words = rest.format(settled=self._name_settled(command), **names)
        return f"{session} {past if is_past else present}{words}"

    def moment(self, row: int) -> str:
        """Return in words a row's time and the command that caused it."""
        return f"{self.when(row)}, when {self.cause(row)}"

    def label(self, row: int) -> str:
        """Return the label of a row's message."""
        return self.trace.message[row]

    def _name_settled(self, command: int) -> str:
        """Return the labels of the messages that a command settled, as text."""
        # From the effects and not from the arguments: some of the delivery numbers in the arguments may be of
        # messages that a ring or a purge had removed already.
        rows = range(command + 1, self.end_of(command) + 1)
        kinds = ("dequeued", "requeued")
        return format_names([self.trace.message[r] for r in rows if self.trace.kind[r] in kinds]) or "nothing"

    # The broker

    def queue(self, name: str) -> Queue | None:
        """Return the queue with a name, or None if it does not exist now."""
        return self.broker.queues.queues.get(name)

    def session(self, name: str) -> Session | None:
        """Return the session with a name, attached or ended, or None if it has not been attached yet."""
        return self.broker.sessions.get(name)

    def subscriptions(self) -> Iterator[tuple[Session, Subscription]]:
        """Yield all subscriptions that exist now, each after its session."""
        for session in self.broker.sessions.values():
            for subscription in session.consuming.subscriptions.values():
                yield session, subscription

    def is_subscribed(self, owner: str) -> bool:
        """Return whether a subscription with an owner's name ``session::tag`` exists now (MG-15)."""
        # Groups are owned by a name: a new subscription with the same session and tag owns its predecessor's
        # groups (MG-15).
        return any(subscription.owner == owner for _, subscription in self.subscriptions())

    def show(self, owner: str) -> str:
        """Return the short form of an owner's name ``session::tag``; see :func:`name_consumer`."""
        session, found, tag = owner.partition("::")
        return name_consumer(session, tag if found else session)

    @property
    def producers(self) -> Sequence[Producer]:
        """The producers of the trace's workload; empty if the trace has no workload."""
        return self.trace.workload.producers if self.trace.workload is not None else ()

    @cached_property
    def senders(self) -> Senders:
        """The sessions and messages of the workload's producers."""
        return Senders(self.producers)

    def sender(self, session: str, label: str) -> str:
        """Return the name of the producer that sent a message, or the session's name if it is unknown."""
        return self.senders.of(session, label) or session

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(self.broker)

    def twin(self) -> Broker:
        """Return a copy of the broker, for experiments."""
        return self._checkpoint.restore()

    def find_queued(self, queue: Queue, label: str) -> QueuedMessage | None:
        """Return the newest message on a queue with a label, or None."""
        # A queue may have two messages with one label, and a position may belong to another message by now.
        for row in reversed(self.about(label, "enqueued", queue.name)):
            message = queue.store.find(self.detail(row)["position"])
            if message is not None and message.transfer.label == label:
                return message
        return None


REASONS: dict[str, tuple[tuple[str, ...], str]] = {
    "accept": (("CN-13",), ""),
    "accept-none": (("CN-11",), "the subscription needs no accept"),
    "reject": (("CN-16",), ""),
    "ring": (("LP-10",), "a ring drops its oldest message to make room"),
    "lvq": (("QT-01",), "a newer message of the same value replaces it"),
    "ttl": (("QT-07", "MG-21"), "its time to live is over"),
    "purge": (("QT-22", "FC-20"), ""),
    "move": (("QT-23",), ""),
    "reroute": (("QT-23",), ""),
    "queue-deleted": (("QT-24", "FC-21"), "it goes with its queue"),
}
"""By the reason in a ``dequeued`` row: the rules by which the message left, and the end of a sentence."""
