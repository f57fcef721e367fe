"""Observation: what can be seen after a step, in the words of ``expect``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from qflow.broker.errors import AmqpException, SessionException
from qflow.broker.queue import Queue
from qflow.broker.statistics import QueueStatistics
from qflow.conformance.labels import pack
from qflow.conformance.player import Player

Seen = dict[str, Any]
_BY_NAME = ("done", "held", "got", "unacked", "groups")

_QUEUE: dict[str, Callable[[QueueStatistics], int | bool]] = {
    "depth": lambda s: s.msgDepth,
    "bytes": lambda s: s.byteDepth,
    "avail": lambda s: s.messageCount,
    "enq": lambda s: s.msgTotalEnqueues,
    "deq": lambda s: s.msgTotalDequeues,
    "txenq": lambda s: s.msgTxnEnqueues,
    "txdeq": lambda s: s.msgTxnDequeues,
    "acq": lambda s: s.acquires,
    "rel": lambda s: s.releases,
    "ttl": lambda s: s.discardsTtl,
    "ring": lambda s: s.discardsRing,
    "lvq": lambda s: s.discardsLvq,
    "over": lambda s: s.discardsOverflow,
    "rej": lambda s: s.discardsSubscriber,
    "purged": lambda s: s.discardsPurge,
    "rerouted": lambda s: s.reroutes,
    "cons": lambda s: s.consumerCount,
    "binds": lambda s: s.bindingCount,
    "flow": lambda s: s.flowStopped,
    "flows": lambda s: s.flowStoppedCount,
}


def observe(player: Player) -> Seen:
    """Return the complete visible state, without what is 0, false or empty."""
    queues = {name: player.broker.queues.queues.get(name) for name in player.declared}
    seen: Seen = {
        "done": _by_session(player, lambda client: len(client.sent) - len(client.held())),
        "held": _by_session(player, lambda client: pack(client.held())),
        "got": {name: pack(labels) for name, labels in player.got.items()},
        "unacked": _by_session(player, lambda client: client.session.consuming.unacked_messages),
        "queues": {name: None if queue is None else _queue(queue) for name, queue in queues.items()},
        "groups": {
            name: _groups(queue) for name, queue in queues.items() if queue is not None and queue.groups
        },
        "errors": {
            name: [_code(client.session.error), client.session.error.text]
            for name, client in player.clients.items()
            if client.session.error is not None
        },
        "events": [
            [event.kind, event.queue, (event.detail or {})["msgDepth"], (event.detail or {})["byteDepth"]]
            for event in player.events
        ],
    }
    return without_empty(seen)


def _code(error: AmqpException) -> str:
    return error.name if isinstance(error, SessionException) else "connection"


def _by_session(player: Player, value: Callable[[Any], Any]) -> Seen:
    found = {name: value(client) for name, client in player.clients.items() if client.session.is_attached}
    return {name: item for name, item in found.items() if item}


def _queue(queue: Queue) -> Seen:
    statistics = queue.statistics()
    values = {name: read(statistics) for name, read in _QUEUE.items()}
    return {name: value for name, value in values.items() if value}


def _groups(queue: Queue) -> Seen:
    if queue.groups is None:
        return {}
    return {
        str(group["group_id"]): [group["msg_count"], str(group["consumer"]).replace("::", "/")]
        for group in queue.groups.state()
    }


def normalized(expect: Mapping[str, Any]) -> Seen:
    """Return an expectation in the same form: what is 0, false or empty is left out."""
    queues = {
        name: None if queue is None else {key: value for key, value in queue.items() if value}
        for name, queue in expect.get("queues", {}).items()
    }
    seen: Seen = {**expect, "queues": queues}
    return without_empty(seen)


def without_empty(seen: Mapping[str, Any]) -> Seen:
    """Leave out what is empty; of queues, groups and so on by name, too, but not a queue that there is."""
    kept = {
        key: {name: item for name, item in value.items() if item} if key in _BY_NAME else value
        for key, value in seen.items()
    }
    return {key: value for key, value in kept.items() if value}


def browse_everything(player: Player) -> dict[str, list[str]]:
    """Return what a fresh browser sees on every queue that still exists."""
    final: dict[str, list[str]] = {}
    for name in player.declared:
        queue = player.broker.queues.queues.get(name)
        if queue is not None:
            session = player.broker.session(f"final browser of {name}")
            labels: list[str] = []
            session.consuming.on_delivery = lambda record, labels=labels: labels.append(
                record.label + ("*" if record.redelivered else "")
            )
            session.message_subscribe(name, "browser", acquire_mode=1)
            session.message_set_flow_mode("browser", 0)
            session.message_flow("browser", 1, 0xFFFFFFFF)
            session.message_flow("browser", 0, 0xFFFFFFFF)
            session.close()
            final[name] = pack(labels)
    return final
