"""Lab: the widget that shows a picture and its claims, the sentences that state its content.

A lab owns a scene, the widget that draws, and answers the scene's requests. *Why* asks for the causes of a
state, which are found in the trace of the run. A *fork* shows an alternative course of events from an instant
on. A *comparison* shows two runs side by side. A *token* is a text that opens the same instant in another
notebook. A *file* is a page that plays the run. A failure is shown as a sentence in the scene, never as a
traceback, as the reader only clicked on a picture.
"""

from __future__ import annotations

import html
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Self

import ipywidgets as widgets

from qflow.broker.events import Event
from qflow.broker.session import Session
from qflow.kit import RefusalError
from qflow.labs.asking import Asking, Question
from qflow.labs.charts import Chart
from qflow.labs.group import VERDICTS, conveyor_of
from qflow.labs.html_export import to_fragment, to_html
from qflow.labs.picture import Comparison, Picture, compare, picture_of, pictures_of
from qflow.labs.running import simulate_with
from qflow.labs.scene import LinkedChart, Scene
from qflow.labs.share import LABS, Token, TokenError
from qflow.labs.words import story_of
from qflow.trace.explain import Link, explain
from qflow.trace.replaying import trace_of
from qflow.trace.schema import Trace, TraceError
from qflow.trace.timeline import Timeline
from qflow.workload.measures import measures_text
from qflow.workload.model import SETUP
from qflow.workload.stage import Stage

_REACTS = "The run is simulated anew from that instant: every client reacts to the change."
_REPEATS = "Every client acts as recorded, at the recorded times; only the broker's part is computed anew."
_BESIDE = "{} (clients act as recorded)"


