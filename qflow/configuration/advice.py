"""Advice on a configuration: what does not do what it seems to, what is good to know, what helps.

Each function looks at one thing; :data:`ADVISERS` is the list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from qflow.broker.errors import InvalidConversion
from qflow.broker.flow_limit import FlowLevels, Level, Origin, is_exempt
from qflow.broker.history.factory import ARGUMENT
from qflow.broker.options import BrokerOptions
from qflow.broker.settings import LIFETIMES, POLICIES, QueueSettings
from qflow.configuration.declaration import Declaration, Remark
from qflow.configuration.keys import PASSED_ON, is_understood, suggestion


@dataclass(frozen=True, slots=True)
class Subject:
    """What the advisers look at."""

    declaration: Declaration
    settings: QueueSettings
    options: BrokerOptions

    @property
    def levels(self) -> FlowLevels | None:
        """The levels in force; None without flow control."""
        if is_exempt(self.settings):
            return None
        levels = FlowLevels.proposed(self.settings, self.options)
        return levels.checked(self.declaration.name) if levels.is_limiting else None

    @property
    def gives_thresholds(self) -> bool:
        """Whether any of the four thresholds is given."""
        s = self.settings
        given = (s.flow_stop_count, s.flow_resume_count, s.flow_stop_size, s.flow_resume_size)
        return any(value is not None for value in given)


def remarks_on(declaration: Declaration, settings: QueueSettings, options: BrokerOptions) -> Iterator[Remark]:
    """Yield all remarks on a declaration that the broker accepts.

    Examples
    --------
    >>> declaration = Declaration("orders", {"qpid.flow_resume_count": 10})
    >>> settings = QueueSettings.from_arguments(declaration.arguments)
    >>> [remark.rules for remark in remarks_on(declaration, settings, BrokerOptions())]
    [('FC-02.2',), ('FC-09',)]
    """
    subject = Subject(declaration, settings, options)
    for adviser in ADVISERS:
        yield from adviser(subject)


def _policy(subject: Subject) -> Iterator[Remark]:
    policy = subject.settings.policy
    if policy not in POLICIES and subject.options.limit_policies == "current":
        text = (
            f'{policy!r} is no policy of this broker: it logs "Unrecognised policy option" and treats the '
            "queue as with 'reject', flow control included"
        )
        yield Remark("warning", text, ("LP-04", "X-25"))
    if policy == "ring" and subject.gives_thresholds:
        yield Remark("warning", "the thresholds are not even looked at: the policy is ring", ("FC-03",))
    if policy == "self-destruct":
        text = "self-destruct does not exempt from flow control: producers may be held before it ever happens"
        yield Remark("note", text, ("LP-16",))
        if subject.settings.last_value_queue_key:
            text = "self-destruct makes this a plain queue: the last value key is ignored in silence"
            yield Remark("warning", text, ("LP-17",))


def _resume_without_stop(subject: Subject) -> Iterator[Remark]:
    s = subject.settings
    has_stop = s.flow_stop_count is not None or s.flow_stop_size is not None
    has_resume = s.flow_resume_count is not None or s.flow_resume_size is not None
    if has_resume and not has_stop and not is_exempt(s):
        text = (
            'the broker logs "user-configured flow limits are ignored as no stop limits provided", yet the '
            "given resume value is used with the default stops"
        )
        yield Remark("warning", text, ("FC-02.2",))


def _residue(subject: Subject) -> Iterator[Remark]:
    levels = subject.levels
    if levels is None:
        return
    for unit, stop, level in (
        ("count", levels.stop_count, levels.resume_count),
        ("size", levels.stop_size, levels.resume_size),
    ):
        if level.origin is Origin.RESIDUE and stop.origin is Origin.GIVEN:
            text = (
                f"qpid.flow_stop_{unit}=0 turns this unit off by half: producers still do not go on before "
                f"it is below resume_{unit}={level.value}; give qpid.flow_resume_{unit}=0 as well"
            )
            yield Remark("warning", text, ("FC-09",))
        elif level.origin is Origin.RESIDUE:
            text = f"resume_{unit}={level.value} has no stop beside it, yet producers do not go on above it"
            yield Remark("warning", text, ("FC-09",))


def _disabled_by_half(subject: Subject) -> Iterator[Remark]:
    s, levels = subject.settings, subject.levels
    for unit, given, other, name in (
        ("count", s.flow_stop_count, levels and levels.stop_size, "qpid.flow_stop_size"),
        ("size", s.flow_stop_size, levels and levels.stop_count, "qpid.flow_stop_count"),
    ):
        if given == 0 and other and other.value:
            text = (
                f"qpid.flow_stop_{unit}=0 alone does not turn flow control off: the other unit still stops "
                f"above {other.value}; give {name}=0 too for none at all"
            )
            yield Remark("note", text, ("FC-08",))


def _room(subject: Subject) -> Iterator[Remark]:
    levels = subject.levels
    if levels is None:
        return
    stop, limit = levels.stop_count.value, levels.max_count
    if 0 < stop < limit:
        text = (
            "the limit in messages is never exceeded if the capacities of all senders add up to at most "
            f"{limit - stop}: {stop} + {limit - stop} = {limit}; this says nothing about bytes"
        )
        yield Remark("hint", text, ("CAP-11",))
    for unit, at_stop, at_limit in (
        ("count", stop, limit),
        ("size", levels.stop_size.value, levels.max_size),
    ):
        if 0 < at_stop == at_limit:
            text = f"stop_{unit} is the limit itself: the limit is met before this unit can hold any producer"
            yield Remark("warning", text, ("FC-14", "LP-02"))


def _alternatives(subject: Subject) -> Iterator[Remark]:
    kind = subject.declaration.arguments.get(ARGUMENT, subject.options.flow_control)
    if kind != "shipped":
        text = f"flow control is the alternative {kind!r}; the levels are those of the broker as shipped"
        yield Remark("note", text, ("ALT-01",))


def _keys(subject: Subject) -> Iterator[Remark]:
    for key in subject.declaration.arguments:
        if not is_understood(key):
            close = suggestion(key)
            asked = f" (did you mean {close}?)" if close else ""
            yield Remark(
                "warning",
                f"{key} means nothing to the broker, which accepts it in silence{asked}",
                ("CF-02",),
            )
        elif key in PASSED_ON and key != ARGUMENT:
            yield Remark("note", f"{key} is for a store or the HA module, which this model leaves out")
        elif key in _SURPRISING:
            text, rules = _SURPRISING[key]
            yield Remark("warning", f"{key} {text}", rules)
    policy = subject.settings.lifetime_policy
    if policy and policy not in LIFETIMES:
        yield Remark(
            "warning",
            f"{policy!r} is no lifetime policy: the broker logs a warning and ignores it",
            ("QT-08",),
        )


_SURPRISING: dict[str, tuple[str, tuple[str, ...]]] = {
    "qpid.alert_repeat_gap": ("is read and never used", ("IN-01",)),
    "x-qpid-minimum-alert-repeat-gap": ("is read and never used", ("IN-01",)),
    "qpid.group_timestamp": ("is kept and never used", ("IN-02",)),
    "x-qpid-maximum-message-count": ("is an alert threshold, not a limit", ("CF-01",)),
    "x-qpid-maximum-message-size": ("is an alert threshold, not a limit", ("CF-01",)),
}


def _durable(subject: Subject) -> Iterator[Remark]:
    if subject.declaration.durable:
        yield Remark("note", "durable is accepted; this model keeps everything in memory", ("CM-12",))


ADVISERS: tuple[Callable[[Subject], Iterator[Remark]], ...] = (
    _policy,
    _resume_without_stop,
    _residue,
    _disabled_by_half,
    _room,
    _alternatives,
    _keys,
    _durable,
)


def after_refusal(declaration: Declaration, options: BrokerOptions) -> Iterator[Remark]:
    """Yield what made the broker refuse the thresholds, if it was that, and what to do (FC-05 … FC-07).

    Examples
    --------
    >>> lone_stop = Declaration("orders", {"qpid.max_count": 100, "qpid.flow_stop_count": 5})
    >>> print(next(after_refusal(lone_stop, BrokerOptions())).text)
    you gave no qpid.flow_resume_count, and its default, 70, is above your stop of 5; give it as well, or \
