"""ClientCard: the measurements of one client program, as numbers and as sentences.

A client with a window of W messages leaves stop + W messages on a stopped queue: the broker accepts
messages up to the stop threshold, and withholds the outcomes of later ones until W of them wait (LNK-02).  A
client without a window leaves all its messages.  At a limit with the policy ``reject`` a message is released
(LNK-05), and the client may send it again, report a failure, or lose it.

A receiver that settles in batches of B keeps up to B - 1 messages unsettled on each of its K links while it
waits for more.  At the same time the queue waits for it to settle, while flow control is ON and the queue
has at least *resume* messages.  So both can wait for ever only if the unfinished batches, K (B - 1)
messages, have *resume* messages or more.

A fact is yes, no, or unknown (:meth:`ClientCard.doubt`): a pause may be an end, and a card makes no
accusation on a guess.  Numbers that differ from run to run appear in no sentence, and a sentence that
depends on the end of a wait tells how long the wait was.

``data/clients.csv`` has a row for each usage pattern of a library that was measured with a stopped queue of
the real broker.  ``data/clients`` has programs that send as the documentation of some libraries does, and
programs that avoid the losses.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import Path
from textwrap import shorten
from types import MappingProxyType
from typing import Any, NamedTuple

from qflow.kit import kit_path
from qflow.live.brakes import CREDIT, REJECT, SILENCE
from qflow.live.certificates import Certificate
from qflow.table import Table

SENDER, RECEIVER = "sender", "receiver"
STILL, ENDED, RESENDS, LATE = "waits", "ended", "sends again and again", "still sends"
"""The endings of a part of a run; :data:`LATE` means the time limit."""
_LARGEST_WINDOW = 2_048
"""The largest window that a library of ``data/clients.csv`` has."""
_PATIENT = 20.0
"""A receiver that has settled nothing for this many seconds counts as one that does not settle."""
_CHANCE = "its links together have credit above the limit; a larger --limit tells"
_SHOWN = 160
_UNIQUE = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", re.IGNORECASE)
"""The pattern of names that are new in each run."""
_ERROR = re.compile(r"^\s*[\w.]*(Error|Exception)\b|\bamqp:[a-z]")


class Conditions(NamedTuple):
    """The conditions under which a client is checked.

    Fields:
        stop, resume: The queue's thresholds, in messages.
        limit: The queue's limit (``qpid.max_count``), in messages.
        window: The window of the bench's own sender, which sends to receivers.
        messages: The number of messages that the program is asked to send (``AMQP_MESSAGES``).
        queue: The queue's name (``AMQP_QUEUE``).
        still: The seconds without a change after which a client counts as still.
        timeout: The most seconds of one run of the program, counted from its first connection.
        body: The body of messages to a receiver: text is sent as an AMQP value, bytes as data.
        content_type: The body's content type; "" for none.
        properties: The application properties of messages to a receiver.
        brake: The way in which the broker stops a sender (:mod:`qflow.live.brakes`).
        certificate: The certificate for TLS, or None; the program gets its authority's file (``AMQP_CA``).
    """

    stop: int = 10
    resume: int = 5
    limit: int = 30
    window: int = 20
    messages: int = 6_000
    queue: str = "orders"
    still: float = 1.0
    timeout: float = 60.0
    body: str | bytes = "order"
    content_type: str = ""
    properties: Mapping[str, Any] = MappingProxyType({})
    brake: str = SILENCE
    certificate: Certificate | None = None


@dataclass(frozen=True)
class Figures:
    """A client's counts at one moment, as the server observes them; messages are counted by identity."""

    # Transfers, repeated ones included, and their outcomes.
    sent: int = 0
    accepted: int = 0
    released: int = 0
    rejected: int = 0
    unsettled: int = 0
    # Transfers that reached the queue; messages on it now.
    stored: int = 0
    depth: int = 0
    # Distinct messages that were sent, and that reached the queue; messages in open transactions.
    messages: int = 0
    arrived: int = 0
    uncommitted: int = 0
    # Transfers in transactions that were rolled back.
    withdrawn: int = 0


