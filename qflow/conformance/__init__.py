"""Conformance: play recorded scenarios of a real broker on the engine, and report where the two differ.

>>> from qflow.conformance import check, load_scenarios
>>> from qflow.kit import kit_path
>>> scenarios = load_scenarios(kit_path("data") / "recordings" / "scenarios" / "hand.jsonl")
>>> check(next(scenarios)).agrees
True
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.conformance.scenario import Scenario as Scenario
    from qflow.conformance.scenario import load_scenarios as load_scenarios
    from qflow.conformance.scenario_player import ScenarioVerdict as ScenarioVerdict
    from qflow.conformance.scenario_player import check as check
    from qflow.conformance.scenario_player import check_file as check_file

open_room(__name__)