class AnyLab(widgets.VBox):
    """The common interface of labs: a picture with its claims, and settings that reopen the lab."""

    name = ""
    """The name by which a token reopens this lab, one of :data:`qflow.labs.share.LABS`, or ""."""
    picture: Any

    @property
    def claims(self) -> tuple[str, ...]:
        """The sentences that state the content of the picture."""
        return tuple(self.picture.claims)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments that reopen this lab in its current state."""
        return {}

    @property
    def shown_settings(self) -> dict[str, Any]:
        """The arguments that reopen a lab with the picture now shown, which may lag behind the sliders."""
        return self.settings

    def token(self, time: int = 0, back: int = 0) -> str:
        """Return a token that opens the lab at a time in microseconds, `back` steps before its last frame."""
        if self.name not in LABS:
            raise TokenError("no token can open this lab")
        return Token(self.name, self.shown_settings, time, back).text()

    def close(self) -> None:
        """Close the widgets of the lab."""
        close_parts(self)
        super().close()

    def __repr__(self) -> str:
        return "\n".join(self.claims)


class Lab(AnyLab):
    """A lab with a scene: one picture, or several side by side, with their claims below.

    Parameters:
        picture: The picture to show first.
        controls: Widgets to place above the picture.

    Attributes:
        picture: The picture that is shown now.
        scene: The widget that draws the picture.
        asking: The questions asked by :meth:`ask`.
    """

    def __init__(self, picture: Picture | Comparison, controls: Sequence[widgets.Widget] = ()) -> None:
        self.picture = picture
        self._alone: Picture | Comparison | None = None
        # A lab whose first run is not complete has an empty comparison as its picture; its scene is empty.
        is_empty = isinstance(picture, Comparison) and not picture.pictures
        self.scene = Scene(None if is_empty else picture)
        self._text = widgets.HTML(_in_words(picture)).add_class("qf-claims")
        self._asks: list[dict[str, Any]] = []
        self._charts: list[LinkedChart] = []
        self._listeners: list[Callable[[], object]] = []
        self._timed: tuple[Picture, Timeline] | None = None
        # Set before the scene is displayed, so that the first drawing has the handles.
        self.scene.handles = [
            [setting, slider.min, slider.max, slider.step] for setting, slider in self._handles().items()
        ]
        super().__init__([*controls, self.scene, self._text])
        self.add_class("qflow-lab")
        self.scene.on_msg(self._answer)
        self._offer()

    @property
    def first(self) -> Picture:
        """The picture, or the last of several side by side, which is the one that changes.

        Raises:
            RefusalError: If the lab shows no picture, as it is closed or its first run is not complete.
        """
        shown = list(pictures_of(self.picture).values())
        if not shown:
            raise RefusalError("this lab shows no picture: it is closed, or still at work")
        return shown[-1]

    def _handles(self) -> dict[str, widgets.IntSlider]:
        """Return the sliders that also have a handle in the picture, keyed by the handle's name."""
        return {}

    def show(self, picture: Picture | Comparison, run: int) -> bool:
        """Show the picture of a run, unless a later run is already shown; return whether it is shown.

        Parameters:
            picture: The picture to show.
            run: The number of the run; a later run has a higher number.
        """
        if not self.scene.show(picture, run):
            return False
        self.picture = picture
        self._text.value = _in_words(picture)
        for chart in self._charts:
            chart.show(picture)
        self._offer()
        for listener in self._listeners:
            listener()
        return True

    def on_show(self, listener: Callable[[], object]) -> None:
        """Call a function, without arguments, whenever the lab shows another complete run or a fork."""
        self._listeners.append(listener)

    def play(self) -> Self:
        """Play the picture from its start, at once or as soon as the lab is displayed; return the lab."""
        # Only a change of the value reaches the browser, so that a lab that has played plays again.
        self.scene.plays = False
        self.scene.plays = True
        return self

    def tell(self) -> Self:
        """Tell the story of the run, in seven captioned parts, when the lab is displayed; return the lab.

        Raises:
            RefusalError: If the run has no story to tell.

        >>> from qflow.labs import flow_lab
        >>> lab = flow_lab(stop=8, resume=5, capacity=3, rate=60, service=0.05, messages=60).tell()
        >>> len(lab.first.drawing["story"])
        7
        """
        story = [asdict(beat) for beat in story_of(self.first.frames)]
        told = replace(self.first, drawing={**self.first.drawing, "story": story})
        self.show(told, self.scene.run + 1)
        return self.play()

    def ask(self, *asked: Question) -> Self:
        """Pause the picture to ask each question before the run shows its answer; return the lab.

        In a chapter, call :meth:`qflow.teaching.Predictions.ask` instead.

        Parameters:
            *asked: The questions, in the order in which to ask them.

        Raises:
            RefusalError: If a question's ``mark`` is not one of the known kinds, or the run does not answer
                it, or does so too early.
        """
        self.asking = Asking(self.first, asked)
        self.scene.asking = self.asking.state()
        self._asks = self.asking.to_store()
        return self

    def show_claims(self, claims: Sequence[str]) -> None:
        """Replace the claims below the picture."""
        self.picture = replace(self.picture, claims=tuple(claims))
        self._text.value = _in_words(self.picture)

    def chart(self, make: Callable[..., Chart], **options: Any) -> LinkedChart:
        """Return a chart of the picture, linked to the scene's cursor.

        Parameters:
            make: A function that returns a chart of a picture, such as :func:`qflow.labs.held_chart`.
            **options: Further arguments of this function, such as ``queue``.

        Returns:
            A widget. Its vertical line shows the instant of the scene, a click in the chart moves the scene,
            and each later run of the lab is drawn in it as well. If the lab shows several runs side by side,
            the chart shows the last.

        >>> from qflow.labs import capacity_lab, held_chart
        >>> print(capacity_lab(messages=60, stop=20, resume=10, capacity_1=2).chart(held_chart))
        At most 2 completions of C1 were held at once.
        At most 15 completions of C2 were held at once.
        """
        chart = LinkedChart(make, self.first, self.scene, **options)
        self._charts.append(chart)
        return chart

    # Sharing

    def go_to(self, token: Token) -> None:
        """Move the scene to the instant of a token, and show differences from the token's environment."""
        self.scene.place = {"time": token.time, "back": token.back}
        self.scene.refusal = token.difference()

    # Two runs side by side

    @property
    def is_forked(self) -> bool:
        """Whether the lab shows a fork side by side with its run."""
        return self._alone is not None

    @property
    def can_compare(self) -> bool:
        """Whether :meth:`compare` has an effect, which in this class is to end a comparison."""
        return isinstance(self.picture, Comparison) and self._alone is not None

    def compare(self) -> None:
        """End the comparison with a fork: show the original run alone again."""
        if self._alone is not None:
            alone, self._alone = self._alone, None
            self.show(alone, self.scene.run + 1)

    # Requests of the scene

    def _offer(self) -> None:
        """Tell the scene which buttons and actions to offer for the picture that is shown."""
        offers = ["html"]
        if self.can_compare:
            offers += ["compare", *(["pinned"] if isinstance(self.picture, Comparison) else [])]
        if self.name in LABS:
            offers.append("token")
        self.scene.offers = offers
        can_fork = isinstance(self.picture, Picture)
        self.scene.actions = list(_actions_of(self.first).items()) if can_fork else []

    def _answer(self, _: object, content: dict[str, Any], __: object) -> None:
        try:
            match content.get("ask"):
                case "why":
                    self._answer_why(content)
                case "fork":
                    self._fork(content)
                case "compare":
                    self.compare()
                case "set":
                    self._set(str(content["setting"]), int(content["value"]))
                case "settle":
                    self._settle(content)
                case "guess" | "next":
                    self.scene.asking = self.asking.receive(content)
                case "do":
                    self._do(content)
                case "token":
                    self.scene.token = self.token(int(content["time"]), int(content["back"]))
                case "html":
                    self._save(content)
        except Exception as error:  # a reader who only pressed a button must not be shown a traceback
            self.scene.refusal = str(error)

    def _set(self, setting: str, value: int) -> None:
        """Set a slider to the value at which the reader dropped its handle in the picture."""
        self._handles()[setting].value = value

    def _answer_why(self, content: dict[str, Any]) -> None:
        picture = list(pictures_of(self.picture).values())[int(content["picture"])]
        answer: dict[str, Any] = {"subject": content["subject"], "frame": content["frame"], "links": []}
        try:
            answer["links"] = _why(picture, content["frame"], content["subject"], self._timeline(picture))
        except TraceError as error:
            answer["refusal"] = str(error)
        except Exception as error:  # a reader who only clicked on a picture is never shown a traceback
            answer["refusal"] = f"{type(error).__name__}: {error}"
        self.scene.answer = {**answer, "picture": content["picture"], "number": content["number"]}

    def _timeline(self, picture: Picture) -> Timeline:
        """Return the timeline of a picture's run, which is created on first use."""
        # A timeline replays the run up to the instant of a question; later questions reuse it.
        if self._timed is None or self._timed[0] is not picture:
            self._timed = picture, Timeline(trace_of(picture.run))
        return self._timed[1]

    def _fork(self, content: dict[str, Any]) -> None:
        if isinstance(self.picture, Picture):
            time = int(content["time"])
            both = self._fork_at(self.picture, str(content["action"]), int(content["frame"]), time)
            self._alone = self.picture
            self.show(both, self.scene.run + 1)
            self.scene.place = {"time": time, "back": 0, "number": self.scene.run}

    def _fork_at(self, picture: Picture, action: str, frame: int, time: int) -> Comparison:
        """Return a run side by side with its fork: the same run with an action after a frame or time."""
        return _fork_picture(picture, frame, action, None if picture.messages else self._timeline(picture))

    def _settle(self, content: dict[str, Any]) -> None:
        """Let a consumer settle a message that it holds, which in this class makes a fork."""
        self._fork({**content, "action": ":".join(map(str, (content["verdict"], *content["message"])))})

    def _do(self, content: dict[str, Any]) -> None:
        """Perform the action of a button in the picture; this class has no such buttons."""
        raise RefusalError(f"this lab has no button {content['what']!r}")

    def _save(self, content: dict[str, Any]) -> None:
        """Send the run as an HTML page to the browser, which saves it among the reader's downloads."""
        place = {"time": int(content["time"]), "back": int(content["back"])}
        self.scene.send({"page": "qflow-run.html"}, buffers=[to_html(self.picture, place=place).encode()])

    def close(self) -> None:
        """Close the lab's widgets and charts, and free its run."""
        if hasattr(self, "_timed"):  # not set in a lab whose first run was refused
            while self._charts:
                self._charts.pop().close()
            self._timed = None
            self.scene.on_msg(self._answer, remove=True)
        self.picture = Comparison({}, ())
        self._alone = None
        super().close()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        # A notebook without a kernel shows the stored run; a program that draws nothing shows the whole text,
        # which ipywidgets would truncate.
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        shown = {"text/html": self._to_fragment()} if self.scene.pictures else {}
        return {**bundle, **shown, "text/plain": repr(self)}

    def _to_fragment(self) -> str:
        """Return the lab as HTML to store in a notebook."""
        return to_fragment(self.picture, self.scene.place, plays=self.scene.plays, asks=self._asks)