@dataclass(frozen=True)
class ClientRun:
    """One run of the program, as the bench measured it."""

    case: str
    # The counts when the program was still or had ended, and at the end of the run.
    before: Figures
    after: Figures
    # The most transfers without an outcome, or unsettled deliveries, at a time.
    most_unsettled: int = 0
    # The ending of the first part; ``end`` is the ending of the run.
    pause: str = STILL
    # The exit status; None if the bench ended the program.
    status: int | None = None
    output: str = ""
    end: str = STILL
    # The output after the bench acted on the queue.
    reaction: str = ""
    is_connected: bool = True
    # The most messages in open transactions at a time.
    most_uncommitted: int = 0
    links: int = 1
    # Whether messages can be identified: no two are alike, and a resent one keeps its identity.
    is_told_apart: bool = True
    # The seconds without a change at the end.
    idle: float = 0.0
    # The number of transfers to each other node.
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    # Whether it sent a message before it could know the outcome of the previous one.
    is_pipelined: bool = False
    # Messages that only other nodes have: those also sent to the queue, and the rest.
    diverted: int = 0
    diverted_unsent: int = 0

    @property
    def has_failed(self) -> bool:
        """Whether the program ended by itself with an exit status other than 0."""
        return self.status not in (None, 0)

    @property
    def is_presettled(self) -> bool:
        """Whether the program sent all its messages settled."""
        after = self.after
        has_outcomes = after.accepted or after.released or after.rejected or self.most_unsettled
        return after.sent > 0 and not has_outcomes

    @property
    def resends(self) -> bool:
        """Whether the program sent a message again."""
        return self.after.sent - self.after.withdrawn > self.after.messages

    @property
    def missing(self) -> int:
        """How many messages were sent but are on no queue, except those of an open transaction."""
        pending = self.after.uncommitted if self.status is None else 0
        return max(0, self.after.messages - self.after.arrived - pending - self.diverted)


_NO_RUN = ClientRun("", Figures(), Figures(), pause=LATE)
"""The run of a case that was not measured."""


@dataclass(frozen=True)
class Settling:
    """A receiver's manner of settling, over all its links."""

    # The credit that it granted, in messages; the server records at most 1,000.
    credit: int
    is_presettled: bool
    # The most messages settled at once on a link; 1 if it settles a single message, 0 if it settles none.
    batch: int
    fed: int
    unsettled: int
    # Whether it and a sender with a window waited for each other, and its deliveries in that run.
    is_locked: bool = False
    delivered_locked: int = 0
    unsettled_locked: int = 0
    # How many of the messages sent to it one by one it released or rejected.
    released: int = 0
    rejected: int = 0
    links: int = 1
    # Messages without credit at the end, and the seconds without a change.
    undelivered: int = 0
    waited: float = 0.0
    # The seconds until a single message was settled, if it took long; else 0.
    alone: float = 0.0
    # Whether all its links only browse.
    is_browser: bool = False
    # In the run beside a sender: whether time was too short, messages without credit, seconds unchanged.
    is_slow: bool = False
    undelivered_locked: int = 0
    waited_locked: float = 0.0

    @property
    def is_starved(self) -> bool:
        """Whether messages wait for credit although all deliveries are settled: it grants no more credit."""
        return self.undelivered > 0 and not self.unsettled

    @property
    def remainder(self) -> int:
        """The most messages that its links can keep unsettled while each waits for the rest of a batch."""
        return self.links * (self.batch - 1)


