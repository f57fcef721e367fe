"""ServiceNodes: ``$cbs`` and ``$management``, which clients of Azure's services use before they send.

* ``$cbs`` (claims-based security) receives a token and answers with a status code.  Such a client attaches no
  other link before it has a code from 200 to 299.  This server cannot check a token (the signature of a
  connection string's key), so it accepts every token, as Microsoft's emulators do; a password requires SASL.
* ``$management`` describes an event hub.  A producer asks it for the partitions; a queue has one, number 0.

Each node is a pair of links: requests arrive on one, and answers are sent on the other, with the request's
message-id as their correlation-id.  Qpid's broker has neither node.

These clients also address an entity by a URL, ``amqps://host/orders``, whose path is the name.
"""

from __future__ import annotations

from typing import Any, Final

from cproton import lib
from proton import UNDESCRIBED, Array, Data, Link, Message, Session, int32, timestamp

SERVICE_NODES: Final = ("$cbs", "$management")
_SCHEMES = ("amqp://", "amqps://", "sb://")
_EVENT_HUB = "com.microsoft:eventhub"
_OK, _ACCEPTED, _NOT_IMPLEMENTED = 200, 202, 501


def node_of(address: str | None) -> str | None:
    """Return the name of a node from its address, which may be a URL with the name as its path.

    >>> node_of("amqps://localhost:5672/orders/Partitions/0"), node_of("orders"), node_of("http://orders")
    ('orders', 'orders', 'http://orders')
    """
    if address is None or not address.startswith(_SCHEMES):
        return address
    path = address.partition("://")[2].partition("/")[2]
    # A partition, with or without a consumer group, is the queue itself.
    return path.partition("/Partitions/")[0].partition("/ConsumerGroups/")[0] or address


class ServiceNodes:
    """The links of one connection on which service nodes answer, by node and target address."""

    def __init__(self) -> None:
        self._replies: dict[tuple[str, str], Link] = {}
        self._tag = 0

    def attach(self, node: str, link: Link) -> None:
        """Open a link for a node's answers; it replaces an earlier one to the same target."""
        link.source.address = node
        link.target.copy(link.remote_target)
        link.open()
        self._replies[node, link.remote_target.address or ""] = link

    def forget(self, ended: Link | Session) -> None:
        """Remove a link, or the links of a session, at its end."""
        kept = self._replies.items()
        self._replies = {at: link for at, link in kept if ended not in (link, link.session)}

    def answer(self, node: str, raw: bytes) -> None:
        """Answer an encoded request on the link to its reply address, or on the node's latest link."""
        request = Message()
        request.decode(raw)
        links = [link for (at, _), link in self._replies.items() if at == node]
        link = self._replies.get((node, request.reply_to or ""), links[-1] if links else None)
        if link is None:
            return
        code, words, body = _answer(node, request.properties or {})
        properties = {"status-code": int32(code), "status-description": words}
        # The id keeps its type: the library for Python compares it as a UUID.
        reply = Message(body, correlation_id=request.id, properties=properties)
        self._tag += 1
        delivery = link.delivery(f"answer-{self._tag}")
        link.send(reply.encode())
        lib.pn_delivery_settle(delivery._impl)


def _answer(node: str, asked: dict[str, Any]) -> tuple[int, str, Any]:
    """Return the status code, description and body of a node's answer."""
    if node == "$cbs":
        return _ACCEPTED, "Accepted", None
    # A description of a partition would have to be invented, and no sender needs one.
    if asked.get("type") != _EVENT_HUB:
        return _NOT_IMPLEMENTED, "only an event hub is described here", None
    hub = {
        "name": str(asked.get("name", "")),
        "type": _EVENT_HUB,
        "created_at": timestamp(0),
        "partition_count": int32(1),
        "partition_ids": Array(UNDESCRIBED, Data.STRING, "0"),
    }
    return _OK, "OK", hub
