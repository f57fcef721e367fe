"""Explore: visit every state that a small configuration can reach, with the engine itself.

Tables of small configurations, in which the laws of flow control can be discovered.

Where the queue of the 165 example stands still, over all starting phases (CAP-08).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from qflow.broker.errors import AmqpException
from qflow.design.graph import Situation, StateGraph, marks_of
from qflow.design.small import DesignError, SmallConfiguration
from qflow.kit import install_command
from qflow.workload import Producer, Workload, simulate

if TYPE_CHECKING:
    import networkx as nx

STATE_LIMIT = 50_000

Tell = Callable[[int], None]


def explore(
    configuration: SmallConfiguration, *, state_limit: int = STATE_LIMIT, tell: Tell | None = None
) -> StateGraph:
    """Visit every state that can be reached, by every action that is possible in each.

    The engine makes every step; nothing here knows a rule of the broker.  States are one if they have
    the same future (see :meth:`qflow.design.graph.Situation.key`): that leaves out what only ever
    grows, such as labels and statistics, so that a broker which works for ever has finitely many states.

    The engine is walked, not copied: from each state on it takes a way not yet taken, as long as there is
    one; then a new engine is led to the nearest state that has one left.

    Parameters
    ----------
    configuration : SmallConfiguration
        What there is.
    state_limit : int
        Give up when there are more states.
    tell : callable or None
        Told of each new state how many there are now, such as ``qflow.progress.Progress("exploring")``;
        it may raise to stop.

    Returns
    -------
    StateGraph
        All states and all ways between them.

    Raises
    ------
    DesignError
        If there are more states than the limit, the broker refuses a queue, or networkx is not installed.

    Examples
    --------
    >>> states = explore(SmallConfiguration.of(stop=2, capacities=(2, 1)))
    >>> states.maximum_depth                                             # CAP-11: 2 + 2 + 1
    5
    >>> states.path_to(states.deepest)
    ['C1 sends', 'C1 sends', 'C1 sends', 'C1 sends', 'C2 sends']
    """
    if type(state_limit) is not int or state_limit < 1:
        raise DesignError(f"state_limit must be a whole number from 1, got {state_limit!r}")
    walk = _Walk(configuration, state_limit, tell)
    walk.run()
    return StateGraph(configuration, walk.graph())


@dataclass(slots=True)
class _State:
    """A state under exploration: how it is reached, what is possible in it, and where that leads.

    ``before`` is the state and the action it was reached from on the shortest way known so far, of
    ``distance`` steps.
    """

    facts: dict[str, Any]
    actions: tuple[str, ...]
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

    def untried(self) -> str | None:
        """Return the first action whose end is not known yet."""
        return self.actions[len(self.ways)] if len(self.ways) < len(self.actions) else None


class _Walk:
    """A walk along every way between the states."""

    def __init__(self, configuration: SmallConfiguration, state_limit: int, tell: Tell | None) -> None:
        self._configuration = configuration
        self._limit = state_limit
        self._tell = tell
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
            if state.untried() is None:
                self._unfinished.popleft()
            else:
                self._follow(state)

    def _follow(self, state: _State) -> None:
        situation = Situation(self._configuration)
        for step in state.path():
            situation.perform(step)
        action = state.untried()
        while action is not None:
            situation.perform(action)
            key = self._meet(situation, (state, action))
            state.ways[action] = key
            state = self._states[key]
            action = state.untried()

    def _meet(self, situation: Situation, before: tuple[_State, str] | None) -> Hashable:
        key = situation.key()
        distance = before[0].distance + 1 if before is not None else 0
        known = self._states.get(key)
        if known is not None:
            # Distances only ever shrink, so the ways back never close a circle (as in Bellman and Ford).
            if distance < known.distance:
                known.before, known.distance = before, distance
            return key
        if len(self._states) >= self._limit:
            raise DesignError(
                f"more than {self._limit} states: {self._hint(situation)}; a smaller configuration, "
                "merged(), order='any' or a higher state_limit may help"
            )
        state = _State(situation.facts(), tuple(situation.actions()), before, distance)
        self._states[key] = state
        self._unfinished.append(state)
        if self._tell is not None:
            self._tell(len(self._states))
        return key

    @staticmethod
    def _hint(situation: Situation) -> str:
        depth = situation.facts()["depth"]
        return f"the last one has depth {depth}"

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


def tabulate(
    configurations: Iterable[SmallConfiguration], *, state_limit: int = STATE_LIMIT
) -> list[dict[str, Any]]:
    """Explore configurations, and return one row for each.

    The table says what was found and nothing of why: whoever looks for the law should try to say
    ``maximum_depth`` from the columns before it.

    Parameters
    ----------
    configurations : iterable of SmallConfiguration
        What to explore; of several queues each gets a row.
    state_limit : int
        As for :func:`qflow.design.explore`, for each configuration.

    Returns
    -------
    list of dict
        queue, stop, resume and limit in messages (None if not given), capacities (of those who send to the
        queue), window, batch, states, maximum_depth, stalls (the depths at which no producer can send, in
        order), overflow and deadlock (whether a state is marked so).

    Raises
    ------
    DesignError
        If one has more states than the limit.

    Examples
    --------
    >>> rows = tabulate(SmallConfiguration.of(stop, (2, 1), is_consumed=False) for stop in (1, 2, 3))
    >>> [(row["stop"], row["capacities"], row["maximum_depth"]) for row in rows]
    [(1, (2, 1), 4), (2, (2, 1), 5), (3, (2, 1), 6)]
    """
    rows: list[dict[str, Any]] = []
    for configuration in configurations:
        states = explore(configuration, state_limit=state_limit)
        marks = states.marks
        for queue, arguments in configuration.queues.items():
            depths = states.depths(queue)
            senders = [name for name in configuration.capacities if queue in configuration.targets(name)]
            rows.append(
                {
                    "queue": queue,
                    "stop": arguments.get("qpid.flow_stop_count"),
                    "resume": arguments.get("qpid.flow_resume_count"),
                    "limit": arguments.get("qpid.max_count"),
                    "capacities": tuple(configuration.capacities[name] for name in senders),
                    "window": configuration.window,
                    "batch": configuration.batch,
                    "states": len(states.graph),
                    "maximum_depth": max(depths.values()),
                    "stalls": tuple(sorted({depths[node] for node in marks["stalled"]})),
                    "overflow": bool(marks["overflow"]),
                    "deadlock": bool(marks["deadlock"]),
                }
            )
    return rows


SEND_TIME = 20
"""Microseconds between two sends: ten of them fit into one answer of the broker, as with real clients."""


def stalls_over_phases(
    stop: int,
    capacities: tuple[int, int],
    phases: Iterable[int],
    window: str = "qpid-cpp",
    send_time: int = SEND_TIME,
) -> dict[int, int]:
    """Simulate two producers that send as fast as they can, the second beginning later than the first.

    The ideal window stalls at stop + Σ capacity in every phase.  The qpid-cpp window does not: at the
    moment the queue turns ON, a sender has up to capacity − 1 transfers in its list that are complete and
    that it has not looked at.  They take places that no held transfer can have.

    Parameters
    ----------
    stop : int
        Threshold in messages.
    capacities : (int, int)
        The windows of C1 and C2.
    phases : iterable of int
        How many messages C1 has the time to send before C2 begins; negative if C2 begins first.
    window : {"qpid-cpp", "ideal", "qpid-python"}
        How the producers count.
    send_time : int
        Microseconds between two sends of one producer.

    Returns
    -------
    dict
        Phase to the depth at which nobody can send any more.

    Examples
    --------
    >>> stalls_over_phases(100, (50, 15), [0, 20, 80, 100])
    {0: 160, 20: 145, 80: 115, 100: 165}
    >>> stalls_over_phases(100, (50, 15), [0, 20, 80, 100], window="ideal")
    {0: 165, 20: 165, 80: 165, 100: 165}
    """
    return {
        phase: sum(
            event.kind == "enqueued"
            for event in simulate(phase_workload(stop, capacities, phase, window, send_time)).events
        )
        for phase in phases
    }


def phase_workload(
    stop: int,
    capacities: tuple[int, int],
    phase: int,
    window: str = "qpid-cpp",
    send_time: int = SEND_TIME,
) -> Workload:
    """Return the workload behind one phase of :func:`stalls_over_phases`."""
    starts = (max(0, -phase) * send_time, max(0, phase) * send_time)
    count = stop + sum(capacities) + 1
    producers = tuple(
        Producer(
            f"C{number}",
            ("", "q"),
            rate=1_000_000 / send_time,
            capacity=capacity,
            size=100,
            arrival="recorded",
            recorded=tuple(((start + n * send_time) / 1_000_000, 100, "") for n in range(count)),
            window=window,
        )
        for number, (capacity, start) in enumerate(zip(capacities, starts, strict=True), 1)
    )
    arguments = {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": stop}
    return Workload("phases", 1, {"q": arguments}, producers=producers)
