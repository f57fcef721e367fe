"""QueueDepth: the room that messages reserve on a queue, against its limits (LP-01, LP-02)."""

from __future__ import annotations

from qflow.broker.restorable import Restorable


class QueueDepth(Restorable):
    """Room reserved on a queue against its limits, in messages and bytes; 0 is no limit (LP-01).

    Examples
    --------
    >>> depth = QueueDepth(max_count=3, max_size=0)
    >>> [depth.take_room(100) for _ in range(4)]
    [True, True, True, False]
    """

    __slots__ = ("max_count", "max_size", "count", "size")

    def __init__(self, max_count: int, max_size: int) -> None:
        self.max_count = max_count
        self.max_size = max_size
        self.count = 0
        self.size = 0

    def take_room(self, size: int) -> bool:
        """Count one more message if there is room for it; return whether there was.

        Exactly full is not too much (LP-02).
        """
        count, total = self.count + 1, self.size + size
        if (self.max_count and count > self.max_count) or (self.max_size and total > self.max_size):
            return False
        self.count = count
        self.size = total
        return True

    def give_back(self, size: int) -> None:
        """Count one message less."""
        self.count -= 1
        self.size -= size

    def refusal(self, queue: str, size: int) -> str:
        """Return the broker's words for a breach (LP-03)."""
        current = _depth_text(True, self.count, bool(self.max_size), self.size)
        allowed = _depth_text(bool(self.max_count), self.max_count, bool(self.max_size), self.max_size)
        increment = _depth_text(True, 1, True, size)
        return f"Maximum depth exceeded on {queue}: current={current}, max={allowed}, increment={increment}"


def _depth_text(has_count: bool, count: int, has_size: bool, size: int) -> str:
    parts = [f"count: {count}"] if has_count else []
    parts += [f"size: {size}"] if has_size else []
    return f"[{', '.join(parts)}]"