@dataclass(frozen=True)
class ClientCard:
    """The measurements of one client.

    Parameters:
        command: The program and its arguments.
        role ({"sender", "receiver"}): What the program does.
        given: The conditions of the check.
        total: The messages that the program sends if nothing stops it.
        is_endless: Whether the program sends without end, so that ``total`` means nothing.
        runs: Case name to :class:`ClientRun`.
        settling: A receiver's manner of settling; None for a sender.
        is_whole: Whether the program had sent everything by the end of the undisturbed run.

    >>> still = Figures(sent=11, accepted=10, unsettled=1, stored=11, depth=11, messages=11, arrived=11)
    >>> runs = {"stopped": ClientRun("stopped", still, still, most_unsettled=1)}
    >>> card = ClientCard(("send",), "sender", Conditions(messages=300), 300, False, runs)
    >>> card.stops, card.client_window, card.past_stop
    (True, 1, 1)
    """

    command: tuple[str, ...]
    role: str
    given: Conditions
    total: int
    is_endless: bool
    runs: dict[str, ClientRun] = field(default_factory=dict)
    settling: Settling | None = None
    is_whole: bool = True

    def _run(self, case: str) -> ClientRun:
        return self.runs.get(case, _NO_RUN)

    @property
    def sent_by_itself(self) -> list[int]:
        """The distinct numbers of messages, sorted, in the runs that ended without a failure.

        Nothing stops a program that sends its messages settled.  If such a program ends after another number
        each time, that is by chance: it closes before everything is written.
        """
        if self.is_endless or not (self.is_whole and self._run("free").is_presettled):
            return [self.total]
        # If the program ended first, its queue had not been deleted.
        ended = (run for run in self.runs.values() if run.case in COUNTED or run.pause == ENDED)
        return sorted({self.total, *(run.after.messages for run in ended if run.status == 0)})

    @property
    def varies(self) -> bool:
        """Whether the program sends another number of messages in each run, though nothing stops it."""
        return len(self.sent_by_itself) > 1

    def _has_sent_all(self, run: ClientRun, figures: Figures | None = None) -> bool:
        """Return whether a program had sent all its messages, at the end or at an earlier moment."""
        sent = (figures or run.after).messages
        is_end = figures is None or run.pause == ENDED
        is_diverted = is_end or sent == run.after.messages
        is_all = sent + (run.diverted_unsent if is_diverted else 0) >= self.total
        return is_all or (self.varies and run.status == 0 and is_end)

    # Senders

    @property
    def stops(self) -> bool:
        """Whether the client waits with messages left to send while the queue is ON."""
        run = self._run("stopped")
        if run.pause in (LATE, RESENDS):
            return False
        if self.given.brake == SILENCE and not run.most_unsettled:
            return False
        if self.given.brake == REJECT and run.status is not None:
            # A program that ended because of a refusal was not stopped.
            return False
        return self.is_endless or run.before.messages < self.total

    @property
    def client_window(self) -> int | None:
        """The most transfers without an outcome of a client that stops under ``silence``; else None."""
        return self.runs["stopped"].most_unsettled if self.stops and self.given.brake == SILENCE else None

    @property
    def past_stop(self) -> int:
        """How many messages are on the stopped queue above its stop threshold."""
        return max(0, self._run("stopped").before.depth - self.given.stop)

    @property
    def _is_window_unseen(self) -> bool:
        """Whether the program had too few messages to fill a window of usual size."""
        run = self._run("stopped")
        waits = run.status is None and run.pause == STILL and run.after.unsettled > 0
        return waits and self._has_sent_all(run) and self.total - self.given.stop < _LARGEST_WINDOW

    def count_lost(self, case: str) -> int:
        """Return the number of messages that were sent but are on no queue, if no failure is reported.

        A program that is still resending refused messages has lost nothing yet.
        """
        run = self._run(case)
        is_trying = run.status is None and (run.resends or run.pause == RESENDS)
        return 0 if run.has_failed or is_trying or self._is_unknown(run) else run.missing

    def count_unsent(self, case: str) -> int:
        """Return the number of messages never sent, if the program ended without reporting a failure."""
        run = self._run(case)
        is_known = run.status == 0 and not self.is_endless and not self.varies
        return max(0, self.total - run.after.messages - run.diverted_unsent) if is_known else 0

    def _is_unknown(self, run: ClientRun) -> bool:
        """Whether resent messages look like new ones, so that losses cannot be counted."""
        is_new = not (run.is_told_apart or self.is_endless) and run.after.messages > self.total
        # A presettled sender learns of no loss, so it resends nothing.
        return is_new and run.missing > 0 and not run.is_presettled

    @property
    def loses_nothing(self) -> bool:
        """Whether no message was lost or never sent, unless the program reported a failure."""
        return self.role == SENDER and not any(
            self.count_lost(case) or self.count_unsent(case) for case in COUNTED
        )

    @property
    def goes_on(self) -> bool:
        """Whether the client sends the rest after flow control is OFF again."""
        run = self._run("resumed")
        if run.has_failed:
            return False
        if self.is_endless or not self.is_whole:
            return run.after.messages > run.before.messages
        return self._has_sent_all(run)

    # Receivers

    @property
    def settles(self) -> bool:
        """Whether received messages leave the queue, and the program does not die of them."""
        if self.settling is None or self.settling.is_browser or self._dies_of:
            return False
        return self.settling.is_presettled or self.settling.batch > 0

    @property
    def _dies_of(self) -> ClientRun | None:
        given = (run for case, run in self.runs.items() if self.role == RECEIVER and case != "deleted")
        return next((run for run in given if run.has_failed), None)

    @property
    def _leaves_all(self) -> bool:
        """Whether all messages that a receiver gets stay on the queue or return to it."""
        settling = self.settling
        if settling is None or settling.batch or settling.rejected:
            return False
        return settling.is_browser or settling.released > 0

    @property
    def never_locks(self) -> bool:
        """Whether this receiver and a sender can never wait for each other, whatever the sender's window."""
        settling = self.settling
        if settling is None or settling.is_locked or not self.settles:
            return False
        return settling.is_presettled or not settling.is_starved and settling.remainder < self.given.resume

    # Unknown facts

    def doubt(self, name: str) -> str:
        """Return the reason why a fact is unknown, and the option that would decide it; "" if known."""
        settling, given = self.settling, self.given
        longer = f"a --timeout above {given.timeout:g} tells"
        if name == "stops" and self._is_before_stop:
            return f"{self._describe_delay(self._run('stopped'), 'was not at the stop')}; {longer}"
        if name == "stops" and self._is_window_unseen:
            seen = self.total - given.stop - 1
            few = f"with {self.total:,} messages a window above {seen:,} is not seen"
            return f"{few}; a larger --messages tells"
        if name == "goes-on" and self._is_late("resumed") and not self.goes_on:
            return f"{self._describe_delay(self._run('resumed'), 'still sent')}; {longer}"
        if name == "goes-on" and self.is_endless and self._run("resumed").pause == LATE and not self.goes_on:
            return "it has no end, and was never still"
        if name == "loses-nothing" and self.loses_nothing:
            if any(self._is_unknown(self._run(case)) for case in COUNTED):
                return "a message that is sent again looks like a new one; bodies of their own tell"
            if self._is_chance(self._run("limit")):
                return _CHANCE
            late = [self._run(case) for case in ("limit", "released") if self._is_late(case)]
            if late:
                least = min(late, key=attrgetter("after.sent"))
                return f"{self._describe_delay(least, 'still sent')}; {longer}"
            if any(self._is_below_limit(case) for case in ("limit", "released")):
                return f"it was not at the limit after {given.timeout / 2:g} s; {longer}"
        if settling is not None and not self._dies_of and not self._leaves_all:
            if name in ("settles", "never-locks") and self._is_settling_slow(settling):
                return f"nothing was settled within {settling.waited:.0f} s; {longer}"
            # A receiver known to wait for a batch or to withhold credit is locked; others may only be slow.
            is_known = settling.batch > 1 or settling.is_starved
            if name == "never-locks" and settling.is_locked and settling.waited_locked < _PATIENT:
                return "" if is_known else f"nothing moved for {settling.waited_locked:.0f} s; {longer}"
            if name == "never-locks" and settling.is_slow:
                return f"nothing was settled within {given.timeout:g} s; {longer}"
            if name == "never-locks" and self._is_partial(settling) and not settling.is_locked:
                kept = (
                    f"{settling.unsettled:,} of {settling.fed:,} not settled within {settling.waited:.0f} s"
                )
                return f"not with window {given.window}, but {kept}; {longer}"
        return ""

    @property
    def _is_before_stop(self) -> bool:
        """Whether the time was too short for a starting or sending program to reach the stop."""
        run = self._run("stopped")
        is_below = run.before.stored <= self.given.stop and not run.before.rejected
        return run.pause == LATE and run.status is None and is_below

    def _describe_delay(self, run: ClientRun, otherwise: str) -> str:
        """Describe the unfinished work of a program whose time was over."""
        return f"it {otherwise if run.after.sent else 'had sent nothing'} after {self.given.timeout:g} s"

    def _is_late(self, case: str) -> bool:
        """Whether the bench ended a program that was still sending new or refused messages."""
        run = self._run(case)
        is_whole = self._has_sent_all(run) and not run.missing
        return run.end in (LATE, RESENDS) and run.status is None and not (is_whole or self.is_endless)

    def _is_chance(self, run: ClientRun) -> bool:
        """Whether all links' credit together exceeds the limit, so that the order of sending decides."""
        given = self.given
        return given.brake == CREDIT and run.links > 1 and run.links * (given.stop + 1) > given.limit

    def _is_below_limit(self, case: str) -> bool:
        """Whether the time was too short for a sending program to reach the limit."""
        run = self._run(case)
        is_refused = run.before.released or run.before.rejected
        return run.pause == LATE and not is_refused and run.before.depth < self.given.limit

    def _is_settling_slow(self, settling: Settling) -> bool:
        is_settled = settling.batch or settling.is_presettled or settling.released or settling.rejected
        return not is_settled and settling.unsettled > 0 and settling.waited < _PATIENT

    def _is_partial(self, settling: Settling) -> bool:
        """Whether some messages stay unsettled although others are settled one at a time."""
        return settling.batch == 1 and settling.unsettled > 0 and settling.waited >= self.given.timeout / 2

    # Text

    def fact(self, name: str) -> bool | None:
        """Return a fact of :data:`FACTS`; None if it is unknown or belongs to the other role."""
        if FACTS[name] != self.role or self.doubt(name):
            return None
        return bool(getattr(self, name.replace("-", "_")))

    def subject(self, of: str) -> str:
        """Return the heading of the card's line for a case or fact (a key of :data:`SUBJECTS`)."""
        return SUBJECTS[of].format(limit=self.given.limit)

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines of the card, each a heading and a sentence."""
        return self._sender_lines() if self.role == SENDER else self._receiver_lines()

    def _sender_lines(self) -> list[tuple[str, str]]:
        described = {
            "stopped": self._describe_stop(),
            "resumed": self._describe_resume(),
            **{case: self._describe_limit(case) for case in ("limit", "released")},
            "deleted": self._describe_deletion(),
        }
        lines = [
            (self.subject(case), words + self._describe_diversion(self.runs[case]))
            for case, words in described.items()
        ]
        lines.insert(1, (WINDOW, self._describe_window()))
        elsewhere = self._run("free").elsewhere
        if elsewhere:
            sent = ", ".join(f"{node or 'no node'}: {number:,}" for node, number in elsewhere.items())
            lines.append(("also sends to", f"{sent} (not counted above)"))
        return lines

    def _describe_stop(self) -> str:
        run, doubt = self.runs["stopped"], self.doubt("stops")
        words = self._describe_depth(run, f", {self.past_stop:,} past the stop")
        if run.before.rejected:
            words += f", {self._describe_refused(run)}"
        if run.has_failed or self.count_unsent("stopped"):
            words += f"; {self._describe_end(run)}"
        elif doubt:
            return f"cannot tell: {words}; {doubt}"
        elif run.pause == RESENDS and not run.before.rejected:
            # A time-out is no refusal, so each retry adds a message to the queue.
            return "no: sends again what has no outcome, so more and more come onto the queue"
        elif run.pause == LATE and not self.is_endless:
            words += f", and it still sends after {self.given.timeout:g} s"
        elif self.stops and run.status is None:
            words += f"; nothing more for {run.idle:.0f} s"
        return f"{'yes' if self.stops else 'no'}: {words}"

    def _describe_diversion(self, run: ClientRun) -> str:
        """Return the nodes that have messages which the queue refused or withheld, as text."""
        nodes = ", ".join(node or "no node" for node in run.elsewhere)
        return f"; others go to {nodes}" if run.diverted or run.diverted_unsent else ""

    def _describe_window(self) -> str:
        run, window = self.runs["stopped"], self.client_window
        if run.most_uncommitted:
            return f"waits for each commit, of up to {run.most_uncommitted:,} messages"
        if self._is_before_stop:
            return f"not seen: {self._describe_delay(run, 'was not at the stop')}"
        if run.is_presettled:
            return "none: it waits for no outcomes"
        # A link to an exchange is stopped by silence under every brake.
        if self.given.brake != SILENCE and not run.after.unsettled:
            return "not seen: no outcome is withheld from it"
        links = f", on {run.links:,} links" if run.links > 1 else ""
        words = f"{run.most_unsettled:,} without an outcome{links}"
        if self.doubt("stops"):
            return f"not seen: {words}, and nothing left to send"
        return f"none: up to {words}" if window is None else words

    @property
    def _is_one_by_one(self) -> bool:
        """Whether the program waits for each outcome; others send more before a refusal, by chance."""
        return not self._run("free").is_pipelined and not self._run("stopped").is_presettled

    def _describe_depth(self, run: ClientRun, past: str = "") -> str:
        """Return the number of messages on the queue as text, unless links share its room by chance."""
        if self.given.brake == CREDIT and run.links > 1:
            return f"more than {self.given.stop:,} on the queue, as each link has a credit of its own"
        if self.varies and run.before.depth == run.before.messages and run.pause == ENDED:
            return "all that it sends is on the queue"
        return f"{run.before.depth:,} on the queue{past}"

    def _of_total(self, count: int) -> str:
        """Return a number of messages "of" the total; without the total if the bench ended the free run."""
        return f"{count:,} of {self.total:,}" if self.is_whole else f"{count:,}"

    def _is_resending(self, run: ClientRun) -> bool:
        """Whether the program resends rejected messages, so that its counts depend on the machine's speed."""
        return bool(run.resends and run.before.rejected and self.is_whole and not self.is_endless)

    def _describe_refused(self, run: ClientRun) -> str:
        """Return the number of refused transfers as text, if it is the same in each run."""
        word = "rejected" if run.before.rejected else "released"
        if self.is_endless and not run.is_told_apart:
            # A resent message looks like the next one.
            return f"some {word}"
        if run.resends or run.pause == RESENDS:
            # The number depends on the machine's speed.
            return f"resends what is {word}"
        is_exact = self._is_one_by_one or self._has_sent_all(run)
        return f"{run.after.released + run.after.rejected:,} {word}" if is_exact else f"some {word}"

    def _describe_end(self, run: ClientRun, verb: str = "ends") -> str:
        """Describe how a program ended by itself: status, messages sent if not all, last error."""
        after, sent = run.after, " before all were sent"
        if self._is_one_by_one or not (after.released or after.rejected):
            sent = f" after {self._of_total(after.messages)} messages"
        return self._describe_status(run, verb, after, sent, " without a word")

    def _describe_status(self, run: ClientRun, verb: str, of: Figures, sent: str, silence: str) -> str:
        """Describe an exit status, with the messages sent if not all were, and the last error."""
        is_short = self.role == SENDER and not self.is_endless and not self._has_sent_all(run, of)
        said = _quote_after(run.output) or (silence if is_short and not run.status else "")
        return f"{verb} with status {run.status}{sent if is_short else ''}{said}"

    def _describe_resume(self) -> str:
        run, doubt = self.runs["resumed"], self.doubt("goes-on")
        if run.pause == ENDED and (run.has_failed or self.count_unsent("resumed")):
            return self._describe_end(run, "had ended before,")
        if run.has_failed:
            return self._describe_end(run)
        if self._is_resending(run) and self.goes_on and run.after.arrived >= self.total:
            return f"goes on: all {self.total:,} arrive"
        if not self.is_endless and self._has_sent_all(run, run.before):
            return "had nothing left to send"
        if doubt:
            return f"cannot tell: {doubt}"
        if run.pause == LATE:
            end = "goes on" if self.goes_on else "does not send all"
            return f"was not still within {self.given.timeout / 2:g} s, and {end}"
        if self.goes_on and (self.is_endless or not self.is_whole):
            return "goes on"
        if self.goes_on:
            is_exact = not self.varies and not run.diverted_unsent
            return f"goes on: sends the others{f', {self.total:,} in all' if is_exact else ''}"
        rest = f"{run.end}, for {run.idle:.0f} s" if run.status is None else f"ends with status {run.status}"
        more = run.after.messages - run.before.messages
        return f"does not go on: {more:,} more, then it {rest}"

    def _describe_limit(self, case: str) -> str:
        run = self.runs[case]
        missing, lost = run.missing, self.count_lost(case)
        seen = self._describe_depth(run) if case == "limit" else f"{run.before.depth:,} on the queue"
        if case == "limit" and self._is_chance(run):
            return f"{seen}; cannot tell: {_CHANCE}"
        if self._is_unknown(run) and not run.has_failed:
            return f"{seen}; cannot tell: a message that is sent again looks like a new one"
        if run.before.released or run.before.rejected:
            seen += f", {self._describe_refused(run)}"
        if not run.is_told_apart and not run.is_presettled:
            seen += " (its messages are alike: counted only)"
        if run.has_failed:
            return f"{seen}; {self._describe_end(run, 'dies')}"
        if lost:
            return f"{seen}; {self._describe_loss(run, lost)}"
        if self.count_unsent(case):
            return f"{seen}; {self._describe_end(run)}"
        if self.is_endless and missing:
            return f"{seen}; goes on; cannot tell what is lost, as it has no end"
        if self._is_late(case) or (missing and run.status is None):
            return f"{seen}; cannot tell: not all there, and {self._describe_delay(run, 'still sent')}"
        if self._is_below_limit(case):
            return f"{seen}; cannot tell: not at the limit after {self.given.timeout / 2:g} s"
        if not self.is_endless and self.is_whole and run.after.messages < self.total and run.status is None:
            left = self.total - run.after.messages
            return f"{seen}; loses nothing; {left:,} of {self.total:,} not sent, nothing for {run.idle:.0f} s"
        if run.resends:
            twice = ", some twice" if run.after.stored > run.after.arrived else ""
            again = "" if run.before.released or run.before.rejected else "; sends some again"
            return f"{seen}{again}; all arrive when there is room{twice}"
        if run.before.depth < self.given.limit and not run.before.released and not run.before.rejected:
            at = f" at {run.before.depth:,}" if self.given.brake != CREDIT or run.links < 2 else ""
            return f"never at the limit: {run.pause}{at}"
        return f"{seen}; loses nothing"

    def _describe_loss(self, run: ClientRun, lost: int) -> str:
        if self.is_endless:
            return f"goes on, and loses {lost:,} of {run.after.messages:,}"
        if self.varies:
            which = "all others" if run.after.arrived == run.before.depth else "messages"
            return f"goes on; loses {which}{_quote_after(run.output) or ' without a word'}"
        is_short = self.count_unsent(run.case) > 0
        if is_short and not self._is_one_by_one:
            return f"loses messages, and {self._describe_end(run)}"
        # A presettled sender may close before everything is written, so its total differs between runs.
        total = self.total if self.is_whole and not run.is_presettled else run.after.messages
        loses = f"loses {lost:,} of {total:,}"
        if is_short:
            return f"{loses}, and {self._describe_end(run)}"
        how = "goes on; " if run.is_presettled or self._has_sent_all(run) else ""
        # A presettled sender cannot know of a loss, so there is nothing to wait for.
        waits = run.status is None and not run.is_presettled
        again = "so far" if run.end == LATE else f"within {run.idle:.0f} s"
        wait = f", none sent again {again}" if waits else ""
        return f"{how}{loses}{_quote_after(run.output) or ' without a word'}{wait}"

    def _describe_deletion(self) -> str:
        run = self.runs["deleted"]
        if run.pause == ENDED:
            return self._describe_end(run, "had ended before,")
        if run.pause == LATE and not run.before.sent and self.role == SENDER:
            return "cannot tell: it had sent nothing before"
        if run.status is not None:
            sent = f", {self._of_total(run.before.messages)} messages sent before"
            if self._is_resending(run) and not self._is_one_by_one:
                return f"ends with status {run.status}{_quote_after(run.output)}"
            return self._describe_status(run, "ends", run.before, sent, ", without a word")
        if run.after.sent > run.before.sent:
            # A transfer on a link that both sides have closed ends the connection and is not counted, and the
            # number depends on the instant.
            return f"goes on: sends more, to no queue, within {self.given.timeout:g} s"
        where = "still there" if run.is_connected else "still there, without a connection"
        where += f" after {run.idle:.0f} s" if run.idle >= 1 else ""
        word = _quote(run.reaction)
        words = f"says {word}, and is {where}" if word else f"is {where}, and has said nothing"
        # A sender learns of the deletion only at its next transfer (LNK-09).
        is_done = self.role == SENDER and not self.is_endless and run.before.messages >= self.total
        return f"had nothing left to send; {words}" if is_done else words

    def _receiver_lines(self) -> list[tuple[str, str]]:
        settling = self.settling
        assert settling is not None
        settles = self._describe_settling(settling)
        links = f", on {settling.links:,} links" if settling.links > 1 else ""
        return [
            ("its credit", f"{settling.credit:,}{links}"),
            (SUBJECTS["settles"], settles),
            (SUBJECTS["never-locks"], self._describe_lock(settling)),
            (SUBJECTS["deleted"], self._describe_deletion()),
        ]

    def _describe_settling(self, settling: Settling) -> str:
        run, fed = self.runs["free"], f"{settling.fed:,} message{'s' if settling.fed > 1 else ''}"
        end = "" if run.status is None else f"{'dies' if run.status else 'ends'} with status {run.status}"
        end = end and f"{end} after {fed}{_quote_after(run.output)}"
        if not end and (fatal := self._dies_of):
            end = f"dies with status {fatal.status} beside a sender{_quote_after(fatal.output)}"
        wait = f" within {settling.waited:.0f} s"
        doubt = self.doubt("settles")
        if settling.is_presettled and not settling.is_browser:
            words = "has no need to: messages are settled when they are sent to it"
        elif settling.rejected:
            words = f"yes: rejects {settling.rejected:,} of {settling.fed:,}"
        elif settling.batch:
            each = " on each link" if settling.links > 1 else ""
            words = f"yes, in batches of {settling.batch:,}{each}"
            if settling.batch == 1:
                slowly = f", within {settling.alone:.1f} s" if settling.alone else ""
                words = f"yes, one at a time{slowly}"
                if settling.released:
                    words += "; releases some"
                if self._is_partial(settling):
                    words += f"; {settling.unsettled:,} of {settling.fed:,} not settled{wait}"
            elif not end:
                words += f"; fewer are not settled{wait}"
            if settling.is_starved:
                words += f"; gives no more credit{wait}"
        elif end:
            return f"{'not known' if run.has_failed else 'no'}: {end}"
        elif doubt:
            return f"cannot tell: {doubt}"
        elif settling.is_browser:
            words = "no: it only browses"
        elif settling.released:
            words = f"no: releases {'its messages' if settling.released > 1 else 'its message'}"
        elif settling.unsettled:
            # The number of its messages depends on the machine's speed, unless its credit is used up.
            waits = f"{settling.unsettled:,} wait, " if settling.undelivered else ""
            words = f"no: {waits}none is settled{wait}"
        else:
            words = (
                f"not known: its link is gone after {fed}" if settling.credit else "no: it gives no credit"
            )
        return f"{words}; {end}" if end else words

    def _describe_lock(self, settling: Settling) -> str:
        fatal, doubt = self._dies_of, self.doubt("never-locks")
        if fatal:
            return f"not known: dies with status {fatal.status}{_quote_after(fatal.output)}"
        if doubt:
            return f"cannot tell: {doubt}"
        if settling.is_locked and not self._leaves_all:
            waits = f"{settling.unsettled_locked:,} of them not settled"
            if settling.undelivered_locked:
                waits += f", {settling.undelivered_locked:,} more without credit"
            return (
                f"yes, with one of window {self.given.window}: {settling.delivered_locked:,} delivered, "
                f"{waits}, and both wait; nothing moved for {settling.waited_locked:.0f} s"
            )
        if self._leaves_all:
            why = "only browses" if settling.is_browser else "releases them all"
            return f"no message leaves the queue, as it {why}: a sender waits for ever"
        resume = f"resume {self.given.resume}"
        if self.never_locks:
            many = f"unfinished batches have fewer messages than {resume}"
            return f"no, with none: {many if settling.batch > 1 else 'a message that comes alone is settled'}"
        if not self.settles:
            return "it settles nothing"
        return (
            f"not with window {self.given.window}; with another it can be: unfinished batches can have "
            f"{settling.remainder:,} messages, {resume} or more"
        )

    def table(self) -> Table:
        """Return a table of the figures of all runs; those of a program that resends vary."""
        after = ("sent", "accepted", "released", "rejected")
        fields = ("case", *(f"after.{name}" for name in after), "most_unsettled", "before.depth")
        counts, runs = attrgetter(*fields, "after.messages", "after.arrived"), self.runs.values()
        names = ["run", *after, "most unsettled", "on queue", "messages", "arrived", "never sent", "ended"]
        rows = [(*counts(run), self.count_unsent(run.case), name_end(run.status)) for run in runs]
        return Table(rows, names)

    def as_json(self) -> dict[str, Any]:
        """Return the card as a JSON value, with the derived facts and the sentences."""
        given, is_sender = self.given, self.role == SENDER
        cases = [case for case in self.runs if case in COUNTED]
        return {
            "command": self.command,
            "role": self.role,
            **{name: getattr(given, name) for name in COMPARED},
            "asked": given.messages if is_sender else None,
            "total": self.total if is_sender else None,
            "is_endless": self.is_endless if is_sender else None,
            "varies": self.varies if is_sender else None,
            "runs": {case: asdict(run) for case, run in self.runs.items()},
            "settling": self.settling and asdict(self.settling),
            "brake": given.brake,
            "stops": self.fact("stops"),
            "client_window": self.client_window,
            "past_stop": self.past_stop if is_sender else None,
            "lost": {case: self.count_lost(case) for case in cases},
            "unsent": {case: self.count_unsent(case) for case in cases},
            "facts": {name: self.fact(name) for name in FACTS},
            "cannot_tell": {name: self.doubt(name) for name in FACTS if self.doubt(name)},
            "card": dict(self.lines()),
        }

    def __str__(self) -> str:
        given, asked = self.given, ""
        if self.total != given.messages:
            asked = f" ({given.messages:,} were asked for)"
        total = f"{self.total:,}"
        if self.varies:
            total = f"{self.sent_by_itself[0]:,} to {self.sent_by_itself[-1]:,}"
            asked += ", another number in each run"
        what = "sends without end" if self.is_endless else f"sends {total} messages{asked}"
        if not self.is_whole and not self.is_endless:
            what = f"had sent {self.total:,} messages after {given.timeout:g} s{asked}, and not ended"
        free = self.runs.get("free")
        if free is not None and free.has_failed:
            what += f" and ends with status {free.status} where nothing stops it{_quote_after(free.output)}"
        head = f"a sender, which {what}" if self.role == SENDER else "a receiver"
        if given.brake != SILENCE:
            head += f"; a broker that brakes by {given.brake}"
        thresholds = f"stop above {given.stop}, resume below {given.resume}"
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        words = "\n".join(f"{name:<{width}}  {text}" for name, text in lines)
        figures = f"\n\n{self.table()}" if self.role == SENDER else ""
        return f"{' '.join(self.command)}\n{head}; {thresholds}\n\n{words}{figures}"


