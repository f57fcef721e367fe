"""The live lab: what a browser is sent while real clients come, send, are stopped and go."""

import time
import zlib
from array import array
from itertools import pairwise

import pytest

pytest.importorskip("proton")

from waiting import wait_until

import qflow as qf
from qflow.broker.errors import AmqpException
from qflow.kit import RefusalError
from qflow.labs import trace_lab
from qflow.live.live_lab import _Follower
from qflow.trace.files import write_trace

QUEUE = "orders --flow-stop-count=3 --flow-resume-count=2 --max-queue-count=6 --limit-policy=reject"


def send(broker, count):
    """Return a client that has sent messages, one after the other."""
    client = broker.client("laptop-0")
    out = client.sender("orders")
    for _ in range(count):
        out.send("x")
        client.round_trip()
    return client


def column(content, numbers, name):
    """Return a column of what the browser gets: of the first member of its kind."""
    picture = content["picture"]
    kind, channel = name.split(".")
    start, names = picture["columns"][kind]
    places = zlib.decompress(numbers)
    size = len(places) // 4
    rows = array("i", bytes(places[place * size + at] for at in range(size) for place in range(4)))
    at = (start + list(names).index(channel)) * picture["count"]
    return rows[at : at + picture["count"]].tolist()


@pytest.mark.parametrize("looks", [(60,), (1, 53, 60), (7, 59, 60)])
def test_a_window_is_drawn_as_large_as_it_is(looks):
    """A client that is stopped with 60 transfers in flight has a full window of 60."""
    with qf.serve("orders --flow-stop-count=3 --flow-resume-count=2") as broker:
        follower, client = _Follower(broker), broker.client("laptop")
        out = client.sender("orders")
        # Three are accepted.
        for before, look in pairwise((-3, *looks)):
            for _ in range(look - before):
                out.send("x")
            client.round_trip()
            content, numbers = follower.look()
            (spot,) = content["picture"]["topology"]["producers"]
            assert (column(content, numbers, "producer.outstanding")[-1], spot["capacity"]) == (look, look)
            assert spot["is_measured"]
            moods = content["picture"]["words"]["moods"]
            assert moods[column(content, numbers, "producer.mood")[-1]] == "window full"
        client.close()
        wait_until(lambda: not broker.snapshot()["clients"], "it has gone")
        (gone,) = follower.look()[0]["clients"]
        assert (gone["container"], gone["is_gone"]) == ("laptop", True)


def test_a_picture_does_not_grow_with_the_run():
    """Two seconds are sent, whatever came before; what is counted goes on."""
    with qf.serve("orders") as broker:
        follower, client, sizes = _Follower(broker), broker.client("laptop"), []
        out = client.sender("orders")
        for second in range(12):
            broker.server._started -= 1
            for _ in range(10):
                out.send("x")
            client.round_trip()
            content, numbers = follower.look()
            sizes.append(content["picture"]["count"])
            assert column(content, numbers, "queue.depth")[-1] == 10 * (second + 1)
        assert max(sizes) < 130
        client.close()


def test_a_still_has_every_step_and_follows_again():
    with qf.serve(QUEUE) as broker:
        lab = broker.lab()
        with pytest.raises(RefusalError, match="no picture"):
            _ = lab.first
        client = send(broker, 3)
        lab.pause()
        assert not lab.scene.is_followed and lab.scene.run == 1
        assert [spot.name for spot in lab.first.frames.topology.producers] == ["laptop-0"]
        assert "laptop-0 sent 3 messages; none of its transfers was ever held." in lab.claims
        lab._answer(
            None, {"ask": "why", "picture": 0, "number": 1, "subject": "queue:orders", "frame": 3}, None
        )
        assert lab.scene.answer["links"], lab.scene.answer
        lab.follow()
        assert lab.scene.is_followed
        client.close()
        lab.close()


def test_a_stop_line_that_is_dragged_makes_another_queue_and_says_so():
    """FC-12: a queue keeps its thresholds as long as it lives."""
    with qf.serve(QUEUE) as broker:
        lab = broker.lab()
        lab._answer(None, {"ask": "set", "setting": "stop", "queue": "orders", "value": 5}, None)
        assert "orders stays as it is" in lab.note and "FC-12" in lab.note
        thresholds = {
            name: queue.flow_limit.thresholds for name, queue in broker.broker.queues.queues.items()
        }
        assert (thresholds["orders"].stop_count, thresholds["orders"].resume_count) == (3, 2)
        assert (thresholds["orders-2"].stop_count, thresholds["orders-2"].resume_count) == (5, 3)
        lab._answer(None, {"ask": "set", "setting": "stop", "queue": "orders", "value": 99}, None)
        assert "less or equal" in lab.scene.refusal or "must be" in lab.scene.refusal
        lab.close()
        with pytest.raises(AmqpException):
            broker.declare_like("nothing", 5)


def test_the_end_of_the_server_is_said_and_its_trace_opens_in_other_labs(tmp_path):
    broker = qf.serve(QUEUE)
    lab = broker.lab()
    send(broker, 1).close()
    broker.close()
    wait_until(lambda: lab.note, "the note")
    assert "The server has stopped" in lab.note and lab.first.frames.count > 1
    path = tmp_path / "served.jsonl"
    write_trace(broker.trace(), path)
    assert trace_lab(path).picture.frames.topology.producers[0].name == "laptop-0"
    with pytest.raises(RefusalError, match="has stopped"):
        lab.follow()
    lab.close()


def test_nothing_is_made_while_no_page_asks_and_one_picture_at_a_time():
    with qf.serve(QUEUE) as broker:
        lab = broker.lab()
        sent = []
        lab.scene.send = lambda content, buffers=None: sent.append(content)
        time.sleep(0.4)
        assert not sent
        lab._answer(None, {"ask": "drawn", "number": 0}, None)
        wait_until(lambda: sent, "a picture")
        time.sleep(0.3)
        assert [content["live"]["number"] for content in sent] == [1]
        lab._answer(None, {"ask": "drawn", "number": 1}, None)
        wait_until(lambda: len(sent) == 2, "the next")
        lab.close()