give 0 for "as the stop"
    """
    try:
        settings = QueueSettings.from_arguments(declaration.arguments)
    except InvalidConversion:
        return
    levels = FlowLevels.proposed(settings, options)
    if is_exempt(settings) or not levels.is_limiting:
        return
    yield from _why_refused("count", levels.stop_count, levels.resume_count)
    yield from _why_refused("size", levels.stop_size, levels.resume_size)
    if settings.max_size is None and 0 < levels.max_size < levels.stop_size.value:
        text = (
            f"the limit of {levels.max_size} bytes is the broker's default-queue-limit; give qpid.max_size, "
            "or give it as 0 for no limit"
        )
        yield Remark("hint", text, ("FC-06",))


def _why_refused(unit: str, stop: Level, resume: Level) -> Iterator[Remark]:
    if not 0 < stop.value < resume.value:
        return
    if resume.origin is not Origin.GIVEN:
        text = (
            f"you gave no qpid.flow_resume_{unit}, and its default, {resume.value}, is above your stop of "
            f'{stop.value}; give it as well, or give 0 for "as the stop"'
        )
        yield Remark("hint", text, ("FC-07",))
    elif stop.origin is not Origin.GIVEN:
        text = (
            f"you gave no qpid.flow_stop_{unit}, and its default, {stop.value}, is below your resume of "
            f"{resume.value}"
        )
        yield Remark("hint", text, ("FC-05", "FC-07"))
