"""Labs: runs of the engine that can be watched, rewound and questioned.

What needs no widget (:func:`flow_run`, :class:`Picture`, :class:`Frames`) needs the standard library only;
widgets and charts are imported when they are first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from qflow.labs.flow import flow_run, flow_workload
from qflow.labs.frames import Frames, fold
from qflow.labs.picture import Picture, picture_of
from qflow.labs.recorded import recorded_picture

if TYPE_CHECKING:
    from qflow.labs.flow_widget import FlowLab, flow_lab, recorded_lab
    from qflow.labs.lab import Lab
    from qflow.labs.plots import depth_chart

_LATER = {
    "FlowLab": "flow_widget",
    "Lab": "lab",
    "depth_chart": "plots",
    "flow_lab": "flow_widget",
    "recorded_lab": "flow_widget",
}

__all__ = [
    "FlowLab",
    "Frames",
    "Lab",
    "Picture",
    "depth_chart",
    "flow_lab",
    "flow_run",
    "flow_workload",
    "fold",
    "picture_of",
    "recorded_lab",
    "recorded_picture",
]


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(f"qflow.labs.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
