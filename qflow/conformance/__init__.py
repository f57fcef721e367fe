"""Plays recorded scenarios against the engine and says where they differ."""

from qflow.conformance.report import Verdict, check_file
from qflow.conformance.scenario import Scenario, load_scenarios

__all__ = ["Scenario", "Verdict", "check_file", "load_scenarios"]
