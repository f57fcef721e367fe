"""Faults: a sender's losses, repeats and disorder when its connection or its queue does not last.

The program sends to a queue that stops nobody, beside a server in which one thing goes wrong.  It strikes at
an instant that is counted: when the broker has taken a number of messages, the outcome of the last and of
those that came in the same read not yet told.

========== =====================================================================================
cut        the connection is reset, when a third is taken, and again when two thirds are
half open  nothing is read or written any more, for three seconds; then it is reset
slow       the broker reads 200 bytes at a time, a hundred times a second, for two seconds
refused    the connection is reset, and for a second none is taken
recreated  the queue is deleted, and made again at once
========== =====================================================================================

Nothing is kept of a connection that is lost.  A message without an outcome may be on the queue or not, so a
client has the choice: not to send it again, and lose what was on its way, or to send it again, and put
some on the queue twice.  The ledger tells both, by the messages' identities
(:mod:`qflow.live.message_ledger`); messages of a deleted queue count as having come onto it.

A program that has several connections loses one.  It is back when a connection that is newer than the fault
brings a message, or the same one does where the fault leaves it; its other connections say nothing about
that, nor do those that it had not opened yet.  It opens as many as it had at a time undisturbed; and while
messages are missing that came with the lost one undisturbed, one that brings others is no return of it.

Each strikes in the middle of a read: the rest of that read is dropped, and its outcomes are never told.  So
of a message that never reached the broker nobody here knows whether it was not sent, or was lost with the
connection; where the fault leaves the connection, it was not sent.
"""

from __future__ import annotations

import socket
import struct
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from shlex import quote
from time import monotonic, sleep
from typing import Any

from qflow.configuration.notations import read_any
from qflow.kit import RefusalError
from qflow.live.certificates import server_context
from qflow.live.client_card import Conditions, name_end
from qflow.live.client_check import start_program
from qflow.live.message_ledger import Expected, MessageLedger
from qflow.live.peer import Peer, SeenTransfer
from qflow.live.server import READ_SIZE, Server
from qflow.live.serving import Serving
from qflow.progress import Progress
from qflow.table import Table

_LOOK = 0.02

_SILENCE, _SLOW, _REFUSED = 3.0, 2.0, 1.0
_SLOW_READ, _SLOW_PAUSE = 200, 0.01
_KEEPING = ("slow", "recreated")
"""The faults that end no connection."""