def _actions_of(picture: Picture) -> dict[str, str]:
    """Return the actions with which a fork of a picture may begin: their descriptions, keyed by action."""
    topology = picture.frames.topology
    # On a conveyor the producer must not leave, as it sends everything; on a strip no client may leave.
    consumers = [spot.name for spot in topology.consumers]
    clients = [*consumers, *(spot.name for spot in topology.producers)]
    leaving = {"conveyor": consumers, "strip": []}.get(picture.drawing.get("form", ""), clients)
    return {
        **{f"purge:{spot.name}": f"{spot.name} is purged" for spot in topology.queues},
        **{f"leave:{name}": f"{name} goes away" for name in leaving},
    }


def _fork_picture(picture: Picture, frame: int, action: str, timeline: Timeline | None = None) -> Comparison:
    """Return a run side by side with its fork, in which an action happens after a frame."""
    # Refuse an unknown action before anything runs.
    _name_of(picture, action)
    time = picture.frames.at(frame)["time"]
    if picture.messages:
        act = partial(_act, action, _sessions(picture))
        # The seeds are those of the workload, so that both runs are equal up to the action.
        run = simulate_with(picture.run.workload, picture.messages, time, act, until=picture.run.end)
        topology = replace(picture.frames.topology, end=run.end)
        forked = replace(picture_of(run, topology=topology), messages=picture.messages)
        return beside(picture, forked, action, reacts=True)
    timeline = timeline or Timeline(trace_of(picture.run))
    # Without a workload it is unknown how clients would react, so they repeat their recorded commands.
    timeline.seek(max(0, picture.frames.rows[frame]))
    trace = timeline.fork([_command(picture, action, timeline)])
    # The clients' own events belong to the recorded run: a fork has only the broker's events.
    events = [event for event in trace.events() if not event.kind.startswith("client.")]
    topology = replace(picture.frames.topology, end=picture.run.end)
    forked = picture_of(replace(picture.run, events=events, errors={}), topology=topology)
    if picture.drawing.get("form") == "conveyor":
        kept = {name: picture.drawing[name] for name in ("grouped", "works", "tried")}
        forked = conveyor_of(forked, **kept)
    # Nor is it known which clients would have waited, as each acts at its recorded times.
    said = tuple(claim.replace("; it never had to wait.", ".") for claim in forked.claims)
    return beside(picture, replace(forked, claims=said), action, reacts=False)


