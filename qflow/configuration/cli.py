"""``qflow config``: the effect of a configuration of a queue, or why it is refused."""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

from qflow.arguments import add_json, add_several
from qflow.configuration.qpid_config import add_queue_options


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``config`` to the commands of a parser; the engine is not loaded for that."""
    config = rooms.add_parser("config")
    actions = config.add_subparsers(dest="action", metavar="ACTION", required=True)
    adding = actions.add_parser("add", help="try what would be added", description="Try what would be added.")
    kinds = adding.add_subparsers(dest="kind", metavar="KIND", required=True)
    queue = kinds.add_parser(
        "queue",
        help="a queue, with the options of qpid-config",
        description="Print the declare arguments, the address string and the thresholds in force with the "
        "rule behind each. Status 1 if the broker refuses, with its words; 2 for an option that is none.",
    )
    add_queue_options(queue)
    queue.add_argument_group("what qpid-config does not have").add_argument(
        "--declare", default="", metavar="JSON", help="declare arguments as a JSON map; the options are added"
    )
    _add_broker(queue)
    address = actions.add_parser(
        "address",
        help="the queue that an address string creates",
        description="Say the same of the queue that an address string creates.",
    )
    address.add_argument("address", metavar="ADDRESS", help="such as 'orders; {create: always}'")
    _add_broker(address)


def _add_broker(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the broker it is tried on, and the output")
    such = "an option of qpidd, such as --broker-option=--default-flow-stop-threshold=90"
    add_several(group, "--broker-option", "OPTION", such, dest="broker_options")
    group.add_argument("--broker-config", default="", metavar="FILE", help="its qpidd.conf")
    add_json(group)


def run(chosen: argparse.Namespace) -> int:
    """Do what was asked; return 1 if the broker refuses the queue or does not start."""
    from qflow.broker.errors import StartupError
    from qflow.configuration.declaration import BrokerSetup
    from qflow.configuration.explanation import explain, report
    from qflow.configuration.notations import declaration_of, read_address

    if chosen.action == "address":
        declaration = read_address(chosen.address)
    else:
        declaration = declaration_of(chosen, chosen.declare)
    options = [text if text.startswith("-") else f"--{text}" for text in chosen.broker_options]
    try:
        setup = BrokerSetup.read(options, os.environ, chosen.broker_config)
    except StartupError as error:
        told = {"refusal": {"shown": str(error), "by": "qpidd"}}
        print(json.dumps(told, indent=2) if chosen.json else f"the broker does not start\n  {error}")
        return 1
    explanation = explain(declaration, setup)
    print(json.dumps(explanation.asdict(), indent=2) if chosen.json else report(explanation))
    return 1 if explanation.refusal else 0
