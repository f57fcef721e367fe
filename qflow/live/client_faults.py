"""Faults: a sender's losses, repetitions and disorder when its connection or its queue fails.

The program sends to a queue that stops nobody, beside a server with one fault.  The fault strikes after a
counted number of messages: when the broker has stored the last of them, but has not yet sent the outcomes
of the messages in that read.

========== =====================================================================================
cut        the connection is reset after a third of the messages, and again after two thirds
half open  nothing is read or written for three seconds; then the connection is reset
slow       the broker reads 200 bytes at a time, a hundred times a second, for two seconds
refused    the connection is reset, and for a second no new connection is accepted
recreated  the queue is deleted, and declared again at once
========== =====================================================================================

Nothing is kept of a lost connection.  A message without an outcome may or may not be on the queue, so a
client has a choice: not to send it again, and lose messages that were under way, or to send it again, and
put some on the queue twice.  The ledger shows both, by the messages' identities
(:mod:`qflow.live.message_ledger`); messages of a deleted queue count as having reached it.

A program with several connections loses one.  It is back when a connection that is newer than the fault
carries a message, or the same connection if the fault leaves it open.  Its other connections do not count,
nor do those that it had not opened yet when the fault struck: it opens as many at a time as in the
undisturbed run.  And while messages are missing that the lost connection carried in the undisturbed run, a
connection that carries others is no return.

Each fault strikes in the middle of a read: the rest of that read is dropped, and its outcomes are never
sent.  So if a message never reached the broker, it is unknown whether it was not sent, or was lost with the
connection; if the fault leaves the connection open, it was not sent.
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
"""The faults that leave the connection open."""


@dataclass(frozen=True)
class Ledger:
    """The fate of a program's messages under one fault.

    Parameters:
        fault: The name of the fault.
        messages: How many messages the program has to send.
        stored: How many transfers reached the queue.
        missing: How many messages never reached the queue.
        unseen: How many of the missing messages never reached the broker: not sent, or lost with their
            connection.
        duplicated: How many transfers repeated a message that had reached the queue before.
        out_of_order: How many messages first reached the queue after a later one of their link; None if
            unknown.
        strikes: The number of stored transfers at each strike of the fault.
        back: The seconds from each strike until the program was back; None if it never was.
        status: The program's exit status; None if the bench ended it.
        output: The program's last lines of output.
        waited: The seconds after which the bench ended the program.
        is_whole: Whether the undisturbed run was complete; otherwise it is unknown how many messages the
            program has to send, and only those sent in spite of the fault count.
        diverted: How many messages went to another node instead; they are not missing.
        varies: Whether the program sends its messages settled, and another number of them in each run, as it
            closes before everything is written. Beside a slow broker only the messages that it sent count
            then.

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
        """How many messages the broker received but did not keep, if the program reports no failure."""
        return self.missing - self.unseen if self.status == 0 else 0

    def as_json(self) -> dict[str, Any]:
        """Return the ledger as a JSON value, with the derived numbers."""
        return {**asdict(self), "lost": self.lost}

    @property
    def _never(self) -> str:
        return "never" if self.status is not None else f"not within {self.waited:g} s"

    def __str__(self) -> str:
        refused, of = self.missing - self.unseen, f"of {self.messages:,}"
        # A program that fails reports it, and one that is still running may resend them.
        word = "lost" if self.status == 0 else "sent, and not on the queue"
        parts = [f"{refused:,} {of} {word}"] if refused else []
        if self.unseen:
            # If the fault ends the connection, messages under way are lost with it.
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
    """Return a table of ledgers, one row for each fault."""
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
    """Run a sender once undisturbed and once with each fault; return a ledger for each fault.

    Parameters:
        command: The program, as for :func:`~qflow.live.client_check.check_client`.
        conditions: The conditions, of which ``messages``, ``queue``, ``still``, ``timeout`` and
            ``certificate`` are used; None for the defaults.
        traces: A folder for the engine's trace of each run, ``cut.jsonl`` and so on; None for no traces.
        progress: A function that is called before each run with the number of finished runs, their total,
            and the fault.

    Raises:
        RefusalError: If the program cannot be run, Proton is missing, or the undisturbed program sends too
            few messages.
    """
    given = conditions or Conditions()
    # The undisturbed run distinguishes a loss from a program that sends fewer messages.
    free = _run("free", command, given, (), None, traces)
    expected = free.ledger.expect(free.is_whole)
    if expected.total < len(FAULTS):
        raise RefusalError(
            f"the program sent {expected.total} messages to {given.queue!r} without a fault, "
            f"and must send at least {len(FAULTS)}"
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
    """Run the program beside a server with a fault, until it has ended, is done, or its time is over."""
    server = _FaultyServer(fault, strikes, given, expected, connections)
    asked: float = given.messages if expected is None else expected.total
    if expected is not None and not expected.is_whole:
        asked = inf
    with Serving(server) as serving:
        with start_program(command, serving, given) as program:
            connected = is_over = False
            end = monotonic() + given.timeout
            # The time counts from the first connection, as a slow start has nothing to do with the fault.
            while not is_over and monotonic() < end:
                sleep(_LOOK)
                with serving.lock:
                    ledger, has_peers = server.ledger, bool(server.peers())
                    # The program may still wait for an outcome that is withheld or never sent.
                    is_told = ledger.arrived >= asked and not ledger.unsettled
                    is_still = monotonic() - ledger.last >= given.still
                if has_peers and not connected:
                    connected, end = True, monotonic() + given.timeout
                # The last bytes of a program that has ended may still be in its socket.
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


# A generator that begins a fault, yields the seconds for which it lasts, and then ends it.
_Course = Generator[float, None, None]


@dataclass
class _Strike:
    """A strike of the fault, and the time at which the program was back."""

    time: float
    # The other connections, which do not count as a return, and how many of them are not open yet.
    others: set[Peer]
    awaited: int
    # The links of the undisturbed run whose messages the lost connection carried.
    origins: set[int]
    back: float | None = None


class _ServedLedger(MessageLedger):
    """A ledger that notifies its server of each message that reaches the queue."""

    def __init__(self, server: _FaultyServer, queue: str, expected: Expected | None) -> None:
        super().__init__(queue, expected)
        self._server = server

    def transferred(self, transfer: SeenTransfer, word: str) -> None:
        """Record a message, after which the fault may strike its connection."""
        stored = self.stored
        super().transferred(transfer, word)
        if self.stored > stored:
            self._server.note_stored(transfer.sending.session.peer, self.origin(transfer.bare))

    def discharged(self, session: Any, ending: str) -> None:
        """Record the end of a transaction, whose messages reach the queue together."""
        stored = self.stored
        super().discharged(session, ending)
        # A transaction that stores no message does not show that the program is back.
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
        # The most connections at a time in the undisturbed run, and in this one.
        self.connections, self.most_connected = connections, 0
        self.status: int | None = None
        # Whether the program had ended or was done before its time was over.
        self.is_whole = False
        # The present fault, and the time at which it ends.
        self._course: _Course | None = None
        self._lasts_until = 0.0

    def note_stored(self, peer: Peer, origin: int | None) -> None:
        """Record a message that reached the queue and its undisturbed link; strike if it is time."""
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
            # The connections open now are not affected, and do not show that the lost one is back.
            lost = _Strike(now, here - {peer}, self.connections - len(here), set(self._origins[peer]))
            self.struck.append(lost)
            self._course = _COURSES[self.fault](self, peer)
            self._lasts_until = monotonic() + next(self._course)

    def turn(self, ready: Any) -> None:
        if self._course is not None and monotonic() >= self._lasts_until:
            course, self._course = self._course, None
            next(course, None)
        if self.read_size == _SLOW_READ:
            # The whole server sleeps, which slows all connections of the program.
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

    # The faults: begin, duration in seconds, end

    def cut(self, peer: Peer) -> _Course:
        self.reset(peer)
        yield 0.0

    # A second handle keeps the socket open, as a close would notify the client.
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

    # The listener is closed, so each attempt to connect is refused at once.
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
    # Lingering for 0 seconds makes the close drop unsent bytes and reset the connection.
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
