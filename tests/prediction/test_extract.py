"""The workload behind a log: what a simulated client did is found again in what it would have logged."""

from dataclasses import replace
from itertools import pairwise

import pytest
from recordings import load

from qflow.prediction.costs import (
    Episode,
    SystemDelay,
    Told,
    Work,
    consumer_network,
    episodes,
    producer_network,
    works_of,
)
from qflow.prediction.extraction import Evidence, catches_up, extract, inferred_schedule, sends_of
from qflow.prediction.pace import client_pace, machine_pace, missing_pace, releases, slower
from qflow.prediction.predict import rows_of_run
from qflow.trace import ClientLog, LogRow
from qflow.workload import Consumer, Producer, Workload, WorkloadError, simulate
from qflow.workload.arrivals import due_messages
from qflow.workload.network import Network

SLOW_ACKS = Network(ack_delay=0.042, send_cost=0.00008, report_cost=0.0002)


def logged(workload):
    """What the clients of a simulated run would have logged, with sizes and groups."""
    run = simulate(workload)
    sizes = {}
    for producer in workload.producers:
        messages = due_messages(producer)
        for number in range(1, 1 + sum(e.kind == "client.transfer" for e in run.events)):
            sizes[f"{producer.name}-{number}"] = next(messages)[1:]
    rows = [
        row._replace(size=sizes[row.label][0], group=sizes[row.label][1])
        if row.event in ("transfer", "deliver")
        else row
        for row in rows_of_run(run.events)
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


def test_stated_clients_are_recognised_by_their_draws():
    workload = small()
    extraction = extract(logged(workload), workload)
    assert extraction.sources == {"p": "stated", "c": "stated"}
    assert extraction.catches_up == {"p": True}
    assert extraction.model == "open"
    assert max(map(abs, extraction.workload.consumers[0].overhead)) < 0.001


def test_clients_with_another_seed_are_taken_as_recorded():
    workload = small()
    stated = workload.with_producer("p", seed=70).with_consumer("c", seed=80)
    extraction = extract(logged(workload), stated)
    assert extraction.sources == {"p": "recorded", "c": "recorded"}
    producer, consumer = extraction.workload.producers[0], extraction.workload.consumers[0]
    true = [
        message for message, _ in zip(due_messages(workload.producers[0]), producer.recorded, strict=False)
    ]
    assert [(size, group) for _, size, group in true[:1000]] == [
        item[1:] for item in producer.recorded[:1000]
    ]
    late = [abs(item[0] - due / 1e6) for item, (due, _, _) in zip(producer.recorded, true, strict=False)]
    assert sum(late) / len(late) < 0.1
    kind, times = consumer.service
    assert kind == "recorded"
    assert sum(times) / len(times) == pytest.approx(0.004, rel=0.02)
    assert consumer.release == pytest.approx(0.05, abs=0.005)


def test_delays_and_costs_are_found_again():
    workload = small()
    extracted = extract(logged(workload), workload).workload
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
    report_share=0.000001,
)
"""A client that keeps lists of what it has sent and of what is outstanding, as the recorded ones do."""


def crowded(capacity):
    return Workload(
        "crowded",
        12,
        {"q": {"qpid.flow_stop_count": 400, "qpid.flow_resume_count": 250}},
        producers=(Producer("p", ("", "q"), 600, capacity, 100, seed=7, network=LISTS),),
        consumers=(Consumer("c", "q", 40, ("exp", 0.004), seed=8, network=LISTS),),
    )


def test_what_each_outstanding_transfer_costs_is_found_again():
    """It decides how fast a producer with another capacity catches up."""
    workload = crowded(200)
    costs = extract(logged(workload), workload).workload.producers[0].network
    assert costs.report_share == pytest.approx(LISTS.report_share, rel=0.03)
    assert costs.report_growth == pytest.approx(LISTS.report_growth, rel=0.01)
    assert costs.report_time(3000, 10) == pytest.approx(LISTS.report_time(3000, 10), rel=0.03)
    assert costs.report_time(3000, 200) == pytest.approx(LISTS.report_time(3000, 200), rel=0.01)


