"""How every command of a session runs: number it, show it, do it, or let the session die of it.

One place for what all commands have in common, so that each method of a session says only what
is its own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from qflow.broker.errors import AmqpException, SessionDetached
from qflow.broker.events import Detail
from qflow.broker.restorable import Restorable

Method = TypeVar("Method", bound=Callable[..., Any])


class CommandRunner(Restorable):
    """What :func:`command` needs of a session."""

    __slots__ = ()

    name: str
    is_attached: bool

    def begin(self) -> int:
        """Number a command; from now on its connection is the one being read."""
        raise NotImplementedError

    def retract(self, number: int) -> None:
        """Take a command's number back."""
        raise NotImplementedError

    def control(self) -> None:
        """Begin a control, which has no number."""
        raise NotImplementedError

    def finish(self, number: int) -> None:
        """Complete a command."""
        raise NotImplementedError

    def quiesce(self) -> None:
        """Let everything happen that the command made possible."""
        raise NotImplementedError

    def fail(self, error: AmqpException) -> None:
        """End the session with an error."""
        raise NotImplementedError

    def die(self, error: AmqpException) -> None:
        """End the session, or its whole connection if the error is that grave."""
        raise NotImplementedError

    def give_up(self, error: Exception, number: int = -1) -> None:
        """End a command that failed: the broker refused it, or the client's own library did."""
        if isinstance(error, AmqpException):
            self.die(error)
            self.quiesce()
        elif number >= 0:
            self.retract(number)

    def is_watched(self) -> bool:
        """Return whether an observer wants to see commands."""
        raise NotImplementedError

    def show(self, kind: str, arguments: Detail, number: int = -1) -> None:
        """Tell the observer of a command, and of its number if it has one."""
        raise NotImplementedError


def command(
    kind: str,
    *,
    is_numbered: bool = True,
    completes: bool = True,
    check: Callable[..., None] | None = None,
) -> Callable[[Method], Method]:
    """Make a method a command of the session.

    Parameters
    ----------
    kind : str
        Its name in :data:`qflow.broker.events.COMMANDS`.
    is_numbered : bool
        False for controls, which are not commands and are never completed.
    completes : bool
        False for commands that complete by themselves, or later.
    check : callable or None
        Called with the command's arguments first, to raise what a client's library would.
    """

    def decorate(method: Method) -> Method:
        names = tuple(inspect.signature(method).parameters)[1:]

        @functools.wraps(method)
        def run(self: CommandRunner, *args: Any, **kwargs: Any) -> Any:
            require_attached(self, kind)
            for name in kwargs:
                if name not in names:
                    raise TypeError(f"{method.__name__}() got an unexpected keyword argument {name!r}")
            if check is not None:
                check(*args, **kwargs)
            number = -1
            if is_numbered:
                number = self.begin()
            else:
                self.control()
            if self.is_watched():
                shown = {**dict(zip(names, args, strict=False)), **kwargs}
                if "transfers" in shown:
                    # An iterator can be read once only, and both the observer and the command want to.
                    shown["transfers"] = tuple(shown["transfers"])
                    args, kwargs = (), shown
                self.show(kind, shown, number)
            try:
                result = method(self, *args, **kwargs)
            except (AmqpException, TypeError, ValueError) as error:
                self.give_up(error, number)
                raise
            if is_numbered and completes:
                self.finish(number)
            self.quiesce()
            return result

        return cast(Method, run)

    return decorate


def require_attached(session: CommandRunner, kind: str) -> None:
    """Refuse a command to a session that is gone; nothing in the broker changes.

    Raises
    ------
    SessionDetached
        Naming the session and the command.
    """
    if not session.is_attached:
        raise SessionDetached(f"{kind} on session {session.name!r}, which is not attached any more")
