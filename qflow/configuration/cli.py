"""``qflow config``: the effect of a configuration of a queue, a broker or a whole setup, or its refusal."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from qflow.arguments import add_json, add_several
from qflow.configuration.qpid_config import add_exchange_options, add_queue_options

if TYPE_CHECKING:
    from qflow.configuration.declaration import BrokerSetup, Declaration
    from qflow.configuration.setup_script import SetupStep


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add the command ``config`` to a parser, without importing the engine."""
    config = rooms.add_parser(
        "config",
        description="Try out a configuration. Without an action, list the broker's options, each with its "
        "module and its effect here, or every reason why the broker would not start.",
    )
    _add_broker(config, is_whole=True)
    actions = config.add_subparsers(dest="action", metavar="ACTION")
    words = "Show the effect of an addition, without a broker."
    adding = actions.add_parser("add", help="try adding a queue or an exchange", description=words)
    kinds = adding.add_subparsers(dest="kind", metavar="KIND", required=True)
    queue = kinds.add_parser(
        "queue",
        help="a queue, with the options of qpid-config",
        description="Print the declare arguments, the address string and the thresholds in force with the "
        "rule behind each. Status 1 if the broker refuses, with its words; 2 for an unknown option.",
    )
    add_queue_options(queue)
    queue.add_argument_group("what qpid-config does not have").add_argument(
        "--declare", default="", metavar="JSON", help="declare arguments as a JSON map; the options are added"
    )
    _add_broker(queue)
    exchange = kinds.add_parser(
        "exchange",
        help="an exchange, with the options of qpid-config",
        description="Print what qpid-config sends for an exchange, and whether the broker accepts it.",
    )
    add_exchange_options(exchange)
    _add_broker(exchange)
    bind = actions.add_parser(
        "bind",
        help="try a binding of a queue to an exchange",
        description="Print what qpid-config sends for a binding, and whether the broker accepts it. The "
        "queue, and an exchange that is not one of the broker's own, are assumed to exist.",
    )
    bind.add_argument("exchange", metavar="EXCHANGE", help="an exchange, such as amq.topic")
    bind.add_argument("queue", metavar="QUEUE", help="the queue's name")
    bind.add_argument("key", nargs="?", default="", metavar="KEY", help="the binding key; default: empty")
    matched = "headers exchange only: all or any, then the headers to match, KEY=VALUE"
    bind.add_argument("condition", nargs="*", metavar="CONDITION", help=matched)
    _add_broker(bind)
    address = actions.add_parser(
        "address",
        help="show the queue that an address string creates, for each client",
        description="Say which clients read an address string, which queue it creates, and its effect.",
    )
    address.add_argument("address", metavar="ADDRESS", help="such as 'orders; {create: always}'")
    _add_broker(address)
    script = actions.add_parser(
        "script",
        help="try a shell script of qpid-config lines",
        description="Read a shell script of qpid-config lines without running it, and print the resulting "
        "queues, exchanges and bindings, and the broker's refusals in order. Status 1 after a refusal.",
    )
    script.add_argument("script", metavar="FILE", help="the script")
    _add_broker(script)


def _add_broker(parser: argparse.ArgumentParser, *, is_whole: bool = False) -> None:
    """Add the options of the broker, which may be given before or after the action."""
    group = parser.add_argument_group("broker and output options")
    such = "an option of qpidd, such as --broker-option=--default-flow-stop-threshold=90"
    # Without SUPPRESS, argparse would replace a value given before the action by the action's default.
    kept: dict[str, Any] = {} if is_whole else {"default": argparse.SUPPRESS}
    add_several(group, "--broker-option", "OPTION", such, dest="broker_options", **kept)
    group.add_argument(
        "--broker-config", metavar="FILE", help="the broker's qpidd.conf", **({"default": ""} | kept)
    )
    add_json(group, **kept)


