"""Last value and priority queues: the cases of ``lvq.py`` and ``priority.py`` (QT-01 … QT-06, LP-12)."""

import math
import random
from collections.abc import Iterator

import pytest
from messaging_support import Bench, address, contents, drain, texts

from qflow.messaging import Message

KEY = "lvq-key"
NINES = [4, 5, 3, 6, 9, 9, 2, 9, 2, 9, 9, 1, 9, 9, 9, 3, 3, 3, 9, 9, 3, 9, 3, 9, 9, 9, 9, 9, 9, 2, 3]


def value(key: str, number: int) -> Message:
    return Message(f"{key}-{number}", properties={KEY: key})


def test_last_values() -> None:
    """QT-01: one message for each key, at the place where the latest one came."""
    bench = Bench()
    sender = bench.sender(address("lvq", {"qpid.last_value_queue_key": KEY}, delete="sender"))
    for key, number in ("a1", "b1", "a2", "a3", "c1", "c2"):
        sender.send(value(key, int(number)))
    browser = bench.receiver("lvq; {mode: browse}")
    assert texts(browser) == "b-1 a-3 c-2"
    sender.send(value("b", 2))
    assert texts(browser) == "b-2"
    sender.send(value("c", 3))
    sender.send(value("d", 1))
    assert texts(browser) == "c-3 d-1"
    sender.send(value("b", 3))
    assert texts(browser) == "b-3"
    browser.close()
    assert texts(bench.receiver("lvq; {mode: browse}")) == "a-3 c-3 d-1 b-3"


@pytest.mark.parametrize(("size", "keys"), [(25, "abcd"), (5, "abcdefg"), (49, "a")])
def test_ring_of_last_values(size: int, keys: str) -> None:
    """LP-13: a full ring drops its oldest value first, then the new value replaces its predecessor."""
    bench = Bench()
    arguments = {"qpid.last_value_queue_key": KEY, "qpid.policy_type": "ring", "qpid.max_count": size}
    sender = bench.sender(address("lvq", arguments, create="sender", delete="sender"))
    counts = dict.fromkeys(keys, 0)
    on_queue: dict[str, str] = {}
    chance = random.Random(size)
    for key in [*(chance.choice(keys) for _ in range(50)), *keys]:
        counts[key] += 1
        sender.send(value(key, counts[key]))
        if len(on_queue) == size:
            on_queue.pop(next(iter(on_queue)))
        on_queue.pop(key, None)
        on_queue[key] = f"{key}-{counts[key]}"
    assert contents(drain(bench.receiver("lvq; {mode: browse}"))) == list(on_queue.values())


def level(priority: int, levels: int) -> int:
    """QT-04."""
    return int(min(max(priority - (5 - math.ceil(levels / 2)), 0), levels - 1))


def numbered(priorities: list[int]) -> list[Message]:
    return [Message(f"msg-{number}", priority=priority) for number, priority in enumerate(priorities)]


class Priorities:
    """A priority queue and a sender for it."""

    def __init__(self, levels: int = 10, key: str = "x-qpid-priorities", **more: object) -> None:
        self.bench = Bench()
        self.levels = levels
        arguments = {key: levels, **{name.replace("__", "."): given for name, given in more.items()}}
        target = address("priority-queue", arguments, create="sender", delete="receiver")
        self.sender = self.bench.sender(target, durable=False)

    def by_level(self, messages: list[Message]) -> list[Message]:
        return sorted(messages, key=lambda message: -level(message.priority, self.levels))

    def expect_in_order(self, expected: list[Message]) -> None:
        """Fetch and accept all there is, and expect these messages, in this order."""
        receiver = self.bench.receiver(self.sender.target)
        for wanted in expected:
            message = receiver.fetch(0)
            assert (message.content, message.priority) == (wanted.content, wanted.priority)
            self.bench.session.acknowledge(message)
        assert contents(drain(receiver)) == []


@pytest.mark.parametrize(
    ("priorities", "levels", "key"),
    [
        ([8, 9, 5, 1, 2, 2, 3, 4, 9, 7, 8, 9, 9, 2], 10, "x-qpid-priorities"),
        ([8, 9, 5, 1, 2, 2, 3, 4, 15, 7, 8, 10, 10, 2], 10, "qpid.priorities"),
        ([8, 9, 5, 1, 2, 2, 3, 4, 9, 7, 8, 9, 9, 2], 5, "x-qpid-priorities"),
    ],
    ids=["ten levels", "alias", "five levels"],
)
def test_prioritised_delivery(priorities: list[int], levels: int, key: str) -> None:
    """QT-04, QT-05, CF-01: highest level first, in order of arrival within a level."""
    queue = Priorities(levels, key)
    messages = numbered(priorities)
    for message in messages:
        queue.sender.send(message)
    queue.expect_in_order(queue.by_level(messages))


