"""Which transfer a delivery is of: names for messages that carry none.

A client log calls a message the same where it is sent and where it is delivered.  On AMQP 1.0 no such name is
on the wire: a delivery id is a link's own.  What a broker must not change is the bare message (properties,
application-properties, body), so two with the same bytes are taken for one; of several that are the same on a
queue, the oldest is taken, as a queue gives it first.  That is an inference, and the recording says how often
it was made.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import NamedTuple

from qflow.live.amqp_frames import Codec, FrameError

MOST_UNMATCHED = 100_000
"""Transfers to exchanges that are remembered for deliveries that may still come."""

_HEADER, _DELIVERY, _MESSAGE, _PROPERTIES, _APPLICATION = 0x70, 0x71, 0x72, 0x73, 0x74
_ENOUGH = 1 << 16


class Sections(NamedTuple):
    """What is known of a message from its first sections.

    Fields
    ------
    bare : bytes
        From the properties on: what a broker must pass on unchanged.
    properties : list
        The properties' fields; empty if there are none, or they were not asked for.
    application : dict
        The application-properties; empty if there are none, or they were not asked for.
    """

    bare: bytes
    properties: list[object]
    application: dict[object, object]


_TO, _SUBJECT = 2, 3


def sections_of(payload: bytes, codec: Codec, whole: bool = False) -> Sections:
    """Return a message's parts.

    Parameters
    ----------
    payload : bytes
        The encoded message, or its first part.
    codec : Codec
    whole : bool
        Whether the properties are wanted too; that costs more.

    Examples
    --------
    >>> sections_of(bytes.fromhex("005370c0020141005377a103616263"), Codec()).bare.hex()
    '005377a103616263'
    """
    place, bare = 0, 0
    properties: list[object] = []
    application: dict[object, object] = {}
    try:
        while payload[place : place + 2] == b"\x00\x53":
            code = payload[place + 2]
            if code > _APPLICATION or (code > _MESSAGE and not whole):
                break
            piece = payload[place : place + _ENOUGH]
            if code <= _MESSAGE:
                place += codec.skip(piece)
                bare = place
                continue
            length, value = codec.decode(piece)
            place += length
            if code == _PROPERTIES and isinstance(value.value, list):
                properties = value.value
            elif code == _APPLICATION and isinstance(value.value, dict):
                application = value.value
    except FrameError:
        # Not in sections, or longer than is looked at: the bytes themselves are still its mark.
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

    Attributes
    ----------
    alike : int
        Deliveries for which more than one transfer could be meant.
    unseen : int
        Deliveries of messages that no client sent through here.

    Examples
    --------
    >>> labels = Labels()
    >>> labels.sent("p-1", "orders", (7, 3), 9); labels.sent("p-2", "orders", (7, 3), 9)
    >>> labels.delivered("orders", (7, 3)), labels.alike
    (('p-1', 9), 1)
    >>> labels.returned("orders", (7, 3), "p-1"); labels.delivered("orders", (7, 3))
    ('p-1', 9)
    """

    def __init__(self) -> None:
        self.alike = self.unseen = 0
        self._count = 0
        # Of an address and a mark: the numbers of those waiting there, the oldest on top.
        self._waiting: dict[tuple[str, Mark], list[_Sent]] = {}
        # Of a mark: what was sent to exchanges; and up to where each queue has had it.
        self._fanned: dict[Mark, list[_Sent]] = {}
        self._fanned_count = 0
        self._reached: dict[Mark, dict[str, int]] = {}
        self._delivered: dict[str, _Sent] = {}
        self._refused: set[str] = set()

    def sent(self, label: str, queue: str, mark: Mark, size: int, is_fanned: bool = False) -> None:
        """Note a transfer of so many bytes, to a queue, or to an exchange whose queues are not known."""
        self._count += 1
        if not is_fanned:
            heappush(self._waiting.setdefault((queue, mark), []), (self._count, label, size))
            return
        self._fanned.setdefault(mark, []).append((self._count, label, size))
        self._fanned_count += 1
        while self._fanned_count > MOST_UNMATCHED and len(self._fanned) > 1:
            oldest = next(iter(self._fanned))
            self._fanned_count -= len(self._fanned.pop(oldest))
            self._reached.pop(oldest, None)

    def refused(self, label: str) -> None:
        """Note that a transfer to a queue was given back, so that no delivery is of it."""
        self._refused.add(label)

    def delivered(self, queue: str, mark: Mark) -> tuple[str, int | None]:
        """Return the label and the size of a message that a queue delivers.

        What was not seen before is ``unseen-<n>``, of no size.
        """
        waiting = self._waiting.get((queue, mark))
        while waiting:
            self.alike += len(waiting) > 1
            found = heappop(waiting)
            label = found[1]
            if not waiting:
                del self._waiting[queue, mark]
            if label not in self._refused:
                self._delivered[label] = found
                return label, found[2]
            self._refused.discard(label)
        fanned = self._fanned.get(mark)
        if fanned:
            reached = self._reached.setdefault(mark, {})
            place = reached.get(queue, 0)
            if place < len(fanned):
                self.alike += len(fanned) - place > 1
                reached[queue] = place + 1
                found = fanned[place]
                self._delivered[found[1]] = found
                return found[1], found[2]
        self.unseen += 1
        return f"unseen-{self.unseen}", None

    def returned(self, queue: str, mark: Mark, label: str) -> None:
        """Note that a message is back on its queue, at its old place."""
        sent = self._delivered.get(label, (0, label, None))
        heappush(self._waiting.setdefault((queue, mark), []), sent)

    def gone(self, label: str) -> None:
        """Note that a message was settled for good."""
        self._delivered.pop(label, None)