def run(chosen: argparse.Namespace) -> int:
    """Run the chosen action, and return 1 if the broker refuses or does not start, else 0."""
    from qflow.broker.errors import StartupError
    from qflow.configuration.declaration import BrokerSetup

    # The two hyphens of the broker's own option are easily left out: --broker-option=a=b means --a=b.
    options = [text if text.startswith("-") else f"--{text}" for text in chosen.broker_options]
    try:
        setup = BrokerSetup.read(options, os.environ, chosen.broker_config)
    except StartupError as error:
        problems = str(error).split("\n")
        told = {"refusal": {"shown": str(error), "by": "qpidd", "problems": problems}}
        text = "\n  ".join(["the broker does not start", *problems])
        print(json.dumps(told, indent=2) if chosen.json else text)
        return 1
    actions = {None: _options, "add": _add, "bind": _bind, "address": _address, "script": _script}
    return actions[chosen.action](chosen, setup)


def _options(chosen: argparse.Namespace, setup: BrokerSetup) -> int:
    from qflow.configuration.declaration import report_options

    print(json.dumps({"broker": setup.asdict()}, indent=2) if chosen.json else report_options(setup))
    return 0


def _add(chosen: argparse.Namespace, setup: BrokerSetup) -> int:
    from qflow.configuration.notations import declaration_of

    if chosen.kind == "queue":
        return _explain(chosen, setup, declaration_of(chosen, chosen.declare))
    from qflow.configuration.setup_script import exchange_step

    return _try(chosen, setup, exchange_step(chosen), ())


def _bind(chosen: argparse.Namespace, setup: BrokerSetup) -> int:
    from qflow.configuration.setup_script import SetupStep, step_of

    words = [chosen.exchange, chosen.queue, chosen.key, *chosen.condition]
    kind = "headers" if chosen.condition else "topic"
    granted = [SetupStep(0, "", "create", "queue", chosen.queue)]
    if not chosen.exchange.startswith("amq."):
        granted.append(SetupStep(0, "", "create", "exchange", chosen.exchange, {"exchange-type": kind}))
    return _try(chosen, setup, step_of(["bind", *words]), granted)


def _try(
    chosen: argparse.Namespace, setup: BrokerSetup, step: SetupStep, granted: Sequence[SetupStep]
) -> int:
    from qflow.broker import Broker

    broker = Broker(setup.options)
    for before in granted:
        before.apply(broker)
    refusal = step.apply(broker)
    properties = {} if refusal else step.sent(broker)
    if chosen.json:
        sent = {"method": step.method, "type": step.type, "name": step.name, "properties": properties}
        print(json.dumps(sent | {"qpid_config": step.text, "refusal": refusal or None}, indent=2))
        return 1 if refusal else 0
    lines = ["qpid-config", f"  {step.text}", "sent", f"  {step.method} {step.type} {step.name!r}"]
    lines += [f"  {key} = {json.dumps(value)}" for key, value in properties.items()]
    lines += ["the broker refuses", f"  {refusal}"] if refusal else ["the broker takes it"]
    print("\n".join(lines))
    return 1 if refusal else 0


def _address(chosen: argparse.Namespace, setup: BrokerSetup) -> int:
    from qflow.configuration.declaration import Declaration
    from qflow.configuration.notations import address_readings, compare_readings

    readings = address_readings(chosen.address)
    read = [one for one in readings.values() if isinstance(one, Declaration)]
    if not read:
        raise next(one for one in readings.values() if isinstance(one, Exception))
    clients = compare_readings(readings)
    return _explain(chosen, setup, read[0], clients)


def _explain(
    chosen: argparse.Namespace,
    setup: BrokerSetup,
    declaration: Declaration,
    clients: Mapping[str, str] | None = None,
) -> int:
    from qflow.configuration.explanation import explain, report

    explanation = explain(declaration, setup)
    if chosen.json:
        print(json.dumps(explanation.asdict() | ({"clients": clients} if clients else {}), indent=2))
    else:
        print(
            *(f"{client}: {said}" for client, said in (clients or {}).items()), report(explanation), sep="\n"
        )
    return 1 if explanation.refusal else 0


def _script(chosen: argparse.Namespace, setup: BrokerSetup) -> int:
    from qflow.broker import Broker
    from qflow.configuration.setup_script import SetupResult, read_script

    result = SetupResult.of(read_script(chosen.script), Broker(setup.options))
    print(json.dumps(result.asdict(), indent=2) if chosen.json else result.report())
    return 1 if result.refusals else 0
