"""Frames: a run as rows of numbers, which agree with the engine after every step."""

from __future__ import annotations

import hashlib
import random
import re
import zlib
from array import array
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentences import state_sentence, step_sentence

from qflow.broker import BYTE_UNIT, INFINITE, MESSAGE_UNIT, Broker, Event, Message
from qflow.broker.errors import AmqpException
from qflow.broker.events import EventTable
from qflow.labs import experiments, flow_run, flow_workload, recorded_picture
from qflow.labs import fold as fold_module
from qflow.labs.fold import Fold, fold
from qflow.labs.frames import Frames, pack, spans_of
from qflow.labs.group import GroupTable
from qflow.labs.opened import run_picture
from qflow.labs.picture import Comparison, Picture
from qflow.labs.topology import Topology
from qflow.labs.words import BITS, STEP, claims_of
from qflow.workload import Consumer, Producer, Run, Workload, simulate


def told(frames, index):
    """Return the names of the parts of a step."""
    parts = frames.at(index)["step.parts"]
    return [name for name, bit in BITS.items() if parts & bit]


def two_queues(**clients) -> Workload:
    return Workload(
        "fan-out",
        duration=2,
        queues={
            "f1": {"qpid.flow_stop_count": 5, "qpid.flow_resume_count": 3},
            "f2": {"qpid.flow_stop_count": 6, "qpid.flow_resume_count": 2},
        },
        binds=(("amq.fanout", "f1", ""), ("amq.fanout", "f2", "")),
        producers=(Producer("p1", ("amq.fanout", ""), rate=200, capacity=4, size=50),),
        consumers=(
            Consumer("c1", "f1", prefetch=3, service=("const", 0.020)),
            Consumer("c2", "f2", prefetch=2, service=("const", 0.025)),
        ),
        **clients,
    )


