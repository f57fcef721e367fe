"""Exercises on what removes many messages at once: purge, delete, move."""

from __future__ import annotations

from contextlib import suppress

from qflow.broker.errors import ManagementError
from qflow.teaching.exercise import Exercise, Misconception
from qflow.teaching.exercises.bench import Bench


def _purge(stop: int, resume: int, sent: int, fetched: int) -> tuple[int, str, int]:
    bench = Bench()
    bench.declare("q", flow_stop_count=stop, flow_resume_count=resume, flow_stop_size=0)
    bench.send("q", sent)
    reader = bench.reader("q")
    for _ in range(fetched):
        reader.fetch()
    bench.admin.queue_purge("q")
    return bench.depth("q"), "ON" if bench.is_on("q") else "OFF", len(bench.producer.held)


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
    misconceptions=(
        Misconception(
            "a purge removes everything",
            lambda stop, resume, sent, fetched: (0, "OFF", 0),
            "messages that a consumer has acquired are not purged, and still count (FC-20, DQ-02).",
        ),
        Misconception(
            "what is fetched no longer counts",
            lambda stop, resume, sent, fetched: (fetched, "OFF", 0),
            "acquired messages count until they are settled; with resume of them or more it stays ON (DQ-02, "
            "FC-16).",
        ),
        Misconception(
            "reached is enough",
            lambda stop, resume, sent, fetched: (
                fetched,
                "ON" if fetched > resume and sent > stop else "OFF",
                max(0, fetched - stop) if fetched > resume and sent > stop else 0,
            ),
            "OFF needs fewer than resume (FC-16).",
        ),
        Misconception(
            "a purge does not free the producer",
            lambda stop, resume, sent, fetched: (
                fetched,
                "ON" if fetched >= resume and sent > stop else "OFF",
                max(0, sent - stop),
            ),
            "every message that leaves the queue counts, however it leaves; a purged one completes (FC-17, "
            "FC-20).",
        ),
    ),
    hints=(
        "Which messages does a purge leave alone?",
        "Those that were fetched and not accepted. They decide whether it is still ON.",
        "Left: fetched. ON if it was ON (sent > stop) and fetched >= resume. Held: what is left above stop.",
    ),
    rules=("FC-20", "FC-16", "FC-17", "DQ-02"),
    shows=("G-13",),
)


def _delete(stop: int, sent: int, fetched: int) -> tuple[int, int, bool]:
    bench = Bench()
    bench.declare("spare")
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
    misconceptions=(
        Misconception(
            "the messages are lost",
            lambda stop, sent, fetched: (0, 0, True),
            "with an alternate exchange they go there, those acquired included (FC-21, EX-09).",
        ),
        Misconception(
            "only waiting messages move on",
            lambda stop, sent, fetched: (sent - fetched, 0, True),
            "a deleted queue gives up all its messages, acquired ones too (FC-21).",
        ),
        Misconception(
            "the producer waits for ever",
            lambda stop, sent, fetched: (sent, max(0, sent - stop), True),
            "a queue that goes lets go of all it holds (FC-21).",
        ),
        Misconception(
            "the producer is thrown out",
            lambda stop, sent, fetched: (sent, 0, sent <= stop),
            "the producer goes on without any error (FC-21).",
        ),
    ),
    hints=(
        "A deleted queue removes all its messages. What does removal do to a held completion?",
        "All messages, fetched or not, go to the alternate exchange; all completions come back; no error.",
        "(sent, 0, True)",
    ),
    rules=("FC-21", "EX-09"),
    shows=("G-14",),
)


def _move(messages: int, limit: int, already: int) -> tuple[int, int, int]:
    bench = Bench()
    bench.declare("source")
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
    misconceptions=(
        Misconception(
            "what finds no room stays",
            lambda messages, limit, already: (
                max(0, messages - (limit - already)),
                min(limit, already + messages),
                0,
            ),
            "all messages are taken off the source first. Those that find no room are lost (QT-23).",
        ),
        Misconception(
            "all or nothing",
            lambda messages, limit, already: (
                (0, already + messages, 0) if already + messages <= limit else (messages, already, 0)
            ),
            "the call fails, but what fitted is there, and the rest is lost (QT-23).",
        ),
        Misconception(
            "a move is exempt from limits",
            lambda messages, limit, already: (0, already + messages, 0),
            "the target's limit holds for moved messages as for any (QT-23).",
        ),
        Misconception(
            "what was there is lost too",
            lambda messages, limit, already: (
                (0, already + messages, 0) if already + messages <= limit else (0, 0, already + messages)
            ),
            "only messages that were on their way and found no room are lost (QT-23).",
        ),
    ),
    hints=(
        "In which order does a move do its two steps, taking off and putting on?",
        "First everything is taken off the source. Then it is put on the target until that is full.",
        "Source 0; target min(limit, already + messages); lost is the rest.",
    ),
    rules=("QT-23",),
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
    misconceptions=(
        Misconception(
            "only the last consumer's end deletes it",
            lambda messages, purged, read: not read,
            "a purge that takes the last message off an unused auto-delete queue deletes it too (QT-09).",
        ),
        Misconception(
            "any purge deletes it",
            lambda messages, purged, read: not read and purged == 0,
            "only the purge that removes the last message; while something is left it stays (QT-09).",
        ),
        Misconception(
            "an empty queue is deleted",
            lambda messages, purged, read: not read and messages > purged,
            "there has to be a message that leaves: purging an empty queue deletes nothing (QT-09).",
        ),
        Misconception(
            "messages keep it alive",
            lambda messages, purged, read: messages > purged or (messages == 0 and not read),
            "when the last consumer goes, the queue goes, with or without messages (QT-08).",
        ),
    ),
    hints=(
        "When does the broker look whether the queue should go?",
        "At the end of a last consumer, and at every dequeue that leaves nothing on an unused queue.",
        "Gone if read; gone if something was purged and nothing is left; else it survives.",
    ),
    rules=("QT-08", "QT-09"),
    shows=("G-16",),
)


EXERCISES = (AFTER_PURGE, AFTER_DELETE, AFTER_MOVE, SURVIVES)
