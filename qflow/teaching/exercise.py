"""Exercise: one task, the engine's own answer to it, and how people typically get it wrong.

A learner answers with a function. It is run on several cases the learner has not seen, and the engine is run
on the same ones; so neither an empty answer nor a constant can be right, and no right number is written down
anywhere. A misconception is an answer of its own, worked out as a learner who holds it would. A learner whose
wrong results agree with it is shown it by name, which helps more than the right number would.

The exercises themselves are in :mod:`qflow.teaching.exercises`: each is a function that asks the engine,
under how those who are wrong answer. Their cases and what they say are in ``data/exercises.toml``.
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
"""What a learner writes: a function."""

_Sign = Callable[[Any], bool]
"""Whether a value that a learner's function returned shows a misconception."""

_Idea = Answer | tuple[Answer, _Sign]
"""A misconception: the answer of a learner who holds it, and its sign, if any."""

FINE = "fine"
"""The outcome of an answer to a design task that meets every requirement."""


@dataclass(frozen=True)
class _Misconception:
    """A misconception, as a rule that gives wrong answers."""

    message: str
    answer: Answer
    sign: _Sign | None = None

    def shows_in(self, returned: Any) -> bool:
        """Return whether a returned value shows this misconception."""
        try:
            return self.sign is not None and bool(self.sign(returned))
        except Exception:
            # The value is not even of the right kind, so it bears no sign.
            return False


@dataclass(frozen=True)
class Failure:
    """The outcome of an answer that raised an exception."""

    text: str
    is_unwritten: bool = False

    def __repr__(self) -> str:
        return f"the error {self.text}"


@dataclass(frozen=True)
class Exercise:
    """A task; ``data/exercises.toml`` has its text and its typical mistakes, the likeliest first."""

    name: str
    title: str
    function: Answer  # gives the engine's own answer; of a design task, what comes of a learner's
    cases: tuple[tuple[Any, ...], ...]
    misconceptions: Mapping[str, _Misconception]
    hints: tuple[str, str, str]
    rules: tuple[str, ...]
    shows: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    lab: str = "run"
    is_task: bool = False  # to design something: FINE, or what is wrong with it

    def result(self, answer: Answer, case: tuple[Any, ...]) -> Any:
        """Return the plain outcome of an answer in one case; a Failure if it raised."""
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
        """Return the result of an answer to a design task in one case, or None if it raises."""
        try:
            return answer(*copy.deepcopy(case))
        except Exception:
            return None

    def results(self, answer: Answer) -> list[Any]:
        """Return the outcome of an answer in every case."""
        return [self.result(answer, case) for case in self.cases]

    @cached_property
    def wanted(self) -> list[Any]:
        """The engine's own outcome in every case."""
        cases = copy.deepcopy(self.cases)
        return [FINE if self.is_task else make_plain(self.function(*case)) for case in cases]

    @cached_property
    def believed(self) -> dict[str, list[Any]]:
        """The outcomes of every misconception, by its name."""
        return {name: self.results(known.answer) for name, known in self.misconceptions.items()}

    def call(self, case: tuple[Any, ...]) -> str:
        """Return the call of one case as a learner would write it."""
        names = list(inspect.signature(self.function).parameters)[-len(case) :]
        return f"{self.name}({', '.join(f'{n}={value!r}' for n, value in zip(names, case, strict=True))})"


@cache
def _read_words() -> dict[str, dict[str, dict[str, Any]]]:
    """Read the words of all exercises, by their notebook and their name."""
    return tomllib.loads((kit_path("data") / "exercises.toml").read_text(encoding="utf-8"))


_added: dict[str, Exercise] = {}


def exercise(
    misconceptions: Mapping[str, _Idea], cases: Sequence[tuple[Any, ...]] = (), *, is_task: bool = False
) -> Callable[[Answer], Answer]:
    """Make an exercise from a function that asks the engine; cases with tuples or None are given here."""

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
"""Makes an exercise of a function that judges an answer in a case: FINE, or a fault."""


def are_alike(mine: Any, theirs: Any) -> bool:
    """Return whether two outcomes are equal; values that cannot be compared are unequal."""
    try:
        return bool(mine == theirs)
    except Exception:  # a learner may return an object of any class
        return False


_MOST_SHOWN = 300
"""Letters of an outcome that are shown."""


def write_briefly(value: Any, write: Callable[[Any], str] = repr) -> str:
    """Return an outcome as Python writes it, shortened."""
    try:
        text = write(value)
    except Exception as error:  # as above
        return f"a {type(value).__name__} that cannot be shown ({type(error).__name__})"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}… ({len(text)} characters)"


def themes() -> list[str]:
    """Return the names of the exercise notebooks, in order."""
    return list(_read_words())


def exercises(theme: str) -> list[Exercise]:
    """Return the exercises of one notebook, such as ``"01-thresholds"``, in the order of their words."""
    importlib.import_module("qflow.teaching.exercises")
    return [_added[name] for name in _read_words()[theme]]


def _all_exercises() -> dict[str, Exercise]:
    """Return every exercise by its name, in order."""
    return {asked.name: asked for theme in themes() for asked in exercises(theme)}


def find(name: str) -> Exercise:
    """Return the exercise with a name, which is also that of the requested function."""
    known = _all_exercises()
    if name in known:
        return known[name]
    advice = did_you_mean(name, known) or "; check(…) takes the function the task asks for."
    raise RefusalError(f"There is no exercise {name!r}{advice}")
