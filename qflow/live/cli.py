"""``qflow serve``: the engine behind a port, for clients of AMQP 1.0 in any language."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.arguments import port_number
from qflow.kit import RefusalError, heed_interrupts
from qflow.live.brakes import BRAKES, SILENCE
from qflow.live.certificates import add_certificate, given_certificate, server_context

if TYPE_CHECKING:
    from qflow.live.server import Server

PORT = 5672
_FILES = 100
_PASSWORD = "QFLOW_PASSWORD"
_RUN = "served"
_HERE = ("127.0.0.1", "localhost", "::1")


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``serve`` to the commands of a parser; the engine is not loaded for that."""
    parser = rooms.add_parser(
        "serve",
        description="Let real clients of AMQP 1.0, in any language, connect to the engine: queues, flow "
        "control, groups, limits and transactions as the real broker has them on this protocol. Ctrl-C ends "
        "it in good order.",
        epilog="Limits, each of which closes a link or a connection in the protocol's own words: 2,000 "
        "connections; 256 sessions and 1,000 links each; messages of 64 MiB; 128 MiB that "
        "wait for one client; 10 seconds to open a connection. The reference's page serve.md says more.",
    )
    parser.add_argument(
        "--port",
        type=port_number,
        default=PORT,
        metavar="N",
        help=f"the TCP port to listen on; default: {PORT}",
    )
    parser.add_argument(
        "--host",
        default=_HERE[0],
        metavar="H",
        help="the address to listen on; default: 127.0.0.1; 0.0.0.0 opens it to a room",
    )
    parser.add_argument(
        "--queue",
        action="append",
        default=[],
        metavar="QUEUE",
        help="a queue to begin with: a name, 'orders; {node: …}' or 'orders --flow-stop-count=10'; "
        "may be given again",
    )
    parser.add_argument(
        "--workload", metavar="FILE", help="clients to simulate beside the real ones, in real time"
    )
    parser.add_argument(
        "--trace",
        metavar="OUT",
        help="write all events: .jsonl as they happen; .parquet or .jsonl.gz at the end, and until then "
        "OUT.jsonl has them",
    )
    parser.add_argument(
        "--brake",
        choices=BRAKES,
        default=SILENCE,
        help="how a sender is told that a queue is above its stop threshold: by silence, as Qpid's broker "
        "does, by credit or by rejected transfers, as others do; default: silence",
    )
    add_certificate(parser)
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument(
        "--password",
        default="",
        help=f"what clients have to know (SASL PLAIN); others on this machine can see it, so better give a "
        f"file, or the environment variable {_PASSWORD}",
    )
    secret.add_argument("--password-file", metavar="FILE", help="a file whose first line is the password")


def run(namespace: argparse.Namespace) -> int:
    """Serve until Ctrl-C, then write the trace if one was asked for."""
    from qflow.live.serving import make_server
    from qflow.trace.files import TraceLines
    from qflow.workload.cli import check_target
    from qflow.workload.model import Workload

    if namespace.trace:
        check_target(Path(namespace.trace))
    password = _password(namespace)
    certificate = given_certificate(namespace.cert, namespace.key)
    workload = Workload.load(namespace.workload) if namespace.workload else None
    server = make_server(
        namespace.queue,
        workload,
        host=namespace.host,
        port=namespace.port,
        password=password,
        is_traced=bool(namespace.trace),
        brake=namespace.brake,
        tls=server_context(certificate),
    )
    _allow_many_sockets(server.limits.connections)
    server.on_incident = _report
    lines = _lines(namespace.trace)
    if lines is not None:
        server.lines = TraceLines(lines, _RUN, server.broker.options)
    heed_interrupts()
    # A process that is asked to end writes its trace, too.
    signal.signal(signal.SIGTERM, lambda number, frame: server.stop())
    try:
        _announce(server, namespace.host)
        server.run()
    except KeyboardInterrupt:
        print("qflow serve: stopped", file=sys.stderr)
    if lines is not None:
        _write(server, namespace.trace)
        if lines != Path(namespace.trace):
            lines.unlink(missing_ok=True)
    for failure in server.failures:
        print(f"qflow serve: an error of qflow's own: {failure}", file=sys.stderr)
    return 0


def _report(incident: str) -> None:
    """Print for what a client's connection was closed: one line, whatever the client is called."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in incident)
    print(f"qflow serve: {shown}", file=sys.stderr, flush=True)


def _password(namespace: argparse.Namespace) -> str:
    """Return what clients have to know: as it was given, of a file, or of the environment."""
    if namespace.password_file is None:
        return namespace.password or os.environ.get(_PASSWORD, "")
    first = Path(namespace.password_file).read_bytes().partition(b"\n")[0].rstrip(b"\r")
    try:
        password = first.decode()
    except UnicodeDecodeError:
        password = ""
    if not password:
        raise RefusalError(f"{namespace.password_file} has no password, as UTF-8, in its first line")
    return password


def _lines(trace: str | None) -> Path | None:
    """Return where events are written as they happen, for a trace that is to be in a file."""
    if not trace:
        return None
    return Path(trace if trace.endswith(".jsonl") else f"{trace}.jsonl")


def _announce(server: Server, host: str) -> None:
    address, port = server.address
    names = ", ".join(server.broker.queues.queues) or "none yet; clients can make them"
    scheme = "amqp" if server.tls is None else "amqps"
    print(f"qflow serve: {scheme}://{address}:{port}, queues: {names}", flush=True)
    if host not in _HERE and not server.password:
        print(
            f"qflow serve: every machine that reaches {address} can use this broker; "
            "--password-file asks for a password",
            file=sys.stderr,
        )


def _allow_many_sockets(count: int) -> None:
    """Ask the system for as many open files as there may be connections, as far as it gives them."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _write(server: Server, path: str) -> None:
    from qflow.trace.files import write_trace
    from qflow.trace.schema import Trace

    assert server.events is not None
    trace = Trace(_RUN, server.broker.options)
    trace.extend(server.events)
    write_trace(trace, path)
    print(f"qflow serve: {len(trace)} events are in {path}", file=sys.stderr)
