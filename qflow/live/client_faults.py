"""Faults: what a sender loses, repeats and mixes up when its connection or its queue does not last.

The program sends to a queue that stops nobody, beside a server in which one thing goes wrong.  It strikes at
an instant that is counted: when the broker has taken so many messages, the outcome of the last of them and of
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
some on the queue twice.  The ledger counts both.  It compares what came with what the program sends where
nothing goes wrong: by the messages' bodies if no two are alike, otherwise by all that the program gave them;
where that differs from run to run, it can only count.  What went with a deleted queue had come onto it.

Each strikes in the middle of a read: what came with the message that it waits for is not taken any more, and
the outcomes of that read are never told.
"""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import accumulate
from math import inf
from pathlib import Path
from shlex import quote
from time import monotonic, sleep
from typing import Any

from proton import Message, ProtonException

from qflow.configuration.notations import read_any
from qflow.kit import RefusalError
from qflow.live.certificates import server_context
from qflow.live.client_card import Conditions, name_end
from qflow.live.client_check import start_program
from qflow.live.peer import Peer
from qflow.live.server import READ_SIZE, Server
from qflow.live.serving import Serving
from qflow.progress import Progress
from qflow.table import Table

_PATIENCE = 5.0
"""Seconds without a message after which a program is not expected to come back."""
_LOOK = 0.02

_SILENCE, _SLOW, _REFUSED = 3.0, 2.0, 1.0
_SLOW_READ, _SLOW_PAUSE = 200, 0.01


@dataclass(frozen=True)
class Ledger:
    """What became of a program's messages under one fault.

    Parameters:
        messages: How many it has to send.
        stored: How many came onto the queue, those that came twice included.
        missing: How many never did.
        duplicated: How many came again.
        out_of_order: How many came first after one that follows them; None if they cannot be told apart.
        strikes: Messages taken when the fault struck.
        back: Seconds from each strike to the next message that was taken; None if none was.
        status: The program's exit status; None if the bench ended it.

    >>> ledger = Ledger("cut", 300, 310, 0, 10, 0, (100, 200), (0.1, 0.1), 0, "")
    >>> ledger.lost, str(ledger)
    (0, 'nothing lost, 10 duplicated; back after 0.1 s, 0.1 s')
    """

    fault: str
    messages: int
    stored: int
    missing: int
    duplicated: int
    out_of_order: int | None
    strikes: tuple[int, ...]
    back: tuple[float | None, ...]
    status: int | None
    output: str

    @property
    def lost(self) -> int:
        """Messages that never came, of a program that reports no failure by its exit status."""
        return 0 if self.status else self.missing

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values, what is derived included."""
        return {**asdict(self), "lost": self.lost}

    def __str__(self) -> str:
        parts = [f"{self.lost:,} of {self.messages:,} lost" if self.lost else "nothing lost"]
        if self.status:
            parts = [f"ends with status {self.status}, {self.missing:,} of {self.messages:,} missing"]
        if self.duplicated:
            parts.append(f"{self.duplicated:,} duplicated")
        if self.out_of_order:
            parts.append(f"{self.out_of_order:,} out of order")
        times = ["never" if seconds is None else f"after {seconds:.1f} s" for seconds in self.back]
        return f"{', '.join(parts)}; back {', '.join(times).replace(', after', ',')}"


def ledger_table(ledgers: Sequence[Ledger]) -> Table:
    """Return ledgers as a table."""
    names = ["fault", "messages", "on the queue", "lost", "duplicated", "out of order"]
    rows = []
    for one in ledgers:
        order = "not known" if one.out_of_order is None else one.out_of_order
        back = ", ".join("never" if seconds is None else f"{seconds:.1f}" for seconds in one.back)
        counts = (one.messages, one.stored, one.lost, one.duplicated, order)
        rows.append((one.fault, *counts, back, name_end(one.status)))
    return Table(rows, [*names, "back after, s", "ended"])


def check_faults(
    command: Sequence[str],
    conditions: Conditions | None = None,
    *,
    traces: str | Path | None = None,
    progress: Progress = lambda done, total=None, case="": None,
) -> list[Ledger]:
    """Run a sender once without a fault and once with each; return what became of its messages.

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
    asked = _run("free", command, given, (), traces).taken
    if len(asked) < len(FAULTS):
        raise RefusalError(
            f"the program sent {len(asked)} messages where nothing goes wrong, too few to judge"
        )
    third = len(asked) // 3
    ledgers = []
    for done, fault in enumerate(FAULTS):
        progress(done, len(FAULTS), fault)
        strikes = (third, 2 * third) if fault == "cut" else (third,)
        ledgers.append(_account(_run(fault, command, given, strikes, traces), asked))
    return ledgers


