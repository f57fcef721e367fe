"""Shipper: a log as a folder that grows, as a stream reads it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from qflow.spark.auditor import BEGIN, END
from qflow.spark.batches import to_batches
from qflow.spark.schema import LAKE
from qflow.spark.touches import components_of, parts_of, touches_of
from qflow.trace.log_rows import LogRow
from qflow.workload.model import Workload


class Shipper:
    """Numbers each component's events and puts them into a folder, one file a call.

    Each component has its own ``seq``, without gaps; so the reader of the stream can tell what is late and
    what came twice, whatever order files and rows arrive in.

    Parameters
    ----------
    source : str
        Name of the log.
    workload : Workload
        Queues, bindings and clients.
    folder : str or Path
        Is made if it does not exist.
    """

    def __init__(self, source: str, workload: Workload, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._source = source
        self._components = components_of(touches_of(source, workload))
        self._begins = parts_of({source: workload}, self._components)
        self._next: dict[str, int] = {}
        self._files = self._time = 0

    def send(self, rows: Iterable[LogRow]) -> Path | None:
        """Put some rows into a file of their own; the first file also begins all components."""
        numbered = [self._numbered(name, 0, "", BEGIN, "", text) for name, text in self._begins.items()]
        self._begins = {}
        for row in rows:
            self._time = max(0, row.ts_us)
            role, member = ("queue", row.queue) if row.event == "stats" else ("client", row.client)
            component = self._components.get((self._source, role, member))
            if component is not None:
                numbered.append(self._numbered(component, self._time, *row[1:]))
        return self._write(numbered)

    def end(self) -> Path | None:
        """End all components."""
        return self._write([self._numbered(name, self._time, "", END, "", "") for name in list(self._next)])

    def _numbered(
        self, component: str, time: int, client: str, event: str, queue: str, label: str,
        size: int = 0, group: str = "",
    ) -> tuple[object, ...]:  # fmt: skip
        seq = self._next.get(component, 0)
        self._next[component] = seq + 1
        return (component, seq, time, client, event, queue, label, size, group)

    def _write(self, rows: list[tuple[object, ...]]) -> Path | None:
        if not rows:
            return None
        path = self.folder / f"{self._source}-{self._files:06d}.parquet"
        self._files += 1
        write_rows(path, rows)
        return path


def write_rows(path: Path, rows: list[tuple[object, ...]]) -> None:
    """Write rows of LAKE to a file that appears whole or not at all."""
    import pyarrow
    from pyarrow import parquet

    # Spark passes over names that begin with an underscore.
    fresh = path.with_name(f"_{path.name}")
    parquet.write_table(pyarrow.Table.from_batches(to_batches(rows, LAKE)), fresh)
    fresh.replace(path)
