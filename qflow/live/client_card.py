"""ClientCard: what was measured of one client program, as numbers and as sentences.

A client with a window of W messages leaves stop + W messages on a stopped queue: the broker accepts up to the
stop threshold, and holds what comes then without an outcome until W of them wait (LNK-02).  A client that
counts nothing leaves all it has.  At a limit with the policy ``reject`` a message is released (LNK-05), and
it is the client that sends it again, says so, or loses it.

A receiver that settles in batches of B waits for more while it has less than B.  The queue waits with it
while flow control is ON and it has at least *resume* messages.  So both can wait for ever only if B is above
resume.

``data/clients.csv`` has a row for each pattern of a library that was measured when a queue of the real broker
stopped it, ``data/clients`` has programs: how the documentation of some libraries sends, and what cures them.
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
from qflow.live.brakes import SILENCE
from qflow.live.certificates import Certificate
from qflow.table import Table

SENDER, RECEIVER = "sender", "receiver"
STILL, ENDED, RESENDS, LATE = "waits", "ended", "sends again and again", "still sends"
"""How a part of a run ended; :data:`LATE` is the time limit."""
_SPIN = 1_000
_SHOWN = 160
_ERROR = re.compile(r"^\s*[\w.]*(Error|Exception)\b|\bamqp:[a-z]")


class Conditions(NamedTuple):
    """Under which conditions a client is checked.

    Fields:
        stop, resume: Messages; the queue's thresholds.
        limit: Messages; the queue's ``qpid.max_count``.
        window: Of the sender that a receiver is given.
        messages: How many the program is asked to send (``AMQP_MESSAGES``).
        queue: The queue's name (``AMQP_QUEUE``).
        still: Seconds without a change after which a client counts as still.
        timeout: Seconds; the longest that one run of the program may take.
        body: What a receiver's messages carry: a text as an AMQP value, bytes as data.
        content_type: Of the body; "" for none.
        properties: Application properties of a receiver's messages.
        brake: How the broker tells a sender that the queue is ON (:mod:`qflow.live.brakes`).
        certificate: To listen with, by TLS; the program is given its authority's file (``AMQP_CA``).
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
    """What a server has seen of a client at one moment."""

    # Transfers, those that were sent again included, and what became of them.
    sent: int = 0
    accepted: int = 0
    released: int = 0
    rejected: int = 0
    unsettled: int = 0
    # Messages that came onto the queue; messages on it.
    stored: int = 0
    depth: int = 0


@dataclass(frozen=True)
class ClientRun:
    """One run of the program."""

    case: str
    # When it was still or had ended, and after what the bench did then.
    before: Figures
    after: Figures
    # Transfers without an outcome, or deliveries that were not settled.
    most_unsettled: int = 0
    # How the first part ended; ``end`` is how the run did.
    pause: str = STILL
    # The exit status, None if the bench ended it.
    status: int | None = None
    # Transfers a second while it sent the same again and again.
    rate: float = 0.0
    output: str = ""
    end: str = STILL
    # What it printed after what the bench did.
    reaction: str = ""
    is_connected: bool = True

    @property
    def has_failed(self) -> bool:
        """Whether it ended by itself with a status that says so."""
        return self.status not in (None, 0)

    @property
    def is_presettled(self) -> bool:
        """Whether no message of it asked for an outcome."""
        return not (self.after.accepted or self.after.released or self.most_unsettled)


_NO_RUN = ClientRun("", Figures(), Figures(), pause=LATE)
"""Stands for a case that no run was made of."""


@dataclass(frozen=True)
class Settling:
    """How a receiver settles."""

    # For how many messages it was ready, 1,000 at most are seen.
    credit: int
    is_presettled: bool
    # Messages that it settled at once, when they came one by one, and how many it was given for that.
    batch: int
    fed: int
    unsettled: int
    # Whether it and a sender with a window waited for each other, and what it had then.
    is_locked: bool = False
    delivered_locked: int = 0
    unsettled_locked: int = 0
    # Of the messages that it was given one by one, how many came back so.
    released: int = 0
    rejected: int = 0


