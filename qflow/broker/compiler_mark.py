"""The mark by which a class tells the compiler of hatch_build.py how to compile it; for nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    # The engine needs the standard library only, and the compiler takes the mark away.
    def mypyc_attr(**_: Any) -> Callable[[type], type]:
        """Mark nothing."""
        return lambda marked: marked
