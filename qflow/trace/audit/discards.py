"""Messages that no consumer ever got, although later ones were delivered and the queue drops nothing."""

from __future__ import annotations

from collections.abc import Sequence

from qflow.broker.settings import QueueSettings
from qflow.trace.audit.completions import Engine
from qflow.trace.audit.findings import Finding
from qflow.trace.audit.membership import NumberedRow
from qflow.workload.model import Workload


def discard_findings(rows: Sequence[NumberedRow], workload: Workload, engine: Engine) -> list[Finding]:
    """Return the messages that a queue took, and that vanished though its policy drops nothing.

    A message counts as gone if another one of the same producer and group, sent later, was delivered from
    the queue.  Where the engine dropped messages too (a ring, a replaced value) none counts.

    Examples
    --------
    >>> from qflow.workload import simulate
    >>> workload = Workload("w", 1, {"q": {}})
    >>> discard_findings([], workload, Engine(simulate(workload)))
    []
    """
    keeping = {
        name: settings.policy
        for name, arguments in workload.queues.items()
        if _is_fifo(settings := QueueSettings.from_arguments(arguments)) and not engine.courses[name].evicts
    }
    sent = {row.label: (number, row) for number, row in rows if row.event == "transfer"}
    delivered: set[tuple[str, str]] = set()
    last: dict[tuple[str, str, str], int] = {}
    for _, row in rows:
        if row.event == "deliver" and row.queue in keeping and row.label in sent:
            delivered.add((row.queue, row.label))
            number, source = sent[row.label]
            key = (row.queue, source.client, source.group)
            last[key] = max(last.get(key, 0), number)
    findings: list[Finding] = []
    for label, (number, row) in sent.items():
        for queue in engine.queues.get(label, ()):
            if queue not in keeping or (queue, label) in delivered or row.client in engine.dead:
                continue
            if number < last.get((queue, row.client, row.group), 0):
                allowed = f"policy {keeping[queue]} drops nothing that it took"
                seen = "never delivered, later ones are"
                findings.append(
                    Finding(number, row.ts_us, "discarded", "LP-05", row.client, queue, label, seen, allowed)
                )
    return findings


def _is_fifo(settings: QueueSettings) -> bool:
    return not settings.last_value_queue_key and not settings.priorities
