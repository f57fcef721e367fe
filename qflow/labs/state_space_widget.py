"""state_space_lab: the states of a small configuration as a graph; click one to load it into the scene."""

from __future__ import annotations

import html
from collections.abc import Sequence
from functools import reduce
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from qflow.design import positions
from qflow.design.explore import MARKS
from qflow.labs.html_export import to_fragment
from qflow.labs.knobs import Knob, begin, limit_knob, resume_knob, stop_knob
from qflow.labs.lab import button_of, close_parts
from qflow.labs.picture import Comparison, Picture
from qflow.labs.scripts import STYLES, join_modules, read_styles
from qflow.labs.slider_lab import SliderLab
from qflow.labs.state_space import PAUSE, StateSpace, Walk, load_state, state_space_run, state_space_steps

_KNOBS = (
    stop_knob(6),
    resume_knob(6),
    limit_knob(12),
    Knob("capacity_1", "capacity of C1", "Most transfers C1 may have outstanding (CAP-01)", 1, 5, 1),
    Knob(
        "capacity_2", "capacity of C2", "Most transfers C2 may have outstanding; 0: no C2 (CAP-01)", 0, 4, 1
    ),
)


class _StateGraphWidget(anywidget.AnyWidget):
    """The drawing of a graph of states."""

    _esm = join_modules("states.js")
    _css = read_styles(*STYLES)

    graph = traitlets.Dict().tag(sync=True)
    # The state that is loaded; set by a click, or by arrow keys.
    chosen = traitlets.Int(0).tag(sync=True)
    # The states on the way that is walked in the game; empty without a game.
    walk = traitlets.List().tag(sync=True)

    def __repr__(self) -> str:
        return f"_StateGraphWidget(states={len(self.graph.get('nodes', ()))}, chosen={self.chosen})"


class StateSpaceLab(SliderLab):
    """Sliders of a small configuration, the graph of its states, and the scene of the chosen one."""

    def __init__(self, settings: dict[str, float]) -> None:
        self.states = _StateGraphWidget()
        self.walk: Walk | None = None
        self.moves: dict[str, widgets.Button] = {}
        self._game = button_of(
            "find the deepest state ▸", "A game: choose each move yourself", "qf-game-begin"
        )
        self._back = button_of("take back", "Without the last move", "qf-game-back")
        self._row = widgets.Box([self._game]).add_class("qf-buttons").add_class("qf-game")
        self._said = widgets.HTML().add_class("qf-game-words")
        super().__init__(_KNOBS, settings, self._explore, name="state_space")
        panel, *rest = self.children  # type: ignore[has-type]
        self.children = [panel, self.states, self._row, self._said, *rest]
        self.states.observe(self._on_choice, names="chosen")
        self._game.on_click(lambda _: self.play_game() if self.walk is None else self.end_game())
        self._back.on_click(lambda _: self._walk_to(self.walk.before() if self.walk else None))
        self._go_to_the_end()

    def _explore(self, **settings: Any) -> Any:
        self.space: StateSpace = yield from state_space_steps(**settings)
        self._is_walking(False)
        with self.states.hold_sync():
            self.states.graph = _graph_of(self.space)
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
                self.states.chosen = self.walk.nodes[-1]
        elif chosen != self.space.node:
            self.space = load_state(self.space.states, chosen)
            self._show_next(self.space.picture)

    # The game

    def play_game(self) -> None:
        """Begin the game, where nothing has happened yet."""
        self._is_walking(True)
        self._walk_to(Walk(self.space.states))

    def end_game(self) -> None:
        """End the game; the state that is loaded is the last of the way."""
        node = self.walk.nodes[-1] if self.walk else self.space.node
        self._is_walking(False)
        self.space = load_state(self.space.states, node)
        self._show_next(self.space.picture)

    def move_on(self, action: str) -> None:
        """Make a move of the game; DesignError if it is not possible now."""
        if self.walk is not None:
            self._walk_to(self.walk.after(action))

    def _is_walking(self, is_walking: bool) -> None:
        """Show the buttons of the game, or those before it."""
        self.walk, self.states.walk = None, []
        moves, self.moves = self.moves, {}
        for button in moves.values():
            close_parts(button)
            button.close()
        self._write([])
        self._game.description = "end the game" if is_walking else "find the deepest state ▸"
        if is_walking:
            graph = self.space.states.graph
            names = dict.fromkeys(action for *_, actions in graph.edges(data="actions") for action in actions)
            for action in sorted(names):
                self.moves[action] = button_of(action, "A move of the game", "qf-game-move")
                self.moves[action].on_click(lambda _, action=action: self.move_on(action))
        self._row.children = [*self.moves.values(), *([self._back] if is_walking else []), self._game]

    def close(self) -> None:
        """Free everything, the buttons that are not shown now too."""
        close_parts(self._back)
        self._back.close()
        super().close()

    def _walk_to(self, walk: Walk | None) -> None:
        if walk is None:
            return
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

    def _go_to_the_end(self) -> None:
        self.scene.place = {"time": self.first.run.end, "back": 0, "number": self._started}

    def show(self, picture: Picture | Comparison, run: int) -> bool:
        """Show another history, at its end: that is the state."""
        is_shown = super().show(picture, run)
        self._go_to_the_end()
        return is_shown


def _graph_of(space: StateSpace) -> dict[str, Any]:
    states = space.states
    places = positions(states)
    nodes = []
    for node, facts in states.graph.nodes(data=True):
        x, y = places[node]
        marks = list(facts["marks"])
        nodes.append([round(x, 3), round(y, 3), marks, states.label(node)])
    ways = [[one, other, facts["action"]] for one, other, facts in states.graph.edges(data=True)]
    stop = next(iter(states.configuration.queues.values())).get("qpid.flow_stop_count", 0)
    return {"nodes": nodes, "ways": ways, "marks": MARKS, "stop": stop}


def state_space_lab(**settings: float) -> StateSpaceLab:
    """Open the state space lab: everything that can happen to a small configuration, at any pace.

    Parameters:
        **settings: Where the sliders begin; as in :func:`qflow.labs.state_space_run`.

    Returns:
        A widget; without widgets, use :func:`qflow.labs.state_space_run`.

    Raises:
        DesignError: If there are too many states.
        AmqpException: If the broker refuses the thresholds.
        TypeError: If a setting is none of the lab's.

    >>> lab = state_space_lab(stop=1, resume=1, capacity_1=1, capacity_2=0)
    >>> lab.states.chosen = 0
    >>> lab.space.node, lab.scene.run
    (0, 2)
    """
    return StateSpaceLab(begin("state_space_lab", state_space_run, _KNOBS, settings))
