"""The workload behind a recorded connection: what the wire says of it, and what is inferred, marked as such.

A window, a pace and a service time are on no wire.  What is written for them comes from what was counted, and
the workload's JSON says of each, under ``inferred``, what it was taken from.
"""

from __future__ import annotations

import json
from typing import Any

from qflow.live.client_book import ClientBook, SeenClient
from qflow.logs.workload_file import NOT_SEEN, workload_json
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import WorkloadError
from qflow.workload.model import INFERRED, LARGEST_PREFETCH, MESSAGES_PER_SECOND, Consumer, Producer, Workload

SHORTEST_SERVICE = 0.000001
"""Seconds: what is settled within one read has taken less than the clock shows."""


def recorded_workload(book: ClientBook, name: str) -> dict[str, Any]:
    """Return a workload as JSON holds it; ``inferred`` says which values were not seen.

    >>> book = ClientBook()
    >>> book.queues["orders"] = {"qpid.flow_stop_count": 10}
    >>> recorded_workload(book, "monday")["queues"]
    {'orders': {'qpid.flow_stop_count': 10}}
    """
    inferred: dict[str, str] = {}
    producers, consumers = [], []
    seconds = max(1.0, book.last / SECOND)
    for client in book.clients.values():
        try:
            if client.role == "producer" and client.messages:
                producers.append(_producer(client, seconds, inferred))
            elif client.role == "consumer":
                consumers.append(_consumer(client, inferred))
        except WorkloadError as error:
            inferred[f"{client.role}s.{client.name}"] = f"left out: {error}"
    reads = {consumer.queue for consumer in consumers}
    sends = {producer.to[1] for producer in producers if not producer.to[0]}
    queues = {queue: dict(book.queues.get(queue, {})) for queue in sorted({*book.queues, *reads, *sends})}
    for queue in queues:
        unknown = book.unknown_thresholds(queue)
        if unknown:
            inferred[f"queues.{queue}"] = f"{NOT_SEEN}: its thresholds are unknown: {unknown}"
    binds = tuple(bind for bind in book.binds if bind[1] in queues)
    inferred["duration"] = "until the last thing that was seen"
    workload = Workload(name, seconds, queues, binds, tuple(producers), tuple(consumers))
    return {**workload_json(workload), INFERRED: inferred}


def _producer(client: SeenClient, seconds: float, inferred: dict[str, str]) -> Producer:
    where = f"producers.{client.name}"
    rate = min(MESSAGES_PER_SECOND, client.messages / seconds)
    if client.most_unsettled:
        capacity = client.most_unsettled
        words = f"the most that was unsettled at once, {capacity}; the client's own window is that or more"
    else:
        capacity = client.messages
        words = "not seen: all its transfers were settled or in transactions; the number of them is written"
    inferred[f"{where}.capacity"] = words
    inferred[f"{where}.rate"] = "its messages, divided by the duration"
    size = round(client.bytes / client.messages)
    inferred[f"{where}.size"] = "the mean of its messages, each encoded whole"
    return Producer(client.name, (client.exchange, client.key), rate, capacity, size)


def _consumer(client: SeenClient, inferred: dict[str, str]) -> Consumer:
    where = f"consumers.{client.name}"
    prefetch = max(1, client.most_credit, client.most_unsettled)
    inferred[f"{where}.prefetch"] = (
        f"the larger of the most credit it had, {client.most_credit}, and the most it held unsettled, "
        f"{client.most_unsettled}"
    )
    if client.served:
        mean = max(SHORTEST_SERVICE, client.service / client.served / SECOND)
        words = f"the mean of {client.served}, from a delivery or the settlement before it to its settlement"
    else:
        mean, words = 0.001, "not seen: it settled nothing; a millisecond is written"
    inferred[f"{where}.service"] = words
    start = client.start / SECOND
    return Consumer(client.name, client.queue, min(prefetch, LARGEST_PREFETCH), ("exp", mean), start=start)


def recorded_workload_text(book: ClientBook, name: str) -> str:
    """Return the same as the text of a file; what makes no workload is left out, and the text says why.

    >>> recorded_workload_text(ClientBook(), "nothing").splitlines()[1]
    ' "name": "nothing",'
    """
    try:
        value = recorded_workload(book, name)
    except WorkloadError as error:
        value = {"name": name, "duration": 1, "queues": {}, INFERRED: {"workload": f"no workload: {error}"}}
    return json.dumps(value, indent=1) + "\n"
