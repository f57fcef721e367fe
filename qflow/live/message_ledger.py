"""MessageLedger: the fate of each message that a program sends, followed by identity.

Counts are misleading.  A program that loses 15 messages and sends 13 others twice leaves two fewer on the
queue than it sent; a program that was ended half-way has sent fewer than it should, and lost none of
them.  So the ledger follows each message: how often it was sent, how often it reached the queue under test,
and its last outcome.  Messages to other nodes are counted separately, by node; a message that goes there
because the queue refused it or withheld its outcome is *diverted*, and counts as neither lost nor unsent.  A
message that the client rolls back counts as never sent.

AMQP has no identifier that a message keeps when its client sends it again: a delivery id belongs to a link,
and many libraries make a new message-id.  So an undisturbed run of the program decides what identifies a
message.  If all its bodies differ, the body does; otherwise the whole bare message (properties, application
properties, body), if all of those differ.  If neither is unique, messages with the same body share one
identity, and the undisturbed run tells how many messages have it.

Order is compared within a link, since a program's links promise nothing about each other.
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
    """How often a message, or all messages with the same identity, was sent and stored."""

    sent: int = 0
    stored: int = 0


@dataclass(frozen=True)
class Expected:
    """The messages of an undisturbed run of the program, for comparison with other runs."""

    # By identity: how many messages have it; its link, and its position among all messages of the run.
    counts: Counter[Hashable]
    places: dict[Hashable, tuple[int, int]]
    # Whether the body identifies a message, and not the whole bare message.
    by_body: bool = True
    # Whether the run was complete, and whether it sent to other nodes as well.
    is_whole: bool = True
    is_elsewhere: bool = False

    # Cached, as both are needed for each message.
    @cached_property
    def total(self) -> int:
        """The number of messages that the program sends."""
        return self.counts.total()

    @cached_property
    def has_twins(self) -> bool:
        """Whether some messages cannot be told apart."""
        return len(self.counts) < self.total


class MessageLedger:
    """The fate of the messages that one program sends to one queue, as the server observes them."""

    def __init__(self, queue: str, expected: Expected | None = None) -> None:
        self.queue, self.expected = queue, expected
        # The number of transfers by outcome (OUTCOMES and NO_QUEUE of qflow.live.peer).
        self.words: Counter[str] = Counter()
        self.transfers = self.stored = 0
        # The number of distinct messages that were sent, and that reached the queue.
        self.messages = self.arrived = 0
        # The numbers, now and at most, of transfers without an outcome and of messages in open transactions.
        self.unsettled = self.most_unsettled = self.uncommitted = self.most_uncommitted = 0
        # The number of transfers that the program has rolled back.
        self.withdrawn = 0
        # The number of transfers to each node that is not under test.
        self.elsewhere: Counter[str] = Counter()
        # The links that the program attached: role, node, and the refusal or "".
        self.asked: list[tuple[str, str, str]] = []
        # The links that have sent to the queue, with their numbers.
        self.links: dict[Any, int] = {}
        # Whether a link has sent a message before it could know the outcome of the previous one.
        self.is_pipelined = False
        self._times: dict[Any, int] = {}
        # Clock time of the latest transfer, and the longest time between two, in seconds.
        self.last, self.longest_pause = monotonic(), 0.0
        self._fates: defaultdict[Hashable, _Fate] = defaultdict(_Fate)
        self._unsettled: set[tuple[Any, int]] = set()
        # By session: the identities in its open transaction, each with its index in _seen.
        self._pending: defaultdict[Any, list[tuple[Hashable, int]]] = defaultdict(list)
        # The number of the link on which each message first reached the queue.
        self._arrivals: dict[Hashable, int] = {}
        # The identities of messages that went to other nodes in this run.
        self._elsewhere: set[Hashable] = set()
        # The bare messages and their links in an undisturbed run; None for one that was rolled back.
        self._seen: list[tuple[bytes, int] | None] = []

    # Events from the server (qflow.live.peer.TransferObserver)

    def attached(self, peer: Peer, role: str, node: str, refusal: str) -> None:
        """Record a link, and its refusal or ""."""
        self.asked.append((role, node, refusal))

    def transferred(self, transfer: SeenTransfer, word: str) -> None:
        """Record a message with its outcome; "" means that the outcome is withheld."""
        if transfer.node != self.queue:
            # A dynamic node has another name in each run.
            is_dynamic = transfer.sending.wrapper.remote_target.dynamic
            self.elsewhere["a dynamic node" if is_dynamic else transfer.node] += 1
            # If the undisturbed run also sent to other nodes, such a message is no diversion.
            if self.expected is not None and not self.expected.is_elsewhere and word not in _REFUSED:
                self._elsewhere.add(self._identify(transfer.bare))
            return
        link = self.links.setdefault(transfer.sending, len(self.links))
        identity = self._identify(transfer.bare)
        if self.expected is None:
            self._seen.append((transfer.bare, link))
        # The server writes outcomes only after it has processed all messages of one read.
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
        """Record the outcome of a transfer whose outcome was withheld."""
        if (sending, number) in self._unsettled:
            self._unsettled.remove((sending, number))
            self.unsettled -= 1
            self.words[word] += 1

    def discharged(self, session: Any, ending: str) -> None:
        """Record the end of a transaction: its messages reach the queue, are taken back, or are lost."""
        pending = self._pending.pop(session, [])
        self.uncommitted -= len(pending)
        for identity, place in pending:
            if ending == COMMITTED:
                self._arrive(identity, -1)
            elif ending == ROLLED_BACK:
                fate = self._fates[identity]
                fate.sent -= 1
                self.withdrawn += 1
                self.messages -= fate.sent < self._most(identity)
                if self._seen:
                    self._seen[place] = None

    # Results

    @property
    def repeated(self) -> int:
        """How many arrivals on the queue were repetitions of a message."""
        return self.stored - self.arrived

    @property
    def missing(self) -> int:
        """How many messages were sent but have not reached the queue, open transactions included."""
        return self.messages - self.arrived

    def count_diverted(self) -> tuple[int, int]:
        """Return two numbers of messages that only other nodes have: also sent to the queue, or not."""
        gone = (self._elsewhere - set(self._arrivals)) & set(self._places())
        sent = sum(self._fates[identity].sent > 0 for identity in gone if identity in self._fates)
        return sent, len(gone) - sent

    @property
    def is_told_apart(self) -> bool:
        """Whether messages can be identified: no two are alike, and a resent one keeps its identity."""
        expected = self.expected
        if expected is None:
            return True
        return not expected.has_twins and (self.messages <= expected.total or not expected.is_whole)

    def expect(self, is_whole: bool = True) -> Expected:
        """Return the messages of this run, for comparison with other runs.

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
        """Return the number of the link that carried a message in the undisturbed run, or None if unknown."""
        place = self._places().get(self._identify(bare))
        return place and place[0]

    def awaits(self, origins: set[int]) -> bool:
        """Return whether a message of these links of the undisturbed run has not reached the queue yet."""
        return any(link in origins and key not in self._arrivals for key, (link, _) in self._places().items())

    def count_disorder(self) -> int | None:
        """Return the number of messages that arrived after a later one of their link; None if unknown."""
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

    # Identity

    def _places(self) -> dict[Hashable, tuple[int, int]]:
        return self.expected.places if self.expected is not None and self.is_told_apart else {}

    def _identify(self, bare: bytes) -> Hashable:
        expected = self.expected
        if expected is None:
            return _key(bare, True)
        key = _key(bare, expected.by_body)
        # Where bodies differ between runs and some are alike within a run, unknown ones share None.
        return None if expected.has_twins and key not in expected.counts else key

    def _most(self, identity: Hashable) -> int:
        """Return the number of distinct messages with an identity; an undisturbed run sends none twice."""
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
    """Return the identity of a message: its body or bare message, or a digest if it is long."""
    told = body_of(bare) if by_body else bare
    return told if len(told) <= _SHORT else blake2b(told, digest_size=16).digest()
