"""Exercises on several queues: one slow destination, and who else waits for it."""

from __future__ import annotations

from collections.abc import Callable

from qflow.teaching.bench import Bench
from qflow.teaching.exercise import FINE, Exercise, Misconception, fine


def _can_sync(stops: dict[str, int], sends: list[str]) -> bool:
    bench = Bench()
    for queue, stop in stops.items():
        bench.declare(queue, flow_stop_count=stop, flow_stop_size=0)
    for queue in sends:
        bench.send(queue)
    before = len(sends)
    bench.producer.execution_sync()
    return before in bench.producer.completed


def _stopped(stops: dict[str, int], sends: list[str]) -> set[str]:
    return {queue for queue, stop in stops.items() if sends.count(queue) > stop}


CAN_SYNC = Exercise(
    "can_sync",
    "One sync for everything",
    truth=_can_sync,
    cases=(
        ({"X": 1, "Y": 5}, ["X", "X", "Y"]),
        ({"X": 1, "Y": 5}, ["X", "Y", "Y"]),
        ({"X": 1, "Y": 5}, ["Y", "Y", "X", "X"]),
        ({"X": 3, "Y": 3}, ["X", "Y", "X", "Y"]),
        ({"X": 2, "Y": 1}, ["X", "Y", "X"]),
        ({"X": 2, "Y": 1}, ["Y", "X", "Y", "X"]),
        ({"X": 1, "Y": 1, "Z": 9}, ["X", "X", "Y", "Y", "Z"]),
        ({"X": 1, "Y": 9}, ["X"]),
        ({"X": 1, "Y": 1}, ["X", "X", "Y", "Y"]),
    ),
    misconceptions={
        "a sync asks about the last transfer": Misconception(
            lambda stops, sends: sends.count(sends[-1]) <= stops[sends[-1]],
            "execution.sync waits for every earlier command of the session, to whichever queue (CM-06).",
        ),
        "a sync asks about the first transfer's queue": Misconception(
            lambda stops, sends: sends.count(sends[0]) <= stops[sends[0]],
            "execution.sync waits for every earlier command of the session, to whichever queue (CM-06).",
        ),
        "only if all queues are stopped": Misconception(
            lambda stops, sends: len(_stopped(stops, sends)) < len(set(sends)),
            "one held transfer anywhere in the session is enough to park the sync (CM-06).",
        ),
        "the message is there, so it is done": Misconception(
            lambda stops, sends: True,
            "the messages are on their queues, but a held transfer is not complete, and sync waits for "
            "completions (CM-01, CM-06).",
        ),
    },
    hints=(
        "Does a sync know about queues at all, or only about commands?",
        "It completes when no earlier command of the session is incomplete.",
        "all(sends.count(queue) <= stop for queue, stop in stops.items())",
    ),
    rules=("CM-06", "CAP-09", "ALT-09"),
)


def _delivered_by(answer: Callable[[list[str]], dict[str, str]], queues: list[str]) -> str:
    plan = answer(list(queues))
    if not (isinstance(plan, dict) and set(plan) == set(queues)):
        return f"the plan names a session for each of {', '.join(queues)}; got {plan!r}"
    for slow in queues:
        bench = Bench()
        for queue in queues:
            bench.declare(queue, flow_stop_count=1 if queue == slow else 1000, flow_stop_size=0)
        sessions = {name: bench.broker.session(f"s {name}") for name in sorted(set(map(str, plan.values())))}
        bench.send(slow, 2, by=sessions[str(plan[slow])])
        for queue in queues:
            session = sessions[str(plan[queue])]
            if queue != slow and session.held:
                return f"with {slow} stopped, the sender to {queue} waits too: they share a session"
    return FINE


SESSION_PLAN = Exercise(
    "session_plan",
    "No producer waits for another's queue",
    truth=fine,
    outcome=_delivered_by,
    cases=((["orders", "invoices"],), (["a", "b", "c", "d"],), (["x"],), (["eu", "us", "asia"],)),
    misconceptions={
        "one session for all": Misconception(
            lambda queues: dict.fromkeys(queues, "session"),
            "senders of one session share its commands and its sync: a full window to one queue waits for "
            "the held transfers to another (CM-06, CAP-09).",
        ),
        "two sessions are enough": Misconception(
            lambda queues: {queue: f"s{n % 2}" for n, queue in enumerate(queues)},
            "any two queues on one session wait for each other; each destination needs its own (CAP-09).",
        ),
        "only the first queue is a problem": Misconception(
            lambda queues: {queue: "first" if n == 0 else "others" for n, queue in enumerate(queues)},
            "any of them may be the slow one (CAP-09).",
        ),
        "the first letter will do": Misconception(
            lambda queues: {queue: "A" if queue[0] < "c" else queue for queue in queues},
            "two destinations may not share a session, whatever their names (CAP-09).",
        ),
    },
    hints=(
        "Which two queues may share a session, if either of them can stop?",
        "None. Give every destination a session of its own.",
        "{queue: some text that is different for each queue}",
    ),
    rules=("CM-06", "CAP-09", "ALT-09"),
)


def _messages_left(slow_stop: int, capacity: int, subscribers: int) -> tuple[int, int]:
    bench = Bench()
    names = ["slow", *(f"fast{n}" for n in range(subscribers - 1))]
    for name in names:
        stop = slow_stop if name == "slow" else 10 * (slow_stop + capacity)
        bench.declare(name, flow_stop_count=stop, flow_stop_size=0)
        bench.admin.exchange_bind(name, "amq.fanout", "")
    readers = [bench.reader(name, f"reader of {name}") for name in names[1:]]
    received = 0
    while len(bench.producer.held) < capacity:
        bench.send("", exchange="amq.fanout")
        for reader in readers:
            reader.take(1)
        received += 1 if readers else 0
    return bench.depth("slow"), received


SLOWEST_DECIDES = Exercise(
    "slowest_decides",
    "Fan-out with one slow subscriber",
    truth=_messages_left,
    cases=((100, 50, 3), (10, 5, 2), (10, 1, 4), (3, 20, 2), (900, 100, 5)),
    misconceptions={
        "the fast ones go on": Misconception(
            lambda stop, capacity, subscribers: (stop + capacity, 10 * (stop + capacity)),
            "the producer waits for the slow queue's completions, so no queue gets anything more (CM-03).",
        ),
        "each subscriber has a window of its own": Misconception(
            lambda stop, capacity, subscribers: (stop + capacity, (stop + capacity) * (subscribers - 1)),
            "one transfer reaches every queue; each fast reader got the same number (CM-03).",
        ),
        "the window is shared among the queues": Misconception(
            lambda stop, capacity, subscribers: (
                stop + capacity // subscribers,
                stop + capacity // subscribers,
            ),
            "a transfer fills one place in the window, however many queues it goes to (CAP-01).",
        ),
        "it stops at the threshold": Misconception(
            lambda stop, capacity, subscribers: (stop, stop),
            "above stop, completions are held, and the producer goes on until its window is full (CAP-01).",
        ),
    },
    hints=(
        "When does the producer stop? And how many messages has each of the others got by then?",
        "It stops with `capacity` transfers held by the slow queue; every transfer went to all queues.",
        "Both numbers are slow_stop + capacity.",
    ),
    rules=("CM-03", "CAP-01"),
    parts=("the messages on the slow queue", "the messages that each of the others has read"),
)

EXERCISES = (CAN_SYNC, SESSION_PLAN, SLOWEST_DECIDES)
