"""The state space experiment: all states of a small configuration as a graph, and the way to one of them.

:func:`qflow.design.explore` visits every state that a queue with one or two producers and a consumer can
reach, whatever the pace of the clients. One of the states is *loaded*: the engine runs the shortest sequence
of actions that leads to it, and the picture of this run ends in that state. In the lab, a click on a state
loads it.

:class:`Walk` is a game on the graph: the learner chooses each action, and looks for the deepest state.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from qflow.broker.events import Event
from qflow.broker.options import BrokerOptions
from qflow.design import DesignError, SmallConfiguration, StateGraph, explore, positions
from qflow.design.explore import CONSUMER, MARKS, QUEUE, Situation
from qflow.labs import knobs
from qflow.labs.group import PAUSE
from qflow.labs.html_export import to_fragment
from qflow.labs.knobs import Knob, begin
from qflow.labs.lab import button_of, close_parts
from qflow.labs.picture import Comparison, Picture, picture_of
from qflow.labs.running import Steps
from qflow.labs.scripts import STYLES, join_modules, read_styles
from qflow.labs.slider_lab import SliderLab
from qflow.labs.topology import ConsumerSpot, ProducerSpot, QueueSpot, Topology
from qflow.labs.words import in_turn
from qflow.wording import format_count
from qflow.workload import Run, Workload

# The page draws each state as SVG. In Chromium, 2,000 moving elements were drawn 15 times a second.
_MOST_STATES = 2_000

_FATES = (
    "it may send the next",
    "its window is full, so it cannot send the next",
    "its window is full, and it waits to send the next",
    "its session is dead",
    "the broker asked it to stop sending",
)
"""A clause on what a producer can do next, for each of :data:`qflow.labs.words.MOODS`."""


@dataclass(frozen=True)
class StateSpace:
    """All states of a configuration, and the picture of the shortest way to one of them."""

    states: StateGraph
    # The number of the loaded state, which the last frame of the picture shows.
    node: int
    picture: Picture

    @property
    def claims(self) -> tuple[str, ...]:
        """The sentences that state the content of the graph and the picture."""
        return self.picture.claims

    def __repr__(self) -> str:
        return "\n".join(self.claims)


@dataclass(frozen=True)
class Walk:
    """A learner's path through the graph of states, in search of the deepest state."""

    states: StateGraph
    # The states on the path, from the initial to the current one, and the actions between them.
    nodes: tuple[int, ...] = (0,)
    actions: tuple[str, ...] = ()

    @property
    def moves(self) -> dict[str, int]:
        """The state that each possible move leads to, keyed by action; empty if no move is possible."""
        edges = self.states.graph.out_edges(self.nodes[-1], data="actions")
        return {action: node for _, node, actions in edges for action in actions}

    @property
    def depth(self) -> int:
        """The depth of the queue in the current state."""
        return self.states.depths()[self.nodes[-1]]

    @property
    def is_deepest(self) -> bool:
        """Whether the queue has the greatest depth of all states."""
        return self.depth == self.states.maximum_depth

    @property
    def shortest(self) -> int:
        """The number of moves on a shortest path to a deepest state."""
        return len(self.states.path_to(self.states.deepest))

    def after(self, action: str) -> Walk:
        """Return the path with one more move; raise DesignError if the move is not possible."""
        if action not in self.moves:
            possible = ", ".join(self.moves) or "nothing"
            raise DesignError(f"{action!r} is not possible in state {self.nodes[-1]}; possible: {possible}")
        return replace(self, nodes=(*self.nodes, self.moves[action]), actions=(*self.actions, action))

    def before(self) -> Walk:
        """Return the path without its last move; an empty path is returned as it is."""
        return replace(self, nodes=self.nodes[:-1] or (0,), actions=self.actions[:-1])

    @property
    def claims(self) -> tuple[str, ...]:
        """Sentences about the current state, and about a shortest path if the state is a deepest one."""
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
        """Return the picture of the engine's run along this path."""
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
    """Return all states of a queue with one or two producers and a consumer, and the way to one of them.

    Parameters:
        stop, resume: ``qpid.flow_stop_count`` and ``qpid.flow_resume_count``.
        limit: ``qpid.max_count``; 0 for no limit.
        capacity_1, capacity_2: The most transfers that each producer may have outstanding; a `capacity_2` of
            0 means that there is no second producer.
        state: The number of the state to load; None for a deepest one.

    Returns:
        The states, and the picture of the shortest way to the loaded state.

    Raises:
        DesignError: If there are too many states, or no state has that number.
        AmqpException: If the broker refuses the thresholds, as they contradict each other.

    >>> space = state_space_run()
    >>> for claim in space.claims[:2]:
    ...     print(claim)
    There are 36 states and 64 ways between them, however fast or slow anybody is.
    No state is deeper than 6 messages: stop 3, and capacities of 3 together.
    """
    capacities = tuple(int(capacity) for capacity in (capacity_1, capacity_2) if capacity)
    configuration = SmallConfiguration.of(
        stop=int(stop), resume=int(resume), limit=int(limit) or None, capacities=capacities
    )
    # The settings are converted by int, as sliders may pass floats, which the broker does not accept.
    states = explore(configuration, state_limit=_MOST_STATES)
    return _load_state(states, states.deepest if state is None else state)


