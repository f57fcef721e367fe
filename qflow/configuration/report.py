"""An explanation as text, for the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from qflow.broker.limits import make_policy
from qflow.broker.settings import QueueSettings
from qflow.configuration.declaration import Declaration, Remark
from qflow.configuration.explanation import Explanation
from qflow.configuration.flow_words import Effective

_AT_LIMIT = {
    "reject": ("the message is refused, and its session dies", "LP-05"),
    "ring": ("the oldest messages make room, acquired ones too", "LP-10"),
    "priority_ring": (
        "the oldest message of the lowest priority makes room, or the new one is dropped",
        "LP-12",
    ),
    "ring_strict": ("the oldest message makes room, unless it is acquired", "LP-19"),
    "self-destruct": ("the queue is deleted", "LP-15"),
}


def report(explanation: Explanation) -> str:
    """Return an explanation for people to read.

    Examples
    --------
    >>> from qflow.configuration.explanation import explain
    >>> print(report(explain(Declaration("orders", {"qpid.max_count": -1}))))
    queue orders
      qpid.max_count = -1
    address
      orders; {create: always, node: {type: queue, x-declare: {arguments: {'qpid.max_count': -1}}}}
    qpid-config
      qpid-config add queue orders --max-queue-count=-1
    the broker refuses (542 invalid-argument)
      invalid conversion: Cannot convert from int64 to uint32
    """
    return "\n".join(_lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    declaration = explanation.declaration
    yield f"queue {declaration.name}"
    yield from _indented(_declared(declaration))
    for title, text in (
        ("broker", explanation.setup.text()),
        ("address", explanation.address),
        ("qpid-config", explanation.line),
    ):
        if text:
            yield title
            yield from _indented(text.splitlines())
    if explanation.refusal:
        refusal = explanation.refusal
        yield f"the broker refuses ({refusal.code} {refusal.name})"
        yield from _indented([refusal.shown])
    else:
        yield from _in_force(explanation)
    yield from _remarks(explanation.remarks)


def _declared(declaration: Declaration) -> Iterator[str]:
    for key, value in declaration.arguments.items():
        yield f"{key} = {json.dumps(value)}"
    if declaration.alternate_exchange:
        yield f"alternate-exchange = {declaration.alternate_exchange}"
    for name in ("durable", "auto_delete", "exclusive"):
        if getattr(declaration, name):
            yield name.replace("_", "-")


def _in_force(explanation: Explanation) -> Iterator[str]:
    yield "limits"
    yield from _table(explanation.limits)
    settings = QueueSettings.from_arguments(explanation.declaration.arguments)
    policy = make_policy(settings.policy, settings.priorities > 0, explanation.setup.options.limit_policies)
    what, rule = _AT_LIMIT[policy]
    yield f"  when full: {what} [{rule}]"
    yield "flow control"
    yield f"  {explanation.flow} [{', '.join(explanation.flow_rules)}]"
    yield from _table(explanation.levels)
    yield "alerts"
    yield from _table(explanation.alerts) if explanation.alerts else ["  none [QT-11]"]


def _table(rows: Iterable[Effective]) -> Iterator[str]:
    rows = tuple(rows)
    name = max((len(row.name) for row in rows), default=0)
    value = max((len(str(row.value)) for row in rows), default=0)
    for row in rows:
        yield f"  {row.name:<{name}}  {row.value:>{value}}  {row.why} [{', '.join(row.rules)}]"


def _remarks(remarks: Iterable[Remark]) -> Iterator[str]:
    for remark in remarks:
        rules = f" [{', '.join(remark.rules)}]" if remark.rules else ""
        yield f"{remark.kind}: {remark.text}{rules}"


def _indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)
