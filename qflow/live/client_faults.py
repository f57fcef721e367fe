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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.live.client_card import name_end
from qflow.live.client_check import Conditions, start_program
from qflow.live.serving import Serving, require_proton
from qflow.progress import Progress
from qflow.table import Table

if TYPE_CHECKING:
    from qflow.live.faulty_server import FaultyServer

FAULTS = ("cut", "half open", "slow", "refused", "recreated")

_PATIENCE = 5.0
"""Seconds without a message after which a program is not expected to come back."""
_LOOK = 0.02


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
    names += ["back after, s", "ended"]
    rows = [
        (
            one.fault,
            one.messages,
            one.stored,
            one.lost,
            one.duplicated,
            "not known" if one.out_of_order is None else one.out_of_order,
            ", ".join("never" if seconds is None else f"{seconds:.1f}" for seconds in one.back),
            name_end(one.status),
        )
        for one in ledgers
    ]
    return Table(rows, names)


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
    require_proton()
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
    fault: str,
    command: Sequence[str],
    given: Conditions,
    strikes: tuple[int, ...],
    traces: str | Path | None,
) -> FaultyServer:
    """Run the program beside a server with a fault, until it has ended or does not come back."""
    from qflow.live.faulty_server import FaultyServer

    queue = f"{quote(given.queue)} --flow-stop-count=0 --flow-stop-size=0"
    with Serving(FaultyServer(fault, queue, strikes, given)) as serving:
        server = serving.server
        assert isinstance(server, FaultyServer)
        with start_program(command, serving, given) as program:
            deadline, known, changed = monotonic() + given.timeout, 0, monotonic()
            while monotonic() < deadline:
                sleep(_LOOK)
                if len(server.taken) != known:
                    known, changed = len(server.taken), monotonic()
                if program.status is not None or (known and monotonic() - changed > _PATIENCE):
                    break
            server.status, server.output = program.status, program.output()
        if traces is not None:
            _write_trace(serving, fault, Path(traces))
        return server


def _write_trace(serving: Serving, fault: str, folder: Path) -> None:
    from qflow.trace.files import write_trace

    folder.mkdir(parents=True, exist_ok=True)
    write_trace(serving.trace(fault), folder / f"{fault.replace(' ', '-')}.jsonl")


def _account(server: FaultyServer, asked: list[bytes]) -> Ledger:
    """Compare what was taken with what the program sends where nothing goes wrong."""
    expected, came = _tell_apart(asked, server.taken)
    order = {message: number for number, message in enumerate(expected)}
    back = [time - struck for struck, time in zip(server.struck, server.back, strict=False)]
    if order:
        counts = Counter(order[message] for message in came if message in order)
        first = list(dict.fromkeys(order[message] for message in came if message in order))
        late, latest = 0, -1
        for number in first:
            late += number < latest
            latest = max(latest, number)
        missing, duplicated, out_of_order = len(asked) - len(counts), sum(counts.values()) - len(counts), late
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
    from proton import Message, ProtonException

    message = Message()
    with suppress(ProtonException):
        message.decode(bare)
    body = message.body
    return bytes(body) if isinstance(body, memoryview) else repr(body)
