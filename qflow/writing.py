"""Writing: a file is written beside its place and put there when it is whole, and never over what is read.

So a full disk or an exception leaves the earlier file as it was, two writers of one file give the file of the
one that ended last, and a reader never sees half of one.
After Ctrl-C, what was written until then is kept where there was no such file before.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from qflow.kit import RefusalError


@contextmanager
def write_whole(path: str | Path) -> Iterator[Path]:
    """Yield the path of a file beside another, which takes that one's place when the block is done."""
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


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write a file whole; a text as UTF-8, with line feeds alone."""
    with write_whole(path) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


def require_apart(outputs: Iterable[str | Path | None], inputs: Iterable[str | Path | None]) -> None:
    """Refuse to write a file that is read, or one file twice."""
    taken = {_identity(path): "is read here" for path in inputs if path is not None}
    for path in outputs:
        if path is not None:
            why = taken.setdefault(_identity(path), "")
            if why:
                raise RefusalError(f"{path}: {why}, so it is not written over; give the output another name")
            taken[_identity(path)] = "is written already"


def _identity(path: str | Path) -> object:
    """Return what two names of one file have in common."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino
