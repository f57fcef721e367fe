"""Exercise: a task, a function that finds the right answer on the engine, and typical wrong answers.

A learner answers by writing a function. It is run on several cases that the learner has not seen, and the
engine is run on the same cases. So neither an empty answer nor a constant can be right, and no right result
has to be written down. A *misconception* is a function as well, which computes what a learner with this
misconception would answer. If the wrong results of a learner are equal to its results, the learner is told
the name of the misconception, which helps more than the right number would.

The exercises themselves are in :mod:`qflow.teaching.exercises`. Each is a function that asks the engine,
decorated with the misconceptions. Texts and cases are in ``data/exercises.toml``.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

from qflow.broker.errors import AmqpException
from qflow.kit import RefusalError, kit_path
from qflow.teaching.learner import make_plain
from qflow.wording import did_you_mean

Answer = Callable[..., Any]
"""The function that a learner writes as an answer."""

_Sign = Callable[[Any], bool]
"""A function that returns whether a value returned by a learner's function shows a misconception."""

_Idea = Answer | tuple[Answer, _Sign]
"""A misconception: the answer of a learner who has it, optionally with a sign of it."""

FINE = "fine"
"""The outcome of an answer to a design task that meets every requirement."""


@dataclass(frozen=True)
class _Misconception:
    """A misconception: the message to learners with this misconception, and the wrong answer that results."""

    message: str
    answer: Answer
    sign: _Sign | None = None

    def shows_in(self, returned: Any) -> bool:
        """Return whether a returned value shows this misconception."""
        try:
            return self.sign is not None and bool(self.sign(returned))
        except Exception:
            # The value is not even of the right type, so it does not show the misconception.
            return False


@dataclass(frozen=True)
class Failure:
    """The outcome of an answer that raised an exception, with the text of the exception."""

    text: str
    is_unwritten: bool = False

    def __repr__(self) -> str:
        return f"the error {self.text}"


@dataclass(frozen=True)
class Exercise:
    """An exercise; comments in ``data/exercises.toml`` explain the fields that are defined there."""

    name: str
    title: str
    function: Answer  # returns the right result of a case; for a design task, the verdict on an answer
    cases: tuple[tuple[Any, ...], ...]
    misconceptions: Mapping[str, _Misconception]
    hints: tuple[str, str, str]
    rules: tuple[str, ...]
    shows: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    lab: str = "run"
    is_task: bool = False  # whether it is a design task, whose outcome is FINE or a description of a fault

    def result(self, answer: Answer, case: tuple[Any, ...]) -> Any:
        """Return the outcome of an answer in one case, as plain values, or a Failure if it raised."""
        given = copy.deepcopy(case)
        try:
            return make_plain(self.function(answer, *given) if self.is_task else answer(*given))
        except NotImplementedError as error:
            return Failure(f"NotImplementedError: {error}", is_unwritten=True)
        except AmqpException as error:
            return Failure(f"{error.code} {error}")
        except Exception as error:
            return Failure(f"{type(error).__name__}: {write_briefly(error, str)}")

    def try_answer(self, answer: Answer, case: tuple[Any, ...]) -> Any:
        """Return the value that an answer returns in one case, or None if it raises."""
        try:
            return answer(*copy.deepcopy(case))
        except Exception:
            return None

    def results(self, answer: Answer) -> list[Any]:
        """Return the outcome of an answer in every case."""
        return [self.result(answer, case) for case in self.cases]

    @cached_property
    def wanted(self) -> list[Any]:
        """The right outcome of every case, found on the engine."""
        cases = copy.deepcopy(self.cases)
        return [FINE if self.is_task else make_plain(self.function(*case)) for case in cases]

    @cached_property
    def believed(self) -> dict[str, list[Any]]:
        """The outcomes of every misconception in all cases, keyed by the misconception's name."""
        return {name: self.results(known.answer) for name, known in self.misconceptions.items()}

    def call(self, case: tuple[Any, ...]) -> str:
        """Return the call of the learner's function in one case, as text."""
        names = list(inspect.signature(self.function).parameters)[-len(case) :]
        return f"{self.name}({', '.join(f'{n}={value!r}' for n, value in zip(names, case, strict=True))})"


@cache
def _read_words() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the texts of all exercises, keyed by notebook and by name."""
    return tomllib.loads((kit_path("data") / "exercises.toml").read_text(encoding="utf-8"))


_added: dict[str, Exercise] = {}


def exercise(
    misconceptions: Mapping[str, _Idea], cases: Sequence[tuple[Any, ...]] = (), *, is_task: bool = False
) -> Callable[[Answer], Answer]:
    """Make an exercise of the decorated function; `cases` is for those that TOML cannot express."""

    def add(function: Answer) -> Answer:
        name = function.__name__.removeprefix("_")
        (words,) = (dict(theme[name]) for theme in _read_words().values() if name in theme)
        because: dict[str, str] = words.pop("because")
        ideas = {
            idea: _Misconception(because[idea], *(known if isinstance(known, tuple) else (known,)))
            for idea, known in misconceptions.items()
        }
        tried = tuple(map(tuple, words.pop("cases", cases)))
        words = {key: tuple(said) if isinstance(said, list) else said for key, said in words.items()}
        _added[name] = Exercise(
            name, function=function, cases=tried, misconceptions=ideas, is_task=is_task, **words
        )
        return function

    return add


design_task = partial(exercise, is_task=True)
"""Makes a design task of a function that judges an answer in a case, and returns FINE or a fault."""


def are_alike(mine: Any, theirs: Any) -> bool:
    """Return whether two outcomes are equal; values whose comparison raises an error are not."""
    try:
        return bool(mine == theirs)
    except Exception:  # a learner may return an object of any class
        return False


_MOST_SHOWN = 300
"""The most characters of an outcome that are shown."""


def write_briefly(value: Any, write: Callable[[Any], str] = repr) -> str:
    """Return an outcome as text, shortened if it is long."""
    try:
        text = write(value)
    except Exception as error:  # a learner may return an object of any class
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"


def themes() -> list[str]:
    """Return the names of the notebooks of exercises, such as ``"01-thresholds"``, in order."""
    return list(_read_words())


def exercises(theme: str) -> list[Exercise]:
    """Return the exercises of a notebook, such as ``"01-thresholds"``, in the order of their texts."""
    importlib.import_module("qflow.teaching.exercises")
    return [_added[name] for name in _read_words()[theme]]


def _all_exercises() -> dict[str, Exercise]:
    """Return all exercises in order, keyed by name."""
    return {asked.name: asked for theme in themes() for asked in exercises(theme)}


def find(name: str) -> Exercise:
    """Return the exercise with a given name; refuse an unknown name."""
    known = _all_exercises()
    if name in known:
        return known[name]
    advice = did_you_mean(name, known) or "; check(…) takes the function the task asks for."
    raise RefusalError(f"There is no exercise {name!r}{advice}")
