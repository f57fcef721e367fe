"""Labels of messages, and their run-length packed lists (recordings' FORMAT, section Labels)."""

from __future__ import annotations

import re
from collections.abc import Iterable

_RUN = re.compile(r"(.*?)(\d+)\.\.(\d+)(\*?)")
_ONE = re.compile(r"(.*?)(\d+)(\*?)")


def unpack(packed: Iterable[str]) -> list[str]:
    """Return every label of a packed list.

    Examples
    --------
    >>> unpack(["p1-3..5", "A-1", "x-1..2*"])
    ['p1-3', 'p1-4', 'p1-5', 'A-1', 'x-1*', 'x-2*']
    """
    labels: list[str] = []
    for item in packed:
        run = _RUN.fullmatch(item)
        if run is None:
            labels.append(item)
        else:
            stem, first, last, star = run.groups()
            labels += [f"{stem}{number}{star}" for number in range(int(first), int(last) + 1)]
    return labels


def pack(labels: Iterable[str]) -> list[str]:
    """Return a list with runs of consecutive labels joined, as in the recordings.

    Examples
    --------
    >>> pack(["p1-3", "p1-4", "p1-5", "A-1", "x-1*", "x-2*"])
    ['p1-3..5', 'A-1', 'x-1..2*']
    """
    packed: list[str] = []
    current: tuple[str, int, int, str] | None = None
    for label in labels:
        one = _ONE.fullmatch(label)
        if one is None:
            current = None
            packed.append(label)
            continue
        stem, number, star = one[1], int(one[2]), one[3]
        if current is not None and (stem, number, star) == (current[0], current[2] + 1, current[3]):
            current = (stem, current[1], number, star)
            packed[-1] = f"{stem}{current[1]}..{number}{star}"
        else:
            current = (stem, number, number, star)
            packed.append(label)
    return packed
