"""``qflow record``: a tap between real clients and a real broker, whose recording is a client log."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import INTERRUPTED, RefusalError, heed_interrupts, install_command
from qflow.live.certificates import add_certificate, given_certificate, server_context

if TYPE_CHECKING:
    from qflow.live.recording import Recording

_LOOK = 0.5


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``record`` to the commands of a parser."""
    parser = rooms.add_parser(
        "record",
        description="Pass every byte between AMQP 1.0 clients and their broker unchanged, and write what "
        "passes as a client log and the workload behind it, which 'qflow trace import', 'qflow predict' and "
        "'qflow spark audit' take. Ctrl-C ends the recording; what was written can always be read.",
    )
    parser.add_argument(
        "--listen",
        type=_address,
        required=True,
        metavar="HOST:PORT",
        help="where clients connect; a port alone is open to this machine only, 0.0.0.0:PORT to others",
    )
    parser.add_argument(
        "--upstream", required=True, metavar="HOST:PORT", help="the broker; amqps://HOST:PORT for TLS"
    )
    parser.add_argument(
        "--out", required=True, metavar="LOG.parquet", help="the recording: a folder of Parquet parts"
    )
    parser.add_argument(
        "--ca",
        metavar="FILE.pem",
        help="who vouches for the broker's certificate, if the system does not know",
    )
    add_certificate(parser)
    parser.add_argument(
        "--group-header",
        default="",
        metavar="NAME",
        help="the application property that names a message's group; default: as its queue is declared",
    )
    parser.add_argument(
        "--no-statistics", action="store_true", help="ask the broker's management for nothing"
    )


def run(namespace: argparse.Namespace) -> int:
    """Record until Ctrl-C; return 1 if the recording is not whole."""
    try:
        import proton  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError as error:
        cure = install_command("live")
        raise RefusalError(
            f"recording needs {error.name}, which is not installed; this brings it: {cure}"
        ) from None
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
    # Ctrl-C, and what the system says to end a process.
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        asyncio.run(_record(recording, namespace.listen, tls))
    return _finish(recording, out)


async def _record(recording: Recording, address: tuple[str, int], tls: ssl.SSLContext | None) -> None:
    from qflow.progress import StatusLine as Line

    with contextlib.suppress(NotImplementedError):
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await recording.start(*address, tls)
    host, port = address[0], recording.tap.port
    print(f"recording: clients connect to {host}:{port}, the broker is {recording.tap.upstream}", flush=True)
    line, shown, seconds, missing = Line(), "", 0.0, ""
    try:
        while True:
            await asyncio.sleep(_LOOK)
            seconds += _LOOK
            if recording.missing != missing:
                missing = recording.missing
                line.end()
                words = (
                    f"no statistics of the broker: {missing}" if missing else "the broker's statistics come"
                )
                print(f"recording: {words}", file=sys.stderr, flush=True)
            text = recording.progress()
            if text != shown and seconds >= line.pause:
                line.show(text)
                shown, seconds = text, 0.0
    finally:
        line.end()
        await recording.stop()


def _finish(recording: Recording, out: Path) -> int:
    try:
        recording.finish()
    except KeyboardInterrupt:
        recording.give_up()
        print(f"{out.name}: not all that passed was read; what is written can be", file=sys.stderr)
        return 1
    print(f"{out.name}: {recording.progress().partition(': ')[2]}")
    print(f"  workload: {out.with_name(out.name.split('.')[0] + '.json').name}, with what is inferred marked")
    for finding in recording.findings():
        print(f"  {finding}")
    if recording.problem:
        print(f"qflow record: {recording.problem}", file=sys.stderr)
        return 1
    return INTERRUPTED


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if port.isdecimal() and int(port) <= 65535:
        return host.strip("[]") or "127.0.0.1", int(port)
    raise argparse.ArgumentTypeError(f"must be PORT or HOST:PORT, a port is from 0 to 65535; got {text!r}")
