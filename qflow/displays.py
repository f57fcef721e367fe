"""Displays: a broker, a queue or a session shown as a table, in a notebook and in IPython's terminal.

The engine does not depend on this module.  :func:`register` tells IPython, by the names of the engine's
classes, which function makes the table of an object.  ``import qflow`` calls it if IPython is running, and
does not load the engine for it.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qflow.table import Table
from qflow.wording import format_count

if TYPE_CHECKING:
    from qflow.broker import Broker, Session
    from qflow.broker.queue import Queue

_SHOWN = 20
"""The number of a session's held transfers that its table shows."""


def broker_table(broker: Broker) -> Table:
    """Return a table of a broker's queues, with the state of their flow control."""
    rows = []
    for name, queue in broker.queues.queues.items():
        seen = queue.statistics()
        rows.append(
            {
                "queue": name,
                "messages": seen.msgDepth,
                "bytes": seen.byteDepth,
                "flow control": _state(queue),
                "turned ON": seen.flowStoppedCount,
                **{what: _in_words(*pair) for what, pair in _levels(queue).items()},
            }
        )
    sessions = sum(session.is_attached for session in broker.sessions.values())
    seconds = f"{broker.now / 1_000_000:g}"
    caption = (
        f"broker at {seconds} s: {format_count(len(rows), 'queue')}, {format_count(sessions, 'session')}"
    )
    return Table(rows, None if rows else ["queue"], caption)


def _queue_table(queue: Queue) -> Table:
    """Return a table of a queue's depth, limit and flow control thresholds, in messages and bytes."""
    seen = queue.statistics()
    rows: list[tuple[str, int | None, int | None]] = [
        ("on the queue", seen.msgDepth, seen.byteDepth),
        ("available", seen.messageCount, None),
        *((what, count or None, size or None) for what, (count, size) in _levels(queue).items()),
    ]
    turned, read = format_count(seen.flowStoppedCount, "time"), format_count(seen.consumerCount, "consumer")
    caption = f"queue {queue.name}: flow control {_state(queue)}, turned ON {turned}; {read}"
    return Table(rows, ("", "messages", "bytes"), caption)


def _session_table(session: Session) -> Table:
    """Return a table of a session's held transfers, which occupy its producer's window."""
    held = session.held
    state = "attached" if session.is_attached else f"ended: {session.error or 'closed'}"
    unsettled = session.statistics().unackedMessages
    caption = (
        f"session {session.name}: {state}; complete are commands {session.completions.completed}; "
        f"{format_count(len(held), 'transfer')} held; {format_count(unsettled, 'message')} not accepted"
    )
    if len(held) > _SHOWN:
        caption += f"; the first {_SHOWN} held"
    rows = [(transfer.number, transfer.label, transfer.size, transfer.held_by) for transfer in held[:_SHOWN]]
    return Table(rows, ("command", "message", "bytes", "held by"), caption)


def statistics(broker: Broker) -> Table:
    """Return a table with the statistics of a broker's queues, one row for each, under their QMF names.

    >>> from qflow.broker import Broker
    >>> broker = Broker()
    >>> broker.session("s").queue_declare("orders")
    >>> statistics(broker).to_pandas()[["name", "msgDepth", "flowStopped"]]
         name  msgDepth  flowStopped
    0  orders         0        False
    """
    seen = [queue.statistics() for queue in broker.queues.queues.values()]
    rows = [dataclasses.asdict(statistics) for statistics in seen]
    return Table(rows, None, f"statistics of {format_count(len(rows), 'queue')}")


def _levels(queue: Queue) -> dict[str, tuple[int, int]]:
    """Return a queue's thresholds and limit, each as (messages, bytes) with 0 for an absent bound."""
    from qflow.broker.flow_limit import FlowThresholds

    levels = getattr(queue.flow_limit, "thresholds", None) or FlowThresholds(0, 0, 0, 0)
    return {
        "stop above": (levels.stop_count, levels.stop_size),
        "resume below": (levels.resume_count, levels.resume_size),
        "limit": (queue.depth.max_count, queue.depth.max_size),
    }


def _in_words(count: int, size: int) -> str | None:
    parts = [f"{count} messages"] if count else []
    parts += [f"{size} bytes"] if size else []
    return ", ".join(parts) or None


def _state(queue: Queue) -> str:
    if queue.flow_limit is None:
        return "none"
    return "ON" if queue.flow_limit.stopped else "OFF"


_TABLES: dict[tuple[str, str], Callable[[Any], Table]] = {
    ("qflow.broker.broker", "Broker"): broker_table,
    ("qflow.broker.queue", "Queue"): _queue_table,
    ("qflow.broker.session", "Session"): _session_table,
}
"""The engine's classes that are shown as tables, by module and name, each with its table's function."""


def has_kernel() -> bool:
    """Return whether this process is a notebook's kernel, which can show widgets, unlike a terminal."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


def register() -> None:
    """Register the functions that make the tables of the engine's classes with IPython, if it is running."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return
    formatters = shell.display_formatter.formatters
    for (module, name), table in _TABLES.items():
        formatters["text/html"].for_type_by_name(module, name, _as_html(table))
        formatters["text/plain"].for_type_by_name(module, name, _as_text(table))


def _as_html(table: Callable[[Any], Table]) -> Callable[[Any], str]:
    return lambda shown: table(shown)._repr_html_()


def _as_text(table: Callable[[Any], Table]) -> Callable[[Any, Any, bool], None]:
    # An object within a list or a mapping is shown on one line.
    return lambda shown, printer, cycle: printer.text(
        str(table(shown)) if len(printer.stack) == 1 else repr(shown)
    )
