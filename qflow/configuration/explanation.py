"""Explanation: what a configuration comes to, with the rule behind each value, or the broker's refusal.

The queue is created on a broker of the engine, through the management method that ``qpid-config``
calls; what is said here is read from that queue and from the levels the engine worked out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qflow.broker import Broker, BrokerOptions
from qflow.broker.errors import AmqpException, ManagementError
from qflow.broker.flow_limit import FlowLevels, is_exempt
from qflow.broker.queue import Queue
from qflow.broker.settings import QueueSettings
from qflow.configuration.advice import after_refusal, remarks_on
from qflow.configuration.broker_setup import BrokerSetup
from qflow.configuration.declaration import ConfigurationError, Declaration, Remark
from qflow.configuration.flow_words import Effective, describe_levels, summary
from qflow.configuration.limit_words import describe_alerts, describe_limits
from qflow.configuration.writing import address_string, qpid_config_line


@dataclass(frozen=True, slots=True)
class Refusal:
    """The broker's refusal: AMQP class and code, and its words.

    Attributes
    ----------
    code, name : int, str
        Such as 542, ``invalid-argument``.
    text : str
        Its words.
    shown : str
        As ``qpid-config`` gets them: management answers with status 7 and this text (CF-08).
    """

    code: int
    name: str
    text: str
    shown: str

    def asdict(self) -> dict[str, object]:
        """Return plain values."""
        return {"code": self.code, "name": self.name, "text": self.text, "shown": self.shown}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a declaration comes to on a broker.

    Attributes
    ----------
    declaration : Declaration
        What was asked for.
    setup : BrokerSetup
        The broker it was tried on.
    line, address : str
        The ``qpid-config`` line and the address string; "" where they cannot say it (a remark says why).
    remarks : tuple of Remark
        Warnings, notes, hints.
    refusal : Refusal or None
        The broker's refusal; then what follows is empty.
    flow, flow_rules : str, tuple of str
        When producers are held, or why they never are, in one sentence.
    levels : tuple of Effective
        The four levels; only the stops, which are 0 then, if they come to no flow control.
    limits, alerts : tuple of Effective
        The limits; the alert thresholds.
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
        """Return plain values, as ``--json`` prints them."""
        declaration = self.declaration
        return {
            "queue": declaration.name,
            "arguments": dict(declaration.arguments),
            "durable": declaration.durable,
            "auto_delete": declaration.auto_delete,
            "exclusive": declaration.exclusive,
            "alternate_exchange": declaration.alternate_exchange,
            "broker": self.setup.asdict(),
            "qpid_config": self.line,
            "address": self.address,
            "refusal": self.refusal.asdict() if self.refusal else None,
            "flow_control": self.flow,
            "flow_rules": list(self.flow_rules),
            "levels": [level.asdict() for level in self.levels],
            "limits": [limit.asdict() for limit in self.limits],
            "alerts": [alert.asdict() for alert in self.alerts],
            "remarks": [
                {"kind": remark.kind, "text": remark.text, "rules": list(remark.rules)}
                for remark in self.remarks
            ],
        }


def explain(declaration: Declaration, broker: BrokerSetup | BrokerOptions | None = None) -> Explanation:
    """Try a declaration on a broker and explain what comes of it.

    Parameters
    ----------
    declaration : Declaration
        The queue that is asked for.
    broker : BrokerSetup, BrokerOptions or None
        The broker it is tried on; None for one with the defaults.

    Returns
    -------
    Explanation
        With a ``refusal`` if the broker refuses; nothing is raised for that.

    Examples
    --------
    >>> explained = explain(Declaration("orders", {"qpid.max_count": 1000, "qpid.max_size": 0}))
    >>> print(explained.flow)
    Producers are held above 800 messages, and go on below 700 messages.
    """
    setup = broker if isinstance(broker, BrokerSetup) else BrokerSetup(broker or BrokerOptions())
    remarks = [*declaration.remarks, *setup.remarks()]
    line = _written("qpid-config line", qpid_config_line, declaration, remarks)
    address = _written("address string", address_string, declaration, remarks)
    created = _create(declaration, setup.options)
    if isinstance(created, Refusal):
        remarks += after_refusal(declaration, setup.options)
        return Explanation(declaration, setup, line, address, tuple(remarks), created)
    flow, rules, levels = _flow(declaration, created.settings, setup.options)
    return Explanation(
        declaration,
        setup,
        line,
        address,
        (*remarks, *remarks_on(declaration, created.settings, setup.options)),
        None,
        flow,
        rules,
        levels,
        tuple(describe_limits(created.settings, setup.options)),
        tuple(describe_alerts(created, setup.options)),
    )


def _create(declaration: Declaration, options: BrokerOptions) -> Queue | Refusal:
    broker = Broker(options)
    alternate = declaration.alternate_exchange
    if alternate and not alternate.startswith("amq."):
        # The exchange is another matter than the queue: it is taken for granted.
        broker.management.create("exchange", alternate, {"exchange-type": "fanout"})
    try:
        broker.management.create("queue", declaration.name, declaration.properties())
    except ManagementError as error:
        cause = error.__cause__
        if isinstance(cause, AmqpException):
            return Refusal(cause.code, cause.name, cause.text, error.text)
        raise
    return broker.queue(declaration.name)


def _flow(
    declaration: Declaration, settings: QueueSettings, options: BrokerOptions
) -> tuple[str, tuple[str, ...], tuple[Effective, ...]]:
    if is_exempt(settings):
        return "No flow control: a ring queue never has any, whatever thresholds it is given.", ("FC-03",), ()
    levels = FlowLevels.proposed(settings, options)
    if not levels.is_limiting:
        text = "No flow control: neither unit has a stop threshold."
        stops = tuple(level for level in describe_levels(levels, options) if level.name.startswith("stop"))
        return text, ("FC-02.7", "FC-08"), stops
    levels = levels.checked(declaration.name)
    return summary(levels), ("FC-14", "FC-16"), describe_levels(levels, options)


def _written(
    what: str, write: Callable[[Declaration], str], declaration: Declaration, remarks: list[Remark]
) -> str:
    try:
        return write(declaration)
    except ConfigurationError as error:
        remarks.append(Remark("note", f"no {what}: {error}"))
        return ""
