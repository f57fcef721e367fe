"""Configuration as people type it: the settings of a queue and its broker, and their effect.

The modules, in reading order:

* :mod:`~qflow.configuration.notations`: the notations people use: ``qpid-config`` lines, address strings and
  JSON;
* :mod:`~qflow.configuration.declaration`: the declaration of a queue, which every notation is converted to,
  and the broker that it is tried on (options, environment, qpidd.conf);
* :mod:`~qflow.configuration.explanation`: the thresholds in force and the rule behind each, or the refusal;
* :mod:`~qflow.configuration.setup_script`: shell scripts of ``qpid-config`` lines, and the broker after one.

No module here computes a threshold: the engine does, and reports the origin of each.

>>> from qflow.configuration.explanation import explain
>>> from qflow.configuration.notations import read_line
>>> explained = explain(read_line("orders --max-queue-count 90"))
>>> [(level.name, level.value) for level in explained.levels][:2]
[('stop_count', 72), ('resume_count', 62)]
>>> print(explain(read_line("orders --max-queue-count 100 --flow-stop-count 5")).refusal.text)
Queue "orders": qpid.flow_resume_count=70 must be less or equal to qpid.flow_stop_count=5
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.configuration.explanation import SettingsExplanation as SettingsExplanation
    from qflow.configuration.explanation import explain as explain
    from qflow.configuration.explanation import report as report
    from qflow.configuration.notations import address_string as address_string
    from qflow.configuration.notations import qpid_config_line as qpid_config_line
    from qflow.configuration.notations import read_address as read_address
    from qflow.configuration.notations import read_any as read_any
    from qflow.configuration.notations import read_line as read_line
    from qflow.configuration.setup_script import SetupRefusal as SetupRefusal
    from qflow.configuration.setup_script import SetupResult as SetupResult
    from qflow.configuration.setup_script import SetupScript as SetupScript
    from qflow.configuration.setup_script import SetupStep as SetupStep
    from qflow.configuration.setup_script import parse_script as parse_script
    from qflow.configuration.setup_script import read_script as read_script

open_room(__name__)
