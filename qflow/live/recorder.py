"""Recorder: a recording made inside the recorded program, which needs two more lines of code.

It is for programs that cannot be redirected to ``qflow record``::

    from qflow import recorder
    recorder(connection, "orders.parquet")

*A connection of* ``qpid.messaging`` (the real library's, or this kit's): the methods of its sessions, senders
and receivers record their calls and results.  Two facts are inferred, as they cannot be observed: a transfer
counts as complete at the next call at which the sender's number of unsettled messages shows it, and a message
counts as delivered when it is fetched.

*A container of Proton*: its ``connect`` goes through a tap in this process (:mod:`qflow.live.recording`),
which records the traffic on the wire.

Both write the same folder as ``qflow record``.
"""

from __future__ import annotations

import atexit
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from qflow.configuration.declaration import ConfigurationError, Declaration
from qflow.kit import RefusalError
from qflow.live.client_book import ClientBook, Mark, RecordingFolder, SeenMessage, check_folder
from qflow.live.recording import Recording, Upstream, stopwatch
from qflow.messaging.address import ParseError, parse
from qflow.messaging.exceptions import EncodeError
from qflow.messaging.messages import content_size

_EVERY = 1.0
"""Seconds between two written parts of a recording."""

# Names and not classes: the real qpid.messaging has classes of its own with these names.
_NOTHING_SENT = {"InsufficientCapacity", "SendWouldBlock", "EncodeError"}
_WAITED = {"Timeout", "SyncWouldBlock"}
_ADDED = ("x-amqp-", "qpid.")
_VERDICTS = {"RELEASED": "release", "REJECTED": "reject"}


def recorder(subject: Any, out: str | Path, **options: Any) -> Recorder:
    """Start recording a connection or a container.

    Parameters:
        subject (Connection of qpid.messaging, or Container of Proton): The object whose use is recorded. It
            works as before; sessions and links that it made earlier are not recorded.
        out: The folder of the log; it must not exist yet, and its name must end in ``.parquet``.
        **options: ``name``, the client's name in the log; ``group_header``, the property that names a
            message's group; for a connection also ``clock``, a function that returns nanoseconds.

    Returns:
        The running recording. Its ``stop`` ends it, and so does the end of the program.

    Raises:
        RefusalError: If ``subject`` is neither of the two, or the folder exists already.

    >>> import tempfile
    >>> from qflow.logs import ClientLog
    >>> from qflow.messaging import Connection
    >>> connection = Connection.establish("doc-recorder")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     recording = recorder(connection, Path(folder) / "orders.parquet", name="shop")
    ...     connection.session().sender("orders; {create: always}").send("a book")
    ...     recording.stop()
    ...     [row.event for row in ClientLog.load(Path(folder) / "orders.parquet").rows]
    ['transfer', 'complete']
    """
    # Recognized by their methods: neither library needs to be installed, and the kit's own Connection is
    # recorded like the real one.
    if hasattr(subject, "session") and not hasattr(subject, "container_id"):
        return _MessagingRecorder(subject, Path(out), **options)
    if hasattr(subject, "connect") and hasattr(subject, "container_id"):
        return _ContainerRecorder(subject, Path(out), **options)
    kind = type(subject).__name__
    raise RefusalError(f"subject must be a Connection of qpid.messaging or a Container of Proton; got {kind}")


class Recorder:
    """A running recording, made by :func:`recorder`."""

    path: Path

    def stop(self) -> None:
        """Stop the recording; all rows are written on return. Later calls have no effect."""
        raise NotImplementedError

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


# Proton


