"""Lab: a picture on the screen, with the sentences that say what it shows.

Forking: what would have happened from an instant on, if somebody had done something else.

Why: a click on the picture becomes a question to the engine's trace, and its answer a chain to walk.

Buttons: what the scene asks of a lab besides why: a fork, a comparison, a token, a file.
"""

from __future__ import annotations

import html
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from qflow.broker.events import Event
from qflow.labs.html_export import to_html
from qflow.labs.picture import Comparison, Picture, compare, picture_of
from qflow.labs.scene import Scene
from qflow.labs.share import LABS, Token, TokenError
from qflow.trace.explain import explain
from qflow.trace.replaying import trace_of
from qflow.trace.schema import TraceError
from qflow.trace.timeline import Timeline
from qflow.workload import Run

if TYPE_CHECKING:
    from qflow.labs.charts import Chart
    from qflow.labs.linked import LinkedChart


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


class Buttons:
    """Answers a lab's buttons.

    Parameters
    ----------
    lab
        Whose.
    """

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._answers = {
            "fork": self._fork,
            "compare": self._compare,
            "token": self._token,
            "html": self._save,
        }
        lab.scene.on_msg(self._heard)
        self.offer()

    def offer(self) -> None:
        """Tell the scene what can be asked for, now that this is shown."""
        lab = self._lab
        offers = ["html"]
        if lab.can_compare:
            offers += ["compare", *(["pinned"] if isinstance(lab.picture, Comparison) else [])]
        if lab.can_share:
            offers.append("token")
        lab.scene.offers = offers
        can_fork = lab.can_explain and isinstance(lab.picture, Picture)
        lab.scene.actions = list(actions_of(lab.first).items()) if can_fork else []

    def _heard(self, _: object, content: dict[str, Any], __: object) -> None:
        answer = self._answers.get(content.get("ask", ""))
        if answer is None:
            return
        try:
            answer(content)
        except Exception as error:  # whoever only pressed a button is never shown a traceback
            self._lab.scene.refusal = str(error)

    def _fork(self, content: dict[str, Any]) -> None:
        lab = self._lab
        if isinstance(lab.picture, Picture):
            timeline = lab.why.timeline(lab.picture)
            both = fork_picture(lab.picture, int(content["frame"]), content["action"], timeline)
            lab.show_beside(both)
            lab.scene.place = {"time": int(content["time"]), "back": 0, "number": lab.scene.run}

    def _compare(self, _: dict[str, Any]) -> None:
        self._lab.compare()

    def _token(self, content: dict[str, Any]) -> None:
        self._lab.scene.token = self._lab.token(int(content["time"]), int(content["back"]))

    def _save(self, content: dict[str, Any]) -> None:
        place = {"time": int(content["time"]), "back": int(content["back"])}
        path = _free(Path("qflow-run.html"))
        path.write_text(to_html(self._lab.picture, place=place), encoding="utf-8")
        self._lab.scene.token = f"saved: {path}"

    def close(self) -> None:
        """Answer nothing any more."""
        self._lab.scene.on_msg(self._heard, remove=True)


