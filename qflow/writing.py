"""Writing: a file is written under another name and renamed when it is whole, and never over an input.

A rename would replace a device or a pipe by a file, and cut standard output off from the file it goes to. So
these are opened and written, as ``cp`` does; ``-`` is standard output.

So a full disk or an exception leaves the earlier file as it was, two writers of one file give the file of the
one that ended last, and a reader never sees half of one.
After Ctrl-C, what was written until then is kept where there was no such file before.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qflow.kit import RefusalError


@contextmanager
def write_whole(path: str | Path) -> Iterator[Path]:
    """Yield the path of a temporary file that replaces the target when the block succeeds."""
    if _is_stream(path):
        with _write_through(path) as beside:
            yield beside
        return
    place = Path(path).resolve()
    beside = place.with_name(f".{os.getpid()}-{threading.get_ident()}.part")
    try:
        yield beside
        if place.is_dir():
            raise IsADirectoryError(21, "Is a directory", str(path))
        if place.exists():
            shutil.copymode(place, beside)
        os.replace(beside, place)
    except BaseException as error:
        try:
            if isinstance(error, KeyboardInterrupt) and not place.exists() and beside.exists():
                os.replace(beside, place)
        finally:
            # Even after a second Ctrl-C.
            with suppress(OSError):
                beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise


def _is_stream(path: str | Path) -> bool:
    """Return whether a path is a device, a pipe, or this process' standard output or error."""
    if str(path) == "-" or (found := _stat(path)) is None:
        return str(path) == "-"
    return not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)) or _output_of(path) is not None


def _stat(path: str | Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _output_of(path: str | Path) -> int | None:
    """Return the descriptor of standard output or error if the path leads there, as ``/dev/stdout`` does."""
    if str(path) == "-":
        return 1
    found = _stat(path)
    for stream in (1, 2):
        with suppress(OSError):
            if found is not None and os.path.samestat(found, os.fstat(stream)):
                return stream
    return None


@contextmanager
def _write_through(path: str | Path) -> Iterator[Path]:
    """Yield the path of a temporary file that is then copied to a device, a pipe or an output."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="qflow-") as folder:
        # The name has the ending, by which some writers choose the format.
        beside = Path(folder, Path(path).name)
        yield beside
        output = _output_of(path)
        # Opened by its name, a redirected output would be written from its beginning, over what is there.
        sys.stdout.flush()
        with open(path if output is None else os.dup(output), "wb") as file:
            file.write(beside.read_bytes())


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write a file atomically; text as UTF-8 with line feeds."""
    with write_whole(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


def require_apart(outputs: Iterable[str | Path | None], inputs: Iterable[str | Path | None]) -> None:
    """Refuse to write a file that is also read, or one file twice."""
    taken = {_identity(path): "is read here" for path in inputs if path is not None}
    for path in outputs:
        if path is not None:
            why = taken.setdefault(_identity(path), "")
            if why:
                raise RefusalError(f"{path}: {why}, so it is not written over; give the output another name")
            taken[_identity(path)] = "is written already"


def _identity(path: str | Path) -> object:
    """Return a key that is equal for two names of one file."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    if not stat.S_ISREG(found.st_mode):
        return object()  # two outputs may go to one pipe, or to the null device
    return found.st_dev, found.st_ino
