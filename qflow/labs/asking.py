"""Asking: questions that a lab asks the learner in its picture, before the run shows the answer.

The run plays until the question makes sense, and pauses. The learner drags a mark on the tank to the depth
they expect, and the run continues to the instant that answers. The mark stays, the true value is drawn beside
it, and a comment names the misunderstanding behind a wrong guess. Then the next question follows, or the
whole lab is shown.

Where to pause, and what the answer is, is computed from the frames of the run. The browser receives neither
before the learner has answered, and shows no plot, sentence or claim while a question is open, as these would
reveal the answer. The question and its comments are a :class:`qflow.teaching.predictions.ChapterQuestion`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from qflow.kit import RefusalError
from qflow.labs.frames import Frames
from qflow.labs.picture import Picture


class Question(Protocol):
    """The interface of a chapter's question that a lab needs."""

    name: str
    question: str
    choices: tuple[str, ...]
    within: float
    mark: str
    guess: Any
    sure: int | None
    certainties: ClassVar[tuple[int, ...]]

    def keep(self, guess: Any, sure: int | None) -> None:
        """Store the learner's guess and how sure the learner is; a guess of None removes the stored one."""

    def comment(self, answer: Any) -> str:
        """Return the comment on the learner's guess, given the right answer."""

    def sayings(self, answer: Any) -> dict[str, str]:
        """Return the comment on each possible guess: see :meth:`.ChapterQuestion.sayings`."""


@dataclass(frozen=True)
class Mark:
    """A kind of question: how the learner marks a guess in the picture, and where the run answers it."""

    # The word before the number of a mark on a tank, or after the name of a client that is marked.
    word: str
    # A sentence with a gap for the answer.
    told: str
    # Both functions take the picture and the rest of the question's mark. `pause` returns the frame at which
    # to ask; `answer` returns the frame that answers, and the answer. ValueError: the run has no such frame.
    pause: Callable[[Picture, str], int]
    answer: Callable[[Picture, str], tuple[int, int | str]]


def _depths(frames: Frames) -> list[int]:
    return list(frames.column(f"queue.{frames.topology.queues[0].name}.depth"))


def _half_full(picture: Picture, _: str) -> int:
    """Return the first frame at which the queue is half as deep as its stop threshold or limit."""
    spot, depths = picture.frames.topology.queues[0], _depths(picture.frames)
    # Half way up, the learner sees how the queue grows, but not yet the answer.
    level = spot.stop_count or spot.max_count or max(depths)
    return next(frame for frame, depth in enumerate(depths) if 2 * depth >= level)


def _turn(picture: Picture, state: str) -> tuple[int, int]:
    name = picture.frames.topology.queues[0].name
    for turn in picture.frames.transitions:
        if (turn.queue, turn.is_on) == (name, state == "ON"):
            return turn.frame, _depths(picture.frames)[turn.frame]
    raise ValueError(f"{name} never turns {state}")


def _half_empty(picture: Picture, _: str) -> int:
    """Return the frame after the first ON at which the depth is half way down from stop to resume."""
    spot, depths = picture.frames.topology.queues[0], _depths(picture.frames)
    level = (spot.stop_count + spot.resume_count) / 2
    on, off = _turn(picture, "ON")[0], _turn(picture, "OFF")[0]
    return next((frame for frame in range(on, off) if depths[frame] <= level), on)


def _deepest(picture: Picture, _: str) -> tuple[int, int]:
    depths = _depths(picture.frames)
    return depths.index(max(depths)), max(depths)


def _sync(picture: Picture, _: str) -> tuple[int, str]:
    """Return the frame of the first sync, and whether nothing was held then (CM-06)."""
    frames = picture.frames
    for place, event in enumerate(picture.run.events):
        # Only the engine's events say when a client sent a sync; frames only show that it is incomplete.
        if event.kind == "execution.sync":
            frame = frames.frame_of(place, event.time)
            held = [frames.at(frame)[f"producer.{spot.name}.held"] for spot in frames.topology.producers]
            return frame, "no" if any(held) else "yes"
    raise ValueError("no client asks for a sync")


def _all_hold(picture: Picture, _: str) -> int:
    """Return the first frame at which all consumers hold a message at once."""
    frames = picture.frames
    columns = [frames.column(f"consumer.{spot.name}.holds") for spot in frames.topology.consumers]
    for frame, holds in enumerate(zip(*columns, strict=True)):
        if all(holds):
            return frame
    raise ValueError("its consumers never all hold a message")


