"""A recording in front of ``qflow serve`` says what the engine's own trace says, and is a log of it."""

import json
from collections import Counter
from contextlib import nullcontext

import pytest

pytest.importorskip("proton")
pytest.importorskip("pyarrow")

from proton import Message
from proton.utils import BlockingConnection, SendException
from small_recording import Recorder, recording
from test_recording_tap import Receiver, Sender, in_thread
from waiting import wait_until

from qflow.live import serve
from qflow.logs import ClientLog, audit
from qflow.logs.client_log import client_rows
from qflow.workload import Workload

QUEUE = "orders --flow-stop-count=10 --flow-resume-count=5"
SETTLED = ("accept", "release", "reject")
CLIENTS = ("shop", "kitchen")


def of_clients(rows):
    """What each client did, in its own order: times differ by the way between tap and engine."""
    own = {name: [] for name in CLIENTS}
    for row in rows:
        if row.client in own:
            own[row.client].append((row.event, row.queue, row.label, row.size))
    return own


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """1,500 messages of a sender of window 40 through a queue that goes ON; the trace, and the recording."""
    out = tmp_path_factory.mktemp("served") / "orders.parquet"
    with serve(QUEUE, port=0) as server:
        with recording(server.url, out) as tap:
            sender = Sender(tap.port, 1500, 40)
            sending = in_thread(sender, "shop")
            wait_until(lambda: sender.sent == 50, "the window is full: 10 accepted, 40 held")
            wait_until(lambda: any(row.event == "stats" for row in so_far(out)), "the broker's statistics")
            receiving = in_thread(Receiver(tap.port, 1500), "kitchen")
            sending.join(60)
            receiving.join(60)
        trace = server.trace()
    return out, list(client_rows(trace.events()))


def so_far(out):
    return ClientLog.load(out).rows if list(out.glob("part-*")) else []


def test_the_recording_says_what_the_trace_says(served):
    out, traced = served
    recorded, expected = of_clients(ClientLog.load(out).rows), of_clients(traced)
    assert Counter(event for event, *_ in expected["shop"]) == {"transfer": 1500, "complete": 1500}
    for client in CLIENTS:
        for events in (("transfer",), ("complete",), ("deliver",), SETTLED):
            said, known = (
                [each for each in log[client] if each[0] in events] for log in (recorded, expected)
            )
            # Of one disposition, Proton gives a server the deliveries in an order of its own.
            assert events == SETTLED or said == known, (client, events)
            assert sorted(said) == sorted(known), (client, events)


def test_the_replay_agrees_with_the_brokers_statistics_but_for_what_is_in_flight(served):
    """CM-15; the queue's arguments are those that management reports.

    How often it turned ON is not the log's to say: which of two commands came first that passed the tap at
    one time, on two connections, only the broker knows.
    """
    out, _ = served
    log, workload = ClientLog.load(out), Workload.load(out.with_name("orders.json"))
    assert workload.queues["orders"] == {"qpid.flow_stop_count": 10, "qpid.flow_resume_count": 5}
    found = audit(log, workload)
    assert [finding.text() for finding in found.findings] == []
    agreement = found.agreements["orders"]
    assert log.statistics("orders")[0].flowStopped and agreement.samples >= 1
    window, prefetch = workload.producers[0].capacity, workload.consumers[0].prefetch
    assert (window, prefetch) == (40, 10)
    assert agreement.max_depth_difference <= window + prefetch
    assert agreement.recorded_stops >= 1 and agreement.engine_stops >= 1


def test_the_recording_says_which_broker_it_was_and_that_the_thresholds_are_known(served):
    out, _ = served
    report = json.loads((out / "_recording.json").read_text())
    assert report["broker"]["product"].startswith("qflow") and report["broker"]["is_qpid_cpp"]
    assert report["statistics"]["since_us"] >= 0 and not report["statistics"]["missing"]
    assert report["thresholds_unknown"] == {}
    assert "queues.orders" not in json.loads(out.with_name("orders.json").read_text())["inferred"]


def test_after_a_restart_of_the_broker_its_statistics_come_again(tmp_path):
    out = tmp_path / "restarted.parquet"
    queue = "orders --flow-stop-count=10 --flow-resume-count=5"
    with serve(queue) as first:
        port = first.server.address[1]
        tap = Recorder(first.url, out)
        connection = BlockingConnection(f"127.0.0.1:{tap.port}")
        connection.create_sender("orders").send(Message(body="one"))
        wait_until(lambda: reports(out), "the broker's statistics")
    tap.wait_for("recording: no statistics of the broker: ")
    before = len(reports(out))
    with serve(queue, port=port):
        tap.wait_for("recording: the broker's statistics come\n")
        wait_until(lambda: len(reports(out)) > before, "its statistics again")
        tap.stop()
    report = json.loads((out / "_recording.json").read_text())
    texts = [finding["sentence"] for finding in report["findings"]]
    assert "the broker's statistics come again" in texts
    assert any(text.startswith("without the broker's statistics: ") for text in texts)
    assert not report["statistics"]["missing"]


def reports(out):
    return [row for row in so_far(out) if row.event == "stats"]


def test_released_at_the_limit_and_messages_that_come_back(tmp_path):
    """LP-02 on this wire: the transfer past the limit is released; a closed link gives back what it held."""
    out = tmp_path / "limit.parquet"
    with (
        serve("small --max-queue-count=4 --limit-policy=reject --flow-stop-count=0", port=0) as server,
        recording(server.url, out, "--no-statistics") as tap,
    ):
        sending = BlockingConnection(f"127.0.0.1:{tap.port}", container_id="shop")
        sender = sending.create_sender("small")
        for number in range(6):
            refusal = pytest.raises(SendException) if number >= 4 else nullcontext()
            with refusal:
                sender.send(Message(body=f"order {number}"))
        for name, count in (("first", 2), ("second", 4)):
            reading = BlockingConnection(f"127.0.0.1:{tap.port}", container_id=name)
            receiver = reading.create_receiver("small", credit=count)
            for _ in range(count):
                receiver.receive(timeout=20)
                if name == "second":
                    receiver.accept()
            reading.close()
        sending.close()
    log = ClientLog.load(out)
    labels = [f"shop-{n}" for n in range(1, 7)]
    by_event = {}
    for row in log.rows:
        by_event.setdefault((row.client, row.event), []).append(row.label)
    assert by_event["shop", "refused"] == labels[4:]
    assert by_event["first", "deliver"][:2] == labels[:2] and len(by_event["first", "error"]) == 1
    assert by_event["second", "deliver"] == by_event["second", "accept"] == labels[:4]
