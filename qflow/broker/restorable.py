"""Restorable: what all parts of a broker's state have in common."""

from __future__ import annotations

from typing import Any, ClassVar

from qflow.broker.compiler_mark import mypyc_attr


@mypyc_attr(serializable=True)
class Restorable:
    """A part that a snapshot or a checkpoint can make without its constructor, to fill in its fields after.

    Interpreted classes can be made so anyway; compiled ones need the mark.
    """

    ONLY_COUNTS: ClassVar[bool] = False
    """Whether a part, with every queue empty and every delivery settled, only counts what has been.

    Messages, deliveries and commands are numbered by it, and no rule asks for the number.  No class inherits
    this from another: each says so for itself."""

    __slots__ = ()


class Frozen(Restorable):
    """A dataclass that never changes: a checkpoint makes it again by its constructor, as nothing else can."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        names = type(self).__match_args__  # type: ignore[attr-defined]
        return type(self), tuple(getattr(self, name) for name in names)