class _ContainerRecorder(Recorder):
    def __init__(self, container: Any, out: Path, name: str = "", group_header: str = "") -> None:
        self.path, self._group_header = check_folder(out), group_header
        self._container, self._connect = container, container.connect
        self._recording: Recording | None = None
        if name:
            container.container_id = name
        container.connect = self._connect_by_tap
        atexit.register(self.stop)

    def _connect_by_tap(self, url: Any = None, urls: Any = None, address: Any = None, **named: Any) -> Any:
        from proton import Url

        given = url or address or (urls[0] if urls else None)
        if given is None:
            words = "a recorded container connects to a URL, not by a configuration file"
            raise RefusalError(words)
        target = Url(str(given))
        # Program and tap are on one machine and speak without TLS; the tap speaks TLS with the broker.
        if named.pop("ssl_domain", None) is not None:
            words = "the recorder itself speaks TLS, as the system trusts; ssl_domain cannot be given"
            raise RefusalError(words)
        port = self._tap(f"{target.scheme or 'amqp'}://{target.host}:{target.port}")
        # The tap's address replaces the broker's in the URL, so the virtual host is passed by name.
        login = {"user": target.username, "password": target.password, "virtual_host": target.host}
        named = {key: value for key, value in login.items() if value} | named
        path = f"/{target.path}" if target.path else ""
        return self._connect(f"amqp://127.0.0.1:{port}{path}", **named)

    def _tap(self, place: str) -> int:
        upstream, recording = Upstream(place), self._recording
        if recording is None:
            header = self._group_header
            recording = Recording(upstream, self.path, group_header=header, asks_statistics=False)
            recording.start("127.0.0.1", 0)
            self._recording = recording
        if str(upstream) != str(recording.tap.upstream):
            known = recording.tap.upstream
            raise RefusalError(f"all connections of a recording must go to one broker, {known}; got {place}")
        return recording.tap.port

    def stop(self) -> None:
        atexit.unregister(self.stop)
        self._container.connect = self._connect
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.stop()


# qpid.messaging