def test_the_recorded_clients_look_through_what_is_outstanding():
    """24 producers of the same software with 10 to 100 outstanding; this one has up to 100, alone."""
    log, workload = load("slow-consumer")
    costs = extract(log, workload).workload.producers[0].network
    assert costs.report_time(2000, 100) > 1.5 * costs.report_time(2000, 1)


def test_a_consumer_that_is_never_out_of_credit_waits_for_it_as_the_others_do_then():
    usual = [Told(n * 100_000, 42_000) for n in range(100)]
    slow = [Told(3_000_000 + n, 130_000) for n in range(10)]
    network = consumer_network([], SystemDelay.of([sorted(usual + slow)]))
    assert network.ack_delays == ((0.0, 0.042), (3.0, pytest.approx(0.1097, rel=0.001)), (3.25, 0.042))


def test_clients_without_delay_are_found_to_have_none():
    workload = small(Network(latency=0.0001))
    extracted = extract(logged(workload), workload).workload
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
    extraction = extract(ClientLog("thinking", rows_of_run(run.events)), workload)
    assert extraction.catches_up == {"p": False}
    assert extraction.model == "closed"
    found = [seconds for seconds, _, _ in extraction.workload.producers[0].recorded]
    assert sorted(found)[len(found) // 2] == pytest.approx(0.003, rel=0.01)


@pytest.mark.parametrize("name", ["slow-consumer", "capacity-165", "overflow-despite-flow-control"])
def test_the_recorded_clients_are_those_that_their_files_state(name):
    log, workload = load(name)
    extraction = extract(log, workload)
    assert set(extraction.sources.values()) == {"stated"}
    assert extraction.model == "open"
    # The broker's system delays acknowledgements by 40 ms, and looks every 4 ms.
    for client in extraction.workload.consumers:
        assert 0.039 < client.network.ack_delay < 0.048


def test_extracting_twice_gives_the_same():
    log, workload = load("capacity-165")
    assert extract(log, workload) == extract(log, workload)


def test_only_two_models_are_known():
    with pytest.raises(WorkloadError, match="model must be 'open' or 'closed', or None, got 'wide'"):
        extract(ClientLog("none", []), small(), "wide")


def test_an_empty_log_leaves_clients_that_do_nothing():
    extraction = extract(ClientLog("none", []), small())
    assert extraction.workload.producers[0].recorded == ()
    assert simulate(extraction.workload).errors == {}


def test_a_producer_still_behind_at_the_end_would_have_gone_on():
    rows = [LogRow(n * 10_000, "p", "transfer", "q", f"p-{n}", 1, "") for n in range(1, 50)]
    rows += [LogRow(500_000, "p", "block", "", "", 0, ""), LogRow(900_000, "p", "unblock", "", "", 0, "")]
    rows += [LogRow(900_100, "p", "transfer", "q", "p-50", 1, "")]
    schedule = inferred_schedule(sends_of(rows), 1_000_000)
    assert schedule[49] == 500_000
    assert len(schedule) > 60
    assert schedule == sorted(schedule)


def test_a_log_that_tells_nothing_of_costs():
    nothing = SystemDelay.of([[]])
    assert consumer_network([], nothing) == Network()
    assert producer_network(Work([]), nothing) == Network()
    assert catches_up(sends_of([])) is None
    assert works_of([]) == []


def test_service_begins_when_the_message_is_there_and_the_one_before_is_done():
    rows = [LogRow(time, "c", "deliver", "q", f"p-{n}", 1, "") for n, time in ((1, 10), (2, 11))]
    rows += [LogRow(time, "c", "accept", "q", f"p-{n}", 1, "") for n, time in ((1, 30), (2, 70))]
    assert works_of(rows) == [(10, 30, "accept"), (30, 70, "accept")]


def test_recorded_times_are_used_again_when_they_run_out():
    workload = small().with_consumer("c", service=("recorded", (0.001, 0.002)), release=0.0)
    run = simulate(replace(workload, duration=1))
    works = works_of(rows_of_run([event for event in run.events if event.session == "c"]))
    assert {end - begin for begin, end, _ in works} == {1000, 2000}


# What the machine's other work adds


def test_a_session_that_ends_while_it_waits_has_not_worked_meanwhile():
    events = [("transfer", 0), ("block", 10), ("complete", 500_000), ("unblock", 500_020)]
    events += [("transfer", 500_060), ("block", 500_080), ("unblock", 700_000), ("error", 700_020)]
    rows = [LogRow(time, "p", event, "q", "", 1, "") for event, time in events]
    assert [episode.worked for episode in episodes(rows, [0, 5])] == [80, 20]


def test_a_client_that_has_rested_works_at_once_and_then_shares_the_processors():
    crowded = Network(send_cost=0.001, pace=((0.0, 3.0),), crowd=3.0)
    many = tuple((0.1, 10, "") for _ in range(8))
    workload = Workload(
        "crowd",
        1,
        {"q": {}},
        producers=(Producer("p", ("", "q"), 9, 99, 10, arrival="recorded", recorded=many, network=crowded),),
    )
    sent = [event.time for event in simulate(workload).events if event.kind == "client.transfer"]
    assert [after - before for before, after in pairwise(sent)] == [1000, 1000, 1000, 3000, 3000, 3000, 3000]


def test_what_one_client_does_not_tell_the_others_do():
    quick, slow, silent = [Told(0, 300)] * 30, [Told(0, 44_000)] * 30, []
    system = SystemDelay.of([quick, slow, silent])
    assert system == SystemDelay(44_000, 44_000)
    assert consumer_network(quick, system).ack_delay == 0
    assert consumer_network(silent, system) == consumer_network(slow[:5], system)
    assert consumer_network(silent, system).ack_delay == 0.044


def test_the_pace_of_the_machine_is_that_of_all_clients_which_catch_up():
    found = [(Episode(begin), factor) for begin in (20_000_000, 20_100_000, 20_200_000) for factor in (9.0,)]
    machine = machine_pace(found, usual=1.5)
    assert client_pace([], machine) == ((0.0, 1.5), (20.0, 9.0), (22.0, 1.5))


def test_both_models_come_from_one_look_at_the_log():
    log, workload = load("capacity-165")
    evidence = Evidence(log, workload)
    assert evidence.model == "open"
    for model in ("open", "closed"):
        assert evidence.extraction(model) == extract(log, workload, model)


# Whether producers catch up as fast


def test_a_producer_is_let_go_after_a_long_block_only():
    def row(time, event):
        return LogRow(time, "p", event, "", "", 0, "")

    rows = [
        row(0, "transfer"),
        row(10, "block"),
        row(500, "complete"),
        row(510, "unblock"),
        row(600, "transfer"),
    ]
    rows += [row(610, "block"), row(300_000, "complete"), row(300_100, "unblock"), row(300_150, "transfer")]
    rows += [row(300_200, "transfer"), row(300_210, "block"), row(900_000, "complete")]
    assert releases(rows) == [[150, 200], []]


def test_what_the_model_knows_of_catching_up_needs_no_correction():
    workload = small()
    assert missing_pace(workload, {"p": [row for row in logged(workload).rows if row.client == "p"]}) == 1


@pytest.mark.parametrize("factor", [0.8, 1.5])
def test_producers_that_catch_up_more_slowly_are_slowed_down(factor):
    workload = small().replace(duration=12)
    (producer,) = workload.producers
    real = workload.with_producer("p", network=slower(producer.network, factor))
    rows = [row for row in logged(real).rows if row.client == "p"]
    assert missing_pace(workload, {"p": rows}) == pytest.approx(factor, rel=0.01)


def test_a_log_in_which_nobody_was_let_go_tells_nothing():
    assert missing_pace(small(), {"p": []}) == 1


def test_a_producer_that_keeps_its_stated_schedule_is_open_whatever_its_blocks_look_like():
    workload = small(**{"qpid.flow_stop_count": 0})
    evidence = Evidence(logged(workload), workload)
    evidence._catches_up = {"p": False}
    assert evidence.model == "open"
