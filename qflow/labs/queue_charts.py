"""Charts of queues beside their depth: bytes with their thresholds, and completions held."""

from __future__ import annotations

from qflow.labs.charts import DiagramChart, end_of, on_bands, steps_of
from qflow.labs.diagram import Diagram, Level, Line
from qflow.labs.picture import Picture


def bytes_chart(picture: Picture, queue: str | None = None) -> DiagramChart:
    """Draw a queue's bytes over time, with its thresholds in bytes and when flow control was ON.

    Parameters
    ----------
    picture
        What was run.
    queue
        Which queue; None for the first.

    Returns
    -------
    DiagramChart

    Raises
    ------
    KeyError
        If there is no such queue.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> print(bytes_chart(flow_run(messages=300)))
    At its largest, orders had 37869 bytes.
    """
    frames = picture.frames
    spots = {spot.name: spot for spot in frames.topology.queues}
    name = queue or next(iter(spots))
    if name not in spots:
        raise KeyError(f"no queue {name!r} in this picture; there are {', '.join(spots)}")
    spot = spots[name]
    kinds = (("limit", spot.max_size), ("stop", spot.stop_size), ("resume", spot.resume_size))
    levels = tuple(Level(kind, value, kind) for kind, value in kinds if value)
    most = max(frames.column(f"queue.{name}.bytes"))
    line = Line(f"bytes of {name}", steps_of(frames, f"queue.{name}.bytes"))
    claims = (f"At its largest, {name} had {most} bytes.",)
    return DiagramChart(
        Diagram(
            f"bytes of {name}",
            "seconds",
            "bytes",
            claims,
            (line,),
            levels,
            on_bands(frames, name),
            end=end_of(frames),
        )
    )


def held_chart(picture: Picture) -> DiagramChart:
    """Draw how many completions are held over time, producer by producer.

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
    >>> print(held_chart(flow_run(messages=300, stop=20, resume=10, capacity=5)))
    At most 5 completions of p1 were held at once.
    """
    frames = picture.frames
    names = [spot.name for spot in frames.topology.producers]
    lines = tuple(Line(name, steps_of(frames, f"producer.{name}.held")) for name in names)
    most = {name: max(frames.column(f"producer.{name}.held")) for name in names}
    claims = tuple(
        f"At most {count} completions of {name} were held at once." for name, count in most.items()
    )
    bands = tuple(band for spot in frames.topology.queues for band in on_bands(frames, spot.name))
    return DiagramChart(
        Diagram("completions held", "seconds", "completions", claims, lines, (), bands, end=end_of(frames))
    )
