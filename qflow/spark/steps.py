"""Steps: work that may take hours, each part kept as soon as it is done.

Killed at any moment, the same work over the same folder goes on with the first part that is missing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PLAN = "_plan.json"
"""What the folder is for; Spark passes over names that begin with an underscore."""

AT_ONCE = 64
"""Tasks of one step: enough that all cores are busy, few enough that little is lost with a step."""


class Steps:
    """A folder that is filled step by step.

    Parameters
    ----------
    folder : str or Path
        Where the steps lie; is made if it does not exist.
    plan : dict
        What decides the result, as JSON can hold it.  The same plan goes on where it was.
    replaces : bool
        What to do with a folder that holds something else: replace it, or refuse.

    Raises
    ------
    RefusalError
        If the folder holds something that is not of this plan, and that must not be replaced.
    """

    def __init__(self, folder: str | Path, plan: dict[str, Any], *, replaces: bool = False) -> None:
        self.folder = Path(folder)
        note = self.folder / PLAN
        text = json.dumps(plan, sort_keys=True)
        if note.exists() and note.read_text(encoding="utf-8") == text:
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            if not replaces:
                had = "other work" if note.exists() else "something"
                raise RefusalError(f"{folder}: this needs a new folder, and that one holds {had}")
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = note.with_name(f"{PLAN}.part")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(note)

    def run(
        self,
        items: Sequence[Any],
        make: Callable[[Sequence[Any]], DataFrame],
        at_once: int = AT_ONCE,
    ) -> Iterator[int]:
        """Do all steps that are missing, and yield after each step how many items are done.

        Parameters
        ----------
        items : sequence
            What there is to do, the same in every run.
        make : callable
            Gives the frame of some items.
        at_once : int
            Items of one step.
        """
        for number, start in enumerate(range(0, len(items), at_once)):
            part = items[start : start + at_once]
            step = self.folder / f"step={number:06d}"
            if not (step / "_SUCCESS").exists():
                make(part).write.mode("overwrite").parquet(str(step))
            yield start + len(part)


def require_finished(folder: str | Path) -> None:
    """Refuse a folder in which steps are missing.

    Raises
    ------
    RefusalError
        Naming the first step that is missing.
    """
    note = Path(folder, PLAN)
    if not note.exists():
        return
    plan = json.loads(note.read_text(encoding="utf-8"))
    for number in range(plan["steps"]):
        if not Path(folder, f"step={number:06d}", "_SUCCESS").exists():
            raise RefusalError(
                f"{folder}: step {number + 1} of {plan['steps']} is missing; "
                "run the command that makes it again, it goes on where it was"
            )


def step_count(items: int, at_once: int = AT_ONCE) -> int:
    """Return how many steps so many items take.

    Examples
    --------
    >>> step_count(65), step_count(64)
    (2, 1)
    """
    return -(-items // at_once)
