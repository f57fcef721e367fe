"""A user's own session, used from end to end: a program, as a process has one session and one kind of it.

    python guest_session.py classic|cluster|connect FOLDER [--no-stream]

FOLDER has a log ``fleet.parquet`` and its workload. All paths go by a second file system (viewfs), the
session has settings that qflow would not choose, and none may be another afterwards. Printed as JSON.
"""

import json
import os
import sys
from contextlib import suppress

from qflow.logs.components import result_hash

SETTINGS = {
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.files.maxPartitionBytes": "64k",
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def own_session(kind, folder):
    """Return a session as a user starts one."""
    from pyspark.sql import SparkSession

    from qflow.spark.spark_session import find_java

    home = find_java()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.remote("local[2]") if kind == "connect" else SparkSession.builder
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.hadoop.fs.viewfs.mounttable.fleet.link./all", f"file:{folder}")
    if kind == "cluster":
        # Workers are processes of their own, on this machine.
        builder = builder.master("local-cluster[2,1,1024]").config("spark.executor.memory", "1g")
    elif kind == "classic":
        builder = builder.master("local[2]")
    return builder.getOrCreate()


def settings_of(spark):
    """Return all that is set on a session."""
    return {row.key: row.value for row in spark.sql("SET").collect()}


def main(kind, folder):
    """Use all of qflow.spark on it."""
    from qflow.spark import AS_RECORDED, session
    from qflow.spark.figures import report_day
    from qflow.spark.ingest import make_lake
    from qflow.spark.lake_audit import audit_to, without_logs
    from qflow.spark.stream import audit_stream, read_results, read_stream, start
    from qflow.spark.sweep import sweep

    spark = own_session(kind, folder)
    import pyspark

    before = settings_of(spark)
    spark, at = session(), "viewfs://fleet/all"
    done = {"version": pyspark.__version__, "kind": type(spark).__module__}
    report = make_lake(spark, [f"{at}/fleet.parquet"], f"{at}/lake", buckets=3, day="2026-11-27")
    done["events"], done["set_aside"] = report.events, report.quarantined
    results = without_logs(audit_to(spark, f"{at}/lake", f"{at}/results"))
    done["audit"] = result_hash(results.collect())
    done["page"] = len(report_day(spark, f"{at}/results").page())
    with suppress(FileNotFoundError):
        swept = sweep(spark, f"{at}/few", [AS_RECORDED], f"{at}/sweep")
        done["sweep"] = result_hash(swept.collect())
    if "--no-stream" not in sys.argv:
        stream = read_stream(spark, f"{at}/few")
        query = start(audit_stream(stream, ends_count=True), f"{at}/live", once=True)
        query.awaitTermination()
        done["stream"] = result_hash(read_results(spark, f"{at}/live").collect())
        done["tasks"] = tasks_of(query)
    after = settings_of(spark)
    done["changed"] = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    print(json.dumps(done))
    spark.stop()


def tasks_of(query):
    """Return in how many tasks the stateful stage of a stream ran."""
    return query.lastProgress["stateOperators"][0]["numShufflePartitions"]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
