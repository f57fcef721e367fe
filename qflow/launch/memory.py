"""How much memory is free, as each system tells it."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_LIMITS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def free_memory() -> float | None:
    """Return the gigabytes a new program could have, or None where the system does not say.

    In a container this is what its limit leaves, not what the machine has.

    Examples
    --------
    >>> free = free_memory()
    >>> free is None or free > 0
    True
    """
    known = [value for value in (_of_system(), _of_container()) if value is not None]
    return min(known) / 1e9 if known else None


def _of_system() -> int | None:
    if sys.platform == "win32":
        return _of_windows()
    if _MEMINFO.exists():
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return None


def _of_container() -> int | None:
    for limit, used in _LIMITS:
        try:
            return int(limit.read_text(encoding="ascii")) - int(used.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue  # no such file, or the word "max": there is no limit
    return None


def _of_windows() -> int | None:
    class Status(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ulong), ("load", ctypes.c_ulong)] + [
            (name, ctypes.c_ulonglong)
            for name in ("total", "free", "pages", "free_pages", "all", "free_all", "more")
        ]

    status = Status(length=ctypes.sizeof(Status))
    ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined,unused-ignore]
    return int(status.free)
