"""Connections, and their sessions, which create the senders and receivers.

A connection leads to the broker behind a URL.  A session is a sequence of numbered commands to that broker.
A sender or receiver is attached to the node of an address in a session.  Each call of the API sends AMQP 0-10
commands, and most calls then wait for an answer:

``session``
    Sends ``session.attach``, and ``tx.select`` if the session is transactional.
``sender``, ``receiver``
    Send ``exchange.query`` and ``queue.query`` to find the node of the address, unless the connection has
    found it recently, and ``queue.declare``, ``exchange.declare`` and ``exchange.bind`` if the address
    demands them (:mod:`qflow.messaging.nodes`).  A receiver also sends ``message.subscribe`` and
    ``message.set-flow-mode``.  The call waits for the answers.  No command tells the broker of a sender.
``send``
    Sends one ``message.transfer``, as soon as the sender's window (:mod:`qflow.client_windows`) has room.  If
    it has none, the call waits for completions; the window of qpid-cpp sends ``execution.sync`` for that, and
    waits until all commands of the session are complete.  With ``sync=True`` the call then waits for the
    completion of this message.  While a queue's flow control is ON it withholds the completion: the message
    is on the queue, and its sender waits.
``fetch``
    Sends ``message.flow`` to grant credit, for the capacity or for this one message, and waits for a
    delivery.  If none comes, the call sends ``message.flush``, upon which the broker sends all messages that
    it can and withdraws the credit (CN-07), and waits until that command is confirmed.
``acknowledge``
    Sends ``session.completed`` for the deliveries, then one ``message.accept``, ``message.release`` or
    ``message.reject`` for each run of equal dispositions, and waits until these commands are confirmed.
``commit``
    Sends ``tx.commit``, and waits until it is confirmed.
``rollback``
    Sends ``message.stop`` for each receiver and ``execution.sync``; when they are confirmed,
    ``message.release`` of all delivered and unsettled messages and ``tx.rollback``; and then grants new
    credit, for messages but not for bytes, so that no message is delivered before the next drain.
``close``
    Waits as ``sync`` does.  A receiver sends ``message.cancel``, deletes its own queue if it has one,
    releases the messages that were not fetched, and waits until these commands are confirmed.

A command is *confirmed* when it and all earlier commands of the session are known to be complete (CM-14).
Therefore one held transfer makes each of these calls wait.

Sync flags and ``execution.sync`` follow the driver of the real client.  Whenever a call wakes the driver, or
it has read data, it processes its sessions (``Session.dispatch``).  It sends ``execution.sync`` if the last
command requested no report and *any* sender of the session is idle, that is, has synced all its messages.  So
if a second sender of the session sends nothing, each asynchronous command of the first is followed by a sync.

The broker performs a command within the call.  If it refuses the command, it ends the session, and the client
learns of that as it would over a network: the refusal becomes the session's error, and the next call that
waits raises it.  Waits are in virtual time, unless other threads use the broker
(:mod:`qflow.messaging.hosts`).  A wait that nothing in this process can end raises a
:class:`~qflow.messaging.exceptions.WouldBlockForever`, which names what the call waits for.
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import groupby
from typing import Any, TypeVar

from qflow.broker import EXPLICIT
from qflow.messaging.channel import Channel, fetch_blocks
from qflow.messaging.exceptions import (
    ConnectError,
    ConnectionClosed,
    ConnectionError,
    Empty,
    InsufficientCapacity,
    LinkError,
    MalformedAddress,
    NontransactionalSession,
    SessionClosed,
    Timeout,
    TransactionAborted,
    TransactionError,
)
from qflow.messaging.hosts import DEFAULT_URL, brokers, parse_url
from qflow.messaging.link_endpoints import (
    Endpoint,
    LinkEndpoint,
    ReceivedHandler,
    Receiver,
    Sender,
    SessionEndpoint,
    synchronized,
    transfer_ids,
)
from qflow.messaging.messages import (
    REJECTED,
    RELEASED,
    UNLIMITED,
    Constant,
    Disposition,
    Message,  # qpidtoollibs looks for Message beside the class of the connection it is given.
)
from qflow.messaging.nodes import KnownNodes

_ACCEPTED = Disposition(None)
_Link = TypeVar("_Link", bound=LinkEndpoint)


class Connection(Endpoint):
    """A connection to the broker behind a URL (see :class:`qflow.messaging.hosts.Brokers`).

    Parameters:
        url: ``[user[/password]@]host[:port]``; the host is the name of a broker in this process.
        **options: The options of the real client (:attr:`OPTIONS`); each becomes an attribute.

    Raises:
        ConnectionError: If the real client does not have an option, or ``protocol`` is not "amqp0-10".

    >>> connection = Connection.establish("localhost")
    >>> session = connection.session()
    >>> session.sender("greetings; {create: always}").send("hello")
    >>> session.receiver("greetings").fetch(timeout=1).content
    'hello'
    >>> connection.close()
    """

    OPTIONS: dict[str, object] = {
        "host": None,
        "transport": "tcp",
        "port": None,
        "heartbeat": None,
        "username": None,
        "password": None,
        "sasl_mechanisms": None,
        "sasl_service": "qpidd",
        "sasl_min_ssf": None,
        "sasl_max_ssf": None,
        "reconnect": False,
        "reconnect_timeout": None,
        "reconnect_interval": None,
        "reconnect_interval_min": 1,
        "reconnect_interval_max": 120,
        "reconnect_limit": None,
        "reconnect_urls": (),
        "reconnect_log": True,
        "address_ttl": 60,
        "tcp_nodelay": False,
        "ssl_keyfile": None,
        "ssl_certfile": None,
        "ssl_trustfile": None,
        "ssl_skip_hostname_check": False,
        "client_properties": None,
        "protocol": None,
    }
    """The real client's options with their defaults; options for a network have no effect here."""

    def __init__(self, url: object = None, **options: Any) -> None:
        super().__init__()
        for key, value in options.items():
            if key not in self.OPTIONS:
                raise ConnectionError(text=f"Unknown connection option {key} with value {value}")
        if options.get("protocol") not in (None, "amqp0-10"):
            raise ConnectionError(
                text=f"Connection option 'protocol' value {options['protocol']!r} unsupported"
                " (must be amqp0-10)"
            )
        for key, default in self.OPTIONS.items():
            setattr(self, key, options.get(key, default))
        self.options = options
        self.url = url if url is not None else options.get("host") or DEFAULT_URL
        host, port, user, password = parse_url(self.url)
        self.host: Any = host
        self.port = port
        self.username = user or options.get("username")
        self.password = password or options.get("password")
        self.broker_host = brokers.host(self.url)
        with self.broker_host:
            # A count and not a random id: session names own message groups, and a run must repeat byte for
            # byte.
            self.id = self.broker_host.unique_name("client")
        self.session_counter = 0
        self.sessions: dict[str, Session] = {}
        self.known_nodes: KnownNodes = {}
        self.address_ttl: float
        self._open = False
        self._connected = False

    @staticmethod
    def establish(url: object = None, timeout: float | None = None, **options: Any) -> Connection:
        """Return a new, open connection."""
        connection = Connection(url, **options)
        connection.open(timeout)
        return connection

    @synchronized
    def open(self, timeout: float | None = None) -> None:
        """Open the connection.

        Raises:
            ConnectionError: If the connection is open already.
            ConnectError: If the broker refuses every connection (:func:`qflow.messaging.refuse`).
        """
        if self._open:
            raise ConnectionError(text="already open")
        self._open = True
        self.attach(timeout)

    def opened(self) -> bool:
        """Return whether the connection is open."""
        return self._open

    @synchronized
    def attach(self, timeout: float | None = None) -> None:
        """Attach the connection and all its sessions to the broker.

        Parameters:
            timeout: Seconds of virtual time to wait until all senders and receivers are attached.

        Raises:
            ConnectError: If the broker refuses every connection; the connection cannot be used any more.
            Timeout: If a sender or receiver is not attached within the time-out.
        """
        if not self._connected and self.broker_host.refusal is not None:
            self.error = ConnectError(text=self.broker_host.refusal)
        self.check_error()
        self._connected = True
        for session in list(self.sessions.values()):
            session.attach()
        # Links whose session has failed or closed are not waited for: their answers will never come.
        if not self.broker_host.wait(lambda: self.error is not None or not self._awaits_links(), timeout):
            raise Timeout("Connection attach timed out")
        self.check_error()

    def _awaits_links(self) -> bool:
        return any(
            not (link.linked or link.closed or link.error)
            for session in self.sessions.values()
            if not (session.closed or session.get_error())
            for link in session.links()
        )

    def attached(self) -> bool:
        """Return whether the connection is attached."""
        return self._connected

    @synchronized
    def detach(self, timeout: float | None = None) -> None:
        """Detach from the broker: it ends the sessions, and aborts their transactions."""
        self._connected = False
        # The next broker behind this URL may have other nodes.
        self.known_nodes.clear()
        for session in list(self.sessions.values()):
            session.detach()

    @synchronized
    def close(self, timeout: float | None = None) -> None:
        """Close all sessions, and detach from the broker."""
        try:
            for session in list(self.sessions.values()):
                session.close(timeout)
        finally:
            self.detach(timeout)
            self._open = False

    def check_closed(self) -> None:
        """Raise a ConnectionClosed if the connection is not attached."""
        if not self._connected:
            raise ConnectionClosed(text=f"the connection to {self.url} is not attached")

    @synchronized
    def session(self, name: str | None = None, transactional: bool = False) -> Session:
        """Return the session with a name, created if the connection has none of that name.

        Parameters:
            name: The name; None for a new session with a generated name.
            transactional: Whether sends and acknowledgements take effect only with ``commit``.
        """
        if name is None:
            name = str(self.session_counter)
            self.session_counter += 1
        full_name = f"{self.id}:{name}"
        if full_name not in self.sessions:
            self.sessions[full_name] = Session(self, full_name, transactional)
        return self.sessions[full_name]

    def _remove_session(self, session: Session) -> None:
        self.sessions.pop(session.name, None)


