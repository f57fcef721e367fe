"""map_lab: the capacity lab with its map above it; a click in the map moves the lab."""

from __future__ import annotations

from typing import Any

import ipywidgets as widgets

from qflow.labs.experiments import capacity_lab
from qflow.labs.lab import close_parts
from qflow.labs.map_widget import MapWidget


class MapLab(widgets.VBox):
    """A lab and its map, one above the other.

    Attributes:
        map: The map.
        lab: The lab that a click in the map moves.
    """

    def __init__(self, lab: widgets.Widget, drawn: MapWidget) -> None:
        self.lab, self.map = lab, drawn
        super().__init__([drawn, lab])
        self.add_class("qflow-map-lab")

    @property
    def claims(self) -> tuple[str, ...]:
        """What the map shows, in sentences."""
        return self.map.claims

    def close(self) -> None:
        """Free the map and the lab."""
        close_parts(self)
        super().close()

    def __repr__(self) -> str:
        return repr(self.map)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        data: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        return {**data, "image/svg+xml": self.map.drawn.svg(), "text/plain": repr(self)}


def map_lab(**settings: float) -> MapLab:
    """Open the map of the capacity lab: which stops and capacities are safe, and what becomes of the others.

    Parameters:
        **settings: Where the lab's sliders begin, as in :func:`qflow.labs.capacity_workload`; `cells`,
            `messages`: rows and columns at most, and messages a run.

    Returns:
        A widget. Without widgets, use :func:`qflow.design.settings_map`.

    Raises:
        AmqpException, WorkloadError, TypeError: As :func:`qflow.labs.capacity_lab`.

    >>> lab = map_lab(cells=3, messages=100)
    >>> lab.map.chosen = {"stop": 160, "capacity": 20, "number": 1}
    >>> lab.lab.settings["stop"], lab.lab.settings["capacity_1"], lab.map.dot
    (160, 20, [160, 20])
    """
    size = {name: int(settings.pop(name)) for name in ("cells", "messages") if name in settings}
    lab = capacity_lab(**settings)  # type: ignore[arg-type]
    return MapLab(lab, lab.map(**size))
