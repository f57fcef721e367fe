"""Broker statistics: a process that asks a broker's management for its queues' statistics every 50 ms.

It runs as ``python -m qflow.live.broker_statistics URL``.

Qpid's brokers accept QMF 2 over AMQP 1.0: a request is a message to ``qmf.default.direct`` with the subject
``broker``, and the answer is sent to its reply address.  The names of the queues arrive on standard input,
one per line; each answer is written to standard output as a JSON object.  This is a process of its own, as
decoding an answer takes time in which the tap would pass no bytes.

A broker that does not answer, or no longer, is asked again and again: it may have been restarted.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from proton import Message
from proton.utils import BlockingConnection

from qflow.live.recording import follow_recorder
from qflow.logs.log_file import SAMPLE_FIELDS

_EVERY = 0.05
"""Seconds between two reports of a queue."""
_PATIENCE = 2.0
"""Seconds within which management must answer."""
_FIRST_PAUSE, _SHORT_PAUSE, _LONG_PAUSE = 0.5, 2.0, 30.0
_NODE, _SUBJECT = "qmf.default.direct", "broker"
_PACKAGE = "org.apache.qpid.broker"


class _StatisticsClient:
    """A connection to the management (QMF 2) of a broker over AMQP 1.0."""

    def __init__(self, url: str) -> None:
        self._connection = BlockingConnection(url, timeout=_PATIENCE)
        self._answers = self._connection.create_receiver(None, dynamic=True)
        self._requests = self._connection.create_sender(_NODE)
        self._count = 0

    def query(self, **what: Any) -> list[dict[str, Any]]:
        self._count += 1
        properties = {"x-amqp-0-10.app-id": "qmf2", "qmf.opcode": "_query_request", "method": "request"}
        self._requests.send(
            Message(
                body={"_what": "OBJECT", **what},
                subject=_SUBJECT,
                reply_to=self._answers.link.remote_source.address,
                correlation_id=str(self._count),
                properties=properties,
            )
        )
        found: list[dict[str, Any]] = []
        while True:
            answer = self._answers.receive(timeout=_PATIENCE)
            self._answers.accept()
            body = answer.body if isinstance(answer.body, list) else []
            found += [each["_values"] for each in body if isinstance(each, dict)]
            if "partial" not in (answer.properties or {}):
                return found


def _read_sample(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return a queue's statistics in the form in which a recording stores them.

    >>> _read_sample("q", {"msgDepth": 3, "flowStopped": False, "arguments": {"qpid.flow_stop_count": 9}})
    {'queue': 'q', 'values': [3, 0, False, 0, 0, 0, 0], 'arguments': {'qpid.flow_stop_count': 9}}
    """
    kinds = [bool if key == "flowStopped" else int for key in SAMPLE_FIELDS]
    numbers = [kind(values.get(key) or 0) for kind, key in zip(kinds, SAMPLE_FIELDS, strict=True)]
    given = values.get("arguments")
    arguments = given.items() if isinstance(given, dict) else ()
    kept = {str(key): value for key, value in arguments if isinstance(value, str | int | bool | float)}
    return {"queue": name, "values": numbers, "arguments": kept}


def _ask_for_reports(
    management: _StatisticsClient, names: list[str], ended: threading.Event
) -> Iterator[dict[str, Any]]:
    """Yield a report of each queue every 50 ms until the end; the caller may add names meanwhile."""
    exchanges = management.query(_schema_id={"_class_name": "exchange", "_package_name": _PACKAGE})
    yield {"exchanges": [str(each["name"]) for each in exchanges if each.get("name")]}
    while not ended.is_set():
        begin = time.monotonic()
        for name in sorted(names):
            # The answer is empty if there is no queue of that name.
            for values in management.query(_object_id={"_object_name": f"{_PACKAGE}:queue:{name}"}):
                yield _read_sample(name, values)
        ended.wait(max(0.0, _EVERY - (time.monotonic() - begin)))


def main(arguments: list[str]) -> int:
    """Report until standard input closes."""
    names: list[str] = []
    ended = follow_recorder(names.append)
    pause, longest, known = _FIRST_PAUSE, _LONG_PAUSE, ""
    while not ended.is_set():
        try:
            for said in _ask_for_reports(_StatisticsClient(arguments[0]), names, ended):
                print(json.dumps(said), flush=True)
                # This broker has management, so it will have it again after a restart.
                pause, longest, known = _FIRST_PAUSE, _SHORT_PAUSE, ""
        except Exception as error:
            # Any error of Proton counts: it means that this broker gives no statistics now.
            words = f"{type(error).__name__}: {error}"
            if words != known:
                print(json.dumps({"error": words}), flush=True)
            known = words
        ended.wait(pause)
        pause = min(2 * pause, longest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
