"""A good guest: on a user's own session, classic or of Spark Connect, no setting is another afterwards.

All paths are those of a second Hadoop file system, so that Spark's readers and writers are all that is used.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recordings import WORKLOADS
from spark_kit import SOME, beginning_of, fleet, fleet_results, write_lake, write_log

from qflow.kit import RefusalError
from qflow.logs.components import audit_in_memory as audit
from qflow.logs.components import result_hash

pytest.importorskip("pyspark")


def prepare(folder):
    """Write what the program reads, and return what it has to give."""
    from qflow.spark.sweep import AS_RECORDED, _measure_component

    write_log(folder / "fleet.parquet", fleet()[1])
    shutil.copy(WORKLOADS / "fleet.json", folder)
    few = {name: beginning_of(name, 1) for name in SOME}
    write_lake(folder / "few", few)
    cells = [row for name, rows in few.items() for row in _measure_component(name, rows, [AS_RECORDED])]
    return {
        "audit": result_hash(fleet_results()),
        "sweep": result_hash(cells),
        "stream": result_hash(audit(few)),
        "changed": [],
        "set_aside": 0,
    }


@pytest.mark.release
@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_a_users_session_is_as_it_was_and_the_results_are_the_same(root, tmp_path, kind):
    if kind == "connect":
        pytest.importorskip("grpc")
        pytest.importorskip("grpc_status")
    expected = prepare(tmp_path)
    program = Path(__file__).with_name("guest_session.py")
    path = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    command, env = [sys.executable, program, kind, tmp_path], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {name: found[name] for name in expected} == expected
    assert ("connect" in found["kind"]) == (kind == "connect")
    assert found["page"] > 500
    # As many as the session has for every shuffle.
    assert found["tasks"] == 3


@pytest.mark.parametrize("has", ["false", "none"])
def test_a_session_that_is_there_is_refused_for_what_it_does_not_have(spark, has):
    """Spark reads some settings as truth values or numbers, and refuses any other word for them."""
    from qflow.spark.spark_session import session

    name = {"false": "spark.sql.codegen.wholeStage", "none": "spark.sql.session.charset"}[has]
    with pytest.raises(RefusalError, match=f"{name}=true is required, .* has {has}: set it there"):
        session(**{name.replace(".", "__"): "true"})
