"""Transactions: what happens at commit, not before, and what a rollback leaves (CM-10, CM-11, RF-22).

Beside the recordings ``tx-``, which tests/conformance plays step by step.
"""

import pytest
from support import Bench, refused


def transactional(name: str = "t", **queues: dict) -> Bench:
    """Declare queues, and select a session for transactions."""
    bench = Bench()
    for queue, short in queues.items():
        bench.declare(queue, **short)
    bench.session(name).tx_select()
    return bench


def test_messages_of_a_transaction_are_let_go_without_effect():
    """CM-10, CM-02: they sit in the held index; their dequeue changes nothing for the session."""
    bench = transactional(q={"flow_stop_count": 1})
    bench.send("q", 3, by="t")
    bench.session("t").tx_commit()
    bench.send("q")
    told = len(bench.seen("completed"))
    assert bench.take("q", 3) == ["t-1", "t-2", "t-3"]
    assert (bench.is_on("q"), bench.held()) == (True, "p-1")
    completed = [event.session for event in bench.seen("completed")[told:]]
    assert "t" not in completed


def test_pushes_come_before_dequeues():
    """RF-22: checks in order, then pushes in order, then dequeues: at stop 2 the queue goes ON and OFF."""
    bench = transactional(q={"flow_stop_count": 2, "flow_resume_count": 2})
    session = bench.session("t")
    bench.send("q", 2)
    reader = bench.read("q", "t")
    reader.accept()
    reader.stop()
    bench.send("q", by="t")
    session.tx_commit()
    assert (bench.stat("q").flowStoppedCount, bench.is_on("q")) == (1, False)
    kinds = [event.kind for event in bench.seen("enqueued", "dequeued")]
    assert kinds == ["enqueued"] * 3 + ["dequeued"] * 2


def test_accepts_free_no_room_for_the_same_transaction():
    """RF-22, LP-09: a full queue cannot be emptied and refilled in one transaction."""
    bench = transactional(q={"max_count": 2, "flow_stop_count": 0, "flow_stop_size": 0})
    bench.send("q", 2)
    reader = bench.read("q", "t")
    reader.accept()
    bench.send("q", by="t")
    with refused(541, "Transaction prepare failed."):
        bench.session("t").tx_commit()
    assert bench.labels("q") == "p-1 p-2"


def test_dequeues_in_order_of_delivery():
    """RF-22: ascending, whatever the order of the accepts."""
    bench = transactional(q={})
    bench.send("q", 3)
    reader = bench.read("q", "t")
    for label in ("p-3", "p-1", "p-2"):
        reader.accept(label)
    bench.session("t").tx_commit()
    assert [event.message for event in bench.seen("dequeued")] == ["p-1", "p-2", "p-3"]


def test_release_and_reject_are_never_transactional():
    """RF-22: they happen at once, and a rollback does not take them back."""
    bench = transactional(q={})
    bench.send("q", 2)
    reader = bench.read("q", "t", messages=2)
    reader.reject("p-1")
    reader.release("p-2")
    assert (bench.stat("q").discardsSubscriber, bench.labels("q")) == (1, "p-2")
    bench.session("t").tx_rollback()
    assert bench.labels("q") == "p-2"


def test_a_new_transaction_is_open_afterwards():
    """RF-22, CF-10, IN-03, RF-39: TxnCount is commits and rollbacks."""
    bench = transactional(q={})
    session = bench.session("t")
    for end in (session.tx_commit, session.tx_rollback, session.tx_commit):
        bench.send("q", by="t")
        assert "t-3" not in bench.labels("q")
        end()
    shown = session.statistics()
    assert (shown.TxnCommits, shown.TxnRejects, shown.TxnStarts, shown.TxnCount) == (2, 1, 4, 3)
    assert bench.labels("q") == "t-1 t-3"


def test_unacked_after_a_delivery_that_is_not_remembered():
    """RF-25, RF-03: credit mode with accept none makes no record, so the statistic stays as it was."""
    bench = transactional(q={}, other={})
    bench.send("q", 2)
    reader = bench.read("q", "t", "a")
    bench.read("other", "t", "b", accept=1)
    reader.accept("p-1", "p-2")
    bench.session("t").tx_commit()
    bench.send("other")
    assert reader.unacked == 2
    bench.send("q")
    assert reader.unacked == 1


@pytest.mark.parametrize("end", ["tx_commit", "tx_rollback"])
def test_the_last_message_of_an_exchange_waits_for_no_transaction(end):
    """EX-11: with qpid.ive a queue bound later gets the last message, also a rolled back one."""
    bench = transactional(early={}, dead={})
    bench.ctl.exchange_declare("e", "fanout", arguments={"qpid.ive": 1})
    session = bench.session("t")
    bench.send("", by="t", exchange="e")
    bench.bind("early", "e")
    assert bench.stat("early").msgDepth == 1
    getattr(session, end)()
    assert bench.stat("early").msgDepth == 1
    bench.declare("last", alternate="amq.fanout")
    bench.bind("dead", "amq.fanout")
    bench.bind("last", "e")
    bench.read("last").reject("t-1")
    assert bench.labels("dead") == "t-1", "it is a message like any other"


def test_numbers_that_never_were_cost_nothing():
    """CN-13, RF-03: unknown ids are ignored, however far from the known ones."""
    bench = transactional(q={})
    bench.send("q", 2)
    reader = bench.read("q", "t")
    session = bench.session("t")
    session.message_accept([0, 2**31])
    session.tx_commit()
    assert bench.stat("q").msgDepth == 1
    session.message_accept([1])
    session.tx_commit()
    reader.accept()
    assert (bench.stat("q").msgDepth, reader.unacked) == (0, 0)


def test_the_order_of_enlisting_counts():
    """LP-09, RF-22: the first publish that does not fit stops the prepare; later ones are never asked."""
    full = {"max_count": 1, "flow_stop_count": 0, "flow_stop_size": 0}
    bench = transactional(free={}, full=full, never=full)
    bench.send("full")
    bench.send("never")
    for queue in ("free", "full", "never"):
        bench.send(queue, by="t")
    with refused(541):
        bench.session("t").tx_commit()
    assert (bench.stat("full").discardsOverflow, bench.stat("never").discardsOverflow) == (1, 0)
    assert bench.stat("free").msgTotalEnqueues == 0