def _load_state(states: StateGraph, node: int) -> StateSpace:
    """Return the states with the one of a number loaded: the picture shows the shortest path to it."""
    picture = _history(states.configuration, states.path_to(node))
    # States have no times, so the usual claims about waits and shares of time are left out. The death of a
    # session is part of a state.
    deaths = [claim for claim in picture.claims if "session died of" in claim]
    said = (*_about(states), *_way(states, node), *_windows(picture), *deaths)
    return StateSpace(states, node, replace(picture, claims=said))


def _windows(picture: Picture) -> list[str]:
    last, said = picture.frames.at(-1), []
    for spot in picture.frames.topology.producers:
        sent, held, mood = (last[f"producer.{spot.name}.{name}"] for name in ("sent", "held", "mood"))
        told = f"{spot.name} has sent {format_count(sent, 'message')}, {held} of them held"
        said.append(f"{told}; {_FATES[mood]}.")
    return said


def _history(configuration: SmallConfiguration, actions: Sequence[str]) -> Picture:
    events: list[Event] = []
    situation = Situation(configuration, events.append)
    # States have no times; the actions are performed at equal intervals.
    for action in actions:
        situation.broker.advance(situation.broker.now + PAUSE)
        situation.perform(action)
    # The run ends a little later, so that the last state stays visible.
    workload = Workload("a way through the states", 1, {})
    run = Run(workload, events, situation.broker.now + PAUSE)
    return picture_of(run, topology=_topology(configuration, run.end))


def _topology(configuration: SmallConfiguration, end: int) -> Topology:
    producers = [
        ProducerSpot(name, capacity, "may send whenever it can", name)
        for name, capacity in configuration.capacities.items()
    ]
    consumer = ConsumerSpot(CONSUMER, 0, 1, "may take at any time", f"{CONSUMER}::{CONSUMER}")
    consumers = (consumer,) if configuration.is_consumed else ()
    queue = QueueSpot.of(QUEUE, configuration.arguments, BrokerOptions())
    return Topology(tuple(producers), (queue,), consumers, (), end)


def _about(states: StateGraph) -> list[str]:
    graph = states.graph
    said = [
        f"There are {len(graph)} states and {graph.number_of_edges()} ways between them, "
        "however fast or slow anybody is.",
    ]
    configuration = states.configuration
    stop, together = configuration.arguments["qpid.flow_stop_count"], sum(configuration.capacities.values())
    bound = f"stop {stop}, and capacities of {together} together"
    said.append(f"No state is deeper than {states.maximum_depth} messages: {bound}.")
    marked = [(mark, len(nodes)) for mark, nodes in states.marks.items() if nodes]
    return said + [f"In {number} of the {len(graph)} {MARKS[mark]}." for mark, number in marked]


