"""An exercise on transactions and the thresholds."""

from __future__ import annotations

from qflow.broker.errors import AmqpException
from qflow.teaching.exercise import Exercise, Misconception
from qflow.teaching.exercises.bench import Bench


def _transaction(limit: int, stop: int, sends: int) -> tuple[int, int, str, bool]:
    bench = Bench()
    bench.declare("q", max_count=limit, flow_stop_count=stop, flow_resume_count=1, flow_stop_size=0)
    bench.producer.tx_select()
    transfers = bench.send("q", sends)
    code = 0
    try:
        bench.producer.tx_commit()
    except AmqpException as error:
        code = error.code
    depth, state = bench.depth("q"), "ON" if bench.is_on("q") else "OFF"
    return code, depth, state, any(not transfer.is_complete for transfer in transfers)


def _after_commit(sends: int, stop: int, is_held: bool = False) -> tuple[int, int, str, bool]:
    return 0, sends, "ON" if sends > stop else "OFF", is_held and sends > stop


TRANSACTION = Exercise(
    "transaction",
    "A transaction and the thresholds",
    truth=_transaction,
    cases=((5, 4, 10), (100, 5, 10), (100, 5, 5), (10, 8, 10), (10, 8, 11), (20, 3, 4), (6, 6, 7)),
    misconceptions=(
        Misconception(
            "what fits is kept",
            lambda limit, stop, sends: (
                (506, limit, "ON" if limit > stop else "OFF", False)
                if sends > limit
                else _after_commit(sends, stop)
            ),
            "all or none: the commit fails with 541, and nothing of the transaction is on the queue (LP-09).",
        ),
        Misconception(
            "it fails with the limit's own error",
            lambda limit, stop, sends: (
                (506, 0, "OFF", False) if sends > limit else _after_commit(sends, stop)
            ),
            "at commit it is the transaction that fails: 541, internal-error (LP-09).",
        ),
        Misconception(
            "its transfers are held",
            lambda limit, stop, sends: (
                (541, 0, "OFF", False) if sends > limit else _after_commit(sends, stop, is_held=True)
            ),
            "inside a transaction transfers complete at once and are never held (CM-10).",
        ),
        Misconception(
            "transactions do not count",
            lambda limit, stop, sends: (541, 0, "OFF", False) if sends > limit else (0, sends, "OFF", False),
            "at commit the messages are pushed like others and can turn the queue ON (CM-10).",
        ),
    ),
    hints=(
        "Two moments: sending inside the transaction, and the commit. When is the limit tested?",
        "At commit. Too many: 541, nothing enqueued. Else all of them are pushed, and the thresholds count "
        "them.",
        "(541, 0, OFF, False) if sends > limit; else (0, sends, ON if sends > stop, False).",
    ),
    rules=("CM-10", "LP-09"),
    shows=("G-18",),
)

EXERCISES = (TRANSACTION,)