@dataclass(frozen=True)
class Ledger:
    """The fate of a program's messages under one fault.

    Parameters:
        messages: Messages that it has to send.
        stored: Transfers that came onto the queue.
        missing: Messages of which none did.
        unseen: Those of them that never reached the broker: not sent, or lost with their connection.
        duplicated: Transfers of messages that had come before.
        out_of_order: Messages that came first after one that follows them on their link; None if that
            cannot be told.
        strikes: Messages on the queue when the fault struck.
        back: Seconds from each strike until the program was back; None if it was not.
        status: The program's exit status; None if the bench ended it.
        waited: Seconds after which the bench ended it.
        is_whole: Whether it had ended undisturbed; else nobody knows what it has to send, and only what it
            sent with the fault is counted.
        diverted: Messages that it sent to another node instead; they are not missing.
        varies: Whether it settles its own messages and sends another number each time, as it closes before
            all is written; then nothing is unseen that a slow broker could have seen.

    >>> ledger = Ledger("cut", 300, 310, 0, 0, 10, 0, (100, 200), (0.1, 0.1), 0, "")
    >>> ledger.lost, str(ledger)
    (0, 'nothing lost, 10 duplicated; back after 0.1 s, 0.1 s')
    """

    fault: str
    messages: int
    stored: int
    missing: int
    unseen: int
    duplicated: int
    out_of_order: int | None
    strikes: tuple[int, ...]
    back: tuple[float | None, ...]
    status: int | None
    output: str
    waited: float = 0.0
    is_whole: bool = True
    diverted: int = 0
    varies: bool = False

    @property
    def lost(self) -> int:
        """The messages that the broker saw and did not keep, if the program reports no failure."""
        return self.missing - self.unseen if self.status == 0 else 0

    def as_json(self) -> dict[str, Any]:
        """Return the ledger as plain values, with the derived ones."""
        return {**asdict(self), "lost": self.lost}

    @property
    def _never(self) -> str:
        return "never" if self.status is not None else f"not within {self.waited:g} s"

    def __str__(self) -> str:
        refused, of = self.missing - self.unseen, f"of {self.messages:,}"
        # Who fails says so, and who is still there may send it again.
        word = "lost" if self.status == 0 else "sent, and not on the queue"
        parts = [f"{refused:,} {of} {word}"] if refused else []
        if self.unseen:
            # A connection that the fault ends takes with it what was on its way.
            doubt = "" if self.fault in _KEEPING else ", or lost with the connection"
            parts.append(f"{self.unseen:,} {of} not sent{doubt}")
        if self.status is None and parts:
            parts[-1] += f", when the bench ended it after {self.waited:g} s"
        elif self.status:
            parts.insert(0, f"ends with status {self.status}")
        parts = parts or ["nothing lost"]
        if self.diverted:
            parts.append(f"{self.diverted:,} sent to another node")
        if self.duplicated:
            parts.append(f"{self.duplicated:,} duplicated")
        if self.out_of_order:
            parts.append(f"{self.out_of_order:,} out of order")
        times = [self._never if seconds is None else f"after {seconds:.1f} s" for seconds in self.back]
        open_end = "" if self.is_whole else f"; undisturbed it had not ended within {self.waited:g} s"
        if self.varies:
            open_end += "; it sends another number in each run"
        return f"{', '.join(parts)}; back {', '.join(times).replace(', after', ',')}{open_end}"


def ledger_table(ledgers: Sequence[Ledger]) -> Table:
    """Return ledgers as a table."""
    names = ["fault", "messages", "on the queue", "missing", "never seen", "lost", "duplicated"]
    rows = []
    for one in ledgers:
        order = "not known" if one.out_of_order is None else one.out_of_order
        back = ", ".join(one._never if seconds is None else f"{seconds:.1f}" for seconds in one.back)
        counts = (one.messages, one.stored, one.missing, one.unseen, one.lost, one.duplicated, order)
        rows.append((one.fault, *counts, back, name_end(one.status)))
    return Table(rows, [*names, "out of order", "back after, s", "ended"])


def check_faults(
    command: Sequence[str],
    conditions: Conditions | None = None,
    *,
    traces: str | Path | None = None,
    progress: Progress = lambda done, total=None, case="": None,
) -> list[Ledger]:
    """Run a sender once without a fault and once with each; return a ledger of its messages for each.

    Parameters:
        command: As for :func:`~qflow.live.client_check.check_client`.
        conditions: ``messages``, ``queue``, ``timeout`` and ``certificate`` count here.
        traces: A folder for the engine's trace of each run, ``cut.jsonl`` and so on.
        progress: Called before each run with how many are done, and the fault that comes.

    Raises:
        RefusalError: If the program cannot be run, Proton is missing, or it sends too few messages where
            nothing goes wrong.
    """
    given = conditions or Conditions()
    # Without a run in which nothing goes wrong, a loss could not be told from a program that sends less.
    free = _run("free", command, given, (), None, traces)
    expected = free.ledger.expect(free.is_whole)
    if expected.total < len(FAULTS):
        raise RefusalError(
            f"the program sent {expected.total} messages to {given.queue!r} where nothing goes wrong, "
            "too few to judge"
        )
    third = expected.total // 3
    runs = []
    for done, fault in enumerate(FAULTS):
        progress(done, len(FAULTS), fault)
        strikes = (third, 2 * third) if fault == "cut" else (third,)
        runs.append(_run(fault, command, given, strikes, expected, traces, free.most_connected))
    varies = free.ledger.words["presettled"] == free.ledger.transfers and any(
        run.fault == "slow" and run.status == 0 and run.ledger.messages != expected.total for run in runs
    )
    return [_account(run, given, varies) for run in runs]


