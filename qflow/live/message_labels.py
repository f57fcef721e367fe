"""Which transfer a delivery is of: names for messages that carry none.

A client log calls a message the same where it is sent and where it is delivered.  On AMQP 1.0 no such name is
on the wire: a delivery id is a link's own.  What a broker must not change is the bare message (properties,
application-properties, body), so two with the same bytes are taken for one; of several that are the same on a
queue, the oldest is taken, as a queue gives it first.  That is an inference, and the recording says how often
it was made.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import heappop, heappush
from operator import itemgetter
from typing import NamedTuple

from qflow.live.amqp_frames import Codec, FrameError, section_places

MOST_UNMATCHED = 100_000
"""Transfers that are remembered for deliveries by other queues than the one they were sent to."""

_PROPERTIES, _APPLICATION = 0x73, 0x74
_ENOUGH = 1 << 16


class Sections(NamedTuple):
    """What is known of a message from its first sections.

    Fields:
        bare: From the properties on: what a broker must pass on unchanged.
        properties: The properties' fields; empty if there are none, or they were not asked for.
        application: The application-properties; empty if there are none, or they were not asked for.
    """

    bare: bytes
    properties: list[object]
    application: dict[object, object]


_TO, _SUBJECT = 2, 3


def sections_of(payload: bytes, codec: Codec, whole: bool = False) -> Sections:
    """Return a message's parts.

    Parameters:
        payload: The encoded message, or its first part.
        whole: Whether the properties are wanted too; that costs more.

    >>> sections_of(bytes.fromhex("005370c0020141005377a103616263"), Codec()).bare.hex()
    '005377a103616263'
    """
    properties: list[object] = []
    application: dict[object, object] = {}
    try:
        place = bare = section_places(payload).bare
    except FrameError:
        # Not in sections: the bytes themselves are its mark.
        return Sections(payload, properties, application)
    try:
        while whole and payload[place : place + 2] == b"\x00\x53" and payload[place + 2] <= _APPLICATION:
            code = payload[place + 2]
            length, value = codec.decode(payload[place : place + _ENOUGH])
            place += length
            if code == _PROPERTIES and isinstance(value.value, list):
                properties = value.value
            elif code == _APPLICATION and isinstance(value.value, dict):
                application = value.value
    except FrameError:
        # Longer than is looked at.
        pass
    return Sections(payload[bare:], properties, application)


def to_and_subject(sections: Sections) -> tuple[str, str]:
    """Return a message's properties ``to`` and ``subject``, empty where there is none."""
    fields = [*sections.properties, None, None, None, None]
    to, subject = fields[_TO], fields[_SUBJECT]
    return (to if isinstance(to, str) else "", subject if isinstance(subject, str) else "")


Mark = tuple[int, int]
"""What a message is recognised by: a hash of its bare bytes, and their number."""


_Sent = tuple[int, str, int | None]
"""Its number among all transfers, its label, its size."""


class Labels:
    """The messages under way, by what they are recognised by.

    Attributes:
        alike (int): Deliveries for which more than one transfer could be meant.
        unseen (int): Deliveries of messages that no client sent through here.

    >>> labels = Labels()
    >>> labels.sent("p-1", "orders", (7, 3), 9); labels.sent("p-2", "orders", (7, 3), 9)
    >>> labels.delivered("orders", (7, 3)), labels.alike
    (('p-1', 9), 1)
    >>> labels.returned("orders", (7, 3), "p-1"); labels.delivered("orders", (7, 3))
    ('p-1', 9)
    """

    def __init__(self) -> None:
        self.alike = self.unseen = 0
        self._count = self._kept = 0
        # Of an address and a mark: those waiting there, the oldest on top.
        self._waiting: dict[tuple[str, Mark], list[_Sent]] = {}
        # Of a mark and an address: what was sent, and up to which number each other queue has had it.
        self._passed: dict[Mark, dict[str, tuple[list[_Sent], dict[str, int]]]] = {}
        self._delivered: dict[str, _Sent] = {}
        self._refused: set[str] = set()

    def sent(self, label: str, address: str, mark: Mark, size: int, is_exchange: bool = False) -> None:
        """Note a transfer of so many bytes, to a queue or to an exchange."""
        self._count += 1
        sent = (self._count, label, size)
        if not is_exchange:
            heappush(self._waiting.setdefault((address, mark), []), sent)
        # It may come from another queue: one that is bound, a subscription, an alternate.
        self._passed.setdefault(mark, {}).setdefault(address, ([], {}))[0].append(sent)
        self._kept += 1
        if self._kept > MOST_UNMATCHED:
            self._forget()

    def _forget(self) -> None:
        """Forget the oldest; of what is all alike, the older half."""
        oldest = next(iter(self._passed))
        if len(self._passed) > 1:
            self._kept -= sum(len(sent) for sent, _ in self._passed.pop(oldest).values())
            return
        for sent, _ in self._passed[oldest].values():
            half = (len(sent) + 1) // 2
            del sent[:half]
            self._kept -= half

    def refused(self, label: str) -> None:
        """Note that a transfer to a queue was given back, so that no delivery is of it."""
        self._refused.add(label)

    def delivered(self, queue: str, mark: Mark) -> tuple[str, int | None]:
        """Return the label and the size of a message that a queue delivers.

        What was not seen before is ``unseen-<n>``, of no size.
        """
        found = self._of_queue(queue, mark) or self._of_others(queue, mark)
        if found is None:
            self.unseen += 1
            return f"unseen-{self.unseen}", None
        self._delivered[found[1]] = found
        return found[1], found[2]

    def _of_queue(self, queue: str, mark: Mark) -> _Sent | None:
        waiting = self._waiting.get((queue, mark))
        while waiting:
            self.alike += len(waiting) > 1
            found = heappop(waiting)
            if not waiting:
                del self._waiting[queue, mark]
            if found[1] not in self._refused:
                return found
            self._refused.discard(found[1])
        return None

    def _of_others(self, queue: str, mark: Mark) -> _Sent | None:
        for address, (sent, reached) in self._passed.get(mark, {}).items():
            place = bisect_right(sent, reached.get(queue, 0), key=itemgetter(0))
            if address != queue and place < len(sent):
                self.alike += len(sent) - place > 1
                reached[queue] = sent[place][0]
                return sent[place]
        return None

    def returned(self, queue: str, mark: Mark, label: str) -> None:
        """Note that a message is back on its queue, at its old place."""
        sent = self._delivered.get(label, (0, label, None))
        heappush(self._waiting.setdefault((queue, mark), []), sent)

    def gone(self, label: str) -> None:
        """Note that a message was settled for good."""
        self._delivered.pop(label, None)
