"""The table of clients: what programs of many libraries did when a queue of the real broker stopped them.

``data/clients.csv`` has a row for each pattern that was measured, ``data/clients`` has programs: how the
documentation of some libraries sends, and what cures them.  ``notebooks/reference/clients.md`` shows it all.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from qflow.kit import kit_path
from qflow.table import Table


class KnownClient(NamedTuple):
    """One pattern of one library, measured: 6,000 messages to a queue with stop 10, resume 5.

    Fields:
        library, version, wire, pattern: What it is; ``wire`` is the version of AMQP.
        sample: A program that does so, in ``qflow/live/samples`` or ``data/clients``; "" if there is none.
        stops: yes; late, when something else is full; no; or fails, by an error of its own.
        stopped: Messages on the queue when nothing moved any more.
        limit: Messages stored where the queue has ``qpid.max_count`` 30 and the policy ``reject``; "" if
            the session ends.
        learns: What the program learned of the others.
        deleted: What it did when the queue was deleted; "" if that was not measured.
        judgement: One sentence.
        measured: Against what, and when.
        cure: Programs in ``data/clients`` that stop and lose nothing, separated by semicolons, or what to do.
    """

    library: str
    version: str
    wire: str
    pattern: str
    sample: str
    stops: str
    stopped: str
    limit: str
    learns: str
    deleted: str
    judgement: str
    measured: str
    cure: str

    @property
    def cures(self) -> tuple[Path, ...]:
        """The programs that cure it."""
        names = self.cure.split("; ") if self.cure.endswith((".py", ".js")) else []
        return tuple(kit_path("data") / "clients" / name for name in names)


def known_clients() -> list[KnownClient]:
    """Return every measured pattern, in the order of the table.

    >>> sorted({client.stops for client in known_clients()})
    ['fails', 'late', 'no', 'yes']
    """
    with open(kit_path("data") / "clients.csv", encoding="utf-8", newline="") as file:
        return [KnownClient(**row) for row in csv.DictReader(file)]


def client_table(library: str = "") -> Table:
    """Return what is known of clients, as a table, or of those whose library has a word in its name.

    Which client stops is its own affair, as the broker brakes by silence: find yours before you measure it.

    Parameters:
        library: Part of a library's name, in any case; "" for all.

    >>> len(client_table().rows), client_table("PROTON").rows[0][4]
    (33, '11')
    """
    rows = [
        (one.library, one.wire, one.pattern, one.stops, one.stopped, one.limit, one.judgement)
        for one in known_clients()
        if library.lower() in one.library.lower()
    ]
    names = ["library", "AMQP", "pattern", "stops", "on the queue", "stored at limit 30", "in a sentence"]
    return Table(rows, names)
