"""Labs: runs of the engine that can be watched, rewound and questioned.

Each lab is a function that opens a widget, and has a twin without widgets that returns the final picture
and its claims: ``flow_lab`` and ``flow_run``, ``capacity_lab`` and ``capacity_run``, and so on;
``recorded_lab`` and ``recorded_picture``, ``trace_lab`` and ``trace_picture``.  The twins need the standard
library only (that of the state space also networkx); widgets and charts are imported when first asked for.

Charts are functions of a picture: ``held_chart(lab.picture)`` is one to keep, and ``lab.chart(held_chart)``
one that follows the lab: its line is where the scene is, and a click in it moves the scene.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from qflow.labs.config import config_run
from qflow.labs.experiments import (
    capacity_run,
    capacity_workload,
    fanout_run,
    fanout_workload,
    flow_run,
    flow_workload,
    history_run,
    history_workload,
    policy_run,
    policy_workload,
)
from qflow.labs.frames import Frames, fold
from qflow.labs.group import GroupTable, group_run
from qflow.labs.opened import recorded_picture, run_picture, trace_picture
from qflow.labs.picture import Comparison, Picture, compare, picture_of

if TYPE_CHECKING:
    from qflow.labs.charts import (
        blocked_chart,
        bytes_chart,
        depth_chart,
        held_chart,
        latency_chart,
        ownership_chart,
        prefetch_chart,
    )
    from qflow.labs.config_widget import config_lab
    from qflow.labs.group_widget import group_lab
    from qflow.labs.html_export import save_html
    from qflow.labs.lab import Lab
    from qflow.labs.linked import LinkedChart
    from qflow.labs.share import open_token
    from qflow.labs.slider_labs import (
        SliderLab,
        capacity_lab,
        fanout_lab,
        flow_lab,
        history_lab,
        policy_lab,
        recorded_lab,
    )
    from qflow.labs.state_space import state_space_run
    from qflow.labs.state_widget import state_space_lab
    from qflow.labs.trace_widget import trace_lab

_LATER = {
    "prefetch_chart": "charts",
    "ownership_chart": "charts",
    "latency_chart": "charts",
    "held_chart": "charts",
    "bytes_chart": "charts",
    "blocked_chart": "charts",
    "Lab": "lab",
    "LinkedChart": "linked",
    "SliderLab": "slider_labs",
    "capacity_lab": "slider_labs",
    "config_lab": "config_widget",
    "depth_chart": "charts",
    "fanout_lab": "slider_labs",
    "flow_lab": "slider_labs",
    "group_lab": "group_widget",
    "history_lab": "slider_labs",
    "policy_lab": "slider_labs",
    "open_token": "share",
    "recorded_lab": "slider_labs",
    "save_html": "html_export",
    "state_space_lab": "state_widget",
    "state_space_run": "state_space",
    "trace_lab": "trace_widget",
}

__all__ = [
    "prefetch_chart",
    "ownership_chart",
    "latency_chart",
    "held_chart",
    "bytes_chart",
    "blocked_chart",
    "Comparison",
    "Frames",
    "GroupTable",
    "Lab",
    "LinkedChart",
    "Picture",
    "SliderLab",
    "capacity_lab",
    "capacity_run",
    "capacity_workload",
    "compare",
    "config_lab",
    "config_run",
    "depth_chart",
    "fanout_lab",
    "fanout_run",
    "fanout_workload",
    "flow_lab",
    "flow_run",
    "flow_workload",
    "fold",
    "group_lab",
    "group_run",
    "history_lab",
    "history_run",
    "history_workload",
    "open_token",
    "picture_of",
    "policy_lab",
    "policy_run",
    "policy_workload",
    "recorded_lab",
    "recorded_picture",
    "run_picture",
    "save_html",
    "state_space_lab",
    "state_space_run",
    "trace_lab",
    "trace_picture",
]


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(import_module(f"qflow.labs.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
