"""Writing of output files, which is atomic, and which never overwrites an input file.

An output is written to a temporary file beside the target, and renamed to the target when it is complete.
So a full disk or an exception leaves the earlier file as it was, a reader never sees half of a file, and of
two processes that write the same file the one that finishes last determines its content.  After Ctrl-C, an
incomplete output is kept if there was no such file before.

Devices, pipes and the file to which standard output is redirected are the exception: a rename would replace
the device or pipe by a file, or disconnect standard output from its file.  They are opened and written, as
``cp`` does.  The path ``-`` means standard output.
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
            # This runs even after a second Ctrl-C.
            with suppress(OSError):
                beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)
        raise


def _is_stream(path: str | Path) -> bool:
    """Return whether a path is a device, a pipe, or this process's standard output or standard error."""
    if str(path) == "-" or (found := _stat(path)) is None:
        return str(path) == "-"
    return not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)) or _output_of(path) is not None


def _stat(path: str | Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _output_of(path: str | Path) -> int | None:
    """Return 1 or 2 if a path, such as ``/dev/stdout``, is standard output or error, and None otherwise."""
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
    """Yield the path of a temporary file, and then copy that file to a device, a pipe or standard output."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="qflow-") as folder:
        # The temporary file keeps the file extension, as some writers choose the format by it.
        beside = Path(folder, Path(path).name)
        yield beside
        output = _output_of(path)
        # A redirected standard output that is opened by its name would be overwritten from its beginning.
        sys.stdout.flush()
        with open(path if output is None else os.dup(output), "wb") as file:
            file.write(beside.read_bytes())


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write a file atomically; a text is encoded as UTF-8, with its line feeds unchanged."""
    with write_whole(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


def require_apart(outputs: Iterable[str | Path | None], inputs: Iterable[str | Path | None]) -> None:
    """Raise RefusalError if an output is also an input, or if two outputs are the same file."""
    taken = {_identity(path): "is read here" for path in inputs if path is not None}
    for path in outputs:
        if path is not None:
            why = taken.setdefault(_identity(path), "")
            if why:
                raise RefusalError(f"{path}: {why}, so it is not written over; give the output another name")
            taken[_identity(path)] = "is written already"


def _identity(path: str | Path) -> object:
    """Return a key that is equal for two paths of the same file."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    if not stat.S_ISREG(found.st_mode):
        return object()  # two outputs may go to one pipe, or to the null device
    return found.st_dev, found.st_ino