def _way(states: StateGraph, node: int) -> list[str]:
    way, where = states.path_to(node), f"State {node} is: {states.label(node)}."
    if not way:
        return [f"{where} Everything begins here."]
    return [f"{where} The shortest way there, {format_count(len(way), 'step')}: {', '.join(in_turn(way))}."]


# The lab

_KNOBS = (
    replace(knobs.STOP, high=6),
    replace(knobs.RESUME, high=6),
    replace(knobs.LIMIT, high=12),
    Knob("capacity_1", "capacity of C1", "Most transfers C1 may have outstanding (CAP-01)", 1, 5),
    Knob("capacity_2", "capacity of C2", "Most transfers C2 may have outstanding; 0: no C2 (CAP-01)", 0, 4),
)
_BEGIN = "find the deepest state ▸"


class _StateGraphWidget(anywidget.AnyWidget):
    """The widget that draws the graph of states."""

    _esm = join_modules("states.js")
    _css = read_styles(*STYLES)

    graph = traitlets.Dict().tag(sync=True)
    # The number of the loaded state; a click or an arrow key sets it.
    chosen = traitlets.Int(0).tag(sync=True)
    # The states on the learner's path in the game; empty if no game is played.
    walk = traitlets.List().tag(sync=True)

    def __repr__(self) -> str:
        return f"_StateGraphWidget(states={len(self.graph.get('nodes', ()))}, chosen={self.chosen})"