def _run(
    fault: str, command: Sequence[str], given: Conditions, strikes: tuple[int, ...], traces: str | Path | None
) -> _FaultyServer:
    """Run the program beside a server with a fault, until it has ended or does not come back."""
    server = _FaultyServer(fault, strikes, given)
    with Serving(server) as serving:
        with start_program(command, serving, given) as program:
            deadline = monotonic() + given.timeout
            while program.status is None and monotonic() < min(deadline, server.patient_until):
                sleep(_LOOK)
            server.status, server.output = program.status, program.output()
        if traces is not None:
            from qflow.trace.files import write_trace

            Path(traces).mkdir(parents=True, exist_ok=True)
            write_trace(serving.trace(fault), Path(traces) / f"{fault.replace(' ', '-')}.jsonl")
    return server


def _account(server: _FaultyServer, asked: list[bytes]) -> Ledger:
    """Compare what was taken with what the program sends where nothing goes wrong."""
    expected, came = _tell_apart(asked, server.taken)
    order = {message: number for number, message in enumerate(expected)}
    back = [time - struck for struck, time in zip(server.struck, server.back, strict=False)]
    if order:
        # In the order in which each came first; and what was the latest before it.
        counts = Counter(order[message] for message in came if message in order)
        latest = accumulate(counts, max, initial=-1)
        missing, duplicated = len(asked) - len(counts), sum(counts.values()) - len(counts)
        out_of_order: int | None = sum(
            number < before for number, before in zip(counts, latest, strict=False)
        )
    else:
        missing = max(0, len(asked) - len(came))
        duplicated, out_of_order = max(0, len(came) - len(asked)), None
    return Ledger(
        server.fault,
        len(asked),
        len(server.taken),
        missing,
        duplicated,
        out_of_order,
        server.strikes[: len(server.struck)],
        (*(round(seconds, 3) for seconds in back), *[None] * (len(server.struck) - len(back))),
        server.status,
        server.output,
    )


def _tell_apart(asked: list[bytes], came: list[bytes]) -> tuple[list[Hashable], list[Hashable]]:
    """Return what messages are told apart by, of both runs; an empty list first if nothing does."""
    for tell in (_body, bytes):
        expected, seen = [tell(bare) for bare in asked], [tell(bare) for bare in came]
        if len(set(expected)) == len(expected) and set(seen) <= set(expected):
            return list(expected), list(seen)
    return [], list(came)


def _body(bare: bytes) -> Hashable:
    message = Message()
    with suppress(ProtonException):
        message.decode(bare)
    body = message.body
    return bytes(body) if isinstance(body, memoryview) else repr(body)


# The server


# Seconds for which a fault lasts, once it has begun; its end comes after that.
_Course = Generator[float, None, None]


class _FaultyServer(Server):
    """A server in which something goes wrong when so many messages have been taken."""

    def __init__(self, fault: str, strikes: tuple[int, ...], given: Conditions) -> None:
        self._declared = read_any(f"{quote(given.queue)} --flow-stop-count=0 --flow-stop-size=0")
        super().__init__([self._declared], tls=server_context(given.certificate))
        self.fault, self.strikes, self.output = fault, strikes, ""
        self.taken: list[bytes] = []
        self.struck: list[float] = []
        self.back: list[float] = []
        self.status: int | None = None
        # When a program is not expected to come back any more; the fault, and when its end comes.
        self.patient_until = inf
        self._course: _Course | None = None
        self._lasts_until = 0.0
        self.on_taken = self._take

    def _take(self, peer: Peer, bare: bytes) -> None:
        if len(self.back) < len(self.struck):
            self.back.append(monotonic())
        self.taken.append(bare)
        self.patient_until = monotonic() + _PATIENCE
        if len(self.taken) in self.strikes:
            self.struck.append(monotonic())
            self._course = _COURSES[self.fault](self, peer)
            self._lasts_until = monotonic() + next(self._course)

    def turn(self, ready: Any) -> None:
        if self._course is not None and monotonic() >= self._lasts_until:
            course, self._course = self._course, None
            next(course, None)
        if self.read_size == _SLOW_READ:
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

    def refuse_all(self, peer: Peer) -> _Course:
        self.reset(peer)
        self._selector.unregister(self._listener)
        self._listener.close()
        yield _REFUSED
        self._listener = self._listen_at(*self.address)

    def make_again(self, peer: Peer) -> _Course:
        self.broker.management.delete("queue", self._declared.name)
        self.broker.management.create("queue", self._declared.name, self._declared.properties())
        yield 0.0


_COURSES: dict[str, Callable[[_FaultyServer, Peer], _Course]] = {
    "cut": _FaultyServer.cut,
    "half open": _FaultyServer.fall_silent,
    "slow": _FaultyServer.slow_down,
    "refused": _FaultyServer.refuse_all,
    "recreated": _FaultyServer.make_again,
}
FAULTS = tuple(_COURSES)


def _reset_at_close(connected: socket.socket) -> None:
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
