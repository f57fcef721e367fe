"""Thresholds read from a log: right ones for a wrong workload, by count and by bytes, or none."""

import pytest
from recordings import beginning
from test_extract import logged, small

from qflow.logs import ClientLog, audit
from qflow.logs.inferred_thresholds import contradiction_of, infer_thresholds
from qflow.prediction import predict
from qflow.prediction.report import report_text

WRONG = {
    "qpid.flow_stop_count": 12,
    "qpid.flow_resume_count": 6,
    "qpid.flow_stop_size": 0,
    "qpid.flow_resume_size": 0,
}


def of(queue, log, workload):
    """The levels that are read of a queue, given wrong ones, and what the audit finds with both."""
    found = infer_thresholds(log, workload.with_queue(queue, WRONG))
    return found.levels[queue], len(found.before), len(found.after)


def test_levels_in_messages_are_read_from_what_a_simulated_broker_held():
    workload = small().replace(duration=4)
    (stop, resume, *size), before, after = of("q", logged(workload), workload)
    assert abs(stop - 60) <= 5
    assert abs(resume - 30) <= 5
    assert size == [0, 0]
    assert before > after == 0


def test_levels_in_bytes_are_read_from_what_a_simulated_broker_held():
    workload = small(**{"qpid.flow_stop_size": 9000, "qpid.flow_resume_size": 4000})
    (stop, resume, *size), before, after = of("q", logged(workload), workload)
    assert (stop, resume) == (0, 0)
    assert size == pytest.approx([9000, 4000], rel=0.2)
    assert before > after == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "seconds", "queue", "expected"),
    [
        ("slow-consumer", 15, "orders", (900, 500, 0, 0)),
        ("bytes-and-count", 10, "q", (0, 0, 80_000, 60_000)),
    ],
)
def test_levels_are_read_from_what_the_real_broker_held(name, seconds, queue, expected):
    levels, before, after = of(queue, *beginning(name, seconds))
    assert levels == pytest.approx(expected, rel=0.03)
    assert before > 30
    assert after == 0


def test_where_nothing_was_held_it_is_said_that_nothing_can_be_read():
    workload = small(**{"qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0})
    found = infer_thresholds(logged(workload), workload.with_queue("q", WRONG))
    assert not found.levels
    assert found.sentences() == [
        f"queue q held no completion, so its thresholds cannot be read; a stop is above "
        f"{found.never_on['q']:,} messages, if there is one"
    ]
    assert found.workload.queues["q"]["qpid.flow_stop_count"] == 0
    assert not found.after


def test_a_log_without_rows_gives_no_thresholds():
    workload = small()
    assert infer_thresholds(ClientLog("none", []), workload).workload == workload


def test_what_the_log_disproves_is_said_before_any_number():
    workload = small().replace(duration=3)
    log, wrong = logged(workload), workload.with_queue("q", WRONG)
    assert contradiction_of(audit(log, workload).findings) == ""
    first = report_text(predict(wrong, log, replays=1)).splitlines()[0]
    assert first.startswith("the log contradicts the thresholds of the workload, on which what follows rests")
    assert "completed while held" in first
    assert "--infer" in first
    inferred = predict(wrong, log, infer=True, replays=1)
    assert inferred["contradiction"] == ""
    assert report_text(inferred).startswith("read from held completions: with q 60/30 messages")
    assert inferred["queues"]["q"]["predicted"]["max_depth"] > 60
