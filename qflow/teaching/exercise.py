"""Exercise: one task, the engine's own answer to it, and how people typically get it wrong.

A learner answers with a function. It is run on several cases the learner has not seen, and the engine is run
on the same ones; so neither an empty answer nor a constant can be right, and nobody had to write down what
the right numbers are.

Misconceptions: what a typical wrong answer shows about how somebody thinks a broker works.

Each one is an answer of its own, worked out by somebody who holds the misconception. A learner whose wrong
results agree with it is told so by name; that helps more than the right number would.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from qflow.broker.errors import AmqpException

Answer = Callable[..., Any]
"""What a learner writes: a function."""


@dataclass(frozen=True)
class Misconception:
    """One way to be wrong.

    Parameters
    ----------
    name
        A few words, such as ``"reached is enough"``.
    answer
        The function somebody with this idea would write.
    message
        What to say: what is not so, and how it is.
    sign
        For design tasks, where different ideas may lead to the same trouble: what tells this one from a value
        the learner's function returned. None leaves it to the results.
    """

    name: str
    answer: Answer
    message: str
    sign: Callable[[Any], bool] | None = None

    def shows_in(self, returned: Any) -> bool:
        """Tell whether a returned value bears this misconception's sign."""
        try:
            return self.sign is not None and self.sign(returned)
        except (AttributeError, KeyError, TypeError, ValueError):
            # The value is not even of the right kind, so it bears no sign.
            return False


def diagnose(
    seen: Sequence[Any],
    wanted: Sequence[Any],
    believed: Sequence[tuple[Misconception, Sequence[Any]]],
    returned: Sequence[Any] = (),
) -> Misconception | None:
    """Find the misconception that a learner's results show.

    Parameters
    ----------
    seen, wanted
        For each case what came of the learner's answer, and what should have.
    believed
        For each misconception what comes of it in the same cases.
    returned
        For each case what the learner's function returned, to look for signs in.

    Returns
    -------
    Misconception or None
        The one whose sign all wrong answers bear, or that explains all results, or else the first that
        explains all the wrong ones.

    Examples
    --------
    >>> equal = Misconception("reached is enough", lambda stop: stop, "It has to be exceeded.")
    >>> diagnose([900, 8], [901, 8], [(equal, [900, 7])]).name
    'reached is enough'
    >>> diagnose([900, 8], [901, 9], [(equal, [900, 7])]) is None
    True
    """
    wrong = [index for index, (mine, right) in enumerate(zip(seen, wanted, strict=True)) if mine != right]
    for misconception, _ in believed:
        if returned and wrong and all(misconception.shows_in(returned[index]) for index in wrong):
            return misconception
    for misconception, results in believed:
        if list(results) == list(seen) and wrong:
            return misconception
    for misconception, results in believed:
        if wrong and all(results[index] == seen[index] for index in wrong):
            return misconception
    return None


FINE = "fine"
"""What comes of an answer to a design task, when all that was asked for holds."""


@dataclass(frozen=True)
class Failure:
    """What comes of an answer that raises.

    Parameters
    ----------
    text
        The exception in one line.
    is_unwritten
        Whether the learner has not written anything yet.
    """

    text: str
    is_unwritten: bool = False

    def __repr__(self) -> str:
        return f"the error {self.text}"


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Parameters
    ----------
    name
        The name of the function the learner writes, unique in the kit.
    title
        A few words.
    truth
        What the engine does, for the arguments of a case; for a design task :func:`fine`.
    cases
        Arguments to try; the first is the one the task tells of.
    misconceptions
        Typical ways to be wrong, the likeliest first.
    hints
        Three, from a nudge to almost the answer.
    rules
        The rules it is about.
    shows
        What it covers of the documents: golden scenarios such as ``"G-03"``.
    outcome
        What comes of an answer in a case; by default the value it returns. A design task runs the engine on
        the learner's choice here and returns :data:`FINE`, or a sentence that says what went wrong.
    """

    name: str
    title: str
    truth: Answer
    cases: tuple[tuple[Any, ...], ...]
    misconceptions: tuple[Misconception, ...]
    hints: tuple[str, str, str]
    rules: tuple[str, ...]
    shows: tuple[str, ...] = ()
    outcome: Callable[..., Any] | None = None

    @property
    def is_design(self) -> bool:
        """Whether there are many right answers, and the engine judges what a choice leads to."""
        return self.truth is fine

    def result(self, answer: Answer, case: tuple[Any, ...]) -> Any:
        """Run an answer on one case.

        Returns
        -------
        object
            What came of it, lists and tuples made alike; a :class:`Failure` if it raised.
        """
        given = copy.deepcopy(case)
        try:
            if self.outcome is not None:
                return plain(self.outcome(answer, *given))
            return plain(answer(*given))
        except NotImplementedError as error:
            return Failure(f"NotImplementedError: {error}", is_unwritten=True)
        except AmqpException as error:
            return Failure(f"{error.code} {error}")
        except Exception as error:
            return Failure(f"{type(error).__name__}: {error}")

    def returned(self, answer: Answer, case: tuple[Any, ...]) -> Any:
        """Return what an answer to a design task returns in one case, or None if it raises."""
        try:
            return answer(*copy.deepcopy(case))
        except Exception:
            return None

    def results(self, answer: Answer) -> list[Any]:
        """Run an answer on every case."""
        return [self.result(answer, case) for case in self.cases]

    @cached_property
    def wanted(self) -> list[Any]:
        """What the engine says of every case."""
        return [plain(self.truth(*copy.deepcopy(case))) for case in self.cases]

    @cached_property
    def believed(self) -> list[tuple[Misconception, list[Any]]]:
        """What comes of every misconception in every case."""
        return [(known, self.results(known.answer)) for known in self.misconceptions]

    def call(self, case: tuple[Any, ...]) -> str:
        """Write the call of one case as a learner would.

        Examples
        --------
        >>> Exercise("f", "", lambda stop: stop, ((9,),), (), ("", "", ""), ()).call((9,))
        'f(stop=9)'
        """
        function = self.truth if self.outcome is None else self.outcome
        names = list(inspect.signature(function).parameters)[-len(case) :]
        return f"{self.name}({', '.join(f'{n}={value!r}' for n, value in zip(names, case, strict=True))})"


def fine(*_case: Any) -> str:
    """Return what a design task wants to hear of every case."""
    return FINE


def plain(value: Any) -> Any:
    """Make tuples and lists alike, so that either is a right answer.

    Examples
    --------
    >>> plain(([1, (2, 3)], "ab")) == plain([(1, [2, 3]), "ab"])
    True
    """
    if hasattr(value, "tolist"):
        # An array or a number of NumPy, from a learner who likes it.
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(plain(part) for part in value)
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return frozenset(value)
    return value
