"""The commands of the subpackage: ``qflow serve``, ``qflow check-client`` and ``qflow record``."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from time import sleep
from typing import TYPE_CHECKING, Any

from qflow.arguments import add_json, add_several, port_number, read_digits, whole_number, words_of
from qflow.kit import INTERRUPTED, RefusalError, explain_missing, heed_interrupts
from qflow.live.brakes import BRAKES, SILENCE
from qflow.live.certificates import add_certificate, given_certificate, server_context
from qflow.live.client_card import FACTS, Conditions
from qflow.writing import require_apart, write_file

if TYPE_CHECKING:
    from qflow.live.client_card import ClientCard
    from qflow.live.client_faults import Ledger
    from qflow.live.client_report import ClientReport
    from qflow.live.recording import Recording
    from qflow.live.server import Server

_PORT = 5672
_FILES = 100
_PASSWORD = "QFLOW_PASSWORD"
_RUN = "served"
_HERE = ("127.0.0.1", "localhost", "::1")
_LOOK = 0.5
_MOST = (1 << 31) - 1
_LEAST_MEMORY, _MOST_MEMORY = 16 << 20, 1 << 40
_SHORT = {"messages": 200, "still": 0.4, "timeout": 5.0}


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add the three commands to a parser, without importing the engine."""
    _add_serve(rooms)
    _add_check_client(rooms)
    _add_record(rooms)


def run(namespace: argparse.Namespace) -> int:
    """Run the chosen command; return its exit status."""
    command = {"serve": _serve, "check-client": _check_client, "record": _record}[namespace.command]
    return command(namespace)


# qflow serve


def _add_serve(rooms: argparse._SubParsersAction[Any]) -> None:
    parser = rooms.add_parser(
        "serve",
        description="Let real clients of AMQP 1.0, in any language, connect to the engine: queues, flow "
        "control, groups, limits and transactions as in the real broker. Ctrl-C shuts it down cleanly.",
        epilog="Limits, each enforced with an AMQP error: 2,000 connections; 256 sessions, 1,000 links each; "
        "messages of 64 MiB; 128 MiB of output waiting for one client; 10 seconds to open a connection. When "
        "--memory is used up, the server stores no more messages until some is free. For details, see the "
        "reference page serve.md.",
    )
    add = parser.add_argument
    text = f"the TCP port to listen on; default: {_PORT}"
    add("--port", type=port_number, default=_PORT, metavar="N", help=text)
    text = "the address to listen on; default: 127.0.0.1; 0.0.0.0 accepts other machines"
    add("--host", default=_HERE[0], metavar="H", help=text)
    text = "a queue to create at the start: a name, 'orders; {node: …}' or 'orders --flow-stop-count=10'; "
    add_several(parser, "--queue", "QUEUE", f"{text}may be repeated")
    text = "a shell script of qpid-config lines: queues, exchanges and bindings to create at the start"
    add("--setup", metavar="FILE", help=text)
    text = "the broker's qpidd.conf; qflow config --broker-config lists the options with an effect here"
    add("--broker-config", default="", metavar="FILE", help=text)
    text = "clients to simulate alongside the real ones, in real time"
    add("--workload", metavar="FILE", help=text)
    text = "write all events: to .jsonl as they happen; to .parquet or .jsonl.gz at the end, "
    add("--trace", metavar="OUT", help=f"{text}until then to OUT.jsonl")
    text = "how to stop a sender: silence, as Qpid's broker does, credit or reject; default: silence"
    add("--brake", choices=BRAKES, default=SILENCE, help=text)
    text = "the memory for all clients and queues, such as 500M or 2G; default: a quarter of the machine's"
    add("--memory", type=_bytes, default=0, metavar="BYTES", help=text)
    text = "serve GET /metrics on this port: queues and connections in OpenMetrics, for Prometheus"
    add("--metrics", type=port_number, metavar="PORT", help=text)
    text = "also accept AMQP over WebSocket on this port, with the subprotocol amqp"
    add("--websocket", type=port_number, metavar="PORT", help=text)
    text = "end when the first client has disconnected and no other is connected, for use in a pipeline step"
    add("--once", action="store_true", help=text)
    add_certificate(parser)
    secret = parser.add_mutually_exclusive_group()
    text = f"the password of all clients (SASL PLAIN); others can see it, so prefer a file or {_PASSWORD}"
    secret.add_argument("--password", default="", help=text)
    text = "a file whose first line is the password"
    secret.add_argument("--password-file", metavar="FILE", help=text)


