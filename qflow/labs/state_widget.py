"""state_space_lab: the states of a small configuration as a graph; click one to load it into the scene."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from qflow.design import positions
from qflow.design.graph import MARKS
from qflow.labs.html_export import STYLES, read_static
from qflow.labs.knobs import Knob, begin, limit_knob, resume_knob, stop_knob
from qflow.labs.picture import Comparison, Picture
from qflow.labs.slider_lab import SliderLab
from qflow.labs.state_space import StateSpace, load_state, state_space_run, state_space_steps

KNOBS = (
    stop_knob(6),
    resume_knob(6),
    limit_knob(12),
    Knob("capacity_1", "capacity of C1", "Most transfers C1 may have outstanding (CAP-01)", 1, 5, 1),
    Knob(
        "capacity_2", "capacity of C2", "Most transfers C2 may have outstanding; 0: no C2 (CAP-01)", 0, 4, 1
    ),
)


class StateGraphWidget(anywidget.AnyWidget):
    """The drawing of a graph of states.

    Attributes
    ----------
    graph
        Nodes with places and marks, and the ways between them.
    chosen
        The state that is loaded; set by a click, or by arrow keys.
    """

    _esm = read_static("svg.js", "states.js")
    _css = read_static(*STYLES)

    graph = traitlets.Dict().tag(sync=True)
    chosen = traitlets.Int(0).tag(sync=True)

    def __repr__(self) -> str:
        return f"StateGraphWidget(states={len(self.graph.get('nodes', ()))}, chosen={self.chosen})"


class StateSpaceLab(SliderLab):
    """Sliders of a small configuration, the graph of its states, and the scene of the chosen one.

    Attributes
    ----------
    space
        The states, and which is loaded.
    states
        The widget that draws the graph.
    """

    def __init__(self, settings: dict[str, float]) -> None:
        self.states = StateGraphWidget()
        super().__init__(KNOBS, settings, self._explored, name="state_space")
        panel, *rest = self.children  # type: ignore[has-type]
        self.children = [panel, self.states, *rest]
        self.states.observe(self._chosen, names="chosen")
        self._go_to_the_end()

    def _explored(self, **settings: Any) -> Any:
        self.space: StateSpace = yield from state_space_steps(**settings)
        with self.states.hold_sync():
            self.states.graph = _drawn(self.space)
            self.states.chosen = self.space.node
        return self.space.picture

    def _chosen(self, _: object) -> None:
        if self.states.chosen == self.space.node:
            return
        self.space = load_state(self.space.states, self.states.chosen)
        self._started += 1
        self.show(self.space.picture, self._started)

    def _go_to_the_end(self) -> None:
        self.scene.place = {"time": self.space.picture.run.end, "back": 0, "number": self._started}

    def show(self, picture: Picture | Comparison, run: int) -> bool:
        """Show another history, at its end: that is the state."""
        is_shown = super().show(picture, run)
        self._go_to_the_end()
        return is_shown


def _drawn(space: StateSpace) -> dict[str, Any]:
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

    Parameters
    ----------
    **settings
        Where the sliders begin; as in :func:`qflow.labs.state_space_run`.

    Returns
    -------
    StateSpaceLab
        A widget; without widgets, use :func:`qflow.labs.state_space_run`.

    Raises
    ------
    DesignError
        If there are too many states.
    AmqpException
        If the broker refuses the thresholds.
    TypeError
        If a setting is none of the lab's.

    Examples
    --------
    >>> lab = state_space_lab(stop=1, resume=1, capacity_1=1, capacity_2=0)
    >>> lab.states.chosen = 0
    >>> lab.space.node, lab.scene.run
    (0, 2)
    """
    return StateSpaceLab(begin("state_space_lab", state_space_run, KNOBS, settings))
