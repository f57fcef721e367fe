"""Exercises on held completions: what a producer sees, and when."""

from __future__ import annotations

from collections.abc import Callable

from qflow.teaching.bench import Bench
from qflow.teaching.exercise import Exercise, Misconception


def _completed(sends: list[str], stops: dict[str, int]) -> list[int]:
    bench = Bench()
    for queue, stop in stops.items():
        bench.declare(queue, flow_stop_count=stop, flow_stop_size=0)
    transfers = [bench.send(queue)[0] for queue in sends]
    return [number for number, transfer in enumerate(transfers) if transfer.is_complete]


def _held_numbers(sends: list[str], stops: dict[str, int]) -> list[int]:
    return [n for n, queue in enumerate(sends) if sends[: n + 1].count(queue) > stops[queue]]


def _in_order(sends: list[str], stops: dict[str, int]) -> list[int]:
    held = _held_numbers(sends, stops)
    return list(range(held[0] if held else len(sends)))


COMPLETED = Exercise(
    "completed",
    "Which transfers are complete",
    truth=_completed,
    cases=(
        (["X", "X", "Y", "Y"], {"X": 1, "Y": 9}),
        (["X", "Y", "X", "Y", "X", "Y"], {"X": 1, "Y": 2}),
        (["X", "X", "X", "Y"], {"X": 2, "Y": 1}),
        (["Y", "X", "X", "X", "Y"], {"X": 1, "Y": 5}),
        (["X", "Y", "Z", "Z", "X", "Z", "Y"], {"X": 1, "Y": 1, "Z": 1}),
        (["X", "Y"], {"X": 3, "Y": 3}),
        (["X", "X", "X", "X"], {"X": 2, "Y": 9}),
    ),
    misconceptions={
        "completions come in order": Misconception(
            _in_order,
            "they did before this feature. Now a later transfer may complete before an earlier one; the "
            "completed set has a hole (CM-04).",
        ),
        "one full queue stops all": Misconception(
            lambda sends, stops: [] if _held_numbers(sends, stops) else list(range(len(sends))),
            "only transfers to the stopped queue are held, and only from the one that turned it ON (FC-15, "
            "CM-04).",
        ),
        "only the first above is held": Misconception(
            lambda sends, stops: [
                n for n, queue in enumerate(sends) if sends[: n + 1].count(queue) != stops[queue] + 1
            ],
            "the message that turns it ON is held, and so is every later one while it is ON (FC-15).",
        ),
        "reached is enough": Misconception(
            lambda sends, stops: [
                n for n, queue in enumerate(sends) if sends[: n + 1].count(queue) < stops[queue]
            ],
            "the message that reaches the stop threshold completes; the next one does not (FC-14, FC-15).",
        ),
    },
    hints=(
        "Count for each queue on its own. Does Y know about X?",
        "A transfer is held if its own queue holds more than its stop threshold once the message has "
        "arrived.",
        "Keep a counter for each queue; number n is complete if the counter after it is at most "
        "stops[queue].",
    ),
    rules=("CM-04", "CM-05", "FC-15"),
    shows=("G-02",),
)


def _completed_after_purges(stops: dict[str, int], messages: int, purges: list[str]) -> list[list[int]]:
    bench = Bench()
    for queue, stop in stops.items():
        bench.declare(queue, flow_stop_count=stop, flow_stop_size=0)
        bench.admin.exchange_bind(queue, "amq.fanout", "")
    transfers = bench.send("", messages, exchange="amq.fanout")
    seen = [[n for n, t in enumerate(transfers, 1) if t.is_complete]]
    for queue in purges:
        bench.admin.queue_purge(queue)
        seen.append([n for n, t in enumerate(transfers, 1) if t.is_complete])
    return seen


def _fanout(
    stops: dict[str, int], messages: int, purges: list[str], how: Callable[[set[str], set[str]], bool]
) -> list[list[int]]:
    """Work out who is complete if `how` says, of the queues that hold and those purged, when."""
    seen = []
    for done in range(len(purges) + 1):
        purged = set(purges[:done])
        seen.append(
            [
                n
                for n in range(1, messages + 1)
                if how({queue for queue, stop in stops.items() if n > stop}, purged)
            ]
        )
    return seen


