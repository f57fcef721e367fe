"""check_client: a bench for one client program in any language.

The program is run several times, each time beside a fresh server of its own (:func:`qflow.live.serve`) whose
one queue is in a state that a client should be able to live with:

========== ==============================================================================
free       nothing stops it: how many messages it sends, or whether it is a receiver
stopped    flow control goes ON and stays ON
resumed    as before; once the client is still, the queue is emptied until it has ended
limit      flow control, and a limit with the policy ``reject`` above it
released   the limit alone: what has no room is released
deleted    once the client is still, the queue is deleted
========== ==============================================================================

A receiver is given messages one by one (``free``), then by a sender with a window, on a queue with flow
control (``locked``); and its queue is deleted.

Everything is measured at the server: transfers, their outcomes, how many wait for one.  Still is a client of
which nothing has been seen to change for a while (``still`` of the conditions), and no program runs longer
than their ``timeout``.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from shlex import quote
from threading import Thread
from time import monotonic, sleep
from typing import Any
from urllib.parse import urlsplit

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
from qflow.live.serving import Serving, serve
from qflow.progress import Progress

_LOOK = 0.02
_ENDLESS = 20
"""A client that sends so many times what it was asked for sends without end."""
_MOST_FED = 400
_MANY_RESENT = 50
_FEEDER = "qflow-bench"
_KEPT_LINES = 200
_LONGEST_LINE = 4_096
_GRACE = 1.0
_PLACE = re.compile(r"\{(\w+)\}")
"""Where a word of the program's command says what is put there."""


class ClientFailedError(RefusalError):
    """A program that cannot be measured; ``output`` is the last of what it printed."""

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
    """Run a client program against the engine under all conditions, and return what was measured.

    Parameters:
        command: The program and its arguments; ``{url}``, ``{host}``, ``{port}``, ``{queue}`` and
            ``{messages}`` in them are replaced.  It also gets ``AMQP_URL``, ``AMQP_QUEUE`` and
            ``AMQP_MESSAGES`` as variables, with TLS ``AMQP_CA``.
        progress: Called before each run with how many are done, and the case that comes.

    Raises:
        RefusalError: If the program cannot be run, Proton is missing, or a condition makes no sense.
        ClientFailedError: If the program never uses the queue.

    >>> check_client(["no-such-program"])
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: 'no-such-program' cannot be run: No such file or directory
    """
    given = conditions or Conditions()
    _require_sense(command, given)
    return _Bench(tuple(command), given, progress).card()


def _require_sense(command: Sequence[str], given: Conditions) -> None:
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

    def card(self) -> ClientCard:
        free, settling = self.measure_free()
        runs = {"free": free}
        if settling is not None and not settling.is_presettled:
            runs["locked"], settling = self.measure_lock(settling)
        runs |= {case: self.measure(case) for case in (_SENDER_CASES if settling is None else ("deleted",))}
        role = SENDER if settling is None else RECEIVER
        return ClientCard(self.command, role, self.given, self.total, self.is_endless, runs, settling)

    @contextmanager
    def start(self, case: str, options: str) -> Iterator[_Watch]:
        """Start a server whose queue has these options, and the program beside it."""
        self._progress(self._started, None, case)
        self._started += 1
        given, queue = self.given, f"{quote(self.given.queue)} {options}"
        with (
            serve(queue, is_traced=False, brake=given.brake, certificate=given.certificate) as serving,
            start_program(self.command, serving, given) as program,
        ):
            yield _Watch(case, self, serving, program)

    @property
    def flow(self) -> str:
        return f"--flow-stop-count={self.given.stop} --flow-resume-count={self.given.resume}"

    def measure_free(self) -> tuple[ClientRun, Settling | None]:
        """Find out how a receiver settles, or how many messages a sender sends."""
        with self.start("free", _NO_FLOW) as watch:
            pause = watch.until_still(watch.keep_small)
            if watch.figures.sent:
                self.is_endless = pause == LATE
                self.total = watch.figures.sent
                if self.total <= self.given.limit:
                    raise ClientFailedError(
                        f"the program sent {self.total} messages, too few to reach the limit of "
                        f"{self.given.limit}; AMQP_MESSAGES says how many it is asked for",
                        watch.program.output(),
                    )
                return watch.run(pause), None
            if not watch.receiver:
                raise watch.failure()
            settling = _measure_settling(watch)
            return watch.run(pause), settling

    def measure(self, case: str) -> ClientRun:
        """Run until the program is still; then empty the queue until it has ended, or delete the queue."""
        limit = f"--max-queue-count={self.given.limit} --limit-policy=reject"
        options = {"limit": f"{self.flow} {limit}", "released": f"{_NO_FLOW} {limit}"}.get(case, self.flow)
        with self.start(case, options) as watch:
            if case == "stopped":
                return watch.run(watch.until_still())
            # For half of the time at most: something comes after it.
            watch.deadline -= self.given.timeout / 2
            pause = end = watch.until_still()
            watch.deadline += self.given.timeout / 2
            before, printed = watch.figures, watch.program.printed
            if pause in (STILL, LATE) and case == "deleted":
                watch.delete()
                end = watch.until_still()
            elif pause != ENDED and case != "deleted":
                end = watch.until_still(watch.drain)
            return watch.run(pause, before, end, printed)

    def measure_lock(self, settling: Settling) -> tuple[ClientRun, Settling]:
        """Let a sender with a window send to a receiver through a queue with flow control."""
        with self.start("locked", self.flow) as watch:
            feeder = _Feeder(watch.serving, self.given)
            most = max(10 * (self.given.stop + self.given.window), 2 * settling.batch)
            pause = watch.until_still(lambda: feeder.send(most, self.given.window))
            run = watch.run(pause)
            waiting = int(watch.receiver.get("unsettled", 0))
            # All is delivered, and the sender waits.
            has_left = feeder.sent < most and run.status is None
            return run, replace(
                settling,
                is_locked=has_left and waiting > 0 and run.before.depth == waiting,
                delivered_locked=int(watch.receiver.get("delivered", 0)),
                unsettled_locked=waiting,
            )


