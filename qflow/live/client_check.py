"""check_client: a bench for one client program in any language.

The bench runs the program several times, each time beside a new server of its own (:func:`qflow.live.serve`)
whose only queue is in a state that a client should be able to handle:

========== ==============================================================================
free       nothing stops the program: how many messages it sends, or whether it is a receiver
stopped    flow control turns ON and stays ON
resumed    as before; once the client is still, the queue is emptied until the program ends
limit      flow control, and above it a limit with the policy ``reject``
released   only the limit: messages without room are released
deleted    once the client is still, the queue is deleted
========== ==============================================================================

A receiver gets messages one by one (``free``), then from a sender with a window on a queue with flow control
(``locked``); and then its queue is deleted.

All measurements are made at the server, by the messages' identities (:mod:`qflow.live.message_ledger`).  The
bench acts on a queue when the client is *still*, which means that nothing has changed for a while
(``still`` of the conditions, or twice the longest pause of the undisturbed run).  If nothing follows in a
run, the bench waits up to ``timeout`` for a client that is running and has something to send or waits for
outcomes: only the user knows how long it may pause.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from shlex import quote
from threading import Thread
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from qflow.broker.errors import ManagementError
from qflow.kit import RefusalError
from qflow.live.client_card import (
    ENDED,
    LATE,
    RECEIVER,
    RESENDS,
    SENDER,
    STILL,
    ClientCard,
    ClientRun,
    Conditions,
    Figures,
    Settling,
)
from qflow.live.message_ledger import Expected, MessageLedger
from qflow.live.serving import Serving, require_proton, serve
from qflow.progress import Progress

_LOOK = 0.02
_ENDLESS = 20
"""A client that sends this multiple of the requested messages sends without end."""
_MOST_FED, _ENOUGH = 400, 3
_MANY = 200
"""A client with this many repeated transfers, and nothing new meanwhile, counts as resending for ever."""
_MOST_LINKS = 1 << 16
"""The limit of links, large enough for a program that opens a link for each message."""
_MOST_REASONS = 5
_FEEDER = "qflow-bench"
_KEPT_LINES = 200
_LONGEST_LINE = 4_096
_GRACE = 1.0
_MARK = "QFLOW_CLIENT"
"""The environment variable that identifies processes started by a program in sessions of their own."""
_PLACE = re.compile(r"\{(\w+)\}")
"""The pattern of a placeholder in the program's command."""


class ClientFailedError(RefusalError):
    """A program that cannot be measured; ``output`` has its last lines."""

    def __init__(self, sentence: str, output: str) -> None:
        super().__init__(sentence)
        self.output = output
        self.facts = {"output": output}


def check_client(
    command: Sequence[str],
    conditions: Conditions | None = None,
    *,
    progress: Progress = lambda done, total=None, case="": None,
) -> ClientCard:
    """Run a client program against the engine in all cases, and return its card.

    Parameters:
        command: The program and its arguments, in which ``{url}``, ``{host}``, ``{port}``, ``{queue}``,
            ``{messages}`` and ``{ca}`` are replaced.  The program also gets them as environment variables,
            ``AMQP_URL`` and so on.
        conditions: The conditions of the check; None for the defaults.
        progress: A function that is called before each run with the number of finished runs, None, and the
            name of the case.

    Raises:
        RefusalError: If the program cannot be run, Proton is missing, or a condition is not allowed.
        ClientFailedError: If the program never uses the queue.

    >>> check_client(["no-such-program"])
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: 'no-such-program' cannot be run: No such file or directory
    """
    given = conditions or Conditions()
    _check_conditions(command, given)
    return _Bench(tuple(command), given, progress).card()


def _check_conditions(command: Sequence[str], given: Conditions) -> None:
    if not command:
        raise RefusalError("no program was given to check")
    if not 1 <= given.resume <= given.stop < given.limit:
        raise RefusalError(
            f"1 <= resume <= stop < limit must hold, got resume {given.resume}, stop {given.stop}, "
            f"limit {given.limit}"
        )
    for name in ("window", "messages", "still", "timeout"):
        if getattr(given, name) <= 0:
            raise RefusalError(f"{name} must be above 0, got {getattr(given, name)}")
    if given.messages <= given.limit:
        raise RefusalError(f"{given.messages} messages are too few to reach the limit of {given.limit}")


