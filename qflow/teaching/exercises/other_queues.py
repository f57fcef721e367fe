"""Exercises on other queues: ring, last value and self-destruct queues, removals, and transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from operator import lt

from qflow.broker.errors import ManagementError
from qflow.teaching.exercise import exercise
from qflow.teaching.exercises.message_groups import group_of
from qflow.teaching.trial import GROUP, Trial


def _sort(numbers: Iterable[int], priorities: list[int]) -> list[int]:
    """Return the numbers of messages in the order in which a priority queue delivers them."""
    return sorted(numbers, key=lambda number: -priorities[number])


def _evict_lowest(limit: int, priorities: list[int], gives_way: Callable[[int, int], bool]) -> list[int]:
    """Return the messages left on a ring that evicts the lowest one if `gives_way` is true of the two."""
    queue: list[int] = []
    for number, new in enumerate(priorities):
        if len(queue) == limit:
            lowest = min(queue, key=priorities.__getitem__)
            if not gives_way(priorities[lowest], new):
                continue
            queue.remove(lowest)
        queue.append(number)
    return _sort(queue, priorities)


@exercise(
    misconceptions={
        "the oldest has to go": lambda limit, priorities: _sort(range(len(priorities))[-limit:], priorities),
        "the lowest has to go, whatever comes": partial(_evict_lowest, gives_way=lambda old, new: True),
        "the new one has to be strictly higher": partial(_evict_lowest, gives_way=lt),
        "a full queue takes nothing": lambda limit, priorities: _sort(
            range(len(priorities))[:limit], priorities
        ),
    },
)
def _ring_priorities(limit: int, priorities: list[int]) -> list[int]:
    trial = Trial().declare("q", max_count=limit, policy_type="ring", priorities=10)
    for number, priority in enumerate(priorities):
        trial.send("q", [str(number)], priority=priority)
    return [int(label) for label in trial.left("q")]


def _last_values(limit: int, keys: list[str]) -> list[str]:
    queue: list[str] = []
    for key in keys:
        queue = [*(one for one in queue if one != key), key][-limit:]
    return queue


@exercise(
    misconceptions={
        "a replacement needs no room": _last_values,
        "a ring of everything": lambda limit, keys: keys[-limit:],
        "the value changes in place": lambda limit, keys: list(dict.fromkeys(keys))[-limit:],
        "first values": lambda limit, keys: list(dict.fromkeys(keys))[:limit],
    },
)
def _ring_last_values(limit: int, keys: list[str]) -> list[str]:
    trial = Trial().declare("q", max_count=limit, policy_type="ring", last_value_queue_key="key")
    for key in keys:
        trial.send("q", [key], header="key")
    return trial.left("q")


def _ring_group_model(limit: int, labels: list[str], fetched: int, evicts: bool) -> str | None:
    """Return the message that a second consumer gets, if the ring `evicts` acquired messages or not."""
    new = len(labels) - limit
    rest = labels[max(fetched, new) :] if evicts else labels[fetched + new :]
    owned = {group_of(label) for label in labels[:fetched]}
    return next((label for label in rest if group_of(label) not in owned), None)


@exercise(
    misconceptions={
        "an owner keeps its group": partial(_ring_group_model, evicts=True),
        "only waiting messages are evicted": partial(_ring_group_model, evicts=False),
        "there are no groups on a ring": lambda limit, labels, fetched: labels[
            max(fetched, len(labels) - limit)
        ],
    },
)
def _ring_group(limit: int, labels: list[str], fetched: int) -> str | None:
    trial = Trial().declare_groups("q", max_count=limit, policy_type="ring")
    trial.send("q", labels[:limit], header=GROUP)
    first = trial.reader("q", "first")
    first.fetch(fetched)
    trial.send("q", labels[limit:], header=GROUP)
    return trial.reader("q", "second").fetch()


@exercise(
    misconceptions={
        "a replacement changes nothing": lambda stop, replacements: (stop, "OFF", 0, 0),
        "back at stop is OFF again": lambda stop, replacements: (stop, "OFF", replacements, 0),
        "replacements pile up": lambda stop, replacements: (
            (stop + replacements, "ON", 1, replacements) if replacements else (stop, "OFF", 0, 0)
        ),
        "each replacement waits": lambda stop, replacements: (
            (stop, "ON", 1, replacements) if replacements else (stop, "OFF", 0, 0)
        ),
    },
)
def _lvq_at_stop(stop: int, replacements: int) -> tuple[int, str, int, int]:
    trial = Trial().declare_stop("q", stop, last_value_queue_key="key")
    trial.send("q", [f"k{n}" for n in range(stop)], header="key")
    trial.send("q", ["k0"] * replacements, header="key")
    count = trial.statistics("q").flowStoppedCount
    return trial.depth("q"), trial.state("q"), count, len(trial.producer.held)


def _alive(limit: int, sends: int) -> tuple[bool, int, int]:
    """Return the outcome if the queue, which has the default thresholds, is not full."""
    return True, sends, max(0, sends - int(limit * 0.8 + 0.5))


@exercise(
    misconceptions={
        "it starts again with the last message": lambda limit, sends: (
            _alive(limit, sends) if sends <= limit else (True, sends - limit, 0)
        ),
        "the producer waits for ever": lambda limit, sends: (
            _alive(limit, sends) if sends <= limit else (False, 0, _alive(limit, limit)[2])
        ),
        "no flow control on such a queue": lambda limit, sends: (
            (True, sends, 0) if sends <= limit else (False, 0, 0)
        ),
        "full is too full": lambda limit, sends: _alive(limit, sends) if sends < limit else (False, 0, 0),
    },
)
def _self_destruct(limit: int, sends: int) -> tuple[bool, int, int]:
    trial = Trial().declare("q", max_count=limit, policy_type="self-destruct")
    transfers = trial.send("q", sends)
    exists = trial.exists("q")
    held = sum(not transfer.is_complete for transfer in transfers)
    return exists, trial.depth("q") if exists else 0, held


@exercise(
    misconceptions={
        "a purge removes everything": lambda stop, resume, sent, fetched: (0, "OFF", 0),
        "a fetched message no longer counts": lambda stop, resume, sent, fetched: (fetched, "OFF", 0),
        "reached is enough": lambda stop, resume, sent, fetched: (
            fetched,
            "ON" if fetched > resume and sent > stop else "OFF",
            max(0, fetched - stop) if fetched > resume and sent > stop else 0,
        ),
        "a purge does not free the producer": lambda stop, resume, sent, fetched: (
            fetched,
            "ON" if fetched >= resume and sent > stop else "OFF",
            max(0, sent - stop),
        ),
    },
)
def _after_purge(stop: int, resume: int, sent: int, fetched: int) -> tuple[int, str, int]:
    trial = Trial().declare_stop("q", stop, resume)
    trial.send("q", sent)
    reader = trial.reader("q")
    reader.fetch(fetched)
    trial.admin.queue_purge("q")
    return trial.depth("q"), trial.state("q"), len(trial.producer.held)


@exercise(
    misconceptions={
        "the messages are lost": lambda stop, sent, fetched: (0, 0, True),
        "only waiting messages move on": lambda stop, sent, fetched: (sent - fetched, 0, True),
        "the producer waits for ever": lambda stop, sent, fetched: (sent, max(0, sent - stop), True),
        "the producer is thrown out": lambda stop, sent, fetched: (sent, 0, sent <= stop),
    },
)
def _after_delete(stop: int, sent: int, fetched: int) -> tuple[int, int, bool]:
    trial = Trial().declare("spare")
    trial.admin.exchange_declare("spare exchange", "fanout")
    trial.admin.exchange_bind("spare", "spare exchange", "")
    arguments = {"qpid.flow_stop_count": stop, "qpid.flow_stop_size": 0}
    trial.admin.queue_declare("q", arguments, alternate_exchange="spare exchange")
    trial.send("q", sent)
    reader = trial.reader("q")
    reader.fetch(fetched)
    trial.admin.queue_delete("q")
    return trial.depth("spare"), len(trial.producer.held), trial.producer.is_attached


@exercise(
    misconceptions={
        "what finds no room stays": lambda messages, limit, already: (
            max(0, messages - (limit - already)),
            min(limit, already + messages),
            0,
        ),
        "all or nothing": lambda messages, limit, already: (
            (0, already + messages, 0) if already + messages <= limit else (messages, already, 0)
        ),
        "a move is exempt from limits": lambda messages, limit, already: (0, already + messages, 0),
        "the messages already there are lost too": lambda messages, limit, already: (
            (0, already + messages, 0) if already + messages <= limit else (0, 0, already + messages)
        ),
    },
)
def _after_move(messages: int, limit: int, already: int) -> tuple[int, int, int]:
    trial = Trial().declare("source")
    trial.declare("target", max_count=limit, flow_stop_count=0)
    trial.send("source", messages)
    trial.send("target", already)
    # The call fails but has moved some messages, which is what the exercise is about.
    with suppress(ManagementError):
        trial.broker.management.queueMoveMessages("source", "target")
    left, there = trial.depth("source"), trial.depth("target")
    return left, there, messages + already - left - there


@exercise(
    misconceptions={
        "only the last consumer's end deletes it": lambda messages, purged, read: not read,
        "any purge deletes it": lambda messages, purged, read: not read and purged == 0,
        "an empty queue is deleted": lambda messages, purged, read: not read and messages > purged,
        "messages keep it alive": lambda messages, purged, read: (
            messages > purged or (messages == 0 and not read)
        ),
    },
)
def _survives(messages: int, purged: int, read: bool) -> bool:
    trial = Trial()
    trial.admin.queue_declare("q", auto_delete=True)
    trial.send("q", messages)
    if purged:
        trial.broker.management.purge("q", purged)
    if read and trial.exists("q"):
        trial.reader("q").close()
    return trial.exists("q")


_Committed = tuple[int, int, str, bool]


def _commit(
    limit: int, stop: int, sends: int, refused: _Committed = (541, 0, "OFF", False), is_held: bool = False
) -> _Committed:
    return refused if sends > limit else (0, sends, "ON" if sends > stop else "OFF", is_held and sends > stop)


@exercise(
    misconceptions={
        "what fits is kept": lambda limit, stop, sends: _commit(
            limit, stop, sends, (506, limit, "ON" if limit > stop else "OFF", False)
        ),
        "it fails with the limit's own error": partial(_commit, refused=(506, 0, "OFF", False)),
        "its transfers are held": partial(_commit, is_held=True),
        "transactions do not count": lambda limit, stop, sends: _commit(limit, sends, sends),
    },
)
def _transaction(limit: int, stop: int, sends: int) -> _Committed:
    trial = Trial().declare_stop("q", stop, 1, max_count=limit)
    trial.producer.tx_select()
    transfers = trial.send("q", sends)
    code = trial.code_of(trial.producer.tx_commit)
    return code, trial.depth("q"), trial.state("q"), any(not transfer.is_complete for transfer in transfers)
