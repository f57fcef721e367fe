"""Helpers of ``qpid.messaging.util``: reconnect URLs that follow a cluster's list of brokers."""

from __future__ import annotations

from qflow.messaging.sessions import Connection


def auto_fetch_reconnect_urls(connection: Connection) -> None:
    """Keep the reconnect URLs of a connection up to date: here it only sets them to its own URL.

    The real function listens at ``amq.failover``, where a cluster publishes its brokers.  Clustering went
    before 1.40, and a broker in this process has no others.

    >>> connection = Connection.establish("localhost")
    >>> auto_fetch_reconnect_urls(connection)
    >>> connection.reconnect_urls
    ['localhost']
    """
    if not getattr(connection, "reconnect_urls", ()):
        vars(connection)["reconnect_urls"] = [connection.url]
