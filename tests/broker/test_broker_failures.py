"""What makes the real broker hang or crash: the commands of broker-failures.csv, one by one."""

import warnings

import pytest

from qflow.broker import Broker, BrokerOptions, Message
from qflow.broker.errors import BrokerFailure, BrokerFailureWarning, ManagementError, StartupError
from qflow.teaching.rules import rule_table
from qflow.trace.replaying import Replay, record

ROWS = rule_table("broker-failures")[1:]
AT_START = "BrokerOptions.parse("


@pytest.mark.parametrize(
    ("what", "how", "commands", "here", "source"), ROWS, ids=[row[0][:50] for row in ROWS]
)
def test_the_last_command_is_named(what, how, commands, here, source):
    """RF-34, LP-10, LP-15, RF-19, RF-36, RF-57: by a warning and a row of the trace, and none before it."""
    broker = Broker()
    trace = record(broker)
    names = {"broker": broker, "s": broker.session("s"), "Message": Message, "BrokerOptions": BrokerOptions}
    *before, last = commands.split("; ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for command in before:
            exec(command, names)
    refusal = {"refused (540)": BrokerFailure, "refused (StartupError)": StartupError}.get(here)
    if last.startswith(AT_START):
        with pytest.raises(StartupError, match="uncaught exception"):
            exec(last, names)
        return
    assert "broker_failure" not in list(trace.kind)
    with pytest.warns(BrokerFailureWarning, match="real broker") as warned:
        if refusal is None:
            try:
                exec(last, names)
            except Exception as error:
                assert not isinstance(error, BrokerFailure), "it is refused"
        else:
            with pytest.raises(refusal):
                exec(last, names)
    assert len(warned) == 1
    details = [text for kind, text in zip(trace.kind, trace.detail, strict=True) if kind == "broker_failure"]
    assert [f'"{how}"' in text for text in details] == [True]
    assert Replay(trace).run() == trace


def test_a_warning_that_is_made_an_error_leaves_the_broker_whole():
    """It comes after the command, so that a test with -W error sees the queue gone all the same."""
    commands = next(row[2] for row in ROWS if row[2].endswith("c.close()"))
    broker = Broker()
    names = {"broker": broker, "s": broker.session("s"), "Message": Message}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(BrokerFailureWarning, match="full"):
            exec(commands, names)
    assert "q" not in broker.queues.queues
    assert not names["c"].is_attached
    names["s"].queue_declare("q")
    assert names["s"].is_attached


def test_management_s_refusal_has_its_status_and_is_named():
    """CF-08, LP-15: a move into a durable queue that destroys itself."""
    broker = Broker()
    session = broker.session("s")
    limits = {"qpid.policy_type": "self-destruct", "qpid.max_count": 1}
    session.queue_declare("q", limits, durable=True)
    session.queue_declare("from")
    for _ in range(2):
        session.message_transfer(Message(1, "from"))
    with pytest.warns(BrokerFailureWarning), pytest.raises(ManagementError, match="durable queue q"):
        broker.management.queueMoveMessages("from", "q", 0)


def test_a_commit_is_refused_in_the_same_words():
    """LP-15, LP-09: not as a transaction that cannot be prepared; the real broker never answers."""
    session = Broker().session("s")
    limits = {"qpid.policy_type": "self-destruct", "qpid.max_count": 1}
    session.queue_declare("q", limits, durable=True)
    session.message_transfer(Message(1, "q"))
    session.tx_select()
    session.message_transfer(Message(1, "q"))
    with pytest.warns(BrokerFailureWarning), pytest.raises(BrokerFailure, match="destroys itself"):
        session.tx_commit()