def _run(
    fault: str,
    command: Sequence[str],
    given: Conditions,
    strikes: tuple[int, ...],
    expected: Expected | None,
    traces: str | Path | None,
    connections: int = 1,
) -> _FaultyServer:
    """Run the program beside a faulty server until it has ended, is done, or its time is over."""
    server = _FaultyServer(fault, strikes, given, expected, connections)
    asked: float = given.messages if expected is None else expected.total
    if expected is not None and not expected.is_whole:
        asked = inf
    with Serving(server) as serving:
        with start_program(command, serving, given) as program:
            connected = is_over = False
            end = monotonic() + given.timeout
            # The time counts from the first connection: a slow start is not the fault's.
            while not is_over and monotonic() < end:
                sleep(_LOOK)
                with serving.lock:
                    ledger, has_peers = server.ledger, bool(server.peers())
                    # An outcome that is still withheld, or never told, is one the program waits for.
                    is_told = ledger.arrived >= asked and not ledger.unsettled
                    is_still = monotonic() - ledger.last >= given.still
                if has_peers and not connected:
                    connected, end = True, monotonic() + given.timeout
                # The last words of a program that has ended may still be in its socket.
                is_over = (program.status is not None and not has_peers) or (is_told and is_still)
            server.status, server.output, server.is_whole = program.status, program.output(), is_over
        if traces is not None:
            from qflow.trace.files import write_trace

            Path(traces).mkdir(parents=True, exist_ok=True)
            write_trace(serving.trace(fault), Path(traces) / f"{fault.replace(' ', '-')}.jsonl")
    return server


def _account(server: _FaultyServer, given: Conditions, varies: bool) -> Ledger:
    """Return the ledger of a finished run."""
    ledger, expected = server.ledger, server.ledger.expected
    assert expected is not None
    back = [strike.back and round(strike.back - strike.time, 3) for strike in server.struck]
    is_all = varies and server.fault == "slow" and server.status == 0
    total = expected.total if expected.is_whole and not is_all else ledger.messages
    diverted, unsent = ledger.count_diverted()
    return Ledger(
        server.fault,
        total,
        ledger.stored,
        max(0, total - ledger.arrived - diverted - unsent),
        max(0, total - ledger.messages - unsent),
        ledger.repeated,
        ledger.count_disorder(),
        server.strikes[: len(server.struck)],
        tuple(back),
        server.status,
        server.output,
        given.timeout,
        expected.is_whole,
        diverted + unsent,
        varies,
    )


# The server


# Seconds for which a fault lasts, once it has begun; its end comes after that.
_Course = Generator[float, None, None]


@dataclass
class _Strike:
    """A fault that has happened, and the time at which the program was back."""

    time: float
    # Connections that it did not touch, and how many of these were not there yet.
    others: set[Peer]
    awaited: int
    # The links of the undisturbed run whose messages the lost connection had brought.
    origins: set[int]
    back: float | None = None


class _ServedLedger(MessageLedger):
    """A ledger that reports to its server each message that reaches the queue."""

    def __init__(self, server: _FaultyServer, queue: str, expected: Expected | None) -> None:
        super().__init__(queue, expected)
        self._server = server

    def transferred(self, transfer: SeenTransfer, word: str) -> None:
        """Record a message; the fault may strike its connection now."""
        stored = self.stored
        super().transferred(transfer, word)
        if self.stored > stored:
            self._server.note_stored(transfer.sending.session.peer, self.origin(transfer.bare))

    def discharged(self, session: Any, ending: str) -> None:
        """Note the end of a transaction, whose messages come onto the queue together."""
        stored = self.stored
        super().discharged(session, ending)
        # A transaction without a message that was taken is no sign of life on the queue.
        if self.stored > stored:
            self._server.note_stored(session.peer, None)


