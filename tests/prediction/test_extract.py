"""The workload behind a log: what a simulated client did is found again in what it would have logged."""

from dataclasses import replace
from itertools import accumulate
from random import Random

import pytest
from recordings import load

from qflow.logs import ClientLog, LogRow
from qflow.prediction.client_model import BOUNDS, LogModel
from qflow.prediction.costs import CreditReturn, Pieces, Work, pieces, works_of
from qflow.prediction.disturbances import (
    AckDelay,
    _consumer_network,
    _episodes,
    _producer_network,
    _usual_pace,
)
from qflow.prediction.evidence import catches_up, likely_due, read_sends
from qflow.prediction.replays import _rows_of_run
from qflow.workload import Consumer, Producer, Workload, WorkloadError, simulate
from qflow.workload.arrivals import due_messages
from qflow.workload.network import Network

SLOW_ACKS = Network(ack_delay=0.042, send_cost=0.00008, report_cost=0.0002)


def logged(workload, program=None):
    """What the clients of a simulated run would have logged, with the sizes and groups of their program."""
    rows = _rows_of_run(simulate(workload).events)
    count, what = sum(row.event == "transfer" for row in rows), {}
    for producer in (program or workload).producers:
        for number, (_, *drawn) in zip(range(1, count + 1), due_messages(producer), strict=False):
            what[f"{producer.name}-{number}"] = drawn
    carry = ("transfer", "deliver")
    rows = [
        row._replace(size=what[row.label][0], group=what[row.label][1]) if row.event in carry else row
        for row in rows
    ]
    return ClientLog(workload.name, rows)


def small(network=SLOW_ACKS, **queue):
    queue = queue or {"qpid.flow_stop_count": 60, "qpid.flow_resume_count": 30}
    return Workload(
        "small",
        6,
        {"q": queue},
        producers=(Producer("p", ("", "q"), 300, 20, (4.0, 0.5), groups=(5, 1.0), seed=7, network=network),),
        consumers=(Consumer("c", "q", 10, ("exp", 0.004), release=0.05, seed=8, network=network),),
    )


def test_clients_are_taken_as_recorded_whatever_their_file_states():
    workload = small()
    log = logged(workload)
    stated = workload.with_producer("p", seed=70, rate=9).with_consumer("c", seed=80, service=("exp", 1.0))
    found = LogModel(log, stated)
    assert found.extract().consumers == LogModel(log, workload).extract().consumers
    assert found.catches_up == {"p": True}
    assert found.model == "open"
    producer, consumer = found.extract().producers[0], found.extract().consumers[0]
    true = [
        message for message, _ in zip(due_messages(workload.producers[0]), producer.recorded, strict=False)
    ]
    assert [(size, group) for _, size, group in true[:1000]] == [
        item[1:] for item in producer.recorded[:1000]
    ]
    # No demand that fits the log is later than the least, none earlier than the most.
    due = [time / 1e6 for time, _, _ in true if time <= 6_000_000]
    for bound, is_right in (
        ("least", lambda late, most: late <= most),
        ("most", lambda late, most: late >= -most),
    ):
        recorded = found.extract(bound=bound).producers[0].recorded
        assert all(is_right(time - at, 0.0011) for time, (at, _, _) in zip(due, recorded, strict=False)), (
            bound
        )
    kind, times = consumer.service
    assert kind == "recorded"
    assert sum(times) / len(times) == pytest.approx(0.004, rel=0.02)
    assert consumer.release == pytest.approx(0.05, abs=0.005)


def test_delays_and_costs_are_found_again():
    workload = small()
    extracted = LogModel(logged(workload), workload).extract()
    assert extracted.consumers[0].network.ack_delay == pytest.approx(0.042, rel=0.001)
    costs = extracted.producers[0].network
    assert costs.send_cost == pytest.approx(0.00008, rel=0.01)
    assert costs.report_cost + 500 * costs.report_growth == pytest.approx(0.0002, rel=0.01)


LISTS = Network(
    latency=0.0001,
    ack_delay=0.042,
    send_cost=0.00006,
    report_cost=0.00001,
    report_growth=0.00000005,
)
"""A client that keeps a list of what it has sent, as the recorded ones do."""


def listing(capacity):
    return Workload(
        "listing",
        12,
        {"q": {"qpid.flow_stop_count": 400, "qpid.flow_resume_count": 250}},
        producers=(Producer("p", ("", "q"), 600, capacity, 100, seed=7, network=LISTS),),
        consumers=(Consumer("c", "q", 40, ("exp", 0.004), seed=8, network=LISTS),),
    )


def test_what_each_transfer_before_costs_is_found_again():
    """It decides how fast a producer catches up late in a run."""
    workload = listing(200)
    costs = LogModel(logged(workload), workload).extract().producers[0].network
    assert costs.report_growth == pytest.approx(LISTS.report_growth, rel=0.01)
    assert costs.report_time(3000) == pytest.approx(LISTS.report_time(3000), rel=0.01)


