"""Challenges: goals for the learner to reach in a lab with few moves, judged by the engine's run.

A challenge names a lab, its initial settings, and a goal for its run, such as *overflow this queue with flow
control ON*. A *move* is a setting that differs from its initial value, however often it was dragged, or one
action on a message or as the producer in a lab with such actions. So a slider that is back at its initial
value is no move. *Par* is a number of moves with which the goal can be reached.

The judge of a challenge reads the frames, events and claims of the run that the engine made, and not the
drawing in the browser. Settings that the broker refuses make no run, so they change nothing. A fork, the
alternative course of events that a lab shows beside its run, is not judged, as no token could open it.

Texts, settings and par are in ``data/challenges.toml``. A judge in this module is a function of the picture
that returns whether the goal is met, and the numbers for a sentence about the run. :func:`challenge` calls it
for every complete run that its lab shows. The result with the fewest moves is kept, so that playing on cannot
worsen it.
"""

from __future__ import annotations

import html
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError, kit_path
from qflow.teaching import learner
from qflow.teaching.hints import Hints
from qflow.wording import did_you_mean, format_count

if TYPE_CHECKING:
    from qflow.labs.picture import Comparison, Picture

_Found = tuple[bool, Mapping[str, object]]
"""The result of a judge: whether the run meets the goal, and numbers for a sentence about the run."""

_MANY = 10
"""How often flow control has to turn ON for the challenge ``nervous``."""
_IDLE, _WAITED = 95, 50
"""For the challenge ``starve``: more percent of the time idle than the first, at least the second waiting."""


@dataclass(frozen=True)
class Challenge:
    """One challenge; comments at the top of ``data/challenges.toml`` explain its fields."""

    name: str
    title: str
    goal: str
    par: int
    lab: str
    hints: tuple[str, ...]
    said: str
    because: str
    look: Callable[[Any], _Found]
    settings: Mapping[str, Any] = field(default_factory=dict)

    def judge(self, picture: Picture | Comparison) -> bool:
        """Return whether the run that a picture shows meets the goal."""
        return self.look(_latest(picture))[0]

    def tell(self, picture: Picture | Comparison) -> str:
        """Return a sentence or two about the run that a picture shows."""
        return self.said.format(**self.look(_latest(picture))[1])

    def count(self, moves: int) -> str:
        """Return a number of moves as text, with par."""
        return f"{format_count(moves, 'move')}, par {self.par}"


def _latest(picture: Picture | Comparison) -> Picture | Comparison:
    """Return the picture of the current run if a comparison shows it beside a pinned one."""
    pictures = getattr(picture, "pictures", {})
    latest: Picture | Comparison = pictures.get("now", picture)
    return latest


def _count_moves(begun: Mapping[str, Any], settings: Mapping[str, Any]) -> int:
    """Return the number of moves from a lab's initial settings to its current settings."""
    moves = 0
    for name, value in settings.items():
        first = begun[name]
        if name == "moves":
            moves += len(value) - len(first)
        elif isinstance(value, list) and len(value) == len(first):
            moves += sum(one != other for one, other in zip(value, first, strict=True))
        else:
            moves += value != first
    return moves


# Measurements for the judges


def _deepest(picture: Picture) -> int:
    return max(picture.frames.column("queue.orders.depth"))


def _times_on(picture: Picture) -> int:
    return sum(change.is_on for change in picture.frames.transitions)


def _last(picture: Picture, channel: str) -> int:
    return picture.frames.at(-1)[f"queue.orders.{channel}"]