def _serve(namespace: argparse.Namespace) -> int:
    """Serve until Ctrl-C, then write the trace of ``--trace``."""
    from qflow.broker.errors import StartupError
    from qflow.trace.files import check_target

    if namespace.trace:
        check_target(namespace.trace)
    try:
        server = _make_server(namespace)
    except StartupError as error:
        # One line per problem: a single line with all of them would be cut off.
        print(*(f"qflow serve: {problem}" for problem in str(error).split("\n")), sep="\n", file=sys.stderr)
        return 2
    return _run_server(server, namespace)


def _make_server(namespace: argparse.Namespace) -> Server:
    """Return a server with the queues of the options; print the refused lines of a setup script."""
    from qflow.configuration.declaration import BrokerSetup
    from qflow.configuration.setup_script import SetupResult, read_script
    from qflow.live.serving import require_proton
    from qflow.workload.model import Workload

    password = _password(namespace)
    certificate = given_certificate(namespace.cert, namespace.key)
    workload = Workload.load(namespace.workload) if namespace.workload else None
    if workload is not None and namespace.broker_config:
        raise RefusalError(
            "--broker-config must not be given with --workload, which has its broker's options"
        )
    options = BrokerSetup.read(file=namespace.broker_config).options if namespace.broker_config else None
    script = read_script(namespace.setup) if namespace.setup else None
    require_proton()
    from qflow.live.peer import ClientLimits
    from qflow.live.server import Server

    server = Server(
        namespace.queue,
        options,
        workload=workload,
        host=namespace.host,
        port=namespace.port,
        password=password,
        is_traced=bool(namespace.trace),
        limits=ClientLimits(memory=namespace.memory),
        brake=namespace.brake,
        tls=server_context(certificate),
    )
    if script is not None:
        result = SetupResult.of(script, server.broker)
        for text in (*(f"refused: {refusal}" for refusal in result.refusals), *result.notes()):
            print(f"qflow serve: {namespace.setup}: {text}", file=sys.stderr)
    return server


def _run_server(server: Server, namespace: argparse.Namespace) -> int:
    from qflow.live.memory import return_large_blocks

    _allow_many_sockets(server.limits.connections)
    return_large_blocks()
    # Reported at once and on stderr, since scripts wait for the first line of stdout.
    server.on_incident, server.ends_alone = _report_incident, namespace.once
    heed_interrupts()
    # SIGTERM ends the process with its trace written, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda number, frame: server.stop())
    with ExitStack() as running:
        # The trace is written last, after metrics and WebSocket gate are closed.
        if namespace.trace:
            running.enter_context(_keep_trace(server, namespace.trace))
        if namespace.metrics is not None:
            running.callback(_start_metrics(server, namespace.host, namespace.metrics))
        if namespace.websocket is not None:
            running.callback(_open_gate(server, namespace.host, namespace.websocket))
        try:
            _announce(server, namespace.host)
            server.run()
        except KeyboardInterrupt:
            print("qflow serve: stopped", file=sys.stderr)
    for failure in server.failures:
        print(f"qflow serve: an error of qflow's own: {failure}", file=sys.stderr)
    return 0


def _start_metrics(server: Server, host: str, port: int) -> Callable[[], None]:
    """Serve metrics beside the broker; return a function that stops serving them."""
    if find_spec("prometheus_client") is None:
        raise RefusalError(explain_missing("serving metrics", "prometheus-client", "live"))
    from qflow.live.server_metrics import start_metrics

    return start_metrics(server, host, port)


