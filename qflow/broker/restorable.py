"""Restorable: what all parts of a broker's state have in common."""

from __future__ import annotations

from qflow.broker.compiler_mark import mypyc_attr


@mypyc_attr(serializable=True)
class Restorable:
    """A part that a snapshot or a checkpoint can make without its constructor, to fill in its fields after.

    Interpreted classes can be made so anyway; compiled ones need the mark.
    """

    __slots__ = ()
