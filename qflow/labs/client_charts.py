"""Charts of clients: waits, latencies, who owned which group, and prefetch."""

from __future__ import annotations

from qflow.labs.charts import DiagramChart, end_of, steps_of
from qflow.labs.claims import seconds, share, times
from qflow.labs.diagram import Diagram, Level, Line, SpanRow
from qflow.labs.picture import Picture
from qflow.labs.spans import NEVER

_BINS = 40


def blocked_chart(picture: Picture) -> DiagramChart:
    """Draw when each producer had to wait with a full window.

    Parameters
    ----------
    picture
        What was run.

    Returns
    -------
    DiagramChart

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> print(blocked_chart(flow_run(messages=100)))
    p1 had to wait never, 0 % of the time.
    """
    frames = picture.frames
    rows: list[SpanRow] = []
    claims = []
    for spot in frames.topology.producers:
        spans = frames.spans(f"producer.{spot.name}.blocked")
        part = share(spans, frames.topology.end)
        claims.append(f"{spot.name} had to wait {times(len(spans))}, {part} of the time.")
        for start, to in spans:
            said = f"{spot.name} waits from {seconds(start)} to {seconds(to)}"
            rows.append((spot.name, start / 1e6, to / 1e6, said))
    title = "producers that wait with a full window"
    return DiagramChart(
        Diagram(title, "seconds", "", tuple(claims), rows=(("waits", tuple(rows)),), end=end_of(frames))
    )


def latency_chart(picture: Picture) -> DiagramChart:
    """Draw how long it took until producers knew of their transfers that they are complete.

    Parameters
    ----------
    picture
        What was run.

    Returns
    -------
    DiagramChart
        A distribution: milliseconds to the number of transfers.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> print(latency_chart(flow_run(messages=300, stop=20, resume=10, capacity=5)))
    Of 300 completed transfers, 210 were complete at once; half took at most 0.0 ms, the slowest 83.2 ms.
    """
    frames = picture.frames
    times_of, sendings = frames.column("time"), frames.lasting["sendings"]
    pairs = zip(sendings.column("start"), sendings.column("end"), strict=True)
    taken = sorted((times_of[end] - times_of[start]) / 1e3 for start, end in pairs if end != NEVER)
    if not taken:
        return _latencies(("No transfer was completed.",))
    longest = max(taken[-1], 0.001)
    width = longest / _BINS
    counts = [0] * _BINS
    for value in taken:
        counts[min(_BINS - 1, int(value / width))] += 1
    at_once = sum(value == 0 for value in taken)
    claim = (
        f"Of {len(taken)} completed transfers, {at_once} were complete at once; half took at most "
        f"{taken[len(taken) // 2]:.1f} ms, the slowest {longest:.1f} ms."
    )
    bars = tuple((index * width, float(count)) for index, count in enumerate(counts))
    return _latencies((claim,), bars, longest)


def _latencies(
    claims: tuple[str, ...], bars: tuple[tuple[float, float], ...] = (), end: float = 1
) -> DiagramChart:
    return DiagramChart(
        Diagram("time to completion", "milliseconds", "transfers", claims, bars=bars, end=end)
    )


def ownership_chart(picture: Picture) -> DiagramChart:
    """Draw which consumer owned which group, and when.

    Parameters
    ----------
    picture
        What was run.

    Returns
    -------
    DiagramChart
        A row for each group. Name, hatching and colour of a span are its owner's; pointing at it tells more.

    Examples
    --------
    >>> from qflow.labs import group_run
    >>> print(ownership_chart(group_run(messages="AAB", prefetch=(1, 1))))
    A was owned twice, by c1.
    B was owned once, by c2.
    """
    frames = picture.frames
    locks, moments = frames.lasting["locks"], frames.column("time")
    rows: dict[str, list[SpanRow]] = {spot.name: [] for spot in frames.topology.consumers}
    owners: dict[str, list[str]] = {}
    for index in range(len(locks)):
        lock = locks.row(index)
        group = frames.groups[lock["group"] - 1]
        who = frames.topology.consumers[lock["consumer"] - 1].name if lock["consumer"] else "someone"
        start = moments[lock["start"]]
        to = moments[lock["end"]] if lock["end"] != NEVER else frames.topology.end
        said = f"{who} owns {group} from {seconds(start)} to {seconds(to)}"
        rows.setdefault(who, []).append((group, start / 1e6, to / 1e6, said))
        owners.setdefault(group, []).append(who)
    claims = [
        f"{group} was owned {times(len(names))}, by {', '.join(dict.fromkeys(names))}."
        for group, names in sorted(owners.items())
    ]
    kinds = tuple((who, tuple(spans)) for who, spans in rows.items())
    sentences = tuple(claims) or ("No group was ever owned.",)
    return DiagramChart(
        Diagram("who owns which group", "seconds", "", sentences, rows=kinds, end=end_of(frames))
    )


def prefetch_chart(picture: Picture) -> DiagramChart:
    """Draw how many messages each consumer holds over time, against its prefetch.

    Parameters
    ----------
    picture
        What was run.

    Returns
    -------
    DiagramChart

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> print(prefetch_chart(flow_run(messages=300)))
    c1 held at most 20 of its prefetch of 20.
    """
    frames = picture.frames
    spots = frames.topology.consumers
    lines = tuple(Line(spot.name, steps_of(frames, f"consumer.{spot.name}.holds")) for spot in spots)
    levels = {spot.prefetch: Level("prefetch", spot.prefetch, "mark") for spot in spots}
    claims = tuple(
        f"{spot.name} held at most {max(frames.column(f'consumer.{spot.name}.holds'))} "
        f"of its prefetch of {spot.prefetch}."
        for spot in spots
    )
    return DiagramChart(
        Diagram(
            "prefetched messages",
            "seconds",
            "messages",
            claims,
            lines,
            tuple(levels.values()),
            end=end_of(frames),
        )
    )