class _MessagingRecorder(Recorder):
    """A recorder of the calls of a connection's sessions, senders and receivers."""

    def __init__(
        self,
        connection: Any,
        out: Path,
        name: str = "client",
        group_header: str = "",
        clock: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self.path, self.book = check_folder(out), ClientBook()
        self.name, self.group_header = name, group_header
        # Reentrant: _note_failure holds the book open while it records a transfer.
        self._lock = threading.RLock()
        self._folder, self._now = RecordingFolder(out), stopwatch(clock)
        self._sessions: list[_Session] = []
        self._is_over = threading.Event()
        self._connection, self._make, self._close = connection, connection.session, connection.close
        connection.session, connection.close = self._session, self._close_connection
        self.book.connections = 1
        atexit.register(self.stop)
        # If the program is killed, only about the last second of the recording is lost.
        threading.Thread(target=self._write_periodically, daemon=True).start()

    @contextmanager
    def open_book(self) -> Iterator[ClientBook]:
        """Yield the book with its time set to now; only one thread at a time has it."""
        with self._lock:
            self.book.now = self._now()
            yield self.book

    def _session(self, *given: Any, **named: Any) -> Any:
        session = self._make(*given, **named)
        # A known name returns the same session; if it were wrapped twice, each call would be recorded twice.
        if all(each.session is not session for each in self._sessions):
            self._sessions.append(_Session(self, session))
        return session

    def _close_connection(self, *given: Any, **named: Any) -> Any:
        result = self._close(*given, **named)
        for session in self._sessions:
            session.end("its connection is closed")
        return result

    def _write_periodically(self) -> None:
        while not self._is_over.wait(_EVERY):
            with self._lock:
                self._folder.keep(self.book)

    def stop(self) -> None:
        if self._is_over.is_set():
            return
        self._is_over.set()
        atexit.unregister(self.stop)
        self._connection.session, self._connection.close = self._make, self._close
        with self._lock:
            for session in self._sessions:
                session.look()
            self._folder.keep(self.book)


class _Session:
    def __init__(self, recorder: _MessagingRecorder, session: Any) -> None:
        self.recorder, self.session = recorder, session
        self.senders: list[_Sender] = []
        self.receivers: list[_Receiver] = []
        # The fetched and unsettled messages: the program's object and the book's.
        self.fetched: list[tuple[Any, SeenMessage]] = []
        self._sender, self._receiver = session.sender, session.receiver
        self._acknowledge, self._close = session.acknowledge, session.close
        session.sender, session.receiver = self.sender, self.receiver
        session.acknowledge, session.close = self.acknowledge, self.close
        if getattr(session, "transactional", False):
            with recorder.open_book() as book:
                words = "its work is in the log at its own time, not at the commit"
                book.add_finding(f"a session with transactions: {words}")

    def sender(self, *given: Any, **named: Any) -> Any:
        sender = self._sender(*given, **named)
        self.senders.append(_Sender(self, sender))
        return sender

    def receiver(self, *given: Any, **named: Any) -> Any:
        receiver = self._receiver(*given, **named)
        self.receivers.append(_Receiver(self, receiver))
        return receiver

    def acknowledge(self, message: Any = None, disposition: Any = None, *given: Any, **named: Any) -> Any:
        # Recorded before the call, which with sync returns only after the broker's answer.
        event = _VERDICTS.get(str(getattr(disposition, "type", "")), "accept")
        with self.recorder.open_book() as book:
            fetched, self.fetched = self.fetched, []
            for one, seen in fetched:
                if message is None or one is message:
                    book.settle(seen, event)
                else:
                    self.fetched.append((one, seen))
        try:
            return self._acknowledge(message, disposition, *given, **named)
        finally:
            self.look()

    def look(self) -> None:
        for sender in self.senders:
            sender.look()

    def close(self, *given: Any, **named: Any) -> Any:
        self.look()
        result = self._close(*given, **named)
        self.end("its session is closed")
        return result

    def end(self, reason: str) -> None:
        with self.recorder.open_book() as book:
            for sender in self.senders:
                book.end_client(sender.client, "", reason, sender.waiting)
            for receiver in self.receivers:
                left = [seen for _, seen in self.fetched if seen.client is receiver.client]
                book.end_client(receiver.client, "", reason, left)
            self.senders, self.receivers, self.fetched = [], [], []


class _Sender:
    def __init__(self, session: _Session, sender: Any) -> None:
        self.session, self.sender = session, sender
        self.recorder = session.recorder
        name, subject, arguments = _parse_node(str(getattr(sender, "target", "") or ""))
        # An address may name a queue or an exchange; only the standard exchanges are certain by their names.
        is_exchange = name.startswith("amq.")
        exchange, key = (name, subject) if is_exchange else ("", name)
        with self.recorder.open_book() as book:
            self.client = book.add_client(self.recorder.name, "producer", key or exchange, exchange, key)
            if not is_exchange:
                book.queues[name].update(arguments)
        self.waiting: deque[SeenMessage] = deque()
        self._send = sender.send
        sender.send = self.send

    def send(self, object: Any, *given: Any, **named: Any) -> Any:
        self.session.look()
        # Asked before the call: after send has returned, nothing shows that it waited for the window. With
        # room in the window the transfer is recorded before the call, as a call with sync returns after the
        # completion; without room it is sent at an unknown instant of the call, and recorded at its end.
        is_full = _ask_number(self.sender.available) == 0
        if is_full:
            self._note_window("block")
        else:
            self._note(object)
        try:
            result = self._send(object, *given, **named)
        except Exception as error:
            self._note_failure(error, object, is_full)
            raise
        if is_full:
            self._note_window("unblock")
            self._note(object)
        self.session.look()
        return result

    def _note_window(self, event: str) -> None:
        with self.recorder.open_book() as book:
            book.note_window(self.client, event)

    def _note(self, message: Any) -> None:
        group, size, mark = _describe_message(message, self.recorder.group_header)
        with self.recorder.open_book() as book:
            self.waiting.append(book.transfer(self.client, size, mark, group))

    def _note_failure(self, error: Exception, message: Any, was_full: bool) -> None:
        """Record a failed send: nothing was sent, the outcome is missing, or the link has ended."""
        names = {kind.__name__ for kind in type(error).__mro__}
        with self.recorder.open_book() as book:
            if was_full:
                book.note_window(self.client, "unblock")
                if not names & _NOTHING_SENT:
                    self._note(message)
            elif names & _NOTHING_SENT:
                book.refuse(self.waiting.pop())
            if not names & (_NOTHING_SENT | _WAITED):
                code, text = getattr(error, "code", None), str(getattr(error, "text", None) or error)
                book.end_client(self.client, f"{code} {text}" if code is not None else text, "", ())
                self.waiting.clear()

    def look(self) -> None:
        unsettled = _ask_number(self.sender.unsettled)
        with self.recorder.open_book() as book:
            # The sender tells how many transfers are unsettled, not which. Completions are assumed to
            # arrive in order, which with several queues need not be true (CM-03).
            while unsettled is not None and len(self.waiting) > unsettled:
                book.complete(self.waiting.popleft())


class _Receiver:
    """A receiver, which records a message when the program fetches it."""

    def __init__(self, session: _Session, receiver: Any) -> None:
        self.session, self.receiver = session, receiver
        self.recorder, address = session.recorder, str(getattr(receiver, "source", "") or "")
        name, _, arguments = _parse_node(address)
        with self.recorder.open_book() as book:
            self.client = book.add_client(self.recorder.name, "consumer", name)
            book.queues[name].update(arguments)
            if name.startswith("amq."):
                words = "is an exchange: the queue of the subscription is called as it in the log"
                book.add_finding(f"{address!r} {words}")
        self._fetch = receiver.fetch
        receiver.fetch = self.fetch

    def fetch(self, *given: Any, **named: Any) -> Any:
        try:
            message = self._fetch(*given, **named)
        finally:
            self.session.look()
        group, size, mark = _describe_message(message, self.recorder.group_header)
        with self.recorder.open_book() as book:
            capacity = getattr(self.receiver, "capacity", 0)
            if isinstance(capacity, int):
                self.client.most_credit = max(self.client.most_credit, capacity)
            self.session.fetched.append((message, book.deliver(self.client, size, mark, group)))
        return message


def _ask_number(ask: Callable[[], Any]) -> int | None:
    """Return a counter of a sender, or None if the sender does not have it."""
    try:
        answer = ask()
    except Exception:
        return None
    return answer if isinstance(answer, int) else None


def _parse_node(address: str) -> tuple[str, str, dict[str, Any]]:
    """Return the name and the subject in an address, and the arguments that declare its queue."""
    try:
        parsed = parse(address)
    except ParseError:
        return address, "", {}
    options: Any = parsed.options or {}
    arguments: dict[str, Any] = {}
    # An address of another node type declares no queue.
    with suppress(ConfigurationError):
        arguments = dict(Declaration.of_address(parsed.name, options).arguments)
    return str(parsed.name), str(parsed.subject or ""), arguments


def _describe_message(message: Any, group_header: str) -> tuple[str, int, Mark]:
    """Return a message's group, its content size in bytes, and its mark."""
    content = getattr(message, "content", message)
    properties = getattr(message, "properties", None) or {}
    try:
        size = content_size(content, getattr(message, "content_type", None))
    except EncodeError:
        size = len(repr(content))
    # Properties that the client library adds do not belong to the program's message.
    own = sorted(
        (str(key), repr(value)) for key, value in properties.items() if not str(key).startswith(_ADDED)
    )
    text = content.encode() if isinstance(content, str) else content
    # Marks are compared within this process only, so Python's own hash is sufficient.
    mark = (hash((repr(text), repr(getattr(message, "id", None)), tuple(own))), size)
    return str(properties.get(group_header, "")) if group_header else "", size, mark