_SENDER_CASES = ("stopped", "resumed", "limit", "released", "deleted")
_NO_FLOW = "--flow-stop-count=0 --flow-stop-size=0"


class Program:
    """A client program in a process group of its own; the end of the ``with`` block ends all it started."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                list(command),
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise RefusalError(f"{command[0]!r} cannot be run: {reason}") from None
        # Each with how many came before it.
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
        """Return the last 200 lines of what it has printed, errors included, after so many lines."""
        if self.status is not None:
            # All that it wrote has been read, unless something that it started still holds the pipe.
            self._reader.join(_GRACE)
        lines = [line for number, line in list(self._lines) if number >= since]
        return b"".join(lines).decode("utf-8", "replace").strip()

    def end(self) -> None:
        """End the program and all processes that it started: by SIGTERM, and a second later by SIGKILL."""
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE)
        if self.status is None or self._reader.is_alive():
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        self._process.wait()
        self._reader.join(_GRACE)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.kill()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()


def start_program(command: Sequence[str], serving: Serving, given: Conditions) -> Program:
    """Start a program beside a server, and let it know where that is and what to send."""
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
    # What it has printed is to be seen while it runs.
    variables["PYTHONUNBUFFERED"] = "1"
    filled = [_PLACE.sub(lambda place: values.get(place[1], place[0]), word) for word in command]
    return Program(filled, variables)


class _Watch:
    """A server and the program beside it, watched from the server's side."""

    def __init__(self, case: str, bench: _Bench, serving: Serving, program: Program) -> None:
        self.case, self.bench, self.given, self.figures = case, bench, bench.given, Figures()
        self.serving, self.program = serving, program
        self.deadline = monotonic() + self.given.timeout
        self.most_unsettled, self.connections, self.rate = 0, 0, 0.0
        self.receiver: Mapping[str, Any] = {}
        self.has_link = self.is_receiving = False
        self.incidents: list[str] = []

    def look(self) -> tuple[Figures, int, int]:
        """Look at the server; return what must change, or the client is still."""
        seen = self.serving.snapshot()
        links = [link for client in seen["clients"] for link in client["links"]]
        senders = [link for link in links if link["role"] == "sender"]
        receivers = [
            link for link in links if link["role"] == "receiver" and link["node"] == self.given.queue
        ]
        self.has_link |= bool(senders or receivers)
        outcomes, unsettled = seen["outcomes"], sum(link["unsettled"] for link in senders)
        queue = seen["queues"].get(self.given.queue, {})
        self.figures = Figures(
            sum(outcomes.values()) + unsettled,
            outcomes.get("accepted", 0),
            outcomes.get("released", 0),
            outcomes.get("rejected", 0),
            unsettled,
            queue.get("msgTotalEnqueues", self.figures.stored),
            queue.get("msgDepth", 0),
        )
        waiting = sum(link["unsettled"] for link in receivers)
        self.most_unsettled = max(self.most_unsettled, unsettled, waiting)
        self.receiver = receivers[0] if receivers else self.receiver
        self.is_receiving, self.connections = bool(receivers), len(seen["clients"])
        self.incidents = seen["incidents"]
        return self.figures, waiting, self.connections

    def until_still(self, act: Callable[[], object] = lambda: None) -> str:
        """Watch until nothing changes any more, and call ``act`` each time; return how it ended."""
        known, unchanged = self.look(), 0
        stored, grown, sent = self.figures.stored, monotonic(), self.figures.sent
        while True:
            act()
            sleep(_LOOK)
            seen, now = self.look(), monotonic()
            # In looks: where a machine is busy they take longer, as all that the client does.
            known, unchanged = seen, unchanged + 1 if seen == known else 0
            if self.program.status is not None and not seen[2]:
                # What it said last has been read when its connection is gone.
                self.look()
                return ENDED
            if self.has_link and unchanged * _LOOK >= self.given.still:
                return STILL
            if self.figures.stored != stored or self.figures.sent <= self.bench.total + _MANY_RESENT:
                stored, grown, sent = self.figures.stored, now, self.figures.sent
            elif now - grown >= 2 * self.given.still:
                self.rate = (self.figures.sent - sent) / (now - grown)
                return RESENDS
            if now >= self.deadline or self.is_too_much():
                return LATE

    def is_too_much(self) -> bool:
        is_without_end = self.case == "free" or self.bench.is_endless
        return is_without_end and self.figures.sent > _ENDLESS * self.given.messages

    def run(self, pause: str, before: Figures | None = None, end: str = "", printed: int = 0) -> ClientRun:
        """Return what was measured; the second part ended so, and began after so many printed lines."""
        figures, output = self.figures, self.program.output()
        return ClientRun(
            self.case,
            before or figures,
            figures,
            self.most_unsettled,
            pause,
            self.program.status,
            round(self.rate, 1),
            output,
            (end or pause) if self.program.status is None else ENDED,
            self.program.output(printed) if before else "",
            self.connections > 0,
        )

    def failure(self) -> ClientFailedError:
        url, queue = self.serving.url, self.given.queue
        status = self.program.status
        end = f"ended with status {status}" if status is not None else f"ran for {self.given.timeout:g} s"
        reason = f"; the server closed a connection: {self.incidents[-1]}" if self.incidents else ""
        return ClientFailedError(
            f"the program {end}, and neither sent to the queue {queue!r} at {url} nor received from it"
            f"{reason}",
            self.program.output(),
        )

    # What is done to the queue

    def drain(self) -> None:
        self._manage(lambda management: management.purge(self.given.queue))

    def keep_small(self) -> None:
        """Empty a queue that a client without end would fill."""
        if self.figures.depth > self.given.messages:
            self.drain()

    def delete(self) -> None:
        self._manage(lambda management: management.delete("queue", self.given.queue))

    def _manage(self, act: Callable[[Any], None]) -> None:
        serving = self.serving
        # The client may have deleted the queue itself.
        with serving.lock, suppress(ManagementError):
            serving.server.advance_time()
            act(serving.broker.management)
        serving.server.wake()