class _Judges:
    """The judges: a method with the name of each challenge, which judges the run of a picture."""

    def overflow(self, picture: Picture) -> _Found:
        frames, (queue,) = picture.frames, picture.frames.topology.queues
        flow = frames.column("queue.orders.flow")
        # Only the death of a session while flow control is ON counts, as the challenge is to show that flow
        # control does not prevent it.
        refused = sum(bool(flow[frame]) for frame, _, _ in frames.deaths)
        return refused > 0, {"refused": refused, "deepest": _deepest(picture), "limit": queue.max_count}

    def deeper(self, picture: Picture) -> _Found:
        (queue,), deaths, deepest = picture.frames.topology.queues, len(picture.run.errors), _deepest(picture)
        won = deepest > 165 and queue.stop_count == 100 and not deaths
        return won, {"deepest": deepest, "stop": queue.stop_count, "deaths": deaths}

    def nervous(self, picture: Picture) -> _Found:
        (queue,), deaths, on = picture.frames.topology.queues, len(picture.run.errors), _times_on(picture)
        facts = {"on": on, "stop": queue.stop_count, "resume": queue.resume_count, "deaths": deaths}
        return on >= _MANY and not deaths, facts

    def unnoticed(self, picture: Picture) -> _Found:
        on, deaths = _times_on(picture), len(picture.run.errors)
        waits = len(picture.frames.spans("producer.p1.blocked"))
        return on > 0 and not waits and not deaths, {"on": on, "waits": waits, "deaths": deaths}

    def drained(self, picture: Picture) -> _Found:
        depth = picture.frames.column("queue.orders.depth")
        off = [depth[change.frame] for change in picture.frames.transitions if not change.is_on]
        depths = ", ".join(map(str, sorted(set(off)))) or "none"
        return bool(off) and not any(off), {"on": _times_on(picture), "depths": depths}

    def mixed(self, picture: Picture) -> _Found:
        from qflow.labs.experiments import turns_by_unit

        on, off = turns_by_unit(picture)
        won = on["bytes"] > 0 == on["messages"] and off["messages"] > 0 == off["bytes"]
        facts = {f"on_{unit}": number for unit, number in on.items()}
        facts |= {f"off_{unit}": number for unit, number in off.items()}
        return won, facts

    def starve(self, picture: Picture) -> _Found:
        # Shares refer to the run's time base, as in the claims of the picture.
        frames, end = picture.frames, picture.run.time_base

        def percent(channel: str) -> float:
            return 100 * sum(max(0, min(to, end) - start) for start, to in frames.spans(channel)) / end

        idle, waited = 100 - percent("consumer.c-fast.holds"), percent("producer.p1.blocked")
        return idle > _IDLE and waited >= _WAITED, {"idle": f"{idle:.1f}", "waited": f"{waited:.1f}"}

    def ring(self, pictures: Comparison) -> _Found:
        deaths, gone = len(pictures["reject"].run.errors), _last(pictures["self-destruct"], "gone")
        thrown = _last(pictures["ring"], "discards")
        facts = {"deaths": deaths, "gone": "yes" if gone else "no", "thrown": format_count(thrown, "message")}
        return not deaths and not gone and thrown > 0, facts

    def order(self, picture: Picture) -> _Found:
        from qflow.labs.group import groups_out_of_order

        grouped, broken = bool(picture.drawing["grouped"]), groups_out_of_order(picture)
        facts = {"grouped": "on" if grouped else "off", "broken": ", ".join(broken) or "none"}
        return grouped and bool(broken), facts

    def asleep(self, picture: Picture) -> _Found:
        told = [claim.partition(" waits")[0] for claim in picture.claims if claim.endswith("(MG-13).")]
        return bool(told), {"sleepers": ", ".join(told) or "none"}


@cache
def challenges() -> tuple[Challenge, ...]:
    """Return all challenges, in the order of chapter 16.

    >>> [one.name for one in challenges()][:3]
    ['overflow', 'deeper', 'nervous']
    """
    words = tomllib.loads((kit_path("data") / "challenges.toml").read_text(encoding="utf-8"))
    return tuple(
        Challenge(name, look=getattr(_Judges(), name), **{**said, "hints": tuple(said["hints"])})
        for name, said in words.items()
    )


# The challenge in a notebook


