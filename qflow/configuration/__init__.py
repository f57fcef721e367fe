"""Configuration as people type it: what a queue and its broker are asked for, and what that comes to.

============================================  ============================================================
:mod:`~qflow.configuration.declaration`       one queue as it is asked for, whatever the spelling
:mod:`~qflow.configuration.spelling`           from the options of ``qpid-config``, a line of them, or JSON
:mod:`~qflow.configuration.spelling`           to a ``qpid-config`` line and to an address string
:mod:`~qflow.configuration.broker_setup`      the broker it is tried on: options, environment, qpidd.conf
:mod:`~qflow.configuration.explained`       the thresholds in force, the rule behind each, or the refusal
============================================  ============================================================

Nothing here computes a threshold: the engine does, and says where each comes from.

Examples
--------
>>> from qflow.configuration.explained import explain
>>> from qflow.configuration.spelling import read_line
>>> explained = explain(read_line("orders --max-queue-count 90"))
>>> [(level.name, level.value) for level in explained.levels][:2]
[('stop_count', 72), ('resume_count', 62)]
>>> print(explain(read_line("orders --max-queue-count 100 --flow-stop-count 5")).refusal.text)
Queue "orders": qpid.flow_resume_count=70 must be less or equal to qpid.flow_stop_count=5
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.configuration.explained import Explanation as Explanation
    from qflow.configuration.explained import explain as explain
    from qflow.configuration.explained import report as report
    from qflow.configuration.spelling import address_string as address_string
    from qflow.configuration.spelling import qpid_config_line as qpid_config_line
    from qflow.configuration.spelling import read_address as read_address
    from qflow.configuration.spelling import read_any as read_any
    from qflow.configuration.spelling import read_line as read_line

open_room(__name__)
