"""A state can be passed from one form of the engine to the other; tests/fuzz compares their results.

``QFLOW_TEST_COMPILED`` names the folder where the compiled one is installed.
"""

import json
import os
import subprocess
import sys

import pytest

from qflow.broker import Broker
from qflow.kit import form

pytestmark = pytest.mark.skipif(
    "QFLOW_TEST_COMPILED" not in os.environ or form() == "compiled",
    reason="one form is here, and QFLOW_TEST_COMPILED does not say where the other is",
)

STORY = """
from qflow.broker import Broker, Message
from qflow.trace.timeline import Checkpoint
broker = Broker()
session = broker.session("p")
arguments = {"qpid.flow_stop_count": 3, "qpid.group_header_key": "g", "qpid.shared_msg_group": 1}
session.queue_declare("q", arguments)
reader = broker.session("c")
reader.message_subscribe("q", "t")
reader.message_flow("t", 1, 0xFFFFFFFF)
reader.message_flow("t", 0, 2)
for n in range(9):
    session.message_transfer(Message(n, routing_key="q", headers={"g": f"g{n % 3}"}), sync=True)
reader.message_accept((0,))
reader.message_release((1,))
broker.management.setTimestampConfig(True)
session.message_transfer(Message.of("text", "q", size=50))
"""


def run(*arguments: str) -> str:
    """Run Python with the compiled engine and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.environ["QFLOW_TEST_COMPILED"]}
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_it_says_that_it_is_compiled():
    assert "compiled" in run("-m", "qflow", "--version")


def test_a_state_has_the_same_hash_and_snapshot_in_both_forms():
    names: dict[str, object] = {}
    exec(STORY, names)
    broker = names["broker"]
    assert isinstance(broker, Broker)
    states = "[broker, Broker.restore(broker.snapshot()), Checkpoint(broker).restore()]"
    printed = f"json.dumps([[each.state_hash() for each in {states}], broker.snapshot()])"
    hashes, there = json.loads(run("-c", f"{STORY}\nimport json; print({printed})"))
    assert {*hashes, Broker.restore(there).state_hash()} == {broker.state_hash()}
