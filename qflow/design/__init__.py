"""Design: thresholds that are safe for a workload, and why.

A threshold is safe if no run of the workload overflows its queue.  The evidence is of three kinds: a proof
(:mod:`qflow.design.bounds`), the engine's visit to every state of a small configuration (:func:`explore`),
and simulation.

>>> from qflow.design import judge_workload
>>> from qflow.workload import Producer, Workload
>>> producer = Producer("p", ("", "orders"), rate=100, capacity=20, size=100)
>>> workload = Workload("small", 1, {"orders": {"qpid.max_count": 50}}, producers=(producer,))
>>> judge_workload(workload)["orders"].can_overflow
True
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.design.bounds import Depth as Depth
    from qflow.design.bounds import DesignError as DesignError
    from qflow.design.bounds import TrafficSource as TrafficSource
    from qflow.design.bounds import Verdict as Verdict
    from qflow.design.bounds import judge as judge
    from qflow.design.bounds import judge_workload as judge_workload
    from qflow.design.bounds import largest_stop as largest_stop
    from qflow.design.bounds import maximum_depth as maximum_depth
    from qflow.design.bounds import stays_on as stays_on
    from qflow.design.bounds import traffic_of as traffic_of
    from qflow.design.explore import MARKS as MARKS
    from qflow.design.explore import SmallConfiguration as SmallConfiguration
    from qflow.design.explore import StateGraph as StateGraph
    from qflow.design.explore import explore as explore
    from qflow.design.explore import positions as positions
    from qflow.design.frontier import Frontier as Frontier
    from qflow.design.frontier import Limits as Limits
    from qflow.design.frontier import frontier as frontier
    from qflow.design.recommend import Recommendation as Recommendation
    from qflow.design.recommend import recommend as recommend
    from qflow.design.settings_map import SettingsMap as SettingsMap

open_room(__name__)
