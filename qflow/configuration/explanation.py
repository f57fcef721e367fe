"""Explanations of declarations: the settings in force on a broker and their origins, or the broker's refusal.

A text (:mod:`qflow.configuration.notations`) is read into a declaration
(:mod:`qflow.configuration.declaration`).  :func:`explain` creates the declared queue on a broker of the
engine, through the management method that ``qpid-config`` calls.  From the queue, and from the levels that
the engine computed for it, it then reads:

* the *levels* of flow control, which are a stop and a resume threshold in messages and in bytes, and the
  origin of each: given, a percentage of a limit, or turned off (FC-02 … FC-10);
* the *limits*, and what happens when one is reached (LP-01 … LP-19);
* the *alert* thresholds (QT-11, QT-12);
* *remarks*: a warning is about a setting without its apparent effect, a note is additional information, and
  a hint is advice.

Each value has the ids of the rules that it follows from.  Nothing here computes a threshold: the engine does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass

from qflow.broker import Broker
from qflow.broker.alerts import Alarm, ThresholdAlerts
from qflow.broker.errors import InvalidConversion, ManagementError
from qflow.broker.flow_limit import FlowLevels, Level, Origin, effective_max_size, is_exempt
from qflow.broker.history import ARGUMENT
from qflow.broker.limits import make_policy
from qflow.broker.options import UINT32, BrokerOptions
from qflow.broker.queue import Queue
from qflow.broker.settings import LIFETIMES, POLICIES, QueueSettings
from qflow.configuration.declaration import (
    PASSED_ON,
    BrokerSetup,
    ConfigurationError,
    Declaration,
    Remark,
    is_understood,
    suggestion,
)
from qflow.configuration.notations import address_string, qpid_config_line

STOP, RESUME = "stop", "resume"
UNITS = {"count": "messages", "size": "bytes"}
_RATIOS = {STOP: "default-flow-stop-threshold", RESUME: "default-flow-resume-threshold"}
_DEFAULT_RULE = {STOP: "FC-02.4", RESUME: "FC-02.5"}


@dataclass(frozen=True, slots=True)
class Effective:
    """A setting in force (0 for none), with its origin and its rules, the decisive rule last."""

    name: str
    value: int
    why: str
    rules: tuple[str, ...]

    @property
    def unit(self) -> str:
        """The unit of the value: messages or bytes."""
        return UNITS["size" if "size" in self.name else "count"]

    def asdict(self) -> dict[str, object]:
        """Return the setting as JSON values, under its name in ``queue.declare``."""
        key = f"qpid.{'flow_' if self.name.startswith((STOP, RESUME)) else ''}{self.name}"
        return {"name": key, "value": self.value, "unit": self.unit, "why": self.why, "rules": self.rules}


@dataclass(frozen=True, slots=True)
class Refusal:
    """The broker's refusal: error code, name and text, and the text that ``qpid-config`` shows (CF-08)."""

    code: int
    name: str
    text: str
    shown: str


@dataclass(frozen=True, slots=True)
class SettingsExplanation:
    """The effect of a declaration on a broker.

    Attributes:
        declaration, setup: The declaration, and the options of the broker on which it was tried.
        line, address: The ``qpid-config`` line and the address string that declare the queue; "" if they
            cannot express the declaration (a remark gives the reason).
        remarks: The remarks: warnings, notes and hints.
        refusal: The broker's refusal, or None.  After a refusal, the following attributes are empty.
        flow, flow_rules: A sentence on the depths at which producers are held and resume, or on why there is
            no flow control; and its rules.
        levels: The four levels.  If neither unit has a stop threshold, only the two stops, which are 0; empty
            for a ring queue, whose thresholds the broker does not read.
        limits, alerts: The limits, and the alert thresholds.
    """

    declaration: Declaration
    setup: BrokerSetup
    line: str
    address: str
    remarks: tuple[Remark, ...]
    refusal: Refusal | None
    flow: str = ""
    flow_rules: tuple[str, ...] = ()
    levels: tuple[Effective, ...] = ()
    limits: tuple[Effective, ...] = ()
    alerts: tuple[Effective, ...] = ()

    def asdict(self) -> dict[str, object]:
        """Return the explanation as JSON values, as ``--json`` prints it, with QMF's names of a queue."""
        declaration = self.declaration
        return {
            "name": declaration.name,
            "arguments": dict(declaration.arguments),
            "durable": declaration.durable,
            "autoDelete": declaration.auto_delete,
            "exclusive": declaration.exclusive,
            "altExchange": declaration.alternate_exchange or None,
            "broker": self.setup.asdict(),
            "qpid_config": self.line,
            "address": self.address,
            "refusal": asdict(self.refusal) if self.refusal else None,
            "flow_control": self.flow,
            "flow_rules": self.flow_rules,
            "levels": [level.asdict() for level in self.levels],
            "limits": [limit.asdict() for limit in self.limits],
            "alerts": [alert.asdict() for alert in self.alerts],
            "remarks": [asdict(remark) for remark in self.remarks],
        }


