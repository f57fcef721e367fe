"""An audit of one table on a session that a user starts: a program, as a process has one kind of session.

    python fleet_session.py cluster|connect TABLE WORKLOADS FOLDER

Lake and results are written to FOLDER; the hash of the results is printed, as JSON.
"""

import json
import sys

from fleet_table import MAP
from guest_session import own_session

from qflow.logs.components import result_hash
from qflow.spark.events_table import EventsTable, make_lake_of_table
from qflow.spark.lake_audit import audit_to, without_logs


def main(kind, place, workloads, folder):
    """Audit the table."""
    spark = own_session(kind, folder)
    table = EventsTable(place, workloads, columns=MAP, component="app")
    report = make_lake_of_table(spark, table, f"{folder}/lake", 3, "2026-11-27")
    results = without_logs(audit_to(spark, f"{folder}/lake", f"{folder}/out"))
    done = {"kind": type(spark).__module__, "quarantined": report.quarantined}
    print(json.dumps({**done, "audit": result_hash(results.collect())}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
