"""Exercises on rings, with priorities, last values, and groups."""

from __future__ import annotations

from collections.abc import Callable

from qflow.teaching.exercise import Exercise, Misconception
from qflow.teaching.exercises.bench import GROUP, Bench
from qflow.teaching.exercises.groups import group_of


def _ring_priorities(limit: int, priorities: list[int]) -> list[int]:
    bench = Bench()
    bench.declare("q", max_count=limit, policy_type="ring", priorities=10)
    for number, priority in enumerate(priorities):
        bench.send("q", [str(number)], priority=priority)
    return [int(label) for label in bench.left("q")]


Queue = list[tuple[int, int]]
"""Priority and number of each message, in the order they came."""


def _ring_model(
    limit: int,
    priorities: list[int],
    victim: Callable[[Queue], tuple[int, int]],
    gives_way: Callable[[int, int], bool],
) -> list[int]:
    """Keep a ring as somebody might think: `victim` is evicted if `gives_way(old priority, new priority)`."""
    queue: Queue = []
    for number, new in enumerate(priorities):
        if len(queue) == limit:
            oldest = victim(queue)
            if not gives_way(oldest[0], new):
                continue
            queue.remove(oldest)
        queue.append((new, number))
    return [number for _, number in sorted(queue, key=lambda message: -message[0])]


def _lowest(queue: Queue) -> tuple[int, int]:
    return min(queue, key=lambda message: message[0])


RING_PRIORITIES = Exercise(
    "ring_priorities",
    "A ring with priorities",
    truth=_ring_priorities,
    cases=(
        (3, [5, 6, 7, 4, 5, 9]),
        (2, [1, 2, 3]),
        (2, [3, 2, 1]),
        (3, [4, 4, 4, 4]),
        (2, [5, 0, 0, 7, 6]),
        (3, [9, 1, 5, 0, 1, 2]),
        (4, [1, 2]),
    ),
    misconceptions=(
        Misconception(
            "the oldest has to go",
            lambda limit, priorities: _ring_model(
                limit, priorities, lambda queue: queue[0], lambda old, new: True
            ),
            "with priorities it is the oldest of the lowest priority that may be evicted (LP-12).",
        ),
        Misconception(
            "the lowest has to go, whatever comes",
            lambda limit, priorities: _ring_model(limit, priorities, _lowest, lambda old, new: True),
            "if the new message is of lower priority than all others, the new one is dropped, silently "
            "(LP-12).",
        ),
        Misconception(
            "the new one has to be strictly higher",
            lambda limit, priorities: _ring_model(limit, priorities, _lowest, lambda old, new: old < new),
            "of equal priority the older one gives way (LP-12).",
        ),
        Misconception(
            "a full queue takes nothing",
            lambda limit, priorities: sorted(range(len(priorities))[:limit], key=lambda n: -priorities[n]),
            "a ring makes room; that is what it is for (LP-10, LP-12).",
        ),
    ),
    hints=(
        "Which single message is looked at when the queue is full?",
        "The first one of the lowest priority on the queue. It goes if its priority is at most the new "
        "one's.",
        "If the lowest <= new: the oldest of the lowest goes and new comes in. Else new is dropped. A stable "
        "sort "
        "by falling priority at the end.",
    ),
    rules=("LP-10", "LP-12"),
    shows=("G-12",),
)


def _ring_last_values(limit: int, keys: list[str]) -> list[str]:
    bench = Bench()
    bench.declare("q", max_count=limit, policy_type="ring", last_value_queue_key="key")
    for key in keys:
        bench.send("q", [key], header="key")
    return bench.left("q")


def _last_values(limit: int, keys: list[str], evicts_first: bool) -> list[str]:
    queue: list[str] = []
    for key in keys:
        if key in queue and not evicts_first:
            queue.remove(key)
        elif len(queue) == limit:
            del queue[0]
        if key in queue:
            queue.remove(key)
        queue.append(key)
    return queue


