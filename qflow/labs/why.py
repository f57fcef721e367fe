"""Why: a click on the picture becomes a question to the engine's trace, and its answer a chain to walk."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from qflow.labs.comparison import Comparison
from qflow.labs.picture import Picture
from qflow.labs.scene import Scene
from qflow.trace.explain import explain
from qflow.trace.record import trace_of
from qflow.trace.schema import TraceError
from qflow.trace.timeline import Timeline


def why(picture: Picture, frame: int, subject: str, timeline: Timeline | None = None) -> dict[str, Any]:
    """Explain what is to be seen of somebody at a frame.

    Parameters
    ----------
    picture
        The picture.
    frame
        Which frame.
    subject
        Such as ``producer:p1``, ``queue:orders``, ``transfer:p1-57``, ``message:p1-57``, ``group:A``.
    timeline
        Of the picture's run, if it is at hand.

    Returns
    -------
    dict
        ``subject``, ``frame``, and ``links``: each with ``text``, ``rules``, ``section``, ``level``,
        ``time``, ``subject`` and the ``frame`` that shows it. Without an answer, ``refusal`` says why.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> picture = flow_run(messages=40, stop=3, resume=2, prefetch=1, service=1.0, capacity=2)
    >>> why(picture, 12, "producer:p1")["links"][0]["text"]
    'p1 is blocked: ...'
    """
    rows = picture.frames.rows
    told: dict[str, Any] = {"subject": subject, "frame": frame, "links": []}
    try:
        timeline = timeline or Timeline(trace_of(picture.run))
        found = explain(timeline, max(0, rows[frame]), subject)
    except TraceError as error:
        return {**told, "refusal": str(error)}
    for link in found.links:
        told["links"].append(
            {
                "text": link.text,
                "rules": list(link.rules),
                "section": str(link.section),
                "level": link.level,
                "time": link.time,
                "subject": str(link.subject),
                "frame": min(bisect_left(rows, link.seq), len(rows) - 1),
            }
        )
    return told


class Why:
    """Answers what is asked in a scene.

    Parameters
    ----------
    scene
        Where it is asked.
    shown
        Returns what is shown there.
    """

    def __init__(self, scene: Scene, shown: Callable[[], Picture | Comparison]) -> None:
        self._scene = scene
        self._shown = shown
        self._timelines: dict[int, tuple[Picture, Timeline]] = {}
        scene.on_msg(self._heard)

    def _heard(self, _: object, content: dict[str, Any], __: object) -> None:
        if content.get("ask") != "why":
            return
        shown = self._shown()
        pictures = list(shown.pictures.values()) if isinstance(shown, Comparison) else [shown]
        picture = pictures[int(content["picture"])]
        try:
            answer = why(picture, int(content["frame"]), str(content["subject"]), self.timeline(picture))
        except Exception as error:  # whoever only clicked on a picture is never shown a traceback
            text = f"{type(error).__name__}: {error}"
            answer = {"subject": content["subject"], "frame": content["frame"], "links": [], "refusal": text}
        self._scene.answer = {**answer, "picture": content["picture"], "number": content["number"]}

    def timeline(self, picture: Picture) -> Timeline | None:
        """Return the timeline of a picture's run, made when it is first wanted; None if there can be none."""
        known = self._timelines.get(id(picture))
        if known is None:
            try:
                known = picture, Timeline(trace_of(picture.run))
            except TraceError:
                return None
            self._timelines = {id(picture): known}
        return known[1]

    def close(self) -> None:
        """Forget everything."""
        self._timelines = {}
        self._scene.on_msg(self._heard, remove=True)
