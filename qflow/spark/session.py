"""The Spark session: one a process, the same settings for chapters, commands and tests."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.spark.java import find_java, log_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,
    # One file of a lake is one task, read from its first row to its last: its order is all that counts.
    "spark.sql.files.maxPartitionBytes": "1t",
    "spark.sql.files.openCostInBytes": "1t",
}
"""What every session of qflow has."""

LOCAL_SETTINGS = {
    "spark.driver.memory": "1g",
    # Faster to start and smaller: the work is done by Python.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""What a session on this machine has besides."""


def session(master: str | None = None, **settings: str) -> SparkSession:
    """Return the Spark session of this process, started if there is none.

    Workers use the Python of the driver, unless ``PYSPARK_PYTHON`` says otherwise.

    Parameters
    ----------
    master : str or None
        Such as ``local[2]``, ``yarn`` or ``k8s://...``.  None for what ``spark-submit`` says, else
        ``local[2]``.
    **settings : str
        More of Spark's own settings, dots written as ``__``: ``spark__driver__memory="2g"``.

    Raises
    ------
    RefusalError
        If pyspark or a Java that it runs on is missing, or Spark does not start.
    """
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise RefusalError("this needs pyspark: pip install 'qflow[spark]'") from None
    given = {name.replace("__", "."): value for name, value in settings.items()}
    if SparkContext._active_spark_context is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return _adopt(SparkSession, given)
    home = find_java()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    master = master or os.environ.get("MASTER") or "local[2]"
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        given = {**LOCAL_SETTINGS, **given}
    return _start(master, {**SETTINGS, **given})


def stop() -> None:
    """End the session of this process, if there is one; the next may have another master."""
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()


def _start(master: str, settings: dict[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    configuration = SparkConf(loadDefaults=False).setMaster(master).setAppName("qflow")
    for name, value in settings.items():
        configuration.set(name, value)
    try:
        gateway: Any = SparkContext._gateway
        if gateway is None:
            with _ctrl_c_afterwards(), open(log_file(), "ab") as log:
                gateway = launch_gateway(configuration, popen_kwargs={"stderr": log, "stdout": log})
        context = SparkContext(conf=configuration, gateway=gateway)
    except (PySparkException, OSError) as error:
        words = str(error).strip().splitlines()[0]
        raise RefusalError(f"Spark does not start on {master}: {words} (see {log_file()})") from None
    return SparkSession(context)


@contextmanager
def _ctrl_c_afterwards() -> Iterator[None]:
    """Hold Ctrl-C back for a moment: a Java whose start is broken off half-way stays behind for good."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def _adopt(kind: type[SparkSession], settings: dict[str, str]) -> SparkSession:
    """Use the session that is there, of ``spark-submit`` or of a notebook service."""
    spark = kind.builder.getOrCreate()
    for name, value in {**SETTINGS, **settings}.items():
        if spark.conf.isModifiable(name):
            spark.conf.set(name, value)
    return spark
