"""Exercises on several queues: one slow destination, and who else waits for it."""

from __future__ import annotations

from collections.abc import Callable

from qflow.teaching.exercise import FINE, add_exercise, add_task
from qflow.teaching.trial import Trial


def _can_sync(stops: dict[str, int], sends: list[str]) -> bool:
    trial = Trial()
    for queue, stop in stops.items():
        trial.declare_stop(queue, stop)
    for queue in sends:
        trial.send(queue)
    before = len(sends)
    trial.producer.execution_sync()
    return before in trial.producer.completed


def _stop(stops: dict[str, int], sends: list[str]) -> set[str]:
    return {queue for queue, stop in stops.items() if sends.count(queue) > stop}


add_exercise(
    "can_sync",
    _can_sync,
    misconceptions={
        "a sync asks about the last transfer": lambda stops, sends: (
            sends.count(sends[-1]) <= stops[sends[-1]]
        ),
        "a sync asks about the first transfer's queue": lambda stops, sends: (
            sends.count(sends[0]) <= stops[sends[0]]
        ),
        "only if all queues are stopped": lambda stops, sends: len(_stop(stops, sends)) < len(set(sends)),
        "the message is there, so it is done": lambda stops, sends: True,
    },
)


def _deliver(answer: Callable[[list[str]], dict[str, str]], queues: list[str]) -> str:
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


add_task(
    "session_plan",
    _deliver,
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


def _messages_left(slow_stop: int, capacity: int, subscribers: int) -> tuple[int, int]:
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


add_exercise(
    "slowest_decides",
    _messages_left,
    misconceptions={
        "the fast ones go on": lambda stop, capacity, subscribers: (stop + capacity, 10 * (stop + capacity)),
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