class Session(SessionEndpoint):
    """A session: a sequence of commands to the broker, created by :meth:`Connection.session`.

    Attributes:
        name (str): The session's name at the broker, which owns message groups (MG-15).
        transactional (bool): Whether sends and acknowledgements take effect only with ``commit``.
        channel (Channel or None): The session's attachment to the broker.
        senders, receivers (list): The open senders and receivers.
        incoming (list of Message): Messages that were delivered but not fetched.
        unacked (list of Message): Messages that were fetched but not acknowledged.
        acked (list of Message): Messages whose acknowledgement the broker has not confirmed.
        ack_capacity (int or Constant): The largest number of unconfirmed acknowledgements.
        in_transaction (list of int): The numbers of the deliveries accepted since the last commit.
    """

    def __init__(self, connection: Connection, name: str, transactional: bool) -> None:
        super().__init__(connection, name)
        self.connection: Connection = connection
        self.transactional = transactional
        self.ack_capacity: int | Constant = UNLIMITED
        self.in_transaction: list[int] = []
        self._made = {Sender.ROLE: 0, Receiver.ROLE: 0}
        self.attach()

    def __repr__(self) -> str:
        return f"<Session {self.name}>"

    # The attachment

    def attach(self) -> None:
        """Attach the session, its senders and its receivers to the broker, if the connection is attached."""
        if not self.connection.attached() or self.closed or self.channel is not None:
            return
        for other in self.connection.sessions.values():
            # Management may have closed the connection (CF-11); get_error records that as its error.
            other.get_error()
        if self.connection.error is not None:
            return
        self.channel = Channel(self.broker_host, self.name, self.connection.id, self)
        with self.channel.write():
            if self.transactional:
                self.channel.give(self.channel.engine.tx_select)
            for link in self.links():
                try:
                    link.attach()
                except (TypeError, ValueError) as error:
                    # As in _link, but the call that created the link is over: the link's next call raises.
                    link.fail(MalformedAddress(text=str(error)))
            self.dispatch()

    def detach(self) -> None:
        """Detach the session from the broker; unsettled messages return to their queues (CN-17)."""
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.control(channel.engine.close)
        self._forget_deliveries()
        for link in self.links():
            link.forget_attachment()
        if self.transactional and not self.closed:
            self.closed = True
            self.error = TransactionAborted(text="Transaction aborted due to transport failure")

    def check_closed(self) -> None:
        """Raise a SessionClosed if the session has been closed."""
        if self.closed:
            raise SessionClosed(text=f"session {self.name!r} is closed")

    # Senders and receivers

    @synchronized
    def sender(self, target: str | None, **options: Any) -> Sender:
        """Return a new sender to the node of an address.

        Parameters:
            target: The address (CF-14).
            **options: ``capacity``, ``durable``, and ``window``: "qpid-python", "qpid-cpp" or "ideal".

        Raises:
            LinkError: A MalformedAddress, an InvalidOption or a NotFound, if the address is wrong.
            SessionError: If the broker refuses to create or bind the node; it has ended the session.  On a
                session that has ended before, the sender is returned and its first call raises.
            SyncWouldBlock: If an earlier transfer of this session is held and hides the answers (CM-14).
        """
        return self._link(Sender, self.senders, target, options)

    @synchronized
    def receiver(self, source: str | None, **options: Any) -> Receiver:
        """Return a new receiver from the node of an address.

        Parameters:
            source: The address (CF-14); for an exchange, the receiver gets its own queue, bound to it.
            **options: ``capacity``, the number of messages to prefetch.

        Raises:
            LinkError, SessionError, SyncWouldBlock: As for :meth:`sender`.
        """
        return self._link(Receiver, self.receivers, source, options)

    def _link(
        self, kind: type[_Link], links: list[_Link], address: str | None, options: dict[str, Any]
    ) -> _Link:
        link = kind(self, self._made[kind.ROLE], address, options)
        self._made[kind.ROLE] += 1
        links.append(link)
        if self.closed or not self.connection.attached():
            return link
        try:
            with nullcontext() if self.channel is None else self.channel.write():
                link.attach()
                self.dispatch()
        except (TypeError, ValueError):
            # AMQP cannot encode a value of the address, such as a name of 300 bytes: nothing was sent.
            links.remove(link)
            raise
        try:
            link.wait_until(lambda: link.linked, f"the {link.ROLE} for {link.given!r}")
        except LinkError:
            link.close()
            raise
        return link

    # Receiving

    @synchronized
    def next_receiver(self, timeout: float | None = None) -> Receiver:
        """Return the receiver whose prefetched message has waited longest to be fetched.

        Parameters:
            timeout: Seconds of virtual time to wait for a message; None to wait indefinitely.

        Raises:
            Empty: If no message came before the time-out.
            FetchWouldBlock: If no message can come, and there is no time-out.
        """
        self.check_error()
        self.check_closed()
        if not self.wait(lambda: bool(self.incoming), timeout):
            if timeout is None:
                raise fetch_blocks(self.broker_host, [r.queue for r in self.receivers if r.capacity])
            raise Empty(text=f"no message for any receiver within {timeout:g} s")
        receiver: Receiver = self.incoming[0]._receiver
        return receiver

    def set_message_received_notify_handler(self, handler: ReceivedHandler | None) -> None:
        """Set a function that is called with the session when a message arrives; it must not use the API."""
        self._on_received = handler

    set_message_received_handler = set_message_received_notify_handler

    # Acknowledging (CN-13 … CN-16, CM-11)

    @synchronized
    def acknowledge(
        self, message: Message | None = None, disposition: Disposition | None = None, sync: bool = True
    ) -> None:
        """Settle a fetched message, or all fetched messages that are not acknowledged yet.

        Parameters:
            message: A message that ``fetch`` returned; None for all.
            disposition: ``Disposition(RELEASED)`` to release, ``Disposition(REJECTED)`` to reject, None to
                accept.
            sync: Whether to wait until the broker has confirmed the settlement.

        Raises:
            InsufficientCapacity: If ``ack_capacity`` is 0.
            ValueError: If the message is not one that this session has fetched and not acknowledged.
            SyncWouldBlock: If an earlier transfer of this session is held and hides the confirmation (CM-14);
                the message is settled nevertheless.
        """
        messages = list(self.unacked) if message is None else [message]
        for one in messages:
            if not isinstance(self.ack_capacity, Constant):
                self._make_room_for_ack(self.ack_capacity)
            if one not in self.unacked:
                raise ValueError(f"not waiting for acknowledgement in this session: {one!r}")
            one._disposition = disposition
            self.unacked.remove(one)
            self.acked.append(one)
            self._to_settle.append(one)
        self.dispatch()
        if sync:
            self.wait_until(lambda: not any(one in self.acked for one in messages), "acknowledge")

    def _make_room_for_ack(self, capacity: int) -> None:
        if capacity <= 0:
            raise InsufficientCapacity(text=f"ack_capacity = {capacity}")
        self.dispatch()
        self.wait_until(lambda: len(self.acked) < capacity, "acknowledge")

    def _settle(self, channel: Channel) -> None:
        """Complete the deliveries, then settle runs of the same disposition with one command each."""
        messages, self._to_settle = self._to_settle, []
        channel.give_control(channel.engine.session_completed, transfer_ids(messages))
        # Messages of an unreliable receiver need no accept: they are settled at once.
        waiting: list[Message] = []
        for message in messages:
            if message._receiver.accept_mode != EXPLICIT:
                self.acked.remove(message)
            else:
                waiting.append(message)
        for _, run in groupby(waiting, _kind_of_settlement):
            self._dispose(channel, list(run))

    def _dispose(self, channel: Channel, messages: list[Message]) -> None:
        disposition, numbers = messages[0]._disposition or _ACCEPTED, transfer_ids(messages)
        engine = channel.engine

        def forget() -> None:
            for message in messages:
                self.acked.remove(message)

        if disposition.type is RELEASED:
            # The broker marks a released message as redelivered only if the client requests it (CN-15).
            again = bool(disposition.options.get("set_redelivered"))
            channel.give(engine.message_release, numbers, again, then=forget)
        elif disposition.type is REJECTED:
            channel.give(engine.message_reject, numbers, then=forget)
        else:
            channel.give(engine.message_accept, numbers, then=forget)
            if self.transactional:
                # A transactional accept takes effect with the commit: until then a rollback can return these
                # messages.
                self.in_transaction += numbers

    def _forget_deliveries(self) -> list[int]:
        """Forget all deliveries that are not finally settled, and return their numbers."""
        numbers = sorted([*self.in_transaction, *transfer_ids([*self.unacked, *self.incoming])])
        for dropped in (self.in_transaction, self.unacked, self.incoming, self.acked, self._to_settle):
            dropped.clear()
        return numbers

    # Transactions

    @synchronized
    def commit(self, timeout: float | None = None) -> None:
        """Commit all sends and acknowledgements since the last commit, or none of them (CM-10, LP-09).

        Raises:
            NontransactionalSession: If the session is not transactional.
            TransactionAborted: If a queue has no room, or the session had ended before; none of the sends and
                acknowledgements took effect, and the session has ended.
            Timeout: If the commit is not confirmed within the time-out, in seconds of virtual time.
        """
        channel = self._transaction_channel()
        is_done: list[bool] = []

        def finish() -> None:
            self.in_transaction.clear()
            is_done.append(True)

        try:
            self.check_error()
            with channel.write():
                self.dispatch()
                channel.give(channel.engine.tx_commit, then=finish)
            self.wait_until(lambda: bool(is_done), "commit", timeout)
        except (TransactionError, Timeout):
            raise
        except Exception as error:
            self.error = TransactionAborted(text=f"Transaction aborted: {error}")
            raise self.error from error

    @synchronized
    def rollback(self, timeout: float | None = None) -> None:
        """Undo all sends and acknowledgements since the last commit; messages return (MG-22, CM-11).

        As in the real client, this withdraws all credit of the receivers, and grants credit for messages
        again but not for bytes.  So a receiver gets no message until its next ``fetch`` has drained its
        credit and found nothing.

        Raises:
            NontransactionalSession: If the session is not transactional.
        """
        channel = self._transaction_channel()
        is_done: list[bool] = []

        def release_all() -> None:
            numbers = self._forget_deliveries()
            channel.give_control(engine.session_completed, numbers)
            # Released explicitly: after the broker's rollback alone, this session would keep the acquired
            # messages (CM-11).
            channel.give(engine.message_release, numbers, True)
            channel.give(engine.tx_rollback, then=finish)

        def finish() -> None:
            for receiver in self.receivers:
                receiver.forget()
            is_done.append(True)

        self.check_error()
        engine = channel.engine
        with channel.write():
            self.dispatch()
            for receiver in self.receivers:
                channel.give(engine.message_stop, receiver.tag)
            # The sync follows the stops: when it is complete, no delivery can come any more, and all messages
            # can be released.
            channel.sync(release_all)
        self.wait_until(lambda: bool(is_done), "rollback", timeout)

    def _transaction_channel(self) -> Channel:
        if not self.transactional:
            raise NontransactionalSession(text=f"session {self.name!r} is not transactional")
        if self.get_error() is None:
            self.check_closed()
        return self._require_channel()

    # Syncing and closing

    @synchronized
    def sync(self, timeout: float | None = None) -> None:
        """Wait until all sent messages are complete and all acknowledgements are confirmed.

        Raises:
            Timeout: If that takes longer than the time-out, in seconds of virtual time.
            SyncWouldBlock: If that can never happen, and there is no time-out.
        """
        for sender in list(self.senders):
            sender.sync(timeout)
        self.wait_until(lambda: not self.acked, "session sync", timeout)

    @synchronized
    def close(self, timeout: float | None = None) -> None:
        """Sync, close senders and receivers, end the session; unacknowledged messages return (CN-17)."""
        # If the broker has ended the session, nothing is left to close.
        if self.error is not None or self.get_error() is not None:
            return
        self.sync(timeout)
        for link in [*self.receivers, *self.senders]:
            link.close(timeout)
        self.closing = self.closed = True
        try:
            self.detach()
        finally:
            self.connection._remove_session(self)


def _kind_of_settlement(message: Message) -> tuple[Constant | None, dict[str, object]]:
    disposition = message._disposition or _ACCEPTED
    return disposition.type, disposition.options