class _FaultyServer(Server):
    """A server with a fault that strikes after a number of messages."""

    def __init__(
        self,
        fault: str,
        strikes: tuple[int, ...],
        given: Conditions,
        expected: Expected | None,
        connections: int,
    ) -> None:
        self._declared = read_any(f"{quote(given.queue)} --flow-stop-count=0 --flow-stop-size=0")
        super().__init__([self._declared], tls=server_context(given.certificate))
        self.fault, self.strikes, self.output = fault, strikes, ""
        self.ledger = _ServedLedger(self, given.queue, expected)
        self.observer = self.ledger
        self.struck: list[_Strike] = []
        self._origins: defaultdict[Peer, set[int]] = defaultdict(set)
        # Connections of the undisturbed run at a time, and of this one.
        self.connections, self.most_connected = connections, 0
        self.status: int | None = None
        # Whether the program had ended, or was done, before its time was over.
        self.is_whole = False
        # The fault, and when its end comes.
        self._course: _Course | None = None
        self._lasts_until = 0.0

    def note_stored(self, peer: Peer, origin: int | None) -> None:
        """Record that a message of a link of the undisturbed run has come, and strike if it is time to."""
        now, here = monotonic(), set(self._connected)
        if origin is not None:
            self._origins[peer].add(origin)
        self.most_connected = max(self.most_connected, len(here))
        for strike in self.struck:
            if strike.back is None and peer not in strike.others:
                if strike.awaited > 0:
                    strike.awaited -= 1
                    strike.others.add(peer)
                elif origin is None or origin in strike.origins or not self.ledger.awaits(strike.origins):
                    strike.back = now
        due = self.strikes[len(self.struck) :]
        if due and self.ledger.stored >= due[0]:
            # Those that are there now lose nothing, and say nothing about the one that does.
            lost = _Strike(now, here - {peer}, self.connections - len(here), set(self._origins[peer]))
            self.struck.append(lost)
            self._course = _COURSES[self.fault](self, peer)
            self._lasts_until = monotonic() + next(self._course)

    def turn(self, ready: Any) -> None:
        if self._course is not None and monotonic() >= self._lasts_until:
            course, self._course = self._course, None
            next(course, None)
        if self.read_size == _SLOW_READ:
            # The whole server sleeps, for all connections of the program.
            sleep(_SLOW_PAUSE)
        super().turn(ready)

    def close(self) -> None:
        if self._course is not None:
            self._course.close()
        super().close()

    def reset(self, peer: Peer) -> None:
        peer.end()
        _reset_at_close(peer.socket)
        self._drop(peer)

    # What happens, for how many seconds, and what is done then

    def cut(self, peer: Peer) -> _Course:
        self.reset(peer)
        yield 0.0

    # The socket is kept open by a second handle: closing it would tell the client.
    def fall_silent(self, peer: Peer) -> _Course:
        peer.end()
        kept = socket.socket(fileno=socket.dup(peer.socket.fileno()))
        self._drop(peer)
        try:
            yield _SILENCE
        finally:
            _reset_at_close(kept)
            kept.close()

    def slow_down(self, peer: Peer) -> _Course:
        self.read_size = _SLOW_READ
        yield _SLOW
        self.read_size = READ_SIZE

    # Nobody listens, so each attempt to connect is refused at once.
    def refuse_all(self, peer: Peer) -> _Course:
        self.reset(peer)
        self._selector.unregister(self._listener)
        self._listener.close()
        yield _REFUSED
        self._listener = self._listen_at(*self.address)

    def redeclare(self, peer: Peer) -> _Course:
        self.broker.management.delete("queue", self._declared.name)
        self.broker.management.create("queue", self._declared.name, self._declared.properties())
        yield 0.0


_COURSES: dict[str, Callable[[_FaultyServer, Peer], _Course]] = {
    "cut": _FaultyServer.cut,
    "half open": _FaultyServer.fall_silent,
    "slow": _FaultyServer.slow_down,
    "refused": _FaultyServer.refuse_all,
    "recreated": _FaultyServer.redeclare,
}
FAULTS = tuple(_COURSES)


def _reset_at_close(connected: socket.socket) -> None:
    # To linger for 0 seconds: the close drops what is unsent, and resets the connection.
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
