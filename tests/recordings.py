"""The recordings of the real broker that the tests are laid beside."""

import gzip
from functools import cache
from itertools import islice
from pathlib import Path

from qflow.trace import ClientLog
from qflow.workload import Workload

RECORDINGS = Path(__file__).resolve().parent.parent / "data" / "recordings"
SCENARIOS = RECORDINGS / "scenarios"
WORKLOADS = RECORDINGS / "workloads"


def paths(name: str, run: int = 0) -> tuple[str, str]:
    """Name the files of a recorded workload: what its clients were to do, and what they logged in a run."""
    workload, repeats = WORKLOADS / f"{name}.json", WORKLOADS / "repeats"
    log = WORKLOADS / f"{name}.csv.gz"
    if run:
        found = (repeats / f"{name}-{run}.{end}" for end in ("csv.gz", "parquet"))
        log = next(path for path in found if path.exists())
    return str(workload if workload.exists() else repeats / f"{name}.json"), str(log)


@cache
def load(name: str, run: int = 0) -> tuple[ClientLog, Workload]:
    """Read what the clients logged, and what they were to do; once, so that no test may change it."""
    workload, log = paths(name, run)
    return ClientLog.load(log), Workload.load(workload)


@cache
def beginning(name: str, seconds: int, run: int = 0) -> tuple[ClientLog, Workload]:
    """Read what was logged in the first seconds, of a workload that lasts no longer."""
    log, workload = load(name, run)
    rows = [row for row in log.rows if row.ts_us < seconds * 1_000_000]
    return ClientLog(name, rows), workload.replace(duration=seconds)


def write_beginning(folder: Path, name: str, rows: int) -> Path:
    """Write the first rows of a log as text, and its workload beside it; return the log's file."""
    workload, log = paths(name)
    path = folder / f"{name}.csv"
    with gzip.open(log, "rt") as file:
        path.write_text("".join(islice(file, rows + 1)))
    path.with_suffix(".json").write_bytes(Path(workload).read_bytes())
    return path