def explain(
    declaration: Declaration, broker: BrokerSetup | BrokerOptions | None = None
) -> SettingsExplanation:
    """Try a declaration on a broker and explain the result.

    Parameters:
        declaration: The declaration of a queue.
        broker: The options of the broker on which it is tried; None for the defaults.

    Returns:
        The explanation.  If the broker refuses the declaration, its ``refusal`` is set; nothing is raised.

    Raises:
        ConfigurationError: If no client could send the declaration.

    >>> explained = explain(Declaration("orders", {"qpid.max_count": 1000, "qpid.max_size": 0}))
    >>> print(explained.flow)
    Producers are held above 800 messages, and resume below 700 messages.
    """
    setup = broker if isinstance(broker, BrokerSetup) else BrokerSetup(broker or BrokerOptions())
    remarks = [*declaration.remarks, *setup.remarks()]
    # A declaration that one of the notations cannot express is explained all the same, with a remark.
    line = _write_as("qpid-config line", qpid_config_line, declaration, remarks)
    address = _write_as("address string", address_string, declaration, remarks)
    created = _create(declaration, setup.options)
    if isinstance(created, Refusal):
        remarks += _after_refusal(declaration, setup.options)
        return SettingsExplanation(declaration, setup, line, address, tuple(remarks), created)
    subject = _Subject(declaration, created.settings, setup.options)
    remarks += _remarks_on(subject)
    limits = tuple(_describe_limits(created.settings, setup.options))
    alerts = tuple(_describe_alerts(created, setup.options))
    asked = (declaration, setup, line, address, tuple(remarks), None)
    return SettingsExplanation(*asked, *_describe_flow(subject), limits, alerts)


def _create(declaration: Declaration, options: BrokerOptions) -> Queue | Refusal:
    # A new broker each time, so that no explanation depends on an earlier one.
    broker = Broker(options)
    alternate = declaration.alternate_exchange
    try:
        if alternate and not alternate.startswith("amq."):
            # The declaration assumes that its alternate exchange exists.
            broker.management.create("exchange", alternate, {"exchange-type": "fanout"})
        broker.management.create("queue", declaration.name, declaration.properties())
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"no client can send this: {error}") from error
    except ManagementError as error:
        if error.cause is None:
            raise
        return Refusal(error.cause.code, error.cause.name, error.cause.text, error.text)
    return broker.queue(declaration.name)


def _describe_flow(subject: _Subject) -> tuple[str, tuple[str, ...], tuple[Effective, ...]]:
    # As in the broker, which does not read the thresholds of a ring queue.
    if is_exempt(subject.settings):
        return "No flow control: a ring queue never has any, whatever thresholds it is given.", ("FC-03",), ()
    if levels := subject.levels:
        return _summarize(levels), ("FC-14", "FC-16"), _describe_levels(levels, subject.options)
    described = _describe_levels(FlowLevels.propose(subject.settings, subject.options), subject.options)
    stops = tuple(level for level in described if level.name.startswith(STOP))
    return "No flow control: neither unit has a stop threshold.", ("FC-02.7", "FC-08"), stops


