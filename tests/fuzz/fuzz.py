"""Fuzz: seeded commands without end, legal, odd and illegal, at the engine and at ``qflow.messaging``.

A *piece* is ten thousand commands, drawn from a seed and the piece's number, so that it can be run again
alone, on any machine, and pieces can be spread over the cores.  It consists of *lives*: each is a new broker
with options and clients of its own, and some hundred commands.  What has to hold is said where the commands
are drawn: :mod:`engine_life`, :mod:`client_life`.  ``python -m pytest -n 0 -m fuzz`` runs as many commands
as ``QFLOW_FUZZ_COMMANDS`` says, from ``QFLOW_FUZZ_SEED``.

Where something does not hold, the life's commands are cut off there, and then those are left out that do not
matter: what is printed is short, and says how to come back to it.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any, Protocol

from client_life import ClientLife
from engine_life import EngineLife

from qflow.progress import ProgressLine

PIECE = 10_000
"""Commands in a piece."""

LIFE = 250
"""Commands in a life."""

_TRIES = 400
"""How often a failing life is tried again with fewer commands."""


class Life(Protocol):
    """One broker and those who use it, from first to last."""

    def draw(self) -> Any:
        """Return the next command, which fits the state."""

    def do(self, command: Any) -> None:
        """Carry a command out; raise if something does not hold."""

    def end(self) -> None:
        """Look back at the whole; raise if something does not hold."""


TARGETS: dict[str, Callable[[str], Life]] = {"engine": EngineLife, "messaging": ClientLife}
"""What is fuzzed: called with a seed, each makes a life."""


@dataclass(frozen=True)
class Finding:
    """Something that does not hold.

    Parameters:
        target, seed, piece, life: Where it was found.
        prefix: How many commands of the life it takes.
        error: What does not hold.
        commands: Few commands that still show it, in words; all those of the prefix if leaving some out hides
            it.
    """

    target: str
    seed: int
    piece: int
    life: int
    prefix: int
    error: str
    commands: tuple[str, ...]

    def __str__(self) -> str:
        where = f"{self.target}, seed {self.seed}, piece {self.piece}, life {self.life}"
        shown = "\n".join(f"    {command}" for command in self.commands)
        again = f"QFLOW_FUZZ_PIECE={self.target}/{self.seed}/{self.piece} python -m pytest -n 0 -m fuzz"
        return (
            f"{where}, after {self.prefix} commands: {self.error}\n  {len(self.commands)} commands show it:\n"
            f"{shown}\n  again: {again}"
        )


def run_piece(target: str, seed: int, piece: int, commands: int = 0) -> tuple[int, Finding | None]:
    """Run one piece, or its beginning; return how many commands it gave, and the first finding.

    >>> run_piece("engine", seed=1, piece=0, commands=300)
    (300, None)
    """
    given, commands = 0, commands or PIECE
    for life in range(-(-commands // LIFE)):
        seeded = f"{target}/{seed}/{piece}/{life}"
        most = min(LIFE, commands - given)
        done, error = _live(target, seeded, most)
        given += len(done)
        if error:
            fewer = _cut(target, seeded, done, error)
            return given, Finding(target, seed, piece, life, len(done), error, tuple(map(str, fewer)))
    return given, None


def _live(target: str, seed: str, most: int) -> tuple[list[Any], str]:
    """Live one life; return its commands up to what does not hold, and that, or ""."""
    life = TARGETS[target](seed)
    done: list[Any] = []

    def drawn() -> Iterator[Any]:
        for _ in range(most):
            done.append(life.draw())
            yield done[-1]

    return done, _wrong(life, drawn())


def _wrong(life: Life, commands: Iterable[Any]) -> str:
    """Give a life its commands; return what does not hold, or ""."""
    try:
        for command in commands:
            life.do(command)
        life.end()
    except Exception as error:  # whatever comes out of the engine is what is looked for
        return f"{type(error).__name__}: {error}"
    return ""


def _cut(target: str, seed: str, commands: list[Any], error: str) -> list[Any]:
    """Leave out commands, first many at a time, as long as the same thing does not hold."""
    kind = error[:40]
    tries, size = 0, max(1, len(commands) // 2)
    while size and tries < _TRIES:
        start = 0
        while start < len(commands) and tries < _TRIES:
            fewer = commands[:start] + commands[start + size :]
            tries += 1
            if _wrong(TARGETS[target](seed), fewer)[:40] == kind:
                commands = fewer
            else:
                start += size
        size //= 2
    return commands


# Many pieces


def fuzz(targets: Sequence[str], seed: int, commands: int) -> int:
    """Run pieces, at the targets in turn and on all cores, until so many commands have been given.

    Each finding is printed in words, and at the end what was done; returns how many findings there are.
    """
    pieces = [
        (targets[number % len(targets)], seed, number, min(PIECE, commands - number * PIECE))
        for number in range(-(-commands // PIECE))
    ]
    shown = ProgressLine("fuzzing", commands, unit="commands", has_bar=True)
    done, findings = Counter[str](), 0
    # Ctrl-C is heard here; leaving the block ends the others.
    with get_context("spawn").Pool(None, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            for target, given, finding in pool.imap_unordered(_run, pieces):
                done[target] += given
                if finding is not None:
                    findings += 1
                    shown.end()
                    print(finding)
                shown(done.total())
        finally:
            shown.end()
            counts = ", ".join(f"{done[target]:,} commands at {target}" for target in targets)
            print(f"seed {seed}: {counts}; findings: {findings}")
    return findings


def _run(piece: tuple[str, int, int, int]) -> tuple[str, int, Finding | None]:
    return piece[0], *run_piece(*piece)
