"""Memory: the bytes that a server keeps for all clients together, and its measures when they are too many.

The limits of a single connection are generous, so that a thousand clients at their limits exceed the memory
of a machine.  Three things grow with the clients' actions, and each is counted with the overhead of Python
and Proton:

* **connections**: each one by itself, incomplete frames and messages, and output that is not read;
* **queues**: the bytes of their messages, which only a queue's own limit bounds, and a client may lift it;
* **messages** with few bytes: the engine's objects need more memory than the bytes.

Above the limit the server is *full*.  A message that arrives then is released, as by a full queue (LNK-05); a
further client is refused when it opens; receivers continue, and so make room.  The unfinished and unread
bytes of one client are of no use to the others, so the client that has most of them is closed, and then the
next one, until the rest fits.  Incomplete messages have a smaller limit of their own,
:data:`MOST_UNFINISHED`: a queue full of messages is of use to somebody, an incomplete message is not.

The resident size of the process would include everything, but it does not shrink when memory is freed: a
server that had once been full would remain full.
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
"""The overhead of a message on a queue, and of a queue, in bytes (measured with the pure Python engine)."""
MOST_UNFINISHED: Final = 72 << 20
"""The most bytes of incomplete messages of all clients together, unless the whole memory is smaller."""
LEAST_UNFINISHED: Final = 64 << 10
"""A client with fewer bytes of incomplete messages is not closed."""
WORTH_CLOSING: Final = 1 << 20
"""A client that holds fewer bytes is not closed, as that would free too little."""

# An option of mallopt(3), and the value for it in bytes.
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
        # "max" means no limit; cgroup v1 has a number for that which is larger than any machine's memory.
        with suppress(OSError, ValueError):
            sizes.append(int(Path(path).read_text(encoding="ascii")))
    return min(sizes, default=_UNKNOWN) // _SHARE


def return_large_blocks() -> None:
    """Make the C library return large freed blocks to the system, if it has such a setting."""
    # glibc raises its threshold for that with each large block: a hundred megabytes of incomplete messages,
    # whose buffers grow by doubling, then leave a hundred and fifty more unused (measured).
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def queued_size(queues: Collection[Queue]) -> int:
    """Return the memory of queues and their messages in bytes."""
    # An upper bound: a message on three queues counts three times, although its bytes exist once.
    messages = sum(queue.message_depth for queue in queues)
    content = sum(queue.byte_depth for queue in queues)
    return content + _MESSAGE_OVERHEAD * messages + _QUEUE_OVERHEAD * len(queues)


def find_largest(
    weights: Mapping[Peer, int], surplus: int, now: int, least: int, least_active: int
) -> list[Peer]:
    """Return the clients to close until the surplus is freed: inactive ones first, then by size."""
    # An inactive client (no bytes for a second) is closed if it holds at least `least` bytes, an active one
    # if it holds at least `least_active`. A client that fills the memory and waits is more likely to blame
    # than one that is sending a large message, or settling messages; and few closed clients free much.
    found: list[Peer] = []
    is_active = {peer: now - peer.received < SECOND for peer in weights}
    for peer in sorted(weights, key=lambda peer: (is_active[peer], -weights[peer])):
        if surplus <= 0:
            break
        if weights[peer] >= (least_active if is_active[peer] else least):
            found.append(peer)
            surplus -= weights[peer]
    return found