class StateSpaceLab(SliderLab):
    """The state space lab: sliders, the graph of states, and the scene; see :func:`state_space_lab`."""

    def __init__(self, settings: dict[str, float]) -> None:
        self.states = _StateGraphWidget()
        self.walk: Walk | None = None
        self.moves: dict[str, widgets.Button] = {}
        self._game = button_of(_BEGIN, "A game: choose each move yourself", "qf-game-begin")
        self._back = button_of("take back", "Without the last move", "qf-game-back")
        self._row = widgets.Box([self._game]).add_class("qf-buttons").add_class("qf-game")
        self._said = widgets.HTML().add_class("qf-game-words")
        super().__init__(_KNOBS, settings, self._explore, name="state_space")
        panel, *rest = self.children  # type: ignore[has-type]
        self.children = [panel, self.states, self._row, self._said, *rest]
        self.states.observe(self._on_choice, names="chosen")
        self._game.on_click(lambda _: self.play_game() if self.walk is None else self.end_game())
        self._back.on_click(lambda _: self.walk and self._walk_to(self.walk.before()))
        self._show_end()

    def _explore(self, **settings: Any) -> Steps[Picture]:
        # Exploring is one long step; yielding before it lets the lab show that it is working.
        yield 0.0
        self.space = state_space_run(**settings)
        self._is_walking(False)
        with self.states.hold_sync():
            self.states.graph = _graph_of(self.space.states)
            self.states.chosen = self.space.node
        return self.space.picture

    def _on_choice(self, _: object) -> None:
        chosen = self.states.chosen
        if self.walk is not None:
            moves = {node: action for action, node in self.walk.moves.items()}
            if chosen in moves:
                self.move_on(moves[chosen])
            elif chosen != self.walk.nodes[-1]:
                self._write([*self.walk.claims, f"No single move leads to state {chosen}."])
                # The browser has already marked the clicked state; move the mark back.
                self.states.chosen = self.walk.nodes[-1]
        elif chosen != self.space.node:
            self._load(chosen)

    def _load(self, node: int) -> None:
        self.space = _load_state(self.space.states, node)
        self._show_next(self.space.picture)

    # The game

    def play_game(self) -> None:
        """Start the game in the initial state."""
        self._is_walking(True)
        self._walk_to(Walk(self.space.states))

    def end_game(self) -> None:
        """End the game, and load its last state."""
        node = self.walk.nodes[-1] if self.walk else self.space.node
        self._is_walking(False)
        self._load(node)

    def move_on(self, action: str) -> None:
        """Make a move in the game, if one is played; raise DesignError if the move is not possible."""
        if self.walk is not None:
            self._walk_to(self.walk.after(action))

    def _is_walking(self, is_walking: bool) -> None:
        """Reset the game, and show the buttons for its moves if it starts, else the button that starts it."""
        self.walk, self.states.walk = None, []
        moves, self.moves = self.moves, {}
        for button in moves.values():
            close_parts(button)
            button.close()
        self._write([])
        self._game.description = "end the game" if is_walking else _BEGIN
        if is_walking:
            graph = self.space.states.graph
            names = dict.fromkeys(action for *_, actions in graph.edges(data="actions") for action in actions)
            for action in sorted(names):
                self.moves[action] = button_of(action, "A move of the game", "qf-game-move")
                self.moves[action].on_click(lambda _, action=action: self.move_on(action))
        self._row.children = [*self.moves.values(), *([self._back] if is_walking else []), self._game]

    def close(self) -> None:
        """Close the widgets of the lab, including hidden buttons."""
        close_parts(self._back)
        self._back.close()
        super().close()

    def _walk_to(self, walk: Walk) -> None:
        self.walk = walk
        for action, button in self.moves.items():
            button.disabled = action not in walk.moves
        self._back.disabled = not walk.actions
        with self.states.hold_sync():
            self.states.walk = list(walk.nodes)
            self.states.chosen = walk.nodes[-1]
        self._write(walk.claims)
        self._show_next(walk.picture())

    def _write(self, claims: Sequence[str]) -> None:
        self._said.value = "".join(f"<p>{html.escape(claim)}</p>" for claim in claims)

    def _show_next(self, picture: Picture) -> None:
        self._started = max(self._started, self.scene.run) + 1
        self.show(picture, self._started)

    def _to_fragment(self) -> str:
        states = self.space.states
        walk = self.walk or reduce(Walk.after, states.path_to(self.space.node), Walk(states))
        graph = {"graph": self.states.graph, "walk": list(walk.nodes), "pause": PAUSE}
        return to_fragment(self.picture, self.scene.place, plays=self.scene.plays, states=graph)

    def _show_end(self) -> None:
        self.scene.place = {"time": self.first.run.end, "back": 0, "number": self._started}

    def show(self, picture: Picture | Comparison, run: int) -> bool:
        """Show the picture of another path, at its last state; return whether it is shown."""
        is_shown = super().show(picture, run)
        self._show_end()
        return is_shown


def _graph_of(states: StateGraph) -> dict[str, Any]:
    """Return the data from which the browser draws a graph of states."""
    places = {node: [round(at, 3) for at in place] for node, place in positions(states).items()}
    nodes = [
        [*places[node], list(marks), states.label(node)] for node, marks in states.graph.nodes(data="marks")
    ]
    ways = [[one, other, facts["action"]] for one, other, facts in states.graph.edges(data=True)]
    stop = states.configuration.arguments["qpid.flow_stop_count"]
    return {"nodes": nodes, "ways": ways, "marks": MARKS, "stop": stop}


def state_space_lab(**settings: float) -> StateSpaceLab:
    """Open the state space lab: see all states that a small configuration can reach, at any pace of clients.

    Parameters:
        **settings: The initial values of the sliders; the parameters of :func:`qflow.labs.state_space_run`.

    Returns:
        The lab, a widget. :func:`qflow.labs.state_space_run` needs no widgets.

    Raises:
        DesignError: If there are too many states.
        AmqpException: If the broker refuses the thresholds.
        TypeError: If the lab has no such setting.

    >>> lab = state_space_lab(stop=1, resume=1, capacity_1=1, capacity_2=0)
    >>> lab.states.chosen = 0
    >>> lab.space.node, lab.scene.run
    (0, 2)
    """
    return StateSpaceLab(begin("state_space_lab", state_space_run, _KNOBS, settings))
