"""Explore: visit every state that a small configuration can reach, with the engine itself.

The engine makes every step; nothing here knows a rule of the broker.  Two states are one if they have the
same future (:meth:`qflow.design.graph.Situation.key`): that leaves out what only ever grows, such as labels
and statistics, so that a broker which works for ever has finitely many states.

The engine is walked, not copied: from each state on it takes a way not yet taken, as long as there is one;
then a new engine is led to the nearest state that has one left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qflow.broker.errors import AmqpException
from qflow.design.graph import Situation, StateGraph, marks_of
from qflow.design.small import DesignError, SmallConfiguration
from qflow.kit import install_command
from qflow.progress import Progress

if TYPE_CHECKING:
    import networkx as nx

_STATE_LIMIT = 50_000


def explore(
    configuration: SmallConfiguration, *, state_limit: int = _STATE_LIMIT, progress: Progress | None = None
) -> StateGraph:
    """Visit every state that can be reached, by every action that is possible in each.

    Parameters:
        configuration: Its queues and clients.
        state_limit: Give up when there are more states.
        progress: Called with the number of states at each new one; it may raise to stop.

    Returns:
        All states and all ways between them.

    Raises:
        DesignError: If there are more states than the limit, the broker refuses a queue, or networkx is not
            installed.

    >>> states = explore(SmallConfiguration.of(stop=2, capacities=(2, 1)))
    >>> states.maximum_depth                                             # CAP-11: 2 + 2 + 1
    5
    >>> states.path_to(states.deepest)
    ['C1 sends', 'C1 sends', 'C1 sends', 'C1 sends', 'C2 sends']
    """
    if type(state_limit) is not int or state_limit < 1:
        raise DesignError(f"state_limit must be a whole number from 1, got {state_limit!r}")
    walk = _Walk(configuration, state_limit, progress)
    walk.run()
    return StateGraph(configuration, walk.graph())


@dataclass(slots=True)
class _State:
    """A state under exploration: how it is reached, what is possible in it, and where that leads."""

    facts: dict[str, Any]
    actions: tuple[str, ...]
    # The shortest way known so far, of ``distance`` steps: the state before, and the action.
    before: tuple[_State, str] | None
    distance: int
    ways: dict[str, Hashable] = field(default_factory=dict)

    def path(self) -> Iterable[str]:
        """Return the actions on the shortest way known from the start."""
        actions: deque[str] = deque()
        state = self
        while state.before is not None:
            state, action = state.before
            actions.appendleft(action)
        return actions

    def next_action(self) -> str | None:
        """Return the first action whose end is not known yet."""
        return self.actions[len(self.ways)] if len(self.ways) < len(self.actions) else None


class _Walk:
    """A walk along every way between the states."""

    def __init__(
        self, configuration: SmallConfiguration, state_limit: int, progress: Progress | None
    ) -> None:
        self._configuration = configuration
        self._limit = state_limit
        self._progress = progress
        self._states: dict[Hashable, _State] = {}
        self._unfinished: deque[_State] = deque()

    def run(self) -> None:
        """Walk until no state has a way left that was not taken."""
        try:
            first = Situation(self._configuration)
        except AmqpException as error:
            raise DesignError(f"the broker refuses the configuration: {error}") from None
        self._meet(first, None)
        while self._unfinished:
            state = self._unfinished[0]
            if state.next_action() is None:
                self._unfinished.popleft()
            else:
                self._follow(state)

    def _follow(self, state: _State) -> None:
        situation = Situation(self._configuration)
        for step in state.path():
            situation.perform(step)
        action = state.next_action()
        while action is not None:
            situation.perform(action)
            key = self._meet(situation, (state, action))
            state.ways[action] = key
            state = self._states[key]
            action = state.next_action()

    def _meet(self, situation: Situation, before: tuple[_State, str] | None) -> Hashable:
        key = situation.key()
        distance = before[0].distance + 1 if before is not None else 0
        known = self._states.get(key)
        if known is not None:
            # Distances only ever shrink, so the ways back never form a cycle (as in Bellman and Ford).
            if distance < known.distance:
                known.before, known.distance = before, distance
            return key
        if len(self._states) >= self._limit:
            raise DesignError(
                f"more than {self._limit} states: the last one has depth {situation.facts()['depth']}; a "
                "smaller configuration, "
                "merge(), order='any' or a higher state_limit may help"
            )
        state = _State(situation.facts(), tuple(situation.actions()), before, distance)
        self._states[key] = state
        self._unfinished.append(state)
        if self._progress is not None:
            self._progress(len(self._states))
        return key

    def graph(self) -> nx.DiGraph:
        """Return what was found, with the nodes numbered by their distance from the start."""
        network = _networkx()
        graph = network.DiGraph()
        has_consumer = bool(self._configuration.consumers())
        numbers = self._numbers()
        for key, (number, distance) in numbers.items():
            state = self._states[key]
            marks = marks_of(state.facts, bool(state.ways), has_consumer)
            graph.add_node(number, **state.facts, marks=marks, distance=distance)
        for key, (number, _) in numbers.items():
            for action, other in self._states[key].ways.items():
                target = numbers[other][0]
                if graph.has_edge(number, target):
                    graph.edges[number, target]["actions"] += (action,)
                else:
                    graph.add_edge(number, target, action=action, actions=(action,))
        return graph

    def _numbers(self) -> dict[Hashable, tuple[int, int]]:
        start = next(iter(self._states))
        numbers = {start: (0, 0)}
        waiting = deque([start])
        while waiting:
            key = waiting.popleft()
            state = self._states[key]
            for action in state.actions:
                other = state.ways[action]
                if other not in numbers:
                    numbers[other] = (len(numbers), numbers[key][1] + 1)
                    waiting.append(other)
        return numbers


def _networkx() -> Any:
    try:
        import networkx
    except ImportError:
        raise DesignError(
            f"exploring needs networkx, which is not installed: {install_command('lab')} brings it"
        ) from None
    return networkx
