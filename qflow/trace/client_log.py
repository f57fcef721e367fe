"""ClientLog: what people can record without touching the broker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from qflow.trace.log_rows import LogError, LogRow, read_rows
from qflow.trace.quarantine import Quarantine
from qflow.trace.replay import replay

__all__ = ["ClientLog", "LogError", "LogRow", "QueueSample", "replay"]


class QueueSample(NamedTuple):
    """What the real broker reported of one queue at one instant, under its own names (CM-15).

    Examples
    --------
    >>> QueueSample(50_000, 901, 133_348, True, 1, 20, 0, 0).flowStopped
    True
    """

    ts_us: int
    msgDepth: int  # noqa: N815
    byteDepth: int  # noqa: N815
    flowStopped: bool  # noqa: N815
    flowStoppedCount: int  # noqa: N815
    acquires: int
    releases: int
    discardsRing: int  # noqa: N815


@dataclass(frozen=True, slots=True)
class ClientLog:
    """A recorded run as its clients saw it, with what the broker reported now and then.

    Parameters
    ----------
    name : str
        For titles.
    rows : list of LogRow
        In order of time.

    Examples
    --------
    >>> stats = LogRow(50_000, "broker", "stats", "orders", "[3, 444, false, 0, 1, 0, 0]", 0, "")
    >>> ClientLog("small", [stats]).statistics("orders")[0].msgDepth
    3
    """

    name: str
    rows: list[LogRow]

    @classmethod
    def load(cls, path: str | Path) -> ClientLog:
        """Read a log from a ``.csv``, ``.jsonl`` (also ``.gz``) or ``.parquet`` file.

        Parameters
        ----------
        path : str or Path
            A file with the columns of :class:`LogRow`, in that order.

        Raises
        ------
        LogError
            One sentence that names the file, the row and the column.
        OSError
            If the file cannot be opened.
        """
        path = Path(path)
        return cls(path.name.split(".")[0], read_rows(path))

    @classmethod
    def read(cls, path: str | Path) -> tuple[ClientLog, Quarantine]:
        """Read a log from anywhere: good rows are kept, bad ones set aside with the reason.

        Parameters
        ----------
        path : str or Path
            As for :meth:`load`.

        Raises
        ------
        LogError
            If no row can be read: one sentence that names the file and says why.
        OSError
            If the file cannot be opened.
        """
        path = Path(path)
        quarantine = Quarantine()
        rows = read_rows(path, quarantine.add)
        try:
            for number, row in enumerate(rows, 1):
                if row.event == "stats":
                    _sample(number, row)
        except LogError as error:
            raise LogError(f"{path.name}: {error}") from None
        return cls(path.name.split(".")[0], rows), quarantine

    def statistics(self, queue: str) -> list[QueueSample]:
        """Return what the broker reported of a queue, in order of time.

        Raises
        ------
        LogError
            If there is no report of that queue, or one makes no sense.
        """
        samples = [
            _sample(number, row)
            for number, row in enumerate(self.rows, 1)
            if row.event == "stats" and row.queue == queue
        ]
        if not samples:
            raise LogError(f"no statistics of queue {queue!r}; there are some of {_listed(self._reported())}")
        return samples

    def _reported(self) -> Iterable[str]:
        return sorted({row.queue for row in self.rows if row.event == "stats"})

    def __repr__(self) -> str:
        return f"ClientLog({self.name!r}, {len(self.rows)} rows)"


def _sample(number: int, row: LogRow) -> QueueSample:
    types = (int, int, bool, int, int, int, int)
    try:
        values = json.loads(row.label)
    except ValueError:
        values = None
    if not isinstance(values, list) or tuple(map(type, values)) != types:
        names = ", ".join(QueueSample._fields[1:])
        raise LogError(f"row {number}, column label: must be a JSON list of {names}, got {row.label!r}")
    return QueueSample(row.ts_us, *values)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
