"""Design: thresholds that are safe for a workload, and why.

What has to be proved is proved three ways: by an argument (:mod:`qflow.design.bounds`), by visiting every
state of a small configuration with the engine (:func:`explore`), and by simulation.
"""

from qflow.design.explore import explore
from qflow.design.graph import MARKS, StateGraph
from qflow.design.small import DesignError, SmallConfiguration

__all__ = ["MARKS", "DesignError", "SmallConfiguration", "StateGraph", "explore"]
