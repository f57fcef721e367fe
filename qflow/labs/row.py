"""Row: the frame that is being filled while events go by."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence

from qflow.labs import channels as ch
from qflow.labs.topology import ConsumerSpot, ProducerSpot, QueueSpot, Topology
from qflow.labs.words import BITS

Spots = Sequence[ProducerSpot | QueueSpot | ConsumerSpot]
Place = tuple[int, int]
"""Somebody's index among its kind, and the first of its columns."""

LATEST = 2**31 - 1
"""The last microsecond that a picture's clock can tell."""

_BLANK = array("i", [0] * len(ch.STEP_CHANNELS))


class Row:
    """The numbers of the current frame, and all frames that are finished.

    Parameters
    ----------
    topology
        Who takes part.

    Attributes
    ----------
    data, count
        The finished frames, one after the other, and how many there are.
    rows
        For each frame, the place of the last event that it shows.
    now
        The current frame's numbers; who changes them says so with :meth:`tell` or `is_dirty`.
    is_dirty
        Whether the current frame differs from the last finished one.
    producers, queues, consumers
        Where everyone's numbers stand.

    Examples
    --------
    >>> row = Row(Topology((), (QueueSpot("orders"),), (), (), 0))
    >>> row.finish(0); row.finish(5); row.count                  # nothing changed: no second frame
    1
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.data = array("i")
        self.rows = array("i")
        self.count = 0
        queues_at = ch.AFTER_STEP + len(ch.PRODUCER_CHANNELS) * len(topology.producers)
        consumers_at = queues_at + len(ch.QUEUE_CHANNELS) * len(topology.queues)
        width = consumers_at + len(ch.CONSUMER_CHANNELS) * len(topology.consumers)
        self.now = array("i", [0] * width)
        self.is_dirty = True
        self.producers = _places(topology.producers, ch.AFTER_STEP, len(ch.PRODUCER_CHANNELS))
        self.queues = _places(topology.queues, queues_at, len(ch.QUEUE_CHANNELS))
        self.consumers = _places(topology.consumers, consumers_at, len(ch.CONSUMER_CHANNELS))
        self.by_link = {spot.link: self.consumers[spot.name] for spot in topology.consumers}
        self.by_session: dict[str, list[Place]] = defaultdict(list)
        for spot in topology.consumers:
            self.by_session[spot.link.partition("::")[0]].append(self.consumers[spot.name])
        self._known: dict[str, tuple[int, int]] = {}

    def finish(self, time: int, row: int = 0) -> None:
        """Finish the current frame, if it shows anything new, and begin the next.

        Parameters
        ----------
        time
            When its step happened, in microseconds.
        row
            The place of its last event.

        Raises
        ------
        ValueError
            If the time does not fit into 32 bits.
        """
        if not self.is_dirty:
            return
        if time > LATEST:
            raise ValueError(f"a picture's clock ends at 2147 s; the run has an event at {time / 1e6:g} s")
        now = self.now
        now[0] = time
        self.data += now
        self.rows.append(row)
        self.count += 1
        now[1 : ch.AFTER_STEP] = _BLANK
        self.is_dirty = False

    def tell(self, part: str) -> None:
        """Note what the current step did, as a key of :data:`qflow.labs.words.STEP`."""
        self.now[ch.PARTS] |= BITS[part]
        self.is_dirty = True

    def tell_one_or_many(self, part: str, number: int) -> None:
        """Note what the current step did, in the words for one or in those for many."""
        if number > 1:
            self.now[ch.PARTS] &= ~BITS[part]
            part = f"{part}_many"
        self.tell(part)

    def name_message(self, label: str) -> tuple[int, int]:
        """Note which message the current step is about, and return it as :meth:`find_message` does."""
        found = self._known.get(label) or self.find_message(label)
        self.now[ch.SENDER], self.now[ch.NUMBER] = found
        return found

    def find_message(self, label: str) -> tuple[int, int]:
        """Find a message's producer (from 1; 0 for one that is not in the picture) and its number."""
        found = self._known.get(label)
        if found is None:
            sender, _, number = label.rpartition("-")
            is_known = sender in self.producers and number.isdigit()
            found = (self.producers[sender][0] + 1, int(number)) if is_known else (0, 0)
            self._known[label] = found
        return found


def _places(spots: Spots, start: int, width: int) -> dict[str, Place]:
    return {spot.name: (index, start + width * index) for index, spot in enumerate(spots)}
