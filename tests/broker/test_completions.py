"""When a transfer is complete, and when the client is told (CM).

Beside the recordings ``fc-sync`` and ``fc-fanout``, which tests/conformance plays step by step.
"""

import pytest
from support import Bench, bench_with, queue_of, refused

from qflow.broker.completions import RangeSet


def two_queues() -> Bench:
    """X stops after one message; Y never does."""
    bench = bench_with("x", flow_stop_count=1)
    bench.declare("y")
    return bench


def reports(bench: Bench, session: str = "p") -> list[str]:
    """What ``session.completed`` has told a client, each time."""
    return [event.detail["completed"] for event in bench.seen("reported") if event.session == session]


def completions(bench: Bench, session: str = "p") -> list[int]:
    """Numbers of the commands of a session in the order in which they completed."""
    return [event.detail["command"] for event in bench.seen("completed") if event.session == session]


def test_a_command_that_never_left_the_client_has_no_number():
    """CM-01: the library's own refusal leaves no gap, be it of a session's first command or a later one."""
    bench = two_queues()
    session = bench.session("p")
    with pytest.raises(TypeError):
        session.message_transfer("no message")
    bench.send("y")
    with pytest.raises(TypeError):
        session.message_transfer("no message")
    bench.send("y")
    assert completions(bench) == [0, 1]


# Holding


def test_a_completion_comes_once():
    """CM-02: whatever lets go of it, and however often."""
    bench = Bench()
    for name in ("f1", "f2"):
        bench.declare(name, flow_stop_count=1)
        bench.bind(name, "amq.fanout")
    transfers = bench.send("", 3, exchange="amq.fanout")
    bench.ctl.queue_delete("f1")
    bench.ctl.queue_purge("f2")
    bench.ctl.queue_delete("f2")
    for transfer in transfers:
        transfer.release_hold("f1")
        transfer.finish()
    assert sorted(completions(bench)) == [0, 1, 2]
    assert bench.completed() == "0-2"


def test_out_of_order():
    """CM-04, G-02: X, X(held), Y, Y and one sync: a hole in the completed set; then the sync completes."""
    bench = two_queues()
    bench.send("x", 2)
    bench.send("y", 2)
    assert bench.completed() == "0 2-3"
    bench.session("p").execution_sync()
    assert bench.completed() == "0 2-3"
    bench.ctl.queue_purge("x")
    assert bench.completed() == "0-4"
    assert completions(bench) == [0, 2, 3, 1, 4]


# Telling the client


def test_a_plain_transfer_is_not_reported():
    """CM-05: neither one that completes at once nor one that was held."""
    bench = two_queues()
    bench.send("x", 3)
    bench.ctl.queue_purge("x")
    assert bench.completed() == "0-2"
    assert reports(bench) == []


def test_the_sync_flag():
    """CM-05 a: reported at once, or later when it is let go."""
    bench = two_queues()
    bench.send("x", sync=True)
    assert reports(bench) == ["0"]
    bench.send("x", sync=True)
    bench.send("y")
    assert reports(bench) == ["0"]
    bench.ctl.queue_purge("x")
    assert reports(bench) == ["0", "0-2"]


def test_an_execution_sync():
    """CM-05 b: reported when it becomes complete."""
    bench = two_queues()
    bench.send("x")
    bench.session("p").execution_sync()
    assert reports(bench) == ["0-1"]
    bench.send("x")
    bench.session("p").execution_sync()
    assert reports(bench) == ["0-1"]
    bench.ctl.queue_purge("x")
    assert reports(bench) == ["0-1", "0-3"]


def test_a_flush_reports_what_is_complete_now():
    """CM-05 c: session.flush asks for what is complete now, holes and all."""
    bench = two_queues()
    bench.send("x", 2)
    bench.send("y")
    bench.session("p").session_flush()
    assert reports(bench) == ["0 2"]


def test_every_65536_commands():
    """CM-05 d: when the next expected number is a multiple of 65,536."""
    bench = Bench()
    session = bench.broker.session("p")
    told = []
    session.completions.on_report = lambda ranges: told.append(str(ranges))
    bench.broker.observe(None)
    for _ in range(65_535):
        session.message_accept(())
    assert told == []
    for _ in range(10):
        session.message_accept(())
    assert told == ["0-65535"]


