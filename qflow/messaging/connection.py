"""Connection: an application's way to a broker of this process."""

from __future__ import annotations

from typing import Any

from qflow.messaging.endpoint import Endpoint
from qflow.messaging.exceptions import ConnectionClosed, ConnectionError
from qflow.messaging.hosts import DEFAULT_URL, Host, brokers, parse_url

# qpidtoollibs looks for Message beside the class of the connection it is given.
from qflow.messaging.message import Message as Message
from qflow.messaging.session import Session

_OPTIONS: dict[str, object] = {
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
"""What the real client knows, with its defaults; most of it says how to travel, which nobody does here."""


class Connection(Endpoint):
    """Connects to the broker behind a URL (see :class:`qflow.messaging.hosts.Brokers`).

    Parameters
    ----------
    url : object
        ``[user[/password]@]host[:port]``; the host is the name of a broker in this process.
    **options : object
        Those of the real client; all become attributes.

    Raises
    ------
    ConnectionError
        For an option the real client does not know, or a protocol other than "amqp0-10".

    Examples
    --------
    >>> connection = Connection.establish("localhost")
    >>> session = connection.session()
    >>> session.sender("greetings; {create: always}").send("hello")
    >>> session.receiver("greetings").fetch(timeout=1).content
    'hello'
    >>> connection.close()
    """

    def __init__(self, url: object = None, **options: Any) -> None:
        super().__init__()
        for key, value in options.items():
            if key not in _OPTIONS:
                raise ConnectionError(text=f"Unknown connection option {key} with value {value}")
        if options.get("protocol") not in (None, "amqp0-10"):
            raise ConnectionError(
                text=f"Connection option 'protocol' value {options['protocol']!r} unsupported"
                " (must be amqp0-10)"
            )
        for key, default in _OPTIONS.items():
            setattr(self, key, options.get(key, default))
        self.options = options
        self.url = url if url is not None else options.get("host") or DEFAULT_URL
        host, port, user, password = parse_url(self.url)
        self.host: Any = host
        self.port = port
        self.username = user or options.get("username")
        self.password = password or options.get("password")
        self._broker_host = brokers.host(self.url)
        self.id = self._broker_host.unique_name("client")
        self.session_counter = 0
        self.sessions: dict[str, Session] = {}
        self._open = False
        self._connected = False

    @staticmethod
    def establish(url: object = None, timeout: float | None = None, **options: Any) -> Connection:
        """Return a new connection that is open."""
        connection = Connection(url, **options)
        connection.open(timeout)
        return connection

    # Open and attached

    def open(self, timeout: float | None = None) -> None:
        """Open the connection.

        Raises
        ------
        ConnectionError
            It is open.
        """
        if self._open:
            raise ConnectionError(text="already open")
        self._open = True
        self.attach(timeout)

    def opened(self) -> bool:
        """Return whether the connection is open."""
        return self._open

    def attach(self, timeout: float | None = None) -> None:
        """Attach to the broker, with all sessions there are."""
        self._connected = True
        for session in list(self.sessions.values()):
            session.attach()
        self.check_error()

    def attached(self) -> bool:
        """Return whether the connection is attached."""
        return self._connected

    def detach(self, timeout: float | None = None) -> None:
        """Leave the broker: sessions end there, their transactions are aborted."""
        self._connected = False
        for session in list(self.sessions.values()):
            session.detach()

    def close(self, timeout: float | None = None) -> None:
        """Close all sessions, and leave the broker."""
        try:
            for session in list(self.sessions.values()):
                session.close(timeout)
        finally:
            self.detach(timeout)
            self._open = False

    def check_closed(self) -> None:
        """Refuse a call on a connection that is not attached.

        Raises
        ------
        ConnectionClosed
            If it is not.
        """
        if not self._connected:
            raise ConnectionClosed(text=f"the connection to {self.url} is not attached")

    # Sessions

    def session(self, name: str | None = None, transactional: bool = False) -> Session:
        """Return a session: the one of this name if there is one, else a new one.

        Parameters
        ----------
        name : str or None
            None for a name of its own.
        transactional : bool
            Whether sends and acknowledgements wait for ``commit``.
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

    @property
    def broker_host(self) -> Host:
        """The broker, with what its clients share."""
        return self._broker_host

    def host_if_attached(self) -> Host | None:
        """Return the broker to attach to, or None while the connection is not attached."""
        return self._broker_host if self._connected else None


__all__ = ["Connection"]