class Driver:
    """A driver that sends random commands to an engine, and reads its state after each."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.workload = two_queues()
        self.broker = Broker()
        self.events: list[Event] = []
        self.broker.observe(self.events.append)
        self.producer = self.broker.session("p1")
        for name, arguments in self.workload.queues.items():
            self.producer.queue_declare(name, arguments)
            self.producer.exchange_bind(name, "amq.fanout", "")
        self.sent = 0
        self.consumers = {}
        self.received = {"c1": [], "c2": []}
        for consumer in self.workload.consumers:
            session = self.broker.session(consumer.name)
            session.consuming.on_delivery = self.received[consumer.name].append
            session.message_subscribe(consumer.queue, consumer.name)
            session.message_flow(consumer.name, BYTE_UNIT, INFINITE)
            session.message_flow(consumer.name, MESSAGE_UNIT, consumer.prefetch)
            self.consumers[consumer.name] = session

    def step(self) -> None:
        self.broker.advance(self.broker.now + self.random.randrange(3))
        choice = self.random.random()
        if choice < 0.55:
            self.sent += 1
            sync = self.random.random() < 0.5
            self.producer.message_transfer(Message(50), "amq.fanout", sync=sync)
            return
        if choice < 0.6:
            self.producer.session_flush()
            return
        name = self.random.choice(["c1", "c2"])
        if self.received[name]:
            record = self.received[name].pop(self.random.randrange(len(self.received[name])))
            if choice < 0.9:
                self.consumers[name].message_accept([record.id])
            else:
                self.consumers[name].message_release([record.id])
            self.consumers[name].session_completed([record.id])

    def expected(self) -> dict[str, int]:
        seen = {"producer.p1.sent": self.sent, "producer.p1.held": len(self.producer.held)}
        reported = len(self.producer.completions.reported)
        seen["producer.p1.outstanding"] = self.producer.completions.next_number - max(reported, 4)
        for name in self.workload.queues:
            queue = self.broker.queue(name)
            statistics = queue.statistics()
            seen[f"queue.{name}.depth"] = statistics.msgDepth
            seen[f"queue.{name}.bytes"] = statistics.byteDepth
            seen[f"queue.{name}.flow"] = int(statistics.flowStopped)
            seen[f"queue.{name}.held"] = len(queue.flow_limit.held)
            seen[f"queue.{name}.acquired"] = statistics.msgDepth - statistics.messageCount
        for name, records in self.received.items():
            seen[f"consumer.{name}.holds"] = len(records)
        return seen


@pytest.mark.parametrize("seed", range(8))
def test_every_frame_is_what_the_engine_says_at_that_moment(seed):
    driver = Driver(seed)
    folding = Fold(Topology.of(driver.workload, 0))
    for _ in range(150):
        driver.step()
        folding.follow(driver.events)
        folding.end()
        last = folding.so_far(driver.broker.now).at(-1)
        assert {name: last[name] for name in driver.expected()} == driver.expected()


@pytest.fixture(scope="module")
def small():
    """Return the frames of a small run of the flow experiment."""
    return flow_run(messages=300, stop=20, resume=10, capacity=5).frames


def test_every_frame_differs_from_the_one_before(small):
    """The first frame shows the state before any event."""
    assert not any(small.at(0).values())
    assert step_sentence(small, 0) == "Nothing has happened on the broker yet."
    rows = [small.at(index) for index in range(small.count)]
    assert all(one != other for one, other in pairwise(rows))
    assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)


def test_transitions_are_the_engines_own():
    picture = flow_run()
    changes = [event for event in picture.run.events if event.kind in ("flow_stopped", "flow_resumed")]
    assert [(c.time, c.queue, c.is_on) for c in picture.frames.transitions] == [
        (event.time, event.queue, event.kind == "flow_stopped") for event in changes
    ]
    for change in picture.frames.transitions:
        assert picture.frames.at(change.frame)["queue.orders.flow"] == change.is_on
        assert picture.frames.at(change.frame - 1)["queue.orders.flow"] != change.is_on
        assert ("turned_on" if change.is_on else "turned_off") in told(picture.frames, change.frame)


FOLDED = {
    "bytes_run": "21887e9cda0c4633",
    "capacity_run": "4782d0b3029c44b3",
    "fanout_run": "d75d29363840545c",
    "flow_run": "7b099642a3de1a00",
    "history_run": "438c83b262b5af20",
    "policy_run": "b519aad8587998b0",
    "groups": "4460da156e67eeed",
    "overflow-despite-flow-control": "ab9c05cd7586281b",
    "capacity-165": "25c753145f5b6e68",
}
"""Of each experiment and of recorded runs: a digest of all frames and spans, as they were first."""


def digest(shown: Picture | Comparison) -> str:
    """Return a digest of every number that is drawn in a picture or in several."""
    pictures = [shown] if isinstance(shown, Picture) else shown.pictures.values()
    told = hashlib.sha256()
    for frames in (picture.frames for picture in pictures):
        tables = [
            *frames.columns,
            frames.rows,
            *(one for table in frames.lasting.values() for one in table.data),
        ]
        for column in tables:
            told.update(len(column).to_bytes(4, "big") + bytes(column))
        deaths = tuple(map(tuple, frames.deaths))
        told.update(repr((frames.count, frames.groups, deaths, frames.topology)).encode())
    return told.hexdigest()[:16]


@pytest.mark.parametrize("name", FOLDED)
def test_the_frames_are_those_that_the_first_fold_made(name):
    if name == "groups":
        shown = GroupTable("AABCAB", prefetch=(2, 1)).picture()
    else:
        shown = getattr(experiments, name)() if name.endswith("_run") else recorded_picture(name)
    assert digest(shown) == FOLDED[name]


def test_an_idle_end_is_cut_off_and_a_stalled_one_is_not():
    served = flow_run(messages=50, stop=20, resume=10)
    assert served.frames.topology.end == served.frames.at(-1)["time"] < served.run.end
    stalled = simulate(flow_workload(stop=20, resume=10).replace(consumers=(), duration=1))
    frames = fold(stalled)
    assert frames.topology.end == stalled.end
    assert frames.spans("producer.p1.blocked")[-1][1] == stalled.end
    assert "orders was still ON at the end." in claims_of(frames)


def test_a_refused_message_ends_the_window_and_is_told():
    picture = flow_run(capacity=120)
    frames = picture.frames
    index = next(index for index in range(frames.count) if "refused" in told(frames, index))
    before, after = frames.at(index - 1), frames.at(index)
    assert before["queue.orders.depth"] == after["queue.orders.depth"] == 1000
    assert before["producer.p1.held"] > 0
    assert after["producer.p1.held"] == after["producer.p1.outstanding"] == 0
    assert "p1's session dies" in step_sentence(frames, index)
    assert "its session is dead" in state_sentence(frames, index)
    assert any(
        "resource-limit-exceeded: Maximum depth exceeded on orders" in claim for claim in picture.claims
    )
    assert min(frames.column("queue.orders.held")) == 0  # the queue lets go of what no session waits for


def test_every_sentence_can_be_told(small):
    for frames in (fold(simulate(two_queues())), small):
        for index in range(frames.count):
            assert "{" not in step_sentence(frames, index) + state_sentence(frames, index)
            assert step_sentence(frames, index) or not frames.at(index)["step.parts"]
    assert len(STEP) < 31  # one bit each in 32 bits with a sign


def read_back(sent: bytes, *lengths: int) -> list[array]:
    """Decode packed columns of a given length as the browser does."""
    places = zlib.decompress(sent)
    each = len(places) // 4
    numbers = array("i", bytes(places[place * each + at] for at in range(each) for place in range(4)))
    assert len(numbers) == sum(lengths)
    starts = [sum(lengths[:column]) for column in range(len(lengths))]
    return [numbers[start : start + length] for start, length in zip(starts, lengths, strict=True)]


def test_what_is_packed_is_whole_and_small(small):
    sent = small.pack()
    columns = [*small.columns, *(column for table in small.lasting.values() for column in table.data)]
    assert read_back(sent, *map(len, columns)) == columns
    assert len(sent) < small.count * len(small.channels) * 4 / 8


@given(st.lists(st.lists(st.integers(-(2**31), 2**31 - 1) | st.just(0), max_size=20), max_size=5))
def test_every_table_survives_packing(numbers):
    columns = [array("i", column) for column in numbers]
    assert read_back(pack(columns), *map(len, columns)) == columns


@given(st.lists(st.sampled_from([0, 1, 255, 256, 2**24, -1, -(2**31)])))
def test_spans_are_where_a_channel_is_not_0(numbers):
    """For any numbers, the spans equal those found by a simple loop over the frames."""
    times = array("i", range(3, 3 + 5 * len(numbers), 5))
    frames = Frames(
        Topology((), (), (), (), 999), ("time", "seen"), (times, array("i", numbers)), len(numbers)
    )
    assert frames.spans("seen") == spans_of(zip(times, numbers, strict=True), 999)


def test_what_is_not_there_is_named(small):
    with pytest.raises(KeyError, match=r"no channel 'queue\.order\.depth'; there are time"):
        small.column("queue.order.depth")
    with pytest.raises(IndexError, match="no frame 99999; there are"):
        small.at(99_999)


def test_a_run_longer_than_the_clock_is_refused():
    workload = flow_workload()
    late = [Event(3 * 10**9, "client.block", session="p1")]
    with pytest.raises(ValueError, match="must be at most 2147 s; got 3000 s"):
        fold(Run(workload, late, 3 * 10**9))


def test_producers_that_share_a_session_have_windows_of_their_own():
    queues = {"q": {"qpid.flow_stop_count": 5, "qpid.flow_resume_count": 3}}
    clients = [Producer(name, ("", "q"), 100, 4, size=50, session="shared") for name in ("p1", "p2")]
    workload = Workload("shared session", duration=1, queues=queues, producers=tuple(clients))
    broker, events = Broker(), []
    broker.observe(events.append)
    session = broker.session("shared")
    session.queue_declare("q", queues["q"])
    for label in ("p1-1", "p2-1", "p1-2", "p1-3", "p1-4", "p1-5", "p2-2", "p1-6"):
        session.message_transfer(Message(50, routing_key="q", label=label), sync=True)
    last = fold(Run(workload, events, 0)).at(-1)
    assert (last["producer.p1.sent"], last["producer.p2.sent"]) == (6, 2)
    assert (last["producer.p1.held"], last["producer.p2.held"]) == (2, 1)
    assert (last["producer.p1.outstanding"], last["producer.p2.outstanding"]) == (2, 1)


def test_a_client_of_amqp_1_0_is_counted_by_its_outcomes():
    """LNK-03, LNK-07: withheld, one by one, released, or without an outcome at the end."""
    broker, events = Broker(), EventTable()
    broker.observe(events)
    broker.management.create(
        "queue", "orders", {"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 1, "qpid.max_count": 3}
    )
    sender, reader = broker.link_session("shop", container="shop"), broker.link_session("bill", container="b")
    sender.link_attach("out", "sender", "orders")
    for _ in range(3):
        sender.message_transfer(Message(10), tag="out")
    with pytest.raises(AmqpException, match="resource-limit-exceeded"):
        sender.message_transfer(Message(10), tag="out")
    reader.link_attach("in", "receiver", "orders")
    reader.message_flow("in", 0, 3)
    reader.message_accept([0])
    sender.link_detach("out", "sender")
    picture = run_picture(Run(Workload("served", 1, {}), events, 0))
    frames = picture.frames
    (shop,), (bill,) = frames.topology.producers, frames.topology.consumers
    assert (shop.capacity, shop.is_measured, bill.name, bill.prefetch) == (3, True, "bill", 3)
    seen = [
        (frame["producer.shop.sent"], frame["producer.shop.outstanding"], frame["producer.shop.held"])
        for frame in map(frames.at, range(frames.count))
    ]
    ends = [(0, 0, 0), (1, 0, 0), (2, 1, 1), (3, 2, 2), (4, 2, 2), (4, 0, 0)]
    assert list(dict.fromkeys(seen)) == ends
    told = [step_sentence(frames, index) for index in range(frames.count)]
    assert "shop sends shop-4. orders has no room: shop-4 is released, and shop continues." in told
    assert frames.at(-1)["consumer.bill.holds"] == 2
    assert "shop sent 4 messages; at most 2 of its 3 transfers were held." in picture.claims


@pytest.mark.parametrize("grain", [0, 50_000])
def test_a_fold_that_forgets_counts_on_as_if_it_had_not(grain):
    """Its numbers, spans and last frames equal those of a fold that keeps everything."""
    run = simulate(two_queues(), message_limit=200)
    whole, topology = Fold(Topology.of(run.workload, run.end), grain), Topology.of(run.workload, run.end)
    part = Fold(topology, grain)
    for end in range(0, len(run.events), 97):
        whole.follow(run.events[:end])
        part.follow(run.events[:end])
        part = part.renew(topology, max(0, part.count - 5))
        kept, seen = part.so_far(run.end), whole.so_far(run.end)
        for back in range(1, min(5, kept.count) + 1):
            assert kept.at(-back) == seen.at(-back)
        for name in seen.lasting:
            shown, left = (
                [
                    {key: value for key, value in row.items() if key in ("number", "group", "queue")}
                    for row in map(frames.lasting[name].row, frames.lasting[name].alive(frames.count - 1))
                ]
                for frames in (seen, kept)
            )
            assert shown == left


def test_clients_may_come_and_go_while_a_fold_counts():
    run = simulate(two_queues(), message_limit=60)
    topology = Topology.of(run.workload, run.end)
    alone = replace(topology, producers=(), consumers=topology.consumers[:1])
    fold_, middle = Fold(alone), len(run.events) // 2
    fold_.follow(run.events[:middle])
    grown = fold_.renew(topology, 0)
    grown.follow(run.events)
    whole = Fold(topology)
    whole.follow(run.events)
    last, same = grown.so_far(run.end).at(-1), whole.so_far(run.end).at(-1)
    assert {name: last[name] for name in last if name.startswith("queue.")} == {
        name: same[name] for name in same if name.startswith("queue.")
    }
    shrunk = grown.renew(alone, grown.count - 1).so_far(run.end)
    assert shrunk.topology.producers == () and shrunk.count == 1


SOURCE = Path(__file__).parents[2] / "qflow" / "labs" / "fold.py"
COLUMNS = {
    **{f"_SENDING_{name}": ("SENDINGS", name.lower()) for name in ("NUMBER", "END")},
    **{f"_{name}": ("SENDINGS", name.lower()) for name in ("HELD_START", "HELD_END")},
    **{
        f"_STAY_{name}": ("STAYS", name.lower())
        for name in ("PRODUCER", "NUMBER", "END", "HELD_START", "HELD_END")
    },
    "_WHY": ("STAYS", "reason"),
    "_AGAIN": ("STAYS", "again"),
    "_HOLDER": ("HOLDINGS", "consumer"),
    "_HOLDING_END": ("HOLDINGS", "end"),
    "_LOCK_END": ("LOCKS", "end"),
}


def test_the_numbers_of_channels_and_columns_are_their_places():
    """The fold uses numbers for speed; the tables of names define what each means."""
    # From the source: compiled, a constant that begins with an underscore is not to be had.
    written = re.findall(r"^(_?[A-Z_]+): Final = (\d+)$", SOURCE.read_text(encoding="utf-8"), re.MULTILINE)
    numbers = {name: int(number) for name, number in written}
    for kind in ("STEP", "PRODUCER", "QUEUE", "CONSUMER"):
        for place, name in enumerate(getattr(fold_module, f"{kind}_CHANNELS"), kind == "STEP"):
            constant = name.upper().replace("DELIVERY_", "GOT_")
            assert numbers[f"{kind[0]}_HELD" if name == "held" else constant] == place, (kind, name)
    for constant, (table, column) in COLUMNS.items():
        assert numbers[constant] == getattr(fold_module, table).index(column), constant
    assert numbers["AFTER_STEP"] == 1 + len(fold_module.STEP_CHANNELS)
    assert numbers["_STAY_WIDTH"] == len(fold_module.STAYS)
