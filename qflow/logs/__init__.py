"""Client logs: read the records that clients wrote, replay them through the engine, and audit them.

>>> from qflow.kit import kit_path
>>> from qflow.logs import ClientLog
>>> ClientLog.load(kit_path("data") / "recordings" / "workloads" / "ring.csv.gz")
ClientLog('ring', 29377 rows)
"""

from qflow.rooms import open_room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from qflow.logs.audit import Audit as Audit
    from qflow.logs.audit import Auditor as Auditor
    from qflow.logs.audit import audit as audit
    from qflow.logs.broker_log import BrokerLog as BrokerLog
    from qflow.logs.broker_log import FlowSpell as FlowSpell
    from qflow.logs.broker_log import LoggedQueue as LoggedQueue
    from qflow.logs.broker_log import Overflow as Overflow
    from qflow.logs.client_log import ClientLog as ClientLog
    from qflow.logs.client_log import replay as replay
    from qflow.logs.findings import Finding as Finding
    from qflow.logs.findings import Result as Result
    from qflow.logs.findings import finding_of as finding_of
    from qflow.logs.log_file import LogError as LogError
    from qflow.logs.log_file import LogRow as LogRow
    from qflow.logs.log_file import QueueSample as QueueSample
    from qflow.logs.tolerance import Tolerance as Tolerance

open_room(__name__)
