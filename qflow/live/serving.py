"""Serving: a broker behind a port beside the code that made it, and its state at any moment.

:func:`serve` starts the :class:`~qflow.live.server.Server` in a thread of its own.  What it gives can be
looked at while clients come and go: the broker's table of queues, its trace so far, and
:meth:`Serving.snapshot`, a plain value for a picture that follows the broker.
"""

from __future__ import annotations

from importlib import import_module
from itertools import count
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from qflow.broker import Broker, BrokerOptions
from qflow.configuration.declaration import Declaration
from qflow.kit import RefusalError, explain_missing
from qflow.live.certificates import Certificate, server_context
from qflow.table import Table
from qflow.trace.schema import Trace
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from qflow.live.hand_client import HandClient
    from qflow.live.live_lab import LiveLab
    from qflow.live.peer import ClientLimits, Peer
    from qflow.live.server import Server


def require_proton() -> None:
    """Refuse work with real clients if Proton is not installed."""
    try:
        import_module("proton")
    except ModuleNotFoundError as error:
        # If Proton is there and lacks something itself, that error names the cause.
        if (error.name or "").partition(".")[0] not in ("proton", "cproton"):
            raise
        raise RefusalError(explain_missing("serving real clients", "Proton", "live")) from None


class Serving:
    """A broker that serves clients in its own thread until :meth:`close`.

    Attributes:
        server (Server)
        broker (Broker): Hold ``lock`` while you look, or what you see may change meanwhile.
        lock (RLock): Held by the thread that uses the broker.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.broker: Broker = server.broker
        self.lock: Any = server.lock
        # A daemon: a notebook whose kernel ends does not wait for its clients.
        self._thread = Thread(target=server.run, name="qflow serve", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL that clients connect to."""
        host, port = self.server.address
        if self.server.tls is not None:
            # Certificates are of names, and many clients check no address.
            return f"amqps://{'localhost' if host in ('127.0.0.1', '::1') else host}:{port}"
        return f"amqp://{f'[{host}]' if ':' in host else host}:{port}"

    def trace(self, run: str = "served") -> Trace:
        """Return the whole run as a trace, which replays to the same state."""
        with self.lock:
            events = self.server.events
            if events is None:
                raise RefusalError("this server keeps no events; serve with is_traced=True")
            trace = Trace(run, self.broker.options)
            trace.extend(events)
            return trace

    def table(self) -> Table:
        """Return the broker's queues, with the state of their flow control."""
        from qflow.displays import broker_table

        with self.lock:
            return broker_table(self.broker)

    def snapshot(self, since: int = 0) -> dict[str, Any]:
        """Return the present state as plain values: clients, queues, and the events from index `since` on.

        ``outcomes`` are of all clients that have been there; what of a sender's link is ``unsettled`` waits
        for its outcome: its window as measured.
        """
        with self.lock:
            return _describe_server(self.server, since)

    def client(self, name: str) -> HandClient:
        """Return a client that acts only when it is called, to watch the broker's answers."""
        from qflow.live.hand_client import HandClient

        return HandClient(self.url, name)

    def lab(self) -> LiveLab:
        """Return the live lab: the broker's picture, as it runs."""
        from qflow.live.live_lab import LiveLab

        return LiveLab(self)

    @property
    def has_ended(self) -> bool:
        """Whether the server has stopped."""
        return not self._thread.is_alive()

    def declare_like(self, queue: str, stop: int) -> str:
        """Make a queue like another, with a stop threshold of its own and resume in proportion (FC-12).

        >>> with serve("orders --flow-stop-count=10 --flow-resume-count=5") as broker:
        ...     broker.declare_like("orders", 20)
        'orders-2'
        """
        from qflow.labs.topology import QueueSpot

        with self.lock:
            # The broker's clock moves only when it is advanced.
            self.server.advance_time()
            found = self.broker.queue(queue)
            arguments = dict(found.settings.arguments)
            now = QueueSpot.of(queue, arguments, self.broker.options)
            # Without a stop there is no proportion to keep: 7 to 8 is that of the broker's defaults, 70 and
            # 80 percent.
            resume = stop * now.resume_count // now.stop_count if now.stop_count else stop * 7 // 8
            arguments["qpid.flow_stop_count"] = stop
            arguments["qpid.flow_resume_count"] = max(1, resume)
            names = (f"{queue}-{number}" for number in count(2))
            made = next(name for name in names if name not in self.broker.queues.queues)
            self.broker.management.create("queue", made, arguments)
        self.server.wake()
        return made

    def close(self) -> None:
        """Stop: each client gets a close from the broker; the trace stays."""
        self.server.stop()
        self._thread.join()

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{self.url}\n{self.table()}"

    def _repr_html_(self) -> str:
        table: Any = self.table()
        return f"<p>{self.url}</p>{table._repr_html_()}"