def _write_as(
    what: str, write: Callable[[Declaration], str], declaration: Declaration, remarks: list[Remark]
) -> str:
    try:
        return write(declaration)
    except ConfigurationError as error:
        remarks.append(_note(f"no {what}: {error}"))
        return ""


# Levels, limits, alerts


def _describe_levels(levels: FlowLevels, options: BrokerOptions) -> tuple[Effective, ...]:
    """Return the four levels with the origin of each."""
    return tuple(
        _describe(side, unit, getattr(levels, f"{side}_{unit}"), getattr(levels, f"max_{unit}"), options)
        for unit in UNITS
        for side in (STOP, RESUME)
    )


def _describe(side: str, unit: str, level: Level, maximum: int, options: BrokerOptions) -> Effective:
    why, rules = _explain_origin(side, unit, level.basis or level.origin, maximum, options)
    if level.origin is Origin.AS_STOP:
        why += "; 0 means: as the stop"
        rules += ("FC-05.2",)
    elif level.origin is Origin.RESIDUE:
        why += f"; this unit cannot stop, yet flow control does not end before it is below {level.value}"
        rules += ("FC-09",)
    elif side == STOP and not level.value:
        why += "; this unit never stops a producer"
        rules += ("FC-08",)
    return Effective(f"{side}_{unit}", level.value, why, rules)


def _explain_origin(
    side: str, unit: str, origin: Origin, maximum: int, options: BrokerOptions
) -> tuple[str, tuple[str, ...]]:
    ratio = getattr(options, _RATIOS[side].replace("-", "_"))
    # The broker rounds differently: at a limit of 7, a stop of 80 % is 6, and a resume of 70 % is 4.
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


def _summarize(levels: FlowLevels) -> str:
    """Return the stop and resume thresholds in one sentence (FC-14, FC-16)."""
    above, below = (
        [f"{n} {word}" for unit, word in UNITS.items() if (n := getattr(levels, f"{side}_{unit}").value)]
        for side in (STOP, RESUME)
    )
    # One unit above its stop threshold holds producers; both must be below their resume thresholds to resume.
    return f"Producers are held above {' or '.join(above)}, and resume below {' and '.join(below)}."


def _describe_limits(settings: QueueSettings, options: BrokerOptions) -> Iterator[Effective]:
    """Yield the limits in force, in messages and in bytes."""
    why = "given" if settings.max_count else "no limit in messages: there is no default for it"
    yield Effective("max_count", settings.max_count, why, ("LP-01",))
    size = effective_max_size(settings, options)
    if settings.max_size is None and size:
        why = "the broker's default-queue-limit, as no qpid.max_size is given"
    elif settings.max_size is None:
        why = "no limit in bytes: none is given, and default-queue-limit is 0"
    else:
        why = "given" if size else "given as 0: no limit in bytes"
    yield Effective("max_size", size, why, ("LP-01",))


def _describe_alerts(queue: Queue, options: BrokerOptions) -> Iterator[Effective]:
    """Yield the alert thresholds of a queue, for the units that have alerts."""
    for alerts in queue.observers:
        if isinstance(alerts, ThresholdAlerts):
            for unit, alarm in (("count", alerts.count_alarm), ("size", alerts.size_alarm)):
                if alarm.up:
                    yield from _describe_alarm(unit, alarm, queue.settings, options)


def _describe_alarm(
    unit: str, alarm: Alarm, settings: QueueSettings, options: BrokerOptions
) -> Iterator[Effective]:
    given_up = getattr(settings, f"alert_{unit}_up")
    ratio, limit = options.default_event_threshold_ratio, getattr(settings, f"max_{unit}")
    rules: tuple[str, ...] = ("QT-11",)
    if given_up is None:
        why = f"{ratio} % of qpid.max_{unit}={limit}, cut off"
        # The broker keeps alert thresholds in 32 bits, so a large one wraps to a small one.
        if limit * ratio // 100 >= UINT32:
            why += ", and to 32 bits"
            rules = ("QT-11", "IN-10")
    else:
        why = "given"
    yield Effective(
        f"alert_{unit}_up", alarm.up, f"{why}; an event at {alarm.up} {UNITS[unit]} or more", rules
    )
    given_down = getattr(settings, f"alert_{unit}_down")
    why = "given" if given_down == alarm.down else "half of that, cut off"
    if given_down and given_down != alarm.down:
        why += f" ({given_down} was given, which is not below {alarm.up})"
    yield Effective(f"alert_{unit}_down", alarm.down, f"{why}; an event at {alarm.down} or less", ("QT-12",))