class _Bench:
    def __init__(self, command: tuple[str, ...], conditions: Conditions, progress: Progress) -> None:
        self.command, self.given = command, conditions
        self._progress, self._started = progress, 0
        self.total, self.is_endless = conditions.messages, False
        # The messages of the undisturbed run, and the seconds without a change after which a client is still.
        self.expected: Expected | None = None
        self.quiet = conditions.still

    def card(self) -> ClientCard:
        """Perform all runs, and return the card."""
        free, settling = self.measure_free()
        runs = {"free": free}
        if settling is not None and not settling.is_presettled:
            runs["locked"], settling = self.measure_lock(settling)
        runs |= {case: self.measure(case) for case in (_SENDER_CASES if settling is None else ("deleted",))}
        role = SENDER if settling is None else RECEIVER
        is_whole = self.expected is None or self.expected.is_whole
        return ClientCard(
            self.command, role, self.given, self.total, self.is_endless, runs, settling, is_whole
        )

    @contextmanager
    def start(self, case: str, options: str) -> Iterator[_Watch]:
        """Start a server with a queue with the given options, and the program beside it."""
        self._progress(self._started, None, case)
        self._started += 1
        require_proton()
        from qflow.live.peer import ClientLimits

        given, queue = self.given, f"{quote(self.given.queue)} {options}"
        limits = ClientLimits(links=_MOST_LINKS, handshake=given.timeout)
        with (
            serve(
                queue, is_traced=False, brake=given.brake, certificate=given.certificate, limits=limits
            ) as serving,
            start_program(self.command, serving, given) as program,
        ):
            yield _Watch(case, self, serving, program)

    @property
    def flow(self) -> str:
        return f"--flow-stop-count={self.given.stop} --flow-resume-count={self.given.resume}"

    def measure_free(self) -> tuple[ClientRun, Settling | None]:
        """Run without flow control: measure a receiver's settling, or a sender's messages."""
        with self.start("free", _NO_FLOW) as watch:
            pause = watch.wait(watch.keep_small, lambda: bool(watch.receivers) or watch.is_complete())
            if watch.ledger.transfers:
                return self._learn(watch, pause), None
            if not watch.receivers:
                raise watch.failure()
            settling = _SettlingProbe(watch).measure()
            return watch.run(pause), settling

    def _learn(self, watch: _Watch, pause: str) -> ClientRun:
        """Keep the messages and pauses of the undisturbed run for comparison with the others."""
        self.is_endless = pause == LATE and watch.is_too_much()
        self.total = watch.ledger.messages
        if self.total <= self.given.limit:
            raise ClientFailedError(
                f"the program sent {self.total} messages, too few to reach the limit of "
                f"{self.given.limit}; AMQP_MESSAGES holds the requested number",
                watch.program.output(),
            )
        with watch.serving.lock:
            self.expected = watch.ledger.expect(pause != LATE)
        # A program that pauses in the undisturbed run is not still when it pauses: a program that sends 50
        # messages every 1.3 s once counted as finished, and its later losses went unnoticed.
        longest = max(self.given.still, 2 * watch.ledger.longest_pause)
        self.quiet = min(longest, max(self.given.still, self.given.timeout / 3))
        return watch.run(pause)

    def measure(self, case: str) -> ClientRun:
        """Run until the program is still; then empty the queue until it ends, or delete the queue."""
        limit = f"--max-queue-count={self.given.limit} --limit-policy=reject"
        options = {"limit": f"{self.flow} {limit}", "released": f"{_NO_FLOW} {limit}"}.get(case, self.flow)
        with self.start(case, options) as watch:
            if case == "stopped":
                return watch.run(watch.wait(is_done=watch.has_sent_all))
            pause = end = watch.wait()
            before, printed = watch.figures, watch.program.printed
            if pause != ENDED and case == "deleted":
                is_over = bool(self.expected) and watch.has_sent_all()
                watch.delete()
                end = watch.wait(is_done=lambda: is_over)
            elif pause != ENDED:
                end = watch.wait(watch.drain, watch.is_complete)
            return watch.run(pause, before, end, printed)

    def measure_lock(self, settling: Settling) -> tuple[ClientRun, Settling]:
        """Run a receiver beside a sender with a window, on a queue with flow control."""
        with self.start("locked", self.flow) as watch:
            feeder = _Feeder(watch.serving, self.given)
            most = max(10 * (self.given.stop + self.given.window), 2 * settling.batch * settling.links)
            # Wait until the receiver has a link.
            watch.wait(is_done=lambda: True)
            pause = watch.wait(
                lambda: feeder.send(most, self.given.window), lambda: feeder.has_sent_all(most)
            )
            run = watch.run(pause)
            # An unfinished batch does not matter once the sender is done.
            has_moved = feeder.has_sent_all(most)
            is_still = run.status is None and not has_moved and pause == STILL
            return run, replace(
                settling,
                # It settled nothing for all that time, and is not known to be slower than that.
                is_locked=is_still,
                is_slow=run.status is None and not has_moved and not is_still and not watch.consumed,
                delivered_locked=sum(int(link["delivered"]) for link in watch.receivers),
                unsettled_locked=watch.unsettled,
                undelivered_locked=watch.figures.depth - watch.unsettled,
                waited_locked=int(watch.idle),
            )


