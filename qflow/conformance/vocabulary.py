"""Vocabulary: every word that a recording may use, so that none is passed over in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SCENARIO = ("id", "title", "area", "source", "broker", "steps", "final")

EVERYWHERE = ("op", "expect", "session")
_MESSAGE = ("exchange", "headers", "priority", "ttl")
_DELIVERIES = (("session",), ("labels", "sub"))

STEPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "session": (("session",), ("connection",)),
    "declare_queue": (
        (),
        ("queue", "args", "durable", "auto_delete", "exclusive", "passive", "alternate"),
    ),
    "delete_queue": ((), ("queue", "if_unused", "if_empty")),
    "purge_queue": ((), ("queue",)),
    "declare_exchange": ((), ("exchange", "type", "alternate", "passive", "args")),
    "delete_exchange": ((), ("exchange",)),
    "bind": ((), ("exchange", "queue", "key", "args")),
    "unbind": ((), ("exchange", "queue", "key", "args")),
    "transfer": (("session", "label", "size"), ("key", *_MESSAGE)),
    "offer": (("session", "label", "size", "capacity"), ("key", "sent", *_MESSAGE)),
    "sync": (("session", "label"), ()),
    "subscribe": (
        ("session", "sub"),
        ("queue", "accept_mode", "acquire_mode", "exclusive", "args", "flow_mode", "bytes", "messages"),
    ),
    "flow": (("session", "sub"), ("bytes", "messages")),
    "stop": (("session", "sub"), ()),
    "flush": (("session", "sub"), ()),
    "fetch": (("session", "sub"), ()),
    "set_flow_mode": (("session", "sub", "flow_mode"), ()),
    "cancel": (("session", "sub"), ()),
    "accept": _DELIVERIES,
    "reject": _DELIVERIES,
    "release": (("session",), ("labels", "sub", "set_redelivered")),
    "acquire": (("session",), ("labels", "sub", "acquired")),
    "complete": _DELIVERIES,
    "tx_select": (("session",), ()),
    "tx_commit": (("session",), ()),
    "tx_rollback": (("session",), ()),
    "close": (("session",), ()),
    "disconnect": (("session",), ()),
    "sleep": (("ms",), ()),
    "qmf": (("method",), ("object", "args", "result")),
}
"""What each step needs, and what it may have besides (FORMAT, section Steps); absent names are empty."""

CHOICES = {
    "accept_mode": ("explicit", "none"),
    "acquire_mode": ("pre-acquired", "not-acquired"),
    "flow_mode": ("credit", "window"),
}

METHODS = {
    "purge": ("request", "filter"),
    "reroute": ("request", "useAltExchange", "exchange", "filter"),
    "queueMoveMessages": ("srcQueue", "destQueue", "qty", "filter"),
    "create": ("type", "name", "properties", "strict"),
    "delete": ("type", "name", "options"),
    "query": ("type", "name"),
}
OF_A_QUEUE = ("purge", "reroute")

EXPECT = ("done", "held", "got", "unacked", "queues", "groups", "errors", "events")

QUEUE = (
    *("depth", "bytes", "avail", "enq", "deq", "txenq", "txdeq", "acq", "rel"),
    *("ttl", "ring", "lvq", "over", "rej", "purged", "rerouted", "cons", "binds", "flow", "flows"),
)


def not_built(step: Mapping[str, Any]) -> str:
    """Say what a step uses that is not built, or does not say; "" if it can be performed and compared.

    Examples
    --------
    >>> not_built({"op": "flush", "session": "c", "sub": "s", "expect": {}})
    ''
    >>> not_built({"op": "flush", "session": "c", "sub": "s", "twice": True, "expect": {"mood": 1}})
    "parameter 'twice' of op 'flush', expectation 'mood'"
    >>> not_built({"op": "flush", "sub": "s", "expect": {}})
    "op 'flush' without 'session'"
    """
    op = step["op"]
    if not isinstance(op, str) or op not in STEPS:
        return f"op {op!r}; known are {', '.join(sorted(STEPS))}"
    return ", ".join([*_parameters(op, step), *_method(step), *_expectations(step["expect"])])


def _parameters(op: str, step: Mapping[str, Any]) -> Iterator[str]:
    needed, possible = STEPS[op]
    for name in needed:
        if name not in step:
            yield f"op {op!r} without {name!r}"
    for name, value in step.items():
        if name not in (*EVERYWHERE, *needed, *possible):
            yield f"parameter {name!r} of op {op!r}"
        elif name in CHOICES and value not in CHOICES[name]:
            yield f"{name} {value!r}; known are {', '.join(CHOICES[name])}"


def _method(step: Mapping[str, Any]) -> Iterator[str]:
    if step["op"] != "qmf" or "method" not in step:
        return
    method = step["method"]
    if not isinstance(method, str) or method not in METHODS:
        yield f"management method {method!r}; known are {', '.join(METHODS)}"
        return
    if method in OF_A_QUEUE and "object" not in step:
        yield f"management method {method!r} without 'object'"
    for name in step.get("args") or ():
        if name not in METHODS[method]:
            yield f"argument {name!r} of management method {method!r}"


def _expectations(expect: Any) -> Iterator[str]:
    if not isinstance(expect, Mapping):
        yield f"an expectation that is a {type(expect).__name__}"
        return
    for name in expect:
        if name not in EXPECT:
            yield f"expectation {name!r}"
    queues = expect.get("queues") or {}
    if not isinstance(queues, Mapping):
        yield f"expected queues that are a {type(queues).__name__}"
        return
    unknown = {key for queue in queues.values() for key in queue or () if key not in QUEUE}
    for key in sorted(unknown):
        yield f"expectation {key!r} of a queue"
