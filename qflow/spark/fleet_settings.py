"""Settings for a fleet: what is changed before components are run again, by patterns of names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from qflow.broker.conversions import Argument
from qflow.prediction.settings import Settings
from qflow.workload.model import Workload

PARTS = ("queues", "capacity", "prefetch")


class SettingsError(ValueError):
    """A grid of settings makes no sense; one sentence says where."""


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """A named change of settings.

    Parameters
    ----------
    name : str
        For tables and figures; unique in a grid.
    queues : mapping
        Pattern of queue names (``*``, ``orders-*``) to declare arguments; None removes one.  Text such as
        ``"x0.5"`` scales the number that a queue declares, and leaves queues alone that declare none.
    capacity, prefetch : mapping
        Pattern of producer or consumer names to a number, or to text that scales as above.

    Examples
    --------
    >>> halved = FleetSettings("half", {"*": {"qpid.flow_stop_count": "x0.5"}})
    >>> halved.of(Workload("w", 1, {"q": {"qpid.flow_stop_count": 300}, "r": {}})).queues
    {'q': {'qpid.flow_stop_count': 150}}
    """

    name: str
    queues: Mapping[str, Mapping[str, Argument | None]] = field(default_factory=dict)
    capacity: Mapping[str, int | str] = field(default_factory=dict)
    prefetch: Mapping[str, int | str] = field(default_factory=dict)

    def of(self, workload: Workload) -> Settings:
        """Return what this changes of a workload."""
        queues: dict[str, dict[str, Argument | None]] = {}
        for queue, declared in workload.queues.items():
            changed: dict[str, Argument | None] = {}
            for pattern, arguments in self.queues.items():
                if fnmatchcase(queue, pattern):
                    changed.update(_scaled(arguments, declared))
            if changed:
                queues[queue] = changed
        capacity = {p.name: p.capacity for p in workload.producers}
        prefetch = {c.name: c.prefetch for c in workload.consumers}
        return Settings(queues, _numbers(self.capacity, capacity), _numbers(self.prefetch, prefetch))

    def text(self) -> str:
        """Return it as JSON text: equal for equal settings, whatever their name's case or order."""
        value = {"name": self.name, **{part: getattr(self, part) for part in PARTS}}
        return json.dumps(value, sort_keys=True, separators=(",", ":"))


AS_RECORDED = FleetSettings("as recorded")
"""Nothing is changed: how well the simulation gives what was recorded."""


def load_grid(path: str | Path) -> list[FleetSettings]:
    """Read a grid of settings: a JSON map of names to ``queues``, ``capacity`` and ``prefetch``.

    Raises
    ------
    SettingsError
        Naming the file, the setting and what is not allowed.
    OSError
        If the file cannot be read.
    """
    path = Path(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SettingsError(f"{path.name}: a grid of settings must be JSON; {error}") from None
    if not isinstance(value, dict) or not value:
        raise SettingsError(f"{path.name}: a grid of settings is a JSON map of names to settings")
    return [grid_entry(name, entry, path.name) for name, entry in value.items()]


def grid_entry(name: str, entry: Any, where: str = "settings") -> FleetSettings:
    """Make one entry of a grid.

    Raises
    ------
    SettingsError
        If the entry is not a map of known parts to maps.

    Examples
    --------
    >>> grid_entry("small", {"capcity": {}})
    Traceback (most recent call last):
        ...
    qflow.spark.fleet_settings.SettingsError: settings, 'small': the parts are queues, capacity, prefetch; \
got capcity
    """
    if not isinstance(entry, dict) or not all(isinstance(part, dict) for part in entry.values()):
        raise SettingsError(f"{where}, {name!r}: must be a map of {', '.join(PARTS)} to maps")
    unknown = sorted(set(entry) - set(PARTS))
    if unknown:
        raise SettingsError(f"{where}, {name!r}: the parts are {', '.join(PARTS)}; got {unknown[0]}")
    return FleetSettings(name, **entry)


def _scaled(
    arguments: Mapping[str, Argument | None], declared: Mapping[str, Argument]
) -> dict[str, Argument | None]:
    changed: dict[str, Argument | None] = {}
    for key, value in arguments.items():
        factor = _factor(value)
        if factor is None:
            changed[key] = value
        elif isinstance(declared.get(key), int):
            changed[key] = max(1, round(int(str(declared[key])) * factor))
    return changed


def _numbers(patterns: Mapping[str, int | str], present: Mapping[str, int]) -> dict[str, int]:
    changed: dict[str, int] = {}
    for name, number in present.items():
        for pattern, value in patterns.items():
            if fnmatchcase(name, pattern):
                factor = _factor(value)
                changed[name] = int(value) if factor is None else max(1, round(number * factor))
    return changed


def _factor(value: object) -> float | None:
    if not isinstance(value, str) or not value.startswith("x"):
        return None
    try:
        return float(value[1:])
    except ValueError:
        return None


def require_unique(settings: Sequence[FleetSettings]) -> None:
    """Refuse two settings of one name.

    Raises
    ------
    SettingsError
        Naming it.
    """
    names = [setting.name for setting in settings]
    for name in names:
        if names.count(name) > 1:
            raise SettingsError(f"two settings are named {name!r}")
