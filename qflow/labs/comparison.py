"""Comparison: several pictures of one workload, to be looked at side by side and under one clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qflow.labs.picture import Picture


@dataclass(frozen=True)
class Comparison:
    """Pictures that differ in one thing only.

    Parameters
    ----------
    pictures
        What differs, in a few words, to its picture; in the order in which they are drawn.
    claims
        What the pictures show together, in sentences.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> two = Comparison({"one": flow_run(messages=20)}, ("One picture is no comparison.",))
    >>> two["one"].frames.topology.queues[0].name, two
    ('orders', One picture is no comparison.)
    """

    pictures: Mapping[str, Picture]
    claims: tuple[str, ...]

    def __getitem__(self, name: str) -> Picture:
        return self.pictures[name]

    def __repr__(self) -> str:
        return "\n".join(self.claims)


def compare(one: Picture, other: Picture, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """Put two runs side by side.

    Parameters
    ----------
    one, other
        The pictures.
    names
        What they are called.

    Returns
    -------
    Comparison
        Its claims are those of both: first what holds for either, then name by name.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> for claim in compare(flow_run(messages=50), flow_run(messages=50, stop=9, resume=5)).claims[:2]:
    ...     print(claim)
    both: At its deepest, orders had 45 messages (its limit is 1000).
    both: c1 accepted 50 messages.
    """
    pictures = dict(zip(names, (one, other), strict=True))
    said = [f"both: {claim}" for claim in one.claims if claim in other.claims]
    for name, picture, beside in ((names[0], one, other), (names[1], other, one)):
        said += [f"{name}: {claim}" for claim in picture.claims if claim not in beside.claims]
    return Comparison(pictures, tuple(said))