@dataclass(frozen=True)
class ClientCard:
    """What was measured of one client.

    Parameters:
        role ({"sender", "receiver"})
        given: The conditions under which it was checked.
        total: Messages that it sends where nothing stops it.
        is_endless: Whether it sends without end, so that ``total`` says nothing.
        runs: Case to :class:`ClientRun`.

    >>> still = Figures(sent=11, accepted=10, unsettled=1, stored=11, depth=11)
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

    def _run(self, case: str) -> ClientRun:
        return self.runs.get(case, _NO_RUN)

    # Senders

    @property
    def stops(self) -> bool:
        """Whether it has something left to send when the queue has stopped it, and waits with that."""
        run = self._run("stopped")
        if run.pause in (LATE, RESENDS):
            return False
        if self.given.brake == SILENCE and not run.most_unsettled:
            return False
        return self.is_endless or run.before.sent < self.total

    @property
    def client_window(self) -> int | None:
        """The most transfers without an outcome of a client that silence stops; None of any other."""
        return self.runs["stopped"].most_unsettled if self.stops and self.given.brake == SILENCE else None

    @property
    def past_stop(self) -> int:
        """Messages that came onto the queue after the one that reached the stop threshold."""
        return max(0, self._run("stopped").before.depth - self.given.stop)

    def _count_missing(self, case: str) -> int:
        """Count messages of a run that were sent, are on no queue, and were not sent again."""
        run = self._run(case)
        can_resend = not self.is_endless and not run.is_presettled
        sent = min(run.after.sent, self.total) if can_resend else run.after.sent
        return max(0, sent - run.after.stored)

    def count_lost(self, case: str) -> int:
        """Count what is missing of a run whose program reports no failure by its exit status."""
        run = self._run(case)
        # Who still sends again what was released has lost nothing yet.
        return 0 if run.has_failed or run.pause == RESENDS else self._count_missing(case)

    def count_unsent(self, case: str) -> int:
        """Count messages of a run that were never sent, though the program ended and reports no failure."""
        run = self._run(case)
        return 0 if run.status != 0 or self.is_endless else max(0, self.total - run.after.sent)

    @property
    def loses_nothing(self) -> bool:
        """Whether no message was lost, or never sent, at the limit or by a stop without a failure."""
        return self.role == SENDER and not any(
            self.count_lost(case) or self.count_unsent(case) for case in COUNTED
        )

    @property
    def goes_on(self) -> bool:
        """Whether it sends the rest when flow control is OFF again."""
        run = self._run("resumed")
        if run.has_failed:
            return False
        return run.after.sent > run.before.sent if self.is_endless else run.after.sent >= self.total

    # Receivers

    @property
    def settles(self) -> bool:
        """Whether what it receives leaves the queue, and it does not die of it."""
        if self.settling is None or self._dies_of:
            return False
        return self.settling.is_presettled or self.settling.batch > 0

    @property
    def _dies_of(self) -> ClientRun | None:
        given = (run for case, run in self.runs.items() if self.role == RECEIVER and case != "deleted")
        return next((run for run in given if run.has_failed), None)

    @property
    def never_locks(self) -> bool:
        """Whether no sender, whatever its window, can wait for this receiver while it waits for more."""
        settling = self.settling
        if settling is None or settling.is_locked or not self.settles:
            return False
        return settling.is_presettled or settling.batch <= self.given.resume

    # Words

    def fact(self, name: str) -> bool | None:
        """Return one of :data:`FACTS` by its name on the command line; None if it is of the other role."""
        return bool(getattr(self, name.replace("-", "_"))) if FACTS[name] == self.role else None

    def subject(self, of: str) -> str:
        """Return the subject of the line that tells of a case, or of a fact; a key of :data:`SUBJECTS`."""
        return SUBJECTS[of].format(limit=self.given.limit)

    def lines(self) -> list[tuple[str, str]]:
        """Return the card as pairs of a subject and a sentence."""
        return self._sender_lines() if self.role == SENDER else self._receiver_lines()

    def _sender_lines(self) -> list[tuple[str, str]]:
        run = self.runs["stopped"]
        depth = f"{run.before.depth:,} on the queue, {self.past_stop:,} past the stop"
        end = f"; {self._describe_end(run)}" if run.has_failed or self.count_unsent("stopped") else ""
        if run.before.rejected:
            end = f", {self._describe_refused('stopped')}{end}"
        stop = f"{'yes' if self.stops else 'no'}: {depth}{end}"
        window = self.client_window
        if self.stops and self.given.brake != SILENCE:
            words = "not seen: nothing is withheld from it"
        elif window is None and not run.most_unsettled:
            words = "none: it waits for no outcomes"
        elif window is None:
            words = f"none: up to {run.most_unsettled:,} without an outcome"
        else:
            words = f"{window:,} without an outcome"
        return [
            (self.subject("stopped"), stop),
            (WINDOW, words),
            (self.subject("resumed"), self._describe_resume()),
            *((self.subject(case), self._describe_limit(case)) for case in ("limit", "released")),
            (_DELETED, self._describe_deletion()),
        ]

    def _describe_end(self, run: ClientRun, verb: str = "ends") -> str:
        """Say how a program ended by itself, after how many messages if not all, and what it said."""
        is_short = self.role == SENDER and not self.is_endless and run.after.sent < self.total
        how_far = f" after {run.after.sent:,} of {self.total:,} messages" if is_short else ""
        said = _quote_after(run.output) or (" without a word" if is_short and not run.status else "")
        return f"{verb} with status {run.status}{how_far}{said}"

    def _describe_resume(self) -> str:
        run = self.runs["resumed"]
        if run.pause == ENDED and (run.has_failed or self.count_unsent("resumed")):
            return self._describe_end(run, "had ended before,")
        if run.has_failed:
            return self._describe_end(run)
        if run.pause == RESENDS and not self._count_missing("resumed"):
            return f"goes on: the other {run.after.stored - run.before.stored:,} arrive"
        if not self.is_endless and run.before.sent >= self.total:
            return "had nothing left to send"
        more = run.after.sent - run.before.sent
        if self.goes_on:
            return f"goes on: sends {'' if self.is_endless else 'the other '}{more:,}"
        if run.pause == LATE:
            return f"was never still; {more:,} more when there was room"
        rest = run.end if run.status is None else f"ends with status {run.status}"
        return f"does not go on: {more:,} more, then it {rest}"

    def _describe_refused(self, case: str) -> str:
        """Say how many transfers were released or rejected, and whether they are sent again and again."""
        run = self.runs[case]
        word = "rejected" if run.before.rejected else "released"
        words = f"{run.before.released + run.before.rejected:,} {word}"
        if run.pause != RESENDS:
            return words
        verb = "spins: resends" if run.rate >= _SPIN else "resends"
        return f"{words}; {verb} what is {word}, {run.rate:,.0f} times a second"

    def _describe_limit(self, case: str) -> str:
        run = self.runs[case]
        before, after, missing = run.before, run.after, self._count_missing(case)
        seen = f"{before.depth:,} on the queue"
        if before.released or before.rejected:
            seen += f", {self._describe_refused(case)}"
        if run.pause == RESENDS:
            return seen if missing else f"{seen}; all arrive when there is room"
        if run.has_failed:
            return f"{seen}; {self._describe_end(run, 'dies')}"
        if missing:
            return f"{seen}; {self._describe_loss(run, missing)}"
        if self.count_unsent(case):
            return f"{seen}; {self._describe_end(run)}"
        resent = 0 if self.is_endless or run.is_presettled else after.sent - self.total
        if resent > 0:
            refused = "released" if after.released else "rejected"
            what = f"is {refused}" if after.released or after.rejected else "has no outcome yet"
            return f"{seen}; resends what {what}, {resent:,} times; all arrive when there is room"
        if before.depth < self.given.limit:
            return f"never at the limit: {run.pause} at {before.depth:,}"
        return f"{seen}; loses nothing{_describe_wait(run)}"

    def _describe_loss(self, run: ClientRun, missing: int) -> str:
        after = run.after
        if self.is_endless:
            return (
                f"goes on; {missing:,} of {after.sent:,} are on no queue, lost or sent again: it has no end"
            )
        # What settles its own is not the same in each run: it may close before all is written.
        total = after.sent if run.is_presettled else self.total
        loses = f"loses {missing:,} of {total:,}"
        if self.count_unsent(run.case):
            return f"{loses}, and {self._describe_end(run)}"
        how = "goes on; " if run.is_presettled or after.sent >= self.total else ""
        return f"{how}{loses}{_quote_after(run.output) or ' without a word'}{_describe_wait(run)}"

    def _describe_deletion(self) -> str:
        run = self.runs["deleted"]
        if run.pause == ENDED:
            return self._describe_end(run, "had ended before,")
        if run.status is not None:
            return self._describe_end(run)
        more = run.after.sent - run.before.sent
        if more:
            return f"goes on: sends {more:,} more, to no queue"
        where = "still there" if run.is_connected else "still there, without a connection"
        word = _quote(run.reaction)
        words = f"says {word}, and is {where}" if word else f"is {where}, and has said nothing"
        # A sender is told by its next transfer (LNK-09).
        is_done = self.role == SENDER and not self.is_endless and run.before.sent >= self.total
        return f"had nothing left to send; {words}" if is_done else words

    def _receiver_lines(self) -> list[tuple[str, str]]:
        settling = self.settling
        assert settling is not None
        settles = self._describe_settling(settling)
        return [
            ("its credit", f"{settling.credit:,}"),
            (SUBJECTS["settles"], settles),
            (SUBJECTS["never-locks"], self._describe_lock(settling)),
            (_DELETED, self._describe_deletion()),
        ]

    def _describe_settling(self, settling: Settling) -> str:
        run, fed = self.runs["free"], f"{settling.fed:,} message{'s' if settling.fed > 1 else ''}"
        end = "" if run.status is None else f"{'dies' if run.status else 'ends'} with status {run.status}"
        end = end and f"{end} after {fed}{_quote_after(run.output)}"
        if settling.is_presettled:
            words = "has no need to: messages are settled when they are sent to it"
        elif settling.rejected:
            words = f"yes: rejects {settling.rejected:,} of {settling.fed:,}"
        elif settling.batch:
            words = f"yes, in batches of {settling.batch:,}"
        elif end:
            return f"{'not known' if run.has_failed else 'no'}: {end}"
        elif settling.released:
            words = f"no: gives back what it receives, {settling.released:,} times"
        elif settling.unsettled:
            words = f"no: {settling.unsettled:,} of {settling.fed:,} wait"
        else:
            words = (
                f"not known: its link is gone after {fed}" if settling.credit else "no: it gives no credit"
            )
        return f"{words}; {end}" if end else words

    def _describe_lock(self, settling: Settling) -> str:
        fatal = self._dies_of
        if fatal:
            return f"not known: dies with status {fatal.status}{_quote_after(fatal.output)}"
        if settling.is_locked:
            return (
                f"yes, with one of window {self.given.window}: {settling.delivered_locked:,} delivered, "
                f"{settling.unsettled_locked:,} of them not settled, and both wait"
            )
        resume = f"resume {self.given.resume}"
        if self.never_locks:
            return f"no, with none: a batch is not above {resume}"
        if not self.settles:
            return "it settles nothing"
        return f"not with window {self.given.window}; with another it can be: a batch is above {resume}"

    def table(self) -> Table:
        """Return the figures of all runs."""
        names = ["run", "sent", "accepted", "released", "rejected", "most unsettled", "on queue", "stored"]
        after = ("after.sent", "after.accepted", "after.released", "after.rejected")
        counts = attrgetter("case", *after, "most_unsettled", "before.depth", "after.stored")
        runs = self.runs.values()
        rows = [(*counts(run), self.count_unsent(run.case), name_end(run.status)) for run in runs]
        return Table(rows, [*names, "never sent", "ended"])

    def as_json(self) -> dict[str, Any]:
        """Return everything as plain values, the derived facts and the sentences included."""
        given, is_sender = self.given, self.role == SENDER
        cases = [case for case in self.runs if case in COUNTED]
        return {
            "command": self.command,
            "role": self.role,
            **{name: getattr(given, name) for name in ("stop", "resume", "limit", "window")},
            "asked": given.messages if is_sender else None,
            "total": self.total if is_sender else None,
            "is_endless": self.is_endless if is_sender else None,
            "runs": {case: asdict(run) for case, run in self.runs.items()},
            "settling": self.settling and asdict(self.settling),
            "brake": given.brake,
            "stops": self.fact("stops"),
            "client_window": self.client_window,
            "past_stop": self.past_stop if is_sender else None,
            "lost": {case: self.count_lost(case) for case in cases},
            "unsent": {case: self.count_unsent(case) for case in cases},
            "facts": {name: self.fact(name) for name in FACTS},
            "card": dict(self.lines()),
        }

    def __str__(self) -> str:
        given, asked = self.given, ""
        if self.total != given.messages:
            asked = f" ({given.messages:,} were asked for)"
        what = "sends without end" if self.is_endless else f"sends {self.total:,} messages{asked}"
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
    "settles": "does it settle",
    "never-locks": "locked with a sender",
}
"""Of which line of the card a case is, or a fact; of ``loses-nothing`` those of :data:`COUNTED`."""
WINDOW, _DELETED = "its window", "queue deleted"

COUNTED = ("stopped", "resumed", "limit", "released")
"""The cases in which messages can be lost, or never sent."""

FACTS = dict.fromkeys(("stops", "goes-on", "loses-nothing"), SENDER)
FACTS |= dict.fromkeys(("settles", "never-locks"), RECEIVER)
"""What can be required of a client: properties of its card, and the role that each is a fact of."""


def name_end(status: int | None) -> str:
    """Return how a program ended: by itself with a status, or by the bench."""
    return "by the bench" if status is None else f"status {status}"


def _quote(output: str) -> str:
    """Return the last error of what was printed, or else its last line, in quotation marks."""
    lines = output.splitlines()
    last = next((line for line in reversed(lines) if _ERROR.search(line)), lines[-1] if lines else "").strip()
    return repr(shorten(last, _SHOWN, placeholder=" …")) if last else ""


def _quote_after(output: str) -> str:
    return f", and says {_quote(output)}" if _quote(output) else ""


def _describe_wait(run: ClientRun) -> str:
    return f", and then {run.end}" if run.status is None else ""


# Clients that were measured


class KnownClient(NamedTuple):
    """One pattern of one library, measured: 6,000 messages to a queue with stop 10, resume 5."""

    library: str
    version: str
    # The version of AMQP.
    wire: str
    pattern: str
    # A program in ``data/clients`` that does so.
    sample: str
    # yes; late, when something else is full; no; or fails, by an error of its own.
    stops: str
    # Messages on the queue when nothing moved any more; stored at limit 30 with the policy ``reject``, "" if
    # the session ends.
    stopped: str
    limit: str
    # What the program learned of the others, and did when the queue was deleted, "" if that was not measured.
    learns: str
    deleted: str
    judgement: str
    measured: str
    # Programs in ``data/clients`` that stop and lose nothing, separated by semicolons, or what to do.
    cure: str

    @property
    def cures(self) -> tuple[Path, ...]:
        """The programs that cure it."""
        names = self.cure.split("; ") if self.cure.endswith((".py", ".js")) else []
        return tuple(kit_path("data") / "clients" / name for name in names)


def known_clients() -> list[KnownClient]:
    """Return every measured pattern, in the order of the table."""
    with open(kit_path("data") / "clients.csv", encoding="utf-8", newline="") as file:
        return [KnownClient(**row) for row in csv.DictReader(file)]


def client_table(library: str = "") -> Table:
    """Return what is known of clients, as a table, or of those whose library has a word in its name.

    Which client stops is its own affair, as the broker brakes by silence: find yours before you measure it.

    Parameters:
        library: Part of a library's name, in any case; "" for all.

    >>> len(client_table().rows), client_table("PROTON").rows[0][4]
    (33, '11')
    """
    rows = [
        (one.library, one.wire, one.pattern, one.stops, one.stopped, one.limit, one.judgement)
        for one in known_clients()
        if library.lower() in one.library.lower()
    ]
    names = ["library", "AMQP", "pattern", "stops", "on the queue", "stored at limit 30", "in a sentence"]
    return Table(rows, names)