def _open_gate(server: Server, host: str, port: int) -> Callable[[], None]:
    """Accept WebSockets for a server; return a function that closes the gate."""
    from qflow.live.web_socket_gate import WebSocketGate

    if find_spec("websockets") is None:
        raise RefusalError(explain_missing("AMQP over WebSocket", "websockets", "live"))
    return WebSocketGate(server, host, port, server.tls).close


@contextmanager
def _keep_trace(server: Server, path: str) -> Iterator[None]:
    """Write events as they happen, and the trace file at the end."""
    from qflow.trace.files import TraceLines, write_trace
    from qflow.trace.schema import Trace

    lines = path if path.endswith(".jsonl") else f"{path}.jsonl"
    trace = Trace(_RUN, server.broker.options)
    server.lines = TraceLines(Path(lines), _RUN, server.broker.options)
    yield
    assert server.events is not None
    trace.extend(server.events)
    write_trace(trace, path)
    print(f"qflow serve: {len(trace)} events are in {path}", file=sys.stderr)
    if lines != path:
        Path(lines).unlink(missing_ok=True)


def _report_incident(incident: str) -> None:
    """Print the reason of a connection's end on one line, without control characters of client names."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in incident)
    print(f"qflow serve: {shown}", file=sys.stderr, flush=True)


def _password(namespace: argparse.Namespace) -> str:
    """Return the clients' password from the option, the file or the environment."""
    if namespace.password_file is None:
        return namespace.password or os.environ.get(_PASSWORD, "")
    password = ""
    with suppress(UnicodeDecodeError):
        password = Path(namespace.password_file).read_bytes().partition(b"\n")[0].rstrip(b"\r").decode()
    if not password:
        raise RefusalError(f"the first line of {namespace.password_file} must be a password in UTF-8")
    return password


def _announce(server: Server, host: str) -> None:
    from qflow.live.peer import ClientLimits

    address, port = server.address
    names = ", ".join(server.broker.queues.queues) or "none yet; clients can make them"
    scheme = "amqp" if server.tls is None else "amqps"
    print(f"qflow serve: {scheme}://{address}:{port}, queues: {names}", flush=True)
    most = server.limits.connections
    if most < ClientLimits().connections:
        print(f"qflow serve: at most {most} connections, which is what select() takes here", file=sys.stderr)
    if host not in _HERE and not server.password:
        print(
            f"qflow serve: every machine that reaches {address} can use this broker; "
            "--password-file asks for a password",
            file=sys.stderr,
        )


def _allow_many_sockets(count: int) -> None:
    """Raise the limit of open files to the number of connections, as far as the system allows it."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _FILES if hard == resource.RLIM_INFINITY else min(count + _FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# qflow check-client


def _add_check_client(rooms: argparse._SubParsersAction[Any]) -> None:
    parser = rooms.add_parser(
        "check-client",
        usage="qflow check-client [OPTION …] -- COMMAND …",
        description="Run a client program of AMQP 1.0, in any language, against queues that stop it, resume "
        "it, refuse its messages and disappear, and report whether it stops, its window, and the messages it "
        "loses. The program finds the broker in the variables AMQP_URL, AMQP_HOST, AMQP_PORT, AMQP_QUEUE "
        "and AMQP_MESSAGES, or from the placeholders {url}, {host} and so on in its command.",
        epilog="Status 0, or 1 if a fact of --require does not hold or a line is worse than in --baseline; "
        "2 if the bench could not establish a fact of --require. Facts of a sender: stops, goes-on (after "
        "resume), loses-nothing (without a failure of its own at the end); of a receiver: settles, "
        "never-locks. Details are on the reference page check-client.md.",
    )
    parser.add_argument("program", nargs="*", metavar="COMMAND", help="the program and its arguments")
    _add_report(parser.add_argument)
    add_json(parser)
    parser.add_argument("--output", action="store_true", help="print the program's output, run by run")
    _add_broker(parser.add_argument)
    _add_messages(parser.add_argument)


def _add_report(add: Callable[..., Any]) -> None:
    """Add the options for use in a build: required facts, baseline and reports."""
    add("--require", type=words_of(FACTS), default=[], metavar="FACT,…", help=f"any of {', '.join(FACTS)}")
    add(
        "--baseline",
        metavar="FILE",
        help="the --json output of an earlier run; status 1 if a line has become worse",
    )
    add("--junit", metavar="FILE", help="write the card's lines as JUnit test cases")
    add("--markdown", metavar="FILE", help="write the card as a table, for a pull request")


def _add_broker(add: Callable[..., Any]) -> None:
    """Add the options that set the broker's behaviour."""
    text = f"how the broker stops a sender: {', '.join(BRAKES)}; one column for each"
    add("--brake", type=words_of(BRAKES), default=[SILENCE], metavar="BRAKE,…", help=text)
    text = "senders only: cut the connection, inject worse faults, and add a ledger of messages lost, "
    add("--faults", action="store_true", help=f"{text}duplicated and out of order")
    text = "with --faults: write the engine's trace of each fault, for qflow trace why"
    add("--traces", metavar="FOLDER", help=text)
    text = "listen with a certificate made for this run; AMQP_CA and {ca} name its authority's file"
    add("--tls", action="store_true", help=text)


