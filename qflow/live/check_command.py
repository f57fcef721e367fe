"""``qflow check-client``: tries one client program; prints its card, and exits with a status for a build."""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError, heed_interrupts

if TYPE_CHECKING:
    from qflow.live.client_card import ClientCard

FACTS = ("stops", "goes-on", "loses-nothing", "settles", "never-locks")
"""What can be required, without loading the engine; the same as ``client_card.FACTS``."""


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``check-client`` to the commands of a parser."""
    parser = rooms.add_parser(
        "check-client",
        help="measure what a client program does when the broker stops or refuses it",
        usage="qflow check-client [OPTION …] -- COMMAND …",
        description="Run a client program of AMQP 1.0, in any language, against queues that stop it, refuse "
        "it, resume it and go away, and print what was measured: whether it stops, its window, what it "
        "loses. The program finds the broker in the variables AMQP_URL, AMQP_HOST, AMQP_PORT, AMQP_QUEUE "
        "and AMQP_MESSAGES, or by {url}, {host}, {port}, {queue} and {messages} in its command.",
        epilog="Status 0, or 1 if something that --require names is not so. Of a sender: stops, goes-on "
        "(after resume), loses-nothing (without a failure of its own at the end); of a receiver: settles, "
        "never-locks. The reference's page check-client.md says more.",
    )
    parser.add_argument("program", nargs="*", metavar="COMMAND", help="the program and its arguments")
    parser.add_argument("--require", type=_facts, default=[], metavar="FACT,…", help=f"of {', '.join(FACTS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--output", action="store_true", help="print what the program printed, run by run")
    parser.add_argument("--body", metavar="FILE", help="what a receiver's messages carry: a text, or bytes")
    parser.add_argument(
        "--content-type", default="", metavar="TYPE", help="of the body, which is sent as bytes then"
    )
    parser.add_argument(
        "--properties",
        type=_properties,
        default={},
        metavar="JSON",
        help="application properties of a receiver's messages, as one object",
    )
    parser.add_argument("--queue", default="orders", metavar="NAME", help="the queue's name, orders")
    counts = (
        ("messages", 6_000, "messages that the program is asked to send"),
        ("stop", 10, "the queue's stop threshold"),
        ("resume", 5, "its resume threshold"),
        ("limit", 30, "its limit"),
        ("window", 20, "the window of the sender that a receiver is given"),
    )
    for name, default, text in counts:
        parser.add_argument(
            f"--{name}", type=_count, default=default, metavar="N", help=f"{text}, {default:,}"
        )
    parser.add_argument(
        "--still",
        type=_seconds,
        default=1.0,
        metavar="S",
        help="seconds without a change until it counts as still, 1",
    )
    parser.add_argument(
        "--timeout", type=_seconds, default=60.0, metavar="S", help="seconds that one run may take, 60"
    )


def run(namespace: argparse.Namespace) -> int:
    """Check a program and print its card; return 1 if something that was required is not so."""
    from qflow.live.client_check import ClientFailedError

    heed_interrupts()
    try:
        card = _check(namespace)
    except RefusalError as refusal:
        output = refusal.output if isinstance(refusal, ClientFailedError) else ""
        if namespace.json:
            print(json.dumps({"error": str(refusal), "output": output}, indent=2))
        elif output:
            print(f"the program's output:\n{output}", file=sys.stderr)
        raise
    return _answer(card, namespace)


def _check(namespace: argparse.Namespace) -> ClientCard:
    if not namespace.program:
        raise RefusalError("no program was given: qflow check-client -- COMMAND …")
    from qflow.broker.errors import AmqpException, ManagementError
    from qflow.live.client_check import Conditions, check_client
    from qflow.workload.attributes import WorkloadError

    namespace.body = _body(namespace)
    conditions = Conditions(**{name: getattr(namespace, name) for name in Conditions._fields})
    # A process that is asked to end ends its client, too.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return check_client(namespace.program, conditions, progress=_show)
    except (WorkloadError, AmqpException, ManagementError) as error:
        raise RefusalError(str(error)) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _answer(card: ClientCard, namespace: argparse.Namespace) -> int:
    missed = [name for name in namespace.require if not card.fact(name)]
    others = [name for name in missed if card.fact(name) is None]
    own = [name for name in FACTS if card.fact(name) is not None]
    error = ""
    if others:
        error = f"{', '.join(others)} cannot be required of a {card.role}, but {', '.join(own)}"
    if namespace.json:
        print(json.dumps({**card.as_json(), "error": error} if error else card.as_json(), indent=2))
    else:
        print(card)
    failed = [case for case in card.runs.values() if case.has_failed]
    for case in card.runs.values() if namespace.output or missed else failed:
        if case.output:
            print(f"\noutput of the run {case.case!r}:\n{case.output}", file=sys.stderr)
    if error:
        raise RefusalError(error)
    if missed:
        print(f"qflow check-client: required and not so: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


def _show(done: int, total: int | None = None, case: str = "") -> None:
    if sys.stderr.isatty():
        print(f"qflow check-client: {case} …", file=sys.stderr)


def _facts(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in FACTS:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(FACTS)}")
    return names


def _body(namespace: argparse.Namespace) -> str | bytes:
    """Return what is in the file: a text if it is one and no content type is given."""
    if namespace.body is None:
        from qflow.live.client_check import Conditions

        text = Conditions().body
        return str(text).encode() if namespace.content_type else text
    try:
        body = Path(namespace.body).read_bytes()
        return body if namespace.content_type else body.decode("utf-8")
    except UnicodeDecodeError:
        return body
    except OSError as error:
        raise RefusalError(f"{namespace.body}: {error.strerror or error}") from None


def _properties(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if isinstance(value, dict) and all(isinstance(one, str | bool | int | float) for one in value.values()):
        return value
    raise argparse.ArgumentTypeError(
        f"must be a JSON object of texts, numbers, true and false, got {text[:100]!r}"
    )


def _count(text: str) -> int:
    if text.isdecimal() and 0 < int(text) < 1 << 31:
        return int(text)
    raise argparse.ArgumentTypeError(f"must be a whole number above 0, got {text!r}")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if 0 < value < math.inf:
        return value
    raise argparse.ArgumentTypeError(f"must be seconds above 0, got {text!r}")
