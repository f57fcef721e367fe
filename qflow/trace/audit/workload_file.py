"""A workload as a file that ``qflow run`` accepts: what differs from the defaults, as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qflow.workload.model import Workload


def workload_json(workload: Workload) -> dict[str, Any]:
    """Return what :meth:`qflow.workload.Workload.from_json` reads back as the same workload.

    Examples
    --------
    >>> workload = Workload("w", 1, {"q": {"qpid.max_count": 5}})
    >>> workload_json(workload)
    {'name': 'w', 'duration': 1, 'queues': {'q': {'qpid.max_count': 5}}}
    >>> Workload.from_json(workload_json(workload)) == workload
    True
    """
    return _different(workload)


def write_workload(workload: Workload, path: str | Path) -> None:
    """Write a workload file; the same workload gives the same bytes.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    Path(path).write_text(json.dumps(workload_json(workload), indent=1) + "\n", encoding="utf-8")


def _stated(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _different(value)
    if isinstance(value, Mapping):
        return {name: _stated(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_stated(item) for item in value]
    return value


def _different(value: Any) -> dict[str, Any]:
    """Return a record's attributes but those that are as they are without being given."""
    stated: dict[str, Any] = {}
    for item in dataclasses.fields(value):
        given = getattr(value, item.name)
        otherwise = item.default
        if item.default_factory is not dataclasses.MISSING:
            otherwise = item.default_factory()
        if otherwise is dataclasses.MISSING or given != otherwise:
            stated[item.name] = _stated(given)
    return stated