# Remarks


@dataclass(frozen=True, slots=True)
class _Subject:
    """An accepted declaration with its settings and the broker's options, for the remarks on it."""

    declaration: Declaration
    settings: QueueSettings
    options: BrokerOptions

    @property
    def levels(self) -> FlowLevels | None:
        """The levels in force, or None if the queue has no flow control."""
        return FlowLevels.of(self.declaration.name, self.settings, self.options)

    def gives(self, *sides: str) -> bool:
        """Return whether a threshold of the given sides (stop, resume) is given, in messages or bytes."""
        return any(getattr(self.settings, f"flow_{s}_{unit}") is not None for s in sides for unit in UNITS)


def _remarks_on(subject: _Subject) -> Iterator[Remark]:
    """Yield all remarks on a declaration that the broker accepts."""
    for remarks in (_on_policy, _on_levels, _on_alternatives, _on_keys):
        yield from remarks(subject)
    if subject.declaration.durable:
        yield from _on_hanging(subject.settings)
        yield _note("durable is accepted; this model keeps everything in memory", "CM-12")


def _warning(text: str, *rules: str) -> Remark:
    return Remark("warning", text, rules)


def _note(text: str, *rules: str) -> Remark:
    return Remark("note", text, rules)


def _hint(text: str, *rules: str) -> Remark:
    return Remark("hint", text, rules)


def _on_policy(subject: _Subject) -> Iterator[Remark]:
    policy = subject.settings.policy
    if policy not in POLICIES and subject.options.limit_policies == "current":
        yield _warning(
            f'{policy!r} is no policy of this broker: it logs "Unrecognised policy option" and treats the '
            "queue as with 'reject', flow control included",
            "LP-04",
            "X-25",
        )
    if policy == "ring" and subject.gives(STOP, RESUME):
        yield _warning("the thresholds are not even looked at: the policy is ring", "FC-03")
    if policy == "self-destruct":
        yield _note(
            "self-destruct does not exempt from flow control: producers may be held before it ever happens",
            "LP-16",
        )
        if subject.settings.last_value_queue_key:
            text = "self-destruct makes this a plain queue: the last value key is ignored in silence"
            yield _warning(text, "LP-17")
    if subject.gives(RESUME) and not subject.gives(STOP) and not is_exempt(subject.settings):
        yield _warning(
            'the broker logs "user-configured flow limits are ignored as no stop limits provided", yet the '
            "given resume value is used with the default stops",
            "FC-02.2",
        )


def _on_levels(subject: _Subject) -> Iterator[Remark]:
    levels = subject.levels
    if levels is None:
        return
    stops = {"count": levels.stop_count, "size": levels.stop_size}
    for unit, resume in (("count", levels.resume_count), ("size", levels.resume_size)):
        # Someone who gave 0 wanted to turn the unit off; someone who gave nothing needs another explanation.
        if resume.origin is Origin.RESIDUE and stops[unit].origin is Origin.GIVEN:
            yield _warning(
                f"qpid.flow_stop_{unit}=0 turns this unit off by half: producers still do not resume before "
                f"it is below resume_{unit}={resume.value}; give qpid.flow_resume_{unit}=0 as well",
                "FC-09",
            )
        elif resume.origin is Origin.RESIDUE:
            text = f"resume_{unit}={resume.value} has no stop threshold, yet producers do not resume above it"
            yield _warning(text, "FC-09")
    # Turning off the stop threshold of one unit leaves the default stop threshold of the other.
    for unit, other in (("count", "size"), ("size", "count")):
        if getattr(subject.settings, f"flow_stop_{unit}") == 0 and stops[other].value:
            yield _note(
                f"qpid.flow_stop_{unit}=0 alone does not turn flow control off: the other unit still stops "
                f"above {stops[other].value}; give qpid.flow_stop_{other}=0 too for none at all",
                "FC-08",
            )
    stop, limit = levels.stop_count.value, levels.max_count
    # For messages only: capacities count messages, whose sizes are unknown here, so they limit no bytes.
    if 0 < stop < limit:
        yield _hint(
            "the limit in messages is never exceeded if the capacities of all senders add up to at most "
            f"{limit - stop}: {stop} + {limit - stop} = {limit}; this says nothing about bytes",
            "CAP-11",
        )
    for unit, limit in (("count", levels.max_count), ("size", levels.max_size)):
        if 0 < stops[unit].value == limit:
            text = f"stop_{unit} is the limit itself: the limit is met before this unit can hold any producer"
            yield _warning(text, "FC-14", "LP-02")


