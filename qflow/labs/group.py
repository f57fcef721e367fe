"""The group experiment without widgets: consumers by hand, or all of them accepting in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from qflow.labs.claims import times
from qflow.labs.group_table import QUEUE, GroupTable
from qflow.labs.picture import Picture


def group_run(
    *,
    messages: str = "AABACBBCAD",
    prefetch: Sequence[int] = (1, 2, 3),
    actions: Sequence[tuple[str, str] | tuple[str, str, str]] | None = None,
    wake_up: str = "faithful",
) -> Picture:
    """Play the consumers of a queue with message groups, and return what the lab would show.

    Parameters
    ----------
    messages
        One letter a message: its group.
    prefetch
        For each consumer, the most messages it may hold.
    actions
        What the consumers do: (consumer, "accept" or "release" or "reject"), and which message if it is
        not the oldest it holds. None lets each in turn accept until nobody holds anything.
    wake_up
        As in :class:`~qflow.labs.group_table.GroupTable`.

    Returns
    -------
    Picture
        Its first claims say who owned which group, and whether a group's messages kept their order.

    Raises
    ------
    ValueError
        If an action cannot be done.

    Examples
    --------
    >>> for claim in group_run(messages="AAB", prefetch=(1, 1)).claims[:3]:
    ...     print(claim)
    Group A was owned by c1 (twice).
    Group B was owned by c2.
    Every group was accepted in the order in which it was sent.
    """
    table = GroupTable(messages, prefetch, wake_up=wake_up)
    if actions is None:
        work_in_turn(table)
    else:
        for action in actions:
            table.settle(*action)
    return group_picture(table)


def work_in_turn(table: GroupTable) -> None:
    """Let each consumer in turn accept its oldest message, until nobody holds any.

    Examples
    --------
    >>> table = GroupTable("ABAB"); work_in_turn(table); table.broker.queue("orders").message_depth
    0
    """
    while any(map(table.holds, table.consumers)):
        for consumer in table.consumers:
            if table.holds(consumer):
                table.settle(consumer, "accept")


def group_picture(table: GroupTable) -> Picture:
    """Return a table's picture, with claims about its groups in front."""
    picture = table.picture()
    return replace(picture, claims=(*_owned(picture), *_order(picture), *_idle(table), *picture.claims))


def _owned(picture: Picture) -> list[str]:
    frames = picture.frames
    owners: dict[str, list[str]] = {group: [] for group in sorted(frames.groups)}
    locks = frames.lasting["locks"]
    for index in range(len(locks)):
        lock = locks.row(index)
        owners[frames.groups[lock["group"] - 1]].append(frames.topology.consumers[lock["consumer"] - 1].name)
    return [f"Group {group} was owned by {_in_turn(names)}." for group, names in owners.items()]


def _in_turn(names: list[str]) -> str:
    """Say who, one after the other: ``c1 (twice), then c2``."""
    turns = [(name, len(list(same))) for name, same in groupby(names)]
    said = [name if number == 1 else f"{name} ({times(number)})" for name, number in turns]
    return ", then ".join(said) or "nobody"


def _order(picture: Picture) -> list[str]:
    frames = picture.frames
    stays = frames.lasting["stays"]
    left: dict[int, list[tuple[int, int]]] = {}
    for index in range(len(stays)):
        stay = stays.row(index)
        if stay["reason"] == 1:
            left.setdefault(stay["group"], []).append((stay["end"], stay["number"]))
    broken = sorted(
        frames.groups[group - 1]
        for group, ends in left.items()
        if [number for _, number in sorted(ends)] != sorted(number for _, number in ends)
    )
    if broken:
        return [f"Accepted in another order than sent: group {', '.join(broken)} (MG-18)."]
    return ["Every group was accepted in the order in which it was sent."] if left else []


def _idle(table: GroupTable) -> list[str]:
    queue = table.broker.queue(QUEUE)
    owners = table.owners()
    free = sorted({m.group for m in queue.store if not table_holds(table, m.transfer.label)} - set(owners))
    idle = [name for name in table.consumers if not table.holds(name)]
    if free and idle:
        who, what = ", ".join(idle), ", ".join(free)
        return [f"{who} waits with free credit although group {what} is free: nobody woke it (MG-13)."]
    return []


def table_holds(table: GroupTable, label: str) -> bool:
    """Return whether any consumer holds a message."""
    return any(label in table.holds(name) for name in table.consumers)
