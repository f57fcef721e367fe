"""Channels: a session's attachment to the broker, with the completions that its client knows of.

The broker performs a command within the call.  Only the command's *completion* may come later: a queue whose
flow control is ON withholds the completion of a transfer (FC-15, FC-16), and the broker reports completions
only on request, by the sync flag of a command or by ``execution.sync`` (CM-05, CM-06).

The client regards a command as complete only if all earlier commands of the session are complete, too
(CM-14).  So one held transfer hides the completion of every later command: the answer to a query, the end of
a drain, an acknowledgement.  Therefore the client's continuation after a command is an *action*, which the
channel keeps by the command's number and calls when all commands up to it are known to be complete.  If
nothing can end a wait for that, the exceptions made here name the queues that withhold completions, and the
depths below which they release them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from qflow.broker import Broker, Message
from qflow.broker.completions import RangeSet
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import AmqpException
from qflow.broker.flow_limit import FlowThresholds
from qflow.messaging.exceptions import FetchWouldBlock, SendWouldBlock, SyncWouldBlock
from qflow.messaging.hosts import Host
from qflow.wording import format_count, format_names

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Action = Callable[[], None]


def do_nothing() -> None:
    """Do nothing: the action for a command whose completion is reported without a continuation."""


class Client(Protocol):
    """The owner of a channel, a session of the API, which gets the channel's messages and refusals."""

    def deliver(self, record: DeliveryRecord) -> None:
        """Take a delivered message, possibly in the middle of another client's command."""

    def dispatch(self) -> None:
        """Send the commands that are due."""

    def fail(self, error: AmqpException) -> None:
        """Take the broker's refusal of a command."""


class Holds(NamedTuple):
    """The labels of a session's held transfers, the queues (or store) that hold them, and a description."""

    labels: tuple[str, ...]
    holders: tuple[str, ...]
    text: str


