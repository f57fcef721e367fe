"""Memory: the bytes that a server keeps for all its clients together, and its answer when they are too many.

Each limit of one connection is generous, so a thousand of them are more than a machine has.  Three things
grow with what clients do, and each is counted as it is, with what Python and Proton add to it:

* **connections**: each by itself, frames and messages whose end has not come, output that is not read;
* **queues**: their messages' bytes, which only a queue's own limit holds down, and a client may lift that;
* **messages** with few bytes: the engine's objects weigh more than the bytes.

Above the limit the server is *full*.  A message that arrives then finds no room, as on a queue that is at its
limit, and is released (LNK-05); a further client is refused when it opens; receivers go on, and make room.
What one client keeps unfinished or unread nobody else can use up, so the client that has most of that is
closed, and the next, until what is left fits.

The process's resident size would count everything, but it does not shrink when memory is freed: a server
that was full once would stay so.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from qflow.broker.queue import Queue
    from qflow.live.peer import Peer

MESSAGE_OVERHEAD: Final = 1_536
QUEUE_OVERHEAD: Final = 8 << 10
"""Bytes that a message on a queue and a queue weigh beside what they hold (measured, not compiled)."""
WORTH_CLOSING: Final = 1 << 20
"""A client that keeps less than this is not closed: it is none of those who fill the memory."""

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


def queued_size(queues: Collection[Queue]) -> int:
    """Return the weight of queues and their messages in bytes."""
    # A message on three queues counts thrice, although its bytes are there once: an upper bound.
    messages = sum(queue.message_depth for queue in queues)
    content = sum(queue.byte_depth for queue in queues)
    return content + MESSAGE_OVERHEAD * messages + QUEUE_OVERHEAD * len(queues)


def find_largest(peers: Collection[Peer], surplus: int) -> list[Peer]:
    """Return the clients to close to free ``surplus`` bytes: those that keep most, largest first."""
    # Whoever has most of it is more likely to blame than whoever came last, and closing few frees much.
    found: list[Peer] = []
    for peer in sorted(peers, key=lambda peer: -peer.held):
        if surplus <= 0 or peer.held < WORTH_CLOSING:
            break
        found.append(peer)
        surplus -= peer.held
    return found