SUBJECTS = {
    "stopped": "does it stop",
    "stops": "does it stop",
    "resumed": "after resume",
    "goes-on": "after resume",
    "limit": "limit {limit}, with flow control",
    "released": "limit {limit}, without",
    "deleted": "queue deleted",
    "settles": "does it settle",
    "never-locks": "locked with a sender",
}
"""The heading of each case's or fact's line; ``loses-nothing`` has the lines of :data:`COUNTED`."""
WINDOW = "its window"

COUNTED = ("stopped", "resumed", "limit", "released")
"""The cases in which messages can be lost, or never sent."""

COMPARED = ("stop", "resume", "limit", "window", "messages", "still", "timeout")
"""The conditions that must be the same in a report and its baseline."""

FACTS = dict.fromkeys(("stops", "goes-on", "loses-nothing"), SENDER)
FACTS |= dict.fromkeys(("settles", "never-locks"), RECEIVER)
"""The facts that can be required of a client (properties of its card), each with its role."""


def name_end(status: int | None) -> str:
    """Return the end of a program as text: by itself with a status, or by the bench."""
    return "by the bench" if status is None else f"status {status}"


def _quote(output: str) -> str:
    """Return the last error in an output, or else its last line, quoted."""
    lines = output.splitlines()
    last = next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1] if lines else "").strip()
    return repr(shorten(_UNIQUE.sub("…", last), _SHOWN, placeholder=" …")) if last else ""


