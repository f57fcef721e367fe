"""The compiled engine does what the readable one does.

``QFLOW_TEST_COMPILED`` names the folder where it is installed, or is 1 to have it built, which takes half a
minute.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from qflow.broker import Broker
from qflow.kit import COMPILED
from qflow.labs import flow_run, history_run, policy_run

pytestmark = [
    pytest.mark.release,
    pytest.mark.skipif("QFLOW_TEST_COMPILED" not in os.environ, reason="QFLOW_TEST_COMPILED is not set"),
]

STORY = """
from qflow.broker import Broker, Message
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


@pytest.fixture(scope="module")
def site(root, tmp_path_factory) -> Path:
    """A compiled wheel, installed or unpacked as an installer would."""
    if (installed := Path(os.environ["QFLOW_TEST_COMPILED"])).is_dir():
        return installed
    folder, site = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(
        command, cwd=root, env={**os.environ, "QFLOW_COMPILE": "1"}, check=True, capture_output=True
    )
    (path,) = folder.glob("*.whl")
    assert not path.name.endswith("none-any.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(site)
    return site


def run(site: Path, *arguments: str) -> str:
    """Run Python with the compiled engine and return what it prints."""
    environment = {**os.environ, "PYTHONPATH": str(site)}
    command = [sys.executable, "-P", *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_it_says_that_it_is_compiled(site):
    assert COMPILED in run(site, "-m", "qflow", "--version")


def test_every_recorded_scenario_agrees(site, root):
    scenarios = sorted(map(str, (root / "data" / "recordings" / "scenarios").glob("*.json*")))
    verdicts = run(site, "-m", "qflow", "conform", *scenarios)
    assert "agree: 770 of 770" in verdicts


def test_an_audit_goes_on_from_its_state_as_text(site):
    """As a stream does after every step, and each piece of a component that is cut."""
    code = (
        "from qflow.logs.audit import Auditor; from qflow.logs.components import lake_of\n"
        "from qflow.trace import LogRow; from qflow.workload import Producer, Workload\n"
        "sender = Producer('p', ('', 'q'), rate=9, capacity=9, size=1)\n"
        "workload = Workload('log', 1, {'q': {}}, producers=(sender,))\n"
        "rows = [LogRow(n, 'p', 'transfer', 'q', f'p-{n}', 1, '') for n in (1, 2, 3)]\n"
        "(rows,) = lake_of('log', workload, rows).values()\n"
        "first = Auditor('log/q'); first.feed(rows[:3]); second = Auditor('log/q', first.state())\n"
        "print(len(second.feed(rows[3:])), second.next_seq)"
    )
    assert run(site, "-c", code) == "1 5\n"


def test_a_state_has_the_same_hash_and_snapshot_in_both_forms(site):
    names: dict[str, object] = {}
    exec(STORY, names)
    broker = names["broker"]
    assert isinstance(broker, Broker)
    printed = "json.dumps([Broker.restore(broker.snapshot()).state_hash(), broker.snapshot()])"
    there_hash, there = json.loads(run(site, "-c", f"{STORY}\nimport json; print({printed})"))
    assert there_hash == broker.state_hash()
    assert Broker.restore(there).state_hash() == there_hash


RESTORED = """
from qflow.trace.timeline import Checkpoint
print(Checkpoint(broker).restore().state_hash() == broker.state_hash())
"""


def test_time_can_be_taken_back_in_both_forms(site):
    assert run(site, "-c", STORY + RESTORED).strip() == "True"


REFUSED = """
try:
    session.message_transfer(7)
except TypeError:
    print("refused")
"""


def test_a_wrong_type_is_refused_in_both_forms(site):
    assert run(site, "-c", STORY + REFUSED).strip() == "refused"
    with pytest.raises(TypeError):
        Broker().session("s").message_transfer(7)  # type: ignore[arg-type]


def test_labs_show_the_same_in_both_forms(site):
    shown = [flow_run(messages=60), history_run(messages=80), policy_run(messages=60)]
    script = """from qflow.labs import flow_run, history_run, policy_run
for shown in (flow_run(messages=60), history_run(messages=80), policy_run(messages=60)):
    print(*shown.claims, sep="\\n")"""
    assert run(site, "-c", script).splitlines() == [claim for one in shown for claim in one.claims]