_SENDER_CASES = ("stopped", "resumed", "limit", "released", "deleted")
_NO_FLOW = "--flow-stop-count=0 --flow-stop-size=0"


class Program:
    """A client program in a process group of its own, ended at the end of the ``with`` block."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            # Processes that the program starts inherit the mark, in whatever session they run.
            self._mark = f"{_MARK}={uuid4().hex}".encode()
            # On Windows a .cmd file, such as npx, is found only by its full path.
            program, *words = command
            self._process = subprocess.Popen(
                [shutil.which(program) or program, *words],
                env={**os.environ, **environment, _MARK: self._mark.decode().partition("=")[2]},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise RefusalError(f"{command[0]!r} cannot be run: {reason}") from None
        # The latest lines, each with its number.
        self._lines: deque[tuple[int, bytes]] = deque(maxlen=_KEPT_LINES)
        self.printed = 0
        self._reader = Thread(target=self._read, name="output of a client", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError, OSError):
            while line := self._process.stdout.readline(_LONGEST_LINE):
                self._lines.append((self.printed, line))
                self.printed += 1

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    def output(self, since: int = 0) -> str:
        """Return the last 200 lines of standard output and error, from a line number on."""
        if self.status is not None:
            # After this all output has been read, unless a process that it started still has the pipe open.
            self._reader.join(_GRACE)
        lines = [line for number, line in list(self._lines) if number >= since]
        return b"".join(lines).decode("utf-8", "replace").strip()

    def end(self) -> None:
        """End the program and all processes that it started by SIGTERM, a second later by SIGKILL."""
        deadline = monotonic() + _GRACE
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        while self._find_marked() and monotonic() < deadline:
            sleep(_LOOK)
        if self.status is None or self._reader.is_alive() or self._find_marked():
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        self._process.wait()
        self._reader.join(_GRACE)

    def _find_marked(self) -> list[int]:
        """Return the ids of the processes with the program's mark; empty on other systems than Linux."""
        found = []
        # A subreaper (prctl) would find them as well, but it would adopt all orphans of this process, which
        # may be a notebook's kernel or a test session.
        for path in Path("/proc").glob("[0-9]*/environ"):
            # Another user's processes, and those that end meanwhile, cannot be read.
            with suppress(OSError):
                if self._mark in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def _signal(self, number: int) -> None:
        for process in self._find_marked():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                # Windows has no process groups; this ends the program and the processes that it started.
                ending = ["taskkill", "/T", "/F", "/PID", str(self._process.pid)]
                subprocess.run(ending, capture_output=True, check=False)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


def start_program(command: Sequence[str], serving: Serving, given: Conditions) -> Program:
    """Start a program beside a server, with the address and number of messages in its environment."""
    where = urlsplit(serving.url)
    values = {
        "url": serving.url,
        "host": where.hostname or "",
        "port": str(where.port),
        "queue": given.queue,
        "messages": str(given.messages),
        "ca": given.certificate.ca if given.certificate else "",
    }
    variables = {f"AMQP_{name.upper()}": value for name, value in values.items()}
    # The output has to be available while the program runs.
    variables["PYTHONUNBUFFERED"] = "1"
    filled = [_PLACE.sub(lambda place: values.get(place[1], place[0]), word) for word in command]
    return Program(filled, variables)