def _add_messages(add: Callable[..., Any]) -> None:
    """Add the options for messages, queue and time limits."""
    add("--body", metavar="FILE", help="the body of a receiver's messages: text or bytes")
    text = "the body's content type; the body is then sent as bytes"
    add("--content-type", default="", metavar="TYPE", help=text)
    text = "application properties of a receiver's messages, as one object"
    add("--properties", type=_properties, default={}, metavar="JSON", help=text)
    add("--queue", default="orders", metavar="NAME", help="the queue's name; default: orders")
    counts = (
        ("messages", "messages for the program to send"),
        ("stop", "messages above which the queue stops a sender"),
        ("resume", "messages below which the queue resumes it"),
        ("limit", "messages that the queue may hold"),
        ("window", "unsettled messages that the bench's own sender allows"),
    )
    count = partial(whole_number, most=_MOST)
    for name, text in counts:
        add(f"--{name}", type=count, metavar="N", help=f"{text}; default: {getattr(Conditions(), name):,}")
    text = "seconds without a change after which the bench acts on the queue; default: 1"
    add("--still", type=_seconds, metavar="S", help=text)
    text = (
        f"a quick check for every build: {_SHORT['messages']} messages, still after {_SHORT['still']:g} s, "
    )
    unseen = _SHORT["messages"] - Conditions().stop - 1
    text += f"{_SHORT['timeout']:g} s to connect and as long per run; cannot detect a window above {unseen:g}"
    add("--short", action="store_true", help=text)
    text = "seconds that one run may take once it has connected; default: 60"
    add("--timeout", type=_seconds, metavar="S", help=text)


def _check_client(namespace: argparse.Namespace) -> int:
    """Check a program and print its card; return the exit status."""
    from qflow.live.serving import require_proton

    require_proton()
    from qflow.live.client_check import ClientFailedError
    from qflow.live.client_report import find_comparable, read_baseline

    heed_interrupts()
    # Read first, so that a bad baseline is reported before anything is measured.
    baseline = read_baseline(namespace.baseline) if namespace.baseline else None
    if baseline:
        for brake in namespace.brake:
            find_comparable(baseline, _conditions(namespace)._replace(brake=brake))
    try:
        report = _check(namespace)
        worse = report.find_worse(baseline) if baseline else []
    except ClientFailedError as failure:
        if not namespace.json and failure.output:
            print(f"the program's output:\n{failure.output}", file=sys.stderr)
        raise
    return _answer(report, worse, namespace)


