"""Labs: runs of the engine that can be played, rewound and examined.

Each lab is a function that opens a widget. A second function returns the final picture and its claims without
widgets: ``flow_run`` for ``flow_lab``, ``capacity_run`` for ``capacity_lab``, and so on; ``recorded_picture``
for ``recorded_lab``, and ``trace_picture`` for ``trace_lab``. These functions need the standard library only,
except ``state_space_run``, which needs networkx; widgets and plotly are imported when first used.

The data flow from a run to the screen::

    run ──► Fold ──► Frames ──► Picture (frames, claims, lanes) ──► Scene (browser) ◄── Lab: sliders, answers
                                   └──► Chart (a plotly figure)  ──► LinkedChart ◄── the scene's cursor

A chart is made by a function of a picture: ``held_chart(lab.picture)`` returns a chart that does not change,
and ``lab.chart(held_chart)`` one that follows the lab. Its vertical line shows the instant of the scene, and
a click in the chart moves the scene.

>>> from qflow.labs import flow_run
>>> print(flow_run().claims[2])
At its deepest, orders had 987 messages (its limit is 1000).
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.labs.charts import broker_log_chart as broker_log_chart
    from qflow.labs.charts import bytes_chart as bytes_chart
    from qflow.labs.charts import depth_chart as depth_chart
    from qflow.labs.charts import held_chart as held_chart
    from qflow.labs.charts import latency_chart as latency_chart
    from qflow.labs.charts import ownership_chart as ownership_chart
    from qflow.labs.completion import completion_run as completion_run
    from qflow.labs.config import config_run as config_run
    from qflow.labs.config_widget import config_lab as config_lab
    from qflow.labs.experiments import bytes_lab as bytes_lab
    from qflow.labs.experiments import bytes_run as bytes_run
    from qflow.labs.experiments import bytes_workload as bytes_workload
    from qflow.labs.experiments import capacity_lab as capacity_lab
    from qflow.labs.experiments import capacity_run as capacity_run
    from qflow.labs.experiments import capacity_workload as capacity_workload
    from qflow.labs.experiments import fanout_lab as fanout_lab
    from qflow.labs.experiments import fanout_run as fanout_run
    from qflow.labs.experiments import fanout_workload as fanout_workload
    from qflow.labs.experiments import flow_lab as flow_lab
    from qflow.labs.experiments import flow_run as flow_run
    from qflow.labs.experiments import flow_workload as flow_workload
    from qflow.labs.experiments import history_lab as history_lab
    from qflow.labs.experiments import history_run as history_run
    from qflow.labs.experiments import history_workload as history_workload
    from qflow.labs.experiments import policy_lab as policy_lab
    from qflow.labs.experiments import policy_run as policy_run
    from qflow.labs.experiments import policy_workload as policy_workload
    from qflow.labs.group import group_run as group_run
    from qflow.labs.hand_lab import completion_lab as completion_lab
    from qflow.labs.hand_lab import group_lab as group_lab
    from qflow.labs.html_export import save_html as save_html
    from qflow.labs.lab import Lab as Lab
    from qflow.labs.opened import recorded_picture as recorded_picture
    from qflow.labs.opened import trace_picture as trace_picture
    from qflow.labs.picture import Comparison as Comparison
    from qflow.labs.picture import Picture as Picture
    from qflow.labs.picture import compare as compare
    from qflow.labs.picture import picture_of as picture_of
    from qflow.labs.share import open_token as open_token
    from qflow.labs.slider_lab import SliderLab as SliderLab
    from qflow.labs.state_space import state_space_lab as state_space_lab
    from qflow.labs.state_space import state_space_run as state_space_run
    from qflow.labs.trace_widget import recorded_lab as recorded_lab
    from qflow.labs.trace_widget import trace_lab as trace_lab

open_room(__name__)