class _Watch:
    """An observer of a program, at the server beside it."""

    def __init__(self, case: str, bench: _Bench, serving: Serving, program: Program) -> None:
        self.case, self.bench, self.given, self.figures = case, bench, bench.given, Figures()
        self.serving, self.program = serving, program
        self.ledger = MessageLedger(self.given.queue, bench.expected)
        serving.server.observer = self.ledger
        self._begun, self._connected = monotonic(), 0.0
        self.connections = self.most_unsettled = 0
        # The receiver's links, and the number of messages that each has settled so far.
        self.receivers: list[Mapping[str, Any]] = []
        self._settled: dict[Any, int] = {}
        # Messages on the queue that a receiver has acquired.
        self._acquired = 0
        # Messages that have left the queue, and the most that left it by one link between two observations.
        self.consumed = self.largest = 0
        self.moved = self._begun

    # Time

    @property
    def deadline(self) -> float:
        """The end of the run's time, which begins when the program connects."""
        return (self._connected or self._begun) + self.given.timeout

    @property
    def idle(self) -> float:
        """The seconds since the last change."""
        return monotonic() - self.moved

    @property
    def is_receiving(self) -> bool:
        """Whether the program has a link to receive from the queue."""
        return bool(self.receivers)

    @property
    def has_begun(self) -> bool:
        """Whether the program has sent to the queue, or has a link that receives from it."""
        return bool(self.ledger.transfers or self.receivers)

    # Observation

    def look(self) -> tuple[Any, ...]:
        """Read the server's state; return all values whose change means that the program is not still."""
        serving, ledger, words = self.serving, self.ledger, self.ledger.words
        with serving.lock:
            self.connections = len(serving.server.peers())
            links = [link for peer in serving.server.peers() for link in peer.links.values()]
            receiving = [link for link in links if link.role == "receiver" and link.node == self.given.queue]
            self.receivers = [link.describe() for link in receiving]
            queue, self._acquired = serving.broker.queues.queues.get(self.given.queue), 0
            if queue is not None and (receiving or self._settled):
                consumed, self.consumed = self.consumed, queue.statistics().msgTotalDequeues
                left = self.consumed - consumed
                for link, seen in zip(receiving, self.receivers, strict=True):
                    settled = int(seen["delivered"]) - int(seen["unsettled"])
                    # A released message stays on the queue; one settled in a transaction leaves it later.
                    batch = min(settled - self._settled.setdefault(link, 0), left)
                    self.largest = max(self.largest, batch)
                    if left:
                        self._settled[link] = settled
                self._acquired = queue.message_depth - queue.message_count
            told = (words["accepted"], words["released"], words["rejected"])
            depth, came = 0 if queue is None else queue.message_depth, (ledger.messages, ledger.arrived)
            waiting, stored = ledger.unsettled, ledger.stored
            transacted = ledger.uncommitted, ledger.withdrawn
            self.figures = Figures(ledger.transfers, *told, waiting, stored, depth, *came, *transacted)
        if self.connections and not self._connected:
            self._connected = monotonic()
        self.most_unsettled = max(ledger.most_unsettled, self.most_unsettled, self.unsettled)
        return self.figures, self.unsettled, self.consumed, len(self.receivers), self.connections

    @property
    def unsettled(self) -> int:
        """The number of unsettled deliveries, including those settled in an open transaction."""
        return max(sum(int(link["unsettled"]) for link in self.receivers), self._acquired)

    def wait(
        self, act: Callable[[], object] = lambda: None, is_done: Callable[[], bool] | None = None
    ) -> str:
        """Observe, and call `act` each time, until the program has ended, or is still and done."""
        # Without is_done another part of the run follows: then stillness suffices, and half of the time at
        # most.
        known, unchanged = self.look(), 0
        progress, stuck, sent = self._progress(), 0, self.figures.sent
        while True:
            act()
            sleep(_LOOK)
            seen = self.look()
            # Counted in observations, which take longer on a busy machine, like the client's own work.
            known, unchanged, self.moved = (
                (known, unchanged + 1, self.moved) if seen == known else (seen, 0, monotonic())
            )
            if self._progress() != progress:
                progress, stuck, sent = self._progress(), 0, self.figures.sent
            stuck += 1
            if self.program.status is not None and not self.connections:
                # Its last messages have been read when its connection is closed.
                self.look()
                return ENDED
            if unchanged * _LOOK >= self.bench.quiet and self.has_begun and (is_done is None or is_done()):
                return STILL
            # It sends, but no new message.  In the last part of a run a few repetitions prove nothing, as a
            # program may try four times and then end.
            again = self.figures.sent - sent if stuck * _LOOK >= 2 * self.bench.quiet else 0
            if again > (0 if is_done is None else _MANY):
                return RESENDS
            # A slow start does not shorten the time of the first part.
            share = 0.5 if is_done is None and self._connected else 0.0
            if self.deadline - monotonic() <= share * self.given.timeout or self.is_too_much():
                is_still = self.has_begun and self.idle >= self.given.timeout / 2
                return STILL if is_still else RESENDS if again else LATE

    def _progress(self) -> tuple[int, int]:
        return self.figures.messages, self.figures.arrived

    def is_too_much(self) -> bool:
        """Return whether the program has sent more than 20 times the requested messages."""
        is_without_end = self.case == "free" or self.bench.is_endless
        return is_without_end and self.figures.sent > _ENDLESS * self.given.messages

    def has_sent_all(self) -> bool:
        """Return whether each message was sent at least once."""
        return self.figures.messages >= self.bench.total

    def is_complete(self) -> bool:
        """Return whether each message has its outcome and, if the program gets outcomes, is on the queue."""
        figures, words = self.figures, self.ledger.words
        is_told = words["accepted"] or words["released"] or words["rejected"]
        has_come = figures.arrived >= figures.messages or not is_told
        return self.has_sent_all() and not figures.unsettled and has_come

    def run(self, pause: str, before: Figures | None = None, end: str = "", printed: int = 0) -> ClientRun:
        """Return the result of the run; `printed` is the number of lines before its second part."""
        ledger, program, status = self.ledger, self.program, self.program.status
        output, reaction = self._words(program.output()), self._words(program.output(printed))
        waiting, end = self.most_unsettled, (end or pause) if status is None else ENDED
        run = ClientRun(self.case, before or self.figures, self.figures, waiting, pause, status, output, end)
        run = replace(run, reaction=reaction if before else "", is_connected=self.connections > 0)
        run = replace(run, most_uncommitted=ledger.most_uncommitted, links=len(ledger.links))
        run = replace(run, is_told_apart=ledger.is_told_apart, is_pipelined=ledger.is_pipelined)
        diverted, unsent = ledger.count_diverted()
        run = replace(run, diverted=diverted, diverted_unsent=unsent)
        return replace(run, idle=round(self.idle, 1), elsewhere=dict(ledger.elsewhere))

    def _words(self, output: str) -> str:
        """Return a program's output without the port, which differs in each run."""
        return output.replace(f":{self.serving.server.address[1]}", ":PORT")

    def failure(self) -> ClientFailedError:
        """Return the error for a program that has not used the queue, with the nodes that it used."""
        url, queue, server = self.serving.url, self.given.queue, self.serving.server
        status = self.program.status
        end = f"ended with status {status}" if status is not None else f"ran for {self.given.timeout:g} s"
        reasons = [
            f"it asked for {node!r} as a {role}{f' and was told {refusal!r}' if refusal else ''}"
            for role, node, refusal in dict.fromkeys(self.ledger.asked)
        ]
        if status is None and not self._connected:
            reasons.append("it never connected; a larger --timeout waits longer for a slow start")
        reasons += [f"it sent {sent:,} messages to {node!r}" for node, sent in self.ledger.elsewhere.items()]
        reasons += [f"the server closed a connection: {text}" for text in list(server.incidents)[-1:]]
        return ClientFailedError(
            f"the program {end}, and neither sent to the queue {queue!r} at {url} nor received from it"
            + "".join(f"; {reason}" for reason in reasons[:_MOST_REASONS]),
            self.program.output(),
        )

    # Actions on the queue

    def drain(self) -> None:
        self._manage(lambda management: management.purge(self.given.queue))

    def keep_small(self) -> None:
        """Empty a queue that an endless client would otherwise fill."""
        if self.figures.depth > self.given.messages:
            self.drain()

    def delete(self) -> None:
        self._manage(lambda management: management.delete("queue", self.given.queue))

    def _manage(self, act: Callable[[Any], None]) -> None:
        serving = self.serving
        # The client may have deleted the queue itself, which raises ManagementError.
        with serving.lock, suppress(ManagementError):
            serving.server.advance_time()
            act(serving.broker.management)
        serving.server.wake()


