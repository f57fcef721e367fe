"""Exercises on the broker's own log: how long a queue was ON."""

from __future__ import annotations

from qflow.teaching.exercise import exercise

_WORDS = {
    "ON": "has reached 40 enqueued messages. Producer flow control activated.",
    "OFF": "has drained below the flow control resume level. Producer flow control deactivated.",
}


def _log(*events: str) -> list[str]:
    """Return the lines of a broker's log for events such as ``06 orders ON``: second, queue, state."""
    lines = ["2026-11-28 16:38:53 [Broker] notice Broker (pid=22044) start-up"]
    for second, queue, state in map(str.split, events):
        known = (
            f'Queue "{queue}": {_WORDS[state]}' if state in _WORDS else f"Bind key [{queue}] to queue {queue}"
        )
        lines.append(f"2026-11-28 16:{39 + int(second) // 60}:{int(second) % 60:02d} [Broker] info {known}")
    return lines


def _changes(lines: list[str], queue: str) -> list[tuple[int, bool]]:
    """Return the time in seconds of each change of the flow control state, and whether it is to ON."""
    return [
        (_second(line), "control activated" in line)
        for line in lines
        if "flow control" in line and f'"{queue}' in line
    ]


def _second(line: str) -> int:
    return int(line[14:16]) * 60 + int(line[17:19])


def _sum(changes: list[tuple[int, bool]], end: int | None) -> int:
    total, since = 0, None
    for second, is_on in changes:
        if is_on and since is None:
            since = second
        elif not is_on and since is not None:
            total, since = total + second - since, None
    return total + (0 if since is None or end is None else end - since)


@exercise(
    cases=(
        (_log("6 orders ON", "10 orders OFF", "20 orders bound"), "orders"),
        (_log("6 orders ON", "8 invoices ON", "10 orders OFF", "30 end bound"), "invoices"),
        (_log("6 orders ON", "8 invoices ON", "12 orders OFF", "15 invoices OFF", "40 orders ON",
              "50 end bound"), "orders"),
        (_log("1 a ON", "2 a OFF", "5 a ON", "65 a OFF", "70 a ON", "75 b ON"), "a"),
        (_log("3 b ON", "9 b OFF", "12 a ON", "60 end bound"), "b"),
        (_log("3 b ON", "9 b OFF", "12 a ON", "60 end bound"), "quiet"),
    ),
    misconceptions={
        "only what has ended counts": lambda lines, queue: _sum(_changes(lines, queue), None),
        "every line is about this queue": lambda lines, queue: _sum(_changes(lines, ""), _second(lines[-1])),
        "the time between the first ON and the last OFF": lambda lines, queue: max(
            (_second(lines[-1]) if is_on else second for second, is_on in _changes(lines, queue)), default=0
        ) - min((second for second, _ in _changes(lines, queue)), default=0),
        "how often, not how long": lambda lines, queue: sum(is_on for _, is_on in _changes(lines, queue)),
    },
)  # fmt: skip
def _seconds_on(lines: list[str], queue: str) -> int:
    from qflow.logs.broker_log import BrokerLog
    from qflow.workload.agenda import SECOND

    log = BrokerLog.parse("\n".join(lines))
    return log.on_us(queue) // SECOND if queue in log.queues else 0