class _PlayedChallenge:
    """The widget of a challenge: the goal, the lab, and a card when a run meets the goal."""

    def __init__(self, asked: Challenge) -> None:
        from qflow.labs import Lab  # if there are no widgets, this raises an error that says what to install

        widgets: Any = import_module("ipywidgets")
        self.asked = asked
        given = {
            key: tuple(value) if isinstance(value, list) else value for key, value in asked.settings.items()
        }
        self.lab: Lab = getattr(import_module("qflow.labs"), f"{asked.lab}_lab")(**given)
        self._begun = self.lab.settings
        self.moves, self.won = 0, 0
        self.card: list[str] = []  # after a win: a sentence with the number of moves, and one about the run
        self.words = widgets.HTML().add_class("qf-goal")
        self.hints = Hints("challenges", asked.name, asked.hints)
        buttons = widgets.HBox([self.hints.button]).add_class("qf-buttons")
        self.shown_card = widgets.HTML().add_class("qf-result")
        self._box = widgets.VBox([self.words, buttons, self.hints.text, self.shown_card, self.lab])
        self._box.add_class("qflow-lab").add_class("qf-challenge")
        self._say()
        self.lab.on_show(self._judge)

    @property
    def is_won(self) -> bool:
        """Whether a run has met the goal since the challenge was opened."""
        return bool(self.card)

    def _judge(self) -> None:
        """Count the moves of the run that is shown, and judge it."""
        # A fork is not a run of the lab's settings, and no token can open it.
        if self.lab.is_forked:
            return
        self.moves = _count_moves(self._begun, self.lab.shown_settings)
        # A later win counts only if it has fewer moves, so that exploring further cannot worsen the card.
        if self.asked.judge(self.lab.picture) and (not self.is_won or self.moves < self.won):
            self._win()
        self._say()

    def _win(self) -> None:
        from qflow.labs.share import site_address

        self.won = self.moves
        frames = self.lab.first.frames
        token = self.lab.token(frames.at(frames.most_telling())["time"], 0)
        won = f"Won in {self.asked.count(self.won)}."
        won += "" if self.won <= self.asked.par else " It can be done in fewer."
        self.card = [won, self.asked.tell(self.lab.picture)]
        _keep_win(self.asked.name, self.moves)
        opens = f'qf.labs.open_token("{token}")'
        link = f'<a href="{site}#{token}">a link</a>, or ' if (site := site_address()) else ""
        paragraphs = "".join(
            f"<p>{html.escape(text, quote=False)}</p>" for text in (self.card[1], self.asked.because)
        )
        self.shown_card.value = (
            f'<div role="status"><p><strong>{won}</strong></p>{paragraphs}'
            f"<p>To show it to others: {link}<code>{opens}</code></p></div>"
        )

    def _say(self) -> None:
        said = "" if not self.moves else f" This run: {self.asked.tell(self.lab.picture)}"
        self.words.value = _write_goal(self.asked, f"So far: {format_count(self.moves, 'move')}.{said}")

    def close(self) -> None:
        """Close the lab and the other widgets of the challenge."""
        from qflow.labs.lab import close_parts

        close_parts(self._box)
        self._box.close()

    def __repr__(self) -> str:
        won, *said = self.card or [f"Not won yet; so far {format_count(self.moves, 'move')}."]
        par = f"Par: {format_count(self.asked.par, 'move')}. {won}"
        return "\n".join([f"{self.asked.title}. {self.asked.goal}", par, *said])

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = self._box._repr_mimebundle_(**kwargs)
        # A notebook without a kernel shows the initial run, which can be played but not changed.
        stored = _write_goal(
            self.asked, "To play, run this cell in a notebook; on the site, touch the picture."
        )
        shown = f'<div class="qflow-lab qf-goal">{stored}</div>{self.lab._to_fragment()}'
        return {**bundle, "text/html": shown, "text/plain": repr(self)}


def _write_goal(asked: Challenge, state: str) -> str:
    """Return the title, the goal and the par of a challenge as HTML, with a text on the current state."""
    title, goal, said = (html.escape(text, quote=False) for text in (asked.title, asked.goal, state))
    par = f"Par: {format_count(asked.par, 'move')}."
    return f'<p><b>{title}.</b> {goal}</p><p role="status">{par} {said}</p>'


def challenge(name: str) -> _PlayedChallenge:
    """Open a challenge: a goal, and the lab in which the learner has to reach it with few moves.

    A move is one setting that differs from its initial value, or one action on a message. When a run meets
    the goal, a card shows the number of moves, a sentence about the run, and a token to share it. The win and
    the number of hints read are stored with the learner's progress (``qflow exercises``).

    Parameters:
        name: The name of the challenge, such as ``"overflow"``; chapter 16 has all ten.

    Returns:
        An object that a notebook displays; its ``lab`` is the lab, and ``is_won`` says whether the goal was
        met.

    Raises:
        RefusalError: If there is no such challenge.

    >>> played = challenge("overflow")
    >>> played.lab.sliders["rate"].value = 1_000
    >>> played
    Overflow it with the brake on. The broker refuses a message because the queue is full, while ... is ON.
    Par: 1 move. Not won yet; so far 1 move.
    """
    known = {one.name: one for one in challenges()}
    if name not in known:
        guess = did_you_mean(name, known).rstrip("?")
        raise RefusalError(f"There is no challenge {name!r}{guess}; there are {', '.join(known)}.")
    return _PlayedChallenge(known[name])


# Progress


def progress() -> dict[str, dict[str, Any]]:
    """Return the learner's progress in each challenge, keyed by name: solved, moves, hints and par."""
    return {one.name: {**learner.entry_of("challenges", one.name), "par": one.par} for one in challenges()}


def _keep_win(name: str, moves: int) -> None:
    """Store a win with the learner's progress; the fewest moves of all wins are kept."""
    entry = learner.entry_of("challenges", name)
    learner.keep("challenges", name, {**entry, "solved": True, "moves": min(moves, entry["moves"] or moves)})


def report_challenges() -> list[str]:
    """Return the learner's progress as lines of text, one for each challenge after a heading."""
    lines, kept = [], progress()
    for one in challenges():
        moves, hints, is_solved = (kept[one.name][key] for key in ("moves", "hints", "solved"))
        parts = [one.count(moves)] if is_solved and moves else []
        parts += [format_count(hints, "hint")] if hints else []
        effort = f" ({', '.join(parts)})" if parts else ""
        lines.append(f"  [{'x' if is_solved else ' '}] {one.name:<10} {one.title}{effort}")
    solved = sum(entry["solved"] for entry in kept.values())
    return [f"{'16-break-it':<20} {solved} of {len(lines)} solved", *lines]
