"""The options of ``qpid-config add queue`` and ``add exchange``, as data and as argparse options.

Each option of ``add queue`` sends one declare argument (rules.md#qpid-config-options).  This module imports
only the standard library and the command line's helpers, so that ``qflow`` can list the options without
importing the engine.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Literal

from qflow.arguments import add_several

POLICY_KEY = "qpid.policy_type"
REPLICATE_KEY = "qpid.replicate"
POLICIES = ("none", "reject", "ring", "ring-strict")
SENT_POLICIES = ("reject", "ring")
REPLICATION = ("none", "configuration", "all")


@dataclass(frozen=True, slots=True)
class QueueOption:
    """An option of ``qpid-config add queue``, and the declare argument that it sends (1 for a switch)."""

    flag: str
    key: str
    kind: Literal["integer", "text", "switch"]
    help: str
    needs_durable: bool = False

    @property
    def attribute(self) -> str:
        """The name of the attribute in which argparse stores the option's value."""
        return self.flag.removeprefix("--").replace("-", "_")


OPTIONS: tuple[QueueOption, ...] = (
    QueueOption("--file-count", "qpid.file_count", "integer", "files in the store's journal", True),
    QueueOption("--file-size", "qpid.file_size", "integer", "file size of the store, in pages", True),
    QueueOption("--efp-partition-num", "qpid.efp_partition_num", "integer", "partition of the store", True),
    QueueOption("--efp-pool-file-size", "qpid.efp_pool_file_size", "integer", "KiB per store file", True),
    QueueOption("--wcache-page-size", "qpid.wcache-page-size", "integer", "KiB per store buffer page", True),
    QueueOption("--wcache-num-pages", "qpid.wcache-num-pages", "integer", "store buffer pages", True),
    QueueOption("--max-queue-size", "qpid.max_size", "integer", "limit in bytes; 0 for none"),
    QueueOption("--max-queue-count", "qpid.max_count", "integer", "limit in messages; 0 for none"),
    QueueOption(
        "--lvq-key", "qpid.last_value_queue_key", "text", "keep the last message of each value of KEY"
    ),
    QueueOption("--flow-stop-size", "qpid.flow_stop_size", "integer", "hold producers above N bytes"),
    QueueOption("--flow-resume-size", "qpid.flow_resume_size", "integer", "release them below N bytes"),
    QueueOption("--flow-stop-count", "qpid.flow_stop_count", "integer", "hold producers above N messages"),
    QueueOption("--flow-resume-count", "qpid.flow_resume_count", "integer", "release them below N messages"),
    QueueOption("--group-header", "qpid.group_header_key", "text", "the header that names a message's group"),
    QueueOption("--shared-groups", "qpid.shared_msg_group", "switch", "several consumers share the groups"),
)


def add_queue_options(parser: argparse.ArgumentParser) -> None:
    """Add the queue's name and the options of ``qpid-config add queue`` to a parser."""
    parser.add_argument("name", metavar="NAME", help="the queue's name")
    options = parser.add_argument_group("options of qpid-config add queue")
    for option in OPTIONS:
        if option.kind == "switch":
            options.add_argument(option.flag, action="store_true", help=option.help)
        elif option.kind == "integer":
            note = " (with --durable only)" if option.needs_durable else ""
            options.add_argument(option.flag, type=integer, metavar="N", help=option.help + note)
        else:
            options.add_argument(option.flag, metavar="KEY", help=option.help)
    options.add_argument("--limit-policy", choices=POLICIES, help="what to do when a limit is reached")
    other = "any other argument: a whole number if VALUE is one, else a string; null without the ="
    add_several(options, "--argument", "NAME=VALUE", other, dest="extra")
    options.add_argument("--alternate-exchange", metavar="NAME", help="where dropped messages go")
    options.add_argument("--durable", action="store_true", help="the queue survives the broker")
    options.add_argument("--replicate", type=_level, metavar="LEVEL", help="none, configuration or all (HA)")
    options.add_argument("--start-replica", metavar="URL", help="replicate the queue of that broker (HA)")


def add_exchange_options(parser: argparse.ArgumentParser) -> None:
    """Add the exchange's type and name and the options of ``qpid-config add exchange`` to a parser."""
    parser.add_argument("type", metavar="TYPE", help="direct, topic, fanout or headers")
    parser.add_argument("name", metavar="NAME", help="the exchange's name")
    options = parser.add_argument_group("options of qpid-config add exchange")
    options.add_argument("--alternate-exchange", metavar="NAME", help="where unroutable messages go")
    options.add_argument("--durable", action="store_true", help="the exchange survives the broker")
    options.add_argument("--sequence", action="store_true", help="number its messages")
    options.add_argument("--ive", action="store_true", help="keep the last message for queues bound later")
    options.add_argument("--replicate", type=_level, metavar="LEVEL", help="none, configuration or all (HA)")
    add_several(options, "--argument", "NAME=VALUE", "any other argument", dest="extra")


def integer(text: str) -> int:
    """Return an integer as ``qpid-config`` reads it: ``0x…``, ``0b…``, octal after a leading 0, decimal."""
    start = text[:2].lower()
    try:
        if start == "0b":
            return int(text[2:] or "0", 2)
        if start == "0x":
            return int(text, 16)
        # As in the tool, 010 is eight.
        return int(text, 8 if text.startswith("0") else 10)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid integer value: {text!r}") from None


def _level(text: str) -> str:
    if text in REPLICATION:
        return text
    raise argparse.ArgumentTypeError(
        f"Invalid replication level {text!r}, should be one of: {', '.join(REPLICATION)}"
    )
