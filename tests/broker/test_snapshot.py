"""Snapshot, restore and state hash: a restored broker continues as if nothing had happened."""

import json
import os
import subprocess
import sys
from uuid import UUID

import pytest
from support import WINDOW, Bench, through_json, visible

from qflow.broker import Broker, Message
from qflow.broker.errors import AmqpException
from qflow.broker.snapshot import FORMAT, SnapshotError
from qflow.conformance import load_scenarios
from qflow.conformance.scenario_player import Player, normalize, observe


class RestoringPlayer(Player):
    """A player whose broker can be exchanged for a restored one in the middle of a scenario."""

    def exchange_broker(self) -> None:
        before = self.broker.state_hash()
        self.broker = through_json(self.broker)
        assert self.broker.state_hash() == before
        self.broker.observe(self._take)
        for name, client in self.clients.items():
            client.session = self.broker.sessions[name]

            def deliver(record, client=client, name=name):
                self._deliver(client, name, record)

            client.session.consuming.on_delivery = deliver


RECORDED = ["hand", "random-groups-flow", "random-tx", "random-exchanges", "random-credit", "random-priority"]


@pytest.mark.parametrize("name", RECORDED)
def test_recordings_go_on_after_a_restore(root, name):
    """Every few steps the broker is written to JSON and read back; all continues as recorded."""
    path = root / "data" / "recordings" / "scenarios" / f"{name}.jsonl"
    exchanged = 0
    for scenario in list(load_scenarios(path))[::4]:
        player = RestoringPlayer(scenario.broker)
        for number, step in enumerate(scenario.steps):
            if number % 9 == 8:
                player.exchange_broker()
                exchanged += 1
            player.play(step)
            seen, wanted = observe(player), normalize(step["expect"])
            assert seen == wanted, f"{scenario.id}, step {number + 1}"
    assert exchanged > 10


def full_bench() -> Bench:
    """A broker with something of everything."""
    bench = Bench(enable_timestamp=True)
    bench.declare("fifo", flow_stop_count=1, alert_count=2, alternate="amq.fanout")
    bench.declare("lvq", last_value_queue_key="k")
    bench.declare("priority", priorities=5, fairshare=2)
    bench.declare("ring", policy_type="ring", max_count=2)
    bench.declare("auto", auto_delete_timeout=5)
    bench.declare("own", {"no-local": True}, by="c", exclusive=True)
    bench.group("grouped")
    bench.exchange("x", "headers", alternate="amq.topic")
    bench.bind("fifo", "x", "k", {"x-match": "any", "a": 1, "b": None})
    headers = {
        "text": "ä", "big": 2**63, "float": 1.5, "none": None, "bytes": b"\x00\xff", "uuid": UUID(int=5),
        "list": [1, "two", None], "map": {"deep": [True]},
    }  # fmt: skip
    bench.session("p").message_transfer(
        Message(7, routing_key="fifo", headers=headers, priority=3, ttl=10**6, message_id=UUID(int=6))
    )
    bench.send("fifo", 3)
    bench.session("p").execution_sync()
    bench.send("lvq", 2, headers={"k": 1})
    for priority in (1, 9, 5):
        bench.send("priority", priority=priority)
    bench.send("ring", 3)
    bench.send_groups("grouped", "A-1 B-2 A-3")
    bench.read("grouped", "c", messages=1)
    bench.read("fifo", "c", "w", messages=2, mode=WINDOW).accept()
    bench.read("priority", "b", browse=True, messages=2)
    bench.idle("auto", "b", "t").cancel()
    session = bench.session("t")
    session.tx_select()
    bench.send("lvq", by="t", headers={"k": 2})
    bench.read("lvq", "t").accept()
    bench.send("nowhere")
    bench.session("gone").close()
    bench.ctl.exchange_declare("dying", "fanout")
    bench.bind("fifo", "dying")
    bench.send("", exchange="dying", by="last sender")
    bench.ctl.exchange_delete("dying")
    return bench


CONTINUATIONS = [
    lambda b: b.sessions["t"].tx_commit(),
    lambda b: b.sessions["c"].close(),
    lambda b: b.advance(b.now + 6_000_000),
    lambda b: b.sessions["ctl"].queue_delete("fifo"),
    lambda b: b.sessions["p"].message_transfer(Message(9, routing_key="priority", priority=9)),
    lambda b: b.sessions["b"].message_flow("s", 0, 5),
    lambda b: b.management.queueMoveMessages("ring", "priority"),
    lambda b: b.sessions["last sender"].close(),
    lambda b: b.sessions["c"].session_completed(range(5)),
]


def test_a_restored_broker_is_the_same():
    """Everything that can be seen, and the hash; also of the restored one's own snapshot."""
    bench = full_bench()
    twin = through_json(bench.broker)
    assert visible(twin) == visible(bench.broker)
    assert twin.state_hash() == bench.broker.state_hash()
    assert twin.snapshot() == bench.broker.snapshot()


