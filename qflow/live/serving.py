"""Serving: a broker on a port, run beside the code that started it, and its state at any moment.

:func:`serve` starts the :class:`~qflow.live.server.Server` in a thread of its own.  The :class:`Serving` that
it returns can be examined while clients connect and disconnect: the broker's table of queues, its trace so
far, and :meth:`Serving.snapshot`, plain values for a picture that follows the broker.
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
        # If Proton is installed but lacks a module of its own, the original error names the cause.
        if (error.name or "").partition(".")[0] not in ("proton", "cproton"):
            raise
        raise RefusalError(explain_missing("serving real clients", "Proton", "live")) from None


class Serving:
    """A broker that serves clients in its own thread until :meth:`close`.

    Attributes:
        server (Server): The server, which runs in the thread.
        broker (Broker): The broker. Hold ``lock`` while you use it, or its state may change meanwhile.
        lock (RLock): The lock of the broker; the thread that uses the broker holds it.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.broker: Broker = server.broker
        self.lock: Any = server.lock
        # A daemon thread, so that a notebook's kernel can end without waiting for clients.
        self._thread = Thread(target=server.run, name="qflow serve", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL that clients connect to."""
        host, port = self.server.address
        if self.server.tls is not None:
            # Certificates are made for names, and many clients cannot check one for an IP address.
            return f"amqps://{'localhost' if host in ('127.0.0.1', '::1') else host}:{port}"
        return f"amqp://{f'[{host}]' if ':' in host else host}:{port}"

    def trace(self, run: str = "served") -> Trace:
        """Return the events of the run as a trace, which replays to the same state.

        Raises:
            RefusalError: If the server keeps no events (``is_traced=False``).
        """
        with self.lock:
            events = self.server.events
            if events is None:
                raise RefusalError("this server keeps no events; serve with is_traced=True")
            trace = Trace(run, self.broker.options)
            trace.extend(events)
            return trace

    def table(self) -> Table:
        """Return a table of the broker's queues with the state of their flow control."""
        from qflow.displays import broker_table

        with self.lock:
            return broker_table(self.broker)

    def snapshot(self, since: int = 0) -> dict[str, Any]:
        """Return the present state as plain values: clients, queues, and the events from index `since` on.

        ``outcomes`` counts the transfers of all clients, also of disconnected ones.  ``unsettled`` of a
        sending link is the number of its transfers that wait for an outcome: its window as measured.
        """
        with self.lock:
            return _describe_server(self.server, since)

    def client(self, name: str) -> HandClient:
        """Return a client that acts only when called, for watching the broker's answers."""
        from qflow.live.hand_client import HandClient

        return HandClient(self.url, name)

    def lab(self) -> LiveLab:
        """Return the live lab: a picture of the running broker."""
        from qflow.live.live_lab import LiveLab

        return LiveLab(self)

    @property
    def has_ended(self) -> bool:
        """Whether the server has stopped."""
        return not self._thread.is_alive()

    def declare_like(self, queue: str, stop: int) -> str:
        """Declare a copy of a queue with another stop threshold; return its name.

        Its resume threshold is in proportion to the stop threshold (FC-12).

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
            # A queue without a stop has no proportion to keep; 7 to 8 is the proportion of the broker's
            # defaults, 70 and 80 percent.
            resume = stop * now.resume_count // now.stop_count if now.stop_count else stop * 7 // 8
            arguments["qpid.flow_stop_count"] = stop
            arguments["qpid.flow_resume_count"] = max(1, resume)
            names = (f"{queue}-{number}" for number in count(2))
            made = next(name for name in names if name not in self.broker.queues.queues)
            self.broker.management.create("queue", made, arguments)
        self.server.wake()
        return made

    def close(self) -> None:
        """Stop the server: each client gets a close from the broker. The trace remains available."""
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
    """Start a broker on a port, for clients of AMQP 1.0 in any language.

    Parameters:
        *queues: The queues to declare: addresses, lines of ``qpid-config`` options, or names.
        port, host: The address to listen on. Port 0 means any free port; only this machine reaches 127.0.0.1.
        password: The password that all clients have to give; "" for none.
        workload: A workload whose clients are simulated beside the real ones, in real time.
        options, limits: The broker's start options, and the limits for each client; None for the defaults.
        is_traced: Whether all events are kept, for a trace and for labs. Use False for a server that runs for
            days.
        brake: The signal that tells senders that a queue is ON: ``silence``, as by Qpid's broker, or
            ``credit`` or ``reject``, as by other brokers (:mod:`qflow.live.brakes`).
        certificate: The files for TLS; None for a port without TLS.

    Returns:
        The running server, a context manager that closes it at the end. Clients connect to its ``url``.

    Raises:
        RefusalError: If Proton is not installed, or ``brake`` is unknown.
        ConfigurationError: If the text of a queue cannot be read.
        ManagementError: If the broker refuses a queue.
        OSError: If the port is not available.

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


# Snapshots

_STATISTICS = ["msgDepth", "byteDepth", "messageCount", "consumerCount", "flowStopped", "flowStoppedCount"]
_STATISTICS += ["msgTotalEnqueues", "msgTotalDequeues", "discardsOverflow"]


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
