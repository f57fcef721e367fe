"""Selector: the question a subscription or a queue asks of a message before it takes it (QT-16)."""

from __future__ import annotations

from qflow.broker.errors import NotImplementedException
from qflow.broker.transfer import Transfer


class Selector:
    """A parsed ``x-apache-selector`` or ``qpid.filter`` expression."""

    __slots__ = ("expression",)

    def __init__(self, expression: str) -> None:
        self.expression = expression

    def matches(self, transfer: Transfer) -> bool:
        """Return whether the expression is true for the message."""
        raise NotImplementedError


def parse_selector(expression: str) -> Selector:
    """Parse a selector expression.

    Raises
    ------
    NotImplementedException
        540, always for now: the selector language has its own room, which is not built yet.
    """
    raise NotImplementedException(f"selectors are not part of this model yet: {expression!r}")