class _Feeder:
    """A sender beside the client, in this process."""

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

    def send(self, most: int, window: int) -> None:
        """Send until so many have been sent, with a window."""
        unsettled = self.session.senders[_FEEDER].unsettled
        with self.serving.lock:
            self.serving.server.advance_time()
            while self.sent < most and len(unsettled) < window:
                message, _ = self._decoder.decode(self._encoded)
                message.routing_key = self.queue
                self.session.message_transfer(message, tag=_FEEDER)
                self.sent += 1
        self.serving.server.wake()


def _measure_settling(watch: _Watch) -> Settling:
    """Give a receiver messages one by one, and see how many it settles at once."""
    link = watch.receiver
    credit, is_presettled = int(link["credit"]), bool(link["is_presettled"])
    feeder = _Feeder(watch.serving, watch.given)
    settled = 0
    while feeder.sent < _MOST_FED and not settled and watch.is_receiving:
        feeder.send(feeder.sent + 1, _MOST_FED)
        settled = _await_settled(watch, feeder.sent, watch.given.still if feeder.sent == 1 else 2 * _LOOK)
        if watch.figures.depth > int(watch.receiver["unsettled"]) and not settled:
            # Its credit is used up: there is no more to wait for than time.
            settled = _await_settled(watch, feeder.sent, watch.given.still)
            break
    watch.until_still()
    with watch.serving.lock:
        counted = watch.serving.broker.queue(watch.given.queue).statistics()
    return Settling(
        credit,
        is_presettled,
        0 if is_presettled else feeder.sent - watch.figures.depth if settled else 0,
        feeder.sent,
        int(watch.receiver["unsettled"]) if watch.is_receiving else 0,
        # What a receiver had that is gone is back as well.
        released=counted.releases if watch.is_receiving else 0,
        rejected=counted.discardsSubscriber,
    )


def _await_settled(watch: _Watch, fed: int, seconds: float) -> int:
    """Wait for messages to be settled, or for the receiver's end; return how many were."""
    for _ in range(max(1, round(2 * seconds / _LOOK))):
        sleep(_LOOK / 2)
        watch.look()
        if watch.figures.depth < fed or not watch.is_receiving:
            break
    return fed - watch.figures.depth