def test_reports_of_a_batch():
    """CM-08, RF-40: at the end of a step, for each session one report a command with the sync flag."""
    bench = queue_of(1, flow_stop_count=1)
    for by in ("p", "r"):
        bench.send("q", by=by)
        bench.send("q", 2, by=by, sync=True)
    before = len(reports(bench))
    bench.ctl.queue_purge("q")
    assert reports(bench)[before:] == ["0-2", "0-3"]
    assert reports(bench, "r") == ["0-1", "0-2"]
    assert bench.events[-1].kind == "reported"


# Syncing


def test_rf_40_a_sync_flag_is_reported_before_what_completes_after_it():
    """RF-40: three transfers freed in one batch, of which the second carries the flag."""
    bench = bench_with("q", flow_stop_count=1, flow_resume_count=1)
    session = bench.session("p")
    for sync in (False, False, True, False):
        bench.send("q", sync=sync)
    bench.ctl.queue_purge("q")
    assert reports(bench) == ["0-2"]
    assert str(session.completed) == "0-3"


@pytest.mark.parametrize("command", ["execution_sync", "tx_commit"])
@pytest.mark.parametrize("sync", [True, False])
def test_rf_40_without_the_sync_flag_there_is_no_report(command, sync):
    bench = Bench()
    session = bench.session("p")
    session.tx_select()
    getattr(session, command)(sync=sync)
    assert reports(bench) == (["0-1"] if sync else [])
    assert str(session.completed) == "0-1"


def test_commit_is_a_sync_point():
    """CM-07, CM-10: its effects are there at once, its completion waits for the held transfer."""
    bench = two_queues()
    session = bench.session("p")
    bench.send("x", 2)
    session.tx_select()
    bench.send("y")
    assert bench.labels("y") == ""
    session.tx_commit()
    assert bench.labels("y") == "p-3"
    assert bench.completed() == "0 2-3"
    assert reports(bench) == []
    bench.ctl.queue_purge("x")
    assert bench.completed() == "0-4"
    assert reports(bench) == ["0-4"]


# The end of the producer


@pytest.mark.parametrize("end", ["close", "506", "404"])
def test_the_session_ends_while_transfers_are_held(end):
    """CM-09, CM-13: messages stay, the queue stays ON, nobody is told; dequeues go on as ever."""
    bench = two_queues()
    bench.declare("full", max_count=1, flow_stop_count=0, flow_stop_size=0)
    bench.send("full", by="loader")
    transfers = bench.send("x", 3)
    if end == "close":
        bench.session("p").close()
    else:
        with refused(int(end)):
            bench.send("full" if end == "506" else "q", exchange="" if end == "506" else "nowhere")
    statistics = bench.stat("x")
    assert (statistics.msgDepth, statistics.flowStopped) == (3, True)
    told = len(completions(bench))
    assert bench.take("x", 2) == ["p-1", "p-2"]
    assert bench.is_on("x")
    bench.take("x")
    assert not bench.is_on("x")
    assert [transfer.held_by for transfer in transfers] == [(), (), ()]
    assert len(completions(bench)) == told
    bench.send("x", by="next")
    assert bench.held("next") == ""


# The set of ranges


def test_range_set_of_thousands():
    """CM-04: holes, and their end, are the same wherever in the set they lie."""
    ranges, others = RangeSet(), RangeSet()
    for number in range(5_000):
        (ranges if number % 1_000 else others).add(number)
    assert str(ranges) == "1-999 1001-1999 2001-2999 3001-3999 4001-4999"
    assert str(others) == "0 1000 2000 3000 4000"
    assert (len(ranges), len(others), ranges.front, others.front) == (4_995, 5, 0, 1)
    for number in others:
        ranges.add(number)
    assert (str(ranges), ranges.front) == ("0-4999", 5_000)
    assert ranges == RangeSet.of([(0, 4_999)])