def _free(path: Path) -> Path:
    """Return a name that no file has yet, so that none is overwritten."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


class Lab(widgets.VBox):
    """A picture, or several side by side, and its claims, one above the other.

    Parameters
    ----------
    picture
        What to show first.
    controls
        Widgets above the picture.

    Attributes
    ----------
    picture
        What is shown.
    scene
        The widget that draws it.
    """

    def __init__(self, picture: Picture | Comparison, controls: Sequence[widgets.Widget] = ()) -> None:
        self.picture = picture
        self._alone: Picture | Comparison | None = None
        # A comparison of nothing is what a lab shows that is still at work: its scene stays empty.
        is_empty = isinstance(picture, Comparison) and not picture.pictures
        self.scene = Scene(None if is_empty else picture)
        self.why = Why(self.scene, lambda: self.picture)
        self._text = widgets.HTML(_listed(picture.claims)).add_class("qf-claims")
        self._charts: list[LinkedChart] = []
        super().__init__([*controls, self.scene, self._text])
        self.add_class("qflow-lab")
        self._buttons = Buttons(self)
        self.scene.is_live = self.can_explain

    @property
    def claims(self) -> tuple[str, ...]:
        """What the picture shows, in sentences."""
        return self.picture.claims

    @property
    def first(self) -> Picture:
        """The picture, or of several the last: the one that changes."""
        if isinstance(self.picture, Comparison):
            return list(self.picture.pictures.values())[-1]
        return self.picture

    def show(self, picture: Picture | Comparison, run: int) -> bool:
        """Show another picture, unless a later run is shown already.

        Parameters
        ----------
        picture
            What to show.
        run
            Its number, counted by whoever starts runs.

        Returns
        -------
        bool
            Whether it is shown.
        """
        if not self.scene.show(picture, run):
            return False
        self.picture = picture
        self._text.value = _listed(picture.claims)
        for chart in self._charts:
            chart.show(picture)
        if hasattr(self, "_buttons"):
            self._buttons.offer()
        return True

    def chart(self, make: Callable[..., Chart], **options: Any) -> LinkedChart:
        """Return a chart of what is shown, linked to the scene's cursor.

        Parameters
        ----------
        make
            Which chart: a function of a picture, such as :func:`qflow.labs.held_chart`.
        **options
            Its further arguments, such as ``queue``.

        Returns
        -------
        LinkedChart
            A widget. Its line is where the scene is, a click in it moves the scene, and every later run
            of the lab is drawn in it too; of several runs side by side, the last.

        Examples
        --------
        >>> from qflow.labs import capacity_lab, held_chart
        >>> lab = capacity_lab(messages=60, stop=20, resume=10)
        >>> chart = lab.chart(held_chart)
        >>> lab.sliders["capacity"].value = 2
        >>> print(chart)
        At most 2 completions of p1 were held at once.
        At most 2 completions of p2 were held at once.
        At most 2 completions of p3 were held at once.
        """
        from qflow.labs.linked import LinkedChart

        chart = LinkedChart(make, self.first, self.scene, **options)
        self._charts.append(chart)
        return chart

    def tell(self, claims: Sequence[str]) -> None:
        """Say something else below the picture."""
        self.picture = replace(self.picture, claims=tuple(claims))
        self._text.value = _listed(claims)

    # What the scene's buttons ask for

    can_explain = True
    """Whether the engine can be asked why: it needs the whole run, from its broker's start."""

    name = ""
    """What opens this lab again: a key of :data:`qflow.labs.share.LABS`, or "" if nothing does."""

    @property
    def settings(self) -> dict[str, Any]:
        """What it was opened with, and what was set since: the arguments that open it again."""
        return {}

    @property
    def can_share(self) -> bool:
        """Whether a token can open this lab elsewhere."""
        return self.name in LABS

    def token(self, time: int, back: int) -> str:
        """Return a token of an instant; see :mod:`qflow.labs.share`.

        Parameters
        ----------
        time, back
            Microseconds, and how many steps back from the last of that time.

        Raises
        ------
        TokenError
            If no token can open this lab.
        """
        if not self.can_share:
            raise TokenError("no token can open this lab")
        return Token(self.name, self.settings, time, back).text()

    def opened(self, token: Token) -> None:
        """Go to a token's instant, and say what is not as it was where the token was made."""
        self.scene.place = {"time": token.time, "back": token.back}
        self.scene.refusal = token.difference()

    @property
    def can_compare(self) -> bool:
        """Whether there is something to end: two runs side by side."""
        return isinstance(self.picture, Comparison) and self._alone is not None

    def show_beside(self, both: Comparison) -> None:
        """Show a run with another course of events beside it, until the comparison is ended."""
        self._alone = self.picture
        self.show(both, self.scene.run + 1)

    def compare(self) -> None:
        """End the comparison."""
        if self._alone is not None:
            alone, self._alone = self._alone, None
            self.show(alone, self.scene.run + 1)

    def close(self) -> None:
        """Free everything the lab used: its widgets, here and in the browser, and its run."""
        if hasattr(self, "_buttons"):  # a lab whose first run is refused never comes so far
            while self._charts:
                self._charts.pop().close()
            self.why.close()
            self._buttons.close()
        self.picture = Comparison({}, ())
        self._alone = None
        close_parts(self)
        super().close()

    def __repr__(self) -> str:
        return "\n".join(self.claims)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        # ipywidgets would cut the text short, and it is all that a reader without a kernel gets.
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        return {**bundle, "text/plain": repr(self)}


def close_parts(widget: widgets.Widget) -> None:
    """Close every widget that another one consists of, and theirs; ipywidgets leaves them all behind."""
    for child in getattr(widget, "children", ()):
        close_parts(child)
        child.close()
    for name in ("layout", "style"):
        part = getattr(widget, name, None)
        if isinstance(part, widgets.Widget):
            part.close()


def _listed(claims: Sequence[str]) -> str:
    items = "".join(f"<li>{html.escape(claim)}</li>" for claim in claims)
    return f"<b>What this picture shows</b><ul>{items}</ul>"
