"""The thresholds of a queue in plain words: each origin that the engine names has one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qflow.broker.flow_limit import FlowLevels, Level, Origin
from qflow.broker.options import BrokerOptions

STOP, RESUME = "stop", "resume"
UNITS = {"count": "messages", "size": "bytes"}
_RATIOS = {STOP: "default-flow-stop-threshold", RESUME: "default-flow-resume-threshold"}
_DEFAULT_RULE = {STOP: "FC-02.4", RESUME: "FC-02.5"}


@dataclass(frozen=True, slots=True)
class Effective:
    """A value in force, and why it is that.

    Attributes
    ----------
    name : str
        Such as ``stop_count``.
    value : int
        Its value; 0 where it takes no part.
    why : str
        What set it, in plain words.
    rules : tuple of str
        The rules of the book that say so, the deciding one last.
    """

    name: str
    value: int
    why: str
    rules: tuple[str, ...]

    def asdict(self) -> dict[str, object]:
        """Return plain values."""
        return {"name": self.name, "value": self.value, "why": self.why, "rules": list(self.rules)}


def describe_levels(levels: FlowLevels, options: BrokerOptions) -> tuple[Effective, ...]:
    """Say what set each of the four levels.

    Examples
    --------
    >>> from qflow.broker.settings import QueueSettings
    >>> settings = QueueSettings.from_arguments({"qpid.max_count": 90})
    >>> described = describe_levels(FlowLevels.proposed(settings, BrokerOptions()), BrokerOptions())
    >>> print(described[1].value, described[1].why, described[1].rules)
    62 70 % of qpid.max_count=90, cut off ('FC-02.5',)
    """
    return tuple(
        _describe(side, unit, getattr(levels, f"{side}_{unit}"), getattr(levels, f"max_{unit}"), options)
        for unit in UNITS
        for side in (STOP, RESUME)
    )


def _describe(side: str, unit: str, level: Level, maximum: int, options: BrokerOptions) -> Effective:
    why, rules = _clause(side, unit, level.basis or level.origin, maximum, options)
    if level.origin is Origin.AS_STOP:
        why += "; 0 means: as the stop"
        rules += ("FC-05.2",)
    elif level.origin is Origin.RESIDUE:
        why += f"; this unit cannot stop, yet flow control does not end before it is below {level.value}"
        rules += ("FC-09",)
    elif side == STOP and not level.value:
        why += "; this unit stops nobody"
        rules += ("FC-08",)
    return Effective(f"{side}_{unit}", level.value, why, rules)


def _clause(
    side: str, unit: str, origin: Origin, maximum: int, options: BrokerOptions
) -> tuple[str, tuple[str, ...]]:
    ratio = getattr(options, _RATIOS[side].replace("-", "_"))
    rounding = "rounded half up" if side == STOP else "cut off"
    default = _DEFAULT_RULE[side]
    if origin is Origin.GIVEN:
        return f"given as qpid.flow_{side}_{unit}", ("FC-02.6",)
    if origin is Origin.RATIO_OFF:
        return f"no default: the broker's {_RATIOS[side]} is 0", ("FC-10", default)
    if origin is Origin.NO_LIMIT:
        return f"no default: the queue has no limit in {UNITS[unit]} to take {ratio} % of", (default,)
    if origin is Origin.BROKER_LIMIT:
        limit = f"the broker's default-queue-limit={maximum}"
        return f"{ratio} % of {limit}, as no qpid.max_size is given, {rounding}", ("LP-01", default)
    return f"{ratio} % of qpid.max_{unit}={maximum}, {rounding}", (default,)


def summary(levels: FlowLevels) -> str:
    """Say in one sentence when producers are held and when they go on (FC-14, FC-16).

    Examples
    --------
    >>> from qflow.broker.settings import QueueSettings
    >>> settings = QueueSettings.from_arguments({"qpid.max_count": 10, "qpid.max_size": 0})
    >>> print(summary(FlowLevels.proposed(settings, BrokerOptions()).checked("orders")))
    Producers are held above 8 messages, and go on below 7 messages.
    """
    above = [f"{value} {word}" for word, value in _values(levels, STOP)]
    below = [f"{value} {word}" for word, value in _values(levels, RESUME)]
    return f"Producers are held above {' or '.join(above)}, and go on below {' and '.join(below)}."


def _values(levels: FlowLevels, side: str) -> Iterator[tuple[str, int]]:
    for unit, word in UNITS.items():
        value = getattr(levels, f"{side}_{unit}").value
        if value:
            yield word, value