def _quote_after(output: str) -> str:
    return f", and says {_quote(output)}" if _quote(output) else ""


# Measured clients


class KnownClient(NamedTuple):
    """A measured usage pattern of a library: 6,000 messages to a queue with stop 10 and resume 5."""

    library: str
    version: str
    # The AMQP version.
    wire: str
    pattern: str
    # A program in ``data/clients`` with this pattern.
    sample: str
    # "yes"; "late", when another buffer is full; "no"; or "fails", with an error of its own.
    stops: str
    # Messages on the queue once nothing changed any more; and those stored at limit 30 with the policy
    # ``reject``, or "" if the session ends.
    stopped: str
    limit: str
    # How the program learns of refused messages; its reaction to the queue's deletion, "" if not measured.
    learns: str
    deleted: str
    judgement: str
    measured: str
    # Programs in ``data/clients`` that stop and lose nothing, separated by semicolons; or advice.
    cure: str

    @property
    def cures(self) -> tuple[Path, ...]:
        """The paths of the programs that stop and lose nothing."""
        names = self.cure.split("; ") if self.cure.endswith((".py", ".js")) else []
        return tuple(kit_path("data") / "clients" / name for name in names)


def known_clients() -> list[KnownClient]:
    """Return the measured patterns in file order."""
    with open(kit_path("data") / "clients.csv", encoding="utf-8", newline="") as file:
        return [KnownClient(**row) for row in csv.DictReader(file)]


def client_table(library: str = "") -> Table:
    """Return a table of known clients, optionally only those of matching libraries.

    Which client stops is its own affair, as the broker brakes by silence: find yours before you measure it.

    Parameters:
        library: Part of a library's name, in any case; "" for all.

    >>> len(client_table().rows), client_table("PROTON").rows[0][4]
    (35, '11')
    """
    rows = [
        (one.library, one.wire, one.pattern, one.stops, one.stopped, one.limit, one.judgement)
        for one in known_clients()
        if library.lower() in one.library.lower()
    ]
    names = ["library", "AMQP", "pattern", "stops", "on the queue", "stored at limit 30", "in a sentence"]
    return Table(rows, names)