def _on_hanging(settings: QueueSettings) -> Iterator[Remark]:
    """Yield warnings about the settings with which the real broker hangs on a durable queue."""
    hangs = "the real broker hangs then, for all clients; do not make it durable"
    if settings.policy == "self-destruct":
        yield _warning(f"a durable queue must not destroy itself: {hangs}", "LP-15")
    if settings.lifetime_policy in ("delete-on-close", "delete-if-unused-and-empty"):
        yield _warning(f"a durable queue must not go with the accept of its last message: {hangs}", "RF-19")


def _on_alternatives(subject: _Subject) -> Iterator[Remark]:
    kind = subject.declaration.arguments.get(ARGUMENT, subject.options.flow_control)
    if kind != "shipped":
        text = f"flow control is the alternative {kind!r}; the levels are those of the broker as shipped"
        yield _note(text, "ALT-01")


_SURPRISING: dict[str, tuple[str, str]] = {
    "qpid.alert_repeat_gap": ("is read and never used", "IN-01"),
    "x-qpid-minimum-alert-repeat-gap": ("is read and never used", "IN-01"),
    "qpid.group_timestamp": ("is kept and never used", "IN-02"),
    "x-qpid-maximum-message-count": ("is an alert threshold, not a limit", "CF-01"),
    "x-qpid-maximum-message-size": ("is an alert threshold, not a limit", "CF-01"),
}


def _on_keys(subject: _Subject) -> Iterator[Remark]:
    for key in subject.declaration.arguments:
        if not is_understood(key):
            close = suggestion(key)
            asked = f" (did you mean {close}?)" if close else ""
            yield _warning(f"{key} means nothing to the broker, which accepts it in silence{asked}", "CF-02")
        elif key in PASSED_ON and key != ARGUMENT:
            yield _note(f"{key} is for a store or the HA module, which this model leaves out")
        elif key in _SURPRISING:
            text, rule = _SURPRISING[key]
            yield _warning(f"{key} {text}", rule)
    policy = subject.settings.lifetime_policy
    if policy and policy not in LIFETIMES:
        yield _warning(f"{policy!r} is no lifetime policy: the broker logs a warning and ignores it", "QT-08")


def _after_refusal(declaration: Declaration, options: BrokerOptions) -> Iterator[Remark]:
    """Yield remarks that say why the thresholds were refused and how to fix them (FC-05 … FC-07)."""
    try:
        settings = QueueSettings.from_arguments(declaration.arguments)
    except InvalidConversion:
        return
    # A refused queue has no levels: the engine computes them again here, without the check.
    levels = FlowLevels.propose(settings, options)
    if is_exempt(settings) or not levels.is_limiting:
        return
    for unit in UNITS:
        yield from _why_refused(unit, getattr(levels, f"stop_{unit}"), getattr(levels, f"resume_{unit}"))
    if settings.max_size is None and 0 < levels.max_size < levels.stop_size.value:
        yield _hint(
            f"the limit of {levels.max_size} bytes is the broker's default-queue-limit; give qpid.max_size, "
            "or give it as 0 for no limit",
            "FC-06",
        )


