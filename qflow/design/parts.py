"""Parts of a workload that know nothing of one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qflow.design.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Part:
    """Queues and producers that belong together: whatever stops one may stop all."""

    queues: tuple[str, ...]
    producers: tuple[str, ...]


def parts_of(traffic: Mapping[str, Traffic], sessions: Mapping[str, str] | None = None) -> list[Part]:
    """Return the parts, in the order of their first queues.

    Two queues belong together if a producer sends to both: its window is shared.  So do two producers on
    one session, whose commands are counted together (CAP-09).

    Parameters
    ----------
    traffic : mapping
        Who sends to each queue.
    sessions : mapping or None
        Producer name to the name of its session, where several share one.

    Examples
    --------
    >>> from qflow.design.traffic import Sender
    >>> p, r = {"p": Sender(1)}, {"r": Sender(1)}
    >>> parts_of({"a": p, "b": r, "c": {**p}})
    [Part(queues=('a', 'c'), producers=('p',)), Part(queues=('b',), producers=('r',))]
    """
    linked: dict[str, set[str]] = {}
    for queue, senders in traffic.items():
        ties = {f"q {queue}"} | {f"p {name}" for name in senders}
        ties |= {f"s {sessions[name]}" for name in senders if sessions and name in sessions}
        merged = set().union(ties, *(linked[tie] for tie in ties if tie in linked))
        for tie in merged:
            linked[tie] = merged
    parts: dict[int, set[str]] = {id(ties): ties for ties in (linked[f"q {name}"] for name in traffic)}
    senders_in_order = list(dict.fromkeys(name for senders in traffic.values() for name in senders))
    return [
        Part(
            tuple(name for name in traffic if f"q {name}" in ties),
            tuple(name for name in senders_in_order if f"p {name}" in ties),
        )
        for ties in parts.values()
    ]