RING_LAST_VALUES = Exercise(
    "ring_last_values",
    "A ring of last values",
    truth=_ring_last_values,
    cases=(
        (3, ["a", "b", "c", "b"]),
        (3, ["a", "b", "c", "d"]),
        (2, ["a", "b", "a"]),
        (2, ["a", "b", "b", "b"]),
        (4, ["a", "b", "a", "c"]),
        (3, ["a", "b", "c", "b", "b", "d"]),
    ),
    misconceptions=(
        Misconception(
            "a replacement needs no room",
            lambda limit, keys: _last_values(limit, keys, evicts_first=False),
            "the limit is checked before the replacement: a full ring evicts its oldest message first, and "
            "then "
            "the new message replaces its predecessor too (LP-13).",
        ),
        Misconception(
            "a ring of everything",
            lambda limit, keys: keys[-limit:],
            "a new message with the same key replaces the old one; there is one for each key (QT-01).",
        ),
        Misconception(
            "the value changes in place",
            lambda limit, keys: list(dict.fromkeys(keys))[-limit:],
            "the new value takes a new place at the tail (QT-01), and eviction comes before (LP-13).",
        ),
        Misconception(
            "first values",
            lambda limit, keys: list(dict.fromkeys(keys))[:limit],
            "new messages come in; it is the old ones that go (LP-10, QT-01).",
        ),
    ),
    hints=(
        "Two things can remove a message here. Which of them happens first?",
        "First the limit: if the queue is full the oldest goes. Then the key: its predecessor goes. Then "
        "append.",
        "For a, b, c and then b with limit 3: a is evicted, the old b is replaced, and c, b are left.",
    ),
    rules=("LP-13", "QT-01"),
    shows=("G-12",),
)


def _ring_group(limit: int, labels: list[str], fetched: int) -> str | None:
    bench = Bench()
    bench.grouped("q", max_count=limit, policy_type="ring")
    bench.send("q", labels[:limit], header=GROUP)
    first = bench.reader("q", "first")
    for _ in range(fetched):
        first.fetch()
    bench.send("q", labels[limit:], header=GROUP)
    return bench.reader("q", "second").fetch()


def _ring_group_model(limit: int, labels: list[str], fetched: int, keeps: bool, evicts: bool) -> str | None:
    acquired, new = labels[:fetched], len(labels) - limit
    if evicts:
        rest = labels[max(fetched, new) :]
        held = acquired if keeps else labels[min(new, fetched) : fetched]
    else:
        rest, held = labels[fetched + new :], acquired
    owned = {group_of(label) for label in held}
    return next((label for label in rest if group_of(label) not in owned), None)


RING_GROUP = Exercise(
    "ring_group",
    "A ring takes a group away",
    truth=_ring_group,
    cases=(
        (3, ["A-1", "A-2", "A-3", "A-4"], 1),
        (3, ["A-1", "A-2", "A-3", "A-4"], 2),
        (3, ["A-1", "A-2", "A-3", "A-4", "A-5"], 2),
        (2, ["A-1", "B-1", "A-2"], 1),
        (3, ["A-1", "A-2", "B-1", "B-2"], 2),
        (4, ["A-1", "A-2", "B-1", "A-3", "B-2"], 1),
        (3, ["A-1", "A-2", "A-3"], 1),
    ),
    misconceptions=(
        Misconception(
            "an owner keeps its group",
            lambda limit, labels, fetched: _ring_group_model(limit, labels, fetched, keeps=True, evicts=True),
            "the evicted message no longer counts for its owner. If it held nothing else of the group, the "
            "group is "
            "free while it is still working on it (MG-20).",
        ),
        Misconception(
            "only waiting messages are evicted",
            lambda limit, labels, fetched: _ring_group_model(
                limit, labels, fetched, keeps=True, evicts=False
            ),
            "the help text of qpid-config says so, but the broker evicts acquired messages too (LP-10).",
        ),
        Misconception(
            "there are no groups on a ring",
            lambda limit, labels, fetched: labels[max(fetched, len(labels) - limit)],
            "groups work on a ring, as long as the owner still holds something of it on the queue (MG-02, "
            "MG-20).",
        ),
    ),
    hints=(
        "What is the oldest message when the ring needs room, and in whose hands is it?",
        "Each message beyond the limit evicts the oldest, fetched or not. Who then still holds something of "
        "A?",
        "gone = len(labels) - limit. Held: those fetched and not gone. Then the first message, neither "
        "fetched nor "
        "gone, of a group that is not held.",
    ),
    rules=("LP-10", "MG-20"),
    shows=("G-11",),
)

EXERCISES = (RING_PRIORITIES, RING_LAST_VALUES, RING_GROUP)