def _receiver(picture: Picture, label: str) -> tuple[int, str]:
    """Return the frame at which a message is first acquired, and the name of the consumer."""
    frames = picture.frames
    stays = frames.lasting["stays"]
    for row in frames.lasting["holdings"]:
        producer = frames.topology.producers[stays.get(row["stay"], "producer") - 1]
        if f"{producer.name}-{stays.get(row['stay'], 'number')}" == label:
            return row["start"], frames.topology.consumers[row["consumer"] - 1].name
    raise ValueError(f"no consumer gets {label}")


MARKS = {
    "ON": Mark("ON at", "It turned ON at {}.", _half_full, lambda picture, _: _turn(picture, "ON")),
    "OFF": Mark("OFF at", "It turned OFF at {}.", _half_empty, lambda picture, _: _turn(picture, "OFF")),
    "deepest": Mark("deepest", "It got {} deep.", _half_full, _deepest),
    "sync": Mark("", "Answered at once: {}.", lambda picture, _: _sync(picture, "")[0] - 1, _sync),
    "gets": Mark("gets it", "{} got it.", _all_hold, _receiver),
}
"""The kinds of marks, by the first word of a question's mark. In ``gets A-2`` the rest names a message."""


class Asking:
    """The questions of a lab, asked one after the other; refuses a question that the run does not answer."""

    def __init__(self, picture: Picture, asked: Sequence[Question]) -> None:
        self._asked = list(asked)
        self._found = [_find_answer(picture, question) for question in asked]
        self._number = 0

    def answers(self) -> dict[str, int | str]:
        """Return the run's answer to each question, keyed by the question's name."""
        return {asked.name: answer for asked, (_, _, answer) in zip(self._asked, self._found, strict=True)}

    def state(self) -> dict[str, Any]:
        """Return the open question as the scene needs it, or an empty dict after the last question."""
        if self._number == len(self._asked):
            return {}
        question = self._asked[self._number]
        return {**self._pose(self._number), "guess": question.guess, "sure": question.sure}

    def _pose(self, number: int) -> dict[str, Any]:
        question = self._asked[number]
        return {
            "question": question.question,
            "choices": question.choices,
            "certainties": question.certainties,
            "word": _mark_of(question).word,
            "frame": self._found[number][0],
            "number": number + 1,
            "of": len(self._asked),
        }

    def to_store(self) -> list[dict[str, Any]]:
        """Return the questions for a page without a kernel, with their pauses, answers and comments."""
        return [
            {
                "asking": self._pose(number),
                "answered": {"frame": frame, "answer": answer},
                "told": _mark_of(asked).told.format(answer),
                "within": asked.within,
                "said": asked.sayings(answer),
            }
            for number, (asked, (_, frame, answer)) in enumerate(zip(self._asked, self._found, strict=True))
        ]

    def receive(self, content: dict[str, Any]) -> dict[str, Any]:
        """Process the scene's message, a guess or a request for the next question; return its new state."""
        if content["ask"] == "next":
            self._number += 1
            return self.state()
        question, guess, sure = self._asked[self._number], content["guess"], content["sure"]
        if guess is not None and not question.choices:
            guess = int(guess)
        question.keep(guess, int(sure) if sure and guess is not None else None)
        _, frame, answer = self._found[self._number]
        said = f"{_mark_of(question).told.format(answer)} {question.comment(answer)}"
        return {**self.state(), "answer": answer, "frame": frame, "said": said}


def _mark_of(question: Question) -> Mark:
    return MARKS[question.mark.partition(" ")[0]]


def _find_answer(picture: Picture, question: Question) -> tuple[int, int, int | str]:
    """Return the frame to pause at, the frame that answers the question, and the answer."""
    kind, _, of = question.mark.partition(" ")
    if kind not in MARKS:
        known = ", ".join(MARKS)
        raise RefusalError(
            f"The mark of question {question.name!r} must be one of {known}; got {question.mark!r}."
        )
    try:
        frame, answer = MARKS[kind].answer(picture, of)
        pause = MARKS[kind].pause(picture, of)
        # Otherwise the learner would see the answer while the question is open.
        if pause >= frame:
            raise ValueError(f"{question.mark} is answered before it can be asked")
    except ValueError as error:
        raise RefusalError(f"This lab's run does not answer {question.name!r}: {error}.") from None
    return pause, frame, answer
