"""Design: thresholds that are safe for a workload, and why.

What has to be proved is proved three ways: by an argument (:mod:`qflow.design.bounds`), by visiting every
state of a small configuration with the engine (:func:`explore`), and by simulation.
"""

from qflow.design.bounds import (
    Depth,
    Sender,
    largest_batch,
    largest_stop,
    maximum_depth,
    stall_range,
    stays_on,
    traffic_of,
)
from qflow.design.candidates import Limits
from qflow.design.explore import explore, stalls_over_phases, tabulate
from qflow.design.frontier import frontier
from qflow.design.graph import MARKS, StateGraph, positions
from qflow.design.recommend import Recommendation, recommend
from qflow.design.small import DesignError, SmallConfiguration
from qflow.design.verdict import Verdict, judge, judge_workload

__all__ = [
    "MARKS",
    "Limits",
    "Recommendation",
    "frontier",
    "recommend",
    "Depth",
    "DesignError",
    "Sender",
    "SmallConfiguration",
    "StateGraph",
    "Verdict",
    "explore",
    "judge",
    "judge_workload",
    "largest_batch",
    "largest_stop",
    "maximum_depth",
    "positions",
    "stall_range",
    "stalls_over_phases",
    "stays_on",
    "tabulate",
    "traffic_of",
]
