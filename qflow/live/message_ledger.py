"""MessageLedger: the fate of each message that one program sends, told by identity.

Counts deceive.  A program that loses 15 messages and sends 13 others twice leaves two fewer on the queue than
it sent; one that was ended half-way has sent fewer than it was asked for, and lost none of them.  So each
message is known: how often it was sent, how often it came onto the queue under test, and its last outcome.
What is sent to other nodes is counted apart, by node; a message that goes there because the queue refused or
withheld it is *diverted*, and neither lost nor unsent.  What a client rolls back it has taken back: it counts
as never sent.

The wire has no name that a message keeps when its client sends it again: a delivery id is a link's own, and
many libraries make a new message-id.  The body is what the program said, so bodies tell messages apart where
the program, run without a disturbance, makes no two alike; else the whole bare message does (properties,
application properties, body); where that has twins as well, as many messages are alike as the undisturbed
run had of them.

Order is compared within a link, since two links of a program promise nothing about each other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from time import monotonic
from typing import TYPE_CHECKING, Any

from qflow.live.amqp_frames import body_of
from qflow.live.coordinator import COMMITTED, ROLLED_BACK

if TYPE_CHECKING:
    from qflow.live.peer import Peer, SeenTransfer

_SHORT = 64
_REFUSED = ("released", "rejected", "lost", "no queue")


@dataclass(slots=True)
class _Fate:
    """The fate of one message, or of all identical ones."""

    sent: int = 0
    stored: int = 0


@dataclass(frozen=True)
class Expected:
    """The identities of an undisturbed run of the program, for comparison with other runs."""

    # Identity to the number of messages that have it, and to its link and its position among all.
    counts: Counter[Hashable]
    places: dict[Hashable, tuple[int, int]]
    # Whether the body is the identity, and not the whole bare message.
    by_body: bool = True
    # Whether the run had come to its end, and whether it sent to other nodes as well.
    is_whole: bool = True
    is_elsewhere: bool = False

    # Both are asked for at each message.
    @cached_property
    def total(self) -> int:
        """Messages that the program sends."""
        return self.counts.total()

    @cached_property
    def has_twins(self) -> bool:
        """Whether some messages cannot be distinguished."""
        return len(self.counts) < self.total


class MessageLedger:
    """The fate of the messages that one program sends to one queue, as the server sees them."""

    def __init__(self, queue: str, expected: Expected | None = None) -> None:
        self.queue, self.expected = queue, expected
        # Outcome to transfers (OUTCOMES and NO_QUEUE of qflow.live.peer).
        self.words: Counter[str] = Counter()
        self.transfers = self.stored = 0
        # Messages that were sent, or came onto the queue, once at least.
        self.messages = self.arrived = 0
        # Transfers without an outcome, and messages in open transactions.
        self.unsettled = self.most_unsettled = self.uncommitted = self.most_uncommitted = 0
        # Transfers to each node that is not under test.
        self.elsewhere: Counter[str] = Counter()
        # Links that the program asked for: role, node, and the refusal or "".
        self.asked: list[tuple[str, str, str]] = []
        # Links that have sent to the queue, numbered.
        self.links: dict[Any, int] = {}
        # Whether a link sent a message before it could know the outcome of the one before.
        self.is_pipelined = False
        self._times: dict[Any, int] = {}
        # Clock time of the last transfer, and seconds between two.
        self.last, self.longest_pause = monotonic(), 0.0
        self._fates: defaultdict[Hashable, _Fate] = defaultdict(_Fate)
        self._unsettled: set[tuple[Any, int]] = set()
        # Of each session's open transaction: identity, and place in _seen.
        self._pending: defaultdict[Any, list[tuple[Hashable, int]]] = defaultdict(list)
        # The link of each message when it first came onto the queue.
        self._arrivals: dict[Hashable, int] = {}
        # Messages of the undisturbed run that have gone to other nodes.
        self._elsewhere: set[Hashable] = set()
        # Bare messages and their links, of a run that others are to be compared with; None if taken back.
        self._seen: list[tuple[bytes, int] | None] = []

    # What the server shows (qflow.live.peer.TransferObserver)

    def attached(self, peer: Peer, role: str, node: str, refusal: str) -> None:
        """Note a link."""
        self.asked.append((role, node, refusal))

    def transferred(self, transfer: SeenTransfer, word: str) -> None:
        """Record a message with its outcome, "" while the outcome is withheld."""
        if transfer.node != self.queue:
            # The name of a dynamic node is new in each run.
            is_dynamic = transfer.sending.wrapper.remote_target.dynamic
            self.elsewhere["a dynamic node" if is_dynamic else transfer.node] += 1
            # A copy of each message that goes there in any case is no diversion.
            if self.expected is not None and not self.expected.is_elsewhere and word not in _REFUSED:
                self._elsewhere.add(self._identify(transfer.bare))
            return
        link = self.links.setdefault(transfer.sending, len(self.links))
        identity = self._identify(transfer.bare)
        if self.expected is None:
            self._seen.append((transfer.bare, link))
        # The server writes outcomes when it has taken all messages of one read.
        self.is_pipelined |= transfer.is_followed or self._times.get(transfer.sending) == transfer.time
        self._times[transfer.sending] = transfer.time
        now = monotonic()
        if self.transfers:
            self.longest_pause = max(self.longest_pause, now - self.last)
        self.last, self.transfers = now, self.transfers + 1
        fate, most = self._fates[identity], self._most(identity)
        self.messages += fate.sent < most
        fate.sent += 1
        if word:
            self.words[word] += 1
        else:
            self._unsettled.add((transfer.sending, transfer.number))
            self.unsettled += 1
            self.most_unsettled = max(self.most_unsettled, self.unsettled)
        if word in _REFUSED:
            return
        if transfer.is_transactional:
            self._pending[transfer.sending.session].append((identity, len(self._seen) - 1))
            self.uncommitted += 1
            self.most_uncommitted = max(self.most_uncommitted, self.uncommitted)
        else:
            self._arrive(identity, link)

    def settled(self, sending: Any, number: int, word: str) -> None:
        """Record a withheld outcome."""
        if (sending, number) in self._unsettled:
            self._unsettled.remove((sending, number))
            self.unsettled -= 1
            self.words[word] += 1

    def discharged(self, session: Any, ending: str) -> None:
        """Record the end of a transaction: only now its messages are on the queue, taken back, or lost."""
        pending = self._pending.pop(session, [])
        self.uncommitted -= len(pending)
        for identity, place in pending:
            if ending == COMMITTED:
                self._arrive(identity, -1)
            elif ending == ROLLED_BACK:
                fate = self._fates[identity]
                fate.sent -= 1
                self.messages -= fate.sent < self._most(identity)
                if self._seen:
                    self._seen[place] = None

    # What it tells

    @property
    def repeated(self) -> int:
        """The messages that reached the queue more than once."""
        return self.stored - self.arrived

    @property
    def missing(self) -> int:
        """The messages that were sent and have not reached the queue, those of open transactions included."""
        return self.messages - self.arrived

    def count_diverted(self) -> tuple[int, int]:
        """Count the messages that other nodes have instead: those sent to the queue before, and the rest."""
        gone = (self._elsewhere - set(self._arrivals)) & set(self._places())
        sent = sum(self._fates[identity].sent > 0 for identity in gone if identity in self._fates)
        return sent, len(gone) - sent

    @property
    def is_told_apart(self) -> bool:
        """Whether the identities hold: no two messages are alike, and a resent one keeps its identity."""
        expected = self.expected
        if expected is None:
            return True
        return not expected.has_twins and (self.messages <= expected.total or not expected.is_whole)

    def expect(self, is_whole: bool = True) -> Expected:
        """Return the identities of this run, for comparison with other runs.

        >>> ledger = MessageLedger("orders")
        >>> ledger._seen = [(b"a", 0), (b"b", 0), (b"b", 0)]
        >>> ledger.expect().total, ledger.expect().has_twins
        (3, True)
        """
        seen = [one for one in self._seen if one is not None]
        for by_body in (True, False):
            keys = [_key(bare, by_body) for bare, _ in seen]
            if len(set(keys)) == len(keys):
                break
        else:
            by_body, keys = True, [_key(bare, True) for bare, _ in seen]
        places = {key: (link, at) for at, (key, (_, link)) in enumerate(zip(keys, seen, strict=True))}
        return Expected(Counter(keys), places, by_body, is_whole, bool(self.elsewhere))

    def origin(self, bare: bytes) -> int | None:
        """Return the link that brought a message in the undisturbed run; None if that cannot be told."""
        place = self._places().get(self._identify(bare))
        return place and place[0]

    def awaits(self, origins: set[int]) -> bool:
        """Whether messages of these links of the undisturbed run have not come onto the queue."""
        return any(link in origins and key not in self._arrivals for key, (link, _) in self._places().items())

    def count_disorder(self) -> int | None:
        """Count the messages that reached the queue after a later one of their link; None if unknown."""
        places = self._places()
        if not self.is_told_apart or not set(self._arrivals) <= set(places):
            return None
        latest: dict[tuple[int, int], int] = {}
        count = 0
        for identity, link in self._arrivals.items():
            origin, at = places[identity]
            before = latest.get((link, origin), -1)
            count += at < before
            latest[link, origin] = max(at, before)
        return count

    # How

    def _places(self) -> dict[Hashable, tuple[int, int]]:
        return self.expected.places if self.expected is not None and self.is_told_apart else {}

    def _identify(self, bare: bytes) -> Hashable:
        expected = self.expected
        if expected is None:
            return _key(bare, True)
        key = _key(bare, expected.by_body)
        # Bodies that differ from run to run, with some alike in one: they share one identity, None.
        return None if expected.has_twins and key not in expected.counts else key

    def _most(self, identity: Hashable) -> int:
        """Count the messages with an identity; an undisturbed run sends none twice."""
        if self.expected is None:
            return self.transfers
        if identity is None:
            return self.expected.total
        return self.expected.counts.get(identity, 1)

    def _arrive(self, identity: Hashable, link: int) -> None:
        fate = self._fates[identity]
        self.arrived += fate.stored < self._most(identity)
        fate.stored += 1
        self.stored += 1
        self._arrivals.setdefault(identity, link)


def _key(bare: bytes, by_body: bool) -> Hashable:
    """Return a body or a bare message, or a digest of a long one."""
    told = body_of(bare) if by_body else bare
    return told if len(told) <= _SHORT else blake2b(told, digest_size=16).digest()