def _check(namespace: argparse.Namespace) -> ClientReport:
    if not namespace.program:
        raise RefusalError("no program was given: qflow check-client -- COMMAND …")
    if namespace.traces and not namespace.faults:
        raise RefusalError("--traces requires --faults")
    require_apart([namespace.junit, namespace.markdown], [namespace.baseline, namespace.body])
    from qflow.live.certificates import make_certificate
    from qflow.live.client_check import check_client
    from qflow.live.client_report import ClientReport

    # SIGTERM ends the client, too.
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
    """Return the conditions set by the options, with the usual or the short defaults for the others."""
    names = [name for name in Conditions._fields if name not in ("brake", "certificate")]
    given = {name: getattr(namespace, name) for name in names if getattr(namespace, name) is not None}
    given = {**(_SHORT if namespace.short else {}), **given}
    body = str(Conditions().body).encode() if namespace.body is None else Path(namespace.body).read_bytes()
    given["body"] = body
    if not namespace.content_type:
        # A body in UTF-8 is sent as text.
        with suppress(UnicodeDecodeError):
            given["body"] = body.decode("utf-8")
    return Conditions(**given)


def _check_faults(
    namespace: argparse.Namespace, conditions: Conditions, cards: dict[str, ClientCard]
) -> tuple[Ledger, ...]:
    if not namespace.faults:
        return ()
    if any(card.role != "sender" for card in cards.values()):
        print("qflow check-client: --faults applies to senders; this program is a receiver", file=sys.stderr)
        return ()
    from qflow.live.client_faults import check_faults

    return tuple(check_faults(namespace.program, conditions, traces=namespace.traces, progress=_show))


def _answer(report: ClientReport, worse: list[tuple[str, str, str]], namespace: argparse.Namespace) -> int:
    missed, untold, error = report.find_missed(namespace.require), report.find_unknown(namespace.require), ""
    others = [name for name in namespace.require if FACTS[name] != report.first.role]
    if others:
        own = [name for name, role in FACTS.items() if role == report.first.role]
        error = (
            f"--require must name facts of a {report.first.role}, {', '.join(own)}; got {', '.join(others)}"
        )
    if not namespace.json:
        print(report)
    elif not error:
        print(json.dumps(report.as_json(), indent=2))
    _print_output(report, namespace.output or bool(missed or untold))
    if error:
        refusal = RefusalError(error)
        refusal.facts = report.as_json()
        raise refusal
    junit, markdown = report.as_junit(namespace.require, worse), report.as_markdown(worse)
    for path, text in ((namespace.junit, junit), (namespace.markdown, markdown)):
        if path:
            write_file(path, text)
    if missed:
        names = ", ".join(name if len(report.cards) == 1 else f"{name} ({brake})" for brake, name in missed)
        print(f"qflow check-client: required, and does not hold: {names}", file=sys.stderr)
    for brake, line, words in worse:
        print(f"qflow check-client: worse than the baseline, {line} ({brake}): {words}", file=sys.stderr)
    for brake, name, doubt in untold:
        print(f"qflow check-client: required, and cannot tell: {name} ({brake}): {doubt}", file=sys.stderr)
    return 1 if missed or worse else 2 if untold else 0


def _print_output(report: ClientReport, is_all: bool) -> None:
    for card in report.cards.values():
        for case in card.runs.values():
            if case.output and (is_all or case.has_failed):
                print(f"\noutput of the run {case.case!r}:\n{case.output}", file=sys.stderr)


def _show(done: int, total: int | None = None, case: str = "") -> None:
    if sys.stderr.isatty():
        print(f"qflow check-client: {case} …", file=sys.stderr)


def _properties(text: str) -> dict[str, Any]:
    with suppress(ValueError):
        value = json.loads(text)
        if isinstance(value, dict) and all(isinstance(one, str | int | float) for one in value.values()):
            return value
    raise argparse.ArgumentTypeError(
        f"must be a JSON object of strings, numbers, true and false, got {text[:100]!r}"
    )


_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


def _bytes(text: str) -> int:
    """Parse a size in bytes; it must be at least 16 MiB, so that any client's message fits."""
    digits, unit = text.rstrip("KMG"), text[len(text.rstrip("KMG")) :]
    number = read_digits(digits)
    if number and unit in _UNITS and _LEAST_MEMORY <= number << _UNITS[unit] <= _MOST_MEMORY:
        return number << _UNITS[unit]
    raise argparse.ArgumentTypeError(f"must be from 16M to 1024G, such as 500M or 2G, got {text[:100]!r}")


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, got {text!r}")