def beside(picture: Picture, forked: Picture, action: str, *, reacts: bool) -> Comparison:
    """Return a run side by side with its fork, with a claim on whether the clients react to the change."""
    name = _name_of(picture, action)
    said, name = (_REACTS, name) if reacts else (_REPEATS, _BESIDE.format(name))
    return compare(picture, replace(forked, claims=(said, *forked.claims)), ("as it was", name))


def _name_of(picture: Picture, action: str) -> str:
    """Return the description of an action; raise KeyError for an unknown client, queue or message."""
    known = _actions_of(picture)
    verdict, _, rest = action.partition(":")
    consumer, _, label = rest.partition(":")
    if verdict in VERDICTS and label and f"leave:{consumer}" in known:
        return f"{consumer} {verdict}s {label}"
    if action not in known:
        raise KeyError(f"no action {action!r}; there are {', '.join(known)}")
    return known[action]


def _sessions(picture: Picture) -> dict[str, str]:
    """Return the name of each client's session, keyed by client."""
    topology = picture.frames.topology
    sessions = {spot.name: spot.session for spot in topology.producers}
    return sessions | {spot.name: spot.link.partition("::")[0] for spot in topology.consumers}


def _act(action: str, sessions: Mapping[str, str], stage: Stage) -> None:
    """Perform the action of a fork in a simulation that is under way."""
    kind, name, *label = action.split(":", 2)
    if kind == "purge":
        stage.broker.session(SETUP).queue_purge(name)
    elif (session := stage.broker.sessions.get(sessions[name])) is None:
        raise TraceError(f"{name} is not there at that instant")
    elif kind == "leave":
        session.close()
    else:
        getattr(session, f"message_{kind}")(_delivery_of(session, name, *label))