@pytest.mark.parametrize("first", range(len(CONTINUATIONS)))
def test_a_restored_broker_goes_on_the_same(first):
    """Same commands, same events, same hash, whatever comes first."""
    broker = full_bench().broker
    twin = through_json(broker)
    for command in CONTINUATIONS[first:] + CONTINUATIONS[:first]:
        told: list[list] = [[], []]
        for side, made in zip((broker, twin), told, strict=True):
            side.observe(made.append)
            try:
                command(side)
            except AmqpException as error:
                made.append(str(error))
        assert told[0] == told[1]
        assert broker.state_hash() == twin.state_hash()


def test_twins_are_independent():
    """What happens to the one does not happen to the other, nor to the snapshot."""
    broker = full_bench().broker
    snapshot = broker.snapshot()
    kept = json.dumps(snapshot)
    twin = Broker.restore(snapshot)
    before = broker.state_hash()
    twin.sessions["ctl"].queue_delete("fifo")
    twin.sessions["c"].close()
    assert broker.state_hash() == before
    assert json.dumps(snapshot) == kept
    assert "fifo" not in twin.queues.queues


def test_looking_changes_nothing():
    """Statistics, query, snapshot and hash leave the state as it is."""
    bench = full_bench()
    before = bench.broker.state_hash()
    visible(bench.broker)
    bench.broker.snapshot()
    bench.broker.management.query("queue", "grouped")
    assert bench.broker.state_hash() == before


def test_observers_and_client_hooks_are_no_state():
    """They are not part of a snapshot, and do not change the hash."""
    bench = full_bench()
    before = bench.broker.state_hash()
    bench.broker.observe(None)
    bench.session("p").completions.on_report = print
    bench.session("c").consuming.on_delivery = print
    assert bench.broker.state_hash() == before
    twin = through_json(bench.broker)
    assert twin.observer is None
    assert twin.sessions["c"].consuming.on_delivery is None


@pytest.mark.parametrize("command", range(len(CONTINUATIONS)))
def test_the_hash_tells_states_apart(command):
    """Each of these commands changes it."""
    broker = full_bench().broker
    before = broker.state_hash()
    CONTINUATIONS[command](broker)
    assert broker.state_hash() != before


def put(row: int, column: int, value: object):
    """Return a change of one cell of the table of objects."""

    def change(snapshot: dict) -> dict:
        snapshot["objects"][row][column] = value
        return snapshot

    return change


def cut(snapshot: dict) -> dict:
    del snapshot["objects"][20:]
    return snapshot


def lose_a_field(snapshot: dict) -> dict:
    snapshot["objects"][5][1].pop()
    return snapshot


DAMAGE = [
    pytest.param(lambda s: [1], id="no mapping"),
    pytest.param(lambda s: {"objects": s["objects"]}, id="no format"),
    pytest.param(lambda s: {**s, "format": "qflow broker 0"}, id="another version"),
    pytest.param(lambda s: {"format": FORMAT}, id="no objects"),
    pytest.param(lambda s: {"format": FORMAT, "objects": []}, id="an empty table"),
    pytest.param(lambda s: {"format": FORMAT, "objects": 3}, id="a table that is none"),
    pytest.param(put(5, 0, "queue.NoSuchClass"), id="an unknown class"),
    pytest.param(put(5, 0, "no_such_module.Thing"), id="an unknown module"),
    pytest.param(put(0, 0, "message.Message"), id="not of a broker"),
    pytest.param(lose_a_field, id="a field is missing"),
    pytest.param(cut, id="references into nothing"),
]


@pytest.mark.parametrize("change", DAMAGE)
def test_a_damaged_snapshot_is_refused_with_its_reason(change):
    """One error, which says why; no half-made broker."""
    snapshot = json.loads(json.dumps(full_bench().broker.snapshot()))
    with pytest.raises(SnapshotError):
        Broker.restore(change(snapshot))


PROGRAM = """
import hashlib, sys
from qflow.conformance import load_scenarios
from qflow.conformance.scenario_player import Player
digest = hashlib.sha256()
for path in sys.argv[1:]:
    for scenario in list(load_scenarios(path))[::8]:
        player = Player(scenario.broker)
        for step in scenario.steps:
            player.play(step)
        digest.update(player.broker.state_hash().encode())
print(digest.hexdigest())
"""


def test_the_same_in_every_process(root):
    """Ties never depend on hashing: the same commands, the same hash under any PYTHONHASHSEED."""
    folder = root / "data" / "recordings" / "scenarios"
    paths = [str(folder / f"{name}.jsonl") for name in ("hand", "random-groups-flow", "random-exchanges")]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *paths],
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in ("0", "4242")
    ]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0]
    assert len(printed[0].strip()) == 64
    assert printed[0] == printed[1]
