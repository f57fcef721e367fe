"""The folder of a recording: a client log that is whole at every moment, and what is beside it.

``orders.parquet`` is a folder, as Spark writes one: each part in it is a Parquet file of its own, which gets
its name when it is whole, so that whatever ends the recorder, what was written can be read.  pyarrow, pandas,
Spark and :meth:`qflow.logs.client_log.ClientLog.load` read the folder as one table.  Names that begin with an
underscore or a dot are no data:

- ``_capture-00000`` and so on: bytes as they passed, until they are read (:mod:`qflow.live.capture`);
- ``_recording.json``: who was connected, which broker it was, whether it gave statistics, of which queues the
  thresholds are unknown, what was found, and what could not be read.

Beside it, ``orders.json`` is the workload behind the log, with what is inferred marked as such.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from qflow.live.client_book import ClientBook, Row
from qflow.live.recorded_workload import recorded_workload_text
from qflow.logs.log_file import COLUMNS, PART
from qflow.writing import written

REPORT = "_recording.json"
ENDING = ".parquet"

MOST_ROWS_OF_A_PART = 100_000


class RecordingFolder:
    """Writes the parts of a log, its report, and the workload beside it.

    Raises:
        OSError: If it cannot be written.

    >>> import tempfile
    >>> from qflow.logs import ClientLog
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     recording = RecordingFolder(Path(folder) / "orders.parquet")
    ...     recording.write([(5, "p", "transfer", "orders", "p-1", 100, "")])
    ...     ClientLog.load(recording.path).rows[0].label
    'p-1'
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.written = 0
        self._parts = 0

    def write(self, rows: list[Row]) -> None:
        """Write rows as parts; each is in its place when this returns."""
        import pyarrow
        from pyarrow import parquet

        kinds = (pyarrow.int64(), *[pyarrow.string()] * 4, pyarrow.int64(), pyarrow.string())
        schema = pyarrow.schema(list(zip(COLUMNS, kinds, strict=True)))
        for begin in range(0, len(rows), MOST_ROWS_OF_A_PART):
            part = rows[begin : begin + MOST_ROWS_OF_A_PART]
            columns = [
                pyarrow.array(column, kind)
                for column, kind in zip(zip(*part, strict=True), kinds, strict=True)
            ]
            with written(self.path / PART.format(self._parts)) as beside:
                parquet.write_table(pyarrow.table(columns, schema=schema), beside)
            self._parts += 1
            self.written += len(part)

    def describe(self, book: ClientBook, more: dict[str, Any]) -> None:
        """Write the workload beside the folder, and the report in it; the same bytes if nothing changed."""
        name = self.path.name.split(".")[0]
        facts = json.dumps({**report(book), **more}, indent=1) + "\n"
        workload = recorded_workload_text(book, name)
        for path, text in ((self.path.with_name(f"{name}.json"), workload), (self.path / REPORT, facts)):
            with written(path) as beside:
                beside.write_text(text, encoding="utf-8")


def report(book: ClientBook) -> dict[str, Any]:
    """Return what a reader of a recording should know, as JSON holds it.

    >>> report(ClientBook())["connections"]
    0
    """
    return {
        "broker": {"product": book.broker, "is_qpid_cpp": book.is_qpid_cpp},
        "statistics": {"since_us": book.statistics_since, "missing": book.missing},
        "thresholds_unknown": {
            queue: words for queue in book.queues if (words := book.unknown_thresholds(queue))
        },
        "connections": book.connections,
        "last_us": book.last,
        "clients": [_facts(client) for client in book.clients.values()],
        "labels": {"alike": book.labels.alike, "unseen": book.labels.unseen},
        "findings": [
            {"sentence": words, "times": times, "first_us": first}
            for words, (times, first) in book.findings.items()
        ],
    }


def _facts(client: Any) -> dict[str, Any]:
    names = ("name", "role", "queue", "exchange", "key", "start", "messages", "bytes", "settled_by_sender",
             "answered", "refused", "unsettled", "most_unsettled", "most_credit", "without_credit",
             "times_without_credit", "ended")  # fmt: skip
    return {**{name: getattr(client, name) for name in names}, **client.origin}