def _delivery_of(session: Session, name: str, label: str) -> tuple[int, ...]:
    """Return the delivery number of a message that a consumer holds, as a tuple of one item."""
    found = [number for number, record in session.consuming.records.items() if record.label == label]
    if not found:
        raise TraceError(f"{name} does not hold {label} at that instant")
    # A message that was delivered twice has two deliveries; the consumer holds the later one.
    return (found[-1],)


def _command(picture: Picture, action: str, timeline: Timeline) -> Event:
    """Return the action of a fork as a command to insert into a trace."""
    kind, name, *label = action.split(":", 2)
    sessions, time = _sessions(picture), timeline.row.time
    if kind == "purge":
        session = next(iter(sessions.values()))
        return Event(time, "queue.purge", session=session, detail={"queue": name})
    if kind == "leave":
        return Event(time, "session.detach", session=sessions[name], detail={})
    transfers = _delivery_of(timeline.restore().sessions[sessions[name]], name, *label)
    return Event(time, f"message.{kind}", session=sessions[name], detail={"transfers": transfers})


def _why(picture: Picture, frame: int, subject: str, timeline: Timeline) -> list[dict[str, Any]]:
    """Return the causes of the state of a client, queue, message or group in a frame, for the scene."""
    return [
        {
            "text": link.text,
            "rules": list(link.rules),
            "section": str(link.section),
            "level": link.level,
            "time": link.time,
            "subject": str(link.subject),
            "frame": _frame_of(link, picture.frames.rows, timeline.trace),
        }
        for link in explain(timeline, _last_shown(picture, frame), subject).links
    ]


def _frame_of(link: Link, rows: Sequence[int], trace: Trace) -> int:
    """Return the frame that shows the event of a cause, or the frame before an event without a frame."""
    frame = min(bisect_left(rows, link.seq), len(rows) - 1)
    return frame - 1 if frame and trace.time[rows[frame]] > link.time else frame


def _last_shown(picture: Picture, frame: int) -> int:
    """Return the index of the last event at the time of a frame, including events without a frame."""
    frames, events = picture.frames, picture.run.events
    place = max(0, frames.rows[frame])
    times = frames.columns[0]
    if frame + 1 < frames.count and times[frame + 1] == times[frame]:
        return place
    # The frame also shows later events at the same time that change no number.
    while place + 1 < len(events) and events[place + 1].time == events[place].time:
        place += 1
    return place


def button_of(text: str, tooltip: str, name: str) -> widgets.Button:
    """Return a button as wide as its text, with `name` as its CSS class."""
    return widgets.Button(description=text, tooltip=tooltip, layout={"width": "auto"}).add_class(name)


def close_parts(widget: widgets.Widget) -> None:
    """Close the parts of a widget, recursively, which ipywidgets does not do itself."""
    for child in getattr(widget, "children", ()):
        close_parts(child)
        child.close()
    for name in ("layout", "style"):
        part = getattr(widget, name, None)
        if isinstance(part, widgets.Widget):
            part.close()


def _in_words(shown: Picture | Comparison) -> str:
    """Return the claims as HTML, with the measures of all queues, named as in the output of ``qflow run``."""
    items = "".join(f"<li>{html.escape(claim)}</li>" for claim in shown.claims)
    measured = [
        f"<p>{html.escape(f'{name}: ' * bool(name) + queue)}: {measures_text(measures)}</p>"
        for name, picture in pictures_of(shown).items()
        for queue, measures in picture.measures().items()
    ]
    return f"<b>What this picture shows</b><ul>{items}</ul>{''.join(measured)}"
