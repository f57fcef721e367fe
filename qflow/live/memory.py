"""Memory: the bytes that a server keeps for all its clients together, and its answer when they are too many.

Each limit of one connection is generous, so a thousand of them are more than a machine has.  Three things
grow with what clients do, and each is counted as it is, with what Python and Proton add to it:

* **connections**: each by itself, frames and messages whose end has not come, output that is not read;
* **queues**: their messages' bytes, which only a queue's own limit holds down, and a client may lift that;
* **messages** with few bytes: the engine's objects weigh more than the bytes.

Above the limit the server is *full*.  A message that arrives then finds no room, as on a queue that is at its
limit, and is released (LNK-05); a further client is refused when it opens; receivers go on, and make room.
What one client keeps unfinished or unread nobody else can use up, so the client that has most of that is
closed, and the next, until what is left fits.  Messages whose end has not come have a smaller limit of their
own, :data:`MOST_UNFINISHED`: a queue that is full of messages is of use to somebody, a half message is not.

The process's resident size would count everything, but it does not shrink when memory is freed: a server
that was full once would stay so.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from qflow.workload.agenda import SECOND

if TYPE_CHECKING:
    from qflow.broker.queue import Queue
    from qflow.live.peer import Peer

_MESSAGE_OVERHEAD: Final = 1_536
_QUEUE_OVERHEAD: Final = 8 << 10
"""Bytes that a message on a queue and a queue weigh beside what they hold (measured, not compiled)."""
MOST_UNFINISHED: Final = 72 << 20
"""Bytes of unfinished messages of all clients together, if the whole memory is not less."""
LEAST_UNFINISHED: Final = 64 << 10
"""A client with less of that is not closed."""
WORTH_CLOSING: Final = 1 << 20
"""A client that keeps less than this is not closed: it does not fill the memory."""

# An option of mallopt(3), and its value in bytes.
_M_MMAP_THRESHOLD, _LARGE_BLOCK = -3, 1 << 18

_SHARE = 4
_CGROUPS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_UNKNOWN = 4 << 30


def default_memory() -> int:
    """Return a quarter of the memory of the machine or its container, in bytes."""
    sizes = []
    with suppress(AttributeError, OSError, ValueError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _CGROUPS:
        # "max" is no limit; nor is what a first cgroup has there then, more than any machine.
        with suppress(OSError, ValueError):
            sizes.append(int(Path(path).read_text(encoding="ascii")))
    return min(sizes, default=_UNKNOWN) // _SHARE


def return_large_blocks() -> None:
    """Have the C library return large freed blocks to the system, where it has such a setting."""
    # glibc raises the size from which it does that with each such block: a hundred megabytes of unfinished
    # messages, which grow by doubling, then leave holes of another hundred and fifty (measured).
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def queued_size(queues: Collection[Queue]) -> int:
    """Return the weight of queues and their messages in bytes."""
    # A message on three queues counts thrice, although its bytes are there once: an upper bound.
    messages = sum(queue.message_depth for queue in queues)
    content = sum(queue.byte_depth for queue in queues)
    return content + _MESSAGE_OVERHEAD * messages + _QUEUE_OVERHEAD * len(queues)


def find_largest(
    weights: Mapping[Peer, int], surplus: int, now: int, least: int, least_active: int
) -> list[Peer]:
    """Return the clients to close: those that have sent nothing for a second first, then the largest."""
    # One that waits is closed if it weighs at least `least`, one that sends if it weighs `least_active`.
    # Who fills the memory and waits is more likely to blame than who is in the middle of a large message, or
    # settles what others wait for; and closing few frees much.
    found: list[Peer] = []
    is_active = {peer: now - peer.received < SECOND for peer in weights}
    for peer in sorted(weights, key=lambda peer: (is_active[peer], -weights[peer])):
        if surplus <= 0:
            break
        if weights[peer] >= (least_active if is_active[peer] else least):
            found.append(peer)
            surplus -= weights[peer]
    return found
