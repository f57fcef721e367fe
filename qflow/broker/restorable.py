"""The base classes of all objects in a broker's state, which a snapshot can restore.

As these objects refer to one another in cycles, a snapshot is restored by making all of them empty, with
``__new__``, and then setting their fields.  This restricts how an object may be constructed:

* The constructor of a :class:`Restorable` works without arguments, as ``__new__`` calls it in compiled code.
* The constructor of a :class:`Dependent` needs other objects.  The class has the compiler's mark for classes
  whose ``__new__`` calls no constructor.  Such a class can only be instantiated by compiled code that names
  it, which here is the engine: by ``DirectExchange(context, name)``, not by ``kind(context, name)``.
* A :class:`Frozen` never changes, so it is constructed again from its fields.

The hash of a state does not change when a field gets a faster container: see :attr:`Restorable.WRITTEN_AS`.

Classes that are instantiated for every message have another mark, ``free_list_len``: in compiled code, the
memory of the last deleted instance is kept for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from qflow.broker.snapshot import mypyc_attr

Containers = Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]


@mypyc_attr(allow_interpreted_subclasses=True)
class Restorable:
    """Base class of objects in a broker's state; their constructors work without arguments."""

    WRITTEN_AS: ClassVar[Containers] = {}
    """Fields that snapshots write as another type, each with the function to convert it and its inverse."""

    __slots__ = ()

    @classmethod
    def __init_subclass__(cls) -> None:
        """Raise TypeError for a subclass outside qflow, which could not be instantiated in compiled form."""
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
    """Base class of objects that only the engine instantiates, as their constructors need other objects."""

    __slots__ = ()


class Frozen(Restorable):
    """Base class of immutable dataclasses; copying and unpickling call the constructor with the fields."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        names = type(self).__match_args__  # type: ignore[attr-defined]
        return type(self), tuple(getattr(self, name) for name in names)