def _why_refused(unit: str, stop: Level, resume: Level) -> Iterator[Remark]:
    if not 0 < stop.value < resume.value:
        return
    if resume.origin is not Origin.GIVEN:
        yield _hint(
            f"you gave no qpid.flow_resume_{unit}, and its default, {resume.value}, is above your stop of "
            f'{stop.value}; give it as well, or give 0 for "as the stop"',
            "FC-07",
        )
    elif stop.origin is not Origin.GIVEN:
        yield _hint(
            f"you gave no qpid.flow_stop_{unit}, and its default, {stop.value}, is below your resume of "
            f"{resume.value}",
            "FC-05",
            "FC-07",
        )


# The report

_WITHOUT_LIMIT = ("never: the queue has no limit", "LP-01")
_AT_LIMIT = {
    "reject": ("the message is refused, and its session dies", "LP-05"),
    "ring": ("the oldest messages make room, acquired ones too", "LP-10"),
    "priority_ring": (
        "the oldest message of the lowest priority makes room, or the new one is dropped",
        "LP-12",
    ),
    "ring_strict": ("the oldest message makes room, unless it is acquired", "LP-19"),
    "self-destruct": ("the queue is deleted", "LP-15"),
}


def report(explanation: SettingsExplanation) -> str:
    """Return an explanation as text for a terminal, as ``qflow config`` prints it.

    >>> print(report(explain(Declaration("orders", {"qpid.max_count": -1}))).partition("the broker")[2])
     refuses (542 invalid-argument)
      invalid conversion: Cannot convert from int64 to uint32
    """
    return "\n".join(_write_lines(explanation))


def _write_lines(explanation: SettingsExplanation) -> Iterator[str]:
    declaration = explanation.declaration
    yield f"queue {declaration.name}"
    yield from _indent(_list_declared(declaration))
    for title, text in (
        ("broker", explanation.setup.text()),
        ("address", explanation.address),
        ("qpid-config", explanation.line),
    ):
        if text:
            yield title
            yield from _indent(text.splitlines())
    if explanation.refusal:
        refusal = explanation.refusal
        yield f"the broker refuses ({refusal.code} {refusal.name})"
        yield from _indent([refusal.shown])
    else:
        yield from _write_in_force(explanation)
    for remark in explanation.remarks:
        rules = f" [{', '.join(remark.rules)}]" if remark.rules else ""
        yield f"{remark.kind}: {remark.text}{rules}"


def _list_declared(declaration: Declaration) -> Iterator[str]:
    for key, value in declaration.arguments.items():
        yield f"{key} = {json.dumps(value)}"
    if declaration.alternate_exchange:
        yield f"alternate-exchange = {declaration.alternate_exchange}"
    for name in ("durable", "auto_delete", "exclusive"):
        if getattr(declaration, name):
            yield name.replace("_", "-")


def _write_in_force(explanation: SettingsExplanation) -> Iterator[str]:
    yield "limits"
    yield from _write_table(explanation.limits)
    settings = QueueSettings.from_arguments(explanation.declaration.arguments)
    policy = make_policy(settings.policy, settings.priorities > 0, explanation.setup.options.limit_policies)
    what, rule = _AT_LIMIT[policy] if any(limit.value for limit in explanation.limits) else _WITHOUT_LIMIT
    yield f"  when full: {what} [{rule}]"
    yield "flow control"
    yield f"  {explanation.flow} [{', '.join(explanation.flow_rules)}]"
    yield from _write_table(explanation.levels)
    yield "alerts"
    yield from _write_table(explanation.alerts) if explanation.alerts else ["  none [QT-11]"]


def _write_table(rows: Iterable[Effective]) -> Iterator[str]:
    rows = tuple(rows)
    name = max((len(row.name) for row in rows), default=0)
    value = max((len(str(row.value)) for row in rows), default=0)
    for row in rows:
        yield f"  {row.name:<{name}}  {row.value:>{value}} {row.unit:<8}  {row.why} [{', '.join(row.rules)}]"


def _indent(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