# qflow record


def _add_record(rooms: argparse._SubParsersAction[Any]) -> None:
    parser = rooms.add_parser(
        "record",
        description="Pass every byte between AMQP 1.0 clients and their broker unchanged, and write the "
        "traffic as a client log with the workload behind it, for 'qflow trace import', 'qflow predict' and "
        "'qflow spark audit'. Ctrl-C ends the recording; its files are readable at any moment.",
    )
    add = parser.add_argument
    text = "where clients connect; a port alone is open to this machine only, 0.0.0.0:PORT to others"
    add("--listen", type=_address, required=True, metavar="HOST:PORT", help=text)
    text = "the broker; amqps://HOST:PORT for TLS"
    add("--upstream", required=True, metavar="HOST:PORT", help=text)
    text = "the recording: a folder of Parquet parts"
    add("--out", required=True, metavar="LOG.parquet", help=text)
    text = "the authority of the broker's certificate, if the system does not know it"
    add("--ca", metavar="FILE.pem", help=text)
    add_certificate(parser)
    text = "the application property that names a message's group; default: as its queue is declared"
    add("--group-header", default="", metavar="NAME", help=text)
    add("--no-statistics", action="store_true", help="do not query the broker's management")


def _record(namespace: argparse.Namespace) -> int:
    """Record until Ctrl-C; return 1 if the recording is incomplete."""
    try:
        import proton  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise RefusalError(explain_missing("recording", str(error.name), "live,trace")) from None
    from qflow.live.recording import Recording, Upstream

    tls = server_context(given_certificate(namespace.cert, namespace.key))
    out = Path(namespace.out)
    recording = Recording(
        Upstream(namespace.upstream, namespace.ca),
        out,
        group_header=namespace.group_header,
        asks_statistics=not namespace.no_statistics,
    )
    heed_interrupts()
    # SIGTERM does the same as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    host, port = namespace.listen
    with suppress(KeyboardInterrupt):
        recording.start(host, port, tls)
        where = f"{host}:{recording.tap.port}, the broker is {recording.tap.upstream}"
        print(f"recording: clients connect to {where}", flush=True)
        _show_recording(recording)
    return _finish_recording(recording, out)


def _show_recording(recording: Recording) -> None:
    """Show the recording's progress until an interrupt."""
    from qflow.progress import StatusLine

    line, shown, seconds, missing = StatusLine(), "", 0.0, ""
    try:
        while True:
            sleep(_LOOK)
            seconds += _LOOK
            if recording.missing != missing:
                missing = recording.missing
                line.end()
                words = (
                    f"no statistics of the broker: {missing}" if missing else "the broker sends statistics"
                )
                print(f"recording: {words}", file=sys.stderr, flush=True)
            text = recording.progress()
            if text != shown and seconds >= line.pause:
                line.show(text)
                shown, seconds = text, 0.0
    finally:
        line.end()


def _finish_recording(recording: Recording, out: Path) -> int:
    try:
        recording.stop()
    except KeyboardInterrupt:
        recording.give_up()
        print(f"{out.name}: some traffic was not decoded; the files written are readable", file=sys.stderr)
        return 1
    print(f"{out.name}: {recording.progress().partition(': ')[2]}")
    print(f"  workload: {out.with_name(out.name.split('.')[0] + '.json').name}, with inferred values marked")
    for finding in recording.findings():
        print(f"  {finding}")
    if recording.problem:
        print(f"qflow record: {recording.problem}", file=sys.stderr)
        return 1
    return INTERRUPTED


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    with suppress(argparse.ArgumentTypeError):
        return host.strip("[]") or _HERE[0], port_number(port)
    raise argparse.ArgumentTypeError(f"must be PORT or HOST:PORT, a port is from 0 to 65535; got {text!r}")