class _Feeder:
    """The bench's own sender, which sends to a receiver from this process."""

    def __init__(self, serving: Serving, given: Conditions) -> None:
        from proton import Message

        from qflow.live.encoded import Decoder

        self.serving, self.queue, self.sent = serving, given.queue, 0
        made = Message(given.body, content_type=given.content_type or None, properties=dict(given.properties))
        made.inferred = isinstance(given.body, bytes)
        self._encoded, self._decoder = bytes(made.encode()), Decoder()
        with serving.lock:
            self.session = serving.broker.link_session(_FEEDER, container=_FEEDER)
            self.session.link_attach(_FEEDER, "sender", self.queue)

    def has_sent_all(self, most: int) -> bool:
        """Return whether `most` messages are sent and accepted."""
        return self.sent == most and not self.session.senders[_FEEDER].unsettled

    def send(self, most: int, window: int) -> None:
        """Send as many messages as the window allows, up to `most` in all."""
        unsettled = self.session.senders[_FEEDER].unsettled
        with self.serving.lock:
            self.serving.server.advance_time()
            while self.sent < most and len(unsettled) < window:
                message, _ = self._decoder.decode(self._encoded)
                message.routing_key = self.queue
                self.session.message_transfer(message, tag=_FEEDER)
                self.sent += 1
        self.serving.server.wake()


