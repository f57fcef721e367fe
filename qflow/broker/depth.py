"""QueueDepth: the room that messages reserve on a queue, against its limits (LP-01, LP-02)."""

from __future__ import annotations


class QueueDepth:
    """Room reserved on a queue against its limits, in messages and bytes; 0 is no limit (LP-01).

    Examples
    --------
    >>> depth = QueueDepth(max_count=3, max_size=0)
    >>> depth.reserve(100); depth.is_exceeded_by(100)
    False
    >>> depth.reserve(100); depth.reserve(100); depth.is_exceeded_by(1)
    True
    """

    __slots__ = ("max_count", "max_size", "count", "size")

    def __init__(self, max_count: int, max_size: int) -> None:
        self.max_count = max_count
        self.max_size = max_size
        self.count = 0
        self.size = 0

    def is_exceeded_by(self, size: int) -> bool:
        """Return whether one more message of ``size`` bytes is too much; exactly full is not (LP-02)."""
        if self.max_count and self.count + 1 > self.max_count:
            return True
        return bool(self.max_size) and self.size + size > self.max_size

    def reserve(self, size: int) -> None:
        """Count one more message."""
        self.count += 1
        self.size += size

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