COMPLETED_AFTER_PURGES = Exercise(
    "completed_after_purges",
    "One message, two stopped queues",
    truth=_completed_after_purges,
    cases=(
        ({"f1": 1, "f2": 2}, 3, ["f1", "f2"]),
        ({"f1": 1, "f2": 2}, 3, ["f2", "f1"]),
        ({"f1": 3, "f2": 1}, 5, ["f1", "f2"]),
        ({"f1": 2, "f2": 2}, 4, ["f2", "f1"]),
        ({"a": 1, "b": 2, "c": 3}, 4, ["b", "c", "a"]),
        ({"a": 9, "b": 1}, 3, ["b", "a"]),
    ),
    misconceptions={
        "one queue letting go is enough": Misconception(
            lambda stops, messages, purges: _fanout(
                stops, messages, purges, lambda holding, purged: not holding or bool(holding & purged)
            ),
            "a transfer completes when the last queue that held it lets go, not the first (CM-03).",
        ),
        "all queues or nothing": Misconception(
            lambda stops, messages, purges: _fanout(
                stops, messages, purges, lambda holding, purged: not holding or len(purged) == len(stops)
            ),
            "a transfer waits for the queues that hold it, not for the others (CM-03).",
        ),
        "held only if every queue is stopped": Misconception(
            lambda stops, messages, purges: _fanout(
                stops, messages, purges, lambda holding, purged: len(holding - purged) < len(stops)
            ),
            "one stopped destination is enough to hold a transfer (CM-02, CM-03).",
        ),
        "the first queue decides": Misconception(
            lambda stops, messages, purges: _fanout(
                stops, messages, purges, lambda holding, purged: not (holding & {next(iter(stops))}) - purged
            ),
            "every destination that is stopped holds the transfer, whichever was bound first (CM-03).",
        ),
    },
    hints=(
        "Write down for each message which queues hold it. Message 2 and message 3 differ.",
        "A queue holds message n if n is more than its stop threshold; a purge makes it let go of all.",
        "Complete after some purges: every queue with stops[queue] < n is among those purged.",
    ),
    rules=("CM-02", "CM-03", "FC-20"),
    shows=("G-01",),
)


def _released(stop: int, resume: int, sent: int, taken: int) -> int:
    bench = Bench().declare("q", flow_stop_count=stop, flow_resume_count=resume, flow_stop_size=0)
    transfers = bench.send("q", sent)
    held = [transfer for transfer in transfers if not transfer.is_complete]
    bench.reader("q").take(taken)
    return sum(transfer.is_complete for transfer in held)


RELEASED = Exercise(
    "released",
    "Two ways out of being held",
    truth=_released,
    cases=(
        (10, 3, 15, 5),
        (10, 3, 15, 11),
        (10, 3, 15, 12),
        (10, 3, 15, 13),
        (3, 1, 9, 5),
        (3, 1, 9, 9),
        (100, 50, 165, 120),
        (10, 10, 15, 6),
        (5, 1, 8, 7),
    ),
    misconceptions={
        "nothing before OFF": Misconception(
            lambda stop, resume, sent, taken: sent - stop if sent - taken < resume else 0,
            "there is a second way: a held message that leaves the queue completes at once, even while the "
            "queue is still ON (FC-17).",
        ),
        "one out, one completed": Misconception(
            lambda stop, resume, sent, taken: min(taken, sent - stop),
            "messages leave from the head, and those were complete already. Only a held message that leaves "
            "itself completes before OFF (FC-17).",
        ),
        "each one below stop frees one": Misconception(
            lambda stop, resume, sent, taken: max(0, min(taken - (sent - stop), sent - stop)),
            "nothing happens at stop on the way down (FC-16); see which messages are leaving (FC-17).",
        ),
        "OFF frees only those that left": Misconception(
            lambda stop, resume, sent, taken: max(0, taken - stop),
            "when the queue turns OFF it lets go of all it holds at once (FC-17).",
        ),
    },
    hints=(
        "Which messages does a consumer take first: those that are held, or those before them?",
        "If fewer than resume are left: all. If not: only the held messages that have themselves been taken.",
        "The held ones are numbers stop + 1 to sent; of the first `taken` messages, taken - stop are held.",
    ),
    rules=("FC-17", "FC-20"),
)

EXERCISES = (COMPLETED, COMPLETED_AFTER_PURGES, RELEASED)