class _SettlingProbe:
    """A probe of a receiver's manner of settling, with single messages, several, and pauses."""

    # If three messages, sent one by one, are each settled, the receiver waits for no others.  Otherwise
    # messages are sent until it settles some: a batch, complete by number or by time.  Then no more are
    # sent, and whatever it still settles, it settles by time.

    def __init__(self, watch: _Watch) -> None:
        self.watch, self.feeder = watch, _Feeder(watch.serving, watch.given)
        self.slowest_alone = 0.0

    def measure(self) -> Settling:
        watch = self.watch
        credit = sum(int(link["credit"]) for link in watch.receivers)
        is_presettled, is_browser = (
            all(link[name] for link in watch.receivers) for name in ("is_presettled", "is_browser")
        )
        links, soon = len(watch.receivers), 2 * watch.given.still
        is_alone = is_quick = self._settles_alone(soon)
        if not is_alone and watch.is_receiving and not is_presettled:
            self._feed_until_settled()
            self._await(lambda: not watch.figures.depth or watch.consumed >= _ENOUGH > 1 >= watch.largest)
            is_alone = not watch.figures.depth and self._settles_alone(watch.given.timeout, 1)
        watch.wait()
        with watch.serving.lock:
            counted = watch.serving.broker.queue(watch.given.queue).statistics()
        is_there = watch.is_receiving
        return Settling(
            credit,
            is_presettled,
            0 if is_presettled or not watch.consumed else 1 if is_alone else max(1, watch.largest),
            self.feeder.sent,
            watch.unsettled,
            # When a link ends, its messages count as released, too, so they do not count then.
            released=counted.releases if is_there else 0,
            rejected=counted.discardsSubscriber,
            links=links,
            undelivered=watch.figures.depth - watch.unsettled if is_there else 0,
            waited=int(watch.idle),
            alone=0.0 if is_quick else self.slowest_alone,
            is_browser=is_browser,
        )

    def _settles_alone(self, patience: float, count: int = _ENOUGH) -> bool:
        """Send messages one by one, each after the last is settled; return whether all were settled."""
        for _ in range(count):
            began = monotonic()
            if not self.watch.is_receiving:
                return False
            self.feeder.send(self.feeder.sent + 1, _MOST_FED)
            if not self._await(lambda: not self.watch.figures.depth, patience):
                return False
            self.slowest_alone = max(self.slowest_alone, round(monotonic() - began, 1))
        return True

    def _feed_until_settled(self) -> None:
        """Send messages until some are settled, or the credit or half of the time is used up."""
        watch, consumed = self.watch, self.watch.consumed
        middle = watch.deadline - watch.given.timeout / 2
        while watch.consumed == consumed and monotonic() < middle and watch.is_receiving:
            if self.feeder.sent >= _MOST_FED or watch.figures.depth > watch.unsettled:
                break
            # A batch is settled at its last message, so a few more messages do no harm.
            self.feeder.send(self.feeder.sent + 1 + self.feeder.sent // 10, _MOST_FED)
            self._await(lambda: watch.consumed > consumed, 2 * _LOOK)

    def _await(self, is_so: Callable[[], bool], patience: float = inf) -> bool:
        """Wait for a condition; return False if the receiver ends or the time is used up."""
        watch, end = self.watch, monotonic() + patience
        while True:
            # The server needs time to process the messages.
            sleep(_LOOK / 2)
            watch.look()
            if watch.consumed and is_so():
                return True
            if not watch.is_receiving or monotonic() >= min(end, watch.deadline):
                return False
