"""The helper function of ``qpid.messaging.util``, for reconnect URLs that follow a cluster's brokers."""

from __future__ import annotations

from qflow.messaging.sessions import Connection


def auto_fetch_reconnect_urls(connection: Connection) -> None:
    """Set the reconnect URLs of a connection to its own URL, if it has none.

    The real function keeps them up to date from ``amq.failover``, where a cluster publishes the URLs of its
    brokers.  Clustering was removed before 1.40, and a broker in this process is never part of a cluster.

    >>> connection = Connection.establish("localhost")
    >>> auto_fetch_reconnect_urls(connection)
    >>> connection.reconnect_urls
    ['localhost']
    """
    if not getattr(connection, "reconnect_urls", ()):
        vars(connection)["reconnect_urls"] = [connection.url]
