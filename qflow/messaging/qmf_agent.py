"""The broker's management agent: answers requests sent to ``qmf.default.direct/broker`` (CF-07 … CF-11).

It understands the QMFv2 that qpidtoollibs' BrokerAgent sends: method calls on the broker and its queues,
and queries for objects by class or by identity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qflow.broker import Broker
from qflow.broker.errors import AmqpException, ManagementError
from qflow.messaging.encoding import ReplyTo
from qflow.messaging.message import Message
from qflow.messaging.qmf_events import AGENT, publish
from qflow.messaging.qmf_objects import find_object, find_objects

REQUESTS = "qmf.default.direct"
UNKNOWN_METHOD, INVALID_PARAMETER, EXCEPTION = 2, 4, 7
METHODS: dict[str, dict[str, tuple[str, ...]]] = {
    "broker": {
        "create": ("type", "name", "properties", "strict"),
        "delete": ("type", "name", "options"),
        "query": ("type", "name"),
        "queueMoveMessages": ("srcQueue", "destQueue", "qty", "filter"),
        "queueRedirect": ("sourceQueue", "targetQueue"),
        "echo": ("sequence", "body"),
    },
    "queue": {
        "purge": ("request", "filter"),
        "reroute": ("request", "useAltExchange", "exchange", "filter"),
    },
}
"""Methods and the names of their arguments in order, by the class of object they are called on (CF-11)."""
_OPTIONAL = {"properties", "strict", "options", "qty", "filter", "targetQueue", "useAltExchange", "request"}

Arguments = dict[str, Any]


def answer(broker: Broker, request: Message) -> None:
    """Do what a request asks for, and send the answer to where it says; without that, say nothing."""
    reply_to = None if request.reply_to is None else ReplyTo.of(request.reply_to)
    response = _response(broker, request)
    response.correlation_id = request.correlation_id
    response.properties |= {"method": "response", "qmf.agent": AGENT, "x-amqp-0-10.app-id": "qmf2"}
    if reply_to is not None and reply_to.routing_key is not None:
        publish(broker, response, reply_to.exchange or "", reply_to.routing_key)


def call(broker: Broker, identity: str, method: str, arguments: Arguments) -> Arguments:
    """Call a method of the broker or of a queue; return its output arguments.

    Parameters
    ----------
    identity : str
        ``org.apache.qpid.broker:broker:amqp-broker`` or ``org.apache.qpid.broker:queue:<name>``.
    method : str
        A name of CF-11.
    arguments : dict
        By their names in QMF.

    Raises
    ------
    ManagementError
        With the status (CF-08).

    Examples
    --------
    >>> broker = Broker()
    >>> there = "org.apache.qpid.broker:broker:amqp-broker"
    >>> call(broker, there, "create", {"type": "queue", "name": "orders"})
    {}
    >>> call(broker, there, "query", {"type": "queue", "name": "orders"})
    {'results': {}}
    """
    _, _, kind_and_name = identity.partition(":")
    kind, _, name = kind_and_name.partition(":")
    if method not in METHODS.get(kind, {}):
        raise ManagementError(UNKNOWN_METHOD, f"UnknownMethod: {kind} has no {method!r}")
    _check(method, METHODS[kind][method], arguments)
    action: Callable[..., Any] = getattr(broker.management, method)
    owner = {"queue": name} if kind == "queue" else {}
    try:
        result = action(**owner, **arguments)
    except AmqpException as error:
        raise ManagementError(EXCEPTION, str(error)) from error
    if method == "query":
        return {"results": result}
    return dict(zip(("sequence", "body"), result, strict=True)) if method == "echo" else {}


def _check(method: str, names: tuple[str, ...], arguments: Arguments) -> None:
    unknown = [name for name in arguments if name not in names]
    missing = [name for name in names if name not in arguments and name not in _OPTIONAL]
    if method == "reroute" and arguments.get("useAltExchange"):
        missing = []
    if unknown or missing:
        text = f"{method}: got {sorted(arguments)}, takes {list(names)}"
        raise ManagementError(INVALID_PARAMETER, f"InvalidParameter: {text}")


def _response(broker: Broker, request: Message) -> Message:
    content: Any = request.content if isinstance(request.content, dict) else {}
    opcode = request.properties.get("qmf.opcode")
    try:
        if opcode == "_method_request":
            identity = str(content.get("_object_id", {}).get("_object_name", ""))
            result = call(broker, identity, str(content.get("_method_name")), content.get("_arguments") or {})
            return Message({"_arguments": result}, properties={"qmf.opcode": "_method_response"})
        if opcode == "_query_request":
            found = _query(broker, content)
            headers: Arguments = {"qmf.opcode": "_query_response", "qmf.content": "_data"}
            return Message(found, properties=headers)
        raise ManagementError(EXCEPTION, f"unknown opcode: {opcode}")
    except ManagementError as error:
        values = {"error_code": error.status, "error_text": error.text}
        return Message({"_values": values}, properties={"qmf.opcode": "_exception"})


def _query(broker: Broker, content: Arguments) -> list[Arguments]:
    if "_object_id" in content:
        found = find_object(broker, str(content["_object_id"].get("_object_name")))
        return [] if found is None else [found]
    return find_objects(broker, str(content.get("_schema_id", {}).get("_class_name")))
