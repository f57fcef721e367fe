"""Endpoint: what connections, sessions, senders and receivers have in common, their error above all."""

from __future__ import annotations

from collections.abc import Callable

ErrorHandler = Callable[["Endpoint", Exception], None]


class Endpoint:
    """Has an error, once something has gone wrong; it is raised by every later call."""

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._on_error: ErrorHandler | None = None

    @property
    def error(self) -> Exception | None:
        """What went wrong, or None."""
        return self._error

    @error.setter
    def error(self, error: Exception | None) -> None:
        self._error = error
        if error is not None and self._on_error is not None:
            self._on_error(self, error)

    def set_async_exception_notify_handler(self, handler: ErrorHandler | None) -> None:
        """Have a function called with the endpoint and the exception when an error is noticed.

        The error is raised by the next call as well.  The function must not use the API.
        """
        self._on_error = handler

    def get_error(self) -> Exception | None:
        """Return what went wrong here or above, or None."""
        return self._error

    def check_error(self) -> None:
        """Raise what went wrong here or above."""
        error = self.get_error()
        if error is not None:
            raise error


__all__ = ["Endpoint"]
