"""Exercises on held completions: the producer's view, and the effects of a slow queue on others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import gt, lt

from qflow.broker import DelayedStore, Message
from qflow.teaching.exercise import FINE, Answer, design_task, exercise
from qflow.teaching.trial import Trial


def _select(sends: list[str], stops: dict[str, int], by: Callable[[int, int], bool]) -> list[int]:
    """Return the messages for which `by` is true of the depth of their queue and its stop threshold."""
    return [n for n, queue in enumerate(sends) if by(sends[: n + 1].count(queue), stops[queue])]


def _in_order(sends: list[str], stops: dict[str, int]) -> list[int]:
    held = _select(sends, stops, gt)
    return list(range(held[0] if held else len(sends)))


@exercise(
    misconceptions={
        "completions come in order": _in_order,
        "one full queue stops all": lambda sends, stops: (
            [] if _select(sends, stops, gt) else list(range(len(sends)))
        ),
        "one count for all queues": lambda sends, stops: [
            number for number, queue in enumerate(sends) if number + 1 <= stops[queue]
        ],
        "only the first above is held": partial(_select, by=lambda depth, stop: depth != stop + 1),
        "reached is enough": partial(_select, by=lt),
    },
)
def _completed(sends: list[str], stops: dict[str, int]) -> list[int]:
    trial = Trial()
    for queue, stop in stops.items():
        trial.declare_stop(queue, stop)
    transfers = [trial.send(queue)[0] for queue in sends]
    return [number for number, transfer in enumerate(transfers) if transfer.is_complete]


def _fanout(
    stops: dict[str, int], messages: int, purges: list[str], how: Callable[[set[str], set[str]], bool]
) -> list[list[int]]:
    """Return the completed transfers before and after each purge if `how` decides about completion."""
    holding = {n: {queue for queue, stop in stops.items() if n > stop} for n in range(1, messages + 1)}
    purged = [set(purges[:done]) for done in range(len(purges) + 1)]
    return [[n for n, queues in holding.items() if how(queues, gone)] for gone in purged]


@exercise(
    misconceptions={
        "one queue's release is enough": partial(
            _fanout, how=lambda holding, purged: not holding or bool(holding & purged)
        ),
        "all queues or nothing": lambda stops, messages, purges: _fanout(
            stops, messages, purges, lambda holding, purged: not holding or len(purged) == len(stops)
        ),
        "held only if every queue is stopped": lambda stops, messages, purges: _fanout(
            stops, messages, purges, lambda holding, purged: len(holding - purged) < len(stops)
        ),
        "the first queue decides": lambda stops, messages, purges: _fanout(
            stops, messages, purges, lambda holding, purged: not (holding & {next(iter(stops))}) - purged
        ),
    },
)
def _completed_after_purges(stops: dict[str, int], messages: int, purges: list[str]) -> list[list[int]]:
    trial = Trial()
    for queue, stop in stops.items():
        trial.declare_stop(queue, stop)
        trial.admin.exchange_bind(queue, "amq.fanout", "")
    transfers = trial.send("", messages, exchange="amq.fanout")
    seen = [[n for n, t in enumerate(transfers, 1) if t.is_complete]]
    for queue in purges:
        trial.admin.queue_purge(queue)
        seen.append([n for n, t in enumerate(transfers, 1) if t.is_complete])
    return seen


@exercise(
    misconceptions={
        "nothing before OFF": lambda stop, resume, sent, taken: sent - stop if sent - taken < resume else 0,
        "reached is enough": lambda stop, resume, sent, taken: (
            sent - stop if sent - taken <= resume else max(0, taken - stop)
        ),
        "one out, one completed": lambda stop, resume, sent, taken: min(taken, sent - stop),
        "each one below stop frees one": lambda stop, resume, sent, taken: max(
            0, min(taken - (sent - stop), sent - stop)
        ),
        "OFF frees only those that left": lambda stop, resume, sent, taken: max(0, taken - stop),
    },
)
def _released(stop: int, resume: int, sent: int, taken: int) -> int:
    trial = Trial().declare_stop("q", stop, resume)
    transfers = trial.send("q", sent)
    held = [transfer for transfer in transfers if not transfer.is_complete]
    trial.reader("q").take(taken)
    return sum(transfer.is_complete for transfer in held)


def _written_in_order(stop: int, sent: int, written: list[int]) -> list[int]:
    return [n for n in sorted(written) if n <= stop and set(range(1, n)) <= set(written)]


@exercise(
    misconceptions={
        "written is enough": lambda stop, sent, written: sorted(written),
        "the disk is not waited for": lambda stop, sent, written: list(range(1, min(stop, sent) + 1)),
        "completions come in order": _written_in_order,
        "reached is enough": lambda stop, sent, written: [n for n in sorted(written) if n < stop],
        "either will do": lambda stop, sent, written: sorted(
            {*written, *range(1, min(stop, sent) + 1)},
        ),
    },
)
def _completed_with_a_store(stop: int, sent: int, written: list[int]) -> list[int]:
    store = DelayedStore()
    trial = Trial(store=store)
    trial.admin.queue_declare("q", {"qpid.flow_stop_count": stop, "qpid.flow_stop_size": 0}, durable=True)
    messages = [Message(100, "q", durable=True, label=str(number)) for number in range(1, sent + 1)]
    transfers = [trial.producer.message_transfer(message) for message in messages]
    for number in written:
        store.finish(str(number))
    return [number for number, transfer in enumerate(transfers, 1) if transfer.is_complete]


def _stop(stops: dict[str, int], sends: list[str]) -> set[str]:
    return {queue for queue, stop in stops.items() if sends.count(queue) > stop}


@exercise(
    misconceptions={
        "a sync asks about the last transfer": lambda stops, sends: sends[-1] not in _stop(stops, sends),
        "a sync asks about the first transfer's queue": lambda stops, sends: (
            sends[0] not in _stop(stops, sends)
        ),
        "only if all queues are stopped": lambda stops, sends: len(_stop(stops, sends)) < len(set(sends)),
        "the message is there, so it is done": lambda stops, sends: True,
    },
)
def _can_sync(stops: dict[str, int], sends: list[str]) -> bool:
    trial = Trial()
    for queue, stop in stops.items():
        trial.declare_stop(queue, stop)
    for queue in sends:
        trial.send(queue)
    before = len(sends)
    trial.producer.execution_sync()
    return before in trial.producer.completed


@design_task(
    misconceptions={
        "one session for all": lambda queues: dict.fromkeys(queues, "session"),
        "two sessions are enough": lambda queues: {queue: f"s{n % 2}" for n, queue in enumerate(queues)},
        "only the first queue is a problem": lambda queues: {
            queue: "first" if n == 0 else "others" for n, queue in enumerate(queues)
        },
        "the first letter will do": lambda queues: {
            queue: "A" if queue[0] < "c" else queue for queue in queues
        },
    },
)
def _session_plan(answer: Answer, queues: list[str]) -> str:
    plan = answer(list(queues))
    if not (isinstance(plan, dict) and set(plan) == set(queues)):
        return f"the plan names a session for each of {', '.join(queues)}; got {plan!r}"
    for slow in queues:
        trial = Trial()
        for queue in queues:
            trial.declare_stop(queue, 1 if queue == slow else 1000)
        sessions = {name: trial.broker.session(f"s {name}") for name in sorted(set(map(str, plan.values())))}
        trial.send(slow, 2, by=sessions[str(plan[slow])])
        for queue in queues:
            session = sessions[str(plan[queue])]
            if queue != slow and session.held:
                return f"with {slow} stopped, the sender to {queue} waits too: they share a session"
    return FINE


@exercise(
    misconceptions={
        "fast ones continue": lambda stop, capacity, subscribers: (stop + capacity, 10 * (stop + capacity)),
        "each subscriber has a window of its own": lambda stop, capacity, subscribers: (
            stop + capacity,
            (stop + capacity) * (subscribers - 1),
        ),
        "the window is shared among the queues": lambda stop, capacity, subscribers: (
            stop + capacity // subscribers,
            stop + capacity // subscribers,
        ),
        "the 101st comes on top": lambda stop, capacity, subscribers: (stop + 1 + capacity,) * 2,
        "the broker stops the producer": lambda stop, capacity, subscribers: (stop + 1, stop + 1),
        "it stops at the threshold": lambda stop, capacity, subscribers: (stop, stop),
    },
)
def _slowest_decides(slow_stop: int, capacity: int, subscribers: int) -> tuple[int, int]:
    trial = Trial()
    names = ["slow", *(f"fast{n}" for n in range(subscribers - 1))]
    for name in names:
        stop = slow_stop if name == "slow" else 10 * (slow_stop + capacity)
        trial.declare_stop(name, stop)
        trial.admin.exchange_bind(name, "amq.fanout", "")
    readers = [trial.reader(name, f"reader of {name}") for name in names[1:]]
    received = 0
    while len(trial.producer.held) < capacity:
        trial.send("", exchange="amq.fanout")
        for reader in readers:
            reader.take(1)
        received += 1 if readers else 0
    return trial.depth("slow"), received
