"""Asking: a question that a lab puts to the learner in its picture, before the run answers it.

The run plays until it is clear what is asked, and pauses. The learner drags a mark on the tank to where the
thing will happen, and the run goes on to the instant that answers: the mark stays, the truth is drawn
beside it, and of a wrong guess the misunderstanding behind it is said. Then comes the next question, or the
whole lab.

Where to pause and what answers is found in the frames of the run. The browser is sent neither before the
learner has answered, and as long as something is asked it shows no plot, no sentence and no claim, which
would give it away. The question and what is said of a wrong guess are a
:class:`qflow.teaching.predictions.Prediction`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from qflow.kit import RefusalError
from qflow.labs.frames import Frames


class Question(Protocol):
    """What a lab has to know of a question."""

    name: str
    question: str
    mark: str
    guess: Any
    sure: int | None

    def keep(self, guess: Any, sure: int | None) -> None:
        """Take the learner's guess; None takes it back."""

    def said(self, answer: int) -> str:
        """Return what to say to the learner about the guess."""


@dataclass(frozen=True)
class Mark:
    """What a mark on the tank stands for.

    Parameters
    ----------
    word
        What it says before its number.
    told
        The answer as a sentence.
    pause, answer
        Called with the frames; return the frame at which to ask, and the one that answers. ValueError if the
        run has none.
    """

    word: str
    told: str
    pause: Callable[[Frames], int]
    answer: Callable[[Frames], int]


def _depths(frames: Frames) -> list[int]:
    return list(frames.column(f"queue.{frames.topology.queues[0].name}.depth"))


def _half_full(frames: Frames) -> int:
    """Return the first frame at which the queue is half as deep as its stop threshold or limit lets it be."""
    spot = frames.topology.queues[0]
    level = spot.stop_count or spot.max_count or max(_depths(frames))
    return next(frame for frame, depth in enumerate(_depths(frames)) if 2 * depth >= level)


def _turn(frames: Frames, is_on: bool) -> int:
    name = frames.topology.queues[0].name
    turns = [change.frame for change in frames.transitions if (change.queue, change.is_on) == (name, is_on)]
    if not turns:
        raise ValueError(f"{name} never turns {'ON' if is_on else 'OFF'}")
    return turns[0]


def _half_empty(frames: Frames) -> int:
    """Return the frame after the first ON at which the queue has fallen half way from stop to resume."""
    spot, depths = frames.topology.queues[0], _depths(frames)
    level = (spot.stop_count + spot.resume_count) / 2
    on, off = _turn(frames, True), _turn(frames, False)
    return next((frame for frame in range(on, off) if depths[frame] <= level), on)


MARKS = {
    "ON": Mark("ON at", "It turned ON at {}.", _half_full, lambda frames: _turn(frames, True)),
    "OFF": Mark("OFF at", "It turned OFF at {}.", _half_empty, lambda frames: _turn(frames, False)),
    "deepest": Mark(
        "deepest", "It got {} deep.", _half_full, lambda frames: _depths(frames).index(max(_depths(frames)))
    ),
}
"""What can be asked with a mark: where flow control first turns ON and OFF, and how deep the queue gets."""


class Asking:
    """The questions of a lab, from the first to the last.

    Parameters
    ----------
    frames
        Of the run that answers.
    asked
        The questions, in the order in which the run answers them.

    Raises
    ------
    RefusalError
        If a question has no mark, or this run does not answer it.
    """

    def __init__(self, frames: Frames, asked: Sequence[Question]) -> None:
        self._frames, self._asked = frames, list(asked)
        self._number = 0
        for question in asked:
            if question.mark not in MARKS:
                known = ", ".join(MARKS)
                raise RefusalError(
                    f"The question {question.name!r} has the mark {question.mark!r}; a lab asks with {known}."
                )
            try:
                MARKS[question.mark].answer(frames)
            except ValueError as error:
                raise RefusalError(f"This lab's run does not answer {question.name!r}: {error}.") from None

    def state(self) -> dict[str, Any]:
        """Return what the scene is to ask now; empty when all is answered."""
        if self._number == len(self._asked):
            return {}
        question = self._asked[self._number]
        mark = MARKS[question.mark]
        return {
            "question": question.question,
            "word": mark.word,
            "frame": mark.pause(self._frames),
            "guess": question.guess,
            "sure": question.sure,
            "number": self._number + 1,
            "of": len(self._asked),
        }

    def heard(self, content: dict[str, Any]) -> dict[str, Any]:
        """Take a guess (None for none), or go on to the next question; return what the scene is to show."""
        if content["ask"] == "next":
            self._number += 1
            return self.state()
        question, guess, sure = self._asked[self._number], content["guess"], content["sure"]
        question.keep(
            None if guess is None else int(guess), int(sure) if sure and guess is not None else None
        )
        mark = MARKS[question.mark]
        frame = mark.answer(self._frames)
        answer = _depths(self._frames)[frame]
        said = f"{mark.told.format(answer)} {question.said(answer)}"
        return {**self.state(), "answer": answer, "frame": frame, "said": said}