def test_the_recorded_clients_keep_lists_of_what_they_have_sent():
    log, workload = load("slow-consumer")
    costs = LogModel(log, workload).extract().producers[0].network
    assert costs.report_time(5000) > 1.5 * costs.report_time(1)


def test_clients_without_delay_are_found_to_have_none():
    workload = small(Network(latency=0.0001))
    extracted = LogModel(logged(workload), workload).extract()
    assert extracted.consumers[0].network.ack_delay == 0
    assert extracted.producers[0].network.ack_delay == 0


def test_a_producer_that_thinks_after_a_block_is_closed():
    thinking = tuple((0.003, 100, "") for _ in range(50))
    workload = small()
    producer = Producer(
        "p", ("", "q"), 300, 20, 100, arrival="recorded", recorded=thinking, model="closed", network=SLOW_ACKS
    )
    workload = workload.replace(producers=(producer,)).with_consumer("c", service=("exp", 0.01))
    run = simulate(workload)
    model = LogModel(ClientLog("thinking", _rows_of_run(run.events)), workload)
    assert model.catches_up == {"p": False}
    assert model.model == "closed"
    found = [seconds for seconds, _, _ in model.extract().producers[0].recorded]
    assert sorted(found)[len(found) // 2] == pytest.approx(0.003, rel=0.01)


@pytest.mark.parametrize("name", ["slow-consumer", "capacity-165", "overflow-despite-flow-control"])
def test_the_recorded_clients_have_delayed_acknowledgements(name):
    log, workload = load(name)
    model = LogModel(log, workload)
    assert model.model == "open"
    # The broker's system delays acknowledgements by 40 ms, and looks every 4 ms.
    for client in model.extract().consumers:
        assert 0.039 < client.network.ack_delay < 0.048


def test_only_two_models_are_known():
    with pytest.raises(WorkloadError, match="model must be 'open' or 'closed', or None, got 'wide'"):
        LogModel(ClientLog("none", []), small()).extract("wide")


def test_an_empty_log_leaves_clients_that_do_nothing():
    found = LogModel(ClientLog("none", []), small()).extract()
    assert found.producers[0].recorded == ()
    assert simulate(found).errors == {}


def test_a_producer_still_behind_at_the_end_may_have_more_to_send():
    rows = [LogRow(n * 10_000, "p", "transfer", "q", f"p-{n}", 1, "") for n in range(1, 50)]
    rows += [LogRow(500_000, "p", "block", "", "", 0, ""), LogRow(900_000, "p", "unblock", "", "", 0, "")]
    rows += [
        LogRow(900_100, "p", "transfer", "q", "p-50", 1, ""),
        LogRow(900_200, "p", "block", "", "", 0, ""),
    ]
    sends = read_sends(rows, 1_000_000)
    assert sends.behind_since == 500_000
    workload = Workload("w", 1, {"q": {}}, producers=(Producer("p", ("", "q"), 1, 5, 1),))
    model = LogModel(ClientLog("w", rows), workload)
    assert list(model.unknown()) == ["p"] and model.unknown("closed") == {}
    due = {
        bound: [time for time, _, _ in model.extract("open", bound).producers[0].recorded] for bound in BOUNDS
    }
    assert due["least"] == [*(n / 100 for n in range(1, 50)), 0.5]
    assert (
        due["most"] == due["likely"] == [*due["least"], *(pytest.approx(0.5 + n / 200) for n in range(100))]
    )


def test_late_messages_fell_due_faster_than_they_were_sent_and_later_ones_slower():
    rows = [LogRow(n * 50_000, "p", "transfer", "q", f"p-{n}", 1, "") for n in range(1, 5)]
    rows += [LogRow(250_000, "p", "block", "", "", 0, ""), LogRow(400_000, "p", "unblock", "", "", 0, "")]
    rows += [LogRow(400_000 + n, "p", "transfer", "q", f"p-{5 + n}", 1, "") for n in range(4)]
    rows += [LogRow(500_000, "p", "transfer", "q", "p-9", 1, "")]
    sends = read_sends(rows, 1_000_000)
    assert sends.behind_since is None
    # By hand: four in a streak of 150,003 µs; the first at its begin, where it met the window.
    assert likely_due(sends)[4:] == [250_000, 273_438, 306_251, 348_439, 500_000]


def test_a_streak_that_did_not_end_began_at_twice_the_pace_of_sending():
    rows = [LogRow(0, "p", "transfer", "q", "p-0", 1, ""), LogRow(1_000, "p", "block", "", "", 0, "")]
    for n in range(1, 11):
        rows += [LogRow(n * 90_000, "p", "unblock", "", "", 0, "")]
        rows += [LogRow(n * 90_000, "p", "transfer", "q", f"p-{n}", 1, "")]
        rows += [LogRow(n * 90_000, "p", "block", "", "", 0, "")]
    sends = read_sends(rows, 1_000_000)
    assert sends.behind_since == 1_000
    due = likely_due(sends)
    assert due[:3] == [0, 1_000, 45_950] and max(due) == 405_550
    assert all(time <= send.time for time, send in zip(due, sends.sent, strict=True))


def test_a_message_that_met_a_full_window_was_due_by_then():
    """Of a streak that begins with a burst most messages are not due evenly over its time."""
    rows = [LogRow(100_000, "p", "block", "", "", 0, ""), LogRow(101_000, "p", "unblock", "", "", 0, "")]
    rows += [LogRow(101_000 + 100 * n, "p", "transfer", "q", f"p-{n}", 1, "") for n in range(60)]
    rows += [LogRow(108_000, "p", "block", "", "", 0, ""), LogRow(1_900_000, "p", "unblock", "", "", 0, "")]
    rows += [LogRow(1_900_000, "p", "transfer", "q", "p-60", 1, ""), rows[0]._replace(ts_us=1_900_100)]
    due = likely_due(read_sends(rows, 2_000_000))
    assert due[0] == 100_000 and due[60] == 108_000


def test_gaps_between_events_of_chance_are_no_work():
    """Work is much shorter than the limit below which a gap counts; what comes by chance is not."""
    chance = Random("gaps")

    def sent(longest):
        times = accumulate(chance.uniform(0, longest) for _ in range(100))
        return [LogRow(round(time), "p", "transfer", "q", "", 1, "") for time in times]

    assert pieces(sent(499)).sends == []
    assert len(pieces(sent(120)).sends) > 90


def test_a_log_that_tells_nothing_of_costs():
    nothing = AckDelay.of([[]])
    assert _consumer_network([], nothing) == Network()
    assert _producer_network(Work([], Pieces([], []), Pieces([], []), 0.0), nothing) == Network(
        pace=((0.0, 1.0),)
    )
    assert catches_up(read_sends([], 1).sent) is None
    assert works_of([]) == []


def test_service_begins_when_the_message_is_there_and_the_one_before_is_done():
    rows = [LogRow(time, "c", "deliver", "q", f"p-{n}", 1, "") for n, time in ((1, 10), (2, 11))]
    rows += [LogRow(time, "c", "accept", "q", f"p-{n}", 1, "") for n, time in ((1, 30), (2, 70))]
    assert works_of(rows) == [(10, 30, "accept"), (30, 70, "accept")]


def test_recorded_times_are_used_again_when_they_run_out():
    workload = small().with_consumer("c", service=("recorded", (0.001, 0.002)), release=0.0)
    run = simulate(replace(workload, duration=1))
    works = works_of(_rows_of_run([event for event in run.events if event.session == "c"]))
    assert {end - begin for begin, end, _ in works} == {1000, 2000}


# What the machine's other work adds


def test_a_session_that_ends_while_it_waits_has_not_worked_meanwhile():
    events = [("transfer", 0), ("block", 10), ("complete", 500_000), ("unblock", 500_020)]
    events += [("transfer", 500_060), ("block", 500_080), ("unblock", 700_000), ("error", 700_020)]
    rows = [LogRow(time, "p", event, "q", "", 1, "") for event, time in events]
    assert [episode.worked for episode in _episodes(rows, [0, 5])] == [80, 20]


def test_producers_are_as_slow_as_the_median_of_all_episodes():
    assert _usual_pace([1.5] * 30 + [9.0]) == 1.5
    assert _usual_pace([1.5] * 3) == 1.0


def test_what_one_client_does_not_tell_the_others_do():
    quick, slow, silent = [CreditReturn(0, 300)] * 30, [CreditReturn(0, 44_000)] * 30, []
    system = AckDelay.of([quick, slow, silent])
    assert system == AckDelay(44_000, 44_000)
    assert _consumer_network(quick, system).ack_delay == 0
    assert _consumer_network(silent, system) == _consumer_network(slow[:5], system)
    assert _consumer_network(silent, system).ack_delay == 0.044


def test_both_models_come_from_one_look_at_the_log():
    log, workload = load("capacity-165")
    found = LogModel(log, workload)
    assert found.model == "open"
    for model in ("open", "closed"):
        assert found.extract(model) == LogModel(log, workload).extract(model)


def test_a_consumer_that_subscribes_late_is_late_in_the_model():
    workload = small().with_consumer("c", start=2.0)
    found = LogModel(logged(workload), small()).extract().consumers[0]
    assert found.start == pytest.approx(2.0, abs=0.1)