def fair(messages: list[Message], levels: int, limits: dict[int, int]) -> Iterator[Message]:
    """Yield messages, sorted by level, so that no level has more than its limit in a row (QT-06)."""
    while messages:
        postponed, run = [], 0
        last = None
        for message in messages:
            this = level(message.priority, levels)
            run = run + 1 if this == last else 1
            last = this
            if limits.get(this, 0) and run > limits[this]:
                postponed.append(message)
            else:
                yield message
        messages = postponed


LOTS = [
    4,
    5,
    3,
    6,
    10,
    10,
    2,
    10,
    2,
    10,
    10,
    1,
    10,
    10,
    10,
    3,
    3,
    3,
    10,
    10,
    3,
    10,
    3,
    10,
    10,
    10,
    10,
    10,
    10,
    2,
    3,
]
MIXED = [
    4,
    5,
    3,
    7,
    8,
    8,
    2,
    8,
    2,
    8,
    8,
    16,
    6,
    6,
    6,
    6,
    6,
    6,
    8,
    3,
    5,
    8,
    3,
    5,
    5,
    3,
    3,
    8,
    8,
    3,
    7,
    3,
    7,
    7,
    7,
]
MIXED += [8, 8, 8, 2, 3]


@pytest.mark.parametrize(
    ("priorities", "levels", "prefix", "limits"),
    [
        (LOTS, 10, "x-qpid-", dict.fromkeys(range(10), 5)),
        ([10 if p > 9 else p for p in LOTS[:20]] + [2, 3], 10, "qpid.", dict.fromkeys(range(10), 5)),
        ([10] * 30, 10, "x-qpid-", dict.fromkeys(range(10), 5)),
        (MIXED, 8, "x-qpid-", {7: 0, 6: 4, 5: 3, 4: 2, 3: 2, 2: 2, 1: 2}),
    ],
    ids=["one limit", "alias", "one level only", "limits by level"],
)
def test_fairshare(priorities: list[int], levels: int, prefix: str, limits: dict[int, int]) -> None:
    """QT-06, CF-01: after so many of one level, the next lower one has its turn."""
    arguments: dict[str, object] = {f"{prefix}fairshare": 5}
    if len(limits) < 10:
        arguments |= {f"{prefix}fairshare-{index}": limit for index, limit in limits.items()}
    queue = Priorities(levels, f"{prefix}priorities", **arguments)
    messages = numbered(priorities)
    for message in messages:
        queue.sender.send(message)
    queue.expect_in_order(list(fair(queue.by_level(messages), levels, limits)))


def test_browsing() -> None:
    """QT-05: a browser sees every message once."""
    queue = Priorities()
    messages = numbered(
        [4, 5, 3, 6, 0, 1, 2, 8, 2, 0, 2, 1, 6, 0, 1, 3, 3, 3, 8, 1, 3, 0, 3, 7, 9, 0, 1, 9, 0, 2, 3]
    )
    for message in messages:
        queue.sender.send(message)
    browser = queue.bench.receiver("priority-queue; {mode: browse, delete: receiver}")
    assert sorted(contents(drain(browser))) == sorted(contents(messages))


@pytest.mark.parametrize(
    ("priorities", "count"),
    [
        (NINES, 10),
        (
            [
                9,
                0,
                2,
                3,
                6,
                3,
                4,
                2,
                9,
                2,
                9,
                9,
                1,
                9,
                4,
                7,
                1,
                1,
                3,
                9,
                7,
                3,
                9,
                3,
                9,
                1,
                5,
                1,
                9,
                7,
                2,
                3,
                0,
                9,
            ],
            10,
        ),
        ([8, 9, 5, 1, 2, 2, 3, 4, 9, 7, 8, 9, 9, 2], 5),
        (
            [
                9,
                0,
                2,
                3,
                6,
                3,
                4,
                2,
                9,
                2,
                9,
                3,
                1,
                9,
                4,
                7,
                1,
                1,
                3,
                2,
                7,
                3,
                9,
                3,
                6,
                1,
                5,
                1,
                9,
                7,
                2,
                3,
                0,
                2,
            ],
            10,
        ),
    ],
    ids=["1", "2", "QPID-3866", "4"],
)
def test_ring_keeps_the_highest(priorities: list[int], count: int) -> None:
    """LP-12: a ring drops the lowest priority first, and of equals the oldest."""
    queue = Priorities(qpid__policy_type="ring", qpid__max_count=count)
    messages = numbered(priorities)
    for message in messages:
        queue.sender.send(message)
    kept = sorted(messages, key=lambda message: level(message.priority, 10))[-count:]
    got = drain(queue.bench.receiver(queue.sender.target))
    assert contents(got) == contents(queue.by_level(kept))


def test_requeue() -> None:
    """CN-14, QT-05: what a closed session had goes back to its place among the priorities."""
    queue = Priorities()
    other = queue.bench.new_session()
    prefetching = other.receiver("priority-queue")
    prefetching.capacity = 10
    messages = numbered(NINES)
    for message in messages:
        queue.sender.send(message)
    assert len(drain(prefetching, limit=5)) == 5
    other.close()
    queue.expect_in_order(queue.by_level(messages))
