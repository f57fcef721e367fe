"""The state space experiment: all states of a small configuration, and the shortest way to one of them.

:func:`qflow.design.explore` visits every state that one queue with one or two producers and a consumer can
come to, at any pace. One of them is loaded: the shortest way there is played on the engine, and its picture
ends at the state. :mod:`qflow.labs.state_space_widget` is the lab.

:class:`Walk` is the game on it: the learner chooses each step, and looks for the deepest state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from qflow.broker.events import Event
from qflow.design import DesignError, SmallConfiguration, StateGraph, explore
from qflow.design.explore import MARKS, Situation
from qflow.labs.picture import Picture, picture_of
from qflow.labs.running import Steps, finish_steps
from qflow.labs.topology import ConsumerSpot, ProducerSpot, QueueSpot, Topology
from qflow.labs.words import times
from qflow.wording import format_count
from qflow.workload import Run, Workload
from qflow.workload.agenda import SECOND

_MOST_STATES = 2_000
PAUSE = SECOND // 10
"""Microseconds between two actions in a picture; the states themselves know no time."""


_FATES = (
    "it may send the next",
    "its window is full, so it cannot send the next",
    "its window is full, and it waits to send the next",
    "its session is dead",
    "it was asked to stop sending",
)
"""What a producer can do next, for each of :data:`qflow.labs.words.MOODS`."""


@dataclass(frozen=True)
class StateSpace:
    """All states of a configuration, with one of them in the picture."""

    states: StateGraph
    # The state whose shortest history the picture shows; its last frame is the state.
    node: int
    picture: Picture

    @property
    def claims(self) -> tuple[str, ...]:
        """What the graph and the picture show, in sentences."""
        return self.picture.claims

    def __repr__(self) -> str:
        return "\n".join(self.claims)


@dataclass(frozen=True)
class Walk:
    """A way through the states that a learner chooses, in search of the deepest."""

    states: StateGraph
    # Those on the way, from the start to where it is now, and what was done between them.
    nodes: tuple[int, ...] = (0,)
    actions: tuple[str, ...] = ()

    @property
    def moves(self) -> dict[str, int]:
        """What can be done now, and the state to which each leads; {} when there is nothing."""
        edges = self.states.graph.out_edges(self.nodes[-1], data="actions")
        return {action: node for _, node, actions in edges for action in actions}

    @property
    def depth(self) -> int:
        """How deep the queue is now."""
        return self.states.depths()[self.nodes[-1]]

    @property
    def is_deepest(self) -> bool:
        """Whether no state is deeper."""
        return self.depth == self.states.maximum_depth

    @property
    def shortest(self) -> int:
        """How many moves the shortest way to a deepest state has."""
        return len(self.states.path_to(self.states.deepest))

    def after(self, action: str) -> Walk:
        """Return the way with one move more; DesignError if that cannot be done now."""
        if action not in self.moves:
            possible = ", ".join(self.moves) or "nothing"
            raise DesignError(f"{action!r} is not possible in state {self.nodes[-1]}; possible: {possible}")
        return replace(self, nodes=(*self.nodes, self.moves[action]), actions=(*self.actions, action))

    def before(self) -> Walk:
        """Return the way without its last move."""
        return replace(self, nodes=self.nodes[:-1] or (0,), actions=self.actions[:-1])

    @property
    def claims(self) -> tuple[str, ...]:
        """Where the way has come to, and how it compares with the shortest."""
        count = len(self.actions)
        where = f"After {format_count(count, 'move')}: {self.states.label(self.nodes[-1])}."
        if not self.is_deepest:
            left = (
                "Which move makes it deeper?"
                if self.moves
                else "Nothing can happen any more: take a move back."
            )
            return where, left
        compared = (
            "yours is as short" if count == self.shortest else f"yours has {count - self.shortest} more"
        )
        return where, f"No state is deeper. The shortest way there has {self.shortest} moves: {compared}."

    def picture(self) -> Picture:
        """Return this history, played on the engine."""
        return replace(_history(self.states.configuration, self.actions), claims=self.claims)


def state_space_run(
    *,
    stop: int = 3,
    resume: int = 1,
    limit: int = 0,
    capacity_1: int = 2,
    capacity_2: int = 1,
    state: int | None = None,
) -> StateSpace:
    """Return every state of one queue with one or two producers and a consumer, with one of them loaded.

    Parameters:
        stop, resume: ``qpid.flow_stop_count`` and ``qpid.flow_resume_count``.
        limit: ``qpid.max_count``; 0 for none.
        capacity_1, capacity_2: The producers' windows; 0 for no second producer.
        state: Its number; None for the deepest.

    Raises:
        DesignError: If there are too many states, or there is no such state.
        AmqpException: The broker's own refusal, if the thresholds do not go together.

    >>> space = state_space_run()
    >>> for claim in space.claims[:2]:
    ...     print(claim)
    There are 36 states and 64 ways between them, however fast or slow anybody is.
    No state is deeper than 6 messages: stop 3, and capacities of 3 together.
    """
    chosen = {"stop": stop, "resume": resume, "limit": limit}
    capacities = {"capacity_1": capacity_1, "capacity_2": capacity_2}
    return finish_steps(state_space_steps(**chosen, **capacities, state=state))


def state_space_steps(
    *, stop: int, resume: int, limit: int, capacity_1: int, capacity_2: int, state: int | None = None
) -> Steps[StateSpace]:
    """Run the experiment of :func:`state_space_run` in one step."""
    capacities = tuple(int(capacity) for capacity in (capacity_1, capacity_2) if capacity)
    configuration = SmallConfiguration.of(
        stop=int(stop), resume=int(resume), limit=int(limit) or None, capacities=capacities
    )
    yield 0.0
    states = explore(configuration, state_limit=_MOST_STATES)
    return load_state(states, states.deepest if state is None else state)


def load_state(states: StateGraph, node: int) -> StateSpace:
    """Return a state, given by its number, with the picture of the shortest way there."""
    picture = _history(states.configuration, states.path_to(node))
    # States know no time, so what a run's claims say of waits and shares of time is left out here.
    deaths = [claim for claim in picture.claims if "session died of" in claim]
    said = (*_about(states), *_way(states, node), *_windows(picture), *deaths)
    return StateSpace(states, node, replace(picture, claims=said))


def _windows(picture: Picture) -> list[str]:
    last, said = picture.frames.at(-1), []
    for spot in picture.frames.topology.producers:
        seen = {name: last[f"producer.{spot.name}.{name}"] for name in ("sent", "held", "mood")}
        sent = f"{spot.name} has sent {format_count(seen['sent'], 'message')}, {seen['held']} of them held"
        said.append(f"{sent}; {_FATES[seen['mood']]}.")
    return said


def _history(configuration: SmallConfiguration, actions: Sequence[str]) -> Picture:
    events: list[Event] = []
    situation = Situation(configuration, events.append)
    for action in actions:
        situation.broker.advance(situation.broker.now + PAUSE)
        situation.perform(action)
    # A moment longer, so that the last state can be looked at.
    workload = Workload("a way through the states", 1, {}, options=configuration.options)
    run = Run(workload, events, situation.broker.now + PAUSE)
    return picture_of(run, topology=_topology(configuration, run.end))


def _topology(configuration: SmallConfiguration, end: int) -> Topology:
    queues = list(configuration.queues)
    options: Any = configuration.options
    return Topology(
        tuple(
            ProducerSpot(name, capacity, "may send whenever it can", name)
            for name, capacity in configuration.capacities.items()
        ),
        tuple(QueueSpot.of(name, configuration.queues[name], options) for name in queues),
        tuple(
            ConsumerSpot(name, queues.index(queue), 1, "may take at any time", f"{name}::{name}")
            for name, queue in configuration.consumers().items()
        ),
        (),
        end,
    )


def _about(states: StateGraph) -> list[str]:
    graph = states.graph
    said = [
        f"There are {len(graph)} states and {graph.number_of_edges()} ways between them, "
        "however fast or slow anybody is.",
    ]
    queue = next(iter(states.configuration.queues))
    stop = int(str(states.configuration.queues[queue]["qpid.flow_stop_count"]))
    together = states.configuration.most_outstanding(queue)
    bound = f"stop {stop}, and capacities of {together} together"
    said.append(f"No state is deeper than {states.maximum_depth} messages: {bound}.")
    marked = [(mark, len(nodes)) for mark, nodes in states.marks.items() if nodes]
    return said + [f"In {number} of the {len(graph)} {MARKS[mark]}." for mark, number in marked]


def _way(states: StateGraph, node: int) -> list[str]:
    way, where = states.path_to(node), f"State {node} is: {states.label(node)}."
    if not way:
        return [f"{where} Everything begins here."]
    turns = [(action, len(list(same))) for action, same in groupby(way)]
    steps = ", ".join(action if number == 1 else f"{action} ({times(number)})" for action, number in turns)
    return [f"{where} The shortest way there, {format_count(len(way), 'step')}: {steps}."]
