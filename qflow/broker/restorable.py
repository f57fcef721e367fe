"""Restorable: the common base of all parts of a broker's state.

A snapshot, or a checkpoint, is restored by making every part empty, with ``__new__``, and filling in its
fields afterwards, as the parts refer to one another in circles.  That decides how a part may be made:

* A :class:`Restorable` has a constructor that can do without arguments.  Compiled, ``__new__`` calls it.
* A :class:`Dependent` needs other parts to be made.  It carries the compiler's mark for classes whose
  ``__new__`` calls no constructor; such a class is made only by compiled code that names it, which here is
  the engine: ``DirectExchange(context, name)``, not ``kind(context, name)``.
* A :class:`Frozen` never changes, so it is made again by its constructor, with its fields.

A state's hash does not change when a part is given a faster container: see :attr:`Restorable.WRITTEN_AS`.

Parts that every message needs carry another mark, ``free_list_len``: compiled, the memory of the last one
that went is kept for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from qflow.broker.snapshot import mypyc_attr

Containers = Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]


@mypyc_attr(allow_interpreted_subclasses=True)
class Restorable:
    """A part of a broker's state that a snapshot restores; its constructor works without arguments."""

    WRITTEN_AS: ClassVar[Containers] = {}
    """For a field that is hashed as another container: what makes that one, and what makes it back."""

    __slots__ = ()

    @classmethod
    def __init_subclass__(cls) -> None:
        """Refuse a subclass outside the engine: in the compiled form it could not be made."""
        module: str = getattr(cls, "__module__")  # noqa: B009 - compiled, no class has it by name
        if not module.startswith("qflow."):
            raise TypeError(
                f"{cls.__name__} cannot inherit from {cls.__bases__[0].__name__}, which may be compiled: "
                "hold one instead; of the engine, MessageStore and DelayedStore can be inherited from"
            )

    def __reduce__(self) -> Any:
        name = type(self).__name__
        raise TypeError(f"a {name} is a part of its broker, and is not copied without it; copy the Broker")


@mypyc_attr(serializable=True, allow_interpreted_subclasses=True)
class Dependent(Restorable):
    """A part that only the engine makes, for other parts."""

    __slots__ = ()


class Frozen(Restorable):
    """A dataclass that never changes; copies and checkpoints call its constructor with its fields."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        names = type(self).__match_args__  # type: ignore[attr-defined]
        return type(self), tuple(getattr(self, name) for name in names)
