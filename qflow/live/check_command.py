"""``qflow check-client``: tries one client program; prints its card, and exits with a status for a build."""

from __future__ import annotations

import argparse
import json
import math
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from qflow.arguments import add_json, whole_number
from qflow.kit import RefusalError, heed_interrupts
from qflow.live.brakes import BRAKES, SILENCE
from qflow.live.client_card import FACTS as _MEASURED
from qflow.writing import require_apart, write_whole

if TYPE_CHECKING:
    from qflow.live.client_card import ClientCard
    from qflow.live.client_check import Conditions
    from qflow.live.client_faults import Ledger
    from qflow.live.client_report import ClientReport

_MESSAGES, _MOST = 6_000, (1 << 31) - 1
_SHORT = {"messages": 200, "still": 0.4, "timeout": 5.0}
FACTS = tuple(_MEASURED)
"""What can be required."""


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``check-client`` to the commands of a parser."""
    parser = rooms.add_parser(
        "check-client",
        usage="qflow check-client [OPTION …] -- COMMAND …",
        description="Run a client program of AMQP 1.0, in any language, against queues that stop it, refuse "
        "it, resume it and go away, and print what was measured: whether it stops, its window, what it "
        "loses. The program finds the broker in the variables AMQP_URL, AMQP_HOST, AMQP_PORT, AMQP_QUEUE "
        "and AMQP_MESSAGES, or by {url}, {host}, {port}, {queue} and {messages} in its command.",
        epilog="Status 0, or 1 if something that --require names is not so, or is worse than in --baseline. "
        "Of a sender: stops, goes-on "
        "(after resume), loses-nothing (without a failure of its own at the end); of a receiver: settles, "
        "never-locks. The reference's page check-client.md says more.",
    )
    parser.add_argument("program", nargs="*", metavar="COMMAND", help="the program and its arguments")
    _add_report(parser)
    _add_broker(parser)
    _add_messages(parser)


def _add_report(parser: argparse.ArgumentParser) -> None:
    """Add what a build requires of the program, and what it is told."""
    parser.add_argument(
        "--require", type=_words_of(FACTS), default=[], metavar="FACT,…", help=f"of {', '.join(FACTS)}"
    )
    parser.add_argument(
        "--baseline", metavar="FILE", help="an earlier --json: status 1 if a line has got worse since"
    )
    parser.add_argument("--junit", metavar="FILE", help="write the card's lines as JUnit's test cases")
    parser.add_argument("--markdown", metavar="FILE", help="write the card as a table, for a pull request")
    add_json(parser)
    parser.add_argument("--output", action="store_true", help="print what the program printed, run by run")


def _add_broker(parser: argparse.ArgumentParser) -> None:
    """Add what the broker does to the program."""
    parser.add_argument(
        "--brake",
        type=_words_of(BRAKES),
        default=[SILENCE],
        metavar="BRAKE,…",
        help=f"how the broker stops a sender: {', '.join(BRAKES)}; with several, a column for each",
    )
    parser.add_argument(
        "--faults",
        action="store_true",
        help="of a sender: cut its connection, and worse, and add a ledger of what is lost, duplicated and "
        "out of order",
    )
    parser.add_argument(
        "--traces", metavar="FOLDER", help="with --faults: the engine's trace of each, for qflow trace why"
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="listen with a certificate made for this run; AMQP_CA and {ca} name its authority's file",
    )


def _add_messages(parser: argparse.ArgumentParser) -> None:
    """Add what is sent, to a queue of which kind, and how long that may take."""
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
    parser.add_argument("--queue", default="orders", metavar="NAME", help="the queue's name; default: orders")
    counts = (
        ("messages", _MESSAGES, "messages that the program is asked to send"),
        ("stop", 10, "messages above which the queue stops a sender"),
        ("resume", 5, "messages below which it lets it go on"),
        ("limit", 30, "messages that the queue may hold"),
        ("window", 20, "messages without an outcome, of the sender that a receiver is given"),
    )
    for name, default, text in counts:
        parser.add_argument(
            f"--{name}",
            type=partial(whole_number, most=_MOST),
            default=None,
            metavar="N",
            help=f"{text}; default: {default:,}",
        )
    parser.add_argument(
        "--still",
        type=_seconds,
        metavar="S",
        help="seconds without a change until it counts as still; default: 1",
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help=f"for each build: {_SHORT['messages']} messages, still after {_SHORT['still']:g} s, "
        f"{_SHORT['timeout']:g} s a run",
    )
    parser.add_argument(
        "--timeout", type=_seconds, metavar="S", help="seconds that one run may take; default: 60"
    )


def run(namespace: argparse.Namespace) -> int:
    """Check a program and print its card; return 1 if something that was required is not so."""
    from qflow.live.client_check import ClientFailedError

    heed_interrupts()
    try:
        baseline = _read_baseline(namespace)
        report = _check(namespace)
        worse = report.find_worse(baseline) if baseline else []
    except ClientFailedError as failure:
        if not namespace.json and failure.output:
            print(f"the program's output:\n{failure.output}", file=sys.stderr)
        raise
    return _answer(report, worse, namespace)


def _read_baseline(namespace: argparse.Namespace) -> dict[str, Any] | None:
    """Return the earlier report, which is read before anything is measured."""
    from qflow.live.client_report import read_baseline

    return read_baseline(namespace.baseline) if namespace.baseline else None


def _check(namespace: argparse.Namespace) -> ClientReport:
    if not namespace.program:
        raise RefusalError("no program was given: qflow check-client -- COMMAND …")
    if namespace.traces and not namespace.faults:
        raise RefusalError("--traces is of the runs of --faults")
    require_apart([namespace.junit, namespace.markdown], [namespace.baseline, namespace.body])
    from qflow.live.certificates import make_certificate
    from qflow.live.client_check import check_client
    from qflow.live.client_report import ClientReport

    # A process that is asked to end ends its client, too.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with TemporaryDirectory() as folder:
            conditions = _conditions(namespace)
            if namespace.tls:
                conditions = conditions._replace(certificate=make_certificate(Path(folder)))
            cards = {
                brake: check_client(namespace.program, conditions._replace(brake=brake), progress=_show)
                for brake in dict.fromkeys(namespace.brake)
            }
            return ClientReport(cards, _check_faults(namespace, conditions, cards))
    finally:
        signal.signal(signal.SIGTERM, before)


def _conditions(namespace: argparse.Namespace) -> Conditions:
    """Return what was asked for; what was not is as it always is, or short."""
    from qflow.live.client_check import Conditions

    namespace.body = _body(namespace)
    names = [name for name in Conditions._fields if name not in ("brake", "certificate")]
    given = {name: getattr(namespace, name) for name in names if getattr(namespace, name) is not None}
    return Conditions(**{**(_SHORT if namespace.short else {}), **given})


def _check_faults(
    namespace: argparse.Namespace, conditions: Conditions, cards: dict[str, ClientCard]
) -> tuple[Ledger, ...]:
    if not namespace.faults:
        return ()
    if any(card.role != "sender" for card in cards.values()):
        print("qflow check-client: --faults is of senders, and this is a receiver", file=sys.stderr)
        return ()
    from qflow.live.client_faults import check_faults

    return tuple(check_faults(namespace.program, conditions, traces=namespace.traces, progress=_show))


def _answer(report: ClientReport, worse: list[tuple[str, str, str]], namespace: argparse.Namespace) -> int:
    missed, error = report.find_missed(namespace.require), ""
    others = sorted({name for brake, name in missed if report.cards[brake].fact(name) is None})
    if others:
        own = [name for name in FACTS if report.first.fact(name) is not None]
        error = f"{', '.join(others)} cannot be required of a {report.first.role}, but {', '.join(own)}"
    if not namespace.json:
        print(report)
    elif not error:
        print(json.dumps(report.as_json(), indent=2))
    _print_output(report, namespace.output or bool(missed))
    if error:
        refusal = RefusalError(error)
        refusal.facts = report.as_json()
        raise refusal
    if namespace.junit:
        _write(namespace.junit, report.as_junit(namespace.require, worse))
    if namespace.markdown:
        _write(namespace.markdown, report.as_markdown(worse))
    if missed:
        names = ", ".join(name if len(report.cards) == 1 else f"{name} ({brake})" for brake, name in missed)
        print(f"qflow check-client: required and not so: {names}", file=sys.stderr)
    for brake, line, words in worse:
        print(f"qflow check-client: worse than the baseline, {line} ({brake}): {words}", file=sys.stderr)
    return 1 if missed or worse else 0


def _write(path: str, text: str) -> None:
    with write_whole(path) as beside:
        beside.write_text(text, "utf-8")


def _print_output(report: ClientReport, is_all: bool) -> None:
    """Print what the program printed: in all runs, or in those that failed."""
    for card in report.cards.values():
        for case in card.runs.values():
            if case.output and (is_all or case.has_failed):
                print(f"\noutput of the run {case.case!r}:\n{case.output}", file=sys.stderr)


def _show(done: int, total: int | None = None, case: str = "") -> None:
    if sys.stderr.isatty():
        print(f"qflow check-client: {case} …", file=sys.stderr)


def _words_of(allowed: Sequence[str]) -> Callable[[str], list[str]]:
    """Return what reads a list of allowed words, with commas between them."""

    def read(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        for name in names:
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(allowed)}")
        return names

    return read


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


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if 0 < value < math.inf:
        return value
    raise argparse.ArgumentTypeError(f"must be seconds above 0, got {text!r}")
