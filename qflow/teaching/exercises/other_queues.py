"""Exercises on other queues: rings, last values, self-destruction, removals, and transactions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from qflow.broker.errors import AmqpException, ManagementError
from qflow.teaching.bench import GROUP, Bench
from qflow.teaching.exercise import Exercise, Misconception
from qflow.teaching.exercises.message_groups import group_of


def _ring_priorities(limit: int, priorities: list[int]) -> list[int]:
    bench = Bench().declare("q", max_count=limit, policy_type="ring", priorities=10)
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
    """Keep a ring as a learner might think: evict `victim` if `gives_way(old priority, new priority)`."""
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
    misconceptions={
        "the oldest has to go": Misconception(
            lambda limit, priorities: _ring_model(
                limit, priorities, lambda queue: queue[0], lambda old, new: True
            ),
            "with priorities it is the oldest of the lowest priority that may be evicted (LP-12).",
        ),
        "the lowest has to go, whatever comes": Misconception(
            lambda limit, priorities: _ring_model(limit, priorities, _lowest, lambda old, new: True),
            "if the new message is of lower priority than all others, the new one is dropped, silently "
            "(LP-12).",
        ),
        "the new one has to be strictly higher": Misconception(
            lambda limit, priorities: _ring_model(limit, priorities, _lowest, lambda old, new: old < new),
            "of equal priority the older one gives way (LP-12).",
        ),
        "a full queue takes nothing": Misconception(
            lambda limit, priorities: sorted(range(len(priorities))[:limit], key=lambda n: -priorities[n]),
            "a ring makes room; that is what it is for (LP-10, LP-12).",
        ),
    },
    hints=(
        "Which single message is looked at when the queue is full?",
        "The first one of the lowest priority on the queue. It goes if its priority is at most the new "
        "one's.",
        "If the lowest <= new: the oldest of the lowest goes and new comes in. Else new is dropped. A "
        "stable sort by falling priority at the end.",
    ),
    rules=("LP-10", "LP-12"),
    shows=("G-12",),
)


def _ring_last_values(limit: int, keys: list[str]) -> list[str]:
    bench = Bench().declare("q", max_count=limit, policy_type="ring", last_value_queue_key="key")
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
    misconceptions={
        "a replacement needs no room": Misconception(
            lambda limit, keys: _last_values(limit, keys, evicts_first=False),
            "the limit is checked before the replacement: a full ring evicts its oldest message first, and "
            "then the new message replaces its predecessor too (LP-13).",
        ),
        "a ring of everything": Misconception(
            lambda limit, keys: keys[-limit:],
            "a new message with the same key replaces the old one; there is one for each key (QT-01).",
        ),
        "the value changes in place": Misconception(
            lambda limit, keys: list(dict.fromkeys(keys))[-limit:],
            "the new value takes a new place at the tail (QT-01), and eviction comes before (LP-13).",
        ),
        "first values": Misconception(
            lambda limit, keys: list(dict.fromkeys(keys))[:limit],
            "new messages come in; it is the old ones that go (LP-10, QT-01).",
        ),
    },
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
    bench = Bench().grouped("q", max_count=limit, policy_type="ring")
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
    misconceptions={
        "an owner keeps its group": Misconception(
            lambda limit, labels, fetched: _ring_group_model(limit, labels, fetched, keeps=True, evicts=True),
            "the evicted message no longer counts for its owner. If it held nothing else of the group, the "
            "group is free while it is still working on it (MG-20).",
        ),
        "only waiting messages are evicted": Misconception(
            lambda limit, labels, fetched: _ring_group_model(
                limit, labels, fetched, keeps=True, evicts=False
            ),
            "the help text of qpid-config says so, but the broker evicts acquired messages too (LP-10).",
        ),
        "there are no groups on a ring": Misconception(
            lambda limit, labels, fetched: labels[max(fetched, len(labels) - limit)],
            "groups work on a ring, as long as the owner still holds something of it on the queue (MG-02, "
            "MG-20).",
        ),
    },
    hints=(
        "What is the oldest message when the ring needs room, and in whose hands is it?",
        "Each message beyond the limit evicts the oldest, fetched or not. Who then still holds something of "
        "A?",
        "gone = len(labels) - limit. Held: those fetched and not gone. Then the first message, neither "
        "fetched nor gone, of a group that is not held.",
    ),
    rules=("LP-10", "MG-20"),
    shows=("G-11",),
)


def _lvq_at_stop(stop: int, replacements: int) -> tuple[int, str, int, int]:
    bench = Bench().declare("q", last_value_queue_key="key", flow_stop_count=stop, flow_stop_size=0)
    bench.send("q", [f"k{n}" for n in range(stop)], header="key")
    bench.send("q", ["k0"] * replacements, header="key")
    count = bench.statistics("q").flowStoppedCount
    return bench.depth("q"), bench.state("q"), count, len(bench.producer.held)


LVQ_AT_STOP = Exercise(
    "lvq_at_stop",
    "Replacing a value at the stop threshold",
    truth=_lvq_at_stop,
    cases=((10, 1), (10, 0), (10, 5), (3, 2), (1, 1), (2, 9)),
    misconceptions={
        "a replacement changes nothing": Misconception(
            lambda stop, replacements: (stop, "OFF", 0, 0),
            "it is an enqueue and then a dequeue. In between the queue is one above stop, and turns ON "
            "(FC-23).",
        ),
        "back at stop is OFF again": Misconception(
            lambda stop, replacements: (stop, "OFF", replacements, 0),
            "the way down is to fewer than resume; back at stop it stays ON (FC-16, FC-23).",
        ),
        "replacements pile up": Misconception(
            lambda stop, replacements: (
                (stop + replacements, "ON", 1, replacements) if replacements else (stop, "OFF", 0, 0)
            ),
            "the old value leaves the queue, and with it its held completion (FC-17, FC-23).",
        ),
        "each replacement waits": Misconception(
            lambda stop, replacements: (stop, "ON", 1, replacements) if replacements else (stop, "OFF", 0, 0),
            "a held message that is replaced leaves the queue and completes; only the newest is held "
            "(FC-17, FC-23).",
        ),
    },
    hints=(
        "A replacement is two steps. Which comes first?",
        "First the new message (one above stop: ON, held), then the old one goes (back at stop: still ON).",
        "With at least one replacement: depth stop, ON, count 1, one held. The next one frees the one "
        "before.",
    ),
    rules=("FC-23", "FC-16", "FC-17"),
    parts=("the depth", "the state", "flowStoppedCount", "the transfers held"),
    shows=("G-08",),
)


def _self_destruct(limit: int, sends: int) -> tuple[bool, int, int]:
    bench = Bench().declare("q", max_count=limit, policy_type="self-destruct")
    transfers = bench.send("q", sends)
    exists = bench.exists("q")
    held = sum(not transfer.is_complete for transfer in transfers)
    return exists, bench.depth("q") if exists else 0, held


def _default_stop(limit: int) -> int:
    return int(limit * 0.8 + 0.5)


SELF_DESTRUCT = Exercise(
    "self_destruct",
    "The queue that destroys itself",
    truth=_self_destruct,
    cases=((10, 8), (10, 9), (10, 10), (10, 11), (10, 15), (5, 5), (3, 4)),
    misconceptions={
        "it starts again with the last message": Misconception(
            lambda limit, sends: (
                (True, sends - limit, 0)
                if sends > limit
                else (True, sends, max(0, sends - _default_stop(limit)))
            ),
            "the queue is gone; the message that triggered it and all later ones are dropped (LP-15).",
        ),
        "the producer waits for ever": Misconception(
            lambda limit, sends: (
                sends <= limit,
                sends if sends <= limit else 0,
                max(0, min(sends, limit) - _default_stop(limit)),
            ),
            "when a queue is destroyed it lets go of all it holds (FC-21, LP-16).",
        ),
        "no flow control on such a queue": Misconception(
            lambda limit, sends: (sends <= limit, sends if sends <= limit else 0, 0),
            "only a ring is exempt. This queue stops at 80 % like any other (LP-16, FC-03).",
        ),
        "full is too full": Misconception(
            lambda limit, sends: (
                (sends < limit, sends, max(0, sends - _default_stop(limit)))
                if sends < limit
                else (False, 0, 0)
            ),
            "filling the limit exactly is allowed; the message beyond it triggers it (LP-02, LP-15).",
        ),
    },
    hints=(
        "Two things happen on the way: at 80 % and beyond 100 %.",
        "Above the default stop transfers are held. The message beyond the limit destroys the queue.",
        "sends <= limit: it exists, depth sends, and sends - stop (at least 0) are held. Else: gone, 0, 0 "
        "held.",
    ),
    rules=("LP-15", "LP-16", "FC-21", "FC-02"),
    parts=("whether the queue exists", "the messages on it", "the transfers held"),
    shows=("G-06",),
)


def _purge(stop: int, resume: int, sent: int, fetched: int) -> tuple[int, str, int]:
    bench = Bench().declare("q", flow_stop_count=stop, flow_resume_count=resume, flow_stop_size=0)
    bench.send("q", sent)
    reader = bench.reader("q")
    for _ in range(fetched):
        reader.fetch()
    bench.admin.queue_purge("q")
    return bench.depth("q"), bench.state("q"), len(bench.producer.held)


AFTER_PURGE = Exercise(
    "after_purge",
    "Purging a stopped queue",
    truth=_purge,
    cases=(
        (10, 5, 12, 4),
        (10, 5, 12, 5),
        (10, 5, 12, 6),
        (10, 5, 15, 11),
        (10, 5, 8, 6),
        (3, 1, 9, 0),
        (100, 70, 150, 120),
    ),
    misconceptions={
        "a purge removes everything": Misconception(
            lambda stop, resume, sent, fetched: (0, "OFF", 0),
            "messages that a consumer has acquired are not purged, and still count (FC-20, DQ-02).",
        ),
        "what is fetched no longer counts": Misconception(
            lambda stop, resume, sent, fetched: (fetched, "OFF", 0),
            "acquired messages count until they are settled; with resume of them or more it stays ON "
            "(DQ-02, FC-16).",
        ),
        "reached is enough": Misconception(
            lambda stop, resume, sent, fetched: (
                fetched,
                "ON" if fetched > resume and sent > stop else "OFF",
                max(0, fetched - stop) if fetched > resume and sent > stop else 0,
            ),
            "OFF needs fewer than resume (FC-16).",
        ),
        "a purge does not free the producer": Misconception(
            lambda stop, resume, sent, fetched: (
                fetched,
                "ON" if fetched >= resume and sent > stop else "OFF",
                max(0, sent - stop),
            ),
            "every message that leaves the queue counts, however it leaves; a purged one completes (FC-17, "
            "FC-20).",
        ),
    },
    hints=(
        "Which messages does a purge leave alone?",
        "Those that were fetched and not accepted. They decide whether it is still ON.",
        "Left: fetched. ON if it was ON (sent > stop) and fetched >= resume. Held: what is left above stop.",
    ),
    rules=("FC-20", "FC-16", "FC-17", "DQ-02"),
    parts=("the depth", "the state", "the transfers held"),
    shows=("G-13",),
)


def _delete(stop: int, sent: int, fetched: int) -> tuple[int, int, bool]:
    bench = Bench().declare("spare")
    bench.admin.exchange_declare("spare exchange", "fanout")
    bench.admin.exchange_bind("spare", "spare exchange", "")
    arguments = {"qpid.flow_stop_count": stop, "qpid.flow_stop_size": 0}
    bench.admin.queue_declare("q", arguments, alternate_exchange="spare exchange")
    bench.send("q", sent)
    reader = bench.reader("q")
    for _ in range(fetched):
        reader.fetch()
    bench.admin.queue_delete("q")
    return bench.depth("spare"), len(bench.producer.held), bench.producer.is_attached


AFTER_DELETE = Exercise(
    "after_delete",
    "Deleting a stopped queue",
    truth=_delete,
    cases=((5, 8, 0), (5, 8, 3), (5, 3, 0), (1, 6, 6), (10, 30, 2)),
    misconceptions={
        "the messages are lost": Misconception(
            lambda stop, sent, fetched: (0, 0, True),
            "with an alternate exchange they go there, those acquired included (FC-21, EX-09).",
        ),
        "only waiting messages move on": Misconception(
            lambda stop, sent, fetched: (sent - fetched, 0, True),
            "a deleted queue gives up all its messages, acquired ones too (FC-21).",
        ),
        "the producer waits for ever": Misconception(
            lambda stop, sent, fetched: (sent, max(0, sent - stop), True),
            "a queue that goes lets go of all it holds (FC-21).",
        ),
        "the producer is thrown out": Misconception(
            lambda stop, sent, fetched: (sent, 0, sent <= stop),
            "the producer goes on without any error (FC-21).",
        ),
    },
    hints=(
        "A deleted queue removes all its messages. What does removal do to a held completion?",
        "All messages, fetched or not, go to the alternate exchange; all completions come back; no error.",
        "(sent, 0, True)",
    ),
    rules=("FC-21", "EX-09"),
    parts=(
        "the messages that the alternate exchange gets",
        "the transfers still held",
        "whether the session is still there",
    ),
    shows=("G-14",),
)


def _move(messages: int, limit: int, already: int) -> tuple[int, int, int]:
    bench = Bench().declare("source")
    bench.declare("target", max_count=limit, flow_stop_count=0)
    bench.send("source", messages)
    bench.send("target", already)
    # What the exercise is about: the call fails, and has done something all the same.
    with suppress(ManagementError):
        bench.broker.management.queueMoveMessages("source", "target")
    left, there = bench.depth("source"), bench.depth("target")
    return left, there, messages + already - left - there


AFTER_MOVE = Exercise(
    "after_move",
    "Moving into a queue that is too small",
    truth=_move,
    cases=((5, 2, 0), (5, 10, 0), (3, 5, 4), (1, 1, 1), (8, 8, 1), (4, 4, 0)),
    misconceptions={
        "what finds no room stays": Misconception(
            lambda messages, limit, already: (
                max(0, messages - (limit - already)),
                min(limit, already + messages),
                0,
            ),
            "all messages are taken off the source first. Those that find no room are lost (QT-23).",
        ),
        "all or nothing": Misconception(
            lambda messages, limit, already: (
                (0, already + messages, 0) if already + messages <= limit else (messages, already, 0)
            ),
            "the call fails, but what fitted is there, and the rest is lost (QT-23).",
        ),
        "a move is exempt from limits": Misconception(
            lambda messages, limit, already: (0, already + messages, 0),
            "the target's limit holds for moved messages as for any (QT-23).",
        ),
        "what was there is lost too": Misconception(
            lambda messages, limit, already: (
                (0, already + messages, 0) if already + messages <= limit else (0, 0, already + messages)
            ),
            "only messages that were on their way and found no room are lost (QT-23).",
        ),
    },
    hints=(
        "In which order does a move do its two steps, taking off and putting on?",
        "First everything is taken off the source. Then it is put on the target until that is full.",
        "Source 0; target min(limit, already + messages); lost is the rest.",
    ),
    rules=("QT-23",),
    parts=("the messages on the source", "the messages on the target", "the messages lost"),
    shows=("G-15",),
)


def _survives(messages: int, purged: int, read: bool) -> bool:
    bench = Bench()
    bench.admin.queue_declare("q", auto_delete=True)
    bench.send("q", messages)
    if purged:
        bench.broker.management.purge("q", purged)
    if read and bench.exists("q"):
        bench.reader("q").close()
    return bench.exists("q")


SURVIVES = Exercise(
    "survives",
    "An auto-delete queue is purged",
    truth=_survives,
    cases=(
        (1, 1, False),
        (3, 1, False),
        (3, 3, False),
        (0, 5, False),
        (3, 0, False),
        (3, 0, True),
        (2, 9, False),
        (0, 0, True),
    ),
    misconceptions={
        "only the last consumer's end deletes it": Misconception(
            lambda messages, purged, read: not read,
            "a purge that takes the last message off an unused auto-delete queue deletes it too (QT-09).",
        ),
        "any purge deletes it": Misconception(
            lambda messages, purged, read: not read and purged == 0,
            "only the purge that removes the last message; while something is left it stays (QT-09).",
        ),
        "an empty queue is deleted": Misconception(
            lambda messages, purged, read: not read and messages > purged,
            "there has to be a message that leaves: purging an empty queue deletes nothing (QT-09).",
        ),
        "messages keep it alive": Misconception(
            lambda messages, purged, read: messages > purged or (messages == 0 and not read),
            "when the last consumer goes, the queue goes, with or without messages (QT-08).",
        ),
    },
    hints=(
        "When does the broker look whether the queue should go?",
        "At the end of a last consumer, and at every dequeue that leaves nothing on an unused queue.",
        "Gone if read; gone if something was purged and nothing is left; else it survives.",
    ),
    rules=("QT-08", "QT-09"),
    shows=("G-16",),
)


def _transaction(limit: int, stop: int, sends: int) -> tuple[int, int, str, bool]:
    bench = Bench().declare("q", max_count=limit, flow_stop_count=stop, flow_resume_count=1, flow_stop_size=0)
    bench.producer.tx_select()
    transfers = bench.send("q", sends)
    code = 0
    try:
        bench.producer.tx_commit()
    except AmqpException as error:
        code = error.code
    return code, bench.depth("q"), bench.state("q"), any(not transfer.is_complete for transfer in transfers)


def _after_commit(sends: int, stop: int, is_held: bool = False) -> tuple[int, int, str, bool]:
    return 0, sends, "ON" if sends > stop else "OFF", is_held and sends > stop


TRANSACTION = Exercise(
    "transaction",
    "A transaction and the thresholds",
    truth=_transaction,
    cases=((5, 4, 10), (100, 5, 10), (100, 5, 5), (10, 8, 10), (10, 8, 11), (20, 3, 4), (6, 6, 7)),
    misconceptions={
        "what fits is kept": Misconception(
            lambda limit, stop, sends: (
                (506, limit, "ON" if limit > stop else "OFF", False)
                if sends > limit
                else _after_commit(sends, stop)
            ),
            "all or none: the commit fails with 541, and nothing of the transaction is on the queue (LP-09).",
        ),
        "it fails with the limit's own error": Misconception(
            lambda limit, stop, sends: (
                (506, 0, "OFF", False) if sends > limit else _after_commit(sends, stop)
            ),
            "at commit it is the transaction that fails: 541, internal-error (LP-09).",
        ),
        "its transfers are held": Misconception(
            lambda limit, stop, sends: (
                (541, 0, "OFF", False) if sends > limit else _after_commit(sends, stop, is_held=True)
            ),
            "inside a transaction transfers complete at once and are never held (CM-10).",
        ),
        "transactions do not count": Misconception(
            lambda limit, stop, sends: (541, 0, "OFF", False) if sends > limit else (0, sends, "OFF", False),
            "at commit the messages are pushed like others and can turn the queue ON (CM-10).",
        ),
    },
    hints=(
        "Two moments: sending inside the transaction, and the commit. When is the limit tested?",
        "At commit. Too many: 541, nothing enqueued. Else all of them are pushed, and the thresholds count "
        "them.",
        "(541, 0, OFF, False) if sends > limit; else (0, sends, ON if sends > stop, False).",
    ),
    rules=("CM-10", "LP-09"),
    parts=("the error code of the commit", "the depth", "the state", "whether a transfer is held"),
    shows=("G-18",),
)

EXERCISES = (
    RING_PRIORITIES,
    RING_LAST_VALUES,
    RING_GROUP,
    LVQ_AT_STOP,
    SELF_DESTRUCT,
    AFTER_PURGE,
    AFTER_DELETE,
    AFTER_MOVE,
    SURVIVES,
    TRANSACTION,
)