def serve(
    *queues: str | Declaration,
    port: int = 0,
    host: str = "127.0.0.1",
    password: str = "",
    workload: Workload | str | Path | None = None,
    options: BrokerOptions | None = None,
    limits: ClientLimits | None = None,
    is_traced: bool = True,
    brake: str = "silence",
    certificate: Certificate | None = None,
) -> Serving:
    """Put the engine behind a port, for clients of AMQP 1.0 in any language, until it is closed.

    Parameters:
        *queues: Queues to begin with: addresses, lines of ``qpid-config`` options, or names.
        port, host: Where to listen; port 0 is a free one, and this machine alone reaches 127.0.0.1.
        password: The password of all clients; "" for none.
        workload: Clients that are simulated beside the real ones, in real time.
        options, limits: The broker's start options; the limits of one client.
        is_traced: Whether all events are kept, for a trace and for labs; not of a server that runs for days.
        brake: How a sender is told that a queue is ON: ``silence``, as Qpid's broker does, ``credit`` or
            ``reject``, as others do (:mod:`qflow.live.brakes`).
        certificate: Files to speak TLS with; None for a port without.

    Returns:
        Its ``url`` is for the clients; it is a context manager that closes at the end.

    Raises:
        RefusalError: If Proton is not installed, or there is no such brake.
        ConfigurationError, ManagementError: If a queue cannot be read, or the broker refuses it.
        OSError: If the port cannot be had.

    >>> from proton import Message
    >>> from proton.utils import BlockingConnection
    >>> with serve("orders --flow-stop-count=10 --flow-resume-count=5") as broker:
    ...     connection = BlockingConnection(broker.url, timeout=10)
    ...     sent = connection.create_sender("orders").send(Message(body="hello"))
    ...     print(broker.broker.queue("orders").message_depth)
    ...     connection.close()
    1
    """
    require_proton()
    from qflow.live.server import Server

    server = Server(
        queues,
        options,
        workload=Workload.load(workload) if isinstance(workload, str | Path) else workload,
        host=host,
        port=port,
        password=password,
        limits=limits,
        is_traced=is_traced,
        brake=brake,
        tls=server_context(certificate),
    )
    return Serving(server)


# What can be seen

_STATISTICS = [
    "msgDepth",
    "byteDepth",
    "messageCount",
    "consumerCount",
    "flowStopped",
    "flowStoppedCount",
    "msgTotalEnqueues",
    "msgTotalDequeues",
    "discardsOverflow",
]


def _describe_server(server: Server, since: int) -> dict[str, Any]:
    events = () if server.events is None else server.events
    statistics = {name: queue.statistics() for name, queue in server.broker.queues.queues.items()}
    return {
        "now": server.broker.now,
        "count": len(events),
        "events": [tuple(event) for event in events[since:]],
        "clients": [_describe_client(peer) for peer in server.peers()],
        "queues": {name: {key: getattr(of, key) for key in _STATISTICS} for name, of in statistics.items()},
        "outcomes": dict(server.outcomes()),
        "incidents": list(server.incidents),
        "refusals": list(server.refusals),
    }


def _describe_client(peer: Peer) -> dict[str, Any]:
    return {
        "name": peer.name,
        "container": peer.container,
        "product": peer.product,
        "address": peer.address,
        "user": peer.sasl.user,
        # Senders come first.
        "links": sorted(
            (link.describe() for link in peer.links.values() if link.link is not None),
            key=lambda shown: shown["role"],
            reverse=True,
        ),
    }
