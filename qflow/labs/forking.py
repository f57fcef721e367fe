"""Forking: what would have happened from an instant on, if somebody had done something else."""

from __future__ import annotations

from dataclasses import replace

from qflow.broker.events import Event
from qflow.labs.comparison import Comparison, compare
from qflow.labs.picture import Picture, picture_of
from qflow.trace.record import trace_of
from qflow.trace.timeline import Timeline
from qflow.workload import Run


def actions_of(picture: Picture) -> dict[str, str]:
    """List with what a fork of a picture can begin.

    Parameters
    ----------
    picture
        The picture.

    Returns
    -------
    dict
        Key to what it does, in a few words.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> actions_of(flow_run(messages=5))
    {'purge:orders': 'orders is purged', 'leave:c1': 'c1 goes away', 'leave:p1': 'p1 goes away'}
    """
    topology = picture.frames.topology
    return {
        **{f"purge:{spot.name}": f"{spot.name} is purged" for spot in topology.queues},
        **{f"leave:{spot.name}": f"{spot.name} goes away" for spot in topology.consumers},
        **{f"leave:{spot.name}": f"{spot.name} goes away" for spot in topology.producers},
    }


_HOW = "Every client does what it did in the run, when it did it; only the broker's part is worked out anew."


def fork_picture(picture: Picture, frame: int, action: str, timeline: Timeline | None = None) -> Comparison:
    """Let a run go another way from a frame on, and put both side by side.

    The clients of the fork do what they did in the run, as far as they still can; only the broker's part
    is worked out anew.

    Parameters
    ----------
    picture
        The run.
    frame
        The last one that both have in common.
    action
        A key of :func:`actions_of`.
    timeline
        Of the picture's run, if it is at hand.

    Returns
    -------
    Comparison

    Raises
    ------
    KeyError
        If there is no such action.
    TraceError
        If the run cannot be taken up at that frame.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> both = fork_picture(flow_run(messages=60, stop=20, resume=10), 80, "purge:orders")
    >>> list(both.pictures)
    ['as it was', 'orders is purged']
    """
    known = actions_of(picture)
    if action not in known:
        raise KeyError(f"no action {action!r}; there are {', '.join(known)}")
    timeline = timeline or Timeline(trace_of(picture.run))
    timeline.seek(max(0, picture.frames.rows[frame]))
    trace = timeline.fork([_command(picture, action, timeline.row.time)])
    # What clients alone can tell ends with the run they told it in: a fork has the broker's part only.
    events = [event for event in trace.events() if not event.kind.startswith("client.")]
    run = Run(picture.run.workload, events, picture.run.end)
    topology = replace(picture.frames.topology, end=picture.run.end)
    forked = picture_of(run, topology=topology)
    # Nor can it be said who waited: every client acts when it did in the run.
    said = (claim.replace("; it never had to wait.", ".") for claim in forked.claims)
    forked = replace(forked, claims=(_HOW, *said))
    return compare(picture, forked, ("as it was", known[action]))


def _command(picture: Picture, action: str, time: int) -> Event:
    kind, _, name = action.partition(":")
    topology = picture.frames.topology
    sessions = {spot.name: spot.session for spot in topology.producers}
    sessions |= {spot.name: spot.link.partition("::")[0] for spot in topology.consumers}
    if kind == "purge":
        return Event(time, "queue.purge", session=next(iter(sessions.values())), detail={"queue": name})
    return Event(time, "session.detach", session=sessions[name], detail={})
