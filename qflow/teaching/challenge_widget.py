"""challenge: a goal in words above a lab, and a card when the engine's run meets it.

The widget asks :mod:`qflow.teaching.challenges` of every whole run that its lab shows. The card of the
fewest moves stays, with a token that opens the lab where it was won; whoever plays on cannot lose it.
"""

from __future__ import annotations

import html
from functools import partial
from importlib import import_module
from typing import Any

import ipywidgets as widgets

from qflow.labs.lab import Lab, close_parts
from qflow.labs.share import site_address
from qflow.teaching.challenges import Challenge, count_moves, find_challenge, keep_hint, keep_win
from qflow.teaching.verdict_widget import Hints
from qflow.wording import format_count


class _PlayedChallenge(widgets.VBox):
    """A challenge and its lab; see :func:`challenge`."""

    def __init__(self, asked: Challenge) -> None:
        self.asked = asked
        given = {
            key: tuple(value) if isinstance(value, list) else value for key, value in asked.settings.items()
        }
        self.lab: Lab = getattr(import_module("qflow.labs"), f"{asked.lab}_lab")(**given)
        self._begun = self.lab.settings
        self.moves, self.won = 0, 0
        self.card: dict[str, str] = {}
        self.words = widgets.HTML().add_class("qf-goal")
        self.hints = Hints(asked.hints, 0, partial(keep_hint, asked.name))
        buttons = widgets.HBox([self.hints.button]).add_class("qf-buttons")
        self.shown_card = widgets.HTML().add_class("qf-result")
        super().__init__([self.words, buttons, self.hints, self.shown_card, self.lab])
        self.add_class("qflow-lab").add_class("qf-challenge")
        self._say()
        self.lab.on_show(self._judge)

    @property
    def is_won(self) -> bool:
        """Whether a run has met the goal since the challenge was opened."""
        return bool(self.card)

    def _judge(self) -> None:
        """Count the moves of the run that is shown, and judge it."""
        # Another course of events is none of the lab's own, and no token opens it.
        if self.lab.is_forked:
            return
        self.moves = count_moves(self._begun, self.lab.shown_settings)
        if self.asked.judge(self.lab.picture) and (not self.is_won or self.moves < self.won):
            self._win()
        self._say()

    def _win(self) -> None:
        self.won = self.moves
        frames = self.lab.first.frames
        token = self.lab.token(frames.at(frames.most_telling())["time"], 0)
        self.card = {"moves": self._describe_win(), "said": self.asked.tell(self.lab.picture), "token": token}
        keep_win(self.asked.name, self.moves)
        opens = f'qf.labs.open_token("{token}")'
        link = f'<a href="{site}#{token}">a link</a>, or ' if (site := site_address()) else ""
        paragraphs = "".join(
            f"<p>{html.escape(text, quote=False)}</p>" for text in (self.card["said"], self.asked.because)
        )
        self.shown_card.value = (
            f'<div role="status"><p><strong>{self.card["moves"]}</strong></p>{paragraphs}'
            f"<p>To show it to others: {link}<code>{opens}</code></p></div>"
        )

    def _describe_win(self) -> str:
        taken = f"Won in {format_count(self.won, 'move')}, par {self.asked.par}."
        return taken if self.won <= self.asked.par else f"{taken} It can be done in fewer."

    def _say(self) -> None:
        said = "" if not self.moves else f" This run: {self.asked.tell(self.lab.picture)}"
        self.words.value = _write_goal(self.asked, f"So far: {format_count(self.moves, 'move')}.{said}")

    def close(self) -> None:
        """Free the lab and all that is around it."""
        close_parts(self)
        super().close()

    def __repr__(self) -> str:
        won = self.card.get("moves") or f"Not won yet; so far {format_count(self.moves, 'move')}."
        lines = [
            f"{self.asked.title}. {self.asked.goal}",
            f"Par: {format_count(self.asked.par, 'move')}. {won}",
        ]
        return "\n".join([*lines, *([self.card["said"]] if self.card else [])])

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        # A reader without a kernel can play the run where it begins, and cannot change it.
        stored = _write_goal(self.asked, "To play, open this page with a kernel.")
        shown = f'<div class="qflow-lab qf-goal">{stored}</div>{self.lab._to_fragment()}'
        return {**bundle, "text/html": shown, "text/plain": repr(self)}


def _write_goal(asked: Challenge, state: str) -> str:
    """Return a challenge's goal as HTML, with its par and how far the player is."""
    title, goal, said = (html.escape(text, quote=False) for text in (asked.title, asked.goal, state))
    par = f"Par: {format_count(asked.par, 'move')}."
    return f'<p><b>{title}.</b> {goal}</p><p role="status">{par} {said}</p>'


def challenge(name: str) -> _PlayedChallenge:
    """Open a challenge: a goal in words, and the lab in which to reach it in a few moves.

    A move is one setting that is not where the lab began, or one act by hand. The engine's run decides: when
    it meets the goal, a card says in how many moves, what happened, and gives a token to share. That it is
    won, and how many hints were read, is kept with the learner's progress (``qflow exercises``).

    Parameters:
        name: The challenge's name, such as ``"overflow"``; chapter 16 has all ten.

    Returns:
        A widget; its ``lab`` is the lab, ``is_won`` says whether the goal was met.

    Raises:
        RefusalError: If there is no such challenge.

    >>> played = challenge("overflow")
    >>> played.lab.sliders["rate"].value = 1_000
    >>> played
    Overflow it with the brake on. The broker refuses a message because the queue is full, while ... is ON.
    Par: 1 move. Not won yet; so far 1 move.
    """
    return _PlayedChallenge(find_challenge(name))
