"""The recordings of the real broker that the tests are laid beside."""

from pathlib import Path

from qflow.trace import ClientLog
from qflow.workload import Workload

RECORDINGS = Path(__file__).resolve().parent.parent / "data" / "recordings"
SCENARIOS = RECORDINGS / "scenarios"
WORKLOADS = RECORDINGS / "workloads"


def paths(name: str) -> tuple[str, str]:
    """Name the files of a recorded workload: what its clients were to do, and what they logged."""
    return str(WORKLOADS / f"{name}.json"), str(WORKLOADS / f"{name}.csv.gz")


def load(name: str) -> tuple[ClientLog, Workload]:
    """Read what the clients logged, and what they were to do."""
    workload, log = paths(name)
    return ClientLog.load(log), Workload.load(workload)