class Channel:
    """A channel to one session of the engine, which runs actions when completions are reported."""

    def __init__(self, host: Host, name: str, connection: str, client: Client) -> None:
        self.host = host
        self.engine = host.broker.session(name, connection)
        self.engine.completions.on_report = self._on_report
        self.engine.consuming.on_delivery = self._on_delivery
        # The commands that the broker has reported as complete.
        self.reported = RangeSet()
        # Whether the last command requested no report of its completion.
        self.needs_sync = False
        self._client = client
        # All commands before this number are known to be complete; the actions are those of later commands.
        self._front = 0
        self._actions: dict[int, Action] = {}
        self._synced_at = -1
        self._open_write: ExitStack | None = None

    def _on_report(self, completed: RangeSet) -> None:
        self.reported = completed
        self.host.announce(self)

    def _on_delivery(self, record: DeliveryRecord) -> None:
        self._client.deliver(record)
        self.host.announce(self)

    def read(self) -> None:
        """Run the actions of all commands before the first incomplete one, then call ``client.dispatch``."""
        while self._front < self.reported.front:
            action = self._actions.pop(self._front, None)
            self._front += 1
            if action is not None:
                action()
        self._client.dispatch()

    @contextmanager
    def write(self) -> Iterator[None]:
        """Send the commands of a block in one write, as a client's driver does (RF-08)."""
        if self._open_write is not None:
            yield
            return
        # The engine's pipeline begins with the first command, so a block without commands writes nothing.
        with ExitStack() as self._open_write:
            try:
                yield
            finally:
                self._open_write = None

    @property
    def next_number(self) -> int:
        """The number of the next command."""
        return self.engine.completions.next_number

    def give(
        self, command: Callable[..., Result], *arguments: Any, then: Action | None = None, **named: Any
    ) -> Result | None:
        """Send a command and return the broker's answer, or pass a refusal to the client and return None."""
        number = self.next_number
        if then is not None:
            # The action runs when all commands up to this one are known to be complete (CM-14). Only a
            # command with an action carries the sync flag; no report is requested for others (CM-05).
            self._actions[number] = then
            self.engine.completions.report_when_complete(number)
        self.needs_sync = then is None
        try:
            return self.give_control(command, *arguments, **named)
        except Exception:
            # The command was not sent, and the next command gets its number.
            self._actions.pop(number, None)
            raise

    def give_all(self, commands: Iterable[Callable[[], object]], then: Action) -> None:
        """Send commands, and run `then` when the last one is reported complete (at once if there is none)."""
        given = list(commands)
        for command in given[:-1]:
            self.give(command)
        if given:
            self.give(given[-1], then=then)
        else:
            then()

    def transfer(self, message: Message, exchange: str, asks: bool) -> None:
        """Send a ``message.transfer``, with or without a request to report its completion."""
        self.give(self.engine.message_transfer, message, exchange, asks)
        self.needs_sync = not asks

    def control(
        self, method: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Result:
        """Call a method of the broker as a command or between commands, and raise its refusal."""
        self.host.begin()
        if self._open_write is not None and not self.engine.is_pipelining:
            self._open_write.enter_context(self.engine.pipeline())
        try:
            return method(*args, **kwargs)
        finally:
            self.host.publish_events()

    def give_control(self, method: Callable[..., Result], *arguments: Any, **named: Any) -> Result | None:
        """Call a method of the broker as :meth:`control` does, but pass a refusal to the client."""
        try:
            return self.control(method, *arguments, **named)
        except AmqpException as error:
            self._client.fail(error)
            return None

    def sync(self, then: Action = do_nothing) -> None:
        """Send an ``execution.sync``, which is complete when all commands before it are complete (CM-06)."""
        self._synced_at = self.next_number
        self.give(self.engine.execution_sync, then=then)

    def sync_all(self) -> None:
        """Request a report of all commands so far, unless the last command is a sync already."""
        if self.next_number - 1 > self._synced_at:
            self.sync()

    def is_confirmed(self, number: int) -> bool:
        """Return whether a command and all earlier ones are known to be complete (CM-14)."""
        return number < self.reported.front

    def wait(self, is_done: Callable[[], bool], timeout: float | None, what: str = "") -> bool:
        """Wait until a condition holds or the session is gone; return whether it holds."""
        # Only a wait for completions passes `what`, and only without a time-out can it block for ever.
        warn = partial(self._describe_wait, what) if what and timeout is None else None
        self.host.wait(lambda: is_done() or not self.engine.is_attached, timeout, warn)
        return is_done()

    def _describe_wait(self, what: str) -> str | None:
        """Return the warning that a wait has no end, or None if a report has been requested."""
        return f"{what} waits for ever: {self.holds().text}" if self._is_unasked() else None

    def _is_unasked(self) -> bool:
        completions = self.engine.completions
        return not any(completions.is_awaited(number) for number in completions.incomplete)

    def holds(self) -> Holds:
        """Return the session's held transfers, and the queues or the store that hold them."""
        held = self.engine.held
        labels = tuple(transfer.label for transfer in held)
        holders = tuple(dict.fromkeys(holder for transfer in held for holder in transfer.held_by))
        text = "nothing is held"
        if held:
            verb = "is" if len(labels) == 1 else "are"
            by = " and ".join(_describe_holder(self.host.broker, holder) for holder in holders)
            text = f"{_shorten(labels)} {verb} held by {by}"
        if self._is_unasked():
            text += ", and the client requested no report (CM-05; send(sync=True) requests one)"
        return Holds(labels, holders, text)


def _describe_holder(broker: Broker, holder: str) -> str:
    queue = broker.queues.queues.get(holder)
    if queue is None:
        return f"the {holder}"
    # Alternative designs of flow control have other kinds of thresholds (ALT-05, ALT-07).
    resume: FlowThresholds | None = getattr(queue.flow_limit, "thresholds", None)
    if resume is None:
        return f"queue {holder!r}"
    depth, limits = format_count(queue.message_depth, "message"), []
    if resume.resume_count:
        limits.append(f"{resume.resume_count}")
    if resume.resume_size:
        depth += f", {queue.byte_depth} bytes"
        limits.append(f"{resume.resume_size} bytes")
    return f"queue {holder!r} (flow control ON at {depth}; OFF below {' and '.join(limits)})"


def _shorten(labels: tuple[str, ...]) -> str:
    count = f" ({len(labels)} transfers)" if len(labels) > 5 else ""
    return format_names(labels) + count


# The exceptions in place of waits without end


def _describe_others(host: Host) -> str:
    others = host.count_others()
    who = "no other thread uses this broker"
    if others:
        who = f"the other threads that use this broker ({others}) wait, too"
    return f"{who}, and no pending event can change that"


def fetch_blocks(host: Host, queues: Iterable[str]) -> FetchWouldBlock:
    """Return the exception for an endless wait for a message from any of the queues."""
    seen = "; ".join(_describe_queue(host.broker, queue) for queue in queues) or "no receiver has a capacity"
    return FetchWouldBlock(f"would wait for ever for a message: {seen}; {_describe_others(host)}")


def send_blocks(capacity: int | None, channel: Channel) -> SendWouldBlock:
    """Return the exception for an endless wait for room in a full window."""
    holds = channel.holds()
    text = f"capacity = {capacity}: the window is full, and {holds.text}; {_describe_others(channel.host)}"
    return SendWouldBlock(text, holds.labels, holds.holders)


def sync_blocks(what: str, channel: Channel) -> SyncWouldBlock:
    """Return the exception for an endless wait for completions."""
    holds = channel.holds()
    text = f"{what} would wait for ever: {holds.text}, so nothing after that is known complete"
    return SyncWouldBlock(f"{text}; {_describe_others(channel.host)}", holds.labels, holds.holders)


def _describe_queue(broker: Broker, name: str) -> str:
    queue = broker.queues.queues.get(name)
    if queue is None:
        return f"queue {name!r} is gone"
    depth, available = queue.message_depth, queue.message_count
    if not depth:
        return f"queue {name!r} is empty"
    if not available:
        return f"all {depth} on queue {name!r} are acquired"
    owned = [] if queue.groups is None else [g for g in queue.groups.state() if g["consumer"]]
    owners = ", ".join(f"{group['group_id']} by {group['consumer']}" for group in owned)
    groups = f" (groups owned: {owners})" if owners else ""
    return f"{available} of {depth} on queue {name!r} are available, but not to this receiver{groups}"
